"""The tables that a run of a multi-server cluster records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.rewards import Layout, RewardModel
from desim.schema import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COMPLETED", "RUNNING", "STATUSES", "UNSERVED", "WAITING", "schemas"]

STATUSES = ("completed", "unserved", "running", "waiting")
"""What can have become of a job: it ended; it was given nothing in its one slot; it was running or waiting when the run
ended."""

COMPLETED, UNSERVED, RUNNING, WAITING = range(len(STATUSES))

#: Entries of allocations that are held before they become a frame.
CHUNK_ENTRIES = 1 << 21


#: What is recorded of jobs that are recorded together, in this order: arrays of one length, or one value for all.
JOBS = (
    "job_id",
    "port",
    "submission_time",
    "starting_time",
    "finish_time",
    "work",
    "gain",
    "overhead",
    "dominant",
    "status",
)


def _jobs(rows: list[tuple[Any, ...]], graph: BipartiteGraph) -> pl.DataFrame:
    """Make the job table; a row of ``rows`` stands for the jobs that were recorded together."""
    import polars as pl

    counts = [len(row[0]) for row in rows]
    real = ("submission_time", "starting_time", "finish_time", "work", "gain", "overhead")
    columns: dict[str, Any] = {}
    for index, name in enumerate(JOBS):
        values = [np.broadcast_to(row[index], count) for row, count in zip(rows, counts, strict=True)]
        columns[name] = np.concatenate(values or [np.zeros(0)]).astype(np.float64 if name in real else np.int64)
    codes = columns.pop("status")
    frame = pl.DataFrame(columns).with_columns(pl.col(name).fill_nan(None) for name in real)
    return frame.select(
        "job_id",
        _named("port", columns["port"], graph.ports),
        "submission_time",
        "starting_time",
        "finish_time",
        (pl.col("starting_time") - pl.col("submission_time")).alias("waiting_time"),
        (pl.col("finish_time") - pl.col("starting_time")).alias("execution_time"),
        (pl.col("finish_time") - pl.col("submission_time")).alias("turnaround_time"),
        "work",
        "gain",
        "overhead",
        (pl.col("gain") - pl.col("overhead")).alias("reward"),
        _named("dominant_resource", columns["dominant"], graph.resources),
        _named("status", codes, STATUSES),
        pl.Series("success", codes == 0),
    )


def _named(name: str, codes: NDArray[np.int64], names: tuple[str, ...]) -> pl.Series:
    """Return a column of names, given as indices."""
    import polars as pl

    return pl.Series(name, names, dtype=pl.Enum(names)).gather(codes)


def _slots(rows: list[tuple[float, ...]], resources: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    counts = ("slot", "arrivals", "waiting", "running")
    rates = ("gain", "overhead")
    amounts = [f"{kind}_{resource}" for kind in ("allocated", "reserved") for resource in resources]
    schema = dict.fromkeys(counts, pl.Int64()) | dict.fromkeys((*rates, *amounts), pl.Float64())
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.select(*counts, *rates, (pl.col("gain") - pl.col("overhead")).alias("reward"), *amounts)


def _allocations(rows: list[tuple[Any, ...]], layout: Layout) -> pl.DataFrame:
    """Make the sparse table of amounts from rows (slot, job ids, flat entries, amounts), the last three arrays."""
    import polars as pl

    graph = layout.graph
    empty: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
    slots = np.repeat(np.array([row[0] for row in rows], dtype=np.int64), [len(row[1]) for row in rows])
    jobs, entries = (np.concatenate([row[column] for row in rows] or empty) for column in (1, 2))
    amounts = np.concatenate([row[3] for row in rows] or [np.zeros(0)])
    channel, resource = np.divmod(entries, graph.num_resources)
    ports = graph.channel_port[channel]
    return pl.DataFrame(
        {
            "slot": slots,
            "job_id": jobs,
            "port": _named("port", layout.type_of[layout.seat_of[ports]], layout.types.ports),
            "component": layout.component_of[ports],
            "node": _named("node", graph.channel_node[channel], graph.nodes),
            "resource": _named("resource", resource, graph.resources),
            "amount": amounts,
        }
    )


def _ports(rows: list[RewardModel]) -> pl.DataFrame:
    """Make the table of requests; there is one row, or none yet."""
    import polars as pl

    frames = [
        _by_resource("port", rewards.graph.ports, rewards.graph, request=rewards.graph.requests) for rewards in rows
    ]
    empty = pl.DataFrame(schema={"port": pl.String, "resource": pl.String, "request": pl.Float64})
    return pl.concat([empty, *frames])


def _nodes(rows: list[RewardModel]) -> pl.DataFrame:
    """Make the table of capacities and utilities; there is one row, or none yet."""
    import polars as pl

    frames = [
        _by_resource(
            "node",
            rewards.graph.nodes,
            rewards.graph,
            capacity=rewards.graph.capacity,
            utility=rewards.utilities,
            weight=rewards.weights,
        )
        for rewards in rows
    ]
    columns = {
        "node": pl.String,
        "resource": pl.String,
        "capacity": pl.Float64,
        "utility": pl.String,
        "weight": pl.Float64,
    }
    return pl.concat([pl.DataFrame(schema=columns), *frames])


def _by_resource(name: str, names: tuple[str, ...], graph: BipartiteGraph, **tables: NDArray[Any]) -> pl.DataFrame:
    """Make one row for each name and resource."""
    import polars as pl

    columns = {
        name: np.repeat(np.array(names), graph.num_resources),
        "resource": np.tile(np.array(graph.resources), len(names)),
    }
    return pl.DataFrame(columns | {column: table.ravel() for column, table in tables.items()})


def _channels(rows: list[RewardModel]) -> pl.DataFrame:
    """Make the table of channels; there is one row, or none yet."""
    import polars as pl

    frames = [
        pl.DataFrame(
            {
                "port": np.array(rewards.graph.ports)[rewards.graph.channel_port],
                "node": np.array(rewards.graph.nodes)[rewards.graph.channel_node],
            }
        )
        for rewards in rows
    ]
    return pl.concat([pl.DataFrame(schema={"port": pl.String, "node": pl.String}), *frames])


def schemas(layout: Layout) -> dict[str, Schema]:
    """Return the tables of a cluster.

    Parameters
    ----------
    layout : Layout
        Types of jobs, and the graph that agents see.

    Returns
    -------
    dict of str to Schema
        ``jobs``, ``slots``, ``allocations``, and what does not change: ``ports``, ``nodes``, ``channels``.
    """
    graph = layout.types
    chunk = max(1, CHUNK_ENTRIES // max(1, layout.graph.num_channels * layout.graph.num_resources))
    return {
        "jobs": Schema(lambda rows: _jobs(rows, graph), ("submission_time", "job_id"), 16_384),
        "slots": Schema(lambda rows: _slots(rows, graph.resources), ("slot",)),
        "allocations": Schema(lambda rows: _allocations(rows, layout), ("slot", "job_id"), chunk),
        "ports": Schema(_ports, ()),
        "nodes": Schema(_nodes, ()),
        "channels": Schema(_channels, ()),
    }
