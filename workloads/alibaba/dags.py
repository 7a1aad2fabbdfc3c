"""Jobs of cluster-trace-v2018 as task graphs, from the table ``batch_task``.

The name of a task encodes its dependencies: a letter prefix without meaning, the task's number, then the numbers of
its parents. ``M1`` has no parent; ``J4_2_3_1`` depends on 2, 3 and 1. A task with another name, such as
``task_Nzg3ODAw``, has neither parents nor children. Deviations from these rules are repaired or dropped, and counted
in a `DagReport`; `DagReason` explains the reasons.

The work of a task is its duration times a reference speed. With ``work="instances"``, it is also multiplied by the
number of instances, as if each of them had run as long as the task. With ``demands``, a task takes the planned cores
and memory of all its instances at once. The trace has no data on transfers, so all edges have size 0. A job is
submitted when its first task started, because the trace does not state how long it waited. Its label is its name in the
trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from typing import Literal, NamedTuple, get_args

from desim.checks import check_choice, check_float
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.alibaba.reading import stream
from desim.workloads.dag.random_dags import part_of
from desim.workloads.files import Pathish
from desim.workloads.json_fields import LARGEST
from desim.workloads.report import ListedReason, RepairReport

__all__ = ["DagReason", "DagReport", "DagStream", "Work", "jobs"]

Work = Literal["task_duration", "instances"]

_COLUMNS = ("job_name", "task_name", "instance_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem")
# Letter prefix, number of the task, numbers of its parents, and, rarely, a suffix
_NAME = re.compile(r"[A-Za-z]+([0-9]{1,9})((?:_[0-9]{1,9})*)(_.*)?")


class DagReason(ListedReason):
    """Reason why a task was dropped or changed, or something about it was noted."""

    OTHER_STATUS = ("dropped", "status not among those requested")
    UNKNOWN_TIME = ("dropped", "start or end empty, 0 or negative")
    ENDED_BEFORE_START = ("dropped", "ended before its start")
    REPEATED = ("dropped", "number, or name without a number, used by an earlier task of the job")
    CYCLIC_JOB = ("dropped", "in a job with a cycle of dependencies")
    DISCONNECTED_JOB = ("dropped", "in a job of several components, with allow_disconnected=False")
    SELF_DEPENDENCY = ("changed", "depends on itself: dependency removed")
    MISSING_PARENT = ("changed", "depends on a task that is not in the trace or was dropped: dependency removed")
    REPEATED_PARENT = ("changed", "names a parent twice: counted once")
    UNKNOWN_INSTANCES = ("changed", "number of instances empty or below 1: 1 used")
    UNKNOWN_DEMAND = ("changed", "planned cores or memory empty: one core per instance, no memory used")
    INDEPENDENT = ("noted", "name without a number: no parents or children")
    SUFFIX = ("noted", "name with a suffix after the numbers, ignored")


@dataclass(repr=False)
class DagReport(RepairReport[DagReason, str]):
    """Counts of the tasks that were dropped, changed or noted.

    ``rows == tasks + dropped`` holds for every finished report. Places are names of a job and a task.

    Parameters
    ----------
    tasks : int
        Number of tasks that became nodes.
    jobs : int
        Number of jobs made from them.
    disconnected : int
        Number of these jobs that have several components.
    """

    unit: str = "task"
    tasks: int = 0
    jobs: int = 0
    disconnected: int = 0

    def headline(self) -> str:
        """Return the totals in one line."""
        return (
            f"{self.rows:,} rows: {self.tasks:,} tasks in {self.jobs:,} jobs, {self.disconnected:,} of them "
            f"disconnected; {self.dropped:,} dropped"
        )


class _Row(NamedTuple):
    """Row of the table."""

    job: str
    task: str
    instances: int | None
    status: str | None
    start: float | None
    end: float | None
    cores: float | None
    memory: float | None


@dataclass(frozen=True)
class _Rules:
    """Options: which tasks and jobs to keep, and the definition of work; see `jobs`."""

    work: Work
    reference_speed: float
    statuses: frozenset[str] | None
    allow_disconnected: bool
    demands: bool

    def why_not(self, row: _Row) -> DagReason | None:
        """Return the reason why a row cannot be a task, or None."""
        if self.statuses is not None and row.status not in self.statuses:
            return DagReason.OTHER_STATUS
        if row.start is None or row.end is None or not (0 < row.start <= LARGEST and 0 < row.end <= LARGEST):
            return DagReason.UNKNOWN_TIME
        return DagReason.ENDED_BEFORE_START if row.end < row.start else None

    def work_of(self, task: _Task) -> float:
        """Return the work of a task."""
        work = task.seconds * self.reference_speed
        return work * task.instances if self.work == "instances" else work


class _Task(NamedTuple):
    name: str
    number: int | None
    parents: tuple[int, ...]
    seconds: float
    instances: int
    demands: dict[str, float]


class DagStream:
    """Iterable over the jobs of a trace; each iteration reads the file again.

    Parameters
    ----------
    path, rules, contiguous : path, object, bool
        Arguments of `jobs`, which creates the object.

    Attributes
    ----------
    report : DagReport
        Counts of the latest iteration, complete when it ends.
    """

    def __init__(self, path: Pathish, rules: _Rules, *, contiguous: bool) -> None:
        self.rules = rules
        self.report = DagReport()
        self._contiguous = contiguous
        self._name = os.fspath(path)
        self._frames = stream(path, "batch_task")

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs, from the start of the table."""
        self.report = report = DagReport()
        for rows in self._contiguous_rows() if self._contiguous else self._sorted_rows():
            try:
                job = _make_job(rows, self.rules, report, report.jobs)
            except WorkloadError as error:
                raise WorkloadError(f"{self._name}: {error}") from error
            if job is not None:
                yield job
        if not report.jobs:
            found = report.summary()
            raise WorkloadError(f"{self._name}: no usable job{f'; dropped: {found}' if found else ''}")

    def _sorted_rows(self) -> Iterator[list[_Row]]:
        """Yield the rows of each job, in order of submission; ties keep the order of the file."""
        import polars as pl

        frame = pl.concat([frame.select(_COLUMNS) for frame in self._frames], rechunk=True).with_row_index("place")
        start, end = pl.col("start_time"), pl.col("end_time")
        known = start.is_between(0, LARGEST, closed="right") & end.is_between(0, LARGEST, closed="right")
        known &= end >= start
        if self.rules.statuses is not None:
            known &= pl.col("status").is_in(sorted(self.rules.statuses))
        frame = frame.with_columns(
            submitted=pl.when(known).then(start).min().over("job_name"), first=pl.col("place").min().over("job_name")
        ).sort("submitted", "first", "place", nulls_last=True)
        rows = map(_Row._make, frame.select(_COLUMNS).iter_rows())
        for _, group in groupby(rows, key=_job_of):
            yield list(group)

    def _contiguous_rows(self) -> Iterator[list[_Row]]:
        """Yield the rows of each job, in the order of the file."""
        seen: set[str] = set()
        rows = (_Row._make(row) for frame in self._frames for row in frame.select(_COLUMNS).iter_rows())
        place = 1
        for job, group in groupby(rows, key=_job_of):
            if job in seen:
                raise WorkloadError(
                    f"{self._name}: row {place}: job {job!r} has rows that are not consecutive; try contiguous=False"
                )
            seen.add(job)
            found = list(group)
            place += len(found)
            yield found


def jobs(
    path: Pathish,
    *,
    work: Work = "task_duration",
    reference_speed: float = 1.0,
    statuses: Iterable[str] | None = ("Terminated",),
    allow_disconnected: bool = True,
    contiguous: bool = False,
    demands: bool = False,
) -> DagStream:
    """Open a table whose jobs are made one by one while they are used.

    Parameters
    ----------
    path : str or path-like
        File ``batch_task.csv``, plain or compressed, see `read`.
    work : {"task_duration", "instances"}
        Definition of a task's work: its duration, as if it had run on one executor, or that times its instances.
    reference_speed : float
        Speed of a machine of the trace, in work per second, by which durations are multiplied.
    statuses : iterable of str, optional
        Statuses of the tasks to keep; None keeps all.
    allow_disconnected : bool
        Whether to keep jobs of several components, or drop them.
    contiguous : bool
        Whether the rows of each job are consecutive. False reads the whole table and yields jobs in order of
        submission. True keeps only one job and the names of all jobs in memory, and yields jobs in the order of the
        file.
    demands : bool
        Whether nodes demand ``cores`` (``plan_cpu`` / 100) and ``memory`` (``plan_mem``, in percent of a machine's) of
        a pool, each for all instances of the task at once.

    Returns
    -------
    DagStream
        Iterable over the jobs, any number of times. Jobs are numbered from 0, nodes have the names of the tasks, and
        instances are parallel tasks of a node.

    Raises
    ------
    WorkloadError
        Immediately, if the file cannot be opened; while iterating, for a row that does not fit the table or, with
        `contiguous`, for rows of a job that are not consecutive; and at the end, if there was no usable job.
    InvalidConfiguration
        If an option is out of range.
    """
    speed = check_float("reference_speed", reference_speed, above=0)
    check_choice("work", work, get_args(Work))
    if isinstance(statuses, str):
        raise InvalidConfiguration(f"statuses: got {statuses!r}, expected a collection of strings, or None")
    kept = None if statuses is None else frozenset(statuses)
    rules = _Rules(work, speed, kept, allow_disconnected, demands)
    return DagStream(path, rules, contiguous=contiguous)


def _job_of(row: _Row) -> str:
    return row.job


# Reasons and names of tasks; reasons of kept tasks are counted only once the job is known to be kept
_Findings = list[tuple[DagReason, str]]


def _make_job(rows: Sequence[_Row], rules: _Rules, report: DagReport, job_id: int) -> Job | None:
    """Return the job made from all its rows in the order of the file, or None if it was dropped."""
    name = rows[0].job
    report.rows += len(rows)
    fitting: list[_Row] = []
    dropped: _Findings = []
    for row in rows:
        reason = rules.why_not(row)
        if reason is None:
            fitting.append(row)
        else:
            dropped.append((reason, row.task))
    changed: _Findings = []
    tasks = _numbered(fitting, dropped, changed, demanded=rules.demands)
    edges = _edges(tasks, changed)
    _count(report, name, dropped)
    fault, disconnected = _fault(tasks, edges, rules)
    if fault is not None:
        _count(report, name, [(fault, task.name) for task in tasks])
        return None
    if not tasks:
        return None
    _count(report, name, changed)
    report.tasks += len(tasks)
    report.jobs += 1
    report.disconnected += disconnected
    try:
        return Job(
            job_id,
            [rules.work_of(task) for task in tasks],
            [(parent, child, 0.0) for parent, child in edges],
            submission_time=min(row.start for row in fitting if row.start is not None),
            names=[task.name for task in tasks],
            num_tasks=[task.instances for task in tasks],
            demands=[task.demands for task in tasks] if rules.demands else None,
            label=name,
            allow_disconnected=True,
        )
    except WorkloadError as error:
        raise WorkloadError(f"{name!r}: {error}") from error


def _numbered(rows: Sequence[_Row], dropped: _Findings, changed: _Findings, *, demanded: bool) -> list[_Task]:
    """Return the tasks with the dependencies in their names; of tasks with the same number, only the first."""
    taken: set[int | str] = set()
    tasks = []
    for row in rows:
        match = _NAME.fullmatch(row.task)
        number = int(match[1]) if match else None
        identity = row.task if number is None else number
        if identity in taken:
            dropped.append((DagReason.REPEATED, row.task))
            continue
        taken.add(identity)
        if match is None:
            changed.append((DagReason.INDEPENDENT, row.task))
        elif match[3]:
            changed.append((DagReason.SUFFIX, row.task))
        instances = row.instances
        if instances is None or instances < 1:
            changed.append((DagReason.UNKNOWN_INSTANCES, row.task))
            instances = 1
        parents = tuple(map(int, match[2].split("_")[1:])) if match else ()
        seconds = (row.end or 0.0) - (row.start or 0.0)
        cores, memory = (None if amount is None or amount < 0 else amount for amount in (row.cores, row.memory))
        if demanded and (cores is None or memory is None):
            changed.append((DagReason.UNKNOWN_DEMAND, row.task))
        amounts = {"cores": 1.0 if cores is None else cores / 100, "memory": memory or 0.0}
        demands = {what: amount * instances for what, amount in amounts.items()}
        tasks.append(_Task(row.task, number, parents, seconds, instances, demands))
    return tasks


def _edges(tasks: Sequence[_Task], changed: _Findings) -> list[tuple[int, int]]:
    """Return the valid edges, by position of the tasks."""
    position = {task.number: at for at, task in enumerate(tasks) if task.number is not None}
    edges = []
    for at, task in enumerate(tasks):
        reasons: dict[DagReason, None] = {}
        seen: set[int] = set()
        for number in task.parents:
            if number == task.number:
                reasons[DagReason.SELF_DEPENDENCY] = None
            elif number in seen:
                reasons[DagReason.REPEATED_PARENT] = None
            elif number not in position:
                reasons[DagReason.MISSING_PARENT] = None
            else:
                edges.append((position[number], at))
            seen.add(number)
        changed.extend((reason, task.name) for reason in reasons)
    return edges


def _fault(tasks: Sequence[_Task], edges: Sequence[tuple[int, int]], rules: _Rules) -> tuple[DagReason | None, bool]:
    """Return the reason why a job is dropped, or None, and whether it is disconnected."""
    parents: dict[int, list[int]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(parent)
    try:
        TopologicalSorter(parents).prepare()
    except CycleError:
        return DagReason.CYCLIC_JOB, False
    disconnected = any(part_of(len(tasks), edges))
    return DagReason.DISCONNECTED_JOB if disconnected and not rules.allow_disconnected else None, disconnected


def _count(report: DagReport, job: str, findings: _Findings) -> None:
    for reason, task in findings:
        report.add(reason, [f"{job} {task}"])
