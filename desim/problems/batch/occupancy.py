"""Occupancy of cores over time, read from the core ranges of the tables; for the validation rules on cores.

Arrays are processed in groups of cores, so that a run of a million jobs needs no more memory than its tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Conflicts", "CoreRanges", "conflicts", "overloads", "read_core_ranges", "spread"]

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

PAIRS = 1 << 19
"""Number of (interval, core) pairs processed together, which takes about 40 MB."""

CHUNK_ROWS = 65_536
_FORMAT = r"^[0-9]{1,9}(-[0-9]{1,9})?( [0-9]{1,9}(-[0-9]{1,9})?)*$"
_LINE_END, _HYPHEN = ord("\n"), ord("-")


class CoreRanges(NamedTuple):
    """Core ranges of a column of strings.

    Attributes
    ----------
    row, first, last : array of int, shape (r,)
        Row of each range in the column, and its first and last core, both included; ordered by row.
    malformed : array of bool, shape (n,)
        Whether a row could not be read, or its ranges are out of order or exceed the cores of the
        cluster; such rows have no ranges here.
    counts : array of int, shape (n,)
        Number of cores in each row.
    """

    row: IntArray
    first: IntArray
    last: IntArray
    malformed: NDArray[np.bool_]
    counts: IntArray


def read_core_ranges(column: pl.Series, num_cores: int) -> CoreRanges:
    """Return the core ranges of a column.

    Parameters
    ----------
    column : polars.Series
        The n strings of ranges, ascending and without overlap; null is an empty set.
    num_cores : int
        Number of cores of the cluster, above every core id.

    Returns
    -------
    CoreRanges
        Ranges of all well-formed rows.
    """
    if column.is_empty():
        none = np.empty(0, np.int64)
        return CoreRanges(none, none, none, none.astype(np.bool_), none)
    readable = column.is_null() | column.str.contains(_FORMAT)
    malformed = ~readable.to_numpy()
    parts = [
        _read_chunk(column[begin : begin + CHUNK_ROWS].filter(readable[begin : begin + CHUNK_ROWS]), begin, malformed)
        for begin in range(0, len(column), CHUNK_ROWS)
    ]
    empty = np.empty(0, np.int64)
    columns = zip(*parts, strict=True) if parts else [()] * 3
    row, first, last = (np.concatenate((empty, *arrays)) for arrays in columns)
    follows = np.zeros(len(row), np.bool_)
    follows[1:] = row[1:] == row[:-1]
    wrong = (last < first) | (last >= num_cores)
    wrong[1:] |= follows[1:] & (first[1:] <= last[:-1])
    malformed[row[wrong]] = True
    keep = ~malformed[row]
    row, first, last = row[keep], first[keep], last[keep]
    counts = np.bincount(row, last - first + 1, len(column)).astype(np.int64)
    return CoreRanges(row, first, last, malformed, counts)


def _read_chunk(column: pl.Series, begin: int, malformed: NDArray[np.bool_]) -> tuple[IntArray, IntArray, IntArray]:
    """Return row, first and last core of the ranges in a chunk that starts at a given row."""
    rows = begin + np.flatnonzero(~malformed[begin : begin + CHUNK_ROWS])
    held = ~column.is_null().to_numpy()
    rows, text = rows[held], "\n".join(column.drop_nulls())
    letters = np.frombuffer(text.encode(), np.uint8)
    separators = letters[letters < ord("0")]
    numbers = np.fromstring(text.replace("-", " "), np.int64, sep=" ")
    before = np.concatenate(([_LINE_END], separators)) if len(numbers) else separators
    begins = np.flatnonzero(before != _HYPHEN)
    ends = np.append(begins[1:], len(numbers)) - 1 if len(begins) else begins
    return rows[np.cumsum(before[begins] == _LINE_END) - 1], numbers[begins], numbers[ends]


def _groups_of_cores(first: IntArray, last: IntArray, num_cores: int, pairs: int) -> Iterator[tuple[int, int]]:
    """Split the cores into groups, each with few enough ranges to fit into memory.

    Parameters
    ----------
    first, last : array of int, shape (r,)
        First and last core of each range.
    num_cores : int
        Number of cores.
    pairs : int
        Maximum number of (range, core) pairs in a group of more than one core.

    Yields
    ------
    tuple of int
        First core of a group, and the first core after it; a group has at most 65,536 cores.
    """
    change = np.bincount(first, minlength=num_cores + 1) - np.bincount(last + 1, minlength=num_cores + 1)
    total = np.concatenate(([0], np.cumsum(np.cumsum(change[:num_cores]))))
    begin = 0
    while begin < num_cores:
        end = int(np.searchsorted(total, total[begin] + pairs, "right")) - 1
        end = min(max(end, begin + 1), begin + 65_536, num_cores)
        yield begin, end
        begin = end


def spread(first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """Return every pair of a range and a core in it.

    Parameters
    ----------
    first, last : array of int, shape (r,)
        First and last core of each nonempty range.

    Returns
    -------
    index, core : array of int
        Index of the range, ascending, and core.
    """
    lengths = last - first + 1
    index = np.repeat(np.arange(len(first)), lengths)
    offsets = np.cumsum(lengths) - lengths
    return index, np.arange(len(index)) - (offsets - first)[index]


class Conflicts(NamedTuple):
    """Pairs of intervals that overlap on a core.

    Attributes
    ----------
    earlier, later : array of int, shape (k,)
        Indices of the two intervals; each pair occurs once.
    core : array of int, shape (k,)
        Lowest core on which they overlap.
    """

    earlier: IntArray
    later: IntArray
    core: IntArray


def conflicts(
    begins: Floats, ends: Floats, ranges: CoreRanges, num_cores: int, num_downtimes: int
) -> tuple[Conflicts, Conflicts]:
    """Return executions that overlap on a core, and executions on a core that is down.

    Parameters
    ----------
    begins, ends : array of float, shape (n,)
        Half-open intervals in seconds: first the downtimes, which do not overlap on any core, then
        the executions. An execution of length 0 overlaps with nothing; a downtime of length 0
        overlaps with an execution around it.
    ranges : CoreRanges
        Cores of each interval.
    num_cores : int
        Number of cores.
    num_downtimes : int
        Number of intervals that are downtimes.

    Returns
    -------
    tuple of Conflicts
        Pairs of executions that follow each other on a core (at least one pair for every core that runs two
        jobs at the same time), and pairs of a downtime and an execution, in either order.
    """
    exists = (ranges.row < num_downtimes) | (begins[ranges.row] < ends[ranges.row])
    row, first, last = ranges.row[exists], ranges.first[exists], ranges.last[exists]
    order = np.lexsort((row, begins[row]))  # downtimes first at the same instant
    row, first, last = row[order], first[order], last[order]
    shared, down = [_empty()], [_empty()]
    for low, high in _groups_of_cores(first, last, num_cores, PAIRS):
        inside = (first < high) & (last >= low)
        index, core = spread(np.maximum(first[inside], low), np.minimum(last[inside], high - 1))
        by_core = np.argsort((core - low).astype(np.uint16), kind="stable")  # radix sort, keeps the order of time
        index, core = row[inside][index[by_core]], core[by_core]
        is_execution = index >= num_downtimes
        shared.append(_successive(index[is_execution], core[is_execution], begins, ends))
        if num_downtimes:
            down.append(_across(index, core, is_execution, begins, ends))
    return _unique(shared), _unique(down)


def _empty() -> Conflicts:
    return Conflicts(*(np.empty(0, np.int64) for _ in Conflicts._fields))


def _successive(index: IntArray, core: IntArray, begins: Floats, ends: Floats) -> Conflicts:
    """Return overlaps of successive intervals; if any two intervals of a core overlap, so do two successive ones."""
    wrong = np.flatnonzero((core[1:] == core[:-1]) & (begins[index[1:]] < ends[index[:-1]]))
    return Conflicts(index[wrong], index[wrong + 1], core[wrong])


def _across(
    index: IntArray, core: IntArray, is_execution: NDArray[np.bool_], begins: Floats, ends: Floats
) -> Conflicts:
    """Return executions that overlap with the downtime before or after them on the same core."""
    places = np.arange(len(index))
    before = np.maximum.accumulate(np.where(is_execution, -1, places))
    after = np.minimum.accumulate(np.where(is_execution, len(index), places)[::-1])[::-1]
    found = []
    for neighbour in (before, after):
        near = np.flatnonzero(is_execution & (neighbour >= 0) & (neighbour < len(index)))
        other = neighbour[near]
        overlap = (begins[index[other]] < ends[index[near]]) & (begins[index[near]] < ends[index[other]])
        hit = (core[other] == core[near]) & overlap
        found.append(Conflicts(index[other[hit]], index[near[hit]], core[near[hit]]))
    return Conflicts(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _unique(parts: list[Conflicts]) -> Conflicts:
    earlier, later, core = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((core, later, earlier))
    earlier, later, core = earlier[order], later[order], core[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(earlier) != 0) | (np.diff(later) != 0)
    return Conflicts(earlier[new], later[new], core[new])


def overloads(
    begins: Floats, ends: Floats, cores: IntArray, *, limit_times: Floats, limits: IntArray, num_cores: int
) -> tuple[Floats, IntArray, IntArray]:
    """Return the moments at which more cores are in use than are up.

    Parameters
    ----------
    begins, ends : array of float, shape (n,)
        Start and end of each execution in seconds.
    cores : array of int, shape (n,)
        Number of cores of each execution.
    limit_times : array of float, shape (m,)
        Times in seconds at which the number of cores that are up changes, ascending.
    limits : array of int, shape (m,)
        Number of cores that are up from then on.
    num_cores : int
        Number of cores that are up before the first change.

    Returns
    -------
    times, used, up : array, shape (k,)
        Moments in seconds, cores in use and cores up.
    """
    moments = np.concatenate((begins, ends, limit_times))
    changes = np.concatenate((cores, -cores, np.zeros(len(limit_times), np.int64)))
    order = np.argsort(moments, kind="stable")
    moments, used = moments[order], np.cumsum(changes[order])
    last = np.flatnonzero(np.diff(moments, append=np.inf) > 0)
    moments, used = moments[last], used[last]
    up = np.concatenate(([num_cores], limits))[np.searchsorted(limit_times, moments, "right")]
    wrong = used > up
    return moments[wrong], used[wrong], up[wrong]
