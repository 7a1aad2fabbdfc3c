"""Settings that leave room: fewer executors, longer transfers, continuous arrivals, job completion time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.lachesis.agents import (
    IDLE_ROWS,
    LEARNED,
    LEARNED_IN_BATCHES,
    OWN_ROWS,
    PAPER_ROWS,
    PLANNED_ROWS,
)
from desim.experiments.lachesis.simulate import Setting
from desim.experiments.lachesis.study import Measured, Study, data, drawings, tables
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "Settings that leave room"


@dataclass(frozen=True)
class Room(Study):
    """Where the paper's own settings are too easy to tell agents apart.

    Attributes
    ----------
    ratios : tuple of float
        Communication-to-computation ratios.
    num_jobs : int
        Jobs of a batch.
    num_arriving : int
        Jobs of a continuous run.
    """

    ratios: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    num_jobs: int = 20
    num_arriving: int = 50

    def measured(self) -> Measured:
        """Return what the runs bring."""
        batch = LEARNED_IN_BATCHES | PAPER_ROWS | PLANNED_ROWS | IDLE_ROWS | OWN_ROWS
        stream = LEARNED | PAPER_ROWS | IDLE_ROWS | OWN_ROWS
        kinds = (
            ("batch, 50 executors", self.num_jobs, 50, 0.0, batch),
            ("batch, 10 executors", self.num_jobs, 10, 0.0, batch),
            ("continuous, 10 executors", self.num_arriving, 10, 45.0, stream),
            ("continuous, 30 executors", self.num_arriving, 30, 45.0, stream),
        )
        return self.measure(
            *(
                Panel(name, "CCR", {f"{ratio:g}": Setting(jobs, count, ratio, interval) for ratio in self.ratios}, rows)
                for name, jobs, count, interval, rows in kinds
            )
        )

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measured()
        yield from tables(found, TITLE)
        yield data(found, TITLE)
        yield from drawings(found, TITLE, ("makespan", "turnaround_time_mean", "gap_to_lower_bound"))


if __name__ == "__main__":
    sys.exit(run_as_program(Room))
