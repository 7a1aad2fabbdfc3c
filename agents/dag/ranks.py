"""Ranks of the nodes of a job: how far they are from its end and from its beginning.

Source: H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, section 4. A node counts with its mean run time over all executors, an
edge with its mean transfer time over all pairs of different executors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.problems.dag import Executors, Job

__all__ = ["mean_run_times", "mean_transfer_times", "path_lengths", "rank_down", "rank_up", "rounded", "static_levels"]

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


def rank_up(job: Job, executors: Executors, *, transfers: bool = True) -> Floats:
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
    return rank_up(job, executors, transfers=False)


def rank_down(job: Job, executors: Executors) -> Floats:
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
