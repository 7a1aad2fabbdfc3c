"""A stream of arrivals as a SimPy process."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

import simpy

from desim.core import Phase, schedule_at
from desim.exceptions import WorkloadError

__all__ = ["arrivals"]

Item = TypeVar("Item")


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
