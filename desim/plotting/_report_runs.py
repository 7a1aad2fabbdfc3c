"""What a report needs of a result of any problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

from desim.plotting._named_results import named_results
from desim.plotting._presentations import Presentation
from desim.plotting._spans import end_of
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ReportedRun", "load_reported", "workload_tables"]


@dataclass(frozen=True)
class ReportedRun:
    """One result.

    Attributes
    ----------
    name : str
        What the report calls it.
    result : Result
        Its tables and description.
    presentation : Presentation
        What is known of its problem.
    """

    name: str
    result: Result
    presentation: Presentation

    @property
    def info(self) -> dict[str, Any]:
        """The result's description."""
        return self.result.info

    @cached_property
    def end(self) -> float:
        """When it ended; of a run that crashed, the last time in its records."""
        return end_of(self.info, *(self.result.table(name) for name in self.result.table_names))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Jobs by what had become of them."""
        if not self.presentation.statuses:
            return {}
        return dict(self.result.jobs["status"].cast(str).value_counts().iter_rows())

    @property
    def left(self) -> str:
        """The jobs that metrics do not cover, in words; empty if there are none."""
        return ", ".join(
            f"{self.counts[status]:,} {status}" for status in self.presentation.left_behind if self.counts.get(status)
        )


def load_reported(results: Result | Mapping[str, Result], presentation: Presentation) -> list[ReportedRun]:
    """Return one result or several, or raise InvalidConfiguration unless all are of the problem."""
    table = "jobs" if presentation.statuses else None
    default = "batch" if presentation.problem == "batch" else None
    named = named_results(results, presentation.problem, table, default=default)
    return [ReportedRun(name, result, presentation) for name, result in named.items()]


def workload_tables(result: Result, presentation: Presentation) -> dict[str, pl.DataFrame]:
    """Return what runs of the same workload have in common, whatever their agents did."""
    tables = {}
    for name, patterns in presentation.same_workload.items():
        columns = result.scan(name).collect_schema().names()
        chosen = [column for column in columns if any(fnmatchcase(column, pattern) for pattern in patterns)]
        tables[name] = result.scan(name).select(chosen).collect()
    return tables
