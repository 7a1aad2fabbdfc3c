"""Encoders for graph networks: the jobs in the system as graphs, and the ready nodes as candidates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.checks import check_action
from desim.envs.base import ACTION_MASK, LARGEST, Arrays, bounded, log_scaled
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import means_where_eligible
from desim.problems.dag.observation import Assign, DagObservation
from desim.problems.dag.state import JobState

__all__ = [
    "CANDIDATE_FEATURES",
    "FIXED_FEATURES",
    "JOB_FEATURES",
    "PROMPT",
    "SOON",
    "SYSTEM_GRAPH_FEATURES",
    "GraphAllocate",
    "GraphEncoder",
    "GraphSizes",
    "JobGraph",
    "JobProgress",
    "Node",
    "Offer",
    "PerJob",
    "SystemGraph",
    "assignments_of",
    "describe_candidates",
    "describe_progress",
    "describe_system",
    "offer_of",
    "placeable",
    "unit_of",
]

Floats = NDArray[np.float64]
Made = TypeVar("Made")

Node = tuple[JobState, int]
"""Job and number of one of its nodes."""

FIXED_FEATURES = ("run_time", "incoming_time", "outgoing_time", "upward_rank", "downward_rank", "children")
"""Columns of ``JobGraph.nodes``."""

JOB_FEATURES = ("unassigned_nodes", "running_nodes", "unassigned_time", "critical_time", "age")
"""Columns of ``jobs``, log-scaled: numbers of nodes; mean run times of the nodes without an executor, as a sum and
along the longest path with its transfers; and the time since the submission."""

SYSTEM_GRAPH_FEATURES = (
    "jobs",
    "candidates",
    "hidden_candidates",
    "prompt_candidates",
    "least_delay",
    "idle_executors",
    "time_to_next_idle",
    "mean_backlog",
    "longest_backlog",
    "time_left",
    "critical_time",
    "waiting_is_possible",
)
"""Entries of ``system``. Log-scaled: numbers of jobs and candidates, the last one counting candidates that no busy
executor would finish sooner; the time until another executor is idle, the mean and the longest time until an executor
is idle, the mean run times of all nodes without an executor over the number of executors, and the longest path of all
jobs. Not log-scaled: the least delay of a candidate, and the share of idle executors."""

CANDIDATE_FEATURES = (
    "finish_time",
    "usable_finish_time",
    "delay",
    "run_time",
    "waiting_for_data",
    "before_by_rank",
    "before_by_work",
    "rank_ratio",
    "work_ratio",
)
"""Columns of ``candidates``: the earliest finish from now on any executor and on a usable one, log-scaled; the
logarithm of their ratio (the delay), up to 3; run time and time until all data have arrived on the best usable
executor, log-scaled; the number of candidates with a higher upward rank and no delay, and of those whose job has less
work left and that have little delay, log-scaled; the logarithms of the ratio to the highest rank and to the least
work."""

MOST_DELAY = 3.0
"""Largest logarithm of a ratio; larger ones are clipped."""

PROMPT, SOON = 1e-6, 0.3
"""Largest delays that count as none and as little; at 0.3, the finish time is 1.35 times the earliest one."""

TENTH = 0.1
"""Unit of relative times, in mean run times of a node; it spreads their logarithms."""

_TO_RANK = 0.01
"""Weight of a second of rank relative to a second of work; it orders the nodes within a job."""

_DELAY = CANDIDATE_FEATURES.index("delay")
_COMPUTED = [0, 1, 4, 3, 5, 6, 2, 7, 8]
"""Positions of the candidate features, in the order in which they are computed."""


class JobProgress(NamedTuple):
    """Progress of a job: number of nodes without an executor, their total mean run time and longest path (seconds)."""

    unassigned: int
    time: float
    critical: float


class JobGraph:
    """Static features of a job's graph.

    A node has its mean run time over its eligible executors, and an edge its mean transfer time over all pairs of
    different executors, as for the ranks of HEFT (Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, section 4).

    Parameters
    ----------
    state : JobState
        State of the job.
    executors : Executors
        Executors of the cluster.
    relative : bool
        Whether features count times in tenths of the job's mean run time of a node, instead of seconds.

    Attributes
    ----------
    nodes : array of float, shape (num_nodes, 6)
        Node features :data:`FIXED_FEATURES`, log-scaled.
    node_bytes : list of bytes
        Rows of ``nodes`` as bytes.
    run_times, upward_rank : array of float, shape (num_nodes,)
        Mean run times, and upward ranks (longest paths to the end), in seconds.
    """

    def __init__(self, state: JobState, executors: Executors, *, relative: bool = False) -> None:
        job = state.job
        self.run_times: Floats = means_where_eligible(job.run_times_on(executors))
        latency, per_unit = executors.mean_latency, executors.mean_seconds_per_unit
        times = self.run_times.tolist()
        incoming, outgoing = ([0.0] * job.num_nodes for _ in range(2))
        below, above = ([0.0] * job.num_nodes for _ in range(2))
        children = job.child_lists
        for node in range(job.num_nodes - 1, -1, -1):
            longest = 0.0
            for child, size in children[node]:
                seconds = latency + size * per_unit
                longest = max(longest, seconds + below[child])
                outgoing[node] += seconds / len(children[node])
                incoming[child] += seconds / len(job.parent_lists[child])
            below[node] = times[node] + longest
        for node, edges in enumerate(children):
            for child, size in edges:
                above[child] = max(above[child], above[node] + times[node] + latency + size * per_unit)
        self.upward_rank: Floats = np.array(below)
        counts = [len(edges) for edges in children]
        self._unit = unit_of([self]) if relative else 1.0
        seconds_of = np.array([times, incoming, outgoing, below, above]) / self._unit
        self.nodes = log_scaled(np.concatenate([seconds_of, [counts]]).T).astype(np.float32)
        self.node_bytes = [row.tobytes() for row in self.nodes]
        self._job, self._latency, self._per_unit = job, latency, per_unit
        self._seen = b""
        self._progress = JobProgress(0, 0.0, 0.0)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Parent and child of each edge, shape (num_edges, 2)."""
        job = self._job
        parents = np.repeat(np.arange(job.num_nodes), np.diff(job.child_start))
        return np.stack([parents, job.child_index], axis=1)

    @cached_property
    def edge_times(self) -> Features:
        """Mean transfer times, log-scaled, shape (num_edges,)."""
        seconds = self._latency + self._job.child_size * self._per_unit
        times: Features = log_scaled(seconds / self._unit).astype(np.float32)
        return times

    @cached_property
    def key(self) -> int:
        """Hash of the graph; equal for graphs with the same numbers."""
        digest = hashlib.blake2b(digest_size=8)
        for array in (self.nodes, self.edges, self.edge_times):
            digest.update(array.tobytes())
        return int.from_bytes(digest.digest(), "little") >> 1

    def progress(self, assigned: NDArray[np.bool_]) -> JobProgress:
        """Return the progress of the job; the same object as before if nothing has changed.

        Parameters
        ----------
        assigned : array of bool, shape (num_nodes,)
            Whether each node has an executor.
        """
        seen = assigned.tobytes()
        if seen != self._seen:
            left = ~assigned
            times = self.run_times[left]
            self._seen = seen
            self._progress = JobProgress(len(times), float(times.sum()), float(self.upward_rank[left].max(initial=0.0)))
        return self._progress


def unit_of(graphs: Sequence[JobGraph]) -> float:
    """Return a tenth of the mean run time of the nodes of jobs in seconds; 1 if they take no time.

    Parameters
    ----------
    graphs : sequence of JobGraph
        Graphs of the jobs.
    """
    count = sum(len(graph.run_times) for graph in graphs)
    return TENTH * sum(float(graph.run_times.sum()) for graph in graphs) / max(count, 1) or 1.0


class PerJob(Generic[Made]):
    """Cache of one object per job in the system, which is dropped together with the job.

    Parameters
    ----------
    make : callable
        Function that makes the object from a job and the executors.
    """

    def __init__(self, make: Callable[[JobState, Executors], Made]) -> None:
        self._make = make
        self._known: WeakKeyDictionary[JobState, Made] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type[PerJob[Made]], tuple[Callable[[JobState, Executors], Made]]]:
        """Return a recipe without the cached objects, for copies and other processes."""
        return PerJob, (self._make,)

    def of(self, state: JobState, executors: Executors) -> Made:
        """Return the cached object of a job.

        Parameters
        ----------
        state : JobState
            State of the job.
        executors : Executors
            Executors of the cluster.
        """
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self._make(state, executors)
        return found


def describe_progress(
    progress: Sequence[JobProgress], unfinished: Sequence[int], ages: Floats, unit: float = 1.0
) -> NDArray[np.float32]:
    """Return :data:`JOB_FEATURES`, shape (j, 5).

    Parameters
    ----------
    progress : sequence of JobProgress
        Progress of the jobs.
    unfinished : sequence of int
        Number of unfinished nodes of each job.
    ages : array of float, shape (j,)
        Time since the submission of each job, in seconds.
    unit : float
        Unit of the features' times, in seconds.

    Returns
    -------
    array of float, shape (j, 5)
        Log-scaled features.
    """
    told = zip(progress, unfinished, ages.tolist(), strict=True)
    rows = [
        (one.unassigned, left - one.unassigned, one.time / unit, one.critical / unit, age / unit)
        for one, left, age in told
    ]
    result: NDArray[np.float32] = log_scaled(np.array(rows).reshape(-1, len(JOB_FEATURES))).astype(np.float32)
    return result


def describe_system(
    observation: DagObservation,
    available: Floats,
    idle: NDArray[np.bool_],
    progress: Sequence[JobProgress],
    candidates: NDArray[np.float32],
    *,
    unit: float = 1.0,
) -> NDArray[np.float32]:
    """Return :data:`SYSTEM_GRAPH_FEATURES`, shape (12,).

    Parameters
    ----------
    observation : DagObservation
        Observation at a decision.
    available : array of float, shape (num_executors,)
        Time at which each executor is free, in seconds; infinite if it is down.
    idle : array of bool, shape (num_executors,)
        Whether each executor is idle.
    progress : sequence of JobProgress
        Progress of the jobs.
    candidates : array of float, shape (c, 9)
        Features of the encoded ready nodes, see :func:`describe_candidates`.
    unit : float
        Unit of the features' times, in seconds.

    Returns
    -------
    array of float, shape (12,)
        Features; counts and times are log-scaled.
    """
    hidden = max(len(observation.ready) - len(candidates), 0)
    delays = candidates[:, _DELAY]
    next_idle = float(available[~idle].min(initial=np.inf)) - observation.time
    backlog = np.maximum(available[available < np.inf] - observation.time, 0.0)
    backlogs = float(backlog.sum()) / max(len(backlog), 1), float(backlog.max(initial=0.0))
    left = sum(one.time for one in progress) / len(available)
    critical = max((one.critical for one in progress), default=0.0)
    counts = len(progress), len(candidates), hidden, int(np.count_nonzero(delays <= PROMPT))
    times = np.array((next_idle, *backlogs, left, critical)) / unit
    numbers = log_scaled((*counts, *times.tolist())).tolist()
    others = float(delays.min(initial=MOST_DELAY)), np.count_nonzero(idle) / len(available)
    return np.array([*numbers[:4], *others, *numbers[4:], next_idle < np.inf], np.float32)


class Offer(NamedTuple):
    """Ready nodes that may be assigned, c of them, and executors that may take them.

    Attributes
    ----------
    nodes : list of (JobState, int)
        Ready nodes.
    available : array of float, shape (num_executors,), or (c, num_executors) on pools
        Time from which each executor is available, in seconds; infinite if it is down. On pools, the present if the
        node fits, otherwise the time at which everything assigned has run.
    usable : array of bool, of the same shape
        Whether the executor may take a node now.
    idle : array of bool, shape (num_executors,)
        Whether each executor is idle; on pools, whether it is empty or a node fits.
    """

    nodes: list[Node]
    available: Floats
    usable: NDArray[np.bool_]
    idle: NDArray[np.bool_]

    def times(self, place: int) -> Floats:
        """Return when each executor is available for the node at a place; infinite if it must not take it.

        Parameters
        ----------
        place : int
            Index in ``nodes``.
        """
        available, usable = self.available, self.usable
        if usable.ndim > 1:
            available, usable = available[place], usable[place]
        return np.where(usable, available, np.inf)


def offer_of(observation: DagObservation, nodes: list[Node], *, only_idle: bool) -> Offer:
    """Return which nodes may be assigned, and where.

    Parameters
    ----------
    observation : DagObservation
        Observation at a decision.
    nodes : list of (JobState, int)
        Ready nodes.
    only_idle : bool
        Whether nodes wait until an executor is idle. On pools, a node then waits until it fits and all of its data have
        arrived, and nodes that do not fit are left out. If the pools are empty, it only waits for its data, as no
        decision follows their arrival.

    Returns
    -------
    Offer
        All nodes, or on pools with ``only_idle`` those that fit.
    """
    available, time = observation.available_times, observation.time
    idle = available <= time
    if not only_idle or not observation.executors.resources:
        return Offer(nodes, available, idle if only_idle else available < np.inf, idle)
    usable = np.array([observation.fits(*node) for node in nodes], np.bool_).reshape(len(nodes), len(available))
    if not usable.any() and not any(queue.running or queue.waiting for queue in observation.executor_queues.values()):
        run_times = np.array([state.run_times[node] for state, node in nodes]).reshape(usable.shape)
        usable = (run_times < np.inf) & (available < np.inf)
    kept = np.flatnonzero(usable.any(axis=1))
    nodes, usable = [nodes[place] for place in kept.tolist()], usable[kept]
    return Offer(nodes, np.where(usable, time, available), usable, idle | usable.any(axis=0))


def placeable(nodes: Sequence[Node], available: Floats) -> NDArray[np.bool_]:
    """Return whether some available executor may run each node.

    Parameters
    ----------
    nodes : sequence of (JobState, int)
        Ready nodes, c of them.
    available : array of float, shape (num_executors,)
        Time at which each executor is free, in seconds; infinite for executors that must not be used.

    Returns
    -------
    array of bool, shape (c,)
        Whether each node can be assigned.
    """
    usable = available < np.inf
    if not any(state.is_restricted for state, _ in nodes):
        return np.full(len(nodes), bool(usable.any()))
    return np.array([bool((state.run_times[node][usable] < np.inf).any()) for state, node in nodes], np.bool_)


def describe_candidates(
    nodes: Sequence[Node],
    ranks: Floats,
    work: Floats,
    available: Floats,
    *,
    usable: NDArray[np.bool_],
    time: float,
    unit: float = 1.0,
) -> NDArray[np.float32]:
    """Return :data:`CANDIDATE_FEATURES`.

    Parameters
    ----------
    nodes : sequence of (JobState, int)
        Ready nodes, c of them.
    ranks : array of float, shape (c,)
        Upward rank of each node, in seconds.
    work : array of float, shape (c,)
        Total mean run time of the nodes of its job that have no executor yet, in seconds.
    available : array of float, shape (num_executors,) or (c, num_executors)
        Time at which each executor is free, in seconds, for all nodes or for each; infinite if it is down.
    usable : array of bool, of the same shape
        Whether nodes may be assigned to each executor.
    time : float
        Current time in seconds.
    unit : float
        Unit of the features' times, in seconds.

    Returns
    -------
    array of float, shape (c, 9)
        Features. If a node may run on no usable executor, the best one of all is used instead of the best usable one.
    """
    count, wide = len(nodes), available.shape[-1]
    if not count:
        return np.empty((0, len(CANDIDATE_FEATURES)), np.float32)
    ready = np.concatenate([state.ready_times(node) for state, node in nodes])
    run_times = np.concatenate([state.run_times[node] for state, node in nodes])
    finish = np.maximum(ready.reshape(count, wide), available)
    finish += run_times.reshape(count, wide)
    earliest = finish.min(axis=1)
    if usable.ndim > 1:
        chosen = np.where(usable, finish, np.inf).argmin(axis=1)
    else:
        columns = np.flatnonzero(usable)
        chosen = columns[finish[:, columns].argmin(axis=1)] if len(columns) else finish.argmin(axis=1)
    unusable = finish[np.arange(count), chosen] == np.inf
    if unusable.any():
        chosen[unusable] = finish[unusable].argmin(axis=1)
    chosen += np.arange(0, count * wide, wide)  # now positions in the flat arrays
    table = np.empty((len(CANDIDATE_FEATURES), len(nodes)))  # in the order of _COMPUTED, log-scaled features first
    table[0], table[1] = earliest, finish.take(chosen)
    table[2] = ready.take(chosen)
    table[:3] -= time
    np.maximum(table[:3], 0.0, out=table[:3])
    table[3] = run_times.take(chosen)
    table[:4] /= unit
    with np.errstate(invalid="ignore"):  # nodes whose only executors are down
        ratios = np.log((table[1] + 1.0) / (table[0] + 1.0))
    table[6] = delay = np.fmin(ratios, MOST_DELAY)  # fmin turns NaN into MOST_DELAY
    table[4] = _before(-ranks, delay <= PROMPT)
    table[5] = _before(work - _TO_RANK * ranks, delay <= SOON)
    table[:6] = log_scaled(table[:6])
    ranks, work = ranks / unit, work / unit
    table[7] = np.maximum(np.log((ranks + 1.0) / (ranks.max(initial=0.0) + 1.0)), -MOST_DELAY)
    table[8] = np.minimum(np.log((work + 1.0) / (work.min(initial=np.inf) + 1.0)), MOST_DELAY)
    result = np.empty((len(nodes), len(CANDIDATE_FEATURES)), np.float32)
    result.T[_COMPUTED] = table
    return result


def _before(keys: Floats, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each key, how many counted ones are smaller."""
    return np.searchsorted(np.sort(keys[counted]), keys)


# -- the encoder ---------------------------------------------------------------------------------

Features = NDArray[np.float32]
IntArray = NDArray[np.int64]

GraphAllocate = Callable[[DagObservation, JobState, int, NDArray[np.float64]], Assign | None]
"""Function (observation, job, node, available times) that returns an assignment of the node, or None."""


@dataclass(frozen=True)
class GraphSizes:
    """Sizes of padded arrays.

    Parameters
    ----------
    jobs : int
        Number of jobs, J.
    nodes : int
        Number of nodes of a job, N.
    edges : int
        Number of edges of a job, E.
    candidates : int
        Number of ready nodes, C.

    Raises
    ------
    InvalidConfiguration
        If a number is less than 1, or that of the edges less than 0.
    """

    jobs: int = 24
    nodes: int = 18
    edges: int = 24
    candidates: int = 64

    def __post_init__(self) -> None:
        """Raise an error if a number is out of range."""
        if not (self.jobs >= 1 and self.nodes >= 1 and self.edges >= 0 and self.candidates >= 1):
            raise InvalidConfiguration(f"sizes: got {self!r}, expected at least 1 each, and edges >= 0")


@dataclass(frozen=True)
class SystemGraph:
    """Graph of j jobs in the system with n nodes and e edges in total, c of the nodes being candidates.

    Attributes
    ----------
    job_start : array of int, shape (j + 1,)
        First node of each job: job k has the nodes ``job_start[k]`` up to, but not including, ``job_start[k + 1]``, in
        topological order.
    edge_start : array of int, shape (j + 1,)
        First edge of each job, in the same way.
    keys : array of int, shape (j,)
        Hash of each job's static features; equal for jobs with the same numbers.
    nodes : array of float, shape (n, F)
        Static node features.
    edges : array of int, shape (e, 2)
        Parent and child of each edge, as rows of ``nodes``.
    edge_times : array of float, shape (e,)
        Mean transfer time of each edge, log-scaled.
    unassigned : array of bool, shape (n,)
        Whether each node has no executor yet.
    jobs : array of float, shape (j, G)
        Progress features of the jobs.
    candidate_nodes : array of int, shape (c,)
        Ready nodes, as rows of ``nodes``.
    candidates : array of float, shape (c, K)
        Features of the candidates.
    system : array of float, shape (S,)
        Features of the system as a whole.
    """

    job_start: IntArray
    edge_start: IntArray
    keys: IntArray
    nodes: Features
    edges: IntArray
    edge_times: Features
    unassigned: NDArray[np.bool_]
    jobs: Features
    candidate_nodes: IntArray
    candidates: Features
    system: Features

    @property
    def job_of_node(self) -> IntArray:
        """Index of each node's job, shape (n,)."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.job_start))


class _Joined:
    """Graphs of the jobs in the system joined to one; rebuilt when the jobs change."""

    def __init__(self) -> None:
        self._states: list[JobState] = []
        self.graphs: list[JobGraph] = []
        self.place: dict[JobState, int] = {}
        self._arrays: Arrays = {}
        self.padded: Arrays = {}

    def __reduce__(self) -> tuple[type[_Joined], tuple[()]]:
        """Return a recipe without the cached arrays, for copies and other processes."""
        return _Joined, ()

    def of(self, states: list[JobState], graph_of: Callable[[JobState], JobGraph]) -> Arrays:
        """Return the static arrays of the joined graph, by name."""
        if states != self._states or not self._arrays:
            self.graphs = graphs = [graph_of(state) for state in states]
            self.place = {state: number for number, state in enumerate(states)}
            job_start = _starts([len(graph.nodes) for graph in graphs])
            edges = [graph.edges + begin for graph, begin in zip(graphs, job_start[:-1].tolist(), strict=True)]
            width = len(FIXED_FEATURES)
            self._states, self.padded = states, {}
            self._arrays = {
                "job_start": job_start,
                "edge_start": _starts([len(graph.edges) for graph in graphs]),
                "keys": np.array([graph.key for graph in graphs], np.int64),
                "nodes": np.concatenate([np.zeros((0, width), np.float32), *(graph.nodes for graph in graphs)]),
                "edges": np.concatenate([np.zeros((0, 2), np.int64), *edges]),
                "edge_times": np.concatenate([np.zeros(0, np.float32), *(graph.edge_times for graph in graphs)]),
            }
        return self._arrays


class GraphEncoder:
    """Encoder of jobs as graphs and of ready nodes as candidates; an action chooses a candidate.

    Action i in 0 to C - 1 assigns the i-th candidate to the executor that the allocation chooses. As in the paper, a
    node is assigned as soon as it is ready, even if all executors are busy. With ``only_idle``, it is assigned only to
    an idle executor, and action C waits for the next event, which is feasible while an executor is busy.

    Parameters
    ----------
    allocation : callable
        Function that chooses the executor, such as ``desim.agents.dag.DEFT().allocate``.
    only_idle : bool
        Whether nodes wait until an executor is idle.
    sizes : GraphSizes
        Sizes of the arrays. Jobs and ready nodes in excess are left out, keeping the first ones.
    relative : bool
        Whether features count times in tenths of the mean run time of a node, instead of seconds: of its job for a
        node, of all jobs in the system otherwise. The features then do not depend on the unit of time.
    """

    def __init__(
        self,
        allocation: GraphAllocate,
        *,
        only_idle: bool = True,
        sizes: GraphSizes | None = None,
        relative: bool = False,
    ) -> None:
        self.allocation = allocation
        self.only_idle = only_idle
        self.relative = relative
        self.sizes = sizes = GraphSizes() if sizes is None else sizes
        self.graphs = PerJob(partial(JobGraph, relative=relative))
        self._joined = _Joined()
        jobs, nodes, edges, candidates = sizes.jobs, sizes.nodes, sizes.edges, sizes.candidates
        actions = candidates + only_idle
        box = gymnasium.spaces.Box
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(actions)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "keys": box(0, np.iinfo(np.int64).max, (jobs,), np.int64),
                "nodes": bounded((jobs, nodes, len(FIXED_FEATURES))),
                "edges": box(-1, nodes, (jobs, edges, 2), np.int16),
                "edge_times": bounded((jobs, edges)),
                "unassigned": box(0, 1, (jobs, nodes), np.int8),
                "present": box(0, 1, (jobs, nodes), np.int8),
                "jobs": bounded((jobs, len(JOB_FEATURES))),
                "candidate_nodes": box(-1, max(jobs, nodes), (candidates, 2), np.int16),
                "candidates": bounded((candidates, len(CANDIDATE_FEATURES)), -LARGEST),
                "system": bounded((len(SYSTEM_GRAPH_FEATURES),)),
                ACTION_MASK: box(0, 1, (actions,), np.int8),
            }
        )

    def shown(self, observation: DagObservation) -> tuple[list[JobState], Offer]:
        """Return the jobs and the ready nodes that fit into the arrays, in order.

        Parameters
        ----------
        observation : DagObservation
            Observation at a decision.

        Returns
        -------
        tuple of list of JobState and Offer
            Jobs and ready nodes. If not all jobs fit, those with a ready node come first.
        """
        states, nodes = list(observation.jobs.values()), list(observation.ready.values())
        room = self.sizes.jobs
        if len(states) > room:
            useful = {state for state, _ in nodes}  # never iterated, so order is irrelevant
            states = sorted(states, key=lambda state: state not in useful)[:room]
            kept = set(states)
            nodes = [node for node in nodes if node[0] in kept]
        return states, offer_of(observation, nodes[: self.sizes.candidates], only_idle=self.only_idle)

    def graph(self, observation: DagObservation) -> SystemGraph:
        """Return the observation as one graph.

        Parameters
        ----------
        observation : DagObservation
            Observation at a decision.

        Returns
        -------
        SystemGraph
            Graph of the jobs that fit into the arrays.
        """
        states, offer = self.shown(observation)
        time, executors, nodes = observation.time, observation.executors, offer.nodes
        same = self._joined.of(states, lambda state: self.graphs.of(state, executors))
        graphs, place = self._joined.graphs, self._joined.place
        assigned = [state.assigned for state in states]
        progress = [graph.progress(done) for graph, done in zip(graphs, assigned, strict=True)]
        unfinished = [state.num_unfinished for state in states]
        ages = np.array([time - state.job.submission_time for state in states])
        places = [place[state] for state, _ in nodes]
        ranks = np.array([graphs[at].upward_rank[node] for at, (_, node) in zip(places, nodes, strict=True)])
        work = np.array([progress[at].time for at in places])
        unit = unit_of(graphs) if self.relative else 1.0
        candidates = describe_candidates(nodes, ranks, work, offer.available, usable=offer.usable, time=time, unit=unit)
        offsets = same["job_start"][places] if places else np.zeros(0, np.int64)
        return SystemGraph(
            **same,
            unassigned=~np.concatenate([np.zeros(0, np.bool_), *assigned]),
            jobs=describe_progress(progress, unfinished, ages, unit),
            candidate_nodes=offsets + np.array([node for _, node in nodes], np.int64),
            candidates=candidates,
            system=describe_system(
                observation, observation.available_times, offer.idle, progress, candidates, unit=unit
            ),
        )

    def encode(self, observation: DagObservation) -> Arrays:
        """Return the observation as arrays of constant shapes, with the action mask.

        Parameters
        ----------
        observation : DagObservation
            Observation at a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays ``keys`` (J,), ``nodes`` (J, N, F), ``edges`` (J, E, 2) with node numbers within the job,
            ``edge_times`` (J, E), ``present`` and ``unassigned`` (J, N), ``jobs`` (J, G), ``candidate_nodes`` (C, 2)
            with job and node, ``candidates`` (C, K), ``system`` (S,). Empty entries are 0, and -1 in ``edges`` and
            ``candidate_nodes``. The columns are :data:`FIXED_FEATURES`, :data:`JOB_FEATURES`,
            :data:`CANDIDATE_FEATURES`, and :data:`SYSTEM_GRAPH_FEATURES`.

        Raises
        ------
        InvalidConfiguration
            If a job has more nodes or edges than fit.
        """
        graph = self.graph(observation)
        joined = self._joined
        if not joined.padded:
            joined.padded = _padded_jobs(graph, self.sizes)
        arrays: Arrays = {name: array.copy() for name, array in joined.padded.items()}
        arrays |= _padded_progress(graph, self.sizes)
        mask = np.zeros(self.sizes.candidates + self.only_idle, np.int8)
        if not self.is_forced(observation):
            mask[: len(graph.candidates)] = self._placeable(self.shown(observation)[1])
        if self.only_idle:
            mask[-1] = graph.system[-1] > 0
        if not mask.any():
            mask[-1 if self.only_idle else 0] = 1
        arrays[ACTION_MASK] = mask
        return arrays

    def is_forced(self, observation: DagObservation) -> bool:
        """Return whether no usable executor may run a node, so that the agent can only wait.

        Parameters
        ----------
        observation : DagObservation
            Observation at a decision.
        """
        on_pools = bool(self.only_idle and observation.executors.resources)
        soonest = observation.available_times.min()
        if soonest == np.inf or (soonest > observation.time and self.only_idle and not on_pools):
            return True
        if not on_pools and not any(state.is_restricted for state in observation.jobs.values()):
            return False
        return not self._placeable(self.shown(observation)[1]).any()

    @staticmethod
    def _placeable(offer: Offer) -> NDArray[np.bool_]:
        """Return whether each node can be assigned."""
        if offer.usable.ndim > 1:
            return np.ones(len(offer.nodes), np.bool_)
        return placeable(offer.nodes, offer.times(0))

    def decode(self, observation: DagObservation, action: Any) -> tuple[Assign | None, bool]:
        """Return the assignment that an action stands for, and whether the action is feasible.

        Parameters
        ----------
        observation : DagObservation
            Observation that was encoded.
        action : int
            Index of a candidate, or C to wait.

        Returns
        -------
        tuple of (Assign or None) and bool
            Assignment, and whether the action is feasible. An infeasible action waits.

        Raises
        ------
        InvalidConfiguration
            If the action is out of range.
        """
        number = check_action(action, self.sizes.candidates + self.only_idle)
        if self.is_forced(observation):
            return None, number == (self.sizes.candidates if self.only_idle else 0)
        available = observation.available_times
        if self.only_idle and number == self.sizes.candidates:
            return None, bool(((available > observation.time) & (available < np.inf)).any())
        offer = self.shown(observation)[1]
        if number >= len(offer.nodes):
            return None, False
        assignment = self.allocation(observation, *offer.nodes[number], offer.times(number))
        return assignment, assignment is not None

    def encode_action(self, observation: DagObservation, answer: Any) -> int | None:
        """Return the action that is closest to an agent's answer.

        An action only names a node. From a list of assignments, those come first whose executor the allocation would
        choose as well, and among these the node with the highest upward rank. Otherwise a network would have to learn
        an arbitrary order, such as that of the executors.

        Parameters
        ----------
        observation : DagObservation
            Observation that the agent decided on.
        answer : object
            Answer of the agent.

        Returns
        -------
        int or None
            Action; C if the agent waits and ``only_idle`` is set. None if no action can express the answer: waiting
            without ``only_idle``, or assignments only of nodes that are not encoded, such as duplicates.
        """
        assignments = assignments_of(answer)
        if not assignments:
            return self.sizes.candidates if self.only_idle else None
        nodes = self.shown(observation)[1].nodes
        places = {(state.job.job_id, node): at for at, (state, node) in enumerate(nodes)}
        told = [(places[one[:2]], one.executor) for one in assignments if one[:2] in places]

        def key(one: tuple[int, int]) -> tuple[bool, float]:
            """Return the sort key of an action; the smallest comes first."""
            (state, node), (meant, _) = nodes[one[0]], self.decode(observation, one[0])
            agrees = meant is not None and meant.executor == one[1]
            return not agrees, -float(self.graphs.of(state, observation.executors).upward_rank[node])

        return min(told, key=key)[0] if told else None


def assignments_of(answer: Any) -> list[Assign]:
    """Return the assignments in an agent's answer: one, several, or none if it waits.

    Parameters
    ----------
    answer : Assign, sequence of (Assign or None), or None
        Answer of the agent.
    """
    answers = [answer] if answer is None or isinstance(answer, Assign) else answer
    return [one for one in answers if one is not None]


def _starts(counts: list[int]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _padded_jobs(graph: SystemGraph, sizes: GraphSizes) -> dict[str, NDArray[Any]]:
    """Return the padded arrays that do not change while the same jobs are in the system."""
    counts, edge_counts = np.diff(graph.job_start), np.diff(graph.edge_start)
    num_nodes, num_edges = int(counts.max(initial=0)), int(edge_counts.max(initial=0))
    if len(counts) > sizes.jobs or num_nodes > sizes.nodes or num_edges > sizes.edges:
        raise InvalidConfiguration(
            f"got {len(counts)} jobs with up to {num_nodes} nodes and {num_edges} edges, expected at most {sizes!r}"
        )
    job, edge_job = graph.job_of_node, np.repeat(np.arange(len(counts)), edge_counts)
    place = np.arange(len(graph.nodes)) - graph.job_start[job]
    edge_place = np.arange(len(graph.edges)) - graph.edge_start[edge_job]
    arrays: dict[str, NDArray[Any]] = {
        "keys": np.zeros(sizes.jobs, np.int64),
        "nodes": np.zeros((sizes.jobs, sizes.nodes, graph.nodes.shape[1]), np.float32),
        "edges": np.full((sizes.jobs, sizes.edges, 2), -1, np.int16),
        "edge_times": np.zeros((sizes.jobs, sizes.edges), np.float32),
        "present": np.zeros((sizes.jobs, sizes.nodes), np.int8),
    }
    arrays["keys"][: len(counts)] = graph.keys
    arrays["nodes"][job, place] = graph.nodes
    arrays["present"][job, place] = 1
    arrays["edges"][edge_job, edge_place] = graph.edges - graph.job_start[edge_job, None]
    arrays["edge_times"][edge_job, edge_place] = graph.edge_times
    return arrays


def _padded_progress(graph: SystemGraph, sizes: GraphSizes) -> dict[str, NDArray[Any]]:
    """Return the padded arrays that change from decision to decision."""
    count = len(graph.candidates)
    if count > sizes.candidates:
        raise InvalidConfiguration(f"sizes: got {count} candidates, expected at most {sizes!r}")
    arrays: dict[str, NDArray[Any]] = {
        "unassigned": np.zeros((sizes.jobs, sizes.nodes), np.int8),
        "jobs": np.zeros((sizes.jobs, graph.jobs.shape[1]), np.float32),
        "candidate_nodes": np.full((sizes.candidates, 2), -1, np.int16),
        "candidates": np.zeros((sizes.candidates, graph.candidates.shape[1]), np.float32),
        "system": graph.system.copy(),
    }
    job = graph.job_of_node
    shown = job[graph.candidate_nodes]
    arrays["unassigned"][job, np.arange(len(job)) - graph.job_start[job]] = graph.unassigned
    arrays["jobs"][: len(graph.jobs)] = graph.jobs
    arrays["candidate_nodes"][:count, 0] = shown
    arrays["candidate_nodes"][:count, 1] = graph.candidate_nodes - graph.job_start[shown]
    arrays["candidates"][:count] = graph.candidates
    return arrays
