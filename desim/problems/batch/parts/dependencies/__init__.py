"""Job dependencies: a job is submitted only after its predecessors have ended and a think time has passed.

A log records when jobs were submitted on the recorded machine. If users waited for one job before they submitted the
next, a simulation that keeps these times ties its users to the speed of that machine. Dependencies close the loop
between waiting times and submissions: Feitelson, "Workload Modeling for Computer Systems Performance Evaluation",
Cambridge University Press 2015, chapter 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import simpy

from desim.core import Phase, at
from desim.exceptions import WorkloadError
from desim.forks import FlatDict
from desim.problems.batch.job import Dependency, Job, check_time
from desim.problems.batch.parts.base import Part, cycle_of
from desim.problems.batch.tables import job_id_column
from desim.tables import Column, Table, arrival_number

if TYPE_CHECKING:
    from desim.result import Result

__all__: list[str] = []


def resolved(jobs: Iterable[Job]) -> dict[int, tuple[tuple[int, ...], Dependency]]:
    """Return the predecessors of jobs as rows.

    Parameters
    ----------
    jobs : iterable of Job
        Workload. Several jobs may have the same id, but no job may depend on such an id.

    Returns
    -------
    dict of int to (tuple of int, Dependency)
        By the row of each job with at least one predecessor: rows of the predecessors, and the dependency.

    Raises
    ------
    WorkloadError
        If a predecessor does not exist, its id belongs to several jobs, dependencies form a cycle, or a think time is
        out of range.
    """
    jobs = list(jobs)
    row_of: dict[int | str, int] = {}
    again: dict[int | str, int] = {}  # second rows with the same id
    for row, job in enumerate(jobs):
        if row_of.setdefault(job.job_id, row) != row:
            again.setdefault(job.job_id, row)
    found: dict[int, tuple[tuple[int, ...], Dependency]] = {}
    for row, job in enumerate(jobs):
        if (one := job.after) is None:
            continue
        job_id = job.job_id
        if not isinstance(one, Dependency):
            raise WorkloadError(f"job {job_id}: after: got {one!r}, expected a Dependency")
        check_time(job_id, "think_time", one.think_time)
        for other in one.jobs:
            if other not in row_of:
                raise WorkloadError(f"job {job_id} depends on job {other}, which is not in the workload")
            if other in again:
                first, second = (f"{jobs[where[other]].submission_time:.10g} s" for where in (row_of, again))
                raise WorkloadError(
                    f"job {job_id} depends on job {other}, but two jobs have this id, submitted at {first} and {second}"
                )
            if isinstance(other, str) and other.split() != [other]:
                raise WorkloadError(f"job {job_id}: after: got {other!r}, expected an id without blanks")
        if others := tuple(dict.fromkeys(row_of[other] for other in one.jobs)):
            found[row] = others, one
    check_acyclic({row: others for row, (others, _) in found.items()}, [job.job_id for job in jobs])
    return found


def check_acyclic(preceding: Mapping[int, Sequence[int]], ids: Sequence[int | str]) -> None:
    """Raise WorkloadError if jobs depend on each other in a cycle; `preceding` has rows, `ids` the id of each row."""
    if circle := cycle_of(preceding):
        raise WorkloadError(f"dependencies form a cycle: {' after '.join(str(ids[row]) for row in circle)}")


def _followers(preceding: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Return the rows that depend on a row, by that row."""
    followers: dict[int, list[int]] = {}
    for row, others in preceding.items():
        for other in others:
            followers.setdefault(other, []).append(row)
    return followers


class Dependencies:
    """Dependencies of the jobs of a workload, which are known by their positions in it; runs do not change them.

    Parameters
    ----------
    jobs : Workload or sequence of Job
        Workload; see :func:`resolved` for jobs that name their predecessors by id.

    Attributes
    ----------
    of_job : dict of int to Dependency
        Dependency of each job with at least one predecessor, by its position in the workload.
    preceding : dict of int to tuple of int
        Positions of its predecessors.
    followers : dict of int to list of int
        Positions of the jobs that depend on a job, by its position.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        known = getattr(jobs, "dependencies", None)  # of a Workload, whose module imports this one
        found = resolved(jobs) if known is None else known()
        self.of_job = {position: one for position, (_, one) in found.items()}
        self.preceding = {position: others for position, (others, _) in found.items()}
        self.followers = _followers(self.preceding)


class Followers(Part):
    """Part that submits jobs with dependencies.

    Parameters
    ----------
    dependencies : Dependencies
        Dependencies of the workload.

    Attributes
    ----------
    jobs : dict of int to Job
        Jobs whose submission time in the workload has passed and that are not submitted yet, by position in it.
    """

    name = "dependencies"
    constants = (Dependencies,)

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies

    def describe(self) -> dict[str, Any]:
        """Return the number of jobs with dependencies."""
        return {"dependencies": len(self.dependencies.of_job)}

    def begin(self) -> None:
        """Set up the state of a run."""
        self._missing = FlatDict((position, len(others)) for position, others in self.dependencies.preceding.items())
        self._ready: dict[int, float] = {}  # when the think time after the last predecessor ends
        self.jobs: dict[int, Job] = FlatDict()
        self._num_read = 0  # jobs of the workload whose time has passed
        self._arriving: int | None = None  # position of the job that is being submitted
        self._positions: dict[int, int] = {}  # of jobs in the system on which others depend, by row
        self._rows: dict[int, int] = FlatDict()  # rows of all such jobs, by position
        self._due: list[tuple[float, int]] = []  # heap of (time, position) of the jobs that wait for their time
        self._record = self.cluster.simulation.records.tables["dependencies"].append

    def is_empty(self) -> bool:
        """Return whether no job waits for its submission."""
        return not self.jobs

    def is_due(self) -> bool:
        """Return whether a job waits only for its think time."""
        return not all(map(self._missing.__getitem__, self.jobs))

    def drop_future(self) -> Iterable[Callable[[Any], None]]:
        """Drop all jobs that are not submitted yet."""
        self.jobs.clear()
        self._due.clear()
        self.dependencies = Dependencies(())
        return ()

    def close(self) -> None:
        """Record the jobs that were not submitted."""
        for position, job in self.jobs.items():
            self._record(self._row(position, job, None, None))

    def delays(self, job: Job) -> bool:
        """Take a job at its submission time in the workload; submit it later if it has dependencies."""
        self._submit()  # jobs that stand before this one in the workload
        position = self._num_read
        self._num_read += 1
        if position not in self.dependencies.of_job:
            self._arriving = position
            return False
        self.jobs[position] = job
        if not self._missing[position]:
            self._submit_later(position)
        return True

    def arrived(self, job: Job, row: int) -> None:
        """Remember which job of the workload has been submitted, if others depend on it."""
        if self._arriving in self.dependencies.followers:
            self._positions[row], self._rows[self._arriving] = self._arriving, row
        self._arriving = None

    def left(self, job: Job, row: int, outcome: str) -> None:
        """Schedule the submission of the jobs whose last predecessor has left."""
        for follower in self.dependencies.followers.get(self._positions.pop(row, -1), ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._ready[follower] = self.cluster.env.now + self.dependencies.of_job[follower].think_time
                if follower in self.jobs:
                    self._submit_later(follower)

    def _submit_later(self, position: int) -> None:
        """Schedule the submission of a job whose predecessors have left, now if its time has passed."""
        env = self.cluster.env
        time = max(self._ready[position], env.now)
        heappush(self._due, (time, position))
        at(env, time, Phase.ARRIVAL).callbacks.append(self._submit)

    def _submit(self, event: simpy.Event | None = None) -> None:
        """Submit the jobs whose time has come, in order of the workload; the time becomes their submission time."""
        now = self.cluster.env.now
        while self._due and self._due[0][0] <= now:
            self._arriving = position = heappop(self._due)[1]
            job = self.jobs.pop(position)
            self._record(self._row(position, job, now, self.cluster._num_arrived))
            self.cluster.submit(job._replace(submission_time=now))
        if event is not None:
            self.cluster.stop_if_done()

    def _row(self, position: int, job: Job, submission: float | None, row: int | None) -> tuple[Any, ...]:
        """Return the record of a job."""
        one, others = self.dependencies.of_job[position], self.dependencies.preceding[position]
        after = " ".join(map(str, dict.fromkeys(one.jobs)))
        preceding = " ".join(str(self._rows.get(other, -1)) for other in others)
        return position, job.job_id, job.submission_time, after, preceding, one.think_time, submission, row


INFO = (Column("dependencies", "integer", "number of jobs with dependencies, if any", least=0, optional=True),)
"""Entries in the description of a run."""

TABLES = (
    Table(
        "dependencies",
        "a job with dependencies, once its time in the workload has passed",
        (
            Column("position", "integer", "position of the job in the workload, from 0", least=0),
            job_id_column(),
            Column("trace_submission_time", "float", "submission time in the workload", unit="s", least=0),
            Column("after", "text", 'identifiers of its predecessors, such as "3 7"'),
            Column("preceding", "text", "arrival numbers of its predecessors; -1 before the arrival"),
            Column("think_time", "float", "time from the last end of a predecessor to submission", unit="s", least=0),
            Column("submission_time", "float", "actual submission", unit="s", null="if not submitted by the end"),
            arrival_number("of the job", null="if not submitted by the end"),
        ),
        sort_by=("trace_submission_time", "job_id"),
        only_with="dependencies",
    ),
)
"""Tables of a run."""


def sentence(result: Result) -> str:
    """Return what was in force in a run, for reports; empty if there were no dependencies."""
    count = result.info.get("dependencies")
    return "" if count is None else f"{count:,} jobs depend on the ends of other jobs."
