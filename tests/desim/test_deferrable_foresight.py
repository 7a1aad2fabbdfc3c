"""Workloads of deferrable jobs as a whole: without windows, foreseen, and too long to be held in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator, Iterator
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
import simpy
from deferrable_agents import FirstFit, Scripted
from deferrable_scenarios import random_jobs, random_scenario, submitting

from desim import simulate
from desim.exceptions import WorkloadError
from desim.problems.deferrable import ClairvoyantView, DeferrableCluster, Job, clairvoyant_view, real_time


class TestRealTime:
    """Jobs that are submitted when they are due."""

    def test_windows_vanish_and_nothing_else(self) -> None:
        jobs = [Job(1, 0, 4, 9, 2, 3), Job(2, 0.5, 1, 1, 1, 2), Job(3, 2, 4, 5, 6, 1), Job(4, 3.5, 4, 7, 1, 1)]
        jobs.append(Job(5, 4, 4, 4, 1, 1.5))
        assert list(real_time(jobs)) == [
            Job(2, 1, 1, 1, 1, 2),
            Job(1, 4, 4, 4, 2, 3),
            Job(3, 4, 4, 4, 6, 1),
            Job(4, 4, 4, 4, 1, 1),
            Job(5, 4, 4, 4, 1, 1.5),
        ]
        assert list(real_time([])) == []

    def test_order_and_contents_of_random_jobs(self) -> None:
        for seed in range(60):
            rng = Random(seed)
            jobs = random_jobs(rng, range(rng.randint(0, 40)), 12, rng.randint(1, 3))
            found = list(real_time(jobs))
            assert found == [
                job._replace(submission_time=job.earliest_start, latest_start=job.earliest_start)
                for job in sorted(jobs, key=lambda job: job.earliest_start)  # a stable sort
            ]
            assert list(real_time(found)) == found

    def test_it_holds_back_those_that_are_known_and_no_others(self) -> None:
        drawn: list[int] = []

        def endless() -> Iterator[Job]:
            for number in count():
                drawn.append(number)
                yield Job(number, number, number + 3, number + 7, 1, 1)

        for job in islice(real_time(endless()), 50):
            assert len(drawn) == job.job_id + 4  # the first that is submitted when this one is due

    def test_a_cluster_shows_jobs_at_their_earliest_start(self) -> None:
        jobs = [Job(1, 0, 2, 9, 1, 3), Job(2, 0.5, 1, 3, 1, 2), Job(3, 1, 7, 8, 1, 1)]
        result = simulate(DeferrableCluster(jobs, [3], real_time=True, num_slots=5), FirstFit())
        assert result.jobs.select("job_id", "submission_time", "latest_start", "starting_time").rows() == [
            (2, 1, 1, 1),
            (1, 2, 2, 2),
        ]
        assert result.table("slots")["future"].sum() == 0
        assert result.info["real_time"] is True

    def test_of_an_endless_stream(self) -> None:
        stream = (Job(number, number, number + 2, number + 4, 1, 1) for number in count())
        result = simulate(DeferrableCluster(stream, [1], real_time=True, num_slots=9), FirstFit())
        assert result.jobs["starting_time"].to_list() == list(range(2, 9))

    def test_jobs_of_several_resources_may_pass_through(self) -> None:
        assert next(real_time([Job(1, 0, 2, 9, 1, 3, (1, 2))])).others == (1, 2)

    def test_bad_jobs_are_named_when_they_are_drawn(self) -> None:
        stream = real_time([Job(1, 0, 0, 0, 1, 1), Job(2, 5, 5, 5, 1, 1), Job(3, 6, 4, 4, 1, 1)])
        assert next(stream).job_id == 1
        with pytest.raises(
            WorkloadError, match=r"^job 3: earliest_start: got 4, expected at least submission_time, 6$"
        ):
            next(stream)


def drawn_capacity(cluster: Any) -> Generator[simpy.Event, Any, None]:
    rng = cluster.simulation.stream("capacity")
    while True:
        cluster.set_capacity(rng.integers(0, 9))
        yield cluster.env.timeout(1)


class TestForesee:
    """All jobs and capacities of a run, before it begins."""

    def test_what_it_returns(self) -> None:
        jobs = [Job(1, 0, 1, 2, 5, 2), Job(2, 0.5, 1, 1, 1, 1)]
        own = submitting([Job(3, 0.25, 1, 5, 1, 1)])
        foresight = clairvoyant_view(DeferrableCluster(jobs, [4, 3], processes=[own]))
        assert isinstance(foresight, ClairvoyantView)
        assert [job.job_id for job in foresight.jobs] == [1, 3, 2]
        assert foresight.jobs[0] is jobs[0]
        assert foresight.capacity.tolist() == [[4], [3], [3], [3], [3], [3]]

    def test_of_a_run_of_given_length(self) -> None:
        series = [(4, 1), (3, 2)]
        foresight = clairvoyant_view(DeferrableCluster([], series, num_slots=3, resources=("cores", "memory")))
        assert foresight.capacity.tolist() == [[4, 1], [3, 2], [3, 2]]

    def test_jobs_that_come_before_the_end(self) -> None:
        jobs = [Job(number, number, number, number, 1, 1) for number in range(9)]
        assert clairvoyant_view(DeferrableCluster(jobs, [4], num_slots=3)).jobs == tuple(jobs[:3])
        assert clairvoyant_view(DeferrableCluster(jobs, [4]), until=3.5).jobs == tuple(jobs[:4])
        assert clairvoyant_view(DeferrableCluster(jobs, [4]), until=3).capacity.shape == (3, 1)

    def test_nothing(self) -> None:
        foresight = clairvoyant_view(DeferrableCluster([], [(1, 2)], resources=("cores", "memory")))
        assert (foresight.jobs, foresight.capacity.shape) == ((), (0, 2))

    def test_in_real_time(self) -> None:
        jobs = [Job(1, 0, 3, 9, 5, 2), Job(2, 0.5, 1, 5, 1, 1)]
        foresight = clairvoyant_view(DeferrableCluster(jobs, [4, 3, 2], real_time=True))
        assert foresight.jobs == (Job(2, 1, 1, 1, 1, 1), Job(1, 3, 3, 3, 5, 2))
        assert foresight.capacity[:, 0].tolist() == [4, 3, 2, 2]

    def test_it_is_what_every_agent_faces(self) -> None:
        for seed in range(40):
            scenario = random_scenario(Random(seed), overcommit=True)
            foresight = clairvoyant_view(scenario.cluster(), until=scenario.until)
            result = simulate(scenario.cluster(), FirstFit(), until=scenario.until)
            assert sorted(int(job.job_id) for job in foresight.jobs) == sorted(result.jobs["job_id"])
            capacity = result.table("slots").select(f"capacity_{name}" for name in scenario.resources).to_numpy()
            shared = min(len(capacity), len(foresight.capacity))
            assert np.array_equal(foresight.capacity[:shared], capacity[:shared])
            if scenario.num_slots is not None:
                assert len(foresight.capacity) == len(capacity)
            assert foresight.capacity.shape[1] == len(scenario.resources)

    def test_with_its_seed(self) -> None:
        cluster = DeferrableCluster([Job(1, 0, 30, 30, 1, 1)], drawn_capacity)
        first, again, other = (clairvoyant_view(cluster, seed=seed).capacity[:, 0].tolist() for seed in (1, 1, 2))
        assert first == again != other
        assert clairvoyant_view(cluster).capacity.tolist() == clairvoyant_view(cluster, seed=0).capacity.tolist()
        result = simulate(cluster, Scripted(), seed=2)
        assert result.table("slots")["capacity_cores"].to_list() == other

    def test_the_cluster_is_as_before(self) -> None:
        cluster = DeferrableCluster([Job(1, 0, 2, 3, 1, 1)], [4, 3])
        clairvoyant_view(cluster)
        assert not cluster.listening
        assert simulate(cluster, FirstFit()).jobs["starting_time"].to_list() == [2]
        assert clairvoyant_view(cluster).jobs == clairvoyant_view(cluster).jobs == (Job(1, 0, 2, 3, 1, 1),)


class Quick:
    """Starts jobs until the first that does not fit."""

    def act(self, observation: Any) -> Any:
        after = observation.used[0] + np.cumsum(observation.current.cores)
        return np.flatnonzero(after <= observation.limit[0])


def many(number: int) -> Iterator[Job]:
    """Yield jobs, 50 a slot."""
    for job_id in range(number):
        slot = job_id // 50
        earliest = slot + job_id % 3
        yield Job(job_id, slot, earliest, earliest + job_id % 4, 1 + job_id % 5, 1.0 + job_id % 4)


def test_memory_follows_the_jobs_in_the_system(tmp_path: Path) -> None:
    number = 100_000
    simulate(DeferrableCluster(many(100), [200, 300]), Quick(), out=tmp_path / "first")  # loads what it needs
    tracemalloc.start()
    try:
        jobs = list(many(number // 10))
        trace = 10 * tracemalloc.get_traced_memory()[0]
        del jobs
        tracemalloc.reset_peak()
        result = simulate(DeferrableCluster(many(number), [200, 300]), Quick(), out=tmp_path / "run")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.4 * trace
    statuses = result.scan("jobs").group_by("status").len().collect()
    assert statuses["len"].sum() == number
    assert set(statuses["status"]) == {"completed", "expired"}
    assert result.scan("jobs").select(pl.col("job_id").n_unique()).collect().item() == number
    assert result.table("slots")["arrived"].sum() == number


def test_a_stream_is_read_one_job_ahead_of_the_clock() -> None:
    drawn: list[int] = []

    def stream() -> Iterator[Job]:
        for number in range(100):
            drawn.append(number)
            yield Job(number, 10 * number, 10 * number, 10 * number, 1, 1)

    class Watching(FirstFit):
        def act(self, observation: Any) -> Any:
            assert len(drawn) <= observation.slot / 10 + 2
            return super().act(observation)

    result = simulate(DeferrableCluster(stream(), [1]), Watching())
    assert result.jobs.height == len(drawn) == 100


def test_an_endless_stream_will_do_if_the_run_has_an_end() -> None:
    stream = (Job(number, number / 2, number, number, 1, 1) for number in count())
    assert simulate(DeferrableCluster(stream, [1], num_slots=10), FirstFit()).jobs.height == 20
    stream = (Job(number, number / 2, number, number, 1, 1) for number in count())
    assert simulate(DeferrableCluster(stream, [1]), FirstFit(), until=9.75).jobs.height == 20
