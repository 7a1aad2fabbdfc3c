"""Figure 8: batch mode, large numbers of jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.lachesis.figure7 import Batches
from desim.experiments.lachesis.study import Claims
from desim.experiments.study import run_as_program

PAPER = Claims(
    "The paper, large batches: LACHESIS' makespan up to 26.7 % below the second, its speedup up to 35.2 % above; "
    "FIFO-DEFT last; SLR of the learned agents between 1 and 2; 98 % of LACHESIS' decisions within 30 ms.",
    shorter=26.7,
    faster=35.2,
    decision_time=30.0,
)


@dataclass(frozen=True)
class Figure8(Batches):
    """Batches of 20 to 100 jobs on 50 executors."""

    numbers: tuple[int, ...] = (20, 30, 40, 50, 60, 70, 80, 90, 100)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        return self.told("Figure 8: batch mode, large numbers of jobs", PAPER)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure8))
