"""Held-out workloads of several origins: rules, search, and networks that imitate it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from desim.agents.learning.pretrained import pretrained_names
from desim.experiments.dbf.simulate import Setting
from desim.experiments.dbf.study import RULES, Study, named, window_rules
from desim.experiments.dbf.workloads import KTH, SOURCES, num_episodes
from desim.experiments.drawing import draw_leads
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.learning_curves import with_weights
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.tables import best_rule_table, metric_table
from desim.formatting import how_many

PANEL, METRIC = "held_out", "waiting_time_mean"
WORKLOADS = (KTH, *(name for name in SOURCES if "," in name))
EASY = {f"{one.upper()}, EASY": Choice(f"easy-{one}") for one in ("sjf", "f1", "wfp3", "unicep")}
RULE_ROWS = (
    RULES | EASY | {f"{rule}, 16-16": one for rule, one in window_rules(16, 16, ("shortest", "reserving")).items()}
)
IMITATING = "imitating-search"
SHOWN = (METRIC, "waiting_time_p99", "waiting_time_max", "bounded_slowdown_mean", "utilization")


@dataclass(frozen=True)
class HeldOut(Study):
    """Pieces of logs, or of generated traces (one per trace), each starting on an empty cluster.

    Attributes
    ----------
    seeds : int
        Largest number of blocks of five pieces per workload; logs have as many as their length allows.
    num_jobs : int
        Number of jobs per piece; pieces of a log begin this many jobs apart.
    moves : tuple of int
        Budgets of the search, in moves per decision.
    workloads : tuple of str
        Workloads, keys of :data:`desim.experiments.dbf.workloads.SOURCES`.
    """

    seeds: int = 20
    num_jobs: int = 600
    moves: tuple[int, ...] = (30, 300)
    workloads: tuple[str, ...] = WORKLOADS

    def seeds_of(self, setting: Any) -> list[int]:
        """Return the available blocks, at most as many as requested."""
        there = -(-num_episodes(setting.workload, setting.num_jobs) // setting.episodes)
        return self.seed_list[:there]

    @property
    def agents(self) -> dict[str, Choice]:
        """Agents compared with the rules: searches, and networks that score the jobs of any cluster."""
        found = {f"search, {moves:,} moves": Choice(f"search:batch:waiting_time_mean:{moves}") for moves in self.moves}
        for name in pretrained_names("split-window"):
            if name == "desim-any" or name.startswith(IMITATING):
                found[name] = with_weights("split-window", f"{name}@16-16" if name == "desim-any" else name)
        return found

    def panels(self) -> Sequence[Panel]:
        """Return all agents on each workload."""
        columns = {name: replace(Setting(name), num_jobs=self.num_jobs) for name in self.workloads}
        return [Panel(PANEL, "workload", columns, RULE_ROWS | self.agents)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        groups = {row: [row] for row in self.agents}
        imitating = [row for row in groups if row.startswith(IMITATING)]
        if len(imitating) > 1:
            groups[f"{IMITATING}, mean of {len(imitating)}"] = imitating
        rules = list(RULE_ROWS)
        above = "Mean waiting time above that of the best rule, paired by block"
        yield best_rule_table(frame, PANEL, METRIC, above, rules=rules, agents=groups)
        for column in frame.columns(PANEL):
            blocks = len(frame.values(PANEL, column, frame.rows(PANEL)[0], METRIC))
            yield metric_table(
                frame, PANEL, column, named(SHOWN), f"{column}, {how_many(blocks, 'block')} of five pieces"
            )
        figure = draw_leads(frame, PANEL, METRIC, rules=rules, agents=groups)
        yield Drawing(
            "held_out.png", "Mean waiting time above that of the best rule of each workload, percent.", figure
        )
