"""From the tasks of a workflow and the files they read and write to a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job

__all__ = ["JobOptions", "Task", "build"]

Pair = tuple[str, str]


class JobOptions(TypedDict):
    """What a job is given beside its tasks."""

    job_id: int
    submission_time: float
    label: str
    allow_disconnected: bool


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


def build(source: str, tasks: Sequence[Task], edges: Iterable[Pair], *, file_edges: bool, options: JobOptions) -> Job:
    """Make the job.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    tasks : sequence of Task
        At least one.
    edges : iterable of (parent, child)
        By name, each once; the names are known.
    file_edges : bool
        Whether to add an edge where a task reads a file of one that is not its parent.
    options : JobOptions
        For the job.

    Returns
    -------
    Job
        With the bytes that a child reads of what its parent wrote on each edge.

    Raises
    ------
    WorkloadError
        If the size of a file on an edge is unknown, or the graph makes no sense.
    """
    by_name = {task.name: task for task in tasks}
    pairs = list(edges)
    if file_edges:
        known = set(pairs)
        pairs += [pair for pair in _file_pairs(tasks) if pair not in known]
    sized = [(parent, child, _size(source, by_name[parent], by_name[child])) for parent, child in pairs]
    try:
        return Job(
            options["job_id"],
            [task.work for task in tasks],
            sized,
            names=[task.name for task in tasks],
            submission_time=options["submission_time"],
            label=options["label"],
            allow_disconnected=options["allow_disconnected"],
        )
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


def _file_pairs(tasks: Sequence[Task]) -> Iterator[Pair]:
    """Yield who reads files of whom, each pair once, in the order of the readers; a task does not wait for itself."""
    writers: dict[str, list[str]] = {}
    for task in tasks:
        for file in task.writes:
            writers.setdefault(file, []).append(task.name)
    for task in tasks:
        found = (writer for file in task.reads for writer in writers.get(file, ()) if writer != task.name)
        yield from ((writer, task.name) for writer in dict.fromkeys(found))
