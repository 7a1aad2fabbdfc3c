"""What a job's graph is made of: an order, its cycles, its parts, its edges by one end."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def topological_order(ends: Indices, count: int) -> Indices:
    """Return nodes such that parents come first, the earliest given of those that may come; fewer if there is a cycle.

    Kahn's algorithm with a heap.
    """
    if not len(ends) or (ends[:, 0] < ends[:, 1]).all():
        return np.arange(count)
    missing = np.bincount(ends[:, 1], minlength=count).tolist()
    children: list[list[int]] = [[] for _ in range(count)]
    for parent, child in ends.tolist():
        children[parent].append(child)
    ready = [node for node in range(count) if not missing[node]]
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for child in children[node]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, child)
    return np.array(order, dtype=np.int64)


def find_cycle(left: list[int], ends: Indices) -> list[int]:
    """Return a cycle among nodes that no topological order reaches, each of which has such a parent."""
    inside = set(left)
    parent_of = {child: parent for parent, child in ends.tolist() if parent in inside and child in inside}
    node, seen = left[0], dict[int, int]()
    while node not in seen:
        seen[node] = len(seen)
        node = parent_of[node]
    walk = list(seen)[seen[node] :]
    return walk[::-1]


def connected_parts(ends: Indices, count: int) -> list[list[int]]:
    """Return the connected parts, edges taken in both directions, each in ascending order."""
    root = list(range(count))

    def find(node: int) -> int:
        """Return the representative of a node's part."""
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for parent, child in ends.tolist():
        first, second = sorted((find(parent), find(child)))
        root[second] = first
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(find(node), []).append(node)
    return list(parts.values())


def grouped(keys: Indices, values: Indices, sizes: Floats, count: int) -> tuple[Indices, Indices, Floats]:
    """Return starts, values and sizes of edges that are grouped by key and sorted within each group."""
    order = np.lexsort((values, keys))
    start = np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=count)))).astype(np.int64)
    columns = start, values[order], sizes[order]
    for column in columns:
        column.flags.writeable = False
    return columns


def lists(start: Indices, index: Indices, size: Floats) -> list[list[tuple[int, float]]]:
    pairs = list(zip(index.tolist(), size.tolist(), strict=True))
    bounds = start.tolist()
    return [pairs[begin:end] for begin, end in pairwise(bounds)]
