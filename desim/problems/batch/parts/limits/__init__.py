"""Limits of a site: on what a job may request, and on what a user, a partition or a queue may use at once.

A job that requests more than a limit allows is rejected. A job whose user or partition has reached a limit is held
outside the queue. All jobs that agents see may therefore run at once, so agents need not know the limits. Jobs enter
the queue in order of arrival, with one exception: if a group is full for a held job, later jobs of that group wait
behind it, while jobs of other groups overtake it. Held jobs are checked again whenever a job of a full group has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.forks import FlatDict
from desim.problems.batch.job import Job
from desim.problems.batch.parts.base import Part
from desim.problems.batch.tables import job_id_column
from desim.tables import Column, Table, arrival_number

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["Limit"]

MAXIMA = {
    "job_cores": "cores per job",
    "job_time": "s per job",
    "running_jobs": "jobs at once",
    "running_cores": "cores at once",
}
"""What a limit may bound, with units."""

Key = tuple[int, str]
"""Number of a limit, and name of one of its groups."""


@dataclass(frozen=True)
class Limit:
    """Limit on each of several groups of jobs.

    Attributes
    ----------
    scope : str
        Scope of the limit, what defines the groups: ``"user"``, ``"queue"``, ``"partition"``, ``"qos"``, or the name
        of an attribute of jobs. Jobs without it are not limited.
    members : collection of str, optional
        Names of the limited groups, or user numbers, converted to text (default: all groups).
    job_cores : int, optional
        Maximum number of cores that a job may request.
    job_time : float, optional
        Maximum requested time of a job, in seconds.
    running_jobs, running_cores : int, optional
        Maximum number of jobs of a group that may run at once, and maximum number of their cores.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range, or no maximum is given.
    """

    scope: str = "user"
    members: Collection[str] | None = None
    job_cores: int | None = None
    job_time: float | None = None
    running_jobs: int | None = None
    running_cores: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.scope, str):
            raise InvalidConfiguration(
                f"scope: got {self.scope!r}, expected a name; give jobs a queue or an attribute, and name it here"
            )
        if isinstance(self.members, str):
            raise InvalidConfiguration(
                f"members: got {self.members!r}, expected a collection of names; try ({self.members!r},)"
            )
        if self.members is not None:
            object.__setattr__(self, "members", tuple(map(str, self.members)))  # user numbers are compared as text
        for name in ("job_cores", "running_jobs", "running_cores"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), least=1)
        if self.job_time is not None:
            check_float("job_time", self.job_time, least=0)
        if (self.job_cores, self.job_time, self.running_jobs, self.running_cores) == (None,) * 4:
            raise InvalidConfiguration("Limit: got no maximum; give job_cores, job_time, running_jobs or running_cores")

    def group_of(self, job: Job) -> str | None:
        """Return the group of a job, or None if the job is not limited."""
        found = job.group(self.scope)
        group = None if found is None else str(found)
        return group if self.members is None or group in self.members else None

    def named(self, group: str) -> str:
        """Return the description of a group in error messages."""
        return f"{self.scope} {group}"

    def fault(self, job: Job, group: str) -> str:
        """Return why a job of a group can never run, or an empty string if it can."""
        cores, time = job.requested_cores, job.requested_time
        for most in (self.job_cores, self.running_cores):
            if most is not None and cores > most:
                return f"requests {cores} cores, but {self.named(group)} may use at most {most}"
        if self.job_time is not None and time > self.job_time:
            return f"requests {time} s, but {self.named(group)} may request at most {self.job_time} s"
        return ""

    def has_room(self, jobs: int, cores: int) -> bool:
        """Return whether a group may use the given numbers of jobs and cores at once."""
        return (self.running_jobs is None or jobs <= self.running_jobs) and (
            self.running_cores is None or cores <= self.running_cores
        )


class Limits(Part):
    """Part that decides which jobs enter the queue and which are held.

    Parameters
    ----------
    limits : tuple of Limit
        Limits of the cluster.

    Raises
    ------
    InvalidConfiguration
        If one of them is not a Limit.

    Attributes
    ----------
    held : dict of int to Job
        Held jobs by row, in order of arrival.
    """

    name = "limits"
    constants = (Limit,)

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        if wrong := [limit for limit in limits if not isinstance(limit, Limit)]:
            raise InvalidConfiguration(f"limits: got {wrong[0]!r}, expected Limit objects")
        self.limits = limits

    def describe(self) -> dict[str, Any]:
        """Return the number of limits."""
        return {"limits": len(self.limits)}

    def begin(self) -> None:
        """Set up the state of a run, and record the limits."""
        self.held: dict[int, Job] = FlatDict()
        self._keys: dict[int, tuple[Key, ...]] = FlatDict()  # limits and groups of jobs in the system, by row
        self._cores: dict[int, int] = FlatDict()  # cores counted for queued and running jobs, by row
        self._used: dict[Key, tuple[int, int]] = {}  # jobs and cores in use
        self._closed: set[Key] = set()  # groups that are full for a held job
        tables = self.cluster.simulation.records.tables
        self._record = tables["limited_jobs"].append
        for number, limit in enumerate(self.limits):
            row = number, limit.scope, sorted(limit.members or ()), *(getattr(limit, name) for name in MAXIMA)
            tables["limits"].append(row)

    def outside(self) -> Mapping[int, Job]:
        """Return the held jobs."""
        return self.held

    def drop_future(self) -> Iterable[Callable[[Any], None]]:
        """Set the run times of held jobs to their expected ones."""
        self.held.update((row, self.cluster.as_known(job, row)) for row, job in self.held.items())
        return ()

    def _groups_of(self, job: Job) -> Iterator[Key]:
        """Yield (number of the limit, group) for each limit that applies to a job."""
        for number, limit in enumerate(self.limits):
            if (group := limit.group_of(job)) is not None:
                yield number, group

    def _fault(self, job: Job) -> str:
        """Return why a job can never run, or an empty string if it can."""
        faults = (self.limits[number].fault(job, group) for number, group in self._groups_of(job))
        return next(filter(None, faults), "")

    def refuses(self, job: Job, row: int) -> str:
        """Return why a job that has arrived can never run, or an empty string if it can."""
        for limit, group in self._groups_of(job):
            self._record((job.job_id, limit, group, row))
        return self._fault(job)

    def holds(self, job: Job, row: int) -> bool:
        """Return whether a group of a job that has arrived is full."""
        self._keys[row] = tuple(self._groups_of(job))
        if self._admits(job, row, self._closed):
            return False
        self.held[row] = job
        return True

    def left(self, job: Job, row: int, outcome: str) -> None:
        """Admit held jobs that the limits allow now that a job has left the cluster."""
        if outcome == "rejected":
            return
        keys, cores = self._keys.pop(row), self._cores.pop(row)
        for key in keys:
            self._count(key, -1, -cores)
        if self._closed.isdisjoint(keys):
            return
        self._closed = set()
        admitted = {each: held for each, held in self.held.items() if self._admits(held, each, self._closed)}
        for each in admitted:
            del self.held[each]
        if admitted:
            self.let_in(admitted)

    def may_start(self, job: Job, row: int, size: int | None) -> str:
        """Return why a queued job may not start in a size that the agent has chosen, or an empty string if it may."""
        if size is None:
            return ""
        if fault := self._fault(job):
            return fault
        more = job.requested_cores - self._cores[row]
        for number, group in self._keys[row]:
            jobs, cores = self._used[number, group]
            if more > 0 and not self.limits[number].has_room(jobs, cores + more):
                return self._has_too_much((number, group))
        return ""

    def resized(self, job: Job, row: int) -> None:
        """Count a queued job in another size."""
        more = job.requested_cores - self._cores[row]
        for key in self._keys[row]:
            self._count(key, 0, more)
        self._cores[row] += more

    def explain(self, job: Job, row: int) -> str:
        """Return why a job is held."""
        keys = self._keys[row]
        return self._has_too_much(next(key for key in keys if key in self._closed))

    def _has_too_much(self, key: Key) -> str:
        number, group = key
        limit, (jobs, cores) = self.limits[number], self._used[key]
        most = [f"{limit.running_jobs} jobs"] if limit.running_jobs is not None else []
        most += [f"{limit.running_cores} cores"] if limit.running_cores is not None else []
        return (
            f"{limit.named(group)} has {jobs} jobs with {cores} cores running or queued, and may have at most "
            f"{' and '.join(most)} at once"
        )

    def _admits(self, job: Job, row: int, closed: set[Key]) -> bool:
        """Count a job if its groups have room for it; otherwise add the full groups to `closed`."""
        keys, cores = self._keys[row], job.requested_cores
        if not closed.isdisjoint(keys):
            return False
        used = ((key, self._used.get(key, (0, 0))) for key in keys)
        full = [key for key, now in used if not self.limits[key[0]].has_room(now[0] + 1, now[1] + cores)]
        closed.update(full)
        if full:
            return False
        for key in keys:
            self._count(key, 1, cores)
        self._cores[row] = cores
        return True

    def _count(self, key: Key, jobs: int, cores: int) -> None:
        before = self._used.get(key, (0, 0))
        self._used[key] = before[0] + jobs, before[1] + cores


INFO = (Column("limits", "integer", "number of limits on jobs, users or queues, if any", least=1, optional=True),)
"""Entries in the description of a run."""


TABLES = (
    Table(
        "limits",
        "a limit of the site",
        (
            Column("limit", "integer", "number of the limit", least=0),
            Column("scope", "text", "what defines the groups of jobs, such as user or queue"),
            Column("members", "texts", "limited groups; none if all are"),
            Column("job_cores", "integer", "maximum cores of a job", unit="cores", null="without a limit", least=1),
            Column("job_time", "float", "maximum requested time of a job", unit="s", null="without a limit", least=0),
            Column("running_jobs", "integer", "maximum running jobs of a group", null="without a limit", least=1),
            Column("running_cores", "integer", "maximum cores of these", unit="cores", null="without a limit", least=1),
        ),
        sort_by=("limit",),
        only_with="limits",
    ),
    Table(
        "limited_jobs",
        "a job and a limit that applies to it",
        (
            job_id_column(),
            Column("limit", "integer", "number of the limit", least=0),
            Column("group", "text", "group of the job, for example its user or partition"),
            arrival_number("of the job"),
        ),
        sort_by=("arrival_number", "limit"),
        only_with="limits",
    ),
)
"""Tables of a run."""


def sentence(result: Result) -> str:
    """Return what was in force in a run, for reports; empty if there were no limits."""
    if "limits" not in result.info:
        return ""
    found = []
    for limit in result.table("limits").to_dicts():
        most = [f"{limit[name]:,g} {unit}" for name, unit in MAXIMA.items() if limit[name] is not None]
        whose = f"{limit['scope']} {', '.join(limit['members'])}" if limit["members"] else f"each {limit['scope']}"
        found.append(f"{whose}: at most {', '.join(most)}")
    return f"Limits: {'; '.join(found)}."
