"""Graphs of tasks drawn from published numbers of levels and of tasks by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.workloads.alibaba._dag_parts import part_of
from desim.workloads.alibaba._histograms import Histogram

if TYPE_CHECKING:
    from desim.workloads.alibaba.dag_model import DagModel

__all__ = ["Shapes"]

Levels = NDArray[np.int64]
Pairs = list[tuple[int, int]]


class Shapes:
    """What draws one graph after the other.

    Parameters
    ----------
    model : DagModel
        The published figures.
    extra_edge_probability : float
        Of each edge between consecutive levels that the levels do not need.
    connected : bool
        Whether parts are joined.
    """

    def __init__(self, model: DagModel, extra_edge_probability: float, connected: bool) -> None:
        self._model = model
        self._probability = extra_edge_probability
        self._connected = connected
        self._lengths: dict[int, Histogram] = {}
        self._levels: dict[int, Histogram] = {}

    def draw(self, num_tasks: int, rng: Generator, extra_rng: Generator) -> tuple[Levels, Pairs]:
        """Return a graph.

        Parameters
        ----------
        num_tasks : int
            How many tasks it has.
        rng, extra_rng : numpy.random.Generator
            Where randomness comes from, that of edges which the levels do not need apart.

        Returns
        -------
        levels : numpy.ndarray of shape (num_tasks,)
            Tasks on the longest path to each task, itself included, ascending.
        edges : list of (int, int)
            Sorted.
        """
        length = int(self._length(num_tasks).draw(rng, 1)[0])
        others = self._level(length).draw(rng, num_tasks - length)
        levels = np.sort(np.concatenate((np.arange(1, length + 1), others.astype(np.int64))))
        begin = np.searchsorted(levels, np.arange(1, length + 2))
        edges: dict[tuple[int, int], None] = {}
        for child in range(begin[1], num_tasks):
            first, last = begin[levels[child] - 2], begin[levels[child] - 1]
            needed = int(rng.integers(first, last))
            edges[needed, child] = None
            if self._probability:
                chosen = np.flatnonzero(extra_rng.random(last - first) < self._probability) + first
                edges |= dict.fromkeys((parent, child) for parent in chosen.tolist())
        if self._connected:
            edges |= dict.fromkeys(_bridges(levels, part_of(num_tasks, edges), rng))
        return levels, sorted(edges)

    def _length(self, num_tasks: int) -> Histogram:
        """Return how long the longest path of a job is, in tasks."""
        if num_tasks not in self._lengths:
            least = 2 if self._connected and num_tasks > 1 else 1
            self._lengths[num_tasks] = self._model.critical_path_of(num_tasks).between(
                f"longest path in jobs of {num_tasks} tasks", least, num_tasks
            )
        return self._lengths[num_tasks]

    def _level(self, length: int) -> Histogram:
        """Return on which level the tasks of a job are, beside one task on each."""
        if length not in self._levels:
            self._levels[length] = self._model.further_levels(length)
        return self._levels[length]


def _bridges(levels: Levels, part: list[int], rng: Generator) -> Pairs:
    """Return edges that connect all parts with the one of the deepest task, one a part, and change no level.

    That part has tasks on every level, and every part has one on the first.
    """
    main = part[-1]
    members: dict[int, list[int]] = {}
    for task, label in enumerate(part):
        members.setdefault(label, []).append(task)
    by_level: dict[int, list[int]] = {}
    for task in members.pop(main):
        by_level.setdefault(int(levels[task]), []).append(task)
    edges = []
    for tasks in members.values():
        above = [task for task in tasks if levels[task] < levels[-1]]
        parent = above[int(rng.integers(len(above)))]
        below = by_level[int(levels[parent]) + 1]
        edges.append((parent, below[int(rng.integers(len(below)))]))
    return edges
