"""Controls: every learned agent beside the rules in its own window, by waiting time and under three rewards."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.experiments.blocks import Block, Checks, Drawing, Table, with_interval
from desim.experiments.dbf.agents import CONTROLS, LEARNED, SEED, SPLIT_WINDOW, Weights, control, find_weights
from desim.experiments.dbf.simulate import Setting
from desim.experiments.dbf.study import METRIC_WORDS, Measured, Study, beaten, by_agent, data, heading, remarks
from desim.experiments.drawing import legend_below, line_handles, new_figure
from desim.experiments.measured import Choice, Panel
from desim.experiments.study import run_as_program
from desim.plotting.colors import line_styles
from desim.statistics import mean_interval, paired_difference

TITLE = "Controls"
COLUMN = "open"
RETURNS = ("return_paper", "return_scaled", "return_waiting")
SHOWN = ("waiting_time_mean", "queue_length_mean", "waiting_time_p99", *RETURNS)
RULES = {**CONTROLS, "first in the window": "first"}
QUICK_WINDOWS = ((9, 1), (16, 16))
#: Inches that a line of the figure takes.
LINE_HEIGHT = 0.1
#: Percentages that an axis of differences is marked at, on both sides.
TICKS = (2, 5, 10, 20, 50, 100, 200, 500, 1_000)


@dataclass(frozen=True)
class Controls(Study):
    """What is learned beyond what the window itself brings.

    Attributes
    ----------
    windows : tuple of pairs of ints
        Slots at head and tail, for agents for all windows, and for the rules where nothing is trained; trained
        agents of one window are measured in it, whichever it is.
    """

    windows: tuple[tuple[int, int], ...] = (
        (10, 0),
        (20, 0),
        (9, 1),
        (19, 1),
        (4, 4),
        (5, 5),
        (8, 8),
        (10, 10),
        (16, 16),
        (32, 32),
    )

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        weights = find_weights(self.weights)
        panels = panels_of(weights, QUICK_WINDOWS if self.quick else self.windows)
        found = self.measure(*panels, reference="shortest in the window")
        is_trained = any(one.agent == SPLIT_WINDOW for one in weights.values())
        yield from heading(found, TITLE, [] if is_trained else ["all learned agents"])
        for panel in panels:
            yield by_agent(found, panel, COLUMN, SHOWN, title=panel.name, against=list(CONTROLS))
        yield from _seeds(found)
        yield from remarks(found)
        checks = [
            check
            for panel in panels
            for check in beaten(found, panel, COLUMN, _trained(panel), list(CONTROLS)[:2], metrics=SHOWN[:1])
        ]
        yield Checks(checks)
        yield data(found, TITLE, (*SHOWN, "waiting_time_max", "num_cycles"), checks)
        yield _drawing(found)


def panels_of(weights: Mapping[str, Weights], windows: tuple[tuple[int, int], ...]) -> list[Panel]:
    """Return a panel for each window: the agents that are trained for it or for all, and the rules.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`~desim.experiments.dbf.agents.find_weights`; those for clusters of 256 cores count.
    windows : tuple of pairs of ints
        Beside those that something is trained for.

    Returns
    -------
    list of Panel
        By size and tail.
    """
    trained: dict[tuple[int, int], dict[str, Choice]] = {window: {} for window in windows}
    ours = {name: one for name, one in weights.items() if one.agent == SPLIT_WINDOW and name.startswith("lublin256")}
    general = [name for name in ours if SEED.sub("", name).endswith("-any")]
    for name, one in ours.items():
        if name not in general:
            trained.setdefault(one.window, {})[name] = one.choice()
    for window in trained:
        if window[1]:
            trained[window] |= {name: ours[name].choice(window) for name in general}
    found = []
    for head, tail in sorted(trained, key=lambda window: (sum(window), window[1])):
        rules = {row: control(rule, head, tail) for row, rule in RULES.items()}
        found.append(Panel(f"window {head}-{tail}", "episodes", {COLUMN: Setting()}, trained[head, tail] | rules))
    return found


def _trained(panel: Panel) -> list[str]:
    return [row for row in panel.rows if row not in RULES]


def _seeds(found: Measured) -> Iterator[Table]:
    """Yield the means over the seeds of a training where there are several."""
    lines = []
    for panel in found.panels:
        groups: dict[str, list[str]] = {}
        for row in _trained(panel):
            groups.setdefault(SEED.sub("", row), []).append(row)
        for name, rows in groups.items():
            if len(rows) > 1:
                waits = np.array([found.values(panel, COLUMN, row, SHOWN[0]) for row in rows])
                means = waits.mean(1)
                cells = [with_interval(mean_interval(waits.mean(0))), f"{means.min():,.0f} to {means.max():,.0f}"]
                for other in CONTROLS:
                    theirs = found.values(panel, COLUMN, other, SHOWN[0])
                    cells.append(with_interval(paired_difference(waits.mean(0), theirs), 0))
                lines.append([f"{panel.name}, {name}", str(len(rows)), *cells])
    if lines:
        heads = ["", "seeds", METRIC_WORDS[SHOWN[0]], "means of seeds", *(f"less\n{other}" for other in CONTROLS)]
        yield Table("Several seeds of the same training", heads, lines)


def _drawing(found: Measured) -> Drawing:
    """Draw waiting times less that of the reference in the same window, paired, in percent of its mean."""
    trained = {panel.name: _trained(panel) for panel in found.panels}
    most = max((len(rows) for rows in trained.values()), default=0)
    others = [row for row in CONTROLS if row != found.reference]
    styles = line_styles([LEARNED, *CONTROLS])
    lines = sum(len(rows) + len(others) + 1 for rows in trained.values())
    figure, grid = new_figure(1, 1, width=7.5, height=1.2 + LINE_HEIGHT * lines)
    ax, line, middles = grid[0, 0], 0, []
    for panel in found.panels:
        rows = [(row, row) for row in others] + [(row, LEARNED) for row in trained[panel.name]]
        middles.append(line + (len(rows) - 1) / 2)
        share = 100.0 / found.estimate(panel, COLUMN, found.reference, SHOWN[0]).mean
        for row, kind in rows:
            above = found.difference(panel, COLUMN, row, SHOWN[0])
            style: dict[str, Any] = {"color": styles[kind].color, "marker": "o" if kind == LEARNED else "D"}
            half = np.nan_to_num(above.half_width)
            ax.errorbar(share * above.mean, line, xerr=share * half, linestyle="none", markersize=4.5, **style)
            line += 1
        ax.axhline(line, color="lightgrey", linewidth=0.5)
        line += 1
    ax.axvline(0.0, color="grey", linewidth=0.8)
    limits = ax.get_xlim()
    ax.set_xscale("symlog", linthresh=TICKS[2])
    ticks = [sign * tick for tick in TICKS for sign in (-1, 1) if limits[0] <= sign * tick <= limits[1]]
    ax.set_xticks([0, *ticks], ["0", *(f"{tick:+,}" for tick in ticks)], fontsize=8)
    ax.minorticks_off()
    ax.set_yticks(middles, [panel.name for panel in found.panels], fontsize=8)
    ax.set_ylim(line - 0.5, -1.0)
    ax.set_xlabel(f"waiting time less that of {found.reference}, % of its mean, paired by episode", fontsize=9)
    ax.grid(axis="x", color="lightgrey", linewidth=0.5)
    shown = [*([LEARNED] if most else []), *others]
    handles = line_handles(shown, styles, ["o" if one == LEARNED else "D" for one in shown])
    legend_below(figure, handles, shown, len(shown))
    caption = (
        f"Waiting time of learned agents and of rules in the same window, less that of {found.reference}, "
        "in percent of its mean."
    )
    return Drawing("controls.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Controls))
