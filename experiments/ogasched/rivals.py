"""Which reading of each baseline is the strongest: the paper describes them in a sentence each.

Every reading that `desim.agents.multiserver` knows runs in the setting of table II. The rows that the other
experiments use are the references; a reading that earns more than its reference would be named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Block
from desim.experiments.measured import Choice
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, DEFAULT, OGASCHED, RIVALS, choose
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Readings of the baselines"


def _packings(policy: str) -> dict[str, Choice]:
    """Return the readings of a policy that scores nodes."""
    return {
        f"{policy}, {order}, {'all nodes' if most is None else f'{most} nodes'}": choose(
            policy, order=order, most_workers=most
        )
        for order in ("workers", "jobs")
        for most in (None, 16, 4)
        if (order, most) != ("workers", None)
    }


READINGS: dict[str, dict[str, Choice]] = {
    "DRF": {"DRF, progressive": choose("DRF", filling="progressive")},
    "Fairness": {"Fairness, all": choose("Fairness", among="all")},
    "BinPacking": _packings("BinPacking"),
    "Spreading": _packings("Spreading"),
}
"""Other readings than the one that is used, by baseline."""


@dataclass(frozen=True)
class Rivals(Study):
    """Readings of the baselines: which one is the strongest."""

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        rows = {OGASCHED: AGENTS[OGASCHED]}
        for name, readings in READINGS.items():
            rows |= {name: RIVALS[name], **readings}
        references = {row: name for name, readings in READINGS.items() for row in readings}
        found = self.measure(Panel("readings", "setting", {"table II": DEFAULT}, rows, references))
        yield from tables(found, TITLE, reference="The reading in use", rivals=list(references))
        yield data(found, TITLE)
        yield pictures.bars(found, "average_reward")


if __name__ == "__main__":
    sys.exit(run_as_program(Rivals))
