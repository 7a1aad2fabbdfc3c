"""Random clusters of DAG jobs."""

from __future__ import annotations

from random import Random
from typing import Any

from desim.problems.dag import DagCluster, Executors, Job, TaskCluster
from desim.processes import Outage, planned_outages

ALL_DOWN = Outage(3.0, 7.0, 0b111)


def random_job(rng: Random, job_id: int, time: float) -> Job:
    """Return a job of a few nodes."""
    nodes = rng.randint(1, 7)
    edges = [
        (parent, child, rng.choice((0.0, 1.0, 4.0)))
        for child in range(1, nodes)
        for parent in rng.sample(range(child), min(child, rng.randint(1, 2)))
    ]
    work = [rng.choice((0.0, 1.0, 2.0, 5.0)) for _ in range(nodes)]
    tasks = [rng.randint(1, 3) for _ in range(nodes)]
    return Job(job_id, work, edges, submission_time=time, num_tasks=tasks, allow_disconnected=True)


def random_cluster(rng: Random, *, outages: bool = True, tasks: bool = True) -> DagCluster:
    """Return a cluster of three executors, which may all be down for a while."""
    times = sorted(rng.choice((0.0, 1.0, 5.0, 12.0)) for _ in range(rng.randint(1, 6)))
    ids = rng.sample(range(50), len(times))
    jobs = [random_job(rng, job_id, time) for job_id, time in zip(ids, times, strict=True)]
    down = [ALL_DOWN, Outage(8.0, 11.0, 0b010)] if outages and rng.random() < 0.6 else []
    options: dict[str, Any] = {
        "transfers": rng.choice(("when_finished", "when_assigned")),
        "processes": [planned_outages(down)] if down else (),
    }
    executors = Executors([1.0, 1.5, 2.0], 1.5, rng.choice((0.0, 0.25)))
    if tasks and rng.random() < 0.3:
        return TaskCluster(jobs, executors, **options)
    return DagCluster(jobs, executors, plan_ahead=rng.random() < 0.3, **options)
