"""Curves over time: utilization, of batch and DAG runs, and the queue of batch runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._dag_runs import load_dag_runs
from desim.plotting._lines import CurveOptions, axes_of, column, count_axis, draw_curves, from_zero
from desim.plotting._named_results import problem_of
from desim.plotting._runs import Timed, load_runs
from desim.plotting._time import DAY, HOUR
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["queue_length", "utilization"]

QUEUE_COLUMNS = {"jobs": "queued_jobs", "cores": "queued_cores", "core_seconds": "queued_work"}
QUEUE_LABELS = {"jobs": "queued jobs", "cores": "cores requested\nby queued jobs", "core_seconds": "queued work"}


class _Words(NamedTuple):
    """What the curves of a problem show: unit, columns of the step functions, label."""

    unit: str
    busy: str
    up: str
    label: str


BATCH_WORDS = _Words("cores", "busy_cores", "cores_up", "busy cores")
DAG_WORDS = _Words("executors", "running", "up", "running executors")


@overload
def utilization(
    results: Result | Mapping[str, Result],
    *,
    panels: Literal[False] = ...,
    unit: Literal["percent", "cores", "executors"] = ...,
    **options: Unpack[CurveOptions],
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def utilization(
    results: Result | Mapping[str, Result],
    *,
    panels: Literal[True],
    unit: Literal["percent", "cores", "executors"] = ...,
    **options: Unpack[CurveOptions],
) -> list[Axes]: ...  # numpydoc ignore=GL08


def utilization(
    results: Result | Mapping[str, Result],
    *,
    panels: bool = False,
    unit: Literal["percent", "cores", "executors"] = "percent",
    bin_width: float | Literal["auto"] | None = "auto",
    window: tuple[float, float] | None = None,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw how many cores were busy over time, or, of runs of ``dag``, how many executors ran something.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    panels : bool
        One panel a run, one above the other, instead of one panel for all.
    unit : {"percent", "cores", "executors"}
        Busy cores as a share of the cores that are up, or their number; for ``dag`` it is ``"executors"``. Where no
        core is up there is no share, and a gap. With numbers, a thin grey line shows the cores that are up.
    bin_width : float, "auto" or None
        Draw means over bins of so many seconds; a share is then busy core-seconds through
        core-seconds up. None draws every step; ``"auto"`` does so for runs of up to 500 jobs or copies.
    window : (float, float), optional
        Show only this span of time, in seconds.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes or sequence of Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        A list, one a run, if ``panels``. Times are in seconds, whatever the unit of the ticks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are neither those of ``batch`` nor those of ``dag``.
    """
    words = DAG_WORDS if problem_of(results, "batch") == "dag" else BATCH_WORDS
    if unit not in ("percent", words.unit):
        raise InvalidConfiguration(f"unit is {unit!r}, want 'percent' or {words.unit!r}")
    counted = unit != "percent"
    runs: Sequence[Timed]
    runs = load_dag_runs(results) if words is DAG_WORDS else load_runs(results, ["requested_time"])
    drawn = draw_curves(
        runs,
        partial(column, name=words.busy) if counted else partial(_busy_percent, words=words),
        words.label if counted else f"utilization\n(% of {words.unit} up)",
        limit=(f"{words.unit} up", partial(column, name=words.up)) if counted else None,
        panels=panels,
        bin_width=bin_width,
        window=window,
        colors=colors,
        axes=axes,
    )
    for panel, shown in drawn:
        panel.set_ylim(0.0, 1.05 * (max(run.size for run in shown) if counted else 100.0))
        if counted:
            count_axis(panel)
    return axes_of(drawn, panels=panels)


@overload
def queue_length(
    results: Result | Mapping[str, Result],
    *,
    panels: Literal[False] = ...,
    of: Literal["jobs", "cores", "core_seconds"] = ...,
    **options: Unpack[CurveOptions],
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def queue_length(
    results: Result | Mapping[str, Result],
    *,
    panels: Literal[True],
    of: Literal["jobs", "cores", "core_seconds"] = ...,
    **options: Unpack[CurveOptions],
) -> list[Axes]: ...  # numpydoc ignore=GL08


def queue_length(
    results: Result | Mapping[str, Result],
    *,
    panels: bool = False,
    of: Literal["jobs", "cores", "core_seconds"] = "jobs",
    bin_width: float | Literal["auto"] | None = "auto",
    window: tuple[float, float] | None = None,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw the queue over time.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    panels : bool
        One panel a run, one above the other, instead of one panel for all.
    of : {"jobs", "cores", "core_seconds"}
        The number of queued jobs, the cores that they request, or their work: cores times requested
        time, drawn in core-seconds, with marks in core-seconds, -hours or -days.
    bin_width : float, "auto" or None
        Draw means over bins of so many seconds, as for :func:`utilization`.
    window : (float, float), optional
        Show only this span of time, in seconds.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes or sequence of Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        A list, one a run, if ``panels``. Times are in seconds, whatever the unit of the ticks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``batch``.
    """
    if of not in QUEUE_COLUMNS:
        raise InvalidConfiguration(f"of is {of!r}, want one of {', '.join(map(repr, QUEUE_COLUMNS))}")
    drawn = draw_curves(
        load_runs(results, ["requested_time"]),
        partial(column, name=QUEUE_COLUMNS[of]),
        QUEUE_LABELS[of],
        panels=panels,
        bin_width=bin_width,
        window=window,
        colors=colors,
        axes=axes,
    )
    from_zero(drawn)
    for panel, _ in drawn:
        if of == "core_seconds":
            _work_axis(panel)
        else:
            count_axis(panel)
    return axes_of(drawn, panels=panels)


def _busy_percent(steps: pl.DataFrame, words: _Words) -> NDArray[np.float64]:
    busy, up = column(steps, words.busy), column(steps, words.up)
    return 100.0 * np.divide(busy, up, out=np.full_like(busy, np.nan), where=up > 0)


def _work_axis(axes: Axes) -> None:
    """Mark core-seconds in the unit of time that suits them."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    top = axes.get_ylim()[1]
    units = (("core-days", DAY), ("core-hours", HOUR), ("core-seconds", 1.0))
    name, seconds = next((name, seconds) for name, seconds in units if top > 5.0 * seconds or seconds == 1.0)
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(0.0, top / seconds)
    axes.yaxis.set_major_locator(MultipleLocator(float(ticks[1] - ticks[0]) * seconds))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / seconds:,.10g}"))
    axes.set_ylabel(f"{axes.get_ylabel()}\n({name})")
