"""What a system must offer to be simulated: the base class of all problems."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import simpy

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.core import Simulation
    from desim.records import Schema

__all__ = ["Problem", "Process"]

Process = Callable[[Any], Generator[simpy.Event, Any, Any]]
"""Makes a SimPy process: called with the bound problem, returns the generator to be run."""


class Problem:
    """Base class of the systems that can be simulated.

    An instance is a configuration; a :class:`Simulation` works on its own bound copy, which
    has the attributes ``simulation`` and ``env``. One problem therefore serves any number of
    simulations.

    Parameters
    ----------
    processes : iterable of callables
        Extra SimPy processes: each is called with the bound problem and returns a generator. The
        run goes on until they have ended, except for those whose callable has an attribute
        ``background = True``.
    """

    name: ClassVar[str] = "problem"
    events: ClassVar[tuple[str, ...]] = ()
    simulation: Simulation
    env: simpy.Environment

    def __init__(self, *, processes: Iterable[Process] = ()) -> None:
        self.processes = tuple(processes)
        self.listeners: dict[str, list[Callable[[float, Any], None]]] = {event: [] for event in self.events}
        self.listening = False

    def on(self, event: str, listener: Callable[[float, Any], None]) -> None:
        """Call ``listener(time, subject)`` whenever an event happens.

        Listeners watch; to change what happens, add a process. Those of a configuration are
        called in the simulations that are made of it afterwards, those of a bound problem in
        its own simulation. Forks have none.

        Parameters
        ----------
        event : str
            One of the problem's ``events``.
        listener : callable
            Called with the time in seconds and the subject that the problem documents.

        Raises
        ------
        InvalidConfiguration
            If the problem has no such event.
        """
        if event not in self.listeners:
            raise InvalidConfiguration(f"{self.name} has no event {event!r}; there are {', '.join(self.events)}")
        self.listeners[event].append(listener)
        self.listening = True

    def bind(self, simulation: Simulation) -> None:
        """Set up the state and start the processes of one simulation."""
        self.simulation = simulation
        self.env = simulation.env
        self.listeners = {event: list(listeners) for event, listeners in self.listeners.items()}
        self.foreground: list[simpy.Process] = []
        self.begin()
        for process in self.processes:
            started = self.env.process(process(self))
            if not getattr(process, "background", False):
                self.foreground.append(started)
                started.callbacks.append(self.foreground_ended)

    def emit(self, event: str, subject: Any) -> None:
        """Call the listeners of an event now."""
        for listener in self.listeners[event]:
            listener(self.env.now, subject)

    def foreground_ended(self, process: simpy.Event) -> None:
        """Learn that one of the processes that keep the run going has ended."""

    def begin(self) -> None:
        """Set up fresh state and start the problem's own processes; called once by :meth:`bind`."""

    def close(self, time: float) -> None:
        """Record what is still in the system when the simulation ends at ``time``."""

    def schemas(self) -> dict[str, Schema]:
        """Return how each table of records is made from its rows."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return the configuration as plain values, for an agent's ``reset`` and for the records."""
        return {"problem": self.name}

    def check_replayable(self) -> None:
        """Raise :class:`InvalidConfiguration` if the workload can be read only once."""

    def forget_future(self) -> None:
        """Go on as far as an agent can know at the decision that is due: in forks without foresight.

        A problem that allows such forks stops its arrivals and all other processes here, lets what is under way take
        as long as agents expect, and drops what is scheduled otherwise, see :func:`~desim.reschedule`.

        Raises
        ------
        InvalidConfiguration
            If this problem does not say what its agents know.
        """
        raise InvalidConfiguration(
            f"problem {self.name!r} has no forks without foresight: it does not say what its agents know "
            "(Problem.forget_future)"
        )
