"""What the figures of DAG runs need of a result: its copies, executors, outages and time span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting._dag_ids import rows_of_jobs
from desim.plotting._dag_series import dag_step_curves, down_spans
from desim.plotting._named_results import named_results, title_of
from desim.plotting._spans import begin_of, end_of
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DagRun", "load_dag_runs"]


@dataclass(frozen=True)
class DagRun:
    """One result of a cluster of executors.

    Attributes
    ----------
    name : str
        What the figures call it.
    result : Result
        Its tables.
    copies : polars.DataFrame
        The copies that have started, by record, with ``row`` (their place in the table of all copies), the
        ``submission_time`` of their job and, for those that still run, the end of the run as ``finish_time``.
    begin, end : float
        The span that a figure shows, in seconds: from 0, or from the first submission if that comes late, to the end
        of the run.
    """

    name: str
    result: Result
    copies: pl.DataFrame
    begin: float
    end: float

    @property
    def info(self) -> dict[str, Any]:
        """The result's description."""
        return self.result.info

    @property
    def jobs(self) -> pl.DataFrame:
        """The jobs, one row each."""
        return self.result.jobs

    @property
    def title(self) -> str:
        """The name, shortened, with the status of a run that is not complete."""
        return title_of(self.name, self.info)

    @property
    def size(self) -> int:
        """Number of executors."""
        return int(self.info["num_executors"])

    @property
    def starts(self) -> pl.Series:
        """When copies started, in seconds."""
        return self.copies["starting_time"]

    @cached_property
    def down(self) -> NDArray[np.float64]:
        """When executors were down: executor, begin and end (s), of shape (n, 3)."""
        return down_spans(self.result.table("outages"), self.end)

    def steps(self) -> pl.DataFrame:
        """Return what changes over the run, see :func:`desim.plotting._dag_series.dag_step_curves`."""
        return dag_step_curves(self.jobs, self.copies, self.down, self.size, self.end)


def load_dag_runs(results: Result | Mapping[str, Result]) -> list[DagRun]:
    """Read the copies of one result or of several.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is called after its agent, or several by name.

    Returns
    -------
    list of DagRun
        In the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If this is no result, an empty mapping, or a result of another problem than ``dag``.
    """
    return [_load(name, result) for name, result in named_results(results, "dag", "copies").items()]


def _load(name: str, result: Result) -> DagRun:
    import polars as pl

    jobs, copies = result.jobs, result.table("copies")
    end = end_of(result.info, jobs, copies, result.table("outages"))
    submissions = jobs["submission_time"].gather(rows_of_jobs(jobs, copies, "assignment_time"))
    started = (
        copies.with_row_index("row")
        .with_columns(pl.col("finish_time").fill_null(end), submissions.fill_null(0.0).alias("submission_time"))
        .filter(pl.col("starting_time").is_not_null())
    )
    return DagRun(name, result, started, begin_of(jobs, end), end)
