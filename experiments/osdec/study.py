"""What the experiments measure: rows of learned agents are means over the seeds of their training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.experiments import panels
from desim.experiments.osdec.agents import SCORE, Trained, learned_rows
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.simulating import Choice, Setting, perform
from desim.experiments.panels import Outcomes, Panel, outcomes_of
from desim.sweep import Perform

__all__ = ["Panel", "Study", "learned_panels", "measured"]


@dataclass(frozen=True)
class Study(panels.Study):
    """Everything that an experiment has measured; the outcomes of a learned row are kept for each training.

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
        From (panel, column, row) to the outcomes by seed; the second training of ``"OSDEC"`` is the row
        ``"OSDEC, training 2"``.
    """

    def values(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by trajectory, of learned agents the mean over their trainings.

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
        found: NDArray[np.float64] = self._by_training(panel, column, row, metric).mean(axis=0)
        return found

    def training_means(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return the mean over the trajectories for each training; arguments as for :meth:`values`."""
        found: NDArray[np.float64] = self._by_training(panel, column, row, metric).mean(axis=1)
        return found

    def deviation(self, panel: Panel, column: str, row: str, metric: str) -> float:
        """Return the standard deviation of these means, not a number for less than two; as for :meth:`values`."""
        means = self.training_means(panel, column, row, metric)
        return float(means.std(ddof=1)) if len(means) > 1 else math.nan

    def _by_training(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric of shape (trainings, num_seeds)."""
        keys = _members(row, panel.rows[row])
        return np.array([panels.Study.values(self, panel, column, key, metric) for key in keys])


def learned_panels(options: Options, cases: Sequence[str], wanted: Callable[[Mapping[str, Any]], bool]) -> list[Panel]:
    """Return a panel of the agents that were trained for each of some workloads.

    Parameters
    ----------
    options : Options
        Says where weights are.
    cases : sequence of str
        The workloads.
    wanted : callable
        Tells from the configuration of an agent whether to take it.

    Returns
    -------
    list of Panel
        Named like their only column, the workload; none where there are no weights.
    """
    rows = {case: learned_rows(options, case, wanted) for case in cases}
    return [Panel(case, "workload", {case: Setting(case=case)}, found) for case, found in rows.items() if found]


def measured(
    title: str,
    options: Any,
    asked: Sequence[Panel],
    *,
    reference: str = "FIFO",
    by: Perform = perform,
    learned_by: Perform | None = None,
) -> Study:
    """Perform what is not stored yet.

    Learned agents are performed by another function than the others, so that what changes their networks does not make
    the runs of all the others, the optima among them, worthless.

    Parameters
    ----------
    title : str
        Of the study.
    options : Options
        Size, seeds, processes, store.
    asked : sequence of Panel
        Rows are :class:`~desim.experiments.run.Choice` or :class:`~desim.experiments.osdec.agents.Trained`.
    reference : str
        The agent that the others are compared with.
    by, learned_by : callable
        What performs a run of other agents, and of learned ones;
        :func:`~desim.experiments.osdec.learned.perform_learned` if left out.

    Returns
    -------
    Study
        What was measured.
    """
    outcomes: Outcomes = {}
    others, learned = ([_part(panel, is_learned) for panel in asked] for is_learned in (False, True))
    if any(part.rows for part in others):
        outcomes |= outcomes_of(others, options, by)
    if any(part.rows for part in learned):
        from desim.experiments.osdec.learned import perform_learned

        outcomes |= outcomes_of(learned, options, learned_by or perform_learned)
    return Study(title, options, tuple(asked), reference, outcomes)


def _part(panel: Panel, is_learned: bool) -> Panel:
    """Return a panel with its learned rows alone, one for each training, or with all others."""
    rows = {
        key: choice
        for row, choices in panel.rows.items()
        for key, choice in _members(row, choices).items()
        if (choice.policy == SCORE) == is_learned
    }
    return replace(panel, rows=rows)


def _members(row: str, choices: Choice | Trained) -> dict[str, Choice]:
    if not isinstance(choices, Trained):
        return {row: choices}
    return {f"{row}, training {n}" if n > 1 else row: member for n, member in enumerate(choices.members, 1)}
