"""Free resources of nodes over time, as arrays that change in place; numba compiles the functions if it is installed.

Each of N nodes has a step function of time: its segments are numbered from ``head`` to ``size`` - 1, and segment i
holds from ``times[node, i]`` to the beginning of the next one, the last one forever. A row of ``free`` has C columns:
the free amounts of R resources, minus the number of jobs, and the free thousandths of each GPU. So a job that starts
reduces every column, and what is free during an interval is the minimum over its segments.

A row of ``changes`` is what a job holds of a node: the number of the node and of the job's tasks there, and then the
columns of ``free``. A row of ``requests`` describes a request: the amount of each resource per task, and then the
columns below.
"""

# ruff: noqa: PLR0912, PLR0917  # numba passes arrays faster than an object

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.nodes import GPU

__all__ = ["agree", "change", "compress", "earliest", "first_fit", "window"]

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

TASKS, MOST, GPUS, SHARE, EXCLUSIVE, SUITS, NUM_COLUMNS = 0, 1, 2, 3, 4, 5, 6
"""Columns of requests after the amounts: tasks, most tasks per node, GPUs and thousandths of one GPU per task, whether
nodes are exclusive, and the row of ``usable`` and ``barred``; see :class:`NodeProfile`."""
FIRST = 2
"""First column of changes that is one of ``free``."""
NEVER = np.inf
ENDED, EMPTY, FULL, MOVES = 0, 1, 2, 3
"""Why :func:`compress` ended: no slot is left, one holds nothing, the arrays are full, or one can move."""


def compiled(function: Function) -> Function:
    """Return a function compiled by numba, which caches it on disk; the same function if numba is not installed."""
    try:
        import numba
    except ImportError:
        return function
    compiler = cast(Any, numba.njit)  # its type hints lack _nrt, the switch for reference counting
    return cast(Function, compiler(cache=True, error_model="numpy", _nrt=False)(function))


@compiled
def segment_of(times: Floats, node: int, low: int, high: int, time: float) -> int:
    """Return the last segment from ``low`` to ``high`` - 1 that begins at a time or before; at least ``low``."""
    while high - low > 1:
        middle = (low + high) >> 1
        if times[node, middle] <= time:
            low = middle
        else:
            high = middle
    return low


@compiled
def count_of(least: Integers, requests: Integers, request: int, limit: int) -> int:
    """Return how many tasks fit into the given free resources, at most ``limit``."""
    num_resources = requests.shape[1] - NUM_COLUMNS
    if requests[request, num_resources + EXCLUSIVE] and least[num_resources] < 0:
        return 0
    count = limit
    for column in range(num_resources):
        amount = requests[request, column]
        if amount > least[column]:
            return 0
        if amount and count > 1:
            count = min(count, least[column] // amount)
    whole, share = requests[request, num_resources + GPUS], requests[request, num_resources + SHARE]
    if whole or share:
        room = 0
        for column in range(num_resources + 1, len(least)):
            if share:
                room += least[column] // share
            elif least[column] == GPU:
                room += 1
        count = min(count, room if share else room // whole)
    return count


@compiled
def count_from(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    requests: Integers,
    request: int,
    limit: int,
    least: Integers,
    node: int,
    start: float,
    end: float,
) -> tuple[int, float]:
    """Return how many tasks fit on a node during an interval, and a time before which starting later admits no more."""
    # ``least`` becomes what is free during the interval if any task fits.
    last = size[node]
    first = segment_of(times, node, head[node], last, start)
    place = first
    if first + 1 < last and times[node, first + 1] < end:
        place = segment_of(times, node, first, last, end)
        if times[node, place] == end:
            place -= 1
    for column in range(len(least)):
        least[column] = free[node, place, column]
    count, decisive = count_of(least, requests, request, limit), place
    while count and place > first:
        place -= 1
        is_less = False
        for column in range(len(least)):
            if free[node, place, column] < least[column]:
                least[column] = free[node, place, column]
                is_less = True
        if is_less:
            fewer = count_of(least, requests, request, count)
            if fewer < count:
                count, decisive = fewer, place
    if count == limit or decisive + 1 == last:
        return count, NEVER
    return count, times[node, decisive + 1]


@compiled
def takes_one(least: Integers, request: Integers) -> bool:
    """Return whether one task of a request fits into the given free resources."""
    num_resources = len(request) - NUM_COLUMNS
    for column in range(num_resources):
        if least[column] < request[column]:
            return False
    if request[num_resources + EXCLUSIVE] and least[num_resources] < 0:
        return False
    whole, share = request[num_resources + GPUS], request[num_resources + SHARE]
    if whole or share:
        for column in range(num_resources + 1, len(least)):
            if share and least[column] >= share:
                return True
            if least[column] == GPU:
                whole -= 1
        return not share and whole <= 0
    return True


@compiled
def may_begin(
    times: Floats, free: Integers, size: int, place: int, request: Integers, start: float, duration: float,
    last: float, covered: float,
) -> float:  # fmt: skip
    """Return a time from a start on before which one task cannot begin on a node; ``last`` if it is not earlier."""
    # The arrays are those of one node, and a segment of it holds at the start. From the time ``covered`` on, the job's
    # own resources suffice. Each segment is looked at once. A request for GPUs may find different ones free in each
    # segment, so the task may begin even later.
    while start < last:
        if times[place] >= min(start + duration, covered):
            return start
        is_free = takes_one(free[place], request)
        place += 1
        if place == size:
            return start if is_free else last
        if not is_free:
            start = times[place]
    return last


@compiled
def barred_until(bounds: Floats, barred: Mask, outside: Mask, suits: int, node: int, start: float, end: float) -> float:
    """Return until when advance reservations keep a job off a node in an interval; the start if they do not."""
    until = start
    for number in range(len(bounds)):
        if barred[suits, number] and not outside[number, node]:
            begin, stop = bounds[number, 0], bounds[number, 1]
            if begin <= start < stop or start < begin < end:
                until = max(until, stop)
    return until


@compiled
def earliest(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    requests: Integers,
    usable: Mask,
    bounds: Floats,
    barred: Mask,
    outside: Mask,
    counts: Integers,
    until: Floats,
    least: Integers,
    request: int,
    duration: float,
    longest: float,
    first: float,
    before: float,
) -> float:
    """Return the earliest time from ``first`` on at which all tasks of a request fit; infinite if not before a time."""
    # ``counts`` becomes the number of tasks that fit on each node from then on, except for requests of one task.
    num_resources = requests.shape[1] - NUM_COLUMNS
    tasks, suits = requests[request, num_resources + TASKS], requests[request, num_resources + SUITS]
    limit = min(tasks, requests[request, num_resources + MOST])
    reserved = len(bounds) > 0
    num_nodes = len(head)
    if tasks == 1:
        best = before
        for node in range(num_nodes):
            time = first
            while usable[suits, node] and time < best:
                end = time + duration
                later = time
                if reserved:
                    later = barred_until(bounds, barred, outside, suits, node, time, max(end, time + longest))
                if later == time:
                    place = segment_of(times, node, head[node], size[node], time)
                    later = may_begin(
                        times[node], free[node], size[node], place, requests[request], time, duration, best, NEVER
                    )
                if later == time:
                    count, later = count_from(times, free, head, size, requests, request, 1, least, node, time, end)
                    if count:
                        best = time
                        break
                time = later
            if best <= first:
                break
        return best if best < before else NEVER
    # from one time to the next at which more tasks may fit on some node; in between, counts are upper bounds
    total, are_bounds, time = 0, True, first
    for node in range(num_nodes):
        counts[node], until[node] = 0, first if usable[suits, node] else NEVER
    while time < before:
        end = time + duration
        for node in range(num_nodes):
            if until[node] <= time or (not are_bounds and counts[node]):
                total -= counts[node]
                later = time
                if reserved:
                    later = barred_until(bounds, barred, outside, suits, node, time, max(end, time + longest))
                if later == time:
                    place = segment_of(times, node, head[node], size[node], time)
                    later = may_begin(
                        times[node], free[node], size[node], place, requests[request], time, duration, before, NEVER
                    )
                if later == time:
                    counts[node], until[node] = count_from(
                        times, free, head, size, requests, request, limit, least, node, time, end
                    )
                else:
                    counts[node], until[node] = 0, later
                total += counts[node]
        if total < tasks:
            time, are_bounds = NEVER, True
            for node in range(num_nodes):
                time = min(time, until[node])
        elif are_bounds and time > first:
            are_bounds = False
        else:
            return time
    return NEVER


@compiled
def window(times: Floats, free: Integers, head: Integers, size: Integers, start: float, end: float, least: Any) -> None:
    """Set what is free on all nodes during an interval, or at its start."""
    for node in range(len(head)):
        last = size[node]
        place = segment_of(times, node, head[node], last, start)
        for column in range(free.shape[2]):
            least[node, column] = free[node, place, column]
        place += 1
        while place < last and times[node, place] < end:
            for column in range(free.shape[2]):
                least[node, column] = min(least[node, column], free[node, place, column])
            place += 1


@compiled
def allocate(requests: Integers, request: int, node: int, tasks: int, least: Integers, row: Integers) -> None:
    """Set a row of changes to what some tasks of a request get of the given free resources of a node."""
    num_resources = requests.shape[1] - NUM_COLUMNS
    exclusive = requests[request, num_resources + EXCLUSIVE]
    whole, share = requests[request, num_resources + GPUS] * tasks, requests[request, num_resources + SHARE]
    row[0], row[1], row[FIRST + num_resources] = node, tasks, 1
    for column in range(num_resources):
        row[FIRST + column] = least[column] if exclusive else requests[request, column] * tasks
    for column in range(num_resources + 1, len(least)):
        row[FIRST + column] = 0
        if (exclusive and least[column]) or (whole and least[column] == GPU):
            row[FIRST + column] = GPU
            whole -= 1
    if share and not exclusive:
        for _ in range(tasks):
            fullest = -1
            for column in range(num_resources + 1, len(least)):
                if least[column] >= share and (fullest < 0 or least[column] < least[fullest]):
                    fullest = column
            least[fullest] -= share
            row[FIRST + fullest] += share


@compiled
def first_fit(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    requests: Integers,
    usable: Mask,
    bounds: Floats,
    barred: Mask,
    outside: Mask,
    least: Integers,
    changes: Integers,
    request: int,
    start: float,
    end: float,
    longest: float,
) -> int:
    """Allocate the first nodes with room for all tasks; return their number, and set as many rows of changes."""
    num_resources = requests.shape[1] - NUM_COLUMNS
    left, suits = requests[request, num_resources + TASKS], requests[request, num_resources + SUITS]
    most, number = requests[request, num_resources + MOST], 0
    for node in range(len(head)):
        if not usable[suits, node]:
            continue
        if len(bounds) and barred_until(bounds, barred, outside, suits, node, start, max(end, start + longest)) > start:
            continue
        count, _ = count_from(times, free, head, size, requests, request, min(left, most), least, node, start, end)
        if count:
            allocate(requests, request, node, count, least, changes[number])
            number += 1
            left -= count
            if not left:
                break
    return number


@compiled
def move(times: Floats, free: Integers, node: int, source: int, target: int) -> None:
    """Copy a segment of a node to another place."""
    times[node, target] = times[node, source]
    for column in range(free.shape[2]):
        free[node, target, column] = free[node, source, column]


@compiled
def point(times: Floats, free: Integers, head: Integers, size: Integers, node: int, time: float) -> int:
    """Return the segment that begins at a time; divide one for it if there is none."""
    place = segment_of(times, node, head[node], size[node], time)
    if times[node, place] >= time:
        return place
    place += 1
    for other in range(size[node], place, -1):
        move(times, free, node, other - 1, other)
    move(times, free, node, place - 1, place)
    times[node, place] = time
    size[node] += 1
    return place


@compiled
def merge(times: Floats, free: Integers, head: Integers, size: Integers, node: int, place: int) -> None:
    """Remove a segment with which nothing changes."""
    if not head[node] < place < size[node]:
        return
    for column in range(free.shape[2]):
        if free[node, place, column] != free[node, place - 1, column]:
            return
    for other in range(place + 1, size[node]):
        move(times, free, node, other, other - 1)
    size[node] -= 1


@compiled
def has_space(
    times: Floats, free: Integers, head: Integers, size: Integers, now: float, changes: Integers, more: int
) -> bool:
    """Return whether the arrays have space for more segments of some nodes; drop their segments that are past."""
    for row in range(len(changes)):
        node = changes[row, 0]
        first = segment_of(times, node, head[node], size[node], now)
        if size[node] + more > times.shape[1]:
            for place in range(first, size[node]):
                move(times, free, node, place, place - first)
            size[node] -= first
            first = 0
        head[node] = first
        if size[node] + more > times.shape[1]:
            return False
    return True


@compiled
def add(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    changes: Integers,
    start: float,
    end: float,
    sign: int,
) -> None:
    """Add changes to what is free in an interval, or subtract them; there must be space for two more segments."""
    for row in range(len(changes)):
        node = changes[row, 0]
        first = point(times, free, head, size, node, start)
        last = point(times, free, head, size, node, end) if end < NEVER else size[node]
        for place in range(first, last):
            for column in range(free.shape[2]):
                free[node, place, column] += sign * changes[row, FIRST + column]
        merge(times, free, head, size, node, last)
        merge(times, free, head, size, node, first)


@compiled
def change(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    now: float,
    changes: Integers,
    start: float,
    end: float,
    sign: int,
) -> bool:
    """Do the same from now on; return False, and do nothing, if the arrays are full."""
    if not has_space(times, free, head, size, now, changes, 2):
        return False
    add(times, free, head, size, changes, max(start, now), end, sign)
    return True


@compiled
def first_freed(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    requests: Integers,
    usable: Mask,
    least: Integers,
    freed: Floats,
    freed_nodes: Integers,
    now: float,
    of_slot: Integers,
    start: float,
    request: int,
    duration: float,
    before: float,
) -> float:
    """Return a time before which a job cannot begin on what was freed; ``before`` if it cannot before that time."""
    # An earlier slot than the job's own, which begins at ``start``, has a task on a freed node, and overlaps the
    # interval in which something of the node was freed. One task on one node is quickly looked for.
    suits, first = requests[request, requests.shape[1] - NUM_COLUMNS + SUITS], before
    for node in freed_nodes:
        last = min(freed[1, node], first)
        if last <= now or not usable[suits, node]:
            continue
        covered = NEVER  # from when the job's own resources suffice on the node
        for row in range(len(of_slot)):
            if of_slot[row, 0] == node:
                covered = start
        time = max(freed[0, node] - duration, now)
        place = segment_of(times, node, head[node], size[node], time)
        time = max(times[node, place], now)
        time = may_begin(times[node], free[node], size[node], place, requests[request], time, duration, last, covered)
        if time < last:
            first = time
        if first <= now:
            break
    return first


@compiled
def compress(
    times: Floats,
    free: Integers,
    head: Integers,
    size: Integers,
    requests: Integers,
    usable: Mask,
    bounds: Floats,
    barred: Mask,
    outside: Mask,
    counts: Integers,
    until: Floats,
    least: Integers,
    chosen: Integers,
    now: float,
    slots: Floats,
    numbers: Integers,
    changes: Integers,
    freed: Floats,
    freed_later: Floats,
    freed_nodes: Integers,
    takes_first: bool,
    begin: int,
    moves: Integers,
    starts: Floats,
) -> tuple[int, int, int]:
    """Move slots to the earliest times at which their jobs fit; return how many, why it ended, and at which slot."""
    # Rows of ``slots`` are start, end, duration and longest duration; of ``numbers``, the request and the first row of
    # ``changes``. ``freed`` is from when and until when resources of each node were freed since the previous round of
    # compression began. If the policy takes the first nodes, a row of ``moves`` is a slot that was moved and the end of
    # its rows of ``chosen``, and ``starts`` is when it begins now. Otherwise, it ends at the first slot that can move,
    # whose resources are then free, and ``starts`` is when it can begin.
    num_moves = used = num_freed = 0
    latest = now
    for node in range(len(head)):
        if freed[1, node] > now:
            freed_nodes[num_freed] = node
            num_freed += 1
            latest = max(latest, freed[1, node])
    for slot in range(begin, len(slots)):
        start, end, duration, longest = slots[slot, 0], slots[slot, 1], slots[slot, 2], slots[slot, 3]
        if start == end:
            return num_moves, EMPTY, slot
        request, of_slot = numbers[slot, 0], changes[numbers[slot, 1] : numbers[slot + 1, 1]]
        before = min(start, latest)
        first = first_freed(
            times, free, head, size, requests, usable, least, freed, freed_nodes[:num_freed], now,
            of_slot, start, request, duration, before,
        )  # fmt: skip
        if first >= before:
            continue
        if used + len(head) > len(chosen) or not has_space(times, free, head, size, now, of_slot, 4):
            return num_moves, FULL, slot
        add(times, free, head, size, of_slot, start, end, 1)
        found = earliest(
            times, free, head, size, requests, usable, bounds, barred, outside, counts, until, least,
            request, duration, longest, first, before,
        )  # fmt: skip
        if found < before and not takes_first:
            starts[0] = found
            return num_moves, MOVES, slot
        if found < before:
            count = first_fit(
                times, free, head, size, requests, usable, bounds, barred, outside, least, chosen[used:],
                request, found, found + duration, longest,
            )  # fmt: skip
            if not change(times, free, head, size, now, chosen[used : used + count], found, found + duration, -1):
                add(times, free, head, size, of_slot, start, end, -1)
                return num_moves, FULL, slot
            used += count
            moves[num_moves, 0], moves[num_moves, 1], starts[num_moves] = slot, used, found
            num_moves += 1
            for row in range(len(of_slot)):
                node = of_slot[row, 0]
                if freed[1, node] <= now:
                    freed_nodes[num_freed] = node
                    num_freed += 1
                for interval in (freed, freed_later):
                    interval[0, node] = min(interval[0, node], start)
                    interval[1, node] = max(interval[1, node], end)
            latest = max(latest, end)
        else:
            add(times, free, head, size, of_slot, start, end, -1)
    return num_moves, ENDED, len(slots)


@compiled
def agree(times: Floats, free: Integers, head: Integers, size: Integers, now: float, others: Integers) -> bool:
    """Return whether what is free on all nodes at a time is as given, shape (N, C)."""
    for node in range(len(head)):
        place = segment_of(times, node, head[node], size[node], now)
        for column in range(free.shape[2]):
            if free[node, place, column] != others[node, column]:
                return False
    return True
