"""Statistics over the jobs of a batch run: counts, distributions, users, extent."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from desim.metrics.batch_input import JobColumns

__all__ = ["SUMMARIES", "extent", "job_counts", "job_statistics"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SUMMARIES = {"mean": "mean", "median": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "maximum"}
"""How a distribution is summed up: ending of the metric's name, and meaning."""


def job_counts(table: JobColumns, selected: Mask) -> dict[str, float]:
    """Count jobs.

    Parameters
    ----------
    table : JobColumns
        The jobs, n of them.
    selected : array of bool, shape (n,)
        The jobs that count.

    Returns
    -------
    dict of str to float
        ``jobs_submitted``, ``jobs_started``, ``jobs_finished``, and one count a status.
    """
    counts = {f"jobs_{status}": float(np.count_nonzero(mask & selected)) for status, mask in table.status.items()}
    return counts | {
        "jobs_submitted": float(np.count_nonzero(selected)),
        "jobs_started": float(np.count_nonzero(selected & ~np.isnan(table.start))),
        "jobs_finished": counts["jobs_completed"] + counts["jobs_killed"],
    }


def job_statistics(
    table: JobColumns, selected: Mask, end_time: float, include: bool, threshold: float
) -> dict[str, float]:
    """Summarize waiting times, turnaround times and slowdowns, and compare the users.

    Parameters
    ----------
    table : JobColumns
        The jobs, n of them.
    selected : array of bool, shape (n,)
        The jobs that count.
    end_time : float
        When the run ended, in seconds.
    include : bool
        Whether jobs that have not finished count with their times so far.
    threshold : float
        Shortest execution time that a bounded slowdown divides by, in seconds.

    Returns
    -------
    dict of str to float
        Times in seconds, NaN for empty samples.
    """
    so_far = end_time - table.submission
    waiting, turnaround, duration = table.start - table.submission, table.finish - table.submission, table.execution
    waited, ended = ~np.isnan(table.start), table.finished
    if include:
        queued, left = table.status["queued"], table.status["queued"] | table.status["running"]
        waiting, waited = np.where(queued, so_far, waiting), waited | queued
        turnaround, ended = np.where(left, so_far, turnaround), ended | left
        duration = np.where(left, table.run_time, duration)
    sample = selected & ended
    turnaround, duration = turnaround[sample], duration[sample]
    bounded = np.maximum(turnaround / np.maximum(duration, threshold), 1.0)
    runs = duration > 0
    slowdown = np.maximum(turnaround[runs] / duration[runs], 1.0)  # below 1 only for a job that has not finished
    return (
        _summary("waiting_time", waiting[selected & waited])
        | _summary("turnaround_time", turnaround)
        | _summary("slowdown", slowdown)
        | _summary("bounded_slowdown", bounded)
        | _fairness(bounded, table.user[sample])
    )


def _summary(name: str, values: Floats) -> dict[str, float]:
    if not len(values):
        return {f"{name}_{summary}": math.nan for summary in SUMMARIES}
    numbers = (values.mean(), *np.quantile(values, (0.5, 0.95, 0.99)), values.max())
    return {f"{name}_{summary}": float(number) for summary, number in zip(SUMMARIES, numbers, strict=True)}


def _fairness(values: Floats, users: NDArray[np.int64]) -> dict[str, float]:
    """Compare the users' means: Jain's index is (sum x)^2 / (n sum x^2)."""
    known = users >= 0
    _, index = np.unique(users[known], return_inverse=True)
    if not len(index):
        return {"fairness_jain": math.nan, "fairness_max_over_mean": math.nan, "users": 0.0}
    means = np.bincount(index, values[known]) / np.bincount(index)
    return {
        "fairness_jain": float(means.sum() ** 2 / (len(means) * np.square(means).sum())),
        "fairness_max_over_mean": float(means.max() / means.mean()),
        "users": float(len(means)),
    }


def extent(table: JobColumns, selected: Mask, num_cores: int) -> dict[str, float]:
    """Return makespan and offered load.

    Parameters
    ----------
    table : JobColumns
        The jobs, n of them.
    selected : array of bool, shape (n,)
        The jobs that count.
    num_cores : int
        Cores of the cluster.

    Returns
    -------
    dict of str to float
        ``makespan`` in seconds and ``offered_load``, NaN where undefined.
    """
    ends = table.finish[selected & table.finished]
    accepted = selected & ~table.status["rejected"]
    work = float(np.sum(table.cores[accepted] * table.run_time[accepted]))
    times = table.submission[accepted]
    room = num_cores * (float(times.max()) - float(times.min())) if len(times) else 0.0
    return {
        "makespan": float(ends.max() - table.submission[selected].min()) if len(ends) else math.nan,
        "offered_load": work / room if room else math.nan,
    }
