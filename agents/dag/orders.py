"""Orders: which of the ready nodes comes next, and the ranks that most of them follow.

Ranks say how far nodes are from the end and from the beginning of their job. Source: H. Topcuoglu, S. Hariri and M.-Y.
Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE TPDS 13(3), 2002,
section 4. A node counts with its mean run time over all executors, an edge with its mean transfer time over all pairs
of different executors.

An order gives each node of a job a key when the job arrives; the node with the smallest key comes first, and of equal
keys the job that arrived first and the node that comes first in it. An order whose keys change with time has
``changes = True`` and is asked at every decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_choice
from desim.problems.dag import DagObservation, Executors, Job, JobState

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

#: Ranks are rounded to this part of themselves, so that equal ones are equal: sums in another order round differently.
RESOLUTION = 2.0**-40


def mean_run_times(job: Job, executors: Executors) -> Floats:
    """Return the mean run time of each node over the executors.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Seconds.
    """
    times: Floats = job.run_times_on(executors).mean(axis=1)
    return times


def mean_transfer_times(job: Job, executors: Executors) -> Floats:
    """Return the mean transfer time of each edge, in seconds, in the order of ``job.child_index``.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        With the channels between them.

    Returns
    -------
    numpy.ndarray of shape (num_edges,)
        Latency and size / transfer speed, averaged over all pairs of different executors.
    """
    times: Floats = executors.mean_latency + job.child_size * executors.mean_seconds_per_unit
    return times


def upward_rank(job: Job, executors: Executors, *, transfers: bool = True) -> Floats:
    """Return the length of the longest path from each node to the end of the job, the node included.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.
    transfers : bool
        Whether edges count; without them this is the static level of DLS.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Seconds, rounded so that equal ranks are equal.
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
    """Return the length of the longest path from each node to the end of the job without transfers.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Seconds, rounded so that equal levels are equal.
    """
    return upward_rank(job, executors, transfers=False)


def downward_rank(job: Job, executors: Executors) -> Floats:
    """Return the length of the longest path from the beginning of the job to each node, the node excluded.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Seconds, rounded so that equal ranks are equal.
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
    """Return the length of the longest path through each node: upward and downward rank together.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    numpy.ndarray of shape (num_nodes,)
        Seconds, rounded (once, which is why the ranks are added here) so that equal lengths are equal.
    """
    return rounded(np.array(_upward(job, executors)) + _downward(job, executors))


def rounded(times: ArrayLike) -> Floats:
    """Return sums of times rounded so that those are equal that differ by the order of summation, in any job.

    Parameters
    ----------
    times : array_like
        Seconds, each a sum of numbers of at least 0.

    Returns
    -------
    numpy.ndarray of the same shape
        Seconds.
    """
    mantissas, exponents = np.frexp(np.asarray(times, dtype=np.float64))
    whole: Floats = np.ldexp(np.round(mantissas / RESOLUTION) * RESOLUTION, exponents)
    return whole


Value = TypeVar("Value")


class PerJob(Generic[Value]):
    """What is computed once for each job in the system, and forgotten with it.

    Parameters
    ----------
    compute : callable
        Returns it for the state of a job and the executors.
    """

    def __init__(self, compute: Callable[[JobState, Executors], Value]) -> None:
        self._compute = compute
        self.forget()

    def forget(self) -> None:
        """Forget the jobs of another run."""
        self._known: dict[int, tuple[JobState, Value]] = {}

    def of(self, observation: DagObservation, state: JobState) -> Value:
        """Return what belongs to a job in the system."""
        job_id = state.job.job_id
        known = self._known.get(job_id)
        if known is None or known[0] is not state:  # an id may be used again
            self._known = {job: entry for job, entry in self._known.items() if job in observation.jobs}
            known = self._known[job_id] = state, self._compute(state, observation.executors)
        return known[1]


class Order(Protocol):
    """What gives nodes their keys."""

    name: str
    changes: bool

    def reset(self, rng: Generator) -> None:
        """Forget what came before."""

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return a key for each node of a job, of shape (num_nodes,); small ones come first."""


class _Static:
    """An order whose keys are computed once a job."""

    changes = False

    def reset(self, rng: Generator) -> None:
        """Do nothing: the keys follow from the job."""


class FIFO(_Static):
    """The job that arrived first."""

    name = "fifo"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the submission time for all nodes."""
        return np.full(state.job.num_nodes, state.job.submission_time)


class SJF(_Static):
    """The smallest job: the one with the least mean run time in all."""

    name = "sjf"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the sum of the mean run times for all nodes, in seconds."""
        return np.full(state.job.num_nodes, rounded(mean_run_times(state.job, observation.executors).sum()))


class RankUp(_Static):
    """The node with the longest way to the end of its job, transfers included: that of HEFT and HighRankUp-DEFT."""

    name = "rank-up"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative upward ranks, in seconds."""
        return -upward_rank(state.job, observation.executors)


class CriticalPath(_Static):
    """The node on the longest path through its job: that of CPOP, upward and downward rank together."""

    name = "critical-path"

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative length of the longest path through each node, in seconds."""
        return -path_lengths(state.job, observation.executors)


class LeastWork:
    """The job with the least work left to assign, and in it the node with the highest upward rank: SRPT for graphs.

    The key is the sum of the mean run times of the job's nodes without an executor, less a hundredth of the rank.
    """

    name = "least-work"
    changes = True

    def __init__(self) -> None:
        self._times = PerJob(_times_and_ranks)

    def reset(self, rng: Generator) -> None:
        """Forget the jobs of another run."""
        self._times.forget()

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the time that is left of the job less a hundredth of each rank, in seconds."""
        times, ranks = self._times.of(observation, state)
        keys: Floats = rounded(times[~state.assigned].sum() - 0.01 * ranks)
        return keys


def _times_and_ranks(state: JobState, executors: Executors) -> tuple[Floats, Floats]:
    return mean_run_times(state.job, executors), upward_rank(state.job, executors)


class HRRN:
    """The highest response ratio, wait / (wait + execution), as LACHESIS writes it.

    The paper does not say whose wait and execution. In its mode a node is assigned as soon as it is ready, so that
    its own wait says nothing; that of the job does.

    Parameters
    ----------
    of : {"job", "node"}
        Wait since the submission of the job, and the mean run time of the whole job or of the node alone.

    Raises
    ------
    InvalidConfiguration
        If ``of`` is something else.
    """

    changes = True

    def __init__(self, of: Literal["job", "node"] = "job") -> None:
        self.name = "hrrn" if check_choice("of", of, ("job", "node")) == "job" else "hrrn-node"
        self._times = PerJob(_mean_times_of_job if of == "job" else _mean_times)

    def reset(self, rng: Generator) -> None:
        """Forget the jobs of another run."""
        self._times.forget()

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative response ratios now."""
        times = self._times.of(observation, state)
        wait = observation.time - state.job.submission_time
        ratios: Floats = np.divide(wait, wait + times, out=np.zeros(len(times)), where=wait + times > 0)
        return -ratios


def _mean_times(state: JobState, executors: Executors) -> Floats:
    return mean_run_times(state.job, executors)


def _mean_times_of_job(state: JobState, executors: Executors) -> Floats:
    return np.full(state.job.num_nodes, mean_run_times(state.job, executors).sum())


class RandomOrder:
    """Any node."""

    name = "random"
    changes = False

    def __init__(self) -> None:
        self._rng = default_rng(0)

    def reset(self, rng: Generator) -> None:
        """Draw from the run's generator from now on."""
        self._rng = rng

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return random numbers."""
        return self._rng.random(state.job.num_nodes)
