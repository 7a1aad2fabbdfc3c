"""Recorded workflows of any format: tasks, the files that they read and write, and the job made from them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from desim.exceptions import ContradictionWarning, WorkloadError
from desim.problems.dag.job import Job

__all__ = ["Pair", "Task", "build"]

Pair = tuple[str, str]


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


def build(source: str, label: str, tasks: Sequence[Task], edges: Iterable[Pair], *, allow_disconnected: bool) -> Job:
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
    _tell_contradictions(source, tasks)
    sized = [(parent, child, _size(source, by_name[parent], by_name[child])) for parent, child in edges]
    work = [task.work for task in tasks]
    try:
        return Job(0, work, sized, names=list(by_name), label=label, allow_disconnected=allow_disconnected)
    except WorkloadError as error:
        raise WorkloadError(f"{source}: {error}") from error


def _tell_contradictions(source: str, tasks: Sequence[Task]) -> None:
    """Warn if a file has another size where it is read than where it is written."""
    written = {file: (size, task.name) for task in tasks for file, size in task.writes.items() if size is not None}
    found = [
        (file, *written[file], size, task.name)
        for task in tasks
        for file, size in task.reads.items()
        if size is not None and file in written and written[file][0] != size
    ]
    if found:
        file, at_writer, writer, size, reader = found[0]
        more = f" ({len(found)} such pairs)" if len(found) > 1 else ""
        warnings.warn(
            f"{source}: file {file!r} has {at_writer:g} bytes where {writer!r} writes it and {size:g} where {reader!r} "
            f"reads it{more}; the writer's size counts",
            ContradictionWarning,
            stacklevel=4,
        )


def _size(source: str, parent: Task, child: Task) -> float:
    """Return the total bytes of the files that one task writes and another reads; the writer's sizes come first."""
    total = 0.0
    for file in child.reads:
        if file in parent.writes:
            stated = parent.writes[file]
            size = child.reads[file] if stated is None else stated
            if size is None:
                raise WorkloadError(
                    f"{source}: file {file!r}, written by {parent.name!r} and read by {child.name!r}, has no size"
                )
            total += size
    return total
