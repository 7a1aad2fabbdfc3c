"""Metrics of a DAG cluster, computed only from the tables of a run.

`METRICS` describes every metric: those of Luo et al., "Learning to Optimize DAG Scheduling in Heterogeneous
Environment" (LACHESIS), and others on the use of executor time and on data transfers.

The makespan, and each metric derived from it, is given only for runs in which every job has completed. Speedup is
LACHESIS' equation (13). SLR is its equation (14), with the longest critical path if there are several jobs. The mean
of each job's own turnaround time over its own critical path is also given. The lower bound is that of `lower_bound`; up
to rounding, no makespan is below it.

A completed copy is *useful* if its data were used by a copy that started, on any executor. It is also useful if its
node has no children and it was the node's first copy to complete. If an executor has run a node more than once, the
last copy that had finished when the data were sent is the one used. The time of all other copies is *wasted*: of copies
interrupted by an outage, and of copies that completed or still run although their job completed without them. So an
original is wasted if its duplicates served all its children, or if its result was lost. While a job has not completed,
all its completed copies count as useful.

If nodes run task by task, every task is a copy, and every completed one counts as useful. The critical path then
contains one task per node, an equal share of the node, as if all its tasks ran at once. Bounds, speedup and SLR are NaN
if durations were sampled from measured ones, because the tables do not tell how long tasks take on other executors.

On pools, utilization is the mean over the resources of the amount that copies hold over the amount up. The lower bound
then takes the largest over the resources of the work, times its share of a pool, divided among the pools; parents of a
node may run there at once, so that only the critical path remains of the other bound.

Utilization counts from the first submission to the end of the run. The serial time is no upper bound on the makespan:
if nodes are spread over executors, they may wait long for their data.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from itertools import groupby, product
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.measures import mean, summary
from desim.problem import Metric, Metrics, bounded
from desim.problems.dag.tables import (
    CHANNELS,
    COPIES,
    EDGES,
    EXECUTORS,
    JOBS,
    NODES,
    OUTAGES,
    TRANSFERS,
    with_demands,
)

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = [
    "METRICS",
    "DagGraph",
    "critical_paths",
    "earliest_finishes",
    "lower_bound",
    "read_graph",
    "serial_time",
    "wasted_copies",
]


# -- bounds --------------------------------------------------------------------------------------

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class DagGraph:
    """Jobs of a run as one graph of n nodes and m edges, numbered job by job, on k executors.

    Attributes
    ----------
    submission : array of float, shape (j,)
        Submission time of each job, in seconds.
    first_node : array of int, shape (j,)
        Number of each job's first node.
    work : array of float, shape (n,)
        Computation size of each node.
    own_times : array of float, shape (l, k)
        Run times, in seconds, of the nodes with job-specific run times.
    own_node : array of int, shape (l,)
        Numbers of these nodes.
    parent, child : array of int, shape (m,)
        Ends of the edges, sorted by child.
    size : array of float, shape (m,)
        Units of data of each edge.
    speeds : array of float, shape (k,)
        Speeds of the executors, work per second.
    num_parts : array of int, shape (n,)
        Number of equal parts in which each node runs: its tasks, or 1 without tasks.
    measured : bool
        Whether task durations were sampled from measured ones, so run times do not apply to them.
    seconds_per_unit, latency : float
        Smallest transfer time of a unit of data between two executors, and smallest latency, in seconds; infinite with
        a single executor.
    shares : tuple of array of float, shape (n, k)
        Share of each pool that each node takes, for each resource; empty if executors run one node at a time.
    """

    submission: Floats
    first_node: IntArray
    work: Floats
    own_times: Floats
    own_node: IntArray
    parent: IntArray
    child: IntArray
    size: Floats
    speeds: Floats
    num_parts: IntArray
    measured: bool
    seconds_per_unit: float
    latency: float
    shares: tuple[Floats, ...] = ()

    @property
    def shortest(self) -> Floats:
        """Run time of each node, or of a part of it, on the fastest executor for it, in seconds, shape (n,)."""
        times: Floats = self.work / self.speeds.max(initial=0.0)
        times[self.own_node] = self.own_times.min(axis=1, initial=np.inf)
        return times / self.num_parts


def read_graph(result: Result) -> DagGraph:
    """Read the jobs of a run with their nodes and edges, and the executors.

    Parameters
    ----------
    result : Result
        Result of the run.

    Returns
    -------
    DagGraph
        Graph of all jobs, in the order of the job table.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, or the tables contradict each other.
    """
    jobs = JOBS.select(result.scan("jobs"), "submission_time", "num_nodes")
    columns = ("arrival_number", "node", "work", "num_tasks", "run_times", "measured")
    nodes = _with_places(result, NODES.select(result.scan("nodes"), *columns))
    edges = _with_places(result, EDGES.select(result.scan("edges"), "arrival_number", "parent", "child", "size"))
    speeds = EXECUTORS.select(result.scan("executors"), "speed")["speed"].to_numpy()
    counts = jobs["num_nodes"].to_numpy()
    if len(nodes) != counts.sum():
        raise InvalidConfiguration(f"table nodes: got {len(nodes)} rows, expected {counts.sum()} as in table jobs")
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
        *_fastest_channel(result, len(speeds)),
        _shares(result, node),
    )


def _shares(result: Result, node: IntArray) -> tuple[Floats, ...]:
    """Return the share of each pool (column) that each node (row) takes, for each resource."""
    import polars as pl

    found = []
    for resource in result.info.get("resources", ()):
        capacity = result.scan("executors").select(f"capacity_{resource}").collect().to_numpy()[:, 0]
        demand = result.scan("nodes").select(pl.col(f"demand_{resource}").fill_null(np.inf)).collect().to_numpy()
        share = np.empty((len(node), len(capacity)))
        ratio = np.divide(demand, capacity, out=np.zeros(share.shape), where=capacity > 0)
        share[node] = np.minimum(ratio, 1.0)
        if "modes" in result.info:
            _share_of_modes(result, resource, capacity, node, share)
        found.append(share)
    return tuple(found)


def _share_of_modes(result: Result, resource: str, capacity: Floats, node: IntArray, share: Floats) -> None:
    """Set the shares of nodes with modes so that, times the shortest run time, they are the least share times time."""
    import polars as pl

    key = ["arrival_number", "node"]
    place = pl.Series("place", node)
    places = result.scan("nodes").select(key).collect().with_columns(place)
    modes = result.scan("modes").collect().join(places, on=key, how="left").sort("place", maintain_order=True)
    times = np.array(modes["run_times"].to_list())
    taken = modes[f"demand_{resource}"].to_numpy()[:, None]
    parts = np.divide(taken, capacity, out=np.zeros(times.shape), where=(capacity > 0) & (times < np.inf))
    least = np.where(times < np.inf, times, 0.0) * parts
    least[times == np.inf] = np.inf
    rows = modes["place"].to_numpy()
    first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    quickest, least = np.minimum.reduceat(times, first), np.minimum.reduceat(least, first)
    known = (quickest > 0) & (quickest < np.inf)
    share[rows[first]] = np.divide(least, quickest, out=np.zeros(least.shape), where=known)


def _fastest_channel(result: Result, count: int) -> tuple[float, float]:
    """Return the smallest time of a unit of data and the smallest latency; the description tells those of all pairs."""
    speed, latency = (result.info.get(name, []) for name in ("transfer_speed", "latency"))  # lists: of each pair
    if count > 1 and not isinstance(speed, list) and not isinstance(latency, list):
        return 0.0 if speed is None else 1.0 / speed, latency
    channels = CHANNELS.select(result.scan("channels"), "transfer_speed", "latency")
    seconds = 1.0 / channels["transfer_speed"].to_numpy()
    return float(np.min(seconds, initial=np.inf)), float(np.min(channels["latency"].to_numpy(), initial=np.inf))


def _with_places(result: Result, frame: pl.DataFrame) -> pl.DataFrame:
    """Add to each row of a table the number of the first node of its job."""
    import polars as pl

    counts = pl.col("num_nodes")
    jobs = JOBS.select(result.scan("jobs"), "arrival_number", "num_nodes")
    jobs = jobs.select("arrival_number", first_node=counts.cum_sum() - counts)
    placed = frame.join(jobs, on="arrival_number", how="left", maintain_order="left")
    unknown = placed.filter(pl.col("first_node").is_null())["arrival_number"].to_list()
    if unknown:
        raise InvalidConfiguration(f"arrival_number: got {unknown[0]}, expected the number of a job in table jobs")
    return placed


def critical_paths(graph: DagGraph) -> Floats:
    """Return the length of each job's critical path, with each node on the fastest executor for it.

    If nodes run in equal parts, in parallel, one part of each counts. Transfers take no time, as on a single executor.
    This is the denominator of equation (14) of LACHESIS.

    Parameters
    ----------
    graph : DagGraph
        Graph of n jobs.

    Returns
    -------
    array of float, shape (n,)
        Length of the critical path of each job, in seconds.
    """
    times = graph.shortest.tolist()
    finish = times.copy()
    # Edges are sorted by child and parents have lower numbers, so a parent's finish is final when it is read.
    for parent, child in zip(graph.parent.tolist(), graph.child.tolist(), strict=True):
        finish[child] = max(finish[child], finish[parent] + times[child])
    return np.maximum.reduceat(np.array(finish), graph.first_node) if len(graph.first_node) else np.empty(0)


def earliest_finishes(graph: DagGraph) -> Floats:
    """Return a lower bound on each job's time from submission to completion, transfers included.

    Each node runs on the fastest executor for it, and data move as between the pair of executors with the fastest
    transfers. For each node, some parents have a copy on the node's executor, and the others send their data. The
    copies on the executor run one after the other, none before its own earliest start. The data of the other parents
    arrive no earlier than their earliest finish plus the transfer. While the node waits for data that arrive at some
    time, a local copy of a parent whose data arrive earlier gains nothing. So the best choice runs the parents whose
    data arrive last on the executor, and it suffices to try each number of them. Other work on the executor, such as
    grandparents, is ignored, so the bound holds for any duplication. If nodes run in several parts, each of which
    receives only a share of the data, transfers are ignored, and the bounds are the critical paths; so they are on
    pools, which run several nodes at once. The idea is from
    C. H. Papadimitriou and M. Yannakakis, "Towards an architecture-independent analysis of parallel algorithms", SIAM
    Journal on Computing 19(2), 1990.

    Parameters
    ----------
    graph : DagGraph
        Graph of n jobs.

    Returns
    -------
    array of float, shape (n,)
        Lower bound of each job in seconds, at least its critical path.
    """
    if not len(graph.first_node):
        return np.empty(0)
    if graph.shares or (graph.num_parts > 1).any():
        return critical_paths(graph)
    times = graph.shortest.tolist()
    starts, finishes = [0.0] * len(times), list(times)
    moves = graph.size > 0  # avoids 0 * inf, which would be NaN
    transfers = np.multiply(graph.size, graph.seconds_per_unit, out=np.zeros(len(moves)), where=moves) + graph.latency
    # Edges are sorted by child and parents have lower numbers, so a parent's values are final when they are read.
    edges = zip(graph.parent.tolist(), graph.child.tolist(), transfers.tolist(), strict=True)
    for child, of_child in groupby(edges, key=itemgetter(1)):
        inputs = [(finishes[parent] + seconds, starts[parent], times[parent]) for parent, _, seconds in of_child]
        starts[child] = _earliest_start(inputs)
        finishes[child] = starts[child] + times[child]
    return np.maximum.reduceat(np.array(finishes), graph.first_node)


def _earliest_start(inputs: list[tuple[float, float, float]]) -> float:
    """Return a node's earliest start, given each parent's (arrival of its data, earliest start, run time)."""
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
    """Return the time that all nodes take one after the other on the single executor that is best for all of them.

    This is the numerator of equation (13) of LACHESIS.

    Parameters
    ----------
    graph : DagGraph
        Graph of all jobs.

    Returns
    -------
    float
        Serial time in seconds; NaN if no executor may run all nodes.
    """
    related = graph.work.sum() - graph.work[graph.own_node].sum()
    seconds = float(np.min(related / graph.speeds + graph.own_times.sum(axis=0), initial=math.inf))
    return seconds if seconds < math.inf else math.nan


def lower_bound(graph: DagGraph) -> float:
    """Return a lower bound on the makespan, counted from the first submission.

    It is the larger of two bounds. Both hold for any order, allocation and duplication, and also with transfers,
    outages and shared links, which can only add time:

    - the latest of submission plus earliest finish over the jobs, see `earliest_finishes`;
    - the maximum, over the submission times t, of t plus the work submitted from t on, divided among all executors. For
      nodes that take work / speed, this is the work over the sum of the speeds. In general, for weights y_k of the
      executors that sum to 1, no division takes less than the sum over the nodes of the smallest y_k p_ik, where p_ik
      is the run time: executor k is busy for at most T, so T = sum y_k T >= sum over all nodes and executors of
      y_k p_ik x_ik for any fractions x_ik. Two choices of weights are tried: proportional to the speeds, and equal.

    Parameters
    ----------
    graph : DagGraph
        Graph of all jobs.

    Returns
    -------
    float
        Lower bound in seconds; NaN without jobs.
    """
    if not len(graph.first_node):
        return math.nan
    bounds = [float(np.max(graph.submission + earliest_finishes(graph)))]
    order = np.argsort(graph.submission, kind="stable")
    count = len(graph.speeds)
    for weights, share in product(
        (graph.speeds / graph.speeds.sum(), np.full(count, 1 / count)), graph.shares or (None,)
    ):
        loads = graph.work * (weights / graph.speeds).min()
        own = graph.own_times * weights
        if share is not None:
            loads = graph.work * (weights / graph.speeds * share).min(axis=1)
            held = share[graph.own_node]
            own = np.multiply(own, held, out=np.where(own < np.inf, 0.0, np.inf), where=(held > 0) & (own < np.inf))
        loads[graph.own_node] = own.min(axis=1, initial=math.inf)
        by_job = np.add.reduceat(loads, graph.first_node)[order]
        bounds.append(float(np.max(graph.submission[order] + np.cumsum(by_job[::-1])[::-1])))
    return max(bounds) - float(graph.submission.min())


# -- metrics -------------------------------------------------------------------------------------

Mask = NDArray[np.bool_]


def _measure(result: Result) -> dict[str, float]:
    import polars as pl

    end = result.end_time  # read first: it rejects a run that has not ended with a clear message
    jobs, copies, inputs, edges = (
        table.select(result.scan(table.name), "arrival_number", *columns.split())
        for table, columns in (
            (JOBS, "submission_time starting_time finish_time status"),
            (COPIES, "node task executor duplicate assignment_time starting_time finish_time outcome"),
            (TRANSFERS, "parent source destination starting_time arrival_time size"),
            (EDGES, "parent"),
        )
    )
    copies = copies.with_row_index("row")
    if "modes" in result.info:
        copies = copies.hstack(COPIES.select(result.scan("copies"), "mode"))
    wasted = _is(copies, "outcome", "interrupted")
    if result.info["granularity"] == "node":
        started = copies.filter(pl.col("starting_time").is_not_null())
        wasted = wasted | np.isin(copies["row"], wasted_copies(jobs, edges, started, inputs))
    begin = float(np.min(jobs["submission_time"].to_numpy(), initial=end))
    values = {
        **_schedule(jobs, read_graph(result)),
        **_jobs(jobs),
        **_work(copies, wasted, _time_up(result, begin, end), end),
        **_transfers(inputs),
    }
    resources = result.info.get("resources", ())
    if resources:
        values |= _utilization(result, copies, wasted, begin, end)
    return {name: float(values[name]) for name in METRICS.names_for(resources)}


def _utilization(result: Result, copies: pl.DataFrame, wasted: Mask, begin: float, end: float) -> dict[str, float]:
    """Return the utilization of pools by resource, and its mean, with and without wasted time."""
    import polars as pl

    start, finish = (copies[name].cast(float).to_numpy() for name in ("starting_time", "finish_time"))
    lengths = np.nan_to_num(np.where(_is(copies, "outcome", "running"), end, finish) - start)
    events = OUTAGES.select(result.scan("outages"), "time", "executor", "event")
    down = np.zeros(result.info["num_executors"])
    after = end - np.clip(events["time"].to_numpy(), begin, end)
    np.add.at(down, events["executor"].to_numpy(), np.where(_is(events, "event", "down"), after, -after))
    values, useful, resources = {}, [], result.info["resources"]
    modes = result.scan("modes").collect() if "modes" in result.info else None
    placed = with_demands(copies, result.scan("nodes").collect(), modes, resources)
    for resource in resources:
        capacity = result.scan("executors").select(f"capacity_{resource}").collect().to_numpy()[:, 0]
        held = placed.select(pl.col(f"demand_{resource}").fill_null(np.inf)).to_numpy()[:, 0]
        amounts = np.minimum(held, capacity[copies["executor"].to_numpy()]) * lengths
        up = float((capacity * (end - begin - down)).sum())
        values[f"utilization_{resource}"] = _ratio(float(amounts.sum()), up)
        useful.append(_ratio(float(amounts[~wasted].sum()), up))
    return values | {"utilization": mean(np.array(list(values.values()))), "useful_utilization": mean(np.array(useful))}


def _schedule(jobs: pl.DataFrame, graph: DagGraph) -> dict[str, float]:
    """Return the makespan and the metrics derived from it."""
    paths, serial, bound = np.full(len(jobs), math.nan), math.nan, math.nan
    if not graph.measured:
        paths, serial, bound = critical_paths(graph), serial_time(graph), lower_bound(graph)
    completed, finish = _is(jobs, "status", "completed"), jobs["finish_time"].cast(float).to_numpy()
    makespan = math.nan
    if len(completed) and completed.all():
        makespan = float(finish.max() - graph.submission.min())
    longest = float(paths.max()) if len(paths) else math.nan
    known = completed & (paths > 0)
    return {
        "num_nodes": len(graph.work),
        "makespan": makespan,
        "serial_time": serial,
        "speedup": _ratio(serial, makespan),
        "critical_path": longest,
        "slr": _ratio(makespan, longest),
        "job_slr_mean": mean((finish - graph.submission)[known] / paths[known]),
        "lower_bound": bound,
        "gap_to_lower_bound": _ratio(makespan, bound) - 1,
    }


def _is(frame: pl.DataFrame, column: str, value: str) -> Mask:
    mask: Mask = (frame[column] == value).to_numpy()
    return mask


def _ratio(value: float, by: float) -> float:
    return value / by if by > 0 else math.nan


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _jobs(jobs: pl.DataFrame) -> dict[str, float]:
    submission, start, finish = (
        jobs[name].cast(float).to_numpy() for name in ("submission_time", "starting_time", "finish_time")
    )
    return {
        "jobs_submitted": len(jobs),
        **{f"jobs_{status}": _count(_is(jobs, "status", status)) for status in JOBS["status"].values},
        **summary("turnaround_time", (finish - submission)[_is(jobs, "status", "completed")]),
        "waiting_time_mean": mean((start - submission)[~np.isnan(start)]),
    }


def wasted_copies(jobs: pl.DataFrame, edges: pl.DataFrame, copies: pl.DataFrame, transfers: pl.DataFrame) -> pl.Series:
    """Return the rows of wasted copies of completed jobs, apart from those interrupted by an outage.

    A copy is useful if its data were used by a copy that started, or if its node has no children and it completed
    first. If an executor has run a node more than once, the last copy that had finished when the data were sent is the
    one used.

    Parameters
    ----------
    jobs, edges, copies, transfers : polars.DataFrame
        Tables of a run; ``copies`` holds only copies that started, with their ``row``.

    Returns
    -------
    polars.Series
        Values of ``row`` of the wasted copies.
    """
    import polars as pl

    node, task = ["arrival_number", "node"], ["arrival_number", "node", "task"]
    done = copies.filter(pl.col("outcome") == "completed").sort("finish_time", maintain_order=True)
    moved = transfers.select("arrival_number", node="parent", executor="source", time="starting_time")
    following = pl.col("finish_time").shift(-1).over(*task, "executor")
    taken = done.with_columns(until=following.fill_null(float("inf"))).join_asof(
        moved.sort("time"),
        left_on="finish_time",
        right_on="time",
        by=[*node, "executor"],
        strategy="forward",
        check_sortedness=False,
        coalesce=False,
    )
    parents = edges.select("arrival_number", node="parent")
    last = done.unique(task, keep="first", maintain_order=True).join(parents, on=node, how="anti")
    over = jobs.filter(pl.col("status") == "completed")
    ran = copies.filter(pl.col("outcome").is_in(["completed", "running"])).join(over, on="arrival_number", how="semi")
    useful = pl.concat([taken.filter(pl.col("time") < pl.col("until"))["row"], last["row"]])
    return ran["row"].filter(~ran["row"].is_in(useful.implode()))


def _time_up(result: Result, begin: float, end: float) -> float:
    """Return the total time that the executors were up, in seconds."""
    events = OUTAGES.select(result.scan("outages"), "time", "event")
    times = np.clip(events["time"].to_numpy(), begin, end)
    # An event changes the number of executors that are down from its time to the end of the run.
    down = float(np.sum(np.where(_is(events, "event", "down"), end - times, times - end)))
    return result.info["num_executors"] * (end - begin) - down  # type: ignore[no-any-return]  # of any type


def _work(copies: pl.DataFrame, wasted: Mask, up: float, end: float) -> dict[str, float]:
    """Return the metrics of executor time and of copies."""
    start, finish = (copies[name].cast(float).to_numpy() for name in ("starting_time", "finish_time"))
    lengths = np.where(_is(copies, "outcome", "running"), end, finish) - start
    busy, lost = float(np.nansum(lengths)), float(np.nansum(lengths[wasted]))
    started, duplicate = ~np.isnan(start), copies["duplicate"].to_numpy()
    useful = started & duplicate & _is(copies, "outcome", "completed") & ~wasted
    return {
        "utilization": _ratio(busy, up),
        "useful_utilization": _ratio(busy - lost, up),
        "wasted_time": lost,
        "num_copies": _count(started),
        "num_duplicates": _count(started & duplicate),
        "num_useful_duplicates": _count(useful),
        "num_interrupted": _count(_is(copies, "outcome", "interrupted")),
        "num_withdrawn": _count(_is(copies, "outcome", "withdrawn")),
        "num_reexecuted": _reexecuted(copies),
    }


def _reexecuted(copies: pl.DataFrame) -> int:
    """Count the copies that ran a finished node again, that is, copies assigned after the first completion."""
    import polars as pl

    part = ["arrival_number", "node", "task"]
    done = copies.filter(pl.col("outcome") == "completed").sort("finish_time", maintain_order=True)
    originals = done.unique(part, keep="first", maintain_order=True).select(*part, first="row", end="finish_time")
    again = copies.filter(pl.col("starting_time").is_not_null() & ~pl.col("duplicate")).join(originals, on=part)
    return len(again.filter((pl.col("row") > pl.col("first")) & (pl.col("assignment_time") >= pl.col("end"))))


def _transfers(inputs: pl.DataFrame) -> dict[str, float]:
    begin, arrival, size = (inputs[name].to_numpy() for name in ("starting_time", "arrival_time", "size"))
    moved: Mask = (inputs["source"] != inputs["destination"]).to_numpy()
    total, amount = float(size.sum()), float(size[moved].sum())
    return {
        "num_transfers": _count(moved),
        "data_moved": amount,
        "local_share": _ratio(total - amount, total),
        "transfer_time_mean": mean((arrival - begin)[moved]),
    }


METRICS = Metrics(
    bounded(
        (
            Metric("jobs_submitted", "jobs submitted", "jobs"),
            Metric("jobs_completed", "jobs whose nodes have all finished", "jobs", "higher"),
            Metric("jobs_running", "jobs that had started but not completed at the end of the run", "jobs"),
            Metric("jobs_queued", "jobs that had not started at the end of the run", "jobs"),
            Metric("num_nodes", "nodes of all jobs", "nodes"),
            Metric(
                "makespan",
                "last completion of a job minus first submission, s; NaN unless all jobs have completed",
                "s",
                "lower",
            ),
            Metric(
                "serial_time",
                "time that all nodes take one after the other on the single best executor, s",
                "s",
            ),
            Metric("speedup", "serial time over makespan", better="higher"),
            Metric(
                "critical_path",
                "length of the longest critical path of a job, each node on its fastest executor, without transfers, s",
                "s",
            ),
            Metric("slr", "schedule length ratio: makespan over critical path", better="lower"),
            Metric(
                "job_slr_mean",
                "mean over completed jobs of turnaround time over the job's critical path, if that is above 0",
                better="lower",
            ),
            Metric("lower_bound", "lower bound on the makespan of any schedule, s", "s"),
            Metric("gap_to_lower_bound", "makespan over lower bound, minus 1", better="lower"),
            Metric(
                "turnaround_time_mean", "mean time from submission to completion of completed jobs, s", "s", "lower"
            ),
            Metric("turnaround_time_median", "median turnaround time, s", "s", "lower"),
            Metric("turnaround_time_p95", "95th percentile of the turnaround time, s", "s", "lower"),
            Metric(
                "waiting_time_mean",
                "mean time from submission to the start of the first copy, over jobs that have started, s",
                "s",
                "lower",
            ),
            Metric("utilization", "executor time spent on copies over executor time up"),
            Metric("utilization_<resource>", "amount of pools that copies hold over the amount up"),
            Metric("useful_utilization", "utilization without wasted time", better="higher"),
            Metric("wasted_time", "executor time spent on interrupted or useless copies, s", "s", "lower"),
            Metric("num_copies", "copies that started", "copies"),
            Metric("num_duplicates", "copies that started and were duplicates when assigned", "copies"),
            Metric("num_useful_duplicates", "useful duplicates", "copies"),
            Metric("num_interrupted", "copies interrupted by an outage", "copies"),
            Metric(
                "num_withdrawn",
                "copies withdrawn before they started, because of an outage or because their job had ended",
                "copies",
            ),
            Metric(
                "num_reexecuted",
                "copies, other than duplicates, started again because a finished node's results were lost",
                "copies",
            ),
            Metric("num_transfers", "inputs of copies that were sent from another executor", "inputs"),
            Metric("data_moved", "total size of these inputs, units of data", "units", "lower"),
            Metric(
                "local_share",
                "share of input data that was already on the executor",
                better="higher",
            ),
            Metric("transfer_time_mean", "mean transfer time of the inputs sent from another executor, s", "s"),
        ),
        shares=("utilization", "utilization_<resource>", "useful_utilization", "local_share"),
    ),
    _measure,
    headline=("makespan", "speedup", "slr", "turnaround_time_mean", "useful_utilization"),
    main=(
        "makespan",
        "speedup",
        "slr",
        "gap_to_lower_bound",
        "turnaround_time_mean",
        "turnaround_time_p95",
        "useful_utilization",
        "num_duplicates",
        "data_moved",
    ),
    incidents=("num_interrupted", "num_reexecuted"),
)
"""Metrics of a DAG cluster, in the order in which they are returned."""
