"""Table III: average reward against T, the arrival probability and the density of the graph."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import MAIN_ROWS, RIVALS
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.paper import TABLE_III, lead_percent
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import DEFAULT
from desim.experiments.ogasched.simulating import Setting
from desim.experiments.ogasched.study import Entry, Key, Study, carry_out, grid
from desim.experiments.options import run_as_program

__all__ = ["Table3", "table3"]

PANELS: dict[str, dict[str, Setting]] = {
    "T": {str(slots): replace(DEFAULT, num_slots=slots) for slots in (1_000, 2_000, 5_000, 10_000)},
    "rho": {f"{chance:g}": replace(DEFAULT, probability=chance) for chance in (0.3, 0.5, 0.7, 0.9)},
    "density": {f"{density:g}": replace(DEFAULT, density=density) for density in (2.0, 2.5, 3.0)},
}


@dataclass(frozen=True)
class Table3(Options):
    """Generality and robustness: all 55 cells of table III."""


def table3(options: Table3) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Table3
        Seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    entries: dict[Key, Entry] = {}
    for panel, columns in PANELS.items():
        entries |= grid(
            panel,
            columns,
            MAIN_ROWS,
            paper={row: rewards[panel] for row, rewards in TABLE_III.items()},
            paper_leads={row: [lead_percent(panel, number, row) for number in range(len(columns))] for row in RIVALS},
        )
    study = carry_out("Table III: average reward", entries, options)
    print_study(study)
    write_study(study)
    pictures.draw_sweeps(study, ("average_reward",), with_leads=True, with_paper=True)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Table3, table3))
