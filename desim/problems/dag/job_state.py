"""A job in the system: which of its nodes have copies, where, and when their data arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.copies import Copy
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job

if TYPE_CHECKING:
    import simpy

__all__ = ["JobState"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


class JobState:
    """A job in the system, as agents see it; live, do not change it.

    Times of copies that have not finished are expectations. They hold exactly as long as no executor fails, links
    are not shared, and no later duplicate brings data earlier.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Of the cluster.
    env : simpy.Environment
        Its clock.
    sent_when_finished : bool
        Data of a copy set out when it finishes; otherwise not before the copy that needs them is assigned, that
        is now for one yet to be assigned.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Seconds that each node takes on each executor.
    copies : list of list of Copy
        The copies of each node, in order of assignment.
    assigned, finished : numpy.ndarray of bool, shape (num_nodes,)
        Whether a node has a copy, and one that has finished.
    num_unfinished : int
        Nodes that have not finished.
    """

    def __init__(self, job: Job, executors: Executors, env: simpy.Environment, *, sent_when_finished: bool) -> None:
        self.job = job
        self.run_times = job.run_times_on(executors)
        self.copies: list[list[Copy]] = [[] for _ in range(job.num_nodes)]
        self.assigned: Mask = np.zeros(job.num_nodes, dtype=bool)
        self.finished: Mask = np.zeros(job.num_nodes, dtype=bool)
        self._has_data: Mask = np.zeros(job.num_nodes, dtype=bool)
        self.num_unfinished = job.num_nodes
        self._parents, self._children = job.parent_lists, job.child_lists
        self._unassigned_parents = [len(parents) for parents in self._parents]
        self._unfinished_parents = self._unassigned_parents.copy()
        self._tickets: list[int | None] = [None] * job.num_nodes
        self._started_at = np.nan
        self._watchers: dict[int, list[int]] = {}
        self._env = env
        self._sent_when_finished = sent_when_finished
        self._seconds = executors.seconds_per_unit
        self._latencies = executors.latencies if executors.latencies.any() else None
        self._ready: list[Floats | None] = [None] * job.num_nodes
        self._last_arrivals: tuple[int, Floats] = (-1, np.empty((0, 0)))  # EFT and DEFT ask one after the other
        self._back_since: Floats | None = None  # when each executor came back from its last outage, if one was down
        self._nothing_to_wait_for = np.zeros(executors.num_executors)

    def __repr__(self) -> str:
        """Say which job it is and how much of it is left."""
        return f"<job {self.job.job_id}: {self.num_unfinished} of {self.job.num_nodes} nodes unfinished>"

    def __deepcopy__(self, memo: dict[int, Any]) -> JobState:
        """Return itself: a copy of an agent that has a job in mind is no copy of the cluster."""
        return self

    def arrivals(self, node: int) -> Floats:
        """Return when the data of each parent of a node arrive at each executor, from the copy that is first there.

        Parameters
        ----------
        node : int
            A node that has parents.

        Returns
        -------
        numpy.ndarray of shape (num_parents, num_executors)
            Seconds, infinite for a parent without a copy; the parents are in ascending order. Do not change it.
        """
        if self._last_arrivals[0] == node:
            return self._last_arrivals[1]
        parents = self._parents[node]
        sources: list[int] = []
        finishes: list[float] = []
        sizes: list[float] = []
        first: list[int] = []
        for parent, size in parents:
            first.append(len(sources))
            copies = self.copies[parent]
            if not copies:
                sources.append(0)
                finishes.append(np.inf)
                sizes.append(0.0)
            for copy in copies:
                sources.append(copy.executor)
                finishes.append(copy.finish)
                sizes.append(size)
        rows = self._arrivals_from(sources, np.array(sizes), np.array(finishes))
        if len(sources) > len(parents):
            rows = np.minimum.reduceat(rows, first, axis=0)
        if self._sent_when_finished:
            self._last_arrivals = node, rows
        return rows

    def _arrivals_from(self, sources: list[int] | Whole, sizes: Floats, finishes: Floats) -> Floats:
        """Return when data arrive at each executor (columns) that executors have since some times (rows)."""
        rows = self._seconds[sources]
        rows *= sizes[:, None]
        if self._latencies is not None:
            rows += self._latencies[sources]
        earliest = self._back_since if self._sent_when_finished else self._env.now
        if earliest is None:
            rows += finishes[:, None]
        else:
            rows += np.maximum(finishes[:, None], earliest)
            rows[np.arange(len(sources)), sources] = finishes  # what is there need not be sent
        return rows

    def ready_times(self, node: int) -> Floats:
        """Return when all inputs of a node are at each executor: the data part of EST, equation (3) of LACHESIS.

        Parameters
        ----------
        node : int
            The node.

        Returns
        -------
        numpy.ndarray of shape (num_executors,)
            Seconds, infinite if a parent has no copy; 0 for a node without parents. Do not change it.
        """
        ready = self._ready[node]
        if ready is None:
            ready = self.arrivals(node).max(axis=0) if self._parents[node] else self._nothing_to_wait_for
            if self._sent_when_finished:
                self._ready[node] = ready
        return ready

    def ready_time(self, node: int, executor: int) -> float:
        """Return when all inputs of a node are at one executor, in seconds."""
        cached = self._ready[node]
        if cached is not None:
            return cached.item(executor)
        return max((self._arrival(parent, size, executor) for parent, size in self._parents[node]), default=0.0)

    def _arrival(self, parent: int, size: float, executor: int) -> float:
        """Return when the data of a parent are at an executor."""
        return min(
            (self.arrival_from(copy, size, executor, self._env.now) for copy in self.copies[parent]), default=np.inf
        )

    def arrival_from(self, copy: Copy, size: float, executor: int, assigned: float) -> float:
        """Return when data of a copy arrive at an executor where they are needed by one assigned at a given time."""
        source, begin = copy.executor, copy.finish
        if source == executor:
            return begin
        begin = self.sending_time(copy, executor, assigned)
        seconds: float = size * self._seconds.item(source, executor)
        if self._latencies is not None:
            seconds += self._latencies.item(source, executor)
        return begin + seconds

    def sending_time(self, copy: Copy, executor: int, assigned: float) -> float:
        """Return when data of a copy set out to an executor where they are needed by one assigned at a given time."""
        if copy.executor == executor:
            return copy.finish
        if not self._sent_when_finished:
            return max(copy.finish, assigned)
        return copy.finish if self._back_since is None else max(copy.finish, self._back_since.item(executor))

    # -- for the cluster ----------------------------------------------------------------------------

    def _new_copy(
        self, node: int, executor: int, *, assigned: float, sequence: int, start: float, finish: float
    ) -> Copy:
        """Return a copy of a node that is to run on an executor."""
        return Copy(
            self,
            node,
            executor,
            duplicate=bool(self.copies[node]),
            assigned=assigned,
            sequence=sequence,
            start=start,
            finish=finish,
        )

    def _add(self, copy: Copy) -> None:
        """Take note of a new copy."""
        self.copies[copy.node].append(copy)
        self._copies_changed(copy.node)

    def _remove(self, copy: Copy) -> None:
        """Forget a copy."""
        self.copies[copy.node].remove(copy)
        self._copies_changed(copy.node)

    def _lose_received(self, back_since: Floats) -> None:
        """Take note that executors have been down: what they had received by then has to be sent again."""
        self._back_since = back_since
        self._last_arrivals = -1, self._last_arrivals[1]
        self._ready = [None] * self.job.num_nodes

    def _copies_changed(self, node: int) -> None:
        """Forget when the data of a node arrive."""
        ready = self._ready
        self._last_arrivals = -1, self._last_arrivals[1]
        for child, _ in self._children[node]:
            ready[child] = None
