"""The protocol that every agent follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from desim.core import Agent, Simulation

__all__ = ["Agent", "AttachableAgent", "ResettableAgent"]


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


@runtime_checkable
class AttachableAgent(Protocol):
    """An agent that looks ahead, and so is told how the system can be copied as far as it is known."""

    def act(self, observation: Any) -> Any:
        """Return the action for one observation."""

    def attach(self, fork: Callable[[], Simulation]) -> None:
        """Learn how to look ahead in the run that begins; ``reset`` is called afterwards.

        Parameters
        ----------
        fork : callable
            While a decision is due, returns a simulation in the same state, with the same decision due, that goes on
            without what agents cannot know: ``Simulation.fork(foresight=False)``. The agent may drive it to any end.
        """
