"""What the studies of this paper share: sizes, gaps in percent, decision times, tables, files, the figure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.experiments import measured, study
from desim.experiments.blocks import (
    Beside,
    Besides,
    Block,
    Data,
    Drawing,
    Paragraph,
    Table,
    lead_percent,
    short,
    with_interval,
)
from desim.experiments.lachesis.agents import DECIMA, LACHESIS, LACHESIS_COMPLETION, PAPER_ROWS, REFERENCE
from desim.experiments.lachesis.pictures import SHOWN_SHARES, Chart, draw
from desim.experiments.lachesis.simulate import METRICS, SHARES, Setting, perform
from desim.experiments.measured import Panel
from desim.statistics import Estimate
from desim.sweep import Perform

__all__ = ["ABOVE_REFERENCE", "METRIC_WORDS", "Claims", "Measured", "Study", "besides", "data", "drawings", "tables"]

#: With --quick: the most jobs of a run.
QUICK_JOBS = 6

METRIC_WORDS = {
    "makespan": "makespan, s",
    "speedup": "speedup",
    "slr": "schedule length ratio",
    "turnaround_time_mean": "mean job completion time, s",
    "gap_to_lower_bound": "gap to the lower bound, %",
    "lower_bound": "lower bound, s",
    "num_duplicates": "duplicates",
    "num_useful_duplicates": "useful duplicates",
    "data_moved": "data moved",
    "utilization": "utilization of executors",
}
"""What metrics are called in tables and figures."""

ABOVE_REFERENCE = "above reference"
"""Stands for the makespan in percent above the reference's, paired by workload."""

MILLISECONDS = 1_000.0
#: Share of the decisions of which the paper tells the time, and those of which files tell it.
SHARE, WRITTEN_SHARES = 0.98, (0.5, 0.9, 0.98, 0.99, 0.999)


@dataclass(frozen=True)
class Study(study.Study):
    """What all studies of this paper take; with ``quick`` a run has at most 6 jobs."""

    paper: ClassVar[str] = "lachesis"

    def fit(self, setting: Setting) -> Any:
        """Return a setting in the size that is asked for; it is checked if that is a trial."""
        if not self.quick:
            return setting
        return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), check=True)

    def measure(self, *panels: Panel, reference: str = REFERENCE, by: Perform = perform) -> Measured:
        """Perform the runs of panels that are not stored yet."""
        found: Measured = Measured.of(self, panels, by, reference=reference)
        return found


@dataclass(frozen=True)
class Measured(measured.Measured):
    """What the runs have brought; the gap to the lower bound is in percent."""

    study: Study

    def values(self, panel: Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by workload; arguments as for any study."""
        values = super().values(panel, column, row, metric)
        return 100.0 * values if metric == "gap_to_lower_bound" else values

    def decision_seconds(self, panel: Panel, row: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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

    def percentiles(self, panel: Panel, row: str, shares: Sequence[float]) -> list[float]:
        """Return the seconds within which shares of an agent's decisions are taken."""
        seconds, known = self.decision_seconds(panel, row)
        return [float(seconds[min(int(known.searchsorted(share)), len(seconds) - 1)]) for share in shares]


# -- tables -----------------------------------------------------------------------------------------


def tables(
    found: Measured,
    title: str,
    metrics: Sequence[str] = (),
    *,
    compared: Sequence[str] = ("makespan",),
    remarks: Sequence[str] = (),
    with_times: bool = True,
) -> Iterator[Block]:
    """Yield the tables of a study.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    metrics : sequence of str
        One table each in every panel. If left out, makespans stand beside those of the reference, and mean completion
        times beside those of the agent that keeps these short.
    compared : sequence of str
        Metrics of which less is better: how far the others are above the reference.
    remarks : sequence of str
        What to say at the end.
    with_times : bool
        Whether to tell the times of decisions.

    Yields
    ------
    Block
        In the order of a report.
    """
    if not metrics:
        yield from tables(found, title, ("makespan", "lower_bound", "gap_to_lower_bound"))
        again, completion = replace(found, reference=LACHESIS_COMPLETION, runs=()), ("turnaround_time_mean",)
        yield from tables(again, title, completion, compared=completion, remarks=remarks, with_times=False)
        return
    yield from found.runs
    workloads = len(found.study.seed_list)
    yield from found.study.heading(title, f"{workloads} workloads a point, means with 95 % intervals")
    for panel in found.panels:
        rows = list(panel.rows)
        for metric in metrics:
            estimate = partial(found.estimate, panel, metric=metric)
            # what does not depend on the agent is told once
            shown = (
                {"any agent": rows[0]}
                if metric == "lower_bound" and len(rows) > 2
                else dict(zip(rows, rows, strict=True))
            )
            yield _table(panel, METRIC_WORDS[metric], estimate, shown)
        for metric in compared:
            what = f"{METRIC_WORDS[metric].split(',')[0]} above that of {found.reference}, %, paired"
            others = {row: row for row in rows if row != found.reference}
            yield _table(panel, what, partial(found.lead, panel, metric=metric), others, digits=2)
        if not with_times:
            continue
        times = {row: found.percentiles(panel, row, SHOWN_SHARES) for row in rows}
        cells = [[row, *(short(MILLISECONDS * time) for time in seconds)] for row, seconds in times.items()]
        yield Table(f"{panel.name}: time of a decision, ms", ["", "50 %", "98 %", "99.9 %"], cells)
    yield from (Paragraph(remark) for remark in remarks)
    yield from found.faults()


def _table(
    panel: Panel,
    title: str,
    estimate: Callable[..., Estimate],
    rows: Mapping[str, str],
    digits: int | None = None,
) -> Table:
    cells = [
        [name, *(with_interval(estimate(column=column, row=row), digits) for column in panel.columns)]
        for name, row in rows.items()
    ]
    return Table(f"{panel.name}: {title}", [panel.parameter, *panel.columns], cells)


# -- the paper --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claims:
    """What the paper says of one of its figures in words; None where it says nothing.

    Attributes
    ----------
    text : str
        All of it, for people.
    shorter, faster : float or None
        By what percentage LACHESIS' makespans are below the best rival's at most, and its speedups above.
    speedup : float or None
        Its largest speedup.
    decision_time : float or None
        Milliseconds in which it takes 98 % of its decisions.
    """

    text: str
    shorter: float | None = None
    faster: float | None = None
    speedup: float | None = None
    decision_time: float | None = None


def besides(found: Measured, claims: Claims) -> Besides:
    """Return what the paper says of a figure beside the same of a study with one panel.

    Rivals are the paper's: its heuristics, and Decima-DEFT.
    """
    (panel,), rows = found.panels, []
    if claims.shorter is not None:
        what = "LACHESIS' makespan below that of the best rival, %, at most"
        rows.append(Beside(what, claims.shorter, _largest(found, panel, "makespan"), "more"))
    if claims.faster is not None:
        what = "LACHESIS' speedup above that of the best rival, %, at most"
        rows.append(Beside(what, claims.faster, _largest(found, panel, "speedup"), "more"))
    if claims.speedup is not None:
        speedups = [found.estimate(panel, column, LACHESIS, "speedup") for column in panel.columns]
        largest = max(speedups, key=lambda one: one.mean)
        rows.append(Beside("LACHESIS' largest speedup", claims.speedup, largest, "more"))
    if claims.decision_time is not None:
        (seconds,) = found.percentiles(panel, LACHESIS, [SHARE])
        ours = Estimate(MILLISECONDS * seconds, math.nan, 1, 0.95)
        rows.append(Beside(f"time of LACHESIS' decisions, {100 * SHARE:.0f} %, ms", claims.decision_time, ours, "less"))
    return Besides(rows, found.study.is_reduced)


def _largest(found: Measured, panel: Panel, metric: str) -> Estimate:
    """Return the lead over the best rival of a column, in the column where it is largest."""
    rivals = [row for row in (*PAPER_ROWS, DECIMA) if row in panel.rows]
    sign = -1.0 if metric == "makespan" else 1.0
    leads = []
    for column in panel.columns:
        values = {row: found.values(panel, column, row, metric) for row in [LACHESIS, *rivals]}
        best = max(rivals, key=lambda row: sign * float(np.mean(values[row])))
        lead = lead_percent(values[LACHESIS], values[best])
        leads.append(lead._replace(mean=sign * lead.mean + 0.0))  # no negative 0
    return max(leads, key=lambda lead: lead.mean)


# -- files ------------------------------------------------------------------------------------------


def data(found: Measured, title: str) -> Data:
    """Return what programs read: one row a cell and metric."""
    rows = list(_rows(found))
    times = {
        panel.name: {
            row: dict(zip(map(str, WRITTEN_SHARES), found.percentiles(panel, row, WRITTEN_SHARES), strict=True))
            for row in panel.rows
        }
        for panel in found.panels
    }
    told = {"title": title, "options": asdict(found.study), "reference": found.reference}
    return Data(told | {"cells": rows, "decision_seconds": times}, rows, without="by_workload")


def _rows(found: Measured) -> Iterator[dict[str, Any]]:
    for panel in found.panels:
        for column, row, choice in panel.cells():
            cell = {
                "panel": panel.name,
                panel.parameter: column,
                "agent": row,
                "policy": choice.policy,
                "plan_ahead": choice.plan_ahead,
                **asdict(found.study.fit(panel.columns[column])),
            }
            for metric in METRICS:
                lead, values = found.lead(panel, column, row, metric), found.values(panel, column, row, metric)
                yield cell | {
                    "metric": metric,
                    "num_workloads": len(values),
                    **found.summary(panel, column, row, metric),
                    "percent_above_reference": lead.mean,
                    "percent_above_reference_half_width": lead.half_width,
                    "by_workload": values.tolist(),
                }


# -- the figures ------------------------------------------------------------------------------------


def drawings(found: Measured, title: str, metrics: Sequence[str]) -> Iterator[Drawing]:
    """Draw metrics against the parameter of each panel, and the times of decisions beside them.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    metrics : sequence of str
        One column of axes each.

    Yields
    ------
    Drawing
        One a panel; the file of a single one is called like the study.
    """
    words = METRIC_WORDS | {ABOVE_REFERENCE: f"makespan above\n{found.reference}, %"}
    for panel in found.panels:
        chart = Chart(
            panel.parameter,
            list(panel.columns),
            {words[metric]: _lines(found, panel, metric) for metric in metrics},
            {row: [MILLISECONDS * time for time in found.percentiles(panel, row, SHOWN_SHARES)] for row in panel.rows},
            found.reference,
            {words["makespan"]: _bounds(found, panel)} if "makespan" in metrics else {},
        )
        several = len(found.panels) > 1
        name = "_".join([found.study.name, *re.findall(r"\w+", panel.name.lower())]) if several else found.study.name
        yield Drawing(f"{name}.png", caption_of(f"{title}: {panel.name}" if several else title, chart), draw(chart))


def caption_of(title: str, chart: Chart) -> str:
    """Return what stands below the figure of a panel."""
    bound = " Dotted: the lower bound of the makespan." if chart.bound else ""
    groups = f" Agents in rows of at most eight, the best above; {chart.reference} is in each." * (len(chart.times) > 8)
    return f"{title}. Means over the workloads with 95 % intervals, and the times of decisions.{bound}{groups}"


def _lines(found: Measured, panel: Panel, metric: str) -> dict[str, list[Estimate]]:
    if metric == ABOVE_REFERENCE:
        return {row: [found.lead(panel, column, row, "makespan") for column in panel.columns] for row in panel.rows}
    return {row: [found.estimate(panel, column, row, metric) for column in panel.columns] for row in panel.rows}


def _bounds(found: Measured, panel: Panel) -> list[float]:
    return [found.estimate(panel, column, found.reference, "lower_bound").mean for column in panel.columns]
