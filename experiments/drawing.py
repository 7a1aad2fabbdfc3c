"""Figures of studies: facets of a frame, axes, points with intervals, and a common legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.frame import Frame, agent_of
from desim.experiments.tables import Printed
from desim.plotting.axes import group_digits
from desim.plotting.colors import LineStyle, line_styles
from desim.problem import Better
from desim.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MARKERS", "draw_leads", "draw_rows", "facets", "new_figure", "readable_names"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
"""Markers of agents, by their position in a table."""
#: Largest number of axes next to each other, if each has one row per agent.
MOST_ACROSS = 3
#: Number of columns above which points become a line, and intervals a band.
MOST_POINTS = 16
LEAST_FOR_BAND = 3
#: Ratio of the last to the first number from which an axis is logarithmic.
DECADE = 8.0
#: Share of the axis within which points of different rows are set apart.
SPREAD = 0.03
#: Share of the axis that a tick label takes.
NAME_WIDTH = 0.085
#: Style of a paper's numbers.
PAPER: dict[str, Any] = {"linewidth": 0.7, "linestyle": ":", "marker": "o", "markersize": 5, "markerfacecolor": "white"}


def new_figure(rows: int, columns: int, *, width: float, height: float, turn: bool = False) -> tuple[Figure, Any]:
    """Return a figure and its axes.

    Parameters
    ----------
    rows, columns : int
        Shape of the array of axes.
    width, height : float
        Size of each axes, in inches.
    turn : bool
        Whether to draw the rows next to each other.

    Returns
    -------
    tuple of Figure and numpy.ndarray
        Figure, and an array of axes of shape (rows, columns).
    """
    from matplotlib.figure import Figure

    down, across = (columns, rows) if turn else (rows, columns)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    return figure, axes.T if turn else axes


def facets(
    frame: Frame,
    metrics: Mapping[str, str],
    panels: Mapping[str, str],
    *,
    rows: Sequence[str] = (),
    printed: Mapping[tuple[str, str], Printed] | None = None,
    logarithmic: Sequence[str] = (),
    titles: Mapping[str, str] | None = None,
    width: float = 3.6,
    height: float = 2.8,
) -> Figure:
    """Draw metrics of panels against their columns: one row of axes per metric, one column per panel, one line per row.

    Parameters
    ----------
    frame : Frame
        Measurements. Columns that are numbers stand at their values, others side by side; many columns are
        drawn as a line with a band.
    metrics : mapping of str to str
        Names of metrics, and labels of the y axes.
    panels : mapping of str to str
        Names of panels, and labels of the x axes.
    rows : sequence of str
        Agents to draw, in an order that determines their styles; further trainings of an agent have thin lines of its
        style. Default: all.
    printed : mapping of (panel, metric) to mapping, optional
        Numbers of the paper by row and column, drawn as hollow circles on dotted lines.
    logarithmic : sequence of str
        Metrics with a logarithmic y axis.
    titles : mapping of str to str, optional
        Titles of panels. Default: their names.
    width, height : float
        Size of each axes, in inches.

    Returns
    -------
    Figure
        Figure with one legend below all axes.
    """
    from matplotlib.lines import Line2D

    shown = list(rows) or list(dict.fromkeys(agent_of(row) for panel in panels for row in frame.rows(panel)))
    styles = line_styles(shown)
    markers = {row: MARKERS[number % len(MARKERS)] for number, row in enumerate(shown)}
    looks: dict[str, tuple[Any, str]] = {row: (styles[row], markers[row]) for row in shown}
    figure, grid = new_figure(len(metrics), len(panels), width=width, height=height, turn=len(panels) == 1)
    for axes, (metric, y_label) in zip(grid, metrics.items(), strict=True):
        for ax, (panel, x_label) in zip(axes, panels.items(), strict=True):
            papers = (printed or {}).get((panel, metric), {})
            _draw_facet(ax, frame, panel, metric, looks, papers=papers)
            if metric in logarithmic:
                ax.set_yscale("log")
            else:
                group_digits(ax.yaxis)
            ax.set_xlabel(x_label, fontsize=9)
            ax.set_ylabel(y_label, fontsize=9)
            ax.tick_params(labelsize=8)
            ax.grid(axis="y", color="#E4E4E4", linewidth=0.6)
            if len(panels) > 1:
                ax.set_title((titles or {}).get(panel, panel), fontsize=10)
    if all(len(frame.columns(panel)) > MOST_POINTS for panel in panels):
        markers = dict.fromkeys(markers, "")
    lines = {
        row: Line2D([], [], color=style.color, linestyle=style.dashes, marker=markers[row], markersize=4)
        for row, (style, _) in looks.items()
    }
    if printed:
        lines["the paper's"] = Line2D([], [], color="grey", **PAPER)
    across = min(max(1, int(figure.get_figwidth() // 2.2)), len(lines))
    handles, labels = list(lines.values()), list(lines)
    figure.legend(handles, labels, loc="outside lower center", ncols=across, frameon=False, fontsize=9)
    return figure


def _draw_facet(
    ax: Axes,
    frame: Frame,
    panel: str,
    metric: str,
    looks: Mapping[str, tuple[LineStyle, str]],
    *,
    papers: Printed,
) -> None:
    """Draw a metric of a panel against its columns; each agent has a style and a marker."""
    columns = frame.columns(panel)
    places, is_logarithmic = _places(columns)
    if is_logarithmic:
        ax.set_xscale("log")
    there = [
        row
        for agent in looks
        for row in frame.trainings(panel, agent)
        if any(frame.has(panel, column, row, metric) for column in columns)
    ]
    offsets = np.linspace(-0.5, 0.5, len(there)) * SPREAD if len(there) > 1 else np.zeros(1)
    is_line = len(columns) > MOST_POINTS
    for row, offset in zip(there, offsets, strict=True):
        known = [number for number, column in enumerate(columns) if frame.has(panel, column, row, metric)]
        estimates = [frame.estimate(panel, columns[number], row, metric) for number in known]
        style, marker = looks[agent_of(row)]
        width = 1.2 if row in looks else 0.6
        look: dict[str, Any] = {"color": style.color, "linestyle": style.dashes, "linewidth": width}
        if is_line:
            _draw_band(ax, places[known], estimates, look)
            continue
        moved = _moved(places, float(offset), is_logarithmic)
        look |= {"marker": marker, "markersize": 4, "capsize": 1.5, "elinewidth": 1.0}
        halves = np.nan_to_num([estimate.half_width for estimate in estimates])
        ax.errorbar(moved[known], [estimate.mean for estimate in estimates], yerr=halves, **look)
        if row in papers:
            told = [number for number, column in enumerate(columns) if column in papers[row]]
            ax.plot(moved[told], [papers[row][columns[number]] for number in told], color=style.color, **PAPER)
    if not is_line:
        shift = np.log(places) if is_logarithmic else places
        names = readable_names(shift, columns, NAME_WIDTH) if len(columns) > 1 else columns
        ax.set_xticks(places, names)
        ax.set_xticks([], minor=True)


def _draw_band(ax: Axes, places: np.ndarray, estimates: Sequence[Estimate], look: Mapping[str, Any]) -> None:
    """Draw a line with its intervals as a band, unless they come from two values, whose intervals are too wide."""
    means = np.array([one.mean for one in estimates])
    halves = np.array([one.half_width if one.num_values >= LEAST_FOR_BAND else 0.0 for one in estimates])
    ax.plot(places, means, **look)
    ax.fill_between(places, means - halves, means + halves, color=look["color"], alpha=0.12, linewidth=0)


def _places(columns: Sequence[str]) -> tuple[np.ndarray, bool]:
    """Return the positions of columns on an axis, and whether the axis is logarithmic."""
    try:
        places = np.array([float(column) for column in columns])
    except ValueError:
        places = np.zeros(len(columns))
    if len(places) < 2 or (np.diff(places) <= 0).any():
        return np.arange(len(columns), dtype=np.float64), False
    return places, bool(places[0] > 0 and places[-1] >= DECADE * places[0] and len(places) <= MOST_POINTS)


def _moved(places: np.ndarray, offset: float, is_logarithmic: bool) -> np.ndarray:
    """Return positions moved by a share of the axis."""
    if len(places) < 2:
        return places + offset
    moved = (
        places * (places[-1] / places[0]) ** offset if is_logarithmic else places + offset * (places[-1] - places[0])
    )
    return np.asarray(moved)


def readable_names(places: np.ndarray, names: Sequence[str], least: float) -> list[str]:
    """Return the labels of an axis' marks, blank where they would overlap; the last one is always kept.

    Parameters
    ----------
    places : numpy.ndarray
        Positions of the marks, ascending, in the scale of the axis.
    names : sequence of str
        Labels of the marks.
    least : float
        Width of a label, as a share of the distance from the first mark to the last.
    """
    room = least * (places[-1] - places[0])
    shown: list[str] = []
    end = -np.inf
    for place, name in zip(places[:-1], names, strict=False):
        has_room = place >= end and places[-1] - place >= room
        shown.append(name if has_room else "")
        end = place + room if has_room else end
    return [*shown, names[-1]]


def draw_rows(
    rows: Sequence[str],
    metrics: Mapping[str, Mapping[str, Estimate]],
    papers: Mapping[str, Mapping[str, float]],
    colors: Mapping[str, Any],
) -> Figure:
    """Draw one row per agent and one axes per metric: means with intervals, and the numbers of a paper.

    Parameters
    ----------
    rows : sequence of str
        Agents, from top to bottom.
    metrics : mapping of str to mapping of str to Estimate
        Estimates by label of the x axis, and then by agent, where it has one.
    papers : mapping of str to mapping of str to float
        Numbers of a paper in the same form, where it has them; drawn as hollow circles.
    colors : mapping of str to colour
        Colours by agent.

    Returns
    -------
    Figure
        Figure without a legend; the agents' names stand next to the rows.
    """
    across = min(len(metrics), MOST_ACROSS)
    down = -(-len(metrics) // across)
    figure, grid = new_figure(down, across, width=3.6, height=0.9 + 0.21 * len(rows))
    for ax in grid.flat[len(metrics) :]:
        ax.remove()
    for ax, (label, estimates) in zip(grid.flat, metrics.items(), strict=False):
        for place, row in enumerate(rows):
            if row not in estimates:
                continue
            estimate = estimates[row]
            half = np.nan_to_num(estimate.half_width)
            ax.errorbar(estimate.mean, place, xerr=half, color=colors[row], marker="o", markersize=5, elinewidth=1.3)
            if row in papers.get(label, {}):
                printed = papers[label][row]
                ax.plot([estimate.mean, printed], [place, place], color="grey", linewidth=0.6, linestyle=":", zorder=1)
                ax.plot(printed, place, "o", markersize=5, markerfacecolor="white", markeredgecolor="grey", gid="paper")
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_yticks(range(len(rows)), rows if ax in grid[:, 0] else [""] * len(rows), fontsize=8)
        ax.tick_params(axis="x", labelsize=8)
        ax.tick_params(axis="y", length=0)
        ax.locator_params(axis="x", nbins=6)
        ax.grid(color="#E4E4E4", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel(label, fontsize=9)
    return figure


def draw_leads(
    frame: Frame,
    panel: str,
    metric: str,
    *,
    rules: Sequence[str],
    agents: Mapping[str, Sequence[str]],
    better: Better = "lower",
) -> Figure:
    """Draw percentages by which agents exceed the best rule: one axes per agent, one row per workload.

    The numbers are those of :func:`~desim.experiments.tables.best_rule_table`, which has the same parameters. Where a
    value of the best rule is not above 0, there is no percentage.
    """
    columns = frame.columns(panel)
    leads = {
        f"{name}, %": {
            column: frame.against_best(panel, column, rows, rules, metric, better=better)[1]
            for column in columns
            if all(frame.has(panel, column, row, metric) for row in rows)
        }
        for name, rows in agents.items()
    }
    figure = draw_rows(columns, leads, {}, {column: style.color for column, style in line_styles(columns).items()})
    for ax in figure.axes:
        ax.axvline(0.0, color="grey", linewidth=0.8, zorder=1)
    return figure
