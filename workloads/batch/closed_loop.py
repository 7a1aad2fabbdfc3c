"""Users who wait for their jobs: an open workload becomes sessions whose submissions depend on the schedule.

In a log, a user's next job comes when it came on the machine that the log is of. Here it comes when those before it
have ended in the simulation and the user has thought about it as long as in the log. Definitions, for each user:

* a **batch** is a job and those that were submitted before all earlier jobs of the user had ended;
* the **think time** of a batch runs from the end of all earlier jobs to its first submission;
* a **session** is a batch and those that follow with think times of at most ``session_gap``, 20 minutes by default.

The first batch of a session keeps its times in the log. Each other job comes after all jobs of the batch before, with
the think time of its batch and as much later as it came in the log: a fast machine is sent jobs earlier, a slow one
later. Where the simulated jobs wait as long as those of the log, they are submitted as in the log.

Sessions by think times of 20 minutes: Shmueli and Feitelson, "On simulation and design of parallel-systems schedulers:
are we doing the right thing?", IEEE TPDS 20(7), 2009; on boundaries of sessions see Zakay and Feitelson, JSSPP 2012.
Their users also end sessions where the machine is slow, and keep hours of the day; these do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from numpy.random import Generator

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Dependency, Job

__all__ = ["SESSION_GAP", "closed_loop", "deal"]

SESSION_GAP = 1_200.0
"""Seconds without a job in the system after which a user's next job begins a session."""


@dataclass
class _User:
    """Where a user stands while the log is read."""

    session: float = 0.0  # when it began
    batch: list[int] = field(default_factory=list)
    began: float = 0.0  # first submission of the batch
    before: tuple[int, ...] = ()  # the batch before, if it belongs to the same session
    think_time: float = 0.0
    ended: float = -math.inf  # the last end of all jobs


def closed_loop(
    jobs: Iterable[Job],
    waiting_time: Sequence[float] | None = None,
    *,
    session_gap: float = SESSION_GAP,
    sequential: bool = False,
) -> tuple[list[Job], dict[int, Dependency]]:
    """Return jobs that are submitted when their user is done with the ones before.

    Parameters
    ----------
    jobs : iterable of Job
        In order of submission, with different ids; those of unknown users keep their times.
    waiting_time : sequence of float, optional
        How long each job waited in the log, as of `Trace.waiting_time`; nan counts as 0. By default nobody waited.
    session_gap : float
        Longest think time within a session, in seconds; may be infinite.
    sequential : bool
        Whether a user has one job at a time within a session: each job is a batch, and one that was submitted before
        the one before it had ended has no think time.

    Returns
    -------
    list of Job and dict of int to Dependency
        For ``BatchCluster(jobs, dependencies=...)``. The submission time of a job that comes after others is the
        beginning of its session, so that it may be submitted earlier than in the log.

    Raises
    ------
    InvalidConfiguration
        If there are not as many waits as jobs, or the gap is below 0.
    WorkloadError
        If two jobs have one id, or no user is known.

    Examples
    --------
    >>> jobs = [Job(1, 0.0, 1, 50.0, 50.0, 7), Job(2, 80.0, 1, 50.0, 50.0, 7)]
    >>> closed_loop(jobs, [10.0, 0.0])[1]
    {2: After(jobs=(1,), think_time=20.0)}
    """
    if session_gap != math.inf:
        check_float("session_gap", session_gap, least=0)
    jobs = list(jobs)
    waits = [0.0] * len(jobs) if waiting_time is None else [float(wait) for wait in waiting_time]
    if len(waits) != len(jobs):
        raise InvalidConfiguration(f"waiting_time has {len(waits)} values, there are {len(jobs)} jobs")
    if len({job.job_id for job in jobs}) < len(jobs):
        raise WorkloadError("two jobs have one id: users who wait for their jobs need to tell them apart")
    if all(job.user_id < 0 for job in jobs):
        raise WorkloadError("the user of no job is known, so that nobody waits for any")
    users: dict[int, _User] = {}
    dependencies: dict[int, Dependency] = {}
    begins: list[tuple[float, Job]] = []
    for job, wait in zip(jobs, waits, strict=True):
        begin = job.submission_time
        if job.user_id >= 0:
            user = users.setdefault(job.user_id, _User())
            begin = _submitted(user, job, session_gap, sequential=sequential)
            if user.before:
                dependencies[job.job_id] = Dependency(user.before, user.think_time + job.submission_time - user.began)
            user.ended = max(user.ended, job.submission_time + (0.0 if math.isnan(wait) else wait) + job.run_time)
        begins.append((begin, job))
    begins.sort(key=itemgetter(0))  # stable: equal ones keep their order
    made = [job if begin == job.submission_time else job._replace(submission_time=begin) for begin, job in begins]
    return made, dependencies


def _submitted(user: _User, job: Job, session_gap: float, *, sequential: bool) -> float:
    """Put a job into a batch of its user; return when its session began, or its own time in the first batch."""
    time = job.submission_time
    gap = time - user.ended
    if gap < 0 and not sequential:
        user.batch.append(job.job_id)
        return user.session if user.before else time
    if gap > session_gap or not user.batch:
        user.session, user.before, user.think_time = time, (), 0.0
    else:
        user.before, user.think_time = tuple(user.batch), max(0.0, gap)
    user.batch, user.began = [job.job_id], time
    return user.session


def deal(jobs: Iterable[Job], num_users: int, rng: Generator) -> list[Job]:
    """Give jobs to users at random, such as those of a model that knows no users.

    Parameters
    ----------
    jobs : iterable of Job
        Any.
    num_users : int
        Users, from 0 on; all are as likely.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    list of Job
        New jobs in the same order.

    Raises
    ------
    InvalidConfiguration
        If there is no user.
    """
    check_int("num_users", num_users, least=1)
    jobs = list(jobs)
    users = rng.integers(num_users, size=len(jobs)).tolist()
    return [job._replace(user_id=user) for job, user in zip(jobs, users, strict=True)]
