"""What a reader dropped, changed or noticed while it turned a file into jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from desim.workloads._ledger import Ledger

__all__ = ["Reason", "RepairReport"]

Action = Literal["dropped", "changed", "noted"]

#: How many places (lines of the file) are remembered for each reason.
EXAMPLES = 5


class Reason(Enum):
    """Why a row was dropped or changed, or what was remarkable about it.

    Attributes
    ----------
    action : {"dropped", "changed", "noted"}
        What happened to the row. A dropped row is counted for one reason only, the first that
        applies in the order of this list; a kept row may be counted for several.
    meaning : str
        The reason in words.
    """

    def __init__(self, action: Action, meaning: str) -> None:
        self.action: Action = action
        self.meaning = meaning

    PARTIAL_EXECUTION = ("dropped", "status 2, 3 or 4: a part of a job that has a row of its own")
    CANCELLED = ("dropped", "status 5 without run time or cores: cancelled before it ran")
    NEGATIVE_SUBMIT = ("dropped", "submit time negative or unknown")
    UNKNOWN_CORES = ("dropped", "neither requested nor allocated processors known")
    UNKNOWN_RUN_TIME = ("dropped", "run time negative or unknown")
    ZERO_RUN_TIME_DROPPED = ("dropped", "run time 0, with zero_run_time='drop'")
    TOO_WIDE = ("dropped", "more cores than max_cores")
    FILTERED = ("dropped", "excluded by the filters that the caller asked for")
    ASSUMED_CORES = ("changed", "requested processors unknown: allocated processors taken")
    ASSUMED_REQUESTED_TIME = ("changed", "requested time unknown: run time taken")
    RENUMBERED = ("changed", "job number used before: largest number so far + 1 taken")
    UNREADABLE_ID = ("changed", "job ids without distinct trailing integers: numbered from 0")
    OUT_OF_ORDER = ("changed", "submitted before an earlier row: sorted by submit time")
    ZERO_RUN_TIME = ("noted", "run time 0, kept")
    OVERRUN = ("noted", "ran longer than requested, kept")
    WIDER_THAN_MAX = ("noted", "more cores than max_cores, kept")


@dataclass
class RepairReport(Ledger[Reason, int]):
    """Counts of the rows that a reader dropped, changed or remarked on.

    ``rows == jobs + dropped`` holds for every finished report. A streaming reader fills its
    report block by block, so that it is ahead of the jobs that have been handed out.

    Parameters
    ----------
    unit : {"line", "position"}
        What a place is: a line number of a text file, from 1, or a position in the list of jobs of
        a JSON file, from 0.
    rows : int
        Rows looked at; comments and blank lines are no rows.
    jobs : int
        Rows that became jobs.
    counts : dict of Reason to int
        Rows for each reason that occurred.
    places : dict of Reason to list of int
        The first few places for each reason.
    """

    unit: Literal["line", "position"] = "line"
    rows: int = 0
    jobs: int = 0
    counts: dict[Reason, int] = field(default_factory=dict)
    places: dict[Reason, list[int]] = field(default_factory=dict)

    def add(self, reason: Reason, places: Iterable[int]) -> None:
        """Count one row for each place.

        Parameters
        ----------
        reason : Reason
            Why.
        places : iterable of int
            The places of the rows, in the order of the file.
        """
        self.enter(reason, map(int, places), EXAMPLES)

    def locate(self, place: int) -> str:
        """Return a place in words.

        Parameters
        ----------
        place : int
            For example 7.

        Returns
        -------
        str
            ``line 7`` or ``jobs[7]``.
        """
        return f"line {place}" if self.unit == "line" else f"jobs[{place}]"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON.

        Returns
        -------
        dict
            ``rows``, ``jobs``, ``dropped``, ``unit`` and ``reasons``: for each reason that occurred,
            by its name in lower case, ``action``, ``count``, ``places`` and ``meaning``.
        """
        return {
            "rows": self.rows,
            "jobs": self.jobs,
            "dropped": self.dropped,
            "unit": self.unit,
            "reasons": self.reasons(),
        }

    def __str__(self) -> str:
        """Return a table: one line for each reason that occurred."""
        return self.table(f"{self.rows:,} rows: {self.jobs:,} jobs, {self.dropped:,} dropped", f"{self.unit}s")
