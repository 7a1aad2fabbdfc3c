"""What a graph network is told of jobs, of nodes that may be assigned, and of the whole system."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.envs.dag.job_features import JobFeatures
from desim.envs.scaling import compressed
from desim.problems.dag import DagObservation, Executors, JobState

__all__ = [
    "CANDIDATE_FEATURES",
    "JOB_FEATURES",
    "SYSTEM_GRAPH_FEATURES",
    "JobGraph",
    "JobProgress",
    "describe_candidates",
    "describe_progress",
    "describe_system",
]

Floats = NDArray[np.float64]
Node = tuple[JobState, int]

JOB_FEATURES = ("unassigned_nodes", "running_nodes", "unassigned_time", "critical_time", "age")
"""The columns of ``jobs``: counts; mean run times of the nodes without an executor, in all and along the longest path
with its transfers; and the time since the submission, all compressed."""

CANDIDATE_FEATURES = ("finish_time", "idle_finish_time", "delay", "run_time", "waiting_for_data")
"""The columns of ``candidates``: the earliest finish on any executor and on one that is idle, from now, compressed; the
logarithm of their ratio, up to 3; run time and time until all data are there on the best of those executors that are
allowed, compressed."""

SYSTEM_GRAPH_FEATURES = (
    "jobs",
    "candidates",
    "hidden_candidates",
    "idle_executors",
    "time_to_next_idle",
    "time_left",
    "critical_time",
    "waiting_is_possible",
)
"""The entries of ``system``: counts, compressed; the share of the executors that are idle; the time until another one
is, the mean run times of all nodes without an executor over the number of executors, and the longest path of all jobs,
compressed."""

_MOST_DELAY = 3.0


class JobProgress(NamedTuple):
    """How far a job is: nodes without an executor, their mean run times in all, and their longest path, in seconds."""

    unassigned: int
    time: float
    critical: float


class JobGraph:
    """What does not change while a job runs.

    Parameters
    ----------
    state : JobState
        The job.
    executors : Executors
        What it runs on.

    Attributes
    ----------
    nodes : array of float, shape (num_nodes, 6)
        :data:`FIXED_FEATURES`.
    edges : array of int, shape (num_edges, 2)
        Parents and children.
    edge_times : array of float, shape (num_edges,)
        Mean transfer times, compressed.
    key : int
        Equal for graphs with the same numbers.
    run_times, rank_up : array of float, shape (num_nodes,)
        Mean run times, and longest paths to the end, in seconds.
    """

    def __init__(self, state: JobState, executors: Executors) -> None:
        job = state.job
        features = JobFeatures(job, executors)
        self.run_times = features.run_times
        self.nodes = features.table.astype(np.float32)
        parents = np.repeat(np.arange(job.num_nodes), np.diff(job.child_start))
        self.edges: NDArray[np.int64] = np.stack([parents, job.child_index], axis=1)
        seconds = executors.mean_latency + job.child_size * executors.mean_seconds_per_unit
        self.edge_times = compressed(seconds).astype(np.float32)
        self.rank_up = features.rank_up
        digest = hashlib.blake2b(digest_size=8)
        for array in (self.nodes, self.edges, self.edge_times):
            digest.update(array.tobytes())
        self.key = int.from_bytes(digest.digest(), "little") >> 1
        self._seen = b""
        self._progress = JobProgress(0, 0.0, 0.0)

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
            self._progress = JobProgress(len(times), float(times.sum()), float(self.rank_up[left].max(initial=0.0)))
        return self._progress


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
    rows = np.empty((len(progress), len(JOB_FEATURES)))
    rows[:, [0, 2, 3]] = np.array(progress).reshape(-1, 3)
    rows[:, 1] = np.array(unfinished) - rows[:, 0]
    rows[:, 4] = ages
    result: NDArray[np.float32] = compressed(rows).astype(np.float32)
    return result


def describe_candidates(
    nodes: Sequence[Node], available: Floats, idle: NDArray[np.bool_], time: float
) -> NDArray[np.float32]:
    """Return :data:`CANDIDATE_FEATURES`.

    Parameters
    ----------
    nodes : sequence of (JobState, int)
        Executable nodes.
    available : array of float, shape (num_executors,)
        When each executor is free, in seconds; infinite if it is down.
    idle : array of bool, shape (num_executors,)
        Which executors have nothing to do.
    time : float
        Now, in seconds.

    Returns
    -------
    array of float, shape (c, 5)
        As long as the nodes. Without an idle executor the best of all stands for the best idle one.
    """
    shape = len(nodes), len(available)
    ready = np.array([state.ready_times(node) for state, node in nodes]).reshape(shape)
    run_times = np.array([state.run_times[node] for state, node in nodes]).reshape(shape)
    finish = np.maximum(ready, available)
    finish += run_times
    rows = np.arange(len(nodes))
    best = finish.argmin(axis=1)
    earliest = finish[rows, best]
    chosen, earliest_idle = best, earliest
    if idle.any():
        columns = np.flatnonzero(idle)
        chosen = columns[finish[:, columns].argmin(axis=1)]
        earliest_idle = finish[rows, chosen]
    table = np.empty((5, len(nodes)))
    table[0] = earliest
    table[1] = earliest_idle
    table[4] = ready[rows, chosen]
    table[[0, 1, 4]] -= time
    np.maximum(table, 0.0, out=table)
    with np.errstate(invalid="ignore"):  # nodes that no executor can run, while it is down
        table[2] = np.log((table[1] + 1.0) / (table[0] + 1.0))
    table[3] = run_times[rows, chosen]
    table[[0, 1, 3, 4]] = compressed(table[[0, 1, 3, 4]])
    table[2] = np.nan_to_num(np.minimum(table[2], _MOST_DELAY), nan=_MOST_DELAY)
    return np.ascontiguousarray(table.T, np.float32)


def describe_system(
    observation: DagObservation,
    available: Floats,
    idle: NDArray[np.bool_],
    progress: Sequence[JobProgress],
    num_candidates: int,
) -> NDArray[np.float32]:
    """Return :data:`SYSTEM_GRAPH_FEATURES`, shape (8,).

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
    num_candidates : int
        How many executable nodes are shown.

    Returns
    -------
    array of float, shape (8,)
        Counts and times compressed.
    """
    executable = len(observation.executable)
    busy = available[~idle]
    next_idle = float(busy.min(initial=np.inf)) - observation.time
    left = sum(one.time for one in progress) / len(available)
    result = np.empty(len(SYSTEM_GRAPH_FEATURES), np.float32)
    result[:3] = compressed((len(progress), num_candidates, max(executable - num_candidates, 0)))
    result[3] = np.count_nonzero(idle) / len(available)
    critical = max((one.critical for one in progress), default=0.0)
    result[4:7] = compressed((next_idle, left, critical))
    result[7] = next_idle < np.inf
    return result
