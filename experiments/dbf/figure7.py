"""Figure 7: waiting time by type of job, with every split of a window of 10 slots."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.cli.output import print_table
from desim.experiments.compare import with_interval
from desim.experiments.dbf import window_pictures
from desim.experiments.dbf.agents import CONTROLS, LEARNED, window_rows
from desim.experiments.dbf.job_types import WIDE, WIDE_METRICS, perform_by_type
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.report import print_end, print_header, print_missing, write_study
from desim.experiments.dbf.simulating import Setting
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import find_weights
from desim.experiments.dbf.windows import untrained
from desim.experiments.options import run_as_program

__all__ = ["Figure7", "figure7"]

REFERENCE = "shortest in the window"
WAITS = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max")
HEADS = ("mean wait, s", "99th percentile, s", "longest wait, s")
WIDE_HEADS = ("wide jobs", "started", "share", "mean wait, s", "longest wait, s")


@dataclass(frozen=True)
class Figure7(Options):
    """Which jobs wait, and who starves.

    Attributes
    ----------
    size : int
        Slots of the window.
    """

    size: int = 10


def figure7(options: Figure7) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure7
        Window, episodes, directories.

    Returns
    -------
    Study
        What was measured.
    """
    size = options.size
    tails = (0, 1, size) if options.quick else tuple(range(size + 1))
    rows = window_rows(find_weights(options.weights), size, tails)
    panel = Panel(f"M = {size}", "tail", {str(tail): Setting() for tail in tails}, rows)
    study = carry_out("Figure 7", [panel], options, reference=REFERENCE, by=perform_by_type)
    print_header(study)
    print_missing(untrained(size, tails, rows[LEARNED]))
    for row in (LEARNED, *CONTROLS):
        if rows[row]:
            _print(study, panel, row)
    print_end(study)
    write_study(study, [], (*WAITS, *WIDE_METRICS))
    for row, name in ((LEARNED, "figure7"), (REFERENCE, "figure7_shortest")):
        if rows[row]:
            window_pictures.draw_types(study, panel, row, name=name)
    return study


def _print(study: Study, panel: Panel, row: str) -> None:
    """Print waiting times by split, and what becomes of wide jobs."""
    table = [
        [
            f"{int(panel.name.split()[-1]) - int(tail)}-{tail}",
            *(with_interval(study.estimate(panel, tail, row, metric)) for metric in (*WAITS, *WIDE_METRICS)),
        ]
        for tail in panel.columns
        if study.has(panel, tail, row)
    ]
    title = f"{panel.name}, {row}: waiting times of all jobs, and of those with more than {WIDE} cores"
    print_table(["split", *HEADS, *WIDE_HEADS], table, title=title)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure7, figure7))
