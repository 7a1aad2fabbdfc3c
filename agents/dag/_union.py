"""Jobs that are planned together, as one graph on the executors that can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.ranks import mean_transfer_times, rank_up
from desim.problems.dag import Executors, Job

__all__ = ["UnionGraph", "union_of"]

Floats = NDArray[np.float64]


class UnionGraph(NamedTuple):
    """Several jobs as one graph; its nodes are numbered job after job, so in topological order.

    Attributes
    ----------
    owners : list of (int, int)
        Job and node there, for each node.
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Seconds on each executor that can be used.
    parents : list of list of (int, float, float)
        For each node its parents, with the units of data and the mean transfer time in seconds.
    ranks : numpy.ndarray of shape (num_nodes,)
        Upward ranks, in seconds.
    executors : list of int
        Those executors, by their numbers in the cluster.
    free : numpy.ndarray of shape (num_executors,)
        When each can take something on, in seconds.
    seconds_per_unit, latencies : numpy.ndarray of shape (num_executors, num_executors)
        Of the channels between them.
    """

    owners: list[tuple[int, int]]
    run_times: Floats
    parents: list[list[tuple[int, float, float]]]
    ranks: Floats
    executors: list[int]
    free: Floats
    seconds_per_unit: Floats
    latencies: Floats

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.owners)

    @property
    def num_executors(self) -> int:
        """Number of executors."""
        return len(self.executors)


def union_of(jobs: Sequence[Job], executors: Executors, available: Floats) -> UnionGraph:
    """Return some jobs as one graph.

    Parameters
    ----------
    jobs : sequence of Job
        At least one.
    executors : Executors
        Of the cluster.
    available : numpy.ndarray of shape (num_executors,)
        When each can take something on, in seconds; infinite for those that are not to be used, but not for all.

    Returns
    -------
    UnionGraph
        On the other executors.
    """
    used = np.flatnonzero(available < np.inf)
    owners: list[tuple[int, int]] = []
    parents: list[list[tuple[int, float, float]]] = []
    for job in jobs:
        first = len(owners)
        owners += [(job.job_id, node) for node in range(job.num_nodes)]
        parents += [[] for _ in range(job.num_nodes)]
        transfers = iter(mean_transfer_times(job, executors).tolist())
        for node, children in enumerate(job.child_lists):
            for child, size in children:
                parents[first + child].append((first + node, size, next(transfers)))
    pairs = np.ix_(used, used)
    return UnionGraph(
        owners=owners,
        run_times=np.concatenate([job.run_times_on(executors)[:, used] for job in jobs]),
        parents=parents,
        ranks=np.concatenate([rank_up(job, executors) for job in jobs]),
        executors=used.tolist(),
        free=available[used],
        seconds_per_unit=executors.seconds_per_unit[pairs],
        latencies=executors.latencies[pairs],
    )
