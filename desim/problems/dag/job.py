"""A job: a directed acyclic graph of nodes that compute and edges that carry data, and how long its tasks take."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from desim.checks import names_of, numbers, places_of, python_scalar
from desim.exceptions import WorkloadError

if TYPE_CHECKING:
    import networkx as nx

    from desim.problems.dag.executors import Executors

__all__ = ["Job", "TaskTimes", "Wave", "from_networkx", "to_networkx"]

Floats = NDArray[np.float64]
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
        Names of the nodes in the order of ``work``; ``node0``, ``node1``, ... if left out. If one of them is a
        number, of Python or NumPy, numbers in ``edges`` are names, too, and not positions.
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
        self.job_id = python_scalar(job_id)
        self.label = label
        self.submission_time = self._time(submission_time)
        work = numbers(f"job {job_id}: work", work, shape=(None,), error=WorkloadError)
        if not len(work):
            raise WorkloadError(f"job {job_id}: work is empty, want one number for each node")
        named = names_of(f"job {job_id}: node", names, len(work), WorkloadError)
        ends, sizes = self._edges(edges, places_of(named, names), named)
        order = _topological_order(ends, len(work))
        if len(order) < len(work):
            cycle = _find_cycle(ends)
            raise WorkloadError(f"job {job_id}: the graph has the cycle {' -> '.join(named[node] for node in cycle)}")
        if not allow_disconnected:
            self._check_connected(ends, named)
        self.names = tuple(named[node] for node in order)
        self.work = self._per_node("work", work, order, named)
        self.run_times = None if run_times is None else self._per_node("run time", run_times, order, named, None)
        counts = np.ones(len(order)) if num_tasks is None else num_tasks
        self.num_tasks = self._per_node("number of tasks", counts, order, named, least=1, whole=True).astype(np.int64)
        self.num_tasks.flags.writeable = False
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

    def _edges(
        self, edges: Iterable[Edge], index_of: Mapping[Any, int], named: tuple[str, ...]
    ) -> tuple[Indices, Floats]:
        """Return the ends of the edges, as positions in the order given, and their sizes."""
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
            shown = "; ".join(_shortened([named[node] for node in part]) for part in parts[:3])
            raise WorkloadError(
                f"job {self.job_id}: the graph has {len(parts)} parts that are not connected: {shown}"
                f"{'; ...' if len(parts) > 3 else ''}; allow_disconnected=True accepts it"
            )

    def _per_node(
        self, what: str, values: ArrayLike, order: Indices, named: tuple[str, ...], *more: None, **bounds: Any
    ) -> Floats:
        """Return numbers, or with another axis rows of numbers, in topological order."""
        shape, of = (len(order), *more), f"job {self.job_id}: {what}"
        given = numbers(of, values, shape=shape, names=[named], error=WorkloadError, **({"least": 0} | bounds))
        array: Floats = given[order]
        array.flags.writeable = False
        return array

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

    def sized(self, sizes: ArrayLike) -> Job:
        """Return the same job whose edges carry other amounts of data; its graph is not looked at anew.

        Parameters
        ----------
        sizes : array_like of shape (num_edges,)
            At least 0, in the order of ``parent_index``.

        Returns
        -------
        Job
            A new one.

        Raises
        ------
        WorkloadError
            If there is another number of them, or one is out of range.
        """
        what = f"job {self.job_id}: size"
        given = numbers(what, sizes, shape=(self.num_edges,), least=0, error=WorkloadError)
        children = np.repeat(np.arange(self.num_nodes), np.diff(self.parent_start))
        job = copy(self)
        for known in ("parent_lists", "child_lists"):
            job.__dict__.pop(known, None)
        job.parent_size, job.child_size = given, given[np.lexsort((children, self.parent_index))]
        job.child_size.flags.writeable = False
        return job

    def submitted(self, submission_time: float, *, job_id: int | None = None) -> Job:
        """Return the same job with another submission time, and another identifier if one is given."""
        job = copy(self)
        job.job_id = self.job_id if job_id is None else python_scalar(job_id)
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


def _find_cycle(ends: Indices) -> list[int]:
    """Return the nodes of a cycle, the first one once more at its end."""
    import networkx as nx

    steps = nx.find_cycle(nx.from_edgelist(ends.tolist(), nx.DiGraph))
    return [steps[0][0], *(child for _, child in steps)]


def _connected_parts(ends: Indices, count: int) -> list[list[int]]:
    """Return the connected parts, edges taken in both directions, each in ascending order."""
    part_of = {node: [node] for node in range(count)}
    for parent, child in ends.tolist():
        small, large = sorted((part_of[parent], part_of[child]), key=len)
        if small is not large:
            large += small
            part_of.update(dict.fromkeys(small, large))
    return list({id(part): sorted(part) for part in part_of.values()}.values())


def _shortened(names: Sequence[str], most: int = 8) -> str:
    """Return names for a message, and how many are left out."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


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


# -- how long single tasks take ------------------------------------------------------------------

#: What the executor of a task did before it: nothing of the job, another stage of it, the same stage.
Wave = Literal["fresh", "first", "rest"]

# What stands in for a wave without durations, the nearest first, and whether the warm-up has to be added to it. That
# fresh durations come before those of the rest where first ones lack is Decima's choice.
_SUBSTITUTES: dict[str, tuple[tuple[str, bool], ...]] = {
    "fresh": (("fresh", False), ("first_warm", True), ("rest", True)),
    "first": (("first_warm", False), ("fresh", False), ("rest", False)),
    "rest": (("rest", False), ("first_warm", False), ("fresh", False)),
}


class TaskTimes:
    """Measured durations of the tasks of one stage; it does not change.

    A stage was run several times, each time with another number of executors. The first task that an executor runs of
    a stage takes longer than the later ones, and longest if the executor is new to the whole job.

    Parameters
    ----------
    executors : sequence of int
        Numbers of executors in ascending order, one for each run.
    fresh : sequence of array_like
        For each run, seconds of the tasks on executors that were new to the job. May be empty.
    first : sequence of array_like
        For each run, seconds of the first task of each executor; the values of ``fresh`` are among them.
    rest : sequence of array_like
        For each run, seconds of all later tasks.
    warm_up : float
        Seconds that an executor needs to get ready for a job: what a task on a new executor takes longer where no
        such task was measured.
    reference_speed : float
        Speed of the executors in the measurement: on one of speed v a task takes ``reference_speed / v`` times as long.

    Attributes
    ----------
    executors : tuple of int
        As given.
    fresh, first, rest : tuple of numpy.ndarray
        As given, read-only.
    first_warm : tuple of numpy.ndarray
        ``first`` without the values of ``fresh``, each as often as it is there.
    warm_up, reference_speed : float
        As given.

    Raises
    ------
    WorkloadError
        If there are no values at all, one is negative or not finite, a value of ``fresh`` is missing from ``first``,
        or the numbers of executors are not whole, ascending and above 0; the message names the wave and the run.

    Notes
    -----
    Decima's simulator draws task durations in this way (H. Mao et al., "Learning scheduling algorithms for data
    processing clusters", SIGCOMM 2019).

    Examples
    --------
    >>> times = TaskTimes([2, 10], fresh=[[3.0], []], first=[[3.0, 2.0], [4.0]], rest=[[1.0], []])
    >>> times.mean(), times.draw(np.random.default_rng(0), "rest", 2)
    (2.5, 1.0)
    """

    def __init__(
        self,
        executors: Sequence[int],
        fresh: Sequence[ArrayLike],
        first: Sequence[ArrayLike],
        rest: Sequence[ArrayLike],
        *,
        warm_up: float = 1.0,
        reference_speed: float = 1.0,
    ) -> None:
        counts = numbers("task times: executors", executors, shape=(None,), least=1, whole=True, error=WorkloadError)
        self.executors = tuple(map(int, counts.tolist()))
        if not self.executors or any(one >= other for one, other in pairwise(self.executors)):
            raise WorkloadError(f"task times: executors are {self.executors}, want at least one, in ascending order")
        self.fresh = self._lists("fresh", fresh)
        self.first = self._lists("first", first)
        self.rest = self._lists("rest", rest)
        if not any(map(len, (*self.first, *self.rest))):
            raise WorkloadError("task times: there are no durations at all")
        self.warm_up = numbers("task times: warm_up", warm_up, least=0, error=WorkloadError).item()
        self.reference_speed = numbers(
            "task times: reference_speed", reference_speed, above=0, error=WorkloadError
        ).item()
        self.first_warm = tuple(map(_without, self.executors, self.first, self.fresh))
        # Separate lists: a draw looks up one number, not a pair inside a list of pairs.
        self._values: dict[str, list[Floats]] = {}
        self._added: dict[str, list[float]] = {}
        for wave, substitutes in _SUBSTITUTES.items():
            self._values[wave], self._added[wave] = map(list, zip(*self._pools_of(substitutes), strict=True))

    def _lists(self, wave: str, lists: Sequence[ArrayLike]) -> tuple[Floats, ...]:
        if len(lists) != len(self.executors):
            raise WorkloadError(f"task times: {len(lists)} lists of {wave} for {len(self.executors)} runs")
        names = [f"task times: {wave} with {count} executors" for count in self.executors]
        pairs = zip(names, lists, strict=True)
        return tuple(numbers(name, values, shape=(None,), least=0, error=WorkloadError) for name, values in pairs)

    def _pools_of(self, substitutes: tuple[tuple[str, bool], ...]) -> list[tuple[Floats, float]]:
        """Return for each run, or the nearest with any, the durations drawn for a wave, and the seconds to add."""
        known: dict[int, tuple[Floats, float]] = {}
        for run, count in enumerate(self.executors):
            for name, is_warm in reversed(substitutes):
                values = getattr(self, name)[run]
                if len(values):
                    known[count] = values, self.warm_up if is_warm else 0.0
        return [known[min(known, key=lambda other: abs(count - other))] for count in self.executors]

    def draw(self, rng: Generator, wave: Wave, num_executors: float) -> float:
        """Draw the duration of a task.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        wave : {"fresh", "first", "rest"}
            Whether the executor is new to the job, new to the stage but not to the job, or has just run another task of
            the stage. A wave without durations is replaced within its run: fresh by first plus warm-up, then by rest
            plus warm-up; first by fresh, then by rest; rest by first, then by fresh. A run without any durations is
            replaced by the nearest one, of two the smaller.
        num_executors : float
            Executors that work on the job. Between two measured numbers one of them is picked at random, the nearer
            with the greater chance, linearly; outside them the nearest is taken.

        Returns
        -------
        float
            Seconds at the reference speed.
        """
        executors = self.executors
        run = bisect_left(executors, num_executors)
        if run == len(executors):
            run -= 1
        elif run and executors[run] != num_executors:
            below = executors[run - 1]
            if rng.random() * (executors[run] - below) >= num_executors - below:
                run -= 1
        values = self._values[wave][run]
        # Faster than rng.integers or rng.choice; the product stays below the length, rounded as it is.
        return values.item(int(rng.random() * len(values))) + self._added[wave][run]

    def mean(self) -> float:
        """Return the mean duration of all tasks, in seconds at the reference speed."""
        lists = [np.concatenate(pair) for pair in zip(self.first, self.rest, strict=True)]
        return sum(float(values.sum()) for values in lists) / sum(map(len, lists))

    def __repr__(self) -> str:
        """Say how many durations there are, for which numbers of executors."""
        count = sum(map(len, (*self.first, *self.rest)))
        return f"<TaskTimes: {count} durations with {self.executors[0]} to {self.executors[-1]} executors>"


def _without(count: int, first: Floats, fresh: Floats) -> Floats:
    """Return the first durations that are not fresh ones, in their order."""
    if not len(fresh):
        return first
    left = Counter(fresh.tolist())
    kept = []
    for value in first.tolist():
        if left[value]:
            left[value] -= 1
        else:
            kept.append(value)
    missing = next((value for value, times in left.items() if times), None)
    if missing is not None:
        raise WorkloadError(
            f"task times: with {count} executors the duration {missing!r} is more often in fresh "
            "than in first, which holds all of them"
        )
    array = np.array(kept, dtype=np.float64)
    array.flags.writeable = False
    return array
