"""Networks that score deferrable jobs, what they are shown, and small clusters that they meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.score_policy import ScorePolicy
from desim.problems.deferrable import DeferrableCluster, Job
from desim.problems.deferrable.encoder import ScoreEncoder
from desim.problems.deferrable.env import DeferrableEnv
from desim.workloads import deferrable

Arrays = dict[str, np.ndarray]

#: More jobs than there is room for, many of them long, on a capacity that falls at times.
BUSY = replace(
    deferrable.case("duration-1"),
    num_slots=30,
    arrival_rate=2.0,
    capacity_deviation=0.2,
    capacity_correlation=0.5,
)


def cluster_of(settings: deferrable.Settings, seed: int, **options: Any) -> DeferrableCluster:
    """Return the cluster of a generated workload."""
    jobs, capacity, num_slots = deferrable.generate(settings, seed=seed)
    return DeferrableCluster(jobs, capacity, num_slots=num_slots, **options)


def random_cluster(rng: Random, num_resources: int = 1, **options: Any) -> DeferrableCluster:
    """Return a cluster that is short of everything; amounts are thirds, whose sums are not exact."""
    times = sorted(rng.choice((0, 0.5, 1, 3, 6, 7)) for _ in range(rng.randint(1, 25)))
    jobs = []
    for job_id, time in zip(rng.sample(range(99), len(times)), times, strict=True):
        earliest = math.ceil(time) + rng.randint(0, 3)
        others = tuple(rng.choice((0, 1, 2)) / 3 for _ in range(num_resources - 1))
        latest = earliest + rng.randint(0, 4)
        jobs.append(Job(job_id, time, earliest, latest, rng.randint(1, 5), rng.randint(1, 9) / 3, others))
    capacity = [[rng.randint(0, 15) / 3 for _ in range(num_resources)] for _ in range(12)]
    settings: dict[str, Any] = {"num_slots": 12, "overcommit": False, "resources": ("cores", "memory")[:num_resources]}
    return DeferrableCluster(jobs, capacity, **settings | options)


def policy_of(config: ScoreConfig, seed: int = 0) -> Any:
    """Return a network of 64 bits that is far from indifferent: no weight is 0 or as it begins."""
    rng = np.random.default_rng(seed)
    policy = config.policy(rng)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.from_numpy(np.asarray(rng.normal(0.0, 0.3, tuple(parameter.shape)), np.float32)))
    return policy.double()


def single(policy: ScorePolicy) -> Any:
    """Return a network with the numbers that agents work with."""
    return policy.float()


def drawn_arrays(encoder: ScoreEncoder, rng: np.random.Generator, current: int, future: int) -> Arrays:
    """Return random numbers as an observation of so many jobs; rows behind them are 0."""
    shapes = {name: space.shape or () for name, space in encoder.observation_space.items()}
    found = {name: rng.normal(0.0, 1.0, shape) for name, shape in shapes.items()}
    for name, count in (("current", current), ("future", future)):
        found[name][:, 0] = 1.0
        found[name][count:] = 0.0
    found["action_mask"] = np.zeros(encoder.num_scores, np.int8)
    found["action_mask"][:current] = 1
    found["action_mask"][encoder.max_jobs :][:future] = 1
    return found


@cache
def met_arrays(config: ScoreConfig, seed: int = 0, count: int = 25) -> tuple[Arrays, ...]:
    """Return the observations of the first slots of an episode with random scores."""
    gym_env = DeferrableEnv([cluster_of(BUSY, seed)], observation=config.encoder())
    rng = np.random.default_rng(seed)
    seen, _ = gym_env.reset(seed=seed)
    found = [seen]
    while len(found) < count:
        seen, *_ = gym_env.step(rng.uniform(-1, 1, config.encoder().num_scores))
        found.append(seen)
    return tuple(found)


def batch_of(rows: Sequence[Arrays]) -> dict[str, Tensor]:
    """Return observations as a batch, in 64 bits."""
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    kinds = {name: np.float64 if array.dtype.kind == "f" else array.dtype for name, array in stacked.items()}
    return {name: torch.from_numpy(array.astype(kinds[name])) for name, array in stacked.items()}


def slow_context(policy: Any, seen: Arrays) -> np.ndarray:
    """Return what a network sees beside jobs in one observation."""
    parts = [seen["system"], seen["free"].ravel()]
    if policy.auxiliary is not None:
        with torch.no_grad():
            low, high = policy.auxiliary.vectors(torch.from_numpy(seen["history"].astype(np.float64))[None])
        kind = policy.auxiliary_kind
        parts += [high[0].numpy()] if kind in ("high", "both") else []
        parts += [low[0].numpy()] if kind in ("low", "both") else []
    return np.concatenate(parts)
