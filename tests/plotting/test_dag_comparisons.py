"""Lines of a metric with bands and a bound, and distributions of decision times."""

from __future__ import annotations

import numpy as np
import pytest
from batch_pictures import check_layout
from dag_pictures import legend
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats

from desim import InvalidConfiguration
from desim.plotting import decision_time_cdf, metric_lines

RNG = np.random.default_rng(0)
SAMPLES = {
    name: {count: RNG.normal(count * factor, 3.0, 10) for count in (20, 1, 5, 10)}
    for name, factor in (("rank_up-DEFT", 10.0), ("HEFT", 12.0))
}


def lines(axes, gid: str) -> list:
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def test_means_and_bands():
    axes = metric_lines(SAMPLES, xlabel="jobs", ylabel="makespan (s)", level=0.9)
    bands = [collection for collection in axes.collections if collection.get_gid() == "band"]
    for line, band, samples in zip(lines(axes, "curve"), bands, SAMPLES.values(), strict=True):
        assert line.get_xdata().tolist() == [1, 5, 10, 20]
        assert line.get_ydata() == pytest.approx([np.mean(samples[count]) for count in (1, 5, 10, 20)])
        corners = band.get_paths()[0].vertices
        for count in (1, 5, 10, 20):
            low, high = stats.t.interval(0.9, 9, np.mean(samples[count]), stats.sem(samples[count]))
            inside = corners[corners[:, 0] == count, 1]
            assert (inside.min(), inside.max()) == pytest.approx((low, high))
    assert legend(axes) == list(SAMPLES)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("jobs", "makespan (s)")
    check_layout(axes.figure)


def test_a_bound_is_a_line_of_its_own():
    axes = metric_lines(SAMPLES, xlabel="jobs", ylabel="makespan (s)", bound={10: [80.0, 90.0], 1: 8.0})
    (bound,) = lines(axes, "bound")
    assert (bound.get_xdata().tolist(), bound.get_ydata().tolist()) == ([1, 10], [8.0, 85.0])
    assert legend(axes) == [*SAMPLES, "lower bound"]
    assert bound.get_linestyle() not in [line.get_linestyle() for line in lines(axes, "curve")]
    assert legend(metric_lines(SAMPLES, xlabel="", ylabel="", bound={1: [2.0]}, bound_name="optimum"))[-1] == "optimum"


def test_single_values_have_no_band_and_nan_leaves_a_gap():
    axes = metric_lines({"a": {1: [4.0], 2: [np.nan, 3.0], 3: [5.0, 7.0]}}, xlabel="x", ylabel="y")
    (line,) = lines(axes, "curve")
    assert np.array_equal(line.get_ydata(), [4.0, np.nan, 6.0], equal_nan=True)
    corners = axes.collections[0].get_paths()[0].vertices
    assert set(corners[corners[:, 0] == 1.0, 1]) == {4.0}


def test_agents_keep_their_colours():
    panel = Figure().subplots()
    assert metric_lines(SAMPLES, xlabel="x", ylabel="y", colors={"HEFT": "black"}, axes=panel) is panel
    assert [line.get_color() for line in panel.get_lines()] == ["#0072B2", "black"]


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=300), st.sampled_from([50.0, 90.0, 98.0]))
def test_the_curve_is_the_share_of_decisions(seconds, percentile):
    axes = decision_time_cdf({"HEFT": seconds}, percentile=percentile)
    (curve,) = lines(axes, "curve")
    times, shares = curve.get_data()
    for probe in [*(1_000.0 * np.array(seconds[:20])), 1e-9, 1e9]:
        expected = 100.0 * np.mean(1_000.0 * np.array(seconds) <= probe)
        index = np.searchsorted(times, probe, side="right") - 1
        assert (shares[index] if index >= 0 else 0.0) == pytest.approx(expected)
    (mark,) = lines(axes, "mark")
    within = mark.get_xdata()[0]
    assert np.mean(1_000.0 * np.array(seconds) <= within) >= percentile / 100.0
    assert np.mean(1_000.0 * np.array(seconds) < within) < percentile / 100.0
    assert legend(axes) == [f"HEFT: {percentile:g} % within {within:.3g} ms"]
    assert lines(axes, "percentile")[0].get_ydata()[0] == percentile


def test_many_decisions_are_thinned():
    seconds = np.random.default_rng(1).lognormal(-6.0, 1.0, 100_000)
    (curve,) = lines(decision_time_cdf({"a": seconds}), "curve")
    times, shares = curve.get_data()
    assert len(times) < 2_500
    found = np.interp(1_000.0 * np.quantile(seconds, [0.1, 0.5, 0.9]), times, shares)
    assert found == pytest.approx([10.0, 50.0, 90.0], abs=0.2)


def test_several_agents_and_times_of_zero():
    axes = decision_time_cdf({"a": [0.0, 0.001], "b": [0.0005, 2.0], "c": [0.0, 0.0]})
    assert axes.get_xscale() == "log"
    low, high = axes.get_xlim()
    assert 0.0 < low < 0.5 and high > 2_000.0
    assert all(line.get_xdata()[0] >= low for line in lines(axes, "curve"))
    assert all(line.get_ydata()[-1] == 100.0 for line in lines(axes, "curve"))
    assert legend(axes)[2] == "c: 98 % within 0 ms"
    check_layout(axes.figure)


def test_wrong_arguments():
    with pytest.raises(InvalidConfiguration, match="samples is an empty mapping"):
        metric_lines({}, xlabel="x", ylabel="y")
    with pytest.raises(InvalidConfiguration, match=r"samples\['a'\] is empty"):
        metric_lines({"a": {}}, xlabel="x", ylabel="y")
    with pytest.raises(InvalidConfiguration, match="bound is empty"):
        metric_lines(SAMPLES, xlabel="x", ylabel="y", bound={})
    with pytest.raises(InvalidConfiguration, match="seconds is an empty mapping"):
        decision_time_cdf({})
    with pytest.raises(InvalidConfiguration, match=r"seconds\['a'\] has shape \(0,\)"):
        decision_time_cdf({"a": []})
    with pytest.raises(InvalidConfiguration, match=r"seconds\['a'\] holds -1.0, want finite times of at least 0"):
        decision_time_cdf({"a": [0.1, -1.0]})
    with pytest.raises(InvalidConfiguration, match=r"seconds\['a'\] are no numbers"):
        decision_time_cdf({"a": ["fast"]})
    with pytest.raises(InvalidConfiguration, match="percentile is 100"):
        decision_time_cdf({"a": [0.1]}, percentile=100)
