r"""Transformations of workloads: offered load, time window, clock.

All functions take jobs in any order and return a new :class:`~desim.problems.batch.Workload` with other columns. The
offered load is the work (cores times run time) that arrives per second, as a share of the machine's capacity:

.. math:: \rho = \frac{\sum_j c_j p_j}{C \, (t_\mathrm{last} - t_\mathrm{first})}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.workload import Workload

__all__ = ["offered_load", "rescale_load", "scale_interarrivals", "shift_to_zero", "time_window"]


def offered_load(jobs: Iterable[Job], num_cores: int) -> float:
    """Return the offered load of jobs on a machine.

    Parameters
    ----------
    jobs : iterable of Job
        At least two jobs, with at least two different submission times.
    num_cores : int
        Number of cores of the machine.

    Returns
    -------
    float
        Core-seconds of run time, divided by the core-seconds of the machine between the
        first and the last submission; above 1, the queue grows without bound.

    Raises
    ------
    WorkloadError
        If all jobs are submitted at the same time, so that the load is undefined.
    InvalidConfiguration
        If `num_cores` is not positive.
    """
    check_int("num_cores", num_cores, least=1)
    workload = Workload.of(jobs)
    work, times = workload["requested_cores"] * workload["run_time"], workload["submission_time"]
    if not len(times) or times[0] == times[-1]:
        raise WorkloadError(
            f"offered load of {len(times)} jobs is undefined: expected at least two different submission times"
        )
    return math.fsum(work.tolist()) / (num_cores * float(times[-1] - times[0]))


def scale_interarrivals(jobs: Iterable[Job], factor: float) -> Workload:
    """Stretch or compress the times between submissions; the first job keeps its submission time.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs.
    factor : float
        Factor of the times between submissions, > 0; 2 halves the offered load.

    Returns
    -------
    Workload
        New workload; its submission times may be fractions of seconds.

    Raises
    ------
    InvalidConfiguration
        If `factor` is not positive and finite.
    """
    check_float("factor", factor, above=0)
    workload = Workload.of(jobs)
    times = workload["submission_time"]
    return workload.with_columns(submission_time=times[:1] + (times - times[:1]) * factor)


def rescale_load(jobs: Iterable[Job], num_cores: int, load: float) -> Workload:
    """Scale the times between submissions to reach a given offered load.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs.
    num_cores : int
        Number of cores of the machine.
    load : float
        Target offered load, > 0.

    Returns
    -------
    Workload
        New workload; the first job keeps its submission time.

    Raises
    ------
    WorkloadError
        If the offered load of the jobs is undefined or 0.
    InvalidConfiguration
        If `load` is not positive and finite, or `num_cores` is not positive.
    """
    check_float("load", load, above=0)
    workload = Workload.of(jobs)
    offered = offered_load(workload, num_cores)
    if offered == 0:
        raise WorkloadError(f"load: got {len(workload)} jobs without work, expected run times > 0 to reach a load")
    return scale_interarrivals(workload, offered / load)


def shift_to_zero(jobs: Iterable[Job], origin: float | None = None) -> Workload:
    """Move the clock; by default, the first job is then submitted at time 0.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs.
    origin : float, optional
        Time that becomes 0, at or before the first submission.

    Returns
    -------
    Workload
        New workload with the new times.

    Raises
    ------
    InvalidConfiguration
        If a job would be submitted before time 0.
    """
    workload = Workload.of(jobs)
    if not len(workload):
        return workload
    times = workload["submission_time"]
    first = float(times[0])
    if origin is None:
        origin = first
    if not origin <= first:
        raise InvalidConfiguration(f"origin: got {origin!r}, expected at most the first submission time {first!r}")
    return workload.with_columns(submission_time=times - origin)


def time_window(jobs: Iterable[Job], start: float, end: float, *, shift: bool = False) -> Workload:
    """Return the jobs submitted in the half-open interval [start, end).

    Parameters
    ----------
    jobs : iterable of Job
        Jobs.
    start, end : float
        Start (inclusive) and end (exclusive), in seconds.
    shift : bool
        Whether `start` becomes time 0.

    Returns
    -------
    Workload
        Workload of these jobs; empty if none was submitted in the interval.

    Raises
    ------
    InvalidConfiguration
        If `start` is not before `end`.
    """
    if not start < end:
        raise InvalidConfiguration(f"window: got {start!r} to {end!r} s, expected a start before its end")
    workload = Workload.of(jobs)
    times = workload["submission_time"]
    kept = workload.take((start <= times) & (times < end))
    return shift_to_zero(kept, start) if shift else kept
