"""Table 1: utilization, delay and total reward of every agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim import Result, simulate
from desim.experiments.blocks import Beside, Besides, Block, Check, Checks, Drawing, lead_percent, with_interval
from desim.experiments.drawing import draw_rows, new_figure
from desim.experiments.measured import Panel
from desim.experiments.osdec.agents import OPTIMUM, OSDEC, PAPER_ROWS, TABLE_1, VARIANTS, Trained, rows_of
from desim.experiments.osdec.simulate import Setting, scenario_of
from desim.experiments.osdec.study import (
    METRIC_WORDS,
    Measured,
    Study,
    bound_checks,
    by_metric,
    data,
    deviations,
    heading,
    styles_of,
)
from desim.experiments.study import run_as_program
from desim.plotting import capacity_use
from desim.problems.deferrable import Foresight, foresee
from desim.statistics import Estimate, paired_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Table 1"
COLUMN, SECOND = "default", "fluctuating"
METRICS = ("utilization", "time_delay", "violation_penalty", "total_reward")
#: How far our figures may be from the paper's, relative to these.
UTILIZATION, DELAY = 0.05, 0.25
#: By how many percent OSDEC's total reward is to be above FIFO's.
LEAD = 1.95
#: The first of each pair is to have less total reward than the second.
ORDER = (
    ("REINFORCE", "PPO"),
    ("PPO", "PPO+Att"),
    ("PPO+Att", "PPO+Att+AuxH"),
    ("PPO+Att", "PPO+Att+AuxL"),
    ("PPO+Att+AuxH", OSDEC),
    ("PPO+Att+AuxL", OSDEC),
)
#: Trajectory, first slots and rows of the picture of one run.
SHOWN_SEED, SHOWN_SLOTS, SHOWN_ROWS = 0, 120, ("FIFO", "SJF", "Tetris", OSDEC, OPTIMUM)


@dataclass(frozen=True)
class Table1(Study):
    """The default workload, and one whose capacity fluctuates more."""

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and figures."""
        default = Panel(TITLE, "workload", {COLUMN: Setting()}, rows_of(self, COLUMN))
        second = Panel("More fluctuation", "workload", {SECOND: Setting(case=SECOND)}, rows_of(self, SECOND))
        places = ((default, COLUMN), (second, SECOND))
        found = self.measure(default, second)
        # what the paper's total is below the sum of the other two is its violation
        paper = {row: (use, delay, total - use - delay, total) for row, (use, delay, total) in TABLE_1.items()}
        yield from heading(found, TITLE)
        yield by_metric(found, default, COLUMN, METRICS, paper, title=f"{TITLE}, core-slots")
        title = "The workload with a fluctuating capacity, core-slots"
        yield by_metric(found, second, SECOND, METRICS, {}, title=title)
        cells = [(panel, column, metric) for panel, column in places for metric in METRICS]
        yield from deviations(found, [(f"{METRIC_WORDS[cell[2]]},\n{cell[1]}", *cell) for cell in cells])
        yield Besides(list(_beside(found, default)), self.is_reduced)
        checks = bound_checks(found)
        if not self.is_reduced:
            online = [check for panel, column in places for check in online_checks(found, panel, column)]
            checks = default_checks(found, default, COLUMN) + online + checks
        yield Checks(checks)
        yield from found.faults()
        figures = {
            (COLUMN, row, metric): figure
            for row, printed in paper.items()
            for metric, figure in zip(METRICS, printed, strict=True)
        }
        yield data(found, TITLE, checks, figures)
        yield _rows_drawing(found, default)
        yield from (self._trajectory(panel, column) for panel, column in places)

    def _trajectory(self, panel: Panel, column: str) -> Drawing:
        """Draw cores in use under the capacity for some agents on one trajectory, of learned ones the first."""
        from desim.experiments.osdec.learned import create_any

        fitted = self.fit(panel.columns[column])
        results: dict[str, Result] = {}
        for row in (row for row in SHOWN_ROWS if row in panel.rows):
            cluster = scenario_of(fitted, SHOWN_SEED)

            def foresight(cluster: Any = cluster) -> Foresight:
                return foresee(cluster, seed=SHOWN_SEED)

            choice = panel.rows[row]
            chosen = choice.members[0] if isinstance(choice, Trained) else choice
            agent, _ = create_any(chosen, fitted, foresight)
            results[row] = simulate(cluster, agent, seed=SHOWN_SEED)
        figure, grid = new_figure(len(results), 1, width=9.0, height=2.3)
        length = scenario_of(fitted, SHOWN_SEED).num_slots or SHOWN_SLOTS
        capacity_use(results, window=(0, min(SHOWN_SLOTS, length)), axes=list(grid[:, 0]))
        caption = f"Cores in use under the capacity, one trajectory, {column}."
        return Drawing(f"trajectory_{column}.png", caption, figure)


def _beside(found: Measured, panel: Panel) -> Iterator[Beside]:
    """Yield total rewards of the paper, and by how many percent they are above FIFO's, for each row that there is."""
    first = found.reference
    for row, (*_, total) in TABLE_1.items():
        if row not in panel.rows:
            continue
        ours = found.estimate(panel, COLUMN, row, "total_reward")
        yield Beside(f"{row}: total reward, core-slots", total, ours, "more")
        if row != first:
            lead = 100.0 * (total / TABLE_1[first][-1] - 1.0)
            ours = found.lead(panel, COLUMN, row, "total_reward")
            yield Beside(f"{row}: total reward above that of {first}, %", lead, ours, "more")


def default_checks(found: Measured, panel: Panel, column: str) -> list[Check]:
    """Compare utilization and delay of the heuristics with table 1: distances from the paper, and their order."""
    checks = []
    for number, (metric, most) in enumerate((("utilization", UTILIZATION), ("time_delay", DELAY))):
        means = {row: found.estimate(panel, column, row, metric).mean for row in PAPER_ROWS}
        paper = {row: TABLE_1[row][number] for row in PAPER_ROWS}
        for row, mean in means.items():
            off = mean / paper[row] - 1
            text = f"{metric} of {row}: {mean:,.1f}, the paper {paper[row]:,.1f}, {off:+.1%}, want {most:.0%}"
            checks.append(Check(text, abs(off) <= most))
        order = sorted(means, key=lambda row: -means[row])
        wanted = sorted(paper, key=lambda row: -paper[row])
        checks.append(Check(f"order of {metric}: {' > '.join(order)}, the paper {' > '.join(wanted)}", order == wanted))
    return checks


def online_checks(found: Measured, panel: Panel, column: str) -> list[Check]:
    """Tell whether OSDEC, or one of our variants, has the highest total reward of all that do not know the future.

    And how far above FIFO and Tetris it is, and in which order the paper's agents that learn are.
    """
    rewards = found.online(panel, column, "total_reward")
    checks = []
    for ours in (row for row in VARIANTS if row in rewards):
        checks.append(_highest(rewards, ours, column))
        for row, least in (("FIFO", LEAD), ("Tetris", 0.0)):
            lead = lead_percent(rewards[ours], rewards[row])
            wanted = f"at least {least} %" if least else "above 0"
            text = f"{column}: {ours} is {with_interval(lead, 2)} % above {row}, want all of the interval {wanted}"
            checks.append(Check(text, lead.low > 0 and lead.low >= least))
    for worse, better in ORDER:
        if worse in rewards and better in rewards:
            difference = paired_difference(rewards[better], rewards[worse])
            text = f"{column}: {better} less {worse} is {difference.mean:+,.1f} ± {difference.half_width:,.1f}"
            checks.append(Check(text, difference.low > 0))
    return checks


def _highest(rewards: Mapping[str, NDArray[np.float64]], ours: str, column: str) -> Check:
    mean = rewards[ours].mean()
    above = []
    for row in sorted(rewards, key=lambda row: -rewards[row].mean()):
        if rewards[row].mean() > mean:
            difference = paired_difference(rewards[row], rewards[ours])
            above.append(f"{row} by {difference.mean:,.1f} ± {difference.half_width:,.1f}")
    text = f"{column}: {ours} has the highest total reward of all online rows, {mean:,.1f}"
    return Check(f"{text}; above it: {', '.join(above) or 'none'}", not above)


def _rows_drawing(found: Measured, panel: Panel) -> Drawing:
    """Draw what total rewards are made of, the best agent above, the paper's figures beside ours."""
    metrics = {"total reward": "total_reward", "utilization": "utilization", "cost of delay": "time_delay"}
    estimates = {
        f"{label}, core-slots": {row: _cost(found.estimate(panel, COLUMN, row, metric), label) for row in panel.rows}
        for label, metric in metrics.items()
    }
    caption = (
        f"Total reward, and what it is made of besides violations, {COLUMN}, with 95 % intervals; hollow: the paper."
    )
    figure = draw_table(estimates, with_paper=not found.study.is_reduced)
    return Drawing("table1.png", caption, figure)


def _cost(estimate: Estimate, label: str) -> Estimate:
    return estimate._replace(mean=-estimate.mean) if label == "cost of delay" else estimate


def draw_table(estimates: Mapping[str, Mapping[str, Estimate]], *, with_paper: bool) -> Figure:
    """Draw total reward, utilization and cost of delay by label and agent, in the order of the first."""
    first, use, delay = estimates
    rows = sorted(estimates[first], key=lambda row: -estimates[first][row].mean)
    printed = {
        use: {row: TABLE_1[row][0] for row in rows if row in TABLE_1},
        delay: {row: -TABLE_1[row][1] for row in rows if row in TABLE_1},
        first: {row: TABLE_1[row][2] for row in rows if row in TABLE_1},
    }
    colors = {row: style.color for row, style in styles_of(rows).items()}
    return draw_rows(rows, estimates, printed if with_paper else {}, colors)


if __name__ == "__main__":
    sys.exit(run_as_program(Table1))
