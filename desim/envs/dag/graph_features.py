"""What a graph network is told of jobs and of the whole system."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.envs.dag.candidate_features import CANDIDATE_FEATURES, MOST_DELAY, PROMPT
from desim.envs.dag.job_features import JobFeatures
from desim.envs.scaling import compressed
from desim.problems.dag import DagObservation, Executors, JobState

__all__ = [
    "JOB_FEATURES",
    "SYSTEM_GRAPH_FEATURES",
    "JobGraph",
    "JobProgress",
    "describe_progress",
    "describe_system",
]

Floats = NDArray[np.float64]

_DELAY = CANDIDATE_FEATURES.index("delay")

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
        What is known of the executable nodes that are shown: :func:`describe_candidates`.

    Returns
    -------
    array of float, shape (12,)
        Counts and times compressed.
    """
    hidden = max(len(observation.executable) - len(candidates), 0)
    delays = candidates[:, _DELAY]
    next_idle = float(available[~idle].min(initial=np.inf)) - observation.time
    backlog = np.maximum(available[available < np.inf] - observation.time, 0.0)
    backlogs = float(backlog.sum()) / max(len(backlog), 1), float(backlog.max(initial=0.0))
    left = sum(one.time for one in progress) / len(available)
    critical = max((one.critical for one in progress), default=0.0)
    counts = len(progress), len(candidates), hidden, int(np.count_nonzero(delays <= PROMPT))
    result = np.empty(len(SYSTEM_GRAPH_FEATURES), np.float32)
    result[[0, 1, 2, 3, 6, 7, 8, 9, 10]] = compressed((*counts, next_idle, *backlogs, left, critical))
    result[4] = delays.min(initial=MOST_DELAY)
    result[5] = np.count_nonzero(idle) / len(available)
    result[11] = next_idle < np.inf
    return result
