"""The tables that a run of a multi-server cluster records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.tables import Column, Table, turnaround_time, waiting_time

__all__ = ["ALLOCATIONS", "CHANNELS", "INFO", "JOBS", "NODES", "PORTS", "SLOTS", "STATUSES", "TABLES"]

STATUSES = ("completed", "unserved", "running", "queued")
STARTED = ("completed", "running")
ENDED = ("completed",)

INFO = (
    Column("holding", "boolean", "whether jobs hold what they get until their work is done, instead of one slot"),
    Column("num_ports", "integer", "types of jobs", least=1),
    Column("num_nodes", "integer", "machines", least=1),
    Column("num_channels", "integer", "pairs of a port and a node that serves it", least=0),
    Column("resources", "texts", "names of the resources"),
    Column("overhead", "floats", "coefficients of the communication overhead"),
    Column("total_capacity", "floats", "what all nodes together have"),
    Column("jobs_per_port", "integer", "jobs of a type that can be served, or start, in a slot", least=1),
    Column("record_allocations", "integer", "of every how many slots allocations are recorded; 0 for none", least=0),
)

#: What is recorded of jobs that are recorded together, in this order: arrays of one length, or one value for all.
#: Names are recorded as their places.
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
        else:  # one value for all jobs of each row, as most are
            columns[name] = np.repeat(np.array(values, dtype=dtype), counts)
    return columns


def _pack_allocations(rows: list[tuple[Any, ...]], info: Mapping[str, Any]) -> dict[str, Any]:
    """Take rows (slot, jobs of channels, channels, amounts of each resource, layout) apart; zeros are left out."""
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
        """Return what every amount belongs to; small numbers, as there are many."""
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
    """Take rows (column of the names, names, tables by column) apart; there is one, or none yet."""
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
        Column("job_id", "integer", "its number, in order of arrival", least=0),
        Column("port", "text", "its type"),
        Column("submission_time", "float", "when it arrived", "slots", least=0),
        Column("starting_time", "float", "the slot in which it started", "slots", given=STARTED),
        Column("finish_time", "float", "when it ended", "slots", given=ENDED),
        waiting_time(STARTED, "slots"),
        Column(
            "execution_time", "float", "from start to end", "slots", given=ENDED, formula="finish_time - starting_time"
        ),
        turnaround_time(ENDED, "slots"),
        Column("work", "float", "what must be done, in units of reward times slots", null="where jobs last one slot"),
        Column("gain", "float", "gain by parallel computation, a slot"),
        Column("overhead", "float", "dominant communication overhead, a slot"),
        Column("reward", "float", "gain less overhead", formula="gain - overhead"),
        Column("dominant_resource", "text", "the resource with the largest overhead"),
        Column(
            "status",
            "text",
            "it ended; it was given nothing in its one slot; it was running or queued when the run ended",
            values=STATUSES,
        ),
        Column("success", "boolean", "whether it has completed", formula="status = 'completed'"),
        Column("arrival_number", "integer", "the same as its identifier", formula="job_id", least=0),
    ),
    sort_by=("submission_time", "job_id"),
    chunk_rows=16_384,
    pack=_pack_jobs,
)

SLOTS = Table(
    "slots",
    "a slot that has begun",
    (
        Column("slot", "integer", "its number, from 0"),
        Column("arrived", "integer", "jobs that arrived for it", "jobs"),
        Column("queued", "integer", "jobs that still wait once it has begun", "jobs"),
        Column("running", "integer", "jobs that run then", "jobs"),
        Column("gain", "float", "of the running jobs, on average over the slot"),
        Column("overhead", "float", "of the running jobs, on average over the slot"),
        Column("reward", "float", "gain less overhead", formula="gain - overhead"),
        Column(
            "allocated_{}", "float", "what running jobs hold of a resource, on average over the slot", each="resources"
        ),
        Column("reserved_{}", "float", "what the agent has given away of it in all", each="resources"),
    ),
    sort_by=("slot",),
)

ALLOCATIONS = Table(
    "allocations",
    "what a job was given of a resource by a node when it started",
    (
        Column("slot", "integer", "the slot of the start", "slots"),
        Column("job_id", "integer", "the job's number, which is its arrival number"),
        Column("port", "text", "its type"),
        Column("component", "integer", "the component of the job, 0 without gangs", least=0),
        Column("node", "text", "where"),
        Column("resource", "text", "of what"),
        Column("amount", "float", "how much"),
        Column("arrival_number", "integer", "of the job", formula="job_id"),
    ),
    sort_by=("slot", "job_id"),
    chunk_rows=1 << 20,
    pack=_pack_allocations,
)

PORTS = Table(
    "ports",
    "a type of jobs and a resource",
    (
        Column("port", "text", "the type"),
        Column("resource", "text", "the resource"),
        Column("request", "float", "the most that a job takes through one channel"),
    ),
    pack=_pack_by_resource,
)

NODES = Table(
    "nodes",
    "a machine and a resource",
    (
        Column("node", "text", "the machine"),
        Column("resource", "text", "the resource"),
        Column("capacity", "float", "what there is"),
        Column("utility", "text", "the utility of what is given"),
        Column("weight", "float", "its parameter"),
    ),
    pack=_pack_by_resource,
)

CHANNELS = Table(
    "channels",
    "a port and a node that serves it",
    (Column("port", "text", "the port"), Column("node", "text", "the node")),
)

TABLES = (JOBS, SLOTS, ALLOCATIONS, PORTS, NODES, CHANNELS)
