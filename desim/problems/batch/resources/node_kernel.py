"""Free resources of nodes over time, as arrays that change in place; numba compiles the functions if it is installed.

Each of N nodes has a step function of time: its segments are numbered from ``head`` to ``size`` - 1, and segment i
holds from ``times[node, i]`` to the beginning of the next one, the last one forever. A row of ``free`` has C columns:
the free amounts of R resources, minus the number of jobs, and the free thousandths of each GPU. So a job that starts
reduces every column, and what is free during an interval is the minimum over its segments.

A row of ``changes`` is what a job holds of a node: the number of the node and of the job's tasks there, and then the
columns of ``free``. A row of ``rows`` describes a request: the amount of each resource per task, and then the columns
below, as in :class:`~desim.problems.batch.nodes.NodeTable`.

Arrays that belong together are tuples:

* ``segments``: ``times``, shape (N, P), ``free``, shape (N, P, C), ``head`` and ``size``, shape (N,);
* ``requests``: ``rows``, shape (S, R + 6), by U kinds of requests the nodes that they can use, shape (U, N), begin and
  end of B advance reservations, shape (B, 2), which of them bar a kind, shape (U, B), and which nodes are outside of
  each, shape (B, N);
* ``scratch``, to be overwritten: ``counts`` and ``until``, shape (N,), and ``least``, shape (C,);
* ``own``: ``changes`` of a job that may also use its own resources, and from when on it holds them.

They are plain tuples because numba's cache on disk stores the class of a named tuple, and cannot be read any more once
the class has another name.
"""

# ruff: noqa: PLR0912, PLR0917, SIM110  # numba takes neither keyword-only arguments nor generators

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.nodes import GPU

__all__ = ["agree", "change", "compress", "earliest", "enough", "first_fit", "window"]

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Segments = tuple[Floats, Integers, Integers, Integers]
Requests = tuple[Integers, Mask, Floats, Mask, Mask]
Scratch = tuple[Integers, Floats, Integers]
Own = tuple[Integers, float]

TASKS, MOST, GPUS, SHARE, EXCLUSIVE, SUITS, NUM_COLUMNS = 0, 1, 2, 3, 4, 5, 6
"""Columns of requests after the amounts: tasks, most tasks per node, GPUs and thousandths of one GPU per task, whether
nodes are exclusive, and the row of ``usable`` and ``barred``; see :class:`NodeProfile`."""
FIRST = 2
"""First column of changes that is one of ``free``."""
NEVER = np.inf
NEVER_LESS = np.iinfo(np.int64).max
IS_COMPILED = find_spec("numba") is not None
ENDED, EMPTY, FULL, MOVES = 0, 1, 2, 3
"""Why :func:`compress` ended: no slot is left, one holds nothing, the arrays are full, or one can move."""


def compiled(function: Function, *, is_inlined: bool = False) -> Function:
    """Return a function compiled by numba, which caches it on disk; the same function if numba is not installed."""
    try:
        import numba
    except ImportError:
        return function
    compiler = cast(Any, numba.njit)  # its type hints lack _nrt, the switch for reference counting
    options = {"cache": True, "error_model": "numpy", "_nrt": False, "forceinline": is_inlined}
    return cast(Function, compiler(**options)(function))


def inlined(function: Function) -> Function:
    """Return the same for a short function: it is compiled into its callers, as a call passes all sizes of arrays."""
    return compiled(function, is_inlined=True)


@inlined
def segment_of(times: Floats, node: int, low: int, high: int, time: float) -> int:
    """Return the last segment from ``low`` to ``high`` - 1 that begins at a time or before; at least ``low``."""
    while high - low > 1:
        middle = (low + high) >> 1
        if times[node, middle] <= time:
            low = middle
        else:
            high = middle
    return low


@inlined
def count_of(
    amounts: Integers, jobs: int, gpus: Integers, rows: Integers, request: int, limit: int
) -> int:  # fmt: skip
    """Return how many tasks fit into free resources of a node that has a number of jobs, at most ``limit``."""
    num_resources = rows.shape[1] - NUM_COLUMNS
    if rows[request, num_resources + EXCLUSIVE] and jobs:
        return 0
    count = limit
    for column in range(num_resources):
        amount = rows[request, column]
        if amount > amounts[column]:
            return 0
        if amount and count > 1:
            count = min(count, amounts[column] // amount)
    whole, share = rows[request, num_resources + GPUS], rows[request, num_resources + SHARE]
    if whole or share:
        room = 0
        for free in gpus:
            if share:
                room += free // share
            elif free == GPU:
                room += 1
        count = min(count, room if share else room // whole)
    return count


@compiled
def enough(
    room: tuple[Integers, Integers, Integers, Mask], rows: Integers, usable: Mask, numbers: Integers, fits: Mask
) -> None:
    """Set whether all tasks of each of some requests fit into free resources, jobs, GPUs and nodes that are down."""
    free, jobs, gpus, down = room
    num_resources = free.shape[1]
    for place, request in enumerate(numbers):
        left, most = rows[request, num_resources + TASKS], rows[request, num_resources + MOST]
        suits = rows[request, num_resources + SUITS]
        for node in range(len(free)):
            if usable[suits, node] and not down[node]:
                left -= count_of(free[node], jobs[node], gpus[node], rows, request, min(left, most))
                if left <= 0:
                    fits[place] = True
                    break


@inlined
def own_row(own: Own, node: int) -> int:
    """Return which of a job's own changes is of a node; -1 if none is."""
    changes = own[0]
    for row in range(len(changes)):
        if changes[row, 0] == node:
            return row
    return -1


@compiled
def count_from(
    segments: Segments, rows: Integers, own: Own, least: Integers, request: int, limit: int, node: int,
    start: float, end: float,
) -> tuple[int, float]:  # fmt: skip
    """Return how many tasks fit on a node during an interval, and a time before which starting later admits no more."""
    # ``least`` becomes what is free during the interval if any task fits.
    times, free, head, size = segments
    changes, since = own
    last, mine, divide = size[node], own_row(own, node), rows.shape[1] - NUM_COLUMNS
    first = segment_of(times, node, head[node], last, start)
    place = first
    if first + 1 < last and times[node, first + 1] < end:
        place = segment_of(times, node, first, last, end)
        if times[node, place] == end:
            place -= 1
    least[:] = NEVER_LESS
    count, decisive, place = limit, place, place + 1
    while count and place > first:
        place -= 1
        is_less = False
        has_own = mine >= 0 and times[node, place] >= since
        for column in range(len(least)):
            there = free[node, place, column]
            if has_own:
                there += changes[mine, FIRST + column]
            if there < least[column]:
                least[column] = there
                is_less = True
        if is_less:
            fewer = count_of(least[:divide], -least[divide], least[divide + 1 :], rows, request, count)
            if fewer < count:
                count, decisive = fewer, place
    if count == limit or decisive + 1 == last:
        return count, NEVER
    return count, times[node, decisive + 1]


@inlined
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


@inlined
def may_begin(
    segments: Segments, node: int, request: Integers, start: float, duration: float, last: float, covered: float
) -> float:  # fmt: skip
    """Return a time from a start on before which one task cannot begin on a node; ``last`` if it is not earlier."""
    # From the time ``covered`` on, which is not before ``last``, the job's own resources suffice. A request for GPUs
    # may find different ones free in each segment, so the task may begin even later. As in the search for words by
    # Boyer and Moore (1977), the search begins at the end of an interval, so that it skips most segments.
    times, free, head, size = segments
    when, of_node, num_segments = times[node], free[node], size[node]
    place = segment_of(times, node, head[node], num_segments, start)
    stop = fitting = place  # the segments of the interval end before stop, and those before fitting are known to fit
    while start < last:
        end = min(start + duration, covered)
        while stop < num_segments and when[stop] < end:
            stop += 1
        place = stop
        while place > fitting and takes_one(of_node[place - 1], request):
            place -= 1
        if place == fitting:
            return start
        if place == num_segments:
            return last
        start, fitting = when[place], stop
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


@inlined
def from_when(
    segments: Segments, requests: Requests, own: Own, request: int, node: int, times_of: tuple[float, float, float],
    last: float,
) -> float:  # fmt: skip
    """Return a time from a start on before which one task cannot begin on a node; the start if it may."""
    # ``times_of`` are the start, the duration, and the longest duration.
    rows, _, bounds, barred, outside = requests
    start, duration, longest = times_of
    if len(bounds):
        suits, end = rows[request, rows.shape[1] - NUM_COLUMNS + SUITS], start + max(duration, longest)
        later = barred_until(bounds, barred, outside, suits, node, start, end)
        if later > start:
            return later
    covered = own[1] if own_row(own, node) >= 0 else NEVER
    return may_begin(segments, node, rows[request], start, duration, last, covered)


@compiled
def earliest(
    segments: Segments, requests: Requests, scratch: Scratch, own: Own, request: int, duration: float, longest: float,
    first: float, before: float,
) -> float:  # fmt: skip
    """Return the earliest time from ``first`` on at which all tasks of a request fit; infinite if not before a time."""
    rows, usable, _, _, _ = requests
    counts, until, least = scratch
    num_resources = rows.shape[1] - NUM_COLUMNS
    tasks, suits = rows[request, num_resources + TASKS], rows[request, num_resources + SUITS]
    limit = min(tasks, rows[request, num_resources + MOST])
    num_nodes = len(counts)
    if tasks == 1:
        best = before
        for node in range(num_nodes):
            time = first
            while usable[suits, node] and time < best:
                later = from_when(segments, requests, own, request, node, (time, duration, longest), best)
                if later == time:
                    count, later = count_from(
                        segments, rows, own, least, request, 1, node, time, time + duration
                    )  # fmt: skip
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
        for node in range(num_nodes):
            if until[node] <= time or (not are_bounds and counts[node]):
                total -= counts[node]
                later = from_when(segments, requests, own, request, node, (time, duration, longest), before)
                if later == time:
                    counts[node], until[node] = count_from(
                        segments, rows, own, least, request, limit, node, time, time + duration
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
def window(segments: Segments, start: float, end: float, least: Integers) -> None:
    """Set what is free on all nodes during an interval, or at its start."""
    times, free, head, size = segments
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
def allocate(rows: Integers, request: int, node: int, tasks: int, least: Integers, row: Integers) -> None:
    """Set a row of changes to what some tasks of a request get of the given free resources of a node."""
    num_resources = rows.shape[1] - NUM_COLUMNS
    exclusive = rows[request, num_resources + EXCLUSIVE]
    whole, share = rows[request, num_resources + GPUS] * tasks, rows[request, num_resources + SHARE]
    row[0], row[1], row[FIRST + num_resources] = node, tasks, 1
    for column in range(num_resources):
        row[FIRST + column] = least[column] if exclusive else rows[request, column] * tasks
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
    segments: Segments, requests: Requests, own: Own, least: Integers, changes: Integers, request: int,
    start: float, end: float, longest: float,
) -> int:  # fmt: skip
    """Allocate the first nodes with room for all tasks; return their number, and set as many rows of changes."""
    rows, usable, bounds, barred, outside = requests
    num_resources = rows.shape[1] - NUM_COLUMNS
    left, suits = rows[request, num_resources + TASKS], rows[request, num_resources + SUITS]
    most, number = rows[request, num_resources + MOST], 0
    for node in range(usable.shape[1]):
        if not usable[suits, node]:
            continue
        if len(bounds) and barred_until(bounds, barred, outside, suits, node, start, max(end, start + longest)) > start:
            continue
        count, _ = count_from(segments, rows, own, least, request, min(left, most), node, start, end)
        if count:
            allocate(rows, request, node, count, least, changes[number])
            number += 1
            left -= count
            if not left:
                break
    return number


@compiled
def shift(times: Floats, free: Integers, first: int, end: int, by: int) -> None:
    """Move the segments of one node from ``first`` to ``end`` - 1 by some places."""
    if by > 0:
        for place in range(end - 1, first - 1, -1):
            times[place + by] = times[place]
            for column in range(free.shape[1]):
                free[place + by, column] = free[place, column]
    elif by < 0:
        for place in range(first, end):
            times[place + by] = times[place]
            for column in range(free.shape[1]):
                free[place + by, column] = free[place, column]


@inlined
def is_step(before: Integers, after: Integers, amounts: Integers, sign: int) -> bool:
    """Return whether two rows of ``free`` differ by amounts that are added to the first."""
    for column in range(len(amounts)):
        if before[column] + sign * amounts[column] != after[column]:
            return False
    return True


@compiled
def has_space(segments: Segments, now: float, changes: Integers, more: int) -> bool:
    """Return whether the arrays have space for more segments of some nodes; drop their segments that are past."""
    times, free, head, size = segments
    for row in range(len(changes)):
        node = changes[row, 0]
        first = segment_of(times, node, head[node], size[node], now)
        if size[node] + more > times.shape[1]:
            shift(times[node], free[node], first, size[node], -first)
            size[node] -= first
            first = 0
        head[node] = first
        if size[node] + more > times.shape[1]:
            return False
    return True


@compiled
def add(segments: Segments, changes: Integers, start: float, end: float, sign: int) -> None:
    """Add changes to what is free in an interval, or subtract them; there must be space for two more segments."""
    # At its start and its end, a segment is divided, or one with which nothing changes any more is removed. So the
    # segments of the interval move by one place at most, and those after it by two.
    times, free, head, size = segments
    for row in range(len(changes)):
        node, amounts = changes[row, 0], changes[row, FIRST:]
        of_node, when, last = free[node], times[node], size[node]
        first = segment_of(times, node, head[node], last, start)
        by = by_after = 0
        if when[first] < start:
            by = 1
        elif first > head[node] and is_step(of_node[first], of_node[first - 1], amounts, sign):
            by = -1
        after, is_divided = last, False
        if end < NEVER:
            after = segment_of(times, node, first, last, end)
            if when[after] < end:
                is_divided = True
                after += 1
                by_after = by + 1
            elif is_step(of_node[after - 1], of_node[after], amounts, sign):
                by_after = by - 1
            else:
                by_after = by
        tail = after + 1 if by_after < by else after
        begin = first + 1 if by < 0 else first
        if by_after > 0:
            shift(when, of_node, tail, last, by_after)
        shift(when, of_node, begin, after, by)
        if by > 0:
            when[first + 1] = start
        if is_divided:
            when[after + by] = end
            if by >= 0:  # else what was free there has stayed
                for column in range(len(amounts)):
                    of_node[after + by, column] = of_node[after + by - 1, column]
        for place in range(begin + by, after + by):
            for column in range(len(amounts)):
                of_node[place, column] += sign * amounts[column]
        if by_after < 0:
            shift(when, of_node, tail, last, by_after)
        size[node] = last + (by_after if end < NEVER else by)


@compiled
def change(segments: Segments, now: float, changes: Integers, start: float, end: float, sign: int) -> bool:
    """Do the same from now on; return False, and do nothing, if the arrays are full."""
    if not has_space(segments, now, changes, 2):
        return False
    if max(start, now) < end:
        add(segments, changes, max(start, now), end, sign)
    return True


@compiled
def first_freed(
    segments: Segments, requests: Requests, own: Own, freed: Floats, freed_nodes: Integers, now: float, request: int,
    duration: float, before: float,
) -> float:  # fmt: skip
    """Return a time before which a job cannot begin on what was freed; ``before`` if it cannot before that time."""
    # An earlier slot than the job's own has a task on a freed node, and overlaps the interval in which something of the
    # node was freed. One task on one node is quickly looked for.
    times, _, head, size = segments
    rows, usable, _, _, _ = requests
    suits, first = rows[request, rows.shape[1] - NUM_COLUMNS + SUITS], before
    for node in freed_nodes:
        last = min(freed[1, node], first)
        if last <= now or not usable[suits, node]:
            continue
        covered = own[1] if own_row(own, node) >= 0 else NEVER
        time = max(freed[0, node] - duration, now)
        place = segment_of(times, node, head[node], size[node], time)
        time = max(times[node, place], now)
        time = may_begin(segments, node, rows[request], time, duration, last, covered)
        if time < last:
            first = time
        if first <= now:
            break
    return first


@compiled
def is_exact(requests: Requests, request: int) -> bool:
    """Return whether a job can begin when a task that fits into each segment can: one task, always the same units."""
    rows, _, bounds, _, _ = requests
    row = rows[request, rows.shape[1] - NUM_COLUMNS :]
    return row[TASKS] == 1 and not (row[GPUS] or row[SHARE] or len(bounds))


@compiled
def compress(
    segments: Segments, requests: Requests, scratch: Scratch, chosen: Integers, now: float, slots: Floats,
    numbers: Integers, changes: Integers, freed: Floats, freed_later: Floats, freed_nodes: Integers,
    takes_first: bool, begin: int, moves: Integers, starts: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Move slots to the earliest times at which their jobs fit; return how many, why it ended, and at which slot."""
    # Rows of ``slots`` are start, end, duration and longest duration; of ``numbers``, the request and the first row of
    # ``changes``. ``freed`` is from when and until when resources of each node were freed since the previous round of
    # compression began. If the policy takes the first nodes, a row of ``moves`` is a slot that was moved and the end of
    # its rows of ``chosen``, and ``starts`` is when it begins now. Otherwise, it ends at the first slot that can move,
    # whose resources are then free, and ``starts`` is when it can begin.
    num_moves = used = num_freed = 0
    latest, num_nodes, nothing = now, len(freed_nodes), (changes[:0], NEVER)
    for node in range(num_nodes):
        if freed[1, node] > now:
            freed_nodes[num_freed] = node
            num_freed += 1
            latest = max(latest, freed[1, node])
    for slot in range(begin, len(slots)):
        start, end, duration, longest = slots[slot, 0], slots[slot, 1], slots[slot, 2], slots[slot, 3]
        if start == end:
            return num_moves, EMPTY, slot
        request, of_slot = numbers[slot, 0], changes[numbers[slot, 1] : numbers[slot + 1, 1]]
        before, own = min(start, latest), (of_slot, start)
        first = first_freed(
            segments, requests, own, freed, freed_nodes[:num_freed], now, request, duration, before
        )  # fmt: skip
        if first >= before:
            continue
        # before its own start, a job may use its own resources for a duration up to their end
        is_within = before + duration <= end
        found = first
        if is_within and not is_exact(requests, request):
            found = earliest(segments, requests, scratch, own, request, duration, longest, first, before)
            if found >= before:
                continue
        if used + num_nodes > len(chosen) or not has_space(segments, now, of_slot, 4):
            return num_moves, FULL, slot
        add(segments, of_slot, start, end, 1)
        if not is_within:
            found = earliest(segments, requests, scratch, nothing, request, duration, longest, first, before)
            if found >= before:
                add(segments, of_slot, start, end, -1)
                continue
        if not takes_first:
            starts[0] = found
            return num_moves, MOVES, slot
        end_found = found + duration
        count = first_fit(
            segments, requests, nothing, scratch[2], chosen[used:], request, found, end_found, longest
        )  # fmt: skip
        if not change(segments, now, chosen[used : used + count], found, end_found, -1):
            add(segments, of_slot, start, end, -1)
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
    return num_moves, ENDED, len(slots)


@compiled
def agree(segments: Segments, now: float, others: Integers) -> bool:
    """Return whether what is free on all nodes at a time is as given, shape (N, C)."""
    times, free, head, size = segments
    for node in range(len(head)):
        place = segment_of(times, node, head[node], size[node], now)
        for column in range(free.shape[2]):
            if free[node, place, column] != others[node, column]:
                return False
    return True
