"""What it costs to keep violations rare: agents behind shields of several levels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.experiments.blocks import Block, Check, Checks, Drawing, Table, lead_percent, with_interval
from desim.experiments.drawing import MARKERS, legend_below, line_handles, new_figure
from desim.experiments.measured import Choice, Panel
from desim.experiments.osdec.agents import MORE_ROWS, OSDEC, Trained, learned_rows
from desim.experiments.osdec.learned import BASES, longest_run, perform_shielded
from desim.experiments.osdec.simulate import Setting
from desim.experiments.osdec.study import Measured, Study, data
from desim.experiments.study import run_as_program
from desim.plotting.colors import LineStyle, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Safety"
CASES = {"default": "default", "fluctuating": "fluctuating", "volatile": "fluctuating"}
"""The workloads, and those for which their learned agents were trained."""

AGENTS = ("FIFO, passing over", "Tetris, passing over", OSDEC)
VOLATILE = "volatile"


@dataclass(frozen=True)
class Safety(Study):
    """A bound on the share of slots in which jobs hold more than the capacity, and its price.

    Attributes
    ----------
    levels : tuple of float
        Shares of the forecasts in which the bounds of the shields may fail.
    trainings : int
        How many of OSDEC's trainings are measured, which take most of the time.
    """

    levels: tuple[float, ...] = (0.2, 0.1, 0.05, 0.02, 0.01)
    trainings: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        self.require_positive("trainings")
        if not all(0 < level < 1 for level in self.levels):
            raise InvalidConfiguration(f"levels are {self.levels!r}, want numbers above 0 and below 1")

    def shields(self) -> list[tuple[str, float]]:
        """Return what shields are calibrated from, and their levels."""
        return [(base, level) for base in BASES for level in self.levels]

    def measured(self) -> Measured:
        """Return what the runs bring."""
        panels = [Panel(case, "workload", {case: Setting(case=case)}, self._rows(case)) for case in CASES]
        return self.measure(*panels, reference=AGENTS[0], by=perform_shielded, learned_by=perform_shielded)

    def _rows(self, case: str) -> dict[str, Choice | Trained]:
        trained = learned_rows(self, CASES[case]).get(OSDEC)
        plain: dict[str, Choice | Trained] = {row: MORE_ROWS[row] for row in AGENTS if row in MORE_ROWS}
        if trained is not None:
            plain[OSDEC] = Trained(trained.members[: self.trainings])
        rows = {}
        for agent, choice in plain.items():
            rows[agent] = _shielded(choice, BASES[0], None)
            for base, level in self.shields():
                rows[row_of(agent, base, level)] = _shielded(choice, base, level)
        return rows

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        found = self.measured()
        yield from found.runs
        how = f"{len(self.seed_list)} trajectories, means with 95 % intervals, {self.trainings} training(s) of {OSDEC}"
        yield from self.heading(TITLE, how)
        yield from (self._table(found, panel) for panel in found.panels)
        checks = [] if self.is_reduced else [check for panel in found.panels for check in level_checks(found, panel)]
        yield Checks(checks)
        yield from found.faults()
        yield data(found, TITLE, checks)
        yield _drawing(found)

    def _table(self, found: Measured, panel: Panel) -> Table:
        case, lines = panel.name, []
        for agent in _agents(panel):
            for base, level in [("none", None), *self.shields()]:
                row = row_of(agent, base, level)
                share, above, use, reward = (
                    found.estimate(panel, case, row, metric)
                    for metric in ("violation_slots", "violation", "utilization", "total_reward")
                )
                percent = share._replace(mean=100 * share.mean, half_width=100 * share.half_width)
                within, changes = "–", ["–", "–"]
                if level is not None:
                    within = "yes" if share.high <= level else "no" if share.low > level else "open"
                    changes = [
                        with_interval(
                            lead_percent(*(found.values(panel, case, one, metric) for one in (row, agent))), 2
                        )
                        for metric in ("utilization", "total_reward")
                    ]
                cells = [with_interval(percent), within, with_interval(above)]
                cells += [with_interval(use), changes[0], with_interval(reward), changes[1]]
                lines.append([agent, base, "–" if level is None else f"{100 * level:g}", *cells])
        heads = ["", "shield", "level, %", "slots violated, %", "at most\nthe level", "violation,\ncore-slots"]
        heads += ["utilization", "change, %", "total reward", "change, %"]
        steps = longest_run(self.fit(panel.columns[case]))
        title = f"{case}: jobs run for up to {steps} slots after that of their start"
        title += f"; if bounds fail as often as their level says, at most {steps} times that of the slots are violated"
        return Table(title, heads, lines, (1, 4))


def row_of(agent: str, base: str = "", level: float | None = None) -> str:
    """Return the name of an agent behind a shield of a level, calibrated from a base; its own if it has none."""
    return agent if level is None else f"{agent}, {base}, {level}"


def _shielded(choice: Choice | Trained, base: str, level: float | None) -> Choice | Trained:
    if isinstance(choice, Trained):
        return choice.with_parameters(base=base, level=level)
    return Choice(choice.policy, (*choice.parameters, ("base", base), ("level", level)))


def _agents(panel: Panel) -> list[str]:
    return [agent for agent in AGENTS if agent in panel.rows]


def level_checks(found: Measured, panel: Panel) -> list[Check]:
    """Tell for every agent and kind of shield whether no larger share of slots is violated than its level.

    They hold if the whole interval is at most the level, for all levels; and on the volatile workload if agents without
    a shield violate slots beyond doubt.
    """
    case, study, checks = panel.name, found.study, []
    assert isinstance(study, Safety)
    for agent in _agents(panel):
        if case == VOLATILE:
            share = found.estimate(panel, case, agent, "violation_slots")
            text = f"{case}: {agent} without a shield violates {100 * share.mean:.2f} ± {100 * share.half_width:.2f} %"
            checks.append(Check(f"{text} of the slots", share.low > 0))
        for base in BASES:
            told, holds = [], True
            for level in study.levels:
                share = found.estimate(panel, case, row_of(agent, base, level), "violation_slots")
                told.append(f"{100 * share.mean:.2f} ± {100 * share.half_width:.2f} at {100 * level:g} %")
                holds &= share.high <= level
            text = f"{case}: {agent} behind a shield from {base} violates at most the level, in % of the slots"
            checks.append(Check(f"{text}: {', '.join(told)}", holds))
    return checks


def _drawing(found: Measured) -> Drawing:
    """Draw utilization against the share of slots violated, a line for each agent and kind of shield.

    A large marker is for no shield; behind it come the levels, which are written where they are far enough apart.
    """
    agents = _agents(found.panels[0])
    figure, grid = new_figure(1, len(found.panels), width=4.6, height=4.0)
    styles = line_styles(agents)
    for panel, ax in zip(found.panels, grid[0], strict=True):
        for agent, marker in zip(agents, MARKERS, strict=False):
            for base, dashes in zip(BASES, ("-", ":"), strict=True):
                if agent in panel.rows:
                    look = {"color": styles[agent].color, "linestyle": dashes, "marker": marker}
                    _draw_shields(ax, found, panel, (agent, base), look)
        right = max(ax.get_xlim()[1], 0.1)
        ax.set_xlim(-0.03 * right, right)
        ax.set_title(panel.name, loc="left", fontsize=9)
        ax.set_xlabel("slots violated, %", fontsize=8)
        ax.set_ylabel("utilization, core-slots", fontsize=8)
        ax.grid(color="lightgrey", linewidth=0.5)
    plain = {agent: LineStyle(styles[agent].color, "none") for agent in agents}
    handles = line_handles(agents, plain, MARKERS)
    kinds = [f"shield from {base}" for base in BASES]
    handles += line_handles(kinds, dict(zip(kinds, map(LineStyle, ("black",) * 2, ("-", ":")), strict=True)), ("", ""))
    legend_below(figure, handles, [*agents, *kinds], len(handles))
    caption = "Utilization against the share of slots violated, with shields of several levels."
    return Drawing("safety.png", caption, figure)


def _draw_shields(ax: Axes, found: Measured, panel: Panel, shielded: tuple[str, str], look: dict[str, Any]) -> None:
    """Draw an agent without a shield, large, and then behind one that is more and more careful."""
    study, (agent, base) = found.study, shielded
    assert isinstance(study, Safety)
    rows = [row_of(agent, base, level) for level in (None, *study.levels)]
    share, use = (
        np.array([found.estimate(panel, panel.name, row, metric).mean for row in rows])
        for metric in ("violation_slots", "utilization")
    )
    share *= 100
    ax.plot(share, use, markersize=3.5, linewidth=1.0, **look)
    ax.plot(share[0], use[0], marker=look["marker"], color=look["color"], markersize=8)
    if share[0] > 1 and agent == OSDEC and look["linestyle"] == "-":
        for x, y, level in zip(share[1:], use[1:], study.levels, strict=True):
            words = f"{100 * level:g} %"
            ax.annotate(words, (x, y), (-4, 4), textcoords="offset points", ha="right", fontsize=7, color=look["color"])


if __name__ == "__main__":
    sys.exit(run_as_program(Safety))
