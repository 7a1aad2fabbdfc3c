"""Compiled decoders that turn an order of the queue into start times, as backfilling would if no further job arrived.

A decoding steps through the job ends as the simulator does with :class:`~desim.agents.batch.EASYBackfilling` or
:class:`~desim.agents.batch.SimpleBackfilling` in that order, if every job ran for its requested time. Times are summed
in the simulator's order, so the start times are equal to the last bit.

The score of a decoding is the weighted sum of the jobs' waiting times from now on. Between two job ends it grows by the
time that passes multiplied by the weight of all waiting jobs. So a lower bound on the score is known at any time, and a
decoding stops once that reaches the limit.

An order must not contain jobs that request more cores than will ever be free. This module imports numba; see
:func:`desim.agents.search.decoders`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents._random_bits import next_bits
from desim.agents.search import Function, compiled

__all__ = ["BatchSearchState", "Work", "decode", "improve"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

HEAD = 12
"""Half of the moves take a job to one of this many positions at the beginning of the order."""

NEVER = 2**62
"""A number of cores that is never free."""


def without_allocation(function: Function) -> Function:
    """Return a compiled version of a function that creates no arrays."""
    return compiled(function, allocates=False)


class BatchSearchState(NamedTuple):  # numba's cache on disk stores these class names and fails if one no longer exists
    """The known state at a decision. Arrays may be longer than their contents.

    Attributes
    ----------
    now : float
        Current time in seconds.
    free : int
        Number of free cores.
    num_running : int
        Number of running jobs.
    ends : array of float
        Expected ends of the running jobs in seconds, ascending, all after now.
    released : array of int
        Number of cores that each running job releases.
    cores : array of int
        Number of cores that each queued job requests.
    times : array of float
        Requested times of the queued jobs in seconds.
    weights : array of float
        Weight of a second of waiting of each queued job, at least 0.
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
    """Memory that a search writes to, created once so that decisions allocate nothing.

    Attributes
    ----------
    starts : array of float
        Start of each job in seconds, after a complete decoding.
    sequence : array of int
        Jobs in the order in which they start.
    ends : array of float
        Ends of the jobs of the sequence in seconds, ascending.
    released : array of int
        Number of cores released at each of these ends.
    following : array of int
        Linked list of the positions in the order that are still waiting: for each position, the next one. It has one
        more element than the order; the last one is the first waiting position.
    random : array of uint64, shape (1,)
        State of the random generator.
    """

    starts: Floats
    sequence: Integers
    ends: Floats
    released: Integers
    following: Integers
    random: NDArray[np.uint64]


class _Progress(NamedTuple):
    """The state of a decoding at some time."""

    time: float
    free: int
    running: int  # index of the first running job that has not ended
    ended: int  # number of started jobs that have ended
    started: int
    least: int  # lower bound on the cores that any waiting job requests
    waiting: float  # total weight of the waiting jobs


@without_allocation
def decode(order: Integers, easy: bool, situation: BatchSearchState, limit: float, work: Work) -> tuple[float, int]:
    """Decode an order.

    Parameters
    ----------
    order : array of int
        Indices of the jobs, first to last.
    easy : bool
        Whether the first job that does not fit gets a reservation; otherwise any job that fits starts.
    situation : BatchSearchState
        State at the decision.
    limit : float
        Score at which decoding stops because it cannot be an improvement.
    work : Work
        Memory to write to.

    Returns
    -------
    score : float
        Weighted sum of waiting times from now on in seconds; infinite if it is not below the limit.
    due : int
        Number of jobs of the sequence that start now.
    """
    progress = _begin(order, situation, work)
    if progress.free >= progress.least:
        progress = _start(order, easy, situation, progress, work)
    due, score = progress.started, 0.0
    while progress.started < len(order):
        then = _next_end(situation, progress, work)
        score += progress.waiting * (then - progress.time)
        if not score < limit:  # also if no further event can happen, with an infinite or undefined score
            return np.inf, due
        progress = _pass(then, situation, progress, work)
        if progress.free >= progress.least:
            progress = _start(order, easy, situation, progress, work)
    return score, due


@without_allocation
def _begin(order: Integers, situation: BatchSearchState, work: Work) -> _Progress:
    """Return the initial state of a decoding."""
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
    """Return when the next job ends, among those running at the decision and those started since."""
    then = np.inf
    if progress.running < situation.num_running:
        then = situation.ends[progress.running]
    if progress.ended < progress.started:
        then = min(then, work.ends[progress.ended])
    return then


@without_allocation
def _pass(then: float, situation: BatchSearchState, progress: _Progress, work: Work) -> _Progress:
    """Advance to the next end; jobs that end together release their cores together."""
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
    """Make one scheduling decision: start the jobs that may start.

    The smallest core request is updated only if all waiting jobs were examined; otherwise it remains a lower bound.
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
    """Insert the end of a started job into the sorted ends to come."""
    place, ends, released = started, work.ends, work.released
    while place > ended and ends[place - 1] > end:
        ends[place] = ends[place - 1]
        released[place] = released[place - 1]
        place -= 1
    ends[place] = end
    released[place] = cores


@without_allocation
def _reserve(cores: int, situation: BatchSearchState, progress: _Progress, work: Work) -> tuple[float, int]:
    """Return when enough cores will be free, and how many more than requested there are then."""
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
    """Move one job at a time to another position in an order, and keep the moves that lower the score.

    Parameters
    ----------
    order : array of int
        Indices of the jobs, as in :func:`decode`; changed in place.
    easy : bool
        Kind of backfilling, as in :func:`decode`.
    situation : BatchSearchState
        State at the decision.
    moves : int
        Number of moves to try.
    work : Work
        Memory to write to.

    Returns
    -------
    float
        Score of the resulting order.
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
    """Move the job at one position to another."""
    job = order[source]
    step = 1 if target > source else -1
    for place in range(source, target, step):
        order[place] = order[place + step]
    order[target] = job


@without_allocation
def _draw(random: NDArray[np.uint64], below: int) -> int:
    """Return a random integer from 0 to ``below`` - 1."""
    return int(np.int64(next_bits(random) >> np.uint64(1)) % below)
