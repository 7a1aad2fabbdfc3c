"""Settings that leave room: fewer executors, longer transfers, continuous arrivals, job completion time."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.lachesis import pictures
from desim.experiments.lachesis.agents import (
    IDLE_ROWS,
    LACHESIS_COMPLETION,
    LEARNED,
    LEARNED_IN_BATCHES,
    OWN_ROWS,
    PAPER_ROWS,
    PLANNED_ROWS,
    REFERENCE,
)
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.report import print_objectives, write_study
from desim.experiments.lachesis.simulating import Setting
from desim.experiments.lachesis.study import Panel, Study, carry_out
from desim.experiments.options import run_as_program

__all__ = ["Room", "room"]


@dataclass(frozen=True)
class Room(Options):
    """Where the paper's own settings are too easy to tell agents apart.

    Attributes
    ----------
    ratios : tuple of float
        Communication-to-computation ratios.
    num_jobs : int
        Jobs of a batch.
    num_arriving : int
        Jobs of a continuous run.
    """

    ratios: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    num_jobs: int = 20
    num_arriving: int = 50


def room(options: Room) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Room
        Ratios, numbers of jobs, seeds, directories.

    Returns
    -------
    Study
        What was measured.
    """
    batch = LEARNED_IN_BATCHES | PAPER_ROWS | PLANNED_ROWS | IDLE_ROWS | OWN_ROWS
    stream = LEARNED | PAPER_ROWS | IDLE_ROWS | OWN_ROWS
    arriving, ratios = options.num_arriving, options.ratios
    panels = (
        Panel("batch, 50 executors", "CCR", {f"{x:g}": Setting(options.num_jobs, 50, x) for x in ratios}, batch),
        Panel("batch, 10 executors", "CCR", {f"{x:g}": Setting(options.num_jobs, 10, x) for x in ratios}, batch),
        Panel("continuous, 10 executors", "CCR", {f"{x:g}": Setting(arriving, 10, x, 45.0) for x in ratios}, stream),
        Panel("continuous, 30 executors", "CCR", {f"{x:g}": Setting(arriving, 30, x, 45.0) for x in ratios}, stream),
    )
    study = carry_out("Settings that leave room", panels, options, reference=REFERENCE)
    metrics = ("makespan", "turnaround_time_mean")
    print_objectives(study, LACHESIS_COMPLETION)
    write_study(study)
    pictures.draw(study, (*metrics, "gap_to_lower_bound"))
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Room, room))
