"""Compiled evaluation and local search of plans of deferrable jobs.

A plan is the start slot of each job, -1 if it is not started, as in
``PlanningInstance`` of ``program``. A change is evaluated over the slots that it affects, by the
rules of the cluster: a violation is the usage above the capacity, if it exceeds the cluster's tolerance, and a job only
starts in a slot in which its request fits. With an uncertain capacity the expected violation counts. A job also pays a
rent for its cores: their value if they were kept for jobs that are not yet known. This module imports numba; see
:func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from desim.agents._random_bits import next_bits
from desim.agents.search import compiled

__all__ = ["FAR", "DeferrableSearchState", "Work", "begin", "improve", "place_all", "value"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    """Compile a function that allocates no arrays, without reference counting of its arguments."""
    return compiled(function, allocates=False)


MOST_REMOVED = 16
"""Largest number of jobs that one move removes from the plan."""

WIDEST = 24
"""Largest number of consecutive slots in which the removed jobs run."""

TRIED = 16
"""Number of jobs outside the plan that one move tries to insert."""

LITTLE = 1e-9
"""Gains up to this count as rounding errors."""

FAR = 4
"""Number of standard deviations at which the normal distribution of a capacity is truncated."""

FINE = 32
"""Number of steps of ``EXCESS`` per standard deviation."""

EXCESS = np.array(
    [
        0.5 * place / FINE * math.erfc(-place / FINE / math.sqrt(2))
        + math.exp(-0.5 * (place / FINE) ** 2) / math.sqrt(2 * math.pi)
        for place in range(-FAR * FINE, FAR * FINE + 2)
    ]
)
"""Expected excess of a constant over a standard normal variable, by the constant in steps from -FAR on."""


class DeferrableSearchState(NamedTuple):
    """Planning instance as arrays for compiled functions.

    Attributes
    ----------
    first, last, worth, duration, requests, capacity, limit, delay_weight, weights, overcommit
        Same as in :class:`desim.agents.deferrable.program.PlanningInstance`; ``weights`` are its ``violation_weights``.
    deviation : array of float, shape (num_slots, num_resources)
        Standard deviation of the capacity, whose mean is then ``capacity``; 0 where the capacity is known.
    rent : array of float, shape (num_slots + 1,)
        Cumulative rent of a core over all slots before this one.
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
    """Plan, with the arrays that are updated as it changes.

    Attributes
    ----------
    starts : array of int, shape (num_jobs,)
        Start slot of each job, -1 if it is not planned.
    used : array of float, shape (num_slots, num_resources)
        Usage per slot by the plan and by running jobs.
    begun : array of int, shape (num_slots, num_resources)
        Number of planned jobs that start in the slot and request the resource.
    kept : array of int, shape (num_jobs,)
        Plan before a move.
    order : array of int, shape (num_jobs,)
        Buffer for the jobs to insert.
    random : array of uint64, shape (1,)
        State of the random generator.
    held : array of float, shape (num_slots, num_resources)
        Usage by running jobs.
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
    """Return the reward of the plan, minus the cost of all violations."""
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
    """Insert jobs one by one at their best slots; return the total gain."""
    total = 0.0
    for job in order:
        if work.starts[job] < 0:
            total += _place_best(job, situation, work)
    return total


@_compiled
def begin(orders: Integers, situation: DeferrableSearchState, work: Work) -> None:
    """Plan by each order, one per row padded with negative numbers, and keep the best plan."""
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
    """Make the plan empty."""
    for job in range(len(work.starts)):
        work.starts[job] = -1
    for slot in range(len(work.used)):
        for resource in range(work.used.shape[1]):
            work.used[slot, resource] = work.held[slot, resource]
            work.begun[slot, resource] = 0


@_compiled
def _keep(work: Work) -> None:
    """Save the plan in ``kept``."""
    for job in range(len(work.starts)):
        work.kept[job] = work.starts[job]


@_compiled
def improve(moves: int, situation: DeferrableSearchState, work: Work) -> float:
    """Improve the plan by moves that remove jobs and insert others; moves that lower the value are undone.

    Parameters
    ----------
    moves : int
        Number of moves.
    situation : DeferrableSearchState
        Planning instance.
    work : Work
        Plan, changed in place.

    Returns
    -------
    float
        Total gain.
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
        for step in range(number):  # remove jobs that run in the slots, from a random job on
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
        for place in range(count - 1, -1, -1):  # insert in random order
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
    """Restore the plan before the move."""
    for job in range(len(work.starts)):
        if work.starts[job] != work.kept[job] and work.starts[job] >= 0:
            _remove(job, situation, work)
    for job in range(len(work.starts)):
        if work.starts[job] != work.kept[job]:
            _place(job, work.kept[job], situation, work)


@_compiled
def _place_best(job: int, situation: DeferrableSearchState, work: Work) -> float:
    """Insert a job at its best slot (ties go to the earliest), or leave it out; return the gain."""
    best, where = LITTLE, -1
    for start in range(situation.first[job], situation.last[job] + 1):
        if situation.worth[job] - situation.delay_weight * (start - situation.first[job]) <= best:
            break  # later slots gain even less
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
    """Return the cost of a job's violations; infinite if it must not start there or the cost exceeds the limit."""
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
    """Return the reward of a job that starts in a slot, minus the rent of its cores."""
    end = min(start + situation.duration[job], len(situation.rent) - 1)
    rent = situation.requests[job, 0] * (situation.rent[end] - situation.rent[start])
    return float(situation.worth[job] - situation.delay_weight * (start - situation.first[job]) - rent)


@_compiled
def _violation(situation: DeferrableSearchState, slot: int, resource: int, held: float) -> float:
    """Return the usage above the capacity; the expected value if the capacity is uncertain."""
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
    """Insert a job into the plan."""
    work.starts[job] = start
    for resource in range(work.used.shape[1]):
        amount = situation.requests[job, resource]
        if amount > 0:
            work.begun[start, resource] += 1
            for slot in range(start, min(start + situation.duration[job], len(work.used))):
                work.used[slot, resource] += amount


@_compiled
def _remove(job: int, situation: DeferrableSearchState, work: Work) -> float:
    """Remove a job from the plan; return the gain."""
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
    """Return a random integer in [0, below)."""
    return int(np.int64(next_bits(random) >> np.uint64(1)) % below)
