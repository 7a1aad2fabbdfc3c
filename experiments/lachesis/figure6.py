"""Figure 6: learning curves of LACHESIS and of Decima."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.lachesis.curves import DECIMA, LACHESIS
from desim.experiments.lachesis.simulate import Card, learned, read_card, reread
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.study import Study, run_as_program
from desim.experiments.tables import metric_table

__all__ = ["PANEL", "WEIGHTS", "Figure6", "curve_panel"]

PANEL = "trainings"
WEIGHTS = {LACHESIS: "tpch-lachesis", DECIMA: "tpch-decima"}
POINTS = {"gap": "makespan in validation,\n% above the lower bound", "entropy": "entropy of the policy"}
LOSS = {"loss": "loss of the critic"}
SUMS = {
    "episodes": "episodes",
    "decisions": "decisions",
    "seconds": "wall time, s",
    "first": "gap before, %",
    "best": "best gap, %",
    "last": "last gap, %",
}


@dataclass(frozen=True)
class Figure6(Study):
    """The course of the trainings whose weights come with the package, from their cards."""

    paper: ClassVar[str] = "lachesis"
    perform = staticmethod(reread)

    seeds: int = 1

    def panels(self) -> Sequence[Panel]:
        """Return the trainings."""
        rows: dict[str, Any] = {row: {weights: learned(_kind(row), weights)} for row, weights in WEIGHTS.items()}
        return [Panel(PANEL, "weights", {weights: Card(weights) for weights in WEIGHTS.values()}, rows)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield figures, tables and the commands that go on."""
        for row, weights in WEIGHTS.items():
            panel = curve_panel(weights)
            metrics = POINTS | (LOSS if row == LACHESIS else {})
            figure = facets(frame, metrics, {panel: "episodes"}, rows=[row])
            yield Drawing(f"figure6_{_kind(row)}.png", f"The training of {row}, by episodes.", figure)
            yield metric_table(frame, PANEL, weights, SUMS, f"{row}: the training of {weights}")
            card = read_card(_kind(row), weights)
            yield Paragraph(f"{card['command']} --out {weights} trains it; with more --total-steps it goes on.")


def _kind(row: str) -> str:
    return "lachesis" if row == LACHESIS else "decima"


def curve_panel(weights: str) -> str:
    """Return the name of the panel that holds the curves of a training."""
    return f"{PANEL}, {weights} by episodes"


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6))
