"""What learners are told of the nodes of a job, of how far jobs are, of candidates, and of the whole system."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from desim.envs.base import compressed
from desim.problems.dag.executors import Executors
from desim.problems.dag.observation import DagObservation
from desim.problems.dag.state import JobState

__all__ = [
    "CANDIDATE_FEATURES",
    "FIXED_FEATURES",
    "JOB_FEATURES",
    "PROMPT",
    "SOON",
    "SYSTEM_GRAPH_FEATURES",
    "JobGraph",
    "JobProgress",
    "Node",
    "PerJob",
    "describe_candidates",
    "describe_progress",
    "describe_system",
]

Floats = NDArray[np.float64]
Made = TypeVar("Made")

Node = tuple[JobState, int]
"""A job and one of its nodes."""

FIXED_FEATURES = ("run_time", "incoming_time", "outgoing_time", "rank_up", "rank_down", "children")
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
        self.rank_up: Floats = np.array(below)
        counts = [len(edges) for edges in children]
        self.nodes = compressed(np.array([times, incoming, outgoing, below, above, counts]).T).astype(np.float32)
        parents = np.repeat(np.arange(job.num_nodes), np.diff(job.child_start))
        self.edges: NDArray[np.int64] = np.stack([parents, job.child_index], axis=1)
        self.edge_times = compressed(latency + job.child_size * per_unit).astype(np.float32)
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
    shape = len(nodes), len(available)
    ready = np.array([state.ready_times(node) for state, node in nodes]).reshape(shape)
    run_times = np.array([state.run_times[node] for state, node in nodes]).reshape(shape)
    finish = np.maximum(ready, available)
    finish += run_times
    rows = np.arange(len(nodes))
    best = finish.argmin(axis=1)
    earliest = finish[rows, best]
    chosen, earliest_idle = best, earliest
    columns = np.flatnonzero(usable)
    if len(columns):
        chosen = columns[finish[:, columns].argmin(axis=1)]
        earliest_idle = finish[rows, chosen]
    table = np.empty((len(CANDIDATE_FEATURES), len(nodes)))
    table[0] = earliest
    table[1] = earliest_idle
    table[4] = ready[rows, chosen]
    table[[0, 1, 4]] -= time
    np.maximum(table, 0.0, out=table)
    with np.errstate(invalid="ignore"):  # nodes that no executor can run, while it is down
        table[2] = np.log((table[1] + 1.0) / (table[0] + 1.0))
    delay = table[2] = np.nan_to_num(np.minimum(table[2], MOST_DELAY), nan=MOST_DELAY)
    table[3] = run_times[rows, chosen]
    table[5] = _before(-ranks, delay <= PROMPT)
    table[6] = _before(work - _TO_RANK * ranks, delay <= SOON)
    table[[0, 1, 3, 4, 5, 6]] = compressed(table[[0, 1, 3, 4, 5, 6]])
    table[7] = np.maximum(np.log((ranks + 1.0) / (ranks.max(initial=0.0) + 1.0)), -MOST_DELAY)
    table[8] = np.minimum(np.log((work + 1.0) / (work.min(initial=np.inf) + 1.0)), MOST_DELAY)
    return np.ascontiguousarray(table.T, np.float32)


def _before(keys: Floats, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many of those that are counted have a smaller key."""
    return np.searchsorted(np.sort(keys[counted]), keys)
