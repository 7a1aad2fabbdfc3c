"""Small runs of DAG jobs whose nodes run task by task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dag_runs import Run, random_executors

from desim import simulate
from desim.agents.dag import EFT, FIFO, HRRN, SJF, CriticalPath, InsertionEFT, ListScheduler, RandomOrder, RankUp
from desim.problems.dag import Assign, AssignTasks, Job, TaskCluster, TaskTimes
from desim.processes import Outage, planned_outages, random_outages


class CarelessTasks:
    """Assign some tasks of some node anywhere, now and then in front of others, and sometimes nothing.

    Parameters
    ----------
    patience : float
        Chance to do something when asked.
    """

    name = "careless-tasks"

    def __init__(self, patience: float = 0.8) -> None:
        self.patience = patience

    def reset(self, info: Any, rng: np.random.Generator) -> None:
        """Begin a new run."""
        self.rng = rng

    def act(self, observation: Any) -> Assign | AssignTasks | None:
        """Choose a node, an executor that is up, and how many tasks."""
        rng = self.rng
        up = np.flatnonzero(observation.available_times < math.inf)
        if not len(up) or rng.random() > self.patience:
            return None
        choices = list(observation.executable.values())
        state, node = choices[int(rng.integers(len(choices)))]
        executor = int(rng.choice(up))
        count = int(rng.integers(1, state.unassigned_tasks[node] + 1))
        return AssignTasks(state.job.job_id, node, executor, count)


AGENTS = {
    "fifo": lambda: ListScheduler(FIFO(), EFT()),
    "sjf": lambda: ListScheduler(SJF(), EFT()),
    "hrrn": lambda: ListScheduler(HRRN(), EFT()),
    "rank_up": lambda: ListScheduler(RankUp(), EFT()),
    "critical-path-insertion": lambda: ListScheduler(CriticalPath(), InsertionEFT()),
    "random": lambda: ListScheduler(RandomOrder(), EFT()),
    "careless": CarelessTasks,
}


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
    agent: str = "rank_up",
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
        processes = [planned_outages([Outage(float(begin), float(begin + long), unit) for begin, long, unit in events])]
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
    return Run(simulate(problem, AGENTS[agent](), seed=seed, until=min(until, 20_000.0)), jobs)
