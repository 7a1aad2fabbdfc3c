"""Figure 5: the large cluster, 100 types of jobs on 1,024 nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.agents import LARGE, PRINTED, chosen
from desim.experiments.ogasched.study import METRIC, OGAStudy
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.study import run_as_program
from desim.experiments.tables import lead_table, metric_table

PANEL, COLUMN = "figure 5", "large"


@dataclass(frozen=True)
class Figure5(OGAStudy):
    """Large scale: average reward over time with 100 ports and 1,024 nodes."""

    seeds: int = 2
    divide_slots: int = 50

    def panels(self) -> Sequence[Panel]:
        """Return the large cluster."""
        rows = chosen(PRINTED, "OGASched, capped", "exact, with memory", "Fairness", "DRF")
        return [Panel(PANEL, "T", {COLUMN: self.shorter(LARGE)}, rows)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield tables and the figure."""
        if not self.quick:
            yield Paragraph(f"{self.shorter(LARGE).num_slots:,} slots, where the paper has {LARGE.num_slots:,}.")
        words = {METRIC: "average reward", "average_gain": "gain", "average_overhead": "overhead"}
        yield metric_table(frame, PANEL, COLUMN, words, "A slot")
        yield lead_table(frame, PANEL, METRIC, PRINTED, f"{PRINTED} as printed is ahead by, percent")
        curve = f"{PANEL}, {COLUMN} by slot"
        figure = facets(frame, {METRIC: "average reward until then"}, {curve: "slot"}, width=7.0, height=3.6)
        yield Drawing("figure5.png", "Average reward until a slot: means over seeds.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure5))
