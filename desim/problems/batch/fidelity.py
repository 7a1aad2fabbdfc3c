"""Accuracy of simulated waiting times against a log: shares, errors, groups of jobs and distributions.

A simulated wait is *near* the recorded one if it differs by at most ten minutes, or by at most 20 % of the recorded
wait. A job that the simulation never starts is not near, and does not enter errors and distributions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problem import Better, Metric
from desim.problems.batch.job import Job

if TYPE_CHECKING:
    from desim.problems.batch.workload import Workload
    from desim.result import Result

__all__ = [
    "NEAR_SECONDS",
    "NEAR_SHARE",
    "RecordedWaits",
    "WaitAccuracy",
    "group_nearness",
    "idle_waits",
    "nearness",
    "wait_log",
    "wait_metrics",
]

NEAR_SECONDS = 600.0
"""Absolute tolerance in seconds: a wait is near if it differs by at most this."""
NEAR_SHARE = 0.2
"""Relative tolerance: a wait is also near if it differs by at most this share of the recorded wait."""

Floats = NDArray[np.float64]
#: Upper bounds of the classes of cores, and of the classes of requested time in seconds, with their names.
_CORES = (1, 4, 16, 64)
_TIMES = {"to 15 min": 900.0, "to 1 h": 3_600.0, "to 4 h": 14_400.0, "to 1 day": 86_400.0, "to 4 days": 345_600.0}
#: Metrics of waits beside recorded ones: field of the accuracy, name, meaning, unit, and which values are better.
_METRICS: tuple[tuple[str, str, str, str, Better], ...] = (
    ("near", "wait_near", "share of jobs whose wait is near the recorded one, by 10 min or 20 %", "", "higher"),
    ("mean_absolute_error", "wait_error_mean", "mean absolute difference from the recorded waits", "s", "lower"),
    ("median_absolute_error", "wait_error_median", "median absolute difference from the recorded waits", "s", "lower"),
    ("rank_correlation", "wait_rank_correlation", "Spearman's correlation with the recorded waits", "", "higher"),
    ("distance", "wait_distance", "largest difference of the distributions of waits, from 0 to 1", "", "lower"),
)


@dataclass(frozen=True)
class RecordedWaits:
    """Waiting times recorded in a log, and groups of its jobs.

    Parameters
    ----------
    waiting_time : array of float
        Wait of each job in seconds; nan if unknown.
    groups : mapping of str to (array of int, list of str)
        Groupings by name: the group number of each job, and the names of the groups.
    """

    waiting_time: Floats
    groups: Mapping[str, tuple[NDArray[np.int64], list[str]]]


@dataclass(frozen=True)
class WaitAccuracy:
    """Accuracy of predicted waits against recorded ones; times are in seconds.

    Attributes
    ----------
    jobs : int
        Number of jobs with a recorded wait.
    started : int
        Number of these jobs that the simulation started as well.
    near : float
        Share of the jobs with a recorded wait whose predicted wait is near it.
    mean_recorded, mean_predicted : float
        Mean waits of the started jobs.
    mean_absolute_error, median_absolute_error : float
        Mean and median absolute error of the started jobs.
    rank_correlation : float
        Spearman's rank correlation: 1 if predicted and recorded waits order the jobs alike; nan if all predicted or
        all recorded waits are equal.
    distance : float
        Kolmogorov-Smirnov distance of the two distributions of waits: largest difference of the cumulative
        distribution functions, from 0 to 1.
    """

    jobs: int
    started: int
    near: float
    mean_recorded: float
    mean_predicted: float
    mean_absolute_error: float
    median_absolute_error: float
    rank_correlation: float
    distance: float

    @property
    def bias(self) -> float:
        """Mean of the predicted minus the recorded waits, in seconds."""
        return self.mean_predicted - self.mean_recorded


def wait_log(
    jobs: Sequence[Job], waiting_time: ArrayLike, *, clock_start: float = 0.0, zone: tzinfo = UTC
) -> RecordedWaits:
    """Return recorded waits grouped by cores, requested time, hour of submission and, if known, queue.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of the log in order of submission.
    waiting_time : array_like
        Wait of each job in seconds; nan if unknown.
    clock_start : float
        Time 0 of the jobs' clock in seconds since 1970, to compute the hour of submission.
    zone : tzinfo
        Time zone of the machine.

    Returns
    -------
    RecordedWaits
        Waits and groups; queues are sorted by number of jobs, the largest first.

    Raises
    ------
    InvalidConfiguration
        If the lengths differ, or no wait is known.
    """
    waits = np.array(waiting_time, dtype=np.float64)
    if len(waits) != len(jobs):
        raise InvalidConfiguration(f"waiting_time: got {len(waits)} waits for {len(jobs)} jobs, expected one per job")
    if np.isnan(waits).all():
        raise InvalidConfiguration("waiting_time: got no known wait, so there is nothing to compare with")
    cores = np.array([job.requested_cores for job in jobs])
    times = np.array([job.requested_time for job in jobs])
    hours = [datetime.fromtimestamp(clock_start + job.submission_time, zone).hour for job in jobs]
    begins = [1, *(end + 1 for end in _CORES)]
    widths = [f"{begin}" if begin == end else f"{begin} to {end}" for begin, end in zip(begins, _CORES, strict=False)]
    groups = {
        "cores": (np.searchsorted(_CORES, cores), [*widths, f"{begins[-1]} or more"]),
        "requested time": (np.searchsorted(list(_TIMES.values()), times), [*_TIMES, "longer"]),
        "hour of submission": (np.array(hours, dtype=np.int64), [f"{hour:02}" for hour in range(24)]),
    }
    queues = [job.queue for job in jobs]
    if any(queues):
        counts = {name: queues.count(name) for name in dict.fromkeys(queues)}
        names = sorted(counts, key=lambda name: (-counts[name], name))
        places = {name: place for place, name in enumerate(names)}
        groups["queue"] = (np.array([places[name] for name in queues]), [name or "unknown" for name in names])
    return RecordedWaits(waits, {by: (group.astype(np.int64), names) for by, (group, names) in groups.items()})


def nearness(predicted: ArrayLike, recorded: ArrayLike) -> WaitAccuracy:
    """Return how closely predicted waits match recorded ones, job by job and as distributions.

    Parameters
    ----------
    predicted : array_like
        Waits in a simulation, in seconds; nan for jobs that were not started.
    recorded : array_like
        Waits in the log, in seconds; nan if unknown.

    Returns
    -------
    WaitAccuracy
        Accuracy over the jobs with a recorded wait; without any, all shares and times are nan.

    Examples
    --------
    >>> found = nearness([0.0, 500.0, 9_000.0], [100.0, 5_000.0, 10_000.0])
    >>> found.near, found.median_absolute_error
    (0.6666666666666666, 1000.0)
    """
    ours, real = np.asarray(predicted, dtype=np.float64), np.asarray(recorded, dtype=np.float64)
    known = ~np.isnan(real)
    ours, real = ours[known], real[known]
    started = ~np.isnan(ours)
    near = np.abs(ours - real) <= np.maximum(NEAR_SECONDS, NEAR_SHARE * real)  # False for nan
    share = float(near.mean()) if len(real) else np.nan
    ours, real = ours[started], real[started]
    if not len(real):
        return WaitAccuracy(int(known.sum()), 0, share, *[np.nan] * 6)
    errors = np.abs(ours - real)
    varied = np.ptp(ours) > 0 and np.ptp(real) > 0
    places = np.concatenate([ours, real])
    shares = [np.searchsorted(np.sort(waits), places, side="right") / len(waits) for waits in (ours, real)]
    return WaitAccuracy(
        jobs=int(known.sum()),
        started=len(real),
        near=share,
        mean_recorded=float(real.mean()),
        mean_predicted=float(ours.mean()),
        mean_absolute_error=float(errors.mean()),
        median_absolute_error=float(np.median(errors)),
        rank_correlation=float(np.corrcoef(_ranks(ours), _ranks(real))[0, 1]) if varied else np.nan,
        distance=float(np.abs(shares[0] - shares[1]).max()),
    )


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value; equal values share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def wait_metrics(log: Workload, *, warm_up: float = 0.0, cool_down: float = 0.0) -> tuple[Metric, ...]:
    """Return metrics of a run on a log that compare its waits with the recorded ones.

    Parameters
    ----------
    log : Workload
        Jobs of a log, or of a window of it, with their recorded waits.
    warm_up, cool_down : float
        Times after the first submission and before the end of the run in which waits are not compared, in seconds; in a
        window of a log, its measured interval counts.

    Returns
    -------
    tuple of Metric
        ``wait_near``, errors, rank correlation and distance, see `WaitAccuracy`; and ``no_wait_near``, the share of
        near waits if no job waited at all, which is the same for all agents.

    Raises
    ------
    InvalidConfiguration
        If no wait to compare with is known. In a window of a log the metrics are then NaN.
    """
    if "waiting_time" not in log.columns or (log.window is None and np.isnan(log["waiting_time"]).all()):
        raise InvalidConfiguration("recorded waits: got no known wait, so there is nothing to compare with; try a log")
    times = log["submission_time"]
    begin, end = (times[0] + warm_up, None) if log.window is None else log.window.observed

    def recorded(result: Result) -> Floats:
        """Return the recorded waits that count, NaN for the others."""
        counted = (times >= begin) & (times < (result.end_time - cool_down if end is None else end))
        waits: Floats = np.where(counted, log["waiting_time"], np.nan)
        return waits

    def measure(result: Result, name: str) -> float:
        """Return a metric of the waits of a run."""
        jobs = result.scan("jobs").select("arrival_number", "waiting_time").collect()
        waits = np.full(len(log), np.nan)
        waits[jobs["arrival_number"].to_numpy()] = jobs["waiting_time"].to_numpy()
        return float(getattr(nearness(waits, recorded(result)), name))

    def idle(result: Result) -> float:
        """Return the share of jobs for which no wait is near the recorded one."""
        return nearness(np.zeros(len(log)), recorded(result)).near

    words = "wait_near of the trivial prediction that no job waits"
    compared = (
        Metric(name, text, unit, better, "", partial(measure, name=of)) for of, name, text, unit, better in _METRICS
    )
    return (*compared, Metric("no_wait_near", words, measure=idle))


def group_nearness(predicted: ArrayLike, log: RecordedWaits) -> dict[str, dict[str, WaitAccuracy]]:
    """Return the accuracy of predicted waits in each group that contains a job with a recorded wait.

    Parameters
    ----------
    predicted : array_like
        Waits in a simulation, in seconds; nan for jobs that were not started.
    log : RecordedWaits
        Recorded waits and groups.

    Returns
    -------
    dict of str to dict of str to WaitAccuracy
        Accuracy by name of the grouping, then by name of the group.
    """
    waits = np.asarray(predicted, dtype=np.float64)
    known = ~np.isnan(log.waiting_time)
    return {
        by: {
            name: nearness(waits[members], log.waiting_time[members])
            for number, name in enumerate(names)
            if (members := known & (group == number)).any()
        }
        for by, (group, names) in log.groups.items()
    }


def idle_waits(
    jobs: Sequence[Job], waiting_time: ArrayLike, num_cores: int, *, counted: ArrayLike | None = None
) -> tuple[int, int]:
    """Count the long waits of a log, and those that occurred although enough cores were free.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of the log in order of submission; each is assumed to run for its run time.
    waiting_time : array_like
        Wait of each job in seconds; nan if unknown. A job of unknown wait occupies no cores here.
    num_cores : int
        Number of cores of the machine.
    counted : array_like of bool, optional
        Whether to count the wait of each job (default: all known waits).

    Returns
    -------
    long : int
        Number of waits of more than ten minutes.
    idle : int
        Number of these during which enough cores for the job were always free in the recorded schedule.

    Examples
    --------
    >>> jobs = [Job(1, 0.0, 3, 5000.0, 5000.0), Job(2, 0.0, 1, 60.0, 60.0), Job(3, 0.0, 2, 60.0, 60.0)]
    >>> idle_waits(jobs, [0.0, 1000.0, 5000.0], num_cores=4)
    (2, 1)
    """
    waits = np.asarray(waiting_time, dtype=np.float64)
    begins = np.array([job.submission_time for job in jobs])
    cores = np.array([job.requested_cores for job in jobs])
    starts = begins + waits
    known = ~np.isnan(starts)
    ends = starts + np.array([job.run_time for job in jobs])
    times = np.concatenate([[-np.inf], starts[known], ends[known]])
    changes = np.concatenate([[0], cores[known], -cores[known]])
    order = np.lexsort((changes, times))  # releases first: their cores can be taken at the same instant
    times, most = times[order], changes[order].cumsum()
    is_long = known & (waits > NEAR_SECONDS) & (True if counted is None else np.asarray(counted, dtype=np.bool_))
    first = np.searchsorted(times, begins[is_long], side="right") - 1
    count = np.searchsorted(times, starts[is_long], side="left") - first
    # The peak of busy cores within each wait, for all waits at once: in round k, most[i] is the maximum of the 2**k
    # instants from i on. Two such spans, which may overlap, cover a wait of at least 2**k and under 2**(k + 1) instants
    levels, peaks = np.frexp(count)[1] - 1, np.zeros(len(count), dtype=np.int64)
    for level in range(int(levels.max(initial=-1)) + 1):
        here = levels == level
        last = first[here] + count[here] - 2**level
        peaks[here] = np.maximum(most[first[here]], most[last])
        most = np.maximum(most[: -(2**level)], most[2**level :])
    return len(count), int((peaks + cores[is_long] <= num_cores).sum())
