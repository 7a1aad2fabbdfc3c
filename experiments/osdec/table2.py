"""Table 2: utilization with windows against the same jobs in real time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Beside, Besides, Block, Check, Checks, Table, lead_percent, short, with_interval
from desim.experiments.measured import Panel
from desim.experiments.osdec.agents import TABLE_2, rows_of
from desim.experiments.osdec.simulate import Setting
from desim.experiments.osdec.study import (
    Measured,
    Study,
    beside_paper,
    bound_checks,
    columns_drawing,
    data,
    deviations,
    heading,
)
from desim.experiments.study import run_as_program
from desim.statistics import Estimate, paired_difference

TITLE = "Table 2"
METRIC = "utilization"
DEFERRABLE, REAL_TIME = "deferrable", "real-time"
COLUMNS = {DEFERRABLE: Setting(delay_weight=0.0), REAL_TIME: Setting(delay_weight=0.0, real_time=True)}
"""Utilization is the only objective, as in the paper; violations still cost."""


@dataclass(frozen=True)
class Table2(Study):
    """What start windows are worth."""

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        panel = Panel(TITLE, "setting", COLUMNS, rows_of(self, METRIC))
        found = self.measure(panel)
        yield from heading(found, TITLE)
        yield _table(found, panel)
        yield from deviations(found, [(column, panel, column, METRIC) for column in COLUMNS], "the utilization")
        yield Besides(list(_beside(found, panel)), self.is_reduced)
        checks = bound_checks(found)
        if not self.is_reduced:
            checks = comparison_checks(found, panel) + checks
        yield Checks(checks)
        yield from found.faults()
        figures = {
            (column, row, METRIC): figure
            for row, printed in TABLE_2.items()
            for column, figure in zip(COLUMNS, printed, strict=True)
        }
        yield data(found, TITLE, checks, figures)
        yield columns_drawing(found, TITLE, METRIC, TABLE_2)


def _gain(found: Measured, panel: Panel, row: str) -> Estimate:
    """Return by how many percent windows raise the utilization."""
    return lead_percent(*(found.values(panel, column, row, METRIC) for column in COLUMNS))


def _table(found: Measured, panel: Panel) -> Table:
    def cells(row: str) -> list[str]:
        ours = [with_interval(found.estimate(panel, column, row, METRIC)) for column in COLUMNS]
        return [*ours, with_interval(_gain(found, panel, row), 2)]

    paper = {
        row: [short(windows), short(real_time), f"{100 * (windows / real_time - 1):+.2f}"]
        for row, (windows, real_time) in TABLE_2.items()
    }
    heads = ["", DEFERRABLE, REAL_TIME, "gain of windows, %"]
    return Table("Table 2: utilization, core-slots", heads, beside_paper(panel, cells, 3, paper))


def _beside(found: Measured, panel: Panel) -> Iterator[Beside]:
    """Yield utilizations of the paper, and by how many percent windows raise them, for each row that there is."""
    for row, (windows, real_time) in TABLE_2.items():
        if row in panel.rows:
            ours = found.estimate(panel, DEFERRABLE, row, METRIC)
            yield Beside(f"{row}: utilization with windows, core-slots", windows, ours, "more")
            gain = 100.0 * (windows / real_time - 1.0)
            yield Beside(f"{row}: gain of windows, %", gain, _gain(found, panel, row), "more")


def comparison_checks(found: Measured, panel: Panel) -> list[Check]:
    """Tell for every row whether windows raise the utilization beyond doubt, paired by trajectory."""
    checks = []
    for row in panel.rows:
        difference = paired_difference(*(found.values(panel, column, row, METRIC) for column in COLUMNS))
        text = f"{row}: {DEFERRABLE} less {REAL_TIME} is {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
        checks.append(Check(text, difference.low > 0))
    return checks


if __name__ == "__main__":
    sys.exit(run_as_program(Table2))
