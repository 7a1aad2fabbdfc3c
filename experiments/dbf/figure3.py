"""Figure 3: learning curves of DBF as printed, with three windows of 20 slots, and of SchedInspector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.dbf.figure4 import RELEASED, inspectors
from desim.experiments.dbf.study import Study, dbf_rows, named
from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.learning_curves import COLUMN, LENGTHS, Curve, curves_of, panel_of, perform
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.tables import metric_table

PANEL, INSPECTOR = "DBF", "SchedInspector"
PARTS = ("validation", "training")
SHOWN = named(("waiting_time_mean", "queue_length_mean", "utilization"))
PAPER = (
    "The paper trains for 100,000 episodes: utilization, waiting time and queue length improve most within 5,000,"
    " and little afterwards; at M = 20 the queue is 31 jobs long on average. The model cards of the weights hold the "
    "commands of these trainings; with a higher --total-steps the same command continues from its checkpoint."
)


@dataclass(frozen=True)
class Figure3(Study):
    """Waiting time, queue length and utilization over the training, from the model cards of the weights."""

    perform = staticmethod(perform)

    def seeds_of(self, setting: Curve) -> list[int]:
        """Return one seed: a training is read once."""
        return [0]

    def panels(self) -> Sequence[Panel]:
        """Return the windows, and SchedInspector."""
        curves = tuple(f"{part}/{metric}" for part in PARTS for metric in SHOWN)
        slowdowns = tuple(f"{part}/bounded_slowdown_mean" for part in PARTS)
        return [
            panel_of(PANEL, Curve("queue_length_mean", curves), dbf_rows()),
            panel_of(INSPECTOR, Curve("bounded_slowdown_mean", slowdowns), {RELEASED: inspectors()[RELEASED]}),
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield how long each training was, and the curves."""
        for panel, metric in ((PANEL, "queue length"), (INSPECTOR, "bounded slowdown")):
            title = f"{panel}: length of the trainings, and {metric} of the validation episodes"
            columns = LENGTHS | {"first": "first", "lowest": "lowest", "last": "last"}
            yield metric_table(frame, panel, COLUMN, columns, title)
        yield Paragraph(PAPER)
        episodes = "episodes learned from"
        captions = {
            "validation": "Learning curves of DBF as printed on the same four validation episodes each time.",
            "training": "Learning curves of DBF as printed on the episodes that it learned from.",
        }
        for part, caption in captions.items():
            labels = {f"{part}/{metric}": label for metric, label in SHOWN.items()}
            logarithmic = [name for name in labels if "utilization" not in name]
            figure = facets(frame, labels, {curves_of(PANEL): episodes}, logarithmic=logarithmic)
            yield Drawing(f"figure3_{part}.png", caption, figure)
        labels = {f"{part}/bounded_slowdown_mean": f"{part}: bounded slowdown" for part in PARTS}
        figure = facets(frame, labels, {curves_of(INSPECTOR): episodes}, logarithmic=tuple(labels))
        yield Drawing("figure3_inspector.png", "Learning curve of SchedInspector over SJF.", figure)
