r"""Transformations of workloads: offered load and clock; for parts of a log, see `Workload.windows`.

All functions take jobs in any order and return a new :class:`~desim.problems.batch.Workload` with other columns. The
offered load is the work (cores times run time) that arrives per second, as a share of the machine's capacity:

.. math:: \rho = \frac{\sum_j c_j p_j}{C \, (t_\mathrm{last} - t_\mathrm{first})}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.workload import Workload

__all__ = ["offered_load", "rescale_load", "scale_interarrivals", "thin"]


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


def thin(jobs: Iterable[Job], num_cores: int, load: float, rng: np.random.Generator) -> Workload:
    """Leave out jobs at random to reach a lower offered load; all others keep their times.

    Unlike :func:`rescale_load`, it keeps the daily and weekly cycle. It also makes bursts smaller.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs.
    num_cores : int
        Number of cores of the machine.
    load : float
        Target offered load, > 0, at most that of the jobs.
    rng : numpy.random.Generator
        Random generator.

    Returns
    -------
    Workload
        New workload. First and last job are kept; the load is at least the target, by less than the work of one job.

    Raises
    ------
    WorkloadError
        If the offered load of the jobs is undefined.
    InvalidConfiguration
        If `load` is not positive, or above that of the jobs.
    """
    check_float("load", load, above=0)
    workload = Workload.of(jobs)
    offered = offered_load(workload, num_cores)
    if load > offered:
        raise InvalidConfiguration(
            f"load: got {load:g}, but the jobs offer {offered:.4g}, and leaving out jobs cannot raise it; try a lower "
            "load, or scale the times between submissions (load_by 'time')"
        )
    work = workload["requested_cores"] * workload["run_time"]
    order = np.concatenate(([0, len(work) - 1], 1 + rng.permutation(len(work) - 2)))
    count = int(np.searchsorted(np.cumsum(work[order]), load / offered * work.sum())) + 1
    return workload.take(np.sort(order[: max(count, 2)]))
