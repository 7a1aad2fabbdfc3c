"""Orders of ports and nodes in which the channels of a drawing cross each other rarely."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.multiserver import BipartiteGraph

__all__ = ["count_crossings", "uncrossed_orders"]

Indices = NDArray[np.int64]

ROUNDS = 24


def uncrossed_orders(graph: BipartiteGraph) -> tuple[Indices, Indices]:
    """Sort ports and nodes such that few channels cross.

    Barycentres, in turn on both sides: each vertex goes to the mean place of its neighbours. Source: Sugiyama, Tagawa
    and Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE Transactions on Systems, Man,
    and Cybernetics 11(2), 1981. The best order of some rounds counts; finding the best of all is NP-hard.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and channels.

    Returns
    -------
    ports, nodes : numpy.ndarray of int64
        Indices from top to bottom. Ties are in the order of the graph, vertices without channels come last.
    """
    ports, nodes = np.arange(graph.num_ports), np.arange(graph.num_nodes)
    best, fewest = (ports, nodes), count_crossings(graph, ports, nodes)
    for _ in range(ROUNDS):
        nodes = _by_neighbours(graph.channel_node, _ranks(ports)[graph.channel_port], graph.num_nodes)
        ports = _by_neighbours(graph.channel_port, _ranks(nodes)[graph.channel_node], graph.num_ports)
        crossings = count_crossings(graph, ports, nodes)
        if crossings >= fewest:
            break
        best, fewest = (ports, nodes), crossings
    return best


def count_crossings(graph: BipartiteGraph, ports: Indices, nodes: Indices) -> int:
    """Count the pairs of channels that cross when both sides have an order.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and channels.
    ports, nodes : numpy.ndarray of int64
        Indices from top to bottom.

    Returns
    -------
    int
        Pairs of which one channel ends above the other on one side and below it on the other.
    """
    joined = np.zeros((graph.num_ports, graph.num_nodes), dtype=np.int64)
    joined[_ranks(ports)[graph.channel_port], _ranks(nodes)[graph.channel_node]] = 1
    above = joined.cumsum(axis=1) - joined  # channels of the port to nodes above this one
    lower_ports = above[::-1].cumsum(axis=0)[::-1] - above
    return int((joined * lower_ports).sum())


def _ranks(order: Indices) -> Indices:
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _by_neighbours(ends: Indices, places: Indices, count: int) -> Indices:
    """Sort vertices by the mean of the places at the other ends of their channels."""
    degree = np.bincount(ends, minlength=count)
    total = np.bincount(ends, weights=places, minlength=count)
    means = np.divide(total, degree, out=np.full(count, np.inf), where=degree > 0)
    return np.argsort(means, kind="stable")
