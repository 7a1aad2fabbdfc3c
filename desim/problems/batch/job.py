"""Jobs of a batch cluster, and basic actions of an agent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

from desim.checks import short_repr
from desim.exceptions import WorkloadError
from desim.problems.batch.tables import JOBS

if TYPE_CHECKING:
    from desim.problems.batch.request import Request

__all__ = [
    "Dependency",
    "Job",
    "Size",
    "Start",
    "StartPreempting",
    "StartWithSize",
    "WaitForCores",
    "WaitUntil",
    "check_job",
    "check_time",
]


class _Empty(dict[str, Any]):
    """Empty mapping that stays empty, because all jobs without attributes share it."""

    def _refuse(self, *arguments: Any, **values: Any) -> NoReturn:
        raise TypeError("a job cannot be changed; use job._replace(attributes={...})")

    __setitem__ = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> str:
        return "EMPTY"  # copies, also those of other processes, share it as well


EMPTY: Mapping[str, Any] = _Empty()
LATEST = 1e15
"""Latest submission in seconds. From 2^53 on, floats skip whole seconds, so that short jobs would take no time."""


class Size(NamedTuple):
    """Further size of a moldable job.

    Attributes
    ----------
    requested_cores, requested_time, run_time, request, run_times
        What the job requests and how long it runs in this size, as for :class:`Job`.
    """

    requested_cores: int
    requested_time: float
    run_time: float
    request: Request | None = None
    run_times: Mapping[str, float] = EMPTY


@dataclass(frozen=True, slots=True)
class Dependency:
    """Dependency of a job on others.

    Attributes
    ----------
    jobs : tuple of int or str
        Ids of the predecessors, which must have ended: completed, killed, lost or rejected.
    think_time : float
        Seconds from the last of these ends to the submission of the job.
    """

    jobs: tuple[int | str, ...]
    think_time: float = 0.0


class Job(NamedTuple):
    """Parallel job, which does not change.

    Attributes
    ----------
    job_id : int or str
        Identifier in the workload, an integer or a text. Several jobs may have the same; the cluster tells them apart
        by row, the number of the submission.
    submission_time : float
        Time at which the job enters the queue, in seconds, at least 0 and at most 1e15.
    requested_cores : int
        Number of cores that the job holds from its start to its end, at least 1; with a request, those of all tasks.
    requested_time : float
        The user's estimate of the run time, in seconds; the only duration visible to agents.
    run_time : float
        Actual run time in seconds, at least 0. By default, the cluster kills a job that reaches its requested time.
    user_id : int
        Number of the user who submitted the job; -1 if unknown.
    request : Request or None
        Requested tasks on nodes; None for one task of one core per requested core. Equal jobs share one object. See
        :meth:`of_tasks`.
    sizes : tuple of Size
        Further sizes of a moldable job; its own fields are size 0. :class:`StartWithSize` starts it in a chosen size.
        It keeps that size, even if an outage returns it to the queue, and records contain that size only.
    run_times : mapping of str to float
        Run time in seconds by GPU model; on nodes without these models, ``run_time`` applies. Agents do not see it.
    after : Dependency or None
        Jobs that must have ended before this one is submitted.
    queue, partition, qos : str
        Names of its queue, partition and quality of service (QOS); empty for none. The partition of a request
        restricts the nodes, and this one groups jobs.
    attributes : mapping of str to object
        Further facts about the job under any names, such as ``{"energy": 3.5}``. Agents see them in the queue, and the
        job table has a column for each. Facts that are known only after the job has run do not belong here.
    """

    job_id: int | str
    submission_time: float
    requested_cores: int
    requested_time: float
    run_time: float
    user_id: int = -1
    request: Request | None = None
    sizes: tuple[Size, ...] = ()
    run_times: Mapping[str, float] = EMPTY
    after: Dependency | None = None
    queue: str = ""
    partition: str = ""
    qos: str = ""
    attributes: Mapping[str, Any] = EMPTY

    @classmethod
    def of_tasks(  # noqa: PLR0917  # in the order of a job's fields
        cls,
        job_id: int | str,
        submission_time: float,
        request: Request,
        requested_time: float,
        run_time: float,
        user_id: int = -1,
        **others: Any,
    ) -> Self:
        """Return a job with a request, whose requested cores are those of all tasks.

        Parameters
        ----------
        job_id : int or str
            Identifier.
        submission_time : float
            Submission in seconds.
        request : Request
            Requested tasks.
        requested_time, run_time : float
            Times in seconds.
        user_id : int
            Number of the user.
        **others : object
            Its other fields by name.

        Returns
        -------
        Job
            New job.

        Raises
        ------
        WorkloadError
            If a field is invalid.
        """
        try:
            cores = request.num_cores
        except AttributeError:
            raise WorkloadError(
                f"job {job_id}: request: got {short_repr(request)}, expected a Request, such as Request(tasks=2, "
                "cores=4); for cores without nodes, try Job(...)"
            ) from None
        job = cls(job_id, submission_time, cores, requested_time, run_time, user_id, request, **others)
        check_job(job)
        return job

    def requesting(self, request: Request) -> Job:
        """Return a copy with another request and its cores, without checks."""
        return self._replace(request=request, requested_cores=request.num_cores)

    def in_size(self, size: int) -> Job:
        """Return the job in one of its sizes, which it keeps; size 0 is that of its first fields."""
        if size == 0:
            return self._replace(sizes=()) if self.sizes else self
        cores, requested_time, run_time, request, run_times = self.sizes[size - 1]
        return Job._make((*self[:2], cores, requested_time, run_time, self.user_id, request, (), run_times, *self[9:]))

    def in_all_sizes(self) -> list[Job]:
        """Return the job in each of its sizes; a rigid job has one."""
        return [self.in_size(size) for size in range(1 + len(self.sizes))] if self.sizes else [self]

    def known(self) -> Job:
        """Return the job as agents know it, with its requested time as run time, in each size and on all nodes."""
        sizes = tuple(size._replace(run_time=size.requested_time, run_times=EMPTY) for size in self.sizes)
        return Job._make((*self[:4], self.requested_time, *self[5:7], sizes, EMPTY, *self[9:]))

    def group(self, by: str) -> Any:
        """Return the user, queue, partition or QOS of the job, or an attribute, for limits.

        Parameters
        ----------
        by : str
            ``"user"``, ``"queue"``, ``"partition"``, ``"qos"``, or the name of an attribute. If an attribute ``user``
            names the user, it counts instead of the number.

        Returns
        -------
        object
            Name or value; None if unknown.
        """
        if by == "partition":
            return self.partition or (self.request.partition if self.request is not None else "") or None
        if by in ("queue", "qos"):
            return getattr(self, by) or None
        found = self.attributes.get(by)
        return self.user_id if found is None and by == "user" and self.user_id >= 0 else found

    def __repr__(self) -> str:
        """Return the job with its first six fields, and those of the others that are given."""
        more = zip(self._fields[6:], self[6:], strict=True)
        given = [(name, value) for name, value in more if value != self._field_defaults[name]]
        shown = [*zip(self._fields, self[:6], strict=False), *given]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def __hash__(self) -> int:
        """Return a hash of the first six fields: the others may hold lists or dictionaries."""
        return hash(self[:6])


TAKEN = {*Job._fields, *JOBS.names, "recorded_nodes", "nodes"}
"""Names that attributes cannot have: fields, columns of the job table, and what is known only after a job has run."""


class Start(NamedTuple):
    """Action that starts a queued job on given cores.

    If core ids do not matter, return just the row instead: the cluster then takes the lowest free cores.

    Attributes
    ----------
    row : int
        Row of the queued job, see :attr:`Queue.row`.
    cores : int
        Cores as a bit set: bit i stands for core i.
    """

    row: int
    cores: int


class StartWithSize(NamedTuple):
    """Action that starts a queued moldable job in a chosen size, on cores or nodes that the cluster chooses.

    Attributes
    ----------
    row : int
        Row of the queued job.
    size : int
        Index of the size, from 0.
    """

    row: int
    size: int


class StartPreempting(NamedTuple):
    """Action that starts a queued job by preempting others, on cores or nodes that the cluster chooses.

    If the QOS of a victim grants a grace time, the action announces the preemption. The job then stays queued until the
    longest grace time of its victims is over, and starts if it fits in place of those that are still running. Until
    then all victims run on, even those whose own grace time is shorter, because the job needs the cores of all of them.
    A job that may start earlier can be started by any other action, which withdraws the announcement.

    Attributes
    ----------
    row : int
        Row of the queued job.
    victims : tuple of int
        Rows of the running jobs to preempt first; empty if suspended jobs have enough cores to lend.
    """

    row: int
    victims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)  # not a tuple, which numpy would treat as numbers when comparing rows
class WaitForCores:
    """Action that ends a scheduling cycle, and skips decisions at which the agent would only wait.

    The next cycle opens once the given number of cores is free, or at another event that may change the decision: an
    outage, a repair, the begin or end of a reservation, the admission of a held job, or the time of a
    :class:`WaitUntil`. If that many cores are already free, no decision is skipped.

    Attributes
    ----------
    cores : int
        Number of cores that must be free, at most those of the cluster. Give the smallest request of the jobs that
        could start then.
    arrivals : bool
        Whether jobs that arrive in the meantime could start as well: a cycle then opens as soon as one of them fits.
        Set it to False for strict orders in which no later job can come first, such as first come, first served.
    """

    cores: int
    arrivals: bool = True


class WaitUntil(NamedTuple):
    """Action that ends a scheduling cycle and requests another one at a given time.

    Arrivals, completions and other events may open cycles before. The request is kept until its time; further ones add
    to it.

    Attributes
    ----------
    time : float or None
        Time of the requested cycle, in seconds of simulated time; None withdraws all requests.
    """

    time: float | None


def check_job(job: Job) -> None:
    """Raise an error if a field of a job is invalid.

    Parameters
    ----------
    job : Job
        Job to check.

    Raises
    ------
    WorkloadError
        If a field is not finite or out of range; the message names the job and the field.
    """
    if isinstance(job.job_id, bool) or not isinstance(job.job_id, Integral | str) or job.job_id == "":
        raise WorkloadError(f"job {job.job_id!r}: job_id: got {job.job_id!r}, expected an integer or a string")
    _check_size(job.job_id, job)
    for size in job.sizes:
        _check_size(job.job_id, size)
    check_time(job.job_id, "submission_time", job.submission_time)
    if job.submission_time > LATEST:
        raise WorkloadError(f"job {job.job_id}: submission_time: got {job.submission_time!r}, expected <= {LATEST:g} s")
    for name in job.attributes:
        if not isinstance(name, str) or name in TAKEN:
            raise WorkloadError(
                f"job {job.job_id}: attributes: got {name!r}, expected names other than those of fields and of columns "
                "of the job table"
            )


def _check_size(job_id: int | str, size: Job | Size) -> None:
    """Raise an error if a job's cores, times or request in one of its sizes are invalid."""
    cores, request = size.requested_cores, size.request
    if request is not None and (fault := request.fault()):
        raise WorkloadError(f"job {job_id}: {fault}")
    if not _is_number(cores) or not 1 <= cores < math.inf or cores != int(cores):
        raise WorkloadError(f"job {job_id}: requested_cores: got {cores!r}, expected an integer >= 1")
    check_time(job_id, "requested_time", size.requested_time)
    check_time(job_id, "run_time", size.run_time)
    for model, time in size.run_times.items():
        check_time(job_id, f"run_times[{model!r}]", time)
    if request is not None and request.num_cores != cores:
        raise WorkloadError(
            f"job {job_id}: requested_cores: got {cores}, but {request.tasks} tasks of {request.cores} cores request "
            f"{request.num_cores}; try Job.of_tasks or job.requesting(request)"
        )


def check_time(job_id: int | str, name: str, value: object) -> None:
    """Raise WorkloadError if a time of a job is not finite or negative."""
    if not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise WorkloadError(f"job {job_id}: {name}: got {value!r}, expected a finite time >= 0 s")


def _is_number(value: object) -> bool:
    return isinstance(value, Real)
