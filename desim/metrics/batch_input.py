"""The columns of a batch run's tables that its metrics need, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CutExecutions", "JobColumns", "read_cut_executions", "read_jobs"]

Floats = NDArray[np.float64]

_STATUSES = ("completed", "killed", "lost", "running", "queued", "rejected")
_FLOATS = ("submission_time", "requested_time", "run_time", "starting_time", "execution_time", "finish_time")
_WHOLE = ("requested_number_of_resources", "user_id")


class JobColumns(NamedTuple):
    """Columns of a job table of n rows; times in seconds, NaN where unknown.

    Attributes
    ----------
    submission, requested_time, run_time, start, execution, finish : array of float, shape (n,)
        When the job was submitted, requested and actual run time, start, length and end of its last execution.
    cores, user : array of int, shape (n,)
        Requested cores, and the user, -1 where unknown.
    status : dict of str to array of bool, shape (n,)
        For each status which jobs have it.
    """

    submission: Floats
    requested_time: Floats
    run_time: Floats
    start: Floats
    execution: Floats
    finish: Floats
    cores: NDArray[np.int64]
    user: NDArray[np.int64]
    status: dict[str, NDArray[np.bool_]]

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which jobs completed or were killed."""
        return self.status["completed"] | self.status["killed"]


class CutExecutions(NamedTuple):
    """The m executions that an outage cut and whose jobs went back to the queue.

    Attributes
    ----------
    start, finish : array of float, shape (m,)
        In seconds.
    cores, load : array of float, shape (m,)
        Requested cores of the job, and requested cores x requested time in core-seconds.
    """

    start: Floats
    finish: Floats
    cores: Floats
    load: Floats


def read_jobs(jobs: pl.DataFrame | pl.LazyFrame) -> JobColumns:
    """Read the columns of a job table that metrics need, and no others.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table.

    Returns
    -------
    JobColumns
        Its columns, in the order of the rows.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    import polars as pl

    table = jobs.lazy()
    missing = {"status": None, **dict.fromkeys(_FLOATS + _WHOLE)}.keys() - set(table.collect_schema().names())
    if missing:
        raise InvalidConfiguration(f"the job table lacks the columns {', '.join(sorted(missing))}")
    frame = table.select(
        *(pl.col(name).cast(pl.Float64) for name in _FLOATS),
        *(pl.col(name).cast(pl.Int64) for name in _WHOLE),
        *((pl.col("status") == status).alias(status) for status in _STATUSES),
    ).collect()
    submission, requested_time, run_time, start, execution, finish = (frame[name].to_numpy() for name in _FLOATS)
    cores, users = (frame[name].to_numpy() for name in _WHOLE)
    return JobColumns(
        submission,
        requested_time,
        run_time,
        start,
        execution,
        finish,
        cores,
        users,
        {status: frame[status].to_numpy() for status in _STATUSES},
    )


def read_cut_executions(
    jobs: pl.DataFrame | pl.LazyFrame, interruptions: pl.DataFrame | pl.LazyFrame | None
) -> CutExecutions:
    """Read the executions that were cut and repeated, with what their jobs requested.

    Those whose jobs were lost are left out: they are the executions of the job table.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table.
    interruptions : polars.DataFrame or polars.LazyFrame, optional
        The table of interruptions.

    Returns
    -------
    CutExecutions
        In the order of the jobs.
    """
    import polars as pl

    nothing = np.empty(0)
    if interruptions is None:
        return CutExecutions(nothing, nothing, nothing, nothing)
    cuts = (
        interruptions.lazy()
        .filter(pl.col("outcome") == "requeued")
        .select("job_id", pl.col("starting_time").alias("cut_start"), pl.col("finish_time").alias("cut_end"))
        .collect()
    )
    if cuts.is_empty():
        return CutExecutions(nothing, nothing, nothing, nothing)
    cores = pl.col("requested_number_of_resources")
    # An id may be used again once its job has left; the times tell which of the jobs was cut.
    begun_after = (pl.col("submission_time") <= pl.col("cut_start")) & (
        pl.col("starting_time").is_null() | (pl.col("starting_time") >= pl.col("cut_end"))
    )
    frame = (
        jobs.lazy()
        .filter(pl.col("status") != "rejected")
        .select("job_id", "submission_time", "starting_time", "requested_time", cores)
        .join(cuts.lazy(), on="job_id", maintain_order="left_right")  # sums depend on it in the last digit
        .filter(begun_after)
        .select("cut_start", "cut_end", cores.cast(pl.Float64), (cores * pl.col("requested_time")).alias("load"))
        .collect()
    )
    return CutExecutions(*(frame[name].to_numpy() for name in frame.columns))
