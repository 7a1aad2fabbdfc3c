"""A study of this paper: gaps in percent, and how long decisions take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from desim.experiments import panels
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.simulating import METRICS, SHARES, perform
from desim.experiments.panels import Panel, outcomes_of
from desim.sweep import Perform

__all__ = ["Panel", "Study", "carry_out"]


@dataclass(frozen=True)
class Study(panels.Study):
    """Everything that an experiment has measured; the gap to the lower bound is in percent."""

    options: Options

    def values(self, panel: Panel, column: str, row: str, metric: str) -> np.ndarray:
        """Return a metric by workload; arguments as for any study."""
        values = super().values(panel, column, row, metric)
        return 100.0 * values if metric == "gap_to_lower_bound" else values

    def decision_seconds(self, panel: Panel, row: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the distribution of the time of a decision over all columns and seeds of a panel.

        Parameters
        ----------
        panel : Panel
            One of ``panels``.
        row : str
            The agent.

        Returns
        -------
        tuple of numpy.ndarray
            Seconds, ascending, and the share of decisions that take no longer.
        """
        outcomes = [outcome for column in panel.columns for outcome in self.outcomes[panel.name, column, row]]
        seconds = np.concatenate([outcome["decision_seconds"] for outcome in outcomes])
        weights = np.concatenate([np.full(len(SHARES), outcome["num_decisions"] / len(SHARES)) for outcome in outcomes])
        order = np.argsort(seconds, kind="stable")
        return seconds[order], np.cumsum(weights[order]) / weights.sum()


def carry_out(
    title: str, panels: tuple[Panel, ...], options: Options, *, reference: str, by: Perform = perform
) -> Study:
    """Perform the runs of a study that are not stored yet.

    Parameters
    ----------
    title : str
        What it is.
    panels : tuple of Panel
        What is asked for.
    options : Options
        Size, seeds, processes, store.
    reference : str
        The agent that the others are compared with; every panel has it.
    by : callable
        What performs a run.

    Returns
    -------
    Study
        What was measured.
    """
    outcomes = outcomes_of(panels, options, by)
    assert all(name in outcome for name in METRICS for group in outcomes.values() for outcome in group)
    return Study(title, options, panels, reference, outcomes)
