"""The list schedulers of DAG jobs do the same as plain ones written from their definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from dag_references import (
    Key,
    Schedule,
    by_path,
    by_rank,
    by_size,
    by_submission,
    cpop,
    dls,
    heft,
    list_schedule,
    peft,
    place_deft,
    place_eft,
    place_inserted,
    place_inserted_deft,
    random_instance,
    schedule_of,
)

from desim import simulate
from desim.agents.dag import (
    CPOP,
    DEFT,
    DLS,
    EFT,
    FIFO,
    HEFT,
    HRRN,
    PEFT,
    SJF,
    CriticalPath,
    InsertionDEFT,
    InsertionEFT,
    ListScheduler,
    RandomOrder,
    RankUp,
)
from desim.core import Agent
from desim.problems.dag import DagCluster, DagObservation, Executors, Job

Reference = Callable[[Sequence[Job], Executors], Schedule]


def planned(jobs: list[Job], executors: Executors, agent: Agent) -> Schedule:
    """Return what an agent plans, as it was executed."""
    return schedule_of(simulate(DagCluster(jobs, executors, plan_ahead=True), agent))


@pytest.mark.parametrize("first", range(0, 320, 40))
def test_heft(first: int) -> None:
    for seed in range(first, first + 40):
        jobs, executors = random_instance(seed, staggered=seed % 2 == 0)
        assert planned(jobs, executors, HEFT()) == heft(jobs, executors), seed


@pytest.mark.parametrize(("make", "reference"), [(CPOP, cpop), (DLS, dls), (PEFT, peft)])
@pytest.mark.parametrize("first", range(1000, 1120, 40))
def test_other_published_ones(make: Callable[[], Agent], reference: Reference, first: int) -> None:
    for seed in range(first, first + 40):
        jobs, executors = random_instance(seed, staggered=seed % 2 == 0)
        assert planned(jobs, executors, make()) == reference(jobs, executors), seed


@pytest.mark.parametrize(("order", "keys"), [(RankUp, by_rank), (CriticalPath, by_path), (FIFO, by_submission)])
@pytest.mark.parametrize(("allocation", "place"), [(EFT, place_eft), (InsertionEFT, place_inserted)])
def test_orders_with_allocations(order: Any, keys: Any, allocation: Any, place: Any) -> None:
    for seed in range(2000, 2020):
        jobs, executors = random_instance(seed, staggered=seed % 2 == 0)
        gantt, _ = list_schedule(jobs, executors, lambda batch: keys(batch, executors), place)  # noqa: B023
        assert planned(jobs, executors, ListScheduler(order(), allocation())) == gantt.schedule(), seed


class Listening:
    """Notes what an agent answers."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.answers: list[tuple[Key, tuple[int, tuple[int, ...]]]] = []

    def reset(self, info: Any, rng: Any) -> None:
        self.agent.reset(info, rng)

    def act(self, observation: DagObservation) -> Any:
        answer = self.agent.act(observation)
        self.answers.append(((answer.job_id, answer.node), (answer.executor, answer.duplicates)))
        return answer


@pytest.mark.parametrize(
    ("order", "keys"),
    [(RankUp, by_rank), (CriticalPath, by_path), (FIFO, by_submission), (SJF, by_size), (HRRN, by_submission)],
)
@pytest.mark.parametrize(("allocation", "place"), [(DEFT, place_deft), (InsertionDEFT, place_inserted_deft)])
def test_deft_decides_as_all_choices_tried_one_by_one(order: Any, keys: Any, allocation: Any, place: Any) -> None:
    duplicates = 0
    for seed in range(3000, 3040):
        jobs, executors = random_instance(seed)
        gantt, answers = list_schedule(jobs, executors, lambda batch: keys(batch, executors), place)  # noqa: B023
        agent = Listening(ListScheduler(order(), allocation()))
        result = simulate(DagCluster(jobs, executors, plan_ahead=True), agent)
        assert [answer for _, answer in agent.answers] == answers, seed
        assert {key for key, _ in agent.answers} == set(gantt.copies)
        planned_finish = max(min(finish for _, _, finish in copies) for copies in gantt.copies.values())
        assert result.jobs["finish_time"].max() <= planned_finish  # a later copy may bring data earlier
        duplicates += sum(len(copied) for _, copied in answers)
    assert duplicates > 15


class Comparing:
    """Checks each answer of DEFT against EFT for the same node, and what was promised against what is planned."""

    def __init__(self, agent: ListScheduler) -> None:
        self.agent = agent
        self.promises: list[tuple[Any, float]] = []
        self.duplicates = 0

    def reset(self, info: Any, rng: Any) -> None:
        self.agent.reset(info, rng)

    def act(self, observation: DagObservation) -> Any:
        answer = self.agent.act(observation)
        state = observation.jobs[answer.job_id]
        free = observation.available_times.tolist()
        rows = state.run_times.tolist()
        ready = state.ready_times(answer.node).tolist()
        eft = min(max(free[executor], ready[executor]) + rows[answer.node][executor] for executor in range(len(free)))
        time, executor = free[answer.executor], answer.executor
        for node in answer.duplicates:
            time = max(time, state.ready_time(node, executor)) + rows[node][executor]
        parents = state.job.parent_lists[answer.node]
        for number, (parent, _) in enumerate(parents):
            if parent not in answer.duplicates:
                time = max(time, state.arrivals(answer.node)[number, executor].item())
        finish = time + rows[answer.node][executor]
        assert finish < eft if answer.duplicates else finish == eft
        self.duplicates += len(answer.duplicates)
        for copies, promised in self.promises:  # of the decision before
            assert copies[-1].finish == promised
        self.promises = [(state.copies[answer.node], finish)]
        return answer


@pytest.mark.parametrize("plan_ahead", [False, True])
def test_deft_never_finishes_a_node_later_than_eft(plan_ahead: bool) -> None:
    duplicates = 0
    for seed in range(4000, 4040):
        jobs, executors = random_instance(seed, staggered=True)
        agent = Comparing(ListScheduler(RankUp(), DEFT()))
        simulate(DagCluster(jobs, executors, plan_ahead=plan_ahead), agent)
        duplicates += agent.duplicates
    assert duplicates > 30


@pytest.mark.parametrize("plan_ahead", [False, True])
@pytest.mark.parametrize("order", [RankUp, FIFO, RandomOrder])
def test_deft_never_duplicates_what_moves_in_no_time(plan_ahead: bool, order: Any) -> None:
    for seed in range(5000, 5030):
        jobs, executors = random_instance(seed, staggered=True, transfers="none")
        tables = [
            simulate(
                DagCluster(jobs, executors, plan_ahead=plan_ahead), ListScheduler(order(), allocation()), seed=seed
            ).table("copies")
            for allocation in (DEFT, EFT)
        ]
        assert not tables[0]["duplicate"].any()
        assert tables[0].equals(tables[1])


def test_a_job_may_have_the_number_of_one_that_has_ended() -> None:
    first = Job(1, [1.0, 1.0], [(0, 1, 1.0)])
    second = Job(1, [4.0, 1.0, 2.0, 9.0], [(0, 3, 1.0), (1, 3, 1.0), (2, 3, 1.0)], submission_time=50.0)
    executors = Executors([1.0])
    for agent in (HEFT(), CPOP(), PEFT(), DLS(), ListScheduler(FIFO()), ListScheduler(HRRN())):
        cluster = DagCluster([first, second], executors, plan_ahead=True)
        started = simulate(cluster, agent).table("copies")["starting_time"].to_list()
        assert sorted(started)[:3] == [0.0, 1.0, 50.0]
    cluster = DagCluster([first, second], executors, plan_ahead=True)
    nodes = simulate(cluster, HEFT()).table("copies").sort("starting_time")["node"].to_list()
    assert nodes == [0, 1, 0, 2, 1, 3]
