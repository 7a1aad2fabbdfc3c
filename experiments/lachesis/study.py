"""A study: every agent in every setting, on the same workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.metrics.statistics import Estimate, mean_interval, paired_difference
from experiments.compare import lead_percent
from experiments.lachesis.options import Options
from experiments.lachesis.simulating import METRICS, SHARES, Choice, Setting, perform
from experiments.run import Perform, Run
from experiments.runner import perform_all

__all__ = ["Panel", "Study", "carry_out"]


@dataclass(frozen=True)
class Panel:
    """Settings that belong together: the columns of one table, or the points of one figure.

    Attributes
    ----------
    name : str
        What it is.
    parameter : str
        What differs from column to column.
    columns : dict of str to Setting
        By the value of the parameter, as text. Other dataclasses will do if what performs the runs knows them.
    rows : dict of str to Choice
        The agents.
    """

    name: str
    parameter: str
    columns: Mapping[str, Setting]
    rows: Mapping[str, Choice]


@dataclass(frozen=True)
class Study:
    """Everything that an experiment has measured.

    Attributes
    ----------
    title : str
        What it is.
    options : Options
        How it was run.
    panels : tuple of Panel
        What was asked for.
    reference : str
        The agent that the others are compared with.
    outcomes : dict
        From (panel, column, row) to the outcomes by seed.
    """

    title: str
    options: Options
    panels: tuple[Panel, ...]
    reference: str
    outcomes: dict[tuple[str, str, str], tuple[Mapping[str, Any], ...]]

    def values(self, panel: Panel, column: str, row: str, metric: str) -> np.ndarray:
        """Return a metric by seed.

        Parameters
        ----------
        panel : Panel
            One of ``panels``.
        column, row : str
            Where in it.
        metric : str
            One of the metrics of a run.

        Returns
        -------
        numpy.ndarray of shape (num_seeds,)
            In the unit of the metric; percent for the gap to the lower bound.
        """
        outcomes = self.outcomes[panel.name, column, row]
        values = np.array([outcome[metric] for outcome in outcomes], dtype=np.float64)
        return 100.0 * values if metric == "gap_to_lower_bound" else values

    def estimate(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return the mean of a metric over the workloads; arguments as for :meth:`values`."""
        return mean_interval(self.values(panel, column, row, metric))

    def behind(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return by how many percent a metric is above the reference's, paired by workload.

        Parameters
        ----------
        panel : Panel
            One of ``panels``.
        column, row : str
            Where in it.
        metric : str
            One of which less is better.

        Returns
        -------
        Estimate
            Above 0 where the reference is better.
        """
        ours = self.values(panel, column, self.reference, metric)
        return lead_percent(self.values(panel, column, row, metric), ours)

    def difference(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return the metric less the reference's, paired by workload; arguments as for :meth:`behind`."""
        ours = self.values(panel, column, self.reference, metric)
        return paired_difference(self.values(panel, column, row, metric), ours)

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

    @property
    def num_invalid(self) -> int:
        """Runs in whose records a check has found a violation."""
        return sum(outcome["valid"] is False for outcomes in self.outcomes.values() for outcome in outcomes)


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
    runs = {
        (panel.name, column, row): [Run(options.fit(setting), choice, seed) for seed in options.seed_list]
        for panel in panels
        for column, setting in panel.columns.items()
        for row, choice in panel.rows.items()
    }
    wanted = [run for group in runs.values() for run in group]
    found = perform_all(by, wanted, options.runs, jobs=options.jobs, title=options.name)
    assert all(name in outcome for name in METRICS for outcome in found.values())
    return Study(title, options, panels, reference, {key: tuple(found[run] for run in runs[key]) for key in runs})
