"""Workloads of several origins that no training and no choice of weights has seen: rules, search, what imitates it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

import numpy as np

from desim.experiments.blocks import Block, Check, Checks, Drawing, Table, with_interval
from desim.experiments.dbf.agents import REFERENCE, RULE_ROWS, control_rows, find_weights, other_windows
from desim.experiments.dbf.simulate import METRICS, Setting
from desim.experiments.dbf.study import METRIC_WORDS, Measured, Study, by_agent, data, heading, remarks
from desim.experiments.dbf.workloads import KTH, SOURCES, TRACE
from desim.experiments.drawing import MARKERS, legend_below, new_figure
from desim.experiments.measured import Choice, Panel
from desim.experiments.study import run_as_program
from desim.plotting.colors import line_styles

TITLE = "unseen workloads"
METRIC = "waiting_time_mean"
SHOWN = (METRIC, "waiting_time_p99", "waiting_time_max", "bounded_slowdown_mean", "utilization")
WORKLOADS = (TRACE, KTH, *(name for name in SOURCES if "," in name))
RULES = RULE_ROWS | control_rows(("shortest", "reserving"), ((16, 16),))
FAMILIES = ("imitating-search", "lublin256-any")
"""Networks that score the jobs of any cluster: those that imitate the search, and those that learned by themselves."""


@dataclass(frozen=True)
class Unseen(Study):
    """Pieces of logs, or of generated traces, each begun with an empty cluster.

    Attributes
    ----------
    num_jobs : int
        Jobs of an episode.
    moves : tuple of int
        Budgets of the search, in moves a decision.
    workloads : tuple of str
        Which, of :data:`desim.experiments.dbf.workloads.SOURCES`.
    """

    block: ClassVar[int] = 5

    seeds: int = 25
    num_jobs: int = 600
    moves: tuple[int, ...] = (30, 300, 3_000)
    workloads: tuple[str, ...] = WORKLOADS

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks and files."""
        weights = find_weights(self.weights)
        networks = {
            row: choice for family in FAMILIES for row, choice in other_windows(weights, ((16, 16),), family).items()
        }
        searches = {f"search, {moves:,} moves": Choice(f"search:batch:waiting_time:{moves}") for moves in self.moves}
        columns = {name: Setting(name, num_jobs=self.num_jobs) for name in self.workloads}
        panel = Panel(TITLE, "workload", columns, RULES | searches | networks)
        found = self.measure(panel, reference=REFERENCE)
        yield from heading(found, TITLE)
        best = {column: best_of(found, panel, column) for column in columns}
        tried = [*searches, *networks]
        yield against_best(found, panel, best, tried)
        for column in columns:
            yield by_agent(found, panel, column, SHOWN, title=column, against=[best[column]])
        yield from remarks(found)
        checks = [check for row in tried for check in below_best(found, panel, best, row)]
        yield Checks(checks)
        yield data(found, TITLE, METRICS, checks)
        yield differences(found, panel, best, tried)


def best_of(found: Measured, panel: Panel, column: str) -> str:
    """Return the rule with the shortest mean wait on a workload."""
    return min(RULES, key=lambda row: found.estimate(panel, column, row, METRIC).mean)


def against_best(found: Measured, panel: Panel, best: dict[str, str], rows: list[str]) -> Table:
    """Return how far some agents are from the best rule of each workload, in per cent of its mean wait."""
    table = []
    for column, rule in best.items():
        mean = found.estimate(panel, column, rule, METRIC).mean
        differences = [found.difference(panel, column, row, METRIC, rule) for row in rows]
        shares = [percent(one.mean, one.half_width, mean) for one in differences]
        table.append([column, rule, with_interval(found.estimate(panel, column, rule, METRIC)), *shares])
    heads = ["workload", "best rule", f"its {METRIC_WORDS[METRIC]}", *(f"{row},\n%" for row in rows)]
    return Table("Mean wait less that of the best rule, paired by episode", heads, table)


def differences(found: Measured, panel: Panel, best: dict[str, str], rows: list[str]) -> Drawing:
    """Draw how far agents are from the best rule of each workload, with intervals."""
    figure, ((ax,),) = new_figure(1, 1, width=7.0, height=1.5 + 0.14 * len(best) * (len(rows) + 2))
    styles = line_styles(rows)
    offsets = np.linspace(-0.35, 0.35, len(rows)) if len(rows) > 1 else np.zeros(1)
    for row, marker, offset in zip(rows, cycle(MARKERS), offsets):
        for place, (column, rule) in enumerate(best.items()):
            mean = found.estimate(panel, column, rule, METRIC).mean
            if not mean:  # nobody waits
                continue
            one = found.difference(panel, column, row, METRIC, rule)
            label = row if not place else None
            share, half = 100 * one.mean / mean, 100 * np.nan_to_num(one.half_width) / mean
            ax.errorbar(share, place + offset, xerr=half, color=styles[row].color, marker=marker, ms=4, label=label)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(best)), [f"{column}\n{rule}" for column, rule in best.items()], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("mean wait less that of the best rule, %")
    ax.grid(axis="x", color="lightgrey", linewidth=0.5)
    handles, labels = ax.get_legend_handles_labels()
    legend_below(figure, handles, labels, 3)
    return Drawing("unseen.png", "Mean wait less that of the best rule of each workload, in per cent of it.", figure)


def percent(difference: float, half_width: float, mean: float) -> str:
    """Return a difference and its interval in per cent of a mean, which may be 0."""
    return f"{100 * difference / mean:+.1f} ± {100 * half_width / mean:.1f}" if mean else "-"


def below_best(found: Measured, panel: Panel, best: dict[str, str], row: str) -> Iterator[Check]:
    """Yield of each workload whether an agent's mean wait is below that of the best rule, beyond the interval."""
    for column, rule in best.items():
        difference = found.difference(panel, column, row, METRIC, rule)
        text = f"{column}: {row} less {rule}, {difference.mean:+,.0f} ± {difference.half_width:,.0f} s"
        yield Check(text, difference.high < 0)


if __name__ == "__main__":
    sys.exit(run_as_program(Unseen))
