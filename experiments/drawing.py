"""Figures of studies: axes, points with intervals, a legend for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.plotting.colors import LineStyle
from desim.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["MARKERS", "draw_estimates", "draw_rows", "legend_below", "line_handles", "new_figure", "readable_names"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
"""Markers of agents, by their place in a table."""
#: Axes with a row an agent that stand beside each other.
MOST_ACROSS = 3


def new_figure(rows: int, columns: int, *, width: float, height: float, turn: bool = False) -> tuple[Figure, Any]:
    """Return a figure and its axes.

    Parameters
    ----------
    rows, columns : int
        Shape of the array of axes.
    width, height : float
        Of one axes, in inches.
    turn : bool
        Draw the rows beside each other.

    Returns
    -------
    tuple of Figure and numpy.ndarray
        The axes have the shape (rows, columns).
    """
    from matplotlib.figure import Figure

    down, across = (columns, rows) if turn else (rows, columns)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    return figure, axes.T if turn else axes


def draw_estimates(ax: Axes, places: np.ndarray, estimates: Sequence[Estimate], **style: Any) -> None:
    """Draw means with their intervals.

    Parameters
    ----------
    ax : Axes
        Where.
    places : numpy.ndarray
        On the x axis.
    estimates : sequence of Estimate
        One a place; an interval that is not known is not drawn.
    **style
        As for ``Axes.errorbar``.
    """
    halves = np.nan_to_num([estimate.half_width for estimate in estimates])
    ax.errorbar(places, [estimate.mean for estimate in estimates], yerr=halves, **style)


def readable_names(places: np.ndarray, names: Sequence[str], least: float) -> list[str]:
    """Return the names of marks of an axis, blank where they would touch: the last one stays, and what has room.

    Parameters
    ----------
    places : numpy.ndarray
        Of the marks, ascending, in the scale of the axis.
    names : sequence of str
        What stands at them.
    least : float
        Room that a name takes, as a share of the distance from the first mark to the last.
    """
    room = least * (places[-1] - places[0])
    shown: list[str] = []
    end = -np.inf
    for place, name in zip(places[:-1], names, strict=False):
        has_room = place >= end and places[-1] - place >= room
        shown.append(name if has_room else "")
        end = place + room if has_room else end
    return [*shown, names[-1]]


def line_handles(rows: Sequence[str], styles: Mapping[str, LineStyle], markers: Sequence[str]) -> list[Line2D]:
    """Return what stands for the lines of agents in a legend.

    Parameters
    ----------
    rows : sequence of str
        The agents.
    styles : mapping of str to LineStyle
        Their colours and dashes.
    markers : sequence of str
        Their markers; agents that these do not suffice for are left out.

    Returns
    -------
    list of Line2D
        In order.
    """
    from matplotlib.lines import Line2D

    looks: Mapping[str, Any] = styles
    return [
        Line2D([], [], color=looks[row].color, linestyle=looks[row].dashes, marker=marker, markersize=4)
        for row, marker in zip(rows, markers, strict=False)
    ]


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str], columns: int) -> None:
    """Put one legend for all axes below them.

    Parameters
    ----------
    figure : Figure
        With a constrained layout.
    handles, labels : sequence
        Its entries.
    columns : int
        How many stand beside each other.
    """
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def draw_rows(
    rows: Sequence[str],
    metrics: Mapping[str, Mapping[str, Estimate]],
    papers: Mapping[str, Mapping[str, float]],
    colors: Mapping[str, Any],
) -> Figure:
    """Draw one row an agent and one axes a metric: means with their intervals, and a paper's figures beside them.

    Parameters
    ----------
    rows : sequence of str
        The agents, from above.
    metrics : mapping of str to mapping of str to Estimate
        By label of an x axis, and agent.
    papers : mapping of str to mapping of str to float
        The same of a paper, as far as it has them; hollow circles.
    colors : mapping of str to colour
        By agent.

    Returns
    -------
    Figure
        Without a legend: the names stand beside the rows.
    """
    across = min(len(metrics), MOST_ACROSS)
    down = -(-len(metrics) // across)
    figure, grid = new_figure(down, across, width=3.6, height=0.9 + 0.21 * len(rows))
    for ax in grid.flat[len(metrics) :]:
        ax.remove()
    for ax, (label, estimates) in zip(grid.flat, metrics.items(), strict=False):
        for place, row in enumerate(rows):
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
