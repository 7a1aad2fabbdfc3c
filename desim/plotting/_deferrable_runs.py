"""What the figures of deferrable jobs need of a result: its slots, its jobs, what ran when, and its time span."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from desim.exceptions import InvalidConfiguration
from desim.plotting._deferrable_series import executions
from desim.plotting._named_results import named_results
from desim.plotting._slot_runs import SlotRun
from desim.plotting._spans import end_of
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DeferrableRun", "load_deferrable_runs"]


@dataclass(frozen=True)
class DeferrableRun(SlotRun):
    """One result of a cluster for deferrable jobs; its ``end`` is that of the last slot that it has recorded.

    Attributes
    ----------
    until : float
        When the slot ends in which the run ended; that is ``end`` unless it crashed and slots are missing.
    """

    until: float

    @cached_property
    def executions(self) -> pl.DataFrame:
        """What ran when, see :func:`desim.plotting._deferrable_series.executions`."""
        return executions(self.result.jobs, self.result.table("evictions"), self.until)

    @property
    def work_unit(self) -> str:
        """The unit of work, after the first resource."""
        first = self.resources[0]
        return "core-slots" if first == "cores" else f"{first} x slots"

    def place(self, resource: str) -> int:
        """Return which of the run's resources this is.

        Raises
        ------
        InvalidConfiguration
            If it is none of them.
        """
        if resource not in self.resources:
            known = ", ".join(map(repr, self.resources))
            raise InvalidConfiguration(f"resource is {resource!r}, but results[{self.name!r}] has {known}")
        return self.resources.index(resource)


def load_deferrable_runs(results: Result | Mapping[str, Result]) -> list[DeferrableRun]:
    """Read the slots of one result or of several.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is called after its agent, or several by name.

    Returns
    -------
    list of DeferrableRun
        In the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If this is no result, an empty mapping, or a result of another problem than ``deferrable``.
    """
    return [_load(name, result) for name, result in named_results(results, "deferrable", "slots").items()]


def _load(name: str, result: Result) -> DeferrableRun:
    slots = result.table("slots")
    end = float(len(slots))
    return DeferrableRun(name, result, slots, end, max(end, math.ceil(end_of(result.info, result.jobs))))
