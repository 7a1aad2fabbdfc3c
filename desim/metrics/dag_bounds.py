"""Times that no schedule of DAG jobs falls below, and the time that they take one node after the other."""

from __future__ import annotations

import math
from bisect import insort
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from desim.metrics.dag_input import DagGraph, DagJobs

__all__ = ["critical_paths", "earliest_finishes", "lower_bound", "serial_time"]

Floats = NDArray[np.float64]


def critical_paths(jobs: DagJobs, graph: DagGraph) -> Floats:
    """Return the length of the longest path through each job, each node on the executor that is best for it.

    Where nodes run in equal parts, all at once, one part of each counts. Transfers take no time on it, as on one
    executor: the denominator of equation (14) of LACHESIS.

    Parameters
    ----------
    jobs : DagJobs
        The jobs, n of them.
    graph : DagGraph
        Their nodes and edges.

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
    return np.maximum.reduceat(np.array(finish), jobs.first_node) if len(jobs.job_id) else np.empty(0)


def earliest_finishes(jobs: DagJobs, graph: DagGraph) -> Floats:
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
    jobs : DagJobs
        The jobs, n of them.
    graph : DagGraph
        Their nodes and edges.

    Returns
    -------
    array of float, shape (n,)
        In seconds, at least the critical paths.
    """
    if not len(jobs.job_id):
        return np.empty(0)
    if (graph.num_parts > 1).any():
        return critical_paths(jobs, graph)
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
    return np.maximum.reduceat(np.array(finishes), jobs.first_node)


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
        The nodes.

    Returns
    -------
    float
        In seconds.
    """
    related = graph.work.sum() - graph.work[graph.own_node].sum()
    return float(np.min(related / graph.speeds + graph.own_times.sum(axis=0), initial=math.inf))


def lower_bound(jobs: DagJobs, graph: DagGraph) -> float:
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
    jobs : DagJobs
        The jobs.
    graph : DagGraph
        Their nodes and edges.

    Returns
    -------
    float
        In seconds, NaN without jobs.
    """
    if not len(jobs.job_id):
        return math.nan
    bounds = [float(np.max(jobs.submission + earliest_finishes(jobs, graph)))]
    order = np.argsort(jobs.submission, kind="stable")
    count = len(graph.speeds)
    for weights in (graph.speeds / graph.speeds.sum(), np.full(count, 1 / count)):
        loads = graph.work * (weights / graph.speeds).min()
        loads[graph.own_node] = (graph.own_times * weights).min(axis=1, initial=math.inf)
        by_job = np.add.reduceat(loads, jobs.first_node)[order]
        bounds.append(float(np.max(jobs.submission[order] + np.cumsum(by_job[::-1])[::-1])))
    return max(bounds) - float(jobs.submission.min())
