"""Recorded workflows, of whatever format: tasks, the files that they read and write, and a job made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job

__all__ = ["Pair", "Task", "build"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class Task:
    """A task of a workflow.

    Parameters
    ----------
    name : str
        Unique in the workflow.
    work : float
        Computation size.
    reads, writes : mapping of str to float or None
        Size in bytes of each file that it reads or writes, None where it is not known.
    """

    name: str
    work: float
    reads: Mapping[str, float | None]
    writes: Mapping[str, float | None]


def build(source: str, label: str, tasks: Sequence[Task], edges: Iterable[Pair], *, allow_disconnected: bool) -> Job:
    """Make the job.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    label : str
        Of the job.
    tasks : sequence of Task
        At least one.
    edges : iterable of (parent, child)
        By name, each once; the names are known.
    allow_disconnected : bool
        Accept several parts.

    Returns
    -------
    Job
        With the bytes that a child reads of what its parent wrote on each edge; job 0, submitted at time 0.

    Raises
    ------
    WorkloadError
        If the size of a file on an edge is unknown, or the graph makes no sense.
    """
    by_name = {task.name: task for task in tasks}
    sized = [(parent, child, _size(source, by_name[parent], by_name[child])) for parent, child in edges]
    work = [task.work for task in tasks]
    try:
        return Job(0, work, sized, names=list(by_name), label=label, allow_disconnected=allow_disconnected)
    except WorkloadError as error:
        raise WorkloadError(f"{source}: {error}") from error


def _size(source: str, parent: Task, child: Task) -> float:
    """Return the bytes of the files that one task writes and another reads; the writer knows best how many."""
    total = 0.0
    for file in child.reads:
        if file in parent.writes:
            stated = parent.writes[file]
            size = child.reads[file] if stated is None else stated
            if size is None:
                raise WorkloadError(
                    f"{source}: file {file!r}, which {parent.name!r} writes and {child.name!r} reads, has no size"
                )
            total += size
    return total
