"""Small environments and networks to learn in, with known answers, and slow ways to do the same."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from desim.agents.learning.experience import PER_STEP, Collector, Experience
from desim.agents.learning.policy import (
    Distribution,
    Gaussian,
    MaskedCategorical,
    MLPPolicy,
    ObservationNormalizer,
    Policy,
    initialized,
    mlp,
    to_tensors,
)
from desim.agents.learning.q_actor_critic import QPolicy

Box, Discrete, Dict = gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.Dict


class Line(gymnasium.Env[dict[str, Any], Any]):
    """A walk on a line of five places to its right end, with luck; cut short after a number of steps.

    Its observations are always the same array, as Gymnasium does not forbid; it tells the time that went by.
    """

    def __init__(self, limit: int = 7, *, fails_after: int | None = None) -> None:
        self.observation_space = Dict({"x": Box(-10, 10, (3,), np.float32), "mask": Box(0, 1, (3,), np.int8)})
        self.action_space = Discrete(3)
        self.limit = limit
        self.fails_after = fails_after
        self.num_steps = 0
        self._x, self._mask = np.zeros(3, np.float32), np.ones(3, np.int8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin somewhere."""
        super().reset(seed=seed)
        self.place, self.taken = int(self.np_random.integers(1, 4)), 0
        return self._see(), {}

    def _see(self) -> dict[str, Any]:
        self._x[:] = self.place, self.np_random.normal(), self.taken
        self._mask[0] = self.place > 0
        return {"x": self._x, "mask": self._mask}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Go left, stay or go right."""
        self.num_steps += 1
        if self.num_steps == self.fails_after:
            raise ValueError(f"the line is broken at {self.place}")
        assert isinstance(action, int)
        assert self._mask[action]
        self.place += action - 1
        self.taken += 1
        reward = self.place * 0.1 + 0.3 * self.np_random.normal()
        elapsed = float(self.np_random.integers(3))
        terminated = self.place == 4
        return self._see(), reward, terminated, self.taken >= self.limit and not terminated, {"elapsed": elapsed}


def line_policy(seed: int = 0) -> MLPPolicy:
    """Return a small network for the line."""
    return MLPPolicy({"x": 3}, 3, np.random.default_rng(seed), hidden=(8,), mask="mask")


def line_length(gym_env: Any) -> dict[str, float]:
    """Return a measure of an episode."""
    return {"place": float(gym_env.unwrapped.place)}


class Point(gymnasium.Env[Any, Any]):
    """Two numbers to be chosen; the observation is a plain array of 64 bits. Tells no time."""

    def __init__(self) -> None:
        self.observation_space = Box(-10, 10, (2,), np.float64)
        self.action_space = Box(-10, 10, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show where the numbers should be."""
        super().reset(seed=seed)
        self.wanted, self.taken = self.np_random.normal(size=2), 0
        return self.wanted.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Earn the less the further away."""
        assert action.dtype == np.float32
        reward = -float(((action - self.wanted) ** 2).sum())
        self.taken += 1
        self.wanted = self.np_random.normal(size=2)
        return self.wanted.copy(), reward, self.taken >= 4, False, {}


class PointPolicy(Policy):
    """Mean and deviation of two numbers."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        self.mean = initialized(mlp([2, 16, 2]), rng, 0.01)
        self.critic = initialized(mlp([2, 16, 1]), rng)
        self.log_deviation = nn.Parameter(torch.zeros(2))

    def forward(self, observations: dict[str, Tensor]) -> tuple[Distribution, Tensor]:
        """Return the distribution and the values."""
        x = observations["observation"]
        mean = self.mean(x)
        return Gaussian(mean, self.log_deviation.exp().expand_as(mean)), self.critic(x).squeeze(-1)


class Bandit(gymnasium.Env[dict[str, Any], Any]):
    """Choices between four arms, of which some are closed; the best open one depends on a sign that is shown.

    The mean reward of the best policy is :data:`BEST`, that of random choices :data:`RANDOM`.
    """

    worth = np.array([[0.0, 0.2, 0.6, 1.0], [1.0, 0.6, 0.2, 0.0], [0.2, 1.0, 0.0, 0.6]])
    episode = 8

    def __init__(self, *, noise: float = 0.1) -> None:
        self.observation_space = Dict({"sign": Box(0, 1, (3,), np.float32), "action_mask": Box(0, 1, (4,), np.int8)})
        self.action_space = Discrete(4)
        self.noise = noise

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        self.taken = 0
        return self._see(), {}

    def _see(self) -> dict[str, Any]:
        self.sign = int(self.np_random.integers(3))
        self.mask = np.ones(4, np.int8)
        self.mask[self.np_random.choice(4, 2, replace=False)] = 0
        return {"sign": np.eye(3, dtype=np.float32)[self.sign], "action_mask": self.mask}

    def action_masks(self) -> Any:
        """Return the open arms, as sb3_contrib wants them."""
        return self.mask.astype(bool)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Pull an arm."""
        assert self.mask[action]
        reward = self.worth[self.sign, action] + self.noise * self.np_random.normal()
        self.taken += 1
        return self._see(), reward, self.taken >= self.episode, False, {}


#: Of two open arms of worth 0, 0.2, 0.6, 1 the better one, over all six pairs; and any of the four.
BEST, RANDOM = (1.0 * 3 + 0.6 * 2 + 0.2) / 6, 0.45


def bandit_policy(seed: int = 0, hidden: tuple[int, ...] = (32,)) -> MLPPolicy:
    """Return a small network for the bandit."""
    return MLPPolicy({"sign": 3}, 4, np.random.default_rng(seed), hidden=hidden, mask="action_mask")


class SignScores(nn.Module):
    """Scores of the arms of the bandit from its sign."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.layers = initialized(mlp([3, 32, 4]), rng, 0.1)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Return them."""
        found: Tensor = self.layers(observations["sign"])
        return found


def bandit_q_policy(seed: int = 0) -> QPolicy:
    """Return small networks for the bandit, an actor and a critic of actions."""
    rng = np.random.default_rng(seed)
    return QPolicy(SignScores(rng), SignScores(rng))


def categorical(logits: list[list[float]], mask: list[list[int]] | None = None) -> MaskedCategorical:
    """Return the distribution of numbers."""
    return MaskedCategorical(torch.tensor(logits), None if mask is None else torch.tensor(mask))


def batch_of(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Return observations as a batch."""
    return to_tensors({name: np.stack([row[name] for row in rows]) for name in rows[0]})


class Normalized(MLPPolicy):
    """A policy for the line that scales what it sees."""

    def __init__(self) -> None:
        super().__init__({"x": 3}, 3, np.random.default_rng(0), hidden=(8,), mask="mask")
        self.normalizer = ObservationNormalizer(3)

    def forward(self, observations: dict[str, Tensor]) -> tuple[Distribution, Tensor]:
        """Scale first."""
        return super().forward(observations | {"x": self.normalizer(observations["x"])})

    def observe(self, observations: dict[str, Tensor]) -> None:
        """Take in what was seen."""
        self.normalizer.update(observations["x"])


def collector(count: int, *, seed: int = 0, make: Any = Line, groups: int = 1) -> Collector:
    """Return a collector of so many environments, of which neighbours face the same episodes."""
    seeds = [one for one in np.random.SeedSequence(seed).spawn(count // groups) for _ in range(groups)]
    measure = line_length if make is Line else None
    return Collector(make, seeds, np.random.default_rng(seed + 1), measure=measure, group_size=groups)


def assert_same(first: Experience, second: Experience) -> None:
    """Compare experience bit by bit."""
    for name in first.observations:
        np.testing.assert_array_equal(first.observations[name], second.observations[name])
    for name in (*PER_STEP, "last_values", "group_size", "episodes"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
