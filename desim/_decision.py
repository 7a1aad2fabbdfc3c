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
    """What answers decisions.

    ``act`` is all that an agent needs. :func:`simulate` also calls two methods of agents that have them, before the
    first decision and in this order:

    * ``attach(fork)``, for agents that look ahead. While a decision is due, ``fork()`` returns a simulation in the
      state that is observed, with that decision due, for the agent to drive as it likes: it goes on as far as the agent
      can know, without what is yet to arrive or to fail, see :meth:`Problem.forget_future`. It takes a workload that
      can be read again and a problem that has this method. The agent never gets hold of the simulation itself.
    * ``reset(info, rng)``, for agents that keep state or draw random numbers: the problem's ``describe()`` and the
      agent's own random stream, see ``desim.agents.base``.
    """

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
        self._actions, self._answered_at = simulation.actions, simulation._answered_at

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
            self._answered_at.append(self.env.now)  # type: ignore[union-attr]  # both are logged, or neither is
        # Nothing else happens at this instant, so there is no need to go by way of the event queue.
        self._value = action
        callbacks = self.callbacks
        self.callbacks = None  # type: ignore[assignment]  # as SimPy marks what has happened
        for callback in callbacks:
            callback(self)
