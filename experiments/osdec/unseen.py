"""Workloads of several origins that nothing was trained on or chosen by: rules, plans, networks, and search."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

import numpy as np
from matplotlib.ticker import NullFormatter

from desim.experiments.blocks import Block, Check, Checks, Drawing, Paragraph, Table, short, with_interval
from desim.experiments.drawing import new_figure
from desim.experiments.measured import Choice, Panel
from desim.experiments.osdec.agents import MORE_ROWS, PLANNING_ROWS, VARIANTS, Trained, learned_rows
from desim.experiments.osdec.simulate import Setting
from desim.experiments.osdec.study import Measured, Study, data
from desim.experiments.osdec.timed import DECISION, perform_timed
from desim.experiments.osdec.workloads import TRACED, is_present
from desim.experiments.study import run_as_program
from desim.plotting.colors import POLICY_COLORS
from desim.statistics import Estimate

TITLE = "Unseen workloads"
WORKLOADS = ("default", "fluctuating", "volatile", "core-2", *TRACED)
REFERENCE = "rolling horizon, last value"
RULES = {row: MORE_ROWS[row] for row in ("FIFO, passing over", "largest revenue", "earliest deadline")}
PLANS = {
    "list plan, best of five": PLANNING_ROWS["list plan, best of five"],
    REFERENCE: PLANNING_ROWS[REFERENCE],
    "rolling horizon, learned forecast": Choice("rolling-horizon", (("forecast", "learned"),)),
    "rolling horizon, oracle": PLANNING_ROWS["rolling horizon, oracle"],
}
NETWORKS = ("default", "fluctuating")
"""The workloads whose networks are tried; they know the capacity as it is."""

MARKERS = "os^vDPX*<"

FIRST_SEED = 5_000
"""Others were used while the search was made."""


@dataclass(frozen=True)
class Unseen(Study):
    """Trajectories that agents meet for the first time.

    Attributes
    ----------
    moves : tuple of int
        Budgets of the search, in moves a slot.
    workloads : tuple of str
        Which; those whose files are not there are left out.
    """

    block: ClassVar[int] = 5

    seeds: int = 10
    moves: tuple[int, ...] = (10, 100, 1_000, 10_000)
    workloads: tuple[str, ...] = WORKLOADS

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""
        return [FIRST_SEED + seed for seed in super().seed_list]

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and a figure."""
        searches = {
            f"search, {moves:,} moves": Choice(f"search:deferrable:total_reward:{moves}") for moves in self.moves
        }
        there = [case for case in self.workloads if is_present(case)]
        if len(there) < len(self.workloads):
            yield Paragraph(f"Not there: {', '.join(case for case in self.workloads if case not in there)}.")
        columns = {case: Setting(case) for case in there}
        panel = Panel(TITLE, "workload", columns, RULES | PLANS | searches | self._networks())
        from desim.experiments.osdec.learned import perform_learned_timed

        found = self.measure(panel, reference=REFERENCE, by=perform_timed, learned_by=perform_learned_timed)
        yield from found.runs
        yield from self.heading(TITLE, f"{len(self.seed_list)} trajectories of each, means with 95 % intervals")
        yield above_reference(found, panel)
        yield decision_times(found, panel)
        for column in columns:
            yield totals(found, panel, column)
        checks = [check for row in searches for check in against_reference(found, panel, row)]
        yield Checks(checks)
        yield from found.faults()
        yield data(found, TITLE, checks)
        yield drawing(found, panel)

    def _networks(self) -> dict[str, Choice | Trained]:
        rows: dict[str, Choice | Trained] = {}
        if not self.heuristics_only:
            for case in NETWORKS:
                found = learned_rows(self, case)
                rows |= {f"{row}, trained on {case}": found[row] for row in VARIANTS if row in found}
        return rows


def share_above(found: Measured, panel: Panel, column: str, row: str) -> Estimate:
    """Return by how many percent of the reference's mean a total reward is above it, paired by trajectory."""
    one = found.difference(panel, column, row, "total_reward")
    scale = 100.0 / abs(found.estimate(panel, column, REFERENCE, "total_reward").mean)
    return one._replace(mean=one.mean * scale, half_width=one.half_width * scale)


def above_reference(found: Measured, panel: Panel) -> Table:
    """Return how far all agents are above the rolling horizon on each workload."""
    rows = [
        [row, *(with_interval(share_above(found, panel, column, row), 2) for column in panel.columns)]
        for row in panel.rows
        if row != REFERENCE
    ]
    title = f"Total reward above that of the {REFERENCE}, in % of it, paired by trajectory"
    return Table(title, ["", *panel.columns], rows)


def decision_times(found: Measured, panel: Panel) -> Table:
    """Return how long a decision takes."""
    rows = [[row, *(short(_decision(found, panel, column, row)) for column in panel.columns)] for row in panel.rows]
    return Table("Processor time of a decision, ms", ["", *panel.columns], rows)


def _decision(found: Measured, panel: Panel, column: str, row: str) -> float:
    return float(np.median(found.values(panel, column, row, DECISION)))


def totals(found: Measured, panel: Panel, column: str) -> Table:
    """Return what rewards consist of on a workload."""
    metrics = ("total_reward", "utilization", "time_delay", "violation_penalty", "acceptance")
    rows = [
        [row, *(with_interval(found.estimate(panel, column, row, metric)) for metric in metrics)] for row in panel.rows
    ]
    return Table(f"{column}, core-slots", ["", *metrics], rows)


def against_reference(found: Measured, panel: Panel, row: str) -> Iterator[Check]:
    """Yield of each workload whether an agent is not below the rolling horizon beyond its interval, and its time."""
    for column in panel.columns:
        share = share_above(found, panel, column, row)
        time_share = _decision(found, panel, column, row) / _decision(found, panel, column, REFERENCE)
        verdict = "above" if share.low > 0 else "below" if share.high < 0 else "level with"
        text = f"{column}: {row}, {with_interval(share, 2)} %, {verdict} the {REFERENCE}, {time_share:.2f} of its time"
        yield Check(text, share.high >= 0)


def drawing(found: Measured, panel: Panel) -> Drawing:
    """Draw how far agents are above the rolling horizon, by the time of a decision; the search is a line."""
    searches = [row for row in panel.rows if row.startswith("search, ")]
    others = [row for row in panel.rows if row not in (*RULES, *searches, REFERENCE)]
    series = {"search, " + " / ".join(row.split()[1] for row in searches) + " moves": searches}
    series |= {row: [row] for row in others}
    wide = 4
    high = -(-(len(panel.columns) + 1) // wide)
    figure, grid = new_figure(high, wide, width=2.7, height=2.6)
    places = [ax for row in grid for ax in row]
    for column, ax in zip(panel.columns, places, strict=False):
        for (label, rows), color, marker in zip(series.items(), cycle(POLICY_COLORS), cycle(MARKERS), strict=False):
            shares = [share_above(found, panel, column, row) for row in rows]
            times = [_decision(found, panel, column, row) for row in rows]
            means, widths = [one.mean for one in shares], np.nan_to_num([one.half_width for one in shares])
            ax.errorbar(times, means, yerr=widths, label=label, color=color, marker=marker, ms=4, linewidth=0.9)
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.axvline(_decision(found, panel, column, REFERENCE), color="lightgrey", linewidth=0.8)
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(column, loc="left", fontsize=8)
        ax.tick_params(labelsize=7)
    for ax in places[len(panel.columns) :]:
        ax.axis("off")
    for row in grid:
        row[0].set_ylabel("above the rolling horizon, %", fontsize=7)
    for ax in grid[-1]:
        ax.set_xlabel("ms a decision; grey line: the rolling horizon", fontsize=7)
    handles, labels = places[0].get_legend_handles_labels()
    places[len(panel.columns)].legend(handles, labels, fontsize=6, loc="center", frameon=False)
    return Drawing("unseen.png", f"Total reward above that of the {REFERENCE}, by the time of a decision.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Unseen))
