"""A deferrable job: a virtual machine that may be started at any slot of a window."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator
from itertools import count
from math import inf, isclose
from typing import Any, NamedTuple

import numpy as np

from desim.exceptions import WorkloadError

__all__ = ["Job", "check_job", "real_time"]

#: Identifiers pass through arrays of floats, which hold whole numbers exactly up to here.
LARGEST_ID = 2**53
#: How far, relatively, the clock may be from a time that it was set to: it adds times up.
ROUNDING = 1e-12


class Job(NamedTuple):
    """A job that runs for a while, without interruption, once it has been started within its window.

    Its five numbers are those of the OSDEC paper, section 3.1: b = (c, d, e, l, g).

    Attributes
    ----------
    job_id : int
        Identifier, unique among the jobs that are in the system at the same time.
    submission_time : float
        When it becomes known, g, in slots; not after its earliest start.
    earliest_start, latest_start : int
        First and last slot in which it may be started, e and l.
    duration : int
        Slots that it runs, d, at least 1.
    cores : float
        Cores that it holds while it runs, c, above 0.
    others : tuple of float
        What it holds of the cluster's further resources, in their order, each at least 0.

    Examples
    --------
    >>> job = Job(1, submission_time=0, earliest_start=2, latest_start=5, duration=3, cores=4)
    >>> job.revenue, job.slack, job.notice
    (12, 3, 2)
    """

    job_id: int
    submission_time: float
    earliest_start: int
    latest_start: int
    duration: int
    cores: float
    others: tuple[float, ...] = ()

    @property
    def revenue(self) -> float:
        """What it earns if it is started, r = c d, in core-slots."""
        return self.cores * self.duration

    @property
    def slack(self) -> int:
        """By how many slots its start may be deferred, l - e."""
        return self.latest_start - self.earliest_start

    @property
    def notice(self) -> float:
        """How many slots before its window it becomes known, e - g."""
        return self.earliest_start - self.submission_time


def check_is_job(job: Any) -> None:
    """Raise WorkloadError if something else has taken the place of a job."""
    if not isinstance(job, Job):
        raise WorkloadError(f"the workload has {job!r}, want a desim.problems.deferrable.Job")


def check_job(job: Job, num_resources: int = 1) -> None:
    """Raise unless a job makes sense.

    Parameters
    ----------
    job : Job
        What a workload has delivered.
    num_resources : int
        How many resources the cluster has, cores among them.

    Raises
    ------
    WorkloadError
        If it is no job, a number is out of range, or its times are not in the order g <= e <= l; the message names the
        job and the value.
    """
    if _is_sound(job, num_resources):  # a million jobs are checked this way, and hardly one otherwise
        return
    check_is_job(job)
    what = f"job {job.job_id!r}"
    if not _is_whole(job.job_id) or abs(job.job_id) > LARGEST_ID:
        raise WorkloadError(f"{what}: its identifier is not a whole number of at most 2**53")
    submission_time_of(job)
    for name in ("earliest_start", "latest_start", "duration"):
        value, least = getattr(job, name), int(name == "duration")
        if not _is_whole(value) or not least <= value <= LARGEST_ID:
            raise WorkloadError(f"{what}: {name} is {value!r}, want a whole number of slots, at least {least}")
    if job.earliest_start < job.submission_time:
        raise WorkloadError(
            f"{what}: its earliest start {job.earliest_start!r} is before its submission at {job.submission_time!r}"
        )
    if job.latest_start < job.earliest_start:
        raise WorkloadError(
            f"{what}: its latest start {job.latest_start!r} is before its earliest start {job.earliest_start!r}"
        )
    if not _within(job.cores, 0, inf) or job.cores == 0:
        raise WorkloadError(f"{what}: it requests {job.cores!r} cores, want a number above 0")
    _check_others(job, num_resources)


def check_submission(job: Job, time: float, next_slot: int, known: Container[int]) -> None:
    """Raise unless a job can be submitted now.

    Parameters
    ----------
    job : Job
        One that makes sense.
    time : float
        The time now.
    next_slot : int
        The first slot that has not begun.
    known : container of int
        Identifiers of the jobs that are in the system.

    Raises
    ------
    WorkloadError
        If it is another time, the slot of its latest start has begun, or its identifier is in use.
    """
    if not isclose(job.submission_time, time, rel_tol=ROUNDING):
        raise WorkloadError(f"job {job.job_id}: submitted at {time}, not at {job.submission_time!r}")
    if job.latest_start < next_slot:
        raise WorkloadError(f"job {job.job_id}: submitted at {time}, when the slot of its latest start has begun")
    if job.job_id in known:
        raise WorkloadError(f"job {job.job_id}: submitted twice, the second time at {time}")


def _is_sound(job: Job, num_resources: int) -> bool:
    """Tell at once, for jobs of plain numbers that request cores alone."""
    return (
        num_resources == 1
        and type(job) is Job
        and tuple(map(type, job)) in _PLAIN
        and 0 <= job.submission_time <= job.earliest_start <= job.latest_start <= LARGEST_ID
        and 1 <= job.duration <= LARGEST_ID
        and 0 < job.cores < inf
        and abs(job.job_id) <= LARGEST_ID
        and not job.others
    )


_PLAIN = {(int, time, int, int, int, cores, tuple) for time in (int, float) for cores in (int, float)}


def _check_others(job: Job, num_resources: int) -> None:
    if not isinstance(job.others, tuple) or len(job.others) != num_resources - 1:
        raise WorkloadError(
            f"job {job.job_id!r}: others is {job.others!r}, want {num_resources - 1} amounts, one for each resource "
            f"of the cluster besides cores"
        )
    for amount in job.others:
        if not _within(amount, 0, inf):
            raise WorkloadError(f"job {job.job_id!r}: it requests {amount!r} of a resource, want a number from 0 on")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _within(value: Any, low: float, high: float) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and low <= value < high


def real_time(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield jobs without foresight and without slack: submitted at their earliest start, to be started at once.

    The comparison of the OSDEC paper's Table 2, g = e = l. Jobs that are known but not yet due are held back, so
    memory follows their number only.

    Parameters
    ----------
    jobs : iterable of Job
        In order of submission.

    Yields
    ------
    Job
        The same jobs in order of their earliest start, those of one slot in the order of ``jobs``.

    Raises
    ------
    WorkloadError
        If a job makes no sense, or comes before the one before it.
    """
    held: list[tuple[int, int, Job]] = []
    last = 0.0
    for number, job in zip(count(), jobs):  # endless beside a stream
        check_is_job(job)
        check_job(job, 1 + len(job.others) if isinstance(job.others, tuple) else 1)
        if job.submission_time < last:
            raise WorkloadError(f"{job!r} comes after one that is submitted at {last!r}: sort the workload")
        last = job.submission_time
        while held and held[0][0] <= job.submission_time:
            yield _at_once(heapq.heappop(held)[2])
        heapq.heappush(held, (job.earliest_start, number, job))
    while held:
        yield _at_once(heapq.heappop(held)[2])


def _at_once(job: Job) -> Job:
    return job._replace(submission_time=job.earliest_start, latest_start=job.earliest_start)


def submission_time_of(job: Job) -> float:
    """Return when a job becomes known, or raise WorkloadError if it is no job or that is no time."""
    check_is_job(job)
    if not _within(job.submission_time, 0, inf):
        raise WorkloadError(
            f"job {job.job_id!r}: its submission time is {job.submission_time!r}, want a number from 0 on"
        )
    return job.submission_time
