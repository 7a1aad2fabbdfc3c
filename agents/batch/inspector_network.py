"""The network of an inspector, and all that belongs to its weights.

Source: Zhang, Dai and Xie, "SchedInspector", HPDC 2022: a small fully connected network.
Departure: it begins by accepting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from desim.agents.learning.configuration import AgentConfig
from desim.agents.learning.policy import MLPPolicy, Policy
from desim.problems.batch.inspection import INSPECTION_FEATURES

__all__ = ["InspectorConfig"]


@dataclass(frozen=True)
class InspectorConfig(AgentConfig[Policy]):
    """Base policy, rules and network.

    Parameters
    ----------
    base : str
        Name of the base policy's priority.
    hidden : tuple of int
        Units of the hidden layers, of actor and critic each.
    max_rejections : int
        Most rejections of a job.
    interval : float
        Longest time from a rejection to the next question, in seconds.
    keeps_accepted : bool
        Whether an accepted job that does not fit stays the chosen one; see
        :class:`~desim.problems.batch.inspection.Inspection`.
    """

    agent_kind: ClassVar[str] = "inspector"
    described: ClassVar[str] = "an inspector"

    base: str = "sjf-cores"
    hidden: tuple[int, ...] = (32, 16, 8)
    max_rejections: int = 72
    interval: float = 600.0
    keeps_accepted: bool = True

    def rules(self) -> dict[str, Any]:
        """Return the arguments of :class:`~desim.problems.batch.inspection.Inspection` beside the base policy."""
        return {
            "max_rejections": self.max_rejections,
            "interval": self.interval,
            "keeps_accepted": self.keeps_accepted,
        }

    def policy(self, rng: np.random.Generator) -> Policy:
        """Return a new network; it accepts nearly three out of four choices, and its likeliest action is to accept."""
        policy = MLPPolicy({"features": len(INSPECTION_FEATURES)}, 2, rng, hidden=self.hidden)
        bias = policy.actor[-1].bias
        assert isinstance(bias, torch.Tensor)
        with torch.no_grad():
            bias.copy_(torch.tensor([0.0, 1.0]))
        return policy
