"""Tables written by hand, and runs to measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest

from desim import Phase, Result, at, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, QualityOfService
from tests.jobs import with_fields

JOB_SCHEMA = {
    "job_id": pl.Int64,
    "submission_time": pl.Float64,
    "requested_number_of_resources": pl.Int64,
    "requested_time": pl.Float64,
    "run_time": pl.Float64,
    "starting_time": pl.Float64,
    "execution_time": pl.Float64,
    "finish_time": pl.Float64,
    "status": pl.String,
    "user_id": pl.Int64,
    "earlier_execution_time": pl.Float64,
    "useful_execution_time": pl.Float64,
}


def _job_table(rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    """Make a job table.

    A row holds id, submission, cores, requested time, run time, start, execution, finish, status and user; for a job
    that was interrupted, also the duration of its earlier executions and its useful execution time.
    """
    full = []
    for row in rows:
        earlier = row[10] if len(row) > 10 else 0.0
        last = row[6] if row[8] in ("completed", "killed") else None
        full.append((*row[:10], earlier, row[11] if len(row) > 11 else last))
    table = pl.DataFrame(full, schema=JOB_SCHEMA, orient="row")
    return table.with_columns(arrival_number=pl.int_range(pl.len(), dtype=pl.Int64))


class AnyFit:
    """Start the first queued job that fits, now and then none."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self, observation: Any) -> int | None:
        """Choose a job."""
        fits = np.flatnonzero(observation.queue.requested_cores <= observation.free_cores)
        return int(observation.queue.row[fits[0]]) if len(fits) and self.rng.random() < 0.9 else None


def _random_run(
    seed: int, num_jobs: int = 30, *, preempts: bool = False, interval: float | None = None, **options: Any
) -> Result:
    """Simulate random jobs on eight cores of which some fail, with whole times so that instants coincide."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(3, 60, num_jobs)).astype(float)
    jobs = [
        Job(
            number,
            float(times[number]),
            int(rng.integers(1, 10)),
            float(rng.integers(0, 25)),
            float(rng.integers(0, 20)),
            int(rng.integers(-1, 4)),
        )
        for number in range(num_jobs)
    ]

    def outages(problem: BatchCluster) -> Any:
        for time in (10.0, 20.0, 45.0):
            cores = rng.choice(8, 3, replace=False).tolist()
            yield at(problem.env, time + float(rng.integers(0, 5)), Phase.CAPACITY)
            problem.fail(cores=cores)
            yield at(problem.env, problem.env.now + float(rng.integers(0, 5)), Phase.CAPACITY)
            problem.repair(cores=cores)

    on_outage = "lose" if seed % 3 == 0 else "requeue"
    service: dict[str, Any] = {}
    if preempts:
        urgent = QualityOfService("urgent", 1.0, ("suspended", "requeued"))
        others = QualityOfService("suspended", mode="suspend"), QualityOfService("requeued")
        names = ("urgent", "suspended", "suspended", "requeued")
        jobs = with_fields(jobs, qos={number: names[number % 4] for number in range(num_jobs)})
        service = {"qos": [urgent, *others]}
    service |= {"checkpoint_interval": interval, "enforce_time_limit": bool(seed % 2)}
    problem = BatchCluster(jobs, 8, too_wide="reject", on_outage=on_outage, processes=[outages], **service)
    agent = create("preemptive-backfilling-sjf") if preempts else AnyFit(seed)
    return simulate(problem, agent, until=80.0 if seed % 5 else float("inf"), **options)


@pytest.fixture
def job_table() -> Callable[[Iterable[tuple[Any, ...]]], pl.DataFrame]:
    """Return the function that makes job tables."""
    return _job_table


@pytest.fixture(scope="session")
def random_run() -> Callable[..., Result]:
    """Return the function that simulates a random run with outages."""
    return _random_run
