"""Content of an interactive page about a run, as arrays: rectangles in rows, curves over time, maps.

The view of a problem is a function in its package that takes a :class:`desim.Result` and returns a
:class:`View`; the kind of problem names it. Problems without one use :func:`plain_view`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.plotting.curves import add_up, bin_averages
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "LOOKS",
    "Arrows",
    "Curve",
    "DrawnLater",
    "Lanes",
    "Map",
    "View",
    "averages",
    "free_rows",
    "joined",
    "lanes_of",
    "plain_view",
]

#: Types of rectangles; those from "down" on belong to no job or are drawn behind the others.
LOOKS = ("runs", "cut", "duplicate", "critical", "down", "waiting", "window", "expired", "lead_time")

#: Columns of job tables that are of little interest to readers.
HIDDEN = ("success", "arrival_number", "stretch", "allocated_resources")


@dataclass(frozen=True, eq=False)
class Arrows:
    """Transfers between rows, drawn as n arrows.

    Attributes
    ----------
    begin, end : array of shape (n,)
        Start and end of each transfer.
    source, destination : array of shape (n,)
        Source and destination rows.
    critical : array of bool, shape (n,)
        Whether the transfer is on the critical path, which determined the end of the run.
    """

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    critical: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Lanes:
    """Rectangles in rows over time, n of them, sorted by begin.

    Attributes
    ----------
    label : str
        What the rows are, in the plural.
    rows : int or sequence of str
        Number of rows, or their names.
    begin, end : array of shape (n,)
        Start and end, in seconds or slots.
    first, last : array of shape (n,)
        First and last row of each rectangle.
    owner : array of shape (n,)
        Arrival number of the job, -1 for none.
    look : array of shape (n,)
        Types of the rectangles, as positions in :data:`LOOKS`.
    texts : sequence of str
        Additional labels besides the jobs; empty for none.
    arrows : Arrows or None
        Transfers between rows.
    groups : mapping of str to int
        First row of each group of rows, such as the cores of a node, in order; empty if there are no groups.
    """

    label: str
    rows: int | Sequence[str]
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    owner: NDArray[np.int64]
    look: NDArray[np.uint8]
    texts: Sequence[str] = ()
    arrows: Arrows | None = None
    groups: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Curve:
    """Step function of time: each value holds until the next time.

    Attributes
    ----------
    label : str
        Label with the unit.
    time, value : array of shape (n,)
        Times and values of the steps.
    bound : array of shape (n,) or None
        Values to compare with at the same times, such as a capacity.
    bound_label : str
        Label of the bound.
    least, most : float
        Ends of the range of possible values; infinite if unknown. The axis ends above ``most``.
    """

    label: str
    time: NDArray[np.float64]
    value: NDArray[np.float64]
    bound: NDArray[np.float64] | None = None
    bound_label: str = ""
    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True, eq=False)
class Map:
    """Shares between 0 and 1, by row and slot.

    Attributes
    ----------
    label : str
        What the rows are, in the plural.
    rows : sequence of str
        Names of the rows.
    edges : array of shape (m + 1,)
        Edges of the slots, or of bins of slots.
    values : array of shape (rows, m)
        Shares; NaN if undefined.
    things : int or None
        Number of things that the rows stand for, if a row stands for several; None for one each.
    """

    label: str
    rows: Sequence[str]
    edges: NDArray[np.float64]
    values: NDArray[np.float64]
    things: int | None = None


@dataclass(frozen=True, eq=False)
class View:
    """Content of a page about a run.

    Attributes
    ----------
    charts : mapping of str to Lanes or Map
        Charts by name; charts of several runs with the same name are shown side by side.
    curves : mapping of str to Curve
        Curves by name; curves of several runs with the same name share a panel.
    jobs : polars.DataFrame
        One row per job, identified by ``arrival_number``.
    cards : sequence of str
        Columns shown on a job's card.
    spread : str
        Column whose distribution is shown; empty for none.
    colors : sequence of str
        Columns of the cards that rectangles can be coloured by.
    note : str
        What the reader must know about the charts, such as what they average; empty for nothing.
    measured : tuple of float or None
        Begin and end of the time whose jobs count in metrics, for a run on a window of a log; None for the whole run.
    """

    charts: Mapping[str, Lanes | Map]
    curves: Mapping[str, Curve]
    jobs: pl.DataFrame
    cards: Sequence[str] = ()
    spread: str = ""
    colors: Sequence[str] = field(default=())
    note: str = ""
    measured: tuple[float, float] | None = None

    def spread_values(self) -> NDArray[np.float64]:
        """Return the finite values of the column whose distribution is shown, of the jobs that count in metrics."""
        jobs = self.jobs
        if self.measured is not None:
            jobs = jobs.filter(jobs["submission_time"].is_between(*self.measured, closed="left"))
        values = jobs[self.spread].drop_nulls().to_numpy().astype(np.float64)
        found: NDArray[np.float64] = values[np.isfinite(values)]
        return found


class DrawnLater(Mapping[str, Lanes | Map]):
    """Charts by name that are made on first use: figures over many runs need only the curves.

    Parameters
    ----------
    draw : callable
        Returns the charts by name; called once at most.
    """

    def __init__(self, draw: Callable[[], Mapping[str, Lanes | Map]]) -> None:
        self._charts = cache(draw)

    def __getitem__(self, name: str) -> Lanes | Map:
        """Return a chart."""
        return self._charts()[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._charts())

    def __len__(self) -> int:
        """Return the number of charts."""
        return len(self._charts())


def lanes_of(label: str, rows: int | Sequence[str], parts: Sequence[Mapping[str, Any]], **more: Any) -> Lanes:
    """Return the rectangles of several parts, sorted by begin; for equal begins, those drawn behind come first.

    Parameters
    ----------
    label : str
        What the rows are.
    rows : int or sequence of str
        Number of rows, or their names.
    parts : sequence of mapping
        Parts, each with arrays ``begin``, ``end``, ``first`` and, unless the defaults apply, ``last`` (the first),
        ``owner`` (-1), ``look`` (a name in :data:`LOOKS`, or an array of positions in it), ``texts``.
    **more
        Values of ``arrows`` and ``groups``.

    Returns
    -------
    Lanes
        Rectangles of all parts.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("begin", "end", "first", "last", "owner", "look", "texts")}
    for part in parts:
        count = len(part["begin"])
        look = part.get("look", "runs")
        full = {
            "begin": part["begin"],
            "end": part["end"],
            "first": part["first"],
            "last": part.get("last", part["first"]),
            "owner": part.get("owner", np.full(count, -1)),
            "look": np.full(count, LOOKS.index(look)) if isinstance(look, str) else look,
            "texts": part.get("texts") or [""] * count,
        }
        for name, values in full.items():
            columns[name].append(np.asarray(values, dtype=object if name == "texts" else None))
    found = {name: np.concatenate(values) if values else np.zeros(0) for name, values in columns.items()}
    order = np.lexsort((-found["look"].astype(np.int64), found["begin"].astype(np.float64)))
    texts = found["texts"][order].tolist()
    return Lanes(
        label,
        rows,
        begin=found["begin"][order].astype(np.float64),
        end=found["end"][order].astype(np.float64),
        first=found["first"][order].astype(np.int64),
        last=found["last"][order].astype(np.int64),
        owner=found["owner"][order].astype(np.int64),
        look=found["look"][order].astype(np.uint8),
        texts=texts if any(texts) else (),
        **more,
    )


def free_rows(begin: ArrayLike, end: ArrayLike) -> NDArray[np.int64]:
    """Return for each interval the lowest row that is free at its begin, so that intervals in a row do not overlap.

    Parameters
    ----------
    begin, end : array_like of shape (n,)
        Start and end of the intervals.

    Returns
    -------
    array of shape (n,)
        Rows from 0; their number is the maximum number of simultaneous intervals.
    """
    starts, ends = np.asarray(begin, dtype=np.float64), np.asarray(end, dtype=np.float64)
    rows = np.zeros(len(starts), dtype=np.int64)
    taken: list[tuple[float, int]] = []  # end of the interval in each taken row
    free: list[int] = []
    for place in np.lexsort((ends, starts)).tolist():
        while taken and taken[0][0] <= starts[place]:
            heappush(free, heappop(taken)[1])
        rows[place] = heappop(free) if free else len(taken)
        heappush(taken, (float(ends[place]), int(rows[place])))
    return rows


def joined(steps: pl.DataFrame, name: str, label: str, **more: Any) -> Curve:
    """Return a column of step functions as a curve, without steps at which it does not change.

    Parameters
    ----------
    steps : polars.DataFrame
        Frame of ``time`` and values, as :func:`desim.plotting.curves.add_up` returns it.
    name : str
        Name of the column.
    label : str
        Label of the curve.
    **more
        Other fields of :class:`Curve`.

    Returns
    -------
    Curve
        Curve of the column.
    """
    time, value = steps["time"].to_numpy().astype(np.float64), steps[name].to_numpy().astype(np.float64)
    bound: ArrayLike | None = more.pop("bound", None)
    bounds = None if bound is None else np.asarray(bound, dtype=np.float64)
    kept = np.ones(len(time), dtype=np.bool_)
    for values in (value,) if bounds is None else (value, bounds):
        kept[1:-1] &= values[1:-1] == values[:-2]
    kept[1:-1] = ~kept[1:-1]
    return Curve(label, time[kept], value[kept], None if bounds is None else bounds[kept], **more)


def averages(curves: Mapping[str, Curve], edges: ArrayLike) -> pl.DataFrame:
    """Return the curves of a view as means over bins.

    Parameters
    ----------
    curves : mapping of str to Curve
        Curves by name.
    edges : array_like of shape (n + 1,)
        Edges of the bins, ascending.

    Returns
    -------
    polars.DataFrame
        n rows: ``time``, the beginning of the bin, and a column per curve.
    """
    import polars as pl

    found = [pl.Series("time", np.asarray(edges, dtype=np.float64)[:-1])]
    for name, curve in curves.items():
        steps = pl.DataFrame({"time": curve.time, name: curve.value})
        found.append(bin_averages(steps, edges)[name])
    return pl.DataFrame(found)


def plain_view(run: Result) -> View:
    """Return a view of any run that has a job table with submission, start and end times.

    Parameters
    ----------
    run : Result
        The run.

    Returns
    -------
    View
        Jobs in rows, each in one that was free at its submission, and the numbers of queued and running jobs; an empty
        view without such a table.
    """
    import polars as pl

    times = ("submission_time", "starting_time", "finish_time")
    there = "jobs" in run.table_names
    if not there or not set(times) <= set(run.jobs.columns):
        return View({}, {}, run.jobs if there else pl.DataFrame())
    jobs = run.jobs.with_row_index("place")
    if "arrival_number" not in jobs.columns:
        jobs = jobs.with_columns(arrival_number=pl.col("place"))
    if "waiting_time" not in jobs.columns:
        jobs = jobs.with_columns(waiting_time=pl.col("starting_time") - pl.col("submission_time"))
    leave = jobs.select(pl.max_horizontal(pl.col("finish_time").fill_null(run.span[1]), "submission_time")).to_series()
    jobs = jobs.with_columns(place=pl.Series(free_rows(jobs["submission_time"], leave)))
    ran = jobs.drop_nulls("starting_time").with_columns(pl.col("finish_time").fill_null(run.span[1]))
    waits = jobs.with_columns(until=pl.col("starting_time").fill_null(run.span[1]))
    waits = waits.filter(pl.col("until") > pl.col("submission_time"))
    parts = [
        {"begin": waits["submission_time"], "end": waits["until"], "look": "waiting"} | _whose(waits),
        {"begin": ran["starting_time"], "end": ran["finish_time"]} | _whose(ran),
    ]
    one = pl.lit(1, pl.Int64)
    changes = [
        pl.DataFrame({"time": [0.0, run.span[1]]}),
        jobs.select(time="submission_time", waiting=one),
        ran.select(time="starting_time", waiting=-one, running=one),
        ran.select(time="finish_time", running=-one),
    ]
    steps = add_up([part.with_columns(pl.col("time").cast(pl.Float64)) for part in changes])
    curves = {name: joined(steps, name, f"jobs {name}", least=0.0) for name in ("running", "waiting")}
    cards = [name for name, dtype in run.jobs.schema.items() if name not in HIDDEN and not dtype.is_nested()]
    colors = [name for name in ("waiting_time", "status") if name in jobs.columns]
    cards += [name for name in colors if name not in cards]
    rows = int(jobs["place"].to_numpy().max(initial=-1)) + 1
    return View({"jobs": lanes_of("rows", rows, parts)}, curves, jobs, cards, "waiting_time", colors)


def _whose(jobs: pl.DataFrame) -> dict[str, Any]:
    return {"first": jobs["place"], "owner": jobs["arrival_number"]}
