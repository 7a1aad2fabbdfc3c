"""Deferrable jobs, such as virtual machines, that may start in any slot of a window; single ones and arrays of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError

__all__ = ["Job", "JobSet", "check_job", "job_of", "real_time", "rows_of"]

Floats = NDArray[np.float64]

#: Largest identifier: identifiers are stored as floats, which represent integers exactly only up to here.
LARGEST_ID = 2**53


class Job(NamedTuple):
    """Deferrable job: it starts in a slot of its window and then runs for a fixed duration without interruption.

    Its five numbers are those of the OSDEC paper, section 3.1: b = (c, d, e, l, g).

    Attributes
    ----------
    job_id : int
        Identifier, unique among the jobs that are in the system at the same time.
    submission_time : float
        Time at which the job becomes known, g, in slots; not after its earliest start.
    earliest_start, latest_start : int
        First and last slot in which the job may start, e and l.
    duration : int
        Run time in slots, d, at least 1.
    cores : float
        Number of cores that the job holds while it runs, c, above 0.
    others : tuple of float
        Amounts of the cluster's further resources, in their order, each at least 0.

    Examples
    --------
    >>> job = Job(1, submission_time=0, earliest_start=2, latest_start=5, duration=3, cores=4)
    >>> job.revenue, job.slack, job.lead_time
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
        """Revenue of the job if it is started, r = c d, in core-slots."""
        return self.cores * self.duration

    @property
    def slack(self) -> int:
        """Number of slots by which the start may be deferred, l - e."""
        return self.latest_start - self.earliest_start

    @property
    def lead_time(self) -> float:
        """Lead time: number of slots from the submission to the window, e - g."""
        return self.earliest_start - self.submission_time


def check_job(job: Any, num_resources: int = 1) -> None:
    """Raise an error if a job is invalid.

    Parameters
    ----------
    job : Job
        Job from a workload.
    num_resources : int
        Number of resources of the cluster, including cores.

    Raises
    ------
    WorkloadError
        If the object is not a job, a number is out of range, or the times are not in the order g <= e <= l. The message
        names the job and the value.
    """
    if num_resources == 1 and _is_plain(job):  # fast path for almost all jobs of large workloads
        return
    known = submission_time_of(job)
    what = f"job {job.job_id!r}"
    if not _is_whole(job.job_id) or abs(job.job_id) > LARGEST_ID:
        raise WorkloadError(f"{what}: job_id: got {job.job_id!r}, expected an integer from -2**53 to 2**53")
    for name in ("earliest_start", "latest_start", "duration"):
        value, least = getattr(job, name), int(name == "duration")
        if not _is_whole(value) or not least <= value <= LARGEST_ID:
            raise WorkloadError(f"{what}: {name}: got {value!r}, expected an integer number of slots >= {least}")
    first, last = job.earliest_start, job.latest_start
    if first < known:
        raise WorkloadError(f"{what}: earliest_start: got {first!r}, expected at least submission_time, {known!r}")
    if last < first:
        raise WorkloadError(f"{what}: latest_start: got {last!r}, expected at least earliest_start, {first!r}")
    if not _is_amount(job.cores) or job.cores == 0:
        raise WorkloadError(f"{what}: cores: got {job.cores!r}, expected a number above 0")
    if not isinstance(job.others, tuple) or len(job.others) != num_resources - 1:
        raise WorkloadError(
            f"{what}: others: got {job.others!r}, expected a tuple of {num_resources - 1} amounts, one per resource "
            f"besides cores"
        )
    for amount in job.others:
        if not _is_amount(amount):
            raise WorkloadError(f"{what}: others: got {amount!r}, expected numbers >= 0")


def submission_time_of(job: Any) -> float:
    """Return a job's submission time; raise WorkloadError if the object is not a job or the time is invalid."""
    if not isinstance(job, Job):
        raise WorkloadError(f"jobs: got {job!r}, expected desim.problems.deferrable.Job")
    if not _is_amount(job.submission_time):
        raise WorkloadError(
            f"job {job.job_id!r}: submission_time: got {job.submission_time!r}, expected a number of slots >= 0"
        )
    return job.submission_time


def _is_plain(job: Any) -> bool:
    """Return whether a job has only plain Python numbers, requests only cores, and is valid."""
    return (
        type(job) is Job
        and tuple(map(type, job)) in _PLAIN
        and 0 <= job.submission_time <= job.earliest_start <= job.latest_start <= LARGEST_ID
        and 1 <= job.duration <= LARGEST_ID
        and 0 < job.cores < inf
        and abs(job.job_id) <= LARGEST_ID
        and not job.others
    )


_PLAIN = {(int, time, int, int, int, cores, tuple) for time in (int, float) for cores in (int, float)}


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and 0 <= value < inf


def real_time(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield jobs for a run in real time: submitted at their earliest start, without lead time and slack.

    This is the comparison of the OSDEC paper's Table 2, g = e = l. Known jobs are held back until they are due, so
    memory grows only with their number.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission time.

    Yields
    ------
    Job
        Same jobs in order of their earliest start, those of one slot in the order of ``jobs``.

    Raises
    ------
    WorkloadError
        If a job is invalid or the jobs are not in order of submission time.
    """
    held: list[tuple[int, int, Job]] = []
    last = 0.0
    for number, job in zip(count(), jobs):  # not strict: count() is endless
        known = submission_time_of(job)
        check_job(job, 1 + len(job.others) if isinstance(job.others, tuple) else 1)
        if known < last:
            raise WorkloadError(f"{job!r} is submitted before the previous job, at {last!r}; sort the jobs")
        last = known
        while held and held[0][0] <= known:
            yield _at_once(heapq.heappop(held)[2])
        heapq.heappush(held, (job.earliest_start, number, job))
    while held:
        yield _at_once(heapq.heappop(held)[2])


def _at_once(job: Job) -> Job:
    return job._replace(submission_time=job.earliest_start, latest_start=job.earliest_start)


#: Columns of an array of jobs; one column per resource follows, cores first.
JOB_ID, SUBMISSION, EARLIEST, LATEST, DURATION, ARRIVAL, EVICTIONS, START, REQUESTS = range(9)


class JobSet:
    """Read-only view of jobs; each property is an array with one entry per job.

    Parameters
    ----------
    rows : numpy.ndarray of shape (num_jobs, 8 + num_resources)
        One job per row; also an attribute.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Job]:
        """Yield the jobs as they were submitted."""
        return map(job_of, self.rows)

    @property
    def job_id(self) -> NDArray[np.int64]:
        """Identifiers."""
        return self.rows[:, JOB_ID].astype(np.int64)

    @property
    def submission_time(self) -> Floats:
        """Times at which the jobs became known, in slots."""
        return self.rows[:, SUBMISSION]

    @property
    def earliest_start(self) -> Floats:
        """First slots of their windows."""
        return self.rows[:, EARLIEST]

    @property
    def latest_start(self) -> Floats:
        """Last slots of their windows."""
        return self.rows[:, LATEST]

    @property
    def duration(self) -> Floats:
        """Durations in slots."""
        return self.rows[:, DURATION]

    @property
    def arrival_number(self) -> NDArray[np.int64]:
        """Numbers of jobs that had become known before each; they identify jobs even if ids are reused."""
        return self.rows[:, ARRIVAL].astype(np.int64)

    @property
    def evictions(self) -> Floats:
        """Numbers of evictions so far."""
        return self.rows[:, EVICTIONS]

    @property
    def starting_time(self) -> Floats:
        """Slots in which the jobs were started; NaN for jobs that are not running."""
        return self.rows[:, START]

    @property
    def finish_time(self) -> Floats:
        """Slots at whose beginning the jobs end; NaN for jobs that are not running."""
        return self.rows[:, START] + self.rows[:, DURATION]

    @property
    def cores(self) -> Floats:
        """Requested cores."""
        return self.rows[:, REQUESTS]

    @property
    def requests(self) -> Floats:
        """Requests of all resources, of shape (num_jobs, num_resources), cores first."""
        return self.rows[:, REQUESTS:]

    @property
    def revenue(self) -> Floats:
        """Revenues of the jobs if they are started, in core-slots."""
        return self.rows[:, REQUESTS] * self.rows[:, DURATION]


def rows_of(jobs: Iterable[Job], num_resources: int, arrival_number: int = 0) -> Floats:
    """Return the rows of newly submitted jobs, numbered from ``arrival_number`` on."""
    table = [
        (*job[:5], number, 0.0, np.nan, job.cores, *job.others)
        for number, job in zip(count(arrival_number), jobs)  # not strict: count() is endless
    ]
    return np.array(table, dtype=np.float64).reshape(len(table), REQUESTS + num_resources)


def job_of(row: Floats) -> Job:
    """Return the job of a row."""
    job_id, submission, earliest, latest, duration = row[:ARRIVAL].tolist()
    cores, *others = row[REQUESTS:].tolist()
    return Job(int(job_id), submission, int(earliest), int(latest), int(duration), cores, tuple(others))
