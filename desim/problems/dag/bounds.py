"""Times that no schedule of DAG jobs falls below, and the time that they take one node after the other."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.dag.tables import CHANNELS, EDGES, EXECUTORS, JOBS, NODES

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["DagGraph", "critical_paths", "earliest_finishes", "lower_bound", "read_graph", "serial_time", "with_places"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class DagGraph:
    """The jobs of a run as one graph of n nodes and m edges, numbered job by job, on k executors.

    Attributes
    ----------
    submission : array of float, shape (j,)
        When each job was submitted, in seconds.
    first_node : array of int, shape (j,)
        The number of its first node.
    work : array of float, shape (n,)
        Computation size.
    own_times : array of float, shape (l, k)
        Run times of the nodes that have their own, in seconds.
    own_node : array of int, shape (l,)
        These nodes.
    parent, child : array of int, shape (m,)
        Ends of the edges, sorted by child.
    size : array of float, shape (m,)
        Units of data on the edges.
    speeds : array of float, shape (k,)
        Speeds of the executors, work per second.
    num_parts : array of int, shape (n,)
        Equal parts in which each node runs: its tasks, or 1 where nodes run whole.
    measured : bool
        Durations of tasks were drawn from measured ones, so that run times tell nothing about them.
    seconds_per_unit, latency : float
        The least that a unit of data takes between two executors, and the least latency; infinite with one executor.
    """

    submission: Floats
    first_node: Whole
    work: Floats
    own_times: Floats
    own_node: Whole
    parent: Whole
    child: Whole
    size: Floats
    speeds: Floats
    num_parts: Whole
    measured: bool
    seconds_per_unit: float
    latency: float

    @property
    def shortest(self) -> Floats:
        """How long each node, or a part of it, runs on the executor that is best for it, in seconds, shape (n,)."""
        times: Floats = self.work / self.speeds.max(initial=0.0)
        times[self.own_node] = self.own_times.min(axis=1, initial=np.inf)
        return times / self.num_parts


def read_graph(result: Result) -> DagGraph:
    """Read the jobs of a run, their nodes and edges, and the executors.

    Parameters
    ----------
    result : Result
        The run.

    Returns
    -------
    DagGraph
        The graph; its jobs are in the order of the job table.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, or the tables do not fit each other.
    """
    jobs = JOBS.select(result.scan("jobs"), "submission_time", "num_nodes")
    columns = ("arrival_number", "node", "work", "num_tasks", "run_times", "measured")
    nodes = with_places(result, NODES.select(result.scan("nodes"), *columns))
    edges = with_places(result, EDGES.select(result.scan("edges"), "arrival_number", "parent", "child", "size"))
    channels = CHANNELS.select(result.scan("channels"), "transfer_speed", "latency")
    speeds = EXECUTORS.select(result.scan("executors"), "speed")["speed"].to_numpy()
    counts = jobs["num_nodes"].to_numpy()
    if len(nodes) != counts.sum():
        raise InvalidConfiguration(f"the table nodes has {len(nodes)} rows, the jobs have {counts.sum()} nodes")
    node = (nodes["first_node"] + nodes["node"]).to_numpy()
    work, num_parts = np.empty(len(node)), np.ones(len(node), dtype=np.int64)
    work[node] = nodes["work"].to_numpy()
    if result.info["granularity"] == "task":
        num_parts[node] = nodes["num_tasks"].to_numpy()
    own = nodes["run_times"].drop_nulls()
    parent, child = ((edges["first_node"] + edges[name]).to_numpy() for name in ("parent", "child"))
    order = np.argsort(child, kind="stable")
    return DagGraph(
        jobs["submission_time"].to_numpy(),
        np.cumsum(counts) - counts,
        work,
        own.explode().to_numpy().reshape(-1, len(speeds)) if len(own) else np.empty((0, len(speeds))),
        node[nodes["run_times"].is_not_null().to_numpy()],
        parent[order],
        child[order],
        edges["size"].to_numpy()[order],
        speeds,
        num_parts,
        bool(nodes["measured"].any()),
        float(np.min(1.0 / channels["transfer_speed"].to_numpy(), initial=np.inf)),
        float(np.min(channels["latency"].to_numpy(), initial=np.inf)),
    )


def with_places(result: Result, frame: pl.DataFrame) -> pl.DataFrame:
    """Put beside each row of a table the row of its job in the job table, and the number of the job's first node.

    Parameters
    ----------
    result : Result
        The run.
    frame : polars.DataFrame
        A table with the column ``arrival_number``.

    Returns
    -------
    polars.DataFrame
        In the same order, with the columns ``job`` and ``first_node`` more.

    Raises
    ------
    InvalidConfiguration
        If there is no such job.
    """
    import polars as pl

    counts = pl.col("num_nodes")
    jobs = JOBS.select(result.scan("jobs"), "arrival_number", "num_nodes").select(
        "arrival_number", job=pl.int_range(pl.len()), first_node=counts.cum_sum() - counts
    )
    placed = frame.join(jobs, on="arrival_number", how="left", maintain_order="left")
    unknown = placed.filter(pl.col("job").is_null())["arrival_number"].to_list()
    if unknown:
        raise InvalidConfiguration(f"there is no job of arrival number {unknown[0]}")
    return placed


def critical_paths(graph: DagGraph) -> Floats:
    """Return the length of the longest path through each job, each node on the executor that is best for it.

    Where nodes run in equal parts, all at once, one part of each counts. Transfers take no time on it, as on one
    executor: the denominator of equation (14) of LACHESIS.

    Parameters
    ----------
    graph : DagGraph
        The jobs, n of them.

    Returns
    -------
    array of float, shape (n,)
        In seconds.
    """
    times = graph.shortest.tolist()
    finish = times.copy()
    # Edges come by child, and parents have lower numbers, so that a parent's finish is final when it is looked up.
    for parent, child in zip(graph.parent.tolist(), graph.child.tolist(), strict=True):
        finish[child] = max(finish[child], finish[parent] + times[child])
    return np.maximum.reduceat(np.array(finish), graph.first_node) if len(graph.first_node) else np.empty(0)


def earliest_finishes(graph: DagGraph) -> Floats:
    """Return a time after its submission before which no schedule can have finished each job, transfers included.

    Each node counts with the executor that is best for it, and data move as between the pair of executors where they
    move fastest. For a node, some parents have a copy on its executor and the others send their data. Those copies run
    one after the other, none before its own earliest start; the data of the others arrive no earlier than their
    earliest finish and the transfer. If data that arrive at some time are waited for, nothing is gained by a copy of a
    parent whose data arrive before that; so the best division has the parents whose data arrive last on the executor,
    and it is enough to try how many these are. What else runs there, such as grandparents, is left out, so this is a
    bound whatever is duplicated. Where nodes run in several parts, each of which receives but a share, transfers are
    left out, and these are the critical paths. The idea is that of C. H. Papadimitriou and M. Yannakakis, "Towards an
    architecture-independent analysis of parallel algorithms", SIAM Journal on Computing 19(2), 1990.

    Parameters
    ----------
    graph : DagGraph
        The jobs, n of them.

    Returns
    -------
    array of float, shape (n,)
        In seconds, at least the critical paths.
    """
    if not len(graph.first_node):
        return np.empty(0)
    if (graph.num_parts > 1).any():
        return critical_paths(graph)
    times = graph.shortest.tolist()
    starts, finishes = [0.0] * len(times), list(times)
    moves = graph.size > 0  # nothing times infinite seconds is nothing
    transfers = np.multiply(graph.size, graph.seconds_per_unit, out=np.zeros(len(moves)), where=moves) + graph.latency
    # Edges come by child, and parents have lower numbers, so that all is known of a parent when it is looked up.
    edges = zip(graph.parent.tolist(), graph.child.tolist(), transfers.tolist(), strict=True)
    for child, of_child in groupby(edges, key=itemgetter(1)):
        inputs = [(finishes[parent] + seconds, starts[parent], times[parent]) for parent, _, seconds in of_child]
        starts[child] = _earliest_start(inputs)
        finishes[child] = starts[child] + times[child]
    return np.maximum.reduceat(np.array(finishes), graph.first_node)


def _earliest_start(inputs: list[tuple[float, float, float]]) -> float:
    """Return when a node can start at the earliest: of each parent when its data arrive, its own start, its length."""
    inputs.sort(reverse=True)
    best = inputs[0][0]
    here: list[tuple[float, float]] = []
    for number, (_, start, length) in enumerate(inputs, 1):
        insort(here, (start, length))
        time = 0.0
        for begin, duration in here:
            time = max(time, begin) + duration
        if time >= best:
            break
        best = max(time, inputs[number][0]) if number < len(inputs) else time
    return best


def serial_time(graph: DagGraph) -> float:
    """Return how long all nodes take one after the other on the executor that is best for all of them.

    The numerator of equation (13) of LACHESIS.

    Parameters
    ----------
    graph : DagGraph
        The jobs.

    Returns
    -------
    float
        In seconds.
    """
    related = graph.work.sum() - graph.work[graph.own_node].sum()
    return float(np.min(related / graph.speeds + graph.own_times.sum(axis=0), initial=math.inf))


def lower_bound(graph: DagGraph) -> float:
    """Return a time from the first submission on by which no schedule can have finished all jobs.

    It is the larger of two, both for whatever order, allocation and duplication, and also with transfers, outages and
    shared links, all of which only add to it:

    - the latest of submission plus earliest finish of the jobs, see `earliest_finishes`;
    - the latest, over the submission times t, of t plus what is submitted from t on, divided among all executors. For
      nodes that take work / speed that is the work over the sum of the speeds. In general, for weights y_k of the
      executors that sum up to 1, no division takes less than the sum over the nodes of the least y_k p_ik, where p_ik
      is the run time: executor k is busy for at most T, so that T = sum y_k T >= sum over all nodes and executors of
      y_k p_ik x_ik for any fractions x_ik. Weights in proportion to the speeds and equal ones are tried.

    Parameters
    ----------
    graph : DagGraph
        The jobs.

    Returns
    -------
    float
        In seconds, NaN without jobs.
    """
    if not len(graph.first_node):
        return math.nan
    bounds = [float(np.max(graph.submission + earliest_finishes(graph)))]
    order = np.argsort(graph.submission, kind="stable")
    count = len(graph.speeds)
    for weights in (graph.speeds / graph.speeds.sum(), np.full(count, 1 / count)):
        loads = graph.work * (weights / graph.speeds).min()
        loads[graph.own_node] = (graph.own_times * weights).min(axis=1, initial=math.inf)
        by_job = np.add.reduceat(loads, graph.first_node)[order]
        bounds.append(float(np.max(graph.submission[order] + np.cumsum(by_job[::-1])[::-1])))
    return max(bounds) - float(graph.submission.min())
