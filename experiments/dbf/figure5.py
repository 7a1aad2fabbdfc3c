"""Figures 5 and 6: splits of windows, with their waiting times, queue lengths and invisible jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.dbf.study import DBF_WINDOWS, ONLINE, Study, dbf_rows, named, window_rules
from desim.experiments.drawing import facets
from desim.experiments.frame import Choice, Frame, Panel, agent_of
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.tables import value_table

SIZES = (8, 10, 20, 32)
"""Window sizes; the paper also has 16 and 64."""
IN_WINDOW = ("random", "shortest", "first")
DBF = "dbf"
SAVED = ("waiting_time_mean", "queue_length_mean")
HIDDEN = ("invisible_jobs", "hidden_share")
PAPER = (
    "In the paper, a longer tail helps at 8, 10, 16 and 20 slots, and a single slot helps considerably. At 20 slots "
    "the waiting time falls by 49 % and the queue length by 50 %. At 32 and 64 slots the gain is small, and too long "
    "a tail is harmful. At 8 and 10 slots, a split reduces the number of invisible jobs and the share of observations "
    "that lack some; at 16 and 20 slots, only their number."
)


def panel_name(size: int) -> str:
    """Return the panel name of a window size."""
    return f"M = {size}"


@dataclass(frozen=True)
class Figure5(Study):
    """Rules without learning that see only a window, and DBF as printed for windows with trained weights.

    Attributes
    ----------
    seeds : int
        Number of blocks of episodes.
    """

    seeds: int = 5

    def panels(self) -> Sequence[Panel]:
        """Return one panel per size; its columns are numbers of slots at the tail."""
        return [self._panel(size) for size in ((8, 20) if self.quick else SIZES)]

    def _panel(self, size: int) -> Panel:
        tails = (0, 1, size // 2, size)
        rows: dict[str, dict[str, Choice]] = {
            rule: {str(tail): window_rules(size - tail, tail)[rule] for tail in tails} for rule in IN_WINDOW
        }
        windows = {f"dbf {head}-{tail}": str(tail) for head, tail in DBF_WINDOWS if head + tail == size}
        for row, choice in dbf_rows().items():
            if (window := agent_of(row)) in windows:
                rows.setdefault(row.replace(window, DBF), {})[windows[window]] = choice
        return Panel(panel_name(size), "slots at the tail", {str(tail): ONLINE for tail in tails}, rows)

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and both figures."""
        for panel in frame.without_curves().panels:
            for metric in SAVED + HIDDEN:
                title = f"{panel}, by slots at the tail: {named((metric,))[metric]}, {self.how}"
                yield value_table(frame, panel, metric, title, better="lower")
        yield Paragraph(PAPER)
        panels = dict.fromkeys(frame.without_curves().panels, "slots at the tail")
        what = "Splits of windows: rules that see only the window, and DBF as printed."
        rows = (*IN_WINDOW, DBF)
        saved = facets(frame, named(SAVED), panels, rows=rows, logarithmic=SAVED, width=2.6, height=2.6)
        yield Drawing("figure5.png", f"{what} Means with 95 % intervals.", saved)
        hidden = facets(frame, named(HIDDEN), panels, rows=rows, width=2.6, height=2.6)
        yield Drawing("figure6.png", f"{what} Jobs of the queue that the window does not show.", hidden)
