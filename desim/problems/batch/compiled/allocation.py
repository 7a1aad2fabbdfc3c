"""Which cores the jobs of a compiled run get, and texts of them."""

# mypy: disable-error-code="no-any-return"
# ruff: noqa: PLR0917  # numba passes a state of arrays faster than an object

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.compiled.numba_functions import Integers, compiled, entry

__all__ = ["core_ranges", "texts"]


@entry
def core_ranges(
    cores_of: Integers, started: Integers, ended_before: Integers, ended: Integers, num_cores: int
) -> tuple[Integers, Integers]:
    """Return the ranges of cores that each job gets, the lowest free ones, and the jobs' counts of ranges.

    Parameters
    ----------
    cores_of : array of int
        Requested cores by row.
    started : array of int
        Rows in the order of starts.
    ended_before : array of int
        Number of jobs that had ended before each start.
    ended : array of int
        Rows in the order of ends.
    num_cores : int
        Number of cores.
    """
    count = len(started)
    number_of = np.empty(len(cores_of), np.int64)
    begins = np.empty(count + 1, np.int64)
    begins[0] = 0
    ranges = np.empty((max(4 * count, 16), 2), np.int64)
    free_begin = np.empty(num_cores + 1, np.int64)  # free ranges, ascending, from `first` on
    free_end = np.empty(num_cores + 1, np.int64)
    free_begin[0], free_end[0], size = 0, num_cores, 1
    left = 0
    for number in range(count):
        while left < ended_before[number]:
            mine = number_of[ended[left]]
            left += 1
            size = free_ranges(free_begin, free_end, size, ranges, begins[mine], begins[mine + 1])
        row = started[number]
        number_of[row] = number
        needed, place, made = cores_of[row], 0, begins[number]
        if made + size + 1 > len(ranges):
            larger = np.empty((2 * len(ranges) + size, 2), np.int64)
            for copied in range(made):  # slices would take seconds to compile
                larger[copied, 0], larger[copied, 1] = ranges[copied, 0], ranges[copied, 1]
            ranges = larger
        while needed:
            begin = free_begin[place]
            end = min(free_end[place], begin + needed)
            ranges[made, 0], ranges[made, 1] = begin, end
            made += 1
            needed -= end - begin
            if end == free_end[place]:
                place += 1
            else:
                free_begin[place] = end
        begins[number + 1] = made
        if place:
            size -= place
            for kept in range(size):
                free_begin[kept], free_end[kept] = free_begin[kept + place], free_end[kept + place]
    return ranges[: begins[count]], begins


@compiled
def free_ranges(begins: Integers, ends: Integers, size: int, ranges: Integers, first: int, last: int) -> int:
    """Add ranges to the free ones, and return how many there are then."""
    for number in range(first, last):
        begin, end = ranges[number, 0], ranges[number, 1]
        place = size
        while place > 0 and begins[place - 1] > begin:
            place -= 1
        joins_before = place > 0 and ends[place - 1] == begin
        joins_after = place < size and begins[place] == end
        if joins_before and joins_after:
            ends[place - 1] = ends[place]
            size -= 1
            for later in range(place, size):
                begins[later], ends[later] = begins[later + 1], ends[later + 1]
        elif joins_before:
            ends[place - 1] = end
        elif joins_after:
            begins[place] = begin
        else:
            for later in range(size, place, -1):
                begins[later], ends[later] = begins[later - 1], ends[later - 1]
            begins[place], ends[place] = begin, end
            size += 1
    return size


@entry
def texts(ranges: Integers, begins: Integers) -> NDArray[np.uint8]:
    """Return the ranges of each job as text, such as "0-3 7", joined by newlines, in bytes."""
    text = np.empty(44 * len(ranges) + len(begins), np.uint8)
    size = 0
    digits = np.empty(20, np.uint8)
    for number in range(len(begins) - 1):
        if number:
            text[size] = 10
            size += 1
        for place in range(begins[number], begins[number + 1]):
            if place > begins[number]:
                text[size] = 32
                size += 1
            first, last = ranges[place, 0], ranges[place, 1] - 1
            for part in range(2 if last > first else 1):
                if part:
                    text[size] = 45
                    size += 1
                value, count = last if part else first, 0
                while value or not count:
                    digits[count] = 48 + value % 10
                    value //= 10
                    count += 1
                for digit in range(count - 1, -1, -1):
                    text[size] = digits[digit]
                    size += 1
    return text[:size]
