"""Rewards of problems that go on slot by slot: each slot has its own."""

from __future__ import annotations

from typing import Any

from desim.core import Simulation
from desim.exceptions import InvalidConfiguration

__all__ = ["SlotReward"]


class SlotReward:
    """What the slots since the last decision have earned, over a scale.

    Parameters
    ----------
    scale : float
        What earns 1.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float) -> None:
        if not scale > 0:
            raise InvalidConfiguration(f"the scale is {scale!r}, want a number above 0")
        self.scale = scale

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._earned = 0.0
        simulation.problem.on("slot", self._count)

    def answered(self, answer: Any) -> None:
        """Do nothing: the problem tells of its slots."""

    def _count(self, time: float, outcome: Any) -> None:
        self._earned += self.value(outcome)

    def value(self, outcome: Any) -> float:
        """Return what a slot is worth, before it is scaled; to be overridden.

        Parameters
        ----------
        outcome : SlotOutcome
            What the slot has brought.
        """
        raise NotImplementedError

    def collect(self) -> float:
        """Return what was earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned / self.scale
