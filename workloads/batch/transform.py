r"""Functions from jobs to jobs: load, time window, clock.

All take jobs in the order of their submission and give a new list; the offered load is the work
that arrives in a second (cores times run time) as a share of the machine,

.. math:: \rho = \frac{\sum_j c_j p_j}{C \, (t_\mathrm{last} - t_\mathrm{first})}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job

__all__ = ["offered_load", "rescale_load", "scale_interarrivals", "shift_to_zero", "time_window"]


def offered_load(jobs: Iterable[Job], num_cores: int) -> float:
    """Return the offered load of jobs on a machine.

    Parameters
    ----------
    jobs : iterable of Job
        At least two jobs, submitted at two different times or more.
    num_cores : int
        Cores of the machine.

    Returns
    -------
    float
        Core-seconds of actual run time over the core-seconds that the machine has between the
        first and the last submission; above 1 the queue grows without bound.

    Raises
    ------
    WorkloadError
        If all jobs are submitted at once, so that the load is not defined.
    InvalidConfiguration
        If `num_cores` is not positive.
    """
    check_int("num_cores", num_cores, least=1)
    jobs = list(jobs)
    work = math.fsum(job.requested_cores * job.run_time for job in jobs)
    times = [job.submission_time for job in jobs]
    if not times or max(times) == min(times):
        raise WorkloadError(
            f"the offered load of {len(times)} jobs is not defined: it takes two different submission times"
        )
    return work / (num_cores * (max(times) - min(times)))


def scale_interarrivals(jobs: Iterable[Job], factor: float) -> list[Job]:
    """Stretch or squeeze the times between submissions; the first job stays where it is.

    Parameters
    ----------
    jobs : iterable of Job
        Sorted by submission time.
    factor : float
        Above 0; 2 halves the offered load.

    Returns
    -------
    list of Job
        New jobs, the submission times no longer whole seconds.

    Raises
    ------
    InvalidConfiguration
        If `factor` is not positive and finite.
    """
    check_float("factor", factor, above=0)
    jobs = list(jobs)
    first = jobs[0].submission_time if jobs else 0.0
    return [job._replace(submission_time=first + (job.submission_time - first) * factor) for job in jobs]


def rescale_load(jobs: Iterable[Job], num_cores: int, load: float) -> list[Job]:
    """Multiply all times between submissions so that the offered load is as wanted.

    Parameters
    ----------
    jobs : iterable of Job
        Sorted by submission time.
    num_cores : int
        Cores of the machine.
    load : float
        The wanted offered load, above 0.

    Returns
    -------
    list of Job
        New jobs; the first one keeps its submission time.

    Raises
    ------
    WorkloadError
        If the load of the jobs is not defined or 0.
    InvalidConfiguration
        If `load` is not positive and finite, or `num_cores` is not positive.
    """
    check_float("load", load, above=0)
    jobs = list(jobs)
    offered = offered_load(jobs, num_cores)
    if offered == 0:
        raise WorkloadError(f"the {len(jobs)} jobs have no work, so that no load but 0 can be had")
    return scale_interarrivals(jobs, offered / load)


def shift_to_zero(jobs: Iterable[Job], origin: float | None = None) -> list[Job]:
    """Set the clock back, by default so that the first job is submitted at time 0.

    Parameters
    ----------
    jobs : iterable of Job
        Sorted by submission time.
    origin : float, optional
        The time that becomes 0, not after the first submission.

    Returns
    -------
    list of Job
        New jobs.

    Raises
    ------
    InvalidConfiguration
        If a job would be submitted before time 0.
    """
    jobs = list(jobs)
    if not jobs:
        return []
    first = jobs[0].submission_time
    if origin is None:
        origin = first
    if not origin <= first:
        raise InvalidConfiguration(f"origin is {origin!r}, after the first submission at {first!r}")
    return [job._replace(submission_time=job.submission_time - origin) for job in jobs]


def time_window(jobs: Iterable[Job], start: float, end: float, *, shift: bool = False) -> list[Job]:
    """Keep the jobs submitted in the half-open interval [start, end).

    Parameters
    ----------
    jobs : iterable of Job
        Sorted by submission time.
    start, end : float
        Seconds.
    shift : bool
        Whether `start` becomes time 0.

    Returns
    -------
    list of Job
        In the given order; empty if nothing was submitted in the window.

    Raises
    ------
    InvalidConfiguration
        If `start` is not before `end`.
    """
    if not start < end:
        raise InvalidConfiguration(f"the window from {start!r} to {end!r} s is empty, want a start before its end")
    kept = [job for job in jobs if start <= job.submission_time < end]
    return shift_to_zero(kept, start) if shift else kept
