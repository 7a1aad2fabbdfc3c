"""Metrics of a batch cluster, computed from its tables and from nothing else.

`BATCH_METRICS` names every metric with its meaning and unit. Two kinds are kept apart.

Job statistics (waiting, turnaround, slowdown, fairness, counts) are taken over the jobs *submitted* within
the observed interval. Time averages (utilization, queue length, throughput) are taken over the
interval itself and count every job that is in the system then, whenever it was submitted.

What counts for jobs that have not finished when the run ends is a choice, ``unfinished``:

- ``"exclude"``: waiting time over the jobs that have started, turnaround time and slowdowns over those
  that have finished. In an overloaded system the longest waits are then missing.
- ``"include"``: jobs that are still queued count with their waiting time so far, and those queued or
  running with their turnaround time so far, divided by their whole run time for a slowdown. These are
  lower bounds of the final values.

A job counts as finished if it ended by itself or at its requested time. A job lost to an outage counts as
started, not as finished; a rejected job is only counted. The waiting time of a job that an outage put
back into the queue lasts until its *last* start, and the cores were busy during its cut executions too,
whose core-seconds are also reported as wasted.

Sources: slowdown bounded from below: Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong, "Theory and
practice in parallel job scheduling", JSSPP 1997. Fairness index: Jain, Chiu and Hawe, "A quantitative
measure of fairness and discrimination for resource allocation in shared computer systems", DEC-TR-301, 1984.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.metrics.batch_input import CutExecutions, JobColumns, read_cut_executions, read_jobs
from desim.metrics.batch_samples import SUMMARIES, extent, job_counts, job_statistics
from desim.metrics.columns import end_time_of
from desim.metrics.timeline import area, maximum, step_area

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["BATCH_METRICS", "batch_metrics", "batch_result_metrics", "warm_up_of"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Unfinished = Literal["exclude", "include"]

_COUNTS = {
    "jobs_submitted": "jobs submitted within the observed interval; the other counts are parts of these",
    "jobs_started": "jobs whose last execution has begun (running, completed, killed or lost)",
    "jobs_finished": "jobs that completed or were killed",
    "jobs_completed": "jobs that ended by themselves",
    "jobs_killed": "jobs ended at their requested time",
    "jobs_lost": "jobs lost to an outage",
    "jobs_running": "jobs running when the run ended",
    "jobs_queued": "jobs queued when the run ended",
    "jobs_rejected": "jobs wider than the cluster",
}
_DISTRIBUTIONS = {
    "waiting_time": "time from submission to the last start, s",
    "turnaround_time": "time from submission to the end, s",
    "slowdown": "turnaround time over execution time; jobs whose execution took 0 s are left out",
    "bounded_slowdown": "turnaround time over execution time or the threshold if that is longer, at least 1",
}
_OTHERS = {
    "fairness_jain": "Jain's index of the users' mean bounded slowdowns: 1 if all equal, 1 / users at worst",
    "fairness_max_over_mean": "largest of the users' mean bounded slowdowns over their mean, at least 1",
    "users": "users with a job in the sample of bounded slowdowns; jobs of unknown users are left out of all three",
    "makespan": "last end of a finished job minus first submission, s",
    "offered_load": "cores x run time of the jobs not rejected, over num_cores x time from first to last submission",
    "utilization": "busy core-seconds over core-seconds up",
    "busy_core_seconds": "core-seconds spent on executions, those that an outage cut included",
    "available_core_seconds": "core-seconds up",
    "wasted_core_seconds": "core-seconds spent on executions that an outage cut",
    "interruptions": "executions that an outage cut within the observed interval",
    "queue_length_mean": "time average of the number of queued jobs",
    "queue_length_max": "largest number of queued jobs that lasted for any time",
    "queued_load_mean": "time average of the sum of requested cores x requested time over queued jobs, core-seconds",
    "throughput": "finished jobs an hour",
}

BATCH_METRICS: Mapping[str, str] = {
    **_COUNTS,
    **{
        f"{name}_{summary}": f"{statistic} of: {meaning}"
        for name, meaning in _DISTRIBUTIONS.items()
        for summary, statistic in SUMMARIES.items()
    },
    **_OTHERS,
}
"""The metrics of a batch cluster: name, and meaning with unit, in the order in which they are returned."""


def batch_result_metrics(result: Result, **options: Any) -> dict[str, float]:
    """Return the metrics of a batch run.

    Parameters
    ----------
    result : Result
        The run; only the columns that are needed are read.
    **options
        From ``warm_up`` on, those of `batch_metrics`.

    Returns
    -------
    dict of str to float
        Every metric of `BATCH_METRICS`.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or the run has not ended.
    """
    return batch_metrics(
        result.scan("jobs"),
        num_cores=result.info["num_cores"],
        end_time=end_time_of(result),
        outages=result.scan("outages"),
        interruptions=result.scan("interruptions"),
        **options,
    )


def batch_metrics(
    jobs: pl.DataFrame | pl.LazyFrame,
    *,
    num_cores: int,
    end_time: float,
    outages: pl.DataFrame | pl.LazyFrame | None = None,
    interruptions: pl.DataFrame | pl.LazyFrame | None = None,
    warm_up: float = 0.0,
    cool_down: float = 0.0,
    window: tuple[float, float] | None = None,
    unfinished: Unfinished = "exclude",
    bounded_slowdown_threshold: float = 10.0,
) -> dict[str, float]:
    """Compute all metrics of `BATCH_METRICS`.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table, one row a job, in any order.
    num_cores : int
        Cores of the cluster.
    end_time : float
        When the run ended, in seconds.
    outages : polars.DataFrame or polars.LazyFrame, optional
        Columns ``time`` and ``cores_up``, in the order of the events; None if all cores were always up.
    interruptions : polars.DataFrame or polars.LazyFrame, optional
        The executions that outages cut; None if no job was put back into the queue.
    warm_up : float
        The observed interval begins this many seconds after the first submission (see `warm_up_of`).
    cool_down : float
        It ends this many seconds before the end of the run.
    window : tuple of float, optional
        Begin and end of the observed interval in simulated seconds, instead of the two above. The
        interval is half-open, except that what happens when the run ends belongs to it.
    unfinished : {"exclude", "include"}
        Whether jobs that have not finished count with their times so far, see the module.
    bounded_slowdown_threshold : float
        Shortest execution time that a bounded slowdown divides by, in seconds.

    Returns
    -------
    dict of str to float
        Every metric, NaN where the sample or the interval is empty. Percentiles are interpolated
        linearly.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range or a column is missing.
    """
    if unfinished not in ("exclude", "include"):
        raise InvalidConfiguration(f"unfinished is {unfinished!r}, want 'exclude' or 'include'")
    if not 0 < bounded_slowdown_threshold < math.inf:
        raise InvalidConfiguration(f"bounded_slowdown_threshold is {bounded_slowdown_threshold!r}, want a time above 0")
    table = read_jobs(jobs)
    observed = _observed_interval(table.submission, end_time, warm_up, cool_down, window)
    selected = _within(table.submission, observed, end_time)
    cuts = read_cut_executions(jobs, interruptions)
    values = {
        **job_counts(table, selected),
        **job_statistics(table, selected, end_time, unfinished == "include", bounded_slowdown_threshold),
        **extent(table, selected, num_cores),
        **_occupation(table, cuts, _available(outages, num_cores, observed), observed, end_time),
        **_queue(table, cuts, observed, end_time),
    }
    return {name: float(values[name]) for name in BATCH_METRICS}


def warm_up_of(jobs: pl.DataFrame | pl.LazyFrame, fraction: float) -> float:
    """Return the warm-up that leaves a fraction of the jobs, the first to be submitted, out of the statistics.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table; only its column ``submission_time`` is read.
    fraction : float
        At least 0 and below 1. Of n jobs the first ``floor(fraction * n)`` are left out; jobs that are
        submitted together with the first of the others stay in.

    Returns
    -------
    float
        Seconds from the first submission, to be passed as ``warm_up``; 0 if there are no jobs.

    Raises
    ------
    InvalidConfiguration
        If the fraction is out of range.
    """
    if not 0 <= fraction < 1:
        raise InvalidConfiguration(f"fraction is {fraction!r}, want a number of at least 0 and below 1")
    times = np.sort(jobs.lazy().select("submission_time").collect()["submission_time"].to_numpy())
    return float(times[int(fraction * len(times))] - times[0]) if len(times) else 0.0


def _observed_interval(
    submission: Floats, end_time: float, warm_up: float, cool_down: float, window: tuple[float, float] | None
) -> tuple[float, float]:
    if not (0 <= warm_up < math.inf and 0 <= cool_down < math.inf):
        raise InvalidConfiguration(f"warm_up is {warm_up!r} and cool_down {cool_down!r}, want times of at least 0 s")
    if window is not None:
        if warm_up or cool_down:
            raise InvalidConfiguration("a window takes the place of warm_up and cool_down: pass one or the other")
        begin, end = window
        if not 0 <= begin <= end <= end_time:
            raise InvalidConfiguration(f"window is {window!r}, want two times in order between 0 and {end_time} s")
        return float(begin), float(end)
    first = float(submission.min()) if len(submission) else 0.0
    begin, end = first + warm_up, float(end_time) - cool_down
    if begin > end:
        raise InvalidConfiguration(
            f"nothing is left between {begin} s (first submission {first} s + warm_up {warm_up} s) "
            f"and {end} s (end {end_time} s - cool_down {cool_down} s)"
        )
    return begin, end


def _within(times: Floats, observed: tuple[float, float], end_time: float) -> Mask:
    begin, end = observed
    return (times >= begin) & ((times < end) | (end >= end_time))


def _available(outages: pl.DataFrame | pl.LazyFrame | None, num_cores: int, observed: tuple[float, float]) -> float:
    """Return the core-seconds during which cores were up."""
    if outages is None:
        return num_cores * (observed[1] - observed[0])
    events = outages.lazy().select("time", "cores_up").collect()
    times, up = events["time"].to_numpy(), events["cores_up"].to_numpy()
    return step_area(times, up.astype(np.float64), num_cores, observed)


def _occupation(
    table: JobColumns, cuts: CutExecutions, available: float, observed: tuple[float, float], end_time: float
) -> dict[str, float]:
    """Return what the cores did during the observed interval, and the rate of finished jobs."""
    running, lost = ~np.isnan(table.start), table.status["lost"]
    ends = np.where(np.isnan(table.finish), end_time, table.finish)
    cores = table.cores.astype(np.float64)
    requeued_area = area(cuts.start, cuts.finish, cuts.cores, observed)
    busy = requeued_area + area(table.start[running], ends[running], cores[running], observed)
    wasted = requeued_area + area(table.start[lost], ends[lost], cores[lost], observed)
    cut_ends = np.concatenate((cuts.finish, ends[lost]))
    length = observed[1] - observed[0]
    finished = np.count_nonzero(_within(table.finish[table.finished], observed, end_time))
    return {
        "utilization": busy / available if available else math.nan,
        "busy_core_seconds": busy,
        "available_core_seconds": available,
        "wasted_core_seconds": wasted,
        "interruptions": float(np.count_nonzero(_within(cut_ends, observed, end_time))),
        "throughput": 3600.0 * finished / length if length else math.nan,
    }


def _queue(table: JobColumns, cuts: CutExecutions, observed: tuple[float, float], end_time: float) -> dict[str, float]:
    """Return time averages over the queue: a job is queued from submission to last start, unless it runs."""
    queued = ~table.status["rejected"]
    begins, starts = table.submission[queued], table.start[queued]
    ends = np.where(np.isnan(starts), end_time, starts)
    load = table.cores[queued] * table.requested_time[queued]
    jobs = area(begins, ends, 1.0, observed) - area(cuts.start, cuts.finish, 1.0, observed)
    waiting_load = area(begins, ends, load, observed) - area(cuts.start, cuts.finish, cuts.load, observed)
    entries = np.concatenate((begins, cuts.finish))
    exits = np.concatenate((starts[~np.isnan(starts)], cuts.start))
    length = observed[1] - observed[0]
    return {
        "queue_length_mean": jobs / length if length else math.nan,
        "queue_length_max": maximum(entries, exits, observed),
        "queued_load_mean": waiting_load / length if length else math.nan,
    }
