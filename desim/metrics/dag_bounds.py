"""Times that no schedule of DAG jobs falls below, and the time that they take one node after the other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from desim.metrics.dag_input import DagGraph, DagJobs

__all__ = ["critical_paths", "lower_bound", "serial_time"]

Floats = NDArray[np.float64]


def critical_paths(jobs: DagJobs, graph: DagGraph) -> Floats:
    """Return the length of the longest path through each job, each node on the executor that is best for it.

    Transfers take no time on it, as on one executor: the denominator of equation (14) of LACHESIS.

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

    - the latest of submission plus critical path of the jobs;
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
    bounds = [float(np.max(jobs.submission + critical_paths(jobs, graph)))]
    order = np.argsort(jobs.submission, kind="stable")
    count = len(graph.speeds)
    for weights in (graph.speeds / graph.speeds.sum(), np.full(count, 1 / count)):
        loads = graph.work * (weights / graph.speeds).min()
        loads[graph.own_node] = (graph.own_times * weights).min(axis=1, initial=math.inf)
        by_job = np.add.reduceat(loads, jobs.first_node)[order]
        bounds.append(float(np.max(jobs.submission[order] + np.cumsum(by_job[::-1])[::-1])))
    return max(bounds) - float(jobs.submission.min())
