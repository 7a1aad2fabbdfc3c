"""A decision, and who answers it."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

import simpy

from desim.exceptions import DesimError

if TYPE_CHECKING:
    from desim.core import Simulation

__all__ = ["Agent", "Decision"]


class Agent(Protocol):
    """What answers decisions; ``agents.base`` describes the whole protocol."""

    def act(self, observation: Any) -> Any:
        """Return the action for one observation."""


class Decision(simpy.Event):
    """A choice that is due: the SimPy event that a problem's process waits on.

    A process that has been answered may wait for the same decision again, after it has given it
    a new list of ``callbacks``, as for any SimPy event.

    Parameters
    ----------
    simulation : Simulation
        Where the choice is due.
    observation : object
        What the agent may see, also an attribute. It is a live view, valid until the decision
        is answered.
    """

    _ok = True

    def __init__(self, simulation: Simulation, observation: Any) -> None:
        self.env = simulation.env
        self.callbacks = []
        self.observation = observation
        self._pending = simulation._pending
        self._actions = simulation.actions

    def request(self) -> Decision:
        """Make the decision due as soon as everything else at this instant has happened."""
        self._pending.append(self)
        return self

    def answer(self, action: Any) -> None:
        """Hand an action to the waiting process, which acts on it at once.

        Parameters
        ----------
        action : object
            What the problem's documentation allows.

        Raises
        ------
        DesimError
            If this decision is not the one that is due.
        """
        pending = self._pending
        if not pending or pending[0] is not self:
            raise DesimError(f"a decision can be answered once, and only while it is due (time {self.env.now})")
        pending.popleft()
        if self._actions is not None:
            self._actions.append(copy(action))  # an agent may use its array or list again
        # Nothing else happens at this instant, so there is no need to go by way of the event queue.
        self._value = action
        callbacks = self.callbacks
        self.callbacks = None  # type: ignore[assignment]  # as SimPy marks what has happened
        for callback in callbacks:
            callback(self)
