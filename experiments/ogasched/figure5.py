"""Figure 5: the large cluster with 100 job types and 1,024 nodes."""

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
    """Average reward over time with 100 ports and 1,024 nodes."""

    seeds: int = 2
    divide_slots: int = 50

    def panels(self) -> Sequence[Panel]:
        """Return the large cluster."""
        rows = chosen(PRINTED, "OGASched, capped", "exact, with memory", "Fairness", "DRF")
        return [Panel(PANEL, "T", {COLUMN: self.shorter(LARGE)}, rows)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        if not self.quick:
            yield Paragraph(f"Runs have {self.shorter(LARGE).num_slots:,} slots; the paper has {LARGE.num_slots:,}.")
        words = {METRIC: "average reward", "average_gain": "gain", "average_overhead": "overhead"}
        yield metric_table(frame, PANEL, COLUMN, words, "Means per slot")
        yield lead_table(frame, PANEL, METRIC, PRINTED, f"Lead of {PRINTED} as printed, percent")
        curve = f"{PANEL}, {COLUMN} by slot"
        figure = facets(frame, {METRIC: "running average reward"}, {curve: "slot"}, width=7.0, height=3.6)
        yield Drawing("figure5.png", "Running average reward: means over seeds.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure5))
