"""Files that are no packing trace, and values that are no numbers: one message that says where."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from azure_files import TYPES, packing_file, vm

from desim.exceptions import WorkloadError
from desim.workloads.azure import packing


def error_of(path: Path, **options: Any) -> str:
    """Return the only argument of what is raised when a file is read."""
    with pytest.raises(WorkloadError) as caught:
        list(packing.read_vms(path, **options))
    assert len(caught.value.args) == 1
    return str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    assert (
        error_of(tmp_path / "none.sqlite") == f"{tmp_path / 'none.sqlite'}: cannot be read: No such file or directory"
    )
    assert not list(tmp_path.iterdir())  # SQLite would have made one
    assert "Is a directory" in error_of(tmp_path)
    assert "cannot be read" in error_of(Path("a\0b"))


def test_no_sqlite_file(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    for content in (b"", b"vmId,tenantId\n1,2\n", b"SQLite format 3"):
        path.write_bytes(content)
        assert error_of(path) == f"{path}: is not an SQLite file"
    for content in (gzip.compress(b"SQLite format 3\0"), b"PK\3\4 zip"):
        path.write_bytes(content)
        assert error_of(path) == f"{path}: is not an SQLite file, but packed: unpack it"


def test_a_damaged_file(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "trace", [vm(number, number / 1000, 20.0) for number in range(5_000)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert error_of(path).startswith(f"{path}: cannot be read as an SQLite file: ")
    path.write_bytes(whole[:100] + b"\xff" * 4000 + whole[4100:])
    assert error_of(path).startswith(f"{path}: cannot be read as an SQLite file: ")


@pytest.mark.parametrize("table", ["vm", "vmType"])
def test_a_missing_table_or_column(tmp_path: Path, table: str) -> None:
    columns = {"vm": "priority", "vmType": "memory"}
    for change, complaint in (
        (f"DROP TABLE {table}", f"has no table {table}"),
        (f"ALTER TABLE {table} DROP COLUMN {columns[table]}", f"table {table} has no column {columns[table]}"),
    ):
        path = packing_file(tmp_path / f"{change.split()[0]}.sqlite", [vm(1, 0.0, 1.0)])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(change)
        with pytest.raises(WorkloadError, match=complaint) as caught:
            packing.read_vms(path)  # at once, not when it is iterated over
        assert str(caught.value) == f"{path}: {complaint}"


NO_NUMBER, NO_WHOLE = "want a finite number", "want a whole number"


@pytest.mark.parametrize(
    ("row", "where", "wanted"),
    [
        (vm(7, "noon", 1.0), "vmId 7: column starttime: got 'noon'", NO_NUMBER),
        (vm(7, 0.5, "never"), "vmId 7: column endtime: got 'never'", NO_NUMBER),
        (vm(7, 0.5, b"1.0"), "vmId 7: column endtime: got b'1.0'", NO_NUMBER),
        (vm(7, 0.5, float("inf")), "vmId 7: column endtime: got inf", NO_NUMBER),
        (vm(7, float("-inf"), 1.0), "vmId 7: column starttime: got -inf", NO_NUMBER),
        (vm(7, 0.5, "nan"), "vmId 7: column endtime: got 'nan'", NO_NUMBER),
        (vm(7, 0.5, 1.0, type_id="D4"), "vmId 7: column vmTypeId: got 'D4'", NO_NUMBER),
        (vm(7, 0.5, 1.0, type_id=None), "vmId 7: column vmTypeId: got NULL", NO_WHOLE),
        (vm(7, 0.5, 1.0, priority=0.5), "vmId 7: column priority: got 0.5", NO_WHOLE),
        (vm(7, 0.5, 1.0, priority=None), "vmId 7: column priority: got NULL", NO_WHOLE),
        (vm(7, 0.5, 1.0, tenant="x" * 99), f"vmId 7: column tenantId: got '{'x' * 37}...'", NO_NUMBER),
        (vm(7, 0.5, 1.0, tenant=2**60), f"vmId 7: column tenantId: got {2**60}", NO_WHOLE),
        (("a", 1, 0, 0, 0.5, 1.0), "vmId 'a': column vmId: got 'a'", NO_NUMBER),
        ((None, 1, 0, 0, 0.5, 1.0), "vmId None: column vmId: got NULL", NO_WHOLE),
    ],
)
def test_a_value_that_is_no_number(tmp_path: Path, row: Any, where: str, wanted: str) -> None:
    columns = "vmId, tenantId, vmTypeId, priority, starttime, endtime"  # as they are, whatever they are
    path = packing_file(tmp_path / "trace", [vm(1, 0.25, 1.0), row], vm_columns=columns)
    assert error_of(path) == f"{path}: table vm: {where}, {wanted}"


@pytest.mark.parametrize(
    ("row", "where", "wanted"),
    [
        ((9, 0, "half", 0.1), "vmTypeId 9: column core: got 'half'", NO_NUMBER),
        ((9, 0, 0.5, "half"), "vmTypeId 9: column memory: got 'half'", NO_NUMBER),
        ((9, None, 0.5, 0.5), "vmTypeId 9: column machineId: got NULL", NO_WHOLE),
        (("D", 0, 0.5, 0.5), "vmTypeId 'D': column vmTypeId: got 'D'", NO_NUMBER),
    ],
)
def test_a_value_of_a_type_that_is_no_number(tmp_path: Path, row: Any, where: str, wanted: str) -> None:
    path = packing_file(tmp_path / "trace", [vm(1, 0.25, 1.0)], [*TYPES, row])
    assert error_of(path) == f"{path}: table vmType: {where}, {wanted}"


def test_text_that_is_no_text(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "trace", [vm(1, 0.0, 1.0)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO vm SELECT 2, 1, 0, 0, CAST(x'ff80' AS TEXT), 1.0")
    assert error_of(path).startswith(f"{path}: cannot be read as an SQLite file: Could not decode")


def test_nothing_usable(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "trace", [vm(1, 2.0, 1.0), vm(2, 2.0, 1.0), vm(3, None, 1.0)])
    assert error_of(path) == (f"{path}: holds no usable virtual machine (1 unknown_start, 2 ended_before_start)")
    path = packing_file(tmp_path / "empty", [])
    assert error_of(path) == f"{path}: holds no usable virtual machine"
