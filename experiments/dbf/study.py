"""A study of this paper: metrics by episode, and cells that may be empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.experiments import panels as shared
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.simulating import Choice, Setting, perform
from desim.experiments.dbf.workloads import most_episodes
from desim.experiments.panels import outcomes_by
from desim.statistics import Estimate, paired_difference
from desim.sweep import Perform, Run

__all__ = ["Panel", "Study", "carry_out"]


@dataclass(frozen=True)
class Panel(shared.Panel):
    """Settings that belong together.

    Attributes
    ----------
    columns : dict of str to Setting
        By the value of the parameter as text.
    rows : dict of str to Choice, or to dict of str to Choice
        The agents: one for all columns, or one for each column that has any.
    """

    columns: Mapping[str, Setting]
    rows: Mapping[str, Choice | Mapping[str, Choice]]

    def choice(self, column: str, row: str) -> Choice | None:
        """Return the agent of a cell; None if the cell is empty."""
        found = self.rows[row]
        return found if isinstance(found, Choice) else found.get(column)

    def cells(self) -> Iterator[tuple[str, str, Choice]]:
        """Yield column, row and agent of every cell that is not empty."""
        for column in self.columns:
            for row in self.rows:
                choice = self.choice(column, row)
                if choice is not None:
                    yield column, row, choice


@dataclass(frozen=True)
class Study(shared.Study):
    """Everything that an experiment has measured; values are by episode, in the place of seeds."""

    options: Options
    panels: tuple[Panel, ...]

    def values(self, panel: shared.Panel, column: str, row: str, metric: str) -> np.ndarray:
        """Return a metric by episode; arguments as for any study."""
        outcomes = self.outcomes[panel.name, column, row]
        values = np.concatenate([np.array(outcome[metric], dtype=np.float64) for outcome in outcomes])
        return values[: self.options.num_episodes]

    def has(self, panel: shared.Panel, column: str, row: str) -> bool:
        """Tell whether there is an agent in a cell."""
        return (panel.name, column, row) in self.outcomes

    def versus(self, panel: shared.Panel, column: str, row: str, other: str, metric: str) -> Estimate:
        """Return a metric less that of another row, paired by episode; arguments as for :meth:`values`."""
        return paired_difference(self.values(panel, column, row, metric), self.values(panel, column, other, metric))


def carry_out(title: str, panels: Sequence[Panel], options: Options, *, reference: str, by: Perform = perform) -> Study:
    """Perform the runs of a study that are not stored yet.

    Parameters
    ----------
    title : str
        What it is.
    panels : sequence of Panel
        What is asked for.
    options : Options
        Size, episodes, processes, store.
    reference : str
        The agent that the others are compared with.
    by : callable
        What performs a run.

    Returns
    -------
    Study
        What was measured.

    Raises
    ------
    InvalidConfiguration
        If there are not so many episodes.
    """
    groups: dict[Any, list[Run]] = {}
    for panel in panels:
        for column, row, choice in panel.cells():
            setting = options.fit(panel.columns[column])
            most = most_episodes(setting.workload, setting.num_jobs)
            if max(options.seed_list) * setting.episodes + setting.episodes > most:
                raise InvalidConfiguration(f"{options.num_episodes} episodes of {setting}: there are {most}")
            groups[panel.name, column, row] = [Run(setting, choice, block) for block in options.seed_list]
    return Study(title, options, tuple(panels), reference, outcomes_by(groups, options, by))
