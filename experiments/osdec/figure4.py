"""Figure 4: what the agents as printed reached in the course of their trainings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.learning_curves import COLUMN, LENGTHS, Curve, curves_of, panel_of, perform
from desim.experiments.osdec.simulate import learned_rows
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.study import Study
from desim.experiments.tables import metric_table

PANEL, CURVE = "figure 4", "validation/total_reward"


@dataclass(frozen=True)
class Figure4(Study):
    """Learning curves of the weights that ship with desim."""

    paper: ClassVar[str] = "osdec"
    perform = staticmethod(perform)

    seeds: int = 1

    def panels(self) -> Sequence[Panel]:
        """Return the learned agents."""
        return [panel_of(PANEL, Curve("total_reward", (CURVE,)), learned_rows(several=True))]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield how long each training was, and the curves."""
        columns = LENGTHS | {"first": "first reward", "highest": "highest reward", "last": "last reward"}
        title = "Trainings: length, and total reward of the validation episodes in core-slots"
        yield metric_table(frame, PANEL, COLUMN, columns, title)
        labels = {CURVE: "total reward of a\nvalidation episode"}
        figure = facets(frame, labels, {curves_of(PANEL): "episodes"}, width=7.0, height=4.0)
        yield Drawing("figure4.png", "Total reward of validation episodes in the course of the trainings.", figure)
