"""Made-up files of Azure's traces, and the rules of the packing trace told once more."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

VM_COLUMNS = "vmId INTEGER, tenantId INTEGER, vmTypeId INTEGER, priority INTEGER, starttime REAL, endtime REAL"
TYPE_COLUMNS = "id INTEGER, vmTypeId INTEGER, machineId INTEGER, core REAL, memory REAL, hdd REAL, ssd REAL, nic REAL"

#: VM types 0 to 3 on machine types 0 and 1: (vmTypeId, machineId, core, memory).
TYPES = [(0, 0, 1 / 48, 0.01), (0, 1, 1 / 96, 0.02), (1, 0, 0.5, 0.25), (2, 1, 0.125, 0.5), (3, 0, 0.0208333, 0.0)]

Row = Sequence[Any]


def packing_file(
    path: Path,
    vms: Iterable[Row],
    types: Iterable[Row] = TYPES,
    vm_columns: str = VM_COLUMNS,
    type_columns: str = TYPE_COLUMNS,
) -> Path:
    """Write (vmId, tenantId, vmTypeId, priority, starttime, endtime) and (vmTypeId, machineId, core, memory)."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE vm ({vm_columns})")
        connection.execute(f"CREATE TABLE vmType ({type_columns})")
        connection.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", vms)
        numbered = ((number, *row, None, 0.1, 0.1) for number, row in enumerate(types))
        connection.executemany("INSERT INTO vmType VALUES (?, ?, ?, ?, ?, ?, ?, ?)", numbered)
    return path


def vm(vm_id: int, start: Any, end: Any, type_id: Any = 0, priority: Any = 0, tenant: Any = 5) -> Row:
    return (vm_id, tenant, type_id, priority, start, end)


def restated(
    vms: Iterable[Row],
    types: Iterable[Row],
    *,
    days: tuple[float, float] = (0.0, 14.0),
    slot_seconds: float = 300.0,
    priority: int | None = None,
    cores_per_machine: float = 48.0,
    memory_per_machine: float = 1.0,
    alive_before: str = "clip",
) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """Return what is to be read from rows, slowly and one question after the other, and how often what happened."""
    counts: Counter[str] = Counter()
    sizes: dict[int, dict[int, tuple[float, float]]] = {}
    for type_id, machine, core, memory in types:
        if core is None or memory is None or core <= 0 or core > 1 or memory < 0 or memory > 1:
            counts["unusable_type_row"] += 1
            continue
        if machine in sizes.get(type_id, {}):
            counts["repeated_type_row"] += 1
            if (core, memory) < sizes[type_id][machine]:
                continue
        sizes.setdefault(type_id, {})[machine] = (core, memory)
    kept = []
    for vm_id, tenant, type_id, importance, start, end in vms:
        if start is not None and start >= days[1]:
            continue
        counts["rows"] += 1
        unknown = start is None or start < -3650
        hosts = sizes.get(type_id, {})
        stop = 90.0 if end is None else end
        if unknown:
            counts["unknown_start"] += 1
        elif not hosts:
            counts["unknown_type"] += 1
        elif start is not None and stop <= start:
            counts["ended_before_start"] += 1
        elif stop <= days[0]:
            counts["ended_before_window"] += 1
        elif start < days[0] and alive_before == "drop":
            counts["already_alive"] += 1
        elif priority is not None and importance != priority:
            counts["other_priority"] += 1
        else:
            began = max(start, days[0])
            counts["clipped_start"] += start < days[0]
            counts["assumed_end"] += end is None
            counts["late_end"] += stop > days[1]
            core, memory = map(max, zip(*hosts.values(), strict=True))
            size = (core * cores_per_machine, memory * memory_per_machine)
            slots = [(day - days[0]) * 24 * 3600 / slot_seconds for day in (began, stop)]
            kept.append(((start, vm_id), (vm_id, *slots, *size, importance, -1 if tenant is None else tenant)))
    return [values for _, values in sorted(kept)], +counts
