"""Figure 5: the large cluster with 100 job types and 1,024 nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.agents import LARGE, PRINTED, chosen
from desim.experiments.ogasched.study import OGAStudy, over_time, slot_tables
from desim.experiments.report_blocks import Block, Paragraph

PANEL, COLUMN = "figure 5", "large"


@dataclass(frozen=True)
class Figure5(OGAStudy):
    """Average reward over time with 100 ports and 1,024 nodes."""

    divide_slots: int = 5

    def panels(self) -> Sequence[Panel]:
        """Return the large cluster."""
        rows = chosen(PRINTED, "OGASched, capped", "exact, with memory", "Fairness", "DRF")
        return [Panel(PANEL, "T", {COLUMN: self.shorter(LARGE)}, rows)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        if not self.quick:
            yield Paragraph(f"Runs have {self.shorter(LARGE).num_slots:,} slots; the paper has {LARGE.num_slots:,}.")
        yield from slot_tables(frame, PANEL, COLUMN)
        yield over_time(frame, PANEL, COLUMN, "figure5.png", "")
