"""Figure 7: average reward if all utilities are of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.agents import DEFAULT, PRINTED, RULES, chosen
from desim.experiments.ogasched.study import WIDE, OGAStudy, reward_tables
from desim.experiments.report_blocks import Block

PANEL, UTILITIES = "utilities", ("linear", "poly", "log", "reciprocal")


@dataclass(frozen=True)
class Figure7(OGAStudy):
    """Average reward by kind of utility."""

    divide_slots: int = 20

    def panels(self) -> Sequence[Panel]:
        """Return the utilities."""
        columns = {name: self.shorter(DEFAULT, utilities=name) for name in UTILITIES}
        rows = chosen(PRINTED, "OGASched, capped", "exact projection", "exact, with memory", *RULES)
        return [Panel(PANEL, "utility", columns, rows)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        yield from reward_tables(frame, {PANEL: "utility"}, "figure7", ratios=False, **WIDE)
