"""Every experiment of DBF, in a size of seconds, with weights made on the spot; and the numbers that it reports."""

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
from desim.agents.batch import create as create_by_name
from desim.agents.batch.inspector import InspectorConfig
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.learned import plain
from desim.agents.learning.policy import to_tensors
from desim.exceptions import InvalidConfiguration, RecordError
from desim.experiments.dbf import FAMILY, workloads
from desim.experiments.dbf.agents import BASELINES, BOUND, CONTROLS, LEARNED, REFERENCE, inspector_rows, window_rows
from desim.experiments.dbf.checks import beaten, fairness_checks, halving_checks, tail_checks
from desim.experiments.dbf.controls import Controls, controls, panels_of
from desim.experiments.dbf.curves import Curve
from desim.experiments.dbf.figure3 import Figure3, figure3
from desim.experiments.dbf.figure4 import Figure4, figure4
from desim.experiments.dbf.figure5 import Figure5, figure5
from desim.experiments.dbf.figure6 import Figure6, figure6
from desim.experiments.dbf.figure7 import Figure7, figure7
from desim.experiments.dbf.job_types import CORES, TIMES, WIDE, perform_by_type
from desim.experiments.dbf.kth import Kth, kth
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.playing import REWARDS, play
from desim.experiments.dbf.simulating import METRICS, Choice, Setting, create, perform
from desim.experiments.dbf.starvation import Starvation, starvation
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import best_split, find_weights, learned
from desim.experiments.dbf.workloads import GENERATED, KTH, TRACE, episode, present
from desim.experiments.options import run_as_program
from desim.problems.batch.env import BatchEnv
from desim.sweep import Run

SMALL = Setting(GENERATED, num_jobs=120, episodes=2, check=True)
HISTORY = [
    {"steps": 0, "updates": 0, "validation": {"utilization": 0.6, "waiting_time_mean": 9e4, "queue_length_mean": 90.0}},
    {
        "steps": 500,
        "updates": 2,
        "episodes": 3,
        "training": {"utilization": 0.7, "waiting_time_mean": 2e4, "queue_length_mean": 20.0},
        "validation": {"utilization": 0.8, "waiting_time_mean": 1e4, "queue_length_mean": 10.0},
    },
    {
        "steps": 900,
        "updates": 4,
        "episodes": 4,
        "training": {},
        "validation": {"utilization": 0.7, "waiting_time_mean": 3e4, "queue_length_mean": 30.0},
    },
]


def save(directory: Path, name: str, config: Any, *, seed: int = 0, wait: float = 9_000.0) -> None:
    """Write a network that has learned nothing, but has opinions."""
    policy = config.policy(np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.2 * torch.from_numpy(rng.normal(size=parameter.shape)).float())
    card = {
        "agent": "inspector" if isinstance(config, InspectorConfig) else "split-window",
        "config": plain(config),
        "training": {"reward": "waiting"},
        "validation": {"waiting_time_mean": wait},
        "history": HISTORY,
    }
    save_weights(directory / name, policy.state_dict(), card)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of untrained weights with the names of trained ones."""
    directory = tmp_path_factory.mktemp("weights")
    small = {"hidden": (8,)}
    save(directory, "lublin256-any", SplitWindowConfig(16, 16, **small))
    save(directory, "lublin256-m8-t0", SplitWindowConfig(8, 0, **small))
    save(directory, "lublin256-m20-t0", SplitWindowConfig(20, 0, **small))
    save(directory, "lublin256-m20-t5", SplitWindowConfig(15, 5, **small), wait=8_000.0)
    save(directory, "lublin256-m20-t10", SplitWindowConfig(10, 10, **small), wait=8_500.0)
    save(directory, "lublin256-m20-t10-seed1", SplitWindowConfig(10, 10, **small), seed=1, wait=7_000.0)
    save(directory, "lublin256-m20-t1-paper", SplitWindowConfig(19, 1, "mlp", (8,)))
    save(directory, "lublin256-m32-t16-fair", SplitWindowConfig(16, 16, reserve_after=5_000.0, **small))
    save(directory, "kth100-m10-t5", SplitWindowConfig(5, 5, num_cores=100, **small))
    save(directory, "lublin256-inspector-f1", InspectorConfig("f1"))
    save(directory, "lublin256-inspector-sjf", InspectorConfig("sjf-cores"))
    return directory


SIZE: dict[str, Any] = {"quick": True, "jobs": 1, "workload": GENERATED}
EXPERIMENTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "figure4": lambda given: figure4(Figure4(sizes=(20, 32), **SIZE, **given)),
    "figure5": lambda given: figure5(Figure5(tails=(0, 1, 5), **SIZE, **given)),
    "figure6": lambda given: figure6(Figure6(tails=(0, 1, 5), **SIZE, **given)),
    "figure7": lambda given: figure7(Figure7(**SIZE, **given)),
    "controls": lambda given: controls(Controls(**SIZE, **given)),
    "starvation": lambda given: starvation(Starvation(windows=((5, 5),), **SIZE, **given)),
    "kth": lambda given: kth(Kth(windows=((5, 5),), **SIZE, **given)),
}


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
        carry_out("too many", [Panel("log", "x", {"x": Setting(KTH)}, BASELINES)], Kth(seeds=30), reference=REFERENCE)


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


def choices(weights: Path) -> dict[str, Choice]:
    found = find_weights(weights)
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
def test_a_run_measures_what_simulations_give(name: str, arrivals: Any, weights: Path) -> None:
    choice = choices(weights)[name]
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
def test_invisible_jobs_are_counted_at_every_decision(name: str, weights: Path) -> None:
    choice = choices(weights)[name]
    outcome = perform(Run(SMALL, choice, 0))
    counting = Counting(create(choice), 8)
    simulate(episode(GENERATED, 1, 120, "open"), counting, seed=1)
    beyond = np.array(counting.beyond)
    assert 0 < (beyond > 0).mean() < 1
    assert outcome["num_decisions"][1] == len(beyond)
    assert outcome["invisible_jobs"][1] == pytest.approx(beyond.mean())
    assert outcome["hidden_share"][1] == pytest.approx((beyond > 0).mean())


@pytest.mark.parametrize("reward", REWARDS)
def test_returns_are_those_of_the_environment(reward: str, weights: Path) -> None:
    agent: Any = create(choices(weights)["learned"])
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


def test_weights_of_a_window_come_before_those_for_all(weights: Path, tmp_path: Path) -> None:
    found = find_weights(weights)
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
    save(tmp_path, "lublin256-any", SplitWindowConfig(4, 4, hidden=(8,)), seed=0)
    first = find_weights(tmp_path)["lublin256-any"].choice((2, 2))
    save(tmp_path, "lublin256-any", SplitWindowConfig(4, 4, hidden=(8,)), seed=1)
    second = find_weights(tmp_path)["lublin256-any"].choice((2, 2))
    assert first.policy == second.policy
    assert first != second
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RecordError, match=r"broken\.json cannot be read"):
        find_weights(tmp_path)


def test_controls_stand_beside_what_is_trained(weights: Path) -> None:
    panels = {panel.name: set(panel.rows) for panel in panels_of(find_weights(weights), ((9, 1), (10, 0)))}
    rules = {*CONTROLS, "first in the window"}
    assert panels["window 10-0"] == rules
    assert panels["window 9-1"] == rules | {"lublin256-any"}
    assert panels["window 10-10"] == rules | {"lublin256-any", "lublin256-m20-t10", "lublin256-m20-t10-seed1"}
    assert "window 5-5" not in panels  # that of another cluster


# -- the experiments ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=EXPERIMENTS)
def carried_out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, weights: Path) -> Any:
    out = tmp_path_factory.mktemp("results") / request.param
    store = tmp_path_factory.getbasetemp() / "runs"
    return request.param, out, EXPERIMENTS[request.param]({"out": out, "store": store, "weights": weights})


def test_an_experiment_leaves_tables_and_a_figure(carried_out: Any) -> None:
    name, out, study = carried_out
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((out / "results.json").read_text())
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    metrics = len({cell["metric"] for cell in document["cells"]})
    assert len(document["cells"]) == len(rows) == metrics * len(study.outcomes)
    assert study.num_invalid == 0
    for cell, row in zip(document["cells"], rows, strict=True):
        values = [np.nan if value is None else value for value in cell["by_episode"]]
        assert len(values) == 2
        if cell["mean"] is not None:
            assert cell["mean"] == pytest.approx(np.mean(values))
        assert row["agent"] == cell["agent"]


def test_differences_are_paired_by_episode(carried_out: Any) -> None:
    _, _, study = carried_out
    panel = study.panels[0]
    column, row, _ = next(cell for cell in panel.cells() if cell[1] != study.reference)
    ours, theirs = (study.values(panel, column, one, "waiting_time_mean") for one in (row, study.reference))
    found = study.versus(panel, column, row, study.reference, "waiting_time_mean")
    assert found == study.difference(panel, column, row, "waiting_time_mean")
    assert found.mean == pytest.approx(np.mean(ours - theirs))


def test_learned_agents_are_part_of_every_experiment(carried_out: Any) -> None:
    _, _, study = carried_out
    policies = {choice.policy for panel in study.panels for _, _, choice in panel.cells()}
    assert any(policy.startswith("split-window:") for policy in policies)


def test_without_weights_their_rows_are_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none").mkdir()
    options = Figure5(out=tmp_path / "out", weights=tmp_path / "none", sizes=(8,), tails=(0, 1), **SIZE)
    study = figure5(options)
    assert {row for _, _, row in study.outcomes} == set(CONTROLS)
    assert "Not trained yet, so left out: M = 8." in capsys.readouterr().out
    assert figure3(Figure3(out=tmp_path / "curves", weights=tmp_path / "none")).curves == ()
    assert "No agent with a window of 20 slots is trained yet." in capsys.readouterr().out


def test_learning_curves_come_from_the_cards(weights: Path, tmp_path: Path) -> None:
    study = figure3(Figure3(out=tmp_path, weights=weights))
    names = [curve.name for curve in study.curves]
    assert names == [f"lublin256-m20-{name}" for name in ("t0", "t1-paper", "t10", "t10-seed1", "t5")]
    curve: Curve = study.curves[0]
    assert curve.episodes.tolist() == [0, 3, 7]
    assert curve.decisions.tolist() == [0, 500, 900]
    assert curve.values("validation", "waiting_time_mean").tolist() == [9e4, 1e4, 3e4]
    assert np.isnan(curve.values("training", "utilization")).tolist() == [True, False, True]
    with (tmp_path / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 15
    assert (tmp_path / "figure3.png").exists()


def test_a_trial_of_the_learning_curves_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desim.experiments.dbf.figure3.TRIAL_STEPS", 1_100)
    study = figure3(Figure3(out=tmp_path, **SIZE))
    assert [(curve.network, curve.reward) for curve in study.curves] == [("mlp", "paper"), ("scorer", "waiting")]
    assert all(curve.decisions[-1] >= 1_000 and len(curve.history) >= 2 for curve in study.curves)
    again = figure3(Figure3(out=tmp_path, **SIZE))
    assert again.curves == study.curves


def test_all_modules_can_be_run_as_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FAMILY.modules:
        module = import_module(f"desim.experiments.dbf.{name}")
        assert issubclass(getattr(module, name.capitalize()), Options)
    arguments = ["--quick", "--seeds", "1", "--jobs", "1", "--workload", "generated", "--out", str(tmp_path / "out")]
    given = [*arguments, "--sizes", "8", "--tails", "0", "--weights", str(tmp_path)]
    assert run_as_program(Figure6, figure6, given) == 0
    printed = capsys.readouterr().out
    assert "M = 8: invisible jobs" in printed
    assert "cannot be compared" in printed
    with pytest.raises(SystemExit, match="2"):
        run_as_program(Figure6, figure6, ["--seeds", "0"])


def test_only_the_episodes_that_are_asked_for_count(tmp_path: Path) -> None:
    options = Options(seeds=3, out=tmp_path, jobs=1, workload=GENERATED)
    assert options.seed_list == [0]
    assert replace(options, seeds=21).seed_list == [0, 1, 2]
    panel = Panel("one", "column", {"x": replace(SMALL, check=False)}, {"SJF": Choice("backfilling-sjf")})
    study = Study("one", options, (panel,), "SJF", {("one", "x", "SJF"): ({"m": [1.0, 2.0]}, {"m": [3.0, 4.0]})})
    assert study.values(panel, "x", "SJF", "m").tolist() == [1.0, 2.0, 3.0]


# -- what was to be shown -----------------------------------------------------------------------


def made_up(name: str, cells: dict[tuple[str, str], dict[str, float]], reference: str) -> tuple[Study, Panel]:
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
    return Study("made up", Options(seeds=2), (panel,), reference, outcomes), panel


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


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
