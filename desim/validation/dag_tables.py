"""The tables of a run of DAG jobs as the rules need them: checked for what they refer to, then taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_columns import OUTCOMES, STATUSES, by_task, read_dag_tables
from desim.validation.dag_executors import check_executors, last_repair, next_down
from desim.validation.dag_graph import DagGraph, read_graph
from desim.validation.dag_lookup import latest
from desim.validation.dag_references import check_references, edges_of
from desim.validation.description import planned_end
from desim.validation.report import Findings
from desim.validation.tables import Columns, masks, to_arrays

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["DagRun", "read_dag_run"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class DagRun:
    """A run of DAG jobs, taken apart; times that are null are NaN.

    Attributes
    ----------
    jobs, copies, transfers, outages : mapping of str to array
        The columns of the tables that hold numbers.
    status, outcome : mapping of str to array of bool
        For each status which jobs have it, for each outcome which copies.
    down : array of bool
        Which outage events take their executor down.
    graph : DagGraph
        All jobs as one graph, and what they run on.
    copy_job, copy_node : array of int
        For each copy the row of its job and the number of its node in the graph.
    transfer_job, transfer_edge : array of int
        For each transfer the row of its job and the number of its edge in the graph.
    num_parts : array of int, shape (num_nodes,)
        In how many parts each node runs: its tasks, or 1 where nodes run whole.
    info : mapping
        The description of the run.
    """

    jobs: Columns
    copies: Columns
    transfers: Columns
    outages: Columns
    status: Mapping[str, Mask]
    outcome: Mapping[str, Mask]
    down: Mask
    graph: DagGraph
    copy_job: Whole
    copy_node: Whole
    transfer_job: Whole
    transfer_edge: Whole
    num_parts: Whole
    info: Mapping[str, Any]

    @property
    def end_time(self) -> float:
        """When the run ended, in seconds."""
        return float(self.info["end_time"])

    @property
    def drained(self) -> bool:
        """Whether the run went on until nothing was left to happen."""
        return self.info["status"] == "complete" and self.end_time < planned_end(self.info)

    @property
    def shared(self) -> bool:
        """Whether transfers share links, so that they may take longer than on their own."""
        return self.info.get("links") is not None

    @property
    def by_task(self) -> bool:
        """Whether nodes run task by task."""
        return by_task(self.info)

    @cached_property
    def first_part(self) -> Whole:
        """The number of the first part of each node if those of all nodes are numbered, shape (num_nodes,)."""
        numbers: Whole = np.cumsum(self.num_parts) - self.num_parts
        return numbers

    @cached_property
    def copy_part(self) -> Whole:
        """Which part of its node each copy is."""
        return self.first_part[self.copy_node] + self.copies["task"]

    @cached_property
    def transfer_part(self) -> Whole:
        """Which part of its node each transfer is for."""
        return self.first_part[self.graph.child[self.transfer_edge]] + self.transfers["task"]

    @cached_property
    def started(self) -> Mask:
        """Which copies have started."""
        return ~np.isnan(self.copies["starting_time"])

    @cached_property
    def ends(self) -> Floats:
        """When each copy left its executor: infinite if it still runs, NaN if it has not started."""
        return np.where(self.outcome["running"], np.inf, self.copies["finish_time"])

    @cached_property
    def run_times(self) -> Floats:
        """How long each copy would run on its executor, in seconds; NaN if that is drawn."""
        times = self.graph.run_times(self.copy_node, self.copies["executor"])
        if self.by_task:
            times /= self.num_parts[self.copy_node]
            times[self.graph.measured[self.copy_node]] = np.nan
        return times

    @cached_property
    def first_finish(self) -> Floats:
        """When each node first finished, infinite if it has not, shape (num_nodes,)."""
        first = np.full(int(self.num_parts.sum()), np.inf)
        done = self.outcome["completed"]
        np.minimum.at(first, self.copy_part[done], self.copies["finish_time"][done])
        return np.maximum.reduceat(first, self.first_part) if len(first) else first

    @cached_property
    def gone(self) -> Floats:
        """When the result of each copy was lost or the copy was cut: infinite if never, NaN where that is not known.

        A result that is complete at the instant of an outage is lost with it; a copy that both starts and ends at
        that instant may have come after it if the executor came back at once.
        """
        start, finish, executor = (self.copies[name] for name in ("starting_time", "finish_time", "executor"))
        gone = np.full(len(start), np.inf)
        done = self.outcome["completed"]
        if self.info["outages_lose_data"]:
            at_once = start[done] == finish[done]
            at_once &= last_repair(self.outages, self.down, executor[done], finish[done]) == finish[done]
            gone[done] = next_down(self.outages, self.down, executor[done], finish[done], at_once)
        gone[self.outcome["interrupted"]] = finish[self.outcome["interrupted"]]
        gone[self.outcome["withdrawn"]] = np.nan
        return gone

    def copy_text(self, row: int) -> str:
        """Name a copy."""
        copies = self.copies
        kind = "duplicate of " if copies["duplicate"][row] else ""
        task = f" task {copies['task'][row]}" if self.by_task else ""
        where = f"on executor {copies['executor'][row]}"
        return f"{kind}job {copies['job_id'][row]} node {copies['node'][row]}{task} {where}"

    def transfer_text(self, row: int) -> str:
        """Name a transfer."""
        job_id, parent, child, source, destination = (
            self.transfers[name][row] for name in ("job_id", "parent", "child", "source", "destination")
        )
        task = f" task {self.transfers['task'][row]}" if self.by_task else ""
        return f"job {job_id}: data of node {parent} for node {child}{task}, from executor {source} to {destination}"


def _check_edges(transfers: Columns, edge: Whole, findings: Findings) -> None:
    """Check that every transfer has an edge."""
    findings.check(
        "references",
        len(edge),
        edge < 0,
        lambda row: (
            f"job {transfers['job_id'][row]}: there is a transfer from node {transfers['parent'][row]} to node "
            f"{transfers['child'][row]}, but no such edge"
        ),
    )


def read_dag_run(result: Result, findings: Findings) -> DagRun | None:
    """Read the tables of a run of DAG jobs.

    Parameters
    ----------
    result : Result
        The run.
    findings : Findings
        Takes what is wrong with its description, columns, types, graphs and references.

    Returns
    -------
    DagRun or None
        None if nothing more can be checked.
    """
    tables = read_dag_tables(result, findings)
    if tables is None:
        return None
    check_executors(tables, result.info, findings)
    if not findings.report().ok:
        return None
    graph = read_graph(tables, findings)
    if graph is None:
        return None
    arrays = {name: to_arrays(tables[name]) for name in ("jobs", "copies", "transfers", "outages")}
    copies, transfers, jobs = arrays["copies"], arrays["transfers"], arrays["jobs"]
    # An id may be used again once its job has ended; the times tell which job is meant.
    ids, submission = jobs["job_id"], jobs["submission_time"]
    copy_job = latest(ids, submission, copies["job_id"], copies["assignment_time"])
    transfer_job = latest(ids, submission, transfers["job_id"], transfers["starting_time"])
    num_parts = graph.num_tasks if by_task(result.info) else np.ones(graph.num_nodes, dtype=np.int64)
    check_references(arrays, (copy_job, transfer_job), graph, num_parts, findings)
    if not findings.report().ok:
        return None
    transfer_edge = edges_of(transfers, transfer_job, graph)
    _check_edges(transfers, transfer_edge, findings)
    if not findings.report().ok:
        return None
    return DagRun(
        **arrays,
        status=masks(tables["jobs"]["status"], STATUSES),
        outcome=masks(tables["copies"]["outcome"], OUTCOMES),
        down=(tables["outages"]["event"] == "down").to_numpy(),
        graph=graph,
        copy_job=copy_job,
        copy_node=graph.first_node[copy_job] + copies["node"],
        transfer_job=transfer_job,
        transfer_edge=transfer_edge,
        num_parts=num_parts,
        info=result.info,
    )
