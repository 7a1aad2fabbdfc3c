"""What the figures are made of: axes, lines with bands, points with intervals, a legend for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments import drawing
from desim.experiments.drawing import MARKERS, draw_estimates, line_handles, write_figure
from desim.experiments.ogasched.agents import AGENTS, OGASCHED
from desim.experiments.ogasched.report import METRIC_WORDS
from desim.experiments.ogasched.study import Cell, Study
from desim.plotting.colors import LineStyle, line_styles
from desim.statistics import Estimate

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AXIS_WORDS",
    "CUMULATIVE",
    "THOUSAND",
    "agent_styles",
    "draw_line",
    "draw_paper",
    "draw_points",
    "legend_below",
    "metric_words",
    "parameter_axis",
    "save",
    "scaled",
]

THOUSAND = 1_000.0
CUMULATIVE = "cumulative reward, thousands"
AXIS_WORDS = {
    "|R|": "nodes, |R|",
    "|L|": "ports, |L|",
    "contention": "contention level",
    "T": "slots, T",
    "rho": "arrival probability, ρ",
    "density": "density of the graph",
    "eta_0": "first step η₀",
    "decay": "decay λ",
}
#: Parameters that are swept over orders of magnitude.
LOGARITHMIC = ("|R|", "|L|", "contention", "T")
#: Rows that lie on each other stand side by side: the width of all of them, as a share of the axis.
SPREAD = 0.035


def agent_styles() -> dict[str, LineStyle]:
    """Return the style of every agent, the same in all figures.

    Returns
    -------
    dict of str to LineStyle
        By row.
    """
    return line_styles(AGENTS)


def metric_words(metric: str) -> str:
    """Return what a metric is called at an axis, with its unit."""
    return CUMULATIVE if metric == "cumulative_reward" else METRIC_WORDS[metric]


def scaled(cell: Cell, metric: str) -> Estimate:
    """Return a metric in the unit of the axes.

    Parameters
    ----------
    cell : Cell
        What was measured.
    metric : str
        Which metric.

    Returns
    -------
    Estimate
        Cumulative rewards in thousands.
    """
    estimate = cell.metrics[metric]
    if metric != "cumulative_reward":
        return estimate
    return estimate._replace(mean=estimate.mean / THOUSAND, half_width=estimate.half_width / THOUSAND)


def draw_line(ax: Axes, slots: np.ndarray, curves: np.ndarray, style: LineStyle, label: str) -> None:
    """Draw the mean of curves, and a band from the least to the largest.

    Parameters
    ----------
    ax : Axes
        Where.
    slots : numpy.ndarray of shape (n,)
        Places on the x axis.
    curves : numpy.ndarray of shape (num_seeds, n)
        NaN is left out.
    style : LineStyle
        Colour and dashes.
    label : str
        For the legend; OGASched's line is the thickest.
    """
    width = 2.0 if label == OGASCHED else 1.3
    ax.plot(slots, curves.mean(axis=0), color=style.color, linestyle=style.dashes, label=label, linewidth=width)
    if len(curves) > 1:
        ax.fill_between(slots, curves.min(axis=0), curves.max(axis=0), color=style.color, alpha=0.08, linewidth=0)


def draw_points(
    ax: Axes,
    places: np.ndarray,
    lines: Mapping[str, Sequence[Cell]],
    value: Callable[[Cell], Estimate | None],
    papers: Callable[[Cell], float | None] | None = None,
) -> None:
    """Draw points with intervals against a parameter, one line a row.

    Parameters
    ----------
    ax : Axes
        Where; its x axis is set by :func:`parameter_axis` before.
    places : numpy.ndarray
        Values of the parameter.
    lines : mapping of str to sequence of Cell
        The cells of each row.
    value : callable
        What is drawn of a cell; a row is left out if it is None for its first cell.
    papers : callable, optional
        What the paper has in its place: hollow circles joined by thin lines.
    """
    styles = agent_styles()
    markers = dict(zip(lines, MARKERS, strict=False))  # those of the legend, whichever rows are shown
    shown = [row for row, cells in lines.items() if value(cells[0]) is not None]
    offsets = np.linspace(-0.5, 0.5, len(shown)) * SPREAD if len(shown) > 1 else [0.0]
    for row, offset in zip(shown, offsets, strict=True):
        style = styles[row]
        moved = _moved(places, float(offset), ax.get_xscale() == "log")
        estimates: list[Any] = [value(cell) for cell in lines[row]]
        draw_estimates(
            ax,
            moved,
            estimates,
            color=style.color,
            linestyle=style.dashes,
            marker=markers[row],
            markersize=4,
            capsize=1.5,
            linewidth=1.2,
            elinewidth=1.0,
        )
        if papers is not None:
            draw_paper(ax, moved, [papers(cell) for cell in lines[row]], style)


def _moved(places: np.ndarray, offset: float, logarithmic: bool) -> np.ndarray:
    """Move places by a share of the axis."""
    if len(places) < 2:
        return places
    if logarithmic:
        return np.asarray(places * (places[-1] / places[0]) ** offset)
    return np.asarray(places + offset * (places[-1] - places[0]))


def draw_paper(ax: Axes, places: np.ndarray, values: Sequence[float | None], style: LineStyle) -> None:
    """Draw the paper's figures of a row, if it has them all."""
    if None not in values:
        ax.plot(places, values, color=style.color, linewidth=0.7, linestyle=":", marker="o", markerfacecolor="white")  # type: ignore[arg-type]


def parameter_axis(ax: Axes, panel: str, places: np.ndarray, columns: Sequence[str]) -> None:
    """Label the x axis with a parameter and its values.

    Parameters
    ----------
    ax : Axes
        Where.
    panel : str
        The parameter.
    places : numpy.ndarray
        Its values.
    columns : sequence of str
        Their names.
    """
    if panel in LOGARITHMIC:
        ax.set_xscale("log")
    ax.set_xticks(places, columns)
    ax.set_xticks([], minor=True)
    ax.set_xlabel(AXIS_WORDS[panel])


def legend_below(figure: Figure, rows: Sequence[str], *, markers: bool = False, paper: bool = False) -> None:
    """Put one legend for all axes below them.

    Parameters
    ----------
    figure : Figure
        With a constrained layout.
    rows : sequence of str
        The agents.
    markers : bool
        Show the markers of :func:`draw_points`.
    paper : bool
        Explain the paper's figures.
    """
    from matplotlib.lines import Line2D

    handles = line_handles(rows, agent_styles(), MARKERS if markers else [""] * len(rows))
    labels = list(rows)
    if paper:
        handles.append(Line2D([], [], color="grey", linewidth=0.7, linestyle=":", marker="o", markerfacecolor="white"))
        labels.append("the paper's")
    columns = len(labels) if len(labels) <= 6 else -(-len(labels) // 2)
    drawing.legend_below(figure, handles, labels, columns)


def save(figure: Figure, study: Study, caption: str) -> Path:
    """Write a figure into the directory of a study.

    Parameters
    ----------
    figure : Figure
        What to write.
    study : Study
        Whose it is.
    caption : str
        What it shows.

    Returns
    -------
    Path
        The file.
    """
    return write_figure(figure, study.options.directory / f"{study.options.name}.png", caption)
