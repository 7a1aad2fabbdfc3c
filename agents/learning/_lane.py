"""One environment of a rollout, and where it stands."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

__all__ = ["EnvState", "Lane"]

EnvState = dict[str, Any]
"""Where an environment stands: the seed of its episode, the actions since, and the state of its seed generator."""


class Lane:
    """One environment and where it stands; it can be brought back there by doing the same again."""

    def __init__(self, gym_env: gymnasium.Env[Any, Any], rng: np.random.Generator) -> None:
        self.gym_env = gym_env
        self.rng = rng
        self.begin()

    def begin(self) -> None:
        """Begin a new episode."""
        self._start(int(self.rng.integers(2**31)))

    def _start(self, seed: int) -> None:
        self.seed = seed
        self.actions: list[Any] = []
        self.earned = 0.0
        self.observation, self.info = self.gym_env.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act and note it."""
        self.actions.append(action)
        self.observation, reward, terminated, truncated, info = self.gym_env.step(action)
        self.earned += float(reward)
        return self.observation, float(reward), terminated, truncated, info

    def state(self) -> EnvState:
        """Return where the environment stands, as plain values."""
        actions = [np.asarray(action).tolist() for action in self.actions]
        return {"seed": self.seed, "actions": actions, "rng": self.rng.bit_generator.state}

    def restore(self, state: EnvState) -> None:
        """Go to where an environment stood."""
        self.rng.bit_generator.state = state["rng"]
        self._start(state["seed"])
        space = self.gym_env.action_space
        for action in state["actions"]:
            self.step(np.asarray(action, space.dtype) if space.shape else int(action))
