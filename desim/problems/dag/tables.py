"""The tables that a run of DAG jobs records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.schema import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["OUTCOMES", "STATUSES", "schemas"]

STATUSES = ("completed", "running", "waiting")
"""What can have become of a job: all its nodes have finished; some node has started; none has, when the run ended."""

OUTCOMES = ("completed", "interrupted", "withdrawn", "running", "waiting")
"""What can have become of a copy: it ran to its end; an outage of its executor cut it; it was taken back before it
started, because of an outage or because its job had ended; it was running or waiting when the run ended."""


def _jobs(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Make the table of rows (job, start, finish, status)."""
    import polars as pl

    jobs, starts, finishes, statuses = zip(*rows, strict=True) if rows else [()] * 4
    real = pl.Float64
    waiting = pl.col("starting_time") - pl.col("submission_time")
    turnaround = pl.col("finish_time") - pl.col("submission_time")
    return pl.DataFrame(
        {
            "job_id": pl.Series([job.job_id for job in jobs], dtype=pl.Int64),
            "label": pl.Series([job.label for job in jobs], dtype=pl.String),
            "submission_time": pl.Series([job.submission_time for job in jobs], dtype=real),
            "starting_time": pl.Series(starts, dtype=real, strict=False),
            "finish_time": pl.Series(finishes, dtype=real, strict=False),
            "num_nodes": pl.Series([job.num_nodes for job in jobs], dtype=pl.Int64),
            "num_edges": pl.Series([job.num_edges for job in jobs], dtype=pl.Int64),
            "work": pl.Series([job.work.sum().item() for job in jobs], dtype=real),
            "data_size": pl.Series([job.parent_size.sum().item() for job in jobs], dtype=real),
            "status": pl.Series(statuses, dtype=pl.Enum(STATUSES)),
        }
    ).select(
        "job_id",
        "label",
        "submission_time",
        "starting_time",
        "finish_time",
        waiting.alias("waiting_time"),
        turnaround.alias("turnaround_time"),
        "num_nodes",
        "num_edges",
        "work",
        "data_size",
        (pl.col("status") == "completed").alias("success"),
        "status",
    )


def _nodes(rows: list[Job]) -> pl.DataFrame:
    """Make the table of nodes, of jobs."""
    import polars as pl

    counts = [job.num_nodes for job in rows]
    run_times = [list(row) if row is not None else None for job in rows for row in _run_time_rows(job)]
    return pl.DataFrame(
        {
            "job_id": pl.Series(np.repeat(np.array([job.job_id for job in rows], dtype=np.int64), counts)),
            "node": pl.Series(_joined([np.arange(count) for count in counts], np.int64)),
            "name": pl.Series([name for job in rows for name in job.names], dtype=pl.String),
            "work": pl.Series(_joined([job.work for job in rows], np.float64)),
            "num_tasks": pl.Series(_joined([job.num_tasks for job in rows], np.int64)),
            "run_times": pl.Series(run_times, dtype=pl.List(pl.Float64)),
        }
    )


def _run_time_rows(job: Job) -> list[Any]:
    return [None] * job.num_nodes if job.run_times is None else job.run_times.tolist()


def _edges(rows: list[Job]) -> pl.DataFrame:
    """Make the table of edges, of jobs."""
    import polars as pl

    counts = [job.num_edges for job in rows]
    children = [np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start)) for job in rows]
    return pl.DataFrame(
        {
            "job_id": pl.Series(np.repeat(np.array([job.job_id for job in rows], dtype=np.int64), counts)),
            "parent": pl.Series(_joined([job.parent_index for job in rows], np.int64)),
            "child": pl.Series(_joined(children, np.int64)),
            "size": pl.Series(_joined([job.parent_size for job in rows], np.float64)),
        }
    )


def _joined(arrays: list[Any], dtype: Any) -> Any:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype)


def _copies(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Make the table of copies from rows in the order of its columns."""
    import polars as pl

    columns = {
        "job_id": pl.Int64,
        "node": pl.Int64,
        "task": pl.Int64,
        "executor": pl.Int64,
        "duplicate": pl.Boolean,
        "assignment_time": pl.Float64,
        "receiving_time": pl.Float64,
        "starting_time": pl.Float64,
        "finish_time": pl.Float64,
        "outcome": pl.Enum(OUTCOMES),
    }
    return _frame(rows, columns)


def _transfers(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Make the table of inputs of copies from rows in the order of its columns."""
    import polars as pl

    columns = {
        "job_id": pl.Int64,
        "parent": pl.Int64,
        "child": pl.Int64,
        "task": pl.Int64,
        "source": pl.Int64,
        "destination": pl.Int64,
        "starting_time": pl.Float64,
        "arrival_time": pl.Float64,
        "size": pl.Float64,
    }
    return _frame(rows, columns)


def _outages(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Make the table of outages from rows (time, executor, event)."""
    import polars as pl

    return _frame(rows, {"time": pl.Float64, "executor": pl.Int64, "event": pl.Enum(("down", "up"))})


def _frame(rows: list[tuple[Any, ...]], columns: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    pairs = zip(columns.items(), values, strict=True)
    return pl.DataFrame({name: pl.Series(column, dtype=dtype, strict=False) for (name, dtype), column in pairs})


def _executors(rows: list[Executors]) -> pl.DataFrame:
    """Make the table of executors; there is one row, or none yet."""
    import polars as pl

    names = [name for executors in rows for name in executors.names]
    speeds = [speed for executors in rows for speed in executors.speeds.tolist()]
    return pl.DataFrame(
        {
            "executor": pl.Series(range(len(names)), dtype=pl.Int64),
            "name": pl.Series(names, dtype=pl.String),
            "speed": pl.Series(speeds, dtype=pl.Float64),
        }
    )


def _channels(rows: list[Executors]) -> pl.DataFrame:
    """Make the table of channels between pairs; there is one row, or none yet."""
    import polars as pl

    count = sum(executors.num_executors for executors in rows)
    source, destination = np.nonzero(~np.eye(count, dtype=bool))
    speeds = [executors.transfer_speeds[source, destination] for executors in rows]
    latencies = [executors.latencies[source, destination] for executors in rows]
    return pl.DataFrame(
        {
            "source": pl.Series(source.astype(np.int64)),
            "destination": pl.Series(destination.astype(np.int64)),
            "transfer_speed": pl.Series(_joined(speeds, np.float64)),
            "latency": pl.Series(_joined(latencies, np.float64)),
        }
    )


def schemas() -> dict[str, Schema]:
    """Return the tables of a cluster.

    Returns
    -------
    dict of str to Schema
        ``jobs``; their ``nodes`` and ``edges``; the ``copies`` that were assigned and the ``transfers`` that brought
        their inputs, also those within an executor, where ``task`` is the number of the task of a node, 0 where nodes
        run whole; ``executors``, ``channels`` and ``outages``.
    """
    return {
        "jobs": Schema(_jobs, ("submission_time", "job_id")),
        "nodes": Schema(_nodes, (), 4096),
        "edges": Schema(_edges, (), 4096),
        "copies": Schema(_copies, ()),
        "transfers": Schema(_transfers, ()),
        "executors": Schema(_executors, ()),
        "channels": Schema(_channels, ()),
        "outages": Schema(_outages, ()),
    }
