"""What figures read of results: runs by name, of one problem, and from when to when they are shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, cast, overload

from desim.exceptions import InvalidConfiguration
from desim.plotting.formatting import how_many, shortened
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = [
    "OnePanelARun",
    "Results",
    "Run",
    "Window",
    "chosen_resource",
    "counted_jobs",
    "down_spans",
    "load_runs",
    "one_panel_a_run",
    "resources_of",
    "seconds",
    "span_of",
]

Results = Result | Mapping[str, Result]
"""One result, which is called after its agent, or several by name."""
Window = tuple[float, float] | None
"""The span of time that a figure shows, in seconds or slots; None for the whole runs."""
P = ParamSpec("P")

LONGEST_NAME = 60
#: Columns of tables that say when something happened.
TIMES = ("time", "submission_time", "assignment_time", "starting_time", "finish_time")


@dataclass(frozen=True)
class Run:
    """A result under the name that figures give it.

    Attributes
    ----------
    name : str
        What figures call it.
    result : Result
        Its tables.
    begin, end : float
        From when to when figures show it, in seconds or slots.
    """

    name: str
    result: Result
    begin: float
    end: float

    @property
    def info(self) -> dict[str, Any]:
        """The result's description."""
        return self.result.info

    @property
    def jobs(self) -> pl.DataFrame:
        """The jobs, one row each."""
        return self.table("jobs")

    @property
    def title(self) -> str:
        """The name, shortened, with the status of a run that is not complete."""
        status = self.info.get("status", "complete")
        return shortened(self.name, LONGEST_NAME) + ("" if status == "complete" else f" ({status})")

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of the result."""
        return self.result.table(name)


def seconds(result: Result) -> tuple[float, float]:
    """Return the span of a run in seconds: from 0, or from the first arrival if that comes late, to the end.

    A run that crashed ends with the last time in its records.

    Parameters
    ----------
    result : Result
        The run.
    """
    import polars as pl

    end = result.info.get("end_time")
    if end is None:
        tables = [result.table(name) for name in result.table_names]
        found = [(table, name) for table in tables for name in TIMES if name in table.columns]
        end = max([0.0, *(table.select(pl.col(name).max()).item() or 0.0 for table, name in found)])
    first = result.jobs.select(pl.col("submission_time").min()).item() or 0.0 if "jobs" in result.table_names else 0.0
    return 0.0 if first <= 0.05 * (end - first) else first, float(end)


def load_runs(results: Results, problem: str, span: Callable[[Result], tuple[float, float]] = seconds) -> list[Run]:
    """Name results, or raise InvalidConfiguration unless all are of a problem.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is called after its agent, or several by name.
    problem : str
        Such as ``"batch"``; a result that names no problem counts as one of it.
    span : callable
        Returns from when to when figures show a result.

    Returns
    -------
    list of Run
        In the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If this is no result, an empty mapping, or a result of another problem.
    """
    if isinstance(results, Result):
        results = {str(results.info.get("agent") or "result"): results}
    if not isinstance(results, Mapping):
        raise InvalidConfiguration(f"results is {results!r}, want a Result or a mapping of names to results")
    if not results:
        raise InvalidConfiguration("results is an empty mapping, want at least one result")
    for name, result in results.items():
        if not isinstance(result, Result):
            raise InvalidConfiguration(f"results[{str(name)!r}] is {result!r}, want a Result")
        found = result.info.get("problem", problem)
        if found != problem:
            raise InvalidConfiguration(f"results[{str(name)!r}] is a result of the problem {found!r}, want {problem!r}")
    return [Run(str(name), result, *span(result)) for name, result in results.items()]


def resources_of(run: Run) -> list[str]:
    """Return the names of the resources of a run."""
    return [str(name) for name in run.info["resources"]]


def chosen_resource(runs: Sequence[Run], resource: str | None) -> str:
    """Return a resource, the first one by default, or raise InvalidConfiguration unless all runs have it."""
    name = resources_of(runs[0])[0] if resource is None else resource
    for run in runs:
        if name not in resources_of(run):
            known = ", ".join(map(repr, resources_of(run)))
            raise InvalidConfiguration(f"resource is {name!r}, but results[{run.name!r}] has {known}")
    return name


def counted_jobs(run: Run, size: str, *more: str, unfinished: Sequence[str]) -> str:
    """Count the jobs of a run in words, and those by status that a chart does not show whole."""
    counts = dict(run.jobs["status"].cast(str).value_counts().iter_rows())
    parts = [f"{how_many(len(run.jobs), 'job')} on {size}", *more]
    found = [(words, counts.get(words.split()[-1], 0)) for words in unfinished]
    return ", ".join(parts + [f"{count:,} {words}" for words, count in found if count])


def span_of(runs: Sequence[Run], window: Window, *, whole: bool = False) -> tuple[float, float]:
    """Return from when to when a figure of runs goes.

    Parameters
    ----------
    runs : sequence of Run
        The runs.
    window : (float, float) or None
        What was asked for.
    whole : bool
        Whether it is made of whole slots, of which a part was asked for.

    Returns
    -------
    (float, float)
        Never empty.

    Raises
    ------
    InvalidConfiguration
        If the window is none.
    """
    if window is None:
        begin, end = min(run.begin for run in runs), max(run.end for run in runs)
        return begin, end if end > begin else begin + 1.0
    try:
        begin, end = (float(value) for value in window)
    except (TypeError, ValueError):
        raise InvalidConfiguration(f"window is {window!r}, want a pair (begin, end)") from None
    if not -float("inf") < begin < end < float("inf"):
        raise InvalidConfiguration(f"window is {window!r}, want finite times with begin before end")
    return (max(0.0, math.floor(begin)), float(math.ceil(end))) if whole else (begin, end)


def down_spans(outages: pl.DataFrame, lane: str, end: float) -> pl.DataFrame:
    """Return from when to when executors or cores were down.

    Parameters
    ----------
    outages : polars.DataFrame
        Table with ``time``, ``event`` ("down" or "up"), and who was meant.
    lane : str
        The column that says who.
    end : float
        End of the run, which ends the outages that nobody has repaired.

    Returns
    -------
    polars.DataFrame
        ``lane``, ``begin`` and ``end`` of each.
    """
    import polars as pl

    spans = outages.select("event", lane=lane, begin="time", end=pl.col("time").shift(-1).over(lane))
    return spans.filter(pl.col("event") == "down").select("lane", "begin", pl.col("end").fill_null(end))


class OnePanelARun(Protocol[P]):
    """A figure with one panel a run: the panel for one result, a list of panels for results by name."""

    @overload
    def __call__(self, results: Result, /, *args: P.args, **kwargs: P.kwargs) -> Axes: ...

    @overload
    def __call__(self, results: Mapping[str, Result], /, *args: P.args, **kwargs: P.kwargs) -> list[Axes]: ...


def one_panel_a_run(draw: Callable[Concatenate[Results, P], list[Axes]]) -> OnePanelARun[P]:
    """Let a figure that makes one panel a run return the panel alone if it is given a Result.

    Parameters
    ----------
    draw : callable
        Takes one result or several by name, and returns one panel each.

    Returns
    -------
    callable
        The same, which returns Axes for a Result and a list of them for a mapping.
    """

    @wraps(draw)
    def _drawn(results: Results, /, *args: P.args, **kwargs: P.kwargs) -> Axes | list[Axes]:
        panels = draw(results, *args, **kwargs)
        return panels[0] if isinstance(results, Result) else panels

    return cast("OnePanelARun[P]", _drawn)
