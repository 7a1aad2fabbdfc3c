"""Small instances: how far each heuristic is from the optimum."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from desim.cli.output import print_table
from desim.experiments.lachesis import pictures
from desim.experiments.lachesis.agents import LEARNED_IN_BATCHES, PAPER_ROWS, PLANNED_ROWS
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.report import print_study, write_study
from desim.experiments.lachesis.simulating import Choice, Setting
from desim.experiments.lachesis.small_instances import OPTIMUM, SmallSetting, perform_small
from desim.experiments.lachesis.study import Panel, Study, carry_out
from desim.experiments.options import run_as_program

__all__ = ["Optimality", "optimality"]

ROWS: dict[str, Choice] = {
    OPTIMUM: Choice("optimum", plan_ahead=True),
    "optimum without duplicates": Choice("optimum-without-duplicates", plan_ahead=True),
    "rank_up-EFT": Choice("rank_up-eft"),
    "rank_up-EFT, planned": Choice("rank_up-eft", plan_ahead=True),
    "critical path-DEFT, planned": Choice("critical-path-deft", plan_ahead=True),
    "random-DEFT, planned": Choice("random-deft", plan_ahead=True),
}


@dataclass(frozen=True)
class Optimality(Options):
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

    def fit(self, setting: Setting) -> Setting:
        """Return the setting; a trial has 8 nodes and is checked."""
        small: Any = setting
        fitted: Any = replace(small, num_nodes=min(small.num_nodes, 8), check=True) if self.quick else small
        result: Setting = fitted
        return result


def optimality(options: Optimality) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Optimality
        Ratios, sizes, seeds, directories.

    Returns
    -------
    Study
        What was measured.
    """
    columns: Mapping[str, Any] = {
        f"{ratio:g}": SmallSetting(options.num_nodes, options.num_executors, ratio) for ratio in options.ratios
    }
    name = f"{options.num_nodes} nodes, {options.num_executors} executors"
    panel = Panel(name, "CCR", columns, ROWS | LEARNED_IN_BATCHES | PAPER_ROWS | PLANNED_ROWS)
    study = carry_out("Gap to the optimum", (panel,), options, reference=OPTIMUM, by=perform_small)
    print_study(study, ("makespan", "lower_bound"))
    _print_shares(study, panel)
    write_study(study)
    pictures.draw(study, (pictures.ABOVE_REFERENCE,))
    return study


def _print_shares(study: Study, panel: Panel) -> None:
    """Print how often each agent reaches the optimum, and how often that is proved."""
    rows = []
    for row in panel.rows:
        shares = []
        for column in panel.columns:
            best = study.values(panel, column, OPTIMUM, "makespan")
            reached = study.values(panel, column, row, "makespan") <= best * (1 + 1e-9)
            shares.append(f"{100 * reached.mean():.0f}")
        rows.append([row, *shares])
    proved = [
        f"{100 * sum(outcome['proved'] for outcome in outcomes) / len(outcomes):.0f}"
        for outcomes in (study.outcomes[panel.name, column, OPTIMUM] for column in panel.columns)
    ]
    rows.append(["(proved to be optimal)", *proved])
    print_table([panel.parameter, *panel.columns], rows, title="Instances in which the optimum is reached, %")


if __name__ == "__main__":
    sys.exit(run_as_program(Optimality, optimality))
