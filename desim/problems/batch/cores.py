"""Core sets as integers: bit i stands for core i.

Python's integers make union, difference, intersection and counting single operations, whatever
the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

__all__ = ["core_set", "cores_of_ranges", "format_core_sets", "lowest_cores", "parse_core_sets", "to_core_ids"]


def core_set(core_ids: Iterable[int]) -> int:
    """Return the core set with the given core ids.

    Parameters
    ----------
    core_ids : iterable of int
        Core ids, at least 0, in any order.

    Returns
    -------
    int
        Core set: bit i is set if core i is in it.

    Raises
    ------
    InvalidConfiguration
        If an id is negative.
    """
    result = 0
    for core in core_ids:
        if core < 0:
            raise InvalidConfiguration(f"core id: got {core!r}, expected an integer >= 0")
        result |= 1 << core
    return result


def cores_of_ranges(ranges: Iterable[tuple[int, int]]) -> int:
    """Return the core set of disjoint ranges of core ids, each given by its begin and its end, which is not included.

    Parameters
    ----------
    ranges : iterable of (int, int)
        Ranges.

    Returns
    -------
    int
        Core set.
    """
    return sum((1 << end) - (1 << begin) for begin, end in ranges)


def to_core_ids(cores: int) -> NDArray[np.int64]:
    """Return the core ids in a core set.

    Parameters
    ----------
    cores : int
        Core set.

    Returns
    -------
    array of int, shape (n,)
        Ids of the n cores, ascending.

    Raises
    ------
    InvalidConfiguration
        If the integer is negative.
    """
    if cores < 0:
        raise InvalidConfiguration(f"cores: got {cores!r}, expected a bit set >= 0")
    packed = np.frombuffer(cores.to_bytes((cores.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little"))


def lowest_cores(cores: int, count: int) -> int:
    """Return the ``count`` lowest cores of a core set.

    Parameters
    ----------
    cores : int
        Core set to choose from, with at least ``count`` cores.
    count : int
        Number of cores, at least 1.

    Returns
    -------
    int
        Chosen core set.
    """
    if count == 1:
        return cores & -cores
    rest, chosen = cores, 0
    count = int(count)  # numpy's integers overflow at 64 bits
    for _ in range(4):  # the lowest cores usually lie in a few ranges
        lowest = rest & -rest
        run = (lowest << count) - lowest
        if run & rest == run:
            return chosen | run
        run = rest & ~(rest + lowest)  # the entire lowest range, which has fewer than count cores
        chosen |= run
        rest ^= run
        count -= run.bit_count()
    low, high = 0, rest.bit_length()
    while high - low > 1:  # invariant: fewer than count cores below low, at least count below high
        middle = (low + high) >> 1
        if (rest & ((1 << middle) - 1)).bit_count() < count:
            low = middle
        else:
            high = middle
    return chosen | (rest & ((1 << high) - 1))


def format_core_sets(core_sets: Sequence[Any], num_cores: int) -> pl.Series:
    """Return core sets as strings of ranges such as ``"0-3 7"``, as Batsim writes them.

    Parameters
    ----------
    core_sets : sequence of int or tuple
        The n core sets, as bit sets or ranges (begin, end); 0 becomes null.
    num_cores : int
        Number of cores of the cluster, above every core id.

    Returns
    -------
    polars.Series
        Strings, one per set.
    """
    import polars as pl

    distinct = dict.fromkeys(core_sets)  # the same sets recur often
    distinct.pop(0, None)
    bits = [cores for cores in distinct if isinstance(cores, int)]
    texts: dict[Any, str | None] = {0: None, **dict(zip(bits, _texts(bits, num_cores), strict=True))}
    if len(bits) < len(distinct):
        ranges = (cores for cores in distinct if not isinstance(cores, int))
        texts |= {each: " ".join(f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in each) for each in ranges}
    return pl.Series("allocated_resources", [texts[cores] for cores in core_sets], dtype=pl.String)


def _texts(core_sets: list[int], num_cores: int) -> list[str]:
    """Return nonempty core sets as strings of ranges."""
    width = num_cores // 8 + 1
    edges = b"".join([(cores ^ cores << 1).to_bytes(width, "little") for cores in core_sets])
    packed = np.frombuffer(edges, dtype=np.uint8)
    occupied = np.flatnonzero(packed)  # few bytes hold the start or end of a range
    bits = np.flatnonzero(np.unpackbits(packed[occupied], bitorder="little"))
    byte = occupied[bits >> 3]
    row = byte // width
    core = (byte - row * width) * 8 + (bits & 7)
    first, last = core[0::2].tolist(), (core[1::2] - 1).tolist()
    ranges = [f"{a}-{b}" if a < b else str(a) for a, b in zip(first, last, strict=True)]
    begins = np.flatnonzero(np.diff(row[0::2], prepend=-1)).tolist()
    return [" ".join(ranges[begin:end]) for begin, end in pairwise([*begins, len(ranges)])]


def parse_core_sets(column: pl.Series) -> pl.DataFrame:
    """Parse core sets written as strings of ranges.

    Parameters
    ----------
    column : polars.Series
        Strings such as ``"0-3 7"``; null is an empty set.

    Returns
    -------
    polars.DataFrame
        One row per range: ``row`` (index into the column), ``first`` and ``last`` (core ids,
        both included).
    """
    import polars as pl

    from desim.problems.batch.occupancy import read_core_ranges

    row, first, last, *_ = read_core_ranges(column.cast(pl.String), 1 << 31)
    return pl.DataFrame({"row": row, "first": first, "last": last})
