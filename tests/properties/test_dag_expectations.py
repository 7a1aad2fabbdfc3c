"""What is expected of copies when they are assigned, and what executors are expected to do, against what happens."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from dag_agents import Anything, Logged, carry_out
from dag_reference import Reference, Scenario, random_scenario
from performing import perform

from desim import simulate
from desim.agents.dag import (
    DEFT,
    EFT,
    FIFO,
    HEFT,
    HRRN,
    CriticalPath,
    InsertionEFT,
    ListScheduler,
    Order,
    RandomOrder,
    RankUp,
)
from desim.problems.dag import Copy, ExecutorQueue
from desim.processes import random_outages

ORDERS: list[Callable[[], Order]] = [FIFO, HRRN, CriticalPath, RandomOrder, RankUp]


def expected_and_actual(scenario: Scenario, agent: Any, seed: int = 0) -> list[tuple[float, float]]:
    """Return starts and finishes as expected on assignment and as they were, of the copies that ran to their end."""
    cluster = scenario.cluster()
    expected: list[tuple[Copy, float, float]] = []
    cluster.on("assignment", lambda time, copy: expected.append((copy, copy.start, copy.finish)))
    result = simulate(cluster, agent, seed=seed)
    assert set(result.jobs["status"]) == {"completed"}
    ended = [entry for entry in expected if entry[0].has_finished]
    assert len(ended) >= sum(len(job.work) for job in scenario.jobs)
    return [pair for copy, start, finish in ended for pair in ((start, copy.start), (finish, copy.finish))]


@pytest.mark.parametrize("allocation", [EFT, InsertionEFT, HEFT])
def test_without_duplicates_what_is_expected_happens_to_the_bit(allocation: Callable[[], Any]) -> None:
    for seed in range(100):
        scenario = random_scenario(Random(f"bit {seed}"))
        agent: Any = ListScheduler(ORDERS[seed % len(ORDERS)](), allocation()) if allocation is not HEFT else HEFT()
        if allocation is HEFT:
            scenario = scenario._replace(plan_ahead=True)
        pairs = expected_and_actual(scenario, agent, seed)
        assert [pair for pair in pairs if pair[0] != pair[1]] == [], f"seed {seed}"


@pytest.mark.parametrize("order", ORDERS)
def test_with_duplicates_nothing_is_later_than_expected(order: Callable[[], Order]) -> None:
    for seed in range(30):
        pairs = expected_and_actual(random_scenario(Random(f"{order} {seed}")), ListScheduler(order(), DEFT()), seed)
        assert [pair for pair in pairs if pair[0] < pair[1]] == [], f"seed {seed}"


def test_nor_with_any_duplicates_in_any_place() -> None:
    earlier = 0
    for seed in range(40):
        scenario = random_scenario(Random(seed))
        pairs = expected_and_actual(scenario, Anything(scenario, str(seed), spare=False))
        assert [pair for pair in pairs if pair[0] < pair[1]] == [], f"seed {seed}"
        earlier += sum(expected > actual for expected, actual in pairs)
    assert earlier > 0


@pytest.mark.parametrize("name", ["anything", "DEFT", "HEFT"])
def test_ready_times_follow_what_happens(name: str) -> None:
    """They are kept between decisions: whatever moves copies, they are those of the copies as they are now."""
    for seed in range(25):
        scenario = random_scenario(Random(f"ready {name} {seed}"))._replace(plan_ahead=True)
        agents = {"anything": Anything(scenario, str(seed), spare=True), "DEFT": ListScheduler(FIFO()), "HEFT": HEFT()}
        cluster = scenario.cluster(processes=[] if name == "anything" else [random_outages(60.0, 4.0)])
        simulate(cluster, Asking(agents[name]), seed=seed, until=1000)


class Asking(Logged):
    """Ask for the ready times of all nodes at every decision."""

    def act(self, observation: Any) -> Any:
        for state in observation.jobs.values():
            for node, parents in enumerate(state.job.parent_lists):
                ready = state.ready_times(node).tolist()
                for executor, time in enumerate(ready):
                    ways = [
                        [state.arrival_from(copy, size, executor, observation.time) for copy in state.copies[parent]]
                        for parent, size in parents
                    ]
                    assert time == max((min(way, default=math.inf) for way in ways), default=0.0)
        return super().act(observation)


class Checking(Logged):
    """Compare what an agent sees with the reference, which knows nothing of expectations: a clone runs to its end."""

    def __init__(self, scenario: Scenario, agent: Any) -> None:
        super().__init__(agent)
        self.reference = Reference(scenario)

    def act(self, observation: Any) -> Any:
        self.reference.advance(observation.time)
        clone = self.reference.clone()
        clone.advance(math.inf)
        self.compare(observation, clone)
        action = super().act(observation)
        for single in self.log[-1][1]:
            carry_out(self.reference, single)
        return action

    def compare(self, observation: Any, clone: Reference) -> None:
        now = observation.time
        available, last_ends = observation.available_times, observation.last_gap_ends
        for executor, table in observation.executor_queues.items():
            there = [copy for copy in clone.copies if copy.executor == executor]
            waits = [copy for copy in there if self.waits(copy, clone)]
            assert sorted(copy.start for copy in waits) == [copy.start for copy in table.waiting]
            assert available[executor] == max([now, *(copy.finish for copy in there)])
            assert table.gaps == gaps_of(table)
            assert last_ends[executor] == (table.gaps[-1][1] if table.gaps else -math.inf)
        for state in observation.jobs.values():
            for node, parents in enumerate(state.job.parent_lists):
                if parents and state.assigned[[parent for parent, _ in parents]].all():
                    self.compare_arrivals(state, node, clone)

    def waits(self, copy: Any, clone: Reference) -> bool:
        queues = self.reference.queues
        return clone.copies.index(copy) in {self.reference.copies.index(other) for queue in queues for other in queue}

    def compare_arrivals(self, state: Any, node: int, clone: Reference) -> None:
        scenario, job = clone.scenario, state.job.job_id
        for executor in range(len(scenario.speeds)):
            ready = 0.0
            for row, (parent, size) in enumerate(sorted(scenario.parents(job, node))):
                arrivals = []
                for copy in clone.copies_of(job, parent):
                    begin = copy.finish
                    if copy.executor != executor and not scenario.when_finished:
                        begin = max(begin, self.reference.now)
                    arrivals.append(begin + scenario.transfer(copy.executor, executor, size))
                assert state.arrivals(node)[row, executor] == min(arrivals)
                ready = max(ready, min(arrivals))
            assert state.ready_times(node)[executor] == ready == state.ready_time(node, executor)


def gaps_of(table: ExecutorQueue) -> list[tuple[float, float]]:
    """Return the idle times before waiting copies."""
    time = table.free_since if table.running is None else table.running.finish
    gaps = []
    for copy in table.waiting:
        if copy.start > time:
            gaps.append((time, copy.start))
        time = copy.finish
    return gaps


@pytest.mark.parametrize("agent", [HEFT, lambda: ListScheduler(FIFO(), EFT()), lambda: ListScheduler(HRRN(), EFT())])
def test_agents_see_what_will_happen(agent: Callable[[], Any]) -> None:
    for seed in range(30):
        scenario = random_scenario(Random(f"sees {seed}"), most=10)
        if agent is HEFT:
            scenario = scenario._replace(plan_ahead=True)
        perform(scenario.cluster(), Checking(scenario, agent()))


def brute_gap(table: ExecutorQueue, now: float, ready: float, duration: float) -> tuple[float, int] | None:
    """Try all idle times before waiting copies, in order."""
    for begin, end in gaps_of(table):
        start = max(begin, ready)
        if start < end and start + duration <= end and start >= now:
            return start, sum(copy.start < end for copy in table.waiting)
    return None


def test_the_earliest_gap_is_that_of_trying_all() -> None:
    found = []

    class Trying(Logged):
        def act(self, observation: Any) -> Any:
            for table in observation.executor_queues.values():
                for ready in [observation.time + later for later in (0, 0.25, 1, 3, 7.3, 20)]:
                    for duration in (0, 0.25, 1, 4, 11.7):
                        gap = table.earliest_gap(ready, duration)
                        assert gap == brute_gap(table, observation.time, ready, duration)
                        found.append(gap)
            return super().act(observation)

    for seed in range(40):
        scenario = random_scenario(Random(f"gaps {seed}"))._replace(plan_ahead=True)
        perform(scenario.cluster(), Trying(HEFT()))
    assert sum(gap is not None for gap in found) > 500
