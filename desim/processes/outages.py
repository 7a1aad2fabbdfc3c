"""Outages as SimPy processes, of the cores of a batch cluster or the executors of a DAG cluster: planned or random.

Each is given to a cluster as ``processes=[...]``. They are short on purpose: copy one and change
it where your machine fails in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

import numpy as np
import simpy

from desim.checks import check_float, check_int
from desim.core import Phase, Simulation, at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.processes.endings import in_background

__all__ = ["FailingCluster", "FailureCounts", "Outage", "planned_outages", "random_outages"]


class FailureCounts:
    """How often each unit has failed without having been repaired.

    Parameters
    ----------
    kind : str
        What the units are called in errors.
    num_units : int
        How many there are.
    """

    def __init__(self, kind: str, num_units: int) -> None:
        self.num_units = num_units
        self._kind = kind
        self._counts = [0] * num_units

    def fail(self, units: int) -> list[int]:
        """Count failures.

        Parameters
        ----------
        units : int
            The units that fail, as a bit set.

        Returns
        -------
        list of int
            Those that were up, ascending.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist.
        """
        members = self._members(units)
        for unit in members:
            self._counts[unit] += 1
        return [unit for unit in members if self._counts[unit] == 1]

    def repair(self, units: int, time: float) -> list[int]:
        """Count repairs.

        Parameters
        ----------
        units : int
            The units that are repaired, as a bit set.
        time : float
            When, in seconds.

        Returns
        -------
        list of int
            Those that are up again, ascending.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist or is not down.
        """
        members = self._members(units)
        for unit in members:
            if not self._counts[unit]:
                raise InvalidConfiguration(f"{self._kind} {unit} cannot be repaired at time {time}: it is not down")
        for unit in members:
            self._counts[unit] -= 1
        return [unit for unit in members if not self._counts[unit]]

    def _members(self, units: int) -> list[int]:
        if units < 0 or units >> self.num_units:
            raise InvalidConfiguration(
                f"the set {units:#x} does not lie within the {self.num_units} {self._kind}s of the cluster"
            )
        return [unit for unit, digit in enumerate(f"{units:b}"[::-1]) if digit == "1"]


class FailingCluster:
    """A part of problems whose cores or executors fail and come back: it counts, and the problem says what follows.

    Attributes
    ----------
    failures : FailureCounts
        To be made when the problem is bound.
    """

    env: simpy.Environment
    simulation: Simulation
    failures: FailureCounts

    @property
    def num_units(self) -> int:
        """How many cores or executors can fail."""
        return self.failures.num_units

    def fail(self, units: int) -> None:
        """Take cores or executors down now, with what runs on them.

        Call it from a process, in the phase CAPACITY of its instant. Failures nest: what has failed twice must be
        repaired twice.

        Parameters
        ----------
        units : int
            The cores or executors, as a bit set.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist.
        """
        self.on_failure(units, self.failures.fail(units))

    def repair(self, units: int) -> None:
        """Bring cores or executors back now; the counterpart of :meth:`fail`.

        Parameters
        ----------
        units : int
            The cores or executors, as a bit set.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist or is not down.
        """
        self.on_repair(units, self.failures.repair(units, self.env.now))

    def on_failure(self, units: int, fresh: list[int]) -> None:
        """Let go down, of those that fail, the ones that were up: what a problem makes of :meth:`fail`."""
        raise NotImplementedError

    def on_repair(self, units: int, fresh: list[int]) -> None:
        """Let work again, of those repaired, the ones that are up now: what a problem makes of :meth:`repair`."""
        raise NotImplementedError


class Outage(NamedTuple):
    """One outage.

    Attributes
    ----------
    start, end : float
        The units are down in [start, end), in seconds; ``end`` may be infinite.
    units : int
        The cores or executors as a bit set, bit i for number i.
    """

    start: float
    end: float
    units: int


Process = Callable[[FailingCluster], Generator[simpy.Event, None, None]]


def planned_outages(outages: Iterable[Outage]) -> Process:
    """Return a process that takes units down and brings them back at given times.

    Parameters
    ----------
    outages : iterable of Outage
        In order of their start; they may overlap, and a unit that two of them hold is down
        until both have ended.

    Returns
    -------
    callable
        To be passed in ``BatchCluster(..., processes=[...])`` or ``DagCluster(..., processes=[...])``.

    Raises
    ------
    WorkloadError
        While the run goes on, at an outage that begins before the one before it or does not end after it has begun.
    """
    planned = tuple(outages)

    def run(cluster: FailingCluster) -> Generator[simpy.Event, None, None]:
        """Let the outages begin; a process each ends them."""
        env = cluster.env
        last = env.now
        for outage in planned:
            if not last <= outage.start < outage.end:
                raise WorkloadError(f"{outage}: want outages in order of start, each to end after it has started")
            last = outage.start
            if outage.start > env.now:
                yield at(env, outage.start, Phase.CAPACITY)
            cluster.fail(outage.units)
            if outage.end < np.inf:
                env.process(_repair(cluster, outage.end, outage.units))

    return in_background(run)


def random_outages(mean_time_to_failure: float, mean_time_to_repair: float, *, units_per_failure: int = 1) -> Process:
    """Return a process in which blocks of units fail and are repaired independently of each other.

    Times to failure and to repair are exponential. They come from the simulation's stream
    ``"outages"``, so that every agent faces the same outages.

    Parameters
    ----------
    mean_time_to_failure : float
        Mean time that a block is up, in seconds.
    mean_time_to_repair : float
        Mean time that it is down, in seconds.
    units_per_failure : int
        Cores or executors of a block, as of a node; the last block may have fewer.

    Returns
    -------
    callable
        To be passed in ``BatchCluster(..., processes=[...])`` or ``DagCluster(..., processes=[...])``. The run ends
        with its last job.

    Raises
    ------
    InvalidConfiguration
        If a mean is not positive or a block has no unit.
    """
    check_float("mean_time_to_failure", mean_time_to_failure, above=0)
    check_float("mean_time_to_repair", mean_time_to_repair, above=0)
    check_int("units_per_failure", units_per_failure, least=1)

    def run(cluster: FailingCluster) -> Generator[simpy.Event, None, None]:
        """Start a process for each block of units."""
        rng = cluster.simulation.stream("outages")
        for first in range(0, cluster.num_units, units_per_failure):
            count = min(units_per_failure, cluster.num_units - first)
            block = ((1 << count) - 1) << first
            (child,) = rng.spawn(1)
            cluster.env.process(_fail_and_repair(cluster, block, child, mean_time_to_failure, mean_time_to_repair))
        yield from ()  # a process is a generator

    return in_background(run)


def _repair(cluster: FailingCluster, time: float, units: int) -> Generator[simpy.Event, None, None]:
    yield at(cluster.env, time, Phase.CAPACITY)
    cluster.repair(units)


def _fail_and_repair(
    cluster: FailingCluster, units: int, rng: np.random.Generator, up: float, down: float
) -> Generator[simpy.Event, None, None]:
    env = cluster.env
    while True:
        yield at(env, env.now + rng.exponential(up), Phase.CAPACITY)
        cluster.fail(units)
        yield at(env, env.now + rng.exponential(down), Phase.CAPACITY)
        cluster.repair(units)
