"""The SQLite file of the packing trace: opened for reading, checked, and read row by row."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from desim.exceptions import WorkloadError
from desim.workloads._files import Pathish

__all__ = ["PackingFile", "TypeRow", "VmRow", "open_packing_file"]

_MAGIC = b"SQLite format 3\x00"
_COLUMNS = {
    "vm": ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime"),
    "vmType": ("vmTypeId", "machineId", "core", "memory"),
}
#: Identifiers pass through arrays of floats, which hold whole numbers exactly up to here.
_LARGEST_ID = 2**53


class VmRow(NamedTuple):
    """A row of ``vm``, times in days, None where NULL."""

    vm_id: int
    tenant_id: int | None
    type_id: int
    priority: int
    start: float | None
    end: float | None


class TypeRow(NamedTuple):
    """A row of ``vmType``, fractions of a machine, None where NULL."""

    type_id: int
    machine_id: int
    core: float | None
    memory: float | None


@contextmanager
def open_packing_file(path: Pathish) -> Iterator[PackingFile]:
    """Open a packing trace; whatever SQLite complains about inside becomes a WorkloadError.

    Parameters
    ----------
    path : str or path-like
        The file; it is not written to.

    Yields
    ------
    PackingFile
        Its tables and columns are there.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is not an SQLite file, is damaged, or lacks a table or column.
    """
    source = os.fspath(path)
    _check_magic(source, path)
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            # Millions of rows are sorted: in files beyond a few megabytes
            connection.execute("PRAGMA temp_store = FILE")
            connection.execute("PRAGMA cache_size = -32768")
            file = PackingFile(source, connection)
            file.check()
            yield file
    except sqlite3.Error as error:
        raise WorkloadError(f"{source}: cannot be read as an SQLite file: {error}") from error


def _check_magic(source: str, path: Pathish) -> None:
    try:
        with Path(path).open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        raise WorkloadError(f"{source}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise WorkloadError(f"{source!r}: cannot be read: {error}") from error
    if head != _MAGIC:
        packed = head.startswith((b"PK", b"\x1f\x8b"))
        raise WorkloadError(f"{source}: is not an SQLite file{', but packed: unpack it' if packed else ''}")


class PackingFile:
    """An open packing trace.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    connection : sqlite3.Connection
        To the file.
    """

    def __init__(self, source: str, connection: sqlite3.Connection) -> None:
        self.source = source
        self._connection = connection

    def check(self) -> None:
        """Raise WorkloadError unless the tables and columns are there."""
        for table, columns in _COLUMNS.items():
            found = {str(row[1]).lower() for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
            if not found:
                raise WorkloadError(f"{self.source}: has no table {table}")
            for column in columns:
                if column.lower() not in found:
                    raise WorkloadError(f"{self.source}: table {table} has no column {column}")

    def types(self) -> Iterator[TypeRow]:
        """Yield the rows of ``vmType``, in the order of the file."""
        for row in self._rows("vmType", ""):
            type_id, machine_id, core, memory = row
            yield TypeRow(
                self._whole("vmType", "vmTypeId", row, type_id),
                self._whole("vmType", "machineId", row, machine_id),
                self._number("vmType", "core", row, core),
                self._number("vmType", "memory", row, memory),
            )

    def vms(self) -> Iterator[VmRow]:
        """Yield the rows of ``vm`` in the order of their starts, those of one start by identifier.

        SQLite sorts them, on disk if they are many.
        """
        # As numbers, whatever the column was declared as; what is no number sorts as 0 and is refused when it comes
        for row in self._rows("vm", "ORDER BY CAST(starttime AS REAL), CAST(vmId AS INTEGER)"):
            vm_id, tenant_id, type_id, priority, start, end = row
            yield VmRow(
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
        """Return a number, None for NULL and for the empty text that an imported NULL becomes."""
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
            raise self._error(table, column, row, value, "a whole number")
        return int(number)

    def _error(self, table: str, column: str, row: tuple[Any, ...], value: object, wanted: str) -> WorkloadError:
        key = _COLUMNS[table][0]
        shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:37]}..."
        return WorkloadError(
            f"{self.source}: table {table}: {key} {row[0]!r}: column {column}: got {shown}, want {wanted}"
        )
