"""A slice of Azure's trace of 2017: 259,159 virtual machines started within 3.47 days.

The trace (AzurePublicDatasetV1) records in readings, 5 minutes apart, which virtual machines existed. In the processed
form read here, two files have one line per reading, ``TIME SEQUENCE``: one has the flavors of the virtual machines
started then, one letter each, the other their durations, in the same order. Items end with a comma, and batches
(requests of one tenant within 5 minutes) with ``|``. Two maps give the cores and memory of a flavor, and the bin of a
duration. ``U13`` ended after a duration of bin 13; ``C13`` still ran at the end of the trace, after such a duration.

A virtual machine starts at its reading. A bin of several readings is replaced by one duration, see `read_vms`. All
have priority 0. The tenant is not in the files; its place takes the number of the batch, from 0.

References: E. Cortez et al., "Resource Central: understanding and predicting workloads for improved resource management
in large cloud platforms", SOSP 2017; https://github.com/Azure/AzurePublicDataset (CC BY 4.0). The processed form is
from the repository huaweicloud/trace_generation_rnn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from numpy.random import Generator, default_rng

from desim.checks import check_choice, check_float
from desim.exceptions import WorkloadError
from desim.workloads.azure.vms import VirtualMachine, VmReason, VmReport
from desim.workloads.files import Pathish, read_text
from desim.workloads.json_fields import short_repr
from desim.workloads.streams import seed_sequence

__all__ = ["READING_SECONDS", "VmStream2017", "read_vms"]

#: Time between two readings, in seconds.
READING_SECONDS = 300

Within = Literal["low", "middle", "high", "uniform"]

_FLAVORS, _DURATIONS = "azure_v1_dev_flavors.txt", "azure_v1_dev_durations.txt"
_FLAVOR_MAP, _DURATION_MAP = "azure_v1_flavor_map.txt", "azure_v1_interval_map.txt"
_BATCH_END = "|"
_DURATION = re.compile(r"([UC])([0-9]{1,6})\Z")


class VmStream2017:
    """Iterable over the virtual machines of the slice in order of start; every iteration gives the same ones.

    Parameters
    ----------
    directory, slot_seconds, within, seed : path, float, str, int or Generator
        Arguments of `read_vms`, which creates the object.

    Attributes
    ----------
    report : VmReport
        Counts of the latest iteration, complete when it ends.
    first_time, end_time : int
        Beginning and end of the slice, in seconds of the files' clock.
    """

    def __init__(self, directory: Pathish, slot_seconds: float, within: Within, seed: int | Generator) -> None:
        self.report = VmReport(unit="line")
        self._slot_seconds = check_float("slot_seconds", slot_seconds, above=0)
        self._within = check_choice("within", within, get_args(Within))
        self._entropy = seed_sequence(seed).entropy
        folder = Path(directory)
        self._durations_file = str(folder / _DURATIONS)
        self._bins = _read_bins(folder / _DURATION_MAP)
        pair = _PairedFiles(folder, _read_flavors(folder / _FLAVOR_MAP), self._bins)
        self._lines = list(pair.lines())
        if not self._lines:
            raise WorkloadError(f"{folder / _FLAVORS}: got no line, expected at least one")
        self.first_time = self._lines[0].time
        self.end_time = self._lines[-1].time + READING_SECONDS
        for line in self._lines:
            self._check_ends(line)

    @property
    def num_slots(self) -> float:
        """Length of the slice in slots."""
        return (self.end_time - self.first_time) / self._slot_seconds

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Iterate over the virtual machines, from the first."""
        self.report = report = VmReport(unit="line")
        rng = default_rng(self._entropy)
        for line in self._lines:
            for batch in line.batches:
                uniforms = rng.random(len(batch)).tolist()
                for item, uniform in zip(batch, uniforms, strict=True):
                    end: float = self.end_time
                    if item.ended:
                        end = line.time + self._duration(self._bins[item.bin], line, uniform, report)
                    else:
                        report.add(VmReason.CENSORED, [line.number])
                    start, end = line.time - self.first_time, end - self.first_time
                    machine = VirtualMachine(
                        report.vms,
                        start / self._slot_seconds,
                        end / self._slot_seconds,
                        item.flavor.cores,
                        item.flavor.memory,
                        tenant_id=report.batches,
                    )
                    report.rows += 1
                    report.vms += 1
                    yield machine
                report.batches += 1

    def _duration(self, durations: _Bin, line: _Line, uniform: float, report: VmReport) -> float:
        """Return the duration of a virtual machine that ended, in seconds."""
        if durations.high == 0:
            report.add(VmReason.ZERO_DURATION, [line.number])
            return READING_SECONDS / 2
        low, high = durations.low, min(durations.high, self.end_time - line.time)
        if self._within == "uniform":
            return low + READING_SECONDS * int(uniform * ((high - low) // READING_SECONDS + 1))
        return {"low": low, "middle": (low + high) / 2, "high": high}[self._within]

    def _check_ends(self, line: _Line) -> None:
        """Raise unless the durations fit the trace: ends within it, and other machines observed until its end."""
        left = self.end_time - line.time
        for index, batch in enumerate(line.batches, 1):
            for item in batch:
                low, high = self._bins[item.bin]
                if (low > left) if item.ended else not (low <= left <= high):
                    code = f"{'U' if item.ended else 'C'}{item.bin}"
                    raise WorkloadError(
                        f"{self._durations_file}: line {line.number}: batch {index}: got {code}, {low} to {high} s, "
                        f"expected a duration that fits the trace, which ends {left} s later"
                    )


def read_vms(
    directory: Pathish,
    *,
    slot_seconds: float = 300.0,
    within: Within = "middle",
    seed: int | Generator = 0,
) -> VmStream2017:
    """Read the slice of 2017.

    Parameters
    ----------
    directory : str or path-like
        Directory of the four files, plain or gzip, with their published names.
    slot_seconds : float
        Length of a slot in seconds. Slots count from the first reading.
    within : {"low", "middle", "high", "uniform"}
        Duration used for a bin of several readings: its shortest, middle or longest, or any of its
        readings with equal probability. It never extends beyond the end of the trace. A duration of 0, which means
        less than 5 minutes, is replaced by 2.5 minutes.
    seed : int or numpy.random.Generator
        Seed for ``within="uniform"``; from a generator, four numbers are sampled at once.

    Returns
    -------
    VmStream2017
        Iterable over the virtual machines, any number of times. Those that still ran at the end of the trace end
        then, and are counted in its ``report``.

    Raises
    ------
    WorkloadError
        If a file cannot be read or does not fit its format, if the two files differ in a batch, or if a
        duration does not fit the trace; the message names file and line.
    InvalidConfiguration
        If an option is out of range.
    """
    return VmStream2017(directory, slot_seconds, within, seed)


class _Flavor(NamedTuple):
    """Size of a virtual machine.

    Attributes
    ----------
    cores : float
        Number of cores.
    memory : float
        Memory in GB.
    """

    cores: float
    memory: float


class _Bin(NamedTuple):
    """Range of durations of a bin, in seconds.

    Attributes
    ----------
    low, high : int
        Shortest and longest duration, both included.
    """

    low: int
    high: int


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the nonblank lines of a file with their numbers, from 1."""
    for place, line in enumerate(read_text(path).split("\n"), 1):
        if not line.isascii():
            raise WorkloadError(f"{path}: line {place}: got {short_repr(line)}, expected ASCII text")
        if text := line.strip():
            yield place, text


def _read_flavors(path: Path) -> dict[str, _Flavor]:
    """Return the sizes of the flavors by letter, from lines such as ``1,0.75 a``."""
    flavors: dict[str, _Flavor] = {}
    for place, text in _numbered_lines(path):
        size, _, letter = text.partition(" ")
        parts = size.split(",")
        if len(parts) != 2 or not letter or letter in flavors or set(letter) & set(" ,|"):
            raise WorkloadError(
                f"{path}: line {place}: got {short_repr(text)}, expected CORES,GIGABYTES and a new letter"
            )
        flavors[letter] = _Flavor(*(_amount(path, place, part) for part in parts))
    if not flavors:
        raise WorkloadError(f"{path}: got no flavor, expected at least one")
    return flavors


def _amount(path: Path, place: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise WorkloadError(f"{path}: line {place}: got {short_repr(text)}, expected a number > 0")
    return value


def _read_bins(path: Path) -> dict[int, _Bin]:
    """Return the durations of every bin by number, from lines such as ``4200 13``."""
    bins: dict[int, _Bin] = {}
    latest = (-1, -1)
    for place, text in _numbered_lines(path):
        fields = text.split()
        if len(fields) != 2 or not all(field.isdecimal() and len(field) < 16 for field in fields):
            raise WorkloadError(f"{path}: line {place}: got {short_repr(text)}, expected SECONDS and a bin")
        seconds, index = map(int, fields)
        if seconds <= latest[0] or index not in (latest[1], latest[1] + 1):
            raise WorkloadError(
                f"{path}: line {place}: got {seconds} s in bin {index} after {latest[0]} s in bin {latest[1]}, "
                f"expected ascending seconds, and bins without gaps"
            )
        bins[index] = _Bin(bins[index].low if index in bins else seconds, seconds)
        latest = (seconds, index)
    if not bins:
        raise WorkloadError(f"{path}: got no duration, expected at least one")
    return bins


class _Item(NamedTuple):
    """Virtual machine of a batch.

    Attributes
    ----------
    flavor : Flavor
        Size of the virtual machine.
    ended : bool
        Whether it ended before the end of the trace.
    bin : int
        Bin of its duration, or of its age at the end of the trace.
    """

    flavor: _Flavor
    ended: bool
    bin: int


_Batch = list[_Item]
_Numbered = tuple[int, str]


class _Line(NamedTuple):
    """Virtual machines started within one interval.

    Attributes
    ----------
    number : int
        Line number in the file of durations, from 1.
    time : int
        Beginning of the interval, in seconds.
    batches : list of list of _Item
        Batches of virtual machines.
    """

    number: int
    time: int
    batches: list[_Batch]


class _PairedFiles:
    """The file of flavors and the file of durations, read in parallel."""

    def __init__(self, folder: Path, flavors: dict[str, _Flavor], bins: dict[int, _Bin]) -> None:
        self._files = folder / _FLAVORS, folder / _DURATIONS
        self._flavors = flavors
        self._bins = bins
        self._items: dict[tuple[str, str], _Item] = {}

    def lines(self) -> Iterator[_Line]:
        """Yield the lines in ascending order of time; both files must have the same batches."""
        latest = -1
        pairs = zip_longest(*map(_numbered_lines, self._files))
        for of_flavors, of_durations in pairs:
            if of_flavors is None or of_durations is None:
                raise self._left_over(of_flavors, of_durations)
            where = (
                f"{self._files[0]}: line {of_flavors[0]}",
                f"{self._files[1]}: line {of_durations[0]}",
            )
            time, letters = _batches(where[0], of_flavors[1])
            other, codes = _batches(where[1], of_durations[1])
            if time <= latest:
                raise WorkloadError(f"{where[0]}: time: got {time}, expected more than {latest} of the previous line")
            if other != time:
                raise WorkloadError(f"{where[1]}: time: got {other}, expected {time} as in {where[0]}")
            latest = time
            yield _Line(of_durations[0], time, self._paired(where, letters, codes))

    def _left_over(self, of_flavors: _Numbered | None, of_durations: _Numbered | None) -> WorkloadError:
        longer, found = (self._files[0], of_flavors) if of_flavors else (self._files[1], of_durations)
        shorter = self._files[1] if of_flavors else self._files[0]
        place = found[0] if found else 0
        return WorkloadError(f"{longer}: line {place}: {shorter} ends before it, expected equally many lines in both")

    def _paired(self, where: tuple[str, str], letters: list[list[str]], codes: list[list[str]]) -> list[_Batch]:
        if len(letters) != len(codes):
            raise WorkloadError(f"{where[1]}: got {len(codes)} batches, expected {len(letters)} as in {where[0]}")
        batches = []
        for index, (sizes, ends) in enumerate(zip(letters, codes, strict=True), 1):
            if len(sizes) != len(ends):
                raise WorkloadError(
                    f"{where[1]}: batch {index}: got {len(ends)} items, expected {len(sizes)} as in {where[0]}"
                )
            batches.append([self._item(where, pair) for pair in zip(sizes, ends, strict=True)])
        return batches

    def _item(self, where: tuple[str, str], pair: tuple[str, str]) -> _Item:
        """Return the item of a letter and a code; there are few pairs, so items are cached."""
        known = self._items.get(pair)
        if known is None:
            letter, code = pair
            if letter not in self._flavors:
                raise WorkloadError(
                    f"{where[0]}: got {short_repr(letter)}, expected a flavor: one of {' '.join(self._flavors)}"
                )
            match = _DURATION.match(code)
            if match is None or int(match[2]) not in self._bins:
                wanted = f"U or C and a bin from 0 to {max(self._bins)}"
                raise WorkloadError(f"{where[1]}: got {short_repr(code)}, expected {wanted}")
            known = self._items[pair] = _Item(self._flavors[letter], match[1] == "U", int(match[2]))
        return known


def _batches(where: str, text: str) -> tuple[int, list[list[str]]]:
    """Split a line such as ``1800000 b,b,|,g,|`` into its time and batches."""
    time, _, sequence = text.partition(" ")
    if not time.isdecimal() or len(time) > 15:
        raise WorkloadError(f"{where}: got {short_repr(time)}, expected a time in whole seconds")
    batches: list[list[str]] = [[]]
    for token in sequence.strip().split(",") if sequence.strip() else []:
        if token != _BATCH_END:
            batches[-1].append(token)
        elif batches[-1]:
            batches.append([])
        else:
            raise WorkloadError(f"{where}: batch {len(batches)} is empty")
    if batches.pop():
        raise WorkloadError(f"{where}: batch {len(batches) + 1} has no end, expected '|' after it (a truncated line?)")
    return int(time), batches
