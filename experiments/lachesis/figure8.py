"""Figure 8: batch mode, large numbers of jobs."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.lachesis.batches import batches
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.paper import FIGURE_8
from desim.experiments.lachesis.study import Study
from desim.experiments.options import run_as_program

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
    return batches("Figure 8: batch mode, large numbers of jobs", options, options.numbers, options.ccr, FIGURE_8)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure8, figure8))
