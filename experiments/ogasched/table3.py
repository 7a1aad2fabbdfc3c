"""Table III: average reward against T, the arrival probability and the density; readings, violations, spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.agents import DEFAULT, FITTED, PRINTED, RULES, STEPS, TABLE_III, VARIANTS, chosen
from desim.experiments.ogasched.simulate import HORIZONS, Setting
from desim.experiments.ogasched.study import METRIC, OGAStudy, reward_tables, steps_table, with_horizons
from desim.experiments.report_blocks import Block, Paragraph
from desim.experiments.tables import lead_table, metric_table, value_table

LONG, READINGS, FITS, SPREAD = "long runs", "readings", "fitted", "spread"
MORE = {"T": "T", "rho": "rho, more systems", "density": "density, more systems"}
"""Panels that are compared with the paper's cells, by parameter."""
LABELS = {MORE["T"]: "slots, T", MORE["rho"]: "arrival probability, rho", MORE["density"]: "density of the graph"}
#: Number of slots of runs on more systems, which differ more than slots do.
FEW_SLOTS = 50
#: Number of slots of runs by T; their beginnings are the cells with fewer slots.
MOST_SLOTS = HORIZONS[-1]
#: Number of seeds of these two.
MORE_SEEDS = 20


@dataclass(frozen=True)
class Table3(OGAStudy):
    """Generality and robustness: the cells of table III."""

    def seeds_of(self, setting: Setting) -> list[int]:
        """Return the seeds: more for runs that are compared with the paper's cells."""
        return list(range(MORE_SEEDS)) if setting.num_slots in (FEW_SLOTS, MOST_SLOTS) else self.seed_list

    def panels(self) -> Sequence[Panel]:
        """Return the three parts of the table, other readings, the system fitted to the rules, and the spread."""
        rows = chosen(*STEPS, *RULES)
        long = replace(DEFAULT, num_slots=MOST_SLOTS)
        rho = {text: self.shorter(DEFAULT, probability=float(text)) for text in TABLE_III["rho"][PRINTED]}
        density = {text: self.shorter(DEFAULT, density=float(text)) for text in TABLE_III["density"][PRINTED]}
        few = [
            Panel(
                MORE[name],
                name,
                {text: replace(one, num_slots=FEW_SLOTS) for text, one in columns.items()},
                chosen(PRINTED, *RULES),
            )
            for name, columns in (("rho", rho), ("density", density))
        ]
        usual, fitted = self.shorter(DEFAULT), self.shorter(FITTED)
        once = {"another system and other arrivals per seed": usual, "one system": replace(usual, system=0)}
        return [
            Panel("rho", "rho", rho, rows),
            Panel("density", "density", density, rows),
            *few,
            Panel(READINGS, "", {"table II": usual}, chosen(PRINTED, *VARIANTS)),
            Panel(FITS, "system", {"table II": usual, "fitted to the rules": fitted}, chosen(PRINTED, *RULES)),
            Panel(SPREAD, "seeds draw", once, chosen(PRINTED, "Fairness")),
            Panel(LONG, "T", {"T 10000": long}, chosen(PRINTED, "exact, with memory", "Fairness", "DRF")),
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        frame = with_horizons(frame, LONG)
        papers = {MORE[parameter]: rewards for parameter, rewards in TABLE_III.items()}
        if not self.quick:
            yield Paragraph(
                f"Runs by T have {MOST_SLOTS:,} slots and {MORE_SEEDS} seeds. Steps and readings have "
                f"{DEFAULT.num_slots // self.divide_slots} slots, where the paper has 2,000, and {self.seeds} seeds. "
                f"Runs on more systems have {FEW_SLOTS} slots and {MORE_SEEDS} seeds, because systems differ more "
                "than slots do."
            )
            yield steps_table(frame)
        panels = {panel: label for panel, label in LABELS.items() if panel in frame.panels}
        yield from reward_tables(frame, panels, "table3", papers=papers, rows=[PRINTED, "exact, with memory", *RULES])
        words = {
            METRIC: "average reward",
            "defined_slots": "slots before a reward is not a number",
            "above_request": "slots that violate (5), %",
            "excess_request": "allocated amounts above requests, %",
            "worst_request": "largest excess over a request, %",
            "above_capacity": "slots that violate (6), %",
        }
        yield metric_table(frame, READINGS, "table II", words, "Readings of algorithm 1, and their violations")
        yield value_table(frame, FITS, METRIC, "System fitted only to the rules: average reward")
        yield lead_table(frame, FITS, METRIC, "Fairness", "System fitted only to the rules: lead of Fairness, %")
        yield value_table(frame, SPREAD, METRIC, "Spread: average reward with 95 % intervals over seeds")
