"""A study: rows and columns of runs, each compared with a reference on the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from desim.experiments.compare import lead_percent
from desim.experiments.ogasched.agents import OGASCHED
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.simulating import Choice, Setting, perform
from desim.experiments.panels import count_invalid, outcomes_by
from desim.statistics import Estimate, mean_interval, paired_difference
from desim.sweep import Run

__all__ = ["METRICS", "Cell", "Entry", "Key", "Study", "carry_out", "grid"]


class Key(NamedTuple):
    """Where something stands in a study.

    Attributes
    ----------
    panel, column, row : str
        Which table or part of the figure; the value of the parameter; the agent.
    """

    panel: str
    column: str
    row: str


@dataclass(frozen=True)
class Entry:
    """What is measured, and what the paper says of it.

    Attributes
    ----------
    setting : Setting
        In the paper's size.
    choice : Choice
        The agent.
    reference : Key or None
        What it is compared with; None for the references themselves.
    paper : float or None
        The paper's average reward, if it prints one.
    paper_lead : float or None
        By how many percent the paper's reference is ahead, if it says so.
    """

    setting: Setting
    choice: Choice
    reference: Key | None = None
    paper: float | None = None
    paper_lead: float | None = None


def _metric(name: str) -> Callable[[Mapping[str, Any], Setting], float]:
    return lambda outcome, setting: float(outcome[name])


def _mean_utilization(outcome: Mapping[str, Any], setting: Setting) -> float:
    shares = [share for share in outcome["utilization"].values() if share is not None]
    return float(np.mean(shares))


METRICS: dict[str, Callable[[Mapping[str, Any], Setting], float]] = {
    "average_reward": _metric("average_reward"),
    "cumulative_reward": lambda outcome, setting: float(outcome["average_reward"]) * setting.num_slots,
    "average_gain": _metric("average_gain"),
    "average_overhead": _metric("average_overhead"),
    "negative_slots": _metric("negative_slots"),
    "mean_utilization": _mean_utilization,
    "seconds_per_slot": _metric("seconds_per_slot"),
}
"""What is computed of the outcome of a run."""


@dataclass(frozen=True)
class Cell:
    """What was measured of an entry.

    Attributes
    ----------
    entry : Entry
        What was asked for.
    setting : Setting
        In the size that was simulated.
    outcomes : tuple of dict
        By seed.
    metrics : dict of str to Estimate
        Means over seeds of :data:`METRICS`.
    difference : Estimate or None
        Of the average reward: the reference less this, paired by seed.
    lead : Estimate or None
        The same in percent of this one's average reward; not a number where that is not above 0.
    """

    entry: Entry
    setting: Setting
    outcomes: tuple[Mapping[str, Any], ...]
    metrics: dict[str, Estimate]
    difference: Estimate | None
    lead: Estimate | None

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the running average reward over time.

        Returns
        -------
        tuple of numpy.ndarray
            Numbers of slots, of shape (n,), and averages until then, of shape (num_seeds, n).
        """
        slots = np.array(self.outcomes[0]["curve"]["slots"])
        return slots, np.array([outcome["curve"]["average_reward"] for outcome in self.outcomes])


@dataclass(frozen=True)
class Study:
    """Everything that an experiment has measured.

    Attributes
    ----------
    title : str
        What it is.
    options : Options
        How it was run.
    cells : dict of Key to Cell
        In the order in which they were asked for.
    """

    title: str
    options: Options
    cells: dict[Key, Cell]

    @property
    def panels(self) -> list[str]:
        """The panels."""
        return list(dict.fromkeys(key.panel for key in self.cells))

    def columns(self, panel: str) -> list[str]:
        """Return the columns of a panel.

        Parameters
        ----------
        panel : str
            One of ``panels``.

        Returns
        -------
        list of str
            In their order.
        """
        return list(dict.fromkeys(key.column for key in self.cells if key.panel == panel))

    def rows(self, panel: str) -> list[str]:
        """Return the rows of a panel; the arguments and the result are like those of :meth:`columns`."""
        return list(dict.fromkeys(key.row for key in self.cells if key.panel == panel))

    def behind(self, rows: Iterable[str]) -> dict[Key, Cell]:
        """Return the cells whose reference does not lead: it earns no more than they do.

        Parameters
        ----------
        rows : iterable of str
            Where to look.

        Returns
        -------
        dict of Key to Cell
            In order.
        """
        wanted = set(rows)
        return {
            key: cell
            for key, cell in self.cells.items()
            if key.row in wanted and cell.difference is not None and not cell.difference.mean > 0
        }

    @property
    def num_invalid(self) -> int:
        """Runs in whose records a check has found a violation."""
        return count_invalid(cell.outcomes for cell in self.cells.values())


def grid(
    panel: str,
    columns: Mapping[str, Setting],
    rows: Mapping[str, Choice],
    *,
    reference: str = OGASCHED,
    paper: Mapping[str, Sequence[float]] | None = None,
    paper_leads: Mapping[str, Sequence[float]] | None = None,
) -> dict[Key, Entry]:
    """Return one panel in which every agent runs in every setting.

    Parameters
    ----------
    panel : str
        Its name.
    columns : mapping of str to Setting
        The settings.
    rows : mapping of str to Choice
        The agents.
    reference : str
        The row that the others are compared with.
    paper : mapping of str to sequence of float, optional
        The paper's average rewards by row, column after column.
    paper_leads : mapping of str to sequence of float, optional
        By how many percent the paper's reference is ahead.

    Returns
    -------
    dict of Key to Entry
        Row by row.
    """
    return {
        Key(panel, column, row): Entry(
            setting,
            choice,
            None if row == reference else Key(panel, column, reference),
            None if not paper or row not in paper else paper[row][number],
            None if not paper_leads or row not in paper_leads else paper_leads[row][number],
        )
        for row, choice in rows.items()
        for number, (column, setting) in enumerate(columns.items())
    }


def carry_out(title: str, entries: Mapping[Key, Entry], options: Options) -> Study:
    """Perform the runs of a study that are not stored yet, and compare them.

    Parameters
    ----------
    title : str
        What it is.
    entries : mapping of Key to Entry
        What is asked for.
    options : Options
        Size, seeds, processes, store.

    Returns
    -------
    Study
        One cell an entry.
    """
    settings = {key: options.fit(entry.setting) for key, entry in entries.items()}
    runs = {
        key: [Run(settings[key], entry.choice, seed) for seed in options.seed_list] for key, entry in entries.items()
    }
    found = outcomes_by(runs, options, perform)
    cells = {}
    for key, entry in entries.items():
        values = {name: [metric(outcome, settings[key]) for outcome in found[key]] for name, metric in METRICS.items()}
        difference = lead = None
        if entry.reference is not None:
            best = [float(outcome["average_reward"]) for outcome in found[entry.reference]]
            difference = paired_difference(best, values["average_reward"])
            lead = lead_percent(best, values["average_reward"])
        estimates = {name: mean_interval(sample) for name, sample in values.items()}
        cells[key] = Cell(entry, settings[key], found[key], estimates, difference, lead)
    return Study(title, options, cells)
