"""What was dropped, changed or noticed while the rows of a trace became virtual machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from desim.workloads._ledger import Ledger
from desim.workloads.report import EXAMPLES

__all__ = ["VmReason", "VmReport"]

Action = Literal["type", "dropped", "changed", "noted"]


class VmReason(Enum):
    """Why a virtual machine was dropped or changed, or what was remarkable about it.

    A dropped one is counted for one reason only, the first that applies in the order of this list; a kept one may be
    counted for several. The first two are about the rows of ``vmType``, not about virtual machines.
    """

    UNUSABLE_TYPE_ROW = ("type", "core or memory of a VM type NULL or no fraction of a machine: row left out")
    REPEATED_TYPE_ROW = ("type", "another row for a VM type and machine type: the largest taken")
    UNKNOWN_START = ("dropped", "start NULL, or more than 10 years before the trace, with unknown_start='drop'")
    UNKNOWN_TYPE = ("dropped", "VM type without a usable row in vmType")
    ENDED_BEFORE_START = ("dropped", "did not end after its start")
    ENDED_BEFORE_WINDOW = ("dropped", "ended before what is read begins")
    ALREADY_ALIVE = ("dropped", "started before what is read, with alive_before='drop'")
    OTHER_PRIORITY = ("dropped", "another priority than that asked for")
    ASSUMED_START = ("changed", "start unknown: taken as the beginning of what is read")
    CLIPPED_START = ("changed", "started before what is read: taken as its beginning")
    ASSUMED_END = ("changed", "end NULL: 90 days after the beginning of the trace taken")
    CLIPPED_END = ("changed", "ended after what is read: taken as its end")
    ZERO_DURATION = ("changed", "duration 0: half of the interval between readings taken")
    CENSORED = ("changed", "still there at the end of the trace, which is taken as its end")
    LATE_END = ("noted", "ended after what is read, kept")

    @property
    def action(self) -> Action:
        """What happened: ``type`` (to a row of ``vmType``), ``dropped``, ``changed`` or ``noted``."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """The reason in words."""
        return self.value[1]


@dataclass
class VmReport(Ledger[VmReason, int]):
    """Counts of the virtual machines that were dropped, changed or remarked on.

    ``rows == vms + dropped`` holds for every finished report.

    Parameters
    ----------
    unit : {"vmId", "line"}
        What a place is: an identifier (of a VM type where the reason is about one), or a line number.
    rows : int
        Virtual machines looked at.
    vms : int
        Those that were kept.
    batches : int
        Batches that they came in; 0 if the trace does not tell them.
    counts : dict of VmReason to int
        Virtual machines, or rows of VM types, for each reason that occurred.
    places : dict of VmReason to list of int
        The first few places for each reason.
    """

    unit: Literal["vmId", "line"] = "vmId"
    rows: int = 0
    vms: int = 0
    batches: int = 0
    counts: dict[VmReason, int] = field(default_factory=dict)
    places: dict[VmReason, list[int]] = field(default_factory=dict)

    def add(self, reason: VmReason, places: Iterable[int]) -> None:
        """Count one for each place.

        Parameters
        ----------
        reason : VmReason
            Why.
        places : iterable of int
            Identifiers or line numbers, in the order in which they were found.
        """
        self.enter(reason, places, EXAMPLES)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON.

        Returns
        -------
        dict
            ``rows``, ``vms``, ``batches``, ``dropped``, ``unit`` and ``reasons``: for each reason that occurred, by its
            name in lower case, ``action``, ``count``, ``places`` and ``meaning``.
        """
        totals = {"rows": self.rows, "vms": self.vms, "batches": self.batches, "dropped": self.dropped}
        return {**totals, "unit": self.unit, "reasons": self.reasons()}

    def __str__(self) -> str:
        """Return a table: one line for each reason that occurred."""
        batches = f" in {self.batches:,} batches" if self.batches else ""
        first = f"{self.rows:,} rows{batches}: {self.vms:,} virtual machines, {self.dropped:,} dropped"
        return self.table(first, f"{self.unit}s")
