"""Figure 5: every split of windows of several sizes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from desim.experiments.blocks import Beside, Besides, Block, Check, Checks, Drawing
from desim.experiments.dbf.agents import CONTROLS, LEARNED, find_weights, untrained, window_rows
from desim.experiments.dbf.simulate import Setting
from desim.experiments.dbf.study import METRIC_WORDS, Measured, Study, beaten, by_column, data, heading, remarks
from desim.experiments.drawing import MARKERS, draw_estimates, legend_below, line_handles, new_figure
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program
from desim.plotting.axes import group_digits
from desim.plotting.colors import line_styles
from desim.statistics import Estimate, paired_difference

TITLE = "Figure 5"
PAPER = (
    "The paper: at 8, 10, 16 and 20 slots more tail helps, one slot already strongly; at 20 slots waiting time "
    "falls by 49 % and queue length by 50 %; at 32 and 64 the gain is small, and too much tail costs."
)
SIZES = (8, 10, 16, 20, 32, 64)
"""The paper's window sizes."""
TAIL_HELPS = (8, 10, 16, 20)
"""Window sizes at which slots at the tail help, and one already strongly."""
HALVED, HALVED_SIZE = {"waiting_time_mean": 0.49, "queue_length_mean": 0.50}, 20
"""By how much the best split of 20 slots is below 20 slots at the head."""

SHOWN = ("waiting_time_mean", "queue_length_mean")
WRITTEN = (*SHOWN, "started_waiting_time_mean", "waiting_time_p99", "waiting_time_max", "utilization")
#: With --quick: the sizes.
QUICK_SIZES = (8, 20)
#: Scales of what may be 0; all else is drawn on logarithms.
SCALES = {"invisible_jobs": "symlog", "hidden_share": "linear"}


@dataclass(frozen=True)
class Windows(Study):
    """Windows of several sizes; with ``quick`` those of 8 and 20 slots, with few of their splits.

    Attributes
    ----------
    sizes : tuple of int
        Slots of the windows.
    tails : tuple of int
        Slots at the tail, of each size those that it can have; all if empty.
    """

    sizes: tuple[int, ...] = SIZES
    tails: tuple[int, ...] = ()

    def tails_of(self, size: int) -> tuple[int, ...]:
        """Return the numbers of slots at the tail."""
        if self.tails:
            return tuple(tail for tail in self.tails if tail <= size)
        return (0, 1, size // 2) if self.quick else tuple(range(size + 1))

    def measure_windows(self) -> tuple[Measured, list[str]]:
        """Return what learned agents and controls bring, and the windows for which nothing is trained."""
        weights = find_weights(self.weights)
        panels, missing = [], []
        for size in self.sizes:
            if size in QUICK_SIZES or not self.quick:
                tails = self.tails_of(size)
                rows = window_rows(weights, size, tails)
                missing += untrained(size, tails, rows[LEARNED])
                panels.append(Panel(f"M = {size}", "tail", {str(tail): Setting() for tail in tails}, rows))
        return self.measure(*panels, reference="shortest in the window"), missing


@dataclass(frozen=True)
class Figure5(Windows):
    """Waiting time and queue length with every split, learned and by rules in the same window."""

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        found, missing = self.measure_windows()
        yield from heading(found, TITLE, missing)
        yield from (by_column(found, panel, metric) for panel in found.panels for metric in SHOWN)
        yield from remarks(found, PAPER)
        yield Besides(list(_beside(found)), self.is_reduced)
        checks = tail_checks(found) + halving_checks(found)
        yield Checks(checks)
        against = [
            check
            for panel in found.panels
            for tail in panel.columns
            for check in beaten(found, panel, tail, [LEARNED], CONTROLS, metrics=SHOWN[:1])
        ]
        yield Checks(against)
        yield data(found, TITLE, WRITTEN, checks + against)
        yield drawing(found, SHOWN)


def _of_sizes(found: Measured, sizes: Sequence[int]) -> list[Panel]:
    return [panel for panel in found.panels if panel.name in {f"M = {size}" for size in sizes}]


def _best(found: Measured, panel: Panel, row: str, metric: str) -> tuple[dict[str, float], str] | None:
    """Return means by the number of slots at the tail, and the number with the least; None if there is no choice.

    It is the least of several means, so it is a little too good.
    """
    tails = [tail for tail in panel.columns if found.has(panel, tail, row)]
    if "0" not in tails or len(tails) < 2:
        return None
    means = {tail: found.estimate(panel, tail, row, metric).mean for tail in tails}
    return means, min(means, key=means.__getitem__)


def tail_checks(found: Measured) -> list[Check]:
    """Tell for each row whether one slot at the tail is better than none, at the sizes at which it should be."""
    checks = []
    for panel in _of_sizes(found, TAIL_HELPS):
        for row in (row for row in panel.rows if all(found.has(panel, tail, row) for tail in ("0", "1"))):
            for metric in HALVED:
                one, none = (found.values(panel, tail, row, metric) for tail in ("1", "0"))
                difference = paired_difference(one, none)
                text = (
                    f"{panel.name}, {row}: {METRIC_WORDS[metric]} with one slot at the tail {one.mean():,.1f}, "
                    f"with none {none.mean():,.1f}, difference {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
                )
                checks.append(Check(text, difference.high < 0))
    return checks


def halving_checks(found: Measured) -> list[Check]:
    """Tell for each row whether the best split at least halves waiting time and queue length of the head alone."""
    checks = []
    for panel in _of_sizes(found, (HALVED_SIZE,)):
        for row in panel.rows:
            for metric, paper in HALVED.items():
                best = _best(found, panel, row, metric)
                if best is not None:
                    means, tail = best
                    saved = 1 - means[tail] / means["0"]
                    text = (
                        f"{panel.name}, {row}: {METRIC_WORDS[metric]} falls from {means['0']:,.1f} to "
                        f"{means[tail]:,.1f} with {tail} slots at the tail, by {saved:.0%}, want 50 %; the paper "
                        f"{paper:.0%}"
                    )
                    checks.append(Check(text, saved >= 0.5))
    return checks


def _beside(found: Measured) -> Iterator[Beside]:
    """Yield by how many percent the best split of a learned window is below the head alone, without intervals."""
    for panel in _of_sizes(found, (HALVED_SIZE,)):
        for metric, paper in HALVED.items():
            best = _best(found, panel, LEARNED, metric)
            if best is not None:
                means, tail = best
                saved = 100.0 * (1.0 - means[tail] / means["0"])
                ours = Estimate(saved, math.nan, found.study.num_episodes, 0.95)
                words = METRIC_WORDS[metric].split(",")[0]
                what = f"{words} of the best split of {HALVED_SIZE} slots below that of {HALVED_SIZE} at the head, %"
                yield Beside(what, 100.0 * paper, ours, "more")


def drawing(found: Measured, metrics: Sequence[str]) -> Drawing:
    """Draw metrics against the number of slots at the tail, a column of axes for each size of the window."""
    from matplotlib.ticker import LogLocator

    panels = found.panels
    figure, grid = new_figure(len(metrics), len(panels), width=2.9, height=2.7)
    rows = [row for row in (LEARNED, *CONTROLS) if any(panel.rows[row] for panel in panels)]
    styles = line_styles([LEARNED, *CONTROLS])
    words = METRIC_WORDS | {"hidden_share": "decisions with invisible jobs"}
    for metric, axes in zip(metrics, grid, strict=True):
        for panel, ax in zip(panels, axes, strict=True):
            for number, row in enumerate(rows):
                tails = [tail for tail in panel.columns if found.has(panel, tail, row)]
                if tails:
                    estimates = [found.estimate(panel, tail, row, metric) for tail in tails]
                    places = np.array([int(tail) for tail in tails]) + 0.12 * (number - 1.5)
                    look = {"color": styles[row].color, "marker": MARKERS[number], "linestyle": "none"}
                    draw_estimates(ax, places, estimates, markersize=3, elinewidth=0.6, **look)
            scale = SCALES.get(metric, "log")
            ax.set_yscale(scale)
            if scale == "log":
                ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                group_digits(ax.yaxis)
            ax.set_ylim(*_limits(found, metric, rows, scale))
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set_title(panel.name, fontsize=9)
            ax.set_xlabel("slots at the tail", fontsize=8)
            ax.tick_params(labelsize=7, which="both")
        axes[0].set_ylabel(words[metric], fontsize=8)
    legend_below(figure, line_handles(rows, styles, MARKERS), rows, 2 if len(panels) < 3 else len(rows))
    caption = "Every split of windows of several sizes: means over the episodes with 95 % intervals."
    return Drawing(f"{found.study.name}.png", caption, figure)


def _limits(found: Measured, metric: str, rows: Sequence[str], scale: str) -> tuple[float, float]:
    """Return the limits of an axis that are the same for all sizes; intervals of trials may be cut."""
    cells = ((panel, column, row) for panel in found.panels for column, row, _ in panel.cells() if row in rows)
    means = [found.estimate(*cell, metric).mean for cell in cells]
    most = max(means)
    return (0.8 * min(means), 1.3 * most) if scale == "log" else (0.0, 1.3 * most or 1.0)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure5))
