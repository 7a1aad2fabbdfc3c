"""Limits of users, partitions and queues: nobody ever has more than the site allows, and agents need not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InfeasibleAction, InvalidConfiguration, WorkloadError, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.problems.batch import BatchCluster, Job, Limit, Node, Request, StartWithSize
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from tests.jobs import of_sizes, with_fields

NUM_CORES = 12
QUEUES = ("short", "long")


def random_case(seed: int, count: int = 40) -> tuple[list[Job], list[Limit]]:
    """Return jobs that arrive faster than the cores can serve them, and limits of users and queues."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(4.0, count).cumsum().tolist()
    jobs = [
        Job(
            number,
            time,
            int(rng.integers(1, 7)),
            float(rng.uniform(20, 60)),
            float(rng.uniform(1, 60)),
            int(rng.integers(-1, 4)),
        )
        for number, time in enumerate(times)
    ]
    queues = {number: str(rng.choice(QUEUES)) for number in range(count) if rng.random() < 0.8}
    jobs = with_fields(jobs, queue=queues)
    limits = [
        Limit(running_jobs=int(rng.integers(1, 4)), running_cores=int(rng.integers(6, 12))),
        Limit(scope="user", members=("1",), running_cores=6),
        Limit(scope="queue", running_cores=int(rng.integers(6, 10))),
        Limit(scope="queue", members=("short",), job_time=50.0, job_cores=5),
    ]
    return jobs, limits[: int(rng.integers(1, 5))]


def groups(job: Job, limits: list[Limit]) -> list[tuple[Limit, str]]:
    found = [(limit, job.queue if limit.scope == "queue" else str(job.user_id)) for limit in limits]
    return [
        (limit, name)
        for limit, name in found
        if name not in ("", "-1") and (limit.members is None or name in limit.members)
    ]


def is_refused(job: Job, limits: list[Limit]) -> bool:
    return any(
        job.requested_cores > min(limit.job_cores or 99, limit.running_cores or 99)
        or job.requested_time > (limit.job_time or 999.0)
        for limit, _ in groups(job, limits)
    )


def admitted(jobs: list[Job], chosen: list[Job], limits: list[Limit], full: list[Any]) -> list[Job]:
    """Return which of the waiting jobs may run beside those that were chosen before, all together.

    The groups that are full, as far as a job that waits is concerned, are noted: later jobs of theirs wait behind it.
    """
    mine, found = list(chosen), []
    for job in jobs:
        of_job = groups(job, limits)
        if any(key in full for key in of_job):
            continue
        lacking = []
        for limit, name in of_job:
            others = [other for other in mine if (limit, name) in groups(other, limits)]
            cores = sum(other.requested_cores for other in others) + job.requested_cores
            if len(others) + 1 > (limit.running_jobs or 99) or cores > (limit.running_cores or 99):
                lacking.append((limit, name))
        full += lacking
        if not lacking:
            mine.append(job)
            found.append(job)
    return found


def slow_starts(jobs: list[Job], limits: list[Limit], *, strict: bool) -> dict[int, float]:
    """Return when jobs start first come, first served or by simple backfilling, from one event to the next.

    What was admitted stays so, and what waits is looked at in order of arrival whenever something has changed.
    """
    jobs = [job for job in jobs if not is_refused(job, limits)]
    running: list[tuple[float, Job]] = []
    starts: dict[int, float] = {}
    queue: list[Job] = []
    waiting, time, full = list(jobs), -1.0, []
    while waiting or queue:
        moments = [job.submission_time for job in waiting] + [end for end, _ in running]
        time = min(moment for moment in moments if moment > time)
        left = [key for end, job in running if end <= time for key in groups(job, limits)]
        running = [(end, job) for end, job in running if end > time]
        if any(key in full for key in left):  # all that wait are looked at again, and otherwise who has just come
            full = []
            there = [job for job in waiting if job.submission_time <= time]
        else:
            there = [job for job in waiting if job.submission_time == time]
        fresh = admitted(there, [job for _, job in running] + queue, limits, full)
        waiting = [job for job in waiting if job not in fresh]
        queue = sorted(queue + fresh, key=lambda job: job.job_id)
        for job in list(queue):
            if sum(each.requested_cores for _, each in running) + job.requested_cores <= NUM_CORES:
                starts[job.job_id] = time
                running.append((time + min(job.run_time, job.requested_time), job))
                queue.remove(job)
            elif strict:
                break
    return starts


def compare_with_loops(seed: int, strict: bool) -> None:
    jobs, limits = random_case(seed)
    cluster = BatchCluster(jobs, NUM_CORES, limits=limits, too_wide="reject")
    result = simulate(cluster, create("fcfs" if strict else "backfilling-fcfs"))
    started = result.jobs.filter(result.jobs["status"] != "rejected").select("job_id", "starting_time")
    assert dict(started.iter_rows()) == slow_starts(jobs, limits, strict=strict)
    assert validate(result, jobs).ok


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), strict=st.booleans())
def test_starts_are_those_of_loops(seed: int, strict: bool) -> None:
    compare_with_loops(seed, strict)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(seed=st.integers(0, 2**32), strict=st.booleans())
def test_starts_are_those_of_loops_in_thousands_of_scenarios(seed: int, strict: bool) -> None:
    compare_with_loops(seed, strict)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    agent=st.sampled_from(["fcfs", "sjf", "backfilling-sjf", "easy-fcfs", "easy-wfp3", "conservative-fcfs"]),
    on_outage=st.sampled_from(["requeue", "lose"]),
    nodes=st.booleans(),
    until=st.sampled_from([float("inf"), 150.0]),
)
def test_nobody_has_more_than_allowed(seed: int, agent: str, on_outage: Any, nodes: bool, until: float) -> None:
    jobs, limits = random_case(seed)
    options = {"nodes": Node.several(3, 4)} if nodes and agent != "conservative-fcfs" else {"num_cores": NUM_CORES}
    kind = "nodes" if "nodes" in options else "cores"
    outages = [planned_outages([Outage(50.0, 100.0, **{kind: [0]}), Outage(120.0, 160.0, **{kind: [0, 1]})])]
    cluster = BatchCluster(jobs, **options, limits=limits, on_outage=on_outage, too_wide="reject", processes=outages)
    result = simulate(cluster, create(agent), until=until)
    assert validate(result, jobs).ok
    if until == float("inf"):
        assert set(result.jobs["status"]) <= {"completed", "killed", "rejected", "lost"}
    else:
        assert len(result.jobs) == sum(job.submission_time < until for job in jobs)
    rejected = result.jobs.filter(result.jobs["status"] == "rejected")["job_id"].to_list()
    there = [job for job in jobs if job.submission_time < until]
    assert sorted(rejected) == sorted(job.job_id for job in there if is_refused(job, limits))


@pytest.mark.parametrize("foresight", [True, False])
def test_forks_go_on_alike(foresight: bool) -> None:
    jobs, limits = random_case(3)
    limits = [Limit(running_jobs=2)]
    simulation, agent = Simulation(BatchCluster(jobs, NUM_CORES, limits=limits)), create("easy-fcfs")
    for _ in range(20):
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
    assert validate(results[0], jobs).ok
    if foresight:
        assert results[0].jobs.equals(results[1].jobs)
        assert results[0].table("limited_jobs").equals(results[1].table("limited_jobs"))
    else:
        assert len(results[1].jobs) < len(jobs)  # nobody knows of those to come
        assert set(results[1].jobs["status"]) == {"completed", "killed"}  # also of those that were held back


def test_partitions_of_nodes_have_limits() -> None:
    nodes = [*Node.several(2, 4, partition="debug"), *Node.several(2, 4, name="m", partition="main")]
    jobs = [
        Job.of_tasks(1, 0.0, Request(tasks=2, cores=1, partition="debug"), 60.0, 50.0),
        Job.of_tasks(2, 1.0, Request(tasks=2, cores=1, partition="debug"), 60.0, 50.0),
        Job.of_tasks(3, 2.0, Request(tasks=2, cores=1, partition="debug"), 90.0, 50.0),
        Job.of_tasks(4, 3.0, Request(tasks=2, cores=1, partition="main"), 90.0, 50.0),
    ]
    limit = Limit(scope="partition", members=("debug",), job_time=60.0, running_jobs=1)
    result = simulate(BatchCluster(jobs, nodes=nodes, limits=[limit], too_wide="reject"), create("easy-fcfs"))
    assert result.jobs["starting_time"].to_list() == [0.0, 50.0, None, 3.0]
    assert result.table("limited_jobs")["group"].to_list() == ["debug"] * 3
    with pytest.raises(WorkloadError, match=r"job 3 requests 90.0 s, but partition debug may request at most 60.0 s"):
        simulate(BatchCluster(jobs, nodes=nodes, limits=[limit]), create("easy-fcfs"))


@pytest.mark.parametrize("members", [(7,), np.array([7]), {np.int64(7)}, ("7",)])
def test_users_may_be_named_by_number(members: Any) -> None:
    groups = {1: 7, 2: np.int64(7), 3: 8}
    jobs = [Job(n, 0.0, 2, 5.0, 5.0, int(group), attributes={"group": group}) for n, group in groups.items()]
    for scope in ("user", "group"):
        result = simulate(
            BatchCluster(jobs, 9, limits=[Limit(scope=scope, members=members, running_jobs=1)]), create("fcfs")
        )
        assert result.jobs.sort("job_id")["starting_time"].to_list() == [0.0, 5.0, 0.0]


class Answers:
    """An agent that gives one answer after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def act(self, observation: Any) -> Any:
        return self.answers.pop(0)


def test_a_job_that_is_held_back_cannot_start() -> None:
    jobs = [Job(1, 0.0, 2, 5.0, 5.0, 7), Job(2, 1.0, 3, 5.0, 5.0, 7)]
    with pytest.raises(InfeasibleAction) as error:
        simulate(BatchCluster(jobs, 9, limits=[Limit(running_cores=4)]), Answers([0, 1]))
    message = "job 2 is held back: user 7 has 1 jobs with 2 cores running or queued, and may have at most 4 cores at"
    assert "is not the row of a queued job" in str(error.value)  # it has not arrived yet
    jobs[1] = jobs[1]._replace(submission_time=0.0)
    with pytest.raises(InfeasibleAction) as error:
        simulate(BatchCluster(jobs, 9, limits=[Limit(running_cores=4)]), Answers([0, 1]))
    assert message in str(error.value)


def test_who_molds_takes_no_size_that_limits_forbid() -> None:
    jobs = [of_sizes([Job(number, 0.0, 1, 9.0, 9.0, 7), Job(number, 0.0, 3, 3.0, 3.0, 7)]) for number in (1, 2)]
    jobs.append(of_sizes([Job(3, 0.0, 1, 9.0, 9.0, 8), Job(3, 0.0, 4, 2.0, 2.0, 8)]))
    limits = [Limit(running_cores=4), Limit(members=("8",), job_cores=3)]
    result = simulate(BatchCluster(jobs, 12, limits=limits), create("easy-moldable-fcfs"))
    columns = ["job_id", "starting_time", "finish_time", "requested_number_of_resources"]
    assert result.jobs.sort("job_id").select(columns).rows() == [
        (1, 0.0, 3.0, 3),  # it grows while one core of its user's four is another job's
        (2, 0.0, 9.0, 1),  # which can no longer grow
        (3, 0.0, 9.0, 1),  # and so wide nobody of this user may be
    ]
    validate(result, jobs).raise_if_invalid()


def test_sizes_of_moldable_jobs_count() -> None:
    job = of_sizes([Job(1, 0.0, 2, 9.0, 9.0, 7), Job(1, 0.0, 4, 5.0, 5.0, 7), Job(1, 0.0, 5, 4.0, 4.0, 7)])
    limits = [Limit(running_cores=4)]
    result = simulate(BatchCluster([job], 9, limits=limits), Answers([StartWithSize(0, 1)]))
    assert result.jobs["finish_time"].to_list() == [5.0]
    with pytest.raises(
        InfeasibleAction, match="cannot start in size 2: requests 5 cores, but user 7 may use at most 4"
    ):
        simulate(BatchCluster([job], 9, limits=limits), Answers([StartWithSize(0, 2)]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Limit, "Limit: got no maximum; give job_cores, job_time, running_jobs or running_cores"),
        (lambda: Limit(scope={1: "a"}, job_cores=1), "scope: got {1: 'a'}, expected a name; give jobs a queue"),  # type: ignore[arg-type]
        (lambda: Limit(running_jobs=0), "running_jobs"),
        (lambda: Limit(job_time=-1.0), "job_time"),
        (
            lambda: Limit(members="debug", job_cores=1),
            r"members: got 'debug', expected a collection of names; try \('debug',\)",
        ),
        (lambda: BatchCluster([], 4, limits=[3]), "limits: got 3, expected Limit objects"),  # type: ignore[list-item]
    ],
)
def test_limits_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()
