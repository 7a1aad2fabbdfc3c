"""TDCA: clusters of nodes, with duplicates, that are merged onto the executors.

Source: K. He, X. Meng, Z. Pan, L. Yuan and P. Zhou, "A novel task-duplication based clustering algorithm for
heterogeneous computing environments", IEEE TPDS 30(1), 2019. We implemented the description of its four phases in
LACHESIS, section V-A, without access to the paper.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.planning import PartialSchedule, Placed, PlanningAgent, UnionGraph, serial_plan

__all__ = ["TDCA"]

Floats = NDArray[np.float64]


class Estimates(NamedTuple):
    """Earliest completion times of nodes if executors were unlimited.

    Attributes
    ----------
    favourites : list of int
        Favourite predecessor of each node: the parent whose data would arrive last from another executor; -1 if none.
    completion : numpy.ndarray of shape (num_nodes, num_executors)
        Earliest completion on each kind of executor, in seconds from the beginning.
    least : list of float
        Minimum of each row.
    """

    favourites: list[int]
    completion: Floats
    least: list[float]


class Cluster(NamedTuple):
    """A group of nodes that run on the same executor.

    Attributes
    ----------
    nodes : list of int
        Nodes of a path: each except the first is a child of the previous one.
    duplicates : list of int
        Ancestors of the first node, in topological order, that may be copied before it.
    """

    nodes: list[int]
    duplicates: list[int]


def estimate(graph: UnionGraph) -> Estimates:
    """Return earliest completion times and favourite predecessors, computed from parents to children.

    A node runs after its favourite predecessor on the same executor or receives its data from another, whichever is
    earlier. The data of the other parents come from where these finish first, after the mean transfer time.

    Parameters
    ----------
    graph : UnionGraph
        Graph of the jobs.

    Returns
    -------
    Estimates
        Estimates for all nodes; ties between parents go to the first one.
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
    """Return clusters of all nodes, with the ancestors that may be duplicated into each.

    Phase 1: starting from the unclustered node with the lowest rank, follow favourite predecessors up to a clustered
    node or to a node without parents, as long as some executor may run all of the path. Phase 2: beyond that point,
    continue the path with copies while they would let the first node of the cluster start earlier.

    Parameters
    ----------
    graph : UnionGraph
        Graph of the jobs.
    estimates : Estimates
        Estimates for the same graph.

    Returns
    -------
    list of Cluster
        Clusters; every node is in the ``nodes`` of exactly one.
    """
    in_cluster = [False] * graph.num_nodes
    eligible = graph.run_times < np.inf
    clusters = []
    for node in np.lexsort((-np.arange(graph.num_nodes), graph.ranks)).tolist():
        if in_cluster[node]:
            continue
        path = []
        step = node
        common = np.ones(graph.num_executors, dtype=bool)
        while step >= 0 and not in_cluster[step] and (common & eligible[step]).any():
            in_cluster[step] = True
            common &= eligible[step]
            path.append(step)
            step = estimates.favourites[step]
        path.reverse()
        clusters.append(Cluster(path, _worth_duplicating(graph, estimates, path)))
    return clusters


def _worth_duplicating(graph: UnionGraph, estimates: Estimates, path: list[int]) -> list[int]:
    """Return the ancestors along favourite predecessors whose copies let the first node of a path start earliest.

    Times are those on the kind of executor on which the last node of the path could complete first.
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
            break  # further ancestors cannot help
        step = estimates.favourites[step]
    return best


def _ready(graph: UnionGraph, estimates: Estimates, node: int, local: int) -> float:
    """Return when the data of all parents except a local one could arrive at another executor."""
    return max(
        (estimates.least[parent] + transfer for parent, _, transfer in graph.parents[node] if parent != local),
        default=0.0,
    )


def plan_with_tdca(graph: UnionGraph) -> list[Placed]:
    """Return a schedule of all nodes.

    Parameters
    ----------
    graph : UnionGraph
        Graph of the jobs and executors.

    Returns
    -------
    list of Placed
        Copies in order of start; each comes after those that it depends on.
    """
    estimates = estimate(graph)
    merging = _Merging(graph, estimates, make_clusters(graph, estimates))
    for node in np.lexsort((np.arange(graph.num_nodes), -graph.ranks)).tolist():
        merging.place(node)
    schedule = merging.schedule
    schedule.drop_unused()
    planned = schedule.in_order()
    serial = serial_plan(graph)
    return serial if max(copy.finish for copy in serial) < max(copy.finish for copy in planned) else planned


class _Merging:
    """State of merging clusters onto executors.

    Parameters
    ----------
    graph : UnionGraph
        Graph of the jobs and executors.
    estimates : Estimates
        Estimates for the same graph.
    clusters : list of Cluster
        Clusters of all nodes.
    """

    def __init__(self, graph: UnionGraph, estimates: Estimates, clusters: list[Cluster]) -> None:
        self.schedule = PartialSchedule(graph)
        self._graph = graph
        begin = graph.free.min().item()
        self._guesses = [begin + least for least in estimates.least]
        self._cluster_of = {node: number for number, cluster in enumerate(clusters) for node in cluster.nodes}
        self._clusters = clusters
        self._executor_of: dict[int, int] = {}
        self._to_come = np.zeros(graph.num_executors)

    def place(self, node: int) -> None:
        """Place a node whose parents are placed; the first node of a cluster determines the cluster's executor."""
        number = self._cluster_of[node]
        cluster = self._clusters[number]
        executor = self._executor_of.get(number)
        if executor is None:
            self._executor_of[number] = executor = self._choose(cluster)
            self._to_come[executor] += self._graph.run_times[cluster.nodes, executor].sum()
            self._duplicate(cluster.duplicates, node, executor)
        self._to_come[executor] -= self._graph.run_times[node, executor]
        self._insert_parents(node, executor)
        self.schedule.place(self.schedule.slot(node, executor))

    def _choose(self, cluster: Cluster) -> int:
        """Return the executor on which a cluster would finish first; ties go to the first executor."""
        schedule = self.schedule
        executors = range(self._graph.num_executors)
        if len(cluster.nodes) == 1 and not cluster.duplicates:
            return min(executors, key=lambda executor: schedule.slot(cluster.nodes[0], executor).finish)
        finish = np.array([schedule.end(executor) for executor in executors]) + self._to_come
        before = -1
        for node in (*cluster.duplicates, *cluster.nodes):
            done = np.maximum(finish, schedule.ready_times(node, before, self._guesses))
            done += self._graph.run_times[node]
            if node in cluster.duplicates:  # no duplicate where it may not run
                done = np.where(self._graph.run_times[node] < np.inf, done, finish)
            for copy in schedule.copies[node]:
                done[copy.executor] = max(finish[copy.executor], copy.finish)  # no second copy on the same executor
            finish = done
            before = node
        return int(finish.argmin())

    def _duplicate(self, duplicates: list[int], node: int, executor: int) -> None:
        """Place copies on an executor if they let a node start earlier there."""
        schedule = self.schedule
        missing = [other for other in duplicates if not schedule.is_on(other, executor)]
        if not (self._graph.run_times[missing, executor] < np.inf).all():
            return
        if not missing:
            return
        start = schedule.slot(node, executor).start
        placed = []
        for other in missing:
            copy = schedule.slot(other, executor)
            schedule.place(copy)
            placed.append(copy)
        if schedule.slot(node, executor).start >= start:
            for copy in placed:
                schedule.remove(copy)

    def _insert_parents(self, node: int, executor: int) -> None:
        """Copy the parent with the last data into an idle interval, repeatedly, while the node then starts earlier."""
        schedule = self.schedule
        parents = self._graph.parents[node]
        while parents:
            start = schedule.slot(node, executor).start
            arrivals = schedule.arrivals(node, executor)
            last = parents[arrivals.index(max(arrivals))][0]
            if schedule.is_on(last, executor):
                return
            copy = schedule.slot(last, executor)
            if copy.finish >= start:
                return
            schedule.place(copy)
            if schedule.slot(node, executor).start >= start:
                schedule.remove(copy)
                return


class TDCA(PlanningAgent):
    """Task-Duplication based Clustering Algorithm (TDCA), after the description of its four phases.

    TDCA plans whole jobs, with jobs that arrive together as one graph. Where
    the description leaves the phases open, we implement them as follows:

    1. Clustering: earliest completions are computed for unlimited executors, with mean transfer times. The favourite
       predecessor of a node is the parent whose data would arrive last. From the unclustered node closest to the end,
       favourite predecessors are followed up to a clustered one.
    2. Duplication: above the first node of each cluster, the path continues with copies of up to eight favourite
       predecessors, while they let the first node start earlier.
    3. Merging onto the executors: nodes are placed in order of upward rank. The first node of a cluster chooses the
       executor on which the whole cluster would finish first, after the nodes placed or expected there. Its duplicates
       are placed too if they let it start earlier. The nodes of merged clusters run in order of upward rank, also in
       idle intervals.
    4. Insertion: before a node is placed, the parent whose data arrive last is copied into an idle interval before it,
       repeatedly, while that lets the node start earlier. In the end, unused copies are removed.

    The nodes of a cluster have an eligible executor in common. If all nodes would finish earlier on a single executor,
    they are planned there. A node that has to run again after
    an outage is assigned by upward rank and EFT. Later jobs queue behind those planned before. Plans ignore that
    transfers share links, as do the expected times of the other agents.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), TDCA())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name = "tdca"

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return the schedule of jobs that arrived together, in order of start."""
        return plan_with_tdca(graph)
