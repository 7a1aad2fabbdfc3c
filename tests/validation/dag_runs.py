"""Small runs of DAG jobs of every kind, and a way to edit their tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from desim.problems.batch.cores import to_core_ids
from desim.problems.dag import (
    Assign,
    DagCluster,
    Executors,
    Job,
    SharedLinks,
    TaskCluster,
    TaskState,
    TaskTimes,
)
from desim.processes import Outage, planned_outages, random_outages
from tests.validation.editable_runs import EditableRun


class Careless:
    """Assign nodes, or some of their tasks, anywhere, now and then twice or in front of others, and sometimes nothing.

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

    def act(self, observation: Any) -> Assign | list[Assign] | None:
        """Choose a node, an executor that is up, and how many tasks."""
        rng = self.rng
        up = np.flatnonzero(observation.available_times < math.inf)
        if not len(up) or rng.random() > self.patience:
            return None
        choices = list(observation.ready.values())
        state, node = choices[int(rng.integers(len(choices)))]
        if isinstance(state, TaskState):
            executor = int(rng.choice(up))
            return [Assign(state.job.job_id, node, executor)] * int(rng.integers(1, state.unassigned_tasks[node] + 1))
        if rng.random() < 0.25:
            known = [other for other in range(node) if state.copies[other]]
            node = known[int(rng.integers(len(known)))] if known else node
        if any(not state.copies[parent] for parent in state.job.parents(node)):
            node = choices[0][1]
            state = choices[0][0]
        able = up[state.run_times[node, up] < math.inf]
        return Assign(state.job.job_id, node, int(rng.choice(able)))


AGENTS = {
    "fifo-eft": lambda: ListScheduler(FIFO(), EFT()),
    "sjf-deft": lambda: ListScheduler(SJF()),
    "hrrn-deft": lambda: ListScheduler(HRRN()),
    "rank-up-deft": lambda: ListScheduler(RankUp(), DEFT()),
    "rank-up-insertion-deft": lambda: ListScheduler(RankUp(), InsertionDEFT()),
    "critical-path-insertion": lambda: ListScheduler(CriticalPath(), InsertionEFT()),
    "random-eft": lambda: ListScheduler(RandomOrder(), EFT()),
    "heft": HEFT,
    "careless": Careless,
}


TASK_AGENTS = {
    "fifo": lambda: ListScheduler(FIFO(), EFT()),
    "sjf": lambda: ListScheduler(SJF(), EFT()),
    "hrrn": lambda: ListScheduler(HRRN(), EFT()),
    "rank-up": lambda: ListScheduler(RankUp(), EFT()),
    "critical-path-insertion": lambda: ListScheduler(CriticalPath(), InsertionEFT()),
    "random": lambda: ListScheduler(RandomOrder(), EFT()),
    "careless": lambda: Careless(patience=0.8),
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
    agent: str = "rank-up-deft",
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


# -- task by task -------------------------------------------------------------------------------------


def random_times(rng: np.random.Generator, *, whole: bool) -> TaskTimes:
    """Make durations as if measured with 2 and with 5 executors."""

    def some(count: int) -> np.ndarray:
        return rng.integers(0, 4, count).astype(float) if whole else rng.exponential(3.0, count)

    fresh = some(3)
    return TaskTimes([2, 5], [fresh, fresh], [np.concatenate([fresh, some(3)])] * 2, [some(4), []])


def random_task_job(
    rng: np.random.Generator, job_id: int, nodes: int, *, whole: bool, executors: int, time: float
) -> Job:
    """Make a job of which each node has up to five tasks; with own run times or measured durations for some."""
    edges = []
    for child in range(1, nodes):
        near = np.arange(max(0, child - 4), child)
        for parent in rng.choice(near, min(len(near), int(rng.integers(1, 4))), replace=False).tolist():
            edges.append((parent, child, float(rng.integers(0, 60)) if whole else rng.exponential(30.0)))
    num_tasks = rng.integers(1, 6, nodes)
    work = num_tasks * rng.integers(0, 4, nodes) if whole else rng.exponential(10.0, nodes)
    kind = rng.random()
    run_times = rng.uniform(1.0, 20.0, (nodes, executors)) if kind < 0.2 else None
    task_times = [random_times(rng, whole=whole) for _ in range(nodes)] if kind > 0.7 else None
    return Job(
        job_id, work, edges, submission_time=time, num_tasks=num_tasks, run_times=run_times, task_times=task_times
    )


def random_task_run(
    seed: int,
    *,
    agent: str = "rank-up",
    outages: bool = False,
    lose: bool = True,
    transfers: str = "when_finished",
    whole: bool = False,
    moving_delay: float = 0.0,
    count: int = 4,
    size: int = 8,
    executors: int = 4,
    until: float = math.inf,
) -> Run:
    """Simulate random jobs task by task; with ``whole`` times are small whole numbers, so that instants coincide."""
    rng = np.random.default_rng(seed)
    machines = random_executors(rng, executors, whole=whole)
    jobs, time = [], 0.0
    for number in range(count):
        nodes = int(rng.integers(1, size + 1))
        jobs.append(random_task_job(rng, number + 1, nodes, whole=whole, executors=executors, time=time))
        time += float(rng.integers(0, 15)) if whole else float(rng.exponential(20.0))
    processes = []
    if outages and whole:
        times = np.cumsum(rng.integers(1, 12, 12))
        units = rng.integers(1, 2**executors, 12)
        events = zip(times.tolist(), rng.integers(1, 6, 12).tolist(), units.tolist(), strict=True)
        processes = [
            planned_outages(
                [Outage(float(begin), float(begin + long), executors=to_core_ids(unit)) for begin, long, unit in events]
            )
        ]
    elif outages:
        processes = [random_outages(60.0, 10.0)]
    problem = TaskCluster(
        jobs,
        machines,
        transfers=transfers,
        outages_lose_data=lose,
        moving_delay=moving_delay,
        processes=processes,
    )
    return Run(simulate(problem, TASK_AGENTS[agent](), seed=seed, until=min(until, 20_000.0)), jobs)
