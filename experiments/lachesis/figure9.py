"""Figure 9: continuous mode."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.beside import print_beside
from desim.experiments.lachesis import pictures
from desim.experiments.lachesis.agents import (
    ARRIVING_ROWS,
    IDLE_ROWS,
    LACHESIS_COMPLETION,
    LEARNED,
    OWN_ROWS,
    PAPER_ROWS,
    REFERENCE,
)
from desim.experiments.lachesis.beside import besides
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.paper import FIGURE_9
from desim.experiments.lachesis.report import print_objectives, write_study
from desim.experiments.lachesis.simulating import Setting
from desim.experiments.lachesis.study import Panel, Study, carry_out
from desim.experiments.options import run_as_program

__all__ = ["Figure9", "figure9"]


@dataclass(frozen=True)
class Figure9(Options):
    """Jobs that arrive at 50 executors every 45 s on average.

    Attributes
    ----------
    numbers : tuple of int
        Numbers of jobs.
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    numbers: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    ccr: float = 0.5


def figure9(options: Figure9) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure9
        Numbers of jobs, seeds, directories.

    Returns
    -------
    Study
        What was measured.
    """
    columns = {str(number): Setting(number, ccr=options.ccr, mean_interval=45.0) for number in options.numbers}
    rows = LEARNED | PAPER_ROWS | ARRIVING_ROWS | IDLE_ROWS | OWN_ROWS
    study = carry_out(
        "Figure 9: continuous mode", (Panel("continuous", "jobs", columns, rows),), options, reference=REFERENCE
    )
    metrics = ("makespan", "turnaround_time_mean")
    print_objectives(study, LACHESIS_COMPLETION, remarks=FIGURE_9)
    print_beside(besides(study), options)
    write_study(study)
    pictures.draw(study, (*metrics, "gap_to_lower_bound"))
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure9, figure9))
