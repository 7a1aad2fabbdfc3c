"""The Azure Traces for Packing 2020: 5.6 million virtual machines of one zone in 14 days.

The trace is one SQLite file, ``packing_trace_zone_a_v1.sqlite``, with two tables. ``vm`` has a row for each virtual
machine: ``vmId``, ``tenantId``, ``vmTypeId``, ``priority`` (0 is high; 1 is low: it may be evicted), ``starttime`` and
``endtime`` in days since the collection began. ``vmType`` has a row for each VM type and each machine type that can
host it, with the fractions ``core`` and ``memory`` of such a machine. Nothing tells how many cores a machine has.

Virtual machines are read in the order of their starts; SQLite sorts them (in temporary files, a few hundred megabytes
for the whole trace), and no more than one is in memory. What is odd about them is repaired or dropped, and counted in a
`VmReport`; what its reasons mean stands in `VmReason`:

* those that were there when the collection began have a negative start, and get the beginning instead;
* a few thousand have a start about 7,157 days before that, which cannot be one (Azure was ten years old): unknown;
* an ``endtime`` that is NULL means that they were still there 90 days after the beginning, the last that is known;
* VM types without a row in ``vmType`` have no size.

Reference: O. Hadary et al., "Protean: VM allocation service at scale", OSDI 2020;
https://github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads._files import Pathish
from desim.workloads._named_streams import interval, number
from desim.workloads.azure._packing_file import VmRow, open_packing_file
from desim.workloads.azure._vm_types import Share, Sizing
from desim.workloads.azure.machine import VirtualMachine
from desim.workloads.azure.report import VmReason, VmReport

__all__ = ["DAYS", "LAST_DAY", "VmStream", "read_vms"]

#: The collection, in days.
DAYS = (0.0, 14.0)
#: Ends are known up to this day.
LAST_DAY = 90.0

#: Azure opened ten years before the collection: an earlier start is none.
_EARLIEST_DAY = -3650.0
_SECONDS = 86_400.0

Treatment = Literal["clip", "drop"]
LateEnd = Literal["keep", "clip"]


@dataclass(frozen=True)
class _Rules:
    """Which virtual machines to keep, and how to place them in time; the parameters are those of `read_vms`."""

    days: tuple[float, float]
    slot_seconds: float
    priority: int | None
    alive_before: Treatment
    unknown_start: Treatment
    late_end: LateEnd

    def __post_init__(self) -> None:
        """Check every option."""
        if interval("days", self.days)[0] == self.days[1]:
            raise InvalidConfiguration(f"days is {self.days!r}, want a first day before the last")
        number("slot_seconds", self.slot_seconds, above=True)
        for name, choices in (("alive_before", Treatment), ("unknown_start", Treatment), ("late_end", LateEnd)):
            if getattr(self, name) not in get_args(choices):
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want one of {get_args(choices)}")
        wanted = self.priority
        if wanted is not None and (not isinstance(wanted, int | np.integer) or isinstance(wanted, bool)):
            raise InvalidConfiguration(f"priority is {wanted!r}, want a whole number (0 high, 1 low) or None")


class VmStream:
    """The virtual machines of a packing trace in the order of their starts; every iteration reads anew.

    Made by `read_vms`, which documents the parameters.

    Parameters
    ----------
    path : str or path-like
        The file.
    rules : _Rules
        Which to keep.
    sizing : Sizing
        How many cores they have.

    Attributes
    ----------
    report : VmReport
        The books of the latest iteration, complete when it has ended.
    """

    def __init__(self, path: Pathish, rules: _Rules, sizing: Sizing) -> None:
        self.path = path
        self.report = VmReport()
        self._rules = rules
        self._sizing = sizing
        with open_packing_file(path):
            pass

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Read the file from its start."""
        self.report = report = VmReport()
        with open_packing_file(self.path) as file:
            sizes = self._sizing.read(file, report)
            for row in file.vms():
                if row.start is not None and row.start >= self._rules.days[1]:
                    break
                report.rows += 1
                machine = self._machine(row, sizes, report)
                if machine is not None:
                    report.vms += 1
                    yield machine
        if not report.vms:
            found = report.summary()
            raise WorkloadError(
                f"{os.fspath(self.path)}: holds no usable virtual machine{f' ({found})' if found else ''}"
            )

    def _machine(self, row: VmRow, sizes: dict[int, tuple[float, float]], report: VmReport) -> VirtualMachine | None:
        """Return a virtual machine, or None and count why there is none."""
        reason = self._fault(row, sizes)
        if reason is not None:
            report.add(reason, [row.vm_id])
            return None
        first, last = self._rules.days
        start, end = row.start, row.end
        if start is None or start < _EARLIEST_DAY:
            report.add(VmReason.ASSUMED_START, [row.vm_id])
            start = first
        elif start < first:
            report.add(VmReason.CLIPPED_START, [row.vm_id])
            start = first
        if end is None:
            report.add(VmReason.ASSUMED_END, [row.vm_id])
            end = LAST_DAY
        if end > last:
            clip = self._rules.late_end == "clip"
            report.add(VmReason.CLIPPED_END if clip else VmReason.LATE_END, [row.vm_id])
            end = last if clip else end
        slots_a_day = _SECONDS / self._rules.slot_seconds
        return VirtualMachine(
            row.vm_id,
            (start - first) * slots_a_day,
            (end - first) * slots_a_day,
            *sizes[row.type_id],
            row.priority,
            -1 if row.tenant_id is None else row.tenant_id,
        )

    def _fault(self, row: VmRow, sizes: dict[int, tuple[float, float]]) -> VmReason | None:
        """Return why a row is to be dropped; the order of the questions is that of the reasons."""
        rules, first = self._rules, self._rules.days[0]
        unknown = row.start is None or row.start < _EARLIEST_DAY
        start = first if row.start is None else row.start
        end = LAST_DAY if row.end is None else row.end
        faults = (
            (unknown and rules.unknown_start == "drop", VmReason.UNKNOWN_START),
            (row.type_id not in sizes, VmReason.UNKNOWN_TYPE),
            (row.start is not None and end <= row.start, VmReason.ENDED_BEFORE_START),
            (end <= first, VmReason.ENDED_BEFORE_WINDOW),
            (not unknown and start < first and rules.alive_before == "drop", VmReason.ALREADY_ALIVE),
            (rules.priority is not None and row.priority != rules.priority, VmReason.OTHER_PRIORITY),
        )
        return next((reason for wrong, reason in faults if wrong), None)


def read_vms(
    path: Pathish,
    *,
    days: tuple[float, float] = DAYS,
    slot_seconds: float = 300.0,
    priority: int | None = None,
    machine_id: int | None = None,
    share: Share = "largest",
    cores_per_machine: float = 48.0,
    memory_per_machine: float = 1.0,
    whole_cores: bool = False,
    alive_before: Treatment = "clip",
    unknown_start: Treatment = "drop",
    late_end: LateEnd = "keep",
) -> VmStream:
    """Open a packing trace whose virtual machines are read while they are used.

    Parameters
    ----------
    path : str or path-like
        The SQLite file.
    days : tuple of two floats
        The first and the last moment that are read, in days since the collection began; slots count from the first.
    slot_seconds : float
        Length of a slot in seconds.
    priority : int, optional
        Keep only those of this priority, 0 (high) or 1 (low).
    machine_id : int, optional
        The machine type whose fractions count; a VM type that it cannot host has no size. Without, `share` decides.
    share : {"largest", "mean"}
        Which of the fractions counts where several machine types can host a VM type: the largest, as if it were placed
        where it takes the most, or their mean.
    cores_per_machine : float
        Cores of a machine, by which fractions are multiplied. By default 48: the smallest VM types take 1/48 of machine
        type 0.
    memory_per_machine : float
        Memory of a machine, in any unit. By default the memory is in machines.
    whole_cores : bool
        Round cores up to a whole number, but for what is lost in the few published digits.
    alive_before : {"clip", "drop"}
        Let those that were there before the first moment begin then, or leave them out.
    unknown_start : {"clip", "drop"}
        The same for those whose start is unknown.
    late_end : {"keep", "clip"}
        Let those that were there after the last moment end as they did, or then.

    Returns
    -------
    VmStream
        To iterate over, any number of times; virtual machines in the order of their starts.

    Raises
    ------
    WorkloadError
        At once, if the file cannot be read, is no SQLite file or lacks a table or column; while iterating, for a value
        that is no number, naming table, row and column, and at the end if there was no usable virtual machine.
    InvalidConfiguration
        If an option is out of range.
    """
    rules = _Rules(days, slot_seconds, priority, alive_before, unknown_start, late_end)
    return VmStream(path, rules, Sizing(machine_id, share, cores_per_machine, memory_per_machine, whole_cores))
