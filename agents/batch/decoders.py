"""From an order of the queue to starts, compiled: what backfilling would do if nothing else arrived.

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

from desim.agents.search import Function, compiled

__all__ = ["BatchSearchState", "Work", "decode", "improve"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

HEAD = 12
"""Half of the moves take a job to one of so many places at the beginning of the order."""

NEVER = 2**62
"""So many cores are never free."""


def without_allocation(function: Function) -> Function:
    """Have a function compiled that makes no arrays."""
    return compiled(function, allocates=False)


class BatchSearchState(NamedTuple):  # numba's cache on disk knows these classes by name, and fails if one is gone
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
        When the jobs of the sequence end, ascending.
    released : array of int
        How many cores are given back at each of these ends.
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
    """How far a decoding has come."""

    time: float
    free: int
    running: int  # the first of the running jobs that has not ended
    ended: int  # how many of the jobs that were started have ended
    started: int
    least: int  # no job that waits wants fewer cores
    waiting: float  # the weight of all that wait


@without_allocation
def decode(order: Integers, easy: bool, situation: BatchSearchState, limit: float, work: Work) -> tuple[float, int]:
    """Decode an order.

    Parameters
    ----------
    order : array of int
        Numbers of the jobs, first to last.
    easy : bool
        Whether the first job that does not fit has a reservation, or any job that fits starts.
    situation : BatchSearchState
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
    while progress.started < len(order):
        then = _next_end(situation, progress, work)
        score += progress.waiting * (then - progress.time)
        if not score < limit:  # nor is it where nothing more will happen
            return np.inf, due
        progress = _pass(then, situation, progress, work)
        if progress.free >= progress.least:
            progress = _start(order, easy, situation, progress, work)
    return score, due


@without_allocation
def _begin(order: Integers, situation: BatchSearchState, work: Work) -> _Progress:
    """Return where a decoding begins."""
    length, least, waiting = len(order), NEVER, 0.0
    following, cores, weights = work.following, situation.cores, situation.weights
    for place in range(length):
        following[place] = place + 1
        least = min(least, cores[order[place]])
        waiting += weights[order[place]]
    following[length] = 0
    return _Progress(situation.now, situation.free, 0, 0, 0, least, waiting)


@without_allocation
def _next_end(situation: BatchSearchState, progress: _Progress, work: Work) -> float:
    """Return when the next job ends, whether it was running or has been started."""
    then = np.inf
    if progress.running < situation.num_running:
        then = situation.ends[progress.running]
    if progress.ended < progress.started:
        then = min(then, work.ends[progress.ended])
    return then


@without_allocation
def _pass(then: float, situation: BatchSearchState, progress: _Progress, work: Work) -> _Progress:
    """Let the time go on to the next end; what ends together gives its cores back together."""
    _time, free, running, ended, started, least, waiting = progress
    known, released, num_running = situation.ends, situation.released, situation.num_running
    while running < num_running and known[running] == then:
        free += released[running]
        running += 1
    ends, cores = work.ends, work.released
    while ended < started and ends[ended] == then:
        free += cores[ended]
        ended += 1
    return _Progress(then, free, running, ended, started, least, waiting)


@without_allocation
def _start(order: Integers, easy: bool, situation: BatchSearchState, progress: _Progress, work: Work) -> _Progress:
    """Carry one decision out.

    The least that a job wants is known anew only once all have been looked at; until then it is a lower bound.
    """
    time, free, running, ended, started, least, waiting = progress
    following, starts, sequence = work.following, work.starts, work.sequence
    widths, times, weights = situation.cores, situation.times, situation.weights
    shadow, spare, reserved, narrowest = np.inf, 0, not easy, NEVER
    previous, place = len(order), following[len(order)]
    while place < len(order) and free >= least:
        job = order[place]
        cores, end = widths[job], time + times[job]
        if cores <= free and (end <= shadow or cores <= spare):
            if end > shadow:
                spare -= cores
            free -= cores
            waiting -= weights[job]
            starts[job] = time
            sequence[started] = job
            _occupy(end, cores, ended, started, work)
            started += 1
            following[previous] = following[place]
        else:
            if not reserved:
                so_far = _Progress(time, free, running, ended, started, least, waiting)
                shadow, spare = _reserve(cores, situation, so_far, work)
                reserved = True
            narrowest = min(narrowest, cores)
            previous = place
        place = following[place]
    if place == len(order):
        least = narrowest
    return _Progress(time, free, running, ended, started, least, waiting)


@without_allocation
def _occupy(end: float, cores: int, ended: int, started: int, work: Work) -> None:
    """Put the end of a job that starts into its place among those to come."""
    place, ends, released = started, work.ends, work.released
    while place > ended and ends[place - 1] > end:
        ends[place] = ends[place - 1]
        released[place] = released[place - 1]
        place -= 1
    ends[place] = end
    released[place] = cores


@without_allocation
def _reserve(cores: int, situation: BatchSearchState, progress: _Progress, work: Work) -> tuple[float, int]:
    """Return when so many cores will be free, and how many more there are then."""
    _time, free, running, ended, started, _least, _waiting = progress
    known, released, num_running = situation.ends, situation.released, situation.num_running
    ends, widths = work.ends, work.released
    shadow = -np.inf
    while True:
        then = known[running] if running < num_running else np.inf
        is_known = True
        if ended < started and ends[ended] < then:
            then, is_known = ends[ended], False
        if then == np.inf or (free >= cores and then > shadow):
            break
        shadow = then
        if is_known:
            free += released[running]
            running += 1
        else:
            free += widths[ended]
            ended += 1
    return (shadow, free - cores) if free >= cores else (np.inf, 0)


@without_allocation
def improve(order: Integers, easy: bool, situation: BatchSearchState, moves: int, work: Work) -> float:
    """Move one job after the other to another place in an order, for good where the score falls.

    Parameters
    ----------
    order : array of int
        As in :func:`decode`; it is changed.
    easy : bool
        As there.
    situation : BatchSearchState
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


@without_allocation
def _take(order: Integers, source: int, target: int) -> None:
    """Take what stands at one place to another."""
    job = order[source]
    step = 1 if target > source else -1
    for place in range(source, target, step):
        order[place] = order[place + step]
    order[target] = job


@without_allocation
def _draw(random: NDArray[np.uint64], below: int) -> int:
    """Return a random number of at least 0: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return int(np.int64(mixed >> np.uint64(1)) % below)
