"""Evaluating a policy on fixed episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch

from desim.agents.learning.experience import Lane, Measure
from desim.agents.learning.policy import Policy, one_thread, to_tensors

__all__ = ["evaluate", "mean_of"]

TOGETHER = 32
"""Most environments that advance at the same time."""


def evaluate(
    policy: Policy,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    seeds: Sequence[int],
    *,
    measure: Measure | None = None,
) -> list[dict[str, float]]:
    """Let a policy act through one episode for each seed, taking the most likely action.

    Parameters
    ----------
    policy : Policy
        Who acts; it does not learn, nor do its normalizers.
    make_env : callable
        Returns a new environment.
    seeds : sequence of int
        Of the episodes.
    measure : callable, optional
        Called with the environment at the end of an episode; returns measures by name.

    Returns
    -------
    list of dict
        ``return``, ``length`` and the measures of each episode, in the order of the seeds.
    """
    was_training = policy.training
    policy.eval()
    device = next(policy.parameters()).device.type
    waiting = iter(enumerate(seeds))
    found: list[dict[str, float]] = [{} for _ in seeds]
    active: list[tuple[int, Lane]] = []  # each with the place of its seed
    for lane in [Lane(make_env()) for _ in range(min(TOGETHER, len(seeds)))]:
        place, seed = next(waiting)
        lane.begin(seed)
        active.append((place, lane))
    try:
        with torch.inference_mode(), one_thread():
            while active:
                names = active[0][1].observation
                batch = {name: np.stack([lane.observation[name] for _, lane in active]) for name in names}
                distribution, _ = policy(to_tensors(batch, device))
                actions = distribution.mode().cpu().numpy()
                plain = actions.tolist() if actions.ndim == 1 else actions
                left = []
                for (place, lane), action in zip(active, plain, strict=True):
                    _, terminated, truncated, _ = lane.step(action)
                    if terminated or truncated:
                        found[place] = lane.outcome(measure)
                        following = next(waiting, None)
                        if following is not None:
                            lane.begin(following[1])
                            left.append((following[0], lane))
                    else:
                        left.append((place, lane))
                active = left
    finally:
        policy.train(was_training)
    return found


def mean_of(episodes: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every measure over episodes, all with the same names; none if there is no episode.

    Parameters
    ----------
    episodes : sequence of dict
        Measures by name.
    """
    if not episodes:
        return {}
    return {name: float(np.mean([episode[name] for episode in episodes])) for name in episodes[0]}
