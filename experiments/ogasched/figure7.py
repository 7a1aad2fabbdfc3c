"""Figure 7: cumulative reward where all utilities are of one kind."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, OGASCHED, RIVALS
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import DEFAULT
from desim.experiments.ogasched.study import Study, carry_out, grid
from desim.experiments.options import run_as_program

__all__ = ["Figure7", "figure7"]

ROWS = {
    name: AGENTS[name] for name in (OGASCHED, *RIVALS, "OGASched (reservation)", "AdaGrad", "AdaGrad (reservation)")
}


@dataclass(frozen=True)
class Figure7(Options):
    """Cumulative reward by utility.

    Attributes
    ----------
    utilities : tuple of str
        One setting each.
    """

    utilities: tuple[str, ...] = ("linear", "poly", "log", "reciprocal")


def figure7(options: Figure7) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure7
        Utilities, seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    columns = {name: replace(DEFAULT, utilities=name) for name in options.utilities}
    study = carry_out("Figure 7: cumulative reward by utility", grid("utilities", columns, ROWS), options)
    print_study(study, metrics=("cumulative_reward", "average_gain", "average_overhead"))
    write_study(study)
    pictures.draw_bars(study, "cumulative_reward")
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure7, figure7))
