"""The tables of a batch run as the rules need them: checked for columns and types, then taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.validation.core_ranges import CoreRanges, read_core_ranges
from desim.validation.description import (
    RUN_STATUSES,
    choice_faults,
    kind_faults,
    lowest_faults,
    planned_end,
    time_faults,
)
from desim.validation.report import Findings
from desim.validation.tables import Columns, Kinds, masks, read_tables, to_arrays

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["BatchRun", "read_batch_run"]

_STATUSES = ("completed", "killed", "lost", "running", "queued", "rejected")
_EXPECTED: Mapping[str, Kinds] = {
    "jobs": {
        "job_id": "integer",
        "submission_time": "float",
        "requested_number_of_resources": "integer",
        "requested_time": "float",
        "run_time": "float",
        "starting_time": "float?",
        "execution_time": "float?",
        "finish_time": "float?",
        "waiting_time": "float?",
        "turnaround_time": "float?",
        "stretch": "float?",
        "allocated_resources": "text?",
        "success": "boolean",
        "status": _STATUSES,
        "attempts": "integer",
        "user_id": "integer",
    },
    "interruptions": {
        "job_id": "integer",
        "starting_time": "float",
        "finish_time": "float",
        "allocated_resources": "text",
        "outcome": ("requeued", "lost"),
    },
    "outages": {"time": "float", "event": ("down", "up"), "resources": "text", "cores_up": "integer"},
}
_TEXTS = {"jobs": "allocated_resources", "interruptions": "allocated_resources", "outages": "resources"}
_DESCRIPTION: Mapping[str, tuple[type, ...]] = {
    "num_cores": (int,),
    "end_time": (int, float),
    "until": (int, float, type(None)),
    "status": (str,),
    "kill_at_request": (bool,),
    "too_wide": (str,),
    "on_outage": (str,),
}
_CHOICES = {"status": RUN_STATUSES, "too_wide": ("error", "reject"), "on_outage": ("requeue", "lose")}


@dataclass(frozen=True)
class BatchRun:
    """A batch run, taken apart.

    Attributes
    ----------
    jobs, interruptions, outages : mapping of str to array
        The columns of the tables that hold numbers; a time that is null is NaN.
    status : mapping of str to array of bool
        For each status which jobs have it.
    requeued : array of bool
        Which interruptions put their job back into the queue; the others lost it.
    down : array of bool
        Which outage events take cores down; the others bring them back.
    texts : mapping of str to polars.Series
        The core ranges of each table as they were written.
    cores : mapping of str to CoreRanges
        The same, read.
    num_cores : int
        Cores of the cluster.
    end_time, until : float
        When the run ended and when it was to end, in seconds; ``until`` may be infinite.
    run_status : str
        ``"complete"``, ``"truncated"``, ``"interrupted"`` or ``"failed"``.
    kills, rejects, loses : bool
        Whether jobs are killed at their requested time, too wide jobs rejected, cut jobs lost.
    """

    jobs: Columns
    interruptions: Columns
    outages: Columns
    status: Mapping[str, NDArray[np.bool_]]
    requeued: NDArray[np.bool_]
    down: NDArray[np.bool_]
    texts: Mapping[str, pl.Series]
    cores: Mapping[str, CoreRanges]
    num_cores: int
    end_time: float
    until: float
    run_status: str
    kills: bool
    rejects: bool
    loses: bool

    @property
    def drained(self) -> bool:
        """Whether the run went on until nothing was left to happen."""
        return self.run_status == "complete" and self.end_time < self.until

    @cached_property
    def ends(self) -> NDArray[np.float64]:
        """When each job's last execution ended, or the run did; NaN without an execution, shape (n,)."""
        ends = np.where(self.status["running"], self.end_time, self.jobs["finish_time"])
        return np.where(np.isnan(self.jobs["starting_time"]), np.nan, ends)


def read_batch_run(result: Result, findings: Findings) -> BatchRun | None:
    """Read the tables of a batch run.

    Parameters
    ----------
    result : Result
        The run.
    findings : Findings
        Takes what is wrong with its description, columns and types.

    Returns
    -------
    BatchRun or None
        None if nothing more can be checked.
    """
    info = result.info
    findings.note("description", len(_DESCRIPTION), _description_faults(info))
    tables = read_tables(result, _EXPECTED, findings)
    if not findings.report().ok:
        return None
    num_cores = info["num_cores"]
    texts = {name: table[_TEXTS[name]] for name, table in tables.items()}
    return BatchRun(
        **{name: to_arrays(table.select(*_EXPECTED[name])) for name, table in tables.items()},
        status=masks(tables["jobs"]["status"], _STATUSES),
        requeued=(tables["interruptions"]["outcome"] == "requeued").to_numpy(),
        down=(tables["outages"]["event"] == "down").to_numpy(),
        texts=texts,
        cores={name: read_core_ranges(text, num_cores) for name, text in texts.items()},
        num_cores=num_cores,
        end_time=float(info["end_time"]),
        until=float(planned_end(info)),
        run_status=info["status"],
        kills=info["kill_at_request"],
        rejects=info["too_wide"] == "reject",
        loses=info["on_outage"] == "lose",
    )


def _description_faults(info: Mapping[str, Any]) -> list[str]:
    return kind_faults(info, _DESCRIPTION) or [
        *lowest_faults(info, {"num_cores": 1}),
        *time_faults(info),
        *choice_faults(info, _CHOICES),
    ]
