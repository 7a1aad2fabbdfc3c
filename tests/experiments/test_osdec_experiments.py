"""Every experiment of OSDEC, in a size of seconds, the numbers that it reports, and the calibration of its workload."""

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
import torch

from desim import simulate
from desim.agents.deferrable import FIFO, LastValue, Tetris, forecast_errors
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig
from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.learned import plain
from desim.agents.learning.policy import to_tensors
from desim.exceptions import InvalidConfiguration
from desim.experiments.options import run_as_program
from desim.experiments.osdec import FAMILY
from desim.experiments.osdec.agents import (
    AGENTS,
    MORE_ROWS,
    OPTIMUM,
    OSDEC,
    PAPER_ROWS,
    PLANNING_ROWS,
    Trained,
    learned_rows,
    rows_of,
)
from desim.experiments.osdec.attending import KINDS, kinds_of, perform_attention, seen_by
from desim.experiments.osdec.attending import metric_of as attention_metric
from desim.experiments.osdec.attention import Attention, attention, shown_decision
from desim.experiments.osdec.checks import (
    bound_checks,
    case_checks,
    comparison_checks,
    default_checks,
    nearness_checks,
    online_checks,
)
from desim.experiments.osdec.figure4 import Figure4, by_workload, figure4
from desim.experiments.osdec.forecasting import MEASURES, MODULE, metric_of, note, perform_forecasts, sources_of
from desim.experiments.osdec.forecasts import Forecasts, forecast_checks, forecasts
from desim.experiments.osdec.learned import learned_agent, learned_policy, perform_learned
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.paper import CASES, TABLE_1, TABLE_4
from desim.experiments.osdec.report import print_deviations, print_metrics, shortfall
from desim.experiments.osdec.safety import Safety, safety
from desim.experiments.osdec.safety import bound_checks as level_checks
from desim.experiments.osdec.shielding import BASES, longest_run, perform_shielded, row_of, shield_for
from desim.experiments.osdec.simulating import METRICS, Choice, Setting, create, perform, scenario_of, settings_of
from desim.experiments.osdec.study import Panel, Study
from desim.experiments.osdec.table1 import Table1, table1
from desim.experiments.osdec.table2 import Table2, table2
from desim.experiments.osdec.table4 import COLUMNS, Table4, table4
from desim.problems.deferrable import DeferrableCluster
from desim.sweep import Run
from desim.workloads.deferrable import DEFAULT, generate

SMALL = Setting(num_slots=20, check=True)
SIZE: dict[str, Any] = {"quick": True, "jobs": 1}
EXPERIMENTS: dict[str, Callable[[Path, Path], Study]] = {
    "table1": lambda out, weights: table1(Table1(out=out, weights=weights, **SIZE)),
    "table2": lambda out, weights: table2(Table2(out=out, weights=weights, **SIZE)),
    "table4": lambda out, weights: table4(Table4(out=out, heuristics_only=True, **SIZE)),
    "safety": lambda out, weights: safety(Safety(out=out, weights=weights, levels=(0.1,), seeds=1, **SIZE)),
}
CHOICES = PAPER_ROWS | MORE_ROWS | PLANNING_ROWS | {OPTIMUM: Choice("optimum")}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of weights that know nothing, with the cards of short trainings."""
    directory = tmp_path_factory.mktemp("weights")
    kinds: dict[str, Any] = {
        "osdec": {},
        "ppo-att": {"auxiliary": "none"},
        "ppo": {"network": "mlp", "auxiliary": "none"},
    }
    names = ["default-osdec", "default-osdec-seed1", "default-ppo", "default-ppo-att", "fluctuating-osdec"]
    for number, name in enumerate([*names, "utilization-ppo", "default-unheard-of"]):
        config = ScoreConfig(width=4, **kinds.get(name.split("-", 1)[1].removesuffix("-seed1"), {}))
        policy = config.policy(np.random.default_rng(number))
        rewards = (100.0, 130.0 + number, 120.0)
        history = [
            {"steps": 500 * at, "seconds": 2.0 * at, "validation": {"total_reward": reward}}
            for at, reward in enumerate(rewards)
        ]
        card = {"agent": "score", "config": plain(config), "command": f"train {name}", "history": history}
        save_weights(directory / name, policy.state_dict(), card | {"training": {"warm_start": 7}})
    (directory / "default-reinforce.json").write_text(json.dumps({"agent": "another"}))
    return directory


# -- one run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOICES)
def test_no_agent_is_above_the_bound_and_all_records_are_valid(name: str) -> None:
    for setting in (SMALL, replace(SMALL, case="fluctuating"), replace(SMALL, real_time=True, delay_weight=0.0)):
        outcome = perform(Run(setting, CHOICES[name], 1))
        best = perform(Run(setting, CHOICES[OPTIMUM], 1))
        assert outcome["valid"] is True
        assert best["proved"]
        assert outcome["total_reward"] <= best["bound"] * (1 + 1e-9)
        parts = (outcome[part] for part in ("utilization", "time_delay", "violation_penalty"))
        assert outcome["total_reward"] == pytest.approx(sum(parts))


def test_a_run_measures_what_its_simulation_gives() -> None:
    scenario = generate(DEFAULT, seed=4)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
    result = simulate(cluster, FIFO("window", skip=False), seed=4)
    started = result.jobs.filter(result.jobs["starting_time"].is_not_null())
    outcome = perform(Run(Setting(), PAPER_ROWS["FIFO"], 4))
    assert outcome["utilization"] == started["revenue"].sum()
    assert outcome["time_delay"] == -2 * started["delay"].sum()
    assert outcome["violation_penalty"] == -10 * result.table("slots")["violation_cores"].sum()


def test_cases_differ_in_cores_or_durations_alone() -> None:
    base = scenario_of(Setting(num_slots=50), 3)
    for case in ("core-2", "duration-1"):
        other = scenario_of(Setting(case, num_slots=50), 3)
        assert [job[:4] for job in other.jobs] == [job[:4] for job in base.jobs]
        changed = [(a.duration != b.duration, a.cores != b.cores) for a, b in zip(base.jobs, other.jobs, strict=True)]
        lengths, sizes = np.any(changed, axis=0)
        assert (lengths, sizes) == ((False, True) if case == "core-2" else (True, False))


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(InvalidConfiguration, match="no policy 'lifo'; there are fifo"):
        create(Choice("lifo"), SMALL, lambda: pytest.fail("nobody asks for foresight"))
    with pytest.raises(InvalidConfiguration, match="no forecast 'weather'; there are last value, seasonal, oracle"):
        create(Choice("rolling-horizon", (("forecast", "weather"),)), SMALL, lambda: pytest.fail("nor here"))


# -- learned agents -----------------------------------------------------------------------------


def test_weights_are_found_by_workload_row_and_seed(weights: Path, tmp_path: Path) -> None:
    rows = learned_rows(Options(weights=weights), "default")
    assert list(rows) == ["PPO", "PPO+Att", OSDEC]
    names = [Path(name).name for name in dict(rows[OSDEC].parameters)["weights"]]
    assert names == ["default-osdec", "default-osdec-seed1"]
    attentive = learned_rows(Options(weights=weights), "default", lambda config: config["network"] == "attention")
    assert list(attentive) == ["PPO+Att", OSDEC]
    assert learned_rows(Options(weights=tmp_path), "default") == {}
    with pytest.raises(InvalidConfiguration, match="there is no directory"):
        learned_rows(Options(weights=tmp_path / "nowhere"), "default")


def learned(weights: Path, row: str = OSDEC, member: int = 0, workload: str = "default") -> Choice:
    return learned_rows(Options(weights=weights), workload)[row].members[member]


def test_a_learned_run_is_that_of_its_weights(weights: Path) -> None:
    for member, name in enumerate(("default-osdec", "default-osdec-seed1")):
        outcome = perform_learned(Run(SMALL, learned(weights, member=member), 3))
        metrics = simulate(scenario_of(SMALL, 3), ScoreAgent.load(weights / name), seed=3).metrics()
        assert outcome["utilization"] == metrics["revenue"]
        same = set(METRICS) - {"utilization", "capacity_share_cores"}
        assert {metric: outcome[metric] for metric in same} == {metric: metrics[metric] for metric in same}
        assert outcome["valid"] is True


def test_weights_that_have_changed_are_refused(weights: Path) -> None:
    name = dict(learned(weights).parameters)["weights"]
    with pytest.raises(InvalidConfiguration, match="have changed since the experiment began"):
        learned_agent(Choice("score", (("weights", name), ("sha256", "0" * 64))))


def test_rows_of_learned_agents_are_means_over_their_trainings(capsys: pytest.CaptureFixture[str]) -> None:
    both = Trained((Choice("score", (("weights", "a"),)), Choice("score", (("weights", "b"),))))
    panel = Panel("made up", "column", {"here": Setting()}, {"FIFO": Choice("fifo"), OSDEC: both})
    found = {"FIFO": (10.0, 30.0), OSDEC: (11.0, 31.0), f"{OSDEC}, training 2": (15.0, 37.0)}
    outcomes: Any = {
        ("made up", "here", row): tuple({"utilization": value, "valid": None} for value in values)
        for row, values in found.items()
    }
    study = Study("made up", Options(seeds=2), (panel,), "FIFO", outcomes)
    assert study.values(panel, "here", OSDEC, "utilization").tolist() == [13.0, 34.0]
    assert study.difference(panel, "here", OSDEC, "utilization").mean == 3.5
    assert study.training_means(panel, "here", OSDEC, "utilization").tolist() == [21.0, 26.0]
    assert study.deviation(panel, "here", OSDEC, "utilization") == pytest.approx(np.std([21.0, 26.0], ddof=1))
    assert np.isnan(study.deviation(panel, "here", "FIFO", "utilization"))
    print_deviations(study, [("utilization", panel, "here", "utilization")])
    printed = capsys.readouterr().out
    assert "3.536" in printed
    assert "FIFO" not in printed


def test_a_row_without_weights_for_a_workload_is_left_blank(capsys: pytest.CaptureFixture[str]) -> None:
    study, panel = made_up({"here": {"FIFO": (1.0,), "SJF": (2.0,)}}, ("utilization",))
    other = replace(panel, name="another", rows={"PPO+Att": Choice("score")})
    print_metrics(replace(study, panels=(panel, other)), panel, "here", ["utilization"], {}, title="")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PPO+Att")]
    assert line.split() == ["PPO+Att", "–", "–", "–"]


def test_what_is_noted_is_what_the_network_sees(weights: Path) -> None:
    setting = Setting(num_slots=40)
    noted = note(learned_agent(learned(weights)), setting, 2)
    last = noted.histories[:, -1].astype(np.float64)
    assert len(noted.truth) == 40
    np.testing.assert_array_equal(noted.truth[:, 0], generate(settings_of(setting), seed=2).capacity)
    for column, seen in ((0, last[:, 4]), (1, last[:, 7]), (3, last[:, 6])):
        np.testing.assert_allclose(noted.truth[:, column], 32 * seen, atol=1e-5)
    np.testing.assert_allclose(noted.truth[:, 2], last[:, 3], atol=1e-6)
    assert 0 < noted.has_jobs.sum() < 40


def test_errors_of_forecasts_are_those_of_slow_loops(weights: Path) -> None:
    setting, choice = Setting(num_slots=60), learned(weights)
    outcome = perform_forecasts(Run(setting, choice, 1))
    capacity = generate(settings_of(setting), seed=1).capacity
    expected = forecast_errors(LastValue(), capacity, 1, first_slot=24)
    names = [metric_of("capacity", "last value", measure) for measure in MEASURES]
    assert [outcome[name] for name in names] == pytest.approx([expected[0].item(), expected[1].item()])
    noted = note(learned_agent(choice), setting, 1)
    module: Any = learned_policy(choice).auxiliary
    errors: dict[str, list[float]] = {"module": [], "running": [], "last": []}
    for slot in range(24, 59):
        if noted.has_jobs[slot + 1]:
            past = [noted.truth[at, 1] for at in range(slot + 1) if noted.has_jobs[at]]
            with torch.no_grad():
                said = 32 * module.predictions(torch.from_numpy(noted.histories[slot : slot + 1]))[0, 1].item()
            for name, guess in (("module", said), ("running", np.mean(past)), ("last", past[-1])):
                errors[name].append(abs(float(guess) - noted.truth[slot + 1, 1]))
    for name, source in (("module", MODULE), ("running", "running mean"), ("last", "last value")):
        assert outcome[metric_of("mean_cores", source, MEASURES[0])] == pytest.approx(np.mean(errors[name]), rel=1e-4)


def test_attention_is_that_of_the_network_and_kinds_make_up_the_whole(weights: Path) -> None:
    choice, setting = learned(weights, "PPO+Att"), Setting(num_slots=60)
    decisions = seen_by(choice, setting, 0)
    for seen in decisions:
        np.testing.assert_allclose(seen.weights.sum(axis=2), 1.0, atol=1e-5)
        kinds = kinds_of(seen)
        by_size = sum(kinds[kind].astype(int) for kind in (KINDS[0], KINDS[1], KINDS[2], KINDS[3], KINDS[6]))
        assert np.all(by_size == 1)
        np.testing.assert_array_equal(kinds[KINDS[2]] | kinds[KINDS[3]], kinds[KINDS[4]] | kinds[KINDS[5]])
        for job in range(seen.num_current):
            larger = [1 + other for other in range(seen.num_current) if seen.cores[other] > seen.cores[job]]
            assert np.flatnonzero(kinds["larger jobs"][job]).tolist() == larger
    shown = shown_decision(decisions)
    assert shown is not None
    assert len(shown.cores) < 31
    with pytest.raises(InvalidConfiguration, match="default-ppo has no attention"):
        seen_by(learned(weights, "PPO"), setting, 0)


def test_a_network_that_looks_at_all_alike_has_attention_of_1(weights: Path, tmp_path: Path) -> None:
    policy: Any = ScoreConfig(width=4, auxiliary="none").policy(np.random.default_rng(0))
    with torch.no_grad():
        for layer in policy.layers:
            layer.self_attn.in_proj_weight[:8] = 0.0  # of queries and keys
    config = ScoreConfig(width=4, auxiliary="none")
    save_weights(tmp_path / "default-ppo-att", policy.state_dict(), {"agent": "score", "config": plain(config)})
    outcome = perform_attention(Run(Setting(num_slots=60), learned(tmp_path, "PPO+Att"), 0))
    found = [outcome[attention_metric(layer, kind)] for layer in (1, 2) for kind in KINDS]
    assert outcome["decisions"] > 5
    assert found == pytest.approx([1.0] * len(found))


def test_attention_of_an_observation_is_what_its_tokens_are_encoded_with(weights: Path) -> None:
    policy: Any = learned_policy(learned(weights, "PPO+Att"))
    encoder = ScoreConfig(width=4, auxiliary="none").encoder()
    rng = np.random.default_rng(1)
    arrays = {name: rng.random((2, *space.shape), np.float32) for name, space in encoder.observation_space.items()}
    arrays["current"][:, :, 0] = np.arange(32) < np.array([[5], [3]])
    arrays["future"][:, :, 0] = np.arange(arrays["future"].shape[1]) < np.array([[2], [4]])
    with torch.inference_mode():
        observations = to_tensors(arrays)
        first, _ = policy.attention(observations)
        tokens, absent, count = policy.tokens(observations)
        attended = policy.layers[0].self_attn
        value = tokens @ attended.in_proj_weight[8:].T + attended.in_proj_bias[8:]
        by_hand = attended.out_proj(first @ value)
        there = attended(tokens, tokens, tokens, key_padding_mask=absent, need_weights=False)[0]
    assert count == 5
    np.testing.assert_allclose(by_hand.numpy(), there.numpy(), atol=1e-5)
    assert float(first[1, :, 4:6].abs().max()) == 0.0  # the second has three jobs that may be started


def test_a_shield_of_no_level_changes_nothing_and_one_keeps_its_bounds(weights: Path) -> None:
    setting = Setting("volatile", num_slots=40, check=True)
    shield = {"base": "last value", "level": 0.05}
    for row, choice in {**MORE_ROWS, OSDEC: learned(weights)}.items():
        if row in ("FIFO, passing over", "Tetris, passing over", OSDEC):
            plain: Any = Trained((choice,))
            free = perform_shielded(Run(setting, plain.with_parameters(base="", level=None).members[0], 5))
            alone = perform_learned(Run(setting, choice, 5))
            assert {name: free[name] for name in METRICS} == {name: alone[name] for name in METRICS}
            kept = perform_shielded(Run(setting, plain.with_parameters(**shield).members[0], 5))
            assert kept["violation"] <= free["violation"]
            assert kept["utilization"] < free["utilization"]
    bounds = shield_for("volatile", 40, "last value", 0.05)
    direct = simulate(scenario_of(setting, 5), Tetris(forecast=bounds), seed=5).metrics()
    choice = Choice("tetris", tuple(shield.items()))
    assert perform_shielded(Run(setting, choice, 5))["utilization"] == direct["revenue"]
    with pytest.raises(InvalidConfiguration, match="no policy 'sjf' behind a shield"):
        perform_shielded(Run(setting, Choice("sjf", tuple(shield.items())), 5))
    with pytest.raises(InvalidConfiguration, match="no base 'weather'"):
        shield_for("volatile", 40, "weather", 0.05)
    assert [longest_run(Setting(case)) for case in ("default", "volatile", "duration-1")] == [4, 3, 11]


# -- the experiments ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=EXPERIMENTS)
def carried_out(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, weights: Path
) -> Iterator[Any]:
    out = tmp_path_factory.mktemp("results") / request.param
    yield request.param, out, EXPERIMENTS[request.param](out, weights)


def test_an_experiment_leaves_tables_and_a_figure(carried_out: Any) -> None:
    name, out, study = carried_out
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((out / "results.json").read_text())
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = sum(len(panel.columns) * len(panel.rows) for panel in study.panels) * len(METRICS)
    assert len(document["cells"]) == len(rows) == expected
    assert study.num_invalid == 0
    assert all(check["holds"] for check in document["checks"])
    for cell, row in zip(document["cells"], rows, strict=True):
        assert cell["mean"] == pytest.approx(np.mean(cell["by_trajectory"]), nan_ok=True)
        assert row["agent"] == cell["agent"]


def test_the_distance_from_the_optimum_is_paired(carried_out: Any) -> None:
    _, _, study = carried_out
    panel = study.panels[0]
    column = next(iter(panel.columns))
    found = shortfall(study, panel, column, "SJF")
    if OPTIMUM not in panel.rows:
        assert found is None
        return
    bounds = np.array([outcome["bound"] for outcome in study.outcomes[panel.name, column, OPTIMUM]])
    rewards = study.values(panel, column, "SJF", "total_reward")
    assert found is not None
    assert found.mean == pytest.approx(np.mean(100 * (1 - rewards / bounds)))


def test_every_agent_has_a_colour(weights: Path) -> None:
    rows = rows_of(Options(weights=weights), "default")
    assert list(rows)[3:6] == ["PPO", "PPO+Att", OSDEC]
    assert set(rows) == set(PAPER_ROWS) | set(MORE_ROWS) | set(PLANNING_ROWS) | {"PPO", "PPO+Att", OSDEC, OPTIMUM}
    assert set(rows) <= set(AGENTS)
    assert set(rows_of(Options(weights=weights, heuristics_only=True), "default")) == set(PAPER_ROWS) | set(MORE_ROWS)


def test_all_modules_can_be_run_as_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FAMILY.modules:
        module = import_module(f"desim.experiments.osdec.{name}")
        assert issubclass(getattr(module, name.capitalize()), module.Options)
    arguments = ["--quick", "--seeds", "1", "--jobs", "1", "--heuristics-only", "--out", str(tmp_path / "out")]
    assert run_as_program(Table2, table2, arguments) == 0
    printed = capsys.readouterr().out
    assert "gain of windows, %" in printed
    assert "[3,781]" in printed  # the paper's figure of an agent that is still to be trained
    assert "cannot be compared" in printed
    with pytest.raises(SystemExit, match="2"):
        run_as_program(Table2, table2, ["--seeds", "0"])
    with pytest.raises(SystemExit, match="2"):
        run_as_program(Table2, table2, ["--time-limit", "0"])


def test_learning_curves_are_those_of_the_cards(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = figure4(Figure4(out=tmp_path / "out", weights=weights, quick=True))
    assert [curve.name for curve in by_workload(study.curves)["default"][OSDEC]] == [
        "default-osdec",
        "default-osdec-seed1",
    ]
    assert by_workload(study.curves)["default"][OSDEC][1].values.tolist() == [100.0, 131.0, 120.0]
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "default-osdec-seed1  " in line]
    assert line.split()[-7:] == ["7", "1,000", "4", "100.0", "131.0", "500", "120.0"]
    assert "default-osdec-seed1: train default-osdec-seed1" in printed
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(study.curves) == 18
    assert (tmp_path / "out" / "figure4.png").read_bytes().startswith(b"\x89PNG")


def test_forecasts_and_attention_leave_tables_and_figures(weights: Path, tmp_path: Path) -> None:
    out = tmp_path / "forecasts"
    study = forecasts(Forecasts(out=out, weights=weights, **SIZE))
    cells = json.loads((out / "results.json").read_text())["cells"]
    assert [(panel.name, list(panel.rows)) for panel in study.panels] == [
        ("default", [OSDEC]),
        ("fluctuating", [OSDEC]),
    ]
    assert len(cells) == 2 * len(MEASURES) * sum(map(len, map(sources_of, ("capacity", "violation", "mean", "mean"))))
    assert {cell["num_trainings"] for cell in cells} == {1, 2}
    assert (out / "forecasts.png").read_bytes().startswith(b"\x89PNG")
    out = tmp_path / "attention"
    attention(Attention(out=out, weights=weights, **SIZE))
    cells = json.loads((out / "results.json").read_text())["cells"]
    assert len(cells) == 3 * 2 * len(KINDS)
    for name in ("default", "fluctuating"):
        assert (out / f"attention_{name}.png").read_bytes().startswith(b"\x89PNG")


def test_experiments_about_learned_agents_say_that_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    options: dict[str, Any] = {"weights": tmp_path / "empty", "out": tmp_path / "out", **SIZE}
    assert not figure4(Figure4(**options)).curves
    assert not forecasts(Forecasts(**options)).panels
    assert not attention(Attention(**options)).panels
    assert capsys.readouterr().out.count("There are no weights") == 3
    assert not (tmp_path / "out").exists()


# -- what was to be shown -----------------------------------------------------------------------


def made_up(columns: dict[str, dict[str, tuple[float, ...]]], metrics: tuple[str, ...]) -> tuple[Study, Panel]:
    """Return a study with given means of metrics, by column and row, alike in two trajectories but for a little."""
    rows = {row: Choice("fifo") for values in columns.values() for row in values}
    panel = Panel("made up", "column", {column: Setting() for column in columns}, rows)
    outcomes: Any = {
        ("made up", column, row): tuple(
            {"valid": None, "bound": 4_000.0, "proved": True, "total_reward": 3_500.0}
            | dict(zip(metrics, (value + noise for value in values), strict=True))
            for noise in (-0.01, 0.01)
        )
        for column, found in columns.items()
        for row, values in found.items()
    }
    return Study("made up", Options(seeds=2), (panel,), "FIFO", outcomes), panel


def test_the_paper_itself_passes_its_checks_and_a_distant_figure_fails() -> None:
    metrics = ("utilization", "time_delay")
    values = {row: TABLE_1[row][:2] for row in PAPER_ROWS}
    study, panel = made_up({"default": values}, metrics)
    assert all(check.holds for check in default_checks(study, panel, "default"))
    values["SJF"] = (3_386.66 * 1.06, -112.06 * 1.3)
    study, panel = made_up({"default": values}, metrics)
    failed = [check.text for check in default_checks(study, panel, "default") if not check.holds]
    assert len(failed) == 2
    assert all("of SJF" in text for text in failed)
    values["SJF"] = (3_620.0, -112.06)
    study, panel = made_up({"default": values}, metrics)
    assert not {check.text.split(":")[0]: check for check in default_checks(study, panel, "default")}[
        "order of utilization"
    ].holds


def test_ratios_between_cases_are_compared_within_their_group() -> None:
    cases = {case: {row: (TABLE_4[row][number],) for row in PAPER_ROWS} for number, case in enumerate(CASES)}
    study, panel = made_up(cases, ("utilization",))
    checks = case_checks(study, panel, "utilization")
    assert len(checks) == 18
    assert all(check.holds for check in checks)
    cases["core case 2"]["Tetris"] = (9_144.62 * 0.89,)
    study, panel = made_up(cases, ("utilization",))
    failed = [check.text for check in case_checks(study, panel, "utilization") if not check.holds]
    assert len(failed) == 2
    assert all("of Tetris, core case" in text for text in failed)


def test_windows_must_gain_beyond_doubt() -> None:
    columns = {
        "deferrable": {"FIFO": (3_611.0,), "SJF": (3_300.0,)},
        "real-time": {"FIFO": (3_449.0,), "SJF": (3_300.0,)},
    }
    study, panel = made_up(columns, ("utilization",))
    checks = comparison_checks(study, panel, "deferrable", "real-time", "utilization")
    assert [check.holds for check in checks] == [True, False]


def test_the_papers_own_order_is_what_is_wanted_of_osdec() -> None:
    totals = {row: (printed[2],) for row, printed in TABLE_1.items() if row != "PointerNet"}
    foresighted = {"rolling horizon, oracle": (3_600.0,), OPTIMUM: (3_700.0,)}
    study, panel = made_up({"default": totals | foresighted}, ("total_reward",))
    checks = online_checks(study, panel, "default")
    assert len(checks) == 9
    assert all(check.holds for check in checks)
    worse = {"least slack": (3_480.0,), "random order": (3_476.0,), "FIFO": (3_410.0,), "PPO+Att": (3_377.47,)}
    study, panel = made_up({"default": totals | worse}, ("total_reward",))
    failed = [check.text for check in online_checks(study, panel, "default") if not check.holds]
    assert len(failed) == 3
    assert failed[0].endswith("; above it: least slack by 4.6 ± 0.0, random order by 0.6 ± 0.0")
    assert "% above FIFO" in failed[1]
    assert failed[2].startswith("default: PPO+Att less PPO is -0.0")
    study, panel = made_up({"default": {"FIFO": (3_400.0,)}}, ("total_reward",))
    assert online_checks(study, panel, "default") == []


def test_osdec_may_be_one_percent_below_the_best() -> None:
    columns = {
        "a": {OSDEC: (99.1,), "FIFO": (100.0,), "SJF": (50.0,), OPTIMUM: (200.0,)},
        "b": {OSDEC: (98.9,), "FIFO": (90.0,), "SJF": (100.0,), OPTIMUM: (200.0,)},
        "c": {OSDEC: (120.0,), "FIFO": (100.0,), "SJF": (50.0,), OPTIMUM: (200.0,)},
    }
    study, panel = made_up(columns, ("total_reward",))
    checks = nearness_checks(study, panel, "total_reward")
    assert [check.holds for check in checks] == [True, False, True]
    assert "above SJF" in checks[1].text


def test_the_module_must_beat_every_forecast_of_the_capacity() -> None:
    metrics = tuple(metric_of("capacity", source, measure) for measure in MEASURES for source in sources_of("capacity"))
    others = len(sources_of("capacity")) - 1
    study, panel = made_up({"made up": {OSDEC: (0.5, *[1.0] * others) * 2}}, metrics)
    assert [check.holds for check in forecast_checks(study, panel)] == [True, True]
    study, panel = made_up({"made up": {OSDEC: (0.5, *[1.0] * others, 0.5, 0.4, *[1.0] * (others - 1))}}, metrics)
    assert [check.holds for check in forecast_checks(study, panel)] == [True, False]


def test_levels_must_be_kept_beyond_doubt_and_the_volatile_workload_be_volatile() -> None:
    agent, levels = "FIFO, passing over", (0.5, 0.25)
    shares = {agent: (0.6,)} | {row_of(agent, base, level): (level - 0.2,) for base in BASES for level in levels}

    def checked(found: dict[str, tuple[float, ...]]) -> list[bool]:
        study, panel = made_up({"volatile": found}, ("violation_slots",))
        panel = replace(panel, name="volatile")
        outcomes = {("volatile", *key[1:]): found for key, found in study.outcomes.items()}
        options = Safety(levels=levels)
        return [check.holds for check in level_checks(replace(study, options=options, outcomes=outcomes), panel)]

    assert checked(shares) == [True, True, True]
    assert checked(shares | {agent: (0.05,)}) == [False, True, True]
    assert checked(shares | {row_of(agent, "seasonal", 0.25): (0.2,)}) == [True, True, False]


def test_a_run_above_the_bound_is_noticed() -> None:
    columns = {"default": {"FIFO": (3_900.0,), OPTIMUM: (3_990.0,)}}
    study, _ = made_up(columns, ("total_reward",))
    assert all(check.holds for check in bound_checks(study))
    columns["default"]["FIFO"] = (4_001.0,)
    study, _ = made_up(columns, ("total_reward",))
    assert not bound_checks(study)[0].holds


def test_the_cases_are_those_of_the_workload() -> None:
    assert [setting.case for setting in COLUMNS.values()] == [
        "core-1",
        "core-2",
        "core-3",
        "duration-1",
        "duration-2",
        "duration-3",
    ]


@pytest.mark.slow
def test_the_calibration_holds_for_one_hundred_trajectories(tmp_path: Path) -> None:
    for experiment, kind in ((table1, Table1), (table4, Table4)):
        options: Any = kind(out=tmp_path / kind.__name__, heuristics_only=True)
        experiment(options)
        document = json.loads((options.directory / "results.json").read_text())
        assert [check["text"] for check in document["checks"] if not check["holds"]] == []
