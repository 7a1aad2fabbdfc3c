"""Places of the nodes of a directed acyclic graph in layers from left to right, such that few edges cross.

Source: Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE
Transactions on Systems, Man, and Cybernetics 11(2), 1981: longest-path layers, a dummy in each layer that an edge
passes, barycentres. Places within the layers then come as close to those of the neighbours as the order allows, by
least squares.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag import Job

__all__ = ["Layout", "lay_out", "layers_of"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Sweeps over the layers for their orders, and for their places: more where neighbours are many layers away.
ROUNDS, MOST_ROUNDS = 24, 120
#: Distance of neighbours in a layer: of two nodes 1, otherwise less.
BESIDE_DUMMY, BETWEEN_DUMMIES = 0.6, 0.3
#: How strongly a dummy is drawn to the straight line between its neighbours, in relation to a node.
STRAIGHT = 4.0
#: How strongly everything is drawn to the middle, so that long graphs do not drift.
CENTRAL = 0.03


class Layout(NamedTuple):
    """Where nodes stand and edges pass.

    Attributes
    ----------
    places : array of shape (num_nodes, 2)
        Layer, and place within it.
    routes : list of array, shape (k, 2)
        The places through which each edge goes, both ends included, in the order of ``job.parent_index``.
    """

    places: Floats
    routes: list[Floats]


class _Vertices(NamedTuple):
    """Nodes and dummies, and the links between neighbouring layers."""

    layer: Indices
    chains: list[list[int]]
    links: Indices


def layers_of(job: Job) -> Indices:
    """Return the layer of each node.

    Parameters
    ----------
    job : Job
        The graph.

    Returns
    -------
    array of int, shape (num_nodes,)
        The number of edges on the longest path to a node; one without parents stands just before its first child.
    """
    layer = np.zeros(job.num_nodes, dtype=np.int64)
    for node in range(job.num_nodes):
        parents = job.parents(node)
        if len(parents):
            layer[node] = layer[parents].max() + 1
    for node in range(job.num_nodes):
        children = job.children(node)
        if len(children) and not len(job.parents(node)):
            layer[node] = layer[children].min() - 1
    return layer


def lay_out(job: Job) -> Layout:
    """Place the nodes of a job.

    Parameters
    ----------
    job : Job
        The graph.

    Returns
    -------
    Layout
        The same for the same graph; the places within a layer are at least 1 apart.
    """
    vertices = _with_dummies(job, layers_of(job))
    members = [np.flatnonzero(vertices.layer == layer) for layer in range(int(vertices.layer.max()) + 1)]
    orders = _uncross(vertices, members)
    heights = _heights(vertices, orders, job.num_nodes)
    places = np.column_stack([vertices.layer, heights]).astype(np.float64)
    return Layout(places[: job.num_nodes], [places[chain] for chain in vertices.chains])


def _with_dummies(job: Job, layer: Indices) -> _Vertices:
    """Put a dummy into each layer that an edge passes."""
    layers = layer.tolist()
    chains: list[list[int]] = []
    links: list[tuple[int, int]] = []
    for child in range(job.num_nodes):
        for parent in job.parents(child).tolist():
            between = range(layers[parent] + 1, layers[child])
            chain = [parent, *range(len(layers), len(layers) + len(between)), child]
            layers += between
            chains.append(chain)
            links += pairwise(chain)
    return _Vertices(np.array(layers), chains, np.array(links, dtype=np.int64).reshape(-1, 2))


def _uncross(vertices: _Vertices, members: list[Indices]) -> list[Indices]:
    """Return the order of each layer, by barycentres from the left and from the right in turn."""
    rank = np.empty(len(vertices.layer))
    orders = [part.copy() for part in members]
    for order in orders:
        rank[order] = np.arange(len(order))
    best, fewest = [order.copy() for order in orders], _crossings(vertices, rank)
    for number in range(ROUNDS):
        if not fewest:
            break
        forward = number % 2 == 0
        near, far = vertices.links.T if not forward else vertices.links.T[::-1]
        for layer in range(len(orders)) if forward else reversed(range(len(orders))):
            chosen = vertices.layer[near] == layer
            means = _means(near[chosen], rank[far[chosen]], rank)
            orders[layer] = orders[layer][np.argsort(means[orders[layer]], kind="stable")]
            rank[orders[layer]] = np.arange(len(orders[layer]))
        crossings = _crossings(vertices, rank)
        if crossings < fewest:
            best, fewest = [order.copy() for order in orders], crossings
    return best


def _means(ends: Indices, values: Floats, default: Floats) -> Floats:
    """Return the mean value at each vertex, the default where there is none."""
    count = np.bincount(ends, minlength=len(default))
    total = np.bincount(ends, weights=values, minlength=len(default))
    means: Floats = np.divide(total, count, out=default.copy(), where=count > 0)
    return means


def _crossings(vertices: _Vertices, rank: Floats) -> int:
    """Count the pairs of links that cross."""
    count = 0
    begin, end = vertices.links.T
    for layer in range(int(vertices.layer.max())):
        chosen = vertices.layer[begin] == layer
        left, right = rank[begin[chosen]].astype(np.int64), rank[end[chosen]].astype(np.int64)
        if len(left):
            joined = np.zeros((left.max() + 1, right.max() + 1), dtype=np.int64)
            np.add.at(joined, (left, right), 1)
            above = joined.cumsum(axis=1) - joined
            count += int((joined * (above[::-1].cumsum(axis=0)[::-1] - above)).sum())
    return count


def _heights(vertices: _Vertices, orders: list[Indices], num_nodes: int) -> Floats:
    """Return places within the layers: close to the neighbours on both sides, and to the middle."""
    height = np.empty(len(vertices.layer))
    offsets = [_offsets(order, num_nodes) for order in orders]
    for order, offset in zip(orders, offsets, strict=True):
        height[order] = offset - offset.mean()
    begin, end = vertices.links.T
    ends, others = np.concatenate([begin, end]), np.concatenate([end, begin])
    layers = vertices.layer[ends]
    chosen = [layers == layer for layer in range(len(orders))]
    for number in range(min(max(ROUNDS, 2 * len(orders)), MOST_ROUNDS)):
        for layer in range(len(orders)) if number % 2 == 0 else reversed(range(len(orders))):
            order = orders[layer]
            mean = _means(ends[chosen[layer]], height[others[chosen[layer]]], height)[order]
            weights = np.where(order < num_nodes, 1.0, STRAIGHT)
            height[order] = _apart((1.0 - CENTRAL) * mean, weights, offsets[layer])
    height -= height.min()
    return height


def _offsets(order: Indices, num_nodes: int) -> Floats:
    """Return the places of the vertices of a layer when they stand as close as allowed."""
    dummies = (order >= num_nodes).astype(np.int64)
    gaps = np.array([1.0, BESIDE_DUMMY, BETWEEN_DUMMIES])[dummies[1:] + dummies[:-1]]
    return np.concatenate([[0.0], gaps.cumsum()])


def _apart(wanted: Floats, weights: Floats, offsets: Floats) -> Floats:
    """Return the places closest to the wanted ones, by weighted least squares, that keep order and distances."""
    from scipy.optimize import isotonic_regression

    places: Floats = isotonic_regression(wanted - offsets, weights=weights).x + offsets
    return places
