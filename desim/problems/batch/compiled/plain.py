"""Compiled loops of plain runs: an agent answers at each instant, and every job ends by its expected end.

Then a decision that starts nothing changes nothing, running jobs never have to be corrected, and scores are those on
arrival. So the loops need neither the events nor the agents' state of :mod:`desim.problems.batch.compiled.kernel`:
they keep the state in local variables and what a scan reads in arrays without gaps. Times are summed in the same
order, so they are equal to the last bit.

Both loops return after some steps, so that Python hears signals, and continue when they are called again; ``w`` and
``f`` hold their whole numbers and times meanwhile.
"""

# mypy: disable-error-code="no-any-return"
# ruff: noqa: PLR0912, PLR0915, PLR0917  # numba passes a state of arrays faster than an object

from __future__ import annotations

import numpy as np

from desim.problems.batch.compiled.numba_functions import Floats, Integers, compiled, entry, inlined, move_up, scheduled

__all__ = ["BLOCK", "EASY", "GONE", "SIMPLE", "STRICT", "first_come", "in_order"]

STRICT, SIMPLE, EASY = 0, 1, 2  # agents
NEVER = np.inf
FEW = 128
"""Number of running jobs up to which their ends are sorted."""
BLOCK = 32
"""Number of places of a queue that are looked at together; a queue has as many more than jobs."""
GONE = 2**62
"""Cores at a place of a queue without a job."""


@compiled
def push_to_heap(ends: Floats, numbers: Integers, size: int, end: float, number: int) -> None:
    """Add an execution to a heap."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if ends[above] <= end:  # numbers rise
            break
        ends[place], numbers[place] = ends[above], numbers[above]
        place = above
    ends[place], numbers[place] = end, number


@compiled
def pop_from_heap(ends: Floats, numbers: Integers, size: int) -> int:
    """Remove the first execution of a heap by end and number, and return its number."""
    last = size - 1
    found, end, number = numbers[0], ends[last], numbers[last]
    place, below = 0, 1
    while below < last:
        if below + 1 < last:  # the smaller one, without a branch that a processor would guess wrongly
            one, other = ends[below], ends[below + 1]
            below += (other < one) | ((other == one) & (numbers[below + 1] < numbers[below]))
        if (end < ends[below]) | ((end == ends[below]) & (number < numbers[below])):
            break
        ends[place], numbers[place] = ends[below], numbers[below]
        place, below = below, 2 * below + 1
    ends[place], numbers[place] = end, number
    return found


@compiled
def reverse(ends: Floats, numbers: Integers, size: int) -> None:
    """Reverse a sorted list of executions; in ascending order, it is a heap."""
    for low in range(size >> 1):
        high = size - 1 - low
        ends[low], ends[high] = ends[high], ends[low]
        numbers[low], numbers[high] = numbers[high], numbers[low]


@inlined
def push(ends: Floats, numbers: Integers, size: int, end: float, number: int, is_heap: int) -> int:
    """Add an execution to those that run: a few are sorted, the next end last; many are a heap. Return which."""
    if size == FEW and not is_heap:
        reverse(ends, numbers, size)
        is_heap = 1
    if is_heap:
        push_to_heap(ends, numbers, size, end, number)
        return is_heap
    place, one = np.uint64(size), np.uint64(1)  # unsigned places cannot count from the end, which saves a question
    while place > np.uint64(0) and ends[place - one] <= end:
        ends[place], numbers[place] = ends[place - one], numbers[place - one]
        place -= one
    ends[place], numbers[place] = end, number
    return is_heap


@inlined
def pop(ends: Floats, numbers: Integers, size: int, is_heap: int) -> int:
    """Remove the execution that ends next, of equal ones the first, and return its number."""
    return pop_from_heap(ends, numbers, size) if is_heap else numbers[size - 1]


@entry
def first_come(
    w: Integers,
    f: Floats,
    submission: Floats,
    cores: Integers,
    requested: Floats,
    run_time: Floats,
    start: Floats,
    ended_before: Integers,
    ended: Integers,
    ends: Floats,
    numbers: Integers,
    steps: int,
) -> bool:
    """Simulate first come, first served; return whether all jobs have ended.

    Parameters
    ----------
    w : array of int
        Jobs that have arrived, started and ended, free cores, and whether the running jobs are a heap.
    f : array of float
        Time of the last and of the next arrival, in seconds.
    submission, cores, requested, run_time : array, shape (n,)
        Columns of the workload.
    start, ended_before, ended : array, shape (n,)
        Found for each row: start time, and number of jobs that had ended before; and rows in the order of ends.
    ends, numbers : array
        Memory for a heap of the running jobs.
    steps : int
        Largest number of events to simulate.
    """
    count = len(submission)
    arrived, started, done, free, is_heap = w[0], w[1], w[2], w[3], w[4]
    time, arrival = f[0], f[1]
    while done < count and steps > 0:
        steps -= 1
        time = arrival
        next_end = ends[0 if is_heap else started - done - 1] if started > done else NEVER
        if next_end <= time:
            time = next_end
            while next_end == time:
                row = pop(ends, numbers, started - done, is_heap)
                free += cores[row]
                ended[done] = row
                done += 1
                next_end = ends[0 if is_heap else started - done - 1] if started > done else NEVER
        if arrival <= time:
            while arrived < count and submission[arrived] <= time:
                arrived += 1
            arrival = scheduled(time, submission[arrived]) if arrived < count else NEVER
        while started < arrived and cores[started] <= free:
            free -= cores[started]
            start[started] = time
            ended_before[started] = done
            end = time + min(run_time[started], requested[started])
            is_heap = push(ends, numbers, started - done, end, started, is_heap)
            started += 1
    w[0], w[1], w[2], w[3], w[4] = arrived, started, done, free, is_heap
    f[0], f[1] = time, arrival
    return done == count


@compiled
def place_of(rows: Integers, score: Floats, head: int, tail: int, row: int) -> int:
    """Return the place of a job in a queue, or the one where it belongs: by score, equal jobs by arrival."""
    mine, low, high = score[row], head, tail
    while low < high:
        middle = (low + high) >> 1
        other = rows[middle]
        if score[other] < mine or (score[other] == mine and other < row):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert(
    rows: Integers,
    widths: Integers,
    lengths: Floats,
    score: Floats,
    head: int,
    tail: int,
    row: int,
    width: int,
    length: float,
) -> int:
    """Insert a job into a queue, and return its place."""
    place = tail
    if tail > head and score[rows[tail - 1]] > score[row]:
        place = place_of(rows, score, head, tail, row)
        move_up(rows, place, tail)
        move_up(widths, place, tail)
        move_up(lengths, place, tail)
    rows[place], widths[place], lengths[place] = row, width, length
    return place


@compiled
def close_gaps(rows: Integers, widths: Integers, lengths: Floats, head: int, tail: int) -> int:
    """Remove the places of jobs that have left a queue, and return its new end."""
    kept = head
    for place in range(head, tail):
        if widths[place] != GONE:
            rows[kept], widths[kept], lengths[kept] = rows[place], widths[place], lengths[place]
            kept += 1
    for place in range(kept, tail):
        widths[place] = GONE
    return kept


@inlined
def could_start(
    widths: Integers, lengths: Floats, first: int, free: int, spare: int, time: float, shadow: float
) -> bool:
    """Return whether a job at the next ``BLOCK`` places can overtake, without a branch, so that it takes vectors."""
    found = 0
    begin = np.uint64(first)
    for place in range(begin, begin + np.uint64(BLOCK)):
        width = widths[place]
        found |= (width <= free) & ((time + lengths[place] <= shadow) | (width <= spare))
    return found != 0


@inlined
def add_end(ends: Floats, widths: Integers, size: int, end: float, width: int) -> None:
    """Insert an expected end and the cores that it frees into a sorted list."""
    place, one = np.uint64(size), np.uint64(1)
    while place > np.uint64(0) and ends[place - one] > end:
        ends[place], widths[place] = ends[place - one], widths[place - one]
        place -= one
    ends[place], widths[place] = end, width


@inlined
def drop_end(ends: Floats, widths: Integers, size: int, end: float, width: int) -> None:
    """Remove an expected end; of those that are equal, it does not matter which."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] < end:
            low = middle + 1
        else:
            high = middle
    while widths[low] != width:
        low += 1
    place, last, one = np.uint64(low), np.uint64(size - 1), np.uint64(1)
    while place < last:
        ends[place], widths[place] = ends[place + one], widths[place + one]
        place += one


@entry
def in_order(
    kind: int,
    has_second: bool,
    w: Integers,
    f: Floats,
    submission: Floats,
    cores: Integers,
    requested: Floats,
    run_time: Floats,
    expected: Floats,
    score: Floats,
    score_2: Floats,
    start: Floats,
    started_rows: Integers,
    ended_before: Integers,
    ended: Integers,
    queues: Integers,
    lengths: Floats,
    running: Integers,
    ends: Floats,
    steps: int,
) -> bool:
    """Simulate an order of scores, strictly or with simple or EASY backfilling; return whether all jobs have ended.

    Parameters
    ----------
    kind : int
        ``STRICT``, ``SIMPLE`` or ``EASY``.
    has_second : bool
        Whether jobs overtake in the order of other scores.
    w : array of int
        Jobs that have arrived, started and ended, free cores, whether the first queued job is blocked, how many cores
        jobs can use beyond its reservation, begin and end of both queues, and whether the running jobs are a heap.
    f : array of float
        Time of the last and of the next arrival, and begin of the reservation, in seconds.
    submission, cores, requested, run_time, expected, score, score_2 : array, shape (n,)
        Columns of the workload, the lengths that the agent expects, and scores.
    start, started_rows, ended_before, ended : array, shape (n,)
        Found: start times by row, rows in the order of starts, the number of jobs that had ended before each start, and
        rows in the order of ends.
    queues : array of int, shape (4, n + BLOCK)
        Memory for rows and cores of two queues, cores being ``GONE`` at first.
    lengths : array of float, shape (2, n + BLOCK)
        Memory for the expected lengths in the queues.
    running : array of int, shape (2, m)
        Memory for the numbers of running jobs by end, and their cores by expected end.
    ends : array of float, shape (2, m)
        Memory for the ends and the expected ends.
    steps : int
        Least number of events and of looks at jobs after which the function returns.
    """
    count, second = len(submission), 2 if has_second else 0
    arrived, started, done, free, is_blocked, spare = w[0], w[1], w[2], w[3], w[4], w[5]
    head, tail, head_2, tail_2, is_heap = w[6], w[7], w[8], w[9], w[10]
    time, arrival, shadow = f[0], f[1], f[2]
    rows, widths, times = queues[0], queues[1], lengths[0]
    rows_2, widths_2, times_2 = queues[second], queues[second + 1], lengths[second >> 1]
    numbers, running_widths = running[0], running[1]
    real_ends, expected_ends = ends[0], ends[1]
    while done < count and steps > 0:
        steps -= 1
        time = arrival
        next_end = real_ends[0 if is_heap else started - done - 1] if started > done else NEVER
        if next_end <= time:
            time, is_blocked = next_end, 0
            while next_end == time:
                number = pop(real_ends, numbers, started - done, is_heap)
                row = started_rows[number]
                free += cores[row]
                if kind == EASY:
                    drop_end(expected_ends, running_widths, started - done, start[row] + expected[row], cores[row])
                ended[done] = row
                done += 1
                next_end = real_ends[0 if is_heap else started - done - 1] if started > done else NEVER
        news, place = 0, head
        if arrival <= time:
            while arrived < count and submission[arrived] <= time:
                width, length = cores[arrived], expected[arrived]
                place = insert(rows, widths, times, score, head, tail, arrived, width, length)
                tail += 1
                if place == head:
                    is_blocked = 0
                if has_second:
                    place = insert(rows_2, widths_2, times_2, score_2, head_2, tail_2, arrived, width, length)
                    tail_2 += 1
                arrived += 1
                news += 1
            arrival = scheduled(time, submission[arrived]) if arrived < count else NEVER
        if free == 0 or arrived == started:
            continue
        if not has_second:
            head_2, tail_2 = head, tail
        # while nothing ends, jobs that could not overtake cannot do so later, so only a new one can
        first, last = (place, place + 1) if news == 1 else (head_2, tail_2)
        if not is_blocked:
            while head < tail and (widths[head] <= free or widths[head] == GONE):
                width = widths[head]
                if width != GONE:
                    row = rows[head]
                    free -= width
                    start[row], started_rows[started], ended_before[started] = time, row, done
                    real_end = time + min(run_time[row], requested[row])
                    is_heap = push(real_ends, numbers, started - done, real_end, started, is_heap)
                    if kind == EASY:
                        add_end(expected_ends, running_widths, started - done, time + times[head], width)
                    started += 1
                    if has_second:
                        widths_2[place_of(rows_2, score_2, head_2, tail_2, row)] = GONE
                head += 1
            if head < tail and free > 0:
                is_blocked = 1
                shadow, spare = NEVER, GONE - 1
                if kind == EASY:  # the reservation, and what is free beyond it
                    needed, available = widths[head], free
                    for place in range(started - done):
                        if expected_ends[place] > shadow:
                            break
                        available += running_widths[place]
                        if available >= needed:
                            shadow = expected_ends[place]
                    spare = available - needed
            if not has_second:
                head_2 = head
            first, last = head_2, tail_2
        if is_blocked and kind != STRICT:
            steps -= last - first
            place = first
            while place < last and free > 0:
                if not could_start(widths_2, times_2, place, free, spare, time, shadow):
                    place += BLOCK
                    continue
                for at in range(place, min(place + BLOCK, last)):
                    width, end = widths_2[at], time + times_2[at]
                    is_late = end > shadow
                    if width > free or (is_late and width > spare):
                        continue
                    row = rows_2[at]
                    free -= width
                    if is_late:
                        spare -= width
                    start[row], started_rows[started], ended_before[started] = time, row, done
                    real_end = time + min(run_time[row], requested[row])
                    is_heap = push(real_ends, numbers, started - done, real_end, started, is_heap)
                    if kind == EASY:
                        add_end(expected_ends, running_widths, started - done, end, width)
                    started += 1
                    widths_2[at] = GONE
                    if has_second:
                        widths[place_of(rows, score, head, tail, row)] = GONE
                place += BLOCK
        waiting = arrived - started
        if tail - head > 2 * waiting + BLOCK:
            tail = close_gaps(rows, widths, times, head, tail)
        if has_second and tail_2 - head_2 > 2 * waiting + BLOCK:
            tail_2 = close_gaps(rows_2, widths_2, times_2, head_2, tail_2)
    w[0], w[1], w[2], w[3], w[4], w[5] = arrived, started, done, free, is_blocked, spare
    w[6], w[7], w[8], w[9], w[10] = head, tail, head_2, tail_2, is_heap
    f[0], f[1], f[2] = time, arrival, shadow
    return done == count
