"""The figures: what is gained and lost by delay, columns of the tables, one trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim import Result, simulate
from desim.experiments.drawing import MARKERS, draw_estimates, new_figure, write_figure
from desim.experiments.osdec.agents import AGENTS, OPTIMUM, OSDEC, Trained
from desim.experiments.osdec.paper import TABLE_1
from desim.experiments.osdec.report import METRIC_WORDS
from desim.experiments.osdec.simulating import scenario_of
from desim.experiments.osdec.study import Panel, Study
from desim.plotting import capacity_use
from desim.plotting.colors import LineStyle, line_styles
from desim.problems.deferrable import Foresight, foresee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_columns", "draw_trade_off", "draw_trajectory", "styles_of"]

#: Trajectory, first slots and rows of the picture of one run.
SHOWN_SEED, SHOWN_SLOTS, SHOWN_ROWS = 0, 120, ("FIFO", "SJF", "Tetris", OSDEC, OPTIMUM)


def styles_of(rows: Sequence[str]) -> dict[str, LineStyle]:
    """Return the style of every agent, the same in all figures.

    Parameters
    ----------
    rows : sequence of str
        Names; those that are not known have styles behind all others.
    """
    return line_styles(dict.fromkeys([*AGENTS, *rows]))


def draw_trade_off(study: Study, panel: Panel, column: str) -> Path:
    """Draw utilization against the cost of delay, each agent with its 95 % intervals, the paper's beside ours.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.

    Returns
    -------
    Path
        The file.
    """
    figure, grid = new_figure(1, 1, width=8.2, height=5.2)
    ax = grid[0, 0]
    styles = styles_of(list(panel.rows))
    shown = []
    for marker, row in zip(cycle(MARKERS), panel.rows, strict=False):
        use, delay = (study.estimate(panel, column, row, metric) for metric in ("utilization", "time_delay"))
        look: dict[str, Any] = {"color": styles[row].color, "marker": marker, "linestyle": "none"}
        size = 7 if row in TABLE_1 or row == OPTIMUM else 4
        ax.plot(-delay.mean, use.mean, label=row, markersize=size, zorder=3, **look)
        halves = np.nan_to_num([delay.half_width, use.half_width])
        bars = {"xerr": halves[0], "yerr": halves[1], "color": look["color"], "alpha": 0.25, "elinewidth": 0.8}
        ax.errorbar(-delay.mean, use.mean, **bars)
        shown.append((-delay.mean, use.mean))
        if row in TABLE_1 and not study.options.is_reduced:
            printed = (-TABLE_1[row][1], TABLE_1[row][0])
            ax.plot(*printed, fillstyle="none", markersize=size, **look)
            ax.plot(*zip(shown[-1], printed, strict=True), color=look["color"], linewidth=0.6, linestyle=":")
            shown.append(printed)
    _frame(ax, np.array(shown))
    _draw_totals(ax)
    ax.set_xlabel("cost of delay, core-slots")
    ax.set_ylabel("utilization, core-slots")
    ax.set_title("hollow: the paper; grey: equal total reward without violations", loc="left", fontsize=9)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    caption = f"Utilization against the cost of delay, {column}, with 95 % intervals; hollow: the paper."
    return write_figure(figure, study.options.directory / "table1.png", caption)


def _frame(ax: Axes, shown: NDArray[np.float64]) -> None:
    """Leave room for points, and not for all of the intervals, which are wide as trajectories differ."""
    low, high = shown.min(axis=0), shown.max(axis=0)
    margin = 0.12 * np.maximum(high - low, 1.0)
    ax.set_xlim(max(low[0] - margin[0], 0.0), high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _draw_totals(ax: Axes) -> None:
    """Draw lines of equal utilization less delay."""
    left, right = ax.get_xlim()
    low, high = ax.get_ylim()
    step = 10.0 ** np.floor(np.log10(max(high - low, 1.0)))
    for total in np.arange(np.floor((low - right) / step), np.ceil(high / step) + 1) * step:
        ax.plot((left, right), (total + left, total + right), color="lightgrey", linewidth=0.7, zorder=0)
    ax.set_xlim(left, right)
    ax.set_ylim(low, high)


def draw_columns(study: Study, panel: Panel, metric: str, paper: Mapping[str, Sequence[float]], *, name: str) -> Path:
    """Draw a metric in every column, one point an agent, with 95 % intervals and the paper's figures.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    metric : str
        What is drawn.
    paper : mapping of str to sequence of float
        The paper's figures by row, column after column.
    name : str
        Of the file.

    Returns
    -------
    Path
        The file.
    """
    columns = list(panel.columns)
    figure, grid = new_figure(1, 1, width=max(7.5, 2.0 * len(columns)), height=4.6)
    ax = grid[0, 0]
    styles = styles_of(list(panel.rows))
    offsets = np.linspace(-0.35, 0.35, len(panel.rows))
    for marker, row, offset in zip(cycle(MARKERS), panel.rows, offsets, strict=False):
        places = np.arange(len(columns)) + offset
        estimates = [study.estimate(panel, column, row, metric) for column in columns]
        draw_estimates(
            ax,
            places,
            estimates,
            color=styles[row].color,
            marker=marker,
            markersize=5,
            linestyle="none",
            elinewidth=0.8,
            label=row,
        )
        if row in paper and not study.options.is_reduced:
            ax.plot(places, paper[row], marker=marker, linestyle="none", color=styles[row].color, fillstyle="none")
    ax.set_xticks(range(len(columns)), columns)
    ax.set_ylabel(f"{METRIC_WORDS[metric]}, core-slots")
    ax.set_title("hollow: the paper", loc="left", fontsize=9)
    ax.grid(axis="y", color="lightgrey", linewidth=0.5)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    caption = f"{study.title}: {METRIC_WORDS[metric]} with 95 % intervals; hollow: the paper."
    return write_figure(figure, study.options.directory / f"{name}.png", caption)


def draw_trajectory(study: Study, panel: Panel, column: str) -> Path:
    """Draw cores in use under the capacity for some agents on one trajectory.

    Parameters
    ----------
    study : Study
        Says where figures go.
    panel : Panel
        Which agents there are; of learned ones the first training is shown.
    column : str
        The setting, which is part of the name of the file.

    Returns
    -------
    Path
        The file.
    """
    from desim.experiments.osdec.learned import create_any

    fitted = study.options.fit(panel.columns[column])
    results: dict[str, Result] = {}
    for row in SHOWN_ROWS:
        if row in panel.rows:
            cluster = scenario_of(fitted, SHOWN_SEED)

            def foresight(cluster: Any = cluster) -> Foresight:
                return foresee(cluster, seed=SHOWN_SEED)

            choice = panel.rows[row]
            chosen = choice.members[0] if isinstance(choice, Trained) else choice
            agent, _ = create_any(chosen, fitted, foresight)
            results[row] = simulate(cluster, agent, seed=SHOWN_SEED)
    figure, grid = _stacked(len(results))
    length = scenario_of(fitted, SHOWN_SEED).num_slots or SHOWN_SLOTS
    capacity_use(results, window=(0, min(SHOWN_SLOTS, length)), axes=list(grid))
    caption = f"Cores in use under the capacity, one trajectory, {column}."
    return write_figure(figure, study.options.directory / f"trajectory_{column}.png", caption)


def _stacked(number: int) -> tuple[Figure, Sequence[Axes]]:
    figure, grid = new_figure(number, 1, width=9.0, height=2.3)
    return figure, grid[:, 0]
