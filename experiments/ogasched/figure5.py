"""Figure 5: the large cluster, 100 types of jobs on 1,024 nodes over 10,000 slots."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import LARGE, MAIN_ROWS
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Figure 5: large scale"


@dataclass(frozen=True)
class Figure5(Study):
    """Large scale: average reward over time with 100 ports and 1,024 nodes."""

    seeds: int = 3

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measure(Panel("figure 5", "T", {"T 10000": LARGE}, MAIN_ROWS))
        yield from tables(found, TITLE, metrics=("average_reward", "average_gain", "average_overhead"))
        yield data(found, TITLE, with_curves=True)
        yield pictures.time_courses(found)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure5))
