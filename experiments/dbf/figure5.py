"""Figure 5: every split of windows of several sizes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.beside import print_beside
from desim.experiments.checks import print_checks
from desim.experiments.dbf import window_pictures
from desim.experiments.dbf.agents import CONTROLS, LEARNED
from desim.experiments.dbf.beside import windows_beside
from desim.experiments.dbf.checks import beaten, halving_checks, tail_checks
from desim.experiments.dbf.report import print_by_column, print_end, print_header, print_missing, write_study
from desim.experiments.dbf.study import Study
from desim.experiments.dbf.windows import WindowOptions, measure_windows
from desim.experiments.options import run_as_program

__all__ = ["Figure5", "figure5"]

SHOWN = ("waiting_time_mean", "queue_length_mean")
WRITTEN = (*SHOWN, "started_waiting_time_mean", "waiting_time_p99", "waiting_time_max", "utilization")


@dataclass(frozen=True)
class Figure5(WindowOptions):
    """Waiting time and queue length with every split, learned and by rules in the same window."""


def figure5(options: Figure5) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure5
        Windows, episodes, directories.

    Returns
    -------
    Study
        What was measured.
    """
    study, missing = measure_windows("Figure 5", options)
    print_header(study)
    print_missing(missing)
    for panel in study.panels:
        for metric in SHOWN:
            print_by_column(study, panel, metric, title=panel.name)
    print_end(study)
    print_beside(windows_beside(study), options)
    checks = tail_checks(study) + halving_checks(study)
    print_checks(checks)
    against = [
        check
        for panel in study.panels
        for tail in panel.columns
        for check in beaten(study, panel, tail, [LEARNED], CONTROLS, metrics=SHOWN[:1])
    ]
    if against:
        print_checks(against)
    write_study(study, checks + against, WRITTEN)
    window_pictures.draw_windows(study, SHOWN, name="figure5")
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure5, figure5))
