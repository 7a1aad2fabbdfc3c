"""Plans of deferrable jobs, compiled: what they hold and bring, and changes of them that bring more.

A plan is the slot of each job, -1 if it is not started, as in
:class:`desim.agents.deferrable.program.PlanningInstance`. What a change brings is counted by the slots that it
concerns, as the cluster counts it: a violation is what is held above the capacity, where that is more than the cluster
tolerates, and no job starts in a slot in which what it requests does not fit. Where the capacity is uncertain, the
violation that is expected counts; and a job pays for its cores what these would bring if they were kept for jobs that
are not yet known. This module imports numba; see :func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from desim.agents.search import compiled

__all__ = ["FAR", "DeferrableSearchState", "Work", "begin", "improve", "place_all", "value"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    """Have a function compiled that makes no arrays: who uses those that it is given need not be counted."""
    return compiled(function, allocates=False)


MOST_REMOVED = 16
"""So many jobs leave the plan at most at once; then others try for their room."""

WIDEST = 24
"""They run in some of at most so many slots in a row."""

TRIED = 16
"""So many jobs that are not in the plan try for it."""

LITTLE = 1e-9
"""What brings no more than this is taken for rounding."""

FAR = 4
"""A capacity that is normally distributed is never so many standard deviations off."""

FINE = 32
"""Steps of the table below in a standard deviation."""

EXCESS = np.array(
    [
        0.5 * place / FINE * math.erfc(-place / FINE / math.sqrt(2))
        + math.exp(-0.5 * (place / FINE) ** 2) / math.sqrt(2 * math.pi)
        for place in range(-FAR * FINE, FAR * FINE + 2)
    ]
)
"""By how much a standard normal number is exceeded on average, by what lies so many steps above its mean."""


class DeferrableSearchState(NamedTuple):
    """What is planned; most names are those of :class:`desim.agents.deferrable.program.PlanningInstance`.

    Attributes
    ----------
    first, last, worth, duration, requests, capacity, limit, delay_weight, weights, overcommit
        As there.
    deviation : array of float, shape (num_slots, num_resources)
        The standard deviation of the capacity, which is then its mean; 0 where it is known.
    rent : array of float, shape (num_slots + 1,)
        What a core is worth to others in the slots before this one, altogether.
    """

    first: Integers
    last: Integers
    worth: Floats
    duration: Integers
    requests: Floats
    capacity: Floats
    limit: Floats
    delay_weight: float
    weights: Floats
    overcommit: bool
    deviation: Floats
    rent: Floats


class Work(NamedTuple):
    """A plan, and what is written to while it is changed.

    Attributes
    ----------
    starts : array of int, shape (num_jobs,)
        The plan.
    used : array of float, shape (num_slots, num_resources)
        What it holds in each slot, with what is held anyhow.
    begun : array of int, shape (num_slots, num_resources)
        How many of its jobs start there and request something of the resource.
    kept : array of int, shape (num_jobs,)
        The plan before a move.
    order : array of int, shape (num_jobs,)
        Jobs that try for a place.
    random : array of uint64, shape (1,)
        The state of the random generator.
    held : array of float, shape (num_slots, num_resources)
        What is held anyhow.
    """

    starts: Integers
    used: Floats
    begun: Integers
    kept: Integers
    order: Integers
    random: NDArray[np.uint64]
    held: Floats


@_compiled
def value(situation: DeferrableSearchState, work: Work) -> float:
    """Return what the plan brings, less what all violations cost."""
    total = 0.0
    for job in range(len(work.starts)):
        if work.starts[job] >= 0:
            total += _worth(job, work.starts[job], situation)
    for slot in range(len(work.used)):
        for resource in range(work.used.shape[1]):
            total -= situation.weights[resource] * _violation(situation, slot, resource, work.used[slot, resource])
    return total


@_compiled
def place_all(order: Integers, situation: DeferrableSearchState, work: Work) -> float:
    """Put jobs where each brings most beside those before it, and return what that brings altogether."""
    total = 0.0
    for job in order:
        if work.starts[job] < 0:
            total += _place_best(job, situation, work)
    return total


@_compiled
def begin(orders: Integers, situation: DeferrableSearchState, work: Work) -> None:
    """Plan by each of some orders, a row each, which end with a number below 0, and keep the plan that brings most."""
    best = -np.inf
    for row in range(len(orders)):
        _clear(work)
        for place in range(orders.shape[1]):
            job = orders[row, place]
            if job >= 0 and work.starts[job] < 0:
                _place_best(job, situation, work)
        found = value(situation, work)
        if found > best:
            best = found
            _keep(work)
    _clear(work)
    for job in range(len(work.kept)):
        if work.kept[job] >= 0:
            _place(job, work.kept[job], situation, work)


@_compiled
def _clear(work: Work) -> None:
    """Make the plan an empty one."""
    for job in range(len(work.starts)):
        work.starts[job] = -1
    for slot in range(len(work.used)):
        for resource in range(work.used.shape[1]):
            work.used[slot, resource] = work.held[slot, resource]
            work.begun[slot, resource] = 0


@_compiled
def _keep(work: Work) -> None:
    """Remember the plan."""
    for job in range(len(work.starts)):
        work.kept[job] = work.starts[job]


@_compiled
def improve(moves: int, situation: DeferrableSearchState, work: Work) -> float:
    """Take jobs out of the plan and others in, again and again; keep what brings no less.

    Parameters
    ----------
    moves : int
        How many times.
    situation : DeferrableSearchState
        What is planned.
    work : Work
        Its plan is changed.

    Returns
    -------
    float
        By how much the plan brings more.
    """
    gained = 0.0
    number = len(work.starts)
    for _ in range(moves):
        _keep(work)
        count, change = 0, 0.0
        wanted = 1 + _draw(work.random, MOST_REMOVED)
        slot = _draw(work.random, len(work.used))
        until = slot + 1 + _draw(work.random, WIDEST)
        begin = _draw(work.random, number)
        for step in range(number):  # those that run in the slots, from a random job on
            job = (begin + step) % number
            start = work.starts[job]
            if count < wanted and 0 <= start < until and slot < start + situation.duration[job]:
                change += _remove(job, situation, work)
                work.order[count] = job
                count += 1
        outside = 0
        begin = _draw(work.random, number)
        for step in range(number):
            job = (begin + step) % number
            if outside < TRIED and work.kept[job] < 0 and situation.first[job] <= situation.last[job]:
                work.order[count] = job
                count += 1
                outside += 1
        for place in range(count - 1, -1, -1):  # in a random order
            other = _draw(work.random, place + 1)
            job, work.order[other] = work.order[other], work.order[place]
            work.order[place] = job
            change += _place_best(job, situation, work)
        if change > -LITTLE:
            gained += change
        else:
            _restore(situation, work)
    return gained


@_compiled
def _restore(situation: DeferrableSearchState, work: Work) -> None:
    """Make the plan what it was before the move."""
    for job in range(len(work.starts)):
        if work.starts[job] != work.kept[job] and work.starts[job] >= 0:
            _remove(job, situation, work)
    for job in range(len(work.starts)):
        if work.starts[job] != work.kept[job]:
            _place(job, work.kept[job], situation, work)


@_compiled
def _place_best(job: int, situation: DeferrableSearchState, work: Work) -> float:
    """Put a job where it brings most, the earliest such slot, or nowhere; return what that brings."""
    best, where = LITTLE, -1
    for start in range(situation.first[job], situation.last[job] + 1):
        if situation.worth[job] - situation.delay_weight * (start - situation.first[job]) <= best:
            break  # later it brings less still
        most = _worth(job, start, situation)
        gain = most - _cost(job, start, most - best, situation, work)
        if gain > best:
            best, where = gain, start
    if where < 0:
        return 0.0
    _place(job, where, situation, work)
    return best


@_compiled
def _cost(job: int, start: int, limit: float, situation: DeferrableSearchState, work: Work) -> float:
    """Return what a job's violations would cost, infinite if it must not start there or if that is above the limit."""
    cost = 0.0
    for slot in range(start, min(start + situation.duration[job], len(work.used))):
        for resource in range(work.used.shape[1]):
            amount = situation.requests[job, resource]
            if amount > 0:
                held = work.used[slot, resource]
                over = held + amount > situation.limit[slot, resource]
                if over and not situation.overcommit and (slot == start or work.begun[slot, resource] > 0):
                    return np.inf
                if over or situation.deviation[slot, resource] > 0:
                    more = _violation(situation, slot, resource, held + amount)
                    cost += situation.weights[resource] * (more - _violation(situation, slot, resource, held))
        if cost >= limit:
            return np.inf
    return cost


@_compiled
def _worth(job: int, start: int, situation: DeferrableSearchState) -> float:
    """Return what a job brings if it starts in a slot, less what its cores are worth to others."""
    end = min(start + situation.duration[job], len(situation.rent) - 1)
    rent = situation.requests[job, 0] * (situation.rent[end] - situation.rent[start])
    return float(situation.worth[job] - situation.delay_weight * (start - situation.first[job]) - rent)


@_compiled
def _violation(situation: DeferrableSearchState, slot: int, resource: int, held: float) -> float:
    """Return by how much the capacity is exceeded; on average, if it is normally distributed."""
    deviation = situation.deviation[slot, resource]
    over = float(held - situation.capacity[slot, resource])
    if deviation <= 0:
        return over if held > situation.limit[slot, resource] else 0.0
    place = (over / deviation + FAR) * FINE
    if place <= 0:
        return 0.0
    if place >= 2 * FAR * FINE:
        return over
    below = int(place)
    return float(deviation * (EXCESS[below] + (place - below) * (EXCESS[below + 1] - EXCESS[below])))


@_compiled
def _place(job: int, start: int, situation: DeferrableSearchState, work: Work) -> None:
    """Put a job into the plan."""
    work.starts[job] = start
    for resource in range(work.used.shape[1]):
        amount = situation.requests[job, resource]
        if amount > 0:
            work.begun[start, resource] += 1
            for slot in range(start, min(start + situation.duration[job], len(work.used))):
                work.used[slot, resource] += amount


@_compiled
def _remove(job: int, situation: DeferrableSearchState, work: Work) -> float:
    """Take a job out of the plan, and return what that brings."""
    start = work.starts[job]
    work.starts[job] = -1
    change = -_worth(job, start, situation)
    for resource in range(work.used.shape[1]):
        amount = situation.requests[job, resource]
        if amount > 0:
            work.begun[start, resource] -= 1
            for slot in range(start, min(start + situation.duration[job], len(work.used))):
                held = work.used[slot, resource]
                work.used[slot, resource] = held - amount
                less = _violation(situation, slot, resource, held - amount)
                change += situation.weights[resource] * (_violation(situation, slot, resource, held) - less)
    return float(change)


@_compiled
def _draw(random: NDArray[np.uint64], below: int) -> int:
    """Return a random number of at least 0: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return int(np.int64(mixed >> np.uint64(1)) % below)
