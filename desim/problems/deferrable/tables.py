"""The tables that a run of a cluster for deferrable jobs records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.job import REQUESTS, JobSet
from desim.schema import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COMPLETED", "EVICTED", "EXPIRED", "PENDING", "RUNNING", "STATUSES", "schemas"]

STATUSES = ("completed", "expired", "evicted", "running", "pending")
"""What can have become of a job: it ended; its window passed; it was evicted for good; it was running, or could still
be started, when the run ended."""

COMPLETED, EXPIRED, EVICTED, RUNNING, PENDING = range(len(STATUSES))

Floats = NDArray[np.float64]


def _jobs(records: list[tuple[Floats, float, int]], resources: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    counts = [len(rows) for rows, _, _ in records]
    rows = _stacked([rows for rows, _, _ in records], REQUESTS + len(resources))
    jobs = JobSet(rows)
    status = np.repeat(np.array([status for _, _, status in records], dtype=np.int64), counts)
    start = jobs.starting_time
    finish = np.repeat(np.array([finish for _, finish, _ in records], dtype=np.float64), counts)
    columns: dict[str, Any] = {
        "job_id": jobs.job_id,
        "submission_time": jobs.submission_time,
        "earliest_start": jobs.earliest_start.astype(np.int64),
        "latest_start": jobs.latest_start.astype(np.int64),
        "requested_time": jobs.duration.astype(np.int64),
    }
    columns |= {f"requested_{name}": jobs.requests[:, index] for index, name in enumerate(resources)}
    columns |= {
        "starting_time": start,
        "finish_time": finish,
        "waiting_time": start - jobs.submission_time,
        "execution_time": finish - start,
        "turnaround_time": finish - jobs.submission_time,
        "delay": start - jobs.earliest_start,
        "revenue": jobs.revenue,
        "evictions": jobs.evictions.astype(np.int64),
    }
    times = ("starting_time", "finish_time", "waiting_time", "execution_time", "turnaround_time", "delay")
    return (
        pl.DataFrame(columns)
        .with_columns(pl.col(name).fill_nan(None) for name in times)
        .with_columns(
            pl.Series("status", STATUSES, dtype=pl.Enum(STATUSES)).gather(status),
            pl.Series("success", status == COMPLETED),
        )
    )


def _evictions(records: list[tuple[float, Floats]], num_resources: int) -> pl.DataFrame:
    import polars as pl

    rows = _stacked([rows for _, rows in records], REQUESTS + num_resources)
    return pl.DataFrame(
        {
            "job_id": JobSet(rows).job_id,
            "starting_time": JobSet(rows).starting_time.astype(np.int64),
            "eviction_time": np.array([slot for slot, rows in records for _ in rows], dtype=np.int64),
        }
    )


def _slots(records: list[tuple[float, ...]], resources: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    counts = ("slot", "submitted", "current", "future", "started", "expired", "evicted", "running")
    numbers = ["current_work", "future_work", "revenue", "delay", "reward"]
    numbers += [f"{kind}_{name}" for kind in ("capacity", "used", "violation") for name in resources]
    schema = dict.fromkeys(counts, pl.Int64()) | dict.fromkeys(numbers, pl.Float64())
    return pl.DataFrame(records, schema=schema, orient="row")


def _stacked(tables: list[Floats], width: int) -> Floats:
    return np.concatenate(tables) if tables else np.empty((0, width))


def schemas(resources: tuple[str, ...]) -> dict[str, Schema]:
    """Return the tables of a cluster.

    Parameters
    ----------
    resources : tuple of str
        Names of the resources, cores first.

    Returns
    -------
    dict of str to Schema
        ``jobs``, ``slots`` and ``evictions``.
    """
    return {
        "jobs": Schema(lambda rows: _jobs(rows, resources), ("submission_time", "job_id"), 16_384),
        "slots": Schema(lambda rows: _slots(rows, resources), ("slot",), 16_384),
        "evictions": Schema(lambda rows: _evictions(rows, len(resources)), ("eviction_time", "job_id"), 16_384),
    }
