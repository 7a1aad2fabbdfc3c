"""Table 4: other distributions of cores and durations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from desim.experiments.blocks import Beside, Besides, Block, Check, Checks, Table, lead_percent, short, with_interval
from desim.experiments.measured import Panel
from desim.experiments.osdec.agents import (
    CASES,
    LEARNED_ROWS,
    OPTIMUM,
    OSDEC,
    PAPER_ROWS,
    PLANNING_ROWS,
    TABLE_4,
    VARIANTS,
    rows_of,
)
from desim.experiments.osdec.simulate import Setting
from desim.experiments.osdec.study import (
    METRIC_WORDS,
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

TITLE = "Table 4"
COLUMNS = {name: Setting(case=name.replace(" case ", "-")) for name in CASES}
BASES = {name: base for group, base in ((CASES[:3], CASES[0]), (CASES[3:], CASES[5])) for name in group}
"""Of every case the one that it is divided by: core case 1 and duration case 3, those of the default workload."""
#: How far ratios between cases may be from the paper's; by how many percent our variants may be below the best.
RATIO, NEAR = 0.10, 1.0


@dataclass(frozen=True)
class Table4(Study):
    """Sensitivity to the distributions of cores and durations.

    Attributes
    ----------
    metric : str
        What is compared with the paper, which does not say of what its table 4 is: ``utilization`` or
        ``total_reward``.
    planning : bool
        Run the rolling horizon, too, which takes some seconds a trajectory where jobs are large or long.
    """

    metric: Literal["utilization", "total_reward"] = "utilization"
    planning: bool = False
    time_limit: float = 2.0

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        planning = [row for row in PLANNING_ROWS if row.startswith("list plan")]
        planning += ["rolling horizon, last value"] if self.planning else []
        panel = Panel(TITLE, "case", COLUMNS, rows_of(self, "cases", planning=planning))
        found = self.measure(panel)
        yield from heading(found, TITLE)
        for metric in ("utilization", "total_reward"):
            yield _cases(found, panel, metric, TABLE_4 if metric == self.metric else {})
            yield _ratios(found, panel, metric)
        if OPTIMUM in panel.rows:
            cells = [
                [row, *(with_interval(found.shortfall(panel, case, row), 2) for case in CASES)] for row in panel.rows
            ]
            yield Table("Total reward below the optimum's bound, %, paired", ["", *CASES], cells)
        yield from deviations(found, [(case, panel, case, "total_reward") for case in CASES], "the total reward")
        yield Besides(list(_beside(found, panel, self.metric)), self.is_reduced)
        checks = bound_checks(found)
        if not self.is_reduced:
            checks = case_checks(found, panel, self.metric) + nearness_checks(found, panel, "total_reward") + checks
        yield Checks(checks)
        yield from found.faults()
        figures = {
            (case, row, str(self.metric)): figure
            for row, printed in TABLE_4.items()
            for case, figure in zip(CASES, printed, strict=True)
        }
        yield data(found, TITLE, checks, figures)
        yield columns_drawing(found, TITLE, self.metric, TABLE_4)


def _cases(found: Measured, panel: Panel, metric: str, paper: Mapping[str, tuple[float, ...]]) -> Table:
    def cells(row: str) -> list[str]:
        return [with_interval(found.estimate(panel, case, row, metric)) for case in CASES]

    printed = {row: [short(figure) for figure in figures] for row, figures in paper.items()}
    rows = beside_paper(panel, cells, len(CASES), printed, rows=LEARNED_ROWS if paper else ())
    return Table(f"Table 4: {METRIC_WORDS[metric]}, core-slots", ["", *CASES], rows)


def _ratios(found: Measured, panel: Panel, metric: str) -> Table:
    rows = []
    for row in PAPER_ROWS:
        means = {case: found.estimate(panel, case, row, metric).mean for case in CASES}
        paper = dict(zip(CASES, TABLE_4[row], strict=True))
        cells = [f"{means[case] / means[BASES[case]]:.3f} [{paper[case] / paper[BASES[case]]:.3f}]" for case in CASES]
        rows.append([row, *cells])
    title = f"{METRIC_WORDS[metric]} relative to core case 1 and to duration case 3"
    return Table(title, ["", *CASES], rows)


def _beside(found: Measured, panel: Panel, metric: str) -> Iterator[Beside]:
    """Yield what the paper says of FIFO and OSDEC, and by how many percent OSDEC is ahead, for each case."""
    first = found.reference
    for number, case in enumerate(CASES):
        for row in (row for row in (first, OSDEC) if row in panel.rows):
            ours = found.estimate(panel, case, row, metric)
            yield Beside(f"{case}: {metric} of {row}, core-slots", TABLE_4[row][number], ours, "more")
        if OSDEC in panel.rows:
            lead = 100.0 * (TABLE_4[OSDEC][number] / TABLE_4[first][number] - 1.0)
            ours = found.lead(panel, case, OSDEC, metric)
            yield Beside(f"{case}: {metric} of OSDEC above that of {first}, %", lead, ours, "more")


def case_checks(found: Measured, panel: Panel, metric: str) -> list[Check]:
    """Compare ratios with the paper's, for each heuristic and pair of core cases or of duration cases."""
    checks = []
    for row in PAPER_ROWS:
        ours = {name: found.estimate(panel, name, row, metric).mean for name in CASES}
        paper = dict(zip(CASES, TABLE_4[row], strict=True))
        for first, second in (*combinations(CASES[:3], 2), *combinations(CASES[3:], 2)):
            mine, theirs = ours[second] / ours[first], paper[second] / paper[first]
            off = mine / theirs - 1
            text = f"{metric} of {row}, {second} over {first}: {mine:.3f}, the paper {theirs:.3f}, {off:+.1%}"
            checks.append(Check(text, abs(off) <= RATIO))
    return checks


def nearness_checks(found: Measured, panel: Panel, metric: str) -> list[Check]:
    """Tell whether OSDEC, or one of our variants, is the best online row in every column, or near to it."""
    checks = []
    for ours in (row for row in VARIANTS if row in panel.rows):
        for column in panel.columns:
            values = found.online(panel, column, metric)
            mine = values.pop(ours)
            best = max(values, key=lambda row: values[row].mean())
            lead = lead_percent(mine, values[best])
            told = f"{with_interval(lead, 2)} % above {best}, want at least -{NEAR:.0f} %"
            checks.append(Check(f"{column}: {metric} of {ours} is {told}", lead.mean >= -NEAR))
    return checks


if __name__ == "__main__":
    sys.exit(run_as_program(Table4))
