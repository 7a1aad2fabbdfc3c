"""DBF: episodes, what runs measure, trained weights, and what was to be shown of split windows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from conftest import save_batch
from desim import simulate
from desim.agents.batch import create as create_by_name
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.learning.policy import to_tensors
from desim.exceptions import InvalidConfiguration, RecordError
from desim.experiments.blocks import Paragraph
from desim.experiments.dbf import workloads
from desim.experiments.dbf.agents import (
    BASELINES,
    BOUND,
    CONTROLS,
    LEARNED,
    REFERENCE,
    best_split,
    find_weights,
    inspector_rows,
    learned,
    window_rows,
)
from desim.experiments.dbf.controls import panels_of
from desim.experiments.dbf.figure3 import Figure3
from desim.experiments.dbf.figure5 import Figure5, halving_checks, tail_checks
from desim.experiments.dbf.kth import Kth
from desim.experiments.dbf.simulate import (
    CORES,
    METRICS,
    REWARDS,
    TIMES,
    WIDE,
    Setting,
    create,
    numbers_of,
    perform,
    perform_by_type,
    play,
)
from desim.experiments.dbf.starvation import fairness_checks
from desim.experiments.dbf.study import Measured, Study, beaten
from desim.experiments.dbf.unseen import Unseen, ratio_percent
from desim.experiments.dbf.workloads import GENERATED, KTH, TRACE, episode, present
from desim.experiments.measured import Choice, Panel
from desim.problems.batch.env import BatchEnv
from desim.sweep import Run, Workers

SMALL = Setting(GENERATED, num_jobs=120, episodes=2, check=True)
SIZE: dict[str, Any] = {"quick": True, "workers": Workers(1), "workload": GENERATED}


# -- episodes -----------------------------------------------------------------------------------


def test_episodes_begin_where_they_always_began() -> None:
    starts = np.random.default_rng(0).integers(0, 8_000, 50)
    trace = workloads.traces_of(present(TRACE))[0]
    for number in (0, 49):
        jobs = list(episode(present(TRACE), number, 1_000, "closed").jobs)
        first = trace[starts[number]]
        assert len(jobs) == 1_000
        assert (jobs[0].job_id, jobs[0].submission_time) == (first.job_id, 0.0)
        assert jobs[9].submission_time == trace[starts[number] + 9].submission_time - first.submission_time


def test_generated_episodes_come_from_several_traces() -> None:
    traces = workloads.traces_of(GENERATED)
    assert len({trace[0].submission_time for trace in traces}) == len(traces) == 5
    starts = np.random.default_rng(0).integers(0, 8_000, 7)
    job = next(iter(episode(GENERATED, 6, 10, "open").jobs))
    assert job.run_time == traces[1][starts[6]].run_time


def test_pieces_of_the_log_do_not_overlap() -> None:
    name = present(KTH)
    pieces = [{job.job_id for job in episode(name, number, 1_000, "closed").jobs} for number in range(3)]
    assert [len(piece) for piece in pieces] == [1_000] * 3
    assert not (pieces[0] & pieces[1]) | (pieces[1] & pieces[2])
    most = workloads.most_episodes(name, 1_000)
    assert most == 27
    with pytest.raises(InvalidConfiguration, match="no episode 27 of 1000 jobs"):
        episode(name, most, 1_000, "open")
    with pytest.raises(InvalidConfiguration, match=r"30 episodes of .*: there are 27"):
        Kth(seeds=30).measure(Panel("log", "x", {"x": Setting(KTH)}, BASELINES), reference=REFERENCE)


def test_unseen_workloads_have_as_many_pieces_as_there_are_at_most() -> None:
    study = Unseen(seeds=30, num_jobs=1_000)
    log, generated = (study.fit(Setting(name, num_jobs=1_000)) for name in (KTH, "Lublin, 64 cores"))
    assert [study.num_episodes_of(setting) for setting in (log, generated)] == [27, 30]
    assert study.seeds_of(log) == list(range(6))
    last = Run(log, Choice("easy-sjf"), 5)
    assert numbers_of(last) == [25, 26]
    assert numbers_of(replace(last, seed=4)) == [20, 21, 22, 23, 24]


def test_a_ratio_of_means_has_the_interval_of_the_ratio_estimator() -> None:
    theirs = np.array([1.0, 2.0, 3.0, 6.0])
    halved = ratio_percent(0.5 * theirs, theirs)
    assert (halved.mean, halved.half_width) == (-50.0, 0.0)  # pieces that differ in size do not widen it
    ours = theirs + np.array([0.5, -0.5, 0.5, -0.5])
    found = ratio_percent(ours, theirs)
    assert (found.mean, found.num_values) == (0.0, 4)
    assert found.half_width == pytest.approx(100.0 * stats.t.ppf(0.975, 3) * 0.5 * math.sqrt(4 / 3) / 2 / 3.0)
    assert math.isnan(ratio_percent([1.0, 2.0], [0.0, 0.0]).mean)


def test_a_generated_trace_stands_in_for_a_file_that_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workloads, "SWF", tmp_path)
    monkeypatch.setattr(workloads, "TRACE_JOBS", 9_000)
    found = present.__wrapped__(TRACE)
    assert found == "lublin_256 (stand-in)"
    assert "there is no lublin_256.swf" in capsys.readouterr().err
    (trace,) = workloads.traces_of.__wrapped__(found)
    assert len(trace) == 9_000
    with pytest.raises(InvalidConfiguration, match="no workload 'lublin'; there are lublin_256, generated"):
        present("lublin")


# -- one run ------------------------------------------------------------------------------------


def choices(batch_weights: Path) -> dict[str, Choice]:
    found = find_weights(batch_weights)
    return {
        "EASY": BASELINES[BOUND],
        "random": Choice("window-random-5-3"),
        "learned": found["lublin256-any"].choice((5, 3)),
        "fair": found["lublin256-m32-t16-fair"].choice(),
        "paper": found["lublin256-m20-t1-paper"].choice(),
        "inspector": found["lublin256-inspector-f1"].choice(),
    }


@pytest.mark.parametrize("name", ["EASY", "random", "learned", "fair", "paper", "inspector"])
@pytest.mark.parametrize("arrivals", ["open", "closed"])
def test_a_run_measures_what_simulations_give(name: str, arrivals: Any, batch_weights: Path) -> None:
    choice = choices(batch_weights)[name]
    setting = replace(SMALL, arrivals=arrivals)
    outcome = perform(Run(setting, choice, 1))
    assert outcome["valid"] is True
    for place, number in enumerate((2, 3)):
        result = simulate(episode(GENERATED, number, 120, arrivals), create(choice), seed=number)
        included, started = (result.metrics(unfinished=which) for which in ("include", "exclude"))
        for metric in ("waiting_time_mean", "waiting_time_p99", "waiting_time_max", "queue_length_mean", "utilization"):
            assert outcome[metric][place] == pytest.approx(included[metric], rel=1e-12)
        assert outcome["started_waiting_time_mean"][place] == pytest.approx(started["waiting_time_mean"], rel=1e-12)
        assert outcome["jobs_queued"][place] == included["jobs_queued"]
        assert started["jobs_started"] == 120
    if arrivals == "closed":
        assert outcome["jobs_queued"] == [0.0, 0.0]
        assert outcome["waiting_time_mean"] == outcome["started_waiting_time_mean"]


class Counting:
    """Counts jobs that a window of an agent does not show."""

    def __init__(self, agent: Any, window: int) -> None:
        self.agent, self.window = agent, window
        self.reset = agent.reset
        self.beyond: list[int] = []

    def act(self, observation: Any) -> Any:
        self.beyond.append(max(len(observation.queue) - self.window, 0))
        return self.agent.act(observation)


@pytest.mark.parametrize("name", ["random", "learned"])
def test_invisible_jobs_are_counted_at_every_decision(name: str, batch_weights: Path) -> None:
    choice = choices(batch_weights)[name]
    outcome = perform(Run(SMALL, choice, 0))
    counting = Counting(create(choice), 8)
    simulate(episode(GENERATED, 1, 120, "open"), counting, seed=1)
    beyond = np.array(counting.beyond)
    assert 0 < (beyond > 0).mean() < 1
    assert outcome["num_decisions"][1] == len(beyond)
    assert outcome["invisible_jobs"][1] == pytest.approx(beyond.mean())
    assert outcome["hidden_share"][1] == pytest.approx((beyond > 0).mean())


@pytest.mark.parametrize("reward", REWARDS)
def test_returns_are_those_of_the_environment(reward: str, batch_weights: Path) -> None:
    agent: Any = create(choices(batch_weights)["learned"])
    gym_env = BatchEnv(
        lambda rng: episode(GENERATED, 1, 120, "open"),
        window=(5, 3),
        observation=agent.encoder,
        reward=reward,
        num_jobs=120,
        skip_forced=True,
    )
    seen, _ = gym_env.reset(seed=0)
    earned, over = 0.0, False
    while not over:
        with torch.inference_mode():
            distribution, _ = agent.policy(to_tensors({key: array[None] for key, array in seen.items()}))
        seen, now, terminated, truncated, _ = gym_env.step(int(distribution.mode()))
        earned, over = earned + now, terminated or truncated
    (played,) = play([episode(GENERATED, 1, 120, "open")], lambda: agent, [1])
    assert played.counts[f"return_{reward}"] == pytest.approx(earned)
    if reward == "waiting":
        metrics = played.result.metrics(unfinished="include")
        waits = metrics["waiting_time_mean"] * metrics["jobs_submitted"]
        assert earned == pytest.approx(-waits / 10_000)


def test_agents_that_look_ahead_have_forks() -> None:
    problem = episode(GENERATED, 3, 30, "closed")
    (played,) = play([problem], lambda: create_by_name("rollout:sjf"), [3])
    alone = simulate(problem, create_by_name("rollout:sjf"), seed=3)
    assert played.result.jobs.equals(alone.jobs)


def test_agents_that_see_the_whole_queue_have_no_window_to_count_by() -> None:
    outcome = perform(Run(SMALL, BASELINES[REFERENCE], 0))
    assert outcome["hidden_share"] == outcome["return_paper"] == [None, None]


def test_jobs_are_counted_by_type() -> None:
    choice = Choice("window-shortest-5-5")
    outcome = perform_by_type(Run(SMALL, choice, 0))
    counted, waits = np.zeros((len(CORES), len(TIMES))), np.zeros((len(CORES), len(TIMES)))
    wide: list[tuple[int, int, float]] = []
    for number in (0, 1):
        result = simulate(episode(GENERATED, number, 120, "open"), create_by_name(choice.policy), seed=number)
        arrived = begun = 0
        longest = 0.0
        for job in result.jobs.iter_rows(named=True):
            cores, start = job["requested_number_of_resources"], job["starting_time"]
            wait = (result.info["end_time"] if start is None else start) - job["submission_time"]
            if start is not None:
                row = next(i for i, most in enumerate(CORES) if cores <= most)
                column = next(i for i, most in enumerate(TIMES) if job["requested_time"] <= most)
                counted[row, column] += 1
                waits[row, column] += wait
            if cores > WIDE:
                arrived, begun, longest = arrived + 1, begun + (start is not None), max(longest, wait)
        wide.append((arrived, begun, longest))
    assert counted.sum() == 240
    assert np.array_equal(outcome["placed"], counted)
    assert np.array(outcome["placed_waits"]) == pytest.approx(waits)
    assert outcome["wide_submitted"] == [one[0] for one in wide]
    assert outcome["wide_started"] == [one[1] for one in wide]
    assert outcome["wide_waiting_time_max"] == pytest.approx([one[2] for one in wide])


# -- trained weights ----------------------------------------------------------------------------


def test_weights_of_a_window_come_before_those_for_all(batch_weights: Path, tmp_path: Path) -> None:
    found = find_weights(batch_weights)
    assert learned(found, 15, 5) == found["lublin256-m20-t5"].choice()
    assert learned(found, 12, 8) == found["lublin256-any"].choice((12, 8))
    assert learned(found, 10, 0) is None  # those for all windows have never seen one without a tail
    assert learned({}, 12, 8) is None
    assert best_split(found, 20) == (15, 5)  # by validation; other seeds and variants do not take part
    assert best_split(found, 33) == (17, 16)
    rows = window_rows(found, 10, (0, 5))
    assert list(rows[LEARNED]) == ["5"]
    assert list(rows["random in the window"]) == ["0", "5"]
    assert list(inspector_rows(found)) == ["SchedInspector, F1", "SchedInspector, SJF by cores"]
    assert find_weights(tmp_path) == {}


def test_other_weights_of_the_same_name_are_another_agent(tmp_path: Path) -> None:
    save_batch(tmp_path, "lublin256-any", SplitWindowConfig(4, 4, hidden=(8,)), seed=0)
    first = find_weights(tmp_path)["lublin256-any"].choice((2, 2))
    save_batch(tmp_path, "lublin256-any", SplitWindowConfig(4, 4, hidden=(8,)), seed=1)
    second = find_weights(tmp_path)["lublin256-any"].choice((2, 2))
    assert first.policy == second.policy
    assert first != second
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RecordError, match=r"broken\.json cannot be read"):
        find_weights(tmp_path)


def test_controls_stand_beside_what_is_trained(batch_weights: Path) -> None:
    panels = {panel.name: set(panel.rows) for panel in panels_of(find_weights(batch_weights), ((9, 1), (10, 0)))}
    rules = {*CONTROLS, "first in the window"}
    assert panels["window 10-0"] == rules
    assert panels["window 9-1"] == rules | {"lublin256-any"}
    assert panels["window 10-10"] == rules | {"lublin256-any", "lublin256-m20-t10", "lublin256-m20-t10-seed1"}
    assert "window 5-5" not in panels  # that of another cluster


# -- the studies --------------------------------------------------------------------------------


def test_without_weights_their_rows_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    study = Figure5(out=tmp_path / "out", weights=tmp_path / "none", sizes=(8,), tails=(0, 1), **SIZE)
    found, missing = study.measure_windows()
    assert {row for _, _, row in found.outcomes} == set(CONTROLS)
    assert missing == ["M = 8"]
    texts = [block.text for block in Figure3(weights=tmp_path / "none").blocks() if isinstance(block, Paragraph)]
    assert texts[-1] == "No agent with a window of 20 slots is trained yet."


def test_learning_curves_come_from_the_cards(batch_weights: Path) -> None:
    curves, _ = Figure3(weights=batch_weights).curves()
    names = [curve.name for curve in curves]
    assert names == [f"lublin256-m20-{name}" for name in ("t0", "t1-paper", "t10", "t10-seed1", "t5")]
    assert curves[0].episodes.tolist() == [0, 3, 7]
    assert curves[0].decisions.tolist() == [0, 500, 900]
    assert curves[0].values("validation", "waiting_time_mean").tolist() == [9e4, 1e4, 3e4]
    assert np.isnan(curves[0].values("training", "utilization")).tolist() == [True, False, True]
    assert [row["training_utilization"] for row in curves[0].rows()][1] == 0.7


def test_a_trial_of_the_learning_curves_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desim.experiments.dbf.figure3.TRIAL_STEPS", 1_100)
    study = Figure3(out=tmp_path, **SIZE)
    curves, _ = study.curves()
    assert [(curve.network, curve.reward) for curve in curves] == [("mlp", "paper"), ("scorer", "waiting")]
    assert all(curve.decisions[-1] >= 1_000 and len(curve.history) >= 2 for curve in curves)
    assert study.curves()[0] == curves


def test_only_the_episodes_that_are_asked_for_count() -> None:
    study = Study(seeds=3, workload=GENERATED)
    assert study.seed_list == [0]
    assert replace(study, seeds=21).seed_list == [0, 1, 2]
    panel = Panel("one", "column", {"x": replace(SMALL, check=False)}, {"SJF": Choice("backfilling-sjf")})
    found = Measured(study, (panel,), "SJF", {("one", "x", "SJF"): ({"m": [1.0, 2.0]}, {"m": [3.0, 4.0]})})
    assert found.values(panel, "x", "SJF", "m").tolist() == [1.0, 2.0, 3.0]


# -- what was to be shown -----------------------------------------------------------------------


def made_up(name: str, cells: dict[tuple[str, str], dict[str, float]], reference: str) -> tuple[Measured, Panel]:
    """Return a study with given means of metrics, by column and row, alike in two episodes but for a little."""
    columns = dict.fromkeys((column for column, _ in cells), SMALL)
    rows: Any = {}
    for column, row in cells:
        rows.setdefault(row, {})[column] = Choice("backfilling-sjf")
    panel = Panel(name, "column", columns, rows)
    outcomes: Any = {
        (name, column, row): ({metric: [mean - 0.01, mean + 0.01] for metric, mean in means.items()},)
        for (column, row), means in cells.items()
    }
    return Measured(Study(seeds=2), (panel,), reference, outcomes), panel


def window_cells(head_only: float, one: float, best: float) -> Any:
    waits = {"0": head_only, "1": one, "9": best}
    return {
        (tail, LEARNED): {"waiting_time_mean": wait, "queue_length_mean": wait / 700} for tail, wait in waits.items()
    }


def test_a_slot_at_the_tail_must_help_and_the_best_split_must_halve() -> None:
    study, _ = made_up("M = 20", window_cells(20_000, 12_000, 9_900), LEARNED)
    assert [check.holds for check in tail_checks(study)] == [True, True]
    assert [check.holds for check in halving_checks(study)] == [True, True]
    assert "falls from 20,000.0 to 9,900.0 with 9 slots" in halving_checks(study)[0].text
    study, _ = made_up("M = 20", window_cells(20_000, 20_001, 10_100), LEARNED)
    assert [check.holds for check in tail_checks(study)] == [False, False]
    assert [check.holds for check in halving_checks(study)] == [False, False]
    study, _ = made_up("M = 64", window_cells(20_000, 20_001, 10_100), LEARNED)
    assert tail_checks(study) == halving_checks(study) == []


def test_to_be_better_takes_an_interval_below_zero() -> None:
    cells = {
        ("open", row): {"waiting_time_mean": wait} for row, wait in (("us", 7_000), ("them", 7_001), ("more", 9e3))
    }
    study, panel = made_up("any", cells, "them")
    checks = beaten(study, panel, "open", ["us", "nobody"], ["them", "more", "us"], metrics=["waiting_time_mean"])
    assert [check.holds for check in checks] == [True, True]
    assert not beaten(study, panel, "open", ["more"], ["us"], metrics=["waiting_time_mean"])[0].holds
    study.outcomes["any", "open", "us"][0]["waiting_time_mean"][:] = [4_000.0, 9_900.0]
    assert not beaten(study, panel, "open", ["us"], ["them"], metrics=["waiting_time_mean"])[0].holds


def test_fair_agents_keep_the_longest_wait_within_that_of_easy() -> None:
    for longest, mean, expected in (
        (2.2e5, 1.5e4, [True, True]),
        (2.3e5, 1.5e4, [False, True]),
        (2e5, 3e4, [True, False]),
    ):
        cells = {
            ("open", BOUND): {"waiting_time_max": 2.25e5, "waiting_time_mean": 2.2e4},
            ("open", "fair"): {"waiting_time_max": longest, "waiting_time_mean": mean},
        }
        study, panel = made_up("any", cells, BOUND)
        assert [check.holds for check in fairness_checks(study, panel, "open", ["fair"])] == expected


def test_metrics_are_all_measured() -> None:
    outcome = perform(Run(SMALL, Choice("window-first-4-4"), 0))
    assert set(METRICS) < set(outcome)
    assert all(len(outcome[metric]) == 2 for metric in METRICS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "metric", "known"),
    [
        ("backfilling-fcfs", "waiting_time_mean", 17_282),
        ("easy-fcfs", "waiting_time_mean", 22_483),
        ("easy-fcfs", "waiting_time_max", 224_980),
        ("backfilling-lcfs", "waiting_time_mean", 10_044),
        ("backfilling-sjf-cores", "waiting_time_mean", 9_798),
        ("easy-f1", "waiting_time_mean", 9_285),
        ("backfilling-sjf", "waiting_time_mean", 8_006),
        ("window-reserving-16-16", "waiting_time_mean", 7_589),
        ("window-shortest-9-1", "waiting_time_mean", 13_502),
    ],
)
def test_the_rules_on_the_papers_trace_are_as_they_were(policy: str, metric: str, known: float) -> None:
    if present(TRACE) != TRACE:
        pytest.skip("needs lublin_256.swf in the shared data")
    values = [perform(Run(Setting(), Choice(policy), block))[metric] for block in range(5)]
    assert np.mean(values) == pytest.approx(known, abs=0.6)
