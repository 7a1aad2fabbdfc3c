"""The shield against violations: how often its bounds fail, and what it is good for on other trajectories."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.deferrable import FIFO, Oracle, Persistence, Seasonal
from desim.agents.deferrable.forecasts import CapacityShield, calibrate
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation
from desim.workloads import deferrable

#: Jobs are long enough to be caught by a fall of the capacity.
VOLATILE = replace(
    deferrable.FLUCTUATING,
    arrival_rate=8.0,
    durations=(2, 4, 6, 8),
    duration_probabilities=(0.25, 0.25, 0.25, 0.25),
    capacity_deviation=0.1,
    capacity_correlation=0.5,
)


def seen(series: np.ndarray, slot: int) -> DeferrableObservation:
    """Return what is seen in a slot of a series."""
    observation = DeferrableObservation(("cores", "memory")[: series.shape[1]], None, 2.0, np.ones(series.shape[1]))
    for number in range(slot + 1):
        observation.begin_slot(number, series[number])
    return observation


def failures(shield: CapacityShield, series: list[np.ndarray], steps: int, first_slot: int = 0) -> np.ndarray:
    """Return the share of bounds above the truth, by lead time and resource."""
    found: dict[int, list[np.ndarray]] = {ahead: [] for ahead in range(1, steps + 1)}
    for one in series:
        for slot in range(first_slot, len(one)):
            bounds = shield.predict(seen(one, slot), steps)
            for ahead in range(1, min(steps, len(one) - 1 - slot) + 1):
                found[ahead].append(bounds[ahead - 1] > one[slot + ahead])
    return np.array([np.mean(found[ahead], axis=0) for ahead in found])


@given(
    seed=st.integers(0, 10**6),
    level=st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.7, 0.9]),
    steps=st.integers(1, 4),
    num_resources=st.integers(1, 2),
    base=st.sampled_from([None, Seasonal(3), Seasonal(2, num_periods=None)]),
    first_slot=st.integers(0, 2),
)
@settings(max_examples=30, deadline=None)
def test_bounds_fail_no_more_often_than_they_may(
    seed: int, level: float, steps: int, num_resources: int, base: Any, first_slot: int
) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(8, 16, 3)
    series = [rng.integers(0, 9, (length, num_resources)).astype(np.float64) for length in lengths]
    shield = calibrate(series, steps=steps, level=level, base=base, first_slot=first_slot)
    assert shield.margins.shape == (steps, num_resources)
    assert shield.level == level
    assert (shield.margins >= 0).all()
    share = failures(shield, series, steps, first_slot)
    assert (share <= level + 1e-12).all()
    # margins are no larger than they must be: with a little less, more fail than may
    less = failures(CapacityShield(shield.base, shield.margins - 1e-6, level), series, steps, first_slot)
    assert (less > level - 1e-12)[shield.margins > 0].all()


def test_margins_by_hand() -> None:
    series = [[5.0, 3.0, 4.0, 1.0, 1.0, 6.0]]  # from slot to slot too high by 2, -1, 3, 0, -5
    margins = {level: calibrate(series, steps=1, level=level).margins.tolist() for level in (0.1, 0.3, 0.5, 0.9)}
    assert margins == {0.1: [[3.0]], 0.3: [[2.0]], 0.5: [[0.0]], 0.9: [[0.0]]}
    # two slots ahead by 1, 2, 3, -5, and those of slot 0 do not count
    assert calibrate(series, steps=2, level=0.4, first_slot=1).margins.tolist() == [[0.0], [2.0]]


@pytest.mark.parametrize("series", [np.full((9, 2), 4.0), np.arange(18.0).reshape(9, 2)], ids=["constant", "rising"])
def test_what_never_falls_needs_no_margin(series: np.ndarray) -> None:
    shield = calibrate([series, series + 1], steps=3, level=0.05)
    assert shield.margins.tolist() == [[0.0, 0.0]] * 3
    np.testing.assert_array_equal(shield.predict(seen(series, 4), 5), Persistence().predict(seen(series, 4), 5))


def test_bounds_are_never_below_nothing_and_the_last_margin_stays() -> None:
    shield = CapacityShield(Persistence(), np.array([[1.0, 0.5], [2.0, 9.0]]), 0.1)
    bounds = shield.predict(seen(np.array([[5.0, 3.0]]), 0), 4)
    assert bounds.tolist() == [[4.0, 2.5], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]]
    assert shield.predict(seen(np.array([[5.0, 3.0]]), 0), 0).shape == (0, 2)


def violation(agent: FIFO, seeds: range) -> tuple[float, int]:
    """Return what was held above the capacity in all runs, and in how many slots."""
    slots = []
    for seed in seeds:
        jobs, capacity, num_slots = deferrable.generate(VOLATILE, seed=seed)
        result = simulate(DeferrableCluster(jobs, capacity, num_slots=num_slots), agent)
        slots.append(result.table("slots")["violation_cores"].to_numpy())
    return float(np.sum(slots)), int(np.sum(np.array(slots) > 0))


def test_with_a_shield_fewer_slots_are_violated() -> None:
    steps = max(VOLATILE.durations) - 1
    series = [deferrable.generate(VOLATILE, seed=seed).capacity for seed in range(100, 110)]
    fresh = range(3)
    bold, lax, strict = (
        violation(FIFO(forecast=calibrate(series, steps=steps, level=level) if level else None), fresh)
        for level in (None, 0.3, 0.02)
    )
    assert bold[1] > 15
    assert bold[0] > lax[0] > strict[0]
    assert bold[1] > lax[1] > strict[1]
    # at most the level times the slots before it in which running jobs may have been started
    assert strict[1] <= 0.02 * steps * len(fresh) * VOLATILE.num_slots
    assert strict[0] < 0.3 * bold[0]


def test_who_knows_the_capacity_needs_no_margin() -> None:
    series = deferrable.generate(VOLATILE, seed=3).capacity
    assert not calibrate([series], steps=4, level=0.01, base=Oracle(series)).margins.any()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"level": 0.0}, "level: got 0.0, expected a number > 0 and < 1"),
        ({"level": 1.0}, "level: got 1.0"),
        ({"level": math.nan}, "level: got nan"),
        ({"steps": 0}, "steps: got 0, expected an integer >= 1"),
        ({"steps": 3}, "no trajectory has 3 slots after slot 0"),
        ({"first_slot": 2}, "nothing to calibrate with"),
        ({"series": [[1.0, 2.0], [[1.0, 2.0]]]}, "different numbers of resources"),
        ({"series": []}, "no trajectory has 1 slots after slot 0"),
        ({"series": [[1.0, -1.0, 2.0]]}, r"capacity\[1\]: got -1\.0"),
        ({"series": [[]]}, "capacity: got shape"),
        ({"base": CapacityShield(Persistence(), np.zeros((1, 2)), 0.1)}, r"slot 0: forecast shape: got \(1, 2\)"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(arguments: dict[str, Any], what: str) -> None:
    given: dict[str, Any] = {"series": [[1.0, 2.0, 1.0]], "steps": 1, "level": 0.1}
    calibrate(**given)
    with pytest.raises(InvalidConfiguration, match=what):
        calibrate(**given | arguments)


@pytest.mark.parametrize("margins", [np.zeros((0, 1)), np.zeros(3), np.array([[1.0], [math.inf]]), np.zeros((2, 0))])
def test_margins_that_are_none_are_refused(margins: np.ndarray) -> None:
    with pytest.raises(InvalidConfiguration, match="expected finite numbers, one row per slot ahead"):
        CapacityShield(Persistence(), margins, 0.1)
