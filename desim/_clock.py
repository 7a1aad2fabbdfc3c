"""Events at absolute times, and the order of what happens at one instant."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify

import simpy
from simpy.events import NORMAL, EventPriority

from desim.exceptions import InvalidConfiguration

__all__ = ["HorizonReached", "Phase", "at", "reach_horizon", "reschedule", "schedule_at"]


class Phase:
    """Order of what happens at one instant, as SimPy event priorities.

    The horizon is the end of the run: what happens at ``until`` is no longer part of it.
    Completions, then changes of capacity, then arrivals follow, then the ticks of slot clocks, which sum up
    what has arrived; decisions come last, when the instant is over. A plain ``env.timeout()`` has SimPy's
    normal priority, which is that of a completion, so a user's own process acts before the arrivals and
    decisions of its instant.
    """

    HORIZON = EventPriority(-1)
    COMPLETION = NORMAL
    CAPACITY = EventPriority(NORMAL + 1)
    ARRIVAL = EventPriority(NORMAL + 2)
    SLOT = EventPriority(NORMAL + 3)


def at(
    env: simpy.Environment, time: float, phase: EventPriority = Phase.COMPLETION, value: object = None
) -> simpy.Event:
    """Return an event that happens at an absolute time and in a given phase of that instant.

    Parameters
    ----------
    env : simpy.Environment
        The environment whose clock counts.
    time : float
        When the event happens, in seconds, not before ``env.now``.
    phase : int
        Its place within the instant: a constant of :class:`Phase`.
    value : object
        What a process that waits for the event receives.

    Returns
    -------
    simpy.Event
        The scheduled event.

    Raises
    ------
    InvalidConfiguration
        If the time lies in the past or is not finite.
    """
    event = simpy.Event(env)
    schedule_at(event, time, phase, value)
    return event


def schedule_at(event: simpy.Event, time: float, phase: EventPriority = Phase.COMPLETION, value: object = None) -> None:
    """Let an existing event happen at an absolute time; the work behind :func:`at`.

    An event that has happened may serve again, if it is given a new list of ``callbacks`` first.

    Parameters
    ----------
    event : simpy.Event
        An event that is not scheduled.
    time : float
        When it happens, in seconds.
    phase : int
        A constant of :class:`Phase`.
    value : object
        What a process that waits for it receives.

    Raises
    ------
    InvalidConfiguration
        If the time lies in the past or is not finite.
    """
    env = event.env
    now = env.now
    delay = time - now
    if not 0 <= delay < math.inf:
        raise InvalidConfiguration(f"an event for time {time!r} cannot be scheduled at time {now!r}")
    while now + delay < time:  # rounding must never let an event happen before its time
        delay = math.nextafter(delay, math.inf)
    event._ok = True
    event._value = value
    env.schedule(event, phase, delay)


def reschedule(env: simpy.Environment, time_of: Callable[[simpy.Event, float], float | None]) -> None:
    """Change when what is scheduled happens, or whether it does: for :meth:`Problem.forget_future`.

    Parameters
    ----------
    env : simpy.Environment
        Whose schedule it is.
    time_of : callable
        Called with each scheduled event and its time in seconds; returns its new time, not before now, or None for what
        will not happen. Events of one time and phase keep the order in which they were scheduled.
    """
    queue = env._queue
    entries = [(time_of(event, time), phase, number, event) for time, phase, number, event in queue]
    queue[:] = [(time, *rest) for time, *rest in entries if time is not None]  # type: ignore[misc]
    heapify(queue)


class HorizonReached(Exception):  # control flow inside Simulation.advance(), never seen outside
    """The clock has reached the end of the run."""


def reach_horizon(event: simpy.Event) -> None:
    """Raise HorizonReached: the callback of the event that ends a run."""
    raise HorizonReached
