"""Recorded workflows of any format: tasks, the files that they read and write, and the job made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from desim.checks import check_float
from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job, Mode
from desim.workloads.files import plain_number
from desim.workloads.report import ListedReason, RepairReport

__all__ = ["Pair", "Repairs", "Task", "WorkflowOptions", "WorkflowReason", "WorkflowReport", "build"]

Pair = tuple[str, str]


class WorkflowReason(ListedReason):
    """Reason why something that a workflow states was changed or ignored."""

    NEGATIVE_SIZE = ("changed", "negative size of a file: its absolute value used")
    ASSUMED_RUN_TIME = ("changed", "run time unknown: the given one used")
    ASSUMED_DEMAND = ("changed", "cores or memory of a task unknown: one core, no memory used")
    ASSUMED_SIZE = ("changed", "size of a file unknown: the given one used")
    OTHER_SIZE = ("ignored", "size where a file is read, if its writer states another")
    REPEATED_RELATION = ("ignored", "relation of two tasks that is stated more than once")


@dataclass(repr=False)
class WorkflowReport(RepairReport[WorkflowReason, str]):
    """Counts of what the readers of workflows changed and ignored; several files can share one report.

    Rows are tasks. Places name the file, and what is concerned in it.

    Parameters
    ----------
    jobs : int
        Number of workflows.
    """

    unit: str = "place"
    jobs: int = 0

    def merge(self, other: RepairReport[WorkflowReason, str]) -> None:
        """Add the rows, workflows and counts of another report."""
        super().merge(other)
        self.jobs += other.jobs if isinstance(other, WorkflowReport) else 0


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
    demands : mapping of str to float, optional
        Amounts of resources that the task takes of a pool. Either all tasks of a workflow have them, or none has.
    modes : tuple of Mode, optional
        Modes of the task, instead of demands.
    """

    name: str
    work: float
    reads: Mapping[str, float | None]
    writes: Mapping[str, float | None]
    demands: Mapping[str, float] | None = None
    modes: tuple[Mode, ...] | None = None


class WorkflowOptions(TypedDict, total=False):
    """Keyword arguments of the readers; all are optional.

    Attributes
    ----------
    reference_speed : float
        Speed, in work per second, at which the run times were measured; a node's work is its run time times this.
        Default: 1.
    default_run_time : float or None
        Run time in seconds of tasks that state none. Default: None, such a task is an error.
    default_size : float or None
        Size in bytes of files that state none. Default: None, such a file on an edge is an error.
    allow_disconnected : bool
        Whether to accept a workflow of several components. Default: True.
    strict : bool
        Whether to refuse a workflow of which something must be changed, such as a negative size. Default: False.
    """

    reference_speed: float
    default_run_time: float | None
    default_size: float | None
    allow_disconnected: bool
    strict: bool


@dataclass
class Repairs:
    """Options of a reader, checked and with their defaults, see `WorkflowOptions`; and the report of its repairs."""

    reference_speed: float = 1.0
    default_run_time: float | None = None
    default_size: float | None = None
    allow_disconnected: bool = True
    strict: bool = False
    resources: Sequence[str] = ()  # that tasks demand
    report: WorkflowReport = field(default_factory=WorkflowReport)

    def __post_init__(self) -> None:
        """Check the options."""
        check_float("reference_speed", self.reference_speed, above=0)
        for name in ("default_run_time", "default_size"):
            if getattr(self, name) is not None:
                check_float(name, getattr(self, name), least=0)

    def work(self, where: str, run_time: float | None) -> float:
        """Return the work of a task from its run time, if it states one; `where` is its place."""
        if run_time is None:
            run_time = self.default_run_time
            if run_time is None:
                raise WorkloadError(f"{where}: has no run time; try default_run_time, or --default-run-time")
            self.report.add(WorkflowReason.ASSUMED_RUN_TIME, [_short(where)])
        return run_time * self.reference_speed

    def demand(self, where: str, amount: float | None, assumed: float) -> float:
        """Return the amount of a resource that a task takes, or the assumed one if it states none."""
        if amount is None:
            self.report.add(WorkflowReason.ASSUMED_DEMAND, [_short(where)])
        return assumed if amount is None else amount

    def size(self, where: str, size: float | None) -> float | None:
        """Return the size of a file, None if it states none; some generators count bytes in 32 bits with a sign."""
        if size is not None and size < 0:
            self.report.add(WorkflowReason.NEGATIVE_SIZE, [_short(where)])
        return None if size is None else abs(size)


def _short(where: str) -> str:
    """Return a place without the directory of its file."""
    source, _, place = where.partition(": ")
    return f"{Path(source).name}: {place}"


def build(
    source: str,
    label: str,
    tasks: Sequence[Task],
    edges: Iterable[Pair],
    *,
    repairs: Repairs,
    report: WorkflowReport | None,
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
        Pairs of names of known tasks.
    repairs : Repairs
        Options of the reader, and its report of this file.
    report : WorkflowReport, optional
        Report of the caller to complete.

    Returns
    -------
    Job
        Job 0, submitted at time 0; an edge has the total size of the files its parent writes and its child reads.

    Raises
    ------
    WorkloadError
        If the size of a file on an edge is unknown, the graph is invalid, or something was changed although it is
        strict.
    """
    by_name, own = {task.name: task for task in tasks}, repairs.report
    known: dict[Pair, None] = {}
    for pair in edges:
        if pair in known:
            own.add(WorkflowReason.REPEATED_RELATION, [f"{Path(source).name}: {pair[0]!r} -> {pair[1]!r}"])
        known[pair] = None
    own.rows, own.jobs = len(tasks), 1
    sized = []
    for parent, child in known:
        own.add(WorkflowReason.OTHER_SIZE, _contradictions(source, by_name[parent], by_name[child]))
        sized.append((parent, child, _size(source, by_name[parent], by_name[child], repairs)))
    if repairs.strict:
        own.refuse_repairs(source)
    if report is not None:
        report.merge(own)
    work = [task.work for task in tasks]
    taken: dict[str, Any] = {
        "demands": None if all(task.demands is None for task in tasks) else [task.demands for task in tasks],
        "modes": [task.modes for task in tasks],
    }
    names, may_be_apart = list(by_name), repairs.allow_disconnected
    try:
        return Job(0, work, sized, names=names, label=label, allow_disconnected=may_be_apart, **taken)
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


def _size(source: str, parent: Task, child: Task, repairs: Repairs) -> float:
    """Return the total bytes of the files that one task writes and another reads; the writer's sizes come first."""
    total = 0.0
    for file in child.reads:
        if file in parent.writes:
            stated = parent.writes[file]
            stated = child.reads[file] if stated is None else stated
            size = repairs.default_size if stated is None else stated
            if size is None:
                raise WorkloadError(
                    f"{source}: file {file!r}, written by {parent.name!r} and read by {child.name!r}, has no size; try "
                    "default_size, or --default-size"
                )
            if stated is None:
                repairs.report.add(WorkflowReason.ASSUMED_SIZE, [f"{Path(source).name}: {file!r}"])
            total += size
    return total
