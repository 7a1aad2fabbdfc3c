"""Rewards of the batch cluster.

With the reward of the DBF paper, a policy that lets the queue explode is forgiven, because queue length and waiting
time are divided by their maxima so far; :class:`ScaledReward` divides by constants, and :class:`WaitingCost` is the
very quantity that is to be small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from desim.core import Simulation
from desim.envs.base import Reward
from desim.exceptions import InvalidConfiguration

__all__ = ["REWARDS", "PaperReward", "ScaledReward", "WaitingCost", "make_reward"]


class PaperReward:
    """The reward of the DBF paper, eq. (2): earned when a scheduling cycle is ended, at that time.

    It is -w1 (1 - utilization) - w2 L / Lmax - w3 W / Wmax, with L the number of queued jobs, W the sum of their
    waiting times in seconds, and the largest values of both so far in the episode; 0 / 0 counts as 0. A job's start
    earns 0. A cycle whose last start empties the queue is over without a question, and earns nothing.

    Parameters
    ----------
    weights : tuple of three floats
        Of idle cores, queue length and waiting time.

    Raises
    ------
    InvalidConfiguration
        If there are not three weights, or one is negative.
    """

    def __init__(self, weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)) -> None:
        if len(weights) != 3 or min(weights) < 0:
            raise InvalidConfiguration(f"the weights are {weights!r}, want three numbers of at least 0")
        self.weights = weights

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._observation: Any = simulation.problem.observation  # type: ignore[attr-defined]
        self._earned = 0.0
        self._longest = self._largest = 0.0

    def answered(self, answer: Any) -> None:
        """Earn what the end of a cycle is worth, if the answer was to wait."""
        if answer is None:
            seen = self._observation
            length = len(seen.queue)
            waiting = length * seen.time - float(seen.queue.submission_time.sum())
            self._earned -= self._cost(1.0 - seen.free_cores / seen.num_cores, length, waiting)

    def _cost(self, utilization: float, length: int, waiting: float) -> float:
        self._longest, self._largest = max(self._longest, length), max(self._largest, waiting)
        idle, queue, wait = self.weights
        cost = idle * (1.0 - utilization)
        if length:
            cost += queue * length / self._longest
        if waiting > 0:
            cost += wait * waiting / self._largest
        return cost

    def collect(self) -> float:
        """Return what was earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned


class ScaledReward(PaperReward):
    """The same with constants in place of the largest values so far.

    Parameters
    ----------
    weights : tuple of three floats
        Of idle cores, queue length and waiting time.
    queue_length : float
        Number of queued jobs that stands for 1.
    waiting_time : float
        Sum of their waiting times that stands for 1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If there are not three weights, one is negative, or a scale is not above 0.
    """

    def __init__(
        self,
        weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
        queue_length: float = 50.0,
        waiting_time: float = 1e6,
    ) -> None:
        super().__init__(weights)
        if not (queue_length > 0 and waiting_time > 0):
            raise InvalidConfiguration(f"the scales are {queue_length!r} and {waiting_time!r}, want values above 0")
        self.queue_length = queue_length
        self.waiting_time = waiting_time

    def _cost(self, utilization: float, length: int, waiting: float) -> float:
        idle, queue, wait = self.weights
        scaled = queue * length / self.queue_length + wait * waiting / self.waiting_time
        return idle * (1.0 - utilization) + scaled


class WaitingCost:
    """Minus the waiting times of all jobs, as they are spent, over a scale and to a power.

    The sum over an episode is minus the sum of (waiting time / scale) ** power over all its jobs, those still queued
    included. Between decisions the queue does not change, so the sum is exact. A power above 1 tells long waits
    from many short ones.

    Parameters
    ----------
    scale : float
        Waiting time of a job that earns -1, in seconds.
    power : float
        At least 1.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(self, scale: float = 10_000.0, power: float = 1.0) -> None:
        if not scale > 0 or not power >= 1:
            raise InvalidConfiguration(f"scale {scale!r}, power {power!r}: want a time above 0, at least 1")
        self.scale = scale
        self.power = power

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._simulation = simulation
        self._queue = simulation.problem.observation.queue  # type: ignore[attr-defined]
        self._length, self._time = 0, 0.0
        self._submissions = np.zeros(0)
        self._cost = 0.0

    def answered(self, answer: Any) -> None:
        """Note how many jobs wait from now on."""
        self._count(self._simulation.env.now)
        self._length = len(self._queue)
        if self.power > 1:
            self._submissions = self._queue.submission_time.copy()

    def _count(self, time: float) -> None:
        if self.power == 1:
            self._cost += self._length * (time - self._time) / self.scale
        elif time > self._time:
            before, after = ((instant - self._submissions) / self.scale for instant in (self._time, time))
            self._cost += float((after**self.power - before**self.power).sum())
        self._time = time

    def collect(self) -> float:
        """Return what was earned since the last call."""
        self._count(self._simulation.end_time)
        cost, self._cost = self._cost, 0.0
        return -cost


REWARDS: dict[str, Callable[[], Reward]] = {
    "paper": PaperReward,
    "scaled": ScaledReward,
    "waiting": WaitingCost,
    "long-waits": lambda: WaitingCost(100_000.0, 4.0),
}
"""The rewards by name; ``long-waits`` is the waiting cost to the fourth power."""


def make_reward(reward: str | Reward) -> Reward:
    """Return a reward by its name; one that is no name is returned as it is.

    Parameters
    ----------
    reward : str or Reward
        One of :data:`REWARDS`, or a reward.

    Returns
    -------
    Reward
        To be used by one environment.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.
    """
    if not isinstance(reward, str):
        return reward
    if reward not in REWARDS:
        raise InvalidConfiguration(f"no reward {reward!r}; there are {', '.join(REWARDS)}")
    return REWARDS[reward]()
