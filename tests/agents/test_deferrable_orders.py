"""The rules for deferrable jobs: their orders by hand, what fits against a slow search, forecasts, refusals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.deferrable import (
    FIFO,
    SJF,
    EarliestDeadline,
    LargestRevenue,
    LeastSlack,
    Oracle,
    Priority,
    RandomOrder,
    Tetris,
    create,
    descriptions,
)
from desim.agents.deferrable.orders import first_fitting
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job, JobSet
from desim.problems.deferrable.job import START, rows_of
from desim.problems.deferrable.observation import free_ahead
from desim.validation import validate

#: Five jobs whose windows are open in slot 4; no two rules put them in the same order.
JOBS = [
    Job(1, 0, 4, 5, 6, 3),
    Job(2, 1, 2, 9, 1, 8),
    Job(3, 2, 3, 4, 9, 1),
    Job(4, 3, 3, 6, 2, 5),
    Job(5, 3, 4, 8, 3, 2),
]


def seen(jobs: list[Job], capacity: Any, *, slot: int = 4, used: Any = 0.0) -> DeferrableObservation:
    amounts = np.atleast_1d(np.asarray(capacity, dtype=np.float64))
    names = ("cores", "memory", "disk")[: len(amounts)]
    observation = DeferrableObservation(names, None, 2.0, np.full(len(amounts), 10.0))
    observation.slot, observation.capacity = slot, amounts
    observation.used = np.broadcast_to(np.asarray(used, dtype=np.float64), amounts.shape)
    observation.current = JobSet(rows_of(jobs, len(amounts)))
    return observation


@pytest.mark.parametrize(
    ("agent", "order"),
    [
        (Priority(), [1, 2, 3, 4, 5]),
        (FIFO(), [1, 2, 3, 4, 5]),
        (FIFO("window"), [2, 3, 4, 1, 5]),
        (SJF(), [2, 4, 5, 1, 3]),
        (SJF("work"), [5, 2, 3, 4, 1]),  # 6, 8, 9, 10, 18
        (Tetris(), [2, 4, 1, 5, 3]),
        (Tetris(3.0), [2, 4, 3, 1, 5]),  # 8 + 6, 5 + 3, 1 + 3, 3, 2
        (EarliestDeadline(), [4, 2, 1, 5, 3]),  # 8, 10, 11, 11, 13
        (LargestRevenue(), [1, 4, 3, 2, 5]),
        (LeastSlack(), [3, 1, 4, 5, 2]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_orders_by_hand(agent: Any, order: list[int]) -> None:
    observation = seen(JOBS, 100)
    assert [JOBS[position].job_id for position in agent.act(observation)] == order


def test_what_does_not_fit_is_passed_over_or_ends_the_slot() -> None:
    observation = seen(JOBS, 10, used=2)
    assert [JOBS[position].job_id for position in FIFO().act(observation)] == [1, 3, 5]
    assert [JOBS[position].job_id for position in FIFO(skip=False).act(observation)] == [1]
    assert FIFO().act(seen([], 10)) == []


def test_tetris_weighs_each_resource_by_what_is_free_of_it() -> None:
    jobs = [Job(1, 4, 4, 9, 1, 6, (1.0,)), Job(2, 4, 4, 9, 1, 2, (9.0,))]
    # shares of the first (.6, .1), of the second (.2, .9); free (.1, .9), then (.9, .1)
    assert Tetris().act(seen(jobs, [10, 10], used=[9, 1])) == []
    first = Tetris().scores(seen(jobs, [10, 10], used=[9, 1]))
    assert first == pytest.approx([-10 * (0.06 + 0.09), -10 * (0.02 + 0.81)])
    second = Tetris().scores(seen(jobs, [10, 10], used=[1, 9]))
    assert second == pytest.approx([-10 * (0.54 + 0.01), -10 * (0.18 + 0.09)])


@pytest.mark.parametrize("capacity", [[0, 4], [4, 0], [0, 0]])
def test_tetris_without_any_of_a_resource(capacity: list[float]) -> None:
    jobs = [Job(1, 0, 0, 1, 1, 3, (1.0,)), Job(2, 0, 0, 1, 1, 2, (0.0,))]
    started = Tetris().act(seen(jobs, capacity, slot=0))
    assert started == ([1] if capacity[0] else [])


numbers = st.integers(0, 6)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4), numbers), max_size=8),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_what_fits_is_found_as_by_trying_slot_by_slot(jobs: Any, room: Any, skip: bool, rng: Any) -> None:
    table = [Job(i, 0, 0, 0, d, c, (float(m),)) for i, (c, d, m) in enumerate(jobs)]
    order = list(range(len(table)))
    rng.shuffle(order)
    left = [list(map(float, row)) for row in room]
    expected = []
    for place in order:
        job = table[place]
        amounts = (job.cores, *job.others)
        span = range(min(job.duration, len(left)))
        if all(left[t][r] >= amounts[r] for t in span for r in range(2) if amounts[r] > 0):
            for t in span:
                left[t] = [have - amount for have, amount in zip(left[t], amounts, strict=True)]
            expected.append(place)
        elif not skip:
            break
    found = first_fitting(JobSet(rows_of(table, 2)), np.array(order, dtype=np.int64), np.array(room, float), skip=skip)
    assert found == expected


def test_room_ahead_counts_running_jobs_until_they_end() -> None:
    observation = seen([], 10, slot=3, used=5)
    rows = rows_of([Job(1, 0, 0, 0, 5, 3), Job(2, 0, 0, 0, 2, 2)], 1)
    rows[:, START] = [1, 2]  # they end at 6 and at 4
    observation.running = JobSet(rows)
    room = free_ahead(observation, np.array([[8.0], [4.0], [2.0]]))
    assert room[:, 0] == pytest.approx([5, 5, 1, 2], abs=1e-6)


def test_a_forecast_keeps_jobs_from_being_caught_by_a_fall() -> None:
    capacity = [8, 8, 2, 2, 8, 8, 8, 8]
    jobs = [Job(1, 0, 0, 6, 3, 4), Job(2, 0, 0, 6, 2, 4), Job(3, 0, 0, 6, 3, 2)]
    cluster = DeferrableCluster(jobs, capacity, num_slots=8)
    blind, careful = (simulate(cluster, FIFO(forecast=forecast)) for forecast in (None, Oracle(capacity)))
    assert blind.table("slots")["violation_cores"].sum() > 0
    assert careful.table("slots")["violation_cores"].sum() == 0
    assert careful.jobs["starting_time"].to_list() == [4, 0, 0]


@pytest.mark.parametrize("name", [name for name in descriptions() if ":" not in name])
def test_no_rule_starts_what_does_not_fit_now(name: str) -> None:
    rng = np.random.default_rng(5)
    times = np.sort(rng.integers(0, 25, 60)).tolist()
    jobs = [
        Job(i, t, t + int(rng.integers(3)), t + 3 + int(rng.integers(5)), int(rng.integers(1, 6)), rng.uniform(0.1, 5))
        for i, t in enumerate(times)
    ]
    capacity = rng.uniform(0, 14, 30)
    cluster = DeferrableCluster(jobs, capacity, num_slots=30, overcommit=False)
    result = simulate(cluster, create(name), seed=1)
    assert validate(result, jobs).ok
    assert result.jobs["starting_time"].is_not_null().sum() > 10


def test_a_random_order_is_drawn_anew_and_is_that_of_the_seed() -> None:
    agent = RandomOrder()
    agent.reset({}, np.random.default_rng(3))
    first = [agent.act(seen(JOBS, 100)) for _ in range(6)]
    assert any(one != other for one, other in pairwise(first))
    agent.reset({}, np.random.default_rng(3))
    assert [agent.act(seen(JOBS, 100)) for _ in range(6)] == first


def test_refusals() -> None:
    with pytest.raises(InvalidConfiguration, match="measure: got 'cores', expected one of 'duration', 'work'"):
        SJF("cores")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration, match="since: got 'start', expected one of 'submission', 'window'"):
        FIFO("start")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration, match="delay_weight: got nan"):
        Tetris(float("nan"))
    with pytest.raises(
        InvalidConfiguration, match=r"unknown deferrable agent 'lifo' \(did you mean 'fifo'\?\); expected one of fifo"
    ):
        create("lifo")
