"""Small deferrable runs of every kind, and a way to edit their tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from editable_runs import EditableRun

from desim import simulate
from desim.problems.deferrable import DeferrableCluster, Job

RESOURCES = ("cores", "memory", "disk")


@dataclass
class Run(EditableRun):
    """A run with the jobs that were simulated."""

    jobs: list[Job]


class AtRandom:
    """Start some of the jobs, in any order; only what fits unless the cluster lets it start more."""

    def __init__(self, seed: int, eagerness: float = 0.7) -> None:
        self.rng, self.eagerness = np.random.default_rng(seed), eagerness

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        """Learn what is allowed."""
        self.overcommit = info["overcommit"] and self.rng.random() < 0.5

    def act(self, observation: Any) -> list[int]:
        """Choose jobs."""
        count = len(observation.current)
        chosen = self.rng.permutation(count)[self.rng.random(count) < self.eagerness]
        if self.overcommit:
            return chosen.tolist()
        used, fitting = observation.used.copy(), []
        for position in chosen.tolist():
            request = observation.current.requests[position]
            if not ((used + request > observation.limit) & (request > 0)).any():
                used += request
                fitting.append(position)
        return fitting


def random_jobs(
    rng: np.random.Generator, count: int, resources: int, *, whole: bool, window: int = 4, span: float = 20.0
) -> list[Job]:
    """Draw jobs of which some come between slots, some request nothing of some resources, and some share a name."""
    times = np.sort(rng.choice([0.5, 1.0], count) * rng.integers(0, 2 * span, count))
    jobs = []
    for number, time in enumerate(times.tolist()):
        earliest = math.ceil(time) + int(rng.integers(0, window) * rng.integers(0, 2))
        amounts = rng.integers(1, 6, resources) if whole else rng.uniform(0.1, 5.0, resources)
        amounts = (amounts * np.append(1, rng.integers(0, 2, resources - 1))).tolist()
        latest = earliest + int(rng.integers(0, window))
        jobs.append(Job(number - 7, time, earliest, latest, int(rng.integers(1, 8)), amounts[0], tuple(amounts[1:])))
    return jobs


def renamed(jobs: list[Job]) -> list[Job]:
    """Give jobs the name of one that has certainly left before they come, where there is one."""
    free: list[tuple[int, int]] = []
    new = []
    for job in jobs:
        again = next((pair for pair in free if pair[0] < job.submission_time), None)
        name = job.job_id if again is None else again[1]
        if again is not None:
            free.remove(again)
        free.append((job.latest_start + job.duration, name))
        new.append(job._replace(job_id=name))
    return new


def random_run(
    seed: int,
    *,
    count: int = 40,
    resources: int = 1,
    whole: bool = True,
    reused: bool = False,
    until: float = math.inf,
    level: float = 9.0,
    **options: Any,
) -> Run:
    """Simulate random jobs under a random capacity, with an agent that starts any of them."""
    rng = np.random.default_rng(seed)
    jobs = random_jobs(rng, count, resources, whole=whole)
    if reused:
        jobs = renamed(jobs)
    shape = (30, resources)
    capacity = rng.integers(0, int(2 * level), shape) if whole else rng.uniform(0.0, 2 * level, shape)
    cluster = DeferrableCluster(jobs, capacity, resources=RESOURCES[:resources], **options)
    return Run(simulate(cluster, AtRandom(seed), seed=seed, until=until), jobs)
