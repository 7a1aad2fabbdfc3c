"""Users who wait for their jobs: the log again where waits are the same, and the closed queue of theory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, Result, WorkloadError, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Dependency, Job
from desim.validation import validate
from desim.workloads.batch.closed_loop import closed_loop, deal


def random_jobs(seed: int, count: int = 60) -> list[Job]:
    """Return jobs of a few users with whole times, no two submitted at once."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.choice(3_000, count, replace=False)).tolist()
    runs, widths = rng.integers(1, 200, count).tolist(), rng.integers(1, 5, count).tolist()
    users = rng.integers(-1, 5, count).tolist()
    rows = enumerate(zip(times, widths, runs, users, strict=True))
    return [Job(n, float(time), cores, float(run), float(run), user) for n, (time, cores, run, user) in rows]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), gap=st.sampled_from([0.0, 60.0, 500.0, math.inf]))
def test_where_jobs_wait_as_in_the_log_they_are_submitted_as_in_the_log(seed: int, gap: float) -> None:
    jobs = random_jobs(seed)
    log = simulate(BatchCluster(jobs, 6), create("easy")).jobs.sort("job_id")
    again = closed_loop(jobs, log["waiting_time"].to_numpy(), session_gap=gap)
    result = simulate(BatchCluster(again, 6), create("easy"))
    for column in ("submission_time", "starting_time", "finish_time"):
        assert result.jobs.sort("job_id")[column].to_list() == log[column].to_list()
    validate(result, again).raise_if_invalid()


def in_the_system(result: Result, user: int) -> int:
    """Return how many jobs of a user were in the system at once, at most."""
    rows = result.jobs.filter(result.jobs["user_id"] == user).select("submission_time", "finish_time").rows()
    return max(sum(begin <= time < end for begin, end in rows) for time, _ in rows)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_sequential_users_have_one_job_at_a_time(seed: int) -> None:
    jobs = closed_loop(random_jobs(seed), session_gap=math.inf, sequential=True)
    result = simulate(BatchCluster(jobs, 4), create("sjf"))
    assert len(result.jobs) == len(jobs)
    assert all(in_the_system(result, user) == 1 for user in {job.user_id for job in jobs} - {-1})


def after_of(jobs: list[Job]) -> dict[int, Dependency]:
    """Return the dependencies by job id."""
    return {job.job_id: job.after for job in jobs if job.after is not None}


def test_batches_think_times_and_sessions() -> None:
    def job(number: int, time: float, run: float) -> Job:
        return Job(number, time, 1, run, run, 3)

    jobs = [job(1, 0, 100), job(2, 50, 100), job(3, 160, 10), job(4, 165, 10), job(5, 200, 10), job(6, 400, 10)]
    made = closed_loop(jobs, session_gap=100)
    assert after_of(made) == {3: Dependency((1, 2), 10.0), 4: Dependency((1, 2), 15.0), 5: Dependency((3, 4), 25.0)}
    assert [(one.job_id, one.submission_time) for one in made] == [(1, 0), (3, 0), (4, 0), (5, 0), (2, 50), (6, 400)]
    waited = after_of(
        closed_loop(jobs, [0, 12, math.nan, 0, 0, 0], session_gap=100)
    )  # job 3 came before job 2 had ended
    assert waited == {5: Dependency((1, 2, 3, 4), 25.0)}
    one_by_one = after_of(closed_loop(jobs, session_gap=100, sequential=True))
    assert one_by_one[2] == Dependency((1,), 0.0) and one_by_one[3] == Dependency((2,), 10.0) and 6 not in one_by_one


def throughput_of_theory(users: int, cores: int, service: float, think: float) -> float:
    """Return the throughput of the closed queue M/M/c//N, the machine repair model, by its balance equations."""
    weights = [1.0]
    for busy in range(users):
        rate = (users - busy) / think / (min(busy + 1, cores) / service)
        weights.append(weights[-1] * rate)
    total = sum(weights)
    return sum(weight * min(n, cores) / service for n, weight in enumerate(weights)) / total


def closed_users(users: int, service: float, think: float, rng: np.random.Generator, count: int) -> list[Job]:
    """Return what users submit who never wait for a core, one job after the other."""
    jobs = []
    for user in range(users):
        runs, thoughts = rng.exponential(service, count), rng.exponential(think, count)
        times = np.concatenate([[0.0], np.cumsum(runs + thoughts)[:-1]]) + thoughts[0]
        jobs += [Job(0, time, 1, run, run, user) for time, run in zip(times.tolist(), runs.tolist(), strict=True)]
    jobs.sort(key=lambda job: job.submission_time)
    return [job._replace(job_id=number) for number, job in enumerate(jobs)]


@pytest.mark.parametrize(("users", "cores"), [(4, 1), (12, 1), (12, 4)])
def test_throughput_is_that_of_the_closed_queue(users: int, cores: int) -> None:
    """Longer waits lower the throughput, and a response takes N / X - Z, the law of interactive systems."""
    service, think, count = 60.0, 300.0, 8_000 // users
    jobs = closed_users(users, service, think, np.random.default_rng(users), count)
    jobs = closed_loop(jobs, session_gap=math.inf, sequential=True)
    result = simulate(BatchCluster(jobs, cores), create("fcfs"))
    last = result.jobs.group_by("user_id").max()["finish_time"].min()  # from then on somebody is done
    assert isinstance(last, float)
    counted = result.jobs.filter(result.jobs["finish_time"] <= last)
    throughput = len(counted) / last
    assert throughput == pytest.approx(throughput_of_theory(users, cores, service, think), rel=0.04)
    response = counted["turnaround_time"].mean()
    assert response == pytest.approx(users / throughput - think, rel=0.06)


def test_dealt_jobs_and_what_is_refused() -> None:
    jobs = random_jobs(1)
    dealt = deal(jobs, 4, np.random.default_rng(5))
    assert {job.user_id for job in dealt} == set(range(4)) and [job[:5] for job in dealt] == [job[:5] for job in jobs]
    with pytest.raises(WorkloadError, match="got no known user"):
        closed_loop([job._replace(user_id=-1) for job in jobs])
    twice = [Job(1, 0.0, 1, 5.0, 5.0, 3), Job(1, 9.0, 1, 5.0, 5.0, 3)]
    assert closed_loop(twice).dependencies()[1] == ((0,), Dependency((1,), 4.0))  # jobs are known by their rows
    with pytest.raises(InvalidConfiguration, match="waiting_time: got 1 values, expected 60, one per job"):
        closed_loop(jobs, [1.0])
    with pytest.raises(InvalidConfiguration, match="session_gap: got -1"):
        closed_loop(jobs, session_gap=-1)
    with pytest.raises(InvalidConfiguration, match="num_users: got 0"):
        deal(jobs, 0, np.random.default_rng(5))


def test_jobs_of_one_instant_keep_the_order_of_the_log() -> None:
    jobs = [Job(1, 0.0, 1, 5.0, 5.0, 0), Job(2, 10.0, 1, 4.0, 4.0, 0), Job(3, 10.0, 1, 4.0, 4.0, 1)]
    result = simulate(BatchCluster(closed_loop(jobs, [0.0, 0.0, 4.0]), 1), create("fcfs"))
    assert result.jobs.sort("job_id")["starting_time"].to_list() == [0.0, 10.0, 14.0]
