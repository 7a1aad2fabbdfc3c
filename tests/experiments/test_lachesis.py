"""LACHESIS: what runs measure, small instances and other workloads, and the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import InvalidConfiguration
from desim.experiments.lachesis.agents import (
    AGENTS,
    IDLE_ROWS,
    LACHESIS,
    LEARNED,
    LEARNED_IN_BATCHES,
    OWN_ROWS,
    PAPER_ROWS,
    PLANNED_ROWS,
    REFERENCE,
)
from desim.experiments.lachesis.elsewhere import (
    GENERATED,
    MEASURED,
    OPTIMUM,
    RANDOM,
    GeneralSetting,
    SmallSetting,
    perform_general,
    perform_small,
)
from desim.experiments.lachesis.elsewhere import jobs_of as general_jobs_of
from desim.experiments.lachesis.figure6 import Figure6
from desim.experiments.lachesis.gantts import Gantts
from desim.experiments.lachesis.generalization import Generalization
from desim.experiments.lachesis.optimality import ROWS
from desim.experiments.lachesis.simulate import METRICS, Choice, Setting, jobs_of, perform
from desim.experiments.lachesis.study import Claims, Measured, Study, besides, drawings
from desim.experiments.lachesis.unseen import (
    RULES,
    WORKLOADS,
    Question,
    Unseen,
    against_best,
    best_rule,
    over_all,
    verdict,
)
from desim.experiments.measured import Panel
from desim.problems.dag import DagCluster
from desim.sweep import Run
from desim.workloads import executors

SMALL = Setting(num_jobs=4, num_executors=6, check=True)
PLANNING = {f"{LACHESIS}, planned": LEARNED_IN_BATCHES[LACHESIS]}
CHOICES = LEARNED | PAPER_ROWS | PLANNED_ROWS | IDLE_ROWS | OWN_ROWS
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


# -- one run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOICES | PLANNING)
def test_a_run_measures_what_its_simulation_gives(name: str) -> None:
    choice = (CHOICES | PLANNING)[name]
    outcome = perform(Run(SMALL, choice, 3))
    machines = executors.heterogeneous(6, seed=3)
    jobs = jobs_of(SMALL, 3)
    result = simulate(DagCluster(jobs, machines, plan_ahead=choice.plan_ahead), create(choice.policy), seed=3)
    finish = result.jobs["finish_time"].to_numpy()
    work = sum(job.work.sum() for job in jobs)
    assert outcome["valid"] is True
    assert outcome["makespan"] == finish.max()
    assert outcome["turnaround_time_mean"] == pytest.approx(finish.mean())
    assert outcome["speedup"] == pytest.approx(work / machines.speeds.max() / finish.max())
    assert outcome["lower_bound"] <= outcome["makespan"] * (1 + 1e-12)
    assert outcome["lower_bound"] >= work / machines.speeds.sum()
    assert outcome["num_decisions"] >= 1
    assert outcome["decision_seconds"] == sorted(outcome["decision_seconds"])


def test_all_agents_of_a_seed_face_the_same_jobs() -> None:
    bounds = {name: perform(Run(SMALL, choice, 1))["lower_bound"] for name, choice in CHOICES.items()}
    assert len(set(bounds.values())) == 1
    assert perform(Run(SMALL, CHOICES["HEFT"], 2))["lower_bound"] != bounds["HEFT"]


def test_a_larger_batch_contains_a_smaller_one() -> None:
    few, many = jobs_of(SMALL, 0), jobs_of(replace(SMALL, num_jobs=9), 0)
    assert [job.label for job in many[:4]] == [job.label for job in few]
    assert all((a.work == b.work).all() for a, b in zip(few, many, strict=False))


def test_continuous_jobs_arrive_at_the_mean_interval() -> None:
    jobs = jobs_of(replace(SMALL, num_jobs=400, mean_interval=45.0), 0)
    times = np.array([job.submission_time for job in jobs])
    assert times[0] == 0
    assert np.diff(times).mean() == pytest.approx(45.0, rel=0.15)
    assert np.diff(times).min() >= 0


def test_no_agent_beats_the_optimum() -> None:
    setting: Any = SmallSetting(num_nodes=6, num_executors=2, ccr=2.0, check=True)
    for seed in range(3):
        found = {
            name: perform_small(Run(setting, choice, seed)) for name, choice in (ROWS | CHOICES | PLANNING).items()
        }
        best = found[OPTIMUM]
        assert best["proved"]
        assert best["makespan"] <= best["bound"] * (1 + 1e-6)
        for name, outcome in found.items():
            assert outcome["valid"] is True, name
            assert outcome["makespan"] >= best["bound"] * (1 - 1e-9), name
        assert found["optimum without duplicates"]["makespan"] <= found["HEFT"]["makespan"] * (1 + 1e-6)


# -- what is told -------------------------------------------------------------------------------


def test_every_agent_has_a_colour_and_says_whether_it_plans_ahead() -> None:
    assert set(CHOICES) <= set(AGENTS)
    assert REFERENCE in CHOICES
    assert not any(choice.plan_ahead for choice in IDLE_ROWS.values())
    assert all(choice.plan_ahead for choice in PLANNED_ROWS.values())
    assert PAPER_ROWS["HEFT"] == Choice("heft", plan_ahead=True)


def made_up(rows: dict[str, float]) -> Measured:
    """Return a study of two panels, the second with some of the rows, in which an agent's makespan is given."""
    numbers = {"1": 1.0, "2": 2.0}
    names = list(rows)
    panels = tuple(
        Panel(name, "jobs", dict.fromkeys(numbers), dict.fromkeys(shown, Choice("x")))
        for name, shown in (("all", names), ("some", names[::3]))
    )
    seconds = np.linspace(0.1, 0.2, 201).tolist()
    outcomes: Any = {
        (panel.name, column, row): tuple(
            dict.fromkeys(METRICS, 1.0)
            | {"makespan": rows[row] * scale + seed, "gap_to_lower_bound": 0.25}
            | {"decision_seconds": seconds, "num_decisions": 9 * scale}
            for seed in (0, 1)
        )
        for panel in panels
        for column, scale in numbers.items()
        for row in panel.rows
    }
    return Measured(Study(seeds=2), panels, LACHESIS, outcomes)


def test_gaps_are_in_percent_and_decision_times_are_a_distribution() -> None:
    found = made_up({LACHESIS: 10.0, "HEFT": 20.0})
    panel = found.panels[0]
    assert found.values(panel, "1", "HEFT", "gap_to_lower_bound").tolist() == [25.0, 25.0]
    assert found.values(panel, "2", "HEFT", "makespan").tolist() == [40.0, 41.0]
    seconds, shares = found.decision_seconds(panel, "HEFT")
    assert (np.diff(seconds) >= 0).all() and (np.diff(shares) >= 0).all()
    assert shares[-1] == pytest.approx(1.0)
    assert found.percentiles(panel, "HEFT", [0.5, 1.0]) == pytest.approx([0.15, 0.2])


def test_the_papers_claims_stand_beside_the_largest_leads() -> None:
    both = made_up({LACHESIS: 10.0, "HEFT": 20.0, "TDCA": 16.0})
    found = Measured(both.study, both.panels[:1], LACHESIS, both.outcomes)
    shorter, speedup, times = besides(found, Claims("", shorter=15.3, speedup=6.8, decision_time=14.0)).rows
    leads = [100 * (1 - ours / theirs) for ours, theirs in ((10.0, 16.0), (11.0, 17.0))]
    wider = [100 * (1 - ours / theirs) for ours, theirs in ((20.0, 32.0), (21.0, 33.0))]
    assert shorter.ours.mean == pytest.approx(max(np.mean(leads), np.mean(wider)))
    assert speedup.ours.mean == 1.0
    assert times.ours.mean == pytest.approx(198.0, abs=0.6)
    assert [row.better for row in (shorter, speedup, times)] == ["more", "more", "less"]


def test_a_figure_has_at_most_eight_lines_an_axes_and_names_them_beside_their_times() -> None:
    found = made_up({row: 10.0 + place for place, row in enumerate([LACHESIS, *PAPER_ROWS, *OWN_ROWS, *IDLE_ROWS])})
    drawn = list(drawings(found, "Any", ("makespan", "turnaround_time_mean")))
    assert len({drawing.file for drawing in drawn}) == len(found.panels)
    for drawing, panel in zip(drawn, found.panels, strict=True):
        assert drawing.figure is not None
        named: list[str] = []
        for first, second, times in zip(*[iter(drawing.figure.axes)] * 3, strict=True):
            names = [label.get_text() for label in times.get_yticklabels()]
            assert names[0] == LACHESIS and len(names) <= 8
            for ax in (first, second):
                bars: Any = ax.containers
                assert len(bars) == len(names)
                markers = [line.get_marker() for line in times.get_lines() if line.get_marker() != "None"]
                assert [bar.lines[0].get_marker() for bar in bars] == markers
            named += names[1:]
        assert sorted([LACHESIS, *named]) == sorted(panel.rows)


def test_learning_curves_come_from_the_cards() -> None:
    curves = Figure6().curves()
    assert {curve.name for curve in curves} >= {choice.policy.partition(":")[2] for choice in LEARNED.values()}
    for curve in curves:
        assert (np.diff(curve.decisions) > 0).all()
        assert len(curve.history) >= 8
        assert curve.command.startswith("desim train dag ")
        assert len(list(curve.rows())) == len(curve.history)


def test_gantt_charts_are_of_the_best_heuristic() -> None:
    for chart in Gantts(num_jobs=4, num_executors=3, quick=True).charts():
        assert list(chart.faults()) == []
        heuristics = {row: value for row, value in chart.makespans.items() if row != LACHESIS}
        assert chart.makespans[chart.best] == min(heuristics.values())
        assert chart.best in chart.drawing().caption


@pytest.mark.skipif(not DATA.is_dir(), reason="the measured workloads do not come with the project")
@pytest.mark.parametrize("workload", MEASURED)
def test_learned_agents_do_well_on_measured_workloads(workload: str) -> None:
    setting = GeneralSetting(workload, 8, 4, data=str(DATA), check=True)
    ours, theirs = [], []
    for seed in range(3):
        outcome, rival = (perform_general(Run(setting, CHOICES[name], seed)) for name in (LACHESIS, "rank_up-DEFT"))
        assert outcome["valid"]
        ours.append(outcome["makespan"])
        theirs.append(rival["makespan"])
    assert sum(ours) <= 1.02 * sum(theirs)


def test_other_workloads_have_the_load_that_is_asked_for() -> None:
    for workload in (GeneralSetting().workload, "random layered DAGs"):
        setting = GeneralSetting(workload, 200, 5, load=2.0)
        jobs = general_jobs_of(setting, 0)
        span = jobs[-1].submission_time
        assert sum(job.work.sum() for job in jobs) / (5 * 2.85) / span == pytest.approx(2.0, rel=0.2)
        shares = [job.parent_size.mean() / (job.work.mean() / 2.85) for job in jobs if job.num_edges]
        assert np.mean(shares) == pytest.approx(1.0)
    with pytest.raises(InvalidConfiguration, match="data is 'nowhere', want a directory"):
        Generalization(data=Path("nowhere"))


# -- unseen workloads ---------------------------------------------------------------------------


def test_what_is_unseen_is_neither_random_graphs_nor_generated_queries() -> None:
    kinds = {setting.workload for setting in WORKLOADS.values()}
    assert len(kinds) >= 6
    assert not kinds & {GENERATED, RANDOM}
    assert len(set(WORKLOADS.values())) == len(WORKLOADS)
    assert set(Unseen().panels()[0].columns) < set(WORKLOADS)  # those that need no data
    for setting in Unseen().panels()[1].columns.values():
        jobs = general_jobs_of(setting, 1)
        assert len(jobs) == 24 and len({job.num_nodes for job in jobs}) > 1
        shares = [job.parent_size.mean() / (job.work.mean() / 2.85) for job in jobs]
        assert shares == pytest.approx([setting.ccr] * len(jobs))
    with pytest.raises(InvalidConfiguration, match="workload"):
        Unseen(workloads=("Montage",))


@pytest.mark.skipif(not DATA.is_dir(), reason="the recorded workloads do not come with the project")
def test_recorded_workflows_are_of_several_origins() -> None:
    panel = Unseen(data=DATA, num_jobs=12).panels()[0]
    assert list(panel.columns) == list(WORKLOADS)
    for setting in panel.columns.values():
        assert (
            len(
                {job.label for job in general_jobs_of(setting, 0)}
                | {job.num_nodes for job in general_jobs_of(setting, 0)}
            )
            > 2
        )


def test_agents_are_compared_with_the_best_rule_of_each_workload() -> None:
    columns: Any = dict.fromkeys(("a", "b"))
    rules = dict.fromkeys(RULES, 40.0)
    makespans = {
        "a": rules | {"HEFT": 10.0, "one": 9.0, "two": 7.0},
        "b": rules | {"TDCA": 20.0, "one": 22.0, "two": 14.0},
    }
    panel = Panel("all", "workload", columns, dict.fromkeys([*RULES, "one", "two"], Choice("x")))
    outcomes: Any = {
        (panel.name, column, row): tuple({"makespan": value * scale} for scale in (1.0, 2.0))
        for column, values in makespans.items()
        for row, value in values.items()
    }
    found = Measured(Study(seeds=2), (panel,), LACHESIS, outcomes)
    question = Question(panel, "makespan")
    assert [best_rule(found, question, column) for column in columns] == ["HEFT", "TDCA"]
    assert against_best(found, question, "a", ["one"]) == pytest.approx([-10.0, -10.0])
    assert against_best(found, question, "b", ["one"]) == pytest.approx([10.0, 10.0])
    assert over_all(found, question, ["one"]).mean == pytest.approx(0.0)
    assert not verdict(found, question, "it", ["one"]).holds
    assert (
        "it is below the best rule beyond the interval on 1, above it on 1"
        in verdict(found, question, "it", ["one"]).text
    )
    assert against_best(found, question, "b", ["one", "two"]) == pytest.approx([-10.0, -10.0])
    assert verdict(found, question, "both", ["one", "two"]).holds
