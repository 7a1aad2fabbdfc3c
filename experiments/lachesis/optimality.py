"""Small instances: how far each heuristic is from the optimum."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from desim.experiments.blocks import Block, Table
from desim.experiments.lachesis.agents import LEARNED_IN_BATCHES, PAPER_ROWS, PLANNED_ROWS
from desim.experiments.lachesis.elsewhere import OPTIMUM, SmallSetting, perform_small
from desim.experiments.lachesis.simulate import Choice
from desim.experiments.lachesis.study import ABOVE_REFERENCE, Measured, Study, data, drawings, tables
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "Gap to the optimum"
ROWS: dict[str, Choice] = {
    OPTIMUM: Choice("optimum", plan_ahead=True),
    "optimum without duplicates": Choice("optimum-without-duplicates", plan_ahead=True),
    "rank_up-EFT": Choice("rank_up-eft"),
    "rank_up-EFT, planned": Choice("rank_up-eft", plan_ahead=True),
    "critical path-DEFT, planned": Choice("critical-path-deft", plan_ahead=True),
    "random-DEFT, planned": Choice("random-deft", plan_ahead=True),
}


@dataclass(frozen=True)
class Optimality(Study):
    """The gap to the optimum, which may duplicate nodes.

    Attributes
    ----------
    ratios : tuple of float
        Communication-to-computation ratios.
    num_nodes, num_executors : int
        Size of an instance.
    """

    seeds: int = 30
    ratios: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0)
    num_nodes: int = 12
    num_executors: int = 3

    def fit(self, setting: Any) -> Any:
        """Return the setting; a trial has 8 nodes and is checked."""
        return replace(setting, num_nodes=min(setting.num_nodes, 8), check=True) if self.quick else setting

    def measured(self) -> Measured:
        """Return what the runs bring."""
        columns = {f"{ratio:g}": SmallSetting(self.num_nodes, self.num_executors, ratio) for ratio in self.ratios}
        rows = ROWS | LEARNED_IN_BATCHES | PAPER_ROWS | PLANNED_ROWS
        panel = Panel(f"{self.num_nodes} nodes, {self.num_executors} executors", "CCR", columns, rows)
        return self.measure(panel, reference=OPTIMUM, by=perform_small)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measured()
        yield from tables(found, TITLE, ("makespan", "lower_bound"))
        yield _shares(found)
        yield data(found, TITLE)
        yield from drawings(found, TITLE, (ABOVE_REFERENCE,))


def _shares(found: Measured) -> Table:
    """Return how often each agent reaches the optimum, and how often that is proved."""
    (panel,) = found.panels
    rows = []
    for row in panel.rows:
        shares = []
        for column in panel.columns:
            best = found.values(panel, column, OPTIMUM, "makespan")
            reached = found.values(panel, column, row, "makespan") <= best * (1 + 1e-9)
            shares.append(f"{100 * reached.mean():.0f}")
        rows.append([row, *shares])
    proved = [
        f"{100 * sum(outcome['proved'] for outcome in outcomes) / len(outcomes):.0f}"
        for outcomes in (found.outcomes[panel.name, column, OPTIMUM] for column in panel.columns)
    ]
    rows.append(["(proved to be optimal)", *proved])
    return Table("Instances in which the optimum is reached, %", [panel.parameter, *panel.columns], rows)


if __name__ == "__main__":
    sys.exit(run_as_program(Optimality))
