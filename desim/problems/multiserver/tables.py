"""The tables that a run of a multi-server cluster records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.layout import Layout
from desim.problems.multiserver.rewards import RewardModel
from desim.records import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COMPLETED", "RUNNING", "STATUSES", "UNSERVED", "WAITING", "JobRows", "SlotRow", "schemas"]

STATUSES = ("completed", "unserved", "running", "waiting")
"""What can have become of a job: it ended; it was given nothing in its one slot; it was running or waiting when the run
ended."""

COMPLETED, UNSERVED, RUNNING, WAITING = range(len(STATUSES))

#: Entries of allocations that are held before they become a frame.
CHUNK_ENTRIES = 1 << 21


class JobRows(NamedTuple):
    """Jobs that are recorded together; arrays of one length, or one value for all.

    Attributes
    ----------
    job_id, port : numpy.ndarray of int64
        Which jobs.
    submission_time, starting_time, finish_time : array or float
        In slots; NaN for what has not happened.
    work, gain, overhead : array or float
        In units of reward; gain and overhead are per slot.
    dominant : numpy.ndarray of int64
        Index of the resource with the largest overhead.
    status : array or int
        Indices in :data:`STATUSES`.
    """

    job_id: NDArray[np.int64]
    port: NDArray[np.int64]
    submission_time: Any
    starting_time: Any
    finish_time: Any
    work: Any
    gain: Any
    overhead: Any
    dominant: NDArray[np.int64]
    status: Any


class SlotRow(NamedTuple):
    """One slot.

    Attributes
    ----------
    slot, arrivals, waiting, running : int
        Its number; jobs that arrived for it; jobs that still wait and jobs that run once it has begun.
    gain, overhead : float
        Of the running jobs, per slot.
    allocated, reserved : numpy.ndarray of shape (num_resources,)
        What running jobs hold; what the agent has given away in all.
    """

    slot: int
    arrivals: int
    waiting: int
    running: int
    gain: float
    overhead: float
    allocated: NDArray[np.float64]
    reserved: NDArray[np.float64]


def _jobs(rows: list[JobRows], graph: BipartiteGraph) -> pl.DataFrame:
    """Make the job table; a row of ``rows`` stands for the jobs that were recorded together."""
    import polars as pl

    counts = [len(row.job_id) for row in rows]
    real = ("submission_time", "starting_time", "finish_time", "work", "gain", "overhead")
    columns: dict[str, Any] = {
        "job_id": np.concatenate([row.job_id for row in rows] or [np.zeros(0, dtype=np.int64)]),
        "port": np.concatenate([row.port for row in rows] or [np.zeros(0, dtype=np.int64)]),
        "dominant": np.concatenate([row.dominant for row in rows] or [np.zeros(0, dtype=np.int64)]),
    }
    for name in (*real, "status"):
        values = (np.asarray(getattr(row, name), dtype=np.float64) for row in rows)
        parts = [np.broadcast_to(value, count) for value, count in zip(values, counts, strict=True)]
        columns[name] = np.concatenate(parts or [np.zeros(0)])
    codes = columns.pop("status").astype(np.int64)
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


def _slots(rows: list[SlotRow], resources: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    counts = {
        name: pl.Series([getattr(row, name) for row in rows], dtype=pl.Int64)
        for name in ("slot", "arrivals", "waiting", "running")
    }
    rates = {name: pl.Series([getattr(row, name) for row in rows], dtype=pl.Float64) for name in ("gain", "overhead")}
    amounts: dict[str, Any] = {}
    for kind in ("allocated", "reserved"):
        table = np.array([getattr(row, kind) for row in rows], dtype=np.float64).reshape(len(rows), len(resources))
        amounts |= {f"{kind}_{resource}": table[:, index] for index, resource in enumerate(resources)}
    reward = rates["gain"] - rates["overhead"]
    return pl.DataFrame(counts | rates | {"reward": reward} | amounts)


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
