"""Table 2: utilization with windows against the same jobs in real time."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.cli.output import print_table
from desim.experiments.beside import print_beside
from desim.experiments.compare import lead_percent, short, with_interval
from desim.experiments.options import run_as_program
from desim.experiments.osdec import pictures
from desim.experiments.osdec.agents import rows_of
from desim.experiments.osdec.beside import windows_beside
from desim.experiments.osdec.checks import bound_checks, comparison_checks
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.paper import LEARNED_ROWS, TABLE_2
from desim.experiments.osdec.report import print_deviations, print_findings, print_header, write_study
from desim.experiments.osdec.simulating import Setting
from desim.experiments.osdec.study import Panel, Study, measured

__all__ = ["Table2", "table2"]

DEFERRABLE, REAL_TIME = "deferrable", "real-time"
COLUMNS = {DEFERRABLE: Setting(delay_weight=0.0), REAL_TIME: Setting(delay_weight=0.0, real_time=True)}
"""Utilization is the only objective, as in the paper; violations still cost."""


@dataclass(frozen=True)
class Table2(Options):
    """What start windows are worth."""


def table2(options: Table2) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Table2
        Trajectories, directories.

    Returns
    -------
    Study
        What was measured.
    """
    panel = Panel("Table 2", "setting", COLUMNS, rows_of(options, "utilization"))
    study = measured("Table 2", options, (panel,))
    print_header(study)
    _print(study, panel)
    print_deviations(study, [(column, panel, column, "utilization") for column in COLUMNS], of="the utilization")
    print_beside(windows_beside(study, panel), options)
    checks = bound_checks(study)
    if not options.is_reduced:
        checks = comparison_checks(study, panel, DEFERRABLE, REAL_TIME, "utilization") + checks
    print_findings(study, checks)
    figures = {
        (column, row, "utilization"): figure
        for row, printed in TABLE_2.items()
        for column, figure in zip(COLUMNS, printed, strict=True)
    }
    write_study(study, checks, figures)
    pictures.draw_columns(study, panel, "utilization", TABLE_2, name="table2")
    return study


def _print(study: Study, panel: Panel) -> None:
    table = []
    for row in [*panel.rows, *(row for row in LEARNED_ROWS if row not in panel.rows)]:
        paper = TABLE_2.get(row)
        brackets = ["", "", ""] if paper is None else [f" [{short(figure)}]" for figure in paper]
        if paper is not None:
            brackets.append(f" [{100 * (paper[0] / paper[1] - 1):+.2f}]")
        if row in panel.rows:
            ours = [with_interval(study.estimate(panel, column, row, "utilization")) for column in COLUMNS]
            pair = (study.values(panel, column, row, "utilization") for column in COLUMNS)
            ours.append(with_interval(lead_percent(*pair), 2))
        else:
            ours = ["–"] * 3
        table.append([row, *(cell + bracket for cell, bracket in zip(ours, brackets, strict=True))])
    print_table(["", DEFERRABLE, REAL_TIME, "gain of windows, %"], table, title="Table 2: utilization, core-slots")


if __name__ == "__main__":
    sys.exit(run_as_program(Table2, table2))
