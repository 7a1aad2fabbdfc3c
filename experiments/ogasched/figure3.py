"""Figure 3: average reward against the number of nodes, the number of ports and the contention level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.frame import Frame, Panel
from desim.experiments.ogasched.agents import CONTENTIONS, DEFAULT, PRINTED, RULES, chosen
from desim.experiments.ogasched.study import OGAStudy, reward_tables
from desim.experiments.report_blocks import Block

LABELS = {"|R|": "nodes, |R|", "|L|": "ports, |L|", "contention": "contention level"}


@dataclass(frozen=True)
class Figure3(OGAStudy):
    """Scalability: average reward against the size of the graph and the contention level."""

    divide_slots: int = 20

    def panels(self) -> Sequence[Panel]:
        """Return the three parts of the figure."""
        few = chosen(PRINTED, "OGASched, capped", "exact, with memory", "Fairness", "DRF")
        nodes = {str(count): self.shorter(DEFAULT, num_nodes=count) for count in (32, 128, 512)}
        ports = {str(count): self.shorter(DEFAULT, num_ports=count) for count in (5, 10, 40)}
        sizes = [Panel(name, name, columns, few) for name, columns in {"|R|": nodes, "|L|": ports}.items()]
        return [*sizes, contention_panel(self)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        yield from reward_tables(frame, LABELS, "figure3")


def contention_panel(study: OGAStudy) -> Panel:
    """Return the panel of contention levels, shared by figures 3 (c) and 6."""
    columns = {f"{level:g}": study.shorter(DEFAULT, contention=level) for level in CONTENTIONS}
    rows = chosen(PRINTED, "OGASched, capped", "exact, with memory", *RULES)
    return Panel("contention", "contention", columns, rows)
