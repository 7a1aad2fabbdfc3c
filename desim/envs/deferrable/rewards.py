"""Rewards of deferrable jobs, from what each slot has brought."""

from __future__ import annotations

from collections.abc import Callable

from desim.envs.base import Reward
from desim.envs.slot_rewards import SlotReward
from desim.problems.deferrable import SlotOutcome

__all__ = ["REWARDS", "PaperReward", "UtilizationReward"]


class PaperReward(SlotReward):
    """Utilization less delay and violation: equation (6) of the OSDEC paper, over a scale.

    The sum over an episode is the paper's objective, equation (1): the metric ``total_reward``.

    Parameters
    ----------
    scale : float
        Core-slots that earn 1.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__(scale)

    def value(self, outcome: SlotOutcome) -> float:
        """Return what a slot is worth, in core-slots.

        Parameters
        ----------
        outcome : SlotOutcome
            What the slot has brought.
        """
        return outcome.reward


class UtilizationReward(SlotReward):
    """Cores times duration of the jobs that are started, less those of jobs that are evicted, over a scale.

    The sum over an episode is the metric ``utilization``, the objective of the paper's Table 2.

    Parameters
    ----------
    scale : float
        Core-slots that earn 1.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__(scale)

    def value(self, outcome: SlotOutcome) -> float:
        """Return what a slot is worth, in core-slots.

        Parameters
        ----------
        outcome : SlotOutcome
            What the slot has brought.
        """
        return outcome.revenue


REWARDS: dict[str, Callable[[], Reward]] = {"paper": PaperReward, "utilization": UtilizationReward}
"""The rewards by name."""
