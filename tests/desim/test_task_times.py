"""Task durations: what is drawn for each wave and number of executors, means, and refusals."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import TaskTimes

WAVES = ("fresh", "first", "rest")
FULL = TaskTimes(
    [2, 10],
    fresh=[[5.0, 6.0], [50.0]],
    first=[[3.0, 5.0, 6.0, 3.0], [50.0, 30.0]],
    rest=[[1.0, 1.5], [10.0]],
)


def drawn(times: TaskTimes, wave: Any, num_executors: float, count: int = 400, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [times.draw(rng, wave, num_executors) for _ in range(count)]


def test_each_wave_is_drawn_from_its_own_values() -> None:
    assert set(drawn(FULL, "fresh", 2)) == {5.0, 6.0}
    assert set(drawn(FULL, "first", 2)) == {3.0}
    assert set(drawn(FULL, "rest", 2)) == {1.0, 1.5}
    assert [set(drawn(FULL, wave, 10)) for wave in WAVES] == [{50.0}, {30.0}, {10.0}]
    assert all(type(value) is float for value in drawn(FULL, "rest", 5))


def test_values_are_equally_likely() -> None:
    times = TaskTimes([3], [[]], [[]], [[1.0, 2.0, 2.0, 4.0, 8.0]])
    counts = Counter(drawn(times, "rest", 3, 20_000))
    assert {value: round(count / 20_000, 1) for value, count in counts.items()} == {
        1.0: 0.2,
        2.0: 0.4,
        4.0: 0.2,
        8.0: 0.2,
    }


def test_between_two_counts_one_of_them_is_drawn_linearly() -> None:
    for num_executors, above in ((3, 1 / 8), (6, 1 / 2), (9.5, 7.5 / 8)):
        found = np.mean([value == 10.0 for value in drawn(FULL, "rest", num_executors, 20_000)])
        assert found == pytest.approx(above, abs=0.015)
    assert set(drawn(FULL, "rest", 1)) == set(drawn(FULL, "rest", 0)) == {1.0, 1.5}
    assert set(drawn(FULL, "rest", 11)) == set(drawn(FULL, "rest", 10_000)) == {10.0}


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        # fresh, first, rest of the only run -> what fresh, first and rest are drawn from; the warm-up is 0.25 s
        (([3.0], [3.0, 2.0], [1.0]), (3.0, 2.0, 1.0)),
        (([], [2.0], [1.0]), (2.25, 2.0, 1.0)),
        (([], [], [1.0]), (1.25, 1.0, 1.0)),
        (([3.0], [3.0], [1.0]), (3.0, 3.0, 1.0)),
        (([3.0], [3.0, 2.0], []), (3.0, 2.0, 2.0)),
        (([3.0], [3.0], []), (3.0, 3.0, 3.0)),
        (([], [2.0], []), (2.25, 2.0, 2.0)),
    ],
)
def test_what_stands_in_for_a_wave_without_values(lists: Any, expected: tuple[float, ...]) -> None:
    times = TaskTimes([4], *([values] for values in lists), warm_up=0.25)
    assert tuple(set(drawn(times, wave, 4, 20)) for wave in WAVES) == tuple({value} for value in expected)
    assert tuple(times.mean(wave, 4) for wave in WAVES) == expected  # type: ignore[arg-type]


def test_a_run_without_values_takes_those_of_the_nearest() -> None:
    nothing: list[float] = []
    times = TaskTimes([1, 4, 7, 20], [nothing] * 4, [nothing] * 4, [[1.0], nothing, [7.0], nothing])
    assert [set(drawn(times, "rest", count, 20)) for count in (1, 4, 7, 20)] == [{1.0}, {1.0}, {7.0}, {7.0}]
    assert times.mean(None, 4) == 1.0


def test_first_without_fresh_keeps_order_and_repetitions() -> None:
    times = TaskTimes([5], [[2.0, 3.0]], [[3.0, 1.0, 2.0, 2.0, 3.0]], [[]])
    assert times.first_warm[0].tolist() == [1.0, 2.0, 3.0]
    assert times.first[0].tolist() == [3.0, 1.0, 2.0, 2.0, 3.0]


def test_means_over_runs_and_waves() -> None:
    assert FULL.mean() == pytest.approx((17 + 80 + 2.5 + 10) / 9)
    assert [FULL.mean(wave) for wave in WAVES] == pytest.approx([61 / 3, 36 / 3, 12.5 / 3])  # type: ignore[arg-type]
    assert FULL.mean(None, 2) == pytest.approx(19.5 / 6)
    assert FULL.mean(None, 6) == pytest.approx((19.5 / 6 + 90 / 3) / 2)
    assert FULL.mean(None, 1) == FULL.mean(None, 2)
    assert TaskTimes([2, 4], [[]] * 2, [[]] * 2, [[1.0], [2.0, 3.0]]).mean("fresh") == pytest.approx(3.0)


durations = st.lists(st.integers(0, 40).map(lambda value: value / 8), max_size=5)


@st.composite
def task_times(draw: st.DrawFn) -> TaskTimes:
    counts = sorted(draw(st.sets(st.integers(1, 30), min_size=1, max_size=4)))
    fresh = [draw(durations) for _ in counts]
    warm = [draw(durations) for _ in counts]
    first = [draw(st.permutations(new + old)) for new, old in zip(fresh, warm, strict=True)]
    rest = [draw(durations) for _ in counts]
    if not any([*first, *rest]):
        rest[0] = [1.0]
    return TaskTimes(counts, fresh, first, rest, warm_up=draw(st.sampled_from([0.0, 1.0])))


@given(task_times(), st.sampled_from(WAVES), st.integers(0, 35), st.integers(0, 99))
def test_a_draw_is_the_one_of_a_plain_reading_of_the_rules(
    times: TaskTimes, wave: Any, num_executors: int, seed: int
) -> None:
    allowed = [value for run in neighbours(times, num_executors) for value in pool(times, wave, run)]
    values = drawn(times, wave, num_executors, 8, seed)
    assert set(values) <= set(allowed)
    assert values == drawn(times, wave, num_executors, 8, seed)
    assert min(allowed) - 1e-9 <= times.mean(wave, num_executors) <= max(allowed) + 1e-9
    assert Counter(np.concatenate(times.first).tolist()) == Counter(
        np.concatenate([*times.first_warm, *times.fresh]).tolist()
    )


def neighbours(times: TaskTimes, num_executors: int) -> list[int]:
    """Return the runs that may be picked."""
    counts = times.executors
    if num_executors in counts:
        return [counts.index(num_executors)]
    between = [run for run, (low, high) in enumerate(pairwise(counts)) if low < num_executors < high]
    return [between[0], between[0] + 1] if between else [0 if num_executors < counts[0] else len(counts) - 1]


def pool(times: TaskTimes, wave: str, run: int) -> list[float]:
    """Return what a wave of a run is drawn from, by the documentation's words."""
    filled = [other for other in range(len(times.executors)) if len(times.first[other]) + len(times.rest[other])]
    run = min(filled, key=lambda other: (abs(times.executors[other] - times.executors[run]), times.executors[other]))
    fresh, warm, rest = (lists[run].tolist() for lists in (times.fresh, times.first_warm, times.rest))
    if wave == "fresh":
        return fresh or [value + times.warm_up for value in warm or rest]
    return (warm or fresh or rest) if wave == "first" else (rest or warm or fresh)


@given(task_times(), st.sampled_from(WAVES))
def test_copies_draw_the_same(times: TaskTimes, wave: Any) -> None:
    for other in (copy.deepcopy(times), pickle.loads(pickle.dumps(times))):
        assert drawn(other, wave, 7, 10) == drawn(times, wave, 7, 10)


def test_nothing_can_be_changed() -> None:
    given = np.array([1.0, 2.0])
    times = TaskTimes([2], [[]], [[]], [given])
    given[0] = 9.0
    assert times.rest[0].tolist() == [1.0, 2.0]
    for lists in (FULL.fresh, FULL.first, FULL.first_warm, FULL.rest):
        for values in lists:
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 1.0


def test_it_says_what_it_is() -> None:
    assert repr(FULL) == "<TaskTimes: 9 durations with 2 to 10 executors>"
    assert (FULL.executors, FULL.warm_up, FULL.reference_speed) == ((2, 10), 1.0, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"executors": []}, r"executors are \(\), want whole numbers above 0 in ascending order"),
        ({"executors": [1.5, 2]}, r"executors are \(1.5, 2\)"),
        ({"rest": [[1.0]]}, "1 lists of rest for 2 runs"),
        ({"rest": [[1.0], [-1.0]]}, "rest with 10 executors: -1.0, want finite numbers of at least 0"),
        ({"first": [[math.nan], []]}, "first with 2 executors: nan, want finite numbers of at least 0"),
        ({"first": [["x"], []]}, "first with 2 executors: want numbers"),
        ({"first": [[[1.0]], []]}, r"first with 2 executors has shape \(1, 1\), want a list of numbers"),
        ({"rest": [[], []]}, "there are no durations at all"),
        ({"fresh": [[1.0], []]}, "with 2 executors the duration 1.0 is more often in fresh than in first"),
        (
            {"fresh": [[2.0, 2.0], []], "first": [[2.0, 3.0], []]},
            "the duration 2.0 is more often in fresh than in first",
        ),
        ({"warm_up": -1.0}, "warm_up is -1.0, want a finite number of at least 0"),
        ({"reference_speed": 0.0}, "reference_speed is 0.0, want a finite number above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"executors": [2, 10], "fresh": [[], []], "first": [[], []], "rest": [[1.0], []]}
    assert TaskTimes(**good).mean() == 1.0
    with pytest.raises(WorkloadError, match=message):
        TaskTimes(**(good | change))


def test_an_unknown_wave_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="the wave of a task is 'second', want 'fresh', 'first' or 'rest'"):
        FULL.draw(np.random.default_rng(0), "second", 2)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration, match="the wave of a task is 'second'"):
        FULL.mean("second")  # type: ignore[arg-type]
