"""Rewards of DAG jobs: time that passes, and time that jobs spend in the system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from desim.core import Simulation
from desim.envs.base import Reward
from desim.exceptions import InvalidConfiguration

__all__ = ["REWARDS", "CompletionTimeReward", "MakespanReward"]


class MakespanReward:
    """Minus the time since the last decision, over a scale: the reward of LACHESIS, section IV.

    The sum over an episode is minus the time from its first decision to its end: the makespan, if that decision is due
    at the first submission and all jobs end.

    Parameters
    ----------
    scale : float
        Time that earns -1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 1_000.0) -> None:
        if not scale > 0:
            raise InvalidConfiguration(f"the scale is {scale!r}, want a time above 0")
        self.scale = scale

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._simulation = simulation
        self._time = 0.0

    def answered(self, answer: Any) -> None:
        """Do nothing: only time counts."""

    def collect(self) -> float:
        """Return what was earned since the last call."""
        before, self._time = self._time, self._simulation.end_time
        return (before - self._time) / self.scale


class CompletionTimeReward:
    """Minus the time that all jobs have spent in the system since the last decision, over a scale.

    The sum over an episode is minus the sum of all jobs' times from submission to completion; a job that has not
    completed counts up to the end.

    Parameters
    ----------
    scale : float
        Time that earns -1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 10_000.0) -> None:
        if not scale > 0:
            raise InvalidConfiguration(f"the scale is {scale!r}, want a time above 0")
        self.scale = scale

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._simulation = simulation
        self._num_jobs = 0
        self._time = self._spent = 0.0
        simulation.problem.on("arrival", self._arrive)
        simulation.problem.on("job_completion", self._leave)

    def answered(self, answer: Any) -> None:
        """Do nothing: the problem tells of jobs that arrive and leave."""

    def _arrive(self, time: float, job: Any) -> None:
        self._count(time)
        self._num_jobs += 1

    def _leave(self, time: float, job: Any) -> None:
        self._count(time)
        self._num_jobs -= 1

    def _count(self, time: float) -> None:
        self._spent += self._num_jobs * (time - self._time)
        self._time = time

    def collect(self) -> float:
        """Return what was earned since the last call."""
        self._count(self._simulation.end_time)
        spent, self._spent = self._spent, 0.0
        return -spent / self.scale


REWARDS: dict[str, Callable[[], Reward]] = {"makespan": MakespanReward, "completion_time": CompletionTimeReward}
"""The rewards by name."""
