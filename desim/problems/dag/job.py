"""Jobs as directed acyclic graphs, whose nodes compute and whose edges carry data, and durations of their tasks."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_bool, names_of, numbers, places_of, python_scalar, sets_of_names
from desim.exceptions import WorkloadError
from desim.problems.dag.executors import units_of

if TYPE_CHECKING:
    import networkx as nx

    from desim.problems.dag.executors import Executors

__all__ = [
    "Job",
    "Mode",
    "ModesOnPools",
    "TaskTimes",
    "Wave",
    "from_networkx",
    "means_where_eligible",
    "to_networkx",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Edge = tuple[Any, Any, float]

CLOCK = 1e-3
"""Largest acceptable step of the clock at a submission time, in seconds; epochs in nanoseconds have 256 s."""


class Mode(NamedTuple):
    """One of several ways to run a node on a pool, as in multi-mode project scheduling.

    Attributes
    ----------
    run_time : float
        Run time in seconds, whatever the speed of the pool; at least 0.
    demands : mapping of str to float
        Amounts of resources of a pool that the node takes while it runs; see :class:`Executors`.
    eligible : iterable of str, optional
        Names of the pools on which the mode is possible, among those that may run the node. Default: any.
    """

    run_time: float
    demands: Mapping[str, float]
    eligible: Iterable[str] | None = None


class ModesOnPools(NamedTuple):
    """Modes of a node on the pools of a cluster.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_modes, num_executors)
        Run time in each mode on each pool, infinite where the mode is not possible.
    units : numpy.ndarray of int, shape (num_modes, num_resources)
        Amounts that the node takes in each mode, in millionths.
    """

    run_times: Floats
    units: Indices


class Job:
    """Job of one or more nodes (stages); immutable.

    The nodes are numbered in topological order: each comes after all its parents. Ties are broken by the order in
    which the nodes were given. Agents and records use these numbers.

    A node may be restricted to eligible executors, in four ways that add up: by the names of executors, by features
    that an executor must have, by run times of infinity, and by demands beyond the capacity of a pool. All come down to
    one table, :meth:`run_times_on`: a node may run where its run time is finite. Agents, metrics and records read
    nothing else. :meth:`units_on` gives the amounts that a node takes of a pool while it runs there.

    A node may have several modes, each with a run time and demands. Its run time on a pool is then that of the quickest
    mode, and :meth:`modes_on` gives all of them.

    Parameters
    ----------
    job_id : int
        Identifier, unique among the jobs that are in the system at the same time.
    work : array_like of shape (num_nodes,)
        Computation size of each node, w_i, at least 0. Node i runs for w_i / v_k seconds on executor k.
    edges : iterable of (parent, child, size)
        Edges, each given once: parent and child by name or by position in ``work``, and the units of data that the
        child needs from the parent's result, e_ij, at least 0.
    submission_time : float
        Time at which the job arrives, in seconds.
    names : sequence of str, optional
        Names of the nodes, in the order of ``work``; default: ``node0``, ``node1``, ... If any name is a number (of
        Python or NumPy), numbers in ``edges`` are names as well, not positions.
    run_times : array_like of shape (num_nodes, num_executors), optional
        Run time of each node on each executor in seconds, instead of work / speed (unrelated executors). ``work`` is
        then only a measure of size. Infinite where a node may not run.
    eligible : sequence of (iterable of str or None), optional
        Names of the executors that may run each node, in the order of ``work``; None: any.
    required_features : sequence of (iterable of str or None), optional
        Features that an executor must have to run each node, in the order of ``work``; None: none.
    demands : sequence of (mapping of str to float, or None), optional
        Amounts of resources of a pool that each node takes while it runs, in the order of ``work``, such as
        ``{"cores": 4}``; see :class:`Executors`. None: a whole pool.
    modes : sequence of (sequence of Mode or None), optional
        Modes in which each node may run, in the order of ``work``; None: the node has no modes, but its demands. With
        modes, ``work`` is only a measure of size. Excludes ``run_times``.
    num_tasks : array_like of shape (num_nodes,), optional
        Number of parallel tasks of each node, for :class:`TaskCluster`; default: 1.
    task_times : sequence of TaskTimes, optional
        Measured durations of the tasks of each node, in the order of ``work``. Without them, each task of a node takes
        an equal share of its work.
    label : str
        Kind of job, for tables and figures.
    allow_disconnected : bool
        Whether to accept a graph of several connected components.

    Attributes
    ----------
    work, names, run_times, eligible, required_features, demands, modes, num_tasks, task_times
        As given, but in topological order and read-only.
    parent_start, parent_index, parent_size : numpy.ndarray
        Edges grouped by child: the parents of node i are ``parent_index[parent_start[i] : parent_start[i + 1]]``, in
        ascending order; ``parent_size`` holds their data sizes.
    child_start, child_index, child_size : numpy.ndarray
        Edges grouped by parent, in the same way.

    Raises
    ------
    WorkloadError
        If the graph has a cycle, is disconnected or names an unknown node, if an edge is given twice, if a size is
        negative or not finite, if a shape does not match, or if no executor may run some node. The message names the
        job and the nodes.

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
        eligible: Sequence[Iterable[str] | None] | None = None,
        required_features: Sequence[Iterable[str] | None] | None = None,
        demands: Sequence[Mapping[str, float] | None] | None = None,
        modes: Sequence[Sequence[Mode] | None] | None = None,
        num_tasks: ArrayLike | None = None,
        task_times: Sequence[TaskTimes] | None = None,
        label: str = "",
        allow_disconnected: bool = False,
    ) -> None:
        self.job_id = _checked_id(job_id)
        self.label = label
        if not isinstance(label, str):
            raise WorkloadError(f"job {job_id}: label: got {label!r}, expected a string")
        check_bool("allow_disconnected", allow_disconnected)
        self.submission_time = self._time(submission_time)
        work = numbers(f"job {job_id}: work", work, shape=(None,), error=WorkloadError)
        if not len(work):
            raise WorkloadError(f"job {job_id}: work is empty, expected one number per node")
        named = names_of(f"job {job_id}: node", names, len(work), WorkloadError)
        ends, sizes = self._edges(edges, places_of(named, names), named)
        order = _topological_order(ends, len(work))
        if len(order) < len(work):
            cycle = _find_cycle(ends)
            raise WorkloadError(
                f"job {job_id}: the graph has the cycle {' -> '.join(named[node] for node in cycle)}, expected none"
            )
        if not allow_disconnected:
            self._check_connected(ends, named)
        self.names = tuple(named[node] for node in order)
        self.work = self._per_node("work", work, order, named)
        self.run_times = None
        if run_times is not None:
            self.run_times = self._per_node("run time", run_times, order, named, None, infinite=True)
        self.eligible = self._names_per_node("eligible", eligible, order, named)
        self.required_features = self._names_per_node("required_features", required_features, order, named)
        if demands is not None and len(demands) != len(work):
            raise WorkloadError(f"job {job_id}: demands: got {len(demands)}, expected {len(work)}, one per node")
        self.demands = None if demands is None else tuple(demands[node] for node in order)
        self.modes = self._modes(modes, order, named)
        counts = np.ones(len(order)) if num_tasks is None else num_tasks
        self.num_tasks = self._per_node("number of tasks", counts, order, named, least=1, whole=True).astype(np.int64)
        self.num_tasks.flags.writeable = False
        if task_times is not None and len(task_times) != len(work):
            raise WorkloadError(f"job {job_id}: task_times: got {len(task_times)}, expected {len(work)}, one per node")
        self.task_times = None if task_times is None else tuple(task_times[node] for node in order)
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        parents, children = position[ends].T if len(ends) else (np.empty(0, dtype=np.int64),) * 2
        self.parent_start, self.parent_index, self.parent_size = _grouped(children, parents, sizes, len(order))
        self.child_start, self.child_index, self.child_size = _grouped(parents, children, sizes, len(order))

    def _time(self, submission_time: Any) -> float:
        is_number = isinstance(submission_time, Real) and not isinstance(submission_time, bool)
        if not is_number or not 0 <= submission_time < np.inf:
            raise WorkloadError(f"job {self.job_id}: submission_time: got {submission_time!r}, expected seconds >= 0")
        time = float(submission_time)
        if np.spacing(time) > CLOCK:
            raise WorkloadError(
                f"job {self.job_id}: submission_time: got {submission_time!r} s, where the clock advances by "
                f"{np.spacing(time):g} s at least, expected seconds below 2**43; try seconds since the first submission"
            )
        return time

    def _edges(
        self, edges: Iterable[Edge], index_of: Mapping[Any, int], named: tuple[str, ...]
    ) -> tuple[Indices, Floats]:
        """Return the edges as pairs of positions, in the order given, and their data sizes."""
        known: dict[tuple[int, int], float] = {}
        for edge in edges:
            try:
                parent, child, size = edge
            except (TypeError, ValueError):
                raise WorkloadError(
                    f"job {self.job_id}: edges: got {edge!r}, expected a tuple (parent, child, size)"
                ) from None
            ends = []
            for role, end in (("parent", parent), ("child", child)):
                index = index_of.get(end) if isinstance(end, Hashable) else None
                if index is None:
                    raise WorkloadError(f"job {self.job_id}: the edge {parent!r} -> {child!r} has an unknown {role}")
                ends.append(index)
            pair = ends[0], ends[1]
            text = f"{named[pair[0]]!r} -> {named[pair[1]]!r}"
            if pair in known:
                raise WorkloadError(f"job {self.job_id}: the edge {text} is given twice; sum the sizes in one edge")
            try:
                amount = float(size)
            except (TypeError, ValueError):
                amount = np.nan
            if not 0 <= amount < np.inf:
                raise WorkloadError(
                    f"job {self.job_id}: size of the edge {text}: got {size!r}, expected a finite number >= 0"
                )
            known[pair] = amount
        return np.array(list(known), dtype=np.int64).reshape(-1, 2), np.array(list(known.values()), dtype=np.float64)

    def _check_connected(self, ends: Indices, named: tuple[str, ...]) -> None:
        """Raise an error if the graph, with edges taken as undirected, has more than one connected component."""
        parts = _connected_parts(ends, len(named))
        if len(parts) > 1:
            shown = "; ".join(_shortened([named[node] for node in part]) for part in parts[:3])
            raise WorkloadError(
                f"job {self.job_id}: the graph has {len(parts)} connected components, expected 1: {shown}"
                f"{'; ...' if len(parts) > 3 else ''}; try allow_disconnected=True"
            )

    def _per_node(
        self, what: str, values: ArrayLike, order: Indices, named: tuple[str, ...], *more: None, **bounds: Any
    ) -> Floats:
        """Return values per node, or rows of values per node, in topological order."""
        shape, of = (len(order), *more), f"job {self.job_id}: {what}"
        given = numbers(of, values, shape=shape, names=[named], error=WorkloadError, **({"least": 0} | bounds))
        array: Floats = given[order]
        array.flags.writeable = False
        return array

    def _names_per_node(
        self, what: str, values: Any, order: Indices, named: tuple[str, ...]
    ) -> tuple[frozenset[str] | None, ...] | None:
        """Return sets of names per node in topological order; None if no node has one."""
        if values is None:
            return None
        found = sets_of_names(f"job {self.job_id}: {what}", values, named, WorkloadError)
        return tuple(found[node] for node in order) if any(each is not None for each in found) else None

    def _modes(
        self, given: Sequence[Sequence[Mode] | None] | None, order: Indices, named: tuple[str, ...]
    ) -> tuple[tuple[Mode, ...] | None, ...] | None:
        """Return the modes per node in topological order; None if no node has any."""
        if given is None or all(modes is None for modes in given):
            return None
        if len(given) != len(order):
            raise WorkloadError(f"job {self.job_id}: modes: got {len(given)}, expected {len(order)}, one per node")
        if self.run_times is not None:
            raise WorkloadError(f"job {self.job_id}: got modes and run_times, expected only one of them")
        found = []
        for place, node in enumerate(order.tolist()):
            modes = given[node]
            what = f"job {self.job_id}: modes of node {named[node]!r}"
            if modes is not None and self.demands is not None and self.demands[place] is not None:
                raise WorkloadError(f"{what}: got demands of the node, too, expected only those of its modes")
            found.append(None if modes is None else _checked_modes(what, modes))
        return tuple(found)

    def __repr__(self) -> str:
        """Return the identifier, label, size and submission time."""
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
        """Return the parents of a node in ascending order."""
        return self.parent_index[self.parent_start[node] : self.parent_start[node + 1]]

    def children(self, node: int) -> Indices:
        """Return the children of a node in ascending order."""
        return self.child_index[self.child_start[node] : self.child_start[node + 1]]

    @cached_property
    def parent_lists(self) -> list[list[tuple[int, float]]]:
        """Parents of each node with their data sizes, as Python numbers: faster than arrays in short loops."""
        return _lists(self.parent_start, self.parent_index, self.parent_size)

    @cached_property
    def child_lists(self) -> list[list[tuple[int, float]]]:
        """Children of each node with their data sizes, as Python numbers: faster than arrays in short loops."""
        return _lists(self.child_start, self.child_index, self.child_size)

    def run_times_on(self, executors: Executors) -> Floats:
        """Return the run time of each node on each executor.

        Parameters
        ----------
        executors : Executors
            Executors of the cluster.

        Returns
        -------
        numpy.ndarray of shape (num_nodes, num_executors)
            Run times in seconds: w_i / v_k, or the job's own ``run_times`` if it has them. Infinite on executors that
            are not eligible for the node.

        Raises
        ------
        WorkloadError
            If the job's ``run_times`` are for a different number of executors, or no executor may run a node.
        """
        if self.run_times is None:
            table: Floats = self.work[:, None] / executors.speeds
            return table if self._is_unrestricted else self._restricted(table, executors)
        if self.run_times.shape[1] != executors.num_executors:
            raise WorkloadError(
                f"job {self.job_id}: run_times: got {self.run_times.shape[1]} executors, expected "
                f"{executors.num_executors} as in the cluster"
            )
        return self.run_times if self._is_unrestricted else self._restricted(self.run_times, executors)

    @cached_property
    def _is_unrestricted(self) -> bool:
        """Whether every node may run on every executor."""
        anywhere = self.run_times is None or bool((self.run_times < np.inf).all())
        restricted = self.eligible, self.required_features, self.demands, self.modes
        return anywhere and all(each is None for each in restricted)

    def _restricted(self, table: Floats, executors: Executors) -> Floats:
        """Return run times with infinity on executors that are not eligible; raise WorkloadError if a node has none."""
        known = self.__dict__.get("_last_restricted")
        if known is not None and known[0] is executors:
            found: Floats = known[1]
            return found
        table, modes = table.copy(), self.modes_on(executors)
        for node in range(self.num_nodes):
            if node in modes:
                table[node] = modes[node].run_times.min(axis=0)
            table[node, self._excluded(node, executors)] = np.inf
            if self.demands is not None and self.demands[node] is not None:
                table[node, (executors.units < self._units(node, executors)).any(axis=1)] = np.inf
            if table[node].min() == np.inf:
                names = None if self.eligible is None else self.eligible[node]
                features = None if self.required_features is None else self.required_features[node]
                by_name = "" if names is None else f", eligible: {_shortened(sorted(names))}"
                by_feature = "" if features is None else f", required features: {_shortened(sorted(features))}"
                by_demand = "" if self.demands is None else f", demands: {self.demands[node]}"
                by_demand = by_demand if node not in modes else f", modes: {len(modes[node].units)}"
                raise WorkloadError(
                    f"job {self.job_id}: node {self.names[node]!r} may run on no executor of the cluster"
                    f"{by_name}{by_feature}{by_demand}; expected at least one of {_shortened(executors.names)}"
                )
        table.flags.writeable = False
        self.__dict__["_last_restricted"] = executors, table
        return table

    def _excluded(self, node: int, executors: Executors) -> list[int]:
        """Return the executors that the names and features of a node exclude."""
        names = None if self.eligible is None else self.eligible[node]
        features = None if self.required_features is None else self.required_features[node]
        return [
            executor
            for executor, (name, offered) in enumerate(zip(executors.names, executors.features, strict=True))
            if (names is not None and name not in names) or not offered.issuperset(features or ())
        ]

    def _units(self, node: int, executors: Executors) -> list[int]:
        """Return the amounts that a node with demands takes of each resource, in millionths."""
        assert self.demands is not None
        return self._counted(f"demands of node {self.names[node]!r}", self.demands[node] or {}, executors)

    def _counted(self, what: str, demands: Mapping[str, float], executors: Executors) -> list[int]:
        """Return demands in millionths of each resource."""
        what = f"job {self.job_id}: {what}"
        if not executors.resources:
            raise WorkloadError(f"{what}: got {demands}, but the executors have no capacities")
        return units_of(what, demands, executors.resources, WorkloadError)

    def modes_on(self, executors: Executors) -> dict[int, ModesOnPools]:
        """Return the modes of the nodes that have several ways to run.

        Parameters
        ----------
        executors : Executors
            Pools of the cluster.

        Returns
        -------
        dict of int to ModesOnPools
            Modes by node; empty if no node has modes.

        Raises
        ------
        WorkloadError
            If the executors are no pools, or a mode demands a resource that they do not have.
        """
        found = {}
        for node, modes in enumerate(self.modes or ()):
            if modes is not None:
                what = f"demands of node {self.names[node]!r} in mode"
                units = [self._counted(f"{what} {at}", mode.demands, executors) for at, mode in enumerate(modes)]
                table = np.array(
                    [
                        [
                            mode.run_time if mode.eligible is None or name in mode.eligible else np.inf
                            for name in executors.names
                        ]
                        for mode in modes
                    ]
                )
                amounts = np.array(units, dtype=np.int64)
                table[(amounts[:, None] > executors.units).any(axis=2)] = np.inf
                table[:, self._excluded(node, executors)] = np.inf
                found[node] = ModesOnPools(table, amounts)
        return found

    def units_on(self, executors: Executors) -> list[list[int] | None]:
        """Return the amounts that each node without modes takes of each resource of a pool; None for a whole pool.

        Parameters
        ----------
        executors : Executors
            Pools of the cluster.

        Returns
        -------
        list of (list of int, or None)
            Amounts in millionths, in the order of ``executors.resources``.
        """
        demands = self.demands or (None,) * self.num_nodes
        return [None if one is None else self._units(node, executors) for node, one in enumerate(demands)]

    def amounts_of(self, resource: str) -> list[float | None]:
        """Return the amount of a resource that each node takes, None for the whole of a pool."""
        demands = self.demands or (None,) * self.num_nodes
        return [None if one is None else float(one.get(resource, 0.0)) for one in demands]

    def check_eligible(self, executors: Executors) -> None:
        """Raise WorkloadError if the job restricts its nodes, and no executor may run one of them."""
        if not self._is_unrestricted:
            self.run_times_on(executors)

    def recorded_run_times(self, executors: Executors) -> Floats | None:
        """Return the run times that do not follow from work and speeds, for records; None if they do."""
        return self.run_times if self._is_unrestricted else self.run_times_on(executors)

    def only_on(self, used: Sequence[int]) -> Job:
        """Return a copy of the job for some of the executors, which are numbered anew."""
        if self.run_times is None:
            return self
        job = copy(self)
        job.__dict__.pop("_last_restricted", None)
        job.__dict__.pop("_is_unrestricted", None)
        job.run_times = self.run_times[:, list(used)]
        job.run_times.flags.writeable = False
        return job

    def sized(self, sizes: ArrayLike) -> Job:
        """Return a copy of the job with other data sizes on its edges; the graph is not checked again.

        Parameters
        ----------
        sizes : array_like of shape (num_edges,)
            Data sizes, at least 0, in the order of ``parent_index``.

        Returns
        -------
        Job
            The new job.

        Raises
        ------
        WorkloadError
            If the number of sizes does not match the number of edges, or a size is out of range.
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

    def demanding(self, resources: Sequence[str]) -> Job:
        """Return a copy of the job whose nodes demand only some of the resources."""
        job = copy(self)
        job.__dict__.pop("_last_restricted", None)
        if self.demands is not None:
            job.demands = tuple(
                None if own is None else {name: amount for name, amount in own.items() if name in resources}
                for own in self.demands
            )
        return job

    def submitted(self, submission_time: float, *, job_id: int | None = None) -> Job:
        """Return a copy of the job with another submission time and, if given, another identifier."""
        job = copy(self)
        job.job_id = self.job_id if job_id is None else _checked_id(job_id)
        job.submission_time = job._time(submission_time)
        return job


def _checked_id(job_id: Any) -> int:
    """Return an identifier as an integer of Python; raise WorkloadError if it is none."""
    known = python_scalar(job_id)
    if not isinstance(known, int) or isinstance(known, bool) or not -(2**63) <= known < 2**63:
        raise WorkloadError(f"job {job_id!r}: job_id: got {job_id!r}, expected an integer from -2**63 to 2**63 - 1")
    return known


def _checked_modes(what: str, modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """Return the modes of a node; raise WorkloadError if one is invalid."""
    found = []
    for number, mode in enumerate(modes):
        if not isinstance(mode, Mode) or not isinstance(mode.demands, Mapping):
            raise WorkloadError(f"{what}: got {mode!r}, expected a Mode with a run time and demands by resource")
        time = numbers(f"{what}: run time in mode {number}", mode.run_time, shape=(), least=0, error=WorkloadError)
        names = sets_of_names(f"{what}: eligible", [mode.eligible], [f"mode {number}"], WorkloadError)[0]
        found.append(Mode(time.item(), dict(mode.demands), names))
    if not found:
        raise WorkloadError(f"{what}: got none, expected at least one")
    return tuple(found)


def means_where_eligible(run_times: Floats) -> Floats:
    """Return the mean run time of each node over its eligible executors.

    Parameters
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Run times, infinite where a node may not run, but not everywhere.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Means.
    """
    means: Floats = run_times.mean(axis=1)
    for node in np.flatnonzero(means == np.inf).tolist():
        means[node] = run_times[node][run_times[node] < np.inf].mean()
    return means


# -- graph: topological order, cycles, connected components, edges grouped by one end --------------


def _topological_order(ends: Indices, count: int) -> Indices:
    """Return the nodes in topological order, ties by position; fewer nodes if there is a cycle.

    Uses Kahn's algorithm with a heap.
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
    """Return the nodes of a cycle; the first node is repeated at the end."""
    import networkx as nx

    steps = nx.find_cycle(nx.from_edgelist(ends.tolist(), nx.DiGraph))
    return [steps[0][0], *(child for _, child in steps)]


def _connected_parts(ends: Indices, count: int) -> list[list[int]]:
    """Return the connected components, with edges taken as undirected, each in ascending order."""
    part_of = {node: [node] for node in range(count)}
    for parent, child in ends.tolist():
        small, large = sorted((part_of[parent], part_of[child]), key=len)
        if small is not large:
            large += small
            part_of.update(dict.fromkeys(small, large))
    return list({id(part): sorted(part) for part in part_of.values()}.values())


def _shortened(names: Sequence[str], most: int = 8) -> str:
    """Return a list of names for a message, with the number of names left out."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _grouped(keys: Indices, values: Indices, sizes: Floats, count: int) -> tuple[Indices, Indices, Floats]:
    """Return starts, values and sizes of edges grouped by key and sorted within each group."""
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


def from_networkx(graph: nx.DiGraph, job_id: int | None = None, **options: Any) -> Job:
    """Create a job from a networkx graph.

    Parameters
    ----------
    graph : networkx.DiGraph
        Graph whose nodes have the attribute ``work``. ``num_tasks``, ``run_times`` (seconds on each executor),
        ``task_times``, ``eligible`` (names of executors), ``required_features``, ``demands`` and ``modes`` are
        optional; the first three must be given for all nodes or for none. Edges have the attribute ``size`` (default:
        0). A MultiDiGraph is accepted if no two edges join the same nodes in the same direction.
    job_id : int, optional
        Identifier of the job. Default: the graph's attribute ``job_id``, or 0.
    **options
        Arguments of :class:`Job`, unless attributes of the graph hold them: ``submission_time``, ``label``,
        ``allow_disconnected``.

    Returns
    -------
    Job
        Job whose nodes have the same names as in the graph.

    Raises
    ------
    WorkloadError
        If an attribute is missing, the graph is undirected, or the job is invalid.
    """
    job_id = graph.graph.get("job_id", 0) if job_id is None else job_id
    if not graph.is_directed():
        raise WorkloadError(f"job {job_id}: graph: got an undirected graph, expected a networkx.DiGraph")
    nodes = list(graph.nodes)
    columns: dict[str, Any] = {}
    for attribute in ("eligible", "required_features", "demands", "modes"):
        given = [graph.nodes[node].get(attribute) for node in nodes]
        columns[attribute] = None if all(each is None for each in given) else given
    for attribute in ("work", "run_times", "num_tasks", "task_times"):
        present = [node for node in nodes if attribute in graph.nodes[node]]
        wanted = present or attribute == "work"
        missing = [node for node in nodes if attribute not in graph.nodes[node]]
        if wanted and missing:
            raise WorkloadError(
                f"job {job_id}: node {missing[0]!r} has no attribute {attribute!r}; set it on every node"
            )
        columns[attribute] = [graph.nodes[node][attribute] for node in nodes] if present else None
    edges = [(parent, child, data.get("size", 0.0)) for parent, child, data in graph.edges(data=True)]
    position = {node: index for index, node in enumerate(nodes)}
    numbered = [(position[parent], position[child], size) for parent, child, size in edges]
    known = ("submission_time", "label", "allow_disconnected")
    settings = {key: graph.graph[key] for key in known if key in graph.graph}
    names = [str(node) for node in nodes]
    return Job(job_id, columns.pop("work"), numbered, names=names, **columns, **settings | options)


def to_networkx(job: Job) -> nx.DiGraph:
    """Convert a job to a networkx graph.

    Parameters
    ----------
    job : Job
        Job to convert.

    Returns
    -------
    networkx.DiGraph
        Graph with the attributes ``job_id``, ``submission_time`` and ``label``, and ``allow_disconnected`` if it has
        several components. Its nodes are keyed by name, in
        topological order, with the attributes ``work`` and ``num_tasks``, and ``run_times``, ``task_times``,
        ``eligible``, ``required_features``, ``demands`` and ``modes`` if the job has them. Its edges have the attribute
        ``size``.
    """
    import networkx as nx

    graph = nx.DiGraph(job_id=job.job_id, submission_time=job.submission_time, label=job.label)
    for node, name in enumerate(job.names):
        attributes: dict[str, Any] = {"work": job.work[node].item(), "num_tasks": job.num_tasks[node].item()}
        if job.run_times is not None:
            attributes["run_times"] = job.run_times[node].tolist()
        if job.task_times is not None:
            attributes["task_times"] = job.task_times[node]
        for attribute, sets in (("eligible", job.eligible), ("required_features", job.required_features)):
            found = None if sets is None else sets[node]
            if found is not None:
                attributes[attribute] = sorted(found)
        for attribute, values in (("demands", job.demands), ("modes", job.modes)):
            if values is not None and values[node] is not None:
                attributes[attribute] = values[node]
        graph.add_node(name, **attributes)
    for child, parents in enumerate(job.parent_lists):
        graph.add_edges_from((job.names[parent], job.names[child], {"size": size}) for parent, size in parents)
    if not nx.is_weakly_connected(graph):
        graph.graph["allow_disconnected"] = True
    return graph


# -- durations of single tasks ----------------------------------------------------------------------

#: What the executor of a task ran before it: nothing of the job, another stage of the job, or the same stage.
Wave = Literal["fresh", "first", "rest"]

# Substitutes for a wave without durations, nearest first, and whether to add the warm-up. As in Decima, fresh durations
# replace missing first ones before those of the rest do.
_SUBSTITUTES: dict[str, tuple[tuple[str, bool], ...]] = {
    "fresh": (("fresh", False), ("first_warm", True), ("rest", True)),
    "first": (("first_warm", False), ("fresh", False), ("rest", False)),
    "rest": (("rest", False), ("first_warm", False), ("fresh", False)),
}


class TaskTimes:
    """Measured durations of the tasks of one stage; immutable.

    A stage is run several times, each time with a different number of executors. The first task that an executor runs
    of a stage takes longer than later ones, and longest if the executor has not run any task of the job before.

    Parameters
    ----------
    executors : sequence of int
        Number of executors in each run, in ascending order.
    fresh : sequence of array_like
        Durations, in seconds and for each run, of tasks on executors that were new to the job. May be empty.
    first : sequence of array_like
        Durations, in seconds and for each run, of the first task of each executor. They include those of ``fresh``.
    rest : sequence of array_like
        Durations, in seconds and for each run, of all later tasks.
    warm_up : float
        Seconds that an executor needs to get ready for a job. They are added to other durations where no task on a new
        executor was measured.
    reference_speed : float
        Speed of the executors in the measurement: at speed v, a task takes ``reference_speed / v`` times as long.

    Attributes
    ----------
    executors : tuple of int
        As given.
    fresh, first, rest : tuple of numpy.ndarray
        As given, read-only.
    first_warm : tuple of numpy.ndarray
        Values of ``first`` without those of ``fresh``, counted with multiplicity.
    warm_up, reference_speed : float
        As given.

    Raises
    ------
    WorkloadError
        If there are no durations, a duration is negative or not finite, a value of ``fresh`` is missing from ``first``,
        or ``executors`` are not ascending integers of at least 1. The message names the wave and the run.

    Notes
    -----
    Task durations are sampled as in Decima's simulator (H. Mao et al., "Learning scheduling algorithms for data
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
            raise WorkloadError(
                f"task times: executors: got {self.executors}, expected at least one number, in ascending order"
            )
        self.fresh = self._lists("fresh", fresh)
        self.first = self._lists("first", first)
        self.rest = self._lists("rest", rest)
        if not any(map(len, (*self.first, *self.rest))):
            raise WorkloadError("task times: first and rest hold no durations, expected at least one")
        self.warm_up = numbers("task times: warm_up", warm_up, least=0, error=WorkloadError).item()
        self.reference_speed = numbers(
            "task times: reference_speed", reference_speed, above=0, error=WorkloadError
        ).item()
        self.first_warm = tuple(map(_without, self.executors, self.first, self.fresh))
        # Separate lists because a draw then looks up a number, which is faster than a pair in a list of pairs.
        self._values: dict[str, list[Floats]] = {}
        self._added: dict[str, list[float]] = {}
        for wave, substitutes in _SUBSTITUTES.items():
            self._values[wave], self._added[wave] = map(list, zip(*self._pools_of(substitutes), strict=True))

    def _lists(self, wave: str, lists: Sequence[ArrayLike]) -> tuple[Floats, ...]:
        if len(lists) != len(self.executors):
            raise WorkloadError(
                f"task times: {wave}: got {len(lists)} lists, expected {len(self.executors)}, one per run"
            )
        names = [f"task times: {wave} with {count} executors" for count in self.executors]
        pairs = zip(names, lists, strict=True)
        return tuple(numbers(name, values, shape=(None,), least=0, error=WorkloadError) for name, values in pairs)

    def _pools_of(self, substitutes: tuple[tuple[str, bool], ...]) -> list[tuple[Floats, float]]:
        """Return, per run, the durations to sample for a wave and the seconds to add (nearest run if it has none)."""
        known: dict[int, tuple[Floats, float]] = {}
        for run, count in enumerate(self.executors):
            for name, is_warm in reversed(substitutes):
                values = getattr(self, name)[run]
                if len(values):
                    known[count] = values, self.warm_up if is_warm else 0.0
        return [known[min(known, key=lambda other: abs(count - other))] for count in self.executors]

    def draw(self, rng: Generator, wave: Wave, num_executors: float) -> float:
        """Sample the duration of a task.

        Parameters
        ----------
        rng : numpy.random.Generator
            Random number generator.
        wave : {"fresh", "first", "rest"}
            State of the executor: new to the job, new to the stage but not to the job, or just done with another task
            of the stage. A wave without durations is replaced within its run: fresh by first plus warm-up, then by rest
            plus warm-up; first by fresh, then by rest; rest by first, then by fresh. A run without any durations is
            replaced by the nearest run; of two equally near runs, by the one with fewer executors.
        num_executors : float
            Number of executors that work on the job. Between two measured numbers, one of them is sampled, with a
            probability that falls linearly with the distance. Outside the measured range, the nearest number is used.

        Returns
        -------
        float
            Duration in seconds at the reference speed.
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
        # Faster than rng.integers or rng.choice; even after rounding, the product is below the length.
        return values.item(int(rng.random() * len(values))) + self._added[wave][run]

    def mean(self) -> float:
        """Return the mean duration of all tasks, in seconds at the reference speed."""
        lists = [np.concatenate(pair) for pair in zip(self.first, self.rest, strict=True)]
        return sum(float(values.sum()) for values in lists) / sum(map(len, lists))

    def __repr__(self) -> str:
        """Return the number of durations and the range of executors."""
        count = sum(map(len, (*self.first, *self.rest)))
        return f"<TaskTimes: {count} durations with {self.executors[0]} to {self.executors[-1]} executors>"


def _without(count: int, first: Floats, fresh: Floats) -> Floats:
    """Return the first durations that are not among the fresh ones, in their order."""
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
            f"task times: with {count} executors, fresh holds the duration {missing!r} more often than first; "
            "expected first to include all durations of fresh"
        )
    array = np.array(kept, dtype=np.float64)
    array.flags.writeable = False
    return array
