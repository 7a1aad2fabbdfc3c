"""Figure 7: waiting time by job type, with splits of a window of 10 slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from desim.experiments.dbf.simulate import CORES, TIMES, WIDE
from desim.experiments.dbf.study import METRICS, ONLINE, Study, window_rules
from desim.experiments.drawing import new_figure
from desim.experiments.frame import Frame, Panel
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.tables import value_table

PANEL, SIZE, RULE = "M = 10", 10, "random"
TAILS = (0, 1, 5, 10)
SHOWN = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max")
OF_WIDE = {
    "wide_share": f"share of the jobs with more than {WIDE} cores that were started",
    "wide_waiting_time_max": f"longest wait of jobs with more than {WIDE} cores, s",
}
PAPER = (
    "In the paper, one slot at the tail reduces the waiting time of nearly all job types; the split 0-10 starves large "
    "jobs and is not recommended, although its mean is the best. The paper's agents have 10 slots, for which we did "
    "not train DBF: the results are those of rules that see only the window."
)
#: Range of waiting times that the colours cover, in seconds.
SHORTEST, LONGEST = 10.0, 1e6
#: Area of the largest bubble, in points.
BUBBLE = 220.0


@dataclass(frozen=True)
class Figure7(Study):
    """Waiting times by job type, and starvation of large jobs.

    Attributes
    ----------
    seeds : int
        Number of blocks of episodes.
    """

    seeds: int = 5

    def panels(self) -> Sequence[Panel]:
        """Return the splits of the window."""
        rows = {
            rule: {str(tail): window_rules(SIZE - tail, tail)[rule] for tail in TAILS} for rule in (RULE, "shortest")
        }
        return [Panel(PANEL, "slots at the tail", {str(tail): ONLINE for tail in TAILS}, rows)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        for metric, what in ({name: METRICS[name] for name in SHOWN} | OF_WIDE).items():
            yield value_table(frame, PANEL, metric, f"{PANEL}, by slots at the tail: {what}, {self.how}")
        yield Paragraph(PAPER)
        yield self._drawing(frame)

    def _drawing(self, frame: Frame) -> Drawing:
        """Draw mean waiting times by job type, one axes per split; larger bubbles mean more jobs."""
        from matplotlib.colors import LogNorm

        figure, grid = new_figure(1, len(TAILS), width=2.9, height=3.0)
        types = {tail: by_type(frame, str(tail), RULE) for tail in TAILS}
        most = max(counts.max() for counts, _ in types.values())
        for ax, tail in zip(grid[0], TAILS, strict=True):
            counts, waits = types[tail]
            there = counts.nonzero()[0]
            drawn = ax.scatter(
                there // len(TIMES),
                there % len(TIMES),
                s=BUBBLE * np.sqrt(counts[there] / most),
                c=waits[there] / counts[there],
                norm=LogNorm(SHORTEST, LONGEST, clip=True),
                cmap="viridis",
                edgecolors="black",
                linewidths=0.3,
            )
            ax.set_title(f"{SIZE - tail}-{tail}", fontsize=9)
            ax.set_xticks(range(len(CORES)), [str(cores) for cores in CORES], fontsize=6)
            names = [f"{time:,}" for time in TIMES[::2]] if ax is grid[0, 0] else [""] * len(TIMES[::2])
            ax.set_yticks(range(len(TIMES))[::2], names, fontsize=7)
            ax.set_xlabel("cores, up to", fontsize=8)
        grid[0, 0].set_ylabel("run time, up to, s", fontsize=8)
        figure.colorbar(drawn, ax=grid, shrink=0.9).set_label("mean waiting time of started jobs, s", fontsize=8)
        caption = (
            f"Rule '{RULE}' in a window of 10 slots: mean waiting time by job type; larger bubbles mean more jobs."
        )
        return Drawing("figure7.png", caption, figure)


def by_type(frame: Frame, tail: str, row: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of started jobs by type, and the sum of their waiting times in seconds, over all episodes."""
    panel = f"{PANEL}, {tail} by type"
    found = np.zeros((2, len(CORES) * len(TIMES)))
    for column in frame.columns(panel):
        if frame.has(panel, column, row):
            found[:, int(column)] = [frame.values(panel, column, row, name).sum() for name in ("placed", "waits")]
    return found[0], found[1]
