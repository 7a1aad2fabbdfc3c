"""Plans of deferrable jobs, compiled: what they hold and bring, and changes of them that bring more.

A plan is the slot of each job, -1 if it is not started, as in :class:`desim.agents.deferrable.program.Instance`. What a
change brings is counted by the slots that it concerns, as the cluster counts it: a violation is what is held above the
capacity, where that is more than the cluster tolerates, and no job starts in a slot in which what it requests does not
fit. This module imports numba; see :func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.search import compiled

__all__ = ["Situation", "Work", "improve", "place_all", "value"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_REMOVED = 3
"""So many jobs leave the plan at most at once; then others try for their room."""

TRIED = 4
"""So many jobs that are not in the plan try for it."""

LITTLE = 1e-9
"""What brings no more than this is taken for rounding."""


class Situation(NamedTuple):
    """What is planned; the names are those of :class:`desim.agents.deferrable.program.Instance`."""

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
    """

    starts: Integers
    used: Floats
    begun: Integers
    kept: Integers
    order: Integers
    random: NDArray[np.uint64]


@compiled
def value(situation: Situation, work: Work) -> float:
    """Return what the plan brings, less what all violations cost."""
    total = 0.0
    for job in range(len(work.starts)):
        if work.starts[job] >= 0:
            total += situation.worth[job] - situation.delay_weight * (work.starts[job] - situation.first[job])
    for slot in range(len(work.used)):
        for resource in range(work.used.shape[1]):
            total -= situation.weights[resource] * _violation(situation, slot, resource, work.used[slot, resource])
    return total


@compiled
def place_all(order: Integers, situation: Situation, work: Work) -> float:
    """Put jobs where each brings most beside those before it, and return what that brings altogether."""
    total = 0.0
    for job in order:
        if work.starts[job] < 0:
            total += _place_best(job, situation, work)
    return total


@compiled
def improve(moves: int, situation: Situation, work: Work) -> float:
    """Take jobs out of the plan and others in, again and again; keep what brings more.

    Parameters
    ----------
    moves : int
        How many times.
    situation : Situation
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
        work.kept[:] = work.starts
        count, change = 0, 0.0
        wanted = 1 + _draw(work.random, MOST_REMOVED)
        slot = _draw(work.random, len(work.used))
        begin = _draw(work.random, number)
        for step in range(number):  # those that run in the slot, from a random job on
            job = (begin + step) % number
            start = work.starts[job]
            if 0 <= start <= slot < start + situation.duration[job] and count < wanted:
                change += _remove(job, situation, work)
                work.order[count] = job
                count += 1
        outside = 0
        begin = _draw(work.random, number)
        for step in range(number):
            job = (begin + step) % number
            if work.kept[job] < 0 and outside < TRIED and situation.first[job] <= situation.last[job]:
                work.order[count] = job
                count += 1
                outside += 1
        for place in range(count - 1, -1, -1):  # in a random order
            other = _draw(work.random, place + 1)
            job, work.order[other] = work.order[other], work.order[place]
            work.order[place] = job
            change += _place_best(job, situation, work)
        if change > LITTLE:
            gained += change
        else:
            _restore(situation, work)
    return gained


@compiled
def _restore(situation: Situation, work: Work) -> None:
    """Make the plan what it was before the move."""
    for job in range(len(work.starts)):
        if work.starts[job] != work.kept[job] and work.starts[job] >= 0:
            _remove(job, situation, work)
    for job in range(len(work.starts)):
        if work.starts[job] != work.kept[job]:
            _place(job, work.kept[job], situation, work)


@compiled
def _place_best(job: int, situation: Situation, work: Work) -> float:
    """Put a job where it brings most, the earliest such slot, or nowhere; return what that brings."""
    best, where = LITTLE, -1
    for start in range(situation.first[job], situation.last[job] + 1):
        most = situation.worth[job] - situation.delay_weight * (start - situation.first[job])
        if most <= best:
            break  # later it brings less still
        gain = most - _cost(job, start, most - best, situation, work)
        if gain > best:
            best, where = gain, start
    if where < 0:
        return 0.0
    _place(job, where, situation, work)
    return best


@compiled
def _cost(job: int, start: int, limit: float, situation: Situation, work: Work) -> float:
    """Return what a job's violations would cost, infinite if it must not start there or if that is above the limit."""
    cost = 0.0
    for slot in range(start, min(start + situation.duration[job], len(work.used))):
        for resource in range(work.used.shape[1]):
            amount = situation.requests[job, resource]
            if amount > 0:
                held = work.used[slot, resource]
                if held + amount > situation.limit[slot, resource]:
                    if not situation.overcommit and (slot == start or work.begun[slot, resource] > 0):
                        return np.inf
                    more = _violation(situation, slot, resource, held + amount)
                    cost += situation.weights[resource] * (more - _violation(situation, slot, resource, held))
        if cost >= limit:
            return np.inf
    return cost


@compiled
def _violation(situation: Situation, slot: int, resource: int, held: float) -> float:
    """Return by how much the capacity is exceeded."""
    return float(held - situation.capacity[slot, resource]) if held > situation.limit[slot, resource] else 0.0


@compiled
def _place(job: int, start: int, situation: Situation, work: Work) -> None:
    """Put a job into the plan."""
    work.starts[job] = start
    for resource in range(work.used.shape[1]):
        amount = situation.requests[job, resource]
        if amount > 0:
            work.begun[start, resource] += 1
            for slot in range(start, min(start + situation.duration[job], len(work.used))):
                work.used[slot, resource] += amount


@compiled
def _remove(job: int, situation: Situation, work: Work) -> float:
    """Take a job out of the plan, and return what that brings."""
    start = work.starts[job]
    work.starts[job] = -1
    change = situation.delay_weight * (start - situation.first[job]) - situation.worth[job]
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


@compiled
def _draw(random: NDArray[np.uint64], below: int) -> int:
    """Return a random number of at least 0: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return int(np.int64(mixed >> np.uint64(1)) % below)
