"""The jobs in the system as graphs, and the executable nodes as candidates: what LACHESIS and Decima see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, LARGEST, Arrays, bounded
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.features import (
    CANDIDATE_FEATURES,
    FIXED_FEATURES,
    JOB_FEATURES,
    SYSTEM_GRAPH_FEATURES,
    JobGraph,
    Node,
    PerJob,
    describe_candidates,
    describe_progress,
    describe_system,
)
from desim.problems.dag.observation import Assign, AssignTasks, DagObservation
from desim.problems.dag.state import JobState

__all__ = ["GraphAllocate", "GraphEncoder", "GraphSizes", "SystemGraph"]

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]

GraphAllocate = Callable[[DagObservation, JobState, int, NDArray[np.float64]], Assign | AssignTasks | None]
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

    job_start: Whole
    edge_start: Whole
    keys: Whole
    nodes: Floats
    edges: Whole
    edge_times: Floats
    unassigned: NDArray[np.bool_]
    jobs: Floats
    candidate_nodes: Whole
    candidates: Floats
    system: Floats

    @property
    def job_of_node(self) -> Whole:
        """The job of each node, shape (n,)."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.job_start))


class _Joined:
    """The graphs of the jobs in the system as one, made again when the jobs are others."""

    def __init__(self) -> None:
        self._states: list[JobState] = []
        self._arrays: Arrays = {}
        self.padded: Arrays = {}

    def __reduce__(self) -> tuple[type[_Joined], tuple[()]]:
        """Leave behind what is known when an encoder is copied or sent to another process."""
        return _Joined, ()

    def of(self, states: list[JobState], graphs: list[JobGraph]) -> Arrays:
        """Return what a system's graph holds of its jobs, by name."""
        if states != self._states or not self._arrays:
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
    """Jobs as graphs and executable nodes as candidates; an action chooses one of them.

    Action i in 0 to C - 1 assigns the i-th candidate, to the executor that the allocation chooses. In the paper's mode
    a node is assigned as soon as it is executable, even if all executors are busy. With ``only_idle`` it is assigned to
    an executor that is idle, and action C waits until something happens, which is possible while an executor is busy.

    Parameters
    ----------
    allocation : callable
        Such as ``desim.agents.dag.DEFT().allocate``.
    only_idle : bool
        Whether nodes are kept back until an executor is idle.
    sizes : GraphSizes
        Room in the arrays. Of more jobs the first are shown, and of more executable nodes of these as well.
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
        """Return the jobs and the executable nodes that there is room for, in order.

        Parameters
        ----------
        observation : DagObservation
            A decision.

        Returns
        -------
        tuple of list of JobState and list of (JobState, int)
            Jobs without an executable node come after those with one.
        """
        states = list(observation.jobs.values())
        room = self.sizes.jobs
        if len(states) > room:
            useful = {state for state, _ in observation.executable.values()}  # only looked up
            states = sorted(states, key=lambda state: state not in useful)[:room]
            kept = set(states)
            nodes = (node for node in observation.executable.values() if node[0] in kept)
            return states, list(islice(nodes, self.sizes.candidates))
        return states, list(islice(observation.executable.values(), self.sizes.candidates))

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
        graphs = [self.graphs.of(state, executors) for state in states]
        assigned = [state.assigned for state in states]
        progress = [graph.progress(done) for graph, done in zip(graphs, assigned, strict=True)]
        unfinished = [state.num_unfinished for state in states]
        ages = np.array([time - state.job.submission_time for state in states])
        same = self._joined.of(states, graphs)
        place = {state: number for number, state in enumerate(states)}
        places = [place[state] for state, _ in nodes]
        ranks = np.array([graphs[at].rank_up[node] for at, (_, node) in zip(places, nodes, strict=True)])
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
            ``candidate_nodes`` -1. The columns are :data:`FIXED_FEATURES`,
            :data:`~desim.problems.dag.features.JOB_FEATURES`,
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
        if not self.forced(observation):
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

    def forced(self, observation: DagObservation) -> bool:
        """Tell whether there is no executor to assign to, so that there is no choice but to wait.

        Parameters
        ----------
        observation : DagObservation
            A decision.
        """
        return bool(self.usable(observation).min() == np.inf)

    def decode(self, observation: DagObservation, action: Any) -> tuple[Assign | AssignTasks | None, bool]:
        """Return the assignment that an action stands for, and whether the action is possible.

        Parameters
        ----------
        observation : DagObservation
            What was encoded.
        action : int
            A candidate, or C to wait.

        Returns
        -------
        tuple of (Assign, AssignTasks or None) and bool
            An action that is not possible means waiting.

        Raises
        ------
        InvalidConfiguration
            If there is no such action.
        """
        number, count = int(action), self.sizes.candidates + self.only_idle
        if not 0 <= number < count:
            raise InvalidConfiguration(f"action {action!r} is none of 0 to {count - 1}")
        if self.forced(observation):
            return None, number == (self.sizes.candidates if self.only_idle else 0)
        available = observation.available_times
        if self.only_idle and number == self.sizes.candidates:
            return None, bool(((available > observation.time) & (available < np.inf)).any())
        nodes = self.shown(observation)[1]
        if number >= len(nodes):
            return None, False
        return self.allocation(observation, *nodes[number], self.usable(observation)), True


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
