"""Figure 8: batch mode, large numbers of jobs."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from experiments.lachesis import pictures
from experiments.lachesis.agents import LEARNED, PAPER_ROWS, PLANNED_ROWS, REFERENCE
from experiments.lachesis.options import Options
from experiments.lachesis.paper import FIGURE_8
from experiments.lachesis.report import print_study, write_study
from experiments.lachesis.simulating import Setting
from experiments.lachesis.study import Panel, Study, carry_out
from experiments.options import run_as_program

__all__ = ["Figure8", "figure8"]


@dataclass(frozen=True)
class Figure8(Options):
    """Batches of 20 to 100 jobs on 50 executors.

    Attributes
    ----------
    numbers : tuple of int
        Numbers of jobs.
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    numbers: tuple[int, ...] = (20, 30, 40, 50, 60, 70, 80, 90, 100)
    ccr: float = 0.5


def figure8(options: Figure8) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure8
        Numbers of jobs, seeds, directories.

    Returns
    -------
    Study
        What was measured.
    """
    columns = {str(number): Setting(number, ccr=options.ccr) for number in options.numbers}
    rows = LEARNED | PAPER_ROWS | PLANNED_ROWS
    study = carry_out(
        "Figure 8: batch mode, large numbers of jobs",
        (Panel("batch", "jobs", columns, rows),),
        options,
        reference=REFERENCE,
    )
    metrics = ("makespan", "speedup", "slr")
    print_study(study, (*metrics, "lower_bound", "gap_to_lower_bound"), remarks=FIGURE_8)
    write_study(study)
    pictures.draw(study, (*metrics, "gap_to_lower_bound"))
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure8, figure8))
