"""Metrics beside each other: bars, lines with bands, distributions, ranks; and metrics, times and counts in words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from batch_pictures import check_layout, legend
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats

from desim import InvalidConfiguration
from desim.formatting import (
    compared,
    duration_words,
    format_value,
    heading,
    nice_count,
    nice_duration,
    time_unit,
)
from desim.plotting import (
    compare_metrics,
    critical_differences,
    decision_time_cdf,
    metric_lines,
    performance_profiles,
)
from desim.plotting.axes import figure_style, new_figure, time_axis
from desim.plotting.curves import bin_edges
from desim.problem import kind_of
from desim.statistics import performance_profile, rank_agents

RNG = np.random.default_rng(0)
SAMPLES = {
    name: {count: RNG.normal(count * factor, 3.0, 10) for count in (20, 1, 5, 10)}
    for name, factor in (("rank-up-DEFT", 10.0), ("HEFT", 12.0))
}
METRICS = {
    "a": {"waiting_time_mean": 10.0, "utilization": 0.5, "jobs_submitted": 7.0},
    "b": {"waiting_time_mean": 4.0, "utilization": 0.25, "jobs_submitted": 7.0},
    "c": {"waiting_time_mean": math.nan, "utilization": 0.75},
}
COSTS = {f"agent $ {number}": np.exp(RNG.normal(0.2 * number, 0.3, 12)) for number in range(5)}


def lines(axes, gid: str) -> list:
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def test_dots_are_the_metrics():
    panels = compare_metrics(METRICS)
    titles = ["waiting time, mean (s)\nlower is better", "utilization\nhigher is better"]
    assert [panel.get_title("left") for panel in panels] == titles
    marks = [[(*line.get_xdata(), *line.get_ydata()) for line in lines(panel, "mark")] for panel in panels]
    assert marks == [[(10.0, 0), (4.0, 1)], [(0.5, 0), (0.25, 1), (0.75, 2)]]
    texts = {text.get_text(): text.get_fontweight() for text in panels[0].texts}
    assert texts == {"10": "normal", "4": "bold", "n/a": "normal"}
    check_layout(panels[0].figure)
    chosen = compare_metrics(METRICS, metrics=["jobs_submitted", "utilization"])
    assert chosen[0].get_title("left").startswith("jobs submitted") and chosen[1].get_title("left") == titles[1]
    with pytest.raises(InvalidConfiguration, match="shoe_size"):
        compare_metrics(METRICS, metrics=["utilization", "shoe_size"])
    with pytest.raises(InvalidConfiguration, match="empty"):
        compare_metrics({})


def test_intervals_and_bands_end_where_values_do():
    ends = {"a": {"utilization": (0.1, 1.4), "waiting_time_mean": (-5.0, 25.0), "own": (-5.0, 25.0)}}
    table = {"a": {"utilization": 0.8, "waiting_time_mean": 10.0, "own": 10.0}}
    panels = compare_metrics(table, metrics=[*table["a"]], intervals=ends)
    drawn = [lines(panel, "interval")[0].get_xdata().tolist() for panel in panels]
    assert drawn == [[0.1, 1.0], [0.0, 25.0], [-5.0, 25.0]]
    axes = metric_lines({"a": {1.0: [0.5, 1.0]}}, xlabel="load", ylabel="utilization", limits=(0.0, 1.0))
    assert sorted({*axes.collections[0].get_paths()[0].vertices[:, 1]}) == [0.0, 1.0]


def test_intervals_are_lines_through_the_dots_and_one_giant_squashes_nobody():
    ends = {"a": {"waiting_time_mean": (6.0, 17.0)}, "b": {"waiting_time_mean": (math.nan, math.nan)}}
    first, second = compare_metrics(METRICS, intervals=ends)
    assert [line.get_xdata().tolist() for line in lines(first, "interval")] == [[6.0, 17.0]] and not lines(
        second, "interval"
    )
    assert lines(first, "interval")[0].get_ydata().tolist() == [0, 0] and first.get_ylim() == (2.5, -0.5)
    first.figure.draw_without_rendering()
    assert first.texts[0].get_window_extent().x0 > first.transData.transform((17.0, 0.0))[0]  # beside, not over it
    giant = {name: {"waiting_time_mean": value} for name, value in (("a", 10.0), ("b", 12.0), ("c", 900.0))}
    (panel,) = compare_metrics(giant)
    assert panel.get_xscale() == "log" and panel.get_xlim()[0] < 10.0
    check_layout(panel.figure)
    (panel,) = compare_metrics(giant | {"d": {"waiting_time_mean": 0.0}})
    assert panel.get_xscale() == "linear"


def test_figures_for_papers_are_as_wide_as_columns():
    widths = {}
    for style in ("screen", "paper", "paper-wide"):
        with figure_style(style):
            figure = new_figure(9.0, 3.0)
        widths[style] = figure.get_size_inches()[0]
    assert widths == {"screen": 9.0, "paper": 3.5, "paper-wide": 7.16}
    assert new_figure(9.0, 3.0).get_size_inches().tolist() == [9.0, 3.0]


def test_runs_that_left_jobs_behind_are_never_the_best():
    kind = kind_of("batch")
    assert compared("waiting_time_mean", METRICS, (), kind) == [("10", False), ("4", True), ("n/a", False)]
    assert compared("waiting_time_mean", METRICS, ["b"], kind) == [("10", False), ("4†", False), ("n/a", False)]
    assert compared("utilization", METRICS, ["c"], kind)[2] == ("0.7500", True)
    assert compared("jobs_submitted", METRICS, (), kind) == [("7", False), ("7", False), ("n/a", False)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("waiting_time_p95", "waiting time, 95th percentile (s)"),
        ("bounded_slowdown_mean", "bounded slowdown, mean"),
        ("queue_length_max", "queue length, maximum (jobs)"),
        ("offered_load", "offered load"),
        ("surprise", "surprise"),
    ],
)
def test_metrics_in_words(name, words):
    assert heading(name, kind_of("batch")) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12.0, "12"),
        (1_234_567.0, "1,234,567"),
        (0.123456, "0.1235"),
        (12.3456, "12.35"),
        (123_456.7, "123,457"),
        (1.5e-7, "1.500e-07"),
        (-2.5, "-2.500"),
        (math.nan, "n/a"),
        (-math.inf, "-infinite"),
    ],
)
def test_values_in_words(value, text):
    assert format_value(value) == text


def test_means_and_bands_and_a_bound():
    axes = metric_lines(SAMPLES, xlabel="jobs", ylabel="makespan (s)", bound={10: [80.0, 90.0], 1: 8.0})
    bands = [collection for collection in axes.collections if collection.get_gid() == "band"]
    for line, band, samples in zip(lines(axes, "curve"), bands, SAMPLES.values(), strict=True):
        assert line.get_xdata().tolist() == [1, 5, 10, 20]
        assert line.get_ydata() == pytest.approx([np.mean(samples[count]) for count in (1, 5, 10, 20)])
        corners = band.get_paths()[0].vertices
        for count in (1, 5, 10, 20):
            low, high = stats.t.interval(0.95, 9, np.mean(samples[count]), stats.sem(samples[count]))
            inside = corners[corners[:, 0] == count, 1]
            assert (inside.min(), inside.max()) == pytest.approx((low, high))
    (bound,) = lines(axes, "bound")
    assert (bound.get_xdata().tolist(), bound.get_ydata().tolist()) == ([1, 10], [8.0, 85.0])
    assert bound.get_linestyle() not in [line.get_linestyle() for line in lines(axes, "curve")]
    assert legend(axes) == [*SAMPLES, "lower bound"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("jobs", "makespan (s)")
    check_layout(axes.figure)


def test_single_values_have_no_band_and_nan_leaves_a_gap():
    axes = metric_lines({"a": {1: [4.0], 2: [np.nan, 3.0], 3: [5.0, 7.0]}}, xlabel="x", ylabel="y")
    (line,) = lines(axes, "curve")
    assert np.array_equal(line.get_ydata(), [4.0, np.nan, 6.0], equal_nan=True)
    corners = axes.collections[0].get_paths()[0].vertices
    assert set(corners[corners[:, 0] == 1.0, 1]) == {4.0}
    panel = Figure().subplots()
    assert metric_lines(SAMPLES, xlabel="x", ylabel="y", colors={"HEFT": "black"}, axes=panel) is panel
    assert [line.get_color() for line in panel.get_lines()] == ["#0072B2", "black"]


@settings(max_examples=25)
@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=300))
def test_the_curve_is_the_share_of_decisions(seconds):
    axes = decision_time_cdf({"HEFT": seconds})
    (curve,), (mark,) = lines(axes, "curve"), lines(axes, "mark")
    times, shares = curve.get_data()
    milliseconds = 1_000.0 * np.array(seconds)
    for probe in [*milliseconds[:20], 1e-9, 1e9]:
        index = np.searchsorted(times, probe, side="right") - 1
        expected = 100.0 * np.mean(milliseconds <= probe)
        assert (shares[index] if index >= 0 else 0.0) == pytest.approx(expected)
    within = mark.get_xdata()[0]
    assert np.mean(milliseconds <= within) >= 0.98 > np.mean(milliseconds < within)
    assert legend(axes) == [f"HEFT: 98 % within {within:.3g} ms"]
    assert lines(axes, "percentile")[0].get_ydata()[0] == 98.0


def test_many_decisions_and_times_of_zero():
    seconds = np.random.default_rng(1).lognormal(-6.0, 1.0, 100_000)
    (curve,) = lines(decision_time_cdf({"a": seconds}), "curve")
    times, shares = curve.get_data()
    assert len(times) < 2_500
    found = np.interp(1_000.0 * np.quantile(seconds, [0.1, 0.5, 0.9]), times, shares)
    assert found == pytest.approx([10.0, 50.0, 90.0], abs=0.2)
    axes = decision_time_cdf({"a": [0.0, 0.001], "b": [0.0005, 2.0], "c": [0.0, 0.0]})
    low, high = axes.get_xlim()
    assert axes.get_xscale() == "log" and 0.0 < low < 0.5 and high > 2_000.0
    assert all(line.get_xdata()[0] >= low and line.get_ydata()[-1] == 100.0 for line in lines(axes, "curve"))
    assert legend(axes)[2] == "c: 98 % within 0 ms"
    check_layout(axes.figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metric_lines({}, xlabel="x", ylabel="y"), "samples: got an empty mapping"),
        (lambda: metric_lines({"a": {}}, xlabel="x", ylabel="y"), r"samples\['a'\]: got no values"),
        (lambda: metric_lines(SAMPLES, xlabel="x", ylabel="y", bound={}), "bound: got no values"),
        (
            lambda: metric_lines(SAMPLES, xlabel="", ylabel="", colors={"HEFT": "none such"}),
            "expected a matplotlib colour",
        ),
        (lambda: decision_time_cdf({}), "seconds: got an empty mapping"),
        (lambda: decision_time_cdf({"a": []}), r"seconds\['a'\]: got shape \(0,\)"),
        (lambda: decision_time_cdf({"a": [0.1, -1.0]}), r"seconds\['a'\]: got -1.0, expected finite times"),
        (lambda: decision_time_cdf({"a": ["fast"]}), r"seconds\['a'\]: expected numbers: .*'fast'"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(InvalidConfiguration, match=message):
        call()


def test_every_agent_stands_at_its_rank_and_bars_over_what_is_alike():
    ranking = rank_agents(COSTS, better="lower")
    axes = critical_differences(ranking)
    assert [line.get_xdata()[0] for line in lines(axes, "mark")] == list(ranking.mean_ranks.values())
    half, ranks = ranking.critical_difference / 2.0, np.array(list(ranking.mean_ranks.values()))
    drawn = np.array([line.get_xdata() for line in lines(axes, "interval")])
    np.testing.assert_allclose(drawn, np.clip([ranks - half, ranks + half], 1.0, 5.0).T)
    bars = [line.get_ydata() for line in lines(axes, "group")]
    assert len(bars) == len(ranking.groups()) > 0
    for ends, group in zip(bars, ranking.groups(), strict=True):
        assert tuple(name for row, name in enumerate(ranking.mean_ranks) if ends[0] <= row <= ends[1]) == group
    for text, (name, rank) in zip(axes.get_yticklabels(), ranking.mean_ranks.items(), strict=True):
        assert name in text.get_text() and f"{rank:.2f}" in text.get_text()
    assert f"{ranking.critical_difference:.2f}" in axes.get_xlabel()
    axes.figure.canvas.draw()


def test_profiles_are_steps_up_to_the_end():
    profile = performance_profile(COSTS)
    axes = performance_profiles(profile, colors={"agent $ 0": "red"})
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == [
        name.replace("$", r"\$") for name in COSTS
    ]
    assert [line.get_label() for line in axes.lines] == list(COSTS) and axes.lines[0].get_color() == "red"
    for line, shares in zip(axes.lines, profile.shares.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata()[:-1], shares)
        np.testing.assert_array_equal(line.get_xdata()[:-1], profile.ratios)
        assert line.get_drawstyle() == "steps-post"
    assert axes.get_xlim()[1] > profile.ratios[-1]
    only = performance_profiles(performance_profile({"only": [2.0, 3.0]}))
    assert only.get_xlim()[1] > 1.0 and only.lines[0].get_ydata().tolist() == pytest.approx([1.0, 1.0])
    assert performance_profiles(performance_profile(COSTS, [1.0, 4.9])).get_xscale() == "linear"
    axes = performance_profiles(performance_profile({"near": [1.0, 1.0], "far": [2.0, 400.0]}))
    axes.figure.canvas.draw()
    low, high = axes.get_xlim()
    names = [tick.get_text() for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]
    assert axes.get_xscale() == "log" and names == ["1", "2", "5", "10", "20", "50", "100", "200"]


@pytest.mark.parametrize(
    ("span", "name"),
    [(0.5, "s"), (180.0, "s"), (181.0, "min"), (10_800.0, "min"), (20_000.0, "h"), (345_600.0, "h"), (1e6, "days")],
)
def test_the_unit_suits_the_span(span, name):
    assert time_unit(span).name == name


@pytest.mark.parametrize(
    ("width", "nice"),
    [
        (0.03, 0.05),
        (1.0, 1.0),
        (4.0, 5.0),
        (7.0, 10.0),
        (61.0, 120.0),
        (4e3, 7_200.0),
        (4e4, 43_200.0),
        (6e4, 86_400.0),
    ],
)
def test_nice_durations(width, nice):
    assert nice_duration(width) == pytest.approx(nice)


@given(st.floats(1e-6, 1e10))
def test_nice_numbers_are_not_below_the_wanted_one_and_not_far_above(number):
    nice, count = nice_duration(number), nice_count(number)
    assert number * (1 - 1e-9) <= nice <= 2.5 * number and nice_duration(nice) == pytest.approx(nice)
    assert count >= number and (count < 2.5 * number or count == 1) and str(count).rstrip("0") in ("1", "2", "5")


@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.integers(1, 30))
def test_bins_cover_a_span_without_gaps(one, other, width):
    bounds = bin_edges(min(one, other), max(one, other), width)
    assert len(bounds) == 0 if one == other else (bounds[0], bounds[-1]) == (min(one, other), max(one, other))
    assert (np.diff(bounds) > 0).all() and (np.diff(bounds) <= width).all() and (bounds[1:-1] % width == 0).all()


@settings(max_examples=40)
@given(st.floats(0.0, 1e8), st.floats(1e-2, 1e8))
def test_marks_are_round_times_within_the_interval(begin, length):
    axes = Figure().subplots()
    time_axis(axes, begin, begin + length)
    ticks, unit = axes.get_xticks(), time_unit(axes.viewLim.width).seconds
    width = nice_duration(length / 9) if length / 9 > unit / 2 else nice_duration(length / 9 / unit) * unit
    assert 2 <= len(ticks) <= 11
    for tick in ticks:
        assert begin - 1e-6 * length <= tick <= begin + 1.000001 * length
        assert math.isclose(tick / width, round(tick / width), rel_tol=1e-9, abs_tol=1e-6)


def test_marks_follow_the_zoom_keep_the_unit_and_zero_has_no_sign():
    axes = Figure().subplots()
    time_axis(axes, 0.0, 4 * 3_600.0)
    axes.figure.draw_without_rendering()
    assert axes.get_xlabel() == "time (h)" and axes.get_xticklabels()[0].get_text() == "0"
    axes.set_xlim(3_600.0, 7_200.0)
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "1.2", "1.4", "1.6", "1.8", "2"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(86_400.0, "1 day"), (172_800.0, "2 days"), (43_200.0, "12 h"), (90.0, "90 s"), (0.5, "0.5 s")],
)
def test_durations_in_words(seconds, words):
    assert duration_words(seconds) == words


@pytest.mark.parametrize("problem", ["batch", "dag", "deferrable", "multiserver"])
def test_every_metric_is_described_by_its_own_name(problem):
    metrics = kind_of(problem).metrics
    assert all(metrics[metric.name] is metric for metric in metrics)
    assert metrics.headline and set(metrics.headline) | set(metrics.main) <= set(metrics.names)


def test_a_metric_that_begins_like_those_of_a_resource_keeps_its_direction():
    table = {"a": {"violation_penalty": -5.0, "violation_cores": 5.0}, "b": {"violation_penalty": -2.0}}
    panels = compare_metrics(table, problem="deferrable", metrics=["violation_penalty", "violation_cores"])
    titles = ["violation penalty (core-slots)\nhigher is better", "violation cores\nlower is better"]
    assert [panel.get_title("left") for panel in panels] == titles
