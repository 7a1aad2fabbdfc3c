"""The maps of the processed 2017 trace: sizes of flavors, and durations of bins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from desim.exceptions import WorkloadError

__all__ = ["Bin", "Flavor", "numbered_lines", "read_bins", "read_flavors", "shown"]


class Flavor(NamedTuple):
    """The size of a virtual machine.

    Attributes
    ----------
    cores : float
        Cores.
    memory : float
        GB.
    """

    cores: float
    memory: float


class Bin(NamedTuple):
    """The durations that one bin stands for, in seconds, both included.

    Attributes
    ----------
    low, high : int
        The shortest and the longest.
    """

    low: int
    high: int


def numbered_lines(source: str, content: bytes) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
        What the file holds.

    Yields
    ------
    number : int
        Line number, from 1.
    text : str
        The line.

    Raises
    ------
    WorkloadError
        If a line is no ASCII text.
    """
    for place, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise WorkloadError(f"{source}: line {place}: byte 0x{line[error.start]:02x}, want plain text") from error
        if text:
            yield place, text


def read_flavors(source: str, content: bytes) -> dict[str, Flavor]:
    """Return the sizes by their letters, from lines such as ``1,0.75 a``.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
        What the file holds.

    Returns
    -------
    dict of str to Flavor
        In the order of the file.

    Raises
    ------
    WorkloadError
        For a line that does not fit, or a letter that comes twice.
    """
    flavors: dict[str, Flavor] = {}
    for place, text in numbered_lines(source, content):
        size, _, letter = text.partition(" ")
        parts = size.split(",")
        if len(parts) != 2 or not letter or letter in flavors or set(letter) & set(" ,|"):
            raise WorkloadError(f"{source}: line {place}: got {shown(text)}, want CORES,GIGABYTES and a new letter")
        flavors[letter] = Flavor(*(_amount(source, place, part) for part in parts))
    if not flavors:
        raise WorkloadError(f"{source}: holds no flavor")
    return flavors


def _amount(source: str, place: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise WorkloadError(f"{source}: line {place}: got {shown(text)}, want a number above 0")
    return value


def read_bins(source: str, content: bytes) -> dict[int, Bin]:
    """Return the durations of every bin, from lines such as ``4200 13``.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
        What the file holds.

    Returns
    -------
    dict of int to Bin
        By the numbers of the bins.

    Raises
    ------
    WorkloadError
        For a line that does not fit, durations that do not ascend, or a bin that comes again after another.
    """
    bins: dict[int, Bin] = {}
    latest = (-1, -1)
    for place, text in numbered_lines(source, content):
        fields = text.split()
        if len(fields) != 2 or not all(field.isdecimal() and len(field) < 16 for field in fields):
            raise WorkloadError(f"{source}: line {place}: got {shown(text)}, want SECONDS and a bin")
        seconds, index = map(int, fields)
        if seconds <= latest[0] or index not in (latest[1], latest[1] + 1):
            raise WorkloadError(
                f"{source}: line {place}: {seconds} s in bin {index} follows {latest[0]} s in bin {latest[1]}, want "
                f"ascending seconds, and bins without gaps"
            )
        bins[index] = Bin(bins[index].low if index in bins else seconds, seconds)
        latest = (seconds, index)
    if not bins:
        raise WorkloadError(f"{source}: holds no duration")
    return bins


def shown(text: str) -> str:
    """Return a text for a message, cut if it is long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
