"""The reward of multi-server jobs, from what each slot has brought."""

from __future__ import annotations

from collections.abc import Callable

from desim.core import Simulation
from desim.envs.base import Reward
from desim.envs.slot_rewards import SlotReward
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import HoldingCluster, SlotOutcome

__all__ = ["REWARDS", "PaperReward"]


class PaperReward(SlotReward):
    """Gain by parallel computation less dominant overhead: equation (8) of arXiv 2305.06572, over a scale.

    The sum over an episode is the metric ``total_reward``.

    Parameters
    ----------
    scale : float
        Reward that counts as 1.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 1_000.0) -> None:
        super().__init__(scale)

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins; in a cluster whose jobs hold resources a slot has no reward of its own."""
        if isinstance(simulation.problem, HoldingCluster):
            raise InvalidConfiguration("the reward 'paper' is for jobs that last one slot, not for a HoldingCluster")
        super().reset(simulation)

    def value(self, outcome: SlotOutcome) -> float:
        """Return what a slot is worth.

        Parameters
        ----------
        outcome : SlotOutcome
            What the slot has brought.
        """
        return float(outcome.gain.sum() - outcome.overhead.sum())


REWARDS: dict[str, Callable[[], Reward]] = {"paper": PaperReward}
"""The rewards by name."""
