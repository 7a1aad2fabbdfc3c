"""The figures of windows: points by split, and bubbles by type of job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from desim.experiments.dbf.agents import CONTROLS, LEARNED
from desim.experiments.dbf.job_types import CORES, TIMES
from desim.experiments.dbf.report import METRIC_WORDS
from desim.experiments.dbf.study import Panel, Study
from desim.experiments.drawing import MARKERS, draw_estimates, legend_below, line_handles, new_figure, write_figure
from desim.plotting.colors import line_styles

__all__ = ["draw_types", "draw_windows"]

SHORT_WORDS = METRIC_WORDS | {"hidden_share": "decisions with invisible jobs"}
#: Scales of what may be 0; all else is drawn on logarithms.
SCALES = {"invisible_jobs": "symlog", "hidden_share": "linear"}
#: Waiting times that are drawn in the same colours, in seconds.
SHORTEST, LONGEST = 10.0, 1e6
#: Area of the largest bubble, in points.
BUBBLE = 220.0


def draw_windows(study: Study, metrics: Sequence[str], *, name: str) -> Path:
    """Draw metrics against the number of slots at the tail, a column of axes for each size of the window.

    Parameters
    ----------
    study : Study
        Whose panels are sizes, and whose columns numbers of slots at the tail.
    metrics : sequence of str
        A row of axes each.
    name : str
        Of the file.

    Returns
    -------
    Path
        The file.
    """
    figure, grid = new_figure(len(metrics), len(study.panels), width=2.9, height=2.7)
    rows = [row for row in (LEARNED, *CONTROLS) if any(panel.rows[row] for panel in study.panels)]
    styles = line_styles([LEARNED, *CONTROLS])
    for metric, axes in zip(metrics, grid, strict=True):
        for panel, ax in zip(study.panels, axes, strict=True):
            for number, row in enumerate(rows):
                tails = [tail for tail in panel.columns if study.has(panel, tail, row)]
                if tails:
                    estimates = [study.estimate(panel, tail, row, metric) for tail in tails]
                    style: dict[str, Any] = {"color": styles[row].color, "marker": MARKERS[number], "markersize": 3}
                    places = np.array([int(tail) for tail in tails]) + 0.12 * (number - 1.5)
                    draw_estimates(ax, places, estimates, linestyle="none", elinewidth=0.6, **style)
            scale = SCALES.get(metric, "log")
            ax.set_yscale(scale)
            ax.set_ylim(*_limits(study, metric, rows, scale))
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set_title(panel.name, fontsize=9)
            ax.set_xlabel("slots at the tail", fontsize=8)
            ax.tick_params(labelsize=7, which="both")
        axes[0].set_ylabel(SHORT_WORDS[metric], fontsize=8)
    legend_below(figure, line_handles(rows, styles, MARKERS), rows, 2 if len(study.panels) < 3 else len(rows))
    caption = "Every split of windows of several sizes: means over the episodes with 95 % intervals."
    return write_figure(figure, study.options.directory / f"{name}.png", caption)


def _limits(study: Study, metric: str, rows: Sequence[str], scale: str) -> tuple[float, float]:
    """Return the limits of an axis that are the same for all sizes; intervals of trials may be cut."""
    means = [
        study.estimate(panel, column, row, metric).mean
        for panel in study.panels
        for column, row, _ in panel.cells()
        if row in rows
    ]
    most = max(means)
    return (0.8 * min(means), 1.3 * most) if scale == "log" else (0.0, 1.3 * most or 1.0)


def draw_types(study: Study, panel: Panel, row: str, *, name: str) -> Path:
    """Draw mean waiting times by type of job, one axes for each split: the larger a bubble, the more jobs were placed.

    Parameters
    ----------
    study : Study
        Of :func:`desim.experiments.dbf.job_types.perform_by_type`.
    panel : Panel
        Its panel, whose columns are numbers of slots at the tail.
    row : str
        The agents.
    name : str
        Of the file.

    Returns
    -------
    Path
        The file.
    """
    from matplotlib.colors import LogNorm

    tails = [tail for tail in panel.columns if study.has(panel, tail, row)]
    size = int(panel.name.split()[-1])
    across = min(len(tails), 4)
    figure, grid = new_figure(-(-len(tails) // across), across, width=3.0, height=2.8)
    sums = {tail: _sums(study, panel, tail, row) for tail in tails}
    most = max(placed.max() for placed, _ in sums.values())
    drawn = None
    for ax, tail in zip(grid.ravel(), tails, strict=False):
        placed, waits = sums[tail]
        cores, times = placed.nonzero()
        mean = waits[cores, times] / placed[cores, times]
        area = BUBBLE * np.sqrt(placed[cores, times] / most)
        norm = LogNorm(SHORTEST, LONGEST, clip=True)
        drawn = ax.scatter(cores, times, s=area, c=mean, norm=norm, cmap="viridis", edgecolors="black", linewidths=0.3)
        ax.set_title(f"{size - int(tail)}-{tail}", fontsize=9)
        ax.set_xticks(range(len(CORES)), [str(cores) for cores in CORES], fontsize=6)
        ax.set_yticks(range(len(TIMES))[::2], [f"{time:,}" for time in TIMES[::2]], fontsize=7)
        ax.set_xlim(-0.8, len(CORES) - 0.2)
        ax.set_ylim(-0.8, len(TIMES) - 0.2)
        ax.set_xlabel("cores, up to", fontsize=8)
    for ax in grid[:, 0]:
        ax.set_ylabel("run time, up to, s", fontsize=8)
    for ax in grid.ravel()[len(tails) :]:
        ax.set_axis_off()
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=grid, shrink=0.9)
        bar.set_label("mean waiting time of started jobs, s", fontsize=8)
    caption = f"{row}: mean waiting time by type of job, one axes for each split; larger bubbles are more jobs."
    return write_figure(figure, study.options.directory / f"{name}.png", caption)


def _sums(study: Study, panel: Panel, column: str, row: str) -> tuple[np.ndarray, np.ndarray]:
    """Return jobs placed and sums of their waiting times by type, over all episodes."""
    outcomes = study.outcomes[panel.name, column, row]
    placed, waits = (np.sum([outcome[part] for outcome in outcomes], axis=0) for part in ("placed", "placed_waits"))
    return placed, waits
