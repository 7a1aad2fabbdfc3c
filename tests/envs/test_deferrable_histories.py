"""What is remembered of jobs, against an agent that keeps its own notes."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from desim import Simulation, simulate
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job
from desim.problems.deferrable.encoder import HISTORY_FEATURES, ScoreEncoder
from desim.problems.deferrable.env import DeferrableEnv

RESOURCES = ("cores", "memory")


def long_cluster(seed: int, num_resources: int, **options: Any) -> DeferrableCluster:
    """Return a cluster of 150 slots, in some of which no window is open."""
    rng = Random(seed)
    times = sorted(rng.randint(0, 40) if rng.random() < 0.5 else rng.randint(60, 148) for _ in range(120))
    jobs = []
    for job_id, time in enumerate(times):
        earliest = time + rng.randint(0, 2)
        others = tuple(rng.choice((0, 0.7, 2)) for _ in range(num_resources - 1))
        jobs.append(Job(job_id, time, earliest, earliest + rng.randint(0, 3), rng.randint(1, 6), rng.random(), others))
    capacity = [[rng.uniform(0, 4) for _ in range(num_resources)] for _ in range(150)]
    return DeferrableCluster(jobs, capacity, num_slots=150, resources=RESOURCES[:num_resources], **options)


class Noting:
    """Starts some jobs at random and notes what it sees and does, job by job; compares it with what is remembered."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.current: list[list[float]] = []
        self.started: list[int] = []

    def act(self, seen: DeferrableObservation) -> list[int] | None:
        """Note, compare, and answer."""
        jobs = list(seen.current)
        sums = [0.0] * (1 + len(seen.resources))
        for job in jobs:
            sums = [total + one for total, one in zip(sums, (job.duration, job.cores, *job.others), strict=True)]
        self.current.append([len(jobs), *(total / max(len(jobs), 1) for total in sums)])
        assert seen.current_history.shape == (seen.slot + 1, 2 + len(seen.resources))
        assert seen.started_history.shape == (seen.slot,)
        np.testing.assert_allclose(seen.current_history, self.current, rtol=1e-12, atol=0)
        assert seen.started_history.tolist() == self.started
        positions = [place for place in range(len(jobs)) if self.rng.random() < 0.4]
        self.started.append(len(positions))
        return positions or self.rng.choice(([], None))


@pytest.mark.parametrize("num_resources", [1, 2])
@pytest.mark.parametrize("eviction", ["never", "lost", "restarted"])
def test_they_are_what_an_agent_has_noted(num_resources: int, eviction: Any) -> None:
    agent = Noting(num_resources)
    result = simulate(long_cluster(5, num_resources, eviction=eviction), agent)
    numbers = [row[0] for row in agent.current]
    assert len(numbers) == 150  # more than there is room for at first, twice
    assert numbers.count(0) > 5
    assert max(numbers) > 3
    assert sum(agent.started) > 30
    assert (result.table("evictions").height > 0) == (eviction != "never")


def test_they_begin_anew_in_every_run() -> None:
    cluster = long_cluster(5, 1)
    for _ in range(2):
        decision = Simulation(cluster).advance()
        assert decision is not None
        seen = decision.observation
        assert seen.current_history.shape == (1, 3)
        assert seen.started_history.shape == (0,)


def log(value: float) -> float:
    return math.log1p(value) / 4


@pytest.mark.parametrize("num_resources", [1, 2])
def test_networks_are_shown_them_far_into_a_run(num_resources: int) -> None:
    encoder = ScoreEncoder(9, num_resources, history=24, rule="skip")
    gym_env = DeferrableEnv([long_cluster(7, num_resources)], observation=encoder)
    rng = np.random.default_rng(1)
    seen, _ = gym_env.reset(seed=0)
    notes: list[list[float]] = []
    started = 0

    def count(time: float, job: Job) -> None:
        nonlocal started
        started += 1

    gym_env.simulation.problem.on("start", count)
    over = False
    first = len(HISTORY_FEATURES)
    while not over:
        jobs = list(gym_env.simulation.problem.observation.current)
        requests = [sum(one) for one in zip(*((job.cores, *job.others) for job in jobs), strict=True)]
        share = max(len(jobs), 1)
        means = [one / share / 32 for one in requests or [0.0] * num_resources]
        notes.append([log(len(jobs)), 0.0, log(sum(job.duration for job in jobs) / share), *means])
        wanted = np.zeros((24, 3 + num_resources))
        recent = notes[-24:]
        wanted[24 - len(recent) :] = recent
        found = np.concatenate([seen["history"][:, 1:first], seen["history"][:, first + 3 * num_resources :]], axis=1)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
        before = started
        seen, _, terminated, truncated, _ = gym_env.step(rng.uniform(-1, 1, 9))
        notes[-1][1] = log(started - before)
        over = terminated or truncated
    assert len(notes) == 150
    assert started > 20
