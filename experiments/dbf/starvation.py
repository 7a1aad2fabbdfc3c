"""Starvation: the longest waits beside the mean, of all rules and learned agents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from desim.experiments.blocks import Block, Check, Checks, Drawing
from desim.experiments.dbf.agents import (
    BASELINES,
    BOUND,
    SEED,
    control_rows,
    find_weights,
    inspector_rows,
    other_windows,
)
from desim.experiments.dbf.simulate import METRICS, Setting
from desim.experiments.dbf.study import (
    METRIC_WORDS,
    Measured,
    Study,
    beaten,
    by_agent,
    data,
    heading,
    kind_styles,
    remarks,
)
from desim.experiments.drawing import new_figure
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "Starvation"
OPEN, CLOSED = "open, 1,000 started", "closed, 1,000 jobs"
COLUMNS = {OPEN: Setting(), CLOSED: Setting(arrivals="closed")}
SHOWN = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max", "queue_length_mean", "jobs_queued")
FAIR = "-fair"


@dataclass(frozen=True)
class Starvation(Study):
    """Mean, 99th percentile and longest wait; FCFS with EASY is the bound.

    Attributes
    ----------
    windows : tuple of pairs of ints
        Slots at head and tail, for rules, and for agents for all windows.
    """

    windows: tuple[tuple[int, int], ...] = ((0, 10), (5, 5), (9, 1), (16, 16), (32, 32))

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and figures."""
        weights = find_weights(self.weights)
        trained = other_windows(weights, self.windows, "lublin256")
        fair = [row for row in trained if SEED.sub("", row).endswith(FAIR)]
        rules = control_rows(("shortest", "reserving"), self.windows)
        inspectors = inspector_rows(weights)
        panel = Panel(TITLE, "episodes", COLUMNS, trained | inspectors | BASELINES | rules)
        found = self.measure(panel, reference=BOUND)
        yield from heading(found, TITLE, [] if fair else ["fair agents"])
        yield from (by_agent(found, panel, column, SHOWN, title=f"Longest waits, {column}") for column in COLUMNS)
        yield from remarks(found)
        checks = fairness_checks(found, panel, OPEN, fair)
        yield Checks(checks)
        yield data(found, TITLE, METRICS, checks)
        for column, name in ((OPEN, "starvation"), (CLOSED, "starvation_closed")):
            yield _drawing(found, column, name, list(trained), list(inspectors))


def fairness_checks(found: Measured, panel: Panel, column: str, rows: Iterable[str]) -> list[Check]:
    """Tell whether fair agents keep the longest wait within that of EASY over FCFS, and still wait less on average.

    Of the mean over episodes of the longest wait, and of the mean wait, whose difference is paired.
    """
    checks = []
    bound = found.estimate(panel, column, BOUND, "waiting_time_max").mean
    for row in rows:
        longest = found.estimate(panel, column, row, "waiting_time_max").mean
        text = f"longest wait, mean over episodes: {row} {longest:,.0f} s, {BOUND} {bound:,.0f} s"
        checks.append(Check(text, longest <= bound))
        checks += beaten(found, panel, column, [row], [BOUND], metrics=["waiting_time_mean"])
    return checks


def _drawing(found: Measured, column: str, name: str, learned: Sequence[str], inspectors: Sequence[str]) -> Drawing:
    """Draw the longest wait and the 99th percentile against the mean, with the bound."""
    from matplotlib.lines import Line2D

    (panel,) = found.panels
    figure, grid = new_figure(1, 2, width=5.6, height=4.8)
    means = {row: found.estimate(panel, column, row, "waiting_time_mean").mean for row in panel.rows}
    rows = sorted(means, key=means.__getitem__)
    styles = kind_styles(rows, learned, inspectors)
    for ax, metric in zip(grid[0], ("waiting_time_max", "waiting_time_p99"), strict=True):
        for number, row in enumerate(rows, 1):
            longest = found.estimate(panel, column, row, metric).mean
            ax.plot(means[row], longest, "o", color=styles[row].color, markersize=4)
            ax.annotate(str(number), (means[row], longest), fontsize=6, xytext=(3, 2), textcoords="offset points")
        most = found.estimate(panel, column, BOUND, metric).mean
        ax.axhline(most, color="grey", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(METRIC_WORDS["waiting_time_mean"])
        ax.set_ylabel(f"{METRIC_WORDS[metric]}, mean over episodes")
        ax.set_title(f"dotted: {BOUND}", loc="left", fontsize=9)
        ax.tick_params(labelsize=8, which="both")
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4}
    handles = [Line2D([], [], color=styles[row].color, **look) for row in rows]
    labels = [f"{number}  {row}" for number, row in enumerate(rows, 1)]
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=6, ncols=1 + len(rows) // 40)
    return Drawing(f"{name}.png", f"Longest waits against mean waits; the line is {BOUND}.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Starvation))
