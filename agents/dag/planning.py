"""Planning of whole jobs: several jobs as one graph, a schedule under construction, and the base class of planners."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.allocation import EFT
from desim.agents.dag.list_scheduling import ListScheduler, require_planning
from desim.agents.dag.orders import RankUp, mean_transfer_times, upward_rank
from desim.problems.dag import Assign, Copy, DagObservation, Executors, Job, JobState
from desim.problems.dag.job import ModesOnPools
from desim.reprs import NamedRepr

__all__ = [
    "PartialSchedule",
    "Placed",
    "PlanningAgent",
    "UnionGraph",
    "can_be_planned",
    "in_order_of_start",
    "serial_plan",
    "union_of",
]

Floats = NDArray[np.float64]


class UnionGraph(NamedTuple):
    """Several jobs as one graph; nodes are numbered job by job, in topological order.

    Attributes
    ----------
    owners : list of (int, int)
        Job id and node number in the job, for each node.
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Run times in seconds, on each usable executor.
    parents : list of list of (int, float, float)
        Parents of each node: (parent, units of data, mean transfer time in seconds).
    ranks : numpy.ndarray of shape (num_nodes,)
        Upward ranks in seconds.
    executors : list of int
        Usable executors, by their numbers in the cluster.
    free : numpy.ndarray of shape (num_executors,)
        Time in seconds from which each executor is available.
    seconds_per_unit, latencies : numpy.ndarray of shape (num_executors, num_executors)
        Transfer time per unit of data and latency between the executors, in seconds.
    demands : list of numpy.ndarray of shape (num_nodes, num_resources)
        Amounts that each node takes of each pool; no columns without resources.
    units : numpy.ndarray of shape (num_executors, num_resources)
        Amounts of each pool.
    modes : dict of int to ModesOnPools
        Modes of the nodes that have several ways to run, on the usable executors.
    """

    owners: list[tuple[int, int]]
    run_times: Floats
    parents: list[list[tuple[int, float, float]]]
    ranks: Floats
    executors: list[int]
    free: Floats
    seconds_per_unit: Floats
    latencies: Floats
    demands: list[NDArray[np.int64]]
    units: NDArray[np.int64]
    modes: dict[int, ModesOnPools]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.owners)

    @property
    def num_executors(self) -> int:
        """Number of executors."""
        return len(self.executors)


def union_of(jobs: Sequence[Job], executors: Executors, available: Floats) -> UnionGraph:
    """Return several jobs as one graph.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs; at least one.
    executors : Executors
        Executors of the cluster.
    available : numpy.ndarray of shape (num_executors,)
        Time in seconds from which each executor is available; infinite for executors not to use, but not for all.

    Returns
    -------
    UnionGraph
        Graph on the usable executors.
    """
    used = np.flatnonzero(available < np.inf)
    owners: list[tuple[int, int]] = []
    parents: list[list[tuple[int, float, float]]] = []
    modes: dict[int, ModesOnPools] = {}
    for job in jobs:
        first = len(owners)
        for node, (times, units) in job.modes_on(executors).items():
            modes[first + node] = ModesOnPools(times[:, used], units)
        owners += [(job.job_id, node) for node in range(job.num_nodes)]
        parents += [[] for _ in range(job.num_nodes)]
        transfers = iter(mean_transfer_times(job, executors).tolist())
        for node, children in enumerate(job.child_lists):
            for child, size in children:
                parents[first + child].append((first + node, size, next(transfers)))
    return UnionGraph(
        owners=owners,
        run_times=np.concatenate([job.run_times_on(executors)[:, used] for job in jobs]),
        parents=parents,
        ranks=np.concatenate([upward_rank(job, executors) for job in jobs]),
        executors=used.tolist(),
        free=available[used],
        seconds_per_unit=executors.seconds_between.between(used),
        latencies=executors.latency_between.between(used),
        demands=[_demands(jobs, executors, units) for units in executors.units[used].tolist()],
        units=executors.units[used],
        modes=modes,
    )


def _demands(jobs: Sequence[Job], executors: Executors, units: list[int]) -> NDArray[np.int64]:
    """Return the amounts that each node takes of a pool, shape (num_nodes, num_resources); by default, the whole."""
    if not units:
        return np.empty((sum(job.num_nodes for job in jobs), 0), dtype=np.int64)
    found = [units if amounts is None else amounts for job in jobs for amounts in job.units_on(executors)]
    return np.array(found, dtype=np.int64)


def can_be_planned(jobs: Sequence[Job], executors: Executors, available: Floats) -> list[Job]:
    """Return the jobs of whose nodes each may run on some available executor.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs.
    executors : Executors
        Executors of the cluster.
    available : numpy.ndarray of shape (num_executors,)
        Time in seconds from which each executor is available; infinite for executors not to use.

    Returns
    -------
    list of Job
        Jobs that a plan on the available executors can hold.
    """
    used = available < np.inf
    return [job for job in jobs if (job.run_times_on(executors)[:, used].min(axis=1) < np.inf).all()]


class Placed(NamedTuple):
    """A copy of a node with its time and executor; copies sort in the order in which an executor runs them.

    Attributes
    ----------
    start, finish : float
        Times in seconds.
    node, executor : int
        The node, and where it runs.
    mode : int, optional
        Mode of the node. Default: left to the cluster.
    """

    start: float
    finish: float
    node: int
    executor: int
    mode: int | None = None


class PartialSchedule:
    """A schedule under construction: the copies placed so far.

    Parameters
    ----------
    graph : UnionGraph
        Nodes and executors.

    Attributes
    ----------
    tables : list of list of Placed
        Copies by executor, in order of start.
    copies : list of list of Placed
        Copies by node.
    """

    def __init__(self, graph: UnionGraph) -> None:
        self._graph = graph
        self._free = graph.free.tolist()
        self._run_times = graph.run_times.tolist()
        self._seconds = graph.seconds_per_unit.tolist()
        self._latencies = graph.latencies.tolist()
        self.tables: list[list[Placed]] = [[] for _ in graph.executors]
        self.copies: list[list[Placed]] = [[] for _ in range(graph.num_nodes)]

    def end(self, executor: int) -> float:
        """Return when an executor has run everything placed on it, in seconds."""
        table = self.tables[executor]
        return table[-1].finish if table else self._free[executor]

    def append(self, node: int, executor: int, earliest: float = 0.0) -> None:
        """Place a node after everything on an executor, not before a given time in seconds."""
        start = max(self.end(executor), earliest, *self.arrivals(node, executor))
        self.place(Placed(start, start + self._run_times[node][executor], node, executor))

    def soonest(self, node: int) -> int:
        """Return the executor on which a node finishes first, after everything placed on it."""

        def finish(executor: int) -> float:
            """Return when the node would finish on an executor."""
            start = max(self.end(executor), *self.arrivals(node, executor), 0.0)
            due: float = start + self._run_times[node][executor]
            return due

        return min(range(len(self.tables)), key=finish)

    def is_on(self, node: int, executor: int) -> bool:
        """Return whether an executor has a copy of a node."""
        return any(copy.executor == executor for copy in self.copies[node])

    def arrival(self, copy: Placed, size: float, executor: int) -> float:
        """Return when the data of a copy arrive at an executor, in seconds."""
        source = copy.executor
        if source == executor:
            return copy.finish
        # Summed in the same order as in the cluster, so that planned times equal simulated times.
        seconds: float = size * self._seconds[source][executor] + self._latencies[source][executor]
        return copy.finish + seconds

    def arrivals(self, node: int, executor: int) -> list[float]:
        """Return when the data of each parent arrive at an executor, from the earliest of its copies, in seconds."""
        return [
            min(self.arrival(copy, size, executor) for copy in self.copies[parent])
            for parent, size, _ in self._graph.parents[node]
        ]

    def slot(self, node: int, executor: int) -> Placed:
        """Return the earliest placement of a node on an executor, including idle intervals."""
        ready = max(self.arrivals(node, executor), default=0.0)
        ready = max(ready, self._free[executor])
        duration = self._run_times[node][executor]
        table = self.tables[executor]
        place = bisect_left(table, ready, key=_finish)
        start = ready
        for other in table[place:]:
            if start + duration <= other.start:
                break
            start = max(start, other.finish)
        return Placed(start, start + duration, node, executor)

    def place(self, placed: Placed) -> None:
        """Add a copy to the schedule."""
        insort(self.tables[placed.executor], placed)
        self.copies[placed.node].append(placed)

    def remove(self, placed: Placed) -> None:
        """Remove a copy from the schedule."""
        self.tables[placed.executor].remove(placed)
        self.copies[placed.node].remove(placed)

    def in_order(self) -> list[Placed]:
        """Return all copies in order of start; each comes after those that it depends on."""
        return sorted(copy for table in self.tables for copy in table)

    def drop_unused(self) -> None:
        """Remove the copies whose data are nowhere the first to arrive, from the last node to the first."""
        parents = self._graph.parents
        used: list[set[int]] = [set() for _ in parents]
        for node in range(len(parents) - 1, -1, -1):
            copies = self.copies[node]
            if not used[node]:  # no node needs its data: it only has to finish
                used[node].add(min(copies, key=_finish).executor)
            for copy in [copy for copy in copies if copy.executor not in used[node]]:
                self.remove(copy)
            for copy in self.copies[node]:
                for parent, size, _ in parents[node]:
                    sources = self.copies[parent]
                    first = min(sources, key=lambda source: self.arrival(source, size, copy.executor))
                    used[parent].add(first.executor)

    def ready_times(self, node: int, skipped: int, guesses: list[float]) -> Floats:
        """Return when the data of a node's parents are available at each executor.

        Parameters
        ----------
        node : int
            The node.
        skipped : int
            Parent to ignore.
        guesses : list of float
            Estimated finish time of each node in seconds, used with the mean transfer time for nodes not placed yet.

        Returns
        -------
        numpy.ndarray of shape (num_executors,)
            Times in seconds.
        """
        graph = self._graph
        latest = np.zeros(graph.num_executors)
        for parent, size, transfer in graph.parents[node]:
            if parent == skipped:
                continue
            if not self.copies[parent]:
                np.maximum(latest, guesses[parent] + transfer, out=latest)
                continue
            sources = [copy.executor for copy in self.copies[parent]]
            rows = size * graph.seconds_per_unit[sources] + graph.latencies[sources]
            rows += np.array([copy.finish for copy in self.copies[parent]])[:, None]
            np.maximum(latest, rows.min(axis=0), out=latest)
        return latest


def serial_plan(graph: UnionGraph) -> list[Placed]:
    """Return the schedule of all nodes on the single executor that finishes first; ties go to the first executor.

    If no executor may run all of them, each node in turn goes where it finishes first after everything there.

    Parameters
    ----------
    graph : UnionGraph
        Nodes and executors.

    Returns
    -------
    list of Placed
        Copies in order of start.
    """
    schedule = PartialSchedule(graph)
    finish = graph.free + graph.run_times.sum(axis=0)
    on_one = int(finish.argmin()) if finish.min() < np.inf else None
    for node in range(graph.num_nodes):
        schedule.append(node, schedule.soonest(node) if on_one is None else on_one)
    return schedule.in_order()


def in_order_of_start(copies: Iterable[Copy]) -> list[Copy]:
    """Return copies that have started in the order in which a list scheduler would assign them.

    Parameters
    ----------
    copies : iterable of Copy
        Copies from a simulation.

    Returns
    -------
    list of Copy
        Copies in order of start. Copies with a run time of 0 may start together; then a parent's copy comes first,
        because nodes are in topological order.
    """
    return sorted(copies, key=lambda copy: (copy.start, copy.finish, copy.state.job.job_id, copy.node))


def _finish(placed: Placed) -> float:
    return placed.finish


class PlanningAgent(NamedRepr):
    """Base class of agents that plan jobs arriving together as one graph.

    Nodes that have to run again after an outage are assigned by upward rank and EFT, and so are those of jobs with a
    node whose eligible executors are all down.
    """

    considers = frozenset({"arrivals"})

    name = ""
    plans_ahead = True

    def __init__(self) -> None:
        self._planned: dict[int, JobState] = {}
        self._fallback = ListScheduler(RankUp(), EFT())

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return a schedule of all nodes in order of start; subclasses implement it."""
        raise NotImplementedError

    def plan_jobs(self, jobs: Sequence[Job], executors: Executors, graph: UnionGraph) -> list[Placed]:
        """Return a schedule of jobs that form one graph; by default, :meth:`plan` of that graph."""
        return self.plan(graph)

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster does not plan ahead."""
        require_planning(self.name, info)
        self._planned = {}
        self._fallback.reset(info, rng)

    def act(self, observation: DagObservation) -> list[Assign] | Assign | None:
        """Return the schedule of new jobs, or the assignment of a node that has to run again."""
        jobs = observation.jobs
        new = [state.job for job_id, state in jobs.items() if self._planned.get(job_id) is not state]
        if not new:
            return self._fallback.act(observation)
        available = observation.available_times
        if available.min() == np.inf:
            return None
        self._planned = dict(jobs)
        new = can_be_planned(new, observation.executors, available)
        if not new:
            return self._fallback.act(observation)
        graph = union_of(new, observation.executors, available)
        plan = self.plan_jobs(new, observation.executors, graph)
        return [
            Assign(*graph.owners[placed.node], graph.executors[placed.executor], mode=placed.mode) for placed in plan
        ]
