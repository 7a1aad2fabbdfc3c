"""Compiled dynamics and observations of many episodes that are stepped together.

The functions repeat what :class:`~desim.problems.batch.BatchCluster` does with rigid jobs on counted cores and time
limits, what the encoders of :mod:`desim.problems.batch.encoders` show of it, and the rewards of
:mod:`desim.problems.batch.env`; tests compare both, step by step. This module imports numba. All compiled functions of
an environment are in one module, because numba's cache on disk does not notice changes in other modules.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.features import JOB_FEATURES, NEVER, SCALE

__all__ = [
    "DECISION",
    "ENDED",
    "STALLED",
    "STOPPED",
    "Episodes",
    "Rules",
    "begin",
    "observe",
    "observe_flat",
    "step",
    "take_logs",
]

DECISION, ENDED, STALLED, STOPPED = range(4)
"""What follows an answer: the next decision, the end of all work, nothing although jobs are queued, or the last start
of an episode in which jobs keep arriving."""

NOW, COUNTED, COST, BEFORE, ORIGIN, LONGEST, LARGEST, ARRIVAL = range(8)
"""Columns of the clocks of episodes."""
FREE, TOTAL, QUEUED, RUNNING, COMING, LAST, AWAITED, HEAD, SIZE, DECISIONS, SHOWN, FIRST, STARTED = range(13)
"""Columns of the counts of episodes."""
SUBMITTED, REQUESTED, DURATION, TIME_LOG, CORE_LOG = range(5)
"""Columns of the times of jobs."""

_NUM_FEATURES = len(JOB_FEATURES)
_INFINITE = math.inf


class Rules(NamedTuple):
    """What all episodes have in common.

    Attributes
    ----------
    scale, power : float
        Seconds of waiting that cost 1, and the exponent of waiting times; scale 0 for the reward of the DBF paper.
    weights : tuple of three floats
        Weights of idle cores, queue length and waiting time in the reward of the DBF paper.
    units : tuple of two floats
        Queue length and waiting time that are scaled to 1 there; 0 for the largest values so far.
    skips_forced : bool
        Whether to skip decisions in which no job of the window may start.
    awaits : bool
        Whether no decisions are requested while no job of the window fits, instead of skipping them.
    reserve_after : float
        Seconds of waiting after which the first job of the queue gets a reservation; infinite for never.
    serial : bool
        Whether each arrival opens a separate scheduling cycle, in which later arrivals of the instant are not seen.
    starts : int
        Number of starts after which an episode is cut off.
    slots : int
        Number of slots of the arrays.
    """

    scale: float
    power: float
    weights: tuple[float, float, float]
    units: tuple[float, float]
    skips_forced: bool
    awaits: bool
    reserve_after: float
    serial: bool
    starts: int
    slots: int


class Episodes(NamedTuple):
    """State of E episodes of up to N jobs each, up to R of which run at the same time, from J jobs in all.

    Up to M jobs of an episode start. Which of the C cores a job runs on is only tracked if C is not 0.

    Attributes
    ----------
    times : array of float, shape (J, 5)
        Submission times, requested times and durations of the jobs in seconds, and scaled logarithms of requested times
        and cores, which are computed once.
    cores : array of int, shape (J,)
        Requested cores of the jobs.
    clock : array of float, shape (E, 8)
        Current time, time up to which waiting is charged, cost since the last decision, time of that decision,
        submission time of the first job, which is time 0 of the episode, the largest queue length and sum of waiting
        times so far, and the time of the next arrival, infinite if there is none.
    counts : array of int, shape (E, 13)
        Free cores, cores, queued jobs, running jobs, the next job to enter the queue, the end of the jobs of the
        episode, cores that the agent awaits, slots at the head of the window, slots of the window, decisions so far,
        the number of slots that the last observation filled, the first job, and the number of started jobs.
    queue : array of int, shape (E, N)
        Queued jobs in order of arrival.
    ends, stops : array of float, shape (E, R)
        Expected and actual ends of running jobs, by expected end.
    held, ran : array of int, shape (E, R)
        Cores of running jobs, and these jobs.
    started : array of int, shape (E, M)
        Started jobs in order of their starts.
    started_at : array of float, shape (E, M)
        Starting times of these jobs in seconds.
    users : array of int, shape (E, C)
        Job on each core, or -1.
    until : array of float, shape (E, C)
        Expected end of that job in seconds.
    sums, parts : array of float, shape (64,), and int, shape (128, 2)
        Memory of a function that adds numbers.
    """

    times: NDArray[np.float64]
    cores: NDArray[np.int64]
    clock: NDArray[np.float64]
    counts: NDArray[np.int64]
    queue: NDArray[np.int64]
    ends: NDArray[np.float64]
    stops: NDArray[np.float64]
    held: NDArray[np.int64]
    ran: NDArray[np.int64]
    started: NDArray[np.int64]
    started_at: NDArray[np.float64]
    users: NDArray[np.int64]
    until: NDArray[np.float64]
    sums: NDArray[np.float64]
    parts: NDArray[np.int64]

    @classmethod
    def of(
        cls, times: NDArray[np.float64], cores: NDArray[np.int64], shape: tuple[int, int, int, int, int]
    ) -> Episodes:
        """Return arrays of zeros for a number of episodes.

        Parameters
        ----------
        times, cores : array
            Attributes of these names; the logarithms are filled in.
        shape : tuple of int
            E, N, R, M and C.
        """
        episodes, jobs, running, starts, tracked = shape
        take_logs(times, cores)
        return cls(
            times,
            cores,
            np.zeros((episodes, ARRIVAL + 1)),
            np.zeros((episodes, STARTED + 1), np.int64),
            np.zeros((episodes, jobs), np.int64),
            np.zeros((episodes, running)),
            np.zeros((episodes, running)),
            np.zeros((episodes, running), np.int64),
            np.zeros((episodes, running), np.int64),
            np.zeros((episodes, starts), np.int64),
            np.zeros((episodes, starts)),
            np.zeros((episodes, tracked), np.int64),
            np.zeros((episodes, tracked)),
            np.zeros(64),
            np.zeros((128, 2), np.int64),
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
def _term(state: Episodes, e: int, place: int, rules: Rules) -> float:
    """Return the submission time of a queued job, or with a power what it costs to wait since the last charge."""
    submitted: float = _submitted(state, e, state.queue[e, place])
    if rules.scale == 0.0:
        return submitted
    before = ((state.clock[e, COUNTED] - submitted) / rules.scale) ** rules.power
    after = ((state.clock[e, NOW] - submitted) / rules.scale) ** rules.power
    cost: float = after - before
    return cost


@_compiled
def _sum_of_few(state: Episodes, e: int, begin: int, end: int, rules: Rules) -> float:
    """Return the sum of the terms of up to 128 queued jobs."""
    total, place = 0.0, begin
    if end - begin >= 8:
        a, b, c, d, f, g, h, i = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        while place + 8 <= end:
            a += _term(state, e, place, rules)
            b += _term(state, e, place + 1, rules)
            c += _term(state, e, place + 2, rules)
            d += _term(state, e, place + 3, rules)
            f += _term(state, e, place + 4, rules)
            g += _term(state, e, place + 5, rules)
            h += _term(state, e, place + 6, rules)
            i += _term(state, e, place + 7, rules)
            place += 8
        total = ((a + b) + (c + d)) + ((f + g) + (h + i))
    while place < end:
        total += _term(state, e, place, rules)
        place += 1
    return total


@_compiled
def _sum(state: Episodes, e: int, rules: Rules) -> float:
    """Return the sum of the terms of all queued jobs, added in the same order as by ``numpy.sum``."""
    sums, parts = state.sums, state.parts  # stacks: numba cannot store recursive functions
    parts[0, 0], parts[0, 1] = 0, state.counts[e, QUEUED]
    left, known = 1, 0
    while left:
        left -= 1
        begin, end = parts[left]
        if begin < 0:  # both halves are known
            known -= 1
            sums[known - 1] += sums[known]
        elif end - begin <= 128:
            sums[known] = _sum_of_few(state, e, begin, end, rules)
            known += 1
        else:
            half = begin + (end - begin) // 16 * 8
            parts[left, 0], parts[left, 1] = -1, 0
            parts[left + 1, 0], parts[left + 1, 1] = half, end
            parts[left + 2, 0], parts[left + 2, 1] = begin, half
            left += 3
    total: float = sums[0]
    return total


@_compiled
def _charge(state: Episodes, e: int, rules: Rules) -> None:
    """Charge the waiting time of the queued jobs up to now."""
    clock, now = state.clock, state.clock[e, NOW]
    if rules.scale == 0.0:
        return
    if rules.power == 1.0:
        clock[e, COST] += state.counts[e, QUEUED] * (now - clock[e, COUNTED]) / rules.scale
    elif now > clock[e, COUNTED]:
        clock[e, COST] += _sum(state, e, rules)
    clock[e, COUNTED] = now


@_compiled
def _end_cycle(state: Episodes, e: int, rules: Rules) -> None:
    """Charge the cost of the DBF paper at the end of a scheduling cycle."""
    clock, length, weights = state.clock, state.counts[e, QUEUED], rules.weights
    waiting = length * clock[e, NOW] - _sum(state, e, rules)
    used = 1.0 - state.counts[e, FREE] / state.counts[e, TOTAL]
    cost = weights[0] * (1.0 - used)
    if rules.units[0] > 0.0:
        clock[e, COST] += cost + (weights[1] * length / rules.units[0] + weights[2] * waiting / rules.units[1])
        return
    clock[e, LONGEST] = max(clock[e, LONGEST], length)
    clock[e, LARGEST] = max(clock[e, LARGEST], waiting)
    if length:
        cost += weights[1] * length / clock[e, LONGEST]
    if waiting > 0:
        cost += weights[2] * waiting / clock[e, LARGEST]
    clock[e, COST] += cost


@_compiled
def _complete(state: Episodes, e: int, time: float) -> None:
    """End the running jobs that stop at a time."""
    kept = 0
    for place in range(state.counts[e, RUNNING]):
        if state.stops[e, place] == time:
            state.counts[e, FREE] += state.held[e, place]
            for core in range(state.users.shape[1]):
                if state.users[e, core] == state.ran[e, place]:
                    state.users[e, core] = -1
            continue
        if kept != place:
            state.ends[e, kept] = state.ends[e, place]
            state.stops[e, kept] = state.stops[e, place]
            state.held[e, kept] = state.held[e, place]
            state.ran[e, kept] = state.ran[e, place]
        kept += 1
    state.counts[e, RUNNING] = kept


@_compiled
def _plan_arrival(state: Episodes, e: int) -> None:
    """Set the time of the next arrival: its submission, or later by rounding, as SimPy adds delays to times."""
    clock, coming = state.clock, state.counts[e, COMING]
    if coming >= state.counts[e, LAST]:
        clock[e, ARRIVAL] = _INFINITE
        return
    last, time = clock[e, ARRIVAL], _submitted(state, e, coming)
    if time > last:
        delay = time - last
        while last + delay < time:
            delay = np.nextafter(delay, _INFINITE)
        clock[e, ARRIVAL] = last + delay


@_compiled
def _enqueue(state: Episodes, e: int, rules: Rules) -> bool:
    """Append the next job to the queue; return whether this opens a scheduling cycle."""
    count, job = state.counts, state.counts[e, COMING]
    _charge(state, e, rules)
    state.queue[e, count[e, QUEUED]] = job
    count[e, QUEUED] += 1
    count[e, COMING] = job + 1
    _plan_arrival(state, e)
    count[e, AWAITED] = min(count[e, AWAITED], state.cores[job])
    if count[e, FREE] < count[e, AWAITED]:
        return False
    count[e, AWAITED] = 0
    return True


@_compiled
def _take_arrived(state: Episodes, e: int, rules: Rules) -> bool:
    """Append jobs that arrive now to the queue; return whether a cycle opens, with the first of them if serial."""
    asks = False
    while not (asks and rules.serial) and state.clock[e, ARRIVAL] == state.clock[e, NOW]:
        if _enqueue(state, e, rules):
            asks = True
    return asks


@_compiled
def _advance(state: Episodes, e: int, rules: Rules) -> int:
    """Run to the next decision: completions of an instant first, then arrivals."""
    clock, count = state.clock, state.counts
    while True:
        stop = _INFINITE
        for place in range(count[e, RUNNING]):
            stop = min(stop, state.stops[e, place])
        time = min(stop, clock[e, ARRIVAL])
        if time == _INFINITE:
            return STALLED if count[e, QUEUED] else ENDED
        clock[e, NOW] = time
        asks = False
        if stop == time:
            _complete(state, e, time)
            if count[e, FREE] >= count[e, AWAITED]:
                asks = count[e, QUEUED] > 0
                count[e, AWAITED] = 0
        if not (asks and rules.serial) and _take_arrived(state, e, rules):
            asks = True
        if asks:
            return DECISION


@_compiled
def _go_on(state: Episodes, e: int, rules: Rules, waits: bool) -> int:
    """Run on after a cycle has ended, by waiting or with the last start that empties the queue."""
    asks = rules.serial and _take_arrived(state, e, rules)  # whether jobs that arrived meanwhile open the next cycle
    if waits and rules.scale == 0.0:
        _end_cycle(state, e, rules)
    if asks:
        _complete(state, e, state.clock[e, NOW])  # jobs of no duration
        return DECISION
    outcome: int = _advance(state, e, rules)
    return outcome


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
def _bounds(state: Episodes, e: int, rules: Rules) -> tuple[float, int]:
    """Return when the first job of the queue is to start, and the cores that it leaves free; infinite if it may wait.

    Other jobs may start if they end by then or leave it its cores.
    """
    count, now = state.counts, state.clock[e, NOW]
    if rules.reserve_after == _INFINITE or not count[e, QUEUED]:
        return _INFINITE, 0
    first = state.queue[e, 0]
    cores, free = state.cores[first], count[e, FREE]
    if now - _submitted(state, e, first) < rules.reserve_after:
        return _INFINITE, 0
    if cores <= free:
        return now, free - cores
    for place in range(count[e, RUNNING]):
        free += state.held[e, place]
        if free >= cores:
            start = max(state.ends[e, place], now)
            return start, _free_at(state, e, start) - cores
    return _INFINITE, 0


@_compiled
def _may_start(state: Episodes, e: int, position: int, bounds: tuple[float, int]) -> bool:
    """Return whether the job at a position of the queue fits, and does not delay the first one beyond the bounds."""
    job = state.queue[e, position]
    cores = state.cores[job]
    in_time = state.clock[e, NOW] + state.times[job, REQUESTED] <= bounds[0]
    may: bool = cores <= state.counts[e, FREE] and (in_time or cores <= bounds[1] or position == 0)
    return may


@_compiled
def _is_forced(state: Episodes, e: int, rules: Rules) -> bool:
    """Return whether no job in the window may start."""
    bounds = _bounds(state, e, rules)
    for slot in range(min(state.counts[e, QUEUED], state.counts[e, SIZE])):
        if _may_start(state, e, _shown(state, e, slot), bounds):
            return False
    return True


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
    state.started[e, count[e, STARTED]] = job
    state.started_at[e, count[e, STARTED]] = now
    count[e, STARTED] += 1
    if state.users.shape[1]:
        left = state.cores[job]
        for core in range(count[e, TOTAL]):  # the lowest free cores
            if left and state.users[e, core] < 0:
                state.users[e, core] = job
                state.until[e, core] = end
                left -= 1
    place = count[e, RUNNING]
    while place > 0 and state.ends[e, place - 1] > end:
        state.ends[e, place] = state.ends[e, place - 1]
        state.stops[e, place] = state.stops[e, place - 1]
        state.held[e, place] = state.held[e, place - 1]
        state.ran[e, place] = state.ran[e, place - 1]
        place -= 1
    state.ends[e, place] = end
    state.ran[e, place] = job
    state.stops[e, place] = now + state.times[job, DURATION]
    state.held[e, place] = state.cores[job]
    count[e, RUNNING] += 1


@_compiled
def _skip_forced(state: Episodes, e: int, rules: Rules, outcome: int) -> int:
    """Wait while no job in the window may start, and return what follows."""
    while outcome == DECISION and _is_forced(state, e, rules):
        _charge(state, e, rules)
        state.counts[e, AWAITED] = _least_cores(state, e) if rules.awaits else 0
        outcome = _go_on(state, e, rules, True)
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
def begin(state: Episodes, which: Any, rules: Rules, outcomes: Any) -> None:
    """Begin some episodes, whose jobs and numbers of cores and slots are set, and run to their first decisions.

    Parameters
    ----------
    state : Episodes
        Arrays to change.
    which : array of int
        Episodes that begin; their first job is the next one to arrive.
    rules : Rules
        What all episodes have in common.
    outcomes : array of int, shape (E,)
        Output for these episodes, see :data:`DECISION`.
    """
    clock, count = state.clock, state.counts
    for e in which:
        for column in (NOW, COUNTED, COST, BEFORE, LONGEST, LARGEST, ARRIVAL):
            clock[e, column] = 0.0
        count[e, FREE] = count[e, TOTAL]
        for column in (QUEUED, RUNNING, AWAITED, DECISIONS, STARTED):
            count[e, column] = 0
        for core in range(state.users.shape[1]):
            state.users[e, core] = -1
        _plan_arrival(state, e)
        outcome = _advance(state, e, rules)
        outcomes[e] = _skip_forced(state, e, rules, outcome) if rules.skips_forced else outcome
        clock[e, COUNTED] = clock[e, BEFORE] = clock[e, NOW]
        clock[e, COST] = 0.0


@_compiled
def _answer(state: Episodes, e: int, slot: int, rules: Rules) -> tuple[bool, int]:
    """Answer a decision; return whether the action was possible, and what follows."""
    count, length = state.counts, state.counts[e, QUEUED]
    possible, position = True, -1
    if slot == rules.slots:
        can_wait = count[e, RUNNING] > 0 or count[e, COMING] < count[e, LAST]
        possible = can_wait or _is_forced(state, e, rules)
    else:
        if slot < count[e, SIZE] and slot < length:
            position = _shown(state, e, slot)
            if not _may_start(state, e, position, _bounds(state, e, rules)):
                position = -1
        possible = position >= 0
    if position < 0:
        return possible, _go_on(state, e, rules, True)
    _start(state, e, position)
    if count[e, STARTED] == rules.starts:
        if rules.serial and length == 1:
            _take_arrived(state, e, rules)
        return possible, STOPPED
    if length > 1:  # the cycle goes on
        _complete(state, e, state.clock[e, NOW])  # jobs of no duration
        return possible, DECISION
    return possible, _go_on(state, e, rules, False)


@_compiled
def step(  # noqa: PLR0917  # numba takes no keyword-only arguments
    state: Episodes, actions: Any, asked: Any, rules: Rules, rewards: Any, elapsed: Any, possible: Any, outcomes: Any
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
    rules : Rules
        What all episodes have in common.
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
        possible[e], outcome = _answer(state, e, actions[e], rules)
        if rules.skips_forced:
            outcome = _skip_forced(state, e, rules, outcome)
        _charge(state, e, rules)
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
def _show_jobs(state: Episodes, e: int, rules: Rules, jobs: Any, mask: Any) -> int:
    """Write the features of the jobs in the window, apart from comparisons; return how many may start."""
    now, free, total = state.clock[e, NOW], state.counts[e, FREE], state.counts[e, TOTAL]
    length = state.counts[e, QUEUED]
    shown = min(length, state.counts[e, SIZE])
    per_log = 1.0 / (SCALE * math.log1p(total))
    bounds = _bounds(state, e, rules)
    fitting = 0
    for slot in range(shown):
        position = _shown(state, e, slot)
        job = state.queue[e, position]
        cores = state.cores[job]
        fits = _may_start(state, e, position, bounds)
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
def _compare_jobs(state: Episodes, e: int, jobs: Any, mask: Any, fitting: int) -> None:
    """Write by how much the jobs in the window are above the shortest and the smallest one that may start."""
    shown = state.counts[e, SHOWN]
    shortest, smallest = _INFINITE, _INFINITE
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        if mask[e, slot]:
            shortest = min(shortest, state.times[job, TIME_LOG])
            smallest = min(smallest, state.times[job, TIME_LOG] + state.times[job, CORE_LOG])
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        jobs[e, slot, 8] = state.times[job, TIME_LOG] - shortest if fitting else 0.0
        jobs[e, slot, 9] = state.times[job, TIME_LOG] + state.times[job, CORE_LOG] - smallest if fitting else 0.0


@_compiled
def _reserve(state: Episodes, e: int, jobs: Any, cluster: Any, mask: Any) -> None:
    """Plan a reservation for the shortest job in the window that may not start, and write what it means for others."""
    now, shown = state.clock[e, NOW], state.counts[e, SHOWN]
    blocked, least = -1, _INFINITE
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        if not mask[e, slot] and (blocked < 0 or state.times[job, REQUESTED] < least):
            blocked, least = job, state.times[job, REQUESTED]
    cores = state.cores[blocked]
    until = _time_until(state, e, cores)
    reserved = now + until
    spare = _free_at(state, e, reserved) - cores
    for slot in range(shown):
        job = state.queue[e, _shown(state, e, slot)]
        time = state.times[job, REQUESTED]
        if mask[e, slot] and spare < state.cores[job] and time > least and now + time > reserved:
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
def observe(state: Episodes, which: Any, rules: Rules, jobs: Any, cluster: Any, mask: Any) -> None:  # noqa: PLR0917
    """Write the observations of some episodes, as the encoder of features shows them.

    Parameters
    ----------
    state : Episodes
        State of the episodes.
    which : array of int
        Episodes to observe.
    rules : Rules
        What all episodes have in common.
    jobs : array of float32, shape (E, S, 12)
        Output for the features of jobs; the same array in each call.
    cluster : array of float32, shape (E, 12)
        Output for the features of clusters.
    mask : array of int8, shape (E, S + 1)
        Output for the possible actions.
    """
    count = state.counts
    for e in which:
        fitting = _show_jobs(state, e, rules, jobs, mask)
        _compare_jobs(state, e, jobs, mask, fitting)
        _show_cluster(state, e, cluster, fitting)
        for feature in range(8, 12):
            cluster[e, feature] = 0.0
        if fitting < count[e, SHOWN]:
            _reserve(state, e, jobs, cluster, mask)
        mask[e, -1] = count[e, RUNNING] > 0 or count[e, COMING] < count[e, LAST] or fitting == 0


@_compiled
def observe_flat(  # noqa: PLR0917  # numba takes no keyword-only arguments
    state: Episodes, which: Any, jobs: Any, cores: Any, mask: Any, longest_time: float, longest_wait: float
) -> None:
    """Write the observations of some episodes, as the encoder of the DBF paper shows them.

    Parameters
    ----------
    state : Episodes
        State of the episodes, with tracked cores.
    which : array of int
        Episodes to observe.
    jobs : array of float32, shape (E, S, 3)
        Output for requested cores, requested times and waiting times of jobs; the same array in each call.
    cores : array of float32, shape (E, C)
        Output for the remaining times of cores.
    mask : array of int8, shape (E, S + 1)
        Output for the possible actions.
    longest_time, longest_wait : float
        Requested time and waiting time that are scaled to 1, in seconds.
    """
    count = state.counts
    for e in which:
        now, free, total, length = state.clock[e, NOW], count[e, FREE], count[e, TOTAL], count[e, QUEUED]
        for core in range(total):
            left = state.until[e, core] - now if state.users[e, core] >= 0 else 0.0
            cores[e, core] = min(left / longest_time, 1.0)
        shown, fitting = min(length, count[e, SIZE]), 0
        for slot in range(shown):
            job = state.queue[e, _shown(state, e, slot)]
            jobs[e, slot, 0] = min(state.cores[job] / total, 1.0)
            jobs[e, slot, 1] = min(state.times[job, REQUESTED] / longest_time, 1.0)
            jobs[e, slot, 2] = min((now - _submitted(state, e, job)) / longest_wait, 1.0)
            mask[e, slot] = state.cores[job] <= free
            fitting += mask[e, slot]
        for slot in range(shown, count[e, SHOWN]):  # the others are still empty
            for feature in range(3):
                jobs[e, slot, feature] = 0.0
            mask[e, slot] = 0
        count[e, SHOWN] = shown
        mask[e, -1] = count[e, RUNNING] > 0 or count[e, COMING] < count[e, LAST] or fitting == 0
