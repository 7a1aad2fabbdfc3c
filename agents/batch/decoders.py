"""From an order of the queue to starts, compiled: what back-filling would do if nothing else arrived.

A decoding goes through the ends of jobs as the simulator would with :class:`~desim.agents.batch.EASYBackfilling` or
:class:`~desim.agents.batch.SimpleBackfilling` in that order, if every job ran for what it requests. Times are added up
as the simulator adds them, so that the starts are equal to the bit.

The score of a decoding is what the jobs wait from now on, each times its weight, added up: between two ends it grows by
the time that passes times the weight of all that wait still. So it is known at any time how much it is at least, and a
decoding ends where that is no less than the limit.

Jobs that request more cores than ever will be free have no place in an order. This module imports numba; see
:func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.search import compiled

__all__ = ["Situation", "Work", "decode", "improve"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

HEAD = 12
"""Half of the moves take a job to one of so many places at the beginning of the order."""

NEVER = 2**62
"""So many cores are never free."""


class Situation(NamedTuple):  # numba's cache on disk knows these classes by name, and fails if one is gone
    """What is known at a decision. The arrays may be longer than what there is in them.

    Attributes
    ----------
    now : float
        Seconds.
    free : int
        Cores that are free.
    num_running : int
        How many jobs are running.
    ends : array of float
        When these give their cores back, in seconds, ascending, all after now.
    released : array of int
        How many cores each of them gives back.
    cores : array of int
        How many cores each queued job requests, by its number.
    times : array of float
        The times that they request, in seconds.
    weights : array of float
        What a second of waiting counts for each, at least 0.
    """

    now: float
    free: int
    num_running: int
    ends: Floats
    released: Integers
    cores: Integers
    times: Floats
    weights: Floats


class Work(NamedTuple):
    """What a search writes to: made once, so that nothing is allocated at a decision.

    Attributes
    ----------
    starts : array of float
        When each job starts, in seconds, once a decoding has come to its end.
    sequence : array of int
        The jobs, in the order in which they start.
    ends : array of float
        The ends to come, ascending; as many as there are jobs, running ones included.
    released : array of int
        How many cores are given back at each of them.
    following : array of int
        The next place of the order that waits still, by place; one more than there are places. Behind the last one it
        says which place is the first.
    random : array of uint64, shape (1,)
        The state of the random generator.
    """

    starts: Floats
    sequence: Integers
    ends: Floats
    released: Integers
    following: Integers
    random: NDArray[np.uint64]


class _Progress(NamedTuple):
    """How far a decoding has come; the ends to come lie between head and tail."""

    time: float
    free: int
    head: int
    tail: int
    started: int
    least: int  # no job that waits wants fewer cores
    waiting: float  # the weight of all that wait


@compiled
def decode(order: Integers, easy: bool, situation: Situation, limit: float, work: Work) -> tuple[float, int]:
    """Decode an order.

    Parameters
    ----------
    order : array of int
        Numbers of the jobs, first to last.
    easy : bool
        Whether the first job that does not fit has a reservation, or any job that fits starts.
    situation : Situation
        What the order is about.
    limit : float
        The score from which on nobody wants to know it.
    work : Work
        What is written to.

    Returns
    -------
    score : float
        The weighted sum of waits from now on, infinite if that is not below the limit.
    due : int
        How many jobs of the sequence start now.
    """
    progress = _begin(order, situation, work)
    if progress.free >= progress.least:
        progress = _start(order, easy, situation, progress, work)
    due, score = progress.started, 0.0
    while progress.head < progress.tail and progress.started < len(order):
        score += progress.waiting * (work.ends[progress.head] - progress.time)
        if score >= limit:
            return np.inf, due
        progress = _pass(progress, work)
        if progress.free >= progress.least:
            progress = _start(order, easy, situation, progress, work)
    return score, due


@compiled
def _begin(order: Integers, situation: Situation, work: Work) -> _Progress:
    """Return where a decoding begins."""
    length, running = len(order), situation.num_running
    least, waiting = NEVER, 0.0
    for place in range(length):
        work.following[place] = place + 1
        least = min(least, situation.cores[order[place]])
        waiting += situation.weights[order[place]]
    work.following[length] = 0
    for place in range(running):
        work.ends[place] = situation.ends[place]
        work.released[place] = situation.released[place]
    return _Progress(situation.now, situation.free, 0, running, 0, least, waiting)


@compiled
def _pass(progress: _Progress, work: Work) -> _Progress:
    """Let the time go on to the next end; what ends together gives its cores back together."""
    time, free, head, tail, started, least, waiting = progress
    time = work.ends[head]
    while head < tail and work.ends[head] == time:
        free += work.released[head]
        head += 1
    return _Progress(time, free, head, tail, started, least, waiting)


@compiled
def _start(order: Integers, easy: bool, situation: Situation, progress: _Progress, work: Work) -> _Progress:
    """Carry one decision out.

    The least that a job wants is known anew only once all have been looked at; until then it is a lower bound.
    """
    time, free, head, tail, started, least, waiting = progress
    following, narrowest = work.following, NEVER
    shadow, spare, reserved = np.inf, 0, not easy
    previous, place = len(order), following[len(order)]
    while place < len(order) and free >= least:
        job = order[place]
        cores, end = situation.cores[job], time + situation.times[job]
        if cores <= free and (end <= shadow or cores <= spare):
            if end > shadow:
                spare -= cores
            free -= cores
            waiting -= situation.weights[job]
            work.starts[job] = time
            work.sequence[started] = job
            started += 1
            _occupy(end, cores, head, tail, work)
            tail += 1
            following[previous] = following[place]
        else:
            if not reserved:
                shadow, spare = _reserve(cores, free, head, tail, work)
                reserved = True
            narrowest = min(narrowest, cores)
            previous = place
        place = following[place]
    if place == len(order):
        least = narrowest
    return _Progress(time, free, head, tail, started, least, waiting)


@compiled
def _occupy(end: float, cores: int, head: int, tail: int, work: Work) -> None:
    """Put an end into its place among those to come."""
    place = tail
    while place > head and work.ends[place - 1] > end:
        work.ends[place] = work.ends[place - 1]
        work.released[place] = work.released[place - 1]
        place -= 1
    work.ends[place] = end
    work.released[place] = cores


@compiled
def _reserve(cores: int, free: int, head: int, tail: int, work: Work) -> tuple[float, int]:
    """Return when so many cores will be free, and how many more there are then."""
    place = head
    while place < tail and free < cores:
        free += work.released[place]
        place += 1
    if free < cores:
        return np.inf, 0
    shadow = work.ends[place - 1]
    while place < tail and work.ends[place] == shadow:
        free += work.released[place]
        place += 1
    return shadow, free - cores


@compiled
def improve(order: Integers, easy: bool, situation: Situation, moves: int, work: Work) -> float:
    """Move one job after the other to another place in an order, for good where the score falls.

    Parameters
    ----------
    order : array of int
        As in :func:`decode`; it is changed.
    easy : bool
        As there.
    situation : Situation
        As there.
    moves : int
        How many to try.
    work : Work
        As there.

    Returns
    -------
    float
        The score that the order has now.
    """
    least, _ = decode(order, easy, situation, np.inf, work)
    for _move in range(moves if len(order) > 1 else 0):
        source = _draw(work.random, len(order))
        head = min(len(order), HEAD)
        target = _draw(work.random, head) if _draw(work.random, 2) else _draw(work.random, len(order))
        if source == target:
            continue
        _take(order, source, target)
        score, _ = decode(order, easy, situation, least, work)
        if score < least:
            least = score
        else:
            _take(order, target, source)
    return least


@compiled
def _take(order: Integers, source: int, target: int) -> None:
    """Take what stands at one place to another."""
    job = order[source]
    step = 1 if target > source else -1
    for place in range(source, target, step):
        order[place] = order[place + step]
    order[target] = job


@compiled
def _draw(random: NDArray[np.uint64], below: int) -> int:
    """Return a random number of at least 0: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return int(np.int64(mixed >> np.uint64(1)) % below)
