"""Jobs that come after others: not before these have ended, and their user has thought about what came out.

A log records when jobs were submitted on the machine that it is of. Where a user waits for one job before submitting
the next, a simulation that takes these times as they are lets users be as fast, or as slow, as that machine was. With
dependencies the loop is closed: Feitelson, "Workload Modeling for Computer Systems Performance Evaluation", Cambridge
University Press 2015, chapter 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job

__all__ = ["Dependencies", "Dependency", "Followers"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a job comes after.

    Attributes
    ----------
    jobs : tuple of int
        Ids of the jobs that must have ended: by themselves, killed, lost or rejected.
    think_time : float
        Seconds from the last of these ends to the submission of the job.
    """

    jobs: tuple[int, ...]
    think_time: float = 0.0


class Dependencies:
    """What the jobs of a workload come after; no run changes it.

    Parameters
    ----------
    jobs : sequence of Job
        The workload, whose ids differ.
    dependencies : mapping of int to Dependency
        By the id of the job that comes after others.

    Attributes
    ----------
    dependencies : dict of int to Dependency
        The same, without jobs that come after none.
    followers : dict of int to list of int
        The jobs that come after a job, by its id.

    Raises
    ------
    WorkloadError
        If a job or a predecessor does not exist, jobs wait for each other in a circle, or a think time is out of range.
    """

    def __init__(self, jobs: Sequence[Job], dependencies: Mapping[int, Dependency]) -> None:
        ids: set[int] = set()
        for job in jobs:
            if job.job_id in ids:
                raise WorkloadError(f"two jobs are named {job.job_id}: with dependencies, ids must differ")
            ids.add(job.job_id)
        self.of_job: dict[int, Dependency] = {}
        self.followers: dict[int, list[int]] = {}
        for job_id, one in dependencies.items():
            if not isinstance(one, Dependency):
                raise WorkloadError(f"job {job_id} comes after {one!r}, want a Dependency")
            if job_id not in ids:
                raise WorkloadError(f"job {job_id} comes after others, but there is no such job")
            if not _is_time(one.think_time):
                raise WorkloadError(f"job {job_id}: think_time is {one.think_time!r}, want a finite time of at least 0")
            for other in dict.fromkeys(one.jobs):
                if other not in ids:
                    raise WorkloadError(f"job {job_id} comes after job {other}, but there is no such job")
                self.followers.setdefault(other, []).append(job_id)
            if one.jobs:
                self.of_job[job_id] = Dependency(tuple(dict.fromkeys(one.jobs)), one.think_time)
        if circle := self._circle():
            raise WorkloadError(f"jobs wait for each other: {' after '.join(map(str, circle))}")

    def _circle(self) -> list[int]:
        """Return jobs each of which comes after the next, the last being the first; empty if there are none."""
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
        while path[-1] not in path[:-1]:  # each of those that are left comes after another one that is left
            path.append(next(other for other in self.of_job[path[-1]].jobs if other in missing))
        return path[path.index(path[-1]) :]


class Followers:
    """Where the jobs that come after others stand in one run.

    Parameters
    ----------
    dependencies : Dependencies
        What they come after.

    Attributes
    ----------
    jobs : dict of int to Job
        Those whose time in the workload has come and that are not submitted yet, by id.
    """

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._missing = {job_id: len(one.jobs) for job_id, one in dependencies.of_job.items()}
        self._ready: dict[int, float] = {}  # when the last predecessor's end has been thought about
        self.jobs: dict[int, Job] = {}

    def arrive(self, job: Job) -> float | None:
        """Take a job whose time in the workload has come; return from when on it may be submitted, if that is known.

        Parameters
        ----------
        job : Job
            Of the workload.

        Returns
        -------
        float or None
            Seconds; infinite if one of its predecessors has not ended yet, None if it comes after no other job.
        """
        job_id = job.job_id
        if job_id not in self._dependencies.of_job:
            return None
        self.jobs[job_id] = job
        return math.inf if self._missing[job_id] else self._ready[job_id]

    def end(self, job_id: int, time: float) -> list[tuple[float, Job]]:
        """Note that a job has ended; return the jobs that wait for nothing else any more, each with its time.

        Parameters
        ----------
        job_id : int
            Which one.
        time : float
            When, in seconds.

        Returns
        -------
        list of (float, Job)
            From when on each may be submitted, in seconds.
        """
        freed = []
        for follower in self._dependencies.followers.get(job_id, ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._ready[follower] = time + self._dependencies.of_job[follower].think_time
                if follower in self.jobs:
                    freed.append((self._ready[follower], self.jobs[follower]))
        return freed

    def is_thinking(self) -> bool:
        """Tell whether a job waits for nothing but its think time."""
        return not all(map(self._missing.__getitem__, self.jobs))

    def row(self, job: Job, submission: float | None) -> tuple[int, float, str, float, float | None]:
        """Return what is recorded of a job: id, time in the workload, predecessors, think time and submission."""
        one = self._dependencies.of_job[job.job_id]
        return job.job_id, job.submission_time, " ".join(map(str, one.jobs)), one.think_time, submission

    def forget(self) -> None:
        """Let nothing come any more."""
        self.jobs = {}
        self._dependencies = Dependencies((), {})


def _is_time(value: object) -> bool:
    return isinstance(value, Real) and 0 <= float(value) < math.inf
