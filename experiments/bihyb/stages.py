"""Makespan of the stages of TPC-H queries on one pool: rules and search, with two kinds of arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.bihyb.simulate import PASSES, RULES, Setting, perform
from desim.experiments.claims import read_printed
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.report_blocks import Block, Paragraph, Table, short
from desim.experiments.study import DataStudy
from desim.experiments.tables import best_rule_table, value_table

FLOATS, WHOLE = "shares as floats", "whole numbers"
SIZES = (50, 100, 150)
LEARNED = "PPO-BiHyb"
PUBLISHED = read_printed("desim.experiments.bihyb")
"""Mean makespans of ten instances, by number of queries and agent."""
QUICK_SIZE, QUICK_PASSES = 10, 100


@dataclass(frozen=True)
class Stages(DataStudy):
    """Makespan of each instance; the seeds are the numbers of the instances.

    Attributes
    ----------
    data : Path or None
        Directory with ``bihyb/instances.json.gz``. By default, queries are generated.
    most_passes : int
        Largest number of passes of the search.
    """

    most_passes: int = 10_000

    paper: ClassVar[str] = "bihyb"
    needs_data: ClassVar[bool] = True
    perform = staticmethod(perform)

    def panels(self) -> Sequence[Panel]:
        """Return rules and searches on the instances of each size, with both kinds of arithmetic."""
        sizes = (QUICK_SIZE,) if self.quick and self.data is None else SIZES
        most = min(self.most_passes, QUICK_PASSES) if self.quick else self.most_passes
        names = [*RULES, *(name for name, passes in PASSES.items() if passes <= most)]
        return [
            Panel(
                arithmetic,
                "queries",
                {str(size): Setting(size, self.place, arithmetic == FLOATS, check=self.quick) for size in sizes},
                {name: Choice(name) for name in names},
            )
            for arithmetic in (FLOATS, WHOLE)
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables."""
        if self.data is None:
            yield Paragraph("Without --data, queries are generated, so there are no published figures.")
        elif not self.quick:
            yield _published()
            yield Paragraph(
                f"The makespans of {LEARNED} on single instances are not published, so that its means are compared "
                "without intervals. Differences from the rules are paired by instance."
            )
            yield from (_against_learned(frame, panel) for panel in frame.panels)
        how = f"means of {len(self.seed_list)} instances"
        for panel in frame.panels:
            yield value_table(frame, panel, "makespan", f"Makespan, {panel}, {how}", better="lower")
            searches = {row: [row] for row in frame.rows(panel) if row in PASSES}
            title = f"How far the makespan is above that of the best rule, {panel}, paired by instance"
            yield best_rule_table(frame, panel, "makespan", title, rules=list(RULES), agents=searches)
            yield value_table(frame, panel, "lower_bound", f"Lower bound of the makespan, {panel}, {how}")
            title = f"Share of the instances whose makespan meets the lower bound, so that it is optimal, {panel}"
            yield value_table(frame, panel, "optimal", title, better="higher")
            yield value_table(frame, panel, "seconds", f"Processor seconds of a run, {panel}, {how}", better="lower")


def _published() -> Table:
    """Return the published means of all agents."""
    rows = [[row, *(short(by[row]["makespan"]) for by in PUBLISHED.values())] for row in next(iter(PUBLISHED.values()))]
    return Table("Published makespans, means of 10 instances", ["", *PUBLISHED], rows)


def _against_learned(frame: Frame, panel: str) -> Table:
    """Return by how much the means of our search are below the published ones of the learned agent."""
    columns = [size for size in frame.columns(panel) if size in PUBLISHED]
    rows = []
    for row in (row for row in frame.rows(panel) if row in PASSES):
        means = {size: frame.estimate(panel, size, row, "makespan").mean for size in columns}
        ahead = [100.0 * (1.0 - means[size] / PUBLISHED[size][LEARNED]["makespan"]) for size in columns]
        rows.append([row, *(f"{percent:+.2f} %" for percent in ahead)])
    return Table(f"How much shorter than that of {LEARNED} the mean makespan is, {panel}", ["", *columns], rows)
