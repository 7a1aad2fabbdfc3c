"""Recorded workflows of any format: tasks, the files that they read and write, and the job made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.files import plain_number
from desim.workloads.report import ListedReason, RepairReport

__all__ = ["Pair", "Task", "WorkflowReason", "WorkflowReport", "build"]

Pair = tuple[str, str]


class WorkflowReason(ListedReason):
    """Reason why something that a workflow states was ignored."""

    OTHER_SIZE = ("ignored", "size where a file is read, if its writer states another")


@dataclass(repr=False)
class WorkflowReport(RepairReport[WorkflowReason, str]):
    """Counts of what the readers of workflows ignored; several files can share one report.

    Rows are tasks. Places name a file of the workflow, its sizes, and the two tasks.

    Parameters
    ----------
    jobs : int
        Number of workflows.
    """

    unit: str = "file"
    jobs: int = 0


@dataclass(frozen=True)
class Task:
    """Task of a workflow.

    Parameters
    ----------
    name : str
        Name, unique in the workflow.
    work : float
        Computation size of the task.
    reads, writes : mapping of str to float or None
        Size in bytes of each file that the task reads or writes, None where unknown.
    """

    name: str
    work: float
    reads: Mapping[str, float | None]
    writes: Mapping[str, float | None]


def build(
    source: str,
    label: str,
    tasks: Sequence[Task],
    edges: Iterable[Pair],
    *,
    allow_disconnected: bool,
    default_size: float | None = None,
    report: WorkflowReport | None = None,
) -> Job:
    """Return the job of a workflow.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    label : str
        Label of the job.
    tasks : sequence of Task
        Tasks of the workflow, at least one.
    edges : iterable of (parent, child)
        Pairs of names of known tasks, each pair once.
    allow_disconnected : bool
        Whether to accept a graph of several components.
    default_size : float, optional
        Size in bytes of a file for which neither writer nor reader states one. By default, such a file is an error.
    report : WorkflowReport, optional
        Report to complete.

    Returns
    -------
    Job
        Job 0, submitted at time 0; an edge has the total size of the files its parent writes and its child reads.

    Raises
    ------
    WorkloadError
        If the size of a file on an edge is unknown, or the graph is invalid.
    """
    by_name = {task.name: task for task in tasks}
    edges = list(edges)
    if report is not None:
        report.rows, report.jobs = report.rows + len(tasks), report.jobs + 1
        for parent, child in edges:
            report.add(WorkflowReason.OTHER_SIZE, _contradictions(source, by_name[parent], by_name[child]))
    sized = [(parent, child, _size(source, by_name[parent], by_name[child], default_size)) for parent, child in edges]
    work = [task.work for task in tasks]
    try:
        return Job(0, work, sized, names=list(by_name), label=label, allow_disconnected=allow_disconnected)
    except WorkloadError as error:
        raise WorkloadError(f"{source}: {error}") from error


def _contradictions(source: str, parent: Task, child: Task) -> list[str]:
    """Return places of files that have another size where one task reads them than where the other writes them."""
    found = []
    for file, read in child.reads.items():
        written = parent.writes.get(file)
        if read is not None and written is not None and read != written:
            sizes = f"{plain_number(written)} bytes in {parent.name!r}, {plain_number(read)} in {child.name!r}"
            found.append(f"{Path(source).name}: {file!r} has {sizes}")
    return found


def _size(source: str, parent: Task, child: Task, default: float | None) -> float:
    """Return the total bytes of the files that one task writes and another reads; the writer's sizes come first."""
    total = 0.0
    for file in child.reads:
        if file in parent.writes:
            stated = parent.writes[file]
            stated = child.reads[file] if stated is None else stated
            size = default if stated is None else stated
            if size is None:
                raise WorkloadError(
                    f"{source}: file {file!r}, written by {parent.name!r} and read by {child.name!r}, has no size"
                )
            total += size
    return total
