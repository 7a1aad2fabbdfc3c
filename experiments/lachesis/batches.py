"""Batches of different sizes on 50 executors: what figures 7 and 8 share."""

from __future__ import annotations

from collections.abc import Sequence

from desim.experiments.beside import print_beside
from desim.experiments.lachesis import pictures
from desim.experiments.lachesis.agents import LEARNED_IN_BATCHES, OWN_ROWS, PAPER_ROWS, PLANNED_ROWS, REFERENCE
from desim.experiments.lachesis.beside import besides
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.report import print_study, write_study
from desim.experiments.lachesis.simulating import Setting
from desim.experiments.lachesis.study import Panel, Study, carry_out

__all__ = ["batches"]

METRICS = ("makespan", "speedup", "slr")


def batches(title: str, options: Options, numbers: Sequence[int], ccr: float, remarks: Sequence[str]) -> Study:
    """Run batches; print, write and draw their results.

    Parameters
    ----------
    title : str
        What it is.
    options : Options
        Seeds, directories.
    numbers : sequence of int
        Numbers of jobs.
    ccr : float
        Ratio of mean transfer time to mean run time.
    remarks : sequence of str
        What the paper says of its figure.

    Returns
    -------
    Study
        What was measured.
    """
    columns = {str(number): Setting(number, ccr=ccr) for number in numbers}
    panel = Panel("batch", "jobs", columns, LEARNED_IN_BATCHES | PAPER_ROWS | PLANNED_ROWS | OWN_ROWS)
    study = carry_out(title, (panel,), options, reference=REFERENCE)
    print_study(study, (*METRICS, "lower_bound", "gap_to_lower_bound"), remarks=remarks)
    print_beside(besides(study), options)
    write_study(study)
    pictures.draw(study, (*METRICS, "gap_to_lower_bound"))
    return study
