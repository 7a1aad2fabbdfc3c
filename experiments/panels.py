"""Every agent in every setting of a panel, on the same seeds: what experiments measure and compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from desim.experiments.compare import lead_percent
from desim.statistics import Estimate, mean_interval, paired_difference
from desim.sweep import Perform, Run, Store, Workers, perform_all

__all__ = ["Outcomes", "Panel", "Sized", "Study", "count_invalid", "outcomes_by", "outcomes_of"]

Key = TypeVar("Key")

Outcomes = dict[tuple[str, str, str], tuple[Mapping[str, Any], ...]]
"""From (panel, column, row) to what the runs brought, by seed."""


class Sized(Protocol):
    """What the options of an experiment must tell."""

    @property
    def workers(self) -> Workers:
        """Who performs the runs."""

    @property
    def name(self) -> str:
        """Name of the module."""

    @property
    def runs(self) -> Store:
        """Where finished runs are."""

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""

    def fit(self, setting: Any) -> Any:
        """Return a setting in the size that is asked for."""


@dataclass(frozen=True)
class Panel:
    """Settings that belong together: the columns of one table, or the points of one figure.

    Attributes
    ----------
    name : str
        What it is.
    parameter : str
        What differs from column to column.
    columns : dict of str to dataclass instance
        The settings, by the value of the parameter as text.
    rows : dict of str to dataclass instance
        The agents.
    """

    name: str
    parameter: str
    columns: Mapping[str, Any]
    rows: Mapping[str, Any]


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
    options: Any
    panels: tuple[Panel, ...]
    reference: str
    outcomes: Outcomes

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
            In the unit of the metric; not a number where a run has none.
        """
        outcomes = self.outcomes[panel.name, column, row]
        return np.array([outcome[metric] for outcome in outcomes], dtype=np.float64)

    def estimate(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return the mean of a metric over the seeds; arguments as for :meth:`values`."""
        return mean_interval(self.values(panel, column, row, metric))

    def lead(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return by how many percent a metric is above the reference's, paired by seed.

        Parameters
        ----------
        panel : Panel
            One of ``panels``.
        column, row : str
            Where in it.
        metric : str
            One that is above 0.

        Returns
        -------
        Estimate
            Above 0 where the reference has less.
        """
        ours = self.values(panel, column, self.reference, metric)
        return lead_percent(self.values(panel, column, row, metric), ours)

    def difference(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return the metric less the reference's, paired by seed; arguments as for :meth:`lead`."""
        ours = self.values(panel, column, self.reference, metric)
        return paired_difference(self.values(panel, column, row, metric), ours)

    @property
    def num_invalid(self) -> int:
        """Runs in whose records a check has found a violation."""
        return count_invalid(self.outcomes.values())


def outcomes_of(panels: Sequence[Panel], options: Sized, by: Perform) -> Outcomes:
    """Perform the runs of panels that are not stored yet.

    Parameters
    ----------
    panels : sequence of Panel
        What is asked for.
    options : Sized
        Size, seeds, workers, store.
    by : callable
        What performs a run.

    Returns
    -------
    dict
        From (panel, column, row) to the outcomes by seed.
    """
    runs = {
        (panel.name, column, row): [Run(options.fit(setting), choice, seed) for seed in options.seed_list]
        for panel in panels
        for column, setting in panel.columns.items()
        for row, choice in panel.rows.items()
    }
    return outcomes_by(runs, options, by)


def outcomes_by(
    groups: Mapping[Key, Sequence[Run]], options: Sized, by: Perform
) -> dict[Key, tuple[Mapping[str, Any], ...]]:
    """Perform groups of runs that are not stored yet; a run may be in several.

    Parameters
    ----------
    groups : mapping of any key to sequence of Run
        What is asked for.
    options : Sized
        Workers, store.
    by : callable
        What performs a run.

    Returns
    -------
    dict
        The outcomes of each group, in its order.
    """
    wanted = [run for group in groups.values() for run in group]
    found = perform_all(by, wanted, options.runs, workers=options.workers, title=options.name)
    return {key: tuple(found[run] for run in group) for key, group in groups.items()}


def count_invalid(outcomes: Iterable[Sequence[Mapping[str, Any]]]) -> int:
    """Return how many runs of some groups have records in which a check has found a violation."""
    return sum(outcome["valid"] is False for group in outcomes for outcome in group)
