"""From the rows of a job in ``batch_task`` to its tasks and what they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal, NamedTuple

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.workloads._columns import LARGEST
from desim.workloads.alibaba._dag_parts import part_of
from desim.workloads.alibaba.dag_report import DagReason, DagReport

__all__ = ["DagRules", "Row", "Work", "make_job"]

Work = Literal["task_duration", "instances"]

# A letter prefix, the task's number, the numbers of the tasks it needs, and, rarely, something else
_NAME = re.compile(r"[A-Za-z]+([0-9]{1,9})((?:_[0-9]{1,9})*)(_.*)?")


class Row(NamedTuple):
    """A row of the table."""

    job: str
    task: str
    instances: int | None
    status: str | None
    start: float | None
    end: float | None


@dataclass(frozen=True)
class DagRules:
    """Which tasks and jobs to keep, and what their work is; see `desim.workloads.alibaba.dags.jobs`."""

    work: Work
    reference_speed: float
    statuses: frozenset[str] | None
    drop_incomplete: bool
    allow_disconnected: bool

    def why_not(self, row: Row) -> DagReason | None:
        """Return why a row cannot be a task, None if it can."""
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


# Reasons with the names of tasks; those of kept tasks are counted once it is clear that the job is kept
_Findings = list[tuple[DagReason, str]]


def make_job(rows: Sequence[Row], rules: DagRules, report: DagReport, job_id: int) -> Job | None:
    """Make a job of its rows.

    Parameters
    ----------
    rows : sequence of Row
        All rows of the job, in the order of the file.
    rules : DagRules
        What to keep.
    report : DagReport
        Where to count.
    job_id : int
        Its identifier.

    Returns
    -------
    Job or None
        None if the job was dropped.

    Raises
    ------
    WorkloadError
        If a work is too large to be a number.
    """
    name = rows[0].job
    report.rows += len(rows)
    fitting: list[Row] = []
    dropped: _Findings = []
    for row in rows:
        reason = rules.why_not(row)
        if reason is None:
            fitting.append(row)
        else:
            dropped.append((reason, row.task))
    changed: _Findings = []
    tasks = _numbered(fitting, dropped, changed)
    edges = _edges(tasks, changed)
    _count(report, name, dropped)
    fault, disconnected = _fault(tasks, edges, rules, bool(dropped), changed)
    if fault is not None:
        report.add(fault, name, (task.name for task in tasks))
        return None
    if not tasks:
        return None
    _count(report, name, changed)
    report.tasks += len(tasks)
    report.jobs += 1
    report.disconnected += disconnected
    submission_time = min(row.start for row in fitting if row.start is not None)
    work = [rules.work_of(task) for task in tasks]
    return _assemble(name, tasks, edges, work, number=job_id, at=submission_time)


def _numbered(rows: Sequence[Row], dropped: _Findings, changed: _Findings) -> list[_Task]:
    """Return the tasks with what their names say; of those with the same number, the first."""
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
        tasks.append(_Task(row.task, number, parents, seconds, instances))
    return tasks


def _edges(tasks: Sequence[_Task], changed: _Findings) -> list[tuple[int, int]]:
    """Return the edges by position, without those that make no sense."""
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


def _fault(
    tasks: Sequence[_Task], edges: Sequence[tuple[int, int]], rules: DagRules, lost: bool, changed: _Findings
) -> tuple[DagReason | None, bool]:
    """Return why a job is dropped, or None, and whether it is disconnected."""
    if rules.drop_incomplete and (lost or any(reason is DagReason.MISSING_PARENT for reason, _ in changed)):
        return DagReason.INCOMPLETE_JOB, False
    parents: dict[int, list[int]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(parent)
    try:
        TopologicalSorter(parents).prepare()
    except CycleError:
        return DagReason.CYCLIC_JOB, False
    disconnected = any(part_of(len(tasks), edges))
    return DagReason.DISCONNECTED_JOB if disconnected and not rules.allow_disconnected else None, disconnected


def _assemble(
    name: str,
    tasks: Sequence[_Task],
    edges: Sequence[tuple[int, int]],
    work: Sequence[float],
    *,
    number: int,
    at: float,
) -> Job:
    try:
        return Job(
            number,
            work,
            [(parent, child, 0.0) for parent, child in edges],
            submission_time=at,
            names=[task.name for task in tasks],
            num_tasks=[task.instances for task in tasks],
            label=name,
            allow_disconnected=True,
        )
    except WorkloadError as error:
        raise WorkloadError(f"{name!r}: {error}") from error


def _count(report: DagReport, job: str, findings: _Findings) -> None:
    for reason, task in findings:
        report.add(reason, job, (task,))
