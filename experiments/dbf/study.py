"""What the studies of this paper share: episodes, tables, checks of what was to be shown, and bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.experiments import measured, study
from desim.experiments.blocks import Block, Check, Checks, Data, Drawing, Paragraph, Table, with_interval
from desim.experiments.dbf.agents import BASELINES
from desim.experiments.dbf.simulate import BLOCK, Setting, perform
from desim.experiments.dbf.workloads import TRACE, most_episodes, present
from desim.experiments.drawing import legend_below, new_figure
from desim.experiments.measured import Panel
from desim.plotting.colors import LineStyle, line_styles
from desim.sweep import Perform

__all__ = [
    "KINDS",
    "METRIC_WORDS",
    "Measured",
    "Study",
    "bars",
    "beaten",
    "by_agent",
    "by_column",
    "data",
    "heading",
    "kind_styles",
    "remarks",
]

#: With --quick: jobs of an episode, and episodes of a run.
QUICK_JOBS, QUICK_BLOCK = 150, 2

METRIC_WORDS = {
    "waiting_time_mean": "waiting time, s",
    "waiting_time_p99": "99th percentile, s",
    "waiting_time_max": "longest wait, s",
    "started_waiting_time_mean": "waiting time of started jobs, s",
    "started_waiting_time_p99": "99th percentile of started jobs, s",
    "started_waiting_time_max": "longest wait of started jobs, s",
    "bounded_slowdown_mean": "bounded slowdown",
    "queue_length_mean": "queue length",
    "queued_load_mean": "queued load, core-s",
    "utilization": "utilization",
    "jobs_queued": "jobs queued at the end",
    "num_decisions": "decisions",
    "num_cycles": "cycles ended",
    "invisible_jobs": "invisible jobs",
    "hidden_share": "share of decisions with invisible jobs",
    "return_paper": "return, paper's reward",
    "return_scaled": "return, scaled reward",
    "return_waiting": "return, waiting cost",
}
"""What metrics are called in tables and figures; of all jobs, those still queued included, if nothing else is said."""


@dataclass(frozen=True)
class Study(study.Study):
    """What all studies of this paper take; with ``quick`` there are two episodes of 150 jobs.

    Attributes
    ----------
    seeds : int
        Episodes, the same for all agents.
    workload : {"lublin_256", "generated"}
        The paper's trace, or generated traces like it, which no training has seen; the real log in ``kth``.
    weights : Path or None
        Directory of trained weights; those that come with the package if left out.
    check : bool
        Check the records of every run with `desim.validation`.
    """

    paper: ClassVar[str] = "dbf"
    block: ClassVar[int] = BLOCK

    seeds: int = 50
    workload: Literal["lublin_256", "generated"] = "lublin_256"
    weights: Path | None = None
    check: bool = False

    @property
    def num_episodes(self) -> int:
        """How many episodes are compared."""
        return min(self.seeds, QUICK_BLOCK) if self.quick else self.seeds

    @property
    def seed_list(self) -> list[int]:
        """The blocks of episodes; the last one may hold more than are compared."""
        return self._blocks(self.num_episodes)

    def num_episodes_of(self, setting: Setting) -> int:
        """Return how many episodes of a setting are compared; by default, as many as of all others."""
        return self.num_episodes

    def seeds_of(self, setting: Setting) -> list[int]:
        """Return the blocks of episodes of a setting."""
        return self._blocks(self.num_episodes_of(setting))

    def _blocks(self, num_episodes: int) -> list[int]:
        """Return the blocks that hold so many episodes."""
        size = QUICK_BLOCK if self.quick else self.block
        return list(range(-(-num_episodes // size)))

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for, on the workload that is; it is checked if that is a trial."""
        named = self.workload if setting.workload == TRACE else setting.workload
        setting = replace(setting, workload=present(named), episodes=self.block)
        if not self.quick:
            return replace(setting, check=setting.check or self.check)
        return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), episodes=QUICK_BLOCK, check=True)

    def measure(self, *panels: Panel, reference: str, by: Perform = perform) -> Measured:
        """Perform the runs of panels that are not stored yet; there have to be so many episodes."""
        for setting in (self.fit(setting) for panel in panels for setting in panel.columns.values()):
            most = most_episodes(setting.workload, setting.num_jobs)
            number = self.num_episodes_of(setting)
            if number > most:
                raise InvalidConfiguration(f"{number} episodes of {setting}: there are {most}")
        found: Measured = Measured.of(self, panels, by, reference=reference)
        return found


@dataclass(frozen=True)
class Measured(measured.Measured):
    """What the runs have brought; values are by episode, in the place of seeds."""

    study: Study

    def values(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by episode; arguments as for any study."""
        outcomes = self.outcomes[panel.name, column, row]
        values = np.concatenate([np.array(outcome[metric], dtype=np.float64) for outcome in outcomes])
        return values[: self.study.num_episodes_of(self.study.fit(panel.columns[column]))]


# -- tables -----------------------------------------------------------------------------------------


def heading(found: Measured, title: str, missing: Sequence[str] = ()) -> Iterator[Block]:
    """Yield what was measured, on how many episodes, and which rows are left out, since nothing is trained for them."""
    yield from found.runs
    own = found.study
    settings = [own.fit(setting) for panel in found.panels for setting in panel.columns.values()]
    workloads = sorted({setting.workload for setting in settings})
    numbers = sorted({own.num_episodes_of(setting) for setting in settings})
    episodes = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    how = f"{episodes} episodes of {', '.join(workloads)}, means with 95 % intervals"
    yield from own.heading(title, how)
    yield Paragraph(
        "Jobs that are still queued at the end count with their waiting time so far, if nothing else is said."
    )
    if missing:
        yield Paragraph(f"Not trained yet, so left out: {', '.join(missing)}.")


def remarks(found: Measured, *texts: str) -> Iterator[Block]:
    """Yield what the paper says, and what a check of the records has found."""
    yield from (Paragraph(text) for text in texts)
    yield from found.faults()


def by_agent(
    found: Measured,
    panel: Panel,
    column: str,
    metrics: Sequence[str],
    *,
    title: str,
    against: Sequence[str] = (),
) -> Table:
    """Return a table with one row an agent and one column a metric, by waiting time.

    Parameters
    ----------
    found : Measured
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    metrics : sequence of str
        Which.
    title : str
        Of the table.
    against : sequence of str
        Rows that the waiting times of all others are compared with, paired by episode; the reference if empty.

    Returns
    -------
    Table
        The table.
    """
    compared, others = "waiting_time_mean", list(against or [found.reference])
    rows = [row for row in panel.rows if found.has(panel, column, row)]
    rows.sort(key=lambda row: found.estimate(panel, column, row, compared).mean)
    table = []
    for row in rows:
        cells = [with_interval(found.estimate(panel, column, row, metric)) for metric in metrics]
        for other in others:
            difference = None if row == other else found.difference(panel, column, row, compared, other)
            cells.append(with_interval(difference, 0))
        table.append([row, *cells])
    heads = [METRIC_WORDS[metric].replace(" of started", "\nof started").replace(", ", ",\n") for metric in metrics]
    return Table(title, ["", *heads, *(f"waiting time less that of\n{other}" for other in others)], table)


def by_column(found: Measured, panel: Panel, metric: str) -> Table:
    """Return a table with one row a column of the panel and one column an agent."""
    rows = [row for row in panel.rows if any(found.has(panel, column, row) for column in panel.columns)]
    cells = {
        column: [found.estimate(panel, column, row, metric) if found.has(panel, column, row) else None for row in rows]
        for column in panel.columns
    }
    table = [[column, *map(with_interval, estimates)] for column, estimates in cells.items()]
    return Table(f"{panel.name}: {METRIC_WORDS[metric]}", [panel.parameter, *rows], table)


def beaten(
    found: Measured,
    panel: Panel,
    column: str,
    rows: Iterable[str],
    others: Iterable[str],
    *,
    metrics: Sequence[str] = ("waiting_time_mean", "queue_length_mean"),
) -> list[Check]:
    """Tell whether some agents have less of some metrics than others, paired by episode.

    Parameters
    ----------
    found : Measured
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    rows, others : iterable of str
        Who should have less, and than whom; those that are not there are left out.
    metrics : sequence of str
        Of which less is better.

    Returns
    -------
    list of Check
        It holds if the interval of the difference is below 0.
    """
    checks = []
    there = [other for other in others if found.has(panel, column, other)]
    for row in (row for row in rows if found.has(panel, column, row)):
        for other in (other for other in there if other != row):
            for metric in metrics:
                difference = found.difference(panel, column, row, metric, other)
                means = [found.estimate(panel, column, name, metric).mean for name in (row, other)]
                text = (
                    f"{panel.name}, {column}: {METRIC_WORDS[metric]}, {row} {means[0]:,.1f}, {other} {means[1]:,.1f}, "
                    f"difference {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
                )
                checks.append(Check(text, difference.high < 0))
    return checks


# -- files ------------------------------------------------------------------------------------------


def data(found: Measured, title: str, metrics: Sequence[str], checks: Sequence[Check] = ()) -> Data:
    """Return what programs read: one row a cell and metric.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    metrics : sequence of str
        What is written of every episode.
    checks : sequence of Check
        What was to be shown.

    Returns
    -------
    Data
        With the values of all episodes in the document.
    """
    rows = [
        {
            "panel": panel.name,
            "parameter": panel.parameter,
            "column": column,
            "agent": row,
            "policy": choice.policy,
            "weights": dict(choice.parameters).get("sha256"),
            **asdict(found.study.fit(panel.columns[column])),
            "metric": metric,
            "num_episodes": len(found.values(panel, column, row, metric)),
            **found.summary(panel, column, row, metric),
            "by_episode": found.values(panel, column, row, metric).tolist(),
        }
        for panel in found.panels
        for column, row, choice in panel.cells()
        for metric in metrics
    ]
    told = {"title": title, "options": asdict(found.study), "reference": found.reference}
    return Data(told | {"checks": asdict(Checks(checks))["checks"], "cells": rows}, rows, without="by_episode")


# -- figures ----------------------------------------------------------------------------------------

KINDS = ("learned", "SchedInspector", "rules", "rules in a window")
"""Kinds of agents in figures."""

#: How far an axis goes beyond the largest value; intervals of trials are cut.
ROOM = 1.1


def kind_styles(rows: Iterable[str], learned: Sequence[str], inspectors: Sequence[str]) -> dict[str, LineStyle]:
    """Return the style of each row, which is that of its kind; and those of the kinds that there are."""
    styles, found = line_styles(KINDS), {}
    for row in rows:
        kind = KINDS[0] if row in learned else KINDS[1] if row in inspectors else KINDS[2 if row in BASELINES else 3]
        found[row] = found[kind] = styles[kind]
    return found


def bars(
    found: Measured,
    column: str,
    metrics: Sequence[str],
    name: str,
    *,
    learned: Sequence[str],
    inspectors: Sequence[str] = (),
) -> Drawing:
    """Draw metrics of the only panel as bars, the agents in the order of the first, which is the mean waiting time.

    Parameters
    ----------
    found : Measured
        What was measured.
    column : str
        The setting.
    metrics : sequence of str
        One axes each.
    name : str
        Of the file.
    learned, inspectors : sequence of str
        Which agents are of these kinds.

    Returns
    -------
    Drawing
        The figure.
    """
    from matplotlib.patches import Patch

    (panel,) = found.panels
    rows = sorted(panel.rows, key=lambda row: found.estimate(panel, column, row, metrics[0]).mean)
    figure, grid = new_figure(1, len(metrics), width=3.6, height=1.2 + 0.24 * len(rows))
    styles = kind_styles(rows, learned, inspectors)
    places = np.arange(len(rows))
    for ax, metric in zip(grid[0], metrics, strict=True):
        estimates = [found.estimate(panel, column, row, metric) for row in rows]
        means = [estimate.mean for estimate in estimates]
        halves = np.nan_to_num([estimate.half_width for estimate in estimates])
        ax.barh(places, means, xerr=halves, color=[styles[row].color for row in rows], error_kw={"elinewidth": 0.7})
        ax.set_xlim(0, ROOM * (max(means) if found.study.is_reduced else max(np.array(means) + halves)))
        if metric == "waiting_time_mean" and not column.startswith("closed"):
            started: list[Any] = [found.estimate(panel, column, row, f"started_{metric}").mean for row in rows]
            ax.plot(started, places, "k|", markersize=7)
            ax.set_title("bar: all jobs; line: started ones", loc="left", fontsize=8)
        ax.set_yticks(places, rows if ax is grid[0, 0] else [""] * len(rows), fontsize=8)
        ax.invert_yaxis()
        ax.set_xlabel(METRIC_WORDS[metric], fontsize=8)
        ax.tick_params(axis="x", labelsize=8)
        ax.grid(axis="x", color="lightgrey", linewidth=0.5)
        ax.set_axisbelow(True)
    shown = [kind for kind in KINDS if kind in styles]
    legend_below(figure, [Patch(color=styles[kind].color) for kind in shown], shown, len(shown))
    caption = f"Learned agents, inspectors and rules; {column}. Means over the episodes."
    return Drawing(f"{name}.png", caption, figure)
