"""Figure 7: batch mode, small numbers of jobs."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.lachesis.batches import batches
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.paper import FIGURE_7
from desim.experiments.lachesis.study import Study
from desim.experiments.options import run_as_program

__all__ = ["Figure7", "figure7"]


@dataclass(frozen=True)
class Figure7(Options):
    """Batches of 1 to 20 jobs on 50 executors.

    Attributes
    ----------
    numbers : tuple of int
        Numbers of jobs.
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    numbers: tuple[int, ...] = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
    ccr: float = 0.5


def figure7(options: Figure7) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure7
        Numbers of jobs, seeds, directories.

    Returns
    -------
    Study
        What was measured.
    """
    return batches("Figure 7: batch mode, small numbers of jobs", options, options.numbers, options.ccr, FIGURE_7)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure7, figure7))
