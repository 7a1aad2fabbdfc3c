"""Table 4: total reward with other sizes and durations of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.osdec.simulate import Setting
from desim.experiments.osdec.study import CASES, TABLE_4, OsdecStudy, panels_of
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.tables import value_table

PANEL, METRIC = "table 4", "total_reward"
FEW = 10
"""Number of trajectories for all agents; the paper's rules have 100."""


@dataclass(frozen=True)
class Table4(OsdecStudy):
    """One workload per case."""

    def panels(self) -> Sequence[Panel]:
        """Return the paper's rules, and all agents, trained for table 1, on fewer trajectories."""
        columns = {column: Setting(workload) for column, workload in CASES.items()}
        return panels_of(PANEL, "case", columns, FEW)

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield both tables and the figure."""
        for panel in frame.panels:
            seeds = len(frame.values(panel, "core case 1", "FIFO", METRIC))
            title = f"{panel}: total reward, core-slots [paper], {seeds} trajectories"
            yield value_table(frame, panel, METRIC, title, printed=TABLE_4)
        panel = frame.panels[0]
        labels = {METRIC: "total reward, core-slots"}
        figure = facets(frame, labels, {panel: "case"}, printed={(panel, METRIC): TABLE_4}, width=8.0)
        yield Drawing("table4.png", "Table 4: the paper's rules; means with 95 % intervals.", figure)
