"""Job dependencies: a job is submitted only after its predecessors have ended and a think time has passed.

A log records when jobs were submitted on the recorded machine. If users waited for one job before they submitted the
next, a simulation that keeps these times ties its users to the speed of that machine. Dependencies close the loop
between waiting times and submissions: Feitelson, "Workload Modeling for Computer Systems Performance Evaluation",
Cambridge University Press 2015, chapter 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import simpy

from desim.core import Phase, at
from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job, check_time
from desim.problems.batch.parts.base import Part
from desim.tables import Column, Table

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["Dependency"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """Dependency of a job on others.

    Attributes
    ----------
    jobs : tuple of int
        Ids of the predecessors, which must have ended: completed, killed, lost or rejected.
    think_time : float
        Seconds from the last of these ends to the submission of the job.
    """

    jobs: tuple[int, ...]
    think_time: float = 0.0


class Dependencies:
    """Dependencies of the jobs of a workload; runs do not change them.

    Parameters
    ----------
    jobs : sequence of Job
        Workload; the ids of jobs with dependencies, and of their predecessors, occur once.

    Attributes
    ----------
    of_job : dict of int to Dependency
        Dependency of each job with at least one predecessor, by job id.
    followers : dict of int to list of int
        Ids of the jobs that depend on a job, by its id.

    Raises
    ------
    WorkloadError
        If a predecessor does not exist, its id belongs to several jobs, dependencies form a cycle, or a think time is
        out of range.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.of_job: dict[int, Dependency] = {}
        self.followers: dict[int, list[int]] = {}
        by_id: dict[int, Job] = {}
        again: dict[int, Job] = {}  # second jobs with the same id
        for job in jobs:
            if by_id.setdefault(job.job_id, job) is not job:
                again.setdefault(job.job_id, job)
        for job in jobs:
            job_id, one = job.job_id, job.after
            if one is None:
                continue
            if not isinstance(one, Dependency):
                raise WorkloadError(f"job {job_id}: after: got {one!r}, expected a Dependency")
            check_time(job_id, "think_time", one.think_time)
            others = tuple(dict.fromkeys(one.jobs))
            for other in (*others, job_id) if again else others:
                if other not in by_id:
                    raise WorkloadError(f"job {job_id} depends on job {other}, which is not in the workload")
                if other in again:
                    times = f"{by_id[other].submission_time:.10g} s and {again[other].submission_time:.10g} s"
                    what = f"depends on job {other}, but" if other != job_id else "has dependencies, but"
                    raise WorkloadError(f"job {job_id} {what} two jobs have this id, submitted at {times}")
            for other in others:
                self.followers.setdefault(other, []).append(job_id)
            if others:
                self.of_job[job_id] = Dependency(others, one.think_time)
        if circle := self._circle():
            raise WorkloadError(f"dependencies form a cycle: {' after '.join(map(str, circle))}")

    def _circle(self) -> list[int]:
        """Return a cycle of jobs, each depending on the next, that ends with its first job; empty if there is none."""
        missing = {job_id: len(one.jobs) for job_id, one in self.of_job.items()}
        ended = [job_id for job_id in self.followers if job_id not in missing]
        while ended:
            for follower in self.followers.get(ended.pop(), ()):
                missing[follower] -= 1
                if not missing[follower]:
                    del missing[follower]
                    ended.append(follower)
        if not missing:
            return []
        path = [next(iter(missing))]
        while path[-1] not in path[:-1]:  # every job that is left depends on another one that is left
            path.append(next(other for other in self.of_job[path[-1]].jobs if other in missing))
        return path[path.index(path[-1]) :]


class Followers(Part):
    """Part that submits jobs with dependencies.

    Parameters
    ----------
    dependencies : Dependencies
        Dependencies of the workload.

    Attributes
    ----------
    jobs : dict of int to Job
        Jobs whose submission time in the workload has passed and that are not submitted yet, by id.
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
        self._missing = {job_id: len(one.jobs) for job_id, one in self.dependencies.of_job.items()}
        self._ready: dict[int, float] = {}  # when the think time after the last predecessor ends
        self.jobs: dict[int, Job] = {}
        self._positions: dict[int, int] = {}  # of these jobs, in the workload
        self._due: list[tuple[float, int, int]] = []  # heap of (time, position, id) of those that wait for their time
        self._record = self.cluster.simulation.records.tables["dependencies"].append

    def is_empty(self) -> bool:
        """Return whether no job waits for its submission."""
        return not self.jobs

    def is_due(self) -> bool:
        """Return whether a job waits only for its think time."""
        return not all(map(self._missing.__getitem__, self.jobs))

    def drop_future(self) -> Iterable[Callable[[Any], None]]:
        """Drop all jobs that are not submitted yet."""
        self.jobs, self._due = {}, []
        self.dependencies = Dependencies(())
        return ()

    def close(self) -> None:
        """Record the jobs that were not submitted."""
        for job in self.jobs.values():
            self._record(self._row(job, None))

    def delays(self, job: Job) -> bool:
        """Take a job at its submission time in the workload; submit it later if it has dependencies."""
        self._submit()  # jobs that stand before this one in the workload
        if job.job_id not in self.dependencies.of_job:
            return False
        self.jobs[job.job_id] = job
        self._positions[job.job_id] = len(self._positions)
        if not self._missing[job.job_id]:
            self._submit_later(job)
        return True

    def left(self, job: Job, outcome: str) -> None:
        """Schedule the submission of the jobs whose last predecessor has left."""
        for follower in self.dependencies.followers.get(job.job_id, ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._ready[follower] = self.cluster.env.now + self.dependencies.of_job[follower].think_time
                if follower in self.jobs:
                    self._submit_later(self.jobs[follower])

    def _submit_later(self, job: Job) -> None:
        """Schedule the submission of a job whose predecessors have left, now if its time has passed."""
        env = self.cluster.env
        time = max(self._ready[job.job_id], env.now)
        heappush(self._due, (time, self._positions[job.job_id], job.job_id))
        at(env, time, Phase.ARRIVAL).callbacks.append(self._submit)

    def _submit(self, event: simpy.Event | None = None) -> None:
        """Submit the jobs whose time has come, in order of the workload; the time becomes their submission time."""
        now = self.cluster.env.now
        while self._due and self._due[0][0] <= now:
            job = self.jobs.pop(heappop(self._due)[2])
            self._record(self._row(job, now))
            self.cluster.submit(job._replace(submission_time=now))
        if event is not None:
            self.cluster.stop_if_done()

    def _row(self, job: Job, submission: float | None) -> tuple[int, float, str, float, float | None]:
        """Return the record of a job: id, time in the workload, predecessors, think time and submission."""
        one = self.dependencies.of_job[job.job_id]
        return job.job_id, job.submission_time, " ".join(map(str, one.jobs)), one.think_time, submission


INFO = (Column("dependencies", "integer", "number of jobs with dependencies, if any", least=0, optional=True),)
"""Entries in the description of a run."""

TABLES = (
    Table(
        "dependencies",
        "a job with dependencies, once its time in the workload has passed",
        (
            Column("job_id", "integer", "identifier of the job"),
            Column("trace_submission_time", "float", "submission time in the workload", unit="s", least=0),
            Column("after", "text", 'identifiers of its predecessors, such as "3 7"'),
            Column("think_time", "float", "time from the last end of a predecessor to submission", unit="s", least=0),
            Column("submission_time", "float", "actual submission", unit="s", null="if not submitted by the end"),
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
