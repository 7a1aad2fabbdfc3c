"""The columns of a deferrable run's tables that its metrics need, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.metrics.columns import masks, numbers, read_columns

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DeferrableJobs", "DeferrableSlots", "read_evictions", "read_jobs", "read_slots"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_STATUSES = ("completed", "expired", "evicted", "running", "pending")


class DeferrableJobs(NamedTuple):
    """Columns of a job table of n rows.

    Attributes
    ----------
    delay : array of float, shape (n,)
        Slots from the earliest start to the start; NaN for jobs without a start.
    revenue : array of float, shape (n,)
        Cores times duration, in core-slots, whatever became of the job.
    status : mapping of str to array of bool, shape (n,)
        For each status which jobs have it.
    """

    delay: Floats
    revenue: Floats
    status: Mapping[str, Mask]

    @property
    def started(self) -> Mask:
        """Which jobs have a start that stood: those that have completed or run on."""
        return self.status["completed"] | self.status["running"]


class DeferrableSlots(NamedTuple):
    """Columns of the slots of a run.

    Attributes
    ----------
    reward, current_work, future_work : array of float, shape (num_slots,)
        In core-slots.
    capacity, used, violation : array of float, shape (num_slots, num_resources)
        What there was, what was used, and by how much that was more.
    """

    reward: Floats
    current_work: Floats
    future_work: Floats
    capacity: Floats
    used: Floats
    violation: Floats


def read_jobs(jobs: pl.DataFrame | pl.LazyFrame) -> DeferrableJobs:
    """Read the columns of a job table that metrics need, and no others.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table.

    Returns
    -------
    DeferrableJobs
        Its columns, in the order of the rows.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    frame = read_columns("jobs", jobs, ("delay", "revenue", "status"))
    return DeferrableJobs(numbers(frame["delay"]), numbers(frame["revenue"]), masks(frame["status"], _STATUSES))


def read_slots(slots: pl.DataFrame | pl.LazyFrame, resources: Sequence[str]) -> DeferrableSlots:
    """Read the columns of the slots that metrics need, and no others.

    Parameters
    ----------
    slots : polars.DataFrame or polars.LazyFrame
        The slots, in any order.
    resources : sequence of str
        Names of the resources.

    Returns
    -------
    DeferrableSlots
        Its columns, in the order of the rows.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    single, kinds = ("reward", "current_work", "future_work"), ("capacity", "used", "violation")
    frame = read_columns("slots", slots, (*single, *(f"{kind}_{name}" for kind in kinds for name in resources)))
    amounts = (np.column_stack([numbers(frame[f"{kind}_{name}"]) for name in resources]) for kind in kinds)
    return DeferrableSlots(*(numbers(frame[name]) for name in single), *amounts)


def read_evictions(
    evictions: pl.DataFrame | pl.LazyFrame, jobs: pl.DataFrame | pl.LazyFrame, cores: str
) -> tuple[int, float]:
    """Count evictions and add up what the evicted jobs had run.

    An identifier may serve again once its job has left; an eviction is of the last job that was submitted with it
    before the start.

    Parameters
    ----------
    evictions : polars.DataFrame or polars.LazyFrame
        The evictions.
    jobs : polars.DataFrame or polars.LazyFrame
        The job table.
    cores : str
        Name of the first resource.

    Returns
    -------
    int, float
        How many there were, and cores times slots from start to eviction, in core-slots; NaN if there is no such job.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    import polars as pl

    ran = read_columns("evictions", evictions, ("job_id", "starting_time", "eviction_time"))
    if ran.is_empty():
        return 0, 0.0
    amount = f"requested_{cores}"
    held = read_columns("jobs", jobs, ("job_id", "submission_time", amount))
    time = pl.col("starting_time").cast(pl.Float64)
    pairs = ran.with_columns(submission_time=time).sort("submission_time")
    pairs = pairs.join_asof(
        held.sort("submission_time", maintain_order=True),
        on="submission_time",
        by="job_id",
        strategy="backward",
        check_sortedness=False,  # it cannot be checked within groups, and it is sorted
    )
    work = numbers(pairs[amount]) * numbers(pairs["eviction_time"] - pairs["starting_time"])
    return len(ran), float(work.sum())
