"""Figure 6: average gain and overhead per slot, by contention level; the runs are those of figure 3 (c)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.figure3 import contention_panel
from desim.experiments.ogasched.study import OGAStudy
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.tables import value_table

WORDS = {"average_gain": "average gain", "average_overhead": "average overhead"}


@dataclass(frozen=True)
class Figure6(OGAStudy):
    """Gain and overhead against the contention level."""

    divide_slots: int = 20

    def panels(self) -> Sequence[Panel]:
        """Return the contention levels."""
        return [contention_panel(self)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        for metric, words in WORDS.items():
            yield value_table(frame, "contention", metric, words.capitalize())
        figure = facets(frame, WORDS, {"contention": "contention level"}, width=4.6, height=3.2)
        yield Drawing("figure6.png", "Gain and overhead per slot: means over seeds with 95 % intervals.", figure)
