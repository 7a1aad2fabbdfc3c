"""What the studies of this paper share: sizes, means over trainings, tables, checks, files, and a figure of columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.experiments import measured, study
from desim.experiments.blocks import Block, Check, Checks, Data, Drawing, Table, short, with_interval
from desim.experiments.drawing import draw_rows
from desim.experiments.measured import Choice, Panel
from desim.experiments.osdec.agents import AGENTS, FORESIGHTED, LEARNED_ROWS, OPTIMUM, Trained, learned_rows
from desim.experiments.osdec.simulate import METRICS, SCORE, Setting, perform
from desim.plotting.colors import LineStyle, line_styles
from desim.statistics import Estimate, mean_interval
from desim.sweep import Perform

#: With --quick: slots of a trajectory.
QUICK_SLOTS = 30
#: A bound of the solver holds up to a millionth.
TOLERANCE = 1e-6

METRIC_WORDS = {
    "utilization": "utilization",
    "time_delay": "time delay",
    "violation_penalty": "violation",
    "total_reward": "total reward",
    "acceptance": "acceptance",
    "acceptance_by_work": "acceptance by work",
    "expiry_rate": "expiry rate",
    "capacity_share_cores": "share of the capacity used",
    "delay_mean": "mean delay, slots",
    "violation": "cores above the capacity times slots",
    "violation_slots": "share of slots violated",
}
"""What metrics are called in tables and figures; the first four are in core-slots."""


@dataclass(frozen=True)
class Study(study.Study):
    """What all studies of this paper take; with ``quick`` a trajectory has 30 slots.

    Attributes
    ----------
    check : bool
        Check the records of every run with `desim.validation`.
    heuristics_only : bool
        Leave out learned agents, those that plan, and the optimum, which take most of the time.
    time_limit : float
        Seconds for each optimum; if they are over, its bound still holds.
    weights : Path or None
        Directory of the weights of learned agents, with names like ``default-osdec``; those that come with the package
        if left out.
    """

    paper: ClassVar[str] = "osdec"

    seeds: int = 100
    check: bool = False
    heuristics_only: bool = False
    time_limit: float = 60.0
    weights: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if not self.time_limit > 0:
            raise InvalidConfiguration(f"time_limit is {self.time_limit!r}, want a number of seconds above 0")

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for; it is checked if that is a trial."""
        if not self.quick:
            return replace(setting, check=setting.check or self.check)
        return replace(setting, num_slots=QUICK_SLOTS, check=True)

    def measure(
        self, *panels: Panel, reference: str = "FIFO", by: Perform = perform, learned_by: Perform | None = None
    ) -> Measured:
        """Perform what is not stored yet.

        Learned agents are performed by another function than the others, so that what changes their networks does not
        make the runs of all the others, the optima among them, worthless.

        Parameters
        ----------
        *panels : Panel
            Rows are :class:`~desim.experiments.measured.Choice` or :class:`~desim.experiments.osdec.agents.Trained`.
        reference : str
            The agent that the others are compared with.
        by, learned_by : callable
            What performs a run of other agents, and of learned ones; ``perform_learned`` if left out.

        Returns
        -------
        Measured
            What the runs have brought.
        """
        outcomes: dict[tuple[str, str, str], tuple[Mapping[str, Any], ...]] = {}
        runs = []
        for is_learned in (False, True):
            parts = [_part(panel, is_learned) for panel in panels]
            if any(part.rows for part in parts):
                found = measured.Measured.of(self, parts, _performer(by, learned_by, is_learned), reference=reference)
                outcomes |= found.outcomes
                runs += found.runs
        return Measured(self, panels, reference, outcomes, tuple(runs))

    def learned_panels(self, cases: Sequence[str], wanted: Callable[[Mapping[str, Any]], bool]) -> list[Panel]:
        """Return a panel of the agents that were trained for each of some workloads.

        Parameters
        ----------
        cases : sequence of str
            The workloads.
        wanted : callable
            Tells from the configuration of an agent whether to take it.

        Returns
        -------
        list of Panel
            Named like their only column, the workload; none where there are no weights.
        """
        rows = {case: learned_rows(self, case, wanted) for case in cases}
        return [Panel(case, "workload", {case: Setting(case=case)}, found) for case, found in rows.items() if found]


def _performer(by: Perform, learned_by: Perform | None, is_learned: bool) -> Perform:
    if not is_learned:
        return by
    from desim.experiments.osdec.learned import perform_learned

    return learned_by or perform_learned


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


@dataclass(frozen=True)
class Measured(measured.Measured):
    """What the runs have brought.

    The outcomes of a learned row are kept for each training: the second training of ``"OSDEC"`` is the row
    ``"OSDEC, training 2"``.
    """

    study: Study

    def values(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by trajectory, of learned agents the mean over their trainings; as for any study."""
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
        return np.array(
            [super(Measured, self).values(panel, column, key, metric) for key in _members(row, panel.rows[row])]
        )

    def shortfall(self, panel: Panel, column: str, row: str) -> Estimate | None:
        """Return by how many percent the total reward is below the optimum's bound; None where there is no optimum."""
        if OPTIMUM not in panel.rows:
            return None
        bounds = np.array([outcome["bound"] for outcome in self.outcomes[panel.name, column, OPTIMUM]])
        return mean_interval(100.0 * (1.0 - self.values(panel, column, row, "total_reward") / bounds))

    def online(self, panel: Panel, column: str, metric: str) -> dict[str, NDArray[np.float64]]:
        """Return a metric by trajectory of all rows that do not know the future."""
        return {row: self.values(panel, column, row, metric) for row in panel.rows if row not in FORESIGHTED}

    def summary(self, panel: Panel, column: str, row: str, metric: str) -> dict[str, float | None]:
        """Return what files tell of a metric, with the deviation between trainings."""
        number = len(self.training_means(panel, column, row, metric))
        deviation = self.deviation(panel, column, row, metric) if number > 1 else None
        told = super().summary(panel, column, row, metric)
        return told | {"num_trainings": number, "deviation_of_trainings": deviation}


# -- tables -----------------------------------------------------------------------------------------


def heading(found: Measured, title: str) -> Iterator[Block]:
    """Yield what was measured, on how many trajectories."""
    yield from found.runs
    number = len(found.study.seed_list)
    yield from found.study.heading(
        title, f"{number} trajectories, means with 95 % intervals, the paper's figures in brackets"
    )


def beside_paper(
    panel: Panel,
    cells: Callable[[str], Sequence[str]],
    number: int,
    paper: Mapping[str, Sequence[str]],
    *,
    rows: Sequence[str] = LEARNED_ROWS,
) -> list[list[str]]:
    """Return the rows of a table: our cells with the paper's figures in brackets.

    Parameters
    ----------
    panel : Panel
        One of its panels.
    cells : callable
        Returns the cells of one of our rows.
    number : int
        How many there are.
    paper : mapping of str to sequence of str
        The paper's figures by row, as text; nothing for some of the first cells.
    rows : sequence of str
        Those of the paper that stand there even if they are not trained for this setting.

    Returns
    -------
    list of list of str
        Row by row.
    """
    table = []
    for row in [*panel.rows, *(row for row in rows if row not in panel.rows)]:
        ours = cells(row) if row in panel.rows else ["–"] * number
        printed = [f" [{text}]" if text else "" for text in paper.get(row, ())]
        printed += [""] * (number - len(printed))
        table.append([row, *(cell + bracket for cell, bracket in zip(ours, printed, strict=True))])
    return table


def by_metric(
    found: Measured,
    panel: Panel,
    column: str,
    metrics: Sequence[str],
    paper: Mapping[str, Sequence[float]],
    *,
    title: str,
) -> Table:
    """Return a table with one row an agent and one column a metric, and how far total rewards are from others.

    Parameters
    ----------
    found : Measured
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    metrics : sequence of str
        Which; the total reward's lead over the reference and distance from the optimum follow.
    paper : mapping of str to sequence of float
        The paper's figures by row, one for each metric. Agents that are not trained for this setting have these alone.
    title : str
        Of the table.

    Returns
    -------
    Table
        The table.
    """

    def cells(row: str) -> list[str]:
        lead = None if row == found.reference else found.lead(panel, column, row, "total_reward")
        estimates = [with_interval(found.estimate(panel, column, row, metric)) for metric in metrics]
        return [*estimates, with_interval(lead, 2), with_interval(found.shortfall(panel, column, row), 2)]

    known = {row for other in found.panels for row in other.rows} | set(paper)
    heads = [*(METRIC_WORDS[metric] for metric in metrics), f"above {found.reference}, %", "below the optimum, %"]
    printed = {row: [short(figure) for figure in figures] for row, figures in paper.items()}
    waiting = [row for row in LEARNED_ROWS if row in known]
    return Table(title, ["", *heads], beside_paper(panel, cells, len(heads), printed, rows=waiting))


def deviations(found: Measured, cells: Sequence[tuple[str, Panel, str, str]], of: str = "the means") -> Iterator[Table]:
    """Yield how far the trainings of a learned agent are apart, if there are several of any.

    Parameters
    ----------
    found : Measured
        What was measured.
    cells : sequence of (str, Panel, str, str)
        The heads of the columns, and what they are: panel, column, metric.
    of : str
        What is told of, for the title.
    """
    table = []
    for row in dict.fromkeys(row for _, panel, _, _ in cells for row in panel.rows):
        there = [(panel, column, row, metric) if row in panel.rows else None for _, panel, column, metric in cells]
        numbers = {len(found.training_means(*place)) for place in there if place is not None}
        if max(numbers) > 1:
            apart = [short(None if place is None else found.deviation(*place)) for place in there]
            table.append([row, "/".join(map(str, sorted(numbers))), *apart])
    if table:
        heads = ["", "trainings", *(head for head, *_ in cells)]
        yield Table(f"Standard deviation of {of} between trainings with other seeds", heads, table)


def bound_checks(found: Measured) -> list[Check]:
    """Tell whether the bound of the optimum holds for every agent in every trajectory; nothing without an optimum."""
    total = above = optima = proved = 0
    for (panel, column, row), outcomes in found.outcomes.items():
        best = found.outcomes.get((panel, column, OPTIMUM))
        if best is not None:
            bounds = np.array([outcome["bound"] for outcome in best])
            rewards = np.array([outcome["total_reward"] for outcome in outcomes])
            total += len(rewards)
            above += int((rewards > bounds + TOLERANCE * np.maximum(np.abs(bounds), 1.0)).sum())
        if row == OPTIMUM:
            optima += len(outcomes)
            proved += sum(outcome["proved"] for outcome in outcomes)
    if not optima:
        return []
    return [
        Check(f"{above} of {total} runs are above the bound of their trajectory", above == 0),
        Check(f"{proved} of {optima} optima are proved", proved == optima),
    ]


# -- files ------------------------------------------------------------------------------------------


def data(
    found: Measured,
    title: str,
    checks: Sequence[Check] = (),
    paper: Mapping[tuple[str, str, str], float] = {},
) -> Data:
    """Return what programs read: one row a cell and metric.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    checks : sequence of Check
        What was to be shown.
    paper : mapping of (column, row, metric) to float
        The paper's figures.

    Returns
    -------
    Data
        With the values of all trajectories in the document.
    """
    rows = [
        {
            "panel": panel.name,
            "column": column,
            "agent": row,
            "policy": choice.policy,
            "parameters": dict(choice.parameters),
            **asdict(found.study.fit(panel.columns[column])),
            "num_trajectories": len(found.study.seed_list),
            "metric": metric,
            **found.summary(panel, column, row, metric),
            "paper": paper.get((column, row, metric)),
            "by_trajectory": found.values(panel, column, row, metric).tolist(),
        }
        for panel in found.panels
        for column, row, choice in panel.cells()
        for metric in METRICS
    ]
    told = {"title": title, "options": asdict(found.study), "reference": found.reference}
    return Data(told | {"checks": asdict(Checks(checks))["checks"], "cells": rows}, rows, without="by_trajectory")


# -- figures ----------------------------------------------------------------------------------------


def styles_of(rows: Sequence[str]) -> dict[str, LineStyle]:
    """Return the style of every agent, the same in all figures; names that are not known come behind all others."""
    return line_styles(dict.fromkeys([*AGENTS, *rows]))


def columns_drawing(found: Measured, title: str, metric: str, paper: Mapping[str, Sequence[float]]) -> Drawing:
    """Draw a metric in every column of the only panel, one row an agent, with the paper's figures.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    metric : str
        What is drawn.
    paper : mapping of str to sequence of float
        The paper's figures by row, column after column.

    Returns
    -------
    Drawing
        The figure.
    """
    (panel,) = found.panels
    columns = {column: f"{column}:\n{METRIC_WORDS[metric]}, core-slots" for column in panel.columns}
    estimates = {
        label: {row: found.estimate(panel, column, row, metric) for row in panel.rows}
        for column, label in columns.items()
    }
    printed = {
        label: {row: figures[place] for row, figures in paper.items() if row in panel.rows}
        for place, label in enumerate(columns.values())
    }
    first = estimates[next(iter(columns.values()))]
    rows = sorted(panel.rows, key=lambda row: -first[row].mean)
    colors = {row: style.color for row, style in styles_of(rows).items()}
    figure = draw_rows(rows, estimates, {} if found.study.is_reduced else printed, colors)
    caption = f"{title}: {METRIC_WORDS[metric]} with 95 % intervals; hollow: the paper."
    return Drawing(f"{found.study.name}.png", caption, figure)
