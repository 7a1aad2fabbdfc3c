"""The data behind the figures of a batch run, as pure functions of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch import parse_core_sets

if TYPE_CHECKING:
    import polars as pl

__all__ = ["bin_averages", "down_times", "executions", "step_curves"]

QUANTITIES = ("busy_cores", "cores_up", "queued_jobs", "queued_cores", "queued_work")


def executions(jobs: pl.DataFrame, interruptions: pl.DataFrame, end_time: float) -> pl.DataFrame:
    """Return all executions of a run, those that an outage cut included.

    Parameters
    ----------
    jobs, interruptions : polars.DataFrame
        Tables of a batch run; of the jobs, any columns besides ``job_id``, ``submission_time``,
        ``starting_time``, ``finish_time``, ``allocated_resources`` and ``status``.
    end_time : float
        End of the run in seconds, which stands for the finish of jobs that are still running.

    Returns
    -------
    polars.DataFrame
        One row an execution, by start: the columns of ``jobs``, of the execution's own job also
        where it was cut and the job ran again, and ``cut`` (bool). Times in seconds. The status of
        an execution after which the job went back to the queue is ``"requeued"``.
    """
    import polars as pl

    last = jobs.filter(pl.col("starting_time").is_not_null()).with_columns(
        pl.col("finish_time").fill_null(end_time),
        pl.col("status").cast(pl.String),
        cut=pl.col("status") == "lost",
    )
    own = ("starting_time", "finish_time", "allocated_resources", "status")
    earlier = (
        interruptions.filter(pl.col("outcome") == "requeued")
        .select("job_id", *own[:3], status=pl.lit("requeued"), cut=pl.lit(True))
        .sort("starting_time")
        .join_asof(  # job ids may come back once their job has left, so the last submission before the start counts
            jobs.filter(pl.col("status") != "rejected").drop(own).sort("submission_time"),
            left_on="starting_time",
            right_on="submission_time",
            by="job_id",
            coalesce=False,
            check_sortedness=False,
        )
    )
    return pl.concat([last, earlier.select(last.columns)]).sort("starting_time", "job_id", maintain_order=True)


def step_curves(
    jobs: pl.DataFrame, interruptions: pl.DataFrame, outages: pl.DataFrame, *, num_cores: int, end_time: float
) -> pl.DataFrame:
    """Return what changes over a run as step functions of time.

    A job counts as queued from its submission to its start, and again from the outage that cuts it
    to its next start. Jobs that were rejected never count.

    Parameters
    ----------
    jobs, interruptions, outages : polars.DataFrame
        Tables of a batch run; of the jobs, at least ``job_id``, ``submission_time``,
        ``requested_number_of_resources``, ``requested_time``, ``starting_time``, ``finish_time``
        and ``status``.
    num_cores : int
        Cores of the cluster.
    end_time : float
        End of the run in seconds.

    Returns
    -------
    polars.DataFrame
        One row an instant at which something changes, and one at 0 and at ``end_time``: ``time``
        (s), ``busy_cores``, ``cores_up``, ``queued_jobs``, ``queued_cores`` (requested by queued
        jobs) and ``queued_work`` (core-seconds, by requested times). A row holds from its time to
        the next row's.
    """
    import polars as pl

    events = pl.concat(
        [
            pl.DataFrame({"time": [0.0, end_time]}),
            _job_events(jobs),
            _interruption_events(jobs, interruptions),
            outages.select("time", cores_up=pl.col("cores_up").diff().fill_null(pl.col("cores_up") - num_cores)),
        ],
        how="diagonal",
    )
    changes = events.group_by("time").agg(pl.col(QUANTITIES).sum()).sort("time")
    return changes.select("time", pl.col(QUANTITIES).cum_sum()).with_columns(
        pl.col("cores_up") + num_cores,
        # rounding leaves a residue where the queue is empty
        queued_work=pl.when(pl.col("queued_jobs") == 0).then(0.0).otherwise("queued_work"),
    )


def _job_events(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the changes at submissions, starts and finishes: the last execution of each job."""
    import polars as pl

    cores = pl.col("requested_number_of_resources")
    queued = {
        "queued_jobs": pl.lit(1, pl.Int64),
        "queued_cores": cores,
        "queued_work": cores * pl.col("requested_time"),
    }
    unqueued = {name: -change for name, change in queued.items()}
    return pl.concat(
        [
            jobs.filter(pl.col("status") != "rejected").select(time="submission_time", **queued),
            jobs.drop_nulls("starting_time").select(time="starting_time", busy_cores=cores, **unqueued),
            jobs.drop_nulls("finish_time").select(time="finish_time", busy_cores=-cores),
        ],
        how="diagonal",
    )


def _interruption_events(jobs: pl.DataFrame, interruptions: pl.DataFrame) -> pl.DataFrame:
    """Return the changes at starts and ends of executions after which the job was queued again."""
    import polars as pl

    columns = ("job_id", "submission_time", "requested_number_of_resources", "requested_time")
    unstarted = jobs.select(*columns, status="status").with_columns(
        starting_time=pl.lit(None, pl.Float64),
        finish_time=pl.lit(None, pl.Float64),
        allocated_resources=pl.lit(None, pl.String),
    )
    cut = executions(unstarted, interruptions, 0.0)
    sizes = (
        parse_core_sets(cut["allocated_resources"])
        .group_by("row")
        .agg(size=(pl.col("last") - pl.col("first") + 1).sum())
    )
    cut = cut.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).join(sizes, on="row", how="left")
    # a run that crashed may know an interruption and not its job, whose submission it then does not know either
    known = pl.col("submission_time").is_not_null().cast(pl.Int64)
    cores = pl.col("requested_number_of_resources").fill_null(0)
    queued = {
        "queued_jobs": known,
        "queued_cores": cores,
        "queued_work": cores * pl.col("requested_time").fill_null(0.0),
    }
    unqueued = {name: -change for name, change in queued.items()}
    return pl.concat(
        [
            cut.select(time="starting_time", busy_cores="size", **unqueued),
            cut.select(time="finish_time", busy_cores=-pl.col("size"), **queued),
        ]
    )


def bin_averages(curves: pl.DataFrame, edges: Sequence[float] | NDArray[np.float64]) -> pl.DataFrame:
    """Return the mean over time of step functions in bins of time.

    Parameters
    ----------
    curves : polars.DataFrame
        As :func:`step_curves` returns it.
    edges : array of float, shape (n + 1,)
        Ends of the bins in seconds, ascending. Outside of the curves every function counts as 0.

    Returns
    -------
    polars.DataFrame
        n rows: ``begin`` and ``end`` (s), and the mean of every column of ``curves``.
    """
    import polars as pl

    edges = np.asarray(edges, dtype=np.float64)
    time = curves["time"].to_numpy()
    columns: dict[str, NDArray[np.float64]] = {"begin": edges[:-1], "end": edges[1:]}
    for name in curves.columns[1:]:
        areas = curves[name].to_numpy()[:-1] * np.diff(time)
        integral = np.concatenate([[0.0], np.cumsum(areas)])
        columns[name] = np.diff(np.interp(edges, time, integral)) / np.diff(edges)
    return pl.DataFrame(columns)


def down_times(outages: pl.DataFrame, num_cores: int, end_time: float) -> pl.DataFrame:
    """Return when which cores were down, as rectangles of time and core ids.

    Parameters
    ----------
    outages : polars.DataFrame
        Table of a batch run.
    num_cores : int
        Cores of the cluster.
    end_time : float
        End of the run in seconds, which ends the outages that nobody has repaired.

    Returns
    -------
    polars.DataFrame
        One row a rectangle: ``first`` and ``last`` (core ids, both included), ``begin`` and
        ``end`` (s).
    """
    import polars as pl

    since = np.full(num_cores, np.nan)
    rectangles: list[tuple[int, int, float, float]] = []
    ranges = parse_core_sets(outages["resources"])
    times, events = outages["time"].to_list(), outages["event"].to_list()
    for row, first, last in ranges.iter_rows():
        if events[row] == "down":
            since[first : last + 1] = times[row]
        else:
            rectangles += _close(since, first, last, times[row])
    rectangles += _close(since, 0, num_cores - 1, end_time)
    schema = {"first": pl.Int64, "last": pl.Int64, "begin": pl.Float64, "end": pl.Float64}
    return pl.DataFrame(rectangles, schema=schema, orient="row")


def _close(since: NDArray[np.float64], first: int, last: int, end: float) -> list[tuple[int, int, float, float]]:
    """End the outages of a range of cores; neighbours that went down together make one rectangle."""
    part = since[first : last + 1].copy()
    since[first : last + 1] = np.nan
    cuts = np.flatnonzero(np.diff(part) != 0) + 1  # NaN differs from NaN, which does no harm
    pieces = zip([0, *cuts.tolist()], [*cuts.tolist(), len(part)], strict=True)
    return [(first + a, first + b - 1, float(part[a]), end) for a, b in pieces if not np.isnan(part[a])]
