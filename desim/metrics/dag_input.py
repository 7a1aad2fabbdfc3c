"""The columns of a DAG run's tables that its metrics need, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.metrics.columns import masks, numbers, read_columns, whole

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DagGraph", "DagJobs", "latest", "read_graph", "read_jobs"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

_STATUSES = ("completed", "running", "waiting")


def latest(keys: Whole, times: Floats, wanted_keys: Whole, wanted_times: Floats) -> Whole:
    """Find for each wanted key the last entry of that key up to a time.

    Parameters
    ----------
    keys, times : array, shape (n,)
        The entries.
    wanted_keys, wanted_times : array, shape (m,)
        What is looked for.

    Returns
    -------
    array of int, shape (m,)
        Entries, of equal times the last; -1 where there is none.
    """
    count = len(keys)
    both = np.concatenate((keys, wanted_keys))
    place = np.arange(len(both))
    order = np.lexsort((place, np.concatenate((times, wanted_times)), both))
    last = np.maximum.accumulate(np.where(order < count, place, -1))
    found = np.full(len(both), -1)
    found[order] = np.where((last >= 0) & (both[order[last]] == both[order]), order[last], -1)
    return found[count:]


@dataclass(frozen=True)
class DagJobs:
    """Columns of a job table of n rows; times in seconds, NaN where unknown.

    Attributes
    ----------
    job_id : array of int, shape (n,)
        Identifier.
    submission, start, finish : array of float, shape (n,)
        When the job was submitted, when its first copy started, when its last node finished.
    first_node, num_nodes, num_edges : array of int, shape (n,)
        Number of its first node if the nodes of all jobs are numbered one after the other; counts.
    status : mapping of str to array of bool, shape (n,)
        For each status which jobs have it.
    """

    job_id: Whole
    submission: Floats
    start: Floats
    finish: Floats
    first_node: Whole
    num_nodes: Whole
    num_edges: Whole
    status: Mapping[str, Mask]

    def rows(self, ids: Whole, times: Floats) -> Whole:
        """Return the rows of the jobs of some ids that were submitted last up to some times.

        Parameters
        ----------
        ids : array of int, shape (m,)
            Identifiers, which may be used again once a job has ended.
        times : array of float, shape (m,)
            In seconds.

        Returns
        -------
        array of int, shape (m,)
            Rows.

        Raises
        ------
        InvalidConfiguration
            If there is no such job.
        """
        found = latest(self.job_id, self.submission, ids, times)
        if (found < 0).any():
            wrong = int(np.argmin(found))
            raise InvalidConfiguration(f"job {ids[wrong]} had not been submitted at {times[wrong]} s")
        return found


@dataclass(frozen=True)
class DagGraph:
    """The jobs as one graph of n nodes and m edges on k executors.

    Attributes
    ----------
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

    @property
    def has_children(self) -> Mask:
        """Which nodes have children, shape (n,)."""
        found = np.zeros(len(self.work), dtype=np.bool_)
        found[self.parent] = True
        return found


def read_jobs(table: pl.DataFrame | pl.LazyFrame) -> DagJobs:
    """Read the job table.

    Parameters
    ----------
    table : polars.DataFrame or polars.LazyFrame
        The table ``jobs``.

    Returns
    -------
    DagJobs
        Its columns.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    times = ("submission_time", "starting_time", "finish_time")
    frame = read_columns("jobs", table, ("job_id", *times, "num_nodes", "num_edges", "status"))
    counts, edges = whole(frame["num_nodes"]), whole(frame["num_edges"])
    submission, start, finish = (numbers(frame[name]) for name in times)
    return DagJobs(
        whole(frame["job_id"]),
        submission,
        start,
        finish,
        np.cumsum(counts) - counts,
        counts,
        edges,
        masks(frame["status"], _STATUSES),
    )


def read_graph(jobs: DagJobs, tables: Mapping[str, Any], *, by_task: bool = False) -> DagGraph:
    """Read nodes and edges, which are numbered job by job, and executors.

    Parameters
    ----------
    jobs : DagJobs
        The jobs.
    tables : mapping of str to polars.DataFrame or polars.LazyFrame
        The tables ``nodes``, ``edges``, ``executors`` and ``channels``.
    by_task : bool
        Nodes ran task by task.

    Returns
    -------
    DagGraph
        The graph.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, or the rows are not as many as the jobs say.
    """
    more = ("num_tasks", "measured") if by_task else ()
    nodes = read_columns("nodes", tables["nodes"], ("job_id", "node", "work", "run_times", *more))
    edges = read_columns("edges", tables["edges"], ("job_id", "parent", "child", "size"))
    channels = read_columns("channels", tables["channels"], ("transfer_speed", "latency"))
    speeds = numbers(read_columns("executors", tables["executors"], ("speed",))["speed"])
    node = jobs.first_node[_owners("nodes", nodes, jobs, jobs.num_nodes)] + whole(nodes["node"])
    work = np.empty(len(node))
    work[node] = numbers(nodes["work"])
    num_parts = np.ones(len(node), dtype=np.int64)
    if by_task:
        num_parts[node] = whole(nodes["num_tasks"])
    has_own = nodes["run_times"].is_not_null().to_numpy()
    own_times = numbers(nodes["run_times"].drop_nulls().explode()) if has_own.any() else np.empty(0)
    first = jobs.first_node[_owners("edges", edges, jobs, jobs.num_edges)]
    parent, child = first + whole(edges["parent"]), first + whole(edges["child"])
    order = np.argsort(child, kind="stable")
    return DagGraph(
        work,
        own_times.reshape(-1, len(speeds)),
        node[has_own],
        parent[order],
        child[order],
        numbers(edges["size"])[order],
        speeds,
        num_parts,
        by_task and bool(nodes["measured"].any()),
        float(np.min(1.0 / numbers(channels["transfer_speed"]), initial=np.inf)),
        float(np.min(numbers(channels["latency"]), initial=np.inf)),
    )


def _owners(name: str, frame: pl.DataFrame, jobs: DagJobs, counts: Whole) -> Whole:
    """Return the rows of the jobs of nodes or edges: those of an id come in the order in which its jobs came."""
    ids = whole(frame["job_id"])
    order = np.lexsort((jobs.submission, jobs.job_id))
    owner = np.repeat(order, counts[order])
    rows = np.argsort(ids, kind="stable")
    if len(owner) != len(rows) or (jobs.job_id[owner] != ids[rows]).any():
        raise InvalidConfiguration(f"the table {name} has {len(rows)} rows, the jobs have {len(owner)}, or other ids")
    result = np.empty(len(rows), dtype=np.int64)
    result[rows] = owner
    return result
