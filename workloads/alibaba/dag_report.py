"""What was dropped, changed or noticed while the tasks of a trace became jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from desim.workloads._ledger import Ledger
from desim.workloads.report import EXAMPLES

__all__ = ["DagReason", "DagReport"]

Action = Literal["dropped", "changed", "noted"]


class DagReason(Enum):
    """Why a task was dropped or changed, or what was remarkable about it.

    A dropped task is counted for one reason only, the first that applies in the order of this list; a kept one may be
    counted for several.
    """

    OTHER_STATUS = ("dropped", "status other than those asked for")
    UNKNOWN_TIME = ("dropped", "start or end empty, 0 or negative")
    ENDED_BEFORE_START = ("dropped", "ended before it began")
    REPEATED = ("dropped", "number, or name without one, of an earlier task of the job")
    INCOMPLETE_JOB = ("dropped", "in a job of which a task was dropped or is missing, with incomplete='drop'")
    CYCLIC_JOB = ("dropped", "in a job whose tasks wait for each other in a circle")
    DISCONNECTED_JOB = ("dropped", "in a job of several parts, with allow_disconnected=False")
    SELF_DEPENDENCY = ("changed", "needs itself: left out")
    MISSING_PARENT = ("changed", "needs a task that is not in the trace or was dropped: left out")
    REPEATED_PARENT = ("changed", "names a task twice that it needs: counted once")
    UNKNOWN_INSTANCES = ("changed", "number of instances empty or below 1: 1 taken")
    INDEPENDENT = ("noted", "name without a number: needs no task, and none needs it")
    SUFFIX = ("noted", "name with something behind the numbers, ignored")

    @property
    def action(self) -> Action:
        """What happened to the task: ``dropped``, ``changed`` or ``noted``."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """The reason in words."""
        return self.value[1]


@dataclass
class DagReport(Ledger[DagReason, str]):
    """Counts of the tasks that were dropped, changed or remarked on.

    ``rows == tasks + dropped`` holds for every finished report.

    Parameters
    ----------
    rows : int
        Tasks looked at, one a row of the table.
    tasks : int
        Tasks that became nodes.
    jobs : int
        Jobs made of them.
    disconnected : int
        Jobs among them that have several parts.
    counts : dict of DagReason to int
        Tasks for each reason that occurred.
    places : dict of DagReason to list of str
        The first few for each reason: names of job and task.
    """

    rows: int = 0
    tasks: int = 0
    jobs: int = 0
    disconnected: int = 0
    counts: dict[DagReason, int] = field(default_factory=dict)
    places: dict[DagReason, list[str]] = field(default_factory=dict)

    def add(self, reason: DagReason, job: str, tasks: Iterable[str]) -> None:
        """Count tasks of a job.

        Parameters
        ----------
        reason : DagReason
            Why.
        job : str
            Name of the job.
        tasks : iterable of str
            Names of the tasks.
        """
        self.enter(reason, (f"{job} {task}" for task in tasks), EXAMPLES)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON.

        Returns
        -------
        dict
            ``rows``, ``tasks``, ``jobs``, ``dropped``, ``disconnected`` and ``reasons``: for each reason that
            occurred, by its name in lower case, ``action``, ``count``, ``places`` and ``meaning``.
        """
        totals = {"rows": self.rows, "tasks": self.tasks, "jobs": self.jobs}
        return totals | {"dropped": self.dropped, "disconnected": self.disconnected, "reasons": self.reasons()}

    def __str__(self) -> str:
        """Return a table: one line for each reason that occurred."""
        first = (
            f"{self.rows:,} rows: {self.tasks:,} tasks in {self.jobs:,} jobs, {self.disconnected:,} of them "
            f"disconnected; {self.dropped:,} dropped"
        )
        return self.table(first, "tasks")
