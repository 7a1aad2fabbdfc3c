"""The packing trace of 2020: rows and types as the rules say, books, and one message for what does not fit."""

from __future__ import annotations

import gzip
import hashlib
import sqlite3
import tracemalloc
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from azure_files import TYPES, packing_file, restated, vm
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads.azure import VirtualMachine, VmReason, packing

DAY = 288.0  # slots of 5 minutes


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    """Return a function that writes rows and opens them."""

    def make(*rows: Any, types: Any = TYPES, **options: Any) -> packing.VmStream:
        path = tmp_path / "trace.sqlite"
        path.unlink(missing_ok=True)
        return packing.read_vms(packing_file(path, rows, types), **options)

    return make


def test_virtual_machines_come_in_the_order_of_their_starts(trace: Any) -> None:
    found = trace(vm(3, 2.0, 3.0), vm(9, 0.5, 1.0, type_id=1, priority=1, tenant=8), vm(1, 2.0, 2.5), vm(2, 1.0, 9.0))
    assert list(found) == [
        VirtualMachine(9, 0.5 * DAY, DAY, 24.0, 0.25, 1, 8),
        VirtualMachine(2, DAY, 9 * DAY, 1.0, 0.02, 0, 5),
        VirtualMachine(1, 2 * DAY, 2.5 * DAY, 1.0, 0.02, 0, 5),
        VirtualMachine(3, 2 * DAY, 3 * DAY, 1.0, 0.02, 0, 5),
    ]
    assert (found.report.rows, found.report.vms, found.report.counts) == (4, 4, {})
    assert [machine.lifetime for machine in found][:2] == [144.0, 8 * DAY]


def test_every_iteration_reads_anew(trace: Any) -> None:
    found = trace(vm(1, 0.0, 1.0), vm(2, -1.0, 1.0))
    first = found.report
    assert list(found) == list(found)
    assert found.report is not first
    assert (found.report.vms, found.report.count(VmReason.CLIPPED_START)) == (2, 1)
    assert [one == other for one, other in zip(found, found, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (vm(1, None, 1.0), VmReason.UNKNOWN_START),
        (vm(1, -7157.0, 1.0), VmReason.UNKNOWN_START),
        (vm(1, 1.0, 2.0, type_id=77), VmReason.UNKNOWN_TYPE),
        (vm(1, 1.0, 1.0), VmReason.ENDED_BEFORE_START),
        (vm(1, 1.0, 0.5), VmReason.ENDED_BEFORE_START),
        (vm(1, -2.0, 0.0), VmReason.ENDED_BEFORE_WINDOW),
    ],
)
def test_what_cannot_be_used_is_dropped_and_counted(trace: Any, row: Any, reason: VmReason) -> None:
    found = trace(row, vm(2, 3.0, 4.0))
    assert [machine.vm_id for machine in found] == [2]
    assert (found.report.counts, found.report.places) == ({reason: 1}, {reason: [1]})
    assert found.report.rows == found.report.vms + found.report.dropped == 2


def test_an_unknown_end_is_the_last_known_day(trace: Any) -> None:
    found = trace(vm(1, 1.0, None), vm(2, 2.0, 20.0), vm(3, 3.0, 14.0), vm(4, 4.0, ""))
    assert [machine.end / DAY for machine in found] == [90.0, 20.0, 14.0, 90.0]
    assert found.report.counts == {VmReason.ASSUMED_END: 2, VmReason.LATE_END: 3}


def test_columns_of_text_that_hold_numbers_are_read(tmp_path: Path) -> None:
    rows = [vm(2, "10.5", "11"), vm(10, "9.5", ""), vm(1, "9.5", "10", tenant="")]
    text = "vmId TEXT, tenantId TEXT, vmTypeId TEXT, priority TEXT, starttime TEXT, endtime TEXT"
    found = list(packing.read_vms(packing_file(tmp_path / "text.sqlite", rows, vm_columns=text)))
    assert [(machine.vm_id, machine.start / DAY, machine.tenant_id) for machine in found] == [
        (1, 9.5, -1),
        (10, 9.5, 5),
        (2, 10.5, 5),
    ]
    assert all(type(machine.vm_id) is type(machine.priority) is int for machine in found)


def test_columns_may_be_in_any_order_and_case(tmp_path: Path) -> None:
    columns = "extra TEXT, ENDTIME REAL, StartTime REAL, priority INTEGER, vmtypeid INTEGER, vmid INTEGER"
    path = packing_file(tmp_path / "odd.sqlite", [("x", 2.0, 1.0, 0, 0, 4)], vm_columns=columns)
    with pytest.raises(WorkloadError, match="table vm has no column tenantId"):
        packing.read_vms(path)
    columns = "ENDTIME REAL, StartTime REAL, priority INTEGER, vmtypeid INTEGER, vmid INTEGER, tenantid INTEGER"
    path = packing_file(tmp_path / "fine.sqlite", [(2.0, 1.0, 0, 0, 4, 7)], vm_columns=columns)
    assert list(packing.read_vms(path)) == [VirtualMachine(4, DAY, 2 * DAY, 1.0, 0.02, 0, 7)]


DAYS = st.one_of(
    st.none(), st.floats(-3, 20).map(lambda day: round(day, 1)), st.sampled_from([-7157.0, -3650.0, 0.0, 2.0, 14.0])
)
FRACTIONS = st.sampled_from([None, -0.1, 0.0, 0.0208333, 0.25, 1 / 3, 0.5, 1.0, 1.01])


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(DAYS, DAYS, st.integers(0, 4), st.integers(0, 1), st.sampled_from([None, 3])), max_size=25),
    types=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), FRACTIONS, FRACTIONS), max_size=12),
    options=st.fixed_dictionaries(
        {},
        optional={
            "days": st.sampled_from([(0.0, 2.0), (1.5, 14.0), (2.0, 3.0)]),
            "slot_seconds": st.sampled_from([60.0, 3600.0]),
            "priority": st.sampled_from([0, 1]),
            "cores_per_machine": st.sampled_from([96.0, 10]),
            "memory_per_machine": st.just(384.0),
            "alive_before": st.sampled_from(["clip", "drop"]),
        },
    ),
)
def test_any_rows_are_read_as_the_rules_say(
    trace: Any, rows: list[Any], types: list[Any], options: dict[str, Any]
) -> None:
    table = [
        vm(100 - at, start, end, kind, priority, tenant) for at, (start, end, kind, priority, tenant) in enumerate(rows)
    ]
    wanted, counts = restated(table, types, **options)
    found = trace(*table, types=types, **options)
    if not wanted:
        with pytest.raises(WorkloadError, match="no usable virtual machine"):
            list(found)
    else:
        got = list(found)
        assert [machine.vm_id for machine in got] == [values[0] for values in wanted]
        for machine, values in zip(got, wanted, strict=True):
            assert tuple(machine) == pytest.approx(values, rel=1e-12, abs=1e-12)
        assert [machine.start for machine in got] == sorted(machine.start for machine in got)
        assert all(0 <= machine.start < machine.end for machine in got)
    report = found.report
    assert {reason.name.lower(): count for reason, count in report.counts.items()} | {"rows": report.rows} == {
        "rows": 0,
        **counts,
    }
    assert report.vms == len(wanted) == report.rows - report.dropped


def test_the_file_is_left_alone(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "a b%20#.sqlite", [vm(1, 0.0, 1.0), vm(2, 1.0, 2.0)])
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    path.chmod(0o444)
    vms = iter(packing.read_vms(path))
    next(vms)
    assert list(tmp_path.iterdir()) == [path]
    assert (len(list(vms)), hashlib.sha256(path.read_bytes()).hexdigest()) == (1, before)


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    num_rows = 40_000
    # Starts are shuffled: 7 has no common factor with the number of rows
    rows = (vm(number, (7 * number % num_rows) * 13.0 / num_rows, None, number % 4) for number in range(num_rows))
    found = packing.read_vms(packing_file(tmp_path / "large.sqlite", rows))
    tracemalloc.start()
    latest, count = -1.0, 0
    for machine in islice(found, 10_000):
        assert machine.start >= latest
        latest, count = machine.start, count + 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, latest) == (10_000, pytest.approx(13 / 4 * DAY, rel=1e-3))
    assert peak < 1_000_000  # the rows of the file take 7 times as much


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"days": (3.0, 3.0)}, r"days: got \(3.0, 3.0\), expected a first day before the last"),
        ({"days": (-1.0, 3.0)}, r"days\[0\]: got -1.0"),
        ({"slot_seconds": 0}, "slot_seconds: got 0"),
        ({"priority": True}, "priority: got True"),
        ({"memory_per_machine": float("nan")}, "memory_per_machine: got nan"),
        ({"alive_before": "keep"}, "alive_before: got 'keep'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(options: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        packing.read_vms("no such file", **options)


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
    path.write_bytes(gzip.compress(b"SQLite format 3\0"))
    assert error_of(path) == f"{path}: is compressed, expected an SQLite file; try to unpack it"
    path.write_bytes(b"PK\3\4 zip")
    assert error_of(path) == f"{path}: is a zip archive, expected a single file; try to unpack it"


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


NO_NUMBER, NO_WHOLE = "expected a finite number", "expected an integer"


@pytest.mark.parametrize(
    ("row", "where", "wanted"),
    [
        (vm(7, 0.5, "never"), "vmId 7: column endtime: got 'never'", NO_NUMBER),
        (vm(7, 0.5, float("inf")), "vmId 7: column endtime: got inf", NO_NUMBER),
        (vm(7, 0.5, 1.0, type_id="D4"), "vmId 7: column vmTypeId: got 'D4'", NO_NUMBER),
        (vm(7, 0.5, 1.0, priority=0.5), "vmId 7: column priority: got 0.5", NO_WHOLE),
        (vm(7, 0.5, 1.0, tenant="x" * 99), f"vmId 7: column tenantId: got '{'x' * 37}...'", NO_NUMBER),
        (("a", 1, 0, 0, 0.5, 1.0), "vmId 'a': column vmId: got 'a'", NO_NUMBER),
    ],
)
def test_a_value_that_is_no_number(tmp_path: Path, row: Any, where: str, wanted: str) -> None:
    columns = "vmId, tenantId, vmTypeId, priority, starttime, endtime"  # as they are, whatever they are
    path = packing_file(tmp_path / "trace", [vm(1, 0.25, 1.0), row], vm_columns=columns)
    assert error_of(path) == f"{path}: table vm: {where}, {wanted}"


def test_nothing_usable(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "trace", [vm(1, 2.0, 1.0), vm(2, 2.0, 1.0), vm(3, None, 1.0)])
    assert error_of(path) == (f"{path}: no usable virtual machine; dropped: 1 unknown_start, 2 ended_before_start")
    path = packing_file(tmp_path / "empty", [])
    assert error_of(path) == f"{path}: no usable virtual machine"
