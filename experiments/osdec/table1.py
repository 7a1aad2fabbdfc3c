"""Table 1: utilization, delay and total reward of every agent."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from experiments.options import run_as_program
from experiments.osdec import pictures
from experiments.osdec.agents import rows_of
from experiments.osdec.checks import bound_checks, default_checks
from experiments.osdec.options import Options
from experiments.osdec.paper import TABLE_1
from experiments.osdec.report import print_findings, print_header, print_metrics, write_study
from experiments.osdec.simulating import Setting, perform
from experiments.panels import Panel, Study, outcomes_of

__all__ = ["Table1", "table1"]

COLUMN, SECOND = "default", "fluctuating"
METRICS = ("utilization", "time_delay", "violation_penalty", "total_reward")


@dataclass(frozen=True)
class Table1(Options):
    """The default workload, and one whose capacity fluctuates more."""


def table1(options: Table1) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Table1
        Trajectories, directories.

    Returns
    -------
    Study
        What was measured.
    """
    columns = {COLUMN: Setting(), SECOND: Setting(case="fluctuating")}
    panel = Panel("Table 1", "workload", columns, rows_of(options))
    study = Study("Table 1", options, (panel,), "FIFO", outcomes_of((panel,), options, perform))
    # what the paper's total is below the sum of the other two is its violation
    paper = {row: (use, delay, total - use - delay, total) for row, (use, delay, total) in TABLE_1.items()}
    print_header(study)
    print_metrics(study, panel, COLUMN, METRICS, paper, title="Table 1, core-slots")
    print_metrics(study, panel, SECOND, METRICS, {}, title="The workload with a fluctuating capacity, core-slots")
    checks = bound_checks(study)
    if not options.is_reduced:
        checks = default_checks(study, panel, COLUMN) + checks
    print_findings(study, checks)
    figures = {
        (COLUMN, row, metric): figure
        for row, printed in paper.items()
        for metric, figure in zip(METRICS, printed, strict=True)
    }
    write_study(study, checks, figures)
    pictures.draw_trade_off(study, panel, COLUMN)
    for name, setting in columns.items():
        pictures.draw_trajectory(study, setting, name=name)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Table1, table1))
