"""Limits of a site: on what a job may request, and on what a user, a partition or a queue may have at once.

A job that asks for more than it may is turned away. A job whose user or partition has as much as it may is held back,
out of the queue: agents see only jobs all of which may run at once, and therefore need not know of limits. Jobs come
into the queue in the order in which they have arrived, but for those of a group that was full for an earlier job when
that was looked at last: they wait behind it, while jobs of other groups overtake. Who waits is looked at on arrival,
and whenever a job of a full group has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from desim.checks import check_choice, check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job

__all__ = ["Admission", "Limit"]

Key = tuple[int, str]
"""Number of a limit, and one of the groups that it is for."""


@dataclass(frozen=True)
class Limit:
    """What each of some groups of jobs may have.

    Attributes
    ----------
    scope : {"user", "partition"} or mapping of int to str
        Jobs of one user are a group, or those that request one partition, or those to which a mapping by job id gives
        one name, such as that of a queue. Jobs without user, partition or name are not limited.
    members : collection of str, optional
        The groups that are limited, by default all: names, or users; kept as text.
    job_cores : int, optional
        Cores that one job may request, at most.
    job_time : float, optional
        Seconds that one job may request, at most.
    running_jobs, running_cores : int, optional
        Jobs of a group that may run at once, and cores that they may have together.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range, or nothing is limited.
    """

    scope: Literal["user", "partition"] | Mapping[int, str] = "user"
    members: Collection[str] | None = None
    job_cores: int | None = None
    job_time: float | None = None
    running_jobs: int | None = None
    running_cores: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.scope, Mapping):
            check_choice("scope", self.scope, ("user", "partition"))
        if isinstance(self.members, str):
            raise InvalidConfiguration(
                f"members is {self.members!r}, want a collection of names such as ({self.members!r},)"
            )
        if self.members is not None:
            object.__setattr__(
                self, "members", tuple(map(str, self.members))
            )  # groups are text, whatever names them here
        for name in ("job_cores", "running_jobs", "running_cores"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), least=1)
        if self.job_time is not None:
            check_float("job_time", self.job_time, least=0)
        if (self.job_cores, self.job_time, self.running_jobs, self.running_cores) == (None,) * 4:
            raise InvalidConfiguration(
                "a Limit limits nothing: give job_cores, job_time, running_jobs or running_cores"
            )

    def group_of(self, job: Job) -> str | None:
        """Return the group of a job; None if it is not limited."""
        if isinstance(self.scope, Mapping):
            found = self.scope.get(job.job_id)
            group = None if found is None else str(found)
        elif self.scope == "user":
            group = str(job.user_id) if job.user_id >= 0 else None
        else:
            group = getattr(getattr(job, "request", None), "partition", "") or None
        return group if self.members is None or group in self.members else None

    def named(self, group: str) -> str:
        """Return what a group is called in errors."""
        return f"group {group!r}" if isinstance(self.scope, Mapping) else f"{self.scope} {group}"

    def fault(self, job: Job, group: str) -> str:
        """Return why a job of a group can never run; empty if it can."""
        cores, time = job.requested_cores, job.requested_time
        for most in (self.job_cores, self.running_cores):
            if most is not None and cores > most:
                return f"requests {cores} cores, {self.named(group)} may have {most}"
        if self.job_time is not None and time > self.job_time:
            return f"requests {time} s, {self.named(group)} may have {self.job_time} s"
        return ""

    def has_room(self, jobs: int, cores: int) -> bool:
        """Tell whether a group may have so many jobs and cores at once."""
        return (self.running_jobs is None or jobs <= self.running_jobs) and (
            self.running_cores is None or cores <= self.running_cores
        )


class Admission:
    """Which jobs are in the queue and which are held back, in one run.

    Parameters
    ----------
    limits : tuple of Limit
        What is limited.

    Attributes
    ----------
    held : dict of int to Job
        The jobs that are held back, by id, in order of arrival.
    """

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        self.limits = limits
        self.held: dict[int, Job] = {}
        self._keys: dict[int, list[Key]] = {}  # of jobs in the queue or running, and of those that are held back
        self._cores: dict[int, int] = {}  # what the former count for, by id
        self._used: dict[Key, tuple[int, int]] = {}  # their jobs and cores
        self._closed: set[Key] = set()  # groups of which one job is held back because they have as much as they may

    def groups_of(self, job: Job) -> Iterator[Key]:
        """Yield number and group of the limits that hold for a job."""
        for number, limit in enumerate(self.limits):
            if (group := limit.group_of(job)) is not None:
                yield number, group

    def fault(self, job: Job) -> str:
        """Return why a job can never run; empty if it can."""
        faults = (self.limits[number].fault(job, group) for number, group in self.groups_of(job))
        return next(filter(None, faults), "")

    def arrive(self, job: Job) -> bool:
        """Take a job that has arrived; return whether it comes into the queue."""
        self._keys[job.job_id] = list(self.groups_of(job))
        if self._admits(job, self._closed):
            return True
        self.held[job.job_id] = job
        return False

    def leave(self, job_id: int) -> list[Job]:
        """Take a job out of the system; return those that now come into the queue, in order of arrival."""
        keys, cores = self._keys.pop(job_id), self._cores.pop(job_id)
        for key in keys:
            self._count(key, -1, -cores)
        if self._closed.isdisjoint(keys):
            return []
        self._closed = set()
        admitted = [job for job in self.held.values() if self._admits(job, self._closed)]
        for job in admitted:
            del self.held[job.job_id]
        return admitted

    def refuses(self, job: Job) -> str:
        """Return why a queued job may not have another size now; empty if it may."""
        if fault := self.fault(job):
            return fault
        more = job.requested_cores - self._cores[job.job_id]
        for number, group in self._keys[job.job_id]:
            jobs, cores = self._used[number, group]
            if more > 0 and not self.limits[number].has_room(jobs, cores + more):
                return self._has_too_much((number, group))
        return ""

    def resize(self, job: Job) -> str:
        """Let a queued job have another size; return why it may not, empty if it may."""
        if why := self.refuses(job):
            return why
        more = job.requested_cores - self._cores[job.job_id]
        for key in self._keys[job.job_id]:
            self._count(key, 0, more)
        self._cores[job.job_id] += more
        return ""

    def explain(self, job_id: int) -> str:
        """Return why a job is held back."""
        keys = self._keys[job_id]
        return self._has_too_much(next(key for key in keys if key in self._closed))

    def _has_too_much(self, key: Key) -> str:
        number, group = key
        limit, (jobs, cores) = self.limits[number], self._used[key]
        most = [f"{limit.running_jobs} jobs"] if limit.running_jobs is not None else []
        most += [f"{limit.running_cores} cores"] if limit.running_cores is not None else []
        return (
            f"{limit.named(group)} has {jobs} jobs with {cores} cores that run or are in the queue, and may have "
            f"{' and '.join(most)} at once"
        )

    def _admits(self, job: Job, closed: set[Key]) -> bool:
        """Count a job if its groups may have it; otherwise note those because of which it has to wait."""
        keys, cores = self._keys[job.job_id], job.requested_cores
        if not closed.isdisjoint(keys):
            return False
        full = [key for key in keys if not self._has_room(key, cores)]
        closed.update(full)
        if full:
            return False
        for key in keys:
            self._count(key, 1, cores)
        self._cores[job.job_id] = cores
        return True

    def _has_room(self, key: Key, more: int) -> bool:
        jobs, cores = self._used.get(key, (0, 0))
        return self.limits[key[0]].has_room(jobs + 1, cores + more)

    def _count(self, key: Key, jobs: int, cores: int) -> None:
        before = self._used.get(key, (0, 0))
        self._used[key] = before[0] + jobs, before[1] + cores
