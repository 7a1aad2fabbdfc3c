"""What ran in a DAG run and what data it took: the columns of two tables, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.metrics.columns import masks, numbers, read_columns, whole
from desim.metrics.dag_input import DagJobs

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DagCopies", "DagTransfers", "read_copies", "read_transfers"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

_OUTCOMES = ("completed", "interrupted", "withdrawn", "running", "waiting")


@dataclass(frozen=True)
class DagCopies:
    """Columns of a table of n copies; times in seconds, NaN where unknown.

    Attributes
    ----------
    job, node, part, executor : array of int, shape (n,)
        Row of the job, number of the node, number of what ran of it (the node itself, unless it runs task by task),
        executor.
    duplicate : array of bool, shape (n,)
        Whether the node had another copy.
    assignment, start, finish : array of float, shape (n,)
        When it was assigned, started and ended.
    outcome : mapping of str to array of bool, shape (n,)
        For each outcome which copies have it.
    """

    job: Whole
    node: Whole
    part: Whole
    executor: Whole
    duplicate: Mask
    assignment: Floats
    start: Floats
    finish: Floats
    outcome: Mapping[str, Mask]

    @property
    def started(self) -> Mask:
        """Which copies have started, shape (n,)."""
        return ~np.isnan(self.start)

    def ends(self, end_time: float) -> Floats:
        """Return when each copy left its executor, or the run ended; NaN if it has not started."""
        return np.where(self.outcome["running"], end_time, self.finish)


@dataclass(frozen=True)
class DagTransfers:
    """Columns of a table of n inputs of copies; times in seconds.

    Attributes
    ----------
    parent, source, destination : array of int, shape (n,)
        Number of the node that the data come from; executors.
    begin, arrival, size : array of float, shape (n,)
        When they were sent and had arrived, and how much it was.
    """

    parent: Whole
    source: Whole
    destination: Whole
    begin: Floats
    arrival: Floats
    size: Floats

    @property
    def moved(self) -> Mask:
        """Which of them went from one executor to another, shape (n,)."""
        moved: Mask = self.source != self.destination
        return moved


def read_copies(jobs: DagJobs, table: pl.DataFrame | pl.LazyFrame, *, by_task: bool = False) -> DagCopies:
    """Read the copies.

    Parameters
    ----------
    jobs : DagJobs
        The jobs.
    table : polars.DataFrame or polars.LazyFrame
        The table ``copies``.
    by_task : bool
        Nodes ran task by task.

    Returns
    -------
    DagCopies
        Its columns.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, or a copy is of no job.
    """
    times = ("assignment_time", "starting_time", "finish_time")
    frame = read_columns(
        "copies", table, ("job_id", "node", "executor", "duplicate", *times, "outcome", *(("task",) * by_task))
    )
    assignment, start, finish = (numbers(frame[name]) for name in times)
    job = jobs.rows(whole(frame["job_id"]), assignment)
    node = jobs.first_node[job] + whole(frame["node"])
    part = node
    if by_task:
        task = whole(frame["task"])
        part = node * (int(task.max(initial=0)) + 1) + task
    outcome = masks(frame["outcome"], _OUTCOMES)
    duplicate = frame["duplicate"].to_numpy()
    return DagCopies(job, node, part, whole(frame["executor"]), duplicate, assignment, start, finish, outcome)


def read_transfers(jobs: DagJobs, table: pl.DataFrame | pl.LazyFrame) -> DagTransfers:
    """Read the inputs of copies.

    Parameters
    ----------
    jobs : DagJobs
        The jobs.
    table : polars.DataFrame or polars.LazyFrame
        The table ``transfers``.

    Returns
    -------
    DagTransfers
        Its columns.

    Raises
    ------
    InvalidConfiguration
        If a column is missing, or an input is of no job.
    """
    names = ("job_id", "parent", "source", "destination", "starting_time", "arrival_time", "size")
    frame = read_columns("transfers", table, names)
    begin, arrival, size = (numbers(frame[name]) for name in names[-3:])
    parent = jobs.first_node[jobs.rows(whole(frame["job_id"]), begin)] + whole(frame["parent"])
    return DagTransfers(parent, whole(frame["source"]), whole(frame["destination"]), begin, arrival, size)
