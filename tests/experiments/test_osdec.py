"""OSDEC: the workloads that its rules were fitted on, what runs measure, and what the report opens with."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from desim import simulate
from desim.agents.deferrable import FIFO, Oracle
from desim.agents.learning.pretrained import PRETRAINED
from desim.experiments.claims import claims_table, fixed_rules_table, read_register
from desim.experiments.frame import FRAME_FILE, Choice, Frame
from desim.experiments.learning_curves import COLUMN
from desim.experiments.osdec import FAMILY, figure4, table1
from desim.experiments.osdec.claims import claims, fixed_rules
from desim.experiments.osdec.simulate import METRICS, RULES, Setting, learned_rows, perform, scenario_of
from desim.experiments.osdec.study import CASES, QUICK_SLOTS, TABLE_1
from desim.experiments.osdec.workloads import TRACED, is_present, traced
from desim.experiments.paper import Family
from desim.experiments.report_blocks import Drawing, Table
from desim.experiments.study import Account, carry_out
from desim.problems.deferrable import DeferrableCluster
from desim.sweep import Run, Workers
from desim.workloads.deferrable import CORE_CASES, DURATION_CASES, generate, named

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reports" / "osdec.rst"
SMALL = Setting(num_slots=30, check=True)


# -- workloads --------------------------------------------------------------------------------------


def test_rules_meet_table_1_and_violate_nothing() -> None:
    outcomes = {rule: [perform(Run(Setting(), choice, seed)) for seed in range(40)] for rule, choice in RULES.items()}
    for rule, printed in list(TABLE_1.items())[:3]:
        found = {name: np.array([one[name] for one in outcomes[rule]]) for name in METRICS}
        assert not found["violation_penalty"].any()
        for name, paper in printed.items():
            error = found[name].std(ddof=1) / np.sqrt(len(found[name]))
            assert abs(found[name].mean() - paper) < 0.02 * abs(paper) + 3 * error, (rule, name)


@pytest.mark.parametrize("column", CASES)
def test_cases_have_the_probabilities_of_the_paper(column: str) -> None:
    settings = named(CASES[column])
    kind, _, number = column.partition(" case ")
    if kind == "core":
        assert settings.core_probabilities == CORE_CASES[f"core-{number}"]
    else:
        assert settings.duration_probabilities == DURATION_CASES[f"duration-{number}"]
    assert len(generate(settings, seed=1).jobs) > 100


@pytest.mark.parametrize("case", TRACED)
def test_pieces_of_traces_repeat_and_have_jobs_in_their_windows(case: str) -> None:
    if not is_present(case):
        pytest.skip("the trace is not part of the package")
    first, again, other = (traced(case, seed, 40) for seed in (1, 1, 2))
    assert first.jobs == again.jobs
    assert np.array_equal(first.capacity, again.capacity)
    assert not np.array_equal(first.capacity, other.capacity)
    assert len(first.capacity) == first.num_slots == 40
    assert perform(Run(Setting(case, num_slots=40, check=True), Choice("fifo"), 1))["valid"] is True


# -- runs -------------------------------------------------------------------------------------------


def test_a_run_measures_what_its_simulation_gives() -> None:
    scenario = scenario_of(SMALL, 4)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
    agent = FIFO(forecast=Oracle(np.asarray(scenario.capacity)[:, None]))
    result = simulate(cluster, agent, seed=4)
    started = result.jobs.filter(result.jobs["starting_time"].is_not_null())
    outcome = perform(Run(SMALL, RULES["FIFO"], 4))
    assert outcome["utilization"] == started["revenue"].sum()
    assert outcome["time_delay"] == -2 * started["delay"].sum()
    assert outcome["violation_penalty"] == 0
    assert outcome["total_reward"] == outcome["utilization"] + outcome["time_delay"]
    assert outcome["valid"] is True
    assert outcome["decision_ms"] > 0


def test_rules_that_see_the_present_alone_violate() -> None:
    outcomes = [perform(Run(Setting(), Choice("fifo"), seed)) for seed in range(5)]
    assert np.mean([one["violation_penalty"] for one in outcomes]) < -20


def test_in_real_time_nothing_is_deferred_and_less_is_used() -> None:
    used = {}
    for real_time in (True, False):
        setting = Setting("osdec-table-2", real_time=real_time, delay_weight=0.0)
        outcomes = [perform(Run(setting, RULES["Tetris"], seed)) for seed in range(10)]
        assert all((one["time_delay"] == 0) for one in outcomes)  # which costs nothing, windows or not
        used[real_time] = np.mean([one["utilization"] for one in outcomes])
    assert 0 < used[True] < used[False]


def test_learned_agents_are_those_of_the_weights_that_come_with_desim() -> None:
    rows = learned_rows()
    assert "OSDEC" in rows
    outcome = perform(Run(SMALL, rows["OSDEC"], 1))
    assert outcome["valid"] is True
    assert outcome["utilization"] > 0


# -- studies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILY.modules)
def test_a_trial_shows_everything_and_gives_no_verdicts(name: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"quick": True, "seeds": 1, "workers": Workers(1), "out": tmp_path / name}
    if name == "held_out":
        settings |= {"moves": (10,), "workloads": ("fluctuating",)}
    study = FAMILY.study(name)(**settings)
    assert carry_out(study) == 0
    account, frame = Account.read(study.directory), Frame.read(study.directory / FRAME_FILE)
    drawings = [block.file for block in account.blocks if isinstance(block, Drawing)]
    assert drawings == [f"{name}.png"]
    assert (study.directory / drawings[0]).read_bytes()[:4] == b"\x89PNG"
    for table in (block for block in account.blocks if isinstance(block, Table)):
        assert {len(row) for row in table.rows} == {len(table.heads)}
    assert account.is_reduced
    assert frame.num_invalid == 0
    chapters = FAMILY.chapters([account], {name: frame})
    assert not any("reproduced" in str(block) for block in chapters[0].blocks)
    if name in ("table1", "table2", "table4"):
        assert study.fit(Setting()).num_slots == QUICK_SLOTS


# -- what the report opens with -----------------------------------------------------------------------


def made(total: float, change: float) -> dict[str, Frame]:
    """Return frames in which the rules are as in the paper, and OSDEC earns so much."""
    rows = {rule: dict(TABLE_1[rule]) for rule in RULES}
    rows["OSDEC"] = {"utilization": total + 280.0, "time_delay": -250.0, "total_reward": total}
    outcomes = {
        (panel, table1.COLUMN, row, seed): {"violation_penalty": -30.0, **values}
        for panel in (table1.RULES_PANEL, table1.AGENTS_PANEL)
        for row, values in rows.items()
        for seed in range(5)
    }
    length = {"episodes": 1e3, "decisions": 2e5, "change": change, "evaluations": 30.0}
    curves = {(figure4.PANEL, COLUMN, "OSDEC", 0): length}
    return {"table1": Frame.of(outcomes), "figure4": Frame.of(curves)}


def test_verdicts_cut_both_ways() -> None:
    what = "total reward of OSDEC above that of FIFO, %"
    fifo = TABLE_1["FIFO"]["total_reward"]
    for factor, change, verdict in (
        (1.0195, 0.0, "reproduced"),
        (1.05, 0.0, "reproduced in order only"),
        (1.0, 0.0, "not reproduced"),
        (1.0195, 2.0, "cannot be judged here"),
    ):
        frames = made(fifo * factor, change)
        (claim,) = (one for one in claims(frames) if one.what == what)
        assert claim.verdict == verdict, factor
    rules = fixed_rules(made(fifo, 0.0))
    assert len(rules) == 9
    assert all(rule.is_calibrated and abs(rule.distance) < 0.1 for rule in rules)
    assert not claims({})
    assert not fixed_rules({})


def test_the_opening_of_the_report_follows_from_its_frames() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\u00a0", " ").replace("\\ ", "")
    frames = {
        name: Frame.read(path) for name in FAMILY.modules if (path := PAGE.with_suffix("") / f"{name}.csv").exists()
    }
    assert {"table1", "table2", "table4", "figure4"} <= set(frames)
    opening = FAMILY.opening(frames)
    assert len(opening.claims) > 20
    assert len(opening.rules) == 9 + 6 + 18
    for table in (claims_table(opening.claims), fixed_rules_table(opening.rules)):
        for row in table.cells:
            line = io.StringIO()
            csv.writer(line).writerow([cell.text for cell in row[:-1]])
            assert line.getvalue().strip() in text


def test_the_register_tells_what_is_open() -> None:
    items = read_register("desim.experiments.osdec")
    assert len({one.item for one in items}) == len(items) > 20
    assert {one.kind for one in items} == {"not stated", "departure"}
    assert isinstance(FAMILY, Family)
    assert PRETRAINED.is_dir()
