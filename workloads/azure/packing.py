"""The Azure Traces for Packing 2020: 5.6 million virtual machines of one zone over 14 days.

The trace is one SQLite file, ``packing_trace_zone_a_v1.sqlite``, with two tables. ``vm`` has a row per virtual
machine: ``vmId``, ``tenantId``, ``vmTypeId``, ``priority`` (0 is high; 1 is low: it may be evicted), ``starttime`` and
``endtime`` in days since the collection began. ``vmType`` has a row per VM type and machine type that can
host it, with the fractions ``core`` and ``memory`` of such a machine. The number of cores per machine is not stated.

Virtual machines are read in order of start. SQLite sorts them (in temporary files, a few hundred megabytes
for the whole trace), and only one at a time is in memory. Irregular rows are repaired or dropped, and counted in a
`VmReport`; `VmReason` explains the reasons:

* Virtual machines that started before the collection have a negative start, which is moved to the beginning.
* A few thousand have a start about 7,157 days earlier, which is impossible (Azure was ten years old) and thus unknown.
* An ``endtime`` of NULL means that they still ran 90 days after the beginning, the last known time.
* VM types without a row in ``vmType`` have no size.

Reference: O. Hadary et al., "Protean: VM allocation service at scale", OSDI 2020;
https://github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from desim.checks import check_choice, check_float
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads.azure.vms import VirtualMachine, VmReason, VmReport
from desim.workloads.files import Pathish, open_binary
from desim.workloads.json_fields import short_repr

__all__ = ["DAYS", "LAST_DAY", "VmStream", "read_vms"]

#: First and last day of the collection.
DAYS = (0.0, 14.0)
#: Last day with known ends.
LAST_DAY = 90.0

#: First day of Azure, ten years before the collection: earlier starts are invalid.
_EARLIEST_DAY = -3650.0
_SECONDS = 86_400.0

_MAGIC = b"SQLite format 3\x00"
_COLUMNS = {
    "vm": ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime"),
    "vmType": ("vmTypeId", "machineId", "core", "memory"),
}
#: Largest id: ids pass through arrays of floats, which are exact only for integers up to this one.
_LARGEST_ID = 2**53

AliveBefore = Literal["clip", "drop"]
Size = tuple[float, float]


class VmStream:
    """Iterable over the virtual machines of a packing trace in order of start; each iteration reads the file again.

    Parameters
    ----------
    path, days, slot_seconds, priority, machine, alive_before : path, tuple, float, object, object, bool
        Arguments of `read_vms`, which creates the object.

    Attributes
    ----------
    report : VmReport
        Counts of the latest iteration, complete when it ends.
    """

    def __init__(
        self,
        path: Pathish,
        *,
        days: tuple[float, float],
        slot_seconds: float,
        priority: int | None,
        machine: Size,
        alive_before: AliveBefore,
    ) -> None:
        first, last = (check_float(f"days[{at}]", day, least=0) for at, day in enumerate(days))
        if not first < last:
            raise InvalidConfiguration(f"days: got {days!r}, expected a first day before the last")
        if priority is not None and (not isinstance(priority, int | np.integer) or isinstance(priority, bool)):
            raise InvalidConfiguration(f"priority: got {priority!r}, expected an integer (0 high, 1 low) or None")
        check_choice("alive_before", alive_before, get_args(AliveBefore))
        self.path = path
        self.report = VmReport()
        self._days = first, last
        self._slots_a_day = _SECONDS / check_float("slot_seconds", slot_seconds, above=0)
        self._priority = priority
        self._machine = (
            check_float("cores_per_machine", machine[0], above=0),
            check_float("memory_per_machine", machine[1], above=0),
        )
        self._drops_early = alive_before == "drop"
        with _open(path):
            pass

    def __iter__(self) -> Iterator[VirtualMachine]:
        """Iterate over the virtual machines, from the start of the file."""
        self.report = report = VmReport()
        with _open(self.path) as file:
            sizes = self._sizes(file, report)
            for row in file.vms():
                if row.start is not None and row.start >= self._days[1]:
                    break
                report.rows += 1
                machine = self._machine_of(row, sizes, report)
                if machine is not None:
                    report.vms += 1
                    yield machine
        if not report.vms:
            found = report.summary()
            raise WorkloadError(
                f"{os.fspath(self.path)}: no usable virtual machine{f'; dropped: {found}' if found else ''}"
            )

    def _sizes(self, file: _File, report: VmReport) -> dict[int, Size]:
        """Return cores and memory of every VM type: the largest fractions over the machine types that can host it."""
        hosts: dict[int, dict[int, Size]] = {}
        for row in file.types():
            if row.core is None or row.memory is None or not 0 < row.core <= 1 or not 0 <= row.memory <= 1:
                report.add(VmReason.UNUSABLE_TYPE_ROW, [row.type_id])
                continue
            size = (row.core, row.memory)
            known = hosts.setdefault(row.type_id, {})
            if row.machine_id in known:
                report.add(VmReason.REPEATED_TYPE_ROW, [row.type_id])
            known[row.machine_id] = max(size, known.get(row.machine_id, size))
        sizes = {}
        for type_id, by_machine in hosts.items():
            cores, memory = zip(*by_machine.values(), strict=True)
            sizes[type_id] = max(cores) * self._machine[0], max(memory) * self._machine[1]
        return sizes

    def _machine_of(self, row: _VmRow, sizes: dict[int, Size], report: VmReport) -> VirtualMachine | None:
        """Return the virtual machine of a row, or None if it is dropped; count the reasons."""
        reason = self._fault(row, sizes)
        if reason is not None:
            report.add(reason, [row.vm_id])
            return None
        first, last = self._days
        start, end = row.start or 0.0, row.end
        if start < first:
            report.add(VmReason.CLIPPED_START, [row.vm_id])
            start = first
        if end is None:
            report.add(VmReason.ASSUMED_END, [row.vm_id])
            end = LAST_DAY
        if end > last:
            report.add(VmReason.LATE_END, [row.vm_id])
        return VirtualMachine(
            row.vm_id,
            (start - first) * self._slots_a_day,
            (end - first) * self._slots_a_day,
            *sizes[row.type_id],
            row.priority,
            -1 if row.tenant_id is None else row.tenant_id,
        )

    def _fault(self, row: _VmRow, sizes: dict[int, Size]) -> VmReason | None:
        """Return the reason why a row is dropped, or None; the first that applies, in the order of VmReason."""
        start, end = row.start, LAST_DAY if row.end is None else row.end
        if start is None or start < _EARLIEST_DAY:
            return VmReason.UNKNOWN_START
        faults = (
            (row.type_id not in sizes, VmReason.UNKNOWN_TYPE),
            (end <= start, VmReason.ENDED_BEFORE_START),
            (end <= self._days[0], VmReason.ENDED_BEFORE_WINDOW),
            (start < self._days[0] and self._drops_early, VmReason.ALREADY_ALIVE),
            (self._priority is not None and row.priority != self._priority, VmReason.OTHER_PRIORITY),
        )
        return next((reason for wrong, reason in faults if wrong), None)


def read_vms(
    path: Pathish,
    *,
    days: tuple[float, float] = DAYS,
    slot_seconds: float = 300.0,
    priority: int | None = None,
    cores_per_machine: float = 48.0,
    memory_per_machine: float = 1.0,
    alive_before: AliveBefore = "clip",
) -> VmStream:
    """Open a packing trace whose virtual machines are read one by one while they are used.

    Parameters
    ----------
    path : str or path-like
        SQLite file of the trace.
    days : tuple of two floats
        Beginning and end of the period to read, in days since the collection began; slots count from its beginning.
    slot_seconds : float
        Length of a slot in seconds.
    priority : int, optional
        Priority to keep, 0 (high) or 1 (low). By default, both are kept.
    cores_per_machine : float
        Cores of a machine, by which the fractions of `vmType` are multiplied; the largest fraction counts if several
        machine types can host a VM type. The default is 48, because the smallest VM types take 1/48 of machine
        type 0.
    memory_per_machine : float
        Memory of a machine, in any unit. With the default, memory is measured in machines.
    alive_before : {"clip", "drop"}
        Treatment of virtual machines that started before the period: move their start to its beginning, or drop them.

    Returns
    -------
    VmStream
        Iterable over the virtual machines in order of start, any number of times.

    Raises
    ------
    WorkloadError
        Immediately, if the file cannot be read, is not an SQLite file or lacks a table or column; while iterating, for
        a value that is not a number, naming table, row and column; and at the end, if no virtual machine was usable.
    InvalidConfiguration
        If an option is out of range.
    """
    return VmStream(
        path,
        days=days,
        slot_seconds=slot_seconds,
        priority=priority,
        machine=(cores_per_machine, memory_per_machine),
        alive_before=alive_before,
    )


class _VmRow(NamedTuple):
    """Row of ``vm``; times in days, None for NULL."""

    vm_id: int
    tenant_id: int | None
    type_id: int
    priority: int
    start: float | None
    end: float | None


class _TypeRow(NamedTuple):
    """Row of ``vmType``; fractions of a machine, None for NULL."""

    type_id: int
    machine_id: int
    core: float | None
    memory: float | None


@contextmanager
def _open(path: Pathish) -> Iterator[_File]:
    """Open a packing trace for reading, and check its tables and columns."""
    source = os.fspath(path)
    with open_binary(path) as unpacked:
        head, is_packed = unpacked.read(len(_MAGIC)), not unpacked.seekable()
    if is_packed:
        raise WorkloadError(f"{source}: is compressed, expected an SQLite file; try to unpack it")
    if head != _MAGIC:
        raise WorkloadError(f"{source}: is not an SQLite file")
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            # Sorting millions of rows needs files, beyond a few megabytes
            connection.execute("PRAGMA temp_store = FILE")
            connection.execute("PRAGMA cache_size = -32768")
            file = _File(source, connection)
            file.check()
            yield file
    except sqlite3.Error as error:
        raise WorkloadError(f"{source}: cannot be read as an SQLite file: {error}") from error


class _File:
    """Open packing trace."""

    def __init__(self, source: str, connection: sqlite3.Connection) -> None:
        self.source = source
        self._connection = connection

    def check(self) -> None:
        """Raise WorkloadError unless all tables and columns exist."""
        for table, columns in _COLUMNS.items():
            found = {str(row[1]).lower() for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
            if not found:
                raise WorkloadError(f"{self.source}: has no table {table}")
            for column in columns:
                if column.lower() not in found:
                    raise WorkloadError(f"{self.source}: table {table} has no column {column}")

    def types(self) -> Iterator[_TypeRow]:
        """Yield the rows of ``vmType``, in the order of the file."""
        for row in self._rows("vmType", ""):
            type_id, machine_id, core, memory = row
            yield _TypeRow(
                self._whole("vmType", "vmTypeId", row, type_id),
                self._whole("vmType", "machineId", row, machine_id),
                self._number("vmType", "core", row, core),
                self._number("vmType", "memory", row, memory),
            )

    def vms(self) -> Iterator[_VmRow]:
        """Yield the rows of ``vm`` in order of start; ties are in order of id.

        SQLite sorts them, on disk if they are many.
        """
        # Sort as numbers, whatever the declared type; text sorts as 0 and is refused when it is read
        for row in self._rows("vm", "ORDER BY CAST(starttime AS REAL), CAST(vmId AS INTEGER)"):
            vm_id, tenant_id, type_id, priority, start, end = row
            yield _VmRow(
                self._whole("vm", "vmId", row, vm_id),
                None if tenant_id is None or tenant_id == "" else self._whole("vm", "tenantId", row, tenant_id),
                self._whole("vm", "vmTypeId", row, type_id),
                self._whole("vm", "priority", row, priority),
                self._number("vm", "starttime", row, start),
                self._number("vm", "endtime", row, end),
            )

    def _rows(self, table: str, order: str) -> Iterator[tuple[Any, ...]]:
        columns = ", ".join(f'"{column}"' for column in _COLUMNS[table])
        return iter(self._connection.execute(f'SELECT {columns} FROM "{table}" {order}'))

    def _number(self, table: str, column: str, row: tuple[Any, ...], value: object) -> float | None:
        """Return a value as a number, None for NULL or for empty text, which an imported NULL becomes."""
        if type(value) is float and math.isfinite(value):
            return value
        if value is None or value == "":
            return None
        try:
            number = math.nan if isinstance(value, bytes) else float(cast(Any, value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._error(table, column, row, value, "a finite number")
        return number

    def _whole(self, table: str, column: str, row: tuple[Any, ...], value: object) -> int:
        if type(value) is int and -_LARGEST_ID <= value <= _LARGEST_ID:
            return value
        number = self._number(table, column, row, value)
        if number is None or number != math.floor(number) or abs(number) > _LARGEST_ID:
            raise self._error(table, column, row, value, "an integer")
        return int(number)

    def _error(self, table: str, column: str, row: tuple[Any, ...], value: object, wanted: str) -> WorkloadError:
        key = _COLUMNS[table][0]
        got = "NULL" if value is None else short_repr(value)
        return WorkloadError(
            f"{self.source}: table {table}: {key} {row[0]!r}: column {column}: got {got}, expected {wanted}"
        )
