"""Figure 3: cumulative reward against the number of nodes, the number of ports and the contention level."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import CONTENTIONS, DEFAULT, MAIN_ROWS, contention_columns
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Figure 3: cumulative reward against scale and contention"


@dataclass(frozen=True)
class Figure3(Study):
    """Scalability: cumulative reward against the size of the graph and the contention level.

    Attributes
    ----------
    nodes, ports : tuple of int
        Values of |R| and |L|.
    contentions : tuple of float
        Contention levels.
    """

    seeds: int = 5
    nodes: tuple[int, ...] = (32, 64, 128, 256, 512)
    ports: tuple[int, ...] = (5, 10, 20, 40)
    contentions: tuple[float, ...] = CONTENTIONS

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        nodes = {str(count): replace(DEFAULT, num_nodes=count) for count in self.nodes}
        ports = {str(count): replace(DEFAULT, num_ports=count) for count in self.ports}
        columns = {"|R|": nodes, "|L|": ports, "contention": contention_columns(self.contentions)}
        found = self.measure(*(Panel(name, name, settings, MAIN_ROWS) for name, settings in columns.items()))
        yield from tables(found, TITLE, metrics=("cumulative_reward",))
        yield data(found, TITLE)
        yield pictures.sweeps(found, ("cumulative_reward",), with_leads=True)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure3))
