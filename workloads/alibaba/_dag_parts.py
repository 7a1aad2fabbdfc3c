"""The connected parts of a graph."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["part_of"]


def part_of(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return for each node the smallest node that it is connected with, edges taken in both directions.

    Parameters
    ----------
    count : int
        Number of nodes.
    edges : iterable of (int, int)
        Their ends.

    Returns
    -------
    list of int
        One a node; equal for nodes of the same part.
    """
    root = list(range(count))

    def find(node: int) -> int:
        """Return the representative of a node's part, and shorten the way to it."""
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for one, other in edges:
        first, second = find(one), find(other)
        root[max(first, second)] = min(first, second)
    return [find(node) for node in range(count)]
