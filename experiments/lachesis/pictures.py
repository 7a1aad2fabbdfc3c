"""The figures: metrics against a parameter in small multiples, and the times of decisions beside them.

Agents of a panel stand in rows of axes by what they come to, at most eight in each, the reference in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.drawing import MARKERS, draw_estimates, new_figure, readable_names
from desim.experiments.lachesis.agents import AGENTS
from desim.plotting.axes import group_digits
from desim.plotting.colors import LineStyle, line_styles
from desim.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SHOWN_SHARES", "Chart", "draw", "groups_of"]

SHOWN_SHARES = (0.5, 0.98, 0.999)
"""Of the decisions, whose times are shown; the paper tells that of the second one."""

MOST_LINES = 8
#: Points of different agents stand side by side within this share of the axis.
SPREAD = 0.02
#: Share of the axis that the name of a mark takes.
NAME_WIDTH = 0.085
#: Parameters that are so many times as large at the end stand on a logarithmic axis, and so do times.
DECADE, SQUASHING = 8.0, 4.0
#: How the lower bound of the makespan is drawn.
BOUND: dict[str, Any] = {"color": "grey", "linewidth": 0.9, "linestyle": (0, (1, 1))}


@dataclass(frozen=True)
class Chart:
    """What is known of a panel.

    Attributes
    ----------
    parameter : str
        What the x axes show.
    columns : sequence of str
        Its values.
    lines : mapping of str to mapping of str to sequence of Estimate
        By label of a y axis and by agent, one a column; the first metric orders the agents. An agent may lack one.
    times : mapping of str to sequence of float
        By agent, milliseconds within which `SHOWN_SHARES` of the decisions are taken.
    reference : str
        The agent that stands in every row.
    bound : mapping of str to sequence of float
        By label of a y axis, what no agent can pass, one a column.
    """

    parameter: str
    columns: Sequence[str]
    lines: Mapping[str, Mapping[str, Sequence[Estimate]]]
    times: Mapping[str, Sequence[float]]
    reference: str
    bound: Mapping[str, Sequence[float]]


def groups_of(chart: Chart) -> list[list[str]]:
    """Return the agents by the mean of the first metric, in groups of equal sizes, each begun by the reference."""
    values = next(iter(chart.lines.values()))
    means = {
        row: float(np.mean([one.mean for one in values[row]])) if row in values else -math.inf for row in chart.times
    }
    others = sorted((row for row in means if row != chart.reference), key=means.__getitem__)
    first = [chart.reference] if chart.reference in means else []
    count = max(1, -(-len(others) // (MOST_LINES - len(first))))
    return [first + [str(row) for row in part] for part in np.array_split(others, count)]


def draw(chart: Chart) -> Figure:
    """Draw a panel.

    Parameters
    ----------
    chart : Chart
        What is known of it.

    Returns
    -------
    Figure
        One row of axes a group of agents, one column a metric, and at the end the times of decisions, whose names are
        the legend.
    """
    groups = groups_of(chart)
    styles = line_styles(dict.fromkeys([*AGENTS, *chart.times]))  # the same in all figures
    figure, grid = new_figure(len(groups), len(chart.lines) + 1, width=2.9, height=2.3)
    known = [time for times in chart.times.values() for time in times if time > 0.0]
    for group, axes in zip(groups, grid, strict=True):
        for ax, (label, values) in zip(axes, chart.lines.items(), strict=False):
            looks = {row: _look(row, group, styles) for row in group if row in values}
            _draw_metric(ax, chart, label, looks)
        _draw_times(axes[-1], chart, group, styles)
        axes[-1].set_xlim(min(known) / 1.5, max(known) * 1.5)
    return figure


def _look(row: str, group: Sequence[str], styles: Mapping[str, LineStyle]) -> dict[str, Any]:
    marker = MARKERS[group.index(row)]
    return {"color": styles[row].color, "linestyle": styles[row].dashes, "marker": marker, "markersize": 3.5}


def _draw_metric(ax: Axes, chart: Chart, label: str, looks: Mapping[str, Mapping[str, Any]]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    places = np.arange(len(chart.columns), dtype=np.float64)
    with suppress(ValueError):  # not every parameter is a number
        places = np.array([float(column) for column in chart.columns])
    if places[0] > 0.0 and places[-1] >= DECADE * places[0]:
        ax.set_xscale("log")
    shift = (places[-1] / places[0]) if ax.get_xscale() == "log" else (places[-1] - places[0])
    for (row, look), offset in zip(looks.items(), np.linspace(-SPREAD / 2, SPREAD / 2, len(looks)), strict=True):
        moved = places * shift**offset if ax.get_xscale() == "log" else places + shift * offset
        draw_estimates(ax, moved, chart.lines[label][row], linewidth=1.1, elinewidth=0.7, **look)
    if label in chart.bound:
        ax.plot(places, chart.bound[label], **BOUND)
    means = [one.mean for row in looks for one in chart.lines[label][row] if one.mean == one.mean]
    if label.endswith(", s") and means and min(means) > 0.0 and max(means) > SQUASHING * min(means):
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_minor_locator(NullLocator())
        group_digits(ax.yaxis)
    names = readable_names(np.log(places) if ax.get_xscale() == "log" else places, chart.columns, NAME_WIDTH)
    ax.set_xticks(places, names, fontsize=7)
    ax.set_xticks([], minor=True)
    ax.tick_params(axis="y", labelsize=7)
    ax.set_xlabel(chart.parameter, fontsize=8)
    ax.set_ylabel(label, fontsize=8)
    ax.grid(axis="y", color="#E4E4E4", linewidth=0.6)


def _draw_times(ax: Axes, chart: Chart, group: Sequence[str], styles: Mapping[str, LineStyle]) -> None:
    """Draw within how much time half, 98 % and 99.9 % of the decisions are taken: a line with a mark at the second."""
    for place, row in enumerate(group):
        half, most, nearly_all = chart.times[row]
        look = _look(row, group, styles)
        ax.plot([half, nearly_all], [place, place], color=look["color"], linestyle=look["linestyle"], linewidth=1.3)
        ax.plot([most], [place], **(look | {"linestyle": "none", "markersize": 5.0}))
    ax.set_xscale("log")
    ax.set_ylim(MOST_LINES - 0.5, -0.5)
    ax.yaxis.tick_right()
    ax.set_yticks(range(len(group)), group, fontsize=7)
    ax.tick_params(axis="x", labelsize=7)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("time of a decision, ms: 50 % to 99.9 %,\nthe mark at 98 %", fontsize=8)
    ax.grid(axis="x", color="#E4E4E4", linewidth=0.6)
