"""Core ranges, written as ``"0-3 7"``, read into arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CoreRanges", "groups_of_cores", "read_core_ranges", "spread"]

Whole = NDArray[np.int64]

_CHUNK_ROWS = 65_536
_FORMAT = r"^[0-9]{1,9}(-[0-9]{1,9})?( [0-9]{1,9}(-[0-9]{1,9})?)*$"
_LINE_END, _HYPHEN = ord("\n"), ord("-")


class CoreRanges(NamedTuple):
    """The ranges of a column of strings.

    Attributes
    ----------
    row, first, last : array of int, shape (r,)
        For each range its row in the column and its ends, both included; ordered by row.
    malformed : array of bool, shape (n,)
        Rows that could not be read, or whose ranges are out of order or leave the cores of the
        cluster; they have no range here.
    counts : array of int, shape (n,)
        Number of cores in each row.
    """

    row: Whole
    first: Whole
    last: Whole
    malformed: NDArray[np.bool_]
    counts: Whole


def read_core_ranges(column: pl.Series, num_cores: int) -> CoreRanges:
    """Read a column of core ranges.

    Parameters
    ----------
    column : polars.Series
        n strings of ranges, ascending and without overlap; null holds no core.
    num_cores : int
        Core ids lie below this number.

    Returns
    -------
    CoreRanges
        The ranges of all rows that are well-formed.
    """
    readable = column.is_null() | column.str.contains(_FORMAT)
    malformed = ~readable.to_numpy()
    parts = [
        _read_chunk(column[begin : begin + _CHUNK_ROWS].filter(readable[begin : begin + _CHUNK_ROWS]), begin, malformed)
        for begin in range(0, len(column), _CHUNK_ROWS)
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


def _read_chunk(column: pl.Series, begin: int, malformed: NDArray[np.bool_]) -> tuple[Whole, Whole, Whole]:
    """Read the well-formed strings of a chunk whose rows begin at a given one."""
    rows = begin + np.flatnonzero(~malformed[begin : begin + _CHUNK_ROWS])
    held = ~column.is_null().to_numpy()
    rows, text = rows[held], "\n".join(column.drop_nulls())
    letters = np.frombuffer(text.encode(), np.uint8)
    separators = letters[letters < ord("0")]
    numbers = np.fromstring(text.replace("-", " "), np.int64, sep=" ")
    before = np.concatenate(([_LINE_END], separators)) if len(numbers) else separators
    begins = np.flatnonzero(before != _HYPHEN)
    ends = np.append(begins[1:], len(numbers)) - 1 if len(begins) else begins
    return rows[np.cumsum(before[begins] == _LINE_END) - 1], numbers[begins], numbers[ends]


def groups_of_cores(first: Whole, last: Whole, num_cores: int, pairs: int) -> Iterator[tuple[int, int]]:
    """Split the cores into groups that few ranges touch, so that each fits into memory.

    Parameters
    ----------
    first, last : array of int, shape (r,)
        The ranges.
    num_cores : int
        Number of cores.
    pairs : int
        A group of more than one core holds at most this many pairs of a range and a core.

    Yields
    ------
    tuple of int
        First core of a group, and the first core after it; at most 65,536 cores lie between.
    """
    change = np.bincount(first, minlength=num_cores + 1) - np.bincount(last + 1, minlength=num_cores + 1)
    total = np.concatenate(([0], np.cumsum(np.cumsum(change[:num_cores]))))
    begin = 0
    while begin < num_cores:
        end = int(np.searchsorted(total, total[begin] + pairs, "right")) - 1
        end = min(max(end, begin + 1), begin + 65_536, num_cores)
        yield begin, end
        begin = end


def spread(first: Whole, last: Whole) -> tuple[Whole, Whole]:
    """Return every pair of a range and a core in it.

    Parameters
    ----------
    first, last : array of int, shape (r,)
        The ranges, none empty.

    Returns
    -------
    index, core : array of int
        Index of the range, ascending, and the core.
    """
    lengths = last - first + 1
    index = np.repeat(np.arange(len(first)), lengths)
    offsets = np.cumsum(lengths) - lengths
    return index, np.arange(len(index)) - (offsets - first)[index]
