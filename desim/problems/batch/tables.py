"""The tables that a batch run records; columns follow Batsim and evalys where they have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.problems.batch.cores import format_core_sets
from desim.records import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["STATUSES", "schemas"]

STATUSES = ("completed", "killed", "lost", "running", "queued", "rejected")
"""What can have become of a job: it ended by itself, was killed at its requested time, was lost
to an outage, was running or queued when the run ended, or was wider than the cluster."""


def _jobs(rows: list[tuple[Any, ...]], num_cores: int) -> pl.DataFrame:
    """Make the job table of rows (job, start, end, execution time, core set, status, attempts)."""
    import polars as pl

    jobs, starts, ends, durations, core_sets, statuses, attempts = zip(*rows, strict=True) if rows else [()] * 7
    ids, submissions, cores, requested, run_times, users = zip(*jobs, strict=True) if jobs else [()] * 6
    real = pl.Float64
    waiting = pl.col("starting_time") - pl.col("submission_time")
    turnaround = pl.col("finish_time") - pl.col("submission_time")
    return pl.DataFrame(
        {
            "job_id": pl.Series(ids, dtype=pl.Int64),
            "submission_time": pl.Series(submissions, dtype=real, strict=False),
            "requested_number_of_resources": pl.Series(cores, dtype=pl.Int64, strict=False),
            "requested_time": pl.Series(requested, dtype=real, strict=False),
            "run_time": pl.Series(run_times, dtype=real, strict=False),
            "user_id": pl.Series(users, dtype=pl.Int64, strict=False),
            "starting_time": pl.Series(starts, dtype=real, strict=False),
            "execution_time": pl.Series(durations, dtype=real, strict=False),
            "finish_time": pl.Series(ends, dtype=real, strict=False),
            "allocated_resources": format_core_sets(core_sets, num_cores),
            "status": pl.Series(statuses, dtype=pl.Enum(STATUSES)),
            "attempts": pl.Series(attempts, dtype=pl.Int64),
        }
    ).select(
        "job_id",
        "submission_time",
        "requested_number_of_resources",
        "requested_time",
        "run_time",
        "starting_time",
        "execution_time",
        "finish_time",
        waiting.alias("waiting_time"),
        turnaround.alias("turnaround_time"),
        pl.when(pl.col("execution_time") > 0).then(turnaround / pl.col("execution_time")).alias("stretch"),
        "allocated_resources",
        (pl.col("status") == "completed").alias("success"),
        "status",
        "attempts",
        "user_id",
    )


def _interruptions(rows: list[tuple[Any, ...]], num_cores: int) -> pl.DataFrame:
    """Make the table of executions that an outage cut: rows (job id, start, end, core set, outcome)."""
    import polars as pl

    ids, starts, ends, core_sets, outcomes = zip(*rows, strict=True) if rows else [()] * 5
    return pl.DataFrame(
        {
            "job_id": pl.Series(ids, dtype=pl.Int64),
            "starting_time": pl.Series(starts, dtype=pl.Float64, strict=False),
            "finish_time": pl.Series(ends, dtype=pl.Float64, strict=False),
            "allocated_resources": format_core_sets(core_sets, num_cores),
            "outcome": pl.Series(outcomes, dtype=pl.Enum(("requeued", "lost"))),
        }
    )


def _outages(rows: list[tuple[Any, ...]], num_cores: int) -> pl.DataFrame:
    """Make the table of capacity changes: rows (time, event, core set, cores up afterwards)."""
    import polars as pl

    times, events, core_sets, up = zip(*rows, strict=True) if rows else [()] * 4
    return pl.DataFrame(
        {
            "time": pl.Series(times, dtype=pl.Float64, strict=False),
            "event": pl.Series(events, dtype=pl.Enum(("down", "up"))),
            "resources": format_core_sets(core_sets, num_cores),
            "cores_up": pl.Series(up, dtype=pl.Int64),
        }
    )


def schemas(num_cores: int) -> dict[str, Schema]:
    """Return the tables ``jobs``, ``interruptions`` and ``outages`` for a cluster of a given size.

    Parameters
    ----------
    num_cores : int
        Cores of the cluster.

    Returns
    -------
    dict of str to Schema
        How the rows of each table become a frame.
    """
    chunk_rows = min(65_536, max(1_024, (1 << 24) // max(num_cores, 1)))
    return {
        "jobs": Schema(lambda rows: _jobs(rows, num_cores), ("submission_time", "job_id"), chunk_rows),
        "interruptions": Schema(lambda rows: _interruptions(rows, num_cores), ("finish_time", "job_id")),
        "outages": Schema(lambda rows: _outages(rows, num_cores), ("time",)),
    }
