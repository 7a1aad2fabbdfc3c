"""The figures of agents: bars, longest waits, differences from the controls, learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.dbf.agents import BASELINES, LEARNED
from desim.experiments.dbf.curves import CURVE_METRICS, Curve
from desim.experiments.dbf.report import METRIC_WORDS
from desim.experiments.dbf.study import Panel, Study
from desim.experiments.drawing import legend_below, line_handles, new_figure, write_figure
from desim.plotting.colors import LineStyle, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_bars", "draw_controls", "draw_curves", "draw_starvation"]

KINDS = ("learned", "SchedInspector", "rules", "rules in a window")
#: How far an axis goes beyond the largest value; intervals of trials are cut.
ROOM = 1.1
#: Percentages that an axis of differences is marked at, on both sides.
TICKS = (2, 5, 10, 20, 50, 100, 200, 500, 1_000)


def _kind_styles() -> dict[str, LineStyle]:
    return line_styles(KINDS)


def _kind(row: str, learned: Sequence[str], inspectors: Sequence[str]) -> str:
    if row in learned:
        return KINDS[0]
    return KINDS[1] if row in inspectors else KINDS[2] if row in BASELINES else KINDS[3]


def draw_bars(
    study: Study,
    panel: Panel,
    column: str,
    metrics: Sequence[str],
    *,
    learned: Sequence[str],
    inspectors: Sequence[str],
    name: str,
) -> Path:
    """Draw metrics as bars, the agents in the order of the first, which is the mean waiting time.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    metrics : sequence of str
        One axes each.
    learned, inspectors : sequence of str
        Which agents are of these kinds.
    name : str
        Of the file.

    Returns
    -------
    Path
        The file.
    """
    rows = sorted(panel.rows, key=lambda row: study.estimate(panel, column, row, metrics[0]).mean)
    figure, grid = new_figure(1, len(metrics), width=3.6, height=1.2 + 0.24 * len(rows))
    styles = _kind_styles()
    colors = [styles[_kind(row, learned, inspectors)].color for row in rows]
    places = np.arange(len(rows))
    for ax, metric in zip(grid[0], metrics, strict=True):
        estimates = [study.estimate(panel, column, row, metric) for row in rows]
        means = [estimate.mean for estimate in estimates]
        halves = np.nan_to_num([estimate.half_width for estimate in estimates])
        ax.barh(places, means, xerr=halves, color=colors, error_kw={"elinewidth": 0.7})
        most = max(means) if study.options.is_reduced else max(np.array(means) + halves)
        ax.set_xlim(0, ROOM * most)
        if metric == "waiting_time_mean" and not column.startswith("closed"):
            started = [study.estimate(panel, column, row, f"started_{metric}").mean for row in rows]
            ax.plot(started, places, "k|", markersize=7)
            ax.set_title("bar: all jobs; line: started ones", loc="left", fontsize=8)
        ax.set_yticks(places, rows if ax is grid[0, 0] else [""] * len(rows), fontsize=8)
        ax.invert_yaxis()
        ax.set_xlabel(METRIC_WORDS[metric], fontsize=8)
        ax.tick_params(axis="x", labelsize=8)
        ax.grid(axis="x", color="lightgrey", linewidth=0.5)
        ax.set_axisbelow(True)
    from matplotlib.patches import Patch

    shown = [kind for kind in KINDS if any(_kind(row, learned, inspectors) == kind for row in rows)]
    legend_below(figure, [Patch(color=styles[kind].color) for kind in shown], shown, len(shown))
    caption = f"Learned agents, inspectors and rules; {column}. Means over the episodes."
    return write_figure(figure, study.options.directory / f"{name}.png", caption)


def draw_curves(curves: Sequence[Curve], path: Path) -> Path:
    """Draw learning curves: against training episodes, and in validation against decisions.

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
    figure, grid = new_figure(2, len(CURVE_METRICS), width=4.2, height=3.0)
    styles = line_styles([curve.name for curve in curves])
    for part, axes in zip(("training", "validation"), grid, strict=True):
        for metric, ax in zip(CURVE_METRICS, axes, strict=True):
            for curve in curves:
                values = curve.values(part, metric)
                known = ~np.isnan(values)
                places = (curve.episodes if part == "training" else curve.decisions)[known]
                style = styles[curve.name]
                ax.plot(places, values[known], color=style.color, linestyle=style.dashes, linewidth=1.1)
            if metric != "utilization":
                ax.set_yscale("log")
            ax.set_ylabel(METRIC_WORDS[metric], fontsize=8)
            ax.set_xlabel("training episodes" if part == "training" else "decisions learned from", fontsize=8)
            ax.set_title(part, loc="left", fontsize=9)
            ax.tick_params(labelsize=7, which="both")
    labels = [curve.name for curve in curves]
    legend_below(figure, line_handles(labels, styles, [""] * len(labels)), labels, min(len(labels), 4))
    return write_figure(figure, path, "Learning curves: in training, and in validation on fixed episodes.")


def draw_controls(study: Study, column: str, trained: Mapping[str, Sequence[str]], controls: Sequence[str]) -> Path:
    """Draw by how many percent waiting times are above those of the rule "shortest" in the same window, paired.

    Parameters
    ----------
    study : Study
        Whose panels are windows and whose reference is that rule.
    column : str
        The setting.
    trained : mapping of str to sequence of str
        The learned agents, by panel.
    controls : sequence of str
        The rules.

    Returns
    -------
    Path
        The file.
    """
    most = max((len(rows) for rows in trained.values()), default=0)
    figure, grid = new_figure(1, 1, width=7.5, height=1.6 + len(study.panels) * (0.35 + 0.09 * most))
    ax = grid[0, 0]
    others = [control for control in controls if control != study.reference]
    styles = line_styles([LEARNED, *controls])
    for place, panel in enumerate(study.panels):
        rows = [(row, row) for row in others] + [(row, LEARNED) for row in trained[panel.name]]
        for offset, (row, kind) in zip(np.linspace(-0.3, 0.3, len(rows)), rows, strict=True):
            lead = study.lead(panel, column, row, "waiting_time_mean")
            style: dict[str, Any] = {"color": styles[kind].color, "marker": "o" if kind == LEARNED else "|"}
            ax.errorbar(lead.mean, place + offset, xerr=np.nan_to_num(lead.half_width), linestyle="none", **style)
    ax.axvline(0.0, color="grey", linewidth=0.8)
    limits = ax.get_xlim()
    ax.set_xscale("symlog", linthresh=TICKS[2])
    ticks = [sign * tick for tick in TICKS for sign in (-1, 1) if limits[0] <= sign * tick <= limits[1]]
    ax.set_xticks([0, *ticks], ["0", *(f"{tick:+,}" for tick in ticks)], fontsize=8)
    ax.minorticks_off()
    ax.set_yticks(range(len(study.panels)), [panel.name for panel in study.panels], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel(f"waiting time above that of {study.reference}, %, paired by episode", fontsize=9)
    ax.grid(axis="x", color="lightgrey", linewidth=0.5)
    shown = [*([LEARNED] if most else []), *others]
    legend_below(
        figure, line_handles(shown, styles, ["o" if one == LEARNED else "|" for one in shown]), shown, len(shown)
    )
    caption = f"Waiting time of learned agents and of rules in the same window, less that of {study.reference}."
    return write_figure(figure, study.options.directory / "controls.png", caption)


def draw_starvation(
    study: Study,
    panel: Panel,
    column: str,
    bound: str,
    *,
    learned: Sequence[str],
    inspectors: Sequence[str],
    name: str,
) -> Path:
    """Draw the longest wait and the 99th percentile against the mean, with the bound.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    bound : str
        The agent whose longest wait nobody should exceed.
    learned, inspectors : sequence of str
        Which agents are of these kinds.
    name : str
        Of the file.

    Returns
    -------
    Path
        The file.
    """
    from matplotlib.lines import Line2D

    figure, grid = new_figure(1, 2, width=5.6, height=4.8)
    styles = _kind_styles()
    means = {row: study.estimate(panel, column, row, "waiting_time_mean").mean for row in panel.rows}
    rows = sorted(means, key=lambda row: means[row])
    colors = {row: styles[_kind(row, learned, inspectors)].color for row in rows}
    for ax, metric in zip(grid[0], ("waiting_time_max", "waiting_time_p99"), strict=True):
        for number, row in enumerate(rows, 1):
            longest = study.estimate(panel, column, row, metric).mean
            ax.plot(means[row], longest, "o", color=colors[row], markersize=4)
            ax.annotate(str(number), (means[row], longest), fontsize=6, xytext=(3, 2), textcoords="offset points")
        most = study.estimate(panel, column, bound, metric).mean
        ax.axhline(most, color="grey", linewidth=0.8, linestyle=":")
        _label(ax, metric, bound)
    handles = [Line2D([], [], linestyle="none", marker="o", markersize=4, color=colors[row]) for row in rows]
    labels = [f"{number}  {row}" for number, row in enumerate(rows, 1)]
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=6, ncols=1 + len(rows) // 40)
    caption = f"Longest waits against mean waits; the line is {bound}."
    return write_figure(figure, study.options.directory / f"{name}.png", caption)


def _label(ax: Axes, metric: str, bound: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(METRIC_WORDS["waiting_time_mean"])
    ax.set_ylabel(f"{METRIC_WORDS[metric]}, mean over episodes")
    ax.set_title(f"dotted: {bound}", loc="left", fontsize=9)
    ax.tick_params(labelsize=8, which="both")
