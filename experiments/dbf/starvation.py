"""Starvation: the longest waits beside the mean, of all rules and learned agents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.experiments.blocks import Block, Check, Checks, Drawing
from desim.experiments.dbf.agents import (
    BASELINES,
    BOUND,
    SEED,
    control_rows,
    find_weights,
    inspector_rows,
    other_windows,
)
from desim.experiments.dbf.simulate import METRICS, Setting
from desim.experiments.dbf.study import (
    KINDS,
    METRIC_WORDS,
    Measured,
    Study,
    beaten,
    by_agent,
    data,
    heading,
    kind_styles,
    remarks,
)
from desim.experiments.drawing import new_figure
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program
from desim.plotting.axes import group_digits
from desim.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Starvation"
OPEN, CLOSED = "open, 1,000 started", "closed, 1,000 jobs"
COLUMNS = {OPEN: Setting(), CLOSED: Setting(arrivals="closed")}
SHOWN = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max", "queue_length_mean", "jobs_queued")
FAIR = "-fair"
#: Agents of which all figures differ by less than this share of themselves have one name beside the picture.
APART = 0.06


@dataclass(frozen=True)
class Starvation(Study):
    """Mean, 99th percentile and longest wait; FCFS with EASY is the bound.

    Attributes
    ----------
    windows : tuple of pairs of ints
        Slots at head and tail, for rules, and for agents for all windows.
    """

    windows: tuple[tuple[int, int], ...] = ((0, 10), (5, 5), (9, 1), (16, 16), (32, 32))

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and figures."""
        weights = find_weights(self.weights)
        trained = other_windows(weights, self.windows, "lublin256")
        fair = [row for row in trained if SEED.sub("", row).endswith(FAIR)]
        rules = control_rows(("shortest", "reserving"), self.windows)
        inspectors = inspector_rows(weights)
        panel = Panel(TITLE, "episodes", COLUMNS, trained | inspectors | BASELINES | rules)
        found = self.measure(panel, reference=BOUND)
        yield from heading(found, TITLE, [] if fair else ["fair agents"])
        yield from (by_agent(found, panel, column, SHOWN, title=f"Longest waits, {column}") for column in COLUMNS)
        yield from remarks(found)
        checks = fairness_checks(found, panel, OPEN, fair)
        yield Checks(checks)
        yield data(found, TITLE, METRICS, checks)
        for column, name in ((OPEN, "starvation"), (CLOSED, "starvation_closed")):
            yield _drawing(found, column, name, list(trained), list(inspectors))


def fairness_checks(found: Measured, panel: Panel, column: str, rows: Iterable[str]) -> list[Check]:
    """Tell whether fair agents keep the longest wait within that of EASY over FCFS, and still wait less on average.

    Of the mean over episodes of the longest wait, and of the mean wait, whose difference is paired.
    """
    checks = []
    bound = found.estimate(panel, column, BOUND, "waiting_time_max").mean
    for row in rows:
        longest = found.estimate(panel, column, row, "waiting_time_max").mean
        text = f"longest wait, mean over episodes: {row} {longest:,.0f} s, {BOUND} {bound:,.0f} s"
        checks.append(Check(text, longest <= bound))
        checks += beaten(found, panel, column, [row], [BOUND], metrics=["waiting_time_mean"])
    return checks


def _drawing(found: Measured, column: str, name: str, learned: Sequence[str], inspectors: Sequence[str]) -> Drawing:
    """Draw the longest wait and the 99th percentile against the mean, with the bound."""
    (panel,) = found.panels
    metrics = ("waiting_time_mean", "waiting_time_max", "waiting_time_p99")
    mean, *others = ({row: found.estimate(panel, column, row, metric) for row in panel.rows} for metric in metrics)
    labels = [f"{METRIC_WORDS[metric]}, mean over episodes" for metric in metrics[1:]]
    figure = draw(mean, dict(zip(labels, others, strict=True)), learned, inspectors)
    return Drawing(f"{name}.png", caption_of(), figure)


def caption_of() -> str:
    """Return what stands below the figure."""
    return (
        f"Longest waits against mean waits; the dotted line is {BOUND}. With a number and 95 % intervals: {BOUND}, and "
        "those than whom nobody is better in both, one of several that lie close to each other. The table has "
        "everybody."
    )


def draw(
    means: Mapping[str, Estimate],
    others: Mapping[str, Mapping[str, Estimate]],
    learned: Sequence[str],
    inspectors: Sequence[str],
) -> Figure:
    """Draw one axes for each of the others, by label, against the means; agents that are not beaten have numbers."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullLocator

    figure, grid = new_figure(1, len(others), width=4.8, height=4.4)
    styles = kind_styles(means, learned, inspectors)
    front = set().union(*(_front(means, values) for values in others.values()))
    named = _apart([BOUND, *sorted(front - {BOUND}, key=lambda row: means[row].mean)], [means, *others.values()])
    for ax, values in zip(grid[0], others.values(), strict=True):
        for row, mean in means.items():
            ax.plot(mean.mean, values[row].mean, "o", color=styles[row].color, markersize=4, alpha=0.6)
        for row in named:
            halves = np.nan_to_num([means[row].half_width, values[row].half_width])
            look: dict[str, Any] = {"color": styles[row].color, "elinewidth": 0.8, "marker": "o", "markersize": 6}
            ax.errorbar(means[row].mean, values[row].mean, xerr=halves[0], yerr=halves[1], **look)
            number = named.index(row) + 1
            where = (4, 4) if number % 2 else (-4, -12)  # so that those of neighbours do not meet
            text: dict[str, Any] = {"xytext": where, "ha": "left" if number % 2 else "right", "fontsize": 9}
            text |= {"textcoords": "offset points", "fontweight": "bold"}
            ax.annotate(str(number), (means[row].mean, values[row].mean), **text)
        ax.axhline(values[BOUND].mean, color="grey", linewidth=0.8, linestyle=":")
        for axis in (ax.xaxis, ax.yaxis):
            (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)("log")
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if axis is ax.xaxis else range(1, 10)))
            axis.set_minor_locator(NullLocator())
            group_digits(axis)
        ax.set_xlabel(METRIC_WORDS["waiting_time_mean"], fontsize=9)
        ax.tick_params(labelsize=8)
    for ax, label in zip(grid[0], others, strict=True):
        ax.set_ylabel(label, fontsize=9)
    kinds = [kind for kind in KINDS if kind in styles]
    look = {"linestyle": "none", "marker": "o", "markersize": 5}
    handles = [Line2D([], [], color=styles[kind].color, **look) for kind in kinds]
    handles += [Line2D([], [], color=styles[row].color, **look) for row in named]
    names = [*kinds, *(f"{number}  {row}" for number, row in enumerate(named, 1))]
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _apart(rows: Sequence[str], metrics: Sequence[Mapping[str, Estimate]]) -> list[str]:
    """Return those of the agents that lie apart from all that are named before, by their means."""
    named: list[str] = []
    for row in rows:
        places = [np.log([metric[row].mean for metric in metrics])]
        others = np.log([[metric[other].mean for metric in metrics] for other in named]).reshape(-1, len(metrics))
        if not (np.abs(others - places) < APART).all(axis=1).any():
            named.append(row)
    return sorted(named, key=lambda row: metrics[0][row].mean)


def _front(means: Mapping[str, Estimate], values: Mapping[str, Estimate]) -> set[str]:
    """Return the agents than which none has both a smaller mean and a smaller value."""
    front, least = set(), np.inf
    for row in sorted(means, key=lambda row: (means[row].mean, values[row].mean)):
        if values[row].mean < least:
            front.add(row)
            least = values[row].mean
    return front


if __name__ == "__main__":
    sys.exit(run_as_program(Starvation))
