"""A job: a directed acyclic graph of nodes that compute and edges that carry data."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import WorkloadError
from desim.problems.dag._checks import Floats, first_wrong, names_of, numbers_of, shortened

if TYPE_CHECKING:
    import networkx as nx

    from desim.problems.dag.executors import Executors
    from desim.problems.dag.task_times import TaskTimes

__all__ = ["Job", "from_networkx", "to_networkx"]

Indices = NDArray[np.int64]
Edge = tuple[Any, Any, float]


class Job:
    """A job of one or more nodes (stages); it does not change.

    Its nodes are numbered in topological order: each after all its parents, and, where that leaves a choice, in the
    order in which they were given. Agents and records use these numbers.

    Parameters
    ----------
    job_id : int
        Identifier, unique among the jobs that are in the system at the same time.
    work : array_like of shape (num_nodes,)
        Computation size of each node, w_i, at least 0: it runs for w_i / v_k seconds on executor k.
    edges : iterable of (parent, child, size)
        Each edge once: its ends by name or by position in ``work``, and the units of data that the child needs
        of the parent's result, e_ij, at least 0.
    submission_time : float
        When the job becomes known, in seconds.
    names : sequence of str, optional
        Names of the nodes in the order of ``work``; ``node0``, ``node1``, ... if left out.
    run_times : array_like of shape (num_nodes, num_executors), optional
        Seconds that each node takes on each executor, instead of work / speed: unrelated executors. ``work`` is then
        only a measure of size.
    num_tasks : array_like of shape (num_nodes,), optional
        Parallel tasks that each node consists of, for a cluster that runs single tasks; 1 if left out.
    task_times : sequence of TaskTimes, optional
        Measured durations of the tasks of each node, in the order of ``work``; without them every task of a node
        takes an equal part of its work.
    label : str
        What kind of job it is, for tables and figures.
    allow_disconnected : bool
        Accept a graph of several parts.

    Attributes
    ----------
    work, names, run_times, num_tasks, task_times
        As given, in topological order, read-only.
    parent_start, parent_index, parent_size : numpy.ndarray
        The edges by child: the parents of node i are ``parent_index[parent_start[i] : parent_start[i + 1]]``, in
        ascending order, with their data sizes.
    child_start, child_index, child_size : numpy.ndarray
        The edges by parent, in the same way.

    Raises
    ------
    WorkloadError
        If the graph has a cycle, is disconnected, or names an unknown node, if an edge is given twice, a size is
        negative or not finite, or a shape does not fit; the message names the job and the nodes.

    Examples
    --------
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> job.num_nodes, job.num_edges, job.names
    (3, 2, ('a', 'b', 'c'))
    """

    def __init__(
        self,
        job_id: int,
        work: ArrayLike,
        edges: Iterable[Edge] = (),
        *,
        submission_time: float = 0.0,
        names: Sequence[Any] | None = None,
        run_times: ArrayLike | None = None,
        num_tasks: ArrayLike | None = None,
        task_times: Sequence[TaskTimes] | None = None,
        label: str = "",
        allow_disconnected: bool = False,
    ) -> None:
        self.job_id = job_id
        self.label = label
        self.submission_time = self._time(submission_time)
        work = numbers_of(f"job {job_id}: work", work, WorkloadError)
        if work.ndim != 1 or not len(work):
            raise WorkloadError(f"job {job_id}: work has shape {work.shape}, want one number for each node")
        given = tuple(range(len(work))) if names is None else names
        named = names_of("node", names, len(work), WorkloadError, f"job {job_id}: ")
        ends, sizes = self._edges(edges, given, named)
        order = _topological_order(ends, len(work))
        if len(order) < len(work):
            left = sorted(set(range(len(work))) - set(order.tolist()))
            cycle = [named[node] for node in _find_cycle(left, ends)]
            raise WorkloadError(f"job {job_id}: the graph has the cycle {' -> '.join([*cycle, cycle[0]])}")
        if not allow_disconnected:
            self._check_connected(ends, named)
        self.names = tuple(named[node] for node in order)
        self.work = self._per_node("work", work, order)
        self.run_times = None if run_times is None else self._per_node("run time", run_times, order, 2)
        self.num_tasks = self._tasks(num_tasks, order)
        if task_times is not None and len(task_times) != len(work):
            raise WorkloadError(f"job {job_id}: {len(task_times)} task times for {len(work)} nodes")
        self.task_times = None if task_times is None else tuple(task_times[node] for node in order)
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        parents, children = position[ends].T if len(ends) else (np.empty(0, dtype=np.int64),) * 2
        self.parent_start, self.parent_index, self.parent_size = _grouped(children, parents, sizes, len(order))
        self.child_start, self.child_index, self.child_size = _grouped(parents, children, sizes, len(order))

    def _time(self, submission_time: float) -> float:
        if not 0 <= submission_time < np.inf:
            raise WorkloadError(f"job {self.job_id}: submission_time is {submission_time!r}, want a time from 0 on")
        return float(submission_time)

    def _edges(self, edges: Iterable[Edge], given: Sequence[Any], named: tuple[str, ...]) -> tuple[Indices, Floats]:
        """Return the ends of the edges, as positions in the order given, and their sizes."""
        index_of: dict[Any, int] = {name: index for index, name in enumerate(named)}
        index_of |= {name: index for index, name in enumerate(given)}
        if not any(isinstance(name, int) for name in given):
            index_of |= {index: index for index in range(len(given))}
        known: dict[tuple[int, int], float] = {}
        for edge in edges:
            try:
                parent, child, size = edge
            except (TypeError, ValueError):
                raise WorkloadError(f"job {self.job_id}: an edge is {edge!r}, want a parent, a child, a size") from None
            ends = []
            for role, end in (("parent", parent), ("child", child)):
                index = index_of.get(end) if isinstance(end, Hashable) else None
                if index is None:
                    raise WorkloadError(f"job {self.job_id}: the edge {parent!r} -> {child!r} has an unknown {role}")
                ends.append(index)
            pair = ends[0], ends[1]
            text = f"{named[pair[0]]!r} -> {named[pair[1]]!r}"
            if pair in known:
                raise WorkloadError(f"job {self.job_id}: the edge {text} is given twice")
            if pair[0] == pair[1]:
                raise WorkloadError(f"job {self.job_id}: the graph has the cycle {named[pair[0]]} -> {named[pair[1]]}")
            try:
                amount = float(size)
            except (TypeError, ValueError):
                amount = np.nan
            if not 0 <= amount < np.inf:
                raise WorkloadError(f"job {self.job_id}: the edge {text} has size {size!r}, want a number from 0 on")
            known[pair] = amount
        return np.array(list(known), dtype=np.int64).reshape(-1, 2), np.array(list(known.values()), dtype=np.float64)

    def _check_connected(self, ends: Indices, named: tuple[str, ...]) -> None:
        """Raise if the graph, its edges taken in both directions, has more than one part."""
        parts = _connected_parts(ends, len(named))
        if len(parts) > 1:
            shown = "; ".join(shortened([named[node] for node in part]) for part in parts[:3])
            raise WorkloadError(
                f"job {self.job_id}: the graph has {len(parts)} parts that are not connected: {shown}"
                f"{'; ...' if len(parts) > 3 else ''}; allow_disconnected=True accepts it"
            )

    def _per_node(self, what: str, values: ArrayLike, order: Indices, ndim: int = 1) -> Floats:
        given = numbers_of(f"job {self.job_id}: {what}", values, WorkloadError)
        if given.ndim != ndim or len(given) != len(order):
            raise WorkloadError(f"job {self.job_id}: {what} has shape {given.shape}, want a row for each node")
        array: Floats = given[order]
        wrong = first_wrong(~((array >= 0) & (array < np.inf)))
        if wrong is not None:
            raise WorkloadError(
                f"job {self.job_id}: the {what} of node {self.names[wrong[0]]!r} is {array[wrong].item()!r}, want a "
                "finite number of at least 0"
            )
        array.flags.writeable = False
        return array

    def _tasks(self, num_tasks: ArrayLike | None, order: Indices) -> Indices:
        if num_tasks is None:
            counts = np.ones(len(order), dtype=np.int64)
        else:
            values = self._per_node("number of tasks", num_tasks, order)
            wrong = first_wrong((values < 1) | (values != np.floor(values)))
            if wrong is not None:
                raise WorkloadError(
                    f"job {self.job_id}: node {self.names[wrong[0]]!r} has {values[wrong].item()!r} tasks, want a "
                    "whole number of at least 1"
                )
            counts = values.astype(np.int64)
        counts.flags.writeable = False
        return counts

    def __repr__(self) -> str:
        """Say which job it is, how large, and when it is submitted."""
        label = f" {self.label}" if self.label else ""
        return f"<Job {self.job_id}{label}: {self.num_nodes} nodes, submitted at {self.submission_time:g} s>"

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.work)

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.parent_index)

    def parents(self, node: int) -> Indices:
        """Return the parents of a node, in ascending order."""
        return self.parent_index[self.parent_start[node] : self.parent_start[node + 1]]

    def children(self, node: int) -> Indices:
        """Return the children of a node, in ascending order."""
        return self.child_index[self.child_start[node] : self.child_start[node + 1]]

    @cached_property
    def parent_lists(self) -> list[list[tuple[int, float]]]:
        """For each node, its parents with their data sizes, as plain numbers for loops over few of them."""
        return _lists(self.parent_start, self.parent_index, self.parent_size)

    @cached_property
    def child_lists(self) -> list[list[tuple[int, float]]]:
        """For each node, its children with their data sizes, as plain numbers for loops over few of them."""
        return _lists(self.child_start, self.child_index, self.child_size)

    def run_times_on(self, executors: Executors) -> Floats:
        """Return how long each node runs on each executor.

        Parameters
        ----------
        executors : Executors
            Of the cluster.

        Returns
        -------
        numpy.ndarray of shape (num_nodes, num_executors)
            Seconds: w_i / v_k, or the job's own run times.

        Raises
        ------
        WorkloadError
            If the job has run times for another number of executors.
        """
        if self.run_times is None:
            table: Floats = self.work[:, None] / executors.speeds
            return table
        if self.run_times.shape[1] != executors.num_executors:
            raise WorkloadError(
                f"job {self.job_id} has run times for {self.run_times.shape[1]} executors, the cluster has "
                f"{executors.num_executors}"
            )
        return self.run_times

    def submitted(self, submission_time: float, *, job_id: int | None = None) -> Job:
        """Return the same job with another submission time, and another identifier if one is given."""
        job = copy(self)
        job.job_id = self.job_id if job_id is None else job_id
        job.submission_time = job._time(submission_time)
        return job


# -- the graph: an order, its cycles, its parts, its edges by one end -----------------------------


def _topological_order(ends: Indices, count: int) -> Indices:
    """Return nodes such that parents come first, the earliest given of those that may come; fewer if there is a cycle.

    Kahn's algorithm with a heap.
    """
    if not len(ends) or (ends[:, 0] < ends[:, 1]).all():
        return np.arange(count)
    missing = np.bincount(ends[:, 1], minlength=count).tolist()
    children: list[list[int]] = [[] for _ in range(count)]
    for parent, child in ends.tolist():
        children[parent].append(child)
    ready = [node for node in range(count) if not missing[node]]
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for child in children[node]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, child)
    return np.array(order, dtype=np.int64)


def _find_cycle(left: list[int], ends: Indices) -> list[int]:
    """Return a cycle among nodes that no topological order reaches, each of which has such a parent."""
    inside = set(left)
    parent_of = {child: parent for parent, child in ends.tolist() if parent in inside and child in inside}
    node, seen = left[0], dict[int, int]()
    while node not in seen:
        seen[node] = len(seen)
        node = parent_of[node]
    walk = list(seen)[seen[node] :]
    return walk[::-1]


def _connected_parts(ends: Indices, count: int) -> list[list[int]]:
    """Return the connected parts, edges taken in both directions, each in ascending order."""
    root = list(range(count))

    def find(node: int) -> int:
        """Return the representative of a node's part."""
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for parent, child in ends.tolist():
        first, second = sorted((find(parent), find(child)))
        root[second] = first
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(find(node), []).append(node)
    return list(parts.values())


def _grouped(keys: Indices, values: Indices, sizes: Floats, count: int) -> tuple[Indices, Indices, Floats]:
    """Return starts, values and sizes of edges that are grouped by key and sorted within each group."""
    order = np.lexsort((values, keys))
    start = np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=count)))).astype(np.int64)
    columns = start, values[order], sizes[order]
    for column in columns:
        column.flags.writeable = False
    return columns


def _lists(start: Indices, index: Indices, size: Floats) -> list[list[tuple[int, float]]]:
    pairs = list(zip(index.tolist(), size.tolist(), strict=True))
    bounds = start.tolist()
    return [pairs[begin:end] for begin, end in pairwise(bounds)]


# -- networkx -----------------------------------------------------------------------------------


def from_networkx(graph: nx.DiGraph, job_id: int = 0, **options: Any) -> Job:
    """Make a job of a networkx graph.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes have the attribute ``work``; ``num_tasks``, ``run_times`` (seconds on each executor) and
        ``task_times`` are optional, but then for all nodes. Edges have the attribute ``size``, 0 where it is missing.
        A MultiDiGraph will do if no two edges join the same nodes in the same direction.
    job_id : int
        Identifier of the job.
    **options
        What :class:`Job` takes by name and the graph does not hold: ``submission_time``, ``label``,
        ``allow_disconnected``.

    Returns
    -------
    Job
        Its nodes are called as in the graph.

    Raises
    ------
    WorkloadError
        If an attribute is missing, the graph is not directed, or the job makes no sense.
    """
    if not graph.is_directed():
        raise WorkloadError(f"job {job_id}: the graph is not directed, so that no edge has a parent and a child")
    nodes = list(graph.nodes)
    columns: dict[str, Any] = {}
    for attribute in ("work", "run_times", "num_tasks", "task_times"):
        present = [node for node in nodes if attribute in graph.nodes[node]]
        wanted = present or attribute == "work"
        missing = [node for node in nodes if attribute not in graph.nodes[node]]
        if wanted and missing:
            raise WorkloadError(f"job {job_id}: node {missing[0]!r} has no attribute {attribute!r}")
        columns[attribute] = [graph.nodes[node][attribute] for node in nodes] if present else None
    edges = [(parent, child, data.get("size", 0.0)) for parent, child, data in graph.edges(data=True)]
    position = {node: index for index, node in enumerate(nodes)}
    numbered = [(position[parent], position[child], size) for parent, child, size in edges]
    settings = {key: graph.graph[key] for key in ("submission_time", "label") if key in graph.graph}
    names = [str(node) for node in nodes]
    return Job(job_id, columns.pop("work"), numbered, names=names, **columns, **settings | options)


def to_networkx(job: Job) -> nx.DiGraph:
    """Return a job as a networkx graph.

    Parameters
    ----------
    job : Job
        The job.

    Returns
    -------
    networkx.DiGraph
        Nodes by name, in topological order, with the attributes ``work`` and ``num_tasks``, and ``run_times`` and
        ``task_times`` if the job has them; edges with the attribute ``size``; the graph with ``job_id``,
        ``submission_time`` and ``label``.
    """
    import networkx as nx

    graph = nx.DiGraph(job_id=job.job_id, submission_time=job.submission_time, label=job.label)
    for node, name in enumerate(job.names):
        attributes: dict[str, Any] = {"work": job.work[node].item(), "num_tasks": job.num_tasks[node].item()}
        if job.run_times is not None:
            attributes["run_times"] = job.run_times[node].tolist()
        if job.task_times is not None:
            attributes["task_times"] = job.task_times[node]
        graph.add_node(name, **attributes)
    for child, parents in enumerate(job.parent_lists):
        graph.add_edges_from((job.names[parent], job.names[child], {"size": size}) for parent, size in parents)
    return graph
