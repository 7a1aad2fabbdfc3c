"""OSDEC: what runs measure, learned agents, what they predict and look at, shields, and what was to be shown."""

from __future__ import annotations

from dataclasses import replace
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
from desim.experiments.blocks import Checks, Paragraph
from desim.experiments.measured import Choice, Panel
from desim.experiments.osdec.agents import (
    AGENTS,
    CASES,
    MORE_ROWS,
    OPTIMUM,
    OSDEC,
    PAPER_ROWS,
    PLANNING_ROWS,
    TABLE_1,
    TABLE_4,
    Trained,
    learned_rows,
    rows_of,
)
from desim.experiments.osdec.attention import Attention, shown_decision
from desim.experiments.osdec.figure4 import Figure4
from desim.experiments.osdec.forecasts import Forecasts, forecast_checks
from desim.experiments.osdec.learned import (
    BASES,
    KINDS,
    MEASURES,
    MODULE,
    attention_metric,
    forecast_metric,
    kinds_of,
    learned_agent,
    learned_policy,
    longest_run,
    note,
    perform_attention,
    perform_forecasts,
    perform_learned,
    perform_shielded,
    seen_by,
    shield_for,
    sources_of,
)
from desim.experiments.osdec.safety import Safety, level_checks, row_of
from desim.experiments.osdec.simulate import METRICS, Setting, create, perform, scenario_of, settings_of
from desim.experiments.osdec.study import Measured, Study, bound_checks, by_metric, deviations
from desim.experiments.osdec.table1 import Table1, default_checks, online_checks
from desim.experiments.osdec.table2 import comparison_checks
from desim.experiments.osdec.table4 import COLUMNS, Table4, case_checks, nearness_checks
from desim.experiments.osdec.workloads import TRACED, is_present, traced
from desim.problems.deferrable import DeferrableCluster
from desim.sweep import Run
from desim.workloads.deferrable import DEFAULT, generate

SMALL = Setting(num_slots=20, check=True)
CHOICES = PAPER_ROWS | MORE_ROWS | PLANNING_ROWS | {OPTIMUM: Choice("optimum")}


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
    with pytest.raises(InvalidConfiguration, match="no forecast 'weather'; there are last value, seasonal, learned"):
        create(Choice("rolling-horizon", (("forecast", "weather"),)), SMALL, lambda: pytest.fail("nor here"))


@pytest.mark.parametrize("case", TRACED)
def test_pieces_of_traces_repeat_and_have_jobs_in_their_windows(case: str) -> None:
    if not is_present(case):
        pytest.skip("the trace is not part of the package")
    (first, day), (again, _), (other, _) = (traced(case, seed, 40) for seed in (1, 1, 2))
    assert first.jobs == again.jobs
    assert np.array_equal(first.capacity, again.capacity)
    assert not np.array_equal(first.capacity, other.capacity)
    assert len(first.capacity) == first.num_slots == 40
    assert all(job.submission_time <= job.earliest_start <= job.latest_start for job in first.jobs)
    assert day in (24, 96, 288)
    outcome = perform(Run(Setting(case, num_slots=40, check=True), MORE_ROWS["FIFO, passing over"], 1))
    assert outcome["valid"] is True


def test_an_unknown_trace_is_named() -> None:
    with pytest.raises(InvalidConfiguration, match="no files of the workload 'tides'"):
        traced("tides", 0)


# -- learned agents -----------------------------------------------------------------------------


def test_weights_are_found_by_workload_row_and_seed(score_weights: Path, tmp_path: Path) -> None:
    rows = learned_rows(Study(weights=score_weights), "default")
    assert list(rows) == ["PPO", "PPO+Att", OSDEC]
    names = [Path(name).name for name in dict(rows[OSDEC].parameters)["weights"]]
    assert names == ["default-osdec", "default-osdec-seed1"]
    attentive = learned_rows(Study(weights=score_weights), "default", lambda config: config["network"] == "attention")
    assert list(attentive) == ["PPO+Att", OSDEC]
    assert learned_rows(Study(weights=tmp_path), "default") == {}
    with pytest.raises(InvalidConfiguration, match="there is no directory"):
        learned_rows(Study(weights=tmp_path / "nowhere"), "default")


def learned(weights: Path, row: str = OSDEC, member: int = 0, workload: str = "default") -> Choice:
    return learned_rows(Study(weights=weights), workload)[row].members[member]


def test_a_learned_run_is_that_of_its_weights(score_weights: Path) -> None:
    for member, name in enumerate(("default-osdec", "default-osdec-seed1")):
        outcome = perform_learned(Run(SMALL, learned(score_weights, member=member), 3))
        metrics = simulate(scenario_of(SMALL, 3), ScoreAgent.load(score_weights / name), seed=3).metrics()
        assert outcome["utilization"] == metrics["revenue"]
        same = set(METRICS) - {"utilization", "capacity_share_cores"}
        assert {metric: outcome[metric] for metric in same} == {metric: metrics[metric] for metric in same}
        assert outcome["valid"] is True


def test_weights_that_have_changed_are_refused(score_weights: Path) -> None:
    name = dict(learned(score_weights).parameters)["weights"]
    with pytest.raises(InvalidConfiguration, match="have changed since the experiment began"):
        learned_agent(Choice("score", (("weights", name), ("sha256", "0" * 64))))


def test_rows_of_learned_agents_are_means_over_their_trainings() -> None:
    both = Trained((Choice("score", (("weights", "a"),)), Choice("score", (("weights", "b"),))))
    panel = Panel("made up", "column", {"here": Setting()}, {"FIFO": Choice("fifo"), OSDEC: both})
    found = {"FIFO": (10.0, 30.0), OSDEC: (11.0, 31.0), f"{OSDEC}, training 2": (15.0, 37.0)}
    outcomes: Any = {
        ("made up", "here", row): tuple({"utilization": value, "valid": None} for value in values)
        for row, values in found.items()
    }
    study = Measured(Study(seeds=2), (panel,), "FIFO", outcomes)
    assert study.values(panel, "here", OSDEC, "utilization").tolist() == [13.0, 34.0]
    assert study.difference(panel, "here", OSDEC, "utilization").mean == 3.5
    assert study.training_means(panel, "here", OSDEC, "utilization").tolist() == [21.0, 26.0]
    assert study.deviation(panel, "here", OSDEC, "utilization") == pytest.approx(np.std([21.0, 26.0], ddof=1))
    assert np.isnan(study.deviation(panel, "here", "FIFO", "utilization"))
    (table,) = deviations(study, [("utilization", panel, "here", "utilization")])
    assert table.rows == [[OSDEC, "2", "3.536"]]
    told = study.summary(panel, "here", OSDEC, "utilization")
    assert (told["mean"], told["above_reference"], told["num_trainings"]) == (23.5, 3.5, 2)


def test_a_row_without_weights_for_a_workload_is_left_blank() -> None:
    study, panel = made_up({"here": {"FIFO": (1.0,), "SJF": (2.0,)}}, ("utilization",))
    other = replace(panel, name="another", rows={"PPO+Att": Choice("score")})
    table = by_metric(replace(study, panels=(panel, other)), panel, "here", ["utilization"], {}, title="")
    assert table.rows[-1] == ["PPO+Att", "–", "–", "–"]
    table = by_metric(study, panel, "here", ["utilization"], {"OSDEC": [3.0], "SJF": [2.5]}, title="")
    assert [row[1] for row in table.rows] == ["1.000 ± 0.13", "2.000 ± 0.13 [2.500]", "– [3.000]"]


def test_what_is_noted_is_what_the_network_sees(score_weights: Path) -> None:
    setting = Setting(num_slots=40)
    noted = note(learned_agent(learned(score_weights)), setting, 2)
    last = noted.histories[:, -1].astype(np.float64)
    assert len(noted.truth) == 40
    np.testing.assert_array_equal(noted.truth[:, 0], generate(settings_of(setting), seed=2).capacity)
    for column, seen in ((0, last[:, 4]), (1, last[:, 7]), (3, last[:, 6])):
        np.testing.assert_allclose(noted.truth[:, column], 32 * seen, atol=1e-5)
    np.testing.assert_allclose(noted.truth[:, 2], last[:, 3], atol=1e-6)
    assert 0 < noted.has_jobs.sum() < 40


def test_errors_of_forecasts_are_those_of_slow_loops(score_weights: Path) -> None:
    setting, choice = Setting(num_slots=60), learned(score_weights)
    outcome = perform_forecasts(Run(setting, choice, 1))
    capacity = generate(settings_of(setting), seed=1).capacity
    expected = forecast_errors(LastValue(), capacity, 1, first_slot=24)
    names = [forecast_metric("capacity", "last value", measure) for measure in MEASURES]
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
        assert outcome[forecast_metric("mean_cores", source, MEASURES[0])] == pytest.approx(
            np.mean(errors[name]), rel=1e-4
        )


def test_attention_is_that_of_the_network_and_kinds_make_up_the_whole(score_weights: Path) -> None:
    choice, setting = learned(score_weights, "PPO+Att"), Setting(num_slots=60)
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
        seen_by(learned(score_weights, "PPO"), setting, 0)


def test_a_network_that_looks_at_all_alike_has_attention_of_1(score_weights: Path, tmp_path: Path) -> None:
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


def test_attention_of_an_observation_is_what_its_tokens_are_encoded_with(score_weights: Path) -> None:
    policy: Any = learned_policy(learned(score_weights, "PPO+Att"))
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


def test_a_shield_of_no_level_changes_nothing_and_one_keeps_its_bounds(score_weights: Path) -> None:
    setting = Setting("volatile", num_slots=40, check=True)
    shield = {"base": "last value", "level": 0.05}
    for row, choice in {**MORE_ROWS, OSDEC: learned(score_weights)}.items():
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


# -- what was to be shown -----------------------------------------------------------------------


def made_up(columns: dict[str, dict[str, tuple[float, ...]]], metrics: tuple[str, ...]) -> tuple[Measured, Panel]:
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
    return Measured(Study(seeds=2), (panel,), "FIFO", outcomes), panel


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
    checks = comparison_checks(study, panel)
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
    metrics = tuple(
        forecast_metric("capacity", source, measure) for measure in MEASURES for source in sources_of("capacity")
    )
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
        safety = Safety(levels=levels)
        return [check.holds for check in level_checks(replace(study, study=safety, outcomes=outcomes), panel)]

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
@pytest.mark.parametrize("kind", [Table1, Table4])
def test_the_calibration_holds_for_one_hundred_trajectories(tmp_path: Path, kind: Any) -> None:
    blocks = kind(out=tmp_path / "out", heuristics_only=True).blocks()
    checks = [check for block in blocks if isinstance(block, Checks) for check in block.checks]
    assert [check.text for check in checks if not check.holds] == []


# -- the studies --------------------------------------------------------------------------------


def test_rows_of_a_table_are_those_that_are_trained_and_have_a_colour(score_weights: Path) -> None:
    rows = rows_of(Study(weights=score_weights), "default")
    assert list(rows)[3:6] == ["PPO", "PPO+Att", OSDEC]
    assert set(rows) == set(PAPER_ROWS) | set(MORE_ROWS) | set(PLANNING_ROWS) | {"PPO", "PPO+Att", OSDEC, OPTIMUM}
    assert set(rows) <= set(AGENTS)
    heuristics = rows_of(Study(weights=score_weights, heuristics_only=True), "default")
    assert set(heuristics) == set(PAPER_ROWS) | set(MORE_ROWS)
    for wrong in ({"seeds": 0}, {"time_limit": 0.0}):
        with pytest.raises(InvalidConfiguration, match=f"{next(iter(wrong))} is 0"):
            Study(**wrong)  # type: ignore[arg-type]


def test_the_distance_from_the_optimum_is_paired() -> None:
    study, panel = made_up({"default": {"FIFO": (3_000.0,), OPTIMUM: (3_990.0,)}}, ("total_reward",))
    found = study.shortfall(panel, "default", "FIFO")
    assert found is not None
    assert found.mean == pytest.approx(25.0)
    alone, panel = made_up({"default": {"FIFO": (3_000.0,)}}, ("total_reward",))
    assert alone.shortfall(panel, "default", "FIFO") is None


def test_learning_curves_are_those_of_the_cards(score_weights: Path) -> None:
    curves = Figure4(weights=score_weights).curves()
    assert [curve.name for curve in curves["default"][OSDEC]] == ["default-osdec", "default-osdec-seed1"]
    second = curves["default"][OSDEC][1]
    assert second.values.tolist() == [100.0, 131.0, 120.0]
    assert second.line()[-7:] == ["7", "1,000", "4", "100.0", "131.0", "500", "120.0"]
    assert second.command == "train default-osdec-seed1"
    assert sum(len(found) for rows in curves.values() for found in rows.values()) == 6


def test_studies_of_learned_agents_say_that_there_are_none(tmp_path: Path) -> None:
    for kind in (Figure4, Forecasts, Attention):
        *_, last = kind(weights=tmp_path).blocks()
        assert isinstance(last, Paragraph)
        assert last.text.startswith("There are no weights")
