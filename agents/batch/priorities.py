"""Priority orders for a batch queue, each an agent by itself, and what they are called.

A priority gives every queued job a score; the smallest comes first, and of equal scores the job
that arrived earlier. As an agent it is strict: it starts the first job while that fits and
otherwise waits; :mod:`desim.agents.batch.backfilling` lets other jobs overtake.

The score functions F1 to F4 come from Carastan-Santos and de Camargo, "Obtaining dynamic
scheduling policies with simulation and machine learning", SC 2017; WFP3 and UNICEP from Tang,
Lan, Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems",
Cluster 2009. In them, r is the requested time, n the requested cores, s the submission time and
w the waiting time, in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.node_backfilling import strict_on_nodes
from desim.agents.batch.windows import start_around_windows
from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, NodeObservation, Place, Queue, WaitFor
from desim.reprs import Named

__all__ = [
    "F1",
    "F2",
    "F3",
    "F4",
    "FCFS",
    "LCFS",
    "PRIORITIES",
    "SJF",
    "UNICEP",
    "WFP3",
    "Priority",
    "SmallestFirst",
    "as_priority",
    "until_one_fits",
]


class Priority(Named):
    """An order of the queue, and the strict agent that follows it."""

    name: ClassVar[str] = "priority"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return a score for every queued job, shape (L,); the smallest comes first.

        Parameters
        ----------
        queue : Queue
            The queued jobs, L of them.
        time : float
            The time now, in seconds.
        """
        return np.arange(len(queue), dtype=np.float64)

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the first job by this order in a queue that is not empty."""
        return int(self.scores(queue, time).argmin())

    def order(self, queue: Queue, time: float) -> NDArray[np.int64]:
        """Return the positions of all queued jobs, first to last by this order, shape (L,)."""
        return self.scores(queue, time).argsort(kind="stable")

    def act(self, observation: BatchObservation) -> Sequence[int | Place | WaitFor] | None:
        """Start jobs in order for as long as they fit."""
        if isinstance(observation, NodeObservation):
            return strict_on_nodes(observation, self.order(observation.queue, observation.time))
        if observation.windows:
            return start_around_windows(observation, self.order(observation.queue, observation.time), "stops")
        queue, free = observation.queue, observation.free_cores
        if not len(queue):
            return None
        cores = queue.requested_cores
        first = self.first(queue, observation.time)
        if cores[first] > free:
            if type(self).scores in FIXED_SCORES:  # jobs that are queued already will not come before this one
                return [WaitFor(int(cores[first]))]
            return until_one_fits(cores, free)
        order = self.order(queue, observation.time)[:free]
        count = int(cores[order].cumsum().searchsorted(free, "right"))
        started: list[int | WaitFor] = queue.job_id[order[:count]].tolist()
        return started


def until_one_fits(cores: NDArray[np.int64], free: int) -> list[int | WaitFor] | None:
    """Return the answer that nothing can start, and what to wait for if no queued job fits.

    Parameters
    ----------
    cores : array of int, shape (L,)
        What the queued jobs request; not empty.
    free : int
        How many cores are free.

    Returns
    -------
    list of WaitFor, or None
        None where a job fits, and another decision may come out otherwise.
    """
    least = int(cores.min())
    return [WaitFor(least)] if least > free else None


class FCFS(Priority):
    """First come, first served."""

    name = "fcfs"

    def first(self, queue: Queue, time: float) -> int:
        """Return 0: the queue is in order of arrival."""
        return 0

    def order(self, queue: Queue, time: float) -> NDArray[np.int64]:
        """Return all positions in order of arrival."""
        return np.arange(len(queue))

    def act(self, observation: BatchObservation) -> Sequence[int | Place | WaitFor] | None:
        """Start jobs from the head of the queue for as long as they fit; then only the head's cores matter."""
        if isinstance(observation, NodeObservation) or observation.windows:
            return super().act(observation)
        free = observation.free_cores
        answer: list[int | WaitFor] = []
        for job_id, cores in observation.heads():
            if cores > free:
                answer.append(WaitFor(cores, False))
                break
            free -= cores
            answer.append(job_id)
        return answer


class LCFS(Priority):
    """Last come, first served."""

    name = "lcfs"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return scores that fall from the head of the queue to its tail."""
        return -np.arange(len(queue), dtype=np.float64)


class SJF(Priority):
    """Shortest job first, by requested time."""

    name = "sjf"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return r."""
        return queue.requested_time


class SmallestFirst(Priority):
    """Smallest job first, by requested cores: what the DBF paper calls shortest job first."""

    name = "sjf-cores"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return n."""
        return queue.requested_cores.astype(np.float64)


def _log10_submission(queue: Queue) -> NDArray[np.float64]:
    """Return log10(s), with s of at least 1 s, before which the papers' logarithm is of no use."""
    return np.log10(np.maximum(queue.submission_time, 1.0))


class F1(Priority):
    """Score log10(r) n + 870 log10(s)."""

    name = "f1"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score, with r of at least 1 s."""
        requested = np.log10(np.maximum(queue.requested_time, 1.0))
        return requested * queue.requested_cores + 870.0 * _log10_submission(queue)


class F2(Priority):
    """Score sqrt(r) n + 25600 log10(s)."""

    name = "f2"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score."""
        return np.sqrt(queue.requested_time) * queue.requested_cores + 25_600.0 * _log10_submission(queue)


class F3(Priority):
    """Score r n + 6.86e6 log10(s)."""

    name = "f3"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score."""
        return queue.requested_time * queue.requested_cores + 6.86e6 * _log10_submission(queue)


class F4(Priority):
    """Score r sqrt(n) + 5.3e5 log10(s)."""

    name = "f4"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score."""
        return queue.requested_time * np.sqrt(queue.requested_cores) + 5.3e5 * _log10_submission(queue)


class WFP3(Priority):
    """Score -(w/r)^3 n; it grows with the slowdown and favours wide jobs."""

    name = "wfp3"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score, with r of at least 1 s."""
        ratio = (time - queue.submission_time) / np.maximum(queue.requested_time, 1.0)
        return np.asarray(-(ratio**3) * queue.requested_cores)


class UNICEP(Priority):
    """Score -w / (log2(n) r), with log2(1) taken as 1; it favours small, short jobs that have waited."""

    name = "unicep"

    def scores(self, queue: Queue, time: float) -> NDArray[np.float64]:
        """Return the score, with r of at least 1 s."""
        waiting = time - queue.submission_time
        width = np.where(queue.requested_cores > 1, np.log2(queue.requested_cores), 1.0)
        return np.asarray(-waiting / (width * np.maximum(queue.requested_time, 1.0)))


FIXED_SCORES = {each.scores for each in (Priority, LCFS, SJF, SmallestFirst, F1, F2, F3, F4)}
"""Scores that do not change as time goes by."""

PRIORITIES: dict[str, type[Priority]] = {
    priority.name: priority for priority in (FCFS, LCFS, SJF, SmallestFirst, F1, F2, F3, F4, WFP3, UNICEP)
}

"""The priorities by name, in the order in which they are listed."""


def as_priority(order: str | Priority | type[Priority]) -> Priority:
    """Return the priority that a name, an instance or a class stands for.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        For example ``"fcfs"``, ``FCFS()`` or ``FCFS``.

    Returns
    -------
    Priority
        An instance.

    Raises
    ------
    InvalidConfiguration
        If it stands for none.
    """
    if isinstance(order, Priority):
        return order
    if isinstance(order, type) and issubclass(order, Priority):
        return order()
    if isinstance(order, str) and order in PRIORITIES:
        return PRIORITIES[order]()
    near = did_you_mean(order, PRIORITIES)
    raise InvalidConfiguration(f"no priority {order!r}{near}; there are {', '.join(PRIORITIES)}")
