"""Jobs that come after others: submitted when these have ended and their user has thought about it."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import WorkloadError, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.exceptions import StalledWarning
from desim.problems.batch import BatchCluster, Dependency, Job, Node
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from tests.jobs import with_fields

NUM_CORES = 8


def random_case(seed: int, count: int = 30) -> tuple[list[Job], dict[int, Dependency]]:
    """Return jobs and what some of them come after, in an order that has nothing to do with the time."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(8.0, count).cumsum().tolist()
    ids = rng.permutation(count).tolist()
    jobs = [
        Job(job_id, time, int(rng.integers(1, NUM_CORES + 1)), float(rng.uniform(1, 60)), float(rng.uniform(0, 50)), 1)
        for job_id, time in zip(ids, times, strict=True)
    ]
    order = rng.permutation(count).tolist()  # jobs come after those that stand in front of them here
    dependencies = {
        job_id: Dependency(
            tuple(rng.choice(order[:place], min(place, int(rng.integers(1, 4))), replace=False).tolist()),
            float(rng.choice([0.0, rng.exponential(20.0)])),
        )
        for place, job_id in enumerate(order)
        if place and rng.random() < 0.4
    }
    return jobs, dependencies


def slow_fcfs(jobs: list[Job], dependencies: dict[int, Dependency]) -> dict[int, tuple[float, float]]:
    """Return when each job is submitted and when it starts: the first of those known so far, over and over.

    A job whose submission is not known yet comes after one that has not started, and so behind it.
    """
    submitted: dict[int, float] = {}
    spans: dict[int, tuple[float, float, int]] = {}
    rank = {job_id: place for place, job_id in enumerate(job.job_id for job in jobs)}  # of those that one end lets come
    last = 0.0
    while len(spans) < len(jobs):
        for job in jobs:
            one = dependencies.get(job.job_id, Dependency(()))
            if all(other in spans for other in one.jobs):
                ready = max((spans[other][1] for other in one.jobs), default=-np.inf) + one.think_time
                submitted[job.job_id] = max(job.submission_time, ready)
        job = min(
            (job for job in jobs if job.job_id in submitted and job.job_id not in spans),
            key=lambda job: (submitted[job.job_id], rank.get(job.job_id, -1)),
        )
        earliest = max(submitted[job.job_id], last)
        moments = sorted({earliest, *(end for _, end, _ in spans.values() if end > earliest)})
        last = next(
            time
            for time in moments
            if sum(cores for _, end, cores in spans.values() if end > time) + job.requested_cores <= NUM_CORES
        )
        spans[job.job_id] = last, last + min(job.run_time, job.requested_time), job.requested_cores
    return {job_id: (submitted[job_id], spans[job_id][0]) for job_id in spans}


def times_of(result: Any) -> dict[int, tuple[float, float]]:
    columns = result.jobs.select("job_id", "submission_time", "starting_time")
    return {job_id: (submitted, start) for job_id, submitted, start in columns.iter_rows()}


def compare_with_loops(seed: int) -> None:
    jobs, dependencies = random_case(seed)
    result = simulate(BatchCluster(with_fields(jobs, after=dependencies), NUM_CORES), create("fcfs"))
    assert times_of(result) == slow_fcfs(jobs, dependencies)
    assert validate(result, jobs).ok


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_first_come_first_served_is_that_of_loops(seed: int) -> None:
    compare_with_loops(seed)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_first_come_first_served_is_that_of_loops_in_thousands_of_scenarios(seed: int) -> None:
    compare_with_loops(seed)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    agent=st.sampled_from(["fcfs", "sjf", "easy-fcfs", "conservative-fcfs"]),
    on_outage=st.sampled_from(["requeue", "lose"]),
    nodes=st.booleans(),
    until=st.sampled_from([float("inf"), 150.0]),
)
def test_whatever_happens_jobs_come_after_others(seed: int, agent: str, on_outage: Any, nodes: bool, until: float):
    jobs, dependencies = random_case(seed)
    jobs = [job._replace(requested_cores=job.requested_cores + 3 * (job.job_id == 5)) for job in jobs]
    options = {"nodes": Node.several(2, 4)} if nodes and agent != "conservative-fcfs" else {"num_cores": NUM_CORES}
    kind = "nodes" if "nodes" in options else "cores"
    outages = [planned_outages([Outage(50.0, 100.0, **{kind: [0]}), Outage(120.0, 160.0, **{kind: [0, 1]})])]
    jobs = with_fields(jobs, after=dependencies)
    cluster = BatchCluster(jobs, **options, on_outage=on_outage, too_wide="reject", processes=outages)
    result = simulate(cluster, create(agent), until=until)
    assert validate(result, jobs).ok
    rows = {row["job_id"]: row for row in result.jobs.iter_rows(named=True)}
    planned = {job.job_id: job.submission_time for job in jobs}
    for job_id, row in rows.items():
        one = dependencies.get(job_id, Dependency(()))
        ends = [rows[other]["finish_time"] or rows[other]["submission_time"] for other in one.jobs]
        assert row["submission_time"] == max([planned[job_id], *(end + one.think_time for end in ends)])
    if until == float("inf"):
        assert len(rows) == len(jobs)


@pytest.mark.parametrize("foresight", [True, False])
def test_forks_go_on_alike(foresight: bool) -> None:
    jobs, dependencies = random_case(4)
    simulation, agent = Simulation(BatchCluster(with_fields(jobs, after=dependencies), NUM_CORES)), create("fcfs")
    for _ in range(10):
        decision = simulation.advance()
        assert decision is not None
        decision.answer(agent.act(decision.observation))
    simulation.advance()
    fork = simulation.fork(foresight=foresight)
    assert not fork.replayed
    results = []
    for one in (simulation, fork):
        while (decision := one.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        results.append(one.finish())
    if foresight:
        assert results[0].jobs.equals(results[1].jobs)
        assert results[0].table("dependencies").equals(results[1].table("dependencies"))
    else:  # nobody knows of jobs that are not submitted yet
        assert len(results[1].jobs) < len(results[0].jobs)
        assert validate(results[0], jobs).ok


def test_records_of_runs_without_dependencies_have_no_table_of_them() -> None:
    result = simulate(BatchCluster([Job(1, 0.0, 1, 5.0, 5.0, after=Dependency(()))], 2), create("fcfs"))
    assert "dependencies" not in result.table_names
    assert "dependencies" not in result.info


def test_who_comes_after_a_job_that_never_starts_never_comes() -> None:
    jobs = [Job(1, 0.0, 2, 5.0, 5.0), Job(2, 1.0, 1, 5.0, 5.0, after=Dependency((1,), 3.0))]
    for_ever = planned_outages([Outage(0.0, inf, cores=[0])])
    cluster = BatchCluster(jobs, 2, processes=[for_ever])
    with pytest.warns(StalledWarning):
        result = simulate(cluster, create("fcfs"))
    assert result.info["status"] == "stalled"
    assert result.jobs.select("job_id", "status").rows() == [(1, "queued")]
    assert result.table("dependencies").select("job_id", "submission_time").rows() == [(2, None)]
    validate(result, jobs).raise_if_invalid()


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        ({1: Dependency((7,))}, "job 1 depends on job 7, which is not in the workload"),
        (
            {1: Dependency((2,)), 2: Dependency((3,)), 3: Dependency((2,))},
            "dependencies form a cycle: 2 after 3 after 2",
        ),
        ({1: Dependency((1,))}, "dependencies form a cycle: 1 after 1"),
        ({1: Dependency((2,), -1.0)}, "job 1: think_time: got -1.0, expected a finite time >= 0 s"),
        ({1: (2,)}, "job 1: after: got (2,), expected a Dependency"),
    ],
)
def test_dependencies_that_make_no_sense(dependencies: Any, message: str) -> None:
    jobs = [Job(number, 0.0, 1, 5.0, 5.0) for number in (1, 2, 3)]
    with pytest.raises(WorkloadError) as error:
        BatchCluster(with_fields(jobs, after=dependencies), 2)
    assert str(error.value) == message


def test_an_id_that_two_jobs_have_is_an_error_only_if_a_job_depends_on_it() -> None:
    jobs = [Job(1, 0.0, 1, 5.0, 5.0), Job(2, 1.0, 1, 5.0, 5.0), Job(1, 50.0, 1, 5.0, 5.0)]
    result = simulate(BatchCluster([*jobs, Job(3, 60.0, 1, 5.0, 5.0, after=Dependency((2,)))], 2), create("fcfs"))
    assert result.jobs["starting_time"].to_list() == [0.0, 1.0, 50.0, 60.0]
    message = "job 3 depends on job 1, but two jobs have this id, submitted at 0 s and 50 s"
    with pytest.raises(WorkloadError, match=message):
        BatchCluster([*jobs, Job(3, 60.0, 1, 5.0, 5.0, after=Dependency((2, 1)))], 2)
    again = [jobs[0], jobs[1], jobs[2]._replace(after=Dependency((2,), 70.0))]
    result = simulate(BatchCluster(again, 2), create("fcfs"))
    assert result.jobs.sort("arrival_number").rows() and result.jobs["submission_time"].to_list() == [0.0, 1.0, 76.0]
    validate(result, again).raise_if_invalid()


def test_a_stream_has_no_dependencies() -> None:
    jobs = [Job(1, 0.0, 1, 5.0, 5.0), Job(2, 1.0, 1, 5.0, 5.0, after=Dependency((1,)))]
    with pytest.raises(WorkloadError, match="job 2 depends on other jobs, but the cluster does not know all jobs in"):
        simulate(BatchCluster(iter(jobs), 2), create("fcfs"))
