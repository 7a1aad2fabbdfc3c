"""Who holds which core when: no core serves two jobs at once, or while it is down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.validation.core_ranges import CoreRanges, groups_of_cores, spread

__all__ = ["Conflicts", "conflicts", "overloads"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_PAIRS = 1 << 21
"""Pairs of an interval and a core that are looked at together, which takes some 150 MB."""


class Conflicts(NamedTuple):
    """Intervals that overlap on a core.

    Attributes
    ----------
    earlier, later : array of int, shape (k,)
        Indices of the two intervals, each pair once.
    core : array of int, shape (k,)
        The lowest core that they share at the same time.
    """

    earlier: Whole
    later: Whole
    core: Whole


def conflicts(
    begins: Floats, ends: Floats, ranges: CoreRanges, num_cores: int, num_downtimes: int
) -> tuple[Conflicts, Conflicts]:
    """Find executions that overlap on a core, and executions on a core that is down.

    Parameters
    ----------
    begins, ends : array of float, shape (n,)
        Half-open intervals, in seconds: first the downtimes, which do not overlap on any core, then
        the executions. An execution of length 0 overlaps with nothing; a downtime of length 0 does
        with an execution that it falls into.
    ranges : CoreRanges
        The cores of each interval.
    num_cores : int
        Number of cores.
    num_downtimes : int
        How many of the intervals are downtimes.

    Returns
    -------
    tuple of Conflicts
        Pairs of executions next to each other in time (at least one pair for every core that serves two
        jobs at once), and pairs of downtime and execution, in either order.
    """
    exists = (ranges.row < num_downtimes) | (begins[ranges.row] < ends[ranges.row])
    row, first, last = ranges.row[exists], ranges.first[exists], ranges.last[exists]
    order = np.lexsort((row, begins[row]))  # at the same instant downtimes come first
    row, first, last = row[order], first[order], last[order]
    shared, down = [_empty()], [_empty()]
    for low, high in groups_of_cores(first, last, num_cores, _PAIRS):
        inside = (first < high) & (last >= low)
        index, core = spread(np.maximum(first[inside], low), np.minimum(last[inside], high - 1))
        by_core = np.argsort((core - low).astype(np.uint16), kind="stable")  # radix sort, keeps the order in time
        index, core = row[inside][index[by_core]], core[by_core]
        is_execution = index >= num_downtimes
        shared.append(_successive(index[is_execution], core[is_execution], begins, ends))
        if num_downtimes:
            down.append(_across(index, core, is_execution, begins, ends))
    return _unique(shared), _unique(down)


def _empty() -> Conflicts:
    return Conflicts(*(np.empty(0, np.int64) for _ in Conflicts._fields))


def _successive(index: Whole, core: Whole, begins: Floats, ends: Floats) -> Conflicts:
    """Find overlaps of neighbours: if any two intervals of a core overlap, so do two neighbours."""
    wrong = np.flatnonzero((core[1:] == core[:-1]) & (begins[index[1:]] < ends[index[:-1]]))
    return Conflicts(index[wrong], index[wrong + 1], core[wrong])


def _across(index: Whole, core: Whole, is_execution: NDArray[np.bool_], begins: Floats, ends: Floats) -> Conflicts:
    """Find executions that overlap with the downtime before or after them on the same core."""
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
    begins: Floats, ends: Floats, cores: Whole, *, limit_times: Floats, limits: Whole, num_cores: int
) -> tuple[Floats, Whole, Whole]:
    """Find the moments at which more cores are in use than are up.

    Parameters
    ----------
    begins, ends : array of float, shape (n,)
        Executions, in seconds.
    cores : array of int, shape (n,)
        Cores that each of them uses.
    limit_times : array of float, shape (m,)
        When the number of cores that are up changes, ascending.
    limits : array of int, shape (m,)
        Cores up from then on.
    num_cores : int
        Cores up before.

    Returns
    -------
    times, used, up : array, shape (k,)
        The moments, cores in use and cores up.
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
