"""Tables that a run of a multi-server cluster records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.checks import MOST_ITEMS
from desim.tables import Column, Table, turnaround_time, waiting_time

__all__ = ["ALLOCATIONS", "CHANNELS", "INFO", "JOBS", "NODES", "PORTS", "SLOTS", "STATUSES", "TABLES"]

STATUSES = ("completed", "unserved", "running", "queued")
STARTED = ("completed", "running")
ENDED = ("completed",)

INFO = (
    Column("holding", "boolean", "whether jobs hold resources until their work is done, instead of lasting one slot"),
    Column("num_ports", "integer", "number of job types", least=1, most=MOST_ITEMS),
    Column("num_nodes", "integer", "number of machines", least=1, most=MOST_ITEMS),
    Column("num_channels", "integer", "number of pairs of a port and a node that serves it", least=0),
    Column("resources", "texts", "names of the resources"),
    Column("overhead", "floats", "coefficients of the communication overhead"),
    Column("total_capacity", "floats", "total capacity of all nodes, by resource"),
    Column("jobs_per_port", "integer", "largest number of jobs of a type served, or started, per slot", least=1),
    Column("record_allocations", "integer", "interval of recorded allocations in slots; 0 for none", least=0),
)

#: Values recorded for a group of jobs, in this order: arrays of one length, or one value for all. Names are recorded as
#: indices.
REAL = ("submission_time", "starting_time", "finish_time", "work", "gain", "overhead")
RECORDED = ("job_id", "port", *REAL, "dominant_resource", "status")


def _pack_jobs(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    counts = [len(row[0]) for row in rows]
    columns = {}
    for index, name in enumerate(RECORDED):
        dtype = np.float64 if name in REAL else np.int64
        values = [row[index] for row in rows]
        if any(isinstance(value, np.ndarray) for value in values):
            pairs = zip(values, counts, strict=True)
            parts = [value if isinstance(value, np.ndarray) else np.full(count, value) for value, count in pairs]
            columns[name] = np.concatenate(parts).astype(dtype, copy=False)
        else:  # one value for all jobs of each row, the most common case
            columns[name] = np.repeat(np.array(values, dtype=dtype), counts)
    return columns


def _pack_allocations(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Convert rows (slot, jobs of channels, channels, amounts per resource, layout) to columns, without zeros."""
    if not rows:
        return dict.fromkeys(("slot", "job_id", "port", "component", "node", "resource", "amount"), ())
    slots, jobs, channels, parts, layouts = zip(*rows, strict=True)
    amounts, layout = np.concatenate(parts), layouts[0]
    given = amounts != 0
    counts = np.count_nonzero(given, axis=1)
    channel = np.concatenate(channels)
    resources = np.arange(amounts.shape[1], dtype=np.uint32)
    ports = layout.graph.channel_port

    def places(of_channels: NDArray[Any]) -> NDArray[np.uint32]:
        """Return an index for every amount, as 32-bit numbers to save memory."""
        return np.repeat(of_channels.astype(np.uint32)[channel], counts)

    return {
        "slot": np.repeat(np.repeat(np.array(slots, dtype=np.int64), [len(part) for part in parts]), counts),
        "job_id": np.repeat(np.concatenate(jobs), counts),
        "port": places(layout.type_of[layout.seat_of_channel]),
        "component": places(layout.component_of[ports]),
        "node": places(layout.graph.channel_node),
        "resource": np.broadcast_to(resources, amounts.shape)[given],
        "amount": amounts[given],
    }


def _pack_by_resource(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Convert rows (column of the names, names, tables by column) to columns; there is at most one row."""
    if not rows:
        return dict.fromkeys(("port", "node", "resource", "request", "capacity", "utility", "weight"), ())
    ((column, names, tables),) = rows
    return {
        column: np.repeat(np.array(names), len(info["resources"])),
        "resource": np.tile(np.array(info["resources"]), len(names)),
        **{name: table.ravel() for name, table in tables.items()},
    }


JOBS = Table(
    "jobs",
    "a job that arrived",
    (
        Column("job_id", "integer", "number of the job, in order of arrival", least=0),
        Column("port", "text", "job type"),
        Column("submission_time", "float", "time of arrival", "slots", least=0),
        Column("starting_time", "float", "slot in which the job started", "slots", given=STARTED),
        Column("finish_time", "float", "time at which the job ended", "slots", given=ENDED),
        waiting_time(STARTED, "slots"),
        Column(
            "execution_time",
            "float",
            "time from start to end",
            "slots",
            given=ENDED,
            formula="finish_time - starting_time",
        ),
        turnaround_time(ENDED, "slots"),
        Column("work", "float", "work to be done, in units of reward times slots", null="if jobs last one slot"),
        Column("gain", "float", "gain by parallel computation, per slot"),
        Column("overhead", "float", "dominant communication overhead, per slot"),
        Column("reward", "float", "gain minus overhead", formula="gain - overhead"),
        Column("dominant_resource", "text", "resource with the largest overhead"),
        Column(
            "status",
            "text",
            "state at the end of the run: completed; unserved, as it got nothing in its one slot; running; or queued",
            values=STATUSES,
        ),
        Column("success", "boolean", "whether the job has completed", formula="status = 'completed'"),
        Column("arrival_number", "integer", "same as job_id", formula="job_id", least=0),
    ),
    sort_by=("submission_time", "job_id"),
    chunk_rows=16_384,
    pack=_pack_jobs,
)

SLOTS = Table(
    "slots",
    "a slot that has begun",
    (
        Column("slot", "integer", "number of the slot, from 0"),
        Column("arrived", "integer", "jobs that arrived for the slot", "jobs"),
        Column("queued", "integer", "jobs still waiting after the slot has begun", "jobs"),
        Column("running", "integer", "jobs running then", "jobs"),
        Column("gain", "float", "gain of the running jobs, time average over the slot"),
        Column("overhead", "float", "overhead of the running jobs, time average over the slot"),
        Column("reward", "float", "gain minus overhead", formula="gain - overhead"),
        Column(
            "allocated_{}",
            "float",
            "amount of a resource that running jobs hold, time average over the slot",
            each="resources",
        ),
        Column("reserved_{}", "float", "total amount of the resource that the agent has allocated", each="resources"),
    ),
    sort_by=("slot",),
)

ALLOCATIONS = Table(
    "allocations",
    "an amount of a resource that a node gave to a job when it started",
    (
        Column("slot", "integer", "slot of the start", "slots"),
        Column("job_id", "integer", "number of the job, equal to its arrival number"),
        Column("port", "text", "job type"),
        Column("component", "integer", "component of the job, 0 without gangs", least=0),
        Column("node", "text", "name of the node"),
        Column("resource", "text", "name of the resource"),
        Column("amount", "float", "amount of the resource"),
        Column("arrival_number", "integer", "arrival number of the job", formula="job_id"),
    ),
    sort_by=("slot", "job_id"),
    chunk_rows=1 << 20,
    pack=_pack_allocations,
)

PORTS = Table(
    "ports",
    "a job type and a resource",
    (
        Column("port", "text", "job type"),
        Column("resource", "text", "name of the resource"),
        Column("request", "float", "largest amount that a job takes through one channel"),
    ),
    pack=_pack_by_resource,
)

NODES = Table(
    "nodes",
    "a machine and a resource",
    (
        Column("node", "text", "name of the machine"),
        Column("resource", "text", "name of the resource"),
        Column("capacity", "float", "capacity of the machine"),
        Column("utility", "text", "name of the utility of allocated amounts"),
        Column("weight", "float", "parameter of the utility"),
    ),
    pack=_pack_by_resource,
)

CHANNELS = Table(
    "channels",
    "a port and a node that serves it",
    (Column("port", "text", "job type"), Column("node", "text", "name of the node")),
)

TABLES = (JOBS, SLOTS, ALLOCATIONS, PORTS, NODES, CHANNELS)
