"""Step curves over time, one a run, in one panel or one above the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._panels import add_legend, given_or_new_panels, group_digits, plain, set_titles
from desim.plotting._runs import Timed, check_window, common_span
from desim.plotting._series import bin_averages
from desim.plotting._style import LineStyle, line_styles
from desim.plotting._time import duration_words, nice_width

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["CurveOptions", "Values", "axes_of", "column", "count_axis", "draw_curves", "from_zero"]

#: If more jobs or copies start than these, a curve is averaged, unless told otherwise, in at most so many bins.
MOST_STARTS = 500
BINS = 180
MOST_BINS = 1_000_000
#: Longer curves are thin lines, and nothing is filled below them.
MOST_FILLED = 3_000

Values = Callable[["pl.DataFrame"], NDArray[np.float64]]
"""Computes the quantity that is drawn from step functions or from their averages."""


class CurveOptions(TypedDict, total=False):
    """Options that all curves over time share; :func:`desim.plotting.curves.utilization` explains them."""

    bin_width: float | Literal["auto"] | None
    window: tuple[float, float] | None
    colors: Mapping[str, Any] | None
    axes: Axes | Sequence[Axes] | None


def draw_curves(
    runs: Sequence[Timed],
    value: Values,
    label: str,
    *,
    panels: bool,
    limit: tuple[str, Values] | None = None,
    bin_width: float | Literal["auto"] | None = "auto",
    window: tuple[float, float] | None = None,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> list[tuple[Axes, list[Timed]]]:
    """Draw one curve a run.

    Parameters
    ----------
    runs : sequence of Timed
        The runs.
    value : callable
        Computes what is drawn.
    label : str
        Label of the y axis.
    panels : bool
        One panel a run instead of one for all.
    limit : (str, callable), optional
        What the value cannot exceed, for a thin grey line: its name, and what computes it.
    bin_width : float, "auto" or None
        Draw means over bins of so many seconds, as for :func:`desim.plotting.curves.utilization`.
    window : (float, float), optional
        Show only this span of time, in seconds.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes or sequence of Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    list of (Axes, list of Timed)
        The panels and the runs that they show.
    """
    from desim.plotting._time_axis import time_axis

    window = check_window(window)
    span = common_span(runs, window)
    width = _bin_width(bin_width, runs, span)
    styles = line_styles([run.name for run in runs], colors)
    groups = [[run] for run in runs] if panels else [list(runs)]
    places, own = given_or_new_panels(axes, len(groups), height=2.0 if len(groups) > 1 else 3.2)
    for place, group in zip(places, groups, strict=True):
        for position, run in enumerate(group):
            behind = len(group) - 1 - position
            _plot(place, _steps(run, width, span), value, styles[run.name], above=position, below=behind)
            if limit is not None:
                _plot_limit(place, run.steps(), limit[1])
        plain(place, grid="y")
        place.set_ylabel(label)
        time_axis(place, *span, label=place is places[-1] or not own)
        alone = group[0].title if len(group) == 1 else ""
        set_titles(place, alone, "" if width is None else f"mean over {duration_words(width)}")
    entries = list(zip((run.title for run in groups[0]), _lines(places[0], "curve"), strict=True))
    limits = [(limit[0], line) for line in _lines(places[0], "limit")[:1]] if limit is not None else []
    entries = (entries if len(entries) > 1 else []) + limits
    add_legend(places, [line for _, line in entries], [name for name, _ in entries], own=own)
    return list(zip(places, groups, strict=True))


def _lines(axes: Axes, gid: str) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def _plot(axes: Axes, steps: pl.DataFrame, value: Values, style: LineStyle, *, above: int, below: int) -> None:
    """Draw a curve above some others and below some, wider than those, so that equal curves show all colours."""
    times, values = steps["time"].to_numpy(), value(steps)
    axes.plot(
        times,
        values,
        drawstyle="steps-post",
        color=style.color,
        linestyle=style.dashes,
        linewidth=1.3 + min(0.5 * below, 1.5) if len(steps) <= MOST_FILLED else 0.6,
        solid_joinstyle="miter",
        zorder=2.0 + 0.01 * above,
        gid="curve",
    )
    if not above and not below and len(steps) <= MOST_FILLED:
        axes.fill_between(times, values, step="post", color=style.color, alpha=0.2, linewidth=0.0)


def _plot_limit(axes: Axes, steps: pl.DataFrame, limit: Values) -> None:
    axes.plot(steps["time"], limit(steps), color="#777777", linewidth=0.8, drawstyle="steps-post", gid="limit")


def _steps(run: Timed, width: float | None, span: tuple[float, float]) -> pl.DataFrame:
    """Return the step functions of a run, or their averages in bins of a width; the last row repeats values."""
    import polars as pl

    curves = run.steps()
    if width is None:
        return curves
    edges = np.arange(np.floor(span[0] / width), np.ceil(span[1] / width) + 1) * width
    edges = np.append(edges[edges < run.end], run.end)
    if len(edges) < 2:
        return bin_averages(curves, [0.0, 1.0]).rename({"begin": "time"}).clear()
    means = bin_averages(curves, edges)
    last = means.tail(1).with_columns(begin="end")
    return pl.concat([means, last]).drop("end").rename({"begin": "time"})


def _bin_width(bin_width: float | str | None, runs: Sequence[Timed], span: tuple[float, float]) -> float | None:
    """Return the width of the bins in seconds, None for every step."""
    if bin_width is None:
        return None
    length = span[1] - span[0]
    if bin_width == "auto":
        most = max(int(run.starts.is_between(*span).sum()) for run in runs)
        return nice_width(length / BINS) if most > MOST_STARTS else None
    if isinstance(bin_width, str) or not 0.0 < bin_width < float("inf"):
        raise InvalidConfiguration(f"bin_width is {bin_width!r}, want seconds above 0, 'auto' or None")
    if length / bin_width > MOST_BINS:
        raise InvalidConfiguration(f"bin_width is {bin_width!r} s, which makes more than {MOST_BINS:,} bins")
    return float(bin_width)


def count_axis(axes: Axes) -> None:
    """Mark whole numbers on the y axis."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    group_digits(axes.yaxis)


def from_zero(drawn: Sequence[tuple[Axes, Sequence[Timed]]]) -> None:
    """Let the y axes of all panels reach from 0 to a little above the highest curve, and at least to 1."""
    top = max([1.0, *(panel.dataLim.y1 for panel, _ in drawn)])
    for panel, _ in drawn:
        panel.set_ylim(0.0, 1.05 * top)


def axes_of(drawn: Sequence[tuple[Axes, Sequence[Timed]]], *, panels: bool) -> Axes | list[Axes]:
    """Return the panels, or the only one if there is one for all runs."""
    return [panel for panel, _ in drawn] if panels else drawn[0][0]


def column(steps: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """Return a column of step functions as numbers."""
    return steps[name].cast(float).to_numpy()
