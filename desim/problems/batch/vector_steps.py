"""Compiled dynamics and observations of many episodes that are stepped together.

The functions repeat what :class:`~desim.problems.batch.BatchCluster` does with rigid jobs on counted cores, one
decision per instant and time limits, and what :class:`~desim.problems.batch.encoders.FeatureEncoder` shows of it; tests
compare both, step by step. This module imports numba. All compiled functions of an environment are in one module,
because numba's cache on disk does not notice changes in other modules.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.features import JOB_FEATURES, NEVER, SCALE

__all__ = ["DECISION", "ENDED", "STALLED", "Episodes", "begin", "observe", "step", "take_logs"]

DECISION, ENDED, STALLED = 0, 1, 2
"""What follows an answer: the next decision, the end of all work, or nothing although jobs are queued."""

NOW, COUNTED, COST, BEFORE, ORIGIN = range(5)
"""Columns of the clocks of episodes."""
FREE, TOTAL, QUEUED, RUNNING, COMING, LAST, AWAITED, HEAD, SIZE, DECISIONS, SHOWN = range(11)
"""Columns of the counts of episodes."""
SUBMITTED, REQUESTED, DURATION, TIME_LOG, CORE_LOG = range(5)
"""Columns of the times of jobs."""

_NUM_FEATURES = len(JOB_FEATURES)
_INFINITE = math.inf


class Episodes(NamedTuple):
    """State of E episodes of up to N jobs each, up to R of which run at the same time, from J jobs in all.

    Attributes
    ----------
    times : array of float, shape (J, 5)
        Submission times, requested times and durations of the jobs in seconds, and scaled logarithms of requested times
        and cores, which are computed once.
    cores : array of int, shape (J,)
        Requested cores of the jobs.
    clock : array of float, shape (E, 5)
        Current time, time up to which waiting is charged, cost since the last decision, time of that decision, and
        submission time of the first job, which is time 0 of the episode.
    counts : array of int, shape (E, 11)
        Free cores, cores, queued jobs, running jobs, the next job to arrive, the end of the jobs of the episode, cores
        that the agent awaits, slots at the head of the window, slots of the window, decisions so far, and the number of
        slots that the last observation filled.
    queue : array of int, shape (E, N)
        Queued jobs in order of arrival.
    ends, stops : array of float, shape (E, R)
        Expected and actual ends of running jobs, by expected end.
    held : array of int, shape (E, R)
        Cores of running jobs.
    """

    times: NDArray[np.float64]
    cores: NDArray[np.int64]
    clock: NDArray[np.float64]
    counts: NDArray[np.int64]
    queue: NDArray[np.int64]
    ends: NDArray[np.float64]
    stops: NDArray[np.float64]
    held: NDArray[np.int64]

    @classmethod
    def of(cls, times: NDArray[np.float64], cores: NDArray[np.int64], shape: tuple[int, int, int]) -> Episodes:
        """Return arrays for a number of episodes, jobs per episode, and jobs that run at the same time.

        Parameters
        ----------
        times, cores : array
            Attributes of these names; the logarithms are filled in.
        shape : tuple of int
            E, N and R.
        """
        episodes, jobs, running = shape
        take_logs(times, cores)
        return cls(
            times,
            cores,
            np.zeros((episodes, ORIGIN + 1)),
            np.zeros((episodes, SHOWN + 1), np.int64),
            np.zeros((episodes, jobs), np.int64),
            np.zeros((episodes, running)),
            np.zeros((episodes, running)),
            np.zeros((episodes, running), np.int64),
        )


def _compiled(function: Any) -> Any:
    """Return a function that numba compiles on its first call and caches on disk.

    None of them creates arrays, so references need not be counted, which would take most of the time of short ones.
    """
    return cast(Any, numba.njit)(cache=True, _nrt=False)(function)


@_compiled
def _submitted(state: Episodes, e: int, job: int) -> float:
    """Return when a job is submitted in its episode."""
    time: float = state.times[job, SUBMITTED] - state.clock[e, ORIGIN]
    return time


@_compiled
def _charge(state: Episodes, e: int, scale: float) -> None:
    """Charge the waiting time of the queued jobs up to now."""
    now = state.clock[e, NOW]
    state.clock[e, COST] += state.counts[e, QUEUED] * (now - state.clock[e, COUNTED]) / scale
    state.clock[e, COUNTED] = now


@_compiled
def _complete(state: Episodes, e: int, time: float) -> None:
    """End the running jobs that stop at a time."""
    kept = 0
    for place in range(state.counts[e, RUNNING]):
        if state.stops[e, place] == time:
            state.counts[e, FREE] += state.held[e, place]
            continue
        if kept != place:
            state.ends[e, kept] = state.ends[e, place]
            state.stops[e, kept] = state.stops[e, place]
            state.held[e, kept] = state.held[e, place]
        kept += 1
    state.counts[e, RUNNING] = kept


@_compiled
def _advance(state: Episodes, e: int, scale: float) -> int:
    """Run to the next decision: completions of an instant first, then arrivals."""
    clock, count = state.clock, state.counts
    while True:
        stop = _INFINITE
        for place in range(count[e, RUNNING]):
            stop = min(stop, state.stops[e, place])
        coming = count[e, COMING]
        arrival = _submitted(state, e, coming) if coming < count[e, LAST] else _INFINITE
        time = min(stop, arrival)
        if time == _INFINITE:
            return STALLED if count[e, QUEUED] else ENDED
        clock[e, NOW] = time
        asks = False
        if stop == time:
            _complete(state, e, time)
            if count[e, FREE] >= count[e, AWAITED]:
                asks = count[e, QUEUED] > 0
                count[e, AWAITED] = 0
        while coming < count[e, LAST] and _submitted(state, e, coming) == time:
            _charge(state, e, scale)
            state.queue[e, count[e, QUEUED]] = coming
            count[e, QUEUED] += 1
            count[e, AWAITED] = min(count[e, AWAITED], state.cores[coming])
            if count[e, FREE] >= count[e, AWAITED]:
                asks = True
                count[e, AWAITED] = 0
            coming += 1
            count[e, COMING] = coming
        if asks:
            return DECISION


@_compiled
def _shown(state: Episodes, e: int, slot: int) -> int:
    """Return the queue position of the job in a slot that is not empty: the head, then the tail from the very last."""
    length = state.counts[e, QUEUED]
    head = state.counts[e, HEAD]
    return slot if length <= state.counts[e, SIZE] or slot < head else length - 1 - (slot - head)


@_compiled
def _least_cores(state: Episodes, e: int) -> int:
    """Return how many cores must be free before a job in the window fits; 0 if one fits now or none is queued."""
    length = state.counts[e, QUEUED]
    if not length:
        return 0
    least = state.counts[e, TOTAL] + 1
    for slot in range(min(length, state.counts[e, SIZE])):
        least = min(least, state.cores[state.queue[e, _shown(state, e, slot)]])
    return least if least > state.counts[e, FREE] else 0


@_compiled
def _start(state: Episodes, e: int, position: int) -> None:
    """Start the job at a position of the queue."""
    count = state.counts
    job = state.queue[e, position]
    for place in range(position, count[e, QUEUED] - 1):
        state.queue[e, place] = state.queue[e, place + 1]
    count[e, QUEUED] -= 1
    count[e, FREE] -= state.cores[job]
    now = state.clock[e, NOW]
    end = now + state.times[job, REQUESTED]
    place = count[e, RUNNING]
    while place > 0 and state.ends[e, place - 1] > end:
        state.ends[e, place] = state.ends[e, place - 1]
        state.stops[e, place] = state.stops[e, place - 1]
        state.held[e, place] = state.held[e, place - 1]
        place -= 1
    state.ends[e, place] = end
    state.stops[e, place] = now + state.times[job, DURATION]
    state.held[e, place] = state.cores[job]
    count[e, RUNNING] += 1


@_compiled
def _skip_forced(state: Episodes, e: int, scale: float, outcome: int) -> int:
    """Wait while no job in the window fits, and return what follows."""
    while outcome == DECISION:
        least = _least_cores(state, e)
        if least == 0:
            break
        _charge(state, e, scale)
        state.counts[e, AWAITED] = least
        outcome = _advance(state, e, scale)
    return outcome


@_compiled
def _log(value: float) -> float:
    return SCALE * math.log1p(value)


@_compiled
def take_logs(times: Any, cores: Any) -> None:
    """Compute the logarithms of jobs.

    Parameters
    ----------
    times, cores : array
        Attributes of :class:`Episodes`, or parts of them.
    """
    for job in range(len(times)):
        times[job, TIME_LOG] = _log(times[job, REQUESTED])
        times[job, CORE_LOG] = _log(cores[job])


@_compiled
def begin(state: Episodes, which: Any, scale: float, skips_forced: bool, outcomes: Any) -> None:
    """Begin some episodes, whose jobs and numbers of cores and slots are set, and run to their first decisions.

    Parameters
    ----------
    state : Episodes
        Arrays to change.
    which : array of int
        Episodes that begin; their first job is the next one to arrive.
    scale : float
        Seconds of waiting that cost 1.
    skips_forced : bool
        Whether to skip decisions in which no job of the window fits.
    outcomes : array of int, shape (E,)
        Output for these episodes, see :data:`DECISION`.
    """
    clock, count = state.clock, state.counts
    for e in which:
        for column in (NOW, COUNTED, COST, BEFORE):
            clock[e, column] = 0.0
        count[e, FREE] = count[e, TOTAL]
        for column in (QUEUED, RUNNING, AWAITED, DECISIONS):
            count[e, column] = 0
        outcome = _advance(state, e, scale)
        outcomes[e] = _skip_forced(state, e, scale, outcome) if skips_forced else outcome
        clock[e, COUNTED] = clock[e, BEFORE] = clock[e, NOW]
        clock[e, COST] = 0.0


@_compiled
def step(  # noqa: PLR0917  # numba takes no keyword-only arguments
    state: Episodes,
    actions: Any,
    asked: Any,
    scale: float,
    skips_forced: bool,
    num_slots: int,
    rewards: Any,
    elapsed: Any,
    possible: Any,
    outcomes: Any,
) -> None:
    """Answer the decisions of some episodes, and run to their next ones.

    Parameters
    ----------
    state : Episodes
        Arrays to change.
    actions : array of int, shape (E,)
        Slot of the job to start, or the number of slots to wait.
    asked : array of bool, shape (E,)
        Episodes that have a decision; the others stay as they are.
    scale : float
        Seconds of waiting that cost 1.
    skips_forced : bool
        As in :func:`begin`.
    num_slots : int
        Number of slots of the arrays.
    rewards, elapsed : array of float, shape (E,)
        Output: rewards, and seconds since the last decision.
    possible : array of bool, shape (E,)
        Output: whether the actions were possible.
    outcomes : array of int, shape (E,)
        Output, see :data:`DECISION`.
    """
    clock, count = state.clock, state.counts
    for e in range(len(actions)):
        if not asked[e]:
            continue
        slot = actions[e]
        length = count[e, QUEUED]
        position = -1
        possible[e] = True
        if slot == num_slots:
            can_wait = count[e, RUNNING] > 0 or count[e, COMING] < count[e, LAST]
            possible[e] = can_wait or not length or _least_cores(state, e) > 0
        elif slot < count[e, SIZE] and slot < length:
            position = _shown(state, e, slot)
            if state.cores[state.queue[e, position]] > count[e, FREE]:
                position = -1
        if position >= 0:
            _start(state, e, position)
            outcome = DECISION
            if length > 1:
                _complete(state, e, clock[e, NOW])  # jobs of no duration
            else:
                outcome = _advance(state, e, scale)
        else:
            if slot != num_slots:
                possible[e] = False
            outcome = _advance(state, e, scale)
        if skips_forced:
            outcome = _skip_forced(state, e, scale, outcome)
        _charge(state, e, scale)
        rewards[e] = -clock[e, COST]
        elapsed[e] = clock[e, NOW] - clock[e, BEFORE]
        clock[e, COST] = 0.0
        clock[e, BEFORE] = clock[e, NOW]
        count[e, DECISIONS] += 1
        outcomes[e] = outcome


@_compiled
def _time_until(state: Episodes, e: int, cores: int) -> float:
    """Return the seconds until a number of cores is free by expected ends if nothing starts."""
    free = state.counts[e, FREE]
    for place in range(state.counts[e, RUNNING]):
        free += state.held[e, place]
        if free >= cores:
            until: float = max(state.ends[e, place] - state.clock[e, NOW], 0.0)
            return until
    return NEVER


@_compiled
def _free_at(state: Episodes, e: int, time: float) -> int:
    """Return how many cores are free at a time by expected ends if nothing starts, ends at that time included."""
    free: int = state.counts[e, FREE]
    running = state.counts[e, RUNNING]
    if running and state.ends[e, 0] > time:  # rounding has put the time just before the first end: all are released
        time = _INFINITE
    for place in range(running):
        if state.ends[e, place] > time:
            break
        free += state.held[e, place]
    return free


@_compiled
def _show_jobs(state: Episodes, e: int, jobs: Any, mask: Any) -> int:
    """Write the features of the jobs in the window, apart from comparisons; return how many fit."""
    now, free, total = state.clock[e, NOW], state.counts[e, FREE], state.counts[e, TOTAL]
    length = state.counts[e, QUEUED]
    shown = min(length, state.counts[e, SIZE])
    per_log = 1.0 / (SCALE * math.log1p(total))
    fitting = 0
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        cores = state.cores[job]
        fits = cores <= free
        fitting += fits
        jobs[e, slot, 0] = 1.0
        jobs[e, slot, 1] = state.times[job, TIME_LOG]
        jobs[e, slot, 2] = cores / total
        jobs[e, slot, 3] = state.times[job, CORE_LOG] * per_log
        jobs[e, slot, 4] = _log(now - _submitted(state, e, job))
        jobs[e, slot, 5] = 1.0 if fits else 0.0
        jobs[e, slot, 6] = cores / free if fits else 0.0
        jobs[e, slot, 7] = 0.0 if fits else _log(_time_until(state, e, cores))
        jobs[e, slot, 10] = 0.0
        jobs[e, slot, 11] = 1.0 if length > shown and slot >= state.counts[e, HEAD] else 0.0
        mask[e, slot] = fits
    for slot in range(shown, state.counts[e, SHOWN]):  # the others are still empty
        for feature in range(_NUM_FEATURES):
            jobs[e, slot, feature] = 0.0
        mask[e, slot] = 0
    state.counts[e, SHOWN] = shown
    return fitting


@_compiled
def _compare_jobs(state: Episodes, e: int, jobs: Any, fitting: int) -> None:
    """Write by how much the jobs in the window are above the shortest and the smallest one that fit."""
    shown, free = state.counts[e, SHOWN], state.counts[e, FREE]
    shortest, smallest = _INFINITE, _INFINITE
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        if state.cores[job] <= free:
            shortest = min(shortest, state.times[job, TIME_LOG])
            smallest = min(smallest, state.times[job, TIME_LOG] + state.times[job, CORE_LOG])
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        jobs[e, slot, 8] = state.times[job, TIME_LOG] - shortest if fitting else 0.0
        jobs[e, slot, 9] = state.times[job, TIME_LOG] + state.times[job, CORE_LOG] - smallest if fitting else 0.0


@_compiled
def _reserve(state: Episodes, e: int, jobs: Any, cluster: Any) -> None:
    """Plan a reservation for the shortest job in the window that does not fit, and write what it means for others."""
    now, free, shown = state.clock[e, NOW], state.counts[e, FREE], state.counts[e, SHOWN]
    blocked, least = -1, _INFINITE
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        if state.cores[job] > free and (blocked < 0 or state.times[job, REQUESTED] < least):
            blocked, least = job, state.times[job, REQUESTED]
    cores = state.cores[blocked]
    until = _time_until(state, e, cores)
    reserved = now + until
    spare = _free_at(state, e, reserved) - cores
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        time = state.times[job, REQUESTED]
        if spare < state.cores[job] <= free and time > least and now + time > reserved:
            jobs[e, slot, 10] = 1.0
    cluster[e, 8] = 1.0
    cluster[e, 9] = _log(until)
    cluster[e, 10] = state.times[blocked, TIME_LOG]
    cluster[e, 11] = cores / state.counts[e, TOTAL]


@_compiled
def _show_cluster(state: Episodes, e: int, cluster: Any, fitting: int) -> None:
    """Write the features of the cluster, apart from those of the reservation."""
    now, total = state.clock[e, NOW], state.counts[e, TOTAL]
    length, running, shown = state.counts[e, QUEUED], state.counts[e, RUNNING], state.counts[e, SHOWN]
    load, work = 0.0, 0.0
    for place in range(running):
        load += max(state.ends[e, place] - now, 0.0) * state.held[e, place]
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        work += state.times[job, REQUESTED] * state.cores[job]
    cluster[e, 0] = state.counts[e, FREE] / total
    cluster[e, 1] = _log(length)
    cluster[e, 2] = _log(length - shown)
    cluster[e, 3] = _log(fitting)
    cluster[e, 4] = _log(max(state.ends[e, 0] - now, 0.0)) if running else 0.0
    cluster[e, 5] = _log(load / total)
    cluster[e, 6] = _log(work / total)
    cluster[e, 7] = _log(now - _submitted(state, e, state.queue[e, 0])) if length else 0.0


@_compiled
def observe(state: Episodes, which: Any, jobs: Any, cluster: Any, mask: Any) -> None:
    """Write the observations of some episodes, as the encoder of features shows them.

    Parameters
    ----------
    state : Episodes
        State of the episodes.
    which : array of int
        Episodes to observe.
    jobs : array of float32, shape (E, S, 12)
        Output for the features of jobs; the same array in each call.
    cluster : array of float32, shape (E, 12)
        Output for the features of clusters.
    mask : array of int8, shape (E, S + 1)
        Output for the possible actions.
    """
    count = state.counts
    for e in which:
        fitting = _show_jobs(state, e, jobs, mask)
        _compare_jobs(state, e, jobs, fitting)
        _show_cluster(state, e, cluster, fitting)
        for feature in range(8, 12):
            cluster[e, feature] = 0.0
        if fitting < count[e, SHOWN]:
            _reserve(state, e, jobs, cluster)
        mask[e, -1] = count[e, RUNNING] > 0 or count[e, COMING] < count[e, LAST] or fitting == 0
