"""Confidence intervals: known values, coverage, comparison of agents."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim import InvalidConfiguration
from desim.measures import maximum, step_integral, time_integral
from desim.statistics import batch_means, compare, mean_interval, paired_difference, summarize


def test_interval_of_five_values():
    # the 0.975 quantile of Student's t with 4 degrees of freedom is 2.776445, from printed tables
    estimate = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert estimate.mean == 3.0
    assert estimate.half_width == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)
    assert (estimate.low, estimate.high) == (3.0 - estimate.half_width, 3.0 + estimate.half_width)
    assert (estimate.num_values, estimate.level) == (5, 0.95)
    assert str(estimate) == "3 ± 2"


def test_interval_at_another_level():
    # quantile 0.95 with 9 degrees of freedom: 1.833113
    estimate = mean_interval(np.arange(10.0), level=0.9)
    assert estimate.half_width == pytest.approx(1.833113 * np.arange(10.0).std(ddof=1) / math.sqrt(10), rel=1e-6)


def test_small_samples_have_no_interval():
    one, none, equal = mean_interval([7.0]), mean_interval([]), mean_interval([14.166666666666666] * 5)
    assert (equal.mean, equal.half_width) == (14.166666666666666, 0.0)
    assert one.mean == 7.0
    assert math.isnan(one.half_width)
    assert not one.excludes(100.0)
    assert math.isnan(none.mean)
    assert none.num_values == 0


def test_nan_is_not_hidden():
    assert math.isnan(mean_interval([1.0, math.nan, 3.0]).mean)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.floats(-1e6, 1e6))
def test_interval_moves_with_the_values(values, shift):
    plain, moved = mean_interval(values), mean_interval([value + shift for value in values])
    assert moved.mean == pytest.approx(plain.mean + shift, abs=1e-6)
    assert moved.half_width == pytest.approx(plain.half_width, rel=1e-6, abs=1e-6)


def test_intervals_cover_the_true_mean_as_often_as_they_say():
    rng = np.random.default_rng(1)
    covered = sum(not mean_interval(rng.normal(5.0, 2.0, 4)).excludes(5.0) for _ in range(2_000))
    assert 0.93 < covered / 2_000 < 0.97


def test_paired_difference_is_narrower_than_the_means():
    rng = np.random.default_rng(2)
    seeds = rng.normal(100.0, 30.0, 12)
    ours, theirs = seeds - 5.0 + rng.normal(0.0, 1.0, 12), seeds
    difference = paired_difference(ours, theirs)
    assert difference == mean_interval(ours - theirs)
    assert difference.excludes(0.0)
    assert difference.half_width < mean_interval(ours).half_width / 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([1.0, 2.0], level=1.0), r"level: got 1\.0"),
        (lambda: mean_interval([[1.0, 2.0]]), r"values: got shape \(1, 2\)"),
        (lambda: paired_difference([1.0, 2.0], [1.0]), "baseline: got 1 values, expected 2"),
        (
            lambda: batch_means([1.0, 2.0], num_batches=3),
            "num_batches: got 3, expected an integer from 2 to the number of observations, 2",
        ),
        (lambda: batch_means([1.0, 2.0], num_batches=1), "num_batches: got 1"),
        (lambda: compare({"A": []}, "B"), "baseline: got 'B', expected one of A"),
        (lambda: compare({"A": [{"x": 1.0}], "B": []}, "A"), "baseline: got 1 values, expected 0"),
        (lambda: summarize({"A": [{"x": 1.0}, {"y": 1.0}]}), "run 1 of agent 'A' has no metric 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(InvalidConfiguration, match=message):
        call()


def test_batch_means_leave_out_the_first_observations():
    estimate = batch_means([99.0, 1.0, 3.0, 5.0, 7.0], num_batches=2)
    assert estimate == mean_interval([2.0, 6.0])


def test_batch_means_cover_the_mean_of_a_correlated_series():
    rng = np.random.default_rng(3)
    covered, naive = 0, 0
    for _ in range(300):
        noise = rng.normal(size=4_000)
        series = np.empty(4_000)
        series[0] = noise[0] / math.sqrt(1 - 0.9**2)
        for index in range(1, 4_000):
            series[index] = 0.9 * series[index - 1] + noise[index]
        covered += not batch_means(series).excludes(0.0)
        naive += not mean_interval(series).excludes(0.0)
    assert covered / 300 > 0.9
    assert naive / 300 < 0.5  # what correlation does to an interval for independent values


def test_agents_are_summarized_and_compared_seed_by_seed():
    runs = {
        "FCFS": [{"wait": 10.0, "load": 1.0}, {"wait": 20.0, "load": 1.0}],
        "EASY": [{"wait": 7.0, "load": 1.0}, {"wait": 16.0, "load": 1.0}],
    }
    means = summarize(runs)
    assert list(means) == ["FCFS", "EASY"]
    assert list(means["FCFS"]) == ["wait", "load"]
    assert means["EASY"]["wait"] == mean_interval([7.0, 16.0])
    differences = compare(runs, "FCFS", names=["wait"], level=0.9)
    assert differences == {"EASY": {"wait": mean_interval([-3.0, -4.0], level=0.9)}}


def test_areas_and_maxima():
    begins, ends = np.array([0.0, 2.0, 8.0]), np.array([4.0, 6.0, 9.0])
    assert time_integral(begins, ends, np.array([1.0, 10.0, 100.0]), (1.0, 5.0)) == 3.0 + 30.0
    assert maximum(begins, ends, (0.0, 10.0)) == 2.0
    assert maximum(begins, ends, (4.0, 6.0)) == 1.0
    assert maximum(begins, ends, (6.0, 8.0)) == 0.0
    assert step_integral(np.array([2.0, 2.0, 5.0]), np.array([9.0, 1.0, 3.0]), 2.0, (1.0, 6.0)) == 2.0 + 3.0 + 3.0
