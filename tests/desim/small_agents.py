"""Agents that are short enough to be seen through, and other small tools."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from desim.core import Simulation
from desim.problems.batch import Job

__all__ = ["FirstFit", "Recorder", "Scripted", "drive", "make_jobs", "python", "random_jobs"]


class FirstFit:
    """Start the head of the queue if it fits: first come, first served."""

    def act(self, observation: Any) -> int | None:
        queue = observation.queue
        if len(queue) and queue.requested_cores[0] <= observation.free_cores:
            return int(queue.row[0])
        return None


class Scripted:
    """Give the answers of a list, then first come, first served or nothing."""

    def __init__(self, answers: Iterable[Any], then: Any = None) -> None:
        self.answers = deque(answers)
        self.then = then

    def act(self, observation: Any) -> Any:
        if self.answers:
            return self.answers.popleft()
        return None if self.then is None else self.then.act(observation)


class Recorder:
    """Note the time, the queue and the free cores of every decision, and let another agent answer."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.seen: list[tuple[float, list[int], int]] = []

    def act(self, observation: Any) -> Any:
        self.seen.append((observation.time, observation.queue.id.tolist(), observation.free_cores))
        return self.agent.act(observation)


def make_jobs(*rows: tuple[float, int, float]) -> list[Job]:
    """Make jobs 1, 2, ... of (submission time, cores, run time), which request what they need."""
    return [Job(number, *row, row[2]) for number, row in enumerate(rows, 1)]


def random_jobs(count: int, num_cores: int, seed: int = 0) -> list[Job]:
    """Make jobs whose queue is neither empty nor growing for long."""
    rng, time, jobs = Random(seed), 0.0, []
    for job_id in range(count):
        time += rng.expovariate(0.25)
        requested = float(rng.randint(1, 12))
        jobs.append(Job(job_id, time, rng.randint(1, num_cores), requested, min(requested, rng.expovariate(0.2))))
    return jobs


def drive(simulation: Simulation, agent: Any, decisions: int = 1_000_000) -> int:
    """Answer up to a number of decisions; return how many there were."""
    for count in range(decisions):
        decision = simulation.advance()
        if decision is None:
            return count
        decision.answer(agent.act(decision.observation))
    return decisions


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter of the repository."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=Path(__file__).resolve().parents[2],
        env={"PATH": "/usr/bin:/bin", "POLARS_MAX_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
