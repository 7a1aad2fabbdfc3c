"""Arrival processes: items of an iterable at their times, and jobs at random times.

A multi-server cluster takes a job stream in ``processes=[...]``, in addition to the arrivals of its workload or instead
of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np
import simpy
from simpy.events import EventPriority

from desim.checks import check_float, short_repr
from desim.core import RESUMED, Phase, Simulation, at, schedule_at
from desim.exceptions import InvalidConfiguration, WorkloadError

__all__ = ["Arrivals", "Numbered", "arrivals", "job_stream"]

Item = TypeVar("Item")

Interval = float | Callable[[np.random.Generator], float]


class PortedCluster(Protocol):
    """What a job stream needs of a problem."""

    env: simpy.Environment
    simulation: Simulation

    def submit(self, port: int | str) -> None:
        """Submit a job now."""


Process = Callable[[PortedCluster], Generator[simpy.Event, None, None]]


class Arrivals:
    """Process that delivers items at their times, and that forks can copy.

    Items are read one ahead of the clock, so endless iterators are allowed, and memory does not
    grow with their length. Items at the same instant are delivered in their order.

    Parameters
    ----------
    env : simpy.Environment
        Environment whose clock counts.
    items : iterable
        Items in order of time.
    time_of : callable
        Returns the time of an item in seconds.
    deliver : callable
        Called with each item at its time.
    phase : int
        Phase within the instant: a constant of :class:`~desim.core.Phase`.

    Raises
    ------
    WorkloadError
        During the run, if an item is earlier than its predecessor or has no finite time.
    """

    def __init__(
        self,
        env: simpy.Environment,
        items: Iterable[Item],
        time_of: Callable[[Item], float],
        deliver: Callable[[Item], None],
        phase: EventPriority = Phase.ARRIVAL,
    ) -> None:
        self.env, self.items, self.phase = env, items, phase
        self.time_of, self.deliver = time_of, deliver
        self.arrival = simpy.Event(env)  # reused for every arrival
        self.position = 0  # of the item that the process waits for

    def run(self) -> Generator[simpy.Event, Any, Any]:
        """Return the process from its beginning."""
        return self._go_on(waits=False)

    def resume(self) -> Generator[simpy.Event, Any, Any]:
        """Return the process from the point where it waits now."""
        return self._go_on(waits=True)

    def _go_on(self, *, waits: bool) -> Generator[simpy.Event, Any, Any]:
        if waits:
            yield RESUMED
        env, arrival, phase, time_of, deliver = self.env, self.arrival, self.phase, self.time_of, self.deliver
        last = 0.0 if waits else env.now
        for position, item in enumerate(_rest(self.items, self.position), self.position):
            try:
                time = time_of(item)
            except AttributeError as error:
                raise WorkloadError(f"jobs: got {short_repr(item)}, expected job objects ({error})") from error
            if not last <= time < math.inf:
                reason = (
                    f", after a job that arrives at {last!r}; sort the workload by time"
                    if 0 <= time < last
                    else ": expected a time >= 0"
                )
                raise WorkloadError(f"{item!r} arrives at {time!r}{reason}")
            last = time
            if time > env._now:
                self.position = position
                arrival.callbacks = []
                schedule_at(arrival, time, phase)
                yield arrival
            deliver(item)


class Numbered:
    """Items with their numbers; can be read again if the items can.

    Parameters
    ----------
    items : iterable
        Items to number, from 0 on.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield pairs of number and item."""
        return enumerate(self.items)


def _rest(items: Iterable[Item], begin: int) -> Iterable[Item]:
    """Return the items from a position on."""
    if not begin:
        return items
    if (starting_at := getattr(items, "starting_at", None)) is not None:
        rest: Iterable[Item] = starting_at(begin)
        return rest
    if isinstance(items, Sequence):
        return map(items.__getitem__, range(begin, len(items)))
    return islice(items, begin, None)


def arrivals(
    env: simpy.Environment,
    items: Iterable[Item],
    time_of: Callable[[Item], float],
    deliver: Callable[[Item], None],
) -> Generator[simpy.Event, None, None]:
    """Return :class:`Arrivals` as a generator for ``env.process``; forks of such a run replay the past.

    Parameters
    ----------
    env : simpy.Environment
        Environment whose clock counts.
    items : iterable
        Items in order of time.
    time_of : callable
        Returns the time of an item in seconds.
    deliver : callable
        Called with each item at its time.

    Returns
    -------
    generator
        The process.
    """
    return Arrivals(env, items, time_of, deliver).run()


def job_stream(
    port: int | str, interval: Interval, *, num_jobs: int | None = None, until: float = math.inf, name: str = ""
) -> Process:
    """Return a process that submits jobs of one type at random times.

    Parameters
    ----------
    port : int or str
        Type of the jobs, by index or name.
    interval : float or callable
        Time between consecutive jobs, in slots: the mean of an exponential distribution (a Poisson process), or a
        function that returns each of these times, called with a random generator.
    num_jobs : int, optional
        Number of jobs after which the stream ends.
    until : float
        Time at which the stream ends, in slots.
    name : str
        Name of the stream; streams at one port with the same name use the same random numbers.

    Returns
    -------
    callable
        Process for ``MultiSlotCluster(..., processes=[...])``. All agents get the same jobs.

    Raises
    ------
    InvalidConfiguration
        If the mean is not > 0, or the stream would never end.
    """
    if not callable(interval):
        check_float("the mean time between jobs", interval, above=0)
    if num_jobs is None and until == math.inf:
        raise InvalidConfiguration(f"the stream of jobs at port {port!r} never ends; give num_jobs or until")

    def run(cluster: PortedCluster) -> Generator[simpy.Event, None, None]:
        """Submit one job after another."""
        rng = cluster.simulation.stream(f"jobs at {port} {name}")
        time, sent = 0.0, 0
        while num_jobs is None or sent < num_jobs:
            step = interval(rng) if callable(interval) else rng.exponential(interval)
            if not 0 <= step < math.inf:
                raise InvalidConfiguration(
                    f"time between two jobs at port {port!r}: got {step!r}, expected a number >= 0"
                )
            time += step
            if time >= until:
                return
            if time > cluster.env.now:
                yield at(cluster.env, time, Phase.ARRIVAL)
            cluster.submit(port)
            sent += 1

    return run
