"""Table 1: utilization, time delay and total reward of the paper's rules and of its agents as printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.frame import Frame, Panel
from desim.experiments.osdec.simulate import METRICS, Setting
from desim.experiments.osdec.study import TABLE_1, OsdecStudy, drawing, panels_of
from desim.experiments.report_blocks import Block
from desim.experiments.tables import lead_table, metric_table

PANEL, COLUMN = "table 1", "all"
RULES_PANEL, AGENTS_PANEL = f"{PANEL}, rules", f"{PANEL}, agents"
FEW = 40
"""Number of trajectories for all agents; the paper's rules have 100."""


@dataclass(frozen=True)
class Table1(OsdecStudy):
    """Workload and objective of table 1."""

    def panels(self) -> Sequence[Panel]:
        """Return the paper's rules, and all agents on fewer trajectories."""
        return panels_of(PANEL, "workload", {COLUMN: Setting()}, FEW, several=True)

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables, leads over the other agents, and the figure."""
        names = {name: name.replace("_", " ") for name in METRICS}
        for panel in (RULES_PANEL, AGENTS_PANEL):
            how = f"{len(frame.values(panel, COLUMN, 'FIFO', METRICS[0]))} trajectories"
            yield metric_table(frame, panel, COLUMN, names, f"{panel}, core-slots, {how}")
        for rule in ("FIFO", "FIFO, what fits now"):
            title = f"Total reward of {rule} above that of the other agents, percent, {how}"
            yield lead_table(frame, AGENTS_PANEL, "total_reward", rule, title)
        paper = {names[metric]: {row: values[metric] for row, values in TABLE_1.items()} for metric in TABLE_1["FIFO"]}
        paper["violation penalty"] = {
            row: one["total_reward"] - one["utilization"] - one["time_delay"] for row, one in TABLE_1.items()
        }
        cells = {label: (COLUMN, metric) for metric, label in names.items()}
        yield drawing(frame, AGENTS_PANEL, PANEL, cells, paper)
