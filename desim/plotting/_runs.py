"""What the figures need of a result: its tables, its size and its time span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from desim.exceptions import InvalidConfiguration
from desim.plotting._named_results import named_results, title_of
from desim.plotting._series import step_curves
from desim.plotting._spans import begin_of, end_of
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Run", "Timed", "check_window", "common_span", "load_runs", "num_cores"]

#: Columns of the job table that every figure needs.
BASIC_COLUMNS = (
    "job_id",
    "submission_time",
    "requested_number_of_resources",
    "starting_time",
    "finish_time",
    "status",
)


@dataclass(frozen=True)
class Run:
    """One result, read.

    Attributes
    ----------
    name : str
        What the figures call it.
    info : dict
        The result's description.
    jobs, interruptions, outages : polars.DataFrame
        Its tables; of the jobs, only the columns that were asked for.
    num_cores : int
        Cores of the cluster.
    begin, end : float
        The span that a figure shows, in seconds: from 0, or from the first submission if that
        comes late, to the end of the run.
    """

    name: str
    info: dict[str, Any]
    jobs: pl.DataFrame
    interruptions: pl.DataFrame
    outages: pl.DataFrame
    num_cores: int
    begin: float
    end: float

    @property
    def title(self) -> str:
        """The name, shortened, with the status of a run that is not complete."""
        return title_of(self.name, self.info)

    @property
    def size(self) -> int:
        """Number of cores."""
        return self.num_cores

    @property
    def starts(self) -> pl.Series:
        """When jobs started, in seconds."""
        return self.jobs["starting_time"]

    def steps(self) -> pl.DataFrame:
        """Return what changes over the run, see :func:`desim.plotting._series.step_curves`."""
        return step_curves(self.jobs, self.interruptions, self.outages, num_cores=self.num_cores, end_time=self.end)


class Timed(Protocol):
    """A run of any problem whose figures have a time axis in seconds."""

    @property
    def name(self) -> str:
        """What the figures call it."""

    @property
    def title(self) -> str:
        """The name, shortened, with the status of a run that is not complete."""

    @property
    def begin(self) -> float:
        """From when on a figure shows it, in seconds."""

    @property
    def end(self) -> float:
        """The end of the run, in seconds."""

    @property
    def size(self) -> int:
        """How much can be in use at the same time."""

    @property
    def starts(self) -> pl.Series:
        """When something started, in seconds."""

    def steps(self) -> pl.DataFrame:
        """Return what changes over the run as step functions of ``time``."""


def load_runs(results: Result | Mapping[str, Result], columns: Iterable[str] = ()) -> list[Run]:
    """Read what figures need of one result or of several.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is called after its agent, or several by name.
    columns : iterable of str
        Columns of the job table besides the basic ones.

    Returns
    -------
    list of Run
        In the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If this is no result, an empty mapping, or a result of another problem than ``batch``.
    """
    named = named_results(results, "batch", "jobs", default="batch")
    wanted = list(dict.fromkeys((*BASIC_COLUMNS, *columns)))
    return [_load(name, result, wanted) for name, result in named.items()]


def _load(name: str, result: Result, columns: list[str]) -> Run:
    jobs = result.scan("jobs").select(columns).collect()
    interruptions, outages = result.table("interruptions"), result.table("outages")
    end = end_of(result.info, jobs, interruptions, outages)
    return Run(name, result.info, jobs, interruptions, outages, num_cores(result), begin_of(jobs, end), end)


def num_cores(result: Result) -> int:
    """Return the size of the cluster; of a run that crashed, what the highest core id tells."""
    if result.info.get("num_cores") is not None:
        return int(result.info["num_cores"])
    from desim.problems.batch import parse_core_sets

    used = result.scan("jobs").select("allocated_resources").collect()["allocated_resources"]
    return 1 + int(parse_core_sets(used)["last"].max() or 0)  # type: ignore[arg-type]


def check_window(window: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the window of time, in seconds, or raise InvalidConfiguration unless it has a length."""
    if window is None:
        return None
    try:
        begin, end = (float(value) for value in window)
    except (TypeError, ValueError):
        raise InvalidConfiguration(f"window is {window!r}, want a pair (begin, end) in seconds") from None
    if not (begin < end and abs(begin) < float("inf") and end < float("inf")):
        raise InvalidConfiguration(f"window is {window!r}, want finite times with begin before end")
    return begin, end


def common_span(runs: Sequence[Timed], window: tuple[float, float] | None) -> tuple[float, float]:
    """Return the span of time that figures of these runs show, in seconds; never empty."""
    if window is not None:
        return window
    begin, end = min(run.begin for run in runs), max(run.end for run in runs)
    return begin, end if end > begin else begin + 1.0
