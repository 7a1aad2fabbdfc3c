"""The figures about learned agents: learning curves, errors of forecasts, attention, and the price of safety."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.drawing import MARKERS, legend_below, line_handles, new_figure, write_figure
from desim.experiments.osdec.agents import OSDEC, WORKLOADS
from desim.experiments.osdec.attending import Seen
from desim.experiments.osdec.forecasting import MEASURES, MODULE, metric_of, sources_of
from desim.experiments.osdec.pictures import styles_of
from desim.experiments.osdec.shielding import BASES, row_of
from desim.experiments.osdec.study import Panel, Study
from desim.plotting.colors import LineStyle, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.experiments.osdec.figure4 import Curve

__all__ = ["draw_attention", "draw_curves", "draw_forecasts", "draw_safety"]

#: Attention that is more than so many times doubled or halved is drawn like that.
FARTHEST = 3.0


def draw_curves(groups: Mapping[str, Mapping[str, Sequence[Curve]]], path: Path) -> Path:
    """Draw learning curves, one line a row: the mean of its trainings, and a band from the lowest to the highest.

    Parameters
    ----------
    groups : mapping of str to mapping of str to sequence of Curve
        By workload, then by row; at least one.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.
    """
    across = min(len(groups), 2)
    figure, grid = new_figure(-(-len(groups) // across), across, width=5.2, height=3.6)
    names = list(dict.fromkeys(row for rows in groups.values() for row in rows))
    styles = styles_of(names)
    for ax, (workload, rows) in zip(grid.flat, groups.items(), strict=False):
        for row, curves in rows.items():
            places, values = _aligned(curves)
            look: dict[str, Any] = {"color": styles[row].color, "linestyle": styles[row].dashes}
            ax.plot(places, values.mean(axis=0), linewidth=1.3, **look)
            if len(values) > 1:
                ax.fill_between(places, values.min(axis=0), values.max(axis=0), color=look["color"], alpha=0.15, lw=0)
        ax.set_title(WORKLOADS[workload], loc="left", fontsize=9)
        ax.set_xlabel("decisions, thousands", fontsize=8)
        ax.set_ylabel("total reward, core-slots", fontsize=8)
        ax.grid(axis="y", color="lightgrey", linewidth=0.5)
    for ax in list(grid.flat)[len(groups) :]:
        ax.set_visible(False)
    legend_below(figure, line_handles(names, styles, [""] * len(names)), names, 4)
    return write_figure(figure, path, "Learning curves: validation reward; bands hold all trainings of a row.")


def _aligned(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Return thousands of decisions, and the values of all trainings there, as far as all of them go."""
    end = min(curve.decisions[-1] for curve in curves)
    places = np.unique(np.concatenate([curve.decisions for curve in curves]))
    places = places[places <= end]
    return places / 1000.0, np.array([np.interp(places, curve.decisions, curve.values) for curve in curves])


def draw_forecasts(study: Study, path: Path) -> Path:
    """Draw how far predictions of the next capacity are off, one row of axes a workload.

    Parameters
    ----------
    study : Study
        Of :mod:`desim.experiments.osdec.forecasts`.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.
    """
    figure, grid = new_figure(len(study.panels), len(MEASURES), width=5.0, height=2.6)
    for panel, axes in zip(study.panels, grid, strict=True):
        first = next(iter(panel.rows))
        labels = [f"module of {row}" for row in panel.rows] + list(sources_of("capacity")[1:])
        colors = ["#0072B2"] * len(panel.rows) + ["#555555"] * (len(labels) - len(panel.rows))
        for ax, measure in zip(axes, MEASURES, strict=True):
            names = [(row, MODULE) for row in panel.rows] + [(first, source) for source in sources_of("capacity")[1:]]
            for place, ((row, source), color) in enumerate(zip(names, colors, strict=True)):
                found = study.estimate(panel, panel.name, row, metric_of("capacity", source, measure))
                width = np.nan_to_num(found.half_width)
                ax.errorbar(found.mean, place, xerr=width, color=color, marker="o", markersize=4, elinewidth=1.0)
            ax.set_yticks(range(len(labels)), labels if ax is axes[0] else [""] * len(labels), fontsize=8)
            ax.invert_yaxis()
            ax.set_xlabel(f"{measure}, cores", fontsize=8)
            ax.grid(axis="x", color="lightgrey", linewidth=0.5)
        axes[0].set_title(f"capacity of the next slot, {WORKLOADS[panel.name]}", loc="left", fontsize=9)
    return write_figure(figure, path, "How far predictions of the capacity are off, with 95 % intervals.")


def draw_attention(seen: Seen, row: str, path: Path) -> Path:
    """Draw the attention of one decision, one axes a layer.

    Parameters
    ----------
    seen : Seen
        The decision.
    row : str
        Whose it is.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.
    """
    layers, tokens = seen.weights.shape[:2]
    number = seen.num_current
    columns = zip(seen.cores, seen.durations, seen.slacks, strict=True)
    jobs = ["system", *(f"{cores:g}×{duration:g}, {slack:g}" for cores, duration, slack in columns)]
    scored = [
        f"{job}{'' if fits else ' (does not fit)'}: {score:+.2f}"
        for job, fits, score in zip(jobs[1:], seen.fits, seen.scores, strict=False)
    ]
    looking = ["system", *scored, *(f"{job} (future)" for job in jobs[1 + number :])]
    times = np.log2(np.maximum(seen.weights * tokens, 2.0**-FARTHEST))
    most = float(min(max(np.abs(times).max(), 0.5), FARTHEST))
    figure, grid = new_figure(1, layers, width=2.0 + 0.27 * tokens, height=1.7 + 0.27 * tokens)
    for layer, ax in enumerate(grid[0]):
        image = ax.imshow(times[layer], cmap="RdBu_r", vmin=-most, vmax=most)
        ax.set_xticks(range(tokens), jobs, rotation=90, fontsize=7)
        ax.set_yticks(range(tokens), looking if layer == 0 else [], fontsize=7)
        for line in (0.5, number + 0.5):
            ax.axhline(line, color="black", linewidth=0.8)
            ax.axvline(line, color="black", linewidth=0.8)
        ax.set_title(f"layer {layer + 1}", fontsize=9)
        ax.set_xlabel("looked at: cores×slots, slots left for a start", fontsize=8)
    grid[0, 0].set_ylabel("looks: the same, and the score", fontsize=8)
    bar = figure.colorbar(image, ax=list(grid[0]), shrink=0.8)
    bar.set_label("log2 of the attention over that of looking at all alike", fontsize=8)
    figure.suptitle(f"{row} in slot {seen.slot}", x=0.01, ha="left", fontsize=10)
    return write_figure(figure, path, f"Attention of {row} in slot {seen.slot}: red is more than looking at all alike.")


def draw_safety(study: Study, agents: Sequence[str], path: Path) -> Path:
    """Draw utilization against the share of slots violated, a line for each agent and kind of shield.

    A large marker is for no shield; behind it come the levels, which are written where they are far enough apart.

    Parameters
    ----------
    study : Study
        Of :mod:`desim.experiments.osdec.safety`.
    agents : sequence of str
        The rows without a shield.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.
    """
    figure, grid = new_figure(1, len(study.panels), width=4.6, height=4.0)
    styles = line_styles(agents)
    for panel, ax in zip(study.panels, grid[0], strict=True):
        for agent, marker in zip(agents, MARKERS, strict=False):
            for base, dashes in zip(BASES, ("-", ":"), strict=True):
                rows = [row_of(agent, base, level) for level in (None, *study.options.levels)]
                if agent in panel.rows:
                    look = {"color": styles[agent].color, "linestyle": dashes, "marker": marker}
                    _draw_shields(ax, study, panel, rows, look)
        right = max(ax.get_xlim()[1], 0.1)
        ax.set_xlim(-0.03 * right, right)
        ax.set_title(panel.name, loc="left", fontsize=9)
        ax.set_xlabel("slots violated, %", fontsize=8)
        ax.set_ylabel("utilization, core-slots", fontsize=8)
        ax.grid(color="lightgrey", linewidth=0.5)
    plain = {agent: LineStyle(styles[agent].color, "none") for agent in agents}
    handles = line_handles(agents, plain, MARKERS)
    kinds = [f"shield from {base}" for base in BASES]
    handles += line_handles(kinds, dict(zip(kinds, map(LineStyle, ("black",) * 2, ("-", ":")), strict=True)), ("", ""))
    legend_below(figure, handles, [*agents, *kinds], len(handles))
    return write_figure(
        figure, path, "Utilization against the share of slots violated, with shields of several levels."
    )


def _draw_shields(ax: Axes, study: Study, panel: Panel, rows: Sequence[str], look: dict[str, Any]) -> None:
    """Draw an agent without a shield, large, and then behind one that is more and more careful."""
    share, use = (
        np.array([study.estimate(panel, panel.name, row, metric).mean for row in rows])
        for metric in ("violation_slots", "utilization")
    )
    share *= 100
    ax.plot(share, use, markersize=3.5, linewidth=1.0, **look)
    ax.plot(share[0], use[0], marker=look["marker"], color=look["color"], markersize=8)
    if share[0] > 1 and rows[0] == OSDEC and look["linestyle"] == "-":
        for x, y, level in zip(share[1:], use[1:], study.options.levels, strict=True):
            words = f"{100 * level:g} %"
            ax.annotate(words, (x, y), (-4, 4), textcoords="offset points", ha="right", fontsize=7, color=look["color"])
