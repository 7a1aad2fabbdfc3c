"""Figure 6: how much of the queue is not seen."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.dbf import window_pictures
from desim.experiments.dbf.report import print_by_column, print_end, print_header, print_missing, write_study
from desim.experiments.dbf.study import Study
from desim.experiments.dbf.windows import WindowOptions, measure_windows
from desim.experiments.options import run_as_program

__all__ = ["Figure6", "figure6"]

SHOWN = ("invisible_jobs", "hidden_share")


@dataclass(frozen=True)
class Figure6(WindowOptions):
    """Jobs beyond the window, and the share of decisions at which there are any; from the runs of figure 5."""

    sizes: tuple[int, ...] = (8, 10, 16, 20, 32)


def figure6(options: Figure6) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure6
        Windows, episodes, directories.

    Returns
    -------
    Study
        What was measured.
    """
    study, missing = measure_windows("Figure 6", options)
    print_header(study)
    print_missing(missing)
    for panel in study.panels:
        for metric in SHOWN:
            print_by_column(study, panel, metric, title=panel.name)
    print_end(study)
    write_study(study, [], (*SHOWN, "queue_length_mean", "num_decisions"))
    window_pictures.draw_windows(study, SHOWN, name="figure6")
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6, figure6))
