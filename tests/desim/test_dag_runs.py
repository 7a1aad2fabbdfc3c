"""Whole runs: the same again and again, forked, cut, streamed, listened to, with jobs from processes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import simpy
from dag_scripts import Scripted, assign, chain, cluster_of, outcomes, run
from small_agents import python

from desim import simulate
from desim.agents.dag import DEFT, FIFO, HRRN, InsertionEFT, ListScheduler, RandomOrder, RankUp
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import Assign, DagCluster, Executors, Job, TaskTimes
from desim.processes import Outage, random_outages

AGENTS: list[Callable[[], Any]] = [
    lambda: ListScheduler(RankUp(), DEFT()),
    lambda: ListScheduler(HRRN(), InsertionEFT()),
    lambda: ListScheduler(RandomOrder()),
]


def random_jobs(
    count: int, seed: int = 0, interval: float = 5.0, *, tasks: bool = False, measured: bool = False
) -> Iterator[Job]:
    """Make jobs one after the other, whose nodes may consist of tasks, perhaps of measured durations."""
    rng, time = Random(seed), 0.0
    for job_id in range(count):
        nodes = rng.randint(1, 8)
        edges = [
            (parent, child, rng.expovariate(0.5))
            for child in range(1, nodes)
            for parent in sorted(rng.sample(range(child), min(child, rng.randint(1, 3))))
        ]
        more: dict[str, Any] = {}
        if tasks:
            more["num_tasks"] = [rng.randint(1, 5) for _ in range(nodes)]
        if measured:
            more["task_times"] = [TaskTimes([1], [[]], [[]], [[rng.expovariate(0.3) for _ in range(20)]])] * nodes
        yield Job(job_id, [rng.expovariate(0.3) for _ in range(nodes)], edges, submission_time=time, **more)
        time += rng.expovariate(1 / interval)


def cluster(**options: Any) -> DagCluster:
    settings: dict[str, Any] = {"processes": [random_outages(40.0, 5.0)]}
    return DagCluster(list(random_jobs(20)), Executors([1, 1.5, 2], 1.5, 0.1), **settings | options)


RUN = """
import os, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from desim import simulate
from test_dag_runs import AGENTS, cluster
for number, agent in enumerate(AGENTS):
    simulate(cluster(plan_ahead=number == 1), agent(), seed=7).save(os.path.join(sys.argv[1], str(number)))
"""


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    for directory, hash_seed in (("one", "0"), ("two", "424242")):
        done = python(RUN, str(tmp_path / directory), PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("one", "two")
    )
    assert len(one) >= 8 * len(AGENTS)
    assert one == two


def test_until_cuts_a_run() -> None:
    jobs = [chain(9), Job(2, [9]), Job(4, [1]), Job(5, [1], submission_time=5)]
    script = [(0, [*assign((0, 0)), Assign(2, 0, 0), Assign(4, 0, 1)]), (1, assign((1, 1)))]
    result, _ = run(jobs, script, until=5)
    assert outcomes(result) == [
        (1, 0, 0, 0, 1, "completed"),
        (4, 0, 1, 0, 1, "completed"),
        (2, 0, 0, 1, None, "running"),
        (1, 1, 1, None, None, "queued"),
    ]
    columns = ["job_id", "starting_time", "finish_time", "status"]
    rows = [(1, 0, None, "running"), (2, 1, None, "running"), (4, 0, 1, "completed")]
    assert result.jobs.select(columns).sort("job_id").rows() == rows
    assert (result.info["end_time"], result.info["until"]) == (5, 5)
    result, _ = run(jobs, script[:1], until=1)
    assert {row[-1] for row in outcomes(result)} == {"running", "queued"}  # what happens at 1 is no longer part of it


def test_streams_of_jobs_take_memory_for_those_in_the_system_only(tmp_path: Path) -> None:
    drawn: list[int] = []
    states: list[weakref.ref[Any]] = []
    alive: list[tuple[int, int]] = []

    def jobs() -> Iterator[Job]:
        for job in random_jobs(160, interval=60.0):
            drawn.append(job.job_id)
            yield job

    class Watching(ListScheduler):
        def act(self, observation: Any) -> Any:
            states.extend(weakref.ref(state) for state in observation.jobs.values() if not state.assigned.any())
            if len(drawn) >= 20 * (len(alive) + 1):
                gc.collect()
                alive.append((len({id(reference()) for reference in states} - {id(None)}), len(observation.jobs)))
            return super().act(observation)

    simulate(DagCluster(jobs(), Executors([1, 2], 1.0)), Watching(FIFO()), out=tmp_path / "out")
    assert len(drawn) == 160 <= len(states)
    assert len(alive) == 8
    assert [entry for entry in alive if entry[0] > entry[1] + 1] == []


def test_listeners_hear_of_everything() -> None:
    heard: list[tuple[str, float, Any]] = []
    jobs = [chain(1), Job(2, [4], submission_time=0.5)]
    problem = cluster_of(jobs, 2, [Outage(2.5, 3, executors=[1])])
    for event in problem.events:
        problem.on(event, lambda time, subject, event=event: heard.append((event, time, subject)))
    script = [
        (0, assign((0, 0))),
        (0.5, Assign(2, 0, 1)),
        (1, assign((1, 1))),
        (2.5, assign((1, 0))),
        (2.5, Assign(2, 0, 0)),
    ]
    result = simulate(problem, Scripted(script))
    assert [(event, time, label(subject)) for event, time, subject in heard] == [
        ("arrival", 0, 1),
        ("assignment", 0, (1, 0, 0)),
        ("start", 0, (1, 0, 0)),
        ("arrival", 0.5, 2),
        ("assignment", 0.5, (2, 0, 1)),
        ("start", 0.5, (2, 0, 1)),
        ("completion", 1, (1, 0, 0)),
        ("assignment", 1, (1, 1, 1)),
        ("interruption", 2.5, (2, 0, 1)),
        ("withdrawal", 2.5, (1, 1, 1)),
        ("outage", 2.5, ("executor1",)),
        ("assignment", 2.5, (1, 1, 0)),
        ("start", 2.5, (1, 1, 0)),
        ("assignment", 2.5, (2, 0, 0)),
        ("repair", 3, ("executor1",)),
        ("completion", 3.5, (1, 1, 0)),
        ("job_completion", 3.5, 1),
        ("start", 3.5, (2, 0, 0)),
        ("completion", 7.5, (2, 0, 0)),
        ("job_completion", 7.5, 2),
    ]
    assert len(result.table("copies")) == sum(event == "assignment" for event, _, _ in heard)
    with pytest.raises(
        InvalidConfiguration, match="dag has no event 'finish'; expected one of arrival, assignment, start"
    ):
        problem.on("finish", print)


def label(subject: Any) -> Any:
    """Return what tells a job, a copy or a tuple of executors from others."""
    if isinstance(subject, Job):
        return subject.job_id
    return subject if type(subject) is tuple else (subject.state.job.job_id, subject.node, subject.executor)


def submits(*jobs: tuple[float, Job]) -> Any:
    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        for time, job in jobs:
            yield cluster.env.timeout(time - cluster.env.now)
            cluster.submit(job)

    return process


def test_processes_may_submit_jobs() -> None:
    late = [(3, Job(2, [1], submission_time=3)), (9, Job(3, [1], submission_time=4))]
    script = [(0, assign((0, 0))), (3, Assign(2, 0, 0)), (9, Assign(3, 0, 0))]
    result, agent = run([Job(1, [1])], script, processes=[submits(*late)])
    assert result.jobs.select("job_id", "submission_time", "finish_time").rows() == [(1, 0, 1), (2, 3, 4), (3, 4, 10)]
    assert [time for time, _ in agent.seen] == [0, 3, 9]


def test_jobs_of_the_future_and_jobs_that_are_there_cannot_be_submitted() -> None:
    with pytest.raises(WorkloadError, match=r"job 2: submission_time: got .* s, expected at most the current time, 3"):
        run([Job(1, [9])], [], processes=[submits((3, Job(2, [1], submission_time=4)))])
    with pytest.raises(WorkloadError, match=r"<Job 1: .*>: job_id: got 1, expected an id that no job"):
        run([Job(1, [9])], [], processes=[submits((3, Job(1, [1])))])
    with pytest.raises(WorkloadError, match=r"<Job 1: .*>: job_id: got 1, expected an id that no job"):
        run([Job(1, [9]), Job(1, [9], submission_time=2)], [])


def test_a_number_may_serve_again_after_its_job_has_ended() -> None:
    jobs = [Job(1, [1]), chain(1, submission_time=2)]
    script = [(0, assign((0, 0))), (2, assign((0, 0))), (3, assign((1, 0)))]
    result, _ = run(jobs, script)
    assert result.jobs.select("submission_time", "finish_time").rows() == [(0, 1), (2, 4)]
