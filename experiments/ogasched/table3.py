"""Table III: average reward against T, the arrival probability and the density of the graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import DEFAULT, MAIN_ROWS, OGASCHED, RIVALS, TABLE_III
from desim.experiments.ogasched.simulate import Setting
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Table III: average reward"
COLUMNS: dict[str, dict[str, Setting]] = {
    "T": {str(slots): replace(DEFAULT, num_slots=slots) for slots in (1_000, 2_000, 5_000, 10_000)},
    "rho": {f"{chance:g}": replace(DEFAULT, probability=chance) for chance in (0.3, 0.5, 0.7, 0.9)},
    "density": {f"{density:g}": replace(DEFAULT, density=density) for density in (2.0, 2.5, 3.0)},
}


@dataclass(frozen=True)
class Table3(Study):
    """Generality and robustness: all 55 cells of table III."""

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measure(*(panel(name) for name in COLUMNS))
        yield from tables(found, TITLE)
        yield data(found, TITLE)
        yield pictures.sweeps(found, ("average_reward",), with_leads=True, with_paper=True)


def panel(name: str) -> Panel:
    """Return one of the three parts of the table, beside the paper's rewards and leads."""
    paper = {row: rewards[name] for row, rewards in TABLE_III.items()}
    leads = {
        row: [100.0 * (ours / theirs - 1.0) for ours, theirs in zip(paper[OGASCHED], paper[row], strict=True)]
        for row in RIVALS
    }
    return Panel(name, name, COLUMNS[name], MAIN_ROWS, paper=paper, paper_leads=leads)


if __name__ == "__main__":
    sys.exit(run_as_program(Table3))
