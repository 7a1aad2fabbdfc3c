"""Every experiment of LACHESIS, in a size of seconds, and the numbers that it reports."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import InvalidConfiguration
from desim.experiments.lachesis import FAMILY, pictures
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
from desim.experiments.lachesis.figure6 import Figure6, figure6
from desim.experiments.lachesis.figure7 import Figure7, figure7
from desim.experiments.lachesis.figure8 import Figure8, figure8
from desim.experiments.lachesis.figure9 import Figure9, figure9
from desim.experiments.lachesis.gantts import Gantts, gantts
from desim.experiments.lachesis.general_settings import MEASURED, GeneralSetting, perform_general
from desim.experiments.lachesis.general_settings import jobs_of as general_jobs_of
from desim.experiments.lachesis.generalization import Generalization, generalization
from desim.experiments.lachesis.optimality import ROWS, Optimality, optimality
from desim.experiments.lachesis.room import Room, room
from desim.experiments.lachesis.simulating import METRICS, Choice, Setting, jobs_of, perform
from desim.experiments.lachesis.small_instances import OPTIMUM, SmallSetting, perform_small
from desim.experiments.lachesis.study import Panel, Study
from desim.experiments.options import run_as_program
from desim.problems.dag import DagCluster
from desim.sweep import Run
from desim.workloads import executors

SMALL = Setting(num_jobs=4, num_executors=6, check=True)
SIZE: dict[str, Any] = {"quick": True, "seeds": 2, "jobs": 1}
EXPERIMENTS: dict[str, Callable[[Path], Study]] = {
    "figure7": lambda out: figure7(Figure7(out=out, numbers=(1, 3), **SIZE)),
    "figure8": lambda out: figure8(Figure8(out=out, numbers=(2, 4), **SIZE)),
    "figure9": lambda out: figure9(Figure9(out=out, numbers=(2, 4), **SIZE)),
    "room": lambda out: room(Room(out=out, ratios=(5.0,), num_jobs=3, num_arriving=4, **SIZE)),
    "generalization": lambda out: generalization(
        Generalization(out=out, num_jobs=3, executors=(2,), ratios=(0.0,), **SIZE)
    ),
    "optimality": lambda out: optimality(Optimality(out=out, ratios=(1.0,), num_nodes=5, num_executors=2, **SIZE)),
}
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


# -- the experiments ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=EXPERIMENTS)
def carried_out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    out = tmp_path_factory.mktemp("results") / request.param
    yield request.param, out, EXPERIMENTS[request.param](out)


def test_an_experiment_leaves_tables_and_a_figure(carried_out: Any) -> None:
    name, out, study = carried_out
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((out / "results.json").read_text())
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = sum(len(panel.columns) * len(panel.rows) for panel in study.panels) * len(METRICS)
    assert len(document["cells"]) == len(rows) == expected
    assert study.num_invalid == 0
    for cell, row in zip(document["cells"], rows, strict=True):
        assert cell["mean"] == pytest.approx(np.mean(cell["by_workload"]), nan_ok=True)
        assert row["agent"] == cell["agent"]


def test_an_experiment_compares_workload_by_workload(carried_out: Any) -> None:
    _, _, study = carried_out
    for panel in study.panels:
        for column in panel.columns:
            ours = study.values(panel, column, study.reference, "makespan")
            for row in panel.rows:
                theirs = study.values(panel, column, row, "makespan")
                above = study.lead(panel, column, row, "makespan")
                assert above.mean == pytest.approx(np.mean(100 * (theirs / ours - 1)))
                assert study.difference(panel, column, row, "makespan").mean == pytest.approx(np.mean(theirs - ours))


def test_decision_times_are_a_distribution(carried_out: Any) -> None:
    _, _, study = carried_out
    for panel in study.panels:
        for row in panel.rows:
            seconds, shares = study.decision_seconds(panel, row)
            assert (np.diff(seconds) >= 0).all()
            assert (np.diff(shares) >= 0).all()
            assert shares[-1] == pytest.approx(1.0)


def test_the_gap_is_in_percent_of_the_lower_bound(carried_out: Any) -> None:
    _, _, study = carried_out
    panel = study.panels[0]
    column, row = next(iter(panel.columns)), next(iter(panel.rows))
    makespan, bound = (study.values(panel, column, row, name) for name in ("makespan", "lower_bound"))
    assert study.values(panel, column, row, "gap_to_lower_bound") == pytest.approx(100 * (makespan / bound - 1))


def test_every_agent_has_a_colour_and_the_reference_is_one_of_them() -> None:
    assert set(CHOICES) <= set(AGENTS)
    assert REFERENCE in CHOICES


def test_a_row_has_the_marker_of_the_legend_in_every_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [LACHESIS, *PAPER_ROWS][:4]
    outcome = dict.fromkeys(METRICS, 1.0) | {"decision_seconds": np.linspace(0.1, 0.2, 201), "num_decisions": 9}
    panels = tuple(
        Panel(name, "jobs", {"1": None, "2": None}, dict.fromkeys(shown))
        for name, shown in (("all", rows), ("some", rows[::3]))
    )
    outcomes = {(panel.name, column, row): (outcome,) * 2 for panel in panels for column in "12" for row in panel.rows}
    figures: list[Any] = []
    monkeypatch.setattr(pictures, "write_figure", lambda figure, path, caption: figures.append(figure) or path)
    pictures.draw(Study("Any", Room(out=tmp_path), panels, LACHESIS, outcomes), ("makespan",))
    legend = {line.get_color(): line.get_marker() for line in figures[0].legends[0].get_lines()}
    for ax, panel in zip(figures[0].axes[::2], panels, strict=True):
        drawn = {bar.lines[0].get_color(): bar.lines[0].get_marker() for bar in ax.containers}
        assert len(drawn) == len(panel.rows)
        assert drawn.items() <= legend.items()


def test_all_modules_can_be_run_as_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FAMILY.modules:
        module = import_module(f"desim.experiments.lachesis.{name}")
        assert issubclass(getattr(module, name.capitalize()), module.Options)
    arguments = ["--quick", "--seeds", "1", "--jobs", "1", "--numbers", "2", "--out", str(tmp_path / "out")]
    assert run_as_program(Figure7, figure7, arguments) == 0
    printed = capsys.readouterr().out
    assert "makespan above that of LACHESIS, %, paired" in printed
    assert "gap to the lower bound" in printed
    assert "cannot be compared" in printed
    with pytest.raises(SystemExit, match="2"):
        run_as_program(Figure7, figure7, ["--seeds", "0"])


def test_learning_curves_come_from_the_cards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = figure6(Figure6(out=tmp_path))
    assert {curve.name for curve in study.curves} >= {choice.policy.partition(":")[2] for choice in LEARNED.values()}
    for curve in study.curves:
        assert (np.diff(curve.decisions) > 0).all()
        assert len(curve.history) >= 8
        assert curve.command.startswith("desim train dag ")
    with (tmp_path / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == sum(len(curve.history) for curve in study.curves)
    assert (tmp_path / "figure6.png").read_bytes().startswith(b"\x89PNG")
    assert "desim train dag" in capsys.readouterr().out


def test_gantt_charts_are_of_the_best_heuristic(tmp_path: Path) -> None:
    study = gantts(Gantts(out=tmp_path, num_jobs=4, num_executors=3, quick=True))
    assert study.num_invalid == 0
    for chart in study.charts:
        heuristics = {row: value for row, value in chart.makespans.items() if row != LACHESIS}
        assert chart.makespans[chart.best] == min(heuristics.values())
        assert (tmp_path / f"gantts_{chart.name}.png").read_bytes().startswith(b"\x89PNG")


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
        generalization(Generalization(data=Path("nowhere")))


def test_a_finished_run_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Figure7(out=tmp_path, numbers=(2,), **SIZE)
    first = figure7(options)
    monkeypatch.setattr("desim.experiments.panels.perform_all", _refusing)
    again = figure7(options)
    assert again.outcomes == first.outcomes


def _refusing(by: Any, wanted: Any, store: Any, **options: Any) -> Any:
    from desim.sweep import settings_of

    found = {run: store.find(settings_of(by, run)) for run in wanted}
    assert None not in found.values()
    return found


def test_a_choice_says_whether_it_plans_ahead() -> None:
    assert not any(choice.plan_ahead for choice in IDLE_ROWS.values())
    assert all(choice.plan_ahead for choice in PLANNED_ROWS.values())
    assert PAPER_ROWS["HEFT"] == Choice("heft", plan_ahead=True)
