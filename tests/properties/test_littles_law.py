"""L = lambda W, exactly: what listeners see happen, integrated, against what the tables say afterwards."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import polars as pl
import pytest
from scenarios import KINDS, Scenario, random_scenario

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, parse_core_sets
from desim.problems.batch.cores import to_core_ids
from desim.processes import Outage, planned_outages

AGENTS = ("fcfs", "sjf", *(f"{kind}-{order}" for kind in KINDS[1:] for order in ("fcfs", "f3")))


class Integrals:
    """Integrals over time of the jobs in the queue, the running jobs and the cores in use."""

    def __init__(self, cluster: BatchCluster) -> None:
        self.last = Fraction(0)
        self.queued = self.running = self.cores = 0
        self.queue_time = self.run_time = self.core_time = Fraction(0)
        cluster.on("arrival", lambda time, job: self.change(time, 1, 0, 0))
        cluster.on("start", lambda time, run: self.change(time, -1, 1, run.cores.bit_count()))
        cluster.on("completion", lambda time, run: self.change(time, 0, -1, -run.cores.bit_count()))
        cluster.on("interruption", lambda time, run: self.change(time, 1, -1, -run.cores.bit_count()))

    def change(self, time: float, queued: int, running: int, cores: int) -> None:
        now = Fraction(time)
        self.queue_time += (now - self.last) * self.queued
        self.run_time += (now - self.last) * self.running
        self.core_time += (now - self.last) * self.cores
        self.last = now
        self.queued += queued
        self.running += running
        self.cores += cores


def duration(table: pl.DataFrame, begin: str, end: str, weights: list[int] | None = None) -> Fraction:
    """Return the sum over the rows of (end - begin) times the weights."""
    pairs = zip(table[begin], table[end], weights or [1] * len(table), strict=True)
    return sum(((Fraction(last) - Fraction(first)) * weight for first, last, weight in pairs), Fraction(0))


def core_counts(table: pl.DataFrame) -> list[int]:
    """Return how many cores each row holds, by its core ranges."""
    counts = [0] * len(table)
    for row, first, last in parse_core_sets(table["allocated_resources"]).iter_rows():
        counts[row] += last - first + 1
    return counts


def check(scenario: Scenario, agent: Any, **options: Any) -> int:
    cluster = BatchCluster(scenario.jobs, scenario.num_cores, **options)
    seen = Integrals(cluster)
    result = simulate(cluster, agent)
    jobs, cut = result.jobs, result.table("interruptions")
    assert set(jobs["status"]) <= {"completed", "killed"}
    assert (seen.queued, seen.running, seen.cores) == (0, 0, 0)
    in_system = duration(jobs, "submission_time", "finish_time")
    executed = duration(jobs, "starting_time", "finish_time") + duration(cut, "starting_time", "finish_time")
    assert seen.queue_time + seen.run_time == in_system
    assert seen.run_time == executed
    if not len(cut):
        assert seen.queue_time == duration(jobs, "submission_time", "starting_time")
    assert jobs["requested_number_of_resources"].to_list() == core_counts(jobs)
    assert seen.core_time == sum(
        duration(table, "starting_time", "finish_time", core_counts(table)) for table in (jobs, cut)
    )
    if seen.last > 0:
        arrival_rate, mean_time = len(jobs) / seen.last, in_system / len(jobs)
        assert arrival_rate * mean_time == (seen.queue_time + seen.run_time) / seen.last
    return len(cut)


@pytest.mark.parametrize("name", AGENTS)
def test_littles_law(name: str) -> None:
    for seed in range(12):
        scenario = random_scenario(Random(f"little {seed}"))
        thirds = [
            job._replace(submission_time=job.submission_time / 3, run_time=job.run_time / 7) for job in scenario.jobs
        ]
        check(scenario, create(name))
        check(scenario._replace(jobs=thirds), create(name))


@pytest.mark.parametrize("name", ["fcfs", "backfilling-sjf", "easy", "easy-specific-f1", "conservative-fcfs"])
def test_littles_law_with_executions_that_outages_cut(name: str) -> None:
    cuts = 0
    for seed in range(20):
        rng = Random(f"little outage {seed}")
        scenario = random_scenario(rng)
        times = sorted(rng.randint(0, 20) for _ in range(5))
        all_cores = (1 << scenario.num_cores) - 1
        outages = [
            Outage(time, time + rng.randint(1, 4), cores=to_core_ids(rng.randint(1, all_cores))) for time in times
        ]
        cuts += check(scenario, create(name), processes=[planned_outages(outages)])
    assert cuts > 0
