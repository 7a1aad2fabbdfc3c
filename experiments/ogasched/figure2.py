"""Figure 2: average and cumulative reward over time, and the ratios of OGASched to its baselines.

Once in the setting of the figure (T = 8000, beta in [0.4, 0.6], contention level 11), to which the paper's percentages
belong, and once in that of table II.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, DEFAULT, FIGURE_2, FIGURE_2_LEADS, TABLE_III
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Figure 2: average reward over time"
#: The column of table III whose parameters are all those of table II.
DEFAULT_COLUMN = 1


@dataclass(frozen=True)
class Figure2(Study):
    """Average reward over time: OGASched and its baselines."""

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        paper = {row: (rewards["T"][DEFAULT_COLUMN],) for row, rewards in TABLE_III.items()}
        leads = {row: (lead,) for row, lead in FIGURE_2_LEADS.items()}
        found = self.measure(
            Panel("figure 2", "T", {"T 8000": FIGURE_2}, AGENTS, paper_leads=leads),
            Panel("table II", "T", {"T 2000": DEFAULT}, AGENTS, paper=paper),
        )
        yield from tables(found, TITLE, metrics=("average_reward", "average_gain", "average_overhead"))
        yield data(found, TITLE, with_curves=True)
        yield pictures.time_courses(found)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure2))
