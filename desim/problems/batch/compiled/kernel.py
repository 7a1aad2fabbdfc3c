"""Compiled event loop: rigid jobs on counted cores under priority orders and backfilling.

:func:`run` follows SimPy's kernel, :class:`~desim.problems.batch.BatchCluster` and the agents of
``desim.agents.batch`` event by event: events of one instant happen in the same order, an agent is asked at the same
times, and times are summed in the same order. So all times are equal to the last bit. Those modules remain the
definition; ``tests/properties/test_engines.py`` compares both.

The state is in a few arrays, whose rows have the names below: ``w`` and ``f``, whole numbers and times; ``jobs`` and
``rows``, numbers and whole numbers per job, or lists that hold each job at most once; ``times`` and ``keys``, heaps of
events.
"""

# mypy: disable-error-code="arg-type, no-any-return"
# ruff: noqa: PLR0912, PLR0917, SIM110  # numba passes a state of arrays faster than an object

from __future__ import annotations

from typing import Any

import numpy as np

from desim.problems.batch.compiled.numba_functions import (
    Floats,
    Integers,
    compiled,
    entry,
    inlined,
    move_down,
    move_up,
    scheduled,
)

__all__ = ["run"]

constants: Any = np.arange  # numba compiles a function once for each of Python's numbers that it is called with


STRICT_FCFS, STRICT, SIMPLE, EASY, CONSERVATIVE = constants(5)  # agents
INSTANT, ARRIVAL, EVENT, PERIODIC = constants(4)  # cycles
REQUESTED, USER_AVERAGE, ORACLE = constants(3)  # predictors

# whole numbers
KIND, CYCLE, PREDICTOR, LAST, CORES_IN_ALL, HAS_SECOND, IS_FIXED = constants(7)
FORMULA, FORMULA_2, BY_EXPECTED, BY_EXPECTED_2, IS_NARROW_FIRST, NUM_OWNERS, NUM_USERS, COUNTS_USAGE = constants(36, 44)
FREE, AWAITED, HEARS, CYCLING, PENDING, PLANNED, SEQUENCE, NUM_RUNNING, NUM_STARTED, NUM_ENDED = constants(9, 19)
HEAD, TAIL, NUM_INBOX, NUM_TAKEN, NUM_RECORDED, NUM_CHOSEN, NEWEST = constants(19, 26)
PROFILED, POINTS, NUM_RESERVED, CHANGED, SETTLED, NUM_SLOTS, IS_FULL, HAS_BEGUN, ARRIVED, ARRIVAL_NUMBER = constants(
    26, 36
)
NUM_WHOLE = 44
# times
NOW, PERIOD, PLANNED_TIME, UNTIL, FREED_UNTIL, FREED_NEXT, ARRIVAL = constants(7)
AGE, SIZE, FAIR_SHARE, MAX_AGE, HALF_LIFE, HALF, TWO, LOG_TWO = constants(7, 15)  # of the multifactor priority
NUM_TIMES = 15
# numbers per job
SUBMISSION, REQUESTED_TIME, RUN_TIME, DURATION, PREDICTED, SCORE, SCORE_2, START, EXPECTED_END, RUNNING_ENDS = (
    np.arange(10)
)
RESERVED_START, RESERVED_END, SLOT_END, RAN, RAN_BEFORE, HEAD_ENDS, TERM, TERM_2 = constants(10, 18)
USED, USED_SINCE, SHARE, FACTOR = constants(18, 22)  # by user
NUM_FIELDS = 22
# whole numbers per job, and lists of jobs
CORES, USER, CORRECTIONS, STATUS, QUEUE, QUEUE_2, INBOX, RUNNING, STARTED, ENDED_BEFORE, RECORDED, CHOSEN = constants(
    12
)
HAS_RESERVATION, IS_RUNNING, NUM_RAN, SLOTS, ENDED, HEADS, OWNER = constants(12, 19)
HELD, USERS, HAS_USED, HAS_QUEUED = constants(19, 23)  # by user, and a list of users
NUM_ROWS = 23
# heaps; of each, keys has numbers and rows
ENDS, EXPIRIES, WAKES, STARTS = constants(4)
ARRIVALS, CYCLES = constants(4, 6)  # events that come singly

COMPLETED, KILLED, RUNNING_STILL, QUEUED, REJECTED = constants(1, 6)  # statuses; 0 for a job that has not ended
NEVER = np.inf

SJF, F2, F3, F4, WFP3, UNICEP, MULTIFACTOR = constants(1, 8)  # formulas of scores; 0 for scores that are given
FORMULAS = {"sjf": SJF, "f2": F2, "f3": F3, "f4": F4, "wfp3": WFP3, "unicep": UNICEP, "multifactor": MULTIFACTOR}
"""Formulas by the names of priorities; those from WFP3 on depend on the time."""


# -- events ---------------------------------------------------------------------------------------


@compiled
def push(times: Floats, keys: Integers, sizes: Integers, heap: int, time: float, number: int, row: int) -> None:
    """Add an event to a heap by time and number."""
    place = sizes[heap]
    sizes[heap] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if times[heap, above] < time or (times[heap, above] == time and keys[2 * heap, above] <= number):
            break
        times[heap, place] = times[heap, above]
        keys[2 * heap, place] = keys[2 * heap, above]
        keys[2 * heap + 1, place] = keys[2 * heap + 1, above]
        place = above
    times[heap, place] = time
    keys[2 * heap, place] = number
    keys[2 * heap + 1, place] = row


@compiled
def pop(times: Floats, keys: Integers, sizes: Integers, heap: int) -> int:
    """Remove the first event of a heap, and return its row."""
    found = keys[2 * heap + 1, 0]
    last = sizes[heap] - 1
    sizes[heap] = last
    time, number, row = times[heap, last], keys[2 * heap, last], keys[2 * heap + 1, last]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        other = below + 1
        if other < last and (
            times[heap, other] < times[heap, below]
            or (times[heap, other] == times[heap, below] and keys[2 * heap, other] < keys[2 * heap, below])
        ):
            below = other
        if time < times[heap, below] or (time == times[heap, below] and number < keys[2 * heap, below]):
            break
        times[heap, place] = times[heap, below]
        keys[2 * heap, place] = keys[2 * heap, below]
        keys[2 * heap + 1, place] = keys[2 * heap + 1, below]
        place = below
    times[heap, place] = time
    keys[2 * heap, place] = number
    keys[2 * heap + 1, place] = row
    return found


# -- cycles ---------------------------------------------------------------------------------------


@compiled
def next_multiple(time: float, period: float) -> float:
    """Return the first multiple of a period that is not before a time; see ``cycles.next_multiple``."""
    if abs(time - np.rint(time / period) * period) <= np.nextafter(time, np.inf) - time:
        return time
    count = np.ceil(time / period)
    return count * period if count * period > time else (count + 1.0) * period


@compiled
def ask(w: Integers, f: Floats) -> None:
    """Open a cycle now, or plan one at the next multiple of the period."""
    if w[CYCLE] == PERIODIC:
        time = next_multiple(f[NOW], f[PERIOD])
        if time > f[NOW]:
            if not w[PLANNED]:
                w[PLANNED] = 1
                f[PLANNED_TIME] = scheduled(f[NOW], time)
            return
    w[CYCLING] = w[PENDING] = 1
    w[AWAITED] = 0


@compiled
def open_cycle(w: Integers, f: Floats) -> None:
    """Open a cycle unless one is open."""
    if not w[CYCLING]:
        if w[TAIL] > w[HEAD]:
            ask(w, f)
        else:
            w[AWAITED] = 0


@compiled
def set_score(w: Integers, f: Floats, jobs: Floats, rows: Integers, second: int, row: int) -> None:
    """Compute the score of a job, as the priorities do that ``FORMULAS`` names."""
    formula, cores, term = w[FORMULA + second], rows[CORES, row], jobs[TERM + second, row]
    length = jobs[PREDICTED, row] if w[BY_EXPECTED + second] else jobs[REQUESTED_TIME, row]
    if formula == SJF:
        score = length
    elif formula == F2:
        score = np.sqrt(length) * cores + term
    elif formula == F3:
        score = length * cores + term
    elif formula == F4:
        score = length * np.sqrt(np.float64(cores)) + term
    elif formula == MULTIFACTOR:
        width = cores / w[CORES_IN_ALL]
        score = f[AGE] * min((f[NOW] - jobs[SUBMISSION, row]) / f[MAX_AGE], 1.0)
        score += f[SIZE] * (1.0 - width if w[IS_NARROW_FIRST] else width)
        if f[FAIR_SHARE] != 0.0:
            score += f[FAIR_SHARE] * jobs[FACTOR, rows[OWNER, row]]
        score = -score
    else:
        waiting, length = f[NOW] - jobs[SUBMISSION, row], max(length, 1.0)
        if formula == WFP3:
            ratio = waiting / length
            score = -(ratio * ratio * ratio) * cores
        else:
            score = -waiting / (term * length)
    jobs[SCORE + second, row] = score


@compiled
def usage(f: Floats, jobs: Floats, rows: Integers, user: int) -> float:
    """Return the core-seconds of a user; see ``parts.usage``."""
    left = f[HALF] ** ((f[NOW] - jobs[USED_SINCE, user]) / f[HALF_LIFE])
    return jobs[USED, user] * left + rows[HELD, user] * (1.0 - left) * f[HALF_LIFE] / f[LOG_TWO]


@compiled
def change_usage(w: Integers, f: Floats, jobs: Floats, rows: Integers, user: int, cores: int) -> None:
    """Record that the cores of a user change now."""
    if rows[HAS_USED, user]:
        jobs[USED, user] = usage(f, jobs, rows, user)
    else:
        rows[HAS_USED, user] = 1
        rows[USERS, w[NUM_USERS]] = user
        w[NUM_USERS] += 1
    jobs[USED_SINCE, user] = f[NOW]
    rows[HELD, user] += cores


@compiled
def count_usage(w: Integers, f: Floats, jobs: Floats, rows: Integers) -> None:
    """Begin to count usage, including that of the running jobs."""
    w[COUNTS_USAGE] = 1
    now = f[NOW]
    for number in range(w[NUM_STARTED]):
        row = rows[STARTED, number]
        if rows[IS_RUNNING, row]:
            f[NOW] = jobs[START, row]
            change_usage(w, f, jobs, rows, rows[OWNER, row], rows[CORES, row])
    f[NOW] = now


@compiled
def set_factors(w: Integers, f: Floats, jobs: Floats, rows: Integers) -> None:
    """Compute the fair-share factors of the users of queued jobs; see ``Multifactor.fair_share_factors``."""
    if not w[COUNTS_USAGE]:
        count_usage(w, f, jobs, rows)
    total, shares = 0.0, 0.0
    for number in range(w[NUM_USERS]):
        total += usage(f, jobs, rows, rows[USERS, number])
    for place in range(w[HEAD], w[TAIL]):
        rows[HAS_QUEUED, rows[OWNER, rows[QUEUE, place]]] = 1
    for user in range(w[NUM_OWNERS]):
        if rows[HAS_QUEUED, user] or rows[HAS_USED, user]:
            shares += jobs[SHARE, user]
    for user in range(w[NUM_OWNERS]):
        if rows[HAS_QUEUED, user]:
            rows[HAS_QUEUED, user] = 0
            used = usage(f, jobs, rows, user) if rows[HAS_USED, user] else 0.0
            factor = 1.0
            if total != 0.0:
                factor = f[TWO] ** -(used / total / (jobs[SHARE, user] / shares))
            jobs[FACTOR, user] = factor


@compiled
def sort_queue(w: Integers, f: Floats, jobs: Floats, rows: Integers, second: int) -> None:
    """Sort a queue whose scores change over time; between two decisions, few jobs overtake others."""
    queue, score = QUEUE + second, SCORE + second
    if w[FORMULA + second] == MULTIFACTOR:
        set_factors(w, f, jobs, rows)
    for place in range(w[HEAD], w[TAIL]):
        row = rows[queue, place]
        set_score(w, f, jobs, rows, second, row)
        mine, to = jobs[score, row], place
        while to > w[HEAD]:
            other = rows[queue, to - 1]
            theirs = jobs[score, other]
            if theirs < mine or (theirs == mine and other < row):
                break
            rows[queue, to] = other
            to -= 1
        rows[queue, to] = row


@compiled
def insert(w: Integers, jobs: Floats, rows: Integers, queue: int, score: int, row: int) -> None:
    """Insert a job into a queue by score; equal jobs by arrival."""
    low, high = w[HEAD], w[TAIL]
    if high > low and jobs[score, rows[queue, high - 1]] <= jobs[score, row]:
        low = high
    while low < high:
        middle = (low + high) >> 1
        if jobs[score, rows[queue, middle]] <= jobs[score, row]:
            low = middle + 1
        else:
            high = middle
    for place in range(w[TAIL], low, -1):
        rows[queue, place] = rows[queue, place - 1]
    rows[queue, low] = row


@compiled
def enqueue(w: Integers, f: Floats, jobs: Floats, rows: Integers, row: int) -> None:
    """Put a job into the queue, and open a cycle unless the agent awaits more cores than are free."""
    for second in range(1 + w[HAS_SECOND]):
        if 0 < w[FORMULA + second] < WFP3:  # others are sorted at each decision
            set_score(w, f, jobs, rows, second, row)
        insert(w, jobs, rows, QUEUE + second, SCORE + second, row)
    w[TAIL] += 1
    w[NEWEST] = row
    cores = rows[CORES, row]
    if w[HEARS] and cores < w[AWAITED]:
        w[AWAITED] = cores
    if w[FREE] >= w[AWAITED] and not w[CYCLING]:
        ask(w, f)


@compiled
def take(w: Integers, f: Floats, jobs: Floats, rows: Integers, row: int) -> None:
    """Handle the arrival of a job."""
    if rows[CORES, row] > w[CORES_IN_ALL]:
        rows[STATUS, row] = REJECTED
        rows[RECORDED, w[NUM_RECORDED]] = row
        w[NUM_RECORDED] += 1
        return
    if w[PREDICTOR] == USER_AVERAGE:
        user = rows[USER, row]
        time = jobs[REQUESTED_TIME, row]
        if user >= 0 and rows[NUM_RAN, user] >= w[LAST]:
            ran = jobs[RAN, user]
            if w[LAST] == 2:
                ran = (jobs[RAN_BEFORE, user] + ran) / 2.0
            time = min(max(ran, 1.0), time)
        jobs[PREDICTED, row] = time
    if w[CYCLING] and (w[CYCLE] == ARRIVAL or w[CYCLE] == EVENT):
        rows[INBOX, w[NUM_INBOX]] = row
        w[NUM_INBOX] += 1
    else:
        enqueue(w, f, jobs, rows, row)


# -- running jobs ---------------------------------------------------------------------------------


@compiled
def corrected_end(expected: float, now: float) -> float:
    """Return the expected end of a job that may have exceeded it; see ``predictors.corrected_end``."""
    if expected > now:
        return expected
    more = 60.0
    while expected + more <= now:
        more *= 2
    return expected + more


@compiled
def correct(w: Integers, f: Floats, jobs: Floats, rows: Integers, row: int) -> float:
    """Return the new expected end of a running job that has not ended by its expected end."""
    now, start, requested = f[NOW], jobs[START, row], jobs[REQUESTED_TIME, row]
    if w[PREDICTOR] == REQUESTED:
        return corrected_end(start + requested, now)
    elapsed = now - start
    if w[PREDICTOR] == ORACLE:
        length = corrected_end(jobs[RUN_TIME, row], elapsed)
    elif elapsed >= requested:
        length = corrected_end(requested, elapsed)
    else:
        length = max(1.5 * elapsed, elapsed + 60.0)
    if elapsed < requested:
        length = min(length, requested)
    rows[CORRECTIONS, row] += 1
    end = start + length
    return end if end > now else np.nextafter(now, np.inf)


@compiled
def add_running(w: Integers, jobs: Floats, rows: Integers, row: int) -> None:
    """Insert a job into the list of running jobs by expected end; equal jobs by start."""
    end = jobs[EXPECTED_END, row]
    place = w[NUM_RUNNING]
    while place > 0 and jobs[RUNNING_ENDS, place - 1] > end:
        jobs[RUNNING_ENDS, place] = jobs[RUNNING_ENDS, place - 1]
        rows[RUNNING, place] = rows[RUNNING, place - 1]
        place -= 1
    jobs[RUNNING_ENDS, place] = end
    rows[RUNNING, place] = row
    w[NUM_RUNNING] += 1


@compiled
def remove_running(w: Integers, jobs: Floats, rows: Integers, row: int) -> None:
    """Remove a job from the list of running jobs."""
    end = jobs[EXPECTED_END, row]
    low, high = 0, w[NUM_RUNNING]
    while low < high:
        middle = (low + high) >> 1
        if jobs[RUNNING_ENDS, middle] < end:
            low = middle + 1
        else:
            high = middle
    while rows[RUNNING, low] != row:
        low += 1
    w[NUM_RUNNING] -= 1
    for place in range(low, w[NUM_RUNNING]):
        jobs[RUNNING_ENDS, place] = jobs[RUNNING_ENDS, place + 1]
        rows[RUNNING, place] = rows[RUNNING, place + 1]


@compiled
def expire_later(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers, row: int
) -> None:
    """Schedule the correction of an expected end, unless the job ends by then."""
    if jobs[EXPECTED_END, row] <= f[NOW]:
        jobs[EXPECTED_END, row] = correct(w, f, jobs, rows, row)
    end = jobs[EXPECTED_END, row]
    if end < jobs[START, row] + jobs[DURATION, row]:
        push(times, keys, sizes, EXPIRIES, scheduled(f[NOW], end), w[SEQUENCE], row)
        w[SEQUENCE] += 1


@compiled
def start(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers, row: int
) -> None:
    """Start a job, which the caller removes from the queue."""
    now = f[NOW]
    w[FREE] -= rows[CORES, row]
    jobs[START, row] = now
    rows[IS_RUNNING, row] = 1
    if w[COUNTS_USAGE]:
        change_usage(w, f, jobs, rows, rows[OWNER, row], rows[CORES, row])
    rows[STARTED, w[NUM_STARTED]] = row
    rows[ENDED_BEFORE, w[NUM_STARTED]] = w[NUM_ENDED]
    w[NUM_STARTED] += 1
    push(times, keys, sizes, ENDS, now + jobs[DURATION, row], w[SEQUENCE], row)
    w[SEQUENCE] += 1
    jobs[EXPECTED_END, row] = now + jobs[PREDICTED, row]
    if jobs[DURATION, row] > jobs[PREDICTED, row]:
        expire_later(w, f, jobs, rows, times, keys, sizes, row)
    if w[KIND] >= EASY:
        add_running(w, jobs, rows, row)


@compiled
def complete(w: Integers, f: Floats, jobs: Floats, rows: Integers, row: int) -> None:
    """End a job."""
    rows[IS_RUNNING, row] = 0
    w[FREE] += rows[CORES, row]
    if w[COUNTS_USAGE]:
        change_usage(w, f, jobs, rows, rows[OWNER, row], -rows[CORES, row])
    if w[KIND] >= EASY:
        remove_running(w, jobs, rows, row)
        w[CHANGED] = 1
    duration, user = jobs[DURATION, row], rows[USER, row]
    rows[STATUS, row] = COMPLETED if duration == jobs[RUN_TIME, row] else KILLED
    rows[RECORDED, w[NUM_RECORDED]] = rows[ENDED, w[NUM_ENDED]] = row
    w[NUM_RECORDED] += 1
    w[NUM_ENDED] += 1
    if w[PREDICTOR] == USER_AVERAGE and user >= 0:
        jobs[RAN_BEFORE, user] = jobs[RAN, user]
        jobs[RAN, user] = duration
        rows[NUM_RAN, user] += 1
    if not w[CYCLING] and w[FREE] >= w[AWAITED]:
        open_cycle(w, f)


@compiled
def expire(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers, row: int
) -> None:
    """Correct the expected end of a job that has not ended by then, and open a cycle."""
    if rows[IS_RUNNING, row]:
        end = correct(w, f, jobs, rows, row)
        if w[KIND] >= EASY:
            remove_running(w, jobs, rows, row)
            jobs[EXPECTED_END, row] = end
            add_running(w, jobs, rows, row)
            w[CHANGED] = 1
        jobs[EXPECTED_END, row] = end
        expire_later(w, f, jobs, rows, times, keys, sizes, row)
        if w[FREE] >= w[AWAITED]:
            open_cycle(w, f)


# -- agents ---------------------------------------------------------------------------------------


@compiled
def choose(w: Integers, rows: Integers, row: int) -> None:
    """Note that a job is to start."""
    rows[CHOSEN, w[NUM_CHOSEN]] = row
    w[NUM_CHOSEN] += 1


@compiled
def wait_for(w: Integers, cores: int, hears: int) -> None:
    """Await a number of cores, if fewer are free."""
    if w[CORES_IN_ALL] >= cores > w[FREE]:
        w[AWAITED], w[HEARS] = cores, hears


@compiled
def least_unless_some_fit(w: Integers, rows: Integers) -> int:
    """Return the smallest request of the queued jobs if none fits, else 0."""
    least = 2**62
    for place in range(w[HEAD], w[TAIL]):
        cores = rows[CORES, rows[QUEUE, place]]
        if cores <= w[FREE]:
            return 0
        least = min(least, cores)
    return least


@compiled
def choose_in_order(w: Integers, rows: Integers) -> int:
    """Choose jobs from the first one on until one does not fit; return the cores that are left."""
    free = w[FREE]
    for place in range(w[HEAD], w[TAIL]):
        row = rows[QUEUE, place]
        if rows[CORES, row] > free:
            break
        free -= rows[CORES, row]
        choose(w, rows, row)
    return free


@compiled
def act_strictly(w: Integers, rows: Integers) -> None:
    """Choose as a priority does that is an agent."""
    first = rows[CORES, rows[QUEUE, w[HEAD]]]
    if first > w[FREE] and w[KIND] != STRICT_FCFS:
        wait_for(w, first if w[IS_FIXED] else least_unless_some_fit(w, rows), 1)
        return
    free = choose_in_order(w, rows)
    blocked = w[HEAD] + w[NUM_CHOSEN]
    if w[KIND] == STRICT_FCFS and blocked < w[TAIL]:
        cores = rows[CORES, rows[QUEUE, blocked]]
        if cores > free:
            w[AWAITED], w[HEARS] = cores, 0


@compiled
def act_simply(w: Integers, rows: Integers) -> None:
    """Choose as simple backfilling does."""
    least = least_unless_some_fit(w, rows)
    if least:
        wait_for(w, least, 1)
        return
    free = w[FREE]
    for place in range(w[HEAD], w[TAIL]):
        row = rows[QUEUE, place]
        if rows[CORES, row] <= free:
            choose(w, rows, row)
            free -= rows[CORES, row]
            if not free:
                break


@compiled
def act_easily(w: Integers, f: Floats, jobs: Floats, rows: Integers) -> None:
    """Choose as EASY backfilling does."""
    least = least_unless_some_fit(w, rows)
    if least:
        wait_for(w, least, 1)
        return
    now = f[NOW]
    free = choose_in_order(w, rows)
    heads = w[NUM_CHOSEN]
    if not free or w[HEAD] + heads == w[TAIL]:
        return
    # the reservation: the expected end at which enough cores are free, as the running and the chosen jobs end
    needed, available, shadow = rows[CORES, rows[QUEUE, w[HEAD] + heads]], free, NEVER
    for number in range(heads):
        row = rows[CHOSEN, number]
        end, place = now + jobs[PREDICTED, row], number
        while place > 0 and jobs[HEAD_ENDS, place - 1] > end:
            jobs[HEAD_ENDS, place], rows[HEADS, place] = jobs[HEAD_ENDS, place - 1], rows[HEADS, place - 1]
            place -= 1
        jobs[HEAD_ENDS, place], rows[HEADS, place] = end, row
    one, other, running = 0, 0, w[NUM_RUNNING]
    while one < running or other < heads:
        if other == heads or (one < running and jobs[RUNNING_ENDS, one] <= jobs[HEAD_ENDS, other]):
            end, row = jobs[RUNNING_ENDS, one], rows[RUNNING, one]
            one += 1
        else:
            end, row = jobs[HEAD_ENDS, other], rows[HEADS, other]
            other += 1
        if end > shadow:
            break
        available += rows[CORES, row]
        if available >= needed:
            shadow = end
    spare = available - needed if shadow < NEVER else 2**62
    if w[HAS_SECOND] and w[FORMULA_2] >= WFP3:
        sort_queue(w, f, jobs, rows, 1)
    queue = QUEUE_2 if w[HAS_SECOND] else QUEUE
    for place in range(w[HEAD] + (0 if w[HAS_SECOND] else heads), w[TAIL]):
        row = rows[queue, place]
        cores = rows[CORES, row]
        if cores > free:
            continue
        late = now + jobs[PREDICTED, row] > shadow
        if late and cores > spare:
            continue
        if w[HAS_SECOND] and is_chosen(rows, heads, row):
            continue
        choose(w, rows, row)
        free -= cores
        if late:
            spare -= cores
        if not free:
            break


@compiled
def is_chosen(rows: Integers, count: int, row: int) -> bool:
    """Return whether a job is among the first ones that were chosen."""
    for number in range(count):
        if rows[CHOSEN, number] == row:
            return True
    return False


@compiled
def start_chosen(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers
) -> None:
    """Start the jobs that were chosen, and remove them from the queue."""
    count = w[NUM_CHOSEN]
    if not count:
        return
    for number in range(count):
        start(w, f, jobs, rows, times, keys, sizes, rows[CHOSEN, number])
    w[NUM_CHOSEN] = 0
    for queue in range(QUEUE, QUEUE + 1 + w[HAS_SECOND]):
        end, left = w[HEAD], count
        while left:
            left -= rows[IS_RUNNING, rows[queue, end]]
            end += 1
        kept = end  # those that stay before the last one that starts move towards it
        for place in range(end - 1, w[HEAD] - 1, -1):
            row = rows[queue, place]
            if not rows[IS_RUNNING, row]:
                kept -= 1
                rows[queue, kept] = row
    w[HEAD] += count


# -- conservative backfilling: AvailabilityProfile and ConservativeBackfilling --------------------


@inlined
def bisect_left(points: Floats, count: int, time: float) -> int:
    """Return the first point that is not before a time."""
    low, high = 0, count
    while high - low > 64:
        middle = (low + high) >> 1
        if points[middle] < time:
            low = middle + 1
        else:
            high = middle
    before = 0
    for place in range(np.uint64(low), np.uint64(high)):  # without a branch, vectors take less time than halving
        before += points[place] < time
    return low + before


@compiled
def bisect_right(points: Floats, count: int, time: float) -> int:
    """Return the first point after a time."""
    low, high = 0, count
    while high - low > 64:
        middle = (low + high) >> 1
        if points[middle] <= time:
            low = middle + 1
        else:
            high = middle
    before = 0
    for place in range(np.uint64(low), np.uint64(high)):  # without a branch, vectors take less time than halving
        before += points[place] <= time
    return low + before


@inlined
def insert_point(w: Integers, points: Floats, levels: Integers, time: float) -> int:
    """Return the index of the point at a time, which is added if there is none."""
    count = w[POINTS]
    place = bisect_left(points, count, time)
    if place == count or points[place] != time:
        move_up(points, place, count)
        move_up(levels, place, count)
        points[place], levels[place] = time, levels[place - 1]
        w[POINTS] = count + 1
    return place


@inlined
def drop_if_idle(w: Integers, points: Floats, levels: Integers, place: int) -> None:
    """Remove a point at which nothing changes."""
    if 0 < place < w[POINTS] and levels[place] == levels[place - 1]:
        move_down(points, place, w[POINTS], 1)
        move_down(levels, place, w[POINTS], 1)
        w[POINTS] -= 1


@compiled
def change(w: Integers, points: Floats, levels: Integers, begin: float, end: float, cores: int) -> None:
    """Change the free cores in an interval."""
    if not begin < end:
        return
    first = insert_point(w, points, levels, begin)
    last = insert_point(w, points, levels, end) if end < NEVER else w[POINTS]
    for place in range(np.uint64(first), np.uint64(last)):
        levels[place] += cores
    drop_if_idle(w, points, levels, last)
    drop_if_idle(w, points, levels, first)


@inlined
def earliest(
    w: Integers, points: Floats, levels: Integers, cores: int, duration: float, before: float, freed_until: float
) -> float:
    """Return the earliest time from which enough cores stay free, or until the time ``before``."""
    place, count, one = np.uint64(0), np.uint64(w[POINTS]), np.uint64(1)
    latest = min(before, freed_until)
    while place < count and points[place] < latest:
        if levels[place] < cores:
            place += one
            continue
        begin = points[place]
        end = min(begin + duration, before)
        place += one
        while place < count and points[place] < end and levels[place] >= cores:
            place += one
        if place == count or points[place] >= end:
            return begin
    return before


@compiled
def give(w: Integers, f: Floats, points: Floats, levels: Integers, begin: float, end: float, cores: int) -> None:
    """Free a slot that was occupied before."""
    change(w, points, levels, begin, end, cores)
    note_freed(f, end)


@compiled
def note_freed(f: Floats, end: float) -> None:
    """Note until when cores were freed."""
    f[FREED_UNTIL] = max(f[FREED_UNTIL], end)
    f[FREED_NEXT] = max(f[FREED_NEXT], end)


@compiled
def reserve(
    w: Integers,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
    row: int,
    begin: float,
) -> None:
    """Reserve for a job from a time on."""
    end = begin + jobs[PREDICTED, row]
    change(w, points, levels, begin, end, -rows[CORES, row])
    jobs[RESERVED_START, row], jobs[RESERVED_END, row] = begin, end
    if not rows[HAS_RESERVATION, row]:
        rows[HAS_RESERVATION, row] = 1
        w[NUM_RESERVED] += 1
    if sizes[STARTS] > 64 + 4 * w[NUM_RESERVED]:
        sizes[STARTS] = 0
        for place in range(w[HEAD], w[TAIL]):
            other = rows[QUEUE, place]
            if rows[HAS_RESERVATION, other]:
                push(times, keys, sizes, STARTS, jobs[RESERVED_START, other], other, other)
    else:
        push(times, keys, sizes, STARTS, begin, row, row)


@compiled
def drop_reservation(w: Integers, rows: Integers, row: int) -> None:
    """Drop the reservation of a job."""
    rows[HAS_RESERVATION, row] = 0
    w[NUM_RESERVED] -= 1


@compiled
def next_start(jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers) -> int:
    """Return the job with the earliest reservation, or -1; entries of jobs that have moved are stale."""
    while sizes[STARTS]:
        row = keys[2 * STARTS + 1, 0]
        if rows[HAS_RESERVATION, row] and jobs[RESERVED_START, row] == times[STARTS, 0]:
            return row
        pop(times, keys, sizes, STARTS)
    return -1


@compiled
def rebuild(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, sizes: Integers, points: Floats, levels: Integers
) -> None:
    """Build the profile from the running jobs alone."""
    points[0], levels[0], w[POINTS] = f[NOW], w[FREE], 1
    for place in range(w[NUM_RUNNING]):
        row, end = rows[RUNNING, place], jobs[RUNNING_ENDS, place]
        jobs[SLOT_END, row] = end
        change(w, points, levels, end, NEVER, rows[CORES, row])
        rows[SLOTS, place] = row
    w[NUM_SLOTS] = w[NUM_RUNNING]
    for place in range(w[HEAD], w[TAIL]):
        rows[HAS_RESERVATION, rows[QUEUE, place]] = 0
    w[NUM_RESERVED] = sizes[STARTS] = w[CHANGED] = 0
    w[SETTLED] = w[PROFILED] = 1
    f[FREED_UNTIL] = f[FREED_NEXT] = -NEVER


@compiled
def follow(
    w: Integers,
    f: Floats,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
) -> None:
    """Free what ended jobs had left, extend the slots of corrected ones, and compress the schedule."""
    w[CHANGED] = 0
    now = f[NOW]
    kept, first_end = 0, NEVER
    for place in range(w[NUM_SLOTS]):
        row = rows[SLOTS, place]
        end = jobs[SLOT_END, row]
        if rows[IS_RUNNING, row]:
            rows[SLOTS, kept] = row
            kept += 1
            first_end = min(first_end, end)
        elif end > now:
            give(w, f, points, levels, now, end, rows[CORES, row])
            w[SETTLED] = 0
    has_ended = kept < w[NUM_SLOTS]
    w[NUM_SLOTS] = kept
    has_lost = first_end <= now and extend(w, f, jobs, rows, points, levels)
    if (has_ended or has_lost) and not w[SETTLED]:
        compress(w, f, jobs, rows, times, keys, sizes, points, levels)


@compiled
def extend(w: Integers, f: Floats, jobs: Floats, rows: Integers, points: Floats, levels: Integers) -> bool:
    """Extend the slots of running jobs whose expected ends were corrected; return whether reservations are lost."""
    now, until = f[NOW], f[NOW]
    for place in range(w[NUM_SLOTS]):
        row = rows[SLOTS, place]
        if jobs[EXPECTED_END, row] > jobs[SLOT_END, row]:
            until = max(until, jobs[EXPECTED_END, row])
    count = 0
    for place in range(w[HEAD], w[TAIL]):
        row = rows[QUEUE, place]
        if rows[HAS_RESERVATION, row] and jobs[RESERVED_START, row] < min(until, jobs[RESERVED_END, row]):
            rows[CHOSEN, count] = row
            count += 1
            change(w, points, levels, jobs[RESERVED_START, row], jobs[RESERVED_END, row], rows[CORES, row])
    for place in range(w[NUM_SLOTS]):
        row = rows[SLOTS, place]
        end, before = jobs[EXPECTED_END, row], jobs[SLOT_END, row]
        if end > before:
            change(w, points, levels, max(before, now), end, -rows[CORES, row])
            jobs[SLOT_END, row] = end
    has_lost = False
    for number in range(count):
        row = rows[CHOSEN, number]
        begin, end, cores = jobs[RESERVED_START, row], jobs[RESERVED_END, row], rows[CORES, row]
        first = max(bisect_right(points, w[POINTS], begin) - 1, 0)
        last = max(bisect_left(points, w[POINTS], end), first + 1)
        if has_until(levels, first, last, cores):
            change(w, points, levels, begin, end, -cores)
        else:
            note_freed(f, end)
            drop_reservation(w, rows, row)
            has_lost = True
            w[SETTLED] = 0
    return has_lost


@compiled
def has_until(levels: Integers, first: int, last: int, cores: int) -> bool:
    """Return whether enough cores are free at some points."""
    for place in range(first, last):
        if levels[place] < cores:
            return False
    return True


@compiled
def compress(
    w: Integers,
    f: Floats,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
) -> None:
    """Move each queued job, in order, to the earliest start beside all others."""
    w[SETTLED] = 1
    if not w[NUM_RESERVED]:
        return
    f[FREED_UNTIL], f[FREED_NEXT] = f[FREED_NEXT], -NEVER
    for place in range(w[HEAD], w[TAIL]):
        row = rows[QUEUE, place]
        if not rows[HAS_RESERVATION, row]:
            continue
        begin, end, cores, length = (
            jobs[RESERVED_START, row],
            jobs[RESERVED_END, row],
            rows[CORES, row],
            jobs[PREDICTED, row],
        )
        is_empty = begin == end
        better = (
            earliest(w, points, levels, cores, length, NEVER, NEVER)
            if is_empty
            else earliest(w, points, levels, cores, length, begin, f[FREED_UNTIL])
        )
        if (is_empty and better < NEVER) or better < begin:
            give(w, f, points, levels, begin, end, cores)
            reserve(w, jobs, rows, times, keys, sizes, points, levels, row, better)
            w[SETTLED] = 0


@compiled
def fit_new(
    w: Integers,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
) -> None:
    """Reserve for the jobs without a reservation, in order."""
    missing = w[TAIL] - w[HEAD] - w[NUM_RESERVED]
    if not missing:
        return
    newest = w[NEWEST]
    if missing == 1 and not (rows[STATUS, newest] or rows[IS_RUNNING, newest] or rows[HAS_RESERVATION, newest]):
        fit(w, jobs, rows, times, keys, sizes, points, levels, newest)
        return
    for place in range(w[HEAD], w[TAIL]):
        row = rows[QUEUE, place]
        if not rows[HAS_RESERVATION, row]:
            fit(w, jobs, rows, times, keys, sizes, points, levels, row)


@compiled
def fit(
    w: Integers,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
    row: int,
) -> None:
    """Reserve the earliest slot for a job."""
    begin = earliest(w, points, levels, rows[CORES, row], jobs[PREDICTED, row], NEVER, NEVER)
    if begin < NEVER:
        reserve(w, jobs, rows, times, keys, sizes, points, levels, row, begin)


@compiled
def choose_due(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers
) -> int:
    """Choose the jobs whose reservation is due; return the cores of those whose slots are not empty."""
    cores = 0
    row = next_start(jobs, rows, times, keys, sizes)
    while row >= 0 and jobs[RESERVED_START, row] <= f[NOW]:
        drop_reservation(w, rows, row)
        choose(w, rows, row)
        if jobs[RESERVED_END, row] > jobs[RESERVED_START, row]:
            cores += rows[CORES, row]
        row = next_start(jobs, rows, times, keys, sizes)
    return cores


@compiled
def is_late(
    w: Integers, f: Floats, jobs: Floats, rows: Integers, times: Floats, keys: Integers, sizes: Integers
) -> bool:
    """Return whether a reserved start has passed between two decisions."""
    now = f[NOW]
    row = next_start(jobs, rows, times, keys, sizes)
    if row < 0 or jobs[RESERVED_START, row] >= now:
        return False
    for place in range(w[HEAD], w[TAIL]):
        other = rows[QUEUE, place]
        if rows[HAS_RESERVATION, other] and jobs[RESERVED_START, other] < min(now, jobs[RESERVED_END, other]):
            return True
    return False


@compiled
def act_conservatively(
    w: Integers,
    f: Floats,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
) -> float:
    """Choose as conservative backfilling does; return the time of the next decision, infinite if none is requested."""
    now = f[NOW]
    if not w[PROFILED] or is_late(w, f, jobs, rows, times, keys, sizes):
        rebuild(w, f, jobs, rows, sizes, points, levels)
    else:
        if w[POINTS] > 1 and points[1] <= now:
            dropped = bisect_right(points, w[POINTS], now) - 1
            move_down(points, 0, w[POINTS], dropped)
            move_down(levels, 0, w[POINTS], dropped)
            w[POINTS] -= dropped
        points[0] = max(points[0], now)
        if w[CHANGED]:
            follow(w, f, jobs, rows, times, keys, sizes, points, levels)
    fit_new(w, jobs, rows, times, keys, sizes, points, levels)
    cores = choose_due(w, f, jobs, rows, times, keys, sizes)
    first_end = jobs[RUNNING_ENDS, 0] if w[NUM_RUNNING] else NEVER
    if first_end > now and levels[0] + cores != w[FREE]:
        w[NUM_CHOSEN] = 0
        rebuild(w, f, jobs, rows, sizes, points, levels)
        fit_new(w, jobs, rows, times, keys, sizes, points, levels)
        choose_due(w, f, jobs, rows, times, keys, sizes)
    free, count = w[FREE], w[NUM_CHOSEN]
    w[NUM_CHOSEN] = 0
    for number in range(count):
        row = rows[CHOSEN, number]
        if rows[CORES, row] <= free:
            free -= rows[CORES, row]
            choose(w, rows, row)
            jobs[SLOT_END, row] = jobs[RESERVED_END, row]
            rows[SLOTS, w[NUM_SLOTS]] = row
            w[NUM_SLOTS] += 1
        else:
            rows[HAS_RESERVATION, row] = 1
            w[NUM_RESERVED] += 1
            push(times, keys, sizes, STARTS, jobs[RESERVED_START, row], row, row)
    row = next_start(jobs, rows, times, keys, sizes)
    following = jobs[RESERVED_START, row] if row >= 0 else NEVER
    if not now < following < NEVER:
        return NEVER
    for place in range(w[NUM_SLOTS]):
        if jobs[SLOT_END, rows[SLOTS, place]] == following:
            return NEVER
    return following


# -- the loop -------------------------------------------------------------------------------------


@compiled
def decide(
    w: Integers,
    f: Floats,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
) -> None:
    """Ask the agent, and carry out its answer, which ends the cycle; enqueue jobs that have arrived meanwhile."""
    following = NEVER
    if w[FORMULA] >= WFP3:
        sort_queue(w, f, jobs, rows, 0)
    if w[KIND] <= STRICT:
        act_strictly(w, rows)
    elif w[KIND] == SIMPLE:
        act_simply(w, rows)
    elif w[KIND] == EASY:
        act_easily(w, f, jobs, rows)
    else:
        following = act_conservatively(w, f, jobs, rows, times, keys, sizes, points, levels)
    start_chosen(w, f, jobs, rows, times, keys, sizes)
    if following < NEVER:
        wake_at(w, f, times, keys, sizes, following)
    w[PENDING] = w[CYCLING] = 0
    taken = 0
    while taken < w[NUM_INBOX] and not w[CYCLING]:
        enqueue(w, f, jobs, rows, rows[INBOX, taken])
        taken += 1
    w[NUM_INBOX] -= taken
    for place in range(w[NUM_INBOX]):
        rows[INBOX, place] = rows[INBOX, place + taken]


@compiled
def wake_at(w: Integers, f: Floats, times: Floats, keys: Integers, sizes: Integers, time: float) -> None:
    """Schedule a cycle at a time, unless one is scheduled then."""
    key = np.float64(time).view(np.int64)
    for place in range(sizes[WAKES]):
        if keys[2 * WAKES + 1, place] == key:
            return
    if sizes[WAKES] == times.shape[1]:
        w[IS_FULL] = 1
        return
    push(times, keys, sizes, WAKES, scheduled(f[NOW], time), w[SEQUENCE], key)
    w[SEQUENCE] += 1


@compiled
def arrive(w: Integers, f: Floats, jobs: Floats, rows: Integers, time: float) -> None:
    """Take the jobs that are submitted by now, and plan the next arrival."""
    count = jobs.shape[1]
    while w[ARRIVED] < count and jobs[SUBMISSION, w[ARRIVED]] <= time:
        take(w, f, jobs, rows, w[ARRIVED])
        w[ARRIVED] += 1
    if w[ARRIVED] < count:
        f[ARRIVAL] = scheduled(time, jobs[SUBMISSION, w[ARRIVED]])
        w[ARRIVAL_NUMBER] = w[SEQUENCE]
        w[SEQUENCE] += 1


@entry
def run(
    w: Integers,
    f: Floats,
    jobs: Floats,
    rows: Integers,
    times: Floats,
    keys: Integers,
    sizes: Integers,
    points: Floats,
    levels: Integers,
    num_events: int,
) -> bool:
    """Simulate a run until all jobs have ended, nothing more can happen, or the time ``f[UNTIL]`` comes.

    Parameters
    ----------
    w, f : array
        Whole numbers and times of the state; ``f[NOW]`` is the end of the run afterwards.
    jobs, rows : array, shape (fields, n)
        Columns of the workload, and what has become of the jobs.
    times, keys, sizes : array
        Memory for heaps, and their sizes.
    points, levels : array
        Memory for a profile of free cores.
    num_events : int
        Largest number of events and decisions to simulate; another call continues.

    Returns
    -------
    bool
        Whether the run has ended.
    """
    count = jobs.shape[1]
    if not w[HAS_BEGUN]:
        w[HAS_BEGUN] = 1
        arrive(w, f, jobs, rows, f[NOW])
    while w[NUM_RECORDED] < count:
        if num_events == 0:
            return False
        num_events -= 1
        # the next event: ends and expiries come before arrivals and wake-ups, and these before planned cycles
        heap = ENDS
        if sizes[EXPIRIES] and (
            not sizes[ENDS]
            or times[EXPIRIES, 0] < times[ENDS, 0]
            or (times[EXPIRIES, 0] == times[ENDS, 0] and keys[2 * EXPIRIES, 0] < keys[2 * ENDS, 0])
        ):
            heap = EXPIRIES
        time = times[heap, 0] if sizes[heap] else NEVER
        if w[ARRIVED] < count and f[ARRIVAL] < time:
            heap, time = ARRIVALS, f[ARRIVAL]
        if sizes[WAKES] and (
            times[WAKES, 0] < time
            or (heap == ARRIVALS and times[WAKES, 0] == time and keys[2 * WAKES, 0] < w[ARRIVAL_NUMBER])
        ):
            heap, time = WAKES, times[WAKES, 0]
        if w[PLANNED] and f[PLANNED_TIME] < time:
            heap, time = CYCLES, f[PLANNED_TIME]
        if w[PENDING] and (time > f[NOW] or w[CYCLE] == EVENT):
            decide(w, f, jobs, rows, times, keys, sizes, points, levels)
            continue
        if time >= f[UNTIL]:
            break
        f[NOW] = time
        if heap == ENDS:
            complete(w, f, jobs, rows, pop(times, keys, sizes, ENDS))
        elif heap == EXPIRIES:
            expire(w, f, jobs, rows, times, keys, sizes, pop(times, keys, sizes, EXPIRIES))
        elif heap == WAKES:
            pop(times, keys, sizes, WAKES)
            open_cycle(w, f)
        elif heap == CYCLES:
            w[PLANNED] = 0
            open_cycle(w, f)
        else:
            arrive(w, f, jobs, rows, time)
    for number in range(w[NUM_STARTED]):  # jobs that are left, in the order of the cluster's records
        row = rows[STARTED, number]
        if rows[IS_RUNNING, row]:
            leave_behind(w, rows, row, RUNNING_STILL)
    for row in range(w[ARRIVED]):
        if not rows[IS_RUNNING, row] and rows[STATUS, row] == 0:
            leave_behind(w, rows, row, QUEUED)
    return True


@compiled
def leave_behind(w: Integers, rows: Integers, row: int, status: int) -> None:
    """Record a job that has not ended when the run ends."""
    rows[STATUS, row] = status
    rows[RECORDED, w[NUM_RECORDED]] = row
    w[NUM_RECORDED] += 1
