"""What the studies of this paper share: sizes, gaps in percent, decision times, tables, files, the figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, ClassVar

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
from desim.experiments.drawing import MARKERS, draw_estimates, legend_below, line_handles, new_figure
from desim.experiments.lachesis.agents import AGENTS, DECIMA, LACHESIS, LACHESIS_COMPLETION, PAPER_ROWS, REFERENCE
from desim.experiments.lachesis.simulate import METRICS, SHARES, Setting, perform
from desim.experiments.measured import Panel
from desim.plotting.colors import LineStyle, line_styles
from desim.statistics import Estimate
from desim.sweep import Perform

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ABOVE_REFERENCE", "METRIC_WORDS", "Claims", "Measured", "Study", "besides", "data", "drawing", "tables"]

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
#: Points of different agents stand side by side within this share of the axis.
SPREAD = 0.02
#: Inches that an entry of the legend takes.
LEGEND_WIDTH = 2.3


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

    Yields
    ------
    Block
        In the order of a report.
    """
    if not metrics:
        yield from tables(found, title, ("makespan", "lower_bound", "gap_to_lower_bound"))
        again, completion = replace(found, reference=LACHESIS_COMPLETION, runs=()), ("turnaround_time_mean",)
        yield from tables(again, title, completion, compared=completion, remarks=remarks)
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
        times = {row: found.percentiles(panel, row, (0.5, SHARE, 0.999)) for row in rows}
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


# -- the figure -------------------------------------------------------------------------------------


def drawing(found: Measured, title: str, metrics: Sequence[str]) -> Drawing:
    """Draw metrics against the parameter, one row of axes a panel, and the times of decisions beside them.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    metrics : sequence of str
        One axes each.

    Returns
    -------
    Drawing
        The figure.
    """
    from matplotlib.lines import Line2D

    figure, grid = new_figure(len(found.panels), len(metrics) + 1, width=4.4, height=3.4)
    rows = list(dict.fromkeys(row for panel in found.panels for row in panel.rows))
    styles = line_styles(dict.fromkeys([*AGENTS, *rows]))  # the same in all figures
    markers = dict(zip(rows, cycle(MARKERS), strict=False))  # those of the legend, whichever rows a panel has
    looks = {row: {"color": styles[row].color, "linestyle": styles[row].dashes, "marker": markers[row]} for row in rows}
    for panel, axes in zip(found.panels, grid, strict=True):
        for ax, metric in zip(axes, metrics, strict=False):
            _draw_metric(ax, found, panel, metric, looks)
        _draw_decision_times(axes[-1], found, panel, styles)
        axes[0].set_title(panel.name, loc="left", fontsize=10)
    handles, labels = line_handles(rows, styles, MARKERS * 2), rows
    if "makespan" in metrics:
        handles.append(Line2D([], [], **BOUND))
        labels = [*rows, "lower bound of the makespan"]
    legend_below(figure, handles, labels, min(len(labels), int(figure.get_figwidth() // LEGEND_WIDTH)))
    caption = f"{title}. Means over the workloads with 95 % intervals, and the times of decisions."
    return Drawing(f"{found.study.name}.png", caption, figure)


#: How the lower bound of the makespan is drawn.
BOUND: dict[str, Any] = {"color": "grey", "linewidth": 0.9, "linestyle": (0, (1, 1))}


def _draw_metric(ax: Axes, found: Measured, panel: Panel, metric: str, looks: Mapping[str, Mapping[str, Any]]) -> None:
    columns = list(panel.columns)
    places = np.arange(len(columns), dtype=np.float64)
    with suppress(ValueError):  # not every parameter is a number
        places = np.array([float(column) for column in columns])
    width = (places[-1] - places[0]) * SPREAD if len(places) > 1 else 0.0
    offsets = np.linspace(-width / 2, width / 2, len(panel.rows))
    for row, offset in zip(panel.rows, offsets, strict=True):
        if metric == ABOVE_REFERENCE:
            estimates = [found.lead(panel, column, row, "makespan") for column in columns]
        else:
            estimates = [found.estimate(panel, column, row, metric) for column in columns]
        draw_estimates(ax, places + offset, estimates, markersize=3.5, linewidth=1.1, elinewidth=0.8, **looks[row])
    if metric == "makespan":
        bounds = [found.estimate(panel, column, found.reference, "lower_bound").mean for column in columns]
        ax.plot(places, bounds, **BOUND)
    ax.set_xticks(places, columns)
    ax.set_xlabel(panel.parameter)
    words = METRIC_WORDS | {ABOVE_REFERENCE: f"makespan above\n{found.reference}, %"}
    ax.set_ylabel(words[metric], fontsize=8)
    ax.set_ylim(bottom=0)


def _draw_decision_times(ax: Axes, found: Measured, panel: Panel, styles: Mapping[str, LineStyle]) -> None:
    for row in panel.rows:
        seconds, shares = found.decision_seconds(panel, row)
        ax.plot(MILLISECONDS * seconds, shares, color=styles[row].color, linestyle=styles[row].dashes, linewidth=1.1)
    ax.axhline(SHARE, color="grey", linewidth=0.7, linestyle=":")
    ax.set_xscale("log")
    ax.set_xlabel("time of a decision, ms")
    ax.set_ylabel("share of decisions")
