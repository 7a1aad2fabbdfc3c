"""The protocol that every agent follows."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from desim.core import Agent

__all__ = ["Agent", "ResettableAgent"]


@runtime_checkable
class ResettableAgent(Protocol):
    """An agent that keeps state or draws random numbers, and so is told when a run begins."""

    def act(self, observation: Any) -> Any:
        """Return the action for one observation."""

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the last run.

        Parameters
        ----------
        simulation_info : dict
            The problem's ``describe()``.
        rng : numpy.random.Generator
            The agent's own random stream, independent of the workload's.
        """
