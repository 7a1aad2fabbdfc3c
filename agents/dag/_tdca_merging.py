"""The last two phases of TDCA: clusters are merged onto the executors, and copies inserted into idle time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag._placing import Placed, Timetables, serial_plan
from desim.agents.dag._tdca_clusters import Cluster, Estimates, estimate, make_clusters
from desim.agents.dag._union import UnionGraph

__all__ = ["plan_with_tdca"]

Floats = NDArray[np.float64]


def plan_with_tdca(graph: UnionGraph) -> list[Placed]:
    """Return a schedule of all nodes.

    Parameters
    ----------
    graph : UnionGraph
        The jobs and the executors.

    Returns
    -------
    list of Placed
        In order of start; at no place does a copy come before one that it depends on.
    """
    estimates = estimate(graph)
    merging = _Merging(graph, estimates, make_clusters(graph, estimates))
    for node in np.lexsort((np.arange(graph.num_nodes), -graph.ranks)).tolist():
        merging.place(node)
    timetables = merging.timetables
    timetables.drop_unused()
    planned = timetables.in_order()
    serial = serial_plan(graph)
    return serial if serial[-1].finish < max(copy.finish for copy in planned) else planned


class _Merging:
    """Clusters on their way to executors.

    Parameters
    ----------
    graph : UnionGraph
        The jobs.
    estimates : Estimates
        Of the same jobs.
    clusters : list of Cluster
        Their nodes.
    """

    def __init__(self, graph: UnionGraph, estimates: Estimates, clusters: list[Cluster]) -> None:
        self.timetables = Timetables(graph)
        self._graph = graph
        begin = graph.free.min().item()
        self._guesses = [begin + least for least in estimates.least]
        self._cluster_of = {node: number for number, cluster in enumerate(clusters) for node in cluster.nodes}
        self._clusters = clusters
        self._executor_of: dict[int, int] = {}
        self._to_come = np.zeros(graph.num_executors)

    def place(self, node: int) -> None:
        """Place a node, the parents of which are placed; the first node of a cluster brings it to an executor."""
        number = self._cluster_of[node]
        cluster = self._clusters[number]
        executor = self._executor_of.get(number)
        if executor is None:
            self._executor_of[number] = executor = self._choose(cluster)
            self._to_come[executor] += self._graph.run_times[cluster.nodes, executor].sum()
            self._duplicate(cluster.duplicates, node, executor)
        self._to_come[executor] -= self._graph.run_times[node, executor]
        self._insert_parents(node, executor)
        self.timetables.place(self.timetables.slot(node, executor))

    def _choose(self, cluster: Cluster) -> int:
        """Return the executor on which a cluster would finish first; of equal ones the first."""
        timetables = self.timetables
        executors = range(self._graph.num_executors)
        if len(cluster.nodes) == 1 and not cluster.duplicates:
            return min(executors, key=lambda executor: timetables.slot(cluster.nodes[0], executor).finish)
        finish = np.array([timetables.end(executor) for executor in executors]) + self._to_come
        before = -1
        for node in (*cluster.duplicates, *cluster.nodes):
            done = np.maximum(finish, timetables.ready_times(node, before, self._guesses))
            done += self._graph.run_times[node]
            for copy in timetables.copies[node]:
                done[copy.executor] = max(finish[copy.executor], copy.finish)  # one copy is enough
            finish = done
            before = node
        return int(finish.argmin())

    def _duplicate(self, duplicates: list[int], node: int, executor: int) -> None:
        """Place copies on an executor if that lets a node start earlier there."""
        timetables = self.timetables
        missing = [other for other in duplicates if not timetables.is_on(other, executor)]
        if not missing:
            return
        start = timetables.slot(node, executor).start
        placed = []
        for other in missing:
            copy = timetables.slot(other, executor)
            timetables.place(copy)
            placed.append(copy)
        if timetables.slot(node, executor).start >= start:
            for copy in placed:
                timetables.remove(copy)

    def _insert_parents(self, node: int, executor: int) -> None:
        """Copy the parent whose data come last into idle time before a node, as long as that lets it start earlier."""
        timetables = self.timetables
        parents = self._graph.parents[node]
        while parents:
            start = timetables.slot(node, executor).start
            arrivals = timetables.arrivals(node, executor)
            last = parents[arrivals.index(max(arrivals))][0]
            if timetables.is_on(last, executor):
                return
            copy = timetables.slot(last, executor)
            if copy.finish >= start:
                return
            timetables.place(copy)
            if timetables.slot(node, executor).start >= start:
                timetables.remove(copy)
                return
