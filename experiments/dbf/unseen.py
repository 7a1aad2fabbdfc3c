"""Workloads of several origins that no training and no choice of weights has seen: rules, search, what imitates it.

What is told of an agent on a workload is one number, which was fixed before it was looked at: by how many per cent its
mean wait over all pieces is above that of the best rule. It is a ratio of two means over the same pieces, and its
interval that of the ratio estimator (Cochran, Sampling Techniques, 3rd edition, 1977, section 6.4), a t interval. The
best rule is chosen on the very pieces, which is in its favour.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from desim.experiments.blocks import Block, Check, Checks, Drawing, Table, with_interval
from desim.experiments.dbf.agents import REFERENCE, RULE_ROWS, control_rows, find_weights, other_windows
from desim.experiments.dbf.simulate import METRICS, Setting
from desim.experiments.dbf.study import METRIC_WORDS, Measured, Study, by_agent, data, heading, remarks
from desim.experiments.dbf.workloads import KTH, SOURCES, most_episodes
from desim.experiments.drawing import MARKERS, legend_below, new_figure
from desim.experiments.measured import Choice, Panel
from desim.experiments.study import run_as_program
from desim.plotting.colors import line_styles
from desim.statistics import Estimate, mean_interval

TITLE = "unseen workloads"
METRIC, WAITING = "waiting_time_mean", "waiting_time"
SHOWN = (METRIC, "waiting_time_p99", "waiting_time_max", "bounded_slowdown_mean", "utilization")
WORKLOADS = (KTH, *(name for name in SOURCES if "," in name))
RULES = RULE_ROWS | control_rows(("shortest", "reserving"), ((16, 16),))
IMITATING = "imitating-search"
FAMILIES = (IMITATING, "lublin256-any")
"""Networks that score the jobs of any cluster: those that imitate the search, and those that learned by themselves."""

Groups = Mapping[str, Sequence[str]]
"""Agents by name, several where their mean is told."""


@dataclass(frozen=True)
class Unseen(Study):
    """Pieces of logs that begin num_jobs apart, or one of each of many generated traces; the cluster is empty at first.

    Attributes
    ----------
    seeds : int
        Pieces of each workload at most; logs have as many as they are long.
    num_jobs : int
        Jobs of a piece.
    moves : tuple of int
        Budgets of the search, in moves a decision.
    workloads : tuple of str
        Which, of :data:`desim.experiments.dbf.workloads.SOURCES`.
    """

    block: ClassVar[int] = 5

    seeds: int = 100
    num_jobs: int = 600
    moves: tuple[int, ...] = (30, 300)
    workloads: tuple[str, ...] = WORKLOADS

    def num_episodes_of(self, setting: Setting) -> int:
        """Return how many pieces of a workload there are, at most as many as are asked for."""
        return min(self.num_episodes, most_episodes(setting.workload, setting.num_jobs))

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks and files."""
        weights = find_weights(self.weights)
        families = {family: other_windows(weights, ((16, 16),), family) for family in FAMILIES}
        networks = {row: choice for rows in families.values() for row, choice in rows.items()}
        searches = {f"search, {moves:,} moves": Choice(f"search:batch:{WAITING}:{moves}") for moves in self.moves}
        columns = {name: Setting(name, num_jobs=self.num_jobs) for name in self.workloads}
        panel = Panel(TITLE, "workload", columns, RULES | searches | networks)
        found = self.measure(panel, reference=REFERENCE)
        yield from heading(found, TITLE)
        best = {column: best_of(found, panel, column) for column in columns}
        groups = {row: [row] for row in (*searches, *networks)}
        if len(families[IMITATING]) > 1:
            groups[f"{IMITATING}, mean of {len(families[IMITATING])}"] = list(families[IMITATING])
        yield against_best(found, panel, best, groups)
        for column in columns:
            yield by_agent(found, panel, column, SHOWN, title=column, against=[best[column]])
        yield from remarks(found)
        checks = [check for name in groups for check in below_best(found, panel, best, name, groups[name])]
        yield Checks(checks)
        yield data(found, TITLE, METRICS, checks)
        yield differences(found, panel, best, groups)
        if len(self.moves) > 1:
            yield budgets(found, panel, best, self.moves)


def best_of(found: Measured, panel: Panel, column: str) -> str:
    """Return the rule with the shortest mean wait on a workload."""
    return min(RULES, key=lambda row: found.estimate(panel, column, row, METRIC).mean)


def ratio_percent(ours: ArrayLike, theirs: ArrayLike) -> Estimate:
    """Return by how many per cent the mean of ours is above that of theirs, and its t interval.

    Parameters
    ----------
    ours, theirs : array-like of float, shape (n,)
        The same metric of two agents, piece by piece in the same order.

    Returns
    -------
    Estimate
        NaN where the mean of theirs is not above 0.
    """
    numerator, denominator = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    mean = float(denominator.mean())
    if not mean > 0:
        return Estimate(math.nan, math.nan, len(denominator), 0.95)
    ratio = float(numerator.mean()) / mean
    rest = mean_interval((numerator - ratio * denominator) / mean)  # whose mean is 0
    return Estimate(100.0 * (ratio - 1.0), 100.0 * rest.half_width, rest.num_values, rest.level)


def above_best(found: Measured, panel: Panel, column: str, rows: Sequence[str], rule: str) -> Estimate:
    """Return by how many per cent the mean wait of some agents together is above that of a rule."""
    ours = np.mean([found.values(panel, column, row, METRIC) for row in rows], axis=0)
    return ratio_percent(ours, found.values(panel, column, rule, METRIC))


def against_best(found: Measured, panel: Panel, best: dict[str, str], groups: Groups) -> Table:
    """Return by how many per cent the mean waits of agents are above that of the best rule of each workload."""
    shares = {
        column: [above_best(found, panel, column, rows, rule) for rows in groups.values()]
        for column, rule in best.items()
    }
    table = []
    for column, rule in best.items():
        its = found.estimate(panel, column, rule, METRIC)
        table.append([column, str(its.num_values), rule, with_interval(its), *map(signed, shares[column])])
    ratios = zip(*([one.mean for one in row] for row in shares.values()), strict=True)
    table.append(["geometric mean of the ratios", "", "", "", *map(geometric, ratios)])
    heads = ["workload", "pieces", "best rule", f"its {METRIC_WORDS[METRIC]}", *(f"{name},\n%" for name in groups)]
    return Table("Mean wait above that of the best rule", heads, table)


def signed(estimate: Estimate) -> str:
    """Return per cent with a sign and the interval, which a single piece does not have."""
    half = f" ± {estimate.half_width:.1f}" if math.isfinite(estimate.half_width) else ""
    return f"{estimate.mean:+.1f}{half}" if math.isfinite(estimate.mean) else "-"


def geometric(shares: Sequence[float]) -> str:
    """Return the geometric mean of ratios, told in per cent above 1, with its t interval over workloads."""
    logs = mean_interval(np.log1p([share / 100.0 for share in shares if math.isfinite(share)]))
    mean, low, high = (100.0 * math.expm1(value) for value in (logs.mean, logs.low, logs.high))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})" if math.isfinite(low) else signed(Estimate(mean, low, 1, 0.95))


def below_best(found: Measured, panel: Panel, best: dict[str, str], name: str, rows: Sequence[str]) -> Iterator[Check]:
    """Yield of each workload whether agents' mean wait is below that of the best rule, beyond the interval."""
    for column, rule in best.items():
        above = above_best(found, panel, column, rows, rule)
        yield Check(f"{column}: {name} above {rule} by {signed(above)} %", above.high < 0)


def differences(found: Measured, panel: Panel, best: dict[str, str], groups: Groups) -> Drawing:
    """Draw how far agents are from the best rule of each workload, with intervals."""
    figure, ((ax,),) = new_figure(1, 1, width=7.0, height=1.5 + 0.14 * len(best) * (len(groups) + 2))
    styles = line_styles(groups)
    offsets = np.linspace(-0.35, 0.35, len(groups)) if len(groups) > 1 else np.zeros(1)
    for name, marker, offset in zip(groups, cycle(MARKERS), offsets):
        for place, (column, rule) in enumerate(best.items()):
            one = above_best(found, panel, column, groups[name], rule)
            half = np.nan_to_num(one.half_width)
            label = None if place else name
            ax.errorbar(one.mean, place + offset, xerr=half, color=styles[name].color, marker=marker, ms=4, label=label)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(best)), [f"{column}\n{rule}" for column, rule in best.items()], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("mean wait above that of the best rule, %")
    ax.grid(axis="x", color="lightgrey", linewidth=0.5)
    handles, labels = ax.get_legend_handles_labels()
    legend_below(figure, handles, labels, 3)
    return Drawing("unseen.png", "Mean wait above that of the best rule of each workload, in per cent of it.", figure)


def budgets(found: Measured, panel: Panel, best: dict[str, str], moves: Sequence[int]) -> Drawing:
    """Draw what a search brings by its budget, one curve a workload and that of their geometric mean."""
    figure, ((ax,),) = new_figure(1, 1, width=7.0, height=5.0)
    styles = line_styles(best)
    logs = []
    for number, ((column, rule), marker) in enumerate(zip(best.items(), cycle(MARKERS))):
        found_here = [above_best(found, panel, column, [f"search, {each:,} moves"], rule) for each in moves]
        logs.append(np.log1p([one.mean / 100.0 for one in found_here]))
        halves = np.nan_to_num([one.half_width for one in found_here])
        places = np.array(moves) * 1.03 ** (number - len(best) / 2)  # side by side, lest intervals hide each other
        means = [one.mean for one in found_here]
        ax.errorbar(places, means, yerr=halves, color=styles[column].color, marker=marker, ms=4, lw=0.9, label=column)
    ax.plot(moves, 100.0 * np.expm1(np.mean(logs, axis=0)), color="black", linewidth=2.5, label="geometric mean")
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xlabel("moves a decision")
    ax.set_ylabel("mean wait above that of the best rule, %")
    ax.grid(color="lightgrey", linewidth=0.5)
    handles, labels = ax.get_legend_handles_labels()
    legend_below(figure, handles, labels, 3)
    return Drawing("budgets.png", "Mean wait above that of the best rule by the budget of the search.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Unseen))
