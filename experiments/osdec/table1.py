"""Table 1: utilization, delay and total reward of every agent."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.beside import print_beside
from desim.experiments.options import run_as_program
from desim.experiments.osdec import pictures
from desim.experiments.osdec.agents import rows_of
from desim.experiments.osdec.beside import table_beside
from desim.experiments.osdec.checks import bound_checks, default_checks, online_checks
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.paper import TABLE_1
from desim.experiments.osdec.report import (
    METRIC_WORDS,
    print_deviations,
    print_findings,
    print_header,
    print_metrics,
    write_study,
)
from desim.experiments.osdec.simulating import Setting
from desim.experiments.osdec.study import Panel, Study, measured

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
    default = Panel("Table 1", "workload", {COLUMN: Setting()}, rows_of(options, COLUMN))
    second = Panel("More fluctuation", "workload", {SECOND: Setting(case=SECOND)}, rows_of(options, SECOND))
    study = measured("Table 1", options, (default, second))
    # what the paper's total is below the sum of the other two is its violation
    paper = {row: (use, delay, total - use - delay, total) for row, (use, delay, total) in TABLE_1.items()}
    print_header(study)
    print_metrics(study, default, COLUMN, METRICS, paper, title="Table 1, core-slots")
    print_metrics(study, second, SECOND, METRICS, {}, title="The workload with a fluctuating capacity, core-slots")
    places = ((default, COLUMN), (second, SECOND))
    heads = [f"{METRIC_WORDS[metric]},\n{column}" for _, column in places for metric in METRICS]
    cells = [(panel, column, metric) for panel, column in places for metric in METRICS]
    print_deviations(study, [(head, *cell) for head, cell in zip(heads, cells, strict=True)])
    print_beside(table_beside(study, default, COLUMN), options)
    checks = bound_checks(study)
    if not options.is_reduced:
        online = [check for panel, column in places for check in online_checks(study, panel, column)]
        checks = default_checks(study, default, COLUMN) + online + checks
    print_findings(study, checks)
    figures = {
        (COLUMN, row, metric): figure
        for row, printed in paper.items()
        for metric, figure in zip(METRICS, printed, strict=True)
    }
    write_study(study, checks, figures)
    pictures.draw_trade_off(study, default, COLUMN)
    for panel, column in places:
        pictures.draw_trajectory(study, panel, column)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Table1, table1))
