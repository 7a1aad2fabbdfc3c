"""Every agent in every setting of a panel, on the same seeds: what studies measure and compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from desim.experiments.blocks import Fault, Runs
from desim.experiments.frame import Choice, Panel, lead_percent
from desim.experiments.study import Study, is_valid
from desim.statistics import Estimate, mean_interval, paired_difference
from desim.sweep import Perform, Run, perform_all

__all__ = ["Choice", "Course", "Found", "Measured", "Panel", "faults_of", "is_valid", "perform_groups"]

Key = TypeVar("Key")
Found = Mapping[Key, tuple[Mapping[str, Any], ...]]
"""From a key to what the runs brought, by seed."""


def perform_groups(
    groups: Mapping[Key, Sequence[Run]], study: Study, by: Perform, *, title: str = ""
) -> tuple[Found[Key], Runs]:
    """Perform groups of runs that are not stored yet; a run may be in several.

    Parameters
    ----------
    groups : mapping of any key to sequence of Run
        What is asked for.
    study : Study
        Workers, store.
    by : callable
        What performs a run.
    title : str
        Name of the sweep; that of the study if left out.

    Returns
    -------
    tuple of dict and Runs
        The outcomes of each group, in its order, and what the sweep took.
    """
    wanted = [run for group in groups.values() for run in group]
    found = perform_all(by, wanted, study.runs, workers=study.workers, title=title or study.name)
    return {key: tuple(found[run] for run in group) for key, group in groups.items()}, Runs.of(found)


def faults_of(groups: Iterable[Sequence[Mapping[str, Any]]]) -> Iterator[Fault]:
    """Yield what is to be said of runs whose records are not valid; nothing if there are none."""
    count = sum(outcome["valid"] is False for group in groups for outcome in group)
    if count:
        yield Fault(f"The check has found violations in the records of {count} runs.")


@dataclass(frozen=True)
class Measured:
    """What the runs of some panels have brought.

    Attributes
    ----------
    study : Study
        How it was measured.
    panels : tuple of Panel
        What was asked for.
    reference : str
        The agent that the others are compared with.
    outcomes : dict
        From (panel, column, row) to the outcomes by seed.
    runs : tuple of Runs
        What that took.
    """

    study: Any
    panels: tuple[Panel, ...]
    reference: str
    outcomes: Found[tuple[str, str, str]]
    runs: tuple[Runs, ...] = ()

    @classmethod
    def of(cls, study: Study, panels: Sequence[Panel], by: Perform, *, reference: str) -> Any:
        """Perform the runs of panels that are not stored yet.

        Parameters
        ----------
        study : Study
            Size, seeds, workers, store.
        panels : sequence of Panel
            What is asked for.
        by : callable
            What performs a run.
        reference : str
            The agent that the others are compared with.
        """
        groups = {
            (panel.name, column, row): [Run(setting, choice, seed) for seed in study.seeds_of(setting)]
            for panel in panels
            for column, row, choice in panel.cells()
            for setting in (study.fit(panel.columns[column]),)
        }
        found, runs = perform_groups(groups, study, by)
        return cls(study, tuple(panels), reference, found, (runs,))

    def has(self, panel: Panel, column: str, row: str) -> bool:
        """Tell whether there is an agent in a cell."""
        return (panel.name, column, row) in self.outcomes

    def values(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
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
        return np.array([outcome[metric] for outcome in self.outcomes[panel.name, column, row]], dtype=np.float64)

    def estimate(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return the mean of a metric over the seeds; arguments as for :meth:`values`."""
        return mean_interval(self.values(panel, column, row, metric))

    def lead(self, panel: Panel, column: str, row: str, metric: str) -> Estimate:
        """Return by how many percent a metric, which is above 0, is above the reference's, paired by seed."""
        pair = (self.values(panel, column, one, metric) for one in (row, self.reference))
        return lead_percent(*pair)

    def difference(self, panel: Panel, column: str, row: str, metric: str, other: str = "") -> Estimate:
        """Return a metric less that of another row, by default the reference, paired by seed."""
        pair = (self.values(panel, column, one, metric) for one in (row, other or self.reference))
        return paired_difference(*pair)

    def summary(self, panel: Panel, column: str, row: str, metric: str) -> dict[str, float | None]:
        """Return what files tell of a metric: its mean and what it is above the reference's; arguments as above."""
        estimate = self.estimate(panel, column, row, metric)
        told: dict[str, float | None] = {"mean": estimate.mean, "half_width": estimate.half_width}
        if self.reference:
            is_there = self.has(panel, column, self.reference)
            above = self.difference(panel, column, row, metric) if is_there else None
            told["above_reference"] = None if above is None else above.mean
            told["above_reference_half_width"] = None if above is None else above.half_width
        return told

    def faults(self) -> Iterator[Fault]:
        """Yield what is to be said of runs whose records are not valid."""
        return faults_of(self.outcomes.values())


class Course:
    """The course of a training, from validation to validation.

    Attributes
    ----------
    history : sequence of dict
        Entries of :class:`desim.agents.learning.training.Training`.
    """

    history: Sequence[Mapping[str, Any]]

    @property
    def decisions(self) -> NDArray[np.float64]:
        """Decisions that were learned from, at each validation."""
        return np.array([entry["steps"] for entry in self.history], dtype=np.float64)

    @property
    def episodes(self) -> NDArray[np.float64]:
        """Training episodes that had ended, at each validation."""
        return np.cumsum([entry.get("episodes", 0) for entry in self.history], dtype=np.float64)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Wall time of learning and of the episodes for it."""
        return np.array([entry["seconds"] for entry in self.history], dtype=np.float64)
