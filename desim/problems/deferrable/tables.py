"""The tables that a run of a cluster for deferrable jobs records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.job_set import EVICTIONS, REQUESTS, START, JobSet
from desim.problems.deferrable.observation import DeferrableObservation
from desim.problems.deferrable.outcomes import SlotOutcome
from desim.records import Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "COMPLETED",
    "EVICTED",
    "EXPIRED",
    "PENDING",
    "RUNNING",
    "STATUSES",
    "JobRows",
    "SlotRow",
    "schemas",
    "slot_row",
]

STATUSES = ("completed", "expired", "evicted", "running", "pending")
"""What can have become of a job: it ended; its window passed; it was evicted for good; it was running, or could still
be started, when the run ended."""

COMPLETED, EXPIRED, EVICTED, RUNNING, PENDING = range(len(STATUSES))

Floats = NDArray[np.float64]


class JobRows(NamedTuple):
    """Jobs that are recorded together.

    Attributes
    ----------
    rows : numpy.ndarray
        As in a :class:`JobSet`.
    finish_time : float
        When they ended or were evicted, in slots; NaN for the others.
    status : int
        Index in :data:`STATUSES`.
    """

    rows: Floats
    finish_time: float
    status: int


class SlotRow(NamedTuple):
    """One slot.

    Attributes
    ----------
    slot : int
        Its number, from 0.
    submitted, current, future : int
        Jobs that became known for it; jobs that could be started in it; known jobs whose window was not yet open.
    started, expired, evicted, running : int
        Jobs that were started in it; whose window has passed with it; that were evicted as it began; that run once jobs
        have been started.
    current_work, future_work : float
        Cores times duration of current and future jobs, in core-slots.
    revenue, delay, reward : float
        As in a :class:`SlotOutcome`.
    capacity, used, violation : numpy.ndarray of shape (num_resources,)
        As in a :class:`SlotOutcome`.
    """

    slot: int
    submitted: int
    current: int
    future: int
    started: int
    expired: int
    evicted: int
    running: int
    current_work: float
    future_work: float
    revenue: float
    delay: float
    reward: float
    capacity: Floats
    used: Floats
    violation: Floats


def slot_row(outcome: SlotOutcome, observation: DeferrableObservation, submitted: int, running: int) -> SlotRow:
    """Return the row of a slot.

    Parameters
    ----------
    outcome : SlotOutcome
        What it has brought.
    observation : DeferrableObservation
        What the agent has seen; jobs that were evicted and can be started anew count as current.
    submitted, running : int
        Jobs that became known for it, and that run once jobs have been started.

    Returns
    -------
    SlotRow
        To be recorded.
    """
    current, future = observation.current, observation.future
    counts = len(outcome.started), len(outcome.expired), len(outcome.evicted), running
    work = float(current.revenue.sum()), float(future.revenue.sum())
    money = outcome.revenue, outcome.delay, outcome.reward
    amounts = outcome.capacity, outcome.used, outcome.violation
    return SlotRow(outcome.slot, submitted, len(current), len(future), *counts, *work, *money, *amounts)


def _jobs(records: list[JobRows], resources: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    counts = [len(record.rows) for record in records]
    rows = _stacked([record.rows for record in records], REQUESTS + len(resources))
    jobs = JobSet(rows)
    status = np.repeat(np.array([record.status for record in records], dtype=np.int64), counts)
    start = jobs.starting_time
    finish = np.repeat(np.array([record.finish_time for record in records], dtype=np.float64), counts)
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
        "evictions": rows[:, EVICTIONS].astype(np.int64),
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
            "starting_time": rows[:, START].astype(np.int64),
            "eviction_time": np.array([slot for slot, rows in records for _ in rows], dtype=np.int64),
        }
    )


def _slots(records: list[SlotRow], resources: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    names = SlotRow._fields[: SlotRow._fields.index("capacity")]
    columns = []
    for index, name in enumerate(names):
        dtype = pl.Float64() if name in ("current_work", "future_work", "revenue", "delay", "reward") else pl.Int64()
        columns.append(pl.Series(name, [record[index] for record in records], dtype=dtype))
    for kind in ("capacity", "used", "violation"):
        table = np.array([getattr(record, kind) for record in records], dtype=np.float64)
        table = table.reshape(len(records), len(resources))
        columns += [pl.Series(f"{kind}_{name}", table[:, index]) for index, name in enumerate(resources)]
    return pl.DataFrame(columns)


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
