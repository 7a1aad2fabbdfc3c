"""Figure 6: how much of the queue is not seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.dbf.figure5 import Windows, drawing
from desim.experiments.dbf.study import by_column, data, heading, remarks
from desim.experiments.study import run_as_program

TITLE = "Figure 6"
PAPER = (
    "The paper: at 8 and 10 slots the split lowers both the number of invisible jobs and the share of decisions "
    "that have any; at 16 and 20 the number, at the same share; at 32 hardly."
)
SHOWN = ("invisible_jobs", "hidden_share")


@dataclass(frozen=True)
class Figure6(Windows):
    """Jobs beyond the window, and the share of decisions at which there are any; from the runs of figure 5."""

    sizes: tuple[int, ...] = (8, 10, 16, 20, 32)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found, missing = self.measure_windows()
        yield from heading(found, TITLE, missing)
        yield from (by_column(found, panel, metric) for panel in found.panels for metric in SHOWN)
        yield from remarks(found, PAPER)
        yield data(found, TITLE, (*SHOWN, "queue_length_mean", "num_decisions"))
        yield drawing(found, SHOWN)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6))
