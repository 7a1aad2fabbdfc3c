"""What enters a batch cluster and what an agent may answer: jobs and actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, Self

from desim.exceptions import WorkloadError

__all__ = ["Job", "Start", "WaitForCores", "WaitUntil", "check_job"]


class Job(NamedTuple):
    """A rigid parallel job.

    Attributes
    ----------
    job_id : int
        Identifier, unique among the jobs that are in the system at the same time.
    submission_time : float
        When the job enters the queue, in seconds, at least 0.
    requested_cores : int
        Cores that the job holds from its start to its end, at least 1.
    requested_time : float
        The user's estimate of the run time, in seconds; the only duration that agents see.
    run_time : float
        The actual run time in seconds, at least 0. The cluster kills a job that reaches its
        requested time, unless told otherwise.
    user_id : int
        Who submitted the job, -1 where unknown.
    """

    job_id: int
    submission_time: float
    requested_cores: int
    requested_time: float
    run_time: float
    user_id: int = -1

    def known(self) -> Self:
        """Return the job as agents know it: it runs for as long as it requests."""
        return self._replace(run_time=self.requested_time)


class Start(NamedTuple):
    """The action that starts a queued job on chosen cores.

    An agent that does not care about core ids answers with the plain job id instead, and the
    cluster takes the lowest free cores.

    Attributes
    ----------
    job_id : int
        The queued job to start.
    cores : int
        The cores as a bit set: bit i stands for core i.
    """

    job_id: int
    cores: int


@dataclass(frozen=True, slots=True)  # no tuple, which numpy would take for numbers where job ids are compared
class WaitForCores:
    """The action that ends a scheduling cycle and spares the questions whose answer is known: to go on waiting.

    The next cycle opens as soon as so many cores are free, or at what else may change the answer: an outage, a repair,
    or the time of a :class:`WaitUntil`. Where so many cores are free already, nothing is spared.

    Attributes
    ----------
    cores : int
        How many cores must be free, at most those of the cluster: what the narrowest of the jobs requests that could
        start then.
    arrivals : bool
        Whether jobs that arrive in the meantime could start, too: a cycle then opens as soon as one of them fits. Not
        so under strict orders that no later job can come first in, such as first come, first served.
    """

    cores: int
    arrivals: bool = True


class WaitUntil(NamedTuple):
    """The action that ends a scheduling cycle and asks for another one no later than a time.

    Attributes
    ----------
    time : float
        When to open a scheduling cycle if no arrival or completion has opened one before, in
        seconds of simulated time.
    """

    time: float


def check_job(job: Job) -> None:
    """Raise a clear error unless the fields of a job make sense.

    Parameters
    ----------
    job : Job
        The job to look at.

    Raises
    ------
    WorkloadError
        If a field is not finite or out of range; the message names the job and the field.
    """
    job_id = job.job_id
    cores = job.requested_cores
    if not _is_number(cores) or not 1 <= cores < math.inf or cores != int(cores):
        raise WorkloadError(f"job {job_id}: requested_cores is {cores!r}, want a whole number of at least 1")
    for field, value in (
        ("submission_time", job.submission_time),
        ("requested_time", job.requested_time),
        ("run_time", job.run_time),
    ):
        if not _is_number(value) or not 0 <= value < math.inf:
            raise WorkloadError(f"job {job_id}: {field} is {value!r}, want a finite time of at least 0")


def _is_number(value: object) -> bool:
    return isinstance(value, Real)
