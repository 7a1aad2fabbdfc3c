"""The figures: metrics against a parameter, and the distribution of decision times."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.drawing import MARKERS, draw_estimates, legend_below, line_handles, new_figure, write_figure
from desim.experiments.lachesis.agents import AGENTS
from desim.experiments.lachesis.report import METRIC_WORDS, MILLISECONDS
from desim.experiments.lachesis.study import Panel, Study
from desim.plotting.colors import LineStyle, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from desim.experiments.lachesis.figure6 import Curve

__all__ = ["ABOVE_REFERENCE", "draw", "draw_curves"]

ABOVE_REFERENCE = "above reference"
"""Stands for the makespan in percent above the reference's, paired by workload."""

#: Points of different agents stand side by side within this share of the axis.
SPREAD = 0.02
#: Inches that an entry of the legend takes.
LEGEND_WIDTH = 2.3


def draw(study: Study, metrics: Sequence[str]) -> Path:
    """Draw metrics against the parameter, one row of axes a panel, and the times of decisions beside them.

    Parameters
    ----------
    study : Study
        What was measured.
    metrics : sequence of str
        One axes each.

    Returns
    -------
    Path
        The file.
    """
    figure, grid = new_figure(len(study.panels), len(metrics) + 1, width=4.4, height=3.4)
    for panel, axes in zip(study.panels, grid, strict=True):
        for ax, metric in zip(axes, metrics, strict=False):
            _draw_metric(ax, study, panel, metric)
        _draw_decision_times(axes[-1], study, panel)
        axes[0].set_title(panel.name, loc="left", fontsize=10)
    _legend(figure, study, with_bound="makespan" in metrics)
    caption = f"{study.title}. Means over the workloads with 95 % intervals, and the times of decisions."
    return write_figure(figure, study.options.directory / f"{study.options.name}.png", caption)


def draw_curves(curves: Sequence[Curve], path: Path) -> Path:
    """Draw learning curves: what was to become small, against where it began, and the critic's loss.

    Parameters
    ----------
    curves : sequence of Curve
        At least one.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.
    """
    figure, grid = new_figure(1, 2, width=5.0, height=3.4)
    names = [curve.name for curve in curves]
    styles = line_styles(names)
    for curve in curves:
        style: dict[str, Any] = {"color": styles[curve.name].color, "linestyle": styles[curve.name].dashes}
        change = 100.0 * (curve.values / curve.values[0] - 1.0)
        grid[0, 0].plot(curve.episodes, change, marker=".", markersize=3, linewidth=1.1, **style)
        grid[0, 1].plot(curve.episodes, curve.losses, linewidth=1.1, **style)
    grid[0, 0].axhline(0.0, color="grey", linewidth=0.7, linestyle=":")
    grid[0, 0].set_ylabel("objective on validation episodes,\n% from where it began", fontsize=8)
    grid[0, 1].set_ylabel("critic's loss", fontsize=8)
    grid[0, 1].set_yscale("log")
    for ax in grid[0]:
        ax.set_xlabel("training episodes", fontsize=8)
    legend_below(figure, line_handles(names, styles, [""] * len(names)), names, 2)
    return write_figure(figure, path, "Learning curves: the objective in validation, and the critic's loss.")


def _styles(study: Study) -> dict[str, LineStyle]:
    """Return the style of every agent, the same in all figures."""
    return line_styles(dict.fromkeys([*AGENTS, *_rows(study)]))


def _rows(study: Study) -> list[str]:
    return list(dict.fromkeys(row for panel in study.panels for row in panel.rows))


def _draw_metric(ax: Axes, study: Study, panel: Panel, metric: str) -> None:
    styles = _styles(study)
    columns = list(panel.columns)
    places = np.arange(len(columns), dtype=np.float64)
    with suppress(ValueError):  # not every parameter is a number
        places = np.array([float(column) for column in columns])
    width = (places[-1] - places[0]) * SPREAD if len(places) > 1 else 0.0
    offsets = np.linspace(-width / 2, width / 2, len(panel.rows))
    markers = dict(zip(_rows(study), cycle(MARKERS), strict=False))  # those of the legend, whichever rows a panel has
    for row, offset in zip(panel.rows, offsets, strict=True):
        if metric == ABOVE_REFERENCE:
            estimates = [study.lead(panel, column, row, "makespan") for column in columns]
        else:
            estimates = [study.estimate(panel, column, row, metric) for column in columns]
        draw_estimates(
            ax,
            places + offset,
            estimates,
            color=styles[row].color,
            linestyle=styles[row].dashes,
            marker=markers[row],
            markersize=3.5,
            linewidth=1.1,
            elinewidth=0.8,
        )
    if metric == "makespan":
        bounds = [study.estimate(panel, column, study.reference, "lower_bound").mean for column in columns]
        ax.plot(places, bounds, color="grey", linewidth=0.9, linestyle=(0, (1, 1)))
    ax.set_xticks(places, columns)
    ax.set_xlabel(panel.parameter)
    words = METRIC_WORDS | {ABOVE_REFERENCE: f"makespan above\n{study.reference}, %"}
    ax.set_ylabel(words[metric], fontsize=8)
    ax.set_ylim(bottom=0)


def _draw_decision_times(ax: Axes, study: Study, panel: Panel) -> None:
    styles = _styles(study)
    for row in panel.rows:
        seconds, shares = study.decision_seconds(panel, row)
        ax.plot(MILLISECONDS * seconds, shares, color=styles[row].color, linestyle=styles[row].dashes, linewidth=1.1)
    ax.axhline(0.98, color="grey", linewidth=0.7, linestyle=":")
    ax.set_xscale("log")
    ax.set_xlabel("time of a decision, ms")
    ax.set_ylabel("share of decisions")


def _legend(figure: Figure, study: Study, *, with_bound: bool) -> None:
    from matplotlib.lines import Line2D

    labels = _rows(study)
    handles = line_handles(labels, _styles(study), MARKERS * 2)
    if with_bound:
        handles.append(Line2D([], [], color="grey", linewidth=0.9, linestyle=(0, (1, 1))))
        labels.append("lower bound of the makespan")
    legend_below(figure, handles, labels, min(len(labels), int(figure.get_figwidth() // LEGEND_WIDTH)))
