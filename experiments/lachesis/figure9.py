"""Figure 9: continuous mode, and the effect of shorter intervals between arrivals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.frame import Frame, Panel
from desim.experiments.lachesis.curves import DECIMA, LACHESIS, MADE, OWN, RANK_UP, ROWS, Curves
from desim.experiments.lachesis.simulate import Setting
from desim.experiments.learning_curves import with_weights
from desim.experiments.report_blocks import Block

DENSER = "closer arrivals"
INTERVALS = (45.0, 20.0, 10.0, 5.0, 2.0)
JOBS = 60


@dataclass(frozen=True)
class Figure9(Curves):
    """Up to 100 jobs with a mean interarrival time of 45 seconds, and 60 jobs with shorter ones."""

    title = "Figure 9: continuous mode"
    counts: ClassVar = (20, 40, 60, 80, 100)
    rivals: ClassVar = ("SJF-DEFT", "HRRN-DEFT", RANK_UP, DECIMA)
    others: ClassVar = {OWN: with_weights("graph", "tpch-makespan")}
    interval = 45.0
    metrics: ClassVar = {"makespan": "makespan, s", "turnaround_time_mean": "mean completion time, s"}

    def panels(self) -> Sequence[Panel]:
        """Return the panels of the paper, and rules at several mean interarrival times."""
        columns = {f"{seconds:g}": Setting(JOBS, ccr=self.ccr, mean_interval=seconds) for seconds in INTERVALS}
        rules = {row: choice for row, choice in self.agents.items() if row not in (LACHESIS, DECIMA)}
        return [
            *super().panels(),
            Panel(DENSER, "seconds between jobs", columns, rules | {"FIFO-DEFT": ROWS["FIFO-DEFT"]}),
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and figures."""
        names = [panel for panel in frame.panels if panel != DENSER]
        yield self.drawing(frame, names, "jobs", self.name)
        yield self.drawing(frame, [DENSER], f"seconds between {JOBS} jobs, {MADE}", f"{self.name}_closer")
        for panel in names:
            yield from self.tables(frame, panel)
        yield from self.tables(frame, DENSER)
