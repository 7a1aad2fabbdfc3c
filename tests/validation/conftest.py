"""Valid runs to validate, and a way to corrupt them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from editable_runs import EditableRun

from desim import Phase, at, simulate
from desim.agents.batch import create
from desim.problems.batch import AdvanceReservation, BatchCluster, Dependency, Job, Limit, QualityOfService
from tests.jobs import with_fields

NUM_CORES = 12


class FirstFit:
    """Start the first queued job that fits."""

    def act(self, observation: Any) -> int | None:
        """Choose a job."""
        fits = np.flatnonzero(observation.queue.requested_cores <= observation.free_cores)
        return int(observation.queue.row[fits[0]]) if len(fits) else None


@dataclass
class Run(EditableRun):
    """A run with its workload."""

    jobs: list[Job]

    def find(self, table: str, **wanted: Any) -> int:
        """Return the first row whose columns have the wanted values."""
        for index, row in enumerate(self.result.table(table).iter_rows(named=True)):
            if all(row[column] == value for column, value in wanted.items()):
                return index
        raise LookupError(f"no row of {table} has {wanted}")


def _random_jobs(rng: np.random.Generator, count: int, width: int) -> list[Job]:
    times = np.cumsum(rng.exponential(4.0, count))
    return [
        Job(
            7 + number,
            float(times[number]),
            int(rng.integers(1, width + 1)),
            float(rng.uniform(1.0, 60.0)),
            float(rng.uniform(0.0, 50.0)) if rng.random() < 0.95 else 0.0,
            int(rng.integers(-1, 5)),
        )
        for number in range(count)
    ]


def _random_run(
    seed: int,
    *,
    count: int = 60,
    outages: bool = True,
    until: float = float("inf"),
    agent: Any = None,
    fields: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    rng = np.random.default_rng(seed)
    jobs = _random_jobs(rng, count, NUM_CORES + (options.get("too_wide") == "reject"))
    jobs = with_fields(jobs, **(fields or {}))

    def failures(problem: BatchCluster) -> Any:
        for _ in range(8):
            cores = rng.choice(NUM_CORES, int(rng.integers(1, 5)), replace=False).tolist()
            yield at(problem.env, problem.env.now + float(rng.exponential(25.0)), Phase.CAPACITY)
            problem.fail(cores=cores)
            yield at(problem.env, problem.env.now + float(rng.exponential(10.0)), Phase.CAPACITY)
            problem.repair(cores=cores)

    problem = BatchCluster(jobs, NUM_CORES, processes=[failures] if outages else [], **options)
    return Run(simulate(problem, agent or FirstFit(), until=until), jobs)


@pytest.fixture(scope="session")
def random_run() -> Callable[..., Run]:
    """Return the function that simulates random jobs on twelve cores."""
    return _random_run


@pytest.fixture(scope="session")
def plain() -> Run:
    """Return a run to the end, without outages."""
    return _random_run(1, outages=False)


@pytest.fixture(scope="session")
def requeued() -> Run:
    """Return a run to the end in which outages put jobs back into the queue and wide jobs are rejected."""
    return _random_run(2, too_wide="reject")


@pytest.fixture(scope="session")
def lost() -> Run:
    """Return a run to the end in which outages cost jobs."""
    return _random_run(3, on_outage="lose")


@pytest.fixture(scope="session")
def stopped() -> Run:
    """Return a run that stops while jobs are running and queued."""
    return _random_run(4, until=100.0)


@pytest.fixture(scope="session")
def dependent() -> Run:
    """Return a run that stops while jobs wait for others to end."""
    after = {number: Dependency((number - 3, number - 5), 10.0) for number in range(15, 60, 4)}
    return _random_run(5, outages=False, until=220.0, fields={"after": after})


@pytest.fixture(scope="session")
def limited() -> Run:
    """Return a run in which users have limits, and long jobs are turned away."""
    limits = [Limit(running_jobs=2, running_cores=12, job_time=55.0), Limit(members=("1", "2"), running_cores=6)]
    return _random_run(6, limits=limits, too_wide="reject")


@pytest.fixture(scope="session")
def windowed() -> Run:
    """Return a run with reservations into which jobs run, and which cost them their cores."""
    return _random_run(7, reservations=[AdvanceReservation(20.0, 60.0, 5), AdvanceReservation(50.0, 90.0, 4)])


@pytest.fixture(scope="session")
def saving() -> Run:
    """Return a run with outages, in which jobs go on from checkpoints and have some grace."""
    return _random_run(8, checkpoint_interval=2.0, over_time_limit=5.0)


@pytest.fixture(scope="session")
def graced() -> Run:
    """Return a run in which preempted jobs run on for a grace time."""
    qos = [QualityOfService("urgent", 9.0, ("standby",)), QualityOfService("standby", grace_time=3.0)]
    qos_of = {number: ("urgent", "standby", "standby")[number % 3] for number in range(7, 64)}
    agent = create("preemptive-backfilling-fcfs")
    return _random_run(9, agent=agent, qos=qos, fields={"qos": qos_of}, outages=False)


@pytest.fixture(scope="session")
def preempted() -> Run:
    """Return a run with outages and checkpoints, in which jobs preempt others, which are requeued or suspended."""
    qos = [
        QualityOfService("urgent", 9.0, ("spare", "standby")),
        QualityOfService("spare", 1.0, ("standby",)),
        QualityOfService("standby", mode="suspend"),
    ]
    qos_of = {number: ("urgent", "spare", "standby", "standby")[number % 4] for number in range(7, 64)}
    agent = create("preemptive-backfilling-fcfs")
    return _random_run(9, agent=agent, qos=qos, fields={"qos": qos_of}, checkpoint_interval=2.0)
