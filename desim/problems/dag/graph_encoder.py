"""The jobs in the system as graphs, and the ready nodes as candidates: what graph networks see."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, LARGEST, Arrays, bounded, log_scaled
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.executors import Executors
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
    "PerJob",
    "SystemGraph",
    "assignments_of",
    "describe_candidates",
    "describe_progress",
    "describe_system",
]

Floats = NDArray[np.float64]
Made = TypeVar("Made")

Node = tuple[JobState, int]
"""A job and one of its nodes."""

FIXED_FEATURES = ("run_time", "incoming_time", "outgoing_time", "upward_rank", "downward_rank", "children")
"""The columns of ``JobGraph.nodes``."""

JOB_FEATURES = ("unassigned_nodes", "running_nodes", "unassigned_time", "critical_time", "age")
"""The columns of ``jobs``: counts; mean run times of the nodes without an executor, in all and along the longest path
with its transfers; and the time since the submission, all compressed."""

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
"""The entries of ``system``: counts, compressed, the last one of the candidates that no busy executor would finish
sooner; the least delay of a candidate; the share of the executors that are idle; and, compressed, the time until
another one is, the mean and the longest time until an executor is, the mean run times of all nodes without an executor
over the number of executors, and the longest path of all jobs."""

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
"""The columns of ``candidates``: the earliest finish on any executor and on one that may be used, from now, compressed;
the logarithm of their ratio, up to 3; run time and time until all data are there on the best of those executors that
may be used, compressed; how many candidates have a higher upward rank and no delay, and how many belong to a job with
less work left and have little delay, compressed; the logarithms of the ratio to the highest rank and to the least
work."""

MOST_DELAY = 3.0
"""Larger logarithms of ratios count as this."""

PROMPT, SOON = 1e-6, 0.3
"""Delays up to which a candidate has none, and little: an idle executor finishes it in 1.35 times the time."""

_TO_RANK = 0.01
"""What a second of rank counts beside a second of work: it orders the nodes of a job."""

_DELAY = CANDIDATE_FEATURES.index("delay")
_COMPUTED = [0, 1, 4, 3, 5, 6, 2, 7, 8]
"""The features of candidates in the order in which they are computed."""


class JobProgress(NamedTuple):
    """How far a job is: nodes without an executor, their mean run times in all, and their longest path, in seconds."""

    unassigned: int
    time: float
    critical: float


class JobGraph:
    """What does not change while a job runs.

    A node counts with its mean run time over all executors, an edge with its mean transfer time over all pairs of
    different executors, as for the ranks of HEFT (Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, section 4).

    Parameters
    ----------
    state : JobState
        The job.
    executors : Executors
        What it runs on.

    Attributes
    ----------
    nodes : array of float, shape (num_nodes, 6)
        :data:`FIXED_FEATURES`, compressed.
    node_bytes : list of bytes
        The rows of ``nodes``.
    run_times, upward_rank : array of float, shape (num_nodes,)
        Mean run times, and longest paths to the end, in seconds.
    """

    def __init__(self, state: JobState, executors: Executors) -> None:
        job = state.job
        self.run_times: Floats = job.run_times_on(executors).mean(axis=1)
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
        self.nodes = log_scaled(np.array([times, incoming, outgoing, below, above, counts]).T).astype(np.float32)
        self.node_bytes = [row.tobytes() for row in self.nodes]
        self._job, self._latency, self._per_unit = job, latency, per_unit
        self._seen = b""
        self._progress = JobProgress(0, 0.0, 0.0)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Parents and children, shape (num_edges, 2)."""
        job = self._job
        parents = np.repeat(np.arange(job.num_nodes), np.diff(job.child_start))
        return np.stack([parents, job.child_index], axis=1)

    @cached_property
    def edge_times(self) -> Features:
        """Mean transfer times, compressed, shape (num_edges,)."""
        times: Features = log_scaled(self._latency + self._job.child_size * self._per_unit).astype(np.float32)
        return times

    @cached_property
    def key(self) -> int:
        """Equal for graphs with the same numbers."""
        digest = hashlib.blake2b(digest_size=8)
        for array in (self.nodes, self.edges, self.edge_times):
            digest.update(array.tobytes())
        return int.from_bytes(digest.digest(), "little") >> 1

    def progress(self, assigned: NDArray[np.bool_]) -> JobProgress:
        """Return how far the job is; the same object as before if nothing has changed.

        Parameters
        ----------
        assigned : array of bool, shape (num_nodes,)
            Which of its nodes have an executor.
        """
        seen = assigned.tobytes()
        if seen != self._seen:
            left = ~assigned
            times = self.run_times[left]
            self._seen = seen
            self._progress = JobProgress(len(times), float(times.sum()), float(self.upward_rank[left].max(initial=0.0)))
        return self._progress


class PerJob(Generic[Made]):
    """What is made once of each job in the system, and forgotten with it.

    Parameters
    ----------
    make : callable
        Makes it of a job and the executors.
    """

    def __init__(self, make: Callable[[JobState, Executors], Made]) -> None:
        self._make = make
        self._known: WeakKeyDictionary[JobState, Made] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type[PerJob[Made]], tuple[Callable[[JobState, Executors], Made]]]:
        """Leave behind what is known when an encoder is copied or sent to another process."""
        return PerJob, (self._make,)

    def of(self, state: JobState, executors: Executors) -> Made:
        """Return what was made of a job.

        Parameters
        ----------
        state : JobState
            The job.
        executors : Executors
            What it runs on.
        """
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self._make(state, executors)
        return found


def describe_progress(progress: Sequence[JobProgress], unfinished: Sequence[int], ages: Floats) -> NDArray[np.float32]:
    """Return :data:`JOB_FEATURES`, shape (j, 5).

    Parameters
    ----------
    progress : sequence of JobProgress
        How far the jobs are.
    unfinished : sequence of int
        Nodes that have not finished.
    ages : array of float, shape (j,)
        Seconds since the submissions.

    Returns
    -------
    array of float, shape (j, 5)
        Compressed.
    """
    told = zip(progress, unfinished, ages.tolist(), strict=True)
    rows = [(one.unassigned, left - one.unassigned, one.time, one.critical, age) for one, left, age in told]
    result: NDArray[np.float32] = log_scaled(np.array(rows).reshape(-1, len(JOB_FEATURES))).astype(np.float32)
    return result


def describe_system(
    observation: DagObservation,
    available: Floats,
    idle: NDArray[np.bool_],
    progress: Sequence[JobProgress],
    candidates: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return :data:`SYSTEM_GRAPH_FEATURES`, shape (12,).

    Parameters
    ----------
    observation : DagObservation
        A decision.
    available : array of float, shape (num_executors,)
        When each executor is free, in seconds; infinite if it is down.
    idle : array of bool, shape (num_executors,)
        Which executors have nothing to do.
    progress : sequence of JobProgress
        How far the jobs are.
    candidates : array of float, shape (c, 9)
        What is known of the ready nodes that are shown: :func:`describe_candidates`.

    Returns
    -------
    array of float, shape (12,)
        Counts and times compressed.
    """
    hidden = max(len(observation.ready) - len(candidates), 0)
    delays = candidates[:, _DELAY]
    next_idle = float(available[~idle].min(initial=np.inf)) - observation.time
    backlog = np.maximum(available[available < np.inf] - observation.time, 0.0)
    backlogs = float(backlog.sum()) / max(len(backlog), 1), float(backlog.max(initial=0.0))
    left = sum(one.time for one in progress) / len(available)
    critical = max((one.critical for one in progress), default=0.0)
    counts = len(progress), len(candidates), hidden, int(np.count_nonzero(delays <= PROMPT))
    numbers = log_scaled((*counts, next_idle, *backlogs, left, critical)).tolist()
    others = float(delays.min(initial=MOST_DELAY)), np.count_nonzero(idle) / len(available)
    return np.array([*numbers[:4], *others, *numbers[4:], next_idle < np.inf], np.float32)


def describe_candidates(
    nodes: Sequence[Node], ranks: Floats, work: Floats, available: Floats, *, usable: NDArray[np.bool_], time: float
) -> NDArray[np.float32]:
    """Return :data:`CANDIDATE_FEATURES`.

    Parameters
    ----------
    nodes : sequence of (JobState, int)
        Executable nodes, c of them.
    ranks : array of float, shape (c,)
        Their upward ranks, in seconds.
    work : array of float, shape (c,)
        The mean run times of the nodes of their job that have no executor yet, together, in seconds.
    available : array of float, shape (num_executors,)
        When each executor is free, in seconds; infinite if it is down.
    usable : array of bool, shape (num_executors,)
        Which executors a node may be assigned to.
    time : float
        Now, in seconds.

    Returns
    -------
    array of float, shape (c, 9)
        Without a usable executor the best of all stands for the best usable one.
    """
    count, wide = len(nodes), len(available)
    if not count:
        return np.empty((0, len(CANDIDATE_FEATURES)), np.float32)
    ready = np.concatenate([state.ready_times(node) for state, node in nodes])
    run_times = np.concatenate([state.run_times[node] for state, node in nodes])
    finish = np.maximum(ready.reshape(count, wide), available)
    finish += run_times.reshape(count, wide)
    earliest = finish.min(axis=1)
    columns = np.flatnonzero(usable)
    chosen = columns[finish[:, columns].argmin(axis=1)] if len(columns) else finish.argmin(axis=1)
    chosen += np.arange(0, count * wide, wide)  # now places in the flat arrays
    table = np.empty((len(CANDIDATE_FEATURES), len(nodes)))  # in the order _COMPUTED, those to be compressed first
    table[0], table[1] = earliest, finish.take(chosen)
    table[2] = ready.take(chosen)
    table[:3] -= time
    np.maximum(table[:3], 0.0, out=table[:3])
    with np.errstate(invalid="ignore"):  # nodes that no executor can run, while it is down
        ratios = np.log((table[1] + 1.0) / (table[0] + 1.0))
    table[6] = delay = np.fmin(ratios, MOST_DELAY)  # which takes MOST_DELAY for what is not a number
    table[3] = run_times.take(chosen)
    table[4] = _before(-ranks, delay <= PROMPT)
    table[5] = _before(work - _TO_RANK * ranks, delay <= SOON)
    table[:6] = log_scaled(table[:6])
    table[7] = np.maximum(np.log((ranks + 1.0) / (ranks.max(initial=0.0) + 1.0)), -MOST_DELAY)
    table[8] = np.minimum(np.log((work + 1.0) / (work.min(initial=np.inf) + 1.0)), MOST_DELAY)
    result = np.empty((len(nodes), len(CANDIDATE_FEATURES)), np.float32)
    result.T[_COMPUTED] = table
    return result


def _before(keys: Floats, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many of those that are counted have a smaller key."""
    return np.searchsorted(np.sort(keys[counted]), keys)


# -- the encoder ---------------------------------------------------------------------------------

Features = NDArray[np.float32]
IntArray = NDArray[np.int64]

GraphAllocate = Callable[[DagObservation, JobState, int, NDArray[np.float64]], Assign | None]
"""Chooses the executor of a node, given the observation, the job, the node, and when executors are available."""


@dataclass(frozen=True)
class GraphSizes:
    """How much room there is in padded arrays.

    Parameters
    ----------
    jobs : int
        Jobs, J.
    nodes : int
        Nodes of a job, N.
    edges : int
        Edges of a job, E.
    candidates : int
        Executable nodes, C.

    Raises
    ------
    InvalidConfiguration
        If a number is not above 0, or that of the edges below 0.
    """

    jobs: int = 24
    nodes: int = 18
    edges: int = 24
    candidates: int = 64

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        if not (self.jobs >= 1 and self.nodes >= 1 and self.edges >= 0 and self.candidates >= 1):
            raise InvalidConfiguration(f"{self!r}: want at least 1 of each, and no fewer than 0 edges")


@dataclass(frozen=True)
class SystemGraph:
    """The jobs in the system, j of them with n nodes and e edges in all, and the c nodes that may be assigned.

    Attributes
    ----------
    job_start : array of int, shape (j + 1,)
        Job k has the nodes from ``job_start[k]`` to before ``job_start[k + 1]``, in topological order.
    edge_start : array of int, shape (j + 1,)
        And the edges from ``edge_start[k]``.
    keys : array of int, shape (j,)
        Equal for jobs whose nodes and edges are described by the same numbers.
    nodes : array of float, shape (n, F)
        What does not change while a job runs.
    edges : array of int, shape (e, 2)
        Parent and child, as rows of ``nodes``.
    edge_times : array of float, shape (e,)
        How long data take.
    unassigned : array of bool, shape (n,)
        Which nodes have no executor yet.
    jobs : array of float, shape (j, G)
        How far the jobs are.
    candidate_nodes : array of int, shape (c,)
        The nodes that may be assigned, as rows of ``nodes``.
    candidates : array of float, shape (c, K)
        What is expected of them now.
    system : array of float, shape (S,)
        Of the whole.
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
        """The job of each node, shape (n,)."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.job_start))


class _Joined:
    """The graphs of the jobs in the system as one, made again when the jobs are others."""

    def __init__(self) -> None:
        self._states: list[JobState] = []
        self.graphs: list[JobGraph] = []
        self.place: dict[JobState, int] = {}
        self._arrays: Arrays = {}
        self.padded: Arrays = {}

    def __reduce__(self) -> tuple[type[_Joined], tuple[()]]:
        """Leave behind what is known when an encoder is copied or sent to another process."""
        return _Joined, ()

    def of(self, states: list[JobState], graph_of: Callable[[JobState], JobGraph]) -> Arrays:
        """Return what a system's graph holds of its jobs, by name."""
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
    """Jobs as graphs and ready nodes as candidates; an action chooses one of them.

    Action i in 0 to C - 1 assigns the i-th candidate, to the executor that the allocation chooses. In the paper's mode
    a node is assigned as soon as it is ready, even if all executors are busy. With ``only_idle`` it is assigned to
    an executor that is idle, and action C waits until something happens, which is possible while an executor is busy.

    Parameters
    ----------
    allocation : callable
        Such as ``desim.agents.dag.DEFT().allocate``.
    only_idle : bool
        Whether nodes are kept back until an executor is idle.
    sizes : GraphSizes
        Room in the arrays. Of more jobs the first are shown, and of more ready nodes of these as well.
    """

    def __init__(self, allocation: GraphAllocate, *, only_idle: bool = True, sizes: GraphSizes | None = None) -> None:
        self.allocation = allocation
        self.only_idle = only_idle
        self.sizes = sizes = GraphSizes() if sizes is None else sizes
        self.graphs = PerJob(JobGraph)
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

    def shown(self, observation: DagObservation) -> tuple[list[JobState], list[Node]]:
        """Return the jobs and the ready nodes that there is room for, in order.

        Parameters
        ----------
        observation : DagObservation
            A decision.

        Returns
        -------
        tuple of list of JobState and list of (JobState, int)
            Jobs without a ready node come after those with one.
        """
        states = list(observation.jobs.values())
        room = self.sizes.jobs
        if len(states) > room:
            useful = {state for state, _ in observation.ready.values()}  # only looked up
            states = sorted(states, key=lambda state: state not in useful)[:room]
            kept = set(states)
            nodes = (node for node in observation.ready.values() if node[0] in kept)
            return states, list(islice(nodes, self.sizes.candidates))
        return states, list(islice(observation.ready.values(), self.sizes.candidates))

    def graph(self, observation: DagObservation) -> SystemGraph:
        """Return what is seen as one graph.

        Parameters
        ----------
        observation : DagObservation
            A decision.

        Returns
        -------
        SystemGraph
            The jobs that there is room for.
        """
        states, nodes = self.shown(observation)
        time, executors, available = observation.time, observation.executors, observation.available_times
        idle = available <= time
        same = self._joined.of(states, lambda state: self.graphs.of(state, executors))
        graphs, place = self._joined.graphs, self._joined.place
        assigned = [state.assigned for state in states]
        progress = [graph.progress(done) for graph, done in zip(graphs, assigned, strict=True)]
        unfinished = [state.num_unfinished for state in states]
        ages = np.array([time - state.job.submission_time for state in states])
        places = [place[state] for state, _ in nodes]
        ranks = np.array([graphs[at].upward_rank[node] for at, (_, node) in zip(places, nodes, strict=True)])
        work = np.array([progress[at].time for at in places])
        usable = idle if self.only_idle else available < np.inf
        candidates = describe_candidates(nodes, ranks, work, available, usable=usable, time=time)
        offsets = same["job_start"][places] if places else np.zeros(0, np.int64)
        return SystemGraph(
            **same,
            unassigned=~np.concatenate([np.zeros(0, np.bool_), *assigned]),
            jobs=describe_progress(progress, unfinished, ages),
            candidate_nodes=offsets + np.array([node for _, node in nodes], np.int64),
            candidates=candidates,
            system=describe_system(observation, available, idle, progress, candidates),
        )

    def encode(self, observation: DagObservation) -> Arrays:
        """Return what is seen as arrays of constant shapes, and the mask.

        Parameters
        ----------
        observation : DagObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            ``keys`` (J,), ``nodes`` (J, N, F), ``edges`` (J, E, 2) with the numbers of nodes in their jobs,
            ``edge_times`` (J, E), ``present`` and ``unassigned`` (J, N), ``jobs`` (J, G), ``candidate_nodes`` (C, 2)
            with job and node, ``candidates`` (C, K), ``system`` (S,). What is empty is 0, in ``edges`` and
            ``candidate_nodes`` -1. The columns are :data:`FIXED_FEATURES`, :data:`JOB_FEATURES`,
            :data:`CANDIDATE_FEATURES`, and :data:`SYSTEM_GRAPH_FEATURES`.

        Raises
        ------
        InvalidConfiguration
            If a job has more nodes or edges than there is room for.
        """
        graph = self.graph(observation)
        joined = self._joined
        if not joined.padded:
            joined.padded = _padded_jobs(graph, self.sizes)
        arrays: Arrays = {name: array.copy() for name, array in joined.padded.items()}
        arrays |= _padded_progress(graph, self.sizes)
        mask = np.zeros(self.sizes.candidates + self.only_idle, np.int8)
        if not self.is_forced(observation):
            mask[: len(graph.candidates)] = 1
        if self.only_idle:
            mask[-1] = graph.system[-1] > 0
        if not mask.any():
            mask[-1 if self.only_idle else 0] = 1
        arrays[ACTION_MASK] = mask
        return arrays

    def usable(self, observation: DagObservation) -> NDArray[np.float64]:
        """Return when each executor can take a node on, in seconds; infinite for those that must not.

        Parameters
        ----------
        observation : DagObservation
            A decision.
        """
        available = observation.available_times
        return np.where(available <= observation.time, available, np.inf) if self.only_idle else available

    def is_forced(self, observation: DagObservation) -> bool:
        """Tell whether there is no executor to assign to, so that there is no choice but to wait.

        Parameters
        ----------
        observation : DagObservation
            A decision.
        """
        soonest = observation.available_times.min()
        return bool(soonest > observation.time if self.only_idle else soonest == np.inf)

    def decode(self, observation: DagObservation, action: Any) -> tuple[Assign | None, bool]:
        """Return the assignment that an action stands for, and whether the action is possible.

        Parameters
        ----------
        observation : DagObservation
            What was encoded.
        action : int
            A candidate, or C to wait.

        Returns
        -------
        tuple of (Assign or None) and bool
            An action that is not possible means waiting.

        Raises
        ------
        InvalidConfiguration
            If there is no such action.
        """
        number, count = int(action), self.sizes.candidates + self.only_idle
        if not 0 <= number < count:
            raise InvalidConfiguration(f"action {action!r} is none of 0 to {count - 1}")
        if self.is_forced(observation):
            return None, number == (self.sizes.candidates if self.only_idle else 0)
        available = observation.available_times
        if self.only_idle and number == self.sizes.candidates:
            return None, bool(((available > observation.time) & (available < np.inf)).any())
        nodes = self.shown(observation)[1]
        if number >= len(nodes):
            return None, False
        return self.allocation(observation, *nodes[number], self.usable(observation)), True

    def encode_action(self, observation: DagObservation, answer: Any) -> int | None:
        """Return the action that comes next to what an agent answers.

        An action tells a node alone. Of several assignments, in a list, those come first whose executor the allocation
        would choose as well, and of these the node with the highest upward rank: a network could not learn an order
        that means nothing, such as that of the executors.

        Parameters
        ----------
        observation : DagObservation
            What the agent saw.
        answer : object
            Its answer.

        Returns
        -------
        int or None
            C if the agent waits and actions can say so; None if they cannot, and if it only assigns nodes that are not
            shown, such as second copies.
        """
        assignments = assignments_of(answer)
        if not assignments:
            return self.sizes.candidates if self.only_idle else None
        nodes = self.shown(observation)[1]
        places = {(state.job.job_id, node): at for at, (state, node) in enumerate(nodes)}
        told = [(places[one[:2]], one.executor) for one in assignments if one[:2] in places]

        def key(one: tuple[int, int]) -> tuple[bool, float]:
            """Return what is least for the action that comes first."""
            (state, node), (meant, _) = nodes[one[0]], self.decode(observation, one[0])
            agrees = meant is not None and meant.executor == one[1]
            return not agrees, -float(self.graphs.of(state, observation.executors).upward_rank[node])

        return min(told, key=key)[0] if told else None


def assignments_of(answer: Any) -> list[Assign]:
    """Return the assignments of what an agent answers: one, several, or none if it waits.

    Parameters
    ----------
    answer : Assign, sequence of (Assign or None), or None
        The answer.
    """
    answers = [answer] if answer is None or isinstance(answer, Assign) else answer
    return [one for one in answers if one is not None]


def _starts(counts: list[int]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _padded_jobs(graph: SystemGraph, sizes: GraphSizes) -> dict[str, NDArray[Any]]:
    """Return what does not change while the same jobs are in the system."""
    counts, edge_counts = np.diff(graph.job_start), np.diff(graph.edge_start)
    num_nodes, num_edges = int(counts.max(initial=0)), int(edge_counts.max(initial=0))
    if len(counts) > sizes.jobs or num_nodes > sizes.nodes or num_edges > sizes.edges:
        raise InvalidConfiguration(
            f"{len(counts)} jobs of up to {num_nodes} nodes and {num_edges} edges do not fit into {sizes!r}"
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
    """Return what changes from decision to decision."""
    count = len(graph.candidates)
    if count > sizes.candidates:
        raise InvalidConfiguration(f"{count} candidates do not fit into {sizes!r}")
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
