"""The first two phases of TDCA: clusters along favourite predecessors, and what is to be duplicated into them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag._union import UnionGraph

__all__ = ["Cluster", "Estimates", "estimate", "make_clusters"]

Floats = NDArray[np.float64]


class Estimates(NamedTuple):
    """When nodes could finish if there were as many executors as one likes.

    Attributes
    ----------
    favourites : list of int
        For each node the parent whose data would come last from another executor; -1 without parents.
    completion : numpy.ndarray of shape (num_nodes, num_executors)
        Earliest completion on each kind of executor, in seconds from the beginning.
    least : list of float
        The least of each row.
    """

    favourites: list[int]
    completion: Floats
    least: list[float]


class Cluster(NamedTuple):
    """Nodes that are to run on one executor.

    Attributes
    ----------
    nodes : list of int
        A path: each but the first is a child of the one before.
    duplicates : list of int
        Ancestors of the first node, in topological order, of which copies may run before it.
    """

    nodes: list[int]
    duplicates: list[int]


def estimate(graph: UnionGraph) -> Estimates:
    """Compute earliest completions and favourite predecessors, parents before children.

    A node runs behind its favourite predecessor on the same executor, or receives the data, whichever is earlier; the
    data of its other parents come from where these finish first, after the mean transfer time.

    Parameters
    ----------
    graph : UnionGraph
        The jobs.

    Returns
    -------
    Estimates
        Of equal arrivals, the first parent is the favourite.
    """
    completion = graph.run_times.copy()
    favourites = [-1] * graph.num_nodes
    least: list[float] = []
    for node, parents in enumerate(graph.parents):
        if parents:
            arrivals = [least[parent] + transfer for parent, _, transfer in parents]
            last = max(arrivals)
            number = arrivals.index(last)
            favourites[node] = favourite = parents[number][0]
            del arrivals[number]
            start = np.minimum(completion[favourite], last)
            completion[node] += np.maximum(start, max(arrivals, default=0.0))
        least.append(completion[node].min().item())
    return Estimates(favourites, completion, least)


def make_clusters(graph: UnionGraph, estimates: Estimates) -> list[Cluster]:
    """Divide the nodes into clusters and decide what may be duplicated into each.

    Phase 1: from the node with the lowest rank that is in no cluster, the favourite predecessors are followed up to one
    that is in a cluster, or to a node without parents. Phase 2: behind that point, the path is continued with copies
    as long as the first node of the cluster could then start earlier.

    Parameters
    ----------
    graph : UnionGraph
        The jobs.
    estimates : Estimates
        Of the same jobs.

    Returns
    -------
    list of Cluster
        Every node is in the ``nodes`` of one.
    """
    in_cluster = [False] * graph.num_nodes
    clusters = []
    for node in np.lexsort((-np.arange(graph.num_nodes), graph.ranks)).tolist():
        if in_cluster[node]:
            continue
        path = []
        step = node
        while step >= 0 and not in_cluster[step]:
            in_cluster[step] = True
            path.append(step)
            step = estimates.favourites[step]
        path.reverse()
        clusters.append(Cluster(path, _worth_duplicating(graph, estimates, path)))
    return clusters


def _worth_duplicating(graph: UnionGraph, estimates: Estimates, path: list[int]) -> list[int]:
    """Return the ancestors along favourite predecessors whose copies let the first node of a path start earliest.

    On the kind of executor on which the last node of the path could be complete first.
    """
    executor = int(estimates.completion[path[-1]].argmin())
    run_times = graph.run_times[:, executor].tolist()
    first = path[0]
    best_start = _ready(graph, estimates, first, -1)
    best: list[int] = []
    chain: list[int] = []
    step = estimates.favourites[first]
    while step >= 0:
        chain.insert(0, step)
        time = 0.0
        before = -1
        for node in chain:
            time = max(time, _ready(graph, estimates, node, before)) + run_times[node]
            before = node
        start = max(time, _ready(graph, estimates, first, before))
        if start < best_start:
            best_start, best = start, chain.copy()
        if _ready(graph, estimates, first, before) >= best_start or len(chain) >= 8:
            break  # nothing above can help
        step = estimates.favourites[step]
    return best


def _ready(graph: UnionGraph, estimates: Estimates, node: int, local: int) -> float:
    """Return when the data of all parents but a local one could be on another executor."""
    return max(
        (estimates.least[parent] + transfer for parent, _, transfer in graph.parents[node] if parent != local),
        default=0.0,
    )
