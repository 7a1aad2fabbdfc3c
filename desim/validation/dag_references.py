"""What copies, transfers and outages of a run of DAG jobs refer to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_graph import DagGraph
from desim.validation.report import Findings
from desim.validation.tables import Columns

__all__ = ["check_references", "edges_of"]

Whole = NDArray[np.int64]


def check_references(
    arrays: Mapping[str, Columns],
    owners: tuple[Whole, Whole],
    graph: DagGraph,
    num_parts: Whole,
    findings: Findings,
) -> None:
    """Check that copies, transfers and outages name jobs, nodes, tasks and executors that there are.

    Parameters
    ----------
    arrays : mapping of str to mapping
        The tables of copies, transfers and outages.
    owners : two arrays of int
        For each copy and each transfer the row of its job, -1 if there is none.
    graph : DagGraph
        All jobs as one graph.
    num_parts : array of int, shape (num_nodes,)
        In how many parts each node runs.
    findings : Findings
        Takes the violations of the rule ``references``.
    """
    copy_job, transfer_job = owners
    for name, owner in (("copies", copy_job), ("transfers", transfer_job)):
        ids = arrays[name]["job_id"]
        findings.check(
            "references",
            len(ids),
            owner < 0,
            lambda row, ids=ids, name=name: (  # type: ignore[misc]
                f"job {ids[row]} in row {row} of table {name} is none that had been submitted by then"
            ),
        )
    for name, owner, column in (
        ("copies", copy_job, "node"),
        ("transfers", transfer_job, "parent"),
        ("transfers", transfer_job, "child"),
    ):
        _check_range(arrays, name, column, np.append(graph.node_counts, 0)[owner], findings)
    for name, owner, column in (("copies", copy_job, "node"), ("transfers", transfer_job, "child")):
        # What names no node is found already.
        node = np.clip(np.append(graph.first_node, 0)[owner] + arrays[name][column], 0, graph.num_nodes)
        _check_range(arrays, name, "task", np.append(num_parts, 1)[node], findings)
    for name, column in (
        ("copies", "executor"),
        ("transfers", "source"),
        ("transfers", "destination"),
        ("outages", "executor"),
    ):
        values = arrays[name][column]
        _check_range(arrays, name, column, np.full(len(values), graph.num_executors), findings)


def _check_range(arrays: Mapping[str, Columns], name: str, column: str, count: Whole, findings: Findings) -> None:
    table = arrays[name]
    values = table[column]

    def message(row: int) -> str:
        whose = f"job {table['job_id'][row]}" if "job_id" in table else f"the outage at {table['time'][row]} s"
        return f"{whose} in row {row} of table {name}: {column} is {values[row]}, want one below {count[row]}"

    findings.check("references", len(values), (values < 0) | (values >= count), message)


def edges_of(transfers: Columns, transfer_job: Whole, graph: DagGraph) -> Whole:
    """Find the edge of each transfer.

    Parameters
    ----------
    transfers : mapping of str to array
        The table, n rows.
    transfer_job : array of int, shape (n,)
        The rows of their jobs.
    graph : DagGraph
        All jobs as one graph.

    Returns
    -------
    array of int, shape (n,)
        Numbers of edges, -1 if there is none.
    """
    first = graph.first_node[transfer_job]
    wanted = (first + transfers["child"]) * graph.num_nodes + first + transfers["parent"]
    keys = graph.child * graph.num_nodes + graph.parent
    place = np.searchsorted(keys, wanted)
    found = np.append(keys, -1)[place] == wanted
    return np.where(found, place, -1)
