"""Figure 3: cumulative reward against the number of nodes, the number of ports and the contention level."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import MAIN_ROWS
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import CONTENTIONS, DEFAULT, contention_columns
from desim.experiments.ogasched.study import Study, carry_out, grid
from desim.experiments.options import run_as_program

__all__ = ["Figure3", "figure3"]


@dataclass(frozen=True)
class Figure3(Options):
    """Scalability: cumulative reward against the size of the graph and the contention level.

    Attributes
    ----------
    nodes, ports : tuple of int
        Values of |R| and |L|.
    contentions : tuple of float
        Contention levels.
    """

    seeds: int = 5
    nodes: tuple[int, ...] = (32, 64, 128, 256, 512)
    ports: tuple[int, ...] = (5, 10, 20, 40)
    contentions: tuple[float, ...] = CONTENTIONS


def figure3(options: Figure3) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure3
        Values, seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    entries = (
        grid("|R|", {str(count): replace(DEFAULT, num_nodes=count) for count in options.nodes}, MAIN_ROWS)
        | grid("|L|", {str(count): replace(DEFAULT, num_ports=count) for count in options.ports}, MAIN_ROWS)
        | grid("contention", contention_columns(options.contentions), MAIN_ROWS)
    )
    study = carry_out("Figure 3: cumulative reward against scale and contention", entries, options)
    print_study(study, metrics=("cumulative_reward",))
    write_study(study)
    pictures.draw_sweeps(study, ("cumulative_reward",), with_leads=True)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure3, figure3))
