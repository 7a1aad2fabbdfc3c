"""Metrics of a DAG cluster, computed from its tables and from nothing else.

`DAG_METRICS` names every metric with its meaning and unit. They are those of Luo et al., "Learning to Optimize DAG
Scheduling in Heterogeneous Environment" (LACHESIS), and what tells where time and data went.

Makespan, and what is divided by it, is only given for runs in which every job has completed. Speedup is its equation
(13). SLR is its equation (14), with the longest critical path where there are several jobs; each job's own turnaround
time over its own critical path is also given, as a mean. The lower bound is that of `desim.metrics.dag_bounds`; up to
rounding no makespan lies below it.

A copy is *useful* if it completed and some copy that started took its data, on whatever executor, or if its node has no
children and it was the first of the node to complete. Where an executor has run a node more than once, the data are
those of the last copy that had finished when they were sent. The time of all other copies is *wasted*: of those that an
outage interrupted, and of those that ran to their end or still run although their job completed without them. So an
original can be wasted because its duplicates have served all its children, or because its result was lost. As long as a
job has not completed, what it has run to the end counts as useful.

Where nodes run task by task, every task is a copy, and every one that completed counts as useful. The critical path has
one task of each node, an equal part of it, as if all ran at once. Bounds, speedup and SLR are NaN if durations were
drawn from measured ones, because the tables do not hold what those tasks would have taken elsewhere.

Utilization counts from the first submission to the end of the run. The serial time bounds no makespan from above: an
agent that spreads nodes can wait long for their data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.metrics.columns import description, end_time_of, numbers, read_columns
from desim.metrics.dag_bounds import critical_paths, lower_bound, serial_time
from desim.metrics.dag_copies import DagCopies, DagTransfers, read_copies, read_transfers
from desim.metrics.dag_input import DagGraph, DagJobs, latest, read_graph, read_jobs
from desim.statistics import mean, summary

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["DAG_METRICS", "dag_metrics", "dag_result_metrics"]

Mask = NDArray[np.bool_]

_TABLES = ("jobs", "nodes", "edges", "copies", "transfers", "executors", "channels", "outages")

DAG_METRICS: Mapping[str, str] = {
    "num_jobs": "jobs submitted",
    "num_completed": "jobs all of whose nodes have finished",
    "num_running": "jobs of which some copy has started when the run ended",
    "num_waiting": "jobs of which none has",
    "num_nodes": "nodes of all jobs",
    "makespan": "last end of a job minus first submission, s; NaN unless all jobs have completed",
    "serial_time": "time that all nodes take one after the other on the one executor that is best for that, s",
    "speedup": "serial time over makespan",
    "critical_path": "length of the longest path through any job, each node on its best executor, no transfers, s",
    "slr": "schedule length ratio: makespan over critical path",
    "job_slr_mean": "mean over completed jobs of turnaround time over the job's own critical path, if that is above 0",
    "lower_bound": "time from the first submission on that no schedule can finish in less than, s",
    "gap_to_lower_bound": "makespan over lower bound, minus 1",
    "turnaround_time_mean": "mean of: time from submission to end of completed jobs, s",
    "turnaround_time_median": "median of the same, s",
    "turnaround_time_p95": "95th percentile of the same, s",
    "waiting_time_mean": "mean of: time from submission to the start of the first copy, of jobs that have one, s",
    "utilization": "time that executors ran copies over time that they were up",
    "useful_utilization": "the same without wasted time",
    "wasted_time": "time that executors ran copies that were interrupted or not useful, s",
    "num_copies": "copies that started",
    "num_duplicates": "copies that started and were duplicates when they were assigned",
    "num_useful_duplicates": "useful ones among them",
    "num_interrupted": "copies that an outage cut",
    "num_withdrawn": "copies taken back before they started, because of an outage or because their job had ended",
    "num_reexecuted": "copies that started again, no duplicates, of nodes that had finished: the results were lost",
    "num_transfers": "inputs of copies that moved from one executor to another",
    "data_moved": "their sizes in all, units of data",
    "local_share": "size of the inputs that were on the executor already over size of all inputs",
    "transfer_time_mean": "mean of: time from sending to arrival of the inputs that moved, s",
}
"""The metrics of a DAG cluster: name, and meaning with unit, in the order in which they are returned."""


def dag_result_metrics(result: Result) -> dict[str, float]:
    """Return the metrics of a run of DAG jobs.

    Parameters
    ----------
    result : Result
        The run; only the columns that are needed are read.

    Returns
    -------
    dict of str to float
        Every metric of `DAG_METRICS`.

    Raises
    ------
    InvalidConfiguration
        If the result is not one of a DAG cluster.
    """
    info = description(result, "dag")
    tables = {name: result.scan(name) for name in _TABLES}
    return dag_metrics(tables, end_time=end_time_of(result), by_task=info.get("granularity") == "task")


def dag_metrics(
    tables: Mapping[str, pl.DataFrame | pl.LazyFrame], *, end_time: float, by_task: bool = False
) -> dict[str, float]:
    """Compute all metrics of `DAG_METRICS`.

    Parameters
    ----------
    tables : mapping of str to polars.DataFrame or polars.LazyFrame
        ``jobs`` in any order; their ``nodes`` and ``edges``, where an id was used again in the order in which its jobs
        were submitted; ``copies``, ``transfers`` and ``outages`` in the order of recording; ``executors``
        and ``channels``.
    end_time : float
        When the run ended, in seconds.
    by_task : bool
        Nodes ran task by task, see the module.

    Returns
    -------
    dict of str to float
        The metrics, NaN where nothing can be said. Percentiles are interpolated linearly.

    Raises
    ------
    InvalidConfiguration
        If a table or a column is missing, or tables do not fit each other.
    """
    missing = [name for name in _TABLES if name not in tables]
    if missing:
        raise InvalidConfiguration(f"there is no table {missing[0]!r}, want {', '.join(_TABLES)}")
    table = read_jobs(tables["jobs"])
    graph = read_graph(table, tables, by_task=by_task)
    ran, inputs = read_copies(table, tables["copies"], by_task=by_task), read_transfers(table, tables["transfers"])
    begin = float(np.min(table.submission, initial=end_time))
    up = _time_up(tables["outages"], len(graph.speeds), begin, end_time)
    values = {
        **_schedule(table, graph),
        **_jobs(table),
        **_work(ran, _wasted(table, graph, ran, None if by_task else inputs), up, end_time),
        **_transfers(inputs),
    }
    return {name: float(values[name]) for name in DAG_METRICS}


def _schedule(table: DagJobs, graph: DagGraph) -> dict[str, float]:
    """Return the makespan and what it is compared with."""
    paths, serial, bound = np.full(len(table.job_id), math.nan), math.nan, math.nan
    if not graph.measured:
        paths, serial, bound = critical_paths(table, graph), serial_time(graph), lower_bound(table, graph)
    completed = table.status["completed"]
    makespan = math.nan
    if len(completed) and completed.all():
        makespan = float(table.finish.max() - table.submission.min())
    longest = float(paths.max()) if len(paths) else math.nan
    known = completed & (paths > 0)
    return {
        "num_nodes": len(graph.work),
        "makespan": makespan,
        "serial_time": serial,
        "speedup": _ratio(serial, makespan),
        "critical_path": longest,
        "slr": _ratio(makespan, longest),
        "job_slr_mean": mean((table.finish - table.submission)[known] / paths[known]),
        "lower_bound": bound,
        "gap_to_lower_bound": _ratio(makespan, bound) - 1,
    }


def _ratio(value: float, by: float) -> float:
    return value / by if by > 0 else math.nan


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _jobs(table: DagJobs) -> dict[str, float]:
    turnaround = (table.finish - table.submission)[table.status["completed"]]
    begun = ~np.isnan(table.start)
    return {
        "num_jobs": len(table.job_id),
        **{f"num_{name}": _count(mask) for name, mask in table.status.items()},
        **summary("turnaround_time", turnaround),
        "waiting_time_mean": mean((table.start - table.submission)[begun]),
    }


def _wasted(table: DagJobs, graph: DagGraph, copies: DagCopies, inputs: DagTransfers | None) -> Mask:
    """Tell which copies that started were interrupted or not useful; without inputs all that completed are."""
    if inputs is None:
        return copies.outcome["interrupted"]
    done, count = copies.outcome["completed"], len(graph.speeds)
    useful = np.zeros(len(done), dtype=np.bool_)
    rows = np.flatnonzero(done)
    taken = latest(
        copies.node[rows] * count + copies.executor[rows],
        copies.finish[rows],
        inputs.parent * count + inputs.source,
        inputs.begin,
    )
    useful[rows[taken[taken >= 0]]] = True
    last = rows[~graph.has_children[copies.node[rows]]]
    order = last[np.lexsort((copies.finish[last], copies.node[last]))]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.diff(copies.node[order]) != 0
    useful[order[new]] = True
    over = table.status["completed"][copies.job]
    return copies.outcome["interrupted"] | (over & ~useful & (done | copies.outcome["running"]))


def _time_up(outages: pl.DataFrame | pl.LazyFrame, count: int, begin: float, end: float) -> float:
    """Return the time that the executors were up in all, in seconds."""
    events = read_columns("outages", outages, ("time", "event"))
    times, down = np.clip(numbers(events["time"]), begin, end), (events["event"] == "down").to_numpy()
    # Each event changes the number of executors that are down from its time to the end.
    return count * (end - begin) - float(np.sum(np.where(down, end - times, times - end)))


def _work(copies: DagCopies, wasted: Mask, up: float, end_time: float) -> dict[str, float]:
    """Return what the executors did."""
    lengths = copies.ends(end_time) - copies.start
    busy, lost = float(np.nansum(lengths)), float(np.nansum(lengths[wasted]))
    started, duplicate = copies.started, copies.duplicate
    useful = started & duplicate & copies.outcome["completed"] & ~wasted
    return {
        "utilization": _ratio(busy, up),
        "useful_utilization": _ratio(busy - lost, up),
        "wasted_time": lost,
        "num_copies": _count(started),
        "num_duplicates": _count(started & duplicate),
        "num_useful_duplicates": _count(useful),
        "num_interrupted": _count(copies.outcome["interrupted"]),
        "num_withdrawn": _count(copies.outcome["withdrawn"]),
        "num_reexecuted": _reexecuted(copies),
    }


def _reexecuted(copies: DagCopies) -> int:
    """Count the copies that ran again what had finished before, those recorded after the first that completed."""
    rows = np.flatnonzero(copies.outcome["completed"])
    part = copies.part
    order = rows[np.lexsort((rows, copies.finish[rows], part[rows]))]
    node, first = np.unique(part[order], return_index=True)
    earliest = order[first]
    again = np.flatnonzero(copies.started & ~copies.duplicate)
    place = np.searchsorted(node, part[again])
    known = place < len(node)
    again, place = again[known], place[known]
    same = node[place] == part[again]
    again, original = again[same], earliest[place[same]]
    return _count((again > original) & (copies.assignment[again] >= copies.finish[original]))


def _transfers(inputs: DagTransfers) -> dict[str, float]:
    moved = inputs.moved
    total, amount = float(inputs.size.sum()), float(inputs.size[moved].sum())
    return {
        "num_transfers": _count(moved),
        "data_moved": amount,
        "local_share": _ratio(total - amount, total),
        "transfer_time_mean": mean((inputs.arrival - inputs.begin)[moved]),
    }
