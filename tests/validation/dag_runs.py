"""Small runs of DAG jobs of every kind, and a way to edit their tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from editable_runs import EditableRun

from desim import Result, simulate
from desim.agents.dag import (
    DEFT,
    EFT,
    FIFO,
    HEFT,
    HRRN,
    SJF,
    CriticalPath,
    InsertionDEFT,
    InsertionEFT,
    ListScheduler,
    RandomOrder,
    RankUp,
)
from desim.problems.dag import Assign, DagCluster, Executors, Job, SharedLinks
from desim.processes import random_outages


class Careless:
    """Assign nodes anywhere, now and then twice or in front of others, and sometimes nothing.

    Parameters
    ----------
    patience : float
        Chance to do something when asked.
    """

    name = "careless"

    def __init__(self, patience: float = 0.9) -> None:
        self.patience = patience

    def reset(self, info: Any, rng: np.random.Generator) -> None:
        """Begin a new run."""
        self.rng = rng

    def act(self, observation: Any) -> Assign | None:
        """Choose a node and an executor that is up."""
        rng = self.rng
        up = np.flatnonzero(observation.available_times < math.inf)
        if not len(up) or rng.random() > self.patience:
            return None
        choices = list(observation.executable.values())
        state, node = choices[int(rng.integers(len(choices)))]
        if rng.random() < 0.25:
            known = [other for other in range(node) if state.copies[other]]
            node = known[int(rng.integers(len(known)))] if known else node
        if any(not state.copies[parent] for parent in state.job.parents(node)):
            node = choices[0][1]
            state = choices[0][0]
        return Assign(state.job.job_id, node, int(rng.choice(up)))


AGENTS = {
    "fifo-eft": lambda: ListScheduler(FIFO(), EFT()),
    "sjf-deft": lambda: ListScheduler(SJF()),
    "hrrn-deft": lambda: ListScheduler(HRRN()),
    "rank_up-deft": lambda: ListScheduler(RankUp(), DEFT()),
    "rank_up-insertion-deft": lambda: ListScheduler(RankUp(), InsertionDEFT()),
    "critical-path-insertion": lambda: ListScheduler(CriticalPath(), InsertionEFT()),
    "random-eft": lambda: ListScheduler(RandomOrder(), EFT()),
    "heft": HEFT,
    "careless": Careless,
}


@dataclass
class Run(EditableRun):
    """A run with the jobs that were simulated."""

    jobs: list[Job]

    def again(self, result: Result) -> Run:
        """Return another result of the same jobs, to be edited once more."""
        return Run(result, self.jobs)


def random_job(
    rng: np.random.Generator,
    job_id: int,
    nodes: int,
    *,
    whole: bool,
    data: float,
    executors: int = 0,
    time: float = 0.0,
) -> Job:
    """Make a job whose nodes have up to three parents among the five before; with own run times for some executors."""
    edges = []
    for child in range(1, nodes):
        near = np.arange(max(0, child - 5), child)
        for parent in rng.choice(near, min(len(near), int(rng.integers(1, 4))), replace=False).tolist():
            size = int(rng.integers(0, 4)) if whole else rng.exponential(5.0) * (rng.random() < 0.9)
            edges.append((parent, child, size * data))
    work = rng.integers(0, 5, nodes) if whole else rng.exponential(10.0, nodes)
    run_times = None
    if executors:
        shape = nodes, executors
        run_times = rng.integers(0, 5, shape) if whole else rng.uniform(1.0, 20.0, shape)
    return Job(job_id, work, edges, submission_time=time, run_times=run_times)


def random_jobs(rng: np.random.Generator, count: int, size: int, *, whole: bool, data: float, executors: int) -> list:
    """Make jobs of which some have run times of their own, submitted now and then."""
    jobs, time = [], float(rng.integers(0, 3))
    for number in range(count):
        own = executors if rng.random() < 0.2 else 0
        nodes = int(rng.integers(1, size + 1))
        jobs.append(random_job(rng, number + 1, nodes, whole=whole, data=data, executors=own, time=time))
        if rng.random() < 0.7:
            time += float(rng.integers(0, 15)) if whole else float(rng.exponential(30.0))
    return jobs


def random_executors(rng: np.random.Generator, count: int, *, whole: bool) -> Executors:
    """Make executors of different speeds, with one transfer speed or one a pair, with or without latency."""
    speeds = rng.integers(1, 4, count) if whole else rng.uniform(1.0, 3.0, count)
    choice = rng.integers(4)
    if choice == 0:
        return Executors(speeds, 1.0)
    if choice == 1:
        return Executors(speeds)
    pairs = rng.integers(1, 4, (count, count)).astype(float)
    return Executors(speeds, pairs, latency=0.5 * rng.integers(0, 3, (count, count)) if choice == 2 else 0.0)


def random_run(
    seed: int,
    *,
    agent: str = "rank_up-deft",
    plan_ahead: bool = False,
    transfers: str = "when_finished",
    outages: bool = False,
    lose: bool = True,
    links: bool = False,
    whole: bool = False,
    count: int = 4,
    size: int = 15,
    executors: int = 4,
    data: float = 1.0,
    until: float = math.inf,
    **options: Any,
) -> Run:
    """Simulate random jobs; with ``whole`` all times are small whole numbers, so that instants coincide."""
    rng = np.random.default_rng(seed)
    machines = random_executors(rng, executors, whole=whole)
    jobs = random_jobs(rng, count, size, whole=whole, data=data, executors=executors)
    if links:
        options["links"] = SharedLinks.bus(executors, 1.5) if seed % 2 else SharedLinks.star(np.full(executors, 2.0))
    problem = DagCluster(
        jobs,
        machines,
        plan_ahead=plan_ahead or agent == "heft",
        transfers="when_assigned" if links else transfers,
        outages_lose_data=lose,
        processes=[random_outages(40.0 if not whole else 15.0, 10.0)] if outages else [],
        **options,
    )
    return Run(simulate(problem, AGENTS[agent](), seed=seed, until=min(until, 20_000.0)), jobs)
