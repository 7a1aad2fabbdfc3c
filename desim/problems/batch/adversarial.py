"""Small ``batch`` instances for worst-case search: a few jobs on a few cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.random import Generator

from desim import plugins
from desim.core import Agent, Simulation
from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.job import Job

__all__ = ["BatchInstance"]

#: Cores of the cluster; initial, minimum and maximum number of jobs; latest submission and longest run time in seconds.
CORES, JOBS, FEWEST, MOST = 8, 8, 2, 16
LATEST, LONGEST = 3_600, 3_600
#: Largest ratio of requested time to run time.
OVERESTIMATE = 4.0


@dataclass(frozen=True)
class BatchInstance:
    """A small workload that the worst-case search mutates.

    Attributes
    ----------
    jobs : list of [submission_time, cores, requested_time, run_time]
        Jobs in order of submission; times are whole seconds.
    """

    at_the_end: ClassVar[Mapping[str, Callable[[Simulation], float]]] = {}

    jobs: list[list[int]]

    @classmethod
    def draw(cls, rng: Generator) -> Self:
        """Return eight random jobs."""
        return cls(sorted(_drawn(rng) for _ in range(JOBS)))

    def changed(self, rng: Generator) -> Self:
        """Return a copy with one property of a job changed, or with one job added or removed."""
        jobs = [job.copy() for job in self.jobs]
        at = int(rng.integers(len(jobs)))
        kind = ("submission", "cores", "request", "run", "add", "remove")[int(rng.integers(6))]
        job = jobs[at]
        if kind == "submission":
            job[0] = min(max(job[0] + int(rng.integers(-LATEST // 10, LATEST // 10 + 1)), 0), LATEST)
        elif kind == "cores":
            job[1] = min(max(job[1] + (-2, -1, 1, 2)[int(rng.integers(4))], 1), CORES)
        elif kind == "request":
            job[2] = int(job[3] * rng.uniform(1.0, OVERESTIMATE)) if rng.random() < 0.5 else job[3]
        elif kind == "run":
            ratio = job[2] / job[3]
            job[3] = int(min(max(job[3] * rng.uniform(0.5, 2.0), 1), LONGEST))
            job[2] = max(int(job[3] * ratio), job[3])
        elif kind == "add" and len(jobs) < MOST:
            jobs.append(_drawn(rng))
        elif kind == "remove" and len(jobs) > FEWEST:
            del jobs[at]
        return type(self)(sorted(jobs))

    def workload(self) -> list[Job]:
        """Return the jobs, with ids from 0."""
        return [
            Job(number, float(submitted), cores, float(requested), float(run))
            for number, (submitted, cores, requested, run) in enumerate(self.jobs)
        ]

    def problem(self, agent: Agent) -> BatchCluster:
        """Return the problem, a cluster that is the same for all agents."""
        return BatchCluster(self.workload(), CORES)

    def plain(self) -> dict[str, Any]:
        """Return the instance as JSON-compatible values."""
        return {"jobs": self.jobs}

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> Self:
        """Return the instance that :meth:`plain` described."""
        return cls(**values)

    def write(self, path: Path) -> None:
        """Write the jobs as a Batsim workload, for ``desim run batch --trace``."""
        plugins.workload_provider("batch", str(path)).write(path, self.workload(), num_cores=CORES)


def _drawn(rng: Generator) -> list[int]:
    run = int(LONGEST ** rng.random())
    request = max(int(run * rng.uniform(1.0, OVERESTIMATE)), run)
    return [int(rng.integers(LATEST + 1)), int(rng.integers(1, CORES + 1)), request, run]
