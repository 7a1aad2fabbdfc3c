"""List plans: against a slow planner, by hand, and what agents and networks take from them."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.deferrable.list_plan import ORDERS, ListPlan, PlannedWaits, planned_starts
from desim.core import Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job
from desim.problems.deferrable.encoder import CURRENT_FEATURES, FUTURE_FEATURES, ScoreEncoder
from desim.validation import validate

RESOURCES = ("cores", "memory")


def random_cluster(rng: Random, num_resources: int, unit: int, **options: Any) -> DeferrableCluster:
    """Return a cluster that is short of everything; quarters add up exactly, thirds do not."""
    times = sorted(rng.choice((0, 0.5, 1, 3, 6, 7)) for _ in range(rng.randint(1, 25)))
    jobs = []
    for job_id, time in zip(rng.sample(range(99), len(times)), times, strict=True):
        earliest = math.ceil(time) + rng.randint(0, 3)
        others = tuple(rng.choice((0, 1, 2)) / unit for _ in range(num_resources - 1))
        latest = earliest + rng.randint(0, 9)
        jobs.append(Job(job_id, time, earliest, latest, rng.randint(1, 5), rng.randint(1, 9) / unit, others))
    capacity = [[rng.randint(0, 15) / unit for _ in range(num_resources)] for _ in range(16)]
    given = {"num_slots": 16, "eviction": rng.choice(("never", "restarted")), "overcommit": False}
    return DeferrableCluster(jobs, capacity, resources=RESOURCES[:num_resources], **given | options)


def slots_of(
    seen: DeferrableObservation, horizon: int
) -> tuple[list[Job], list[int], list[list[float]], list[list[int]]]:
    """Return the known jobs, when their windows open, what they would bring in each slot, and where they may start."""
    jobs = [*seen.current, *seen.future]
    begin = [max(job.earliest_start - seen.slot, 0) for job in jobs]
    bring = [
        [job.revenue - seen.delay_weight * (seen.slot + later - job.earliest_start) for later in range(horizon)]
        for job in jobs
    ]
    slots = [
        [later for later in range(first, horizon) if seen.slot + later <= job.latest_start and worth[later] > 0]
        for job, first, worth in zip(jobs, begin, bring, strict=True)
    ]
    return jobs, begin, bring, slots


def slow_plan(seen: DeferrableObservation, order: str, horizon: int) -> list[int]:
    """Return when each known job is started: one job, one slot and one resource after another."""
    weight = seen.delay_weight
    jobs, begin, bring, slots = slots_of(seen, horizon)
    places = [place for place in range(len(jobs)) if slots[place]]
    places.sort(key=lambda place: -bring[place][begin[place]])
    keys: dict[str, Any] = {
        "worth": lambda place: -bring[place][begin[place]],
        "slack": lambda place: jobs[place].latest_start,
        "largest": lambda place: -jobs[place].cores,
        "earliest": lambda place: begin[place],
        "impatient": lambda place: 2 * weight * (slots[place][-1] - begin[place]) - bring[place][begin[place]],
    }
    plans = [placed(seen, jobs, sorted(places, key=keys[one]), slots) for one in keys if order in (one, "best")]
    gains = [sum(bring[place][start] for place, start in enumerate(plan) if start >= 0) for plan in plans]
    return plans[gains.index(max(gains))]


def placed(seen: DeferrableObservation, jobs: list[Job], order: list[int], slots: list[list[int]]) -> list[int]:
    """Return the plan that places jobs in an order, each in the first of its slots where it fits."""
    horizon = 40
    room = [[float(amount) for amount in seen.limit] for _ in range(horizon)]
    for job, start in zip(seen.running, seen.running.starting_time.tolist(), strict=True):
        for later in range(horizon):
            if start + job.duration > seen.slot + later:
                take(room[later], job)
    starts = [-1] * len(jobs)
    for place in order:
        job = jobs[place]
        for later in slots[place]:
            span = room[later : later + job.duration]
            if all(fits(free, job) for free in span):
                for free in span:
                    take(free, job)
                starts[place] = later
                break
    return starts


def fits(free: list[float], job: Job) -> bool:
    return all(one == 0 or one <= left for one, left in zip((job.cores, *job.others), free, strict=True))


def take(free: list[float], job: Job) -> None:
    for resource, one in enumerate((job.cores, *job.others)):
        free[resource] -= one


@given(
    seed=st.integers(0, 10**6),
    num_resources=st.integers(1, 2),
    order=st.sampled_from(ORDERS),
    horizon=st.sampled_from([1, 2, 3, 5, 24]),
    delay_weight=st.sampled_from([0.0, 0.25, 2.0]),
)
@settings(max_examples=40, deadline=None)
def test_plans_are_those_of_a_slow_planner(
    seed: int, num_resources: int, order: Any, horizon: int, delay_weight: float
) -> None:
    rng = Random(seed)
    simulation = Simulation(random_cluster(rng, num_resources, 4, delay_weight=delay_weight, overcommit=True))
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        found = planned_starts(seen, order, horizon)
        assert found.dtype == np.int64
        assert found.tolist() == slow_plan(seen, order, horizon)
        # Now and then more is started than fits, so that some plans begin with a violation.
        decision.answer([place for place in range(len(seen.current)) if rng.random() < 0.15])


@given(
    seed=st.integers(0, 10**6),
    num_resources=st.integers(1, 2),
    threshold=st.sampled_from([-1.0, -0.5, 0.0]),
    room=st.sampled_from([(3, 2), (9, 9), (40, 40)]),
)
@settings(max_examples=40, deadline=None)
def test_scores_give_places_as_a_slow_planner_does(
    seed: int, num_resources: int, threshold: float, room: tuple[int, int]
) -> None:
    rng = Random(seed)
    encoder = ScoreEncoder(room[0], num_resources, max_future_jobs=room[1], rule="reserve", threshold=threshold)
    simulation = Simulation(random_cluster(rng, num_resources, 4, overcommit=True))
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        scores = [rng.choice((-0.75, -0.5, 0.25, 0.5, 1.0)) for _ in range(sum(room))]
        number = len(seen.current)
        given = dict(zip(range(number), scores[: room[0]], strict=False))
        given |= dict(zip(range(number, number + len(seen.future)), scores[room[0] :], strict=False))
        mask = [place < min(number, room[0]) for place in range(room[0])]
        mask += [place < len(seen.future) for place in range(room[1])]
        assert encoder.encode(seen)["action_mask"].tolist() == mask
        jobs, _, _, slots = slots_of(seen, 24)
        order = sorted((one for one in given if threshold == -1 or given[one] > threshold), key=lambda one: -given[one])
        wanted = [place for place, start in enumerate(placed(seen, jobs, order, slots)) if start == 0]
        assert encoder.decode(seen, np.array(scores)) == (wanted, True)
        if number and seen.future:
            assert encoder.decode(seen, np.where(np.arange(sum(room)) == room[0], math.nan, scores)) == (None, False)
        decision.answer(wanted + [place for place in range(number) if place not in wanted and rng.random() < 0.1])


@given(
    seed=st.integers(0, 10**6),
    num_resources=st.integers(1, 2),
    unit=st.sampled_from([3, 4, 10]),
    order=st.sampled_from(ORDERS),
)
@settings(max_examples=40, deadline=None)
def test_agents_start_what_fits_and_what_pays(seed: int, num_resources: int, unit: int, order: Any) -> None:
    cluster = random_cluster(Random(seed), num_resources, unit)  # which refuses what does not fit
    result = simulate(cluster, ListPlan(order))
    validate(result)
    for start, earliest, revenue in result.jobs.select("starting_time", "earliest_start", "revenue").iter_rows():
        assert start is None or revenue > 2 * (start - earliest)


def first_decision(jobs: list[Job], capacity: Any, **options: Any) -> Any:
    decision = Simulation(DeferrableCluster(jobs, capacity, **options)).advance()
    assert decision is not None
    return decision.observation


def test_a_large_job_gets_a_reservation_that_small_ones_respect() -> None:
    running = Job(1, 0, 0, 0, 2, 6.0)  # leaves 4 of 10 cores until slot 2
    large = Job(2, 1, 1, 2, 2, 10.0)  # by its window the most urgent: from slot 2 on
    long, short = Job(3, 1, 1, 5, 3, 4.0), Job(4, 1, 1, 9, 1, 4.0)
    starts: dict[str, list[float | None]] = {}
    for order in ORDERS:
        result = simulate(DeferrableCluster([running, large, long, short], [10.0], num_slots=12), ListPlan(order))  # type: ignore[arg-type]
        starts[order] = result.jobs.sort("job_id")["starting_time"].to_list()
        assert result.table("slots")["violation_cores"].sum() == 0
    # A rule that looks at one slot would start job 3 in slot 1, and job 2 would find no room in its window. Job 4 is
    # over before the large job needs its cores.
    assert starts == {order: [0.0, 2.0, 4.0, 1.0] for order in ORDERS}


def test_orders_differ_in_who_comes_first() -> None:
    urgent, worthy = Job(1, 0, 0, 0, 1, 6.0), Job(2, 0, 0, 3, 2, 6.0)
    seen = first_decision([urgent, worthy], [10.0])
    assert planned_starts(seen, "slack").tolist() == [0, 1]
    assert planned_starts(seen, "worth").tolist() == [-1, 0]
    assert ListPlan("slack").act(seen) == [0]
    assert ListPlan("worth").act(seen) == [1]
    assert planned_starts(seen, "best").tolist() == [0, 1]  # 6 + 12 - 2 is more than 12
    assert ListPlan().act(seen) == [0]


def test_the_best_of_plans_may_be_neither_of_the_two() -> None:
    # By worth and by slack jobs 1 and 3 share slots 0 and 1, and job 2 is two slots late; job 3 could be one slot late.
    jobs = [Job(1, 0, 0, 0, 2, 5.0), Job(2, 0, 0, 2, 1, 5.0), Job(3, 0, 0, 1, 3, 4.0)]
    seen = first_decision(jobs, [10.0], delay_weight=1.0)
    plans = {order: planned_starts(seen, order).tolist() for order in ORDERS}
    assert plans == {"worth": [0, 2, 0], "slack": [0, 2, 0], "best": [0, 0, 1]}


def test_jobs_to_come_are_planned_and_not_started() -> None:
    soon, now = Job(1, 0, 1, 1, 3, 8.0), Job(2, 0, 0, 9, 3, 4.0)
    seen = first_decision([soon, now], [10.0])
    assert planned_starts(seen, "slack").tolist() == [4, 1]  # those whose window is open stand first
    assert planned_starts(seen, "slack", 1).tolist() == [0, -1]
    assert ListPlan("slack").act(seen) == []
    assert ListPlan("slack", horizon=1).act(seen) == [0]


def test_what_costs_more_than_it_brings_is_not_started() -> None:
    blocking, job = Job(1, 0, 0, 0, 4, 9.0), Job(2, 0, 0, 9, 1, 8.0)
    seen = first_decision([blocking, job], [10.0], delay_weight=2.0)
    assert planned_starts(seen, "slack").tolist() == [0, -1]  # four slots late it would bring 8 - 4 x 2
    seen = first_decision([blocking, job], [10.0], delay_weight=1.75)
    assert planned_starts(seen, "slack").tolist() == [0, 4]


def test_of_equal_jobs_the_one_that_became_known_first_comes_first() -> None:
    seen = first_decision([Job(number, 0, 0, 3, 2, 2.0) for number in (7, 3, 5)], [4.0], delay_weight=1.0)
    for order in ORDERS:
        assert planned_starts(seen, order).tolist() == [0, 0, 2]  # type: ignore[arg-type]


def test_a_job_fits_however_short_is_what_it_does_not_need() -> None:
    jobs = [Job(1, 0, 0, 0, 9, 1.0, (2.0,)), Job(2, 0, 1, 5, 1, 1.0, (0.5,)), Job(3, 0, 1, 5, 1, 1.0, (0.0,))]
    simulation = Simulation(DeferrableCluster(jobs, [[4.0, 2.0], [4.0, 1.0]], resources=RESOURCES, num_slots=9))
    for wanted in ([0], [1]):
        decision = simulation.advance()
        assert decision is not None
        assert ListPlan().act(decision.observation) == wanted
        decision.answer(wanted)


def test_amounts_that_do_not_add_up_exactly_fill_what_is_free() -> None:
    seen = first_decision([Job(1, 0, 0, 0, 9, 0.1), Job(2, 0, 0, 9, 9, 0.2), Job(3, 0, 0, 9, 99, 0.001)], [0.3])
    for order in ORDERS:
        assert planned_starts(seen, order).tolist()[:2] == [0, 0]
        assert ListPlan(order).act(seen) == [0, 1]


def test_nothing_is_planned_where_there_is_nothing() -> None:
    seen = DeferrableObservation(("cores",), None, 2.0, np.ones(1))
    assert [planned_starts(seen, order).shape for order in ORDERS] == [(0,)] * len(ORDERS)
    assert ListPlan().act(seen) == []
    assert PlannedWaits().describe(seen).shape == (0, len(PlannedWaits.names))


@given(
    seed=st.integers(0, 10**6), num_resources=st.integers(1, 2), room=st.tuples(st.integers(1, 6), st.integers(1, 4))
)
@settings(max_examples=12, deadline=None)
def test_networks_are_told_when_plans_would_start_each_job(
    seed: int, num_resources: int, room: tuple[int, int]
) -> None:
    advice = PlannedWaits(horizon=30)
    assert advice.names == tuple(f"{what}_by_{order}" for order in ORDERS for what in ("starts_now", "planned_wait"))
    told, plain = (ScoreEncoder(room[0], num_resources, max_future_jobs=room[1], advice=one) for one in (advice, None))
    firsts = {"current": len(CURRENT_FEATURES), "future": len(FUTURE_FEATURES)}
    rng = Random(seed)
    simulation = Simulation(random_cluster(rng, num_resources, 4, overcommit=True))
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        rows, bare = told.encode(seen), plain.encode(seen)
        plans = [slow_plan(seen, order, 30) for order in ORDERS]
        known = len(seen.current)
        for name, most, chosen in (("current", room[0], slice(known)), ("future", room[1], slice(known, None))):
            first = firsts[name] + 2 * num_resources
            wanted = np.zeros((most, 2 * len(ORDERS)))
            for row, waits in enumerate(list(zip(*plans, strict=True))[chosen][:most]):
                numbers = [(float(wait == 0), 3.0 if wait < 0 else min(wait / 8, 3.0)) for wait in waits]
                wanted[row] = [number for pair in numbers for number in pair]
            np.testing.assert_array_equal(rows[name][:, :first], bare[name])
            np.testing.assert_allclose(rows[name][:, first:], wanted, rtol=1e-6)
        for name, space in told.observation_space.items():
            assert rows[name] in space, name
        decision.answer([place for place in range(known) if rng.random() < 0.2])


def test_advice_stays_within_bounds() -> None:
    class Loud:
        """Says too much."""

        names = ("one", "other")

        def describe(self, observation: DeferrableObservation) -> np.ndarray:
            """Return numbers that are out of range."""
            known = len(observation.current) + len(observation.future)
            return np.tile(np.array([1e9, -np.inf], np.float32), (known, 1))

    encoder = ScoreEncoder(3, max_future_jobs=2, advice=Loud())
    rows = encoder.encode(first_decision([Job(1, 0, 0, 1, 1, 1.0), Job(2, 0, 1, 1, 1, 1.0)], [2.0]))
    for name in ("current", "future"):
        assert rows[name] in encoder.observation_space[name]
        assert rows[name][:, -2:].tolist() == [[100.0, -100.0]] + [[0.0, 0.0]] * (len(rows[name]) - 1)


def test_refusals() -> None:
    with pytest.raises(InvalidConfiguration, match="order: got 'size', expected one of worth, slack"):
        ListPlan("size")  # type: ignore[arg-type]
    for horizon in (0, -3):
        with pytest.raises(InvalidConfiguration, match=f"horizon: got {horizon}, expected an integer >= 1"):
            ListPlan(horizon=horizon)
    assert [ListPlan(order).name for order in ORDERS] == ["list-plan-worth", "list-plan-slack", "list-plan"]
