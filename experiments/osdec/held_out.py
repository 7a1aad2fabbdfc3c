"""Held-out workloads of several origins: rules, plans, search and networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from desim.experiments.drawing import draw_leads
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.osdec.simulate import METRICS, Setting, learned_rows
from desim.experiments.osdec.study import OsdecStudy
from desim.experiments.osdec.workloads import TRACED, day_of, is_present
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.tables import best_rule_table, metric_table, value_table

PANEL, METRIC = "held_out", "total_reward"
WORKLOADS = ("default", "fluctuating", "core-2", "osdec-table-1", *TRACED)
RULES = {name: Choice(name) for name in ("fifo", "largest-revenue", "earliest-deadline", "list-plan")}
"""Rules with which agents are compared."""
NETWORKS = {"desim's network": "score:desim-fluctuating", "desim's, reserving": "score:desim-fluctuating-reserving"}
FIRST_SEED = 5_000
"""First seed; smaller ones were used in the development of the search."""


@dataclass(frozen=True)
class HeldOut(OsdecStudy):
    """Trajectories that no agent was trained or selected on.

    Attributes
    ----------
    moves : tuple of int
        Budgets of the search, in moves per slot.
    workloads : tuple of str
        Workloads; those with missing files are left out.
    """

    seeds: int = 10
    moves: tuple[int, ...] = (10, 100, 1_000, 10_000)
    workloads: tuple[str, ...] = WORKLOADS

    @property
    def seed_list(self) -> list[int]:
        """Seeds of the trajectories."""
        return [FIRST_SEED + seed for seed in super().seed_list]

    def panels(self) -> Sequence[Panel]:
        """Return rules, plans, search and networks on each workload."""
        columns = {case: Setting(case) for case in self.workloads if is_present(case)}
        rows: dict[str, Any] = {
            **RULES,
            "rolling-horizon": Choice("rolling-horizon"),
            "rolling-horizon:learned": {case: Choice(f"rolling-horizon:learned:{day_of(case)}") for case in columns},
            **{f"search, {n:,} moves": Choice(f"search:deferrable:{METRIC}:{n}") for n in self.moves[: self._budgets]},
            **{row: Choice(name) for row, name in NETWORKS.items()},
            **{f"{row} as printed": choice for row, choice in learned_rows().items() if row == "OSDEC"},
        }
        return [Panel(PANEL, "workload", columns, rows)]

    @property
    def _budgets(self) -> int:
        """Number of budgets; a trial uses only the smallest."""
        return 1 if self.quick else len(self.moves)

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield leads over the best rule, totals, decision times, and the figure."""
        missing = [case for case in self.workloads if case not in frame.columns(PANEL)]
        if missing:
            yield Paragraph(f"Missing workloads: {', '.join(missing)}.")
        how = f"{len(self.seed_list)} trajectories"
        agents = {row: [row] for row in frame.rows(PANEL) if row not in RULES}
        title = f"Total reward above that of the best rule, percent, paired by trajectory, {how}"
        yield best_rule_table(frame, PANEL, METRIC, title, rules=list(RULES), agents=agents, better="higher")
        yield Paragraph("There is no percentage where a total reward of the best rule is not above 0.")
        for column in frame.columns(PANEL):
            yield metric_table(frame, PANEL, column, {name: name for name in METRICS}, f"{column}, core-slots")
        yield value_table(frame, PANEL, "decision_ms", "Processor time per decision, ms")
        figure = draw_leads(frame, PANEL, METRIC, rules=list(RULES), agents=agents, better="higher")
        yield Drawing("held_out.png", "Total reward above that of the best rule of each workload, percent.", figure)
