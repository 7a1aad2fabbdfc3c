"""Small environments of all problems, and how they are played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import desim.envs

SMALL: dict[str, dict[str, Any]] = {
    "desim/Batch-v0": {"num_cores": 16, "num_jobs": 40, "window": (6, 3)},
    "desim/Dag-v0": {"num_executors": 4, "max_nodes": 8, "num_jobs": 3},
    "desim/Deferrable-v0": {"max_jobs": 8, "until": 60},
    "desim/MultiServer-v0": {"num_slots": 25},  # with jobs in every slot
}
"""Settings with which an episode takes little time."""

Step = tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]
Rule = Callable[[gymnasium.Env, dict[str, np.ndarray]], Any]


def make(name: str, **settings: Any) -> Any:
    """Return a small environment without wrappers."""
    return gymnasium.make(name, **SMALL[name] | settings).unwrapped


class Masked:
    """Choose any possible action; any at all of those that are not discrete."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, gym_env: Any, seen: dict[str, np.ndarray]) -> Any:
        if isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
            return int(self.rng.choice(np.flatnonzero(gym_env.action_masks())))
        return self.rng.uniform(-1, 1, gym_env.action_space.shape).astype(np.float32)


class Unmasked(Masked):
    """Choose any action."""

    def __call__(self, gym_env: Any, seen: dict[str, np.ndarray]) -> Any:
        if isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
            return int(self.rng.integers(gym_env.action_space.n))
        return super().__call__(gym_env, seen)


def play(gym_env: Any, rule: Rule, *, seed: int | None = None, most: int = 100_000) -> list[Step]:
    """Run an episode and return its steps; the first is the reset's, without a reward."""
    seen, info = gym_env.reset(seed=seed)
    steps: list[Step] = [(seen, 0.0, False, False, info)]
    while not (steps[-1][2] or steps[-1][3]) and len(steps) <= most:
        steps.append(gym_env.step(rule(gym_env, steps[-1][0])))
    return steps


def total(steps: list[Step]) -> float:
    """Return the sum of the rewards."""
    return sum(step[1] for step in steps)


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    """Tell whether two observations are equal, bit by bit."""
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


assert set(SMALL) == set(desim.envs.environments())
