"""Figure 9: continuous mode."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.lachesis.agents import ARRIVING_ROWS, IDLE_ROWS, LEARNED, OWN_ROWS, PAPER_ROWS
from desim.experiments.lachesis.simulate import Setting
from desim.experiments.lachesis.study import Claims, Measured, Study, besides, data, drawings, tables
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "Figure 9: continuous mode"
PAPER = Claims(
    "The paper, continuous: LACHESIS' makespan up to 7.4 % below the second; HighRankUp-DEFT ahead of Decima-DEFT from "
    "50 jobs on; SJF-DEFT ahead of HRRN-DEFT, which is last; 98 % of LACHESIS' decisions within 38 ms.",
    shorter=7.4,
    decision_time=38.0,
)


@dataclass(frozen=True)
class Figure9(Study):
    """Jobs that arrive at 50 executors every 45 s on average.

    Attributes
    ----------
    numbers : tuple of int
        Numbers of jobs.
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    numbers: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    ccr: float = 0.5

    def measured(self) -> Measured:
        """Return what the runs bring."""
        columns = {str(number): Setting(number, ccr=self.ccr, mean_interval=45.0) for number in self.numbers}
        rows = LEARNED | PAPER_ROWS | ARRIVING_ROWS | IDLE_ROWS | OWN_ROWS
        return self.measure(Panel("continuous", "jobs", columns, rows))

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measured()
        yield from tables(found, TITLE, remarks=[PAPER.text])
        yield besides(found, PAPER)
        yield data(found, TITLE)
        yield from drawings(found, TITLE, ("makespan", "turnaround_time_mean", "gap_to_lower_bound"))


if __name__ == "__main__":
    sys.exit(run_as_program(Figure9))
