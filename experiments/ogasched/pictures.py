"""The figures: curves over time, sweeps of a parameter, bars; a row has the same colour in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.drawing import new_figure
from desim.experiments.ogasched.agents import AGENTS, OGASCHED
from desim.experiments.ogasched.drawing import (
    AXIS_WORDS,
    CUMULATIVE,
    THOUSAND,
    agent_styles,
    draw_line,
    draw_points,
    legend_below,
    metric_words,
    parameter_axis,
    save,
    scaled,
)
from desim.experiments.ogasched.study import Cell, Key, Study
from desim.plotting.colors import LineStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve_document", "draw_bars", "draw_parameters", "draw_sweeps", "draw_time_courses"]

#: Share of the slots after which ratios are shown in full.
SETTLED = 0.05


def curve_document(study: Study) -> list[dict[str, Any]]:
    """Return the running average rewards of all cells, as plain values.

    Parameters
    ----------
    study : Study
        What was measured.

    Returns
    -------
    list of dict
        With panel, column, row, ``slots`` and the mean over seeds ``average_reward``.
    """
    document = []
    for key, cell in study.cells.items():
        slots, curves = cell.curve()
        document.append(
            key._asdict() | {"slots": slots.tolist(), "average_reward": curves.mean(axis=0).round(4).tolist()}
        )
    return document


def draw_time_courses(study: Study) -> Path:
    """Draw average and cumulative reward and the ratios to the reference over time, one row of axes a panel.

    Parameters
    ----------
    study : Study
        Panels of one column each.

    Returns
    -------
    Path
        The file.
    """
    panels = study.panels
    figure, grid = new_figure(len(panels), 3, width=4.3, height=3.4)
    styles = agent_styles()
    for axes, panel in zip(grid, panels, strict=True):
        column = study.columns(panel)[0]
        cells = {row: study.cells[Key(panel, column, row)] for row in study.rows(panel)}
        reference = cells[OGASCHED].curve()[1]
        for row, cell in cells.items():
            slots, curves = cell.curve()
            draw_line(axes[0], slots, curves, styles[row], row)
            draw_line(axes[1], slots, curves * slots / THOUSAND, styles[row], row)
            if row != OGASCHED:  # a ratio to a loss says nothing
                draw_line(axes[2], slots, reference / np.where(curves > 0, curves, np.nan), styles[row], row)
        axes[2].axhline(1.0, color="black", linewidth=0.8)
        _leave_out_beginning(axes[2], slots)
        for ax, label in zip(axes, ("average reward", CUMULATIVE, "OGASched : row"), strict=True):
            ax.set(xlabel="slot", ylabel=label, xlim=(0, None))
        axes[1].set_title(_setting_words(panel, cells[OGASCHED]), fontsize=10)
    legend_below(figure, study.rows(panels[0]))
    return save(figure, study, "Average and cumulative reward over time, and ratios; bands hold all seeds.")


def draw_sweeps(study: Study, metrics: Sequence[str], *, with_leads: bool = False, with_paper: bool = False) -> Path:
    """Draw metrics against the parameter of each panel, with intervals.

    Parameters
    ----------
    study : Study
        Panels whose columns are numbers.
    metrics : sequence of str
        One row of axes each.
    with_leads : bool
        A row of axes with the lead of the reference in percent.
    with_paper : bool
        The paper's figures, as hollow circles joined by thin lines.

    Returns
    -------
    Path
        The file.
    """
    panels = study.panels
    # The axes of a single panel stand beside each other.
    figure, grid = new_figure(len(metrics) + with_leads, len(panels), width=4.6, height=3.4, turn=len(panels) == 1)
    for position, panel in enumerate(panels):
        columns = study.columns(panel)
        places = np.array([float(column) for column in columns])
        lines = {row: [study.cells[Key(panel, column, row)] for column in columns] for row in study.rows(panel)}
        for axes in grid:
            parameter_axis(axes[position], panel, places, columns)
        for axes, metric in zip(grid, metrics, strict=False):
            papers = (lambda cell: cell.entry.paper) if with_paper else None
            draw_points(axes[position], places, lines, partial(scaled, metric=metric), papers)
            axes[position].set_ylabel(metric_words(metric))
        if with_leads:
            ax = grid[-1][position]
            papers = (lambda cell: cell.entry.paper_lead) if with_paper else None
            draw_points(ax, places, lines, lambda cell: cell.lead, papers)
            ax.axhline(0.0, color="black", linewidth=0.8)
            ax.set_ylabel("OGASched is ahead by, %")
    legend_below(figure, study.rows(panels[0]), markers=True, paper=with_paper)
    return save(figure, study, "Means over the seeds with 95 % intervals.")


def draw_bars(study: Study, metric: str) -> Path:
    """Draw one bar a row, one axes a column.

    Parameters
    ----------
    study : Study
        One panel.
    metric : str
        What the bars show.

    Returns
    -------
    Path
        The file.
    """
    (panel,) = study.panels
    columns, rows = study.columns(panel), study.rows(panel)
    several = len(columns) > 1
    figure, grid = new_figure(1, len(columns), width=3.4 if several else 7.0, height=max(2.4, 0.3 * len(rows) + 0.8))
    styles = agent_styles()
    for ax, column in zip(grid[0], columns, strict=True):
        for place, row in enumerate(rows):
            estimate = scaled(study.cells[Key(panel, column, row)], metric)
            style = styles[row.partition(",")[0]]
            ax.barh(
                place,
                estimate.mean,
                xerr=np.nan_to_num(estimate.half_width),
                color=style.color,
                hatch=None if style.dashes == "-" else "///",
                edgecolor="white",
                alpha=0.45 if "," in row else 1.0,
                error_kw={"linewidth": 1, "capsize": 2, "ecolor": "#444444"},
            )
        ax.set_yticks(range(len(rows)), rows if ax is grid[0][0] else [""] * len(rows))
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(metric_words(metric))
        ax.locator_params(axis="x", nbins=5)
        ax.set_title(f"all {column}" if several else "", fontsize=10)
    return save(figure, study, f"{metric_words(metric).capitalize()} of each row, with 95 % intervals.")


def draw_parameters(study: Study) -> Path:
    """Draw cumulative reward over time for the values of parameters: one row of axes a panel, one axes a column.

    Parameters
    ----------
    study : Study
        Its rows are values, or the name of an agent for comparison.

    Returns
    -------
    Path
        The file.
    """
    from matplotlib import colormaps

    panels = study.panels
    columns = study.columns(panels[0])
    figure, grid = new_figure(len(panels), len(columns), width=5.6, height=3.6)
    for axes, panel in zip(grid, panels, strict=True):
        values = [row for row in study.rows(panel) if row not in AGENTS]
        shades = colormaps["viridis"](np.linspace(0.0, 0.92, len(values)))
        styles = {row: LineStyle(shade, "-") for row, shade in zip(values, shades, strict=True)}
        styles |= {row: LineStyle("black", "--") for row in study.rows(panel) if row in AGENTS}
        for ax, column in zip(axes, columns, strict=True):
            for row in study.rows(panel):
                slots, curves = study.cells[Key(panel, column, row)].curve()
                draw_line(ax, slots, curves * slots / THOUSAND, styles[row], row)
            ax.set_title(f"{AXIS_WORDS[panel]}, {column}", fontsize=10)
            ax.set(xlabel="slot", ylabel=CUMULATIVE, xlim=(0, None))
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return save(figure, study, "Cumulative reward over time for the values of the parameters; bands hold all seeds.")


def _leave_out_beginning(ax: Axes, slots: np.ndarray) -> None:
    """Fit the y axis to what the lines do after the first slots, in which a learner begins with nothing."""
    settled = slots >= max(slots[-1] * SETTLED, 1)
    curves = [np.asarray(line.get_ydata()) for line in ax.lines]
    values = np.concatenate([curve[settled] for curve in curves if len(curve) == len(slots)])
    low, high = float(np.nanmin([*values, 1.0])), float(np.nanmax([*values, 1.0]))
    margin = 0.15 * (high - low) + 0.01
    ax.set_ylim(low - margin, high + margin)


def _setting_words(panel: str, cell: Cell) -> str:
    setting = cell.setting
    low, high = setting.overhead
    return (
        f"{panel}: {setting.num_ports} ports, {setting.num_nodes} nodes, T = {setting.num_slots:,}, "
        f"β in [{low:g}, {high:g}], contention {setting.contention:g}"
    )
