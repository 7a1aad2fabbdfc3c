"""Figure 4: what the agents as printed reached in the course of their trainings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.osdec.curves import Card, perform
from desim.experiments.osdec.simulate import LEARNED, learned_rows
from desim.experiments.report_blocks import Block, Drawing, Table, short
from desim.experiments.study import Study, run_as_program

PANEL, COLUMN = "figure 4", "training"
CURVES = f"{PANEL}, {COLUMN} by decisions"


@dataclass(frozen=True)
class Figure4(Study):
    """Curves of the cards of the weights that come with desim."""

    paper: ClassVar[str] = "osdec"
    perform = staticmethod(perform)

    seeds: int = 1

    def panels(self) -> Sequence[Panel]:
        """Return the learned agents."""
        return [Panel(PANEL, "", {COLUMN: Card()}, learned_rows())]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield how long each was trained, and the curves."""
        metrics = ("decisions", "evaluations", "seconds", "best", "gain")
        rows = [
            [row, *(short(frame.estimate(PANEL, COLUMN, row, metric).mean) for metric in metrics)]
            for row in LEARNED
            if frame.has(PANEL, COLUMN, row)
        ]
        heads = ["", "decisions", "evaluations", "seconds", "best reward", "last quarter above the one before"]
        yield Table("Trainings, total reward of the validation episodes in core-slots", heads, rows)
        labels = {"total_reward": "total reward of a\nvalidation episode"}
        figure = facets(frame, labels, {CURVES: "decisions"}, width=7.0, height=4.0)
        yield Drawing("figure4.png", "Total reward of validation episodes in the course of the trainings.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4))
