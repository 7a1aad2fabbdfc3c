"""Figure 6: average gain and overhead of a slot, by contention level."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import CONTENTIONS, MAIN_ROWS, contention_columns
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Figure 6: gain and overhead by contention"


@dataclass(frozen=True)
class Figure6(Study):
    """Gain and overhead against the contention level.

    Attributes
    ----------
    contentions : tuple of float
        Contention levels.
    """

    seeds: int = 5
    contentions: tuple[float, ...] = CONTENTIONS

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measure(Panel("contention", "contention", contention_columns(self.contentions), MAIN_ROWS))
        yield from tables(found, TITLE, metrics=("average_gain", "average_overhead", "average_reward"))
        yield data(found, TITLE)
        yield pictures.sweeps(found, ("average_gain", "average_overhead"))


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6))
