"""Table 2: utilization with windows, compared with that of the same jobs in real time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.frame import Frame, Panel
from desim.experiments.osdec.simulate import Setting
from desim.experiments.osdec.study import TABLE_2, OsdecStudy, drawing, panels_of
from desim.experiments.report_blocks import Block
from desim.experiments.tables import value_table

PANEL, METRIC = "table 2", "utilization"
WORKLOAD = "osdec-table-2"
COLUMNS = {
    "deferrable": Setting(WORKLOAD, delay_weight=0.0),
    "real time": Setting(WORKLOAD, real_time=True, delay_weight=0.0),
}
"""Settings in which utilization is the only objective, as in the paper."""
FEW = 10
"""Number of trajectories for all agents; the paper's rules have 100."""


@dataclass(frozen=True)
class Table2(OsdecStudy):
    """Effect of windows on utilization."""

    def panels(self) -> Sequence[Panel]:
        """Return the paper's rules, and all agents on fewer trajectories."""
        return panels_of(PANEL, "setting", COLUMNS, FEW)

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield both tables and the figure."""
        for panel in frame.panels:
            seeds = len(frame.values(panel, "deferrable", "FIFO", METRIC))
            title = f"{panel}: utilization, core-slots [paper], {seeds} trajectories"
            yield value_table(frame, panel, METRIC, title, printed=TABLE_2)
        labels = {f"utilization, {column}": column for column in COLUMNS}
        paper = {label: {row: values[column] for row, values in TABLE_2.items()} for label, column in labels.items()}
        cells = {label: (column, METRIC) for label, column in labels.items()}
        yield drawing(frame, frame.panels[-1], PANEL, cells, paper)
