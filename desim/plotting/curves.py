"""Curves and areas over time or slots: step functions summed from changes, means over bins, stacked layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_choice, check_float
from desim.exceptions import InvalidConfiguration
from desim.formatting import duration_words, nice_count, nice_duration
from desim.plotting.axes import (
    add_legend,
    count_axis,
    label_panels,
    new_panels,
    plain,
    set_titles,
    shade_unmeasured,
    time_axis,
)
from desim.plotting.colors import LineStyle, line_styles
from desim.plotting.runs import Results, Window, load_runs, span_of, title_of

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from desim.result import Result

__all__ = [
    "BinWidth",
    "CurveOptions",
    "add_up",
    "bin_averages",
    "bin_edges",
    "bin_means",
    "draw_curves",
    "draw_layer",
    "draw_stack",
    "draw_steps",
    "draw_utilization",
    "slots_together",
]

Floats = NDArray[np.float64]
Curve = tuple[ArrayLike, ArrayLike]
"""A curve: positions on the x axis, and values."""
BinWidth = float | Literal["auto"] | None
"""Width of the bins in seconds over which means are drawn; None draws every step, "auto" does so for short runs."""

#: Number of changes above which a curve over time is averaged by default, and the maximum number of bins.
MOST_CHANGES, BINS = 1_500, 180
MOST_BINS = 1_000_000
#: Number of points above which a curve is a thin line without fill.
MOST_FILLED = 3_000
#: Number of runs above which curves over time have a panel each.
MOST_OVERLAID = 4


def add_up(changes: Iterable[pl.DataFrame], **initial: int) -> pl.DataFrame:
    """Return step functions of time as sums of changes.

    Parameters
    ----------
    changes : iterable of polars.DataFrame
        Frames with ``time`` and one column per function, the change of the function at that time.
    **initial
        Values of functions before the first change, if not 0.

    Returns
    -------
    polars.DataFrame
        One row per instant of a change; it holds from its time to that of the next row.
    """
    import polars as pl

    names = pl.exclude("time")
    table = pl.concat(changes, how="diagonal").group_by("time").agg(names.sum()).sort("time")
    return table.with_columns(names.cum_sum()).with_columns(pl.col(name) + value for name, value in initial.items())


def bin_averages(steps: pl.DataFrame, edges: ArrayLike) -> pl.DataFrame:
    """Return the time averages of step functions over bins.

    Parameters
    ----------
    steps : polars.DataFrame
        Step functions as :func:`add_up` returns them.
    edges : array_like of float, shape (n + 1,)
        Edges of the bins in seconds, ascending. Outside the steps every function is 0.

    Returns
    -------
    polars.DataFrame
        n rows: ``time``, the beginning of the bin, and the mean of every function.
    """
    import polars as pl

    bounds, time = np.asarray(edges, dtype=np.float64), steps["time"].to_numpy()
    columns: dict[str, Floats] = {"time": bounds[:-1]}
    for name in steps.columns[1:]:
        areas = steps[name].to_numpy()[:-1] * np.diff(time)
        integral = np.concatenate([[0.0], np.cumsum(areas)])
        columns[name] = np.diff(np.interp(bounds, time, integral)) / np.diff(bounds)
    return pl.DataFrame(columns)


class CurveOptions(TypedDict, total=False):
    """Display options of a curve over time.

    Attributes
    ----------
    bin_width : float, "auto" or None
        Width of the bins in seconds over which means are drawn; a utilization is then mean use divided by mean
        capacity. None draws every step; ``"auto"``, the default, does so for short runs.
    window : (float, float)
        Start and end of the time range to show, in seconds.
    axes : Axes or iterable of Axes
        Panels to draw on; default: a new figure.
    """

    bin_width: BinWidth
    window: Window
    axes: Axes | Iterable[Axes] | None


def draw_steps(
    results: Results,
    problem: str,
    steps_of: Callable[[Result], pl.DataFrame],
    value: pl.Expr,
    label: str,
    *,
    limit: tuple[str, pl.Expr] | None = None,
    top: float | None = None,
    bin_width: BinWidth = "auto",
    window: Window = None,
    axes: Axes | Iterable[Axes] | None = None,
) -> Axes:
    """Draw a step function of time for each run, in one panel, or in one panel per run if there are many.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    problem : str
        Name of their problem.
    steps_of : callable
        Returns the step functions of a run, see :func:`add_up`.
    value : polars.Expr
        Value to draw, computed from the columns of the steps or of their averages.
    label : str
        Label of the y axis.
    limit : (str, polars.Expr), optional
        Upper limit of the value, drawn as a thin grey line: its name, and its expression.
    top : float, optional
        Upper end of the y axes; default: a little above the highest curve or line.
    bin_width : float, "auto" or None
        See :class:`CurveOptions`.
    window : (float, float), optional
        See :class:`CurveOptions`.
    axes : Axes or iterable of Axes, optional
        See :class:`CurveOptions`.

    Returns
    -------
    Axes
        The panel, or the first of several. Times are in seconds, whatever the unit of the ticks.
    """
    runs = load_runs(results, problem)
    steps = [steps_of(run) for run in runs]
    span = span_of(runs, window)
    width = _bin_width(bin_width, steps, span)
    styles = line_styles(run.name for run in runs)
    pairs = list(zip(runs, steps, strict=True))
    groups = [pairs] if len(runs) <= MOST_OVERLAID else [[pair] for pair in pairs]
    panels = new_panels(axes, len(groups), height=2.0 if len(groups) > 1 else 3.2)
    for panel, group in zip(panels, groups, strict=True):
        shown = [table if width is None else _averaged(table, width, span, run.span[1]) for run, table in group]
        curves = [(table["time"], table.select(value).to_series().cast(float)) for table in shown]
        lines = draw_curves(panel, curves, [styles[run.name] for run, _ in group], stepped=True)
        entries = [(title_of(run), line) for (run, _), line in zip(group, lines, strict=True)]
        if len(group) == 1 and len(curves[0][0]) <= MOST_FILLED:
            panel.fill_between(*curves[0], step="post", color=lines[0].get_color(), alpha=0.2, linewidth=0.0)
        entries = entries if len(entries) > 1 else []
        if limit is not None:
            thin: Any = {"color": "#777777", "linewidth": 0.8, "drawstyle": "steps-post", "gid": "limit"}
            bounds = [panel.plot(table["time"], table.select(limit[1]).to_series(), **thin) for _, table in group]
            entries.append((limit[0], bounds[0][0]))
        panel.set_ylabel(label)
        time_axis(panel, *span)
        mean = f"mean over {duration_words(width)}" if width is not None else ""
        set_titles(panel, title_of(group[0][0]) if len(group) == 1 else "", mean)
        if panel is panels[0]:
            first_entries = entries
    add_legend(panels, [*first_entries, *shade_unmeasured(panels, runs)])
    label_panels(panels)
    highest = 1.05 * max([1.0, *(panel.dataLim.y1 for panel in panels)])
    for panel in panels:
        panel.set_ylim(0.0, highest if top is None else top)
        count_axis(panel.yaxis)
    return panels[0]


def draw_utilization(
    results: Results,
    problem: str,
    steps_of: Callable[[Result], pl.DataFrame],
    busy: tuple[str, str],
    things: str,
    *,
    unit: str,
    **options: Unpack[CurveOptions],
) -> Axes:
    """Draw the busy resources as a percentage of those ``up``, or as a number with a thin line for those up.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    problem : str
        Name of their problem.
    steps_of : callable
        Returns the step functions of a run.
    busy : (str, str)
        Step function that counts busy resources, and its label.
    things : str
        Name of the resources, such as cores.
    unit : str
        Unit of the y axis: ``"percent"``, or the same as ``things`` for numbers.
    **options
        Display options, see :class:`CurveOptions`.

    Returns
    -------
    Axes
        The panel, or the first of several.
    """
    import polars as pl

    check_choice("unit", unit, ("percent", things))
    used, up = pl.col(busy[0]), pl.col("up")
    if unit == "percent":
        share = pl.when(up > 0).then(100.0 * (used / up)).otherwise(float("nan"))
        return draw_steps(results, problem, steps_of, share, f"utilization\n(% of {things} up)", top=105.0, **options)
    size = max(run.info[f"num_{things}"] for run in load_runs(results, problem))
    limit = f"{things} up", up
    return draw_steps(results, problem, steps_of, used, busy[1], limit=limit, top=1.05 * size, **options)


def _bin_width(bin_width: BinWidth, steps: Sequence[pl.DataFrame], span: tuple[float, float]) -> float | None:
    """Return the width of the bins in seconds; None for every step."""
    length = span[1] - span[0]
    if bin_width is None:
        return None
    if bin_width == "auto":
        most = max(int(table["time"].is_between(*span).sum()) for table in steps)
        return nice_duration(length / BINS) if most > MOST_CHANGES else None
    width = check_float("bin_width", bin_width, above=0.0)
    if length / width > MOST_BINS:
        raise InvalidConfiguration(f"bin_width: got {width!r} s, which gives more than {MOST_BINS:,} bins")
    return width


def _averaged(steps: pl.DataFrame, width: float, span: tuple[float, float], end: float) -> pl.DataFrame:
    """Return averages of step functions over bins of a given width; the last row repeats the values at the end."""
    import polars as pl

    edges = np.arange(np.floor(span[0] / width), np.ceil(span[1] / width) + 1) * width
    edges = np.append(edges[edges < end], end)
    if len(edges) < 2:
        return bin_averages(steps, [0.0, 1.0]).clear()
    means = bin_averages(steps, edges)
    return pl.concat([means, means.tail(1).with_columns(time=pl.lit(edges[-1]))])


def draw_curves(
    axes: Axes, curves: Sequence[Curve], styles: Sequence[LineStyle], *, stepped: bool = False
) -> list[Line2D]:
    """Draw curves on a panel, each wider than those above it, so that coinciding curves are all visible.

    Parameters
    ----------
    axes : Axes
        The panel.
    curves : sequence of (array_like, array_like)
        Positions on the x axis and values of each curve, the lowest curve first.
    styles : sequence of LineStyle
        Styles of the curves.
    stepped : bool
        Whether a value holds until the next one.

    Returns
    -------
    list of Line2D
        Lines with the gid ``curve``.
    """
    lines = []
    for above, ((places, values), style) in enumerate(zip(curves, styles, strict=True)):
        count, below = len(np.asarray(places)), len(curves) - 1 - above
        lines += axes.plot(
            places,
            values,
            drawstyle="steps-post" if stepped else "default",
            solid_joinstyle="miter" if stepped else "round",
            color=style.color,
            linestyle=style.dashes,
            linewidth=1.3 + min(0.5 * below, 1.5) if count <= MOST_FILLED else 0.6,
            marker="o" if count == 1 and not stepped else None,  # a line of one point would be invisible
            clip_on=count != 1,  # the point is on the edge
            zorder=2.0 + 0.01 * above,
            gid="curve",
        )
    plain(axes, grid="y")
    return lines


def slots_together(span: tuple[float, float], *, most: int = 250, bins: int = 125) -> int:
    """Return the number of slots per bin: one, or for more than ``most`` slots enough to give about ``bins`` bins."""
    length = span[1] - span[0]
    return nice_count(length / bins) if length > most else 1


def bin_edges(begin: float, end: float, width: int) -> Floats:
    """Return the edges of bins of ``width`` slots: multiples of the width and both ends; fewer than two if empty."""
    if not begin < end:
        return np.zeros(0)
    inner = np.arange(math.floor(begin / width) + 1, math.ceil(end / width), dtype=np.float64) * width
    return np.concatenate([[begin], inner, [end]])


def bin_means(values: Floats, edges: Floats) -> Floats:
    """Return the means over bins of values by slot; the last axis becomes one of bins.

    Parameters
    ----------
    values : array, shape (..., num_slots)
        Value of each slot, from slot 0 on.
    edges : array, shape (num_bins + 1,)
        Edges of the bins, in existing slots; fewer than two for no bins.

    Returns
    -------
    array, shape (..., num_bins)
        The means.
    """
    if len(edges) < 2:
        return np.zeros((*values.shape[:-1], 0))
    sums = np.add.reduceat(values[..., : int(edges[-1])], edges[:-1].astype(np.int64), axis=-1)
    means: Floats = sums / np.diff(edges)
    return means


def draw_layer(axes: Axes, edges: Floats, below: Floats, above: Floats, name: str, **style: Any) -> None:
    """Fill the area between two heights in each bin; do nothing if they are equal everywhere.

    Parameters
    ----------
    axes : Axes
        Panel to draw on.
    edges : array, shape (num_bins + 1,)
        Edges of the bins; fewer than two for no bins.
    below, above : array, shape (num_bins,)
        Lower and upper edge of the area.
    name : str
        Gid of the area.
    **style
        Fill style.
    """
    if (above > below).any():
        axes.stairs(above, edges, baseline=below, fill=True, linewidth=0.0, gid=name, **({"zorder": 2.0} | style))


def draw_stack(axes: Axes, edges: Floats, layers: Floats, styles: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw stacked layers, each with its name as gid.

    Parameters
    ----------
    axes : Axes
        Panel to draw on.
    edges : array, shape (num_bins + 1,)
        Edges of the bins.
    layers : array, shape (num_layers, num_bins)
        Heights of the layers, the lowest first.
    styles : mapping of str to mapping
        Names of the layers, with their fill styles.
    """
    for layer, top, (name, style) in zip(layers, layers.cumsum(axis=0), styles.items(), strict=True):
        draw_layer(axes, edges, top - layer, top, name, **style)
