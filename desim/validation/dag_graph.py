"""The jobs of a run as one graph, checked against the job table first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_executors import channel_tables
from desim.validation.report import Findings
from desim.validation.tables import Columns, to_arrays

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DagGraph", "read_graph"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

#: Sums of work and of data sizes may differ by this part.
RELATIVE = 1e-9


@dataclass(frozen=True)
class DagGraph:
    """All jobs of a run as one graph whose nodes are numbered job by job, and what they run on.

    Attributes
    ----------
    first_node, node_counts : array of int, shape (num_jobs,)
        For each row of the job table the number of its first node, and how many nodes there are.
    work : array of float, shape (num_nodes,)
        Computation size of each node.
    num_tasks : array of int, shape (num_nodes,)
        Tasks that each node consists of.
    measured : array of bool, shape (num_nodes,)
        Whether their durations were drawn from measured ones.
    own_times : array of float, shape (k, num_executors)
        The run times of the nodes that have their own, in seconds.
    own_row : array of int, shape (num_nodes,)
        Their rows there, -1 for the other nodes.
    parent, child : array of int, shape (num_edges,)
        The ends of the edges, sorted by child, then by parent.
    size : array of float, shape (num_edges,)
        Units of data.
    speeds : array of float, shape (num_executors,)
        Work per second.
    transfer_speeds, latencies : array of float, shape (num_executors, num_executors)
        Units of data per second, and seconds; the diagonals are infinite and 0.
    """

    first_node: Whole
    node_counts: Whole
    work: Floats
    num_tasks: Whole
    measured: NDArray[np.bool_]
    own_times: Floats
    own_row: Whole
    parent: Whole
    child: Whole
    size: Floats
    speeds: Floats
    transfer_speeds: Floats
    latencies: Floats

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all jobs."""
        return len(self.work)

    @property
    def num_executors(self) -> int:
        """Number of executors."""
        return len(self.speeds)

    def run_times(self, node: Whole, executor: Whole) -> Floats:
        """Return how long nodes run on executors, in seconds."""
        times: Floats = self.work[node] / self.speeds[executor]
        row = self.own_row[node]
        own = row >= 0
        times[own] = self.own_times[row[own], executor[own]]
        return times

    def has_children(self) -> NDArray[np.bool_]:
        """Tell which nodes have children."""
        found = np.zeros(self.num_nodes, dtype=np.bool_)
        found[self.parent] = True
        return found


def read_graph(tables: Mapping[str, pl.DataFrame], findings: Findings) -> DagGraph | None:
    """Check nodes and edges against the job table and put them together.

    Parameters
    ----------
    tables : mapping of str to polars.DataFrame
        The tables of the run, with the right columns and valid executors.
    findings : Findings
        Takes the violations of the rule ``graph``.

    Returns
    -------
    DagGraph or None
        None if nothing more can be checked.
    """
    jobs, nodes, edges = (to_arrays(tables[name]) for name in ("jobs", "nodes", "edges"))
    ids, counts, edge_counts = jobs["job_id"], jobs["num_nodes"], jobs["num_edges"]
    rows = len(nodes["node"]) + len(edges["parent"])
    findings.check(
        "graph",
        rows,
        (counts < 1) | (edge_counts < 0),
        lambda row: f"job {ids[row]} has {counts[row]} nodes and {edge_counts[row]} edges, want at least 1 and 0",
    )
    if not findings.report().ok:
        return None
    owners = []
    for name, column, table in (("nodes", counts, nodes), ("edges", edge_counts, edges)):
        owner, faults = _rows_by_job(name, table["job_id"], jobs["job_id"], jobs["submission_time"], column)
        findings.note("graph", rows, faults)
        owners.append(owner)
    if not findings.report().ok:
        return None
    first = np.cumsum(counts) - counts
    _check_nodes(nodes, owners[0], first, rows, findings)
    _check_edges(edges, owners[1], counts, rows, findings)
    _check_sums(jobs, (nodes["work"], owners[0]), (edges["size"], owners[1]), rows, findings)
    return _put_together(tables, nodes, edges, owners) if findings.report().ok else None


def _put_together(
    tables: Mapping[str, pl.DataFrame], nodes: Columns, edges: Columns, owners: Sequence[Whole]
) -> DagGraph:
    """Return the graph of tables that hold no contradiction, given the job of each node and of each edge."""
    counts = tables["jobs"]["num_nodes"].to_numpy()
    first = np.cumsum(counts) - counts
    number = first[owners[0]] + nodes["node"]
    work, num_tasks = np.empty(len(number)), np.empty(len(number), dtype=np.int64)
    work[number], num_tasks[number] = nodes["work"], nodes["num_tasks"]
    measured = np.zeros(len(number), dtype=np.bool_)
    measured[number] = nodes.get("measured", False)
    has_own = tables["nodes"]["run_times"].is_not_null().to_numpy()
    own_row = np.full(len(number), -1)
    own_row[number[has_own]] = np.arange(np.count_nonzero(has_own))
    own_times = tables["nodes"]["run_times"].drop_nulls().explode().to_numpy()
    parent, child = first[owners[1]] + edges["parent"], first[owners[1]] + edges["child"]
    order = np.lexsort((parent, child))
    transfer_speeds, latencies = channel_tables(tables)
    return DagGraph(
        first,
        counts,
        work,
        num_tasks,
        measured,
        own_times.reshape(-1, len(latencies)).astype(np.float64),
        own_row,
        parent[order],
        child[order],
        edges["size"][order],
        to_arrays(tables["executors"])["speed"],
        transfer_speeds,
        latencies,
    )


def _rows_by_job(
    table: str, row_ids: Whole, job_ids: Whole, submission: Floats, counts: Whole
) -> tuple[Whole, list[str]]:
    """Return the job of each row: rows of an id come in the order in which its jobs were submitted."""
    ids, index = np.unique(job_ids, return_inverse=True)
    wanted = np.bincount(index, counts, minlength=len(ids)).astype(np.int64)
    place = np.searchsorted(ids, row_ids)
    known = np.isin(row_ids, ids)
    found = np.bincount(place[known], minlength=len(ids))
    faults = [f"job {job_id} has rows in table {table}, but is none" for job_id in np.unique(row_ids[~known]).tolist()]
    faults += [
        f"job {ids[number]} has {found[number]} rows in table {table}, want {wanted[number]}"
        for number in np.flatnonzero(found != wanted).tolist()
    ]
    owner = np.empty(len(row_ids), dtype=np.int64)
    if not faults:
        order = np.lexsort((submission, job_ids))
        owner[np.argsort(row_ids, kind="stable")] = np.repeat(order, counts[order])
    return owner, faults


def _check_nodes(nodes: Columns, owner: Whole, first: Whole, rows: int, findings: Findings) -> None:
    order = np.argsort(owner, kind="stable")
    number = np.empty(len(owner), dtype=np.int64)
    number[order] = np.arange(len(owner)) - first[owner[order]]
    ids, node = nodes["job_id"], nodes["node"]
    findings.check(
        "graph",
        rows,
        node != number,
        lambda row: f"job {ids[row]} has node {node[row]} where node {number[row]} belongs",
    )
    for column, least in (("work", 0), ("num_tasks", 1)):
        values = nodes[column]
        findings.check(
            "graph",
            rows,
            values < least,
            lambda row, column=column, values=values, least=least: (  # type: ignore[misc]
                f"job {ids[row]} node {node[row]}: {column} is {values[row]}, want at least {least}"
            ),
        )


def _check_edges(edges: Columns, owner: Whole, counts: Whole, rows: int, findings: Findings) -> None:
    """Check edges: parents have lower numbers than their children, so that there is no cycle."""
    ids, parent, child, size = (edges[name] for name in ("job_id", "parent", "child", "size"))
    findings.check(
        "graph",
        rows,
        (parent < 0) | (parent >= child) | (child >= counts[owner]),
        lambda row: (
            f"job {ids[row]}: there is an edge from node {parent[row]} to node {child[row]}, want the numbers of "
            f"{counts[owner[row]]} nodes in ascending order"
        ),
    )
    findings.check(
        "graph",
        rows,
        size < 0,
        lambda row: f"job {ids[row]}: the edge from node {parent[row]} to {child[row]} has size {size[row]}, want >= 0",
    )
    order = np.lexsort((parent, child, owner))
    same = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
    for column in (owner, child, parent):
        same &= np.diff(column[order]) == 0
    findings.check(
        "graph",
        rows,
        order[1:][same],
        lambda row: f"job {ids[row]}: the edge from node {parent[row]} to node {child[row]} is there twice",
    )


def _check_sums(
    jobs: Columns, work: tuple[Floats, Whole], data: tuple[Floats, Whole], rows: int, findings: Findings
) -> None:
    ids = jobs["job_id"]
    for column, (values, owner) in (("work", work), ("data_size", data)):
        total = np.bincount(owner, values, minlength=len(ids))
        given = jobs[column]
        findings.check(
            "graph",
            rows,
            np.abs(given - total) > RELATIVE * np.abs(total),
            lambda row, column=column, given=given, total=total: (  # type: ignore[misc]
                f"job {ids[row]}: {column} is {given[row]}, its nodes and edges have {total[row]}"
            ),
        )
