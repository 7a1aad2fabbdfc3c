"""What an interactive page shows of a run, as arrays: rectangles in rows, curves over time, maps; no figure is made.

The view of a problem stands in its subpackage, as a function that takes a :class:`desim.plotting.runs.Run` and returns
a :class:`View`; its kind names it. Problems without one have :func:`plain_view`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.plotting.curves import add_up
from desim.plotting.runs import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LOOKS", "Arrows", "Curve", "Lanes", "Map", "View", "free_rows", "joined", "lanes_of", "plain_view"]

#: What a rectangle can stand for; those from "down" on belong to no job or lie behind the others.
LOOKS = ("runs", "cut", "duplicate", "critical", "down", "waiting", "window", "expired", "lead_time")

#: Columns that every table of jobs shares with few readers.
HIDDEN = ("success", "arrival_number", "stretch", "allocated_resources")


@dataclass(frozen=True, eq=False)
class Arrows:
    """What moved from a row to another: n arrows.

    Attributes
    ----------
    begin, end : array of shape (n,)
        When it set out and when it was there.
    source, destination : array of shape (n,)
        The rows.
    critical : array of bool, shape (n,)
        Which determined when the run was over.
    """

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    critical: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Lanes:
    """Rectangles in rows over time, n of them, by begin.

    Attributes
    ----------
    label : str
        What the rows are, in the plural.
    rows : int or sequence of str
        How many there are, or what they are called.
    begin, end : array of shape (n,)
        From when to when, in seconds or slots.
    first, last : array of shape (n,)
        The rows from the first to the last.
    owner : array of shape (n,)
        The arrival number of the job, -1 for none.
    look : array of shape (n,)
        What they stand for, as places in :data:`LOOKS`.
    texts : sequence of str
        What they are called besides their jobs; empty if that says all.
    arrows : Arrows or None
        What moved between rows.
    groups : mapping of str to int
        The first row of each group of rows, such as the nodes of cores, in their order; empty if there are none.
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
    """A step function of time: a value holds from its time to the next one's.

    Attributes
    ----------
    label : str
        What it is, with its unit.
    time, value : array of shape (n,)
        The steps.
    bound : array of shape (n,) or None
        What it is compared with at the same times, such as a capacity.
    bound_label : str
        What that is.
    top : float or None
        Where its axis ends; by default where the values do.
    """

    label: str
    time: NDArray[np.float64]
    value: NDArray[np.float64]
    bound: NDArray[np.float64] | None = None
    bound_label: str = ""
    top: float | None = None


@dataclass(frozen=True, eq=False)
class Map:
    """Shares between 0 and 1 of rows in slots.

    Attributes
    ----------
    label : str
        What the rows are, in the plural.
    rows : sequence of str
        What each is called.
    edges : array of shape (m + 1,)
        Where the slots, or bins of them, begin and end.
    values : array of shape (rows, m)
        The shares; NaN where there are none.
    """

    label: str
    rows: Sequence[str]
    edges: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class View:
    """What a page shows of a run.

    Attributes
    ----------
    charts : mapping of str to Lanes or Map
        By name; charts of the same name of several runs stand side by side.
    curves : mapping of str to Curve
        By name; curves of the same name of several runs share a panel.
    jobs : polars.DataFrame
        One row a job; ``arrival_number`` says which.
    cards : sequence of str
        The columns that a job's card shows.
    spread : str
        The column whose distribution is shown; empty for none.
    colors : sequence of str
        Columns of the cards by which rectangles can be coloured.
    """

    charts: Mapping[str, Lanes | Map]
    curves: Mapping[str, Curve]
    jobs: pl.DataFrame
    cards: Sequence[str] = ()
    spread: str = ""
    colors: Sequence[str] = field(default=())


def lanes_of(label: str, rows: int | Sequence[str], parts: Sequence[Mapping[str, Any]], **more: Any) -> Lanes:
    """Return the rectangles of several parts, by begin; of equal begin those stand first that lie behind.

    Parameters
    ----------
    label : str
        What the rows are.
    rows : int or sequence of str
        How many, or their names.
    parts : sequence of mapping
        Each with arrays ``begin``, ``end``, ``first``, and, where they are not the defaults, ``last`` (the first),
        ``owner`` (-1), ``look`` (a name of :data:`LOOKS` or an array of places in it), ``texts``.
    **more
        ``arrows`` and ``groups``.

    Returns
    -------
    Lanes
        All of them.
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
    """Return for each interval the lowest row that is free when it begins, so that none covers another.

    Parameters
    ----------
    begin, end : array_like of shape (n,)
        The intervals.

    Returns
    -------
    array of shape (n,)
        Rows from 0 on; as many as there are intervals at once, at most.
    """
    starts, ends = np.asarray(begin, dtype=np.float64), np.asarray(end, dtype=np.float64)
    rows = np.zeros(len(starts), dtype=np.int64)
    taken: list[tuple[float, int]] = []  # until when which row is taken
    free: list[int] = []
    for place in np.lexsort((ends, starts)).tolist():
        while taken and taken[0][0] <= starts[place]:
            heappush(free, heappop(taken)[1])
        rows[place] = heappop(free) if free else len(taken)
        heappush(taken, (float(ends[place]), int(rows[place])))
    return rows


def joined(steps: pl.DataFrame, name: str, label: str, **more: Any) -> Curve:
    """Return a column of step functions as a curve, without the steps at which it stays the same.

    Parameters
    ----------
    steps : polars.DataFrame
        ``time`` and the values, as :func:`desim.plotting.curves.add_up` returns them.
    name : str
        The column.
    label : str
        What it is.
    **more
        As for :class:`Curve`.

    Returns
    -------
    Curve
        The column.
    """
    time, value = steps["time"].to_numpy().astype(np.float64), steps[name].to_numpy().astype(np.float64)
    bound: ArrayLike | None = more.pop("bound", None)
    bounds = None if bound is None else np.asarray(bound, dtype=np.float64)
    kept = np.ones(len(time), dtype=np.bool_)
    for values in (value,) if bounds is None else (value, bounds):
        kept[1:-1] &= values[1:-1] == values[:-2]
    kept[1:-1] = ~kept[1:-1]
    return Curve(label, time[kept], value[kept], None if bounds is None else bounds[kept], **more)


def plain_view(run: Run) -> View:
    """Return what can be shown of any run with a table of jobs that says when they were submitted, began and ended.

    Parameters
    ----------
    run : Run
        The run.

    Returns
    -------
    View
        Jobs in rows, each in one that was free when it was submitted, how many wait and how many run; nothing without
        such a table.
    """
    import polars as pl

    times = ("submission_time", "starting_time", "finish_time")
    there = "jobs" in run.result.table_names
    if not there or not set(times) <= set(run.jobs.columns):
        return View({}, {}, run.jobs if there else pl.DataFrame())
    jobs = run.jobs.with_row_index("place")
    if "arrival_number" not in jobs.columns:
        jobs = jobs.with_columns(arrival_number=pl.col("place"))
    if "waiting_time" not in jobs.columns:
        jobs = jobs.with_columns(waiting_time=pl.col("starting_time") - pl.col("submission_time"))
    leave = jobs.select(pl.max_horizontal(pl.col("finish_time").fill_null(run.end), "submission_time")).to_series()
    jobs = jobs.with_columns(place=pl.Series(free_rows(jobs["submission_time"], leave)))
    ran = jobs.drop_nulls("starting_time").with_columns(pl.col("finish_time").fill_null(run.end))
    waits = jobs.with_columns(until=pl.col("starting_time").fill_null(run.end))
    waits = waits.filter(pl.col("until") > pl.col("submission_time"))
    parts = [
        {"begin": waits["submission_time"], "end": waits["until"], "look": "waiting"} | _whose(waits),
        {"begin": ran["starting_time"], "end": ran["finish_time"]} | _whose(ran),
    ]
    one = pl.lit(1, pl.Int64)
    changes = [
        pl.DataFrame({"time": [0.0, run.end]}),
        jobs.select(time="submission_time", waiting=one),
        ran.select(time="starting_time", waiting=-one, running=one),
        ran.select(time="finish_time", running=-one),
    ]
    steps = add_up([part.with_columns(pl.col("time").cast(pl.Float64)) for part in changes])
    curves = {name: joined(steps, name, f"jobs {name}") for name in ("running", "waiting")}
    cards = [name for name, dtype in run.jobs.schema.items() if name not in HIDDEN and not dtype.is_nested()]
    colors = [name for name in ("waiting_time", "status") if name in jobs.columns]
    cards += [name for name in colors if name not in cards]
    rows = int(jobs["place"].to_numpy().max(initial=-1)) + 1
    return View({"jobs": lanes_of("rows", rows, parts)}, curves, jobs, cards, "waiting_time", colors)


def _whose(jobs: pl.DataFrame) -> dict[str, Any]:
    return {"first": jobs["place"], "owner": jobs["arrival_number"]}
