"""Streams of jobs as SimPy processes: one for each source, with random times between its jobs.

Each is given to a multi-server cluster as ``processes=[...]``, beside the arrivals of its workload or in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Protocol

import numpy as np
import simpy

from desim.core import Phase, Simulation, at
from desim.exceptions import InvalidConfiguration

__all__ = ["job_stream"]

Interval = float | Callable[[np.random.Generator], float]


class PortedCluster(Protocol):
    """What a stream of jobs needs of a problem."""

    env: simpy.Environment
    simulation: Simulation

    def submit(self, port: int | str) -> None:
        """Let a job arrive now."""


Process = Callable[[PortedCluster], Generator[simpy.Event, None, None]]


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
    if not callable(interval) and not 0 < interval < math.inf:
        raise InvalidConfiguration(f"the mean time between jobs is {interval!r}, want a number above 0")
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
