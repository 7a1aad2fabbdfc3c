"""Closed-loop workloads: users wait for their jobs, so that submissions depend on the schedule.

In a log, the next job of a user is submitted at a fixed time, recorded on the original machine. In a closed loop, it is
submitted after the user's earlier jobs have ended in the simulation and the think time of the log has passed.
Definitions, for each user:

* a **batch** is a job together with those submitted before all earlier jobs of the user had ended;
* the **think time** of a batch runs from the end of all earlier jobs to its first submission;
* a **session** is a batch together with those that follow with think times of at most ``session_gap`` (default: 20
  minutes).

The first batch of a session keeps its submission times. Every other job depends on all jobs of the previous batch. It
is submitted after the think time of its batch, plus the time in the log between the batch's first submission and its
own. A fast machine therefore receives jobs earlier than in the log, a slow one later. If simulated jobs wait as long as
in the log, all submission times equal those of the log.

Sessions with think times of up to 20 minutes: Shmueli and Feitelson, "On simulation and design of parallel-systems
schedulers: are we doing the right thing?", IEEE TPDS 20(7), 2009. Boundaries of sessions: Zakay and Feitelson, JSSPP
2012. In the former's model, users also end sessions when the machine is slow, and keep hours of the day; here they do
not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from numpy.random import Generator

from desim.checks import MOST_ITEMS, check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Job, Workload

__all__ = ["SESSION_GAP", "closed_loop", "deal"]

SESSION_GAP = 1_200.0
"""Default of the longest think time within a session, in seconds."""


@dataclass
class _User:
    """State of a user while the log is read."""

    session: float = 0.0  # start of the session
    batch: list[int] = field(default_factory=list)  # rows
    began: float = 0.0  # first submission of the batch
    before: tuple[int, ...] = ()  # previous batch, if it belongs to the same session
    think_time: float = 0.0
    ended: float = -math.inf  # latest end of all jobs so far


def closed_loop(
    jobs: Iterable[Job],
    waiting_time: Sequence[float] | None = None,
    *,
    session_gap: float = SESSION_GAP,
    sequential: bool = False,
) -> Workload:
    """Return jobs that are submitted after the earlier jobs of their user have ended.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission; jobs of unknown users keep their submission times.
    waiting_time : sequence of float, optional
        Recorded wait of each job, see `Trace.waiting_time`; nan counts as 0. By default, all waits are 0.
    session_gap : float
        Longest think time within a session, in seconds; may be infinite.
    sequential : bool
        Whether a user has only one job at a time within a session. Each job is then a batch, and a job submitted
        before the end of the previous one has think time 0.

    Returns
    -------
    Workload
        Jobs with dependencies. The submission time of a job with dependencies is the start of its session, so that it
        can be submitted earlier than in the log.

    Raises
    ------
    InvalidConfiguration
        If there are not as many waits as jobs, or `session_gap` is negative.
    WorkloadError
        If no user is known.

    Examples
    --------
    >>> jobs = [Job(1, 0.0, 1, 50.0, 50.0, 7), Job(2, 80.0, 1, 50.0, 50.0, 7)]
    >>> closed_loop(jobs, [10.0, 0.0])[1].after
    Dependency(jobs=(1,), think_time=20.0)
    """
    if session_gap != math.inf:
        check_float("session_gap", session_gap, least=0)
    workload = Workload.of(jobs)
    waits = [0.0] * len(workload) if waiting_time is None else [float(wait) for wait in waiting_time]
    if len(waits) != len(workload):
        raise InvalidConfiguration(f"waiting_time: got {len(waits)} values, expected {len(workload)}, one per job")
    if (workload["user_id"] < 0).all():
        raise WorkloadError("jobs: got no known user, expected at least one user_id >= 0; no user waits for any job")
    users: dict[int, _User] = {}
    begins: list[float] = []
    after: list[tuple[tuple[int, ...], float] | None] = []
    columns = (workload[name].tolist() for name in ("submission_time", "run_time", "user_id"))
    for row, (time, run_time, user_id, wait) in enumerate(zip(*columns, waits, strict=True)):
        begin, link = time, None
        if user_id >= 0:
            user = users.setdefault(user_id, _User())
            begin = _submitted(user, row, time, session_gap, sequential=sequential)
            if user.before:
                link = user.before, user.think_time + time - user.began
            user.ended = max(user.ended, time + (0.0 if math.isnan(wait) else wait) + run_time)
        begins.append(begin)
        after.append(link)
    return workload.with_columns(submission_time=begins, after=after)


def _submitted(user: _User, row: int, time: float, session_gap: float, *, sequential: bool) -> float:
    """Add a job to a batch of its user; return the start of its session, or its own time in the first batch."""
    gap = time - user.ended
    if gap < 0 and not sequential:
        user.batch.append(row)
        return user.session if user.before else time
    if gap > session_gap or not user.batch:
        user.session, user.before, user.think_time = time, (), 0.0
    else:
        user.before, user.think_time = tuple(user.batch), max(0.0, gap)
    user.batch, user.began = [row], time
    return user.session


def deal(jobs: Iterable[Job], num_users: int, rng: Generator) -> Workload:
    """Assign jobs to users at random, for models that have no users.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs to assign.
    num_users : int
        Number of users, numbered from 0; all are equally likely.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Workload
        The jobs with their users.

    Raises
    ------
    InvalidConfiguration
        If `num_users` is less than 1.
    """
    check_int("num_users", num_users, least=1, most=MOST_ITEMS)
    workload = Workload.of(jobs)
    return workload.with_columns(user_id=rng.integers(num_users, size=len(workload)))
