"""Figure 7: cumulative reward where all utilities are of one kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, DEFAULT, MAIN_ROWS
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Figure 7: cumulative reward by utility"
ROWS = MAIN_ROWS | {name: AGENTS[name] for name in ("AdaGrad (reservation)",)}


@dataclass(frozen=True)
class Figure7(Study):
    """Cumulative reward by utility.

    Attributes
    ----------
    utilities : tuple of str
        One setting each.
    """

    utilities: tuple[str, ...] = ("linear", "poly", "log", "reciprocal")

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        columns = {name: replace(DEFAULT, utilities=name) for name in self.utilities}
        found = self.measure(Panel("utilities", "utility", columns, ROWS))
        yield from tables(found, TITLE, metrics=("cumulative_reward", "average_gain", "average_overhead"))
        yield data(found, TITLE)
        yield pictures.bars(found, "cumulative_reward")


if __name__ == "__main__":
    sys.exit(run_as_program(Figure7))
