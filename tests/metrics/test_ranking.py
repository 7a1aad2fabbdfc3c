"""Comparisons of agents: against published examples, plain second versions, and what has to hold."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration
from desim.statistics import Ranking, bootstrap_interval, paired_tests, performance_profile, rank_agents

#: Areas under the curve of four classifiers on 14 data sets: J. Demsar, "Statistical comparisons of classifiers over
#: multiple data sets", JMLR 7, 2006, table 6.
DEMSAR: dict[str, list[float]] = {
    "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957],
    "C4.5+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978],
    "C4.5+cf": [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.000, 0.965, 0.614, 0.9751, 0.946],
    "C4.5+m+cf": [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.000, 0.962, 0.669, 0.975, 0.970],
}


def test_ranks_are_those_of_a_published_example() -> None:
    found = rank_agents(DEMSAR, better="higher")
    wanted = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert found.mean_ranks == pytest.approx(wanted, abs=5e-4)
    assert list(found.mean_ranks) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    squares = sum(rank**2 for rank in found.mean_ranks.values())
    uncorrected = 12 * 14 / (4 * 5) * (squares - 4 * 5**2 / 4)
    assert uncorrected == pytest.approx(9.28, abs=0.005)
    assert found.statistic > uncorrected  # ties are counted, as the paper's figure does not
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)
    assert rank_agents(DEMSAR, better="higher", level=0.90).critical_difference == pytest.approx(1.12, abs=0.005)
    assert found.groups() == [("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")]


def test_groups_are_the_largest_of_agents_that_are_alike() -> None:
    ranks = {"a": 1.0, "b": 1.5, "c": 2.5, "d": 3.2, "e": 6.0}
    assert Ranking(ranks, 0.0, 0.0, 1.2, 9, 0.95).groups() == [("a", "b"), ("b", "c"), ("c", "d")]
    assert Ranking(ranks, 0.0, 0.0, 2.0, 9, 0.95).groups() == [("a", "b", "c"), ("b", "c", "d")]
    assert Ranking(ranks, 0.0, 0.0, 0.4, 9, 0.95).groups() == []


@given(seed=st.integers(0, 10**6), size=st.integers(3, 6), count=st.integers(2, 9))
@settings(max_examples=20, deadline=None)
def test_ranks_hang_on_the_order_of_values_only(seed: int, size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    values = {f"agent {number}": rng.integers(1, 5, count).astype(float) for number in range(size)}
    found = rank_agents(values, better="lower")
    assert sum(found.mean_ranks.values()) == pytest.approx(size * (size + 1) / 2)
    for other in (
        rank_agents({name: np.exp(one) for name, one in values.items()}, better="lower"),
        rank_agents({name: -one for name, one in values.items()}, better="higher"),
    ):
        assert other.mean_ranks == pytest.approx(found.mean_ranks)
        assert other.p_value == pytest.approx(found.p_value)
    slow = {
        name: np.mean(
            [
                1
                + sum(one[place] < mine[place] for one in values.values()) / 2
                + (sum(one[place] <= mine[place] for one in values.values()) - 1) / 2
                for place in range(count)
            ]
        )
        for name, mine in values.items()
    }
    assert found.mean_ranks == pytest.approx(slow)


def test_agents_that_are_all_alike() -> None:
    found = rank_agents({name: [1.0, 2.0, 3.0] for name in "abc"}, better="lower")
    assert (found.statistic, found.p_value) == (0.0, 1.0)
    assert found.groups() == [("a", "b", "c")]


@given(seed=st.integers(0, 10**6), count=st.integers(2, 9))
@settings(max_examples=15, deadline=None)
def test_p_values_count_signs(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    values = {"a": rng.normal(0.5, 1.0, count), "b": rng.normal(0.0, 1.0, count)}
    (found,) = paired_tests(values)
    differences = values["a"] - values["b"]
    ranks = np.argsort(np.argsort(np.abs(differences))) + 1
    least = min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=count)
    ]
    assert found.p_value == pytest.approx(min(2 * np.mean([total <= least for total in sums]), 1.0))
    assert found.difference == pytest.approx(differences.mean())
    assert found.adjusted == found.p_value


def test_p_values_are_adjusted_for_the_number_of_tests() -> None:
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {name: rng.normal(mean, 1.0, 20) for name, mean in (("a", 0), ("b", 0.4), ("c", 2.0))}
    values["d"] = values["a"]
    found = paired_tests(values)
    assert [one.agents for one in found] == [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    in_order = sorted(found, key=lambda one: one.p_value)
    largest = 0.0
    for place, one in enumerate(in_order):
        largest = max(largest, one.p_value * (6 - place))
        assert one.adjusted == pytest.approx(min(largest, 1.0))
    assert found[2].p_value == found[2].adjusted == 1.0
    against = paired_tests(values, "c")
    assert [one.agents for one in against] == [("a", "c"), ("b", "c"), ("d", "c")]
    assert max(one.adjusted for one in against) < 0.01


def test_bootstrap_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    held = []
    for _ in range(150):
        found = bootstrap_interval(rng.exponential(1.0, 25), rng, num_resamples=400, level=0.9)
        assert found.low < found.value < found.high
        held.append(found.low <= 1.0 <= found.high)
    assert 0.8 <= np.mean(held) <= 0.96
    sample = rng.lognormal(0.0, 1.0, 30)
    found = bootstrap_interval(sample, rng)
    assert found.high - found.value > found.value - found.low  # of a skewed sample
    assert found.value == sample.mean()
    assert bootstrap_interval(sample, rng, statistic="median").value == np.median(sample)
    assert bootstrap_interval([2.0, 2.0], rng) == (2.0, 2.0, 2.0, 0.95)
    same = [bootstrap_interval(sample, np.random.default_rng(3)) for _ in range(2)]
    assert same[0] == same[1]


def test_performance_profiles_by_hand() -> None:
    costs = {"a": [1.0, 2.0, 3.0, 8.0], "b": [2.0, 2.0, 1.5, 4.0], "c": [4.0, math.inf, 6.0, 4.0]}
    found = performance_profile(costs)
    assert found.ratios.tolist() == [1.0, 2.0, 4.0]
    assert {name: share.tolist() for name, share in found.shares.items()} == {
        "a": [0.5, 1.0, 1.0],
        "b": [0.75, 1.0, 1.0],
        "c": [0.25, 0.25, 0.75],
    }
    assert performance_profile(costs, [1.5, 3.0]).shares["b"].tolist() == [0.75, 1.0]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: rank_agents({"a": [1, 2], "b": [1, 2]}, better="lower"), "2 agents and 2 scenarios"),
        (lambda: rank_agents({"a": [1], "b": [1], "c": [2]}, better="lower"), "3 agents and 1 scenarios"),
        (lambda: rank_agents(DEMSAR, better="more"), "better: got 'more'"),  # type: ignore[arg-type]
        (lambda: rank_agents(DEMSAR, better="lower", level=1.0), "level: got 1.0"),
        (lambda: rank_agents({"a": [1, 2], "b": [1], "c": [2, 3]}, better="lower"), r"'b' has values of shape \(1,\)"),
        (
            lambda: rank_agents({"a": [1, 2], "b": [1, math.nan], "c": [2, 3]}, better="lower"),
            "value 1 of agent 'b': got nan, expected a number",
        ),
        (lambda: paired_tests({}), "values_by_agent: got no values"),
        (lambda: paired_tests(DEMSAR, "C5"), "baseline: got 'C5', expected one of C4.5, C4.5"),
        (lambda: performance_profile({"a": [0.0], "b": [1.0]}), "costs: expected numbers > 0"),
        (lambda: performance_profile({"a": [math.inf], "b": [math.inf]}), "at least one finite cost in every scenario"),
        (lambda: bootstrap_interval([1.0], np.random.default_rng(0)), "expected at least two numbers"),
        (lambda: bootstrap_interval([1.0, 2.0], np.random.default_rng(0), level=0), "out of range"),
        (lambda: bootstrap_interval([1.0, 2.0], np.random.default_rng(0), statistic="mode"), "statistic: got 'mode'"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=what):
        call()
