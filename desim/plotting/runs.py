"""Input of figures: results of one problem under their names, and the time range to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, cast, overload

from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many, shortened
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = [
    "OnePanelARun",
    "Results",
    "Window",
    "chosen_resource",
    "counted_jobs",
    "down_spans",
    "load_runs",
    "one_panel_a_run",
    "resources_of",
    "span_of",
    "title_of",
]

Results = Result | Mapping[str, Result]
"""One result, which is named after its agent, or several by name."""
Window = tuple[float, float] | None
"""Time range of a figure, in seconds or slots; None for whole runs."""
P = ParamSpec("P")

LONGEST_NAME = 60


def title_of(run: Result) -> str:
    """Return the shortened name of a run, with the status of one that is not complete."""
    status = run.info.get("status", "complete")
    return shortened(run.name, LONGEST_NAME) + ("" if status == "complete" else f" ({status})")


def load_runs(results: Results, problem: str) -> list[Result]:
    """Return results as named runs; raise InvalidConfiguration unless all are of one problem.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is named after its agent, or several by name.
    problem : str
        Name of the problem, such as ``"batch"``; a result without a problem name counts as one of it.

    Returns
    -------
    list of Result
        Results under their names, in the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If the argument is not a result, an empty mapping, or contains a result of another problem.
    """
    runs = {results.name: results} if isinstance(results, Result) else results
    if not isinstance(runs, Mapping):
        raise InvalidConfiguration(f"results: got {results!r}, expected a Result or a mapping of names to results")
    if not runs:
        raise InvalidConfiguration("results: got an empty mapping, expected at least one result")
    for name, result in runs.items():
        if not isinstance(result, Result):
            raise InvalidConfiguration(f"results[{str(name)!r}]: got {result!r}, expected a Result")
        found = result.info.get("problem", problem)
        if found != problem:
            raise InvalidConfiguration(
                f"results[{str(name)!r}]: got a result of problem {found!r}, expected {problem!r}"
            )
    return [result.named(str(name)) for name, result in runs.items()]


def resources_of(run: Result) -> list[str]:
    """Return the names of the resources of a run."""
    return [str(name) for name in run.info["resources"]]


def chosen_resource(runs: Sequence[Result], resource: str | None) -> str:
    """Return a resource, by default the first; raise InvalidConfiguration unless all runs have it."""
    name = resources_of(runs[0])[0] if resource is None else resource
    for run in runs:
        if name not in resources_of(run):
            known = ", ".join(map(repr, resources_of(run)))
            raise InvalidConfiguration(f"resource: got {name!r}, but results[{run.name!r}] has {known}")
    return name


def counted_jobs(run: Result, size: str, *more: str, unfinished: Sequence[str]) -> str:
    """Return the number of jobs of a run in words, with those by status that a chart does not show completely."""
    counts = dict(run.jobs["status"].cast(str).value_counts().iter_rows())
    parts = [f"{how_many(len(run.jobs), 'job')} on {size}", *more]
    found = [(words, counts.get(words.split()[-1], 0)) for words in unfinished]
    return ", ".join(parts + [f"{count:,} {words}" for words, count in found if count])


def span_of(
    runs: Sequence[Result],
    window: Window,
    *,
    whole: bool = False,
    span: Callable[[Result], tuple[float, float]] = attrgetter("span"),
) -> tuple[float, float]:
    """Return the time range of a figure of several runs.

    Parameters
    ----------
    runs : sequence of Result
        The runs.
    window : (float, float) or None
        Requested time range.
    whole : bool
        Whether to extend a requested range to whole slots.
    span : callable
        Returns the time range of a run; default: that of its records.

    Returns
    -------
    (float, float)
        Start and end; never an empty range.

    Raises
    ------
    InvalidConfiguration
        If the window is not a valid time range.
    """
    if window is None:
        begins, ends = zip(*map(span, runs), strict=True)
        begin, end = min(begins), max(ends)
        return begin, end if end > begin else begin + 1.0
    try:
        begin, end = (float(value) for value in window)
    except (TypeError, ValueError):
        raise InvalidConfiguration(f"window: got {window!r}, expected a pair (begin, end)") from None
    if not -float("inf") < begin < end < float("inf"):
        raise InvalidConfiguration(f"window: got {window!r}, expected finite times with begin before end")
    return (max(0.0, math.floor(begin)), float(math.ceil(end))) if whole else (begin, end)


def down_spans(outages: pl.DataFrame, lane: str, end: float) -> pl.DataFrame:
    """Return the time spans in which executors or cores were down.

    Parameters
    ----------
    outages : polars.DataFrame
        Table with ``time``, ``event`` ("down" or "up"), and the affected executor or core.
    lane : str
        Column that names the executor or core.
    end : float
        End of the run, which also ends outages without a repair.

    Returns
    -------
    polars.DataFrame
        ``lane``, ``begin`` and ``end`` of each span.
    """
    import polars as pl

    spans = outages.select("event", lane=lane, begin="time", end=pl.col("time").shift(-1).over(lane))
    return spans.filter(pl.col("event") == "down").select("lane", "begin", pl.col("end").fill_null(end))


class OnePanelARun(Protocol[P]):
    """Figure with one panel per run: returns one panel for a result, a list of panels for a mapping of results."""

    @overload
    def __call__(self, results: Result, /, *args: P.args, **kwargs: P.kwargs) -> Axes: ...

    @overload
    def __call__(self, results: Mapping[str, Result], /, *args: P.args, **kwargs: P.kwargs) -> list[Axes]: ...


def one_panel_a_run(draw: Callable[Concatenate[Results, P], list[Axes]]) -> OnePanelARun[P]:
    """Decorate a figure that returns one panel per run, so that it returns a single panel for a Result.

    Parameters
    ----------
    draw : callable
        Takes one result or several by name, and returns a list of panels.

    Returns
    -------
    callable
        Function that returns Axes for a Result and a list of Axes for a mapping.
    """

    @wraps(draw)
    def _drawn(results: Results, /, *args: P.args, **kwargs: P.kwargs) -> Axes | list[Axes]:
        panels = draw(results, *args, **kwargs)
        return panels[0] if isinstance(results, Result) else panels

    return cast("OnePanelARun[P]", _drawn)
