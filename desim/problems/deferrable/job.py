"""Deferrable jobs: virtual machines that may be started at any slot of a window; one, and many as rows of an array."""

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

#: Identifiers pass through arrays of floats, which hold whole numbers exactly up to here.
LARGEST_ID = 2**53


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
        """What it earns if it is started, r = c d, in core-slots."""
        return self.cores * self.duration

    @property
    def slack(self) -> int:
        """By how many slots its start may be deferred, l - e."""
        return self.latest_start - self.earliest_start

    @property
    def lead_time(self) -> float:
        """How many slots before its window it becomes known, e - g."""
        return self.earliest_start - self.submission_time


def check_job(job: Any, num_resources: int = 1) -> None:
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
    if num_resources == 1 and _is_plain(job):  # a million jobs are checked this way, and hardly one otherwise
        return
    known = submission_time_of(job)
    what = f"job {job.job_id!r}"
    if not _is_whole(job.job_id) or abs(job.job_id) > LARGEST_ID:
        raise WorkloadError(f"{what}: its identifier is not a whole number of at most 2**53")
    for name in ("earliest_start", "latest_start", "duration"):
        value, least = getattr(job, name), int(name == "duration")
        if not _is_whole(value) or not least <= value <= LARGEST_ID:
            raise WorkloadError(f"{what}: {name} is {value!r}, want a whole number of slots, at least {least}")
    first, last = job.earliest_start, job.latest_start
    if first < known:
        raise WorkloadError(f"{what}: its earliest start {first!r} is before its submission at {known!r}")
    if last < first:
        raise WorkloadError(f"{what}: its latest start {last!r} is before its earliest start {first!r}")
    if not _is_amount(job.cores) or job.cores == 0:
        raise WorkloadError(f"{what}: it requests {job.cores!r} cores, want a number above 0")
    if not isinstance(job.others, tuple) or len(job.others) != num_resources - 1:
        raise WorkloadError(
            f"{what}: others is {job.others!r}, want {num_resources - 1} amounts, one for each resource of the cluster "
            f"besides cores"
        )
    for amount in job.others:
        if not _is_amount(amount):
            raise WorkloadError(f"{what}: it requests {amount!r} of a resource, want a number from 0 on")


def submission_time_of(job: Any) -> float:
    """Return when a job becomes known, or raise WorkloadError if it is no job or that is no time."""
    if not isinstance(job, Job):
        raise WorkloadError(f"the workload has {job!r}, want a desim.problems.deferrable.Job")
    if not _is_amount(job.submission_time):
        raise WorkloadError(
            f"job {job.job_id!r}: its submission time is {job.submission_time!r}, want a number from 0 on"
        )
    return job.submission_time


def _is_plain(job: Any) -> bool:
    """Tell at once whether a job of plain numbers that requests cores alone makes sense."""
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
        known = submission_time_of(job)
        check_job(job, 1 + len(job.others) if isinstance(job.others, tuple) else 1)
        if known < last:
            raise WorkloadError(f"{job!r} comes after one that is submitted at {last!r}: sort the workload")
        last = known
        while held and held[0][0] <= known:
            yield _at_once(heapq.heappop(held)[2])
        heapq.heappush(held, (job.earliest_start, number, job))
    while held:
        yield _at_once(heapq.heappop(held)[2])


def _at_once(job: Job) -> Job:
    return job._replace(submission_time=job.earliest_start, latest_start=job.earliest_start)


#: Columns of an array of jobs; one for each resource follows, cores first.
JOB_ID, SUBMISSION, EARLIEST, LATEST, DURATION, ARRIVAL, EVICTIONS, START, REQUESTS = range(9)


class JobSet:
    """A view of jobs, each property an array with an entry a job; not to be changed.

    Parameters
    ----------
    rows : numpy.ndarray of shape (num_jobs, 8 + num_resources)
        One job a row; also an attribute.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Return how many jobs there are."""
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
        """When they became known, in slots."""
        return self.rows[:, SUBMISSION]

    @property
    def earliest_start(self) -> Floats:
        """First slot of their windows."""
        return self.rows[:, EARLIEST]

    @property
    def latest_start(self) -> Floats:
        """Last slot of their windows."""
        return self.rows[:, LATEST]

    @property
    def duration(self) -> Floats:
        """Slots that they run."""
        return self.rows[:, DURATION]

    @property
    def arrival_number(self) -> NDArray[np.int64]:
        """How many jobs had become known before each: what tells jobs apart, whatever their identifiers."""
        return self.rows[:, ARRIVAL].astype(np.int64)

    @property
    def evictions(self) -> Floats:
        """How often they have been evicted."""
        return self.rows[:, EVICTIONS]

    @property
    def starting_time(self) -> Floats:
        """Slot in which they were started; NaN for jobs that do not run."""
        return self.rows[:, START]

    @property
    def finish_time(self) -> Floats:
        """Slot at whose beginning they end; NaN for jobs that do not run."""
        return self.rows[:, START] + self.rows[:, DURATION]

    @property
    def cores(self) -> Floats:
        """Cores that they request."""
        return self.rows[:, REQUESTS]

    @property
    def requests(self) -> Floats:
        """All that they request, of shape (num_jobs, num_resources), cores first."""
        return self.rows[:, REQUESTS:]

    @property
    def revenue(self) -> Floats:
        """What they earn if they are started, in core-slots."""
        return self.rows[:, REQUESTS] * self.rows[:, DURATION]


def rows_of(jobs: Iterable[Job], num_resources: int, arrival_number: int = 0) -> Floats:
    """Return the rows of jobs that have just become known, numbered from the one that is given."""
    table = [
        (*job[:5], number, 0.0, np.nan, job.cores, *job.others)
        for number, job in zip(count(arrival_number), jobs)  # endless beside the jobs
    ]
    return np.array(table, dtype=np.float64).reshape(len(table), REQUESTS + num_resources)


def job_of(row: Floats) -> Job:
    """Return the job of a row."""
    job_id, submission, earliest, latest, duration = row[:ARRIVAL].tolist()
    cores, *others = row[REQUESTS:].tolist()
    return Job(int(job_id), submission, int(earliest), int(latest), int(duration), cores, tuple(others))
