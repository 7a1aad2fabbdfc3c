"""Nodes that run task by task: the same jobs, cut into smaller pieces."""

from __future__ import annotations

import math
import re
from random import Random
from typing import Any

import numpy as np
import pytest
from dag_scripts import Script, outage

from desim import InfeasibleAction, InvalidConfiguration, Result, Simulation, simulate
from desim.agents.dag import EFT, FIFO, HRRN, SJF, CriticalPath, InsertionEFT, ListScheduler, RandomOrder, RankUp
from desim.problems.dag import (
    Assign,
    DagObservation,
    Executors,
    Job,
    TaskCluster,
    TaskCopy,
    TaskState,
    TaskTimes,
)
from desim.processes import Outage, planned_outages, random_outages
from tests.properties.dag_reference import random_scenario
from tests.validation.dag_runs import random_executors, random_task_job

RUNS = ("node", "task", "executor", "starting_time", "finish_time")


def run(jobs: Job | list[Job], executors: Executors, *answers: Any, seed: int = 0, **options: Any) -> Result:
    given = [jobs] if isinstance(jobs, Job) else jobs
    agent = Script(*answers) if answers else ListScheduler(FIFO(), EFT())
    return simulate(TaskCluster(given, executors, **options), agent, seed=seed)


def runs(result: Result) -> list[tuple[Any, ...]]:
    return result.table("copies").select(RUNS).sort("starting_time", "executor", "node", "task").rows()


def agents() -> list[ListScheduler]:
    orders = [FIFO(), SJF(), HRRN(), RankUp(), CriticalPath(), RandomOrder()]
    return [ListScheduler(order, EFT()) for order in orders] + [ListScheduler(RankUp(), InsertionEFT())]


def many(node: int, executor: int, count: int) -> list[Assign]:
    """Return assignments of several tasks of a node of job 1."""
    return [Assign(1, node, executor)] * count


# -- one task a node is a node ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_with_one_task_a_node_everything_is_as_with_whole_nodes(seed: int) -> None:
    scenario = random_scenario(Random(seed))._replace(plan_ahead=False)
    for agent in agents()[seed % 3 :: 3]:
        for losing in (None, True, False):
            processes = [] if losing is None else [random_outages(100.0, 15.0)]
            cluster = scenario.cluster(outages_lose_data=bool(losing), processes=processes)
            other = scenario.cluster(TaskCluster, outages_lose_data=bool(losing), processes=processes)
            results = [simulate(each, agent, seed=seed, until=2000.0) for each in (cluster, other)]
            for name in results[0].table_names:  # to the last bit
                tables = [result.table(name) for result in results]
                if name in ("copies", "transfers"):
                    tables = [table.sort(table.columns) for table in tables]
                assert tables[0].equals(tables[1]), (agent.name, name)


# -- what follows from the model by hand --------------------------------------------------------------


def test_tasks_of_a_stage_run_in_parallel_and_the_next_stage_waits_for_all() -> None:
    job = Job(1, [9.0, 4.0], [(0, 1, 0.0)], num_tasks=[3, 2])
    result = run(job, Executors([1.0, 1.0]))
    assert runs(result) == [(0, 0, 0, 0, 3), (0, 1, 1, 0, 3), (0, 2, 0, 3, 6), (1, 0, 0, 6, 8), (1, 1, 1, 6, 8)]
    assert result.jobs["finish_time"].to_list() == [8]


def test_a_task_takes_its_part_of_the_work_at_the_speed_of_its_executor() -> None:
    result = run(Job(1, [12.0], num_tasks=[3]), Executors([1.0, 2.0]), [*many(0, 1, 2), Assign(1, 0, 0)])
    assert runs(result) == [(0, 2, 0, 0, 4), (0, 0, 1, 0, 2), (0, 1, 1, 2, 4)]


@pytest.mark.parametrize("transfers", ["when_finished", "when_assigned"])
def test_a_task_receives_its_share_from_every_executor_that_ran_the_parent(transfers: str) -> None:
    # 3 of 4 tasks on executor 0, until 3; one on executor 1, until 1. Each of two children gets half of 16 units:
    # 6 from executor 0 and 2 from executor 1. The last task is assigned at 3, when the parent has finished.
    job = Job(1, [4.0, 2.0], [(0, 1, 16.0)], num_tasks=[4, 2])
    first = [*many(0, 0, 3), Assign(1, 0, 1)]
    result = run(job, Executors([1.0, 1.0], 2.0), first, [Assign(1, 1, 0), Assign(1, 1, 1)], transfers=transfers)
    late = transfers == "when_assigned"
    columns = ("task", "source", "destination", "starting_time", "arrival_time", "size")
    assert result.table("transfers").select(columns).sort(columns).rows() == [
        (0, 0, 0, 3, 3, 6),
        (0, 1, 0, 3 if late else 1, 4 if late else 2, 2),
        (1, 0, 1, 3, 6, 6),
        (1, 1, 1, 1, 1, 2),
    ]
    assert [row[3] for row in runs(result)[4:]] == [4 if late else 3, 6]


def test_an_executor_moves_before_it_runs_a_task_of_another_job() -> None:
    jobs = [Job(1, [3.0], num_tasks=[3]), Job(2, [1.0]), Job(3, [1.0], submission_time=10.0)]
    answers = [Assign(1, 0, 0), Assign(1, 0, 0), Assign(2, 0, 0), Assign(1, 0, 0)], Assign(3, 0, 0)
    result = run(jobs, Executors([1.0]), *answers, moving_delay=2.0)
    columns = ("job_id", "receiving_time", "starting_time", "finish_time")
    assert result.table("copies").select(columns).rows() == [
        (1, 0, 0, 1),
        (1, 1, 1, 2),
        (2, 2, 4, 5),
        (1, 5, 7, 8),
        (3, 10, 12, 13),
    ]


def test_data_arrive_while_an_executor_moves() -> None:
    jobs = [Job(1, [1.0, 1.0], [(0, 1, 3.0)]), Job(2, [1.0])]
    answers = [Assign(1, 0, 0), Assign(2, 0, 1)], Assign(1, 1, 1)
    for delay, start in ((2.0, 4.0), (5.0, 6.0)):
        result = run(jobs, Executors([1.0, 1.0], 1.0), *answers, moving_delay=delay)
        assert result.table("copies").filter(node=1)["starting_time"].to_list() == [start]


# -- drawn durations ----------------------------------------------------------------------------------


def known_times(*counts: int) -> TaskTimes:
    """Return times that tell wave and number of executors: fresh 100, first 10, rest 1, times the number."""
    return TaskTimes(
        counts,
        fresh=[[100.0 * count] for count in counts],
        first=[[100.0 * count, 10.0 * count] for count in counts],
        rest=[[1.0 * count] for count in counts],
    )


def durations(result: Result) -> dict[tuple[int, int, int], float]:
    rows = result.table("copies").filter(outcome="completed").rows(named=True)
    return {(row["job_id"], row["node"], row["task"]): row["finish_time"] - row["starting_time"] for row in rows}


def test_the_wave_of_a_task_is_what_its_executor_ran_before() -> None:
    job = Job(1, [1.0, 1.0], [(0, 1, 0.0)], num_tasks=[3, 2], task_times=[known_times(1)] * 2)
    assert durations(run(job, Executors([1.0]))) == {
        (1, 0, 0): 100,
        (1, 0, 1): 1,
        (1, 0, 2): 1,
        (1, 1, 0): 10,
        (1, 1, 1): 1,
    }


def test_an_executor_that_comes_back_to_a_job_is_not_new_to_it() -> None:
    jobs = [
        Job(k, [1.0, 1.0], num_tasks=[2, 1], task_times=[known_times(1)] * 2, allow_disconnected=True) for k in (1, 2)
    ]
    order = [(1, 0), (2, 0), (1, 0), (1, 0 + 1), (2, 1), (2, 0)]
    result = run(jobs, Executors([1.0]), [Assign(job, node, 0) for job, node in order])
    rows = result.table("copies").select("job_id", "node", "starting_time", "finish_time").rows()
    assert [finish - start for _, _, start, finish in rows] == [100, 100, 10, 10, 10, 10]


def test_after_an_outage_it_is() -> None:
    job = Job(1, [1.0], num_tasks=[2], task_times=[known_times(1)])
    answers = (Assign(1, 0, 0), None, None, None, Assign(1, 0, 0))  # asked at 0 twice, at 100, 100.5 and 101
    outages = planned_outages([Outage(100.5, 101.0, executors=[0])])
    result = run(job, Executors([1.0]), *answers, processes=[outages], outages_lose_data=False)
    assert durations(result) == {(1, 0, 0): 100, (1, 0, 1): 100}


def test_the_executors_of_a_job_are_those_that_ran_a_task_of_it_last() -> None:
    jobs = [Job(1, [1.0], num_tasks=[4], task_times=[known_times(1, 2, 3)]), Job(2, [1.0], task_times=[known_times(1)])]
    tasks = [Assign(1, 0, 0), Assign(1, 0, 1), Assign(1, 0, 2), Assign(2, 0, 1), Assign(1, 0, 0)]
    result = run(jobs, Executors([1.0] * 3), [*tasks[:3]], [tasks[3], tasks[4]])
    # Executors 0, 1, 2 begin at 0 one after the other; when executor 0 goes on at 100, all three are with job 1.
    assert durations(result) == {(1, 0, 0): 100, (1, 0, 1): 200, (1, 0, 2): 300, (2, 0, 0): 100, (1, 0, 3): 3}
    result = run(jobs, Executors([1.0, 1.0, 1.0]), [tasks[0], tasks[3], tasks[4]], [tasks[1], tasks[2]])
    assert durations(result)[1, 0, 0] == 100


def test_an_executor_that_has_left_a_job_no_longer_counts() -> None:
    jobs = [Job(1, [1.0], num_tasks=[3], task_times=[known_times(1, 2)]), Job(2, [1.0], task_times=[known_times(1)])]
    queue = [Assign(1, 0, 0), Assign(1, 0, 1), Assign(2, 0, 0), Assign(1, 0, 1)]
    assert durations(run(jobs, Executors([1.0, 1.0]), queue)) == {
        (1, 0, 0): 100,
        (1, 0, 1): 200,
        (2, 0, 0): 100,  # executor 0 has left job 1 when this begins at 100
        (1, 0, 2): 1,
    }


def test_agents_see_means_and_records_tell_what_was_drawn() -> None:
    times = TaskTimes([1], [[1.0, 5.0]], [[1.0, 5.0]], [[3.0, 3.0]])
    simulation = Simulation(TaskCluster([Job(1, [1.0], num_tasks=[40], task_times=[times])], Executors([1.0] * 40)))
    decision = simulation.advance()
    assert decision is not None
    state = decision.observation.jobs[1]
    assert isinstance(state, TaskState) and state.run_times[0].tolist() == [3.0] * 40
    decision.answer([Assign(1, 0, executor) for executor in range(40)])
    assert simulation.advance() is None
    assert set(durations(simulation.finish()).values()) == {1.0, 5.0}


def test_agents_face_the_same_chances() -> None:
    rng = np.random.default_rng(1)
    values = rng.exponential(5, 50)
    times = TaskTimes([1, 9], [values] * 2, [values] * 2, [values] * 2)  # neither wave nor number matter
    jobs = [
        Job(k, [1.0, 1.0], [(0, 1, 1.0)], num_tasks=[8, 6], task_times=[times] * 2, submission_time=float(k))
        for k in range(3)
    ]
    cluster = TaskCluster(jobs, Executors([1.0] * 4, 1.0))
    drawn = [durations(simulate(cluster, agent, seed=3)) for agent in agents()]
    assert len(set(drawn[0].values())) > 20
    for other in drawn[1:]:
        assert other == pytest.approx(drawn[0])
    assert durations(simulate(cluster, agents()[0], seed=4)) != pytest.approx(drawn[0])


def test_tasks_draw_independently() -> None:
    values = np.arange(1000.0)
    times = TaskTimes([1], [values], [values], [values])
    jobs = [Job(k, [1.0] * 2, [(0, 1, 0.0)], num_tasks=[30, 30], task_times=[times] * 2) for k in (0, -1, 2**62)]
    drawn = list(durations(run(jobs, Executors([1.0] * 5))).values())
    assert len(drawn) == 180 and len({round(value) for value in drawn}) > 150
    assert abs(np.mean(drawn) - 499.5) < 4 * 289 / math.sqrt(180)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.3


# -- outages ------------------------------------------------------------------------------------------


def test_running_and_waiting_tasks_are_assigned_again_and_finished_ones_of_the_last_stage_are_not() -> None:
    job = Job(1, [8.0], num_tasks=[4])
    answers = [*many(0, 0, 3), Assign(1, 0, 1)], many(0, 1, 2)
    result = run(job, Executors([1.0, 1.0]), *answers, processes=[outage(3, 9, 0)])
    assert result.table("copies").select("task", "executor", "starting_time", "outcome").sort("task").rows() == [
        (0, 0, 0, "completed"),
        (1, 0, 2, "interrupted"),
        (1, 1, 3, "completed"),
        (2, 0, None, "withdrawn"),
        (2, 1, 5, "completed"),
        (3, 1, 0, "completed"),
    ]


def test_only_the_tasks_whose_results_are_lost_and_needed_run_again() -> None:
    # Executor 0 ran tasks 0 and 1 of stage 0, executor 1 the others; 0 fails before the results are sent.
    job = Job(1, [4.0, 2.0], [(0, 1, 8.0)], num_tasks=[4, 2])
    first = [*many(0, 0, 2), *many(0, 1, 2)]
    answers = first, many(1, 1, 2), many(0, 1, 2), many(1, 1, 2)
    result = run(job, Executors([1.0, 1.0], 1.0), *answers, processes=[outage(2.5, 99, 0)])
    outcome = ("node", "task", "executor", "starting_time", "outcome")
    assert result.table("copies").select(outcome).sort("node", "task", "starting_time", nulls_last=False).rows() == [
        (0, 0, 0, 0, "completed"),
        (0, 0, 1, 2.5, "completed"),
        (0, 1, 0, 1, "completed"),
        (0, 1, 1, 3.5, "completed"),
        (0, 2, 1, 0, "completed"),
        (0, 3, 1, 1, "completed"),
        (1, 0, 1, None, "withdrawn"),
        (1, 0, 1, 4.5, "completed"),
        (1, 1, 1, None, "withdrawn"),
        (1, 1, 1, 5.5, "completed"),
    ]


def test_nothing_runs_again_if_outages_lose_no_data() -> None:
    job = Job(1, [4.0, 2.0], [(0, 1, 8.0)], num_tasks=[4, 2])
    answers = [*many(0, 0, 2), *many(0, 1, 2)], many(1, 1, 2)
    result = run(job, Executors([1.0, 1.0], 1.0), *answers, processes=[outage(2.5, 99, 0)], outages_lose_data=False)
    assert runs(result)[4:] == [(1, 0, 1, 4, 5), (1, 1, 1, 5, 6)]


def test_what_has_arrived_stays_with_the_task_that_waits() -> None:
    # The shares of executor 0, 2 units each, arrive at 1 + 2 = 3; executor 1 is busy with task 1 of stage 0 until 4.
    job = Job(1, [1.0, 4.0, 2.0], [(0, 2, 4.0), (1, 2, 0.0)], num_tasks=[1, 1, 2])
    answers = [Assign(1, 0, 0), Assign(1, 1, 1)], many(2, 1, 2)
    result = run(job, Executors([1.0, 1.0], 1.0), *answers, processes=[outage(4.5, 99, 0)])
    assert runs(result)[2:] == [(2, 0, 1, 4, 5), (2, 1, 1, 5, 6)]


def test_results_that_were_not_needed_any_more_may_be_needed_later() -> None:
    # Stage 1 has its data when executor 0 is lost at 2.5; then executor 1 with task 0 of stage 1 is lost at 3.2, so
    # that stage 0 has to run again as a whole, while task 1 of stage 1 goes on on executor 2.
    job = Job(1, [2.0, 8.0], [(0, 1, 1.0)], num_tasks=[2, 2])
    answers = (
        [Assign(1, 0, 0), Assign(1, 0, 1)],
        [Assign(1, 1, 1), Assign(1, 1, 2)],
        many(0, 2, 2),
        Assign(1, 1, 2),
    )
    outages = [planned_outages([Outage(2.5, 99, executors=[0]), Outage(3.2, 99, executors=[1])])]
    result = run(job, Executors([1.0] * 3, 1.0), *answers, processes=outages)
    assert [row[:4] for row in runs(result)] == [
        (0, 0, 0, 0),
        (0, 1, 1, 0),
        (1, 0, 1, 1.25),
        (1, 1, 2, 1.25),
        (0, 0, 2, 5.25),
        (0, 1, 2, 6.25),
        (1, 0, 2, 7.25),
    ]


# -- whole runs ---------------------------------------------------------------------------------------


def test_what_is_on_an_executor_need_not_be_sent_there() -> None:
    simulation = Simulation(
        TaskCluster(
            [Job(1, [1.0, 1.0], [(0, 1, 4.0)]), Job(2, [1.0], submission_time=9.0)],
            Executors([1.0, 1.0], 1.0),
            transfers="when_assigned",
        )
    )
    for answer in (Assign(1, 0, 0), None):
        decision = simulation.advance()
        assert decision is not None
        decision.answer(answer)
    decision = simulation.advance()
    assert decision is not None and decision.observation.time == 9
    state = decision.observation.jobs[1]
    assert state.arrivals(1).tolist() == [[1, 13]]
    assert [state.shares(1, executor).arrivals.tolist() for executor in (0, 1)] == [[1], [13]]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("transfers", ["when_finished", "when_assigned"])
def test_expected_times_follow_from_means_and_what_has_happened(transfers: Any, seed: int) -> None:
    class Watcher:
        name = "watcher"
        asked = 0

        def __init__(self) -> None:
            self.agent = ListScheduler(RankUp(), EFT())

        def act(self, observation: DagObservation) -> Any:
            Watcher.asked += 1
            for executor, table in observation.executor_queues.items():
                time = observation.time
                if table.running is not None:
                    time = max(time, table.running.finish)
                for copy in table.waiting:
                    assert isinstance(copy, TaskCopy)
                    assert copy.start == max(time, copy.shares.ready)
                    time = copy.finish
                assert observation.available_times[executor] == time
            for state, node in observation.ready.values():
                assert isinstance(state, TaskState)
                ready = [state.shares(node, executor).ready for executor in range(len(observation.executor_queues))]
                assert ready == state.ready_times(node).tolist()
            return self.agent.act(observation)

    rng = np.random.default_rng(seed)
    jobs = [random_task_job(rng, number, 8, whole=False, executors=4, time=9.0 * number) for number in range(6)]
    executors = random_executors(rng, 4, whole=False)
    simulate(TaskCluster(jobs, executors, transfers=transfers, moving_delay=8.0), Watcher())
    assert Watcher.asked > 20


def test_what_waits_behind_a_task_that_was_quick_is_expected_earlier() -> None:
    quick = TaskTimes([1], [[1.0]], [[1.0, 9.0]], [[]])  # 5 in the mean, 1 on an executor that is new to the job
    jobs = [Job(1, [1.0], task_times=[quick]), Job(2, [3.0]), Job(3, [1.0], submission_time=2.0)]
    simulation = Simulation(TaskCluster(jobs, Executors([1.0]), moving_delay=10.0))
    decision = simulation.advance()
    assert decision is not None
    decision.answer([Assign(1, 0, 0), Assign(2, 0, 0)])
    assert decision.observation.available_times.tolist() == [8]
    decision = simulation.advance()
    assert decision is not None and decision.observation.time == 2
    (waiting,) = decision.observation.executor_queues[0].waiting
    assert (waiting.start, waiting.finish) == (2, 5)
    assert decision.observation.available_times.tolist() == [5]


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Assign(1, 0, 0, (0,)), "job 1 node 0 cannot be assigned again: tasks cannot be duplicated"),
        (Assign(1, 1, 0), "job 1 node 1 cannot be assigned: parent 0 has no copy"),
        ([*many(0, 0, 3), Assign(1, 0, 1)], "job 1 node 0 cannot be assigned again: tasks cannot be duplicated"),
        ("go", "action: got 'go', expected an Assign, a list of them, or None"),
        ({"plan_ahead": True}, "plan_ahead: got True, expected False"),
        ({"moving_delay": -1.0}, "moving_delay: got -1.0, expected a finite number >= 0"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    job = Job(1, [6.0, 1.0], [(0, 1, 0.0)], num_tasks=[3, 1])
    options = make if isinstance(make, dict) else {}
    with pytest.raises((InfeasibleAction, InvalidConfiguration), match=re.escape(message)):
        run(job, Executors([1.0, 1.0]), make, **options)
