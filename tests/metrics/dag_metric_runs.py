"""Random runs of DAG jobs to measure."""

from __future__ import annotations

from typing import Any

import numpy as np

from desim import Result, simulate
from desim.agents.dag import (
    DEFT,
    EFT,
    FIFO,
    HRRN,
    SJF,
    CriticalPath,
    InsertionDEFT,
    InsertionEFT,
    ListScheduler,
    RandomOrder,
    RankUp,
)
from desim.problems.dag import DagCluster, Executors, Job, SharedLinks
from desim.processes import random_outages

ORDERS = {
    "FIFO": FIFO,
    "SJF": SJF,
    "HRRN": HRRN,
    "rank_up": RankUp,
    "critical path": CriticalPath,
    "random": RandomOrder,
}
ALLOCATIONS = {"EFT": EFT, "insertion-EFT": InsertionEFT, "DEFT": DEFT, "insertion-DEFT": InsertionDEFT}


def random_job(rng: np.random.Generator, job_id: int, time: float, machines: int) -> Job:
    """Make a job of up to twelve nodes, one in four with run times of its own, some of whose nodes take no time."""
    count = int(rng.integers(1, 13))
    edges = []
    for child in range(1, count):
        near = np.arange(max(0, child - 4), child)
        for parent in rng.choice(near, min(len(near), int(rng.integers(1, 4))), replace=False).tolist():
            edges.append((parent, child, float(rng.integers(0, 6))))
    own = rng.uniform(1.0, 12.0, (count, machines)) if rng.random() < 0.25 else None
    work = rng.exponential(8.0, count) * (rng.random(count) < 0.9)
    return Job(job_id, work, edges, submission_time=time, run_times=own)


def random_run(
    seed: int,
    *,
    agent: Any = None,
    outages: bool = False,
    links: bool = False,
    lose: bool = True,
    batch: bool = False,
    free_transfers: bool = False,
    until: float = 5_000.0,
    **options: Any,
) -> Result:
    """Simulate up to five jobs on up to four executors of different speeds."""
    rng = np.random.default_rng(seed)
    machines = int(rng.integers(1, 5))
    jobs, time = [], 0.0
    for number in range(int(rng.integers(1, 6))):
        jobs.append(random_job(rng, number, time, machines))
        time += 0.0 if batch else float(rng.integers(0, 20))
    speeds = rng.uniform(1.0, 3.0, machines)
    if free_transfers:
        executors = Executors(speeds)
    else:
        executors = Executors(speeds, rng.uniform(0.5, 3.0, (machines, machines)), rng.choice([0.0, 0.5]))
    if links:
        options |= {"links": SharedLinks.bus(machines, 1.0), "transfers": "when_assigned"}
    processes = [random_outages(60.0, 15.0)] if outages else []
    cluster = DagCluster(jobs, executors, outages_lose_data=lose, processes=processes, **options)
    return simulate(cluster, ListScheduler(RankUp()) if agent is None else agent, seed=seed, until=until)
