"""Lookups in columns that the rules of DAG jobs share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_until", "expand", "latest"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def expand(begins: Whole, counts: Whole) -> tuple[Whole, Whole]:
    """List the members of ranges.

    Parameters
    ----------
    begins, counts : array of int, shape (n,)
        The first member of each range, and how many there are.

    Returns
    -------
    index, member : array of int, shape (sum of counts,)
        For each member the range that it belongs to, and the member.
    """
    index = np.repeat(np.arange(len(counts)), counts)
    offset = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    return index, begins[index] + offset


def latest(keys: Whole, times: Floats, wanted_keys: Whole, wanted_times: Floats) -> Whole:
    """Find for each wanted key the last entry of that key up to a time.

    Parameters
    ----------
    keys, times : array, shape (n,)
        The entries.
    wanted_keys, wanted_times : array, shape (m,)
        What is looked for.

    Returns
    -------
    array of int, shape (m,)
        Entries, of equal times the last; -1 where there is none.
    """
    count = len(keys)
    both = np.concatenate((keys, wanted_keys))
    place = np.arange(len(both))
    order = np.lexsort((place, np.concatenate((times, wanted_times)), both))
    before = np.maximum.accumulate(np.where(order < count, place, -1))
    entry = np.where(before >= 0, order[before], -1)
    entry[(entry >= 0) & (both[entry] != both[order])] = -1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = entry
    return found[count:]


def count_until(
    keys: Whole, times: Floats, wanted_keys: Whole, wanted_times: Floats, *, inclusive: bool = True
) -> Whole:
    """Count for each wanted key the entries of that key up to a time.

    Parameters
    ----------
    keys, times : array, shape (n,)
        The entries.
    wanted_keys, wanted_times : array, shape (m,)
        What is looked for.
    inclusive : bool
        Entries at that very time count.

    Returns
    -------
    array of int, shape (m,)
        How many.
    """
    count = len(keys)
    both = np.concatenate((keys, wanted_keys))
    is_entry = np.arange(len(both)) < count
    order = np.lexsort((is_entry != inclusive, np.concatenate((times, wanted_times)), both))
    counted = np.cumsum(is_entry[order])
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.diff(both[order]) != 0
    before: Whole = (counted - is_entry[order])[new]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = counted - before[np.cumsum(new) - 1]
    return found[count:]
