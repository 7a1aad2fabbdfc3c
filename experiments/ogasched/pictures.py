"""The figures: curves over time, sweeps of a parameter, bars; a row has the same colour in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments import drawing
from desim.experiments.blocks import Drawing
from desim.experiments.drawing import MARKERS, draw_estimates, line_handles, new_figure
from desim.experiments.ogasched.agents import AGENTS, OGASCHED
from desim.experiments.ogasched.study import METRIC_WORDS, Measured, Panel
from desim.plotting.colors import DASHES, LineStyle, line_styles
from desim.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bars", "parameters", "sweeps", "time_courses"]

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
#: Share of the slots after which ratios are shown in full.
SETTLED = 0.05
#: Lines of an axes over time.
MOST_LINES = 8
#: Axes with bars beside each other.
MOST_ACROSS = 4

STYLES = line_styles(AGENTS)
"""The style of every agent, the same in all figures."""


def time_courses(found: Measured) -> Drawing:
    """Draw average and cumulative reward and the ratios to OGASched over time, rows of axes for each panel.

    Agents stand in rows by what they earn, at most eight in each, OGASched in all of them.
    """
    rows = [(panel, group) for panel in found.panels for group in _groups(found, panel)]
    figure, grid = new_figure(len(rows), 3, width=4.3, height=3.0)
    for axes, (panel, group) in zip(grid, rows, strict=True):
        (column,) = panel.columns
        curves = {row: found.curve(panel, column, row) for row in group}
        slots, reference = curves[OGASCHED]
        for row, (_, averages) in curves.items():
            _draw_line(axes[0], slots, averages, STYLES[row], row)
            _draw_line(axes[1], slots, averages * slots / THOUSAND, STYLES[row], row)
            if row != OGASCHED:  # a ratio to a loss says nothing
                _draw_line(axes[2], slots, reference / np.where(averages > 0, averages, np.nan), STYLES[row], row)
        axes[2].axhline(1.0, color="black", linewidth=0.8)
        _leave_out_beginning(axes[2], slots)
        for ax, label in zip(axes, ("average reward", CUMULATIVE, "OGASched : row"), strict=True):
            ax.set(xlabel="slot", ylabel=label, xlim=(0, None))
        axes[1].set_title(_setting_words(panel.name, found.study.fit(panel.columns[column])), fontsize=10)
        handles = line_handles(group, STYLES, [""] * len(group))
        axes[2].legend(handles, group, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return _saved(figure, found, "Average and cumulative reward over time, and ratios; bands hold all seeds.")


def _groups(found: Measured, panel: Panel) -> list[list[str]]:
    """Return the rows of a panel by their average rewards, in groups of equal sizes, each begun by OGASched."""
    (column,) = panel.columns
    rewards = {row: float(found.curve(panel, column, row)[1][:, -1].mean()) for row in panel.rows}
    others = sorted((row for row in panel.rows if row != OGASCHED), key=lambda row: -rewards[row])
    count = max(1, -(-len(others) // (MOST_LINES - 1)))
    return [[OGASCHED, *map(str, part)] for part in np.array_split(others, count)]


def sweeps(found: Measured, metrics: Sequence[str], *, with_leads: bool = False, with_paper: bool = False) -> Drawing:
    """Draw metrics against the parameter of each panel, with intervals.

    Parameters
    ----------
    found : Measured
        Panels whose columns are numbers.
    metrics : sequence of str
        One row of axes each.
    with_leads : bool
        A row of axes with the lead of the reference in percent.
    with_paper : bool
        The paper's figures, as hollow circles joined by thin lines.

    Returns
    -------
    Drawing
        The figure.
    """
    panels = found.panels
    # The axes of a single panel stand beside each other.
    figure, grid = new_figure(len(metrics) + with_leads, len(panels), width=4.6, height=3.4, turn=len(panels) == 1)
    for position, panel in enumerate(panels):
        columns = list(panel.columns)
        for axes in grid:
            _label_parameter(axes[position], panel)
        for axes, metric in zip(grid, metrics, strict=False):
            lines = {row: [_scaled(found, panel, column, row, metric) for column in columns] for row in panel.rows}
            _draw_points(axes[position], panel, lines, panel.paper if with_paper else {})
            axes[position].set_ylabel(_metric_words(metric))
        if with_leads:
            ax = grid[-1][position]
            leads = {row: [found.ahead(panel, column, row) for column in columns] for row in panel.rows}
            _draw_points(ax, panel, leads, panel.paper_leads if with_paper else {})
            ax.axhline(0.0, color="black", linewidth=0.8)
            ax.set_ylabel("OGASched is ahead by, %")
    _legend_below(figure, list(panels[0].rows), markers=True, paper=with_paper)
    return _saved(figure, found, "Means over the seeds with 95 % intervals.")


def bars(found: Measured, metric: str, title: str = "all {}") -> Drawing:
    """Draw one bar a row, one axes a column of the only panel, with its name in the title."""
    (panel,) = found.panels
    columns, rows = list(panel.columns), list(panel.rows)
    several, across = len(columns) > 1, min(len(columns), MOST_ACROSS)
    down, width = -(-len(columns) // across), 3.4 if several else 7.0
    figure, grid = new_figure(down, across, width=width, height=max(2.4, 0.3 * len(rows) + 0.8))
    for ax in grid.flat[len(columns) :]:
        ax.remove()
    for ax, column in zip(grid.flat, columns, strict=False):
        for place, row in enumerate(rows):
            estimate = _scaled(found, panel, column, row, metric)
            style = STYLES[row.partition(",")[0]]
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
        ax.set_yticks(range(len(rows)), rows if ax in grid[:, 0] else [""] * len(rows))
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(_metric_words(metric))
        ax.locator_params(axis="x", nbins=5)
        ax.set_title(title.format(column) if several else "", fontsize=10)
    return _saved(figure, found, f"{_metric_words(metric).capitalize()} of each row, with 95 % intervals.")


def parameters(found: Measured) -> Drawing:
    """Draw average reward against the value of a parameter: one axes a panel, one line a column.

    Parameters
    ----------
    found : Measured
        Its rows are values, or the names of agents that have no such parameter and are level lines.
    """
    columns = list(found.panels[0].columns)
    figure, grid = new_figure(1, len(found.panels), width=5.2, height=3.8)
    styles = line_styles(columns)
    levels = dict(zip([row for row in found.panels[0].rows if row in AGENTS], DASHES[1:], strict=False))
    for ax, panel in zip(grid[0], found.panels, strict=True):
        values = [row for row in panel.rows if row not in AGENTS]
        places = np.arange(len(values))
        for column, marker in zip(columns, MARKERS, strict=False):
            estimates = [found.estimate(panel, column, row, "average_reward") for row in values]
            draw_estimates(ax, places, estimates, color=styles[column].color, marker=marker, markersize=4, capsize=2)
        for row, dashes in levels.items():
            is_one = len({panel.choice(column, row) for column in columns}) == 1
            for column in columns[:1] if is_one else columns:
                level = found.estimate(panel, column, row, "average_reward").mean
                color = "black" if is_one else styles[column].color
                ax.axhline(level, color=color, linestyle=dashes, linewidth=1.2, zorder=1)
        ax.set_xticks(places, values, fontsize=8)
        ax.set(xlabel=AXIS_WORDS[panel.name], ylabel=METRIC_WORDS["average_reward"])
        ax.grid(axis="y", color="#E4E4E4", linewidth=0.6)
    handles = line_handles(columns, styles, MARKERS)
    handles += line_handles(list(levels), {row: LineStyle("black", dashes) for row, dashes in levels.items()}, ["", ""])
    drawing.legend_below(figure, handles, [*columns, *levels], len(handles))
    caption = "Average reward by the value of the parameter, with 95 % intervals; levels are agents."
    return _saved(figure, found, caption)


def _saved(figure: Figure, found: Measured, caption: str) -> Drawing:
    return Drawing(f"{found.study.name}.png", caption, figure)


def _metric_words(metric: str) -> str:
    """Return what a metric is called at an axis, with its unit."""
    return CUMULATIVE if metric == "cumulative_reward" else METRIC_WORDS[metric]


def _scaled(found: Measured, panel: Panel, column: str, row: str, metric: str) -> Estimate:
    """Return a metric in the unit of the axes: cumulative rewards in thousands."""
    estimate = found.estimate(panel, column, row, metric)
    if metric != "cumulative_reward":
        return estimate
    return estimate._replace(mean=estimate.mean / THOUSAND, half_width=estimate.half_width / THOUSAND)


def _leave_out_beginning(ax: Axes, slots: np.ndarray) -> None:
    """Fit the y axis to what the lines do after the first slots, in which a learner begins with nothing."""
    settled = slots >= max(slots[-1] * SETTLED, 1)
    curves = [np.asarray(line.get_ydata()) for line in ax.lines]
    values = np.concatenate([curve[settled] for curve in curves if len(curve) == len(slots)])
    low, high = float(np.nanmin([*values, 1.0])), float(np.nanmax([*values, 1.0]))
    margin = 0.15 * (high - low) + 0.01
    ax.set_ylim(low - margin, high + margin)


def _setting_words(panel: str, setting: Any) -> str:
    low, high = setting.overhead
    return (
        f"{panel}: {setting.num_ports} ports, {setting.num_nodes} nodes, T = {setting.num_slots:,}, "
        f"β in [{low:g}, {high:g}], contention {setting.contention:g}"
    )


def _draw_line(ax: Axes, slots: np.ndarray, curves: np.ndarray, style: LineStyle, label: str) -> None:
    """Draw the mean of curves of shape (num_seeds, n), and a band from the least to the largest."""
    width = 2.0 if label == OGASCHED else 1.3
    ax.plot(slots, curves.mean(axis=0), color=style.color, linestyle=style.dashes, label=label, linewidth=width)
    if len(curves) > 1:
        ax.fill_between(slots, curves.min(axis=0), curves.max(axis=0), color=style.color, alpha=0.08, linewidth=0)


def _label_parameter(ax: Axes, panel: Panel) -> None:
    """Label the x axis with the parameter of a panel and its values."""
    if panel.name in LOGARITHMIC:
        ax.set_xscale("log")
    ax.set_xticks([float(column) for column in panel.columns], list(panel.columns))
    ax.set_xticks([], minor=True)
    ax.set_xlabel(AXIS_WORDS[panel.name])


def _draw_points(
    ax: Axes,
    panel: Panel,
    lines: Mapping[str, Sequence[Estimate | None]],
    papers: Mapping[str, Sequence[float]],
) -> None:
    """Draw points with intervals against the parameter, one line a row that has any, and the paper's figures."""
    places = np.array([float(column) for column in panel.columns])
    markers = dict(zip(lines, MARKERS, strict=False))  # those of the legend, whichever rows are shown
    shown = {row: [one for one in estimates if one is not None] for row, estimates in lines.items()}
    shown = {row: estimates for row, estimates in shown.items() if estimates}
    offsets = np.linspace(-0.5, 0.5, len(shown)) * SPREAD if len(shown) > 1 else [0.0]
    for (row, estimates), offset in zip(shown.items(), offsets, strict=True):
        look: dict[str, Any] = {"color": STYLES[row].color, "linestyle": STYLES[row].dashes, "marker": markers[row]}
        moved = _moved(places, float(offset), ax.get_xscale() == "log")
        draw_estimates(ax, moved, estimates, markersize=4, capsize=1.5, linewidth=1.2, elinewidth=1.0, **look)
        if row in papers:
            ax.plot(moved, papers[row], color=STYLES[row].color, **PAPER)


#: How the paper's figures are drawn.
PAPER: dict[str, Any] = {"linewidth": 0.7, "linestyle": ":", "marker": "o", "markerfacecolor": "white"}


def _moved(places: np.ndarray, offset: float, logarithmic: bool) -> np.ndarray:
    """Move places by a share of the axis."""
    if len(places) < 2:
        return places
    if logarithmic:
        return np.asarray(places * (places[-1] / places[0]) ** offset)
    return np.asarray(places + offset * (places[-1] - places[0]))


def _legend_below(figure: Figure, rows: Sequence[str], *, markers: bool = False, paper: bool = False) -> None:
    """Put one legend for all axes below them."""
    from matplotlib.lines import Line2D

    handles = line_handles(rows, STYLES, MARKERS if markers else [""] * len(rows))
    labels = list(rows)
    if paper:
        handles.append(Line2D([], [], color="grey", **PAPER))
        labels.append("the paper's")
    columns = len(labels) if len(labels) <= 6 else -(-len(labels) // 2)
    drawing.legend_below(figure, handles, labels, columns)
