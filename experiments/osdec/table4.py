"""Table 4: other distributions of cores and durations."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from desim.cli.output import print_table
from desim.experiments.beside import print_beside
from desim.experiments.compare import short, with_interval
from desim.experiments.options import run_as_program
from desim.experiments.osdec import pictures
from desim.experiments.osdec.agents import PAPER_ROWS, PLANNING_ROWS, rows_of
from desim.experiments.osdec.beside import cases_beside
from desim.experiments.osdec.checks import bound_checks, case_checks, nearness_checks
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.paper import CASES, LEARNED_ROWS, TABLE_4
from desim.experiments.osdec.report import (
    METRIC_WORDS,
    print_deviations,
    print_findings,
    print_header,
    shortfall,
    write_study,
)
from desim.experiments.osdec.simulating import Setting
from desim.experiments.osdec.study import Panel, Study, measured

__all__ = ["Table4", "table4"]

COLUMNS = {name: Setting(case=name.replace(" case ", "-")) for name in CASES}
BASES = {name: base for group, base in ((CASES[:3], CASES[0]), (CASES[3:], CASES[5])) for name in group}
"""Of every case the one that it is divided by: core case 1 and duration case 3, those of the default workload."""


@dataclass(frozen=True)
class Table4(Options):
    """Sensitivity to the distributions of cores and durations.

    Attributes
    ----------
    metric : str
        What is compared with the paper, which does not say of what its table 4 is: ``utilization`` or
        ``total_reward``.
    planning : bool
        Run the rolling horizon, too, which takes some ten seconds a trajectory where jobs are large or long.
    """

    metric: Literal["utilization", "total_reward"] = "utilization"
    planning: bool = False
    time_limit: float = 2.0


def table4(options: Table4) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Table4
        Trajectories, directories, what is compared.

    Returns
    -------
    Study
        What was measured.
    """
    planning = [row for row in PLANNING_ROWS if row.startswith("list plan")]
    if options.planning:
        planning.append("rolling horizon, last value")
    panel = Panel("Table 4", "case", COLUMNS, rows_of(options, "cases", planning=planning))
    study = measured("Table 4", options, (panel,))
    print_header(study)
    for metric in ("utilization", "total_reward"):
        _print_cases(study, panel, metric, with_paper=metric == options.metric)
        _print_ratios(study, panel, metric)
    _print_shortfall(study, panel)
    print_deviations(study, [(case, panel, case, "total_reward") for case in CASES], of="the total reward")
    print_beside(cases_beside(study, panel, options.metric), options)
    checks = bound_checks(study)
    if not options.is_reduced:
        checks = [
            *case_checks(study, panel, options.metric),
            *nearness_checks(study, panel, "total_reward"),
            *checks,
        ]
    print_findings(study, checks)
    figures: dict[tuple[str, str, str], float | None] = {
        (case, row, options.metric): figure
        for row, printed in TABLE_4.items()
        for case, figure in zip(CASES, printed, strict=True)
    }
    write_study(study, checks, figures)
    pictures.draw_columns(study, panel, options.metric, TABLE_4, name="table4")
    return study


def _print_cases(study: Study, panel: Panel, metric: str, *, with_paper: bool) -> None:
    waiting = [row for row in LEARNED_ROWS if row not in panel.rows] if with_paper else []
    table = []
    for row in [*panel.rows, *waiting]:
        cells = []
        for number, case in enumerate(CASES):
            ours = with_interval(study.estimate(panel, case, row, metric)) if row in panel.rows else "–"
            printed = with_paper and row in TABLE_4
            cells.append(f"{ours} [{short(TABLE_4[row][number])}]" if printed else ours)
        table.append([row, *cells])
    print_table(["", *CASES], table, title=f"Table 4: {METRIC_WORDS[metric]}, core-slots")


def _print_ratios(study: Study, panel: Panel, metric: str) -> None:
    table = []
    for row in PAPER_ROWS:
        means = {case: study.estimate(panel, case, row, metric).mean for case in CASES}
        paper = dict(zip(CASES, TABLE_4[row], strict=True))
        cells = [f"{means[case] / means[BASES[case]]:.3f} [{paper[case] / paper[BASES[case]]:.3f}]" for case in CASES]
        table.append([row, *cells])
    title = f"{METRIC_WORDS[metric]} relative to core case 1 and to duration case 3"
    print_table(["", *CASES], table, title=title)


def _print_shortfall(study: Study, panel: Panel) -> None:
    table = [
        [row, *(with_interval(shortfall(study, panel, case, row), 2) for case in CASES)]
        for row in panel.rows
        if shortfall(study, panel, CASES[0], row) is not None
    ]
    if table:
        print_table(["", *CASES], table, title="Total reward below the optimum's bound, %, paired")


if __name__ == "__main__":
    sys.exit(run_as_program(Table4, table4))
