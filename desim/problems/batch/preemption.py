"""Quality of service: which queued jobs may take running jobs off, and what becomes of these.

A job belongs to at most one quality of service, which says whose jobs it preempts. Preempting is up to the agent: its
answer is a :class:`StartPreempting`. A job that is preempted goes back to the queue, as one that an outage has cut, or
it is suspended. What is suspended keeps what it has done, and lends its cores and nothing else to the job that preempts
it: memory, GPUs and further resources stay with it, and so do the cores that are not needed, for no other job but those
that may preempt it, too. Once all of its cores are back it resumes on them, after the decisions of that instant.

The words are those of Slurm: a quality has a priority, a list of those that it preempts, and a mode in which its own
jobs are preempted. See Yoo, Jette and Grondona, "SLURM: Simple Linux Utility for Resource Management", JSSPP 2003.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from desim.checks import check_choice, check_float, did_you_mean
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.problems.batch.observation import BatchState

__all__ = ["QOSTable", "QualityOfService", "StartPreempting"]


@dataclass(frozen=True, slots=True)
class QualityOfService:
    """What the jobs of one quality may do to others, and others to them.

    Attributes
    ----------
    name : str
        Not empty.
    priority : float
        At least 0; the larger, the more important.
    preempts : sequence of str
        The qualities whose jobs its jobs may take off.
    mode : {"requeue", "suspend"}
        What becomes of its own jobs when they are preempted.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range, or the quality preempts itself.
    """

    name: str
    priority: float = 0.0
    preempts: Sequence[str] = ()
    mode: Literal["requeue", "suspend"] = "requeue"

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.name, str) or not self.name:
            raise InvalidConfiguration(f"a quality of service is named {self.name!r}, want a text that is not empty")
        check_float(f"the priority of quality {self.name!r}", self.priority, least=0)
        check_choice(f"the mode of quality {self.name!r}", self.mode, ("requeue", "suspend"))
        if isinstance(self.preempts, str):
            raise InvalidConfiguration(
                f"quality {self.name!r} preempts {self.preempts!r}, want a tuple of names such as ({self.preempts!r},)"
            )
        object.__setattr__(self, "preempts", tuple(self.preempts))
        if self.name in self.preempts:
            raise InvalidConfiguration(f"quality {self.name!r} preempts itself")


class StartPreempting(NamedTuple):
    """The action that starts a queued job where others are taken off, on the cores or nodes that the cluster finds.

    Attributes
    ----------
    job_id : int
        The queued job to start.
    victims : tuple of int
        The running jobs that are taken off first; none if suspended jobs have enough cores to lend.
    """

    job_id: int
    victims: tuple[int, ...] = ()


class QOSTable:
    """The qualities of service of a site, and which of them jobs have; no run changes them.

    Parameters
    ----------
    qos : iterable of QualityOfService
        Those that exist; their names differ.
    qos_of : mapping of int to str
        The quality of jobs, by id; others have none, preempt nobody and are not preempted.

    Attributes
    ----------
    by_name : dict of str to QualityOfService
        In the order in which they were given.

    Raises
    ------
    InvalidConfiguration
        If a quality is none, is named twice, or is not known; or if qualities preempt each other in a circle.
    """

    def __init__(self, qos: Iterable[QualityOfService], qos_of: Mapping[int, str]) -> None:
        self.by_name: dict[str, QualityOfService] = {}
        for one in qos:
            if not isinstance(one, QualityOfService):
                raise InvalidConfiguration(f"qos holds {one!r}, want QualityOfService objects")
            if one.name in self.by_name:
                raise InvalidConfiguration(f"two qualities of service are named {one.name!r}")
            self.by_name[one.name] = one
        for one in self.by_name.values():
            for other in one.preempts:
                if other not in self.by_name:
                    raise InvalidConfiguration(f"quality {one.name!r} preempts {self._unknown(other)}")
        if circle := self._circle():
            raise InvalidConfiguration(f"qualities preempt each other: {' preempts '.join(circle)}")
        for job_id, name in qos_of.items():
            if name not in self.by_name:
                raise InvalidConfiguration(f"job {job_id} has the quality of service {self._unknown(name)}")
        self._of = {job_id: self.by_name[name] for job_id, name in qos_of.items()}
        self._most = max((one.priority for one in self.by_name.values()), default=0.0)

    def _unknown(self, name: str) -> str:
        there = ", ".join(self.by_name) or "none"
        return f"{name!r}{did_you_mean(name, self.by_name)}; there are {there}"

    def _circle(self) -> list[str]:
        """Return qualities each of which preempts the next, the last being the first; empty if there are none."""
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

    def of(self, job_id: int) -> QualityOfService | None:
        """Return the quality of a job; None if it has none."""
        return self._of.get(job_id)

    def factor(self, job_id: int) -> float:
        """Return the priority of a job's quality as a share of the largest one, from 0 to 1."""
        job_qos = self._of.get(job_id)
        return job_qos.priority / self._most if job_qos is not None and self._most else 0.0

    def allows(self, job_id: int, victim: int) -> bool:
        """Tell whether a job may take another one off."""
        one, other = self._of.get(job_id), self._of.get(victim)
        return one is not None and other is not None and other.name in one.preempts

    def suspends(self, job_id: int) -> bool:
        """Tell whether a job is suspended when it is preempted."""
        job_qos = self._of.get(job_id)
        return job_qos is not None and job_qos.mode == "suspend"

    def open_to(self, state: BatchState, job_id: int, victims: Collection[int]) -> tuple[int, int]:
        """Return which cores a queued job could have if others were taken off.

        Parameters
        ----------
        state : BatchState
            The moment.
        job_id : int
            The queued job.
        victims : collection of int
            The running jobs that would be taken off; it may preempt them.

        Returns
        -------
        (int, int)
            As bit sets the cores that would be nobody's, and those that suspended jobs would lend.
        """
        suspended = state.suspended
        running = (one.cores for each, one in state.running.items() if each not in victims)
        closed = _union(running) | _union(one.cores for each, one in suspended.items() if not self.allows(job_id, each))
        borrowed = _union(one.cores for one in suspended.values())
        borrowed |= _union(state.running[each].cores for each in victims if self.suspends(each))
        usable = ((1 << state.num_cores) - 1) & ~state.down & ~closed
        return usable & ~borrowed, usable & borrowed

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield what is recorded of each quality."""
        for one in self.by_name.values():
            yield one.name, one.priority, list(one.preempts), one.mode


def _union(core_sets: Iterable[int]) -> int:
    return reduce(or_, core_sets, 0)
