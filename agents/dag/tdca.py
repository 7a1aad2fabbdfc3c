"""TDCA: clusters of nodes, with duplicates, that are merged onto the executors.

Source: K. He, X. Meng, Z. Pan, L. Yuan and P. Zhou, "A novel task-duplication based clustering algorithm for
heterogeneous computing environments", IEEE TPDS 30(1), 2019; written from the description of its four phases in
LACHESIS, section V-A, without the paper at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.agents.dag.planning import PartialSchedule, Placed, PlanningAgent, UnionGraph, serial_plan

__all__ = ["TDCA"]

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
    schedule = merging.schedule
    schedule.drop_unused()
    planned = schedule.in_order()
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
        self.schedule = PartialSchedule(graph)
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
        self.schedule.place(self.schedule.slot(node, executor))

    def _choose(self, cluster: Cluster) -> int:
        """Return the executor on which a cluster would finish first; of equal ones the first."""
        schedule = self.schedule
        executors = range(self._graph.num_executors)
        if len(cluster.nodes) == 1 and not cluster.duplicates:
            return min(executors, key=lambda executor: schedule.slot(cluster.nodes[0], executor).finish)
        finish = np.array([schedule.end(executor) for executor in executors]) + self._to_come
        before = -1
        for node in (*cluster.duplicates, *cluster.nodes):
            done = np.maximum(finish, schedule.ready_times(node, before, self._guesses))
            done += self._graph.run_times[node]
            for copy in schedule.copies[node]:
                done[copy.executor] = max(finish[copy.executor], copy.finish)  # one copy is enough
            finish = done
            before = node
        return int(finish.argmin())

    def _duplicate(self, duplicates: list[int], node: int, executor: int) -> None:
        """Place copies on an executor if that lets a node start earlier there."""
        schedule = self.schedule
        missing = [other for other in duplicates if not schedule.is_on(other, executor)]
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
        """Copy the parent whose data come last into idle time before a node, as long as that lets it start earlier."""
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
    """Task-Duplication based Clustering Algorithm, after the description of its four phases.

    It plans whole jobs, those that arrive together as one graph, so it needs a cluster with ``plan_ahead=True``. What
    the phases do here, where the description leaves it open:

    1. Clusters: earliest completions are computed as if there were executors enough, with mean transfer times; the
       favourite predecessor of a node is the parent whose data would come last. From the node that is closest to the
       end and in no cluster, favourite predecessors are followed up to one that is in a cluster.
    2. Duplication: the path goes on above the first node of each cluster with copies of favourite predecessors, at most
       eight, as far as that lets the first node start earlier.
    3. Merging to the executors there are: nodes in order of upward rank; the first node of a cluster brings it to the
       executor on which the whole cluster would finish first, behind what is there and to come there. Its duplicates
       come along if they let it start earlier. Nodes of merged clusters run in order of upward rank, in idle time too.
    4. Insertion: before a node is placed, the parent whose data come last is copied into idle time before it, again
       and again, as long as the node can then start earlier. At the end, copies whose data nobody waits for are left
       out.

    If all nodes on one executor would be done earlier than that, this is what it plans. A node that comes back after an
    outage is assigned by upward rank and EFT. Later jobs queue behind those planned before. Links that transfers share
    are left out of the plan, as they are of the times that other agents expect.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), TDCA())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name = "tdca"

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return the schedule of jobs that have arrived together, in order of start."""
        return plan_with_tdca(graph)
