"""The packing trace: order, units, sizes and repairs, against known answers and a plain restatement of the rules."""

from __future__ import annotations

import hashlib
import tracemalloc
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


def test_slots_may_have_any_length(trace: Any) -> None:
    machine = next(iter(trace(vm(1, 0.5, 1.75), slot_seconds=3600.0)))
    assert (machine.start, machine.end) == (12.0, 42.0)


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


def test_those_alive_before_the_beginning_start_with_it_or_are_dropped(trace: Any) -> None:
    rows = [vm(1, -0.25, 1.0), vm(2, -7157.3, 2.0), vm(3, None, 2.0), vm(4, 0.0, 1.0)]
    found = trace(*rows)
    assert [(machine.vm_id, machine.start) for machine in found] == [(1, 0), (4, 0)]
    assert found.report.counts == {VmReason.UNKNOWN_START: 2, VmReason.CLIPPED_START: 1}
    found = trace(*rows, alive_before="drop")
    assert [machine.vm_id for machine in found] == [4]
    assert found.report.count(VmReason.ALREADY_ALIVE) == 1


def test_an_unknown_end_is_the_last_known_day(trace: Any) -> None:
    found = trace(vm(1, 1.0, None), vm(2, 2.0, 20.0), vm(3, 3.0, 14.0), vm(4, 4.0, ""))
    assert [machine.end / DAY for machine in found] == [90.0, 20.0, 14.0, 90.0]
    assert found.report.counts == {VmReason.ASSUMED_END: 2, VmReason.LATE_END: 3}


def test_some_days_may_be_read(trace: Any) -> None:
    rows = [vm(1, 0.5, 4.0), vm(2, 0.5, 2.0), vm(3, 2.0, 2.5), vm(4, 2.5, 9.0), vm(5, 3.0, 4.0), vm(6, "odd", 1.0)]
    found = trace(*rows[:5], days=(2.0, 3.0))
    assert [(machine.vm_id, machine.start, machine.end) for machine in found] == [
        (1, 0.0, 2 * DAY),
        (3, 0.0, 0.5 * DAY),
        (4, 0.5 * DAY, 7 * DAY),
    ]
    assert found.report.rows == 4  # what begins later is not looked at


def test_the_largest_fraction_counts(trace: Any) -> None:
    def sizes(**options: Any) -> dict[int, tuple[float, float]]:
        rows = [vm(kind, 0.0, 1.0, type_id=kind) for kind in range(4)]
        return {machine.vm_id: (machine.cores, machine.memory) for machine in trace(*rows, **options)}

    assert sizes(cores_per_machine=96) == {0: (2.0, 0.02), 1: (48.0, 0.25), 2: (12.0, 0.5), 3: (0.0208333 * 96, 0.0)}
    assert sizes(memory_per_machine=200) == {0: (1.0, 4.0), 1: (24.0, 50.0), 2: (6.0, 100.0), 3: (0.9999984, 0.0)}


def test_odd_rows_of_types(trace: Any) -> None:
    types = [
        (0, 0, None, 0.1),
        (1, 0, 0.5, None),
        (2, 0, 0.0, 0.1),
        (3, 0, 1.5, 0.1),
        (4, 0, 0.5, -0.1),
        (5, 0, 0.25, 0.1),
        (5, 0, 0.5, 0.05),
        (5, 0, 0.25, 0.5),
        (6, 0, None, 0.1),
        (6, 1, 1.0, 1.0),
    ]
    found = trace(*[vm(kind, 0.0, 1.0, type_id=kind) for kind in range(7)], types=types)
    assert [(machine.vm_id, machine.cores, machine.memory) for machine in found] == [(5, 24.0, 0.05), (6, 48.0, 1.0)]
    assert found.report.counts == {
        VmReason.UNUSABLE_TYPE_ROW: 6,
        VmReason.REPEATED_TYPE_ROW: 2,
        VmReason.UNKNOWN_TYPE: 5,
    }
    assert found.report.places[VmReason.UNUSABLE_TYPE_ROW] == [0, 1, 2, 3, 4]
    assert found.report.rows == found.report.vms + found.report.dropped == 7


def test_one_priority_may_be_read(trace: Any) -> None:
    rows = [vm(number, 0.0, 1.0, priority=number % 2) for number in range(5)]
    found = trace(*rows, priority=1)
    assert [machine.vm_id for machine in found] == [1, 3]
    assert found.report.counts == {VmReason.OTHER_PRIORITY: 3}


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


@settings(max_examples=80, deadline=None)
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
        with pytest.raises(WorkloadError, match="holds no usable virtual machine"):
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
    num_rows = 120_000
    # Starts are shuffled: 7 has no common factor with the number of rows
    rows = (vm(number, (7 * number % num_rows) * 13.0 / num_rows, None, number % 4) for number in range(num_rows))
    found = packing.read_vms(packing_file(tmp_path / "large.sqlite", rows))
    tracemalloc.start()
    latest, count = -1.0, 0
    for machine in islice(found, 30_000):
        assert machine.start >= latest
        latest, count = machine.start, count + 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, latest) == (30_000, pytest.approx(13 / 4 * DAY, rel=1e-3))
    assert peak < 1_000_000  # the rows of the file take 20 times as much


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"days": (3.0, 3.0)}, r"days is \(3.0, 3.0\), want a first day before the last"),
        ({"days": (3.0, 1.0)}, r"days is \(3.0, 1.0\)"),
        ({"days": (-1.0, 3.0)}, r"days\[0\] is -1.0"),
        ({"slot_seconds": 0}, "slot_seconds is 0"),
        ({"priority": True}, "priority is True"),
        ({"priority": "low"}, "priority is 'low'"),
        ({"cores_per_machine": 0}, "cores_per_machine is 0"),
        ({"memory_per_machine": float("nan")}, "memory_per_machine is nan"),
        ({"alive_before": "keep"}, "alive_before is 'keep'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(options: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        packing.read_vms("no such file", **options)
