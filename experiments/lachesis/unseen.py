"""Search over plans, and what imitates it, on workloads that nothing was tuned, trained or chosen on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.checks import one_of
from desim.exceptions import InvalidConfiguration
from desim.experiments.blocks import Block, Check, Checks, Drawing, Table, short, with_interval
from desim.experiments.drawing import draw_estimates, legend_below, new_figure
from desim.experiments.lachesis.agents import (
    DECIMA,
    IMITATING,
    LEARNED,
    LEARNED_IN_BATCHES,
    PAPER_ROWS,
    PASSES_MESSAGES,
    PLANNED_ROWS,
)
from desim.experiments.lachesis.elsewhere import (
    ALIBABA,
    ELIMINATION,
    FOURIER,
    QUERIES,
    RECORDED,
    TREES,
    GeneralSetting,
    perform_general,
)
from desim.experiments.lachesis.simulate import Choice
from desim.experiments.lachesis.study import MILLISECONDS, Measured, Study, data
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program
from desim.statistics import Estimate, mean_interval

TITLE = "Unseen workloads"
BATCH, STREAM = "all at once", "arriving"

WORKLOADS: dict[str, GeneralSetting] = {
    "TPC-H, CCR 1": GeneralSetting(QUERIES, num_executors=10, ccr=1.0),
    "TPC-H, CCR 3": GeneralSetting(QUERIES, num_executors=6, ccr=3.0),
    "workflows, CCR 0.5": GeneralSetting(RECORDED, num_executors=10, ccr=0.5),
    "workflows, CCR 2": GeneralSetting(RECORDED, num_executors=16, ccr=2.0),
    "Alibaba, CCR 1": GeneralSetting(ALIBABA, num_executors=10, ccr=1.0),
    "Alibaba, CCR 4": GeneralSetting(ALIBABA, num_executors=6, ccr=4.0),
    "elimination, CCR 2": GeneralSetting(ELIMINATION, num_executors=10, ccr=2.0),
    "Fourier, CCR 1": GeneralSetting(FOURIER, num_executors=16, ccr=1.0),
    "trees, CCR 2": GeneralSetting(TREES, num_executors=6, ccr=2.0),
}
"""Three of them can be made without data."""

RULES: dict[str, Choice] = (
    {row: PAPER_ROWS[row] for row in ("rank_up-DEFT", "HEFT", "TDCA")}
    | PLANNED_ROWS
    | {
        "rank_up-DEFT, planned, insertion": Choice("rank_up-insertion-deft", plan_ahead=True),
        "portfolio": Choice("portfolio", plan_ahead=True),
        "rank_up-DEFT, patient": Choice("rank_up-deft-patient"),
        "least work-DEFT, patient": Choice("least-work-deft-patient"),
        "SJF-DEFT, patient": Choice("sjf-deft-patient"),
    }
)
"""The best of them on each workload is what the others are compared with."""

OBJECTIVES = {"makespan": "makespan", "completion_time": "turnaround_time_mean"}
"""What a search is to keep small, and the metric of it."""
WORDS = {"makespan": "makespan", "completion_time": "mean completion time"}


MEANS = {"imitating search, mean of 5": [row for row in IMITATING if row != PASSES_MESSAGES]}
"""Networks of several trainings that are told of together, so that no lucky one is."""


class Question(NamedTuple):
    """A panel, and what is to be small in it.

    Attributes
    ----------
    panel : Panel
        Jobs that are all there at once, or that arrive.
    objective : {"makespan", "completion_time"}
        What is to be small.
    """

    panel: Panel
    objective: str

    @property
    def metric(self) -> str:
        """The metric of the objective."""
        return OBJECTIVES[self.objective]

    @property
    def title(self) -> str:
        """What tables are called."""
        return f"{self.panel.name}: {WORDS[self.objective]}"


@dataclass(frozen=True)
class Unseen(Study):
    """Agents beside the best rule of each workload, which is chosen on the very runs: that is in its favour.

    Attributes
    ----------
    data : Path or None
        Directory with ``tpch``, ``alibaba``, ``workflows`` and ``wfformat``; without, jobs are generated only.
    num_jobs, num_arriving : int
        Jobs that are all there at once, or that arrive one by one.
    load : float
        Of arriving jobs: the work that is submitted in a time, by what all executors can do in it.
    moves, moves_arriving : tuple of int
        Budgets of the search, in moves a plan: one plan if all jobs are there at once, otherwise one an arrival.
    workloads : tuple of str
        Which, of :data:`WORKLOADS`; those that lack their data are left out.
    """

    seeds: int = 5
    data: Path | None = None
    num_jobs: int = 20
    num_arriving: int = 24
    load: float = 0.8
    moves: tuple[int, ...] = (10, 100, 1_000, 10_000)
    moves_arriving: tuple[int, ...] = (10, 100, 1_000)
    workloads: tuple[str, ...] = tuple(WORKLOADS)

    def __post_init__(self) -> None:
        """Check that there are workloads, and data where they should be."""
        super().__post_init__()
        for name in self.workloads:
            one_of("workload", name, WORKLOADS)
        if self.data is not None and not self.data.is_dir():
            raise InvalidConfiguration(f"data is {str(self.data)!r}, want a directory")

    def panels(self) -> tuple[Panel, Panel]:
        """Return what is compared on jobs that are all there at once, and on those that arrive."""
        batch, stream = self._columns(self.num_jobs, 0.0), self._columns(self.num_arriving, self.load)
        return (
            Panel(BATCH, "workload", batch, RULES | networks(LEARNED_IN_BATCHES | IMITATING) | searches(self.moves)),
            Panel(STREAM, "workload", stream, RULES | networks(LEARNED | IMITATING) | searches(self.moves_arriving)),
        )

    def _columns(self, num_jobs: int, load: float) -> dict[str, GeneralSetting]:
        """Return the workloads that there are data for."""
        found = {}
        for name in self.workloads:
            setting = WORKLOADS[name]
            needs_data = setting.workload in (QUERIES, RECORDED, ALIBABA)
            if needs_data and self.data is None:
                continue
            place = str(self.data.resolve()) if needs_data and self.data is not None else ""
            kind, executors, ccr = setting.workload, setting.num_executors, setting.ccr
            found[name] = GeneralSetting(kind, num_jobs, executors, ccr, load, data=place)
        return found

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks and files."""
        panels = self.panels()
        found = self.measure(*panels, by=perform_general)
        yield from found.runs
        how = f"{len(self.seed_list)} samples of each workload, paired differences with 95 % intervals"
        yield from self.heading(TITLE, how)
        checks = []
        budgets = list(zip(panels, (self.moves, self.moves_arriving), strict=True))
        for (panel, moves), objective in product(budgets, OBJECTIVES):
            question, tried = Question(panel, objective), [searching(objective, budget) for budget in moves]
            groups = {row: [row] for row in (*networks(panel.rows), *tried)} | MEANS
            yield by_workload(found, question, groups)
            checks += [verdict(found, question, name, groups[name]) for name in (tried[-1], *MEANS)]
        for panel in panels:
            yield decision_times(found, panel)
        yield Checks(checks)
        yield from found.faults()
        yield data(found, TITLE)
        yield gains(found, budgets)


def searches(budgets: Sequence[int]) -> dict[str, Choice]:
    """Return the searches for each objective, with several budgets."""
    return {
        searching(objective, moves): Choice(f"search:dag:{objective}:{moves}")
        for objective in OBJECTIVES
        for moves in budgets
    }


def searching(objective: str, moves: int) -> str:
    """Return what a search is called in tables."""
    return f"search for {WORDS[objective]}, {moves:,} moves"


def networks(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some agents that are networks with features of transfers and finishes: Decima has none."""
    return {row: choice for row, choice in rows.items() if choice.policy.startswith("graph:") and row != DECIMA}


# -- what is compared ---------------------------------------------------------------------------------


def best_rule(found: Measured, question: Question, column: str) -> str:
    """Return the rule that is best on average on a workload."""
    return min(RULES, key=lambda row: found.estimate(question.panel, column, row, question.metric).mean)


def against_best(found: Measured, question: Question, column: str, rows: Sequence[str]) -> NDArray[np.float64]:
    """Return by how many per cent the mean of some agents is above the best rule of a workload, sample by sample."""
    panel, metric = question.panel, question.metric
    ours = np.mean([found.values(panel, column, row, metric) for row in rows], axis=0)
    above: NDArray[np.float64] = ours / found.values(panel, column, best_rule(found, question, column), metric) - 1.0
    return 100.0 * above


def over_all(found: Measured, question: Question, rows: Sequence[str]) -> Estimate:
    """Return the mean over the workloads, each of which counts as one number: the interval is over workloads."""
    return mean_interval(
        [float(against_best(found, question, column, rows).mean()) for column in question.panel.columns]
    )


def by_workload(found: Measured, question: Question, groups: Mapping[str, Sequence[str]]) -> Table:
    """Return how far agents, several where their mean is told, are from the best rule of each workload, in per cent."""
    table = []
    for column in question.panel.columns:
        rule = best_rule(found, question, column)
        told = with_interval(found.estimate(question.panel, column, rule, question.metric))
        leads = [mean_interval(against_best(found, question, column, rows)) for rows in groups.values()]
        table.append([column, rule, told, *(with_interval(lead, 2) for lead in leads)])
    table.append(["all", "", "", *(with_interval(over_all(found, question, rows), 2) for rows in groups.values())])
    heads = ["workload", "best rule", f"its {WORDS[question.objective]}, s", *(f"{name}, %" for name in groups)]
    return Table(f"{question.title} above that of the best rule", heads, table)


def verdict(found: Measured, question: Question, name: str, rows: Sequence[str]) -> Check:
    """Return on how many workloads agents are below the best rule by more than the interval, and on how many above."""
    leads = [mean_interval(against_best(found, question, column, rows)) for column in question.panel.columns]
    below, above = sum(lead.high < 0 for lead in leads), sum(lead.low > 0 for lead in leads)
    text = f"{question.title}: {name} is below the best rule beyond the interval on {below}, above it on {above}"
    return Check(f"{text} of {len(leads)} workloads", 3 * below >= 2 * len(leads) and not above)


def decision_times(found: Measured, panel: Panel) -> Table:
    """Return how long decisions take; the longest of a search is that in which it makes a plan."""
    cells = [
        [row, *(short(MILLISECONDS * seconds) for seconds in found.percentiles(panel, row, (0.5, 0.98, 1.0)))]
        for row in panel.rows
    ]
    return Table(f"{panel.name}: time of a decision, ms", ["", "50 %", "98 %", "the longest"], cells)


# -- the figure --------------------------------------------------------------------------------------


def gains(found: Measured, budgets: Sequence[tuple[Panel, Sequence[int]]]) -> Drawing:
    """Draw how far the search is from the best rule against its budget: a line a workload, and the mean of all."""
    figure, axes = new_figure(len(budgets), len(OBJECTIVES), width=4.6, height=3.2)
    handles: dict[str, Any] = {}
    for (panel, moves), row in zip(budgets, axes, strict=True):
        for objective, ax in zip(OBJECTIVES, row, strict=True):
            question = Question(panel, objective)
            names = [searching(objective, budget) for budget in moves]
            for number, column in enumerate(panel.columns):
                leads = [float(against_best(found, question, column, [name]).mean()) for name in names]
                (handles[column],) = ax.plot(moves, leads, color=f"C{number}", linewidth=1.0, marker=".", label=column)
            everywhere = [over_all(found, question, [name]) for name in names]
            draw_estimates(ax, np.array(moves, dtype=np.float64), everywhere, color="black", linewidth=2.2, capsize=3)
            ax.axhline(0.0, color="grey", linewidth=0.8)
            ax.set_xscale("log")
            ax.set_title(question.title, loc="left", fontsize=10)
            ax.set_xlabel("moves a plan")
            ax.set_ylabel("above the best rule, %")
    handles["mean of all, 95 %"] = axes[0][0].plot([], [], color="black", linewidth=2.2)[0]
    legend_below(figure, list(handles.values()), list(handles), 4)
    caption = "What the search is above the best rule of each workload, against the moves that it makes for a plan."
    return Drawing("unseen.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Unseen))
