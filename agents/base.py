"""The protocols that agents follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from desim.core import Agent, Simulation

__all__ = ["Agent", "AttachableAgent", "ResettableAgent"]


@runtime_checkable
class ResettableAgent(Protocol):
    """An agent that keeps state or draws random numbers; ``reset`` is called before each run."""

    def act(self, observation: Any) -> Any:
        """Return the action for one observation."""

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Discard the state of the previous run.

        Parameters
        ----------
        simulation_info : dict
            Description of the problem: its ``describe()``.
        rng : numpy.random.Generator
            Random stream of the agent, independent of the workload's.
        """


@runtime_checkable
class AttachableAgent(Protocol):
    """An agent that looks ahead by simulating copies of the running system."""

    def act(self, observation: Any) -> Any:
        """Return the action for one observation."""

    def attach(self, fork: Callable[[], Simulation]) -> None:
        """Store the function that forks the new run; ``reset`` is called afterwards.

        Parameters
        ----------
        fork : callable
            Function without arguments; call it while a decision is due. It returns a simulation in the same state, with
            the same decision due, without future events that agents cannot know: ``Simulation.fork(foresight=False)``.
            The agent may run it to any end.
        """
