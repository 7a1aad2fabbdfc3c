"""Jobs of a batch cluster, and basic actions of an agent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, Self

from desim.exceptions import WorkloadError

__all__ = ["Job", "Start", "WaitForCores", "WaitUntil", "check_job"]


class Job(NamedTuple):
    """Rigid parallel job.

    Attributes
    ----------
    job_id : int
        Identifier, unique among the jobs in the system at the same time.
    submission_time : float
        Time at which the job enters the queue, in seconds, at least 0.
    requested_cores : int
        Number of cores that the job holds from its start to its end, at least 1.
    requested_time : float
        The user's estimate of the run time, in seconds; the only duration visible to agents.
    run_time : float
        Actual run time in seconds, at least 0. By default, the cluster kills a job that reaches its requested time.
    user_id : int
        Number of the user who submitted the job; -1 if unknown.
    """

    job_id: int
    submission_time: float
    requested_cores: int
    requested_time: float
    run_time: float
    user_id: int = -1

    def known(self) -> Self:
        """Return the job as agents know it, with its requested time as run time."""
        return self._replace(run_time=self.requested_time)


class Start(NamedTuple):
    """Action that starts a queued job on given cores.

    If core ids do not matter, return just the job id instead: the cluster then takes the lowest free cores.

    Attributes
    ----------
    job_id : int
        Id of the queued job.
    cores : int
        Cores as a bit set: bit i stands for core i.
    """

    job_id: int
    cores: int


@dataclass(frozen=True, slots=True)  # not a tuple, which numpy would treat as numbers when comparing job ids
class WaitForCores:
    """Action that ends a scheduling cycle, and skips decisions at which the agent would only wait.

    The next cycle opens once the given number of cores is free, or at another event that may change the decision: an
    outage, a repair, the begin or end of a reservation, the admission of a held job, or the time of a
    :class:`WaitUntil`. If that many cores are already free, no decision is skipped.

    Attributes
    ----------
    cores : int
        Number of cores that must be free, at most those of the cluster. Give the smallest request of the jobs that
        could start then.
    arrivals : bool
        Whether jobs that arrive in the meantime could start as well: a cycle then opens as soon as one of them fits.
        Set it to False for strict orders in which no later job can come first, such as first come, first served.
    """

    cores: int
    arrivals: bool = True


class WaitUntil(NamedTuple):
    """Action that ends a scheduling cycle and requests another one at a given time.

    Arrivals, completions and other events may open cycles before. The request is kept until its time; further ones add
    to it.

    Attributes
    ----------
    time : float or None
        Time of the requested cycle, in seconds of simulated time; None withdraws all requests.
    """

    time: float | None


def check_job(job: Job) -> None:
    """Raise an error if a field of a job is invalid.

    Parameters
    ----------
    job : Job
        Job to check.

    Raises
    ------
    WorkloadError
        If a field is not finite or out of range; the message names the job and the field.
    """
    job_id = job.job_id
    cores = job.requested_cores
    if not _is_number(cores) or not 1 <= cores < math.inf or cores != int(cores):
        raise WorkloadError(f"job {job_id}: requested_cores: got {cores!r}, expected an integer >= 1")
    for field, value in (
        ("submission_time", job.submission_time),
        ("requested_time", job.requested_time),
        ("run_time", job.run_time),
    ):
        if not _is_number(value) or not 0 <= value < math.inf:
            raise WorkloadError(f"job {job_id}: {field}: got {value!r}, expected a finite time >= 0 s")


def _is_number(value: object) -> bool:
    return isinstance(value, Real)
