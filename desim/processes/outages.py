"""Outage processes for the cores of a batch cluster or the executors of a DAG cluster: planned or random.

A cluster takes one in ``processes=[...]``. The processes are short on purpose: copy one and adapt
it if your machine fails differently.
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
    """Number of unrepaired failures of each unit.

    Parameters
    ----------
    kind : str
        Name of the units in error messages.
    num_units : int
        Number of units.
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
            Failing units, as a bit set.

        Returns
        -------
        list of int
            Numbers of the units that were up, ascending.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist.
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
            Repaired units, as a bit set.
        time : float
            Time of the repair in seconds.

        Returns
        -------
        list of int
            Numbers of the units that are up again, ascending.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist or is not down.
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
                f"units: got the set {units:#x}, expected units among the {self.num_units} {self._kind}s of the cluster"
            )
        return [unit for unit, digit in enumerate(f"{units:b}"[::-1]) if digit == "1"]


class FailingCluster:
    """Mixin for problems whose cores or executors fail and are repaired: it counts, and subclasses act.

    Attributes
    ----------
    failures : FailureCounts
        Failure counts, to be created when the problem is bound.
    """

    env: simpy.Environment
    simulation: Simulation
    failures: FailureCounts

    @property
    def num_units(self) -> int:
        """Number of cores or executors that can fail."""
        return self.failures.num_units

    def fail(self, units: int) -> None:
        """Take cores or executors down now, interrupting what runs on them.

        Call it from a process in the phase CAPACITY. Failures nest: a unit that failed twice must be repaired
        twice.

        Parameters
        ----------
        units : int
            Cores or executors, as a bit set.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist.
        """
        self.on_failure(units, self.failures.fail(units))

    def repair(self, units: int) -> None:
        """Bring cores or executors back up now, after :meth:`fail`.

        Parameters
        ----------
        units : int
            Cores or executors, as a bit set.

        Raises
        ------
        InvalidConfiguration
            If a unit does not exist or is not down.
        """
        self.on_repair(units, self.failures.repair(units, self.env.now))

    def on_failure(self, units: int, fresh: list[int]) -> None:
        """Handle a failure: ``units`` fail, ``fresh`` lists those that were up. Implemented by subclasses."""
        raise NotImplementedError

    def on_repair(self, units: int, fresh: list[int]) -> None:
        """Handle a repair: ``units`` are repaired, ``fresh`` lists those that are up now. Implemented by subclasses."""
        raise NotImplementedError


class Outage(NamedTuple):
    """Outage of some units.

    Attributes
    ----------
    start, end : float
        Start and end in seconds: the units are down in [start, end); ``end`` may be infinite.
    units : int
        Cores or executors as a bit set: bit i stands for number i.
    """

    start: float
    end: float
    units: int


Process = Callable[[FailingCluster], Generator[simpy.Event, None, None]]


def planned_outages(outages: Iterable[Outage]) -> Process:
    """Return a process that takes units down and brings them back up at given times.

    Parameters
    ----------
    outages : iterable of Outage
        Outages in order of their start; they may overlap, and a unit in two outages is down
        until both have ended.

    Returns
    -------
    callable
        Process to pass in ``BatchCluster(..., processes=[...])`` or ``DagCluster(..., processes=[...])``.

    Raises
    ------
    WorkloadError
        During the run, if an outage starts before its predecessor, or does not end after its start.
    """
    planned = tuple(outages)

    def run(cluster: FailingCluster) -> Generator[simpy.Event, None, None]:
        """Start the outages; a process per outage ends it."""
        env = cluster.env
        last = env.now
        for outage in planned:
            if not last <= outage.start < outage.end:
                raise WorkloadError(f"outages: got {outage}, expected order of start, and an end after each start")
            last = outage.start
            if outage.start > env.now:
                yield at(env, outage.start, Phase.CAPACITY)
            cluster.fail(outage.units)
            if outage.end < np.inf:
                env.process(_repair(cluster, outage.end, outage.units))

    return in_background(run)


def random_outages(mean_time_to_failure: float, mean_time_to_repair: float, *, units_per_failure: int = 1) -> Process:
    """Return a process in which blocks of units fail and are repaired independently.

    Times to failure and to repair are exponentially distributed. They come from the simulation's stream
    ``"outages"``, so that every agent gets the same outages.

    Parameters
    ----------
    mean_time_to_failure : float
        Mean time for which a block is up, in seconds.
    mean_time_to_repair : float
        Mean time for which a block is down, in seconds.
    units_per_failure : int
        Number of cores or executors per block, such as those of a node; the last block may have fewer.

    Returns
    -------
    callable
        Process to pass in ``BatchCluster(..., processes=[...])`` or ``DagCluster(..., processes=[...])``. It does not
        keep the run alive after the last job.

    Raises
    ------
    InvalidConfiguration
        If a mean is not > 0, or a block has no unit.
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
        yield from ()  # makes this function a generator, as a process must be

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
