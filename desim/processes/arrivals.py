"""Arrivals as SimPy processes: of the items of any iterable at their times, and of jobs at random times.

A stream of jobs is given to a multi-server cluster as ``processes=[...]``, beside the arrivals of its workload or in
their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

import numpy as np
import simpy

from desim.checks import finite
from desim.core import Phase, Simulation, at, schedule_at
from desim.exceptions import InvalidConfiguration, WorkloadError

__all__ = ["arrivals", "job_stream"]

Item = TypeVar("Item")

Interval = float | Callable[[np.random.Generator], float]


class PortedCluster(Protocol):
    """What a stream of jobs needs of a problem."""

    env: simpy.Environment
    simulation: Simulation

    def submit(self, port: int | str) -> None:
        """Let a job arrive now."""


Process = Callable[[PortedCluster], Generator[simpy.Event, None, None]]


def arrivals(
    env: simpy.Environment,
    items: Iterable[Item],
    time_of: Callable[[Item], float],
    deliver: Callable[[Item], None],
) -> Generator[simpy.Event, None, None]:
    """Deliver items at their times: a process to be started with ``env.process``.

    Items are drawn one ahead of the clock, so an endless iterator will do, and memory does not
    follow its length. Items of one instant are delivered in their order.

    Parameters
    ----------
    env : simpy.Environment
        Whose clock counts.
    items : iterable
        In order of time.
    time_of : callable
        Returns the time of an item in seconds.
    deliver : callable
        Called with each item when its time has come.

    Yields
    ------
    simpy.Event
        The next arrival.

    Raises
    ------
    WorkloadError
        If an item lies before the one before it, or has no finite time.
    """
    arrival = simpy.Event(env)
    last = env.now
    for item in items:
        time = time_of(item)
        if not last <= time < math.inf:
            reason = (
                f"before {last!r}, where the one before it has arrived: sort the workload"
                if 0 <= time < last
                else "want a time from 0 on"
            )
            raise WorkloadError(f"{item!r} arrives at {time!r}: {reason}")
        last = time
        if time > env.now:
            arrival.callbacks = []  # the same event serves again
            schedule_at(arrival, time, Phase.ARRIVAL)
            yield arrival
        deliver(item)


def job_stream(
    port: int | str, interval: Interval, *, num_jobs: int | None = None, until: float = math.inf, name: str = ""
) -> Process:
    """Return a process that submits jobs of one type at random times.

    Parameters
    ----------
    port : int or str
        Type of the jobs, by index or by name.
    interval : float or callable
        Time from one job to the next, in slots: the mean of an exponential distribution (a Poisson process), or a
        function of a random generator that returns each of them.
    num_jobs : int, optional
        Stop after so many jobs.
    until : float
        Stop at this time, in slots.
    name : str
        Tells streams at one port apart: those of one name draw the same numbers.

    Returns
    -------
    callable
        To be passed in ``HoldingCluster(..., processes=[...])``. All agents face the same jobs.

    Raises
    ------
    InvalidConfiguration
        If the mean is not above 0, or the stream would never end.
    """
    if not callable(interval):
        finite("the mean time between jobs", interval, above=0)
    if num_jobs is None and until == math.inf:
        raise InvalidConfiguration(f"the stream of jobs at port {port!r} never ends: give num_jobs or until")

    def run(cluster: PortedCluster) -> Generator[simpy.Event, None, None]:
        """Submit one job after another."""
        rng = cluster.simulation.stream(f"jobs at {port} {name}")
        time, sent = 0.0, 0
        while num_jobs is None or sent < num_jobs:
            step = interval(rng) if callable(interval) else rng.exponential(interval)
            if not 0 <= step < math.inf:
                raise InvalidConfiguration(f"the time between two jobs at port {port!r} is {step!r}, want at least 0")
            time += step
            if time >= until:
                return
            if time > cluster.env.now:
                yield at(cluster.env, time, Phase.ARRIVAL)
            cluster.submit(port)
            sent += 1

    return run
