"""Base class of slotted problems, in which the agent decides once per time slot, at the start of the slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import simpy

from desim.checks import MOST_ITEMS, check_int
from desim.core import Decision, Phase, schedule_at
from desim.problem import Problem, Process
from desim.processes.arrivals import Arrivals

__all__ = ["SlottedProblem"]


class SlottedProblem(Problem):
    """Base class of problems in which the agent decides once per slot; slot t begins at time t.

    All events scheduled up to the beginning of a slot are processed first. Then the observation is updated, the agent
    is asked for an action, and the action is carried out. The run ends after the last slot. Without ``num_slots`` it
    ends at the beginning of the first slot at which the system :meth:`is_empty` and no more arrivals are expected.

    A subclass sets up fresh state and the attribute ``observation`` in :meth:`begin`, which then calls :meth:`start`.
    It defines what happens in a slot in :meth:`observe` and :meth:`serve`.

    Parameters
    ----------
    num_slots : int, optional
        Length of the run in slots.
    processes : iterable of callables
        Extra SimPy processes, see :class:`~desim.Problem`.

    Attributes
    ----------
    next_slot : int
        Number of the first slot that has not begun yet.

    Raises
    ------
    InvalidConfiguration
        If ``num_slots`` is not an integer of at least 1.
    """

    observation: Any

    def __init__(self, *, num_slots: int | None = None, processes: Iterable[Process] = ()) -> None:
        super().__init__(processes=processes)
        self.num_slots = None if num_slots is None else check_int("num_slots", num_slots, least=1, most=MOST_ITEMS)

    def start(self, items: Iterable[Any], time_of: Callable[[Any], float], deliver: Callable[[Any], None]) -> None:
        """Start the slot clock and the arrivals of a workload, see :func:`desim.processes.arrivals`."""
        self.next_slot = 0
        self.keep_running(Arrivals(self.env, items, time_of, deliver))
        self._decision = Decision(self.simulation, self.observation)
        self._tick = simpy.Event(self.env)
        self._wind(0)

    def observe(self, slot: int) -> None:
        """Update ``observation`` at the beginning of a slot."""

    def serve(self, slot: int, action: Any) -> None:
        """Carry out the agent's action for a slot."""

    def is_empty(self) -> bool:
        """Return whether the run need not wait for anything in the system; checked before ``next_slot`` begins."""
        return True

    def is_idle(self) -> bool:
        """Return whether nothing is running. Default: True, because work in a slot ends with the slot."""
        return True

    def standstill(self) -> str:
        """Explain why the run makes no progress; empty if ``num_slots`` is set, because such a run always ends."""
        return super().standstill() if self.num_slots is None else ""

    def foreground_ended(self, process: simpy.Event) -> None:
        """Do nothing: the slot clock notices the end of the process when the next slot begins."""

    def expects_more(self) -> bool:
        """Return whether jobs may still arrive or a process keeps the run going."""
        return any(process.is_alive for process in self.foreground)

    def _wind(self, slot: int) -> None:
        """Schedule the beginning of a slot, with callbacks because a process per slot would be slower."""
        over = slot == self.num_slots  # at the end of the run, completions still count, but arrivals no longer do
        self._tick.callbacks = [self._begin_slot]  # the event and the decision are reused in every slot
        schedule_at(self._tick, slot, Phase.CAPACITY if over else Phase.SLOT)

    def _begin_slot(self, tick: simpy.Event) -> None:
        """Request a decision, or stop the run after the last slot or when no work is left."""
        slot = self.next_slot
        if slot == self.num_slots or (self.num_slots is None and self.is_empty() and not self.expects_more()):
            self.simulation.stop()
            return
        self.next_slot = slot + 1
        self.observe(slot)
        self._decision.callbacks = [self._end_slot]
        self._decision.request()

    def _end_slot(self, decision: simpy.Event) -> None:
        """Carry out the agent's action and schedule the next slot."""
        slot = self.next_slot - 1
        self.serve(slot, decision._value)
        self._wind(slot + 1)
