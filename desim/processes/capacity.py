"""Fluctuating capacity as SimPy processes: a series that is replayed, and changes at given times.

Each is given to a cluster for deferrable jobs as its ``capacity``, or added to ``processes=[...]``. They are short on
purpose: copy one and change it where your platform behaves in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from desim.core import Phase, Simulation, at
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.processes._background import in_background

__all__ = ["CapacityProcess", "FluctuatingCluster", "replayed_capacity", "stepped_capacity"]

Amounts = float | Sequence[float]


class FluctuatingCluster(Protocol):
    """What a capacity process needs of a problem."""

    env: simpy.Environment
    simulation: Simulation
    resources: tuple[str, ...]

    def set_capacity(self, amounts: ArrayLike) -> None:
        """Let the capacity be this much from now on, one number for each resource."""


CapacityProcess = Callable[[FluctuatingCluster], Generator[simpy.Event, None, None]]
"""Makes a SimPy process that sets the capacity; it must not look at the jobs, so that all agents face the same one."""


def replayed_capacity(series: ArrayLike, *, repeat: bool = False) -> CapacityProcess:
    """Return a process that sets the capacity of every slot from a series.

    Parameters
    ----------
    series : array_like of shape (num_slots,) or (num_slots, num_resources)
        The capacity of each slot, from slot 0 on.
    repeat : bool
        Begin again after the last one; otherwise that one stays.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If the series is empty, has another number of dimensions, or an entry is negative or not finite.

    Examples
    --------
    >>> from desim.agents.deferrable import FIFO
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> job = Job(1, submission_time=0, earliest_start=0, latest_start=3, duration=1, cores=2)
    >>> cluster = DeferrableCluster([job], replayed_capacity([0, 1, 2]))
    >>> simulate(cluster, FIFO()).jobs["starting_time"].to_list()
    [2.0]
    """
    table = checked_series(series)

    def run(cluster: FluctuatingCluster) -> Generator[simpy.Event, None, None]:
        """Set one slot's capacity after the other."""
        env = cluster.env
        slot = math.ceil(env.now)
        while True:
            cluster.set_capacity(table[slot % len(table) if repeat else min(slot, len(table) - 1)])
            slot += 1
            if slot >= len(table) and not repeat:
                return
            yield at(env, slot, Phase.CAPACITY)

    return in_background(run)


def checked_series(series: ArrayLike) -> NDArray[np.float64]:
    """Return a series as a table with one row a slot, or say what is wrong with it."""
    try:
        table = np.array(series, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"the capacity is not a table of numbers: {error}") from error
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidConfiguration(f"the capacity has shape {np.shape(series)}, want one row a slot, and at least one")
    wrong = np.argwhere(~((table >= 0) & (table < np.inf)))
    if len(wrong):
        slot, resource = wrong[0]
        raise InvalidConfiguration(
            f"the capacity of slot {slot} is {float(table[slot, resource])!r}, want a finite number of at least 0"
        )
    table.flags.writeable = False
    return table


def stepped_capacity(steps: Iterable[tuple[float, Amounts]]) -> CapacityProcess:
    """Return a process that changes the capacity at given times.

    Parameters
    ----------
    steps : iterable of (time, amounts)
        In order of time, in slots; the first at time 0. Amounts are a number, or one for each resource.

    Returns
    -------
    callable
        To be passed as the capacity of a ``DeferrableCluster``.

    Raises
    ------
    InvalidConfiguration
        If there is no step at time 0, or the times are out of order.
    """
    try:
        changes = tuple((float(time), amounts) for time, amounts in steps)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"the steps of the capacity are {steps!r}, want pairs (time, amounts)") from error
    if not changes or changes[0][0] != 0:
        raise InvalidConfiguration(f"the steps of the capacity are {changes!r}, want the first at time 0")
    for (before, _), (after, _) in pairwise(changes):
        if not before <= after < math.inf:
            raise InvalidConfiguration(f"the capacity changes at time {after!r} after time {before!r}: sort the steps")

    def run(cluster: FluctuatingCluster) -> Generator[simpy.Event, None, None]:
        """Make one change after the other."""
        for time, amounts in changes:
            if time > cluster.env.now:
                yield at(cluster.env, time, Phase.CAPACITY)
            cluster.set_capacity(amounts)

    return in_background(run)


def amounts_of(amounts: ArrayLike, resources: Sequence[str], time: float) -> NDArray[np.float64]:
    """Return what a capacity is set to as an array, or say what is wrong with it."""
    try:
        table = np.array(amounts, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"time {time}: the capacity is set to {amounts!r}: {error}") from error
    if len(table) != len(resources):
        raise WorkloadError(f"time {time}: the capacity is set to {amounts!r}, want a number for each of {resources}")
    for name, amount in zip(resources, table.tolist(), strict=True):
        if not 0 <= amount < math.inf:
            raise WorkloadError(f"time {time}: the capacity of {name} is set to {amount!r}, want a number from 0 on")
    table.flags.writeable = False
    return table
