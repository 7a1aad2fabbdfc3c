"""Line searches against everybody, seed by seed: by how much they are ahead where they are least ahead.

A mean over seeds can hide a loss on one of them; here every seed counts. The ceiling is the slot solved exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from desim.experiments.blocks import Block, Fault, Paragraph, Table
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, DEFAULT, LARGE, RIVALS, choose, contention_columns
from desim.experiments.ogasched.simulate import Setting
from desim.experiments.ogasched.study import Measured, Panel, Study, data
from desim.experiments.study import run_as_program

TITLE = "Behind no rival on any seed"
OURS, CEILING = "LineSearch", "BestSlot"
#: What counts as behind, in percent.
ALLOWANCE = 0.1
ROWS = {
    OURS: AGENTS[OURS],
    **RIVALS,
    "DRF, progressive": choose("DRF", filling="progressive"),
    **{name: AGENTS[name] for name in ("OGASched", "AdaGrad", CEILING)},
}
UTILITIES = ("linear", "poly", "log", "reciprocal")


@dataclass(frozen=True)
class Margins(Study):
    """Line searches against all that see the jobs first, seed by seed.

    Attributes
    ----------
    contentions : tuple of float
        Contention levels.
    slots, large_slots : int
        T, which is shorter than elsewhere: no mean over it is needed to see who is ahead.
    """

    seeds: int = 5
    contentions: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 3.0)
    slots: int = 200
    large_slots: int = 30

    def settings(self) -> dict[str, Setting]:
        """Return the settings by what stands over their columns."""
        utilities = {name: replace(DEFAULT, utilities=name) for name in UTILITIES}
        levels = {f"contention {level}": setting for level, setting in contention_columns(self.contentions).items()}
        columns = {
            name: replace(setting, num_slots=self.slots)
            for name, setting in ({"default": DEFAULT} | utilities | levels).items()
        }
        return columns | {"large": replace(LARGE, num_slots=self.large_slots)}

    def blocks(self) -> Iterator[Block]:
        """Yield the table of worst seeds, what is behind, files and the figure."""
        references = {row: OURS for row in ROWS if row != OURS}
        found = self.measure(Panel("worst seed", "setting", self.settings(), ROWS, references))
        yield from found.runs
        yield from self.heading(TITLE, f"{len(self.seed_list)} seeds, the least lead of any")
        panel: Panel = found.panels[0]
        rows = [
            [row, *(f"{worst_lead(found, panel, column, row):+.3f}" for column in panel.columns)] for row in references
        ]
        yield Table(f"{OURS} is ahead by, % of its own reward, on its worst seed", ["", *panel.columns], rows)
        behind = [
            f"{row} on {column}: {lead:.3f} %"
            for row in references
            for column in panel.columns
            if row != CEILING and (lead := worst_lead(found, panel, column, row)) < -ALLOWANCE
        ]
        yield Paragraph(f"{OURS} is behind a rival by more than {ALLOWANCE} % on {len(behind)} settings.")
        yield from (Fault(f"{OURS} is behind {line}") for line in behind)
        yield from found.faults()
        yield data(found, TITLE)
        yield pictures.bars(found, "average_reward", "{}")


def worst_lead(found: Measured, panel: Panel, column: str, row: str) -> float:
    """Return by how many percent of its own reward the line search is ahead of a row, on the seed where least."""
    ours, theirs = (found.values(panel, column, one, "average_reward") for one in (OURS, row))
    return float((100.0 * (ours - theirs) / abs(ours)).min())


if __name__ == "__main__":
    sys.exit(run_as_program(Margins))
