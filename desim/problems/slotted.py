"""Systems with a slot clock: what problems share that are asked once a slot, at its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import simpy

from desim.checks import check_int
from desim.core import Decision, Phase, schedule_at
from desim.problem import Problem, Process
from desim.processes.arrivals import Arrivals

__all__ = ["SlottedProblem"]


class SlottedProblem(Problem):
    """Base class of systems that are asked once a slot; slot t begins at time t.

    A slot begins when everything has happened that happens up to its time: the system is shown, asked, and carries the
    answer out. The run ends with the last slot or, without ``num_slots``, as a slot begins at which the system
    :meth:`is_empty` and nothing more will come.

    :meth:`begin` of a subclass sets up fresh state and the attribute ``observation``, and calls :meth:`start`;
    :meth:`observe` and :meth:`serve` are what happens in a slot.

    Parameters
    ----------
    num_slots : int, optional
        Length of the run in slots.
    processes : iterable of callables
        Extra SimPy processes, see :class:`~desim.Problem`.

    Attributes
    ----------
    next_slot : int
        The first slot that has not begun.

    Raises
    ------
    InvalidConfiguration
        If ``num_slots`` is no whole number of at least 1.
    """

    observation: Any

    def __init__(self, *, num_slots: int | None = None, processes: Iterable[Process] = ()) -> None:
        super().__init__(processes=processes)
        self.num_slots = None if num_slots is None else check_int("num_slots", num_slots, least=1)

    def start(self, items: Iterable[Any], time_of: Callable[[Any], float], deliver: Callable[[Any], None]) -> None:
        """Start the slot clock and a workload, see :func:`desim.processes.arrivals`."""
        self.next_slot = 0
        self.keep_running(Arrivals(self.env, items, time_of, deliver))
        self._decision = Decision(self.simulation, self.observation)
        self._tick = simpy.Event(self.env)
        self._wind(0)

    def observe(self, slot: int) -> None:
        """Bring ``observation`` up to date as a slot begins."""

    def serve(self, slot: int, action: Any) -> None:
        """Carry out the answer of a slot."""

    def is_empty(self) -> bool:
        """Tell whether nothing is in the system that the run has to wait for; asked before ``next_slot`` begins."""
        return True

    def is_idle(self) -> bool:
        """Tell whether nobody works on anything: by default always, since what is served has a slot of its own."""
        return True

    def standstill(self) -> str:
        """Say why nothing more will be done; a run of so many slots ends by itself, whatever happens in them."""
        return super().standstill() if self.num_slots is None else ""

    def foreground_ended(self, process: simpy.Event) -> None:
        """Go on: the slot clock finds out as the next slot begins."""

    def expects_more(self) -> bool:
        """Tell whether anything may still arrive, or a process keeps the run going."""
        return any(process.is_alive for process in self.foreground)

    def _wind(self, slot: int) -> None:
        """Let the clock strike as a slot begins; callbacks, since a process would only come and go."""
        over = slot == self.num_slots  # jobs that end then have run, jobs that come then are too late
        self._tick.callbacks = [self._begin_slot]  # the same event serves again, and so does the decision
        schedule_at(self._tick, slot, Phase.CAPACITY if over else Phase.SLOT)

    def _begin_slot(self, tick: simpy.Event) -> None:
        """Ask, unless the last slot is over or there is nothing more to come."""
        slot = self.next_slot
        if slot == self.num_slots or (self.num_slots is None and self.is_empty() and not self.expects_more()):
            self.simulation.stop()
            return
        self.next_slot = slot + 1
        self.observe(slot)
        self._decision.callbacks = [self._end_slot]
        self._decision.request()

    def _end_slot(self, decision: simpy.Event) -> None:
        """Carry out the answer and wait for the next slot."""
        slot = self.next_slot - 1
        self.serve(slot, decision._value)
        self._wind(slot + 1)
