"""A slice of Azure's trace of 2017: 259,159 virtual machines that were started within 3.47 days.

The trace (AzurePublicDatasetV1) tells when virtual machines were there, in readings 5 minutes apart. In the processed
form read here, two files have a line for each reading, ``TIME SEQUENCE``: one has the flavors of the virtual machines
that were started, a letter each, the other how long they lasted, in the same order. Items end with a comma, and batches
(what one tenant started within 5 minutes) with ``|``. Two maps tell cores and memory of a flavor, and the bin of a
duration. ``U13`` ended, after a duration of bin 13; ``C13`` was still there at the end of the trace, after such a time.

A virtual machine starts with its reading. A bin of several readings stands for one of them, see `read_vms`. All have
priority 0, and the number of their batch, from 0, in place of the tenant, whom the files do not tell.

References: E. Cortez et al., "Resource Central: understanding and predicting workloads for improved resource management
in large cloud platforms", SOSP 2017; https://github.com/Azure/AzurePublicDataset (CC BY 4.0). The processed form is
from the repository huaweicloud/trace_generation_rnn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from numpy.random import Generator, default_rng

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads._files import Pathish, read_bytes
from desim.workloads._named_streams import number
from desim.workloads._seeds import seed_sequence
from desim.workloads.azure._vm_2017_maps import Bin, read_bins, read_flavors
from desim.workloads.azure._vm_2017_parse import Line, PairedFiles
from desim.workloads.azure.machine import VirtualMachine
from desim.workloads.azure.report import VmReason, VmReport

__all__ = ["READING_SECONDS", "Within", "read_vms"]

#: Time between two readings.
READING_SECONDS = 300

Within = Literal["low", "middle", "high", "uniform"]


class VmStream2017:
    """The virtual machines of the slice in the order of their starts; every iteration gives the same ones anew.

    Made by `read_vms`, which documents the parameters.

    Parameters
    ----------
    files : tuple of path-like
        Flavors, durations, map of flavors, map of durations.
    slot_seconds : float
        Length of a slot.
    within : {"low", "middle", "high", "uniform"}
        Which duration a bin stands for.
    seed : int or numpy.random.Generator
        Source of randomness.

    Attributes
    ----------
    report : VmReport
        The books of the latest iteration, complete when it has ended.
    first_time, end_time : int
        Beginning and end of the slice in the seconds of the files.
    """

    def __init__(
        self,
        files: tuple[Pathish, Pathish, Pathish, Pathish],
        slot_seconds: float,
        within: Within,
        seed: int | Generator,
    ) -> None:
        self.report = VmReport(unit="line")
        self._slot_seconds = number("slot_seconds", slot_seconds, above=True)
        self._within = within
        self._entropy = seed_sequence(seed).entropy
        names = [os.fspath(file) for file in files]
        contents = [read_bytes(file) for file in files]
        self._bins = read_bins(names[3], contents[3])
        pair = PairedFiles(names[0], names[1], read_flavors(names[2], contents[2]), self._bins)
        self._lines = list(pair.lines(contents[0], contents[1]))
        if not self._lines:
            raise WorkloadError(f"{names[0]}: holds no line")
        self._durations_file = names[1]
        self.first_time = self._lines[0].time
        self.end_time = self._lines[-1].time + READING_SECONDS
        for line in self._lines:
            self._check_ends(line)

    @property
    def num_slots(self) -> float:
        """Length of the slice in slots."""
        return (self.end_time - self.first_time) / self._slot_seconds

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Yield them from the first on."""
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

    def _duration(self, durations: Bin, line: Line, uniform: float, report: VmReport) -> float:
        """Return how long a virtual machine lasted that ended, in seconds."""
        if durations.high == 0:
            report.add(VmReason.ZERO_DURATION, [line.number])
            return READING_SECONDS / 2
        low, high = durations.low, min(durations.high, self.end_time - line.time)
        if self._within == "uniform":
            return low + READING_SECONDS * int(uniform * ((high - low) // READING_SECONDS + 1))
        return {"low": low, "middle": (low + high) / 2, "high": high}[self._within]

    def _check_ends(self, line: Line) -> None:
        """Raise unless those that ended could have, and the others have been seen until the end."""
        left = self.end_time - line.time
        for index, batch in enumerate(line.batches, 1):
            for item in batch:
                low, high = self._bins[item.bin]
                if (low > left) if item.ended else not (low <= left <= high):
                    code = f"{'U' if item.ended else 'C'}{item.bin}"
                    raise WorkloadError(
                        f"{self._durations_file}: line {line.number}: batch {index}: {code} stands for {low} to {high} "
                        f"s, but the trace ends {left} s later"
                    )


def read_vms(
    directory: Pathish,
    *,
    flavors: Pathish = "azure_v1_dev_flavors.txt",
    durations: Pathish = "azure_v1_dev_durations.txt",
    flavor_map: Pathish = "azure_v1_flavor_map.txt",
    interval_map: Pathish = "azure_v1_interval_map.txt",
    slot_seconds: float = 300.0,
    within: Within = "middle",
    seed: int | Generator = 0,
) -> VmStream2017:
    """Read the slice.

    Parameters
    ----------
    directory : str or path-like
        Where the files are.
    flavors, durations, flavor_map, interval_map : str or path-like
        Names of the files in it, plain or gzip.
    slot_seconds : float
        Length of a slot in seconds. Slots count from the first reading.
    within : {"low", "middle", "high", "uniform"}
        The duration that a bin of several readings stands for: its shortest, its middle, its longest, or any of its
        readings with equal probability. None goes beyond the end of the trace. A duration of 0, which is less than 5
        minutes, is taken as half of that.
    seed : int or numpy.random.Generator
        For ``within="uniform"``. From a generator, four numbers are drawn at once.

    Returns
    -------
    VmStream2017
        To iterate over, any number of times. Those that were still there at the end of the trace end then, and are
        counted in its ``report``.

    Raises
    ------
    WorkloadError
        If a file cannot be read or does not fit its format, if the two files do not agree in every batch, or if a
        duration does not fit into the trace; the message names file and line.
    InvalidConfiguration
        If an option is out of range.
    """
    if within not in get_args(Within):
        raise InvalidConfiguration(f"within is {within!r}, want one of {get_args(Within)}")
    folder = Path(directory)
    files = (folder / flavors, folder / durations, folder / flavor_map, folder / interval_map)
    return VmStream2017(files, slot_seconds, within, seed)
