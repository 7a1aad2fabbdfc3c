"""Evaluating a policy on fixed episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch

from desim.agents.learning.policy import Policy, one_thread, to_tensors

__all__ = ["evaluate", "mean_of"]

Measure = Callable[[gymnasium.Env[Any, Any]], dict[str, float]]


def evaluate(
    policy: Policy,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    seeds: Sequence[int],
    *,
    measure: Measure | None = None,
    rng: np.random.Generator | None = None,
    together: int = 32,
) -> list[dict[str, float]]:
    """Let a policy act through one episode for each seed.

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
    rng : numpy.random.Generator, optional
        Draw the actions; by default, the most likely one is taken.
    together : int
        Most environments that advance at the same time.

    Returns
    -------
    list of dict
        ``return``, ``length`` and the measures of each episode, in the order of the seeds.
    """
    was_training = policy.training
    policy.eval()
    device = next(policy.parameters()).device.type
    envs = [make_env() for _ in range(min(together, len(seeds)))]
    waiting = list(enumerate(seeds))[::-1]
    found: list[dict[str, float]] = [{} for _ in seeds]
    lanes = [_Lane(gym_env) for gym_env in envs]
    active = [lane for lane in lanes if lane.next(waiting)]
    try:
        with torch.inference_mode(), one_thread():
            while active:
                names = active[0].observation
                batch = {name: np.stack([lane.observation[name] for lane in active]) for name in names}
                distribution, _ = policy(to_tensors(_single(batch), device))
                actions = (distribution.mode() if rng is None else distribution.sample(rng)).cpu().numpy()
                plain = actions.tolist() if actions.ndim == 1 else actions
                for lane, action in zip(active, plain, strict=True):
                    if lane.step(action):
                        measures = {} if measure is None else measure(lane.gym_env)
                        found[lane.place] = {"return": lane.earned, "length": float(lane.length), **measures}
                        lane.over = not lane.next(waiting)
                active = [lane for lane in active if not lane.over]
    finally:
        policy.train(was_training)
    return found


class _Lane:
    """One environment and its episode."""

    over = False

    def __init__(self, gym_env: gymnasium.Env[Any, Any]) -> None:
        self.gym_env = gym_env

    def next(self, waiting: list[tuple[int, int]]) -> bool:
        """Begin the next episode, if there is one."""
        if not waiting:
            return False
        self.place, seed = waiting.pop()
        self._see(self.gym_env.reset(seed=seed)[0])
        self.earned, self.length = 0.0, 0
        return True

    def step(self, action: Any) -> bool:
        """Act; tell whether the episode is over."""
        observation, reward, terminated, truncated, _ = self.gym_env.step(action)
        self._see(observation)
        self.earned += float(reward)
        self.length += 1
        return terminated or truncated

    def _see(self, observation: Any) -> None:
        self.observation = observation if isinstance(observation, dict) else {"observation": observation}


def _single(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in batch.items()}


def mean_of(episodes: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every measure over episodes.

    Parameters
    ----------
    episodes : sequence of dict
        All with the same names.

    Returns
    -------
    dict of str to float
        Empty if there is no episode.
    """
    if not episodes:
        return {}
    return {name: float(np.mean([episode[name] for episode in episodes])) for name in episodes[0]}
