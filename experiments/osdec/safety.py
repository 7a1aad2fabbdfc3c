"""What it costs to keep violations rare: agents behind shields of several levels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.cli.output import print_table
from desim.exceptions import InvalidConfiguration
from desim.experiments.checks import Check
from desim.experiments.compare import lead_percent, with_interval
from desim.experiments.options import run_as_program
from desim.experiments.osdec import learned_pictures
from desim.experiments.osdec.agents import MORE_ROWS, OSDEC, Trained, learned_rows
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.report import print_findings, write_study
from desim.experiments.osdec.shielding import BASES, longest_run, perform_shielded, row_of
from desim.experiments.osdec.simulating import Choice, Setting
from desim.experiments.osdec.study import Panel, Study, measured
from desim.experiments.results import print_heading

__all__ = ["AGENTS", "Safety", "bound_checks", "safety"]

CASES = {"default": "default", "fluctuating": "fluctuating", "volatile": "fluctuating"}
"""The workloads, and those for which their learned agents were trained."""

AGENTS = ("FIFO, passing over", "Tetris, passing over", OSDEC)
VOLATILE = "volatile"


@dataclass(frozen=True)
class Safety(Options):
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


def safety(options: Safety) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Safety
        Trajectories, directories, levels.

    Returns
    -------
    Study
        What was measured.
    """
    panels = [Panel(case, "workload", {case: Setting(case=case)}, _rows(options, case)) for case in CASES]
    by = {"by": perform_shielded, "learned_by": perform_shielded}
    study = measured("Safety", options, panels, reference=AGENTS[0], **by)
    number = len(options.seed_list)
    print_heading(
        study, f"{number} trajectories, means with 95 % intervals, {options.trainings} training(s) of {OSDEC}"
    )
    for panel in panels:
        _print(study, panel)
    checks = [] if options.is_reduced else [check for panel in panels for check in bound_checks(study, panel)]
    print_findings(study, checks)
    write_study(study, checks, {})
    learned_pictures.draw_safety(study, _agents(panels[0]), options.directory / "safety.png")
    return study


def _rows(options: Safety, case: str) -> dict[str, Choice | Trained]:
    trained = learned_rows(options, CASES[case]).get(OSDEC)
    plain: dict[str, Choice | Trained] = {row: MORE_ROWS[row] for row in AGENTS if row in MORE_ROWS}
    if trained is not None:
        plain[OSDEC] = Trained(trained.members[: options.trainings])
    rows = {}
    for agent, choice in plain.items():
        rows[agent] = _shielded(choice, BASES[0], None)
        for base, level in _shields(options):
            rows[row_of(agent, base, level)] = _shielded(choice, base, level)
    return rows


def _shields(options: Safety) -> Iterator[tuple[str, float]]:
    return ((base, level) for base in BASES for level in options.levels)


def _shielded(choice: Choice | Trained, base: str, level: float | None) -> Choice | Trained:
    if isinstance(choice, Trained):
        return choice.with_parameters(base=base, level=level)
    return Choice(choice.policy, (*choice.parameters, ("base", base), ("level", level)))


def _agents(panel: Panel) -> list[str]:
    return [agent for agent in AGENTS if agent in panel.rows]


def _print(study: Study, panel: Panel) -> None:
    case = panel.name
    table = []
    for agent in _agents(panel):
        for base, level in [("none", None), *_shields(study.options)]:
            row = row_of(agent, base, level)
            share, above, use, reward = (
                study.estimate(panel, case, row, metric)
                for metric in ("violation_slots", "violation", "utilization", "total_reward")
            )
            percent = share._replace(mean=100 * share.mean, half_width=100 * share.half_width)
            values = (study.values(panel, case, name, "utilization") for name in (row, agent))
            gained = (study.values(panel, case, name, "total_reward") for name in (row, agent))
            cells = [with_interval(percent), "–" if level is None else _words(share.high <= level, share.low > level)]
            cells += [with_interval(above), with_interval(use), "–", with_interval(reward), "–"]
            if level is not None:
                cells[4] = with_interval(lead_percent(*values), 2)
                cells[6] = with_interval(lead_percent(*gained), 2)
            table.append([agent, base, "–" if level is None else f"{100 * level:g}", *cells])
    heads = ["", "shield", "level, %", "slots violated, %", "at most\nthe level", "violation,\ncore-slots"]
    heads += ["utilization", "change, %", "total reward", "change, %"]
    steps = longest_run(study.options.fit(panel.columns[case]))
    title = f"{case}: jobs run for up to {steps} slots after that of their start"
    title += f"; if bounds fail as often as their level says, at most {steps} times that of the slots are violated"
    print_table(heads, table, words=(1, 4), title=title)


def _words(is_within: bool, is_above: bool) -> str:
    return "yes" if is_within else "no" if is_above else "open"


def bound_checks(study: Study, panel: Panel) -> list[Check]:
    """Tell for every agent and kind of shield whether no larger share of slots is violated than its level.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels, named like its column.

    Returns
    -------
    list of Check
        They hold if the whole interval is at most the level, for all levels; and on the volatile workload if agents
        without a shield violate slots beyond doubt.
    """
    case = panel.name
    checks = []
    for agent in _agents(panel):
        if case == VOLATILE:
            share = study.estimate(panel, case, agent, "violation_slots")
            text = f"{case}: {agent} without a shield violates {100 * share.mean:.2f} ± {100 * share.half_width:.2f} %"
            checks.append(Check(f"{text} of the slots", share.low > 0))
        for base in BASES:
            told, holds = [], True
            for level in study.options.levels:
                share = study.estimate(panel, case, row_of(agent, base, level), "violation_slots")
                told.append(f"{100 * share.mean:.2f} ± {100 * share.half_width:.2f} at {100 * level:g} %")
                holds &= share.high <= level
            text = f"{case}: {agent} behind a shield from {base} violates at most the level, in % of the slots"
            checks.append(Check(f"{text}: {', '.join(told)}", holds))
    return checks


if __name__ == "__main__":
    sys.exit(run_as_program(Safety, safety))
