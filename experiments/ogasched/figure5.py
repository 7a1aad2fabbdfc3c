"""Figure 5: the large cluster, 100 types of jobs on 1,024 nodes over 10,000 slots."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import MAIN_ROWS
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import LARGE
from desim.experiments.ogasched.study import Study, carry_out, grid
from desim.experiments.options import run_as_program

__all__ = ["Figure5", "figure5"]


@dataclass(frozen=True)
class Figure5(Options):
    """Large scale: average reward over time with 100 ports and 1,024 nodes."""

    seeds: int = 3


def figure5(options: Figure5) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure5
        Seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    study = carry_out("Figure 5: large scale", grid("figure 5", {"T 10000": LARGE}, MAIN_ROWS), options)
    print_study(study, metrics=("average_reward", "average_gain", "average_overhead"))
    write_study(study, {"curves": pictures.curve_document(study)})
    pictures.draw_time_courses(study)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure5, figure5))
