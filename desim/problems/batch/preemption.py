"""Preemption by quality of service (QOS): which queued jobs may preempt running jobs, and what happens to these.

A job has at most one QOS level, which defines whose jobs it may preempt. Agents decide about preemption, with the
action :class:`StartPreempting`. A preempted job is requeued, like one interrupted by an outage, or suspended. A
suspended job keeps its work, and the preempting job borrows only its cores. Its memory, GPUs and other resources remain
allocated to it, and so do cores that the preempting job does not need; only jobs that may preempt it can use these. It
resumes on the same cores once all of them are free again, after the decisions of that instant.

The terms are those of Slurm: a QOS has a priority, a list of QOS that it preempts, and a mode in which its own jobs are
preempted. See Yoo, Jette and Grondona, "SLURM: Simple Linux Utility for Resource Management", JSSPP 2003.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from desim.checks import check_choice, check_float, did_you_mean
from desim.exceptions import InvalidConfiguration, WorkloadError

if TYPE_CHECKING:
    from desim.problems.batch.job import Job
    from desim.problems.batch.observation import BatchState

__all__ = ["QOSTable", "QualityOfService", "StartPreempting"]


@dataclass(frozen=True, slots=True)
class QualityOfService:
    """QOS level: whose jobs its jobs may preempt, and how its own jobs are preempted.

    Attributes
    ----------
    name : str
        Name, not empty.
    priority : float
        Priority, at least 0; larger is more important.
    preempts : sequence of str
        Names of the QOS levels whose jobs its jobs may preempt.
    mode : {"requeue", "suspend"}
        What happens to its own jobs when they are preempted.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range, or the level preempts itself.
    """

    name: str
    priority: float = 0.0
    preempts: Sequence[str] = ()
    mode: Literal["requeue", "suspend"] = "requeue"

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.name, str) or not self.name:
            raise InvalidConfiguration(f"the name of a QOS: got {self.name!r}, expected a nonempty string")
        check_float(f"the priority of QOS {self.name!r}", self.priority, least=0)
        check_choice(f"the mode of QOS {self.name!r}", self.mode, ("requeue", "suspend"))
        if isinstance(self.preempts, str):
            raise InvalidConfiguration(
                f"QOS {self.name!r}: preempts: got {self.preempts!r}, expected a tuple; try ({self.preempts!r},)"
            )
        object.__setattr__(self, "preempts", tuple(self.preempts))
        if self.name in self.preempts:
            raise InvalidConfiguration(f"QOS {self.name!r} preempts itself")


class StartPreempting(NamedTuple):
    """Action that starts a queued job by preempting others, on cores or nodes that the cluster chooses.

    Attributes
    ----------
    job_id : int
        Id of the queued job.
    victims : tuple of int
        Ids of the running jobs to preempt first; empty if suspended jobs have enough cores to lend.
    """

    job_id: int
    victims: tuple[int, ...] = ()


class QOSTable:
    """QOS levels of a site; runs do not change them.

    Parameters
    ----------
    qos : iterable of QualityOfService
        QOS levels with unique names.

    Attributes
    ----------
    by_name : dict of str to QualityOfService
        QOS levels by name, in the given order.

    Raises
    ------
    InvalidConfiguration
        If a level has the wrong type, occurs twice or is unknown; or if levels preempt each other in a cycle.
    """

    def __init__(self, qos: Iterable[QualityOfService]) -> None:
        self.by_name: dict[str, QualityOfService] = {}
        for one in qos:
            if not isinstance(one, QualityOfService):
                raise InvalidConfiguration(f"qos: got {one!r}, expected QualityOfService objects")
            if one.name in self.by_name:
                raise InvalidConfiguration(f"qos: the name {one.name!r} occurs twice; names must be unique")
            self.by_name[one.name] = one
        for one in self.by_name.values():
            for other in one.preempts:
                if other not in self.by_name:
                    raise InvalidConfiguration(f"QOS {one.name!r}: preempts: got {self._unknown(other)}")
        if circle := self._circle():
            raise InvalidConfiguration(f"QOS levels preempt each other: {' preempts '.join(circle)}")

    def _unknown(self, name: str) -> str:
        there = ", ".join(self.by_name) or "none"
        return f"{name!r}{did_you_mean(name, self.by_name)}, expected one of: {there}"

    def _circle(self) -> list[str]:
        """Return a cycle of QOS levels, each preempting the next, that ends with its first; empty if there is none."""
        for name in self.by_name:
            paths = [[name]]
            seen: set[str] = set()
            while paths:
                path = paths.pop()
                for other in self.by_name[path[-1]].preempts:
                    if other == name:
                        return [*path, other]
                    if other not in seen:
                        seen.add(other)
                        paths.append([*path, other])
        return []

    def check(self, job: Job) -> None:
        """Raise WorkloadError if a job has an unknown QOS."""
        if job.qos and job.qos not in self.by_name:
            raise WorkloadError(f"job {job.job_id}: qos: got {self._unknown(job.qos)}")

    def of(self, job: Job) -> QualityOfService | None:
        """Return the QOS of a job; None if it has none, so that it neither preempts nor is preempted."""
        return self.by_name.get(job.qos)

    def allows(self, job: Job, victim: Job) -> bool:
        """Return whether a job may preempt another."""
        one = self.of(job)
        return one is not None and victim.qos in one.preempts

    def suspends(self, job: Job) -> bool:
        """Return whether a job is suspended when it is preempted."""
        job_qos = self.of(job)
        return job_qos is not None and job_qos.mode == "suspend"

    def open_to(self, state: BatchState, job: Job, victims: Collection[int]) -> tuple[int, int]:
        """Return the cores that a queued job could use if running jobs were preempted.

        Parameters
        ----------
        state : BatchState
            Current state of the cluster.
        job : Job
            Queued job.
        victims : collection of int
            Ids of the running jobs to preempt; the queued job must be allowed to preempt them.

        Returns
        -------
        (int, int)
            Bit sets of the cores that would be free, and of those that suspended jobs would lend.
        """
        suspended = state.suspended
        running = (one.cores for each, one in state.running.items() if each not in victims)
        closed = _union(running) | _union(one.cores for one in suspended.values() if not self.allows(job, one.job))
        borrowed = _union(one.cores for one in suspended.values())
        borrowed |= _union(state.running[each].cores for each in victims if self.suspends(state.running[each].job))
        resources = state.resources
        usable = ((1 << resources.num_cores) - 1) & ~resources.down & ~closed
        return usable & ~borrowed, usable & borrowed

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the record of each QOS level."""
        for one in self.by_name.values():
            yield one.name, one.priority, list(one.preempts), one.mode


def _union(core_sets: Iterable[int]) -> int:
    return reduce(or_, core_sets, 0)
