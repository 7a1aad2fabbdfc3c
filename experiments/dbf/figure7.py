"""Figure 7: waiting time by type of job, with every split of a window of 10 slots."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from desim.experiments.blocks import Block, Drawing, Table, with_interval
from desim.experiments.dbf.agents import CONTROLS, LEARNED, find_weights, untrained, window_rows
from desim.experiments.dbf.simulate import CORES, TIMES, WIDE, WIDE_METRICS, Setting, perform_by_type
from desim.experiments.dbf.study import Measured, Study, data, heading, remarks
from desim.experiments.drawing import new_figure
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "Figure 7"
PAPER = (
    "The paper: one slot at the tail lowers the waiting time of nearly every type of job; 0-10 starves large jobs "
    "and should not be used, although its mean is the best."
)
REFERENCE = "shortest in the window"
WAITS = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max")
HEADS = ("split", "mean wait, s", "99th percentile, s", "longest wait, s")
WIDE_HEADS = ("wide jobs", "started", "share", "mean wait, s", "longest wait, s")
#: Waiting times that are drawn in the same colours, in seconds.
SHORTEST, LONGEST = 10.0, 1e6
#: Area of the largest bubble, in points.
BUBBLE = 220.0


@dataclass(frozen=True)
class Figure7(Study):
    """Which jobs wait, and who starves.

    Attributes
    ----------
    size : int
        Slots of the window.
    """

    size: int = 10

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and figures."""
        tails = (0, 1, self.size) if self.quick else tuple(range(self.size + 1))
        rows = window_rows(find_weights(self.weights), self.size, tails)
        panel = Panel(f"M = {self.size}", "tail", {str(tail): Setting() for tail in tails}, rows)
        found = self.measure(panel, reference=REFERENCE, by=perform_by_type)
        yield from heading(found, TITLE, untrained(self.size, tails, rows[LEARNED]))
        yield from (self._table(found, panel, row) for row in (LEARNED, *CONTROLS) if rows[row])
        yield from remarks(found, PAPER)
        yield data(found, TITLE, (*WAITS, *WIDE_METRICS))
        for row, name in ((LEARNED, "figure7"), (REFERENCE, "figure7_shortest")):
            if rows[row]:
                yield self._drawing(found, panel, row, name)

    def _table(self, found: Measured, panel: Panel, row: str) -> Table:
        """Return waiting times by split, and what becomes of wide jobs."""
        lines = [
            [
                f"{self.size - int(tail)}-{tail}",
                *(with_interval(found.estimate(panel, tail, row, metric)) for metric in (*WAITS, *WIDE_METRICS)),
            ]
            for tail in panel.columns
            if found.has(panel, tail, row)
        ]
        title = f"{panel.name}, {row}: waiting times of all jobs, and of those with more than {WIDE} cores"
        return Table(title, [*HEADS, *WIDE_HEADS], lines)

    def _drawing(self, found: Measured, panel: Panel, row: str, name: str) -> Drawing:
        """Draw mean waiting times by type of job, one axes for each split: the larger a bubble, the more jobs."""
        from matplotlib.colors import LogNorm

        tails = [tail for tail in panel.columns if found.has(panel, tail, row)]
        across = min(len(tails), 4)
        figure, grid = new_figure(-(-len(tails) // across), across, width=3.0, height=2.8)
        outcomes = {tail: found.outcomes[panel.name, tail, row] for tail in tails}
        placed = {tail: np.sum([one["placed"] for one in blocks], axis=0) for tail, blocks in outcomes.items()}
        waits = {tail: np.sum([one["placed_waits"] for one in blocks], axis=0) for tail, blocks in outcomes.items()}
        most = max(counts.max() for counts in placed.values())
        norm = LogNorm(SHORTEST, LONGEST, clip=True)
        for ax, tail in zip(grid.ravel(), tails, strict=False):
            cores, times = placed[tail].nonzero()
            counts = placed[tail][cores, times]
            mean = waits[tail][cores, times] / counts
            area = BUBBLE * np.sqrt(counts / most)
            drawn = ax.scatter(
                cores, times, s=area, c=mean, norm=norm, cmap="viridis", edgecolors="black", linewidths=0.3
            )
            ax.set_title(f"{self.size - int(tail)}-{tail}", fontsize=9)
            ax.set_xticks(range(len(CORES)), [str(cores) for cores in CORES], fontsize=6)
            ax.set_yticks(range(len(TIMES))[::2], [f"{time:,}" for time in TIMES[::2]], fontsize=7)
            ax.set_xlim(-0.8, len(CORES) - 0.2)
            ax.set_ylim(-0.8, len(TIMES) - 0.2)
            ax.set_xlabel("cores, up to", fontsize=8)
        for ax in grid[:, 0]:
            ax.set_ylabel("run time, up to, s", fontsize=8)
        for ax in grid.ravel()[len(tails) :]:
            ax.set_axis_off()
        bar = figure.colorbar(drawn, ax=grid, shrink=0.9)
        bar.set_label("mean waiting time of started jobs, s", fontsize=8)
        caption = f"{row}: mean waiting time by type of job, one axes for each split; larger bubbles are more jobs."
        return Drawing(f"{name}.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure7))
