"""Figure 6: average gain and overhead of a slot, by contention level."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import MAIN_ROWS
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import CONTENTIONS, contention_columns
from desim.experiments.ogasched.study import Study, carry_out, grid
from desim.experiments.options import run_as_program

__all__ = ["Figure6", "figure6"]


@dataclass(frozen=True)
class Figure6(Options):
    """Gain and overhead against the contention level.

    Attributes
    ----------
    contentions : tuple of float
        Contention levels.
    """

    seeds: int = 5
    contentions: tuple[float, ...] = CONTENTIONS


def figure6(options: Figure6) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure6
        Values, seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    entries = grid("contention", contention_columns(options.contentions), MAIN_ROWS)
    study = carry_out("Figure 6: gain and overhead by contention", entries, options)
    print_study(study, metrics=("average_gain", "average_overhead", "average_reward"))
    write_study(study)
    pictures.draw_sweeps(study, ("average_gain", "average_overhead"))
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6, figure6))
