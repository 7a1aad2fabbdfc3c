"""Figure 2: average reward over time (T = 8000, beta in [0.4, 0.6], contention level 11), and leads over the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.agents import FIGURE_2, FIGURE_2_LEADS, PRINTED, RULES, chosen
from desim.experiments.ogasched.simulate import Setting
from desim.experiments.ogasched.study import OGAStudy, over_time, slot_tables
from desim.experiments.report_blocks import Block, Paragraph

PANEL, LONG = "figure 2", "figure 2, long"
COLUMN = "T 8000"
LONG_SEEDS = 10
"""Number of seeds of the full-length runs."""


@dataclass(frozen=True)
class Figure2(OGAStudy):
    """Average reward over time."""

    seeds: int = 20
    divide_slots: int = 160

    def seeds_of(self, setting: Setting) -> list[int]:
        """Return the seeds; fewer for the full-length runs."""
        return self.seed_list[:LONG_SEEDS] if setting.num_slots == FIGURE_2.num_slots else self.seed_list

    def panels(self) -> Sequence[Panel]:
        """Return all rows with fewer slots, and some with all slots."""
        return [
            Panel(
                PANEL,
                "T",
                {"shorter": self.shorter(FIGURE_2)},
                chosen(PRINTED, "OGASched, capped", "exact, with memory", *RULES),
            ),
            Panel(LONG, "T", {COLUMN: FIGURE_2}, chosen(PRINTED, "exact, with memory", "Fairness", "DRF")),
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        if not self.quick:
            slots = self.shorter(FIGURE_2).num_slots
            yield Paragraph(
                f"All rows have {slots:,} slots and {self.seeds} seeds; four of them have the paper's "
                f"{FIGURE_2.num_slots:,} slots and {LONG_SEEDS} seeds."
            )
        yield from slot_tables(frame, PANEL, "shorter", FIGURE_2_LEADS)
        yield from slot_tables(frame, LONG, COLUMN, FIGURE_2_LEADS)
        yield over_time(frame, LONG, COLUMN, "figure2.png", " with 95 % intervals")
