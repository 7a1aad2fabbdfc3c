"""Figure 6: learning curves of LACHESIS and of Decima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.agents.learning.pretrained import read_card
from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.lachesis.curves import DECIMA, LACHESIS, ROWS, rows_of
from desim.experiments.learning_curves import COLUMN, LENGTHS, Curve, curves_of, panel_of, perform
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.study import Study
from desim.experiments.tables import metric_table

PANEL, LOSS = "trainings", "figures/value_loss"
LABELS = {
    "validation/gap": "gap of the validation episodes\nto the lower bound",
    "figures/entropy": "entropy of the policy",
    LOSS: "loss of the critic",
}
SUMS = LENGTHS | {"first": "gap before", "lowest": "lowest gap", "last": "last gap"}


@dataclass(frozen=True)
class Figure6(Study):
    """The trainings whose weights ship with the package, from their model cards."""

    paper: ClassVar[str] = "lachesis"
    perform = staticmethod(perform)

    seeds: int = 1

    def panels(self) -> Sequence[Panel]:
        """Return the trainings."""
        return [panel_of(PANEL, Curve("gap", tuple(LABELS)), rows_of(LACHESIS, DECIMA))]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield curves, lengths and the commands that continue the trainings."""
        for row in (LACHESIS, DECIMA):
            labels = {name: label for name, label in LABELS.items() if row == LACHESIS or name != LOSS}
            kind, _, weights = ROWS[row].policy.partition(":")
            figure = facets(frame, labels, {curves_of(PANEL): "episodes"}, rows=[row])
            yield Drawing(f"figure6_{kind}.png", f"The training of {row}, by episodes.", figure)
            command = read_card(weights, kind)["command"]
            yield Paragraph(f"{command} --out {weights} repeats it; with a higher --total-steps it continues.")
        yield metric_table(frame, PANEL, COLUMN, SUMS, "Trainings: length, and gap to the lower bound in validation")
