"""Figure 7: batch mode, small numbers of jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.lachesis.agents import LEARNED_IN_BATCHES, OWN_ROWS, PAPER_ROWS, PLANNED_ROWS
from desim.experiments.lachesis.simulate import Setting
from desim.experiments.lachesis.study import Claims, Measured, Study, besides, data, drawings, tables
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

METRICS = ("makespan", "speedup", "slr")
PAPER = Claims(
    "The paper, small batches: LACHESIS' makespan up to 15.3 % below the best rival's, speedup up to 6.8, SLR near 1; "
    "HEFT close to Decima-DEFT, TDCA ahead of FIFO-DEFT only; 98 % of LACHESIS' decisions within 14 ms.",
    shorter=15.3,
    speedup=6.8,
    decision_time=14.0,
)


@dataclass(frozen=True)
class Batches(Study):
    """Batches of several sizes on 50 executors.

    Attributes
    ----------
    numbers : tuple of int
        Numbers of jobs.
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    numbers: tuple[int, ...] = ()
    ccr: float = 0.5

    def measured(self) -> Measured:
        """Return what the runs bring."""
        columns = {str(number): Setting(number, ccr=self.ccr) for number in self.numbers}
        return self.measure(Panel("batch", "jobs", columns, LEARNED_IN_BATCHES | PAPER_ROWS | PLANNED_ROWS | OWN_ROWS))

    def told(self, title: str, claims: Claims) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measured()
        metrics = (*METRICS, "lower_bound", "gap_to_lower_bound")
        yield from tables(found, title, metrics, remarks=[claims.text])
        yield besides(found, claims)
        yield data(found, title)
        yield from drawings(found, title, (*METRICS, "gap_to_lower_bound"))


@dataclass(frozen=True)
class Figure7(Batches):
    """Batches of 1 to 20 jobs on 50 executors."""

    numbers: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        return self.told("Figure 7: batch mode, small numbers of jobs", PAPER)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure7))
