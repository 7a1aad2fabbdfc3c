"""A schedule under construction: copies of nodes on executors, with idle time between them."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag._union import UnionGraph

__all__ = ["Placed", "Timetables", "serial_plan"]

Floats = NDArray[np.float64]


class Placed(NamedTuple):
    """A copy with its place; they sort in the order in which an executor runs them."""

    start: float
    finish: float
    node: int
    executor: int


class Timetables:
    """The copies placed so far.

    Parameters
    ----------
    graph : UnionGraph
        What is to be placed, and where.

    Attributes
    ----------
    tables : list of list of Placed
        By executor, in order.
    copies : list of list of Placed
        By node.
    """

    def __init__(self, graph: UnionGraph) -> None:
        self._graph = graph
        self._free = graph.free.tolist()
        self._run_times = graph.run_times.tolist()
        self._seconds = graph.seconds_per_unit.tolist()
        self._latencies = graph.latencies.tolist()
        self.tables: list[list[Placed]] = [[] for _ in graph.executors]
        self.copies: list[list[Placed]] = [[] for _ in range(graph.num_nodes)]

    def end(self, executor: int) -> float:
        """Return when an executor has run all that is placed on it, in seconds."""
        table = self.tables[executor]
        return table[-1].finish if table else self._free[executor]

    def append(self, node: int, executor: int, earliest: float = 0.0) -> None:
        """Place a node behind all that is on an executor, not before a time in seconds."""
        start = max(self.end(executor), earliest, *self.arrivals(node, executor))
        self.place(Placed(start, start + self._run_times[node][executor], node, executor))

    def is_on(self, node: int, executor: int) -> bool:
        """Tell whether an executor has a copy of a node."""
        return any(copy.executor == executor for copy in self.copies[node])

    def arrival(self, copy: Placed, size: float, executor: int) -> float:
        """Return when data of a copy are on an executor, in seconds."""
        source = copy.executor
        if source == executor:
            return copy.finish
        # Added up as the cluster does, so that what is planned is what happens.
        seconds: float = size * self._seconds[source][executor] + self._latencies[source][executor]
        return copy.finish + seconds

    def arrivals(self, node: int, executor: int) -> list[float]:
        """Return when the data of each parent are on an executor, from the copy that is first there, in seconds."""
        return [
            min(self.arrival(copy, size, executor) for copy in self.copies[parent])
            for parent, size, _ in self._graph.parents[node]
        ]

    def slot(self, node: int, executor: int) -> Placed:
        """Return the earliest place for a node on an executor, idle time included."""
        ready = max(self.arrivals(node, executor), default=0.0)
        ready = max(ready, self._free[executor])
        duration = self._run_times[node][executor]
        table = self.tables[executor]
        place = bisect_left(table, ready, key=_finish)
        start = ready
        for other in table[place:]:
            if start + duration <= other.start:
                break
            start = max(start, other.finish)
        return Placed(start, start + duration, node, executor)

    def place(self, placed: Placed) -> None:
        """Put a copy in its place."""
        insort(self.tables[placed.executor], placed)
        self.copies[placed.node].append(placed)

    def remove(self, placed: Placed) -> None:
        """Take a copy out."""
        self.tables[placed.executor].remove(placed)
        self.copies[placed.node].remove(placed)

    def in_order(self) -> list[Placed]:
        """Return all copies in order of start: none comes before one that it depends on."""
        return sorted(copy for table in self.tables for copy in table)

    def drop_unused(self) -> None:
        """Take out the copies whose data are not the first anywhere, from the last nodes up."""
        parents = self._graph.parents
        used: list[set[int]] = [set() for _ in parents]
        for node in range(len(parents) - 1, -1, -1):
            copies = self.copies[node]
            if not used[node]:  # nobody waits for it: it only has to finish
                used[node].add(min(copies, key=_finish).executor)
            for copy in [copy for copy in copies if copy.executor not in used[node]]:
                self.remove(copy)
            for copy in self.copies[node]:
                for parent, size, _ in parents[node]:
                    sources = self.copies[parent]
                    first = min(sources, key=lambda source: self.arrival(source, size, copy.executor))
                    used[parent].add(first.executor)

    def ready_times(self, node: int, skipped: int, guesses: list[float]) -> Floats:
        """Return when the data of a node's parents are on each executor.

        Parameters
        ----------
        node : int
            The node.
        skipped : int
            A parent that does not count.
        guesses : list of float
            For each node when it may finish, in seconds, used with the mean transfer time while it is not placed.

        Returns
        -------
        numpy.ndarray of shape (num_executors,)
            Seconds.
        """
        graph = self._graph
        latest = np.zeros(graph.num_executors)
        for parent, size, transfer in graph.parents[node]:
            if parent == skipped:
                continue
            if not self.copies[parent]:
                np.maximum(latest, guesses[parent] + transfer, out=latest)
                continue
            sources = [copy.executor for copy in self.copies[parent]]
            rows = size * graph.seconds_per_unit[sources] + graph.latencies[sources]
            rows += np.array([copy.finish for copy in self.copies[parent]])[:, None]
            np.maximum(latest, rows.min(axis=0), out=latest)
        return latest


def serial_plan(graph: UnionGraph) -> list[Placed]:
    """Return the schedule of all nodes on the one executor that is done with them first; of equal ones the first.

    Parameters
    ----------
    graph : UnionGraph
        What is to be placed, and where.

    Returns
    -------
    list of Placed
        In order.
    """
    timetables = Timetables(graph)
    executor = int((graph.free + graph.run_times.sum(axis=0)).argmin())
    for node in range(graph.num_nodes):
        timetables.append(node, executor)
    return timetables.in_order()


def _finish(placed: Placed) -> float:
    return placed.finish
