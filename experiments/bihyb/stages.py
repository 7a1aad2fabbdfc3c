"""Makespan of the stages of 50, 100 and 150 TPC-H queries on one pool: rules and search, in two arithmetics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.bihyb.simulate import PASSES, RULES, Setting, perform
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.report_blocks import Block, Paragraph
from desim.experiments.study import DataStudy
from desim.experiments.tables import value_table

FLOATS, WHOLE = "shares as floats", "whole numbers"
SIZES = (50, 100, 150)
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
    perform = staticmethod(perform)

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return self.quick or self.data is None

    def panels(self) -> Sequence[Panel]:
        """Return rules and searches on the instances of each size, in both arithmetics."""
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
        how = f"means of {len(self.seed_list)} instances"
        for panel in frame.panels:
            yield value_table(frame, panel, "makespan", f"Makespan, {panel}, {how}", better="lower")
            yield value_table(frame, panel, "lower_bound", f"Lower bound of the makespan, {panel}, {how}")
            title = f"Share of the instances whose makespan meets the lower bound, so that it is optimal, {panel}"
            yield value_table(frame, panel, "optimal", title, better="higher")
            yield value_table(frame, panel, "seconds", f"Processor seconds of a run, {panel}, {how}", better="lower")
