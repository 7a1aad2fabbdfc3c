"""State of a job in the system: the copies of its nodes, their executors, and when their data arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job, ModesOnPools

__all__ = ["Copy", "InputTransfer", "JobState", "Setting"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
IntArray = NDArray[np.int64]


class InputTransfer(NamedTuple):
    """Transfer that brought the data of one parent to a copy.

    Attributes
    ----------
    parent : int
        Parent node.
    source : int
        Executor that held the parent's result, possibly the copy's own executor.
    begin, arrival : float
        Times at which the transfer began and ended, in seconds.
    size : float
        Data size in units of data.
    """

    parent: int
    source: int
    begin: float
    arrival: float
    size: float


@dataclass(slots=True, eq=False, repr=False)
class Copy:
    """Execution of a node on an executor: assigned, running or finished; live, do not modify it.

    Attributes
    ----------
    state : JobState
        Job of the node.
    node, executor : int
        Node that runs, and the executor it runs on.
    duplicate : bool
        Whether the node already had a copy when this one was assigned.
    assigned : float
        Time of the assignment, in seconds.
    sequence : int
        Number of copies that had been assigned before in the whole cluster.
    start, finish : float
        Start and finish in seconds: expected until they have happened, actual afterwards.
    task : int
        Number of the task within its node; 0 if nodes are not split into tasks.
    mode : int
        Mode in which the node runs; 0 if it has no modes.
    receiving : float
        Time since when the executor has been waiting for the copy's data, in seconds; NaN before.
    due : float
        Actual finish in seconds, set when the copy starts. Task durations are random, so agents must not use it.
    has_started, has_finished : bool
        Whether the copy has started, and whether it has finished.
    inputs : dict of int to InputTransfer
        Sources of its inputs, by parent; complete once it has started.
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
    mode: int = 0
    receiving: float = float("nan")
    due: float = float("nan")
    has_started: bool = False
    has_finished: bool = False
    inputs: dict[int, InputTransfer] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        """Job of the node."""
        return self.state.job

    @property
    def starting_time(self) -> float:
        """Start in seconds, by the name that it has in the table of copies and in ``batch``."""
        return self.start

    def __repr__(self) -> str:
        """Return the job, node and executor."""
        kind = "duplicate" if self.duplicate else "copy"
        return f"<{kind} of job {self.state.job.job_id} node {self.node} on executor {self.executor}>"


class Setting(NamedTuple):
    """Settings that all jobs of a cluster share.

    Attributes
    ----------
    executors : Executors
        Executors of the cluster.
    env : simpy.Environment
        Environment, for the clock.
    sent_when_finished : bool
        Whether transfers of a copy's data begin when it finishes. Otherwise they begin no earlier than the assignment
        of the copy that needs the data, which is now for a copy that is not assigned yet.
    """

    executors: Executors
    env: simpy.Environment
    sent_when_finished: bool


class JobState:
    """State of a job in the system, as agents see it; live, do not modify it.

    Times of unfinished copies are expectations. They are exact as long as no executor fails, links are not shared, and
    no later duplicate delivers data earlier.

    Parameters
    ----------
    job : Job
        The job.
    arrival_number : int
        Number of jobs that arrived before.
    setting : Setting
        Settings of the cluster.
    back_since : numpy.ndarray of shape (num_executors,), optional
        Time at which each executor was repaired after its last outage, in seconds; None if none has lost data so far.

    Attributes
    ----------
    arrival_time : float
        Time of the arrival, in seconds.
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Run time of each node on each executor, in seconds; infinite where the node may not run.
    is_restricted : bool
        Whether some node may not run on some executor.
    units : list of (list of int, or None)
        Amounts that each node without modes takes of a pool's resources, in millionths, None for a whole pool; see
        :class:`Executors`.
    modes : dict of int to ModesOnPools
        Modes of the nodes that have several ways to run; ``run_times`` has those of the quickest mode.
    copies : list of list of Copy
        Copies of each node, in order of assignment.
    assigned, finished : numpy.ndarray of bool, shape (num_nodes,)
        Whether each node has a copy, and whether it has a finished copy.
    num_unfinished : int
        Number of unfinished nodes.
    has_data : numpy.ndarray of bool, shape (num_nodes,)
        Whether all results of each node are held on some executor.
    started_at : float
        Time at which the first copy of the job started, in seconds; NaN before.
    tickets : list of int or None
        Key of each node in ``DagObservation.ready``; None if the node is not ready.
    waiting_executors : dict of int to list of int
        Executors, by node, whose next copy needs the node's data at a time that is not known yet.
    may_duplicate : bool
        Whether an assigned node may have further copies.
    """

    may_duplicate = True

    def __init__(self, job: Job, arrival_number: int, setting: Setting, back_since: Floats | None) -> None:
        executors = setting.executors
        self.job = job
        self.arrival_number = arrival_number
        self.arrival_time = float(setting.env.now)
        self.run_times = job.run_times_on(executors)
        self.is_restricted = not bool((self.run_times < np.inf).all())
        self.units = job.units_on(executors) if executors.resources else []
        self.modes: dict[int, ModesOnPools] = job.modes_on(executors) if job.modes else {}
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
        self._seconds = executors.seconds_between
        self._latencies = executors.latency_between if executors.latency_between.mean else None
        self._ready: list[Floats | None] = [None] * job.num_nodes
        self._last_arrivals: tuple[int, Floats] = (-1, np.empty((0, 0)))  # for EFT and DEFT, called in a row
        self._back_since = back_since
        self._nothing_to_wait_for = np.zeros(executors.num_executors)

    def __repr__(self) -> str:
        """Return the job and the number of its unfinished nodes."""
        return f"<job {self.job.job_id}: {self.num_unfinished} of {self.job.num_nodes} nodes unfinished>"

    def __deepcopy__(self, memo: dict[int, Any]) -> JobState:
        """Return the state itself: a deep copy of an agent must not copy the cluster."""
        return self

    def arrivals(self, node: int) -> Floats:
        """Return when each parent's data reach each executor, taking the parent's copy with the earliest arrival.

        Parameters
        ----------
        node : int
            Node with parents.

        Returns
        -------
        numpy.ndarray of shape (num_parents, num_executors)
            Arrival times in seconds, infinite for a parent without copies; the parents are in ascending order. Do not
            modify the array.
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
        """Return when data reach each executor (columns), given their sources, sizes and finish times (rows)."""
        rows = self._seconds.rows(sources)
        rows *= sizes[:, None]
        if self._latencies is not None:
            rows += self._latencies.rows(sources)
        earliest = self._back_since if self._sent_when_finished else self._env.now
        if earliest is None:
            rows += finishes[:, None]
        else:
            rows += np.maximum(finishes[:, None], earliest)
            rows[np.arange(len(sources)), sources] = finishes  # no transfer within an executor
        return rows

    def ready_times(self, node: int) -> Floats:
        """Return when all inputs of a node have arrived at each executor: data part of EST, equation (3) of LACHESIS.

        Parameters
        ----------
        node : int
            Number of the node.

        Returns
        -------
        numpy.ndarray of shape (num_executors,)
            Times in seconds: infinite if a parent has no copy, 0 for a node without parents. Do not modify the array.
        """
        ready = self._ready[node]
        if ready is None:
            ready = self.arrivals(node).max(axis=0) if self._parents[node] else self._nothing_to_wait_for
            if self._sent_when_finished:
                self._ready[node] = ready
        return ready

    def ready_time(self, node: int, executor: int) -> float:
        """Return when all inputs of a node have arrived at one executor, in seconds."""
        cached = self._ready[node]
        if cached is not None:
            return cached.item(executor)
        now, parents = self._env.now, self._parents[node]
        return max((self._arrival(parent, size, executor, now) for parent, size in parents), default=0.0)

    def _arrival(self, parent: int, size: float, executor: int, assigned: float) -> float:
        """Return when a parent's data reach an executor, for a child assigned at a given time."""
        copies = self.copies[parent]
        return min((self.arrival_from(copy, size, executor, assigned) for copy in copies), default=np.inf)

    def _missing(self, copy: Copy) -> list[tuple[int, float, float, Copy | None, bool]]:
        """Return a copy's missing inputs: parent, size, arrival, source, whether other copies may still finish."""
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
        """Return when a copy's data reach an executor, for a child assigned at a given time."""
        source, begin = copy.executor, copy.finish
        if source == executor:
            return begin
        begin = self.sending_time(copy, executor, assigned)
        seconds: float = size * self._seconds.item(source, executor)
        if self._latencies is not None:
            seconds += self._latencies.item(source, executor)
        return begin + seconds

    def sending_time(self, copy: Copy, executor: int, assigned: float) -> float:
        """Return when the transfer of a copy's data to an executor begins, for a child assigned at a given time."""
        if copy.executor == executor:
            return copy.finish
        if not self._sent_when_finished:
            return max(copy.finish, assigned)
        return copy.finish if self._back_since is None else max(copy.finish, self._back_since.item(executor))

    @property
    def earliest_sending(self) -> Floats | None:
        """Earliest time, in seconds, at which transfers to each executor can begin; None if there is no limit."""
        if self._sent_when_finished:
            return self._back_since
        return np.full(len(self._nothing_to_wait_for), self._env.now)

    # -- for the cluster: life of copies ------------------------------------------------------------

    def new_copy(self, node: int, executor: int, *, now: float, sequence: int, start: float, finish: float) -> Copy:
        """Return a new copy of a node that is assigned to an executor now."""
        return Copy(self, node, executor, bool(self.copies[node]), now, sequence, start, finish)

    def add(self, copy: Copy) -> None:
        """Add a new copy."""
        self.copies[copy.node].append(copy)
        self.forget_arrivals(copy.node)

    def remove(self, copy: Copy) -> None:
        """Remove a copy."""
        self.copies[copy.node].remove(copy)
        self.forget_arrivals(copy.node)

    def forget_arrivals(self, node: int) -> None:
        """Drop cached arrival times of a node's data, because the source or the time may have changed."""
        ready = self._ready
        self._last_arrivals = -1, self._last_arrivals[1]
        for child, _ in self._children[node]:
            ready[child] = None

    def lose_received(self, back_since: Floats) -> None:
        """Drop what repaired executors had received before their outage: it must be sent again."""
        self._back_since = back_since
        self._last_arrivals = -1, self._last_arrivals[1]
        self._ready = [None] * self.job.num_nodes

    def demand(self, node: int, mode: int) -> list[int] | None:
        """Return the amounts that a node takes of a pool in a mode, in millionths; None for a whole pool."""
        modes = self.modes.get(node) if self.modes else None
        return self.units[node] if modes is None else modes.units[mode].tolist()

    def run_time(self, node: int, executor: int, mode: int) -> float:
        """Return the run time of a node on a pool in a mode, in seconds."""
        modes = self.modes.get(node) if self.modes else None
        return self.run_times.item(node, executor) if modes is None else modes.run_times.item(mode, executor)

    def delay(self, copy: Copy) -> float:
        """Return the time that a free executor needs before it can run a copy, in seconds."""
        return 0.0

    def run(self, copy: Copy) -> float:
        """Return when a starting copy will finish, in seconds."""
        return copy.finish

    def mark_assigned(self, node: int) -> list[int]:
        """Mark a node as assigned; return the children whose parents are all assigned."""
        self.assigned[node] = True
        return self._count_down(node, self._unassigned_parents)

    def _count_down(self, node: int, missing: list[int]) -> list[int]:
        """Decrement each child's count of missing parents; return the children whose count reaches 0."""
        ready = []
        for child, _ in self._children[node]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
        return ready

    def complete(self, copy: Copy) -> bool:
        """Handle the completion of a copy; return whether its node has finished, for the first time or again."""
        return True

    def hold(self, node: int) -> list[int]:
        """Mark a node's results as held; return the children whose parents' results are all held."""
        self.has_data[node] = True
        return self._count_down(node, self._unfinished_parents)

    def finish(self, node: int) -> None:
        """Mark a node as finished for the first time."""
        self.finished[node] = True
        self.num_unfinished -= 1

    # -- for the cluster: inputs of copies ----------------------------------------------------------

    def received_at(self, copy: Copy) -> float | None:
        """Return when all inputs of the next copy have arrived, in seconds; None while a parent has not finished.

        Each input comes from the copy whose data arrive first. Moving data need no events, because arrivals follow from
        the finish times of the parents.

        Parameters
        ----------
        copy : Copy
            Next copy on its executor.
        """
        latest = max([delivery.arrival for delivery in copy.inputs.values()], default=0.0) if copy.inputs else 0.0
        for parent, _, arrival, _, more in self._missing(copy):
            if more:  # another copy may deliver the data earlier
                executors = self.waiting_executors.setdefault(parent, [])
                if copy.executor not in executors:
                    executors.append(copy.executor)
            latest = max(latest, arrival)
        return latest if latest < np.inf else None

    def receive(self, copy: Copy, until: float) -> None:
        """Set the inputs of a copy that arrive up to a time in seconds, each from the earliest source."""
        for parent, size, arrival, source, _ in self._missing(copy):
            if source is not None and arrival <= until:
                begin = self.sending_time(source, copy.executor, copy.assigned)
                copy.inputs[parent] = InputTransfer(parent, source.executor, begin, arrival, size)

    def expected_at(self, copy: Copy) -> float:
        """Return when all inputs of a waiting copy are expected to have arrived, in seconds."""
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
        """Record the inputs of a starting copy."""
        job_id, number, node, task, executor = self.job.job_id, self.arrival_number, copy.node, copy.task, copy.executor
        for parent, source, begin, arrival, size in copy.inputs.values():
            record((job_id, parent, node, task, source, executor, begin, arrival, size, number))

    # -- for the cluster: outages -------------------------------------------------------------------

    def lose_results(self, executors: Sequence[int]) -> None:
        """Remove all copies on the given executors."""
        for copies in self.copies:
            for copy in [copy for copy in copies if copy.executor in executors]:
                self.remove(copy)

    def unsupported(self, waiting: Sequence[Copy], executors: Sequence[int], *, lost: bool) -> Iterator[Copy]:
        """Yield the waiting copies that can no longer run; withdraw each one before requesting the next.

        Parameters
        ----------
        waiting : sequence of Copy
            Copies of this job that wait on executors that are up.
        executors : sequence of int
            Executors that failed.
        lost : bool
            Whether the failed executors lose the results that they held.

        Yields
        ------
        Copy
            Copy that lacks the data of a parent and can no longer rely on the copy that it was expected to use.
        """
        for copy in sorted(waiting, key=lambda copy: copy.node):  # parents before their children
            if not all(self._is_supported(copy, parent) for parent, _ in self._parents[copy.node]):
                yield copy

    def _is_supported(self, copy: Copy, parent: int) -> bool:
        """Return whether a waiting copy has a parent's data or can rely on a copy of the parent, as expected before."""
        if parent in copy.inputs:
            return True
        return any(
            other.has_started or (other.finish, other.sequence) < (copy.start, copy.sequence)
            for other in self.copies[parent]
        )

    def recount(self) -> None:
        """Recompute after an outage which nodes are finished (not needed again) and which are assigned."""
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
        """Recount what each node waits for, and return whether each node is ready."""
        for node, parents in enumerate(self._parents):
            self._unassigned_parents[node] = sum(not self.assigned[parent] for parent, _ in parents)
            self._unfinished_parents[node] = sum(not self.has_data[parent] for parent, _ in parents)
        missing = self._unassigned_parents if plan_ahead else self._unfinished_parents
        return [not count and not assigned for count, assigned in zip(missing, self.assigned, strict=True)]
