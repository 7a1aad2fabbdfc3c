"""Figure 3: learning curves of DBF as printed, with three windows of 20 slots."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.dbf.simulate import Curve, perform_curve
from desim.experiments.dbf.study import Study, dbf_rows, named
from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.study import run_as_program
from desim.experiments.tables import value_table

PANEL = "curves"
PARTS = ("validation", "training")
PAPER = (
    "The paper trains for 100,000 episodes: utilization, waiting time and queue length improve most within 5,000,"
    " and little afterwards; at M = 20 the queue is 31 jobs long on average. The card of the weights has the "
    "command of their training; with a higher --total-steps the same command goes on from its checkpoint."
)


@dataclass(frozen=True)
class Figure3(Study):
    """Waiting time, queue length and utilization over the training, from the cards of the weights."""

    perform = staticmethod(perform_curve)

    def seeds_of(self, setting: Curve) -> list[int]:
        """Return the only seed that was trained."""
        return [0]

    def panels(self) -> Sequence[Panel]:
        """Return the windows, in validation and in training."""
        return [Panel(PANEL, "part", {part: Curve(part) for part in PARTS}, dbf_rows())]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield how long was trained, and the curves."""
        for metric, what in (("episodes", "Episodes"), ("decisions", "Decisions")):
            yield value_table(frame, PANEL, metric, f"{what} learned from; the paper has 100,000 episodes")
        yield Paragraph(PAPER)
        panels = {f"{PANEL}, {part} by episode": "episodes learned from" for part in PARTS}
        metrics = named(("waiting_time_mean", "queue_length_mean", "utilization"))
        titles = {f"{PANEL}, {part} by episode": part for part in PARTS}
        figure = facets(frame, metrics, panels, titles=titles, logarithmic=("waiting_time_mean", "queue_length_mean"))
        caption = "Learning curves of DBF as printed: validation on the same four episodes each time, and in training."
        yield Drawing("figure3.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure3))
