"""Figure 2: average and cumulative reward over time, and the ratios of OGASched to its baselines.

Once in the setting of the figure (T = 8000, beta in [0.4, 0.6], contention level 11), to which the paper's percentages
belong, and once in that of table II.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.paper import FIGURE_2_LEADS, TABLE_III
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import DEFAULT, FIGURE_2
from desim.experiments.ogasched.study import Study, carry_out, grid
from desim.experiments.options import run_as_program

__all__ = ["Figure2", "figure2"]

#: The column of table III whose parameters are all those of table II.
DEFAULT_COLUMN = 1


@dataclass(frozen=True)
class Figure2(Options):
    """Average reward over time: OGASched and its baselines."""


def figure2(options: Figure2) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure2
        Seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    entries = grid(
        "figure 2", {"T 8000": FIGURE_2}, AGENTS, paper_leads={row: (lead,) for row, lead in FIGURE_2_LEADS.items()}
    ) | grid(
        "table II",
        {"T 2000": DEFAULT},
        AGENTS,
        paper={row: (rewards["T"][DEFAULT_COLUMN],) for row, rewards in TABLE_III.items()},
    )
    study = carry_out("Figure 2: average reward over time", entries, options)
    print_study(study, metrics=("average_reward", "average_gain", "average_overhead"))
    write_study(study, {"curves": pictures.curve_document(study)})
    pictures.draw_time_courses(study)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure2, figure2))
