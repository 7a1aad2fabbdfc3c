"""Orders of ready nodes, and the ranks that most of them use.

Ranks are distances of nodes from the end or the beginning of their job. Source: H. Topcuoglu, S. Hariri and M.-Y. Wu,
"Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002, section
4. Path lengths consist of mean run times of nodes over their eligible executors and mean transfer times of edges over
all pairs of different executors.

An order gives each node of a job a key when the job arrives. The node with the smallest key comes first; ties go to the
job that arrived first, then to the first node in it. An order whose keys change over time has ``changes = True``, and
its keys are computed at every decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_choice
from desim.problems.dag import DagObservation, Executors, Job, JobState
from desim.problems.dag.job import means_where_eligible

__all__ = [
    "FIFO",
    "HRRN",
    "SJF",
    "CriticalPath",
    "LeastWork",
    "Order",
    "PerJob",
    "RandomOrder",
    "RankUp",
    "downward_rank",
    "mean_run_times",
    "mean_transfer_times",
    "path_lengths",
    "rounded",
    "static_levels",
    "upward_rank",
]

Floats = NDArray[np.float64]

#: Relative precision to which ranks are rounded, so that sums that differ only by rounding errors are equal.
RESOLUTION = 2.0**-40


def mean_run_times(job: Job, executors: Executors) -> Floats:
    """Return the mean run time of each node over the executors that may run it, in seconds.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Mean run times in seconds.
    """
    return means_where_eligible(job.run_times_on(executors))


def mean_transfer_times(job: Job, executors: Executors) -> Floats:
    """Return the mean transfer time of each edge, in seconds, in the order of ``job.child_index``.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster, with the channels between them.

    Returns
    -------
    numpy.ndarray of shape (num_edges,)
        Latency plus size / transfer speed in seconds, averaged over all pairs of different executors.
    """
    times: Floats = executors.mean_latency + job.child_size * executors.mean_seconds_per_unit
    return times


def upward_rank(job: Job, executors: Executors, *, transfers: bool = True) -> Floats:
    """Return the upward rank of each node: the longest path from it to the end of the job, including the node itself.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster.
    transfers : bool
        Whether to include transfer times; without them, the result is the static level of DLS.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Ranks in seconds, rounded so that equal ranks compare equal.
    """
    return rounded(_upward(job, executors, transfers=transfers))


def _upward(job: Job, executors: Executors, *, transfers: bool = True) -> list[float]:
    times: list[float] = mean_run_times(job, executors).tolist()
    edges = mean_transfer_times(job, executors).tolist() if transfers else [0.0] * job.num_edges
    children, start = job.child_index.tolist(), job.child_start.tolist()
    ranks = times
    for node in range(job.num_nodes - 1, -1, -1):
        longest = 0.0
        for edge in range(start[node], start[node + 1]):
            length = edges[edge] + ranks[children[edge]]
            longest = max(longest, length)
        ranks[node] += longest
    return ranks


def static_levels(job: Job, executors: Executors) -> Floats:
    """Return the static level of each node: the longest path from it to the end of the job, without transfers.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Levels in seconds, rounded so that equal levels compare equal.
    """
    return upward_rank(job, executors, transfers=False)


def downward_rank(job: Job, executors: Executors) -> Floats:
    """Return the downward rank of each node: the longest path from the beginning of the job, excluding the node itself.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Ranks in seconds, rounded so that equal ranks compare equal.
    """
    return rounded(_downward(job, executors))


def _downward(job: Job, executors: Executors) -> list[float]:
    times = mean_run_times(job, executors).tolist()
    edges = mean_transfer_times(job, executors).tolist()
    children, start = job.child_index.tolist(), job.child_start.tolist()
    ranks = [0.0] * job.num_nodes
    for node in range(job.num_nodes):
        finish = ranks[node] + times[node]
        for edge in range(start[node], start[node + 1]):
            child = children[edge]
            ranks[child] = max(ranks[child], finish + edges[edge])
    return ranks


def path_lengths(job: Job, executors: Executors) -> Floats:
    """Return the length of the longest path through each node: the sum of upward and downward rank.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Lengths in seconds, rounded once so that equal lengths compare equal.
    """
    return rounded(np.array(_upward(job, executors)) + _downward(job, executors))


def rounded(times: ArrayLike) -> Floats:
    """Return times rounded so that sums that differ only by the order of summation compare equal, in any job.

    Parameters
    ----------
    times : array_like
        Times in seconds, each a sum of nonnegative numbers.

    Returns
    -------
    numpy.ndarray of the same shape
        Rounded times in seconds.
    """
    mantissas, exponents = np.frexp(np.asarray(times, dtype=np.float64))
    whole: Floats = np.ldexp(np.round(mantissas / RESOLUTION) * RESOLUTION, exponents)
    return whole


Value = TypeVar("Value")


class PerJob(Generic[Value]):
    """A value computed once for each job in the system and dropped when the job leaves.

    Parameters
    ----------
    compute : callable
        Function that takes the state of a job and the executors and returns the value.
    """

    def __init__(self, compute: Callable[[JobState, Executors], Value]) -> None:
        self._compute = compute
        self.forget()

    def forget(self) -> None:
        """Discard the values of all jobs, at the beginning of a run."""
        self._known: dict[int, tuple[JobState, Value]] = {}

    def of(self, observation: DagObservation, state: JobState) -> Value:
        """Return the value of a job in the system."""
        job_id = state.job.job_id
        known = self._known.get(job_id)
        if known is None or known[0] is not state:  # ids may be reused
            self._known = {job: entry for job, entry in self._known.items() if job in observation.jobs}
            known = self._known[job_id] = state, self._compute(state, observation.executors)
        return known[1]


class Order(Protocol):
    """Protocol of an order, which gives nodes their keys."""

    name: str
    changes: bool

    def reset(self, rng: Generator) -> None:
        """Discard the state of the previous run."""

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return a key for each node of a job, shape (num_nodes,); the smallest key comes first."""


class _Static:
    """Base class of orders whose keys are computed once per job."""

    changes = False

    def reset(self, rng: Generator) -> None:
        """Do nothing, because the keys only depend on the job."""


class FIFO(_Static):
    """First in, first out: the job that arrived first comes first."""

    name = "fifo"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return when the job arrived, in seconds, for all nodes; a process may submit it after its submission time."""
        return np.full(state.job.num_nodes, state.arrival_time)


class SJF(_Static):
    """Shortest job first: the job with the least sum of mean run times comes first."""

    name = "sjf"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the sum of the job's mean run times, in seconds, for all nodes."""
        return np.full(state.job.num_nodes, rounded(mean_run_times(state.job, observation.executors).sum()))


class RankUp(_Static):
    """Highest upward rank first, including transfer times, as in HEFT and HighRankUp-DEFT."""

    name = "rank-up"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative upward ranks in seconds."""
        return -upward_rank(state.job, observation.executors)


class CriticalPath(_Static):
    """Longest path first: the largest sum of upward and downward rank, as in CPOP."""

    name = "critical-path"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative length of the longest path through each node in seconds."""
        return -path_lengths(state.job, observation.executors)


class LeastWork:
    """Least unassigned work first, and in a job the highest upward rank first: SRPT for task graphs.

    The key is the sum of the mean run times of the job's unassigned nodes minus a hundredth of the node's rank.
    """

    name = "least-work"
    changes = True

    def __init__(self) -> None:
        self._times = PerJob(_times_and_ranks)

    def reset(self, rng: Generator) -> None:
        """Discard the values of all jobs, at the beginning of a run."""
        self._times.forget()

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the unassigned work of the job minus a hundredth of each rank, in seconds."""
        times, ranks = self._times.of(observation, state)
        keys: Floats = rounded(times[~state.assigned].sum() - 0.01 * ranks)
        return keys


def _times_and_ranks(state: JobState, executors: Executors) -> tuple[Floats, Floats]:
    return mean_run_times(state.job, executors), upward_rank(state.job, executors)


class HRRN:
    """Highest response ratio next: wait / (wait + execution), as in the LACHESIS paper.

    The paper does not define wait and execution. In its mode, a node is assigned as soon as it is ready, so its own
    wait is always 0; we use the wait of the job.

    Parameters
    ----------
    of : {"job", "node"}
        Execution time in the ratio: mean run time of the whole job, or of the node alone. The wait is always that since
        the submission of the job.

    Raises
    ------
    InvalidConfiguration
        If ``of`` is unknown.
    """

    changes = True

    def __init__(self, of: Literal["job", "node"] = "job") -> None:
        self.name = "hrrn" if check_choice("of", of, ("job", "node")) == "job" else "hrrn-node"
        self._times = PerJob(_mean_times_of_job if of == "job" else _mean_times)

    def reset(self, rng: Generator) -> None:
        """Discard the values of all jobs, at the beginning of a run."""
        self._times.forget()

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative response ratios at the current time."""
        times = self._times.of(observation, state)
        wait = observation.time - state.job.submission_time
        ratios: Floats = np.divide(wait, wait + times, out=np.zeros(len(times)), where=wait + times > 0)
        return -ratios


def _mean_times(state: JobState, executors: Executors) -> Floats:
    return mean_run_times(state.job, executors)


def _mean_times_of_job(state: JobState, executors: Executors) -> Floats:
    return np.full(state.job.num_nodes, mean_run_times(state.job, executors).sum())


class RandomOrder:
    """Random order of the nodes."""

    name = "random"
    changes = False

    def __init__(self) -> None:
        self._rng = default_rng(0)

    def reset(self, rng: Generator) -> None:
        """Use the random generator of the run from now on."""
        self._rng = rng

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return random numbers."""
        return self._rng.random(state.job.num_nodes)
