"""A job in the system: the copies of its nodes, where they are, and when their data arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job

__all__ = ["Copy", "InputTransfer", "JobState", "Setting"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
IntArray = NDArray[np.int64]


class InputTransfer(NamedTuple):
    """How the data of one parent came to a copy.

    Attributes
    ----------
    parent : int
        The parent.
    source : int
        The executor whose copy of the parent served, possibly the copy's own.
    begin, arrival : float
        When the data were sent and when they had arrived, in seconds.
    size : float
        Units of data.
    """

    parent: int
    source: int
    begin: float
    arrival: float
    size: float


@dataclass(slots=True, eq=False, repr=False)
class Copy:
    """One execution of a node; live, do not change it.

    Attributes
    ----------
    state : JobState
        The job.
    node, executor : int
        What runs, and where.
    duplicate : bool
        Whether the node had another copy when this one was assigned.
    assigned : float
        When it was assigned, in seconds.
    sequence : int
        How many copies had been assigned before, in the whole cluster.
    start, finish : float
        When it is expected to start and to finish, in seconds, and when it has, once it has.
    task : int
        Which of its node's tasks it is; 0 where nodes run whole.
    receiving : float
        Since when its executor has been waiting for its data; NaN before.
    due : float
        When it will really have finished, once it has started, in seconds; for a task, whose duration is drawn, agents
        do not know it.
    has_started, has_finished : bool
        What has happened.
    inputs : dict of int to InputTransfer
        Where its inputs came from, by parent; complete once it has started.
    """

    state: JobState
    node: int
    executor: int
    duplicate: bool
    assigned: float
    sequence: int
    start: float
    finish: float
    task: int = 0
    receiving: float = float("nan")
    due: float = float("nan")
    has_started: bool = False
    has_finished: bool = False
    inputs: dict[int, InputTransfer] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Say what it is."""
        kind = "duplicate" if self.duplicate else "copy"
        return f"<{kind} of job {self.state.job.job_id} node {self.node} on executor {self.executor}>"


class Setting(NamedTuple):
    """What all jobs of a cluster share.

    Attributes
    ----------
    executors : Executors
        What they run on.
    env : simpy.Environment
        The clock.
    sent_when_finished : bool
        Data of a copy set out when it finishes; otherwise not before the copy that needs them is assigned, that
        is now for one yet to be assigned.
    """

    executors: Executors
    env: simpy.Environment
    sent_when_finished: bool


class JobState:
    """A job in the system, as agents see it; live, do not change it.

    Times of copies that have not finished are expectations. They hold exactly as long as no executor fails, links
    are not shared, and no later duplicate brings data earlier.

    Parameters
    ----------
    job : Job
        The job.
    arrival_number : int
        How many jobs arrived before.
    setting : Setting
        Of the cluster.
    back_since : numpy.ndarray of shape (num_executors,), optional
        When each executor came back from its last outage, in seconds; None if none has lost data so far.

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
    has_data : numpy.ndarray of bool, shape (num_nodes,)
        Whether all results of a node are held somewhere.
    started_at : float
        When the first of its copies started, in seconds; NaN before.
    tickets : list of int or None
        For each node the number under which it is ready; None if it is not.
    waiting_executors : dict of int to list of int
        By node the executors whose next copy needs its data and cannot tell yet when they will be there.
    may_duplicate : bool
        Whether a node that is assigned may have further copies.
    """

    may_duplicate = True

    def __init__(self, job: Job, arrival_number: int, setting: Setting, back_since: Floats | None) -> None:
        executors = setting.executors
        self.job = job
        self.arrival_number = arrival_number
        self.run_times = job.run_times_on(executors)
        self.copies: list[list[Copy]] = [[] for _ in range(job.num_nodes)]
        self.assigned: Mask = np.zeros(job.num_nodes, dtype=bool)
        self.finished: Mask = np.zeros(job.num_nodes, dtype=bool)
        self.has_data: Mask = np.zeros(job.num_nodes, dtype=bool)
        self.num_unfinished = job.num_nodes
        self._parents, self._children = job.parent_lists, job.child_lists
        self._unassigned_parents = [len(parents) for parents in self._parents]
        self._unfinished_parents = self._unassigned_parents.copy()
        self.tickets: list[int | None] = [None] * job.num_nodes
        self.started_at = np.nan
        self.waiting_executors: dict[int, list[int]] = {}
        self._env = setting.env
        self._sent_when_finished = setting.sent_when_finished
        self._seconds = executors.seconds_per_unit
        self._latencies = executors.latencies if executors.latencies.any() else None
        self._ready: list[Floats | None] = [None] * job.num_nodes
        self._last_arrivals: tuple[int, Floats] = (-1, np.empty((0, 0)))  # EFT and DEFT ask one after the other
        self._back_since = back_since
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

    def _arrivals_from(self, sources: list[int] | IntArray, sizes: Floats, finishes: Floats) -> Floats:
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
        now, parents = self._env.now, self._parents[node]
        return max((self._arrival(parent, size, executor, now) for parent, size in parents), default=0.0)

    def _arrival(self, parent: int, size: float, executor: int, assigned: float) -> float:
        """Return when the data of a parent are at an executor where they are needed by one assigned at a given time."""
        copies = self.copies[parent]
        return min((self.arrival_from(copy, size, executor, assigned) for copy in copies), default=np.inf)

    def _missing(self, copy: Copy) -> list[tuple[int, float, float, Copy | None, bool]]:
        """Return the inputs that a copy lacks: parent, size, time of arrival, source, and whether others may follow."""
        executor, assigned, inputs = copy.executor, copy.assigned, copy.inputs
        found = []
        for parent, size in self._parents[copy.node]:
            if parent not in inputs:
                best, first, more = None, np.inf, False
                for other in self.copies[parent]:
                    if not other.has_finished:
                        more = True
                        continue
                    arrival = self.arrival_from(other, size, executor, assigned)
                    if arrival < first:
                        best, first = other, arrival
                found.append((parent, size, first, best, more))
        return found

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

    @property
    def earliest_sending(self) -> Floats | None:
        """When data can set out to each executor at the earliest, in seconds; None if as soon as they are there."""
        if self._sent_when_finished:
            return self._back_since
        return np.full(len(self._seconds), self._env.now)

    # -- for the cluster: what becomes of copies ----------------------------------------------------

    def new_copy(self, node: int, executor: int, *, now: float, sequence: int, start: float, finish: float) -> Copy:
        """Return a copy of a node that is assigned to an executor now."""
        return Copy(self, node, executor, bool(self.copies[node]), now, sequence, start, finish)

    def add(self, copy: Copy) -> None:
        """Take note of a new copy."""
        self.copies[copy.node].append(copy)
        self.forget_arrivals(copy.node)

    def remove(self, copy: Copy) -> None:
        """Forget a copy."""
        self.copies[copy.node].remove(copy)
        self.forget_arrivals(copy.node)

    def forget_arrivals(self, node: int) -> None:
        """Forget when the data of a node arrive: they may come from elsewhere, or at another time."""
        ready = self._ready
        self._last_arrivals = -1, self._last_arrivals[1]
        for child, _ in self._children[node]:
            ready[child] = None

    def lose_received(self, back_since: Floats) -> None:
        """Take note that executors have been down: what they had received by then has to be sent again."""
        self._back_since = back_since
        self._last_arrivals = -1, self._last_arrivals[1]
        self._ready = [None] * self.job.num_nodes

    def delay(self, copy: Copy) -> float:
        """Return how long an executor that is free needs before it can run a copy, in seconds."""
        return 0.0

    def run(self, copy: Copy) -> float:
        """Return when a copy that starts will have finished, in seconds."""
        return copy.finish

    def mark_assigned(self, node: int) -> list[int]:
        """Take note that a node has been assigned; return the children all of whose parents are."""
        self.assigned[node] = True
        return self._count_down(node, self._unassigned_parents)

    def _count_down(self, node: int, missing: list[int]) -> list[int]:
        """Count one parent less for each child, and return those that miss none any more."""
        ready = []
        for child, _ in self._children[node]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
        return ready

    def complete(self, copy: Copy) -> bool:
        """Take note that a copy has finished, and tell whether its node has, for the first time or once more."""
        return True

    def hold(self, node: int) -> list[int]:
        """Take note that the results of a node are held; return the children all of whose parents' results are."""
        self.has_data[node] = True
        return self._count_down(node, self._unfinished_parents)

    def finish(self, node: int) -> None:
        """Take note that a node has finished for the first time."""
        self.finished[node] = True
        self.num_unfinished -= 1

    # -- for the cluster: how the inputs of a copy come to its executor -----------------------------

    def received_at(self, copy: Copy) -> float | None:
        """Return when all inputs of a copy that is next are there, in seconds; None while a parent has not finished.

        Each input comes from the copy whose data arrive first. That needs no event while data move: the times at which
        the parents have finished tell.

        Parameters
        ----------
        copy : Copy
            It is next on its executor.
        """
        latest = max([delivery.arrival for delivery in copy.inputs.values()], default=0.0) if copy.inputs else 0.0
        for parent, _, arrival, _, more in self._missing(copy):
            if more:  # another may bring the data earlier
                executors = self.waiting_executors.setdefault(parent, [])
                if copy.executor not in executors:
                    executors.append(copy.executor)
            latest = max(latest, arrival)
        return latest if latest < np.inf else None

    def receive(self, copy: Copy, until: float) -> None:
        """Fill in the inputs of a copy that arrive up to a time in seconds, each from the copy that is first."""
        for parent, size, arrival, source, _ in self._missing(copy):
            if source is not None and arrival <= until:
                begin = self.sending_time(source, copy.executor, copy.assigned)
                copy.inputs[parent] = InputTransfer(parent, source.executor, begin, arrival, size)

    def expected_at(self, copy: Copy) -> float:
        """Return when all inputs of a waiting copy are expected to be there, in seconds."""
        inputs = copy.inputs
        latest = 0.0
        for parent, size in self._parents[copy.node]:
            if parent in inputs:
                arrival = inputs[parent].arrival
            else:
                arrival = self._arrival(parent, size, copy.executor, copy.assigned)
            latest = max(latest, arrival)
        return latest

    def record_inputs(self, copy: Copy, record: Callable[..., None]) -> None:
        """Record the inputs of a copy that starts."""
        job_id, number, node, task, executor = self.job.job_id, self.arrival_number, copy.node, copy.task, copy.executor
        for parent, source, begin, arrival, size in copy.inputs.values():
            record((job_id, parent, node, task, source, executor, begin, arrival, size, number))

    # -- for the cluster: what outages leave --------------------------------------------------------

    def lose_results(self, executors: Sequence[int]) -> None:
        """Forget all copies on executors."""
        for copies in self.copies:
            for copy in [copy for copy in copies if copy.executor in executors]:
                self.remove(copy)

    def unsupported(self, waiting: Sequence[Copy], executors: Sequence[int], *, lost: bool) -> Iterator[Copy]:
        """Yield the waiting copies that cannot run any more; each is to be withdrawn before the next is asked for.

        Parameters
        ----------
        waiting : sequence of Copy
            The copies of this job that wait on executors that are up.
        executors : sequence of int
            Those that went down.
        lost : bool
            With the results that they held.

        Yields
        ------
        Copy
            One that neither has its data of a parent nor can count on a copy of it, as was expected before.
        """
        for copy in sorted(waiting, key=lambda copy: copy.node):  # parents before their children
            if not all(self._is_supported(copy, parent) for parent, _ in self._parents[copy.node]):
                yield copy

    def _is_supported(self, copy: Copy, parent: int) -> bool:
        """Tell whether a waiting copy has its data of a parent or can count on a copy of it, as expected before."""
        if parent in copy.inputs:
            return True
        return any(
            other.has_started or (other.finish, other.sequence) < (copy.start, copy.sequence)
            for other in self.copies[parent]
        )

    def recount(self) -> None:
        """Find the nodes that have to finish, perhaps once more, before the job has ended, and those assigned."""
        self.has_data[:] = [any(copy.has_finished for copy in copies) for copies in self.copies]
        must_run = ~self.finished
        for node in reversed(range(self.job.num_nodes)):
            if self.finished[node] and not self.has_data[node]:
                must_run[node] = any(
                    must_run[child] and not any(node in copy.inputs for copy in self.copies[child])
                    for child, _ in self._children[node]
                )
        self.finished[:] = ~must_run
        self.num_unfinished = int(must_run.sum())
        self.assigned[:] = self.finished | [bool(copies) for copies in self.copies]

    def ready(self, *, plan_ahead: bool) -> list[bool]:
        """Count anew what each node waits for, and tell which nodes can be assigned."""
        for node, parents in enumerate(self._parents):
            self._unassigned_parents[node] = sum(not self.assigned[parent] for parent, _ in parents)
            self._unfinished_parents[node] = sum(not self.has_data[parent] for parent, _ in parents)
        missing = self._unassigned_parents if plan_ahead else self._unfinished_parents
        return [not count and not assigned for count, assigned in zip(missing, self.assigned, strict=True)]
