"""The jobs in the system as graphs, and the executable nodes as candidates: what LACHESIS and Decima see."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays
from desim.envs.dag.candidate_features import CANDIDATE_FEATURES, Node, describe_candidates
from desim.envs.dag.graph_arrays import GraphSizes, SystemGraph, padded_jobs, padded_progress
from desim.envs.dag.graph_features import (
    JOB_FEATURES,
    SYSTEM_GRAPH_FEATURES,
    JobGraph,
    describe_progress,
    describe_system,
)
from desim.envs.dag.job_features import FIXED_FEATURES, PerJob
from desim.envs.scaling import LARGEST, bounded
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, AssignTasks, DagObservation, JobState

__all__ = ["GraphAllocate", "GraphEncoder"]

GraphAllocate = Callable[[DagObservation, JobState, int, NDArray[np.float64]], Assign | AssignTasks | None]
"""Chooses the executor of a node, given the observation, the job, the node, and when executors are available."""


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
        """Return the arrays of :func:`padded`, and the mask.

        Parameters
        ----------
        observation : DagObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            The columns are :data:`FIXED_FEATURES`, :data:`JOB_FEATURES`, :data:`CANDIDATE_FEATURES`, and
            :data:`SYSTEM_GRAPH_FEATURES`.

        Raises
        ------
        InvalidConfiguration
            If a job has more nodes or edges than there is room for.
        """
        graph = self.graph(observation)
        joined = self._joined
        if not joined.padded:
            joined.padded = padded_jobs(graph, self.sizes)
        arrays: Arrays = {name: array.copy() for name, array in joined.padded.items()}
        arrays |= padded_progress(graph, self.sizes)
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
