"""``desim compare`` and ``desim demo``."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import INTERRUPTIBLE, Desim

from desim import Result, plugins, simulate
from desim.agents.batch import create
from desim.cli import demo
from desim.exceptions import InfeasibleAction
from desim.problems.batch import BatchCluster
from desim.statistics import mean_interval, paired_difference
from desim.sweep import recording, runner
from desim.sweep import simulated as command
from desim.sweep.digest import modules_behind
from desim.workloads import lublin

SMALL = ["--jobs", "60", "--cores", "32", "--load", "0.9", "--workers", "1"]
AGENTS = ["--agents", "fcfs,easy,sjf"]


def test_means_and_differences(desim: Desim) -> None:
    outcome = desim("compare", "batch", *AGENTS, *SMALL, "--seeds", "3", "--seed", "5", "--json")
    assert outcome.status == 0
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert document["baseline"] == "fcfs"
    assert document["seeds"] == [5, 6, 7]
    expected = {}
    for name in ("fcfs", "easy-fcfs"):
        runs = []
        for seed in (5, 6, 7):
            jobs = lublin.generate(60, 32, seed, load=0.9)
            runs.append(simulate(BatchCluster(jobs, 32), create(name), seed=seed).metrics()["waiting_time_mean"])
        expected[name] = runs
    runs = [run for run in document["runs"] if run["agent"] == "easy-fcfs"]
    assert [run["metrics"]["waiting_time_mean"] for run in runs] == expected["easy-fcfs"]
    assert all(run["valid"] for run in document["runs"])
    for found, estimate in (
        (document["means"]["easy-fcfs"], mean_interval(expected["easy-fcfs"])),
        (document["differences"]["easy-fcfs"], paired_difference(expected["easy-fcfs"], expected["fcfs"])),
    ):
        interval = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
        assert found["waiting_time_mean"] == pytest.approx(interval)
    assert set(document["differences"]) == {"easy-fcfs", "sjf"}


def test_the_table_marks_the_best(desim: Desim) -> None:
    arguments = ["compare", "batch", *AGENTS, *SMALL, "--seeds", "2"]
    outcome = desim(*arguments)
    assert outcome.status == 0
    means = json.loads(desim(*arguments, "--json").out)["means"]
    best = min(means, key=lambda agent: means[agent]["waiting_time_mean"]["mean"])
    rows = [line for line in outcome.out.splitlines() if line.startswith(("fcfs ", "easy-fcfs ", "sjf "))]
    assert len(rows) == 3 + 2 + 3  # no difference of the baseline, too few seeds for tests; profiles of all
    for row in rows[:3]:
        assert row.split()[4].startswith("*") == (row.split()[0] == best)
    assert "Difference from fcfs, paired by seed" in outcome.out
    assert "6 runs, 0 of them from the store; 6 valid" in outcome.out


def test_workers_make_no_difference(desim: Desim) -> None:
    arguments = ["compare", "batch", "--agents", "fcfs,easy", *SMALL[:-2], "--seeds", "2", "--json"]
    documents = [json.loads(desim(*arguments, "--workers", count).out) for count in (1, 2)]
    for document in documents:
        document["options"].pop("workers")
    assert documents[0] == documents[1]


def test_everything_is_written(desim: Desim, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["compare", "batch", "--agents", "fcfs,easy", *SMALL, "--seeds", "2", "--out", out]
    outcome = desim(*arguments)
    assert outcome.status == 0
    files = {path.name for path in out.iterdir()}
    of_runs, of_agents = (
        ("gantt", "utilization", "queue", "waiting"),
        ("metrics", "profiles", "distribution", "over-time"),
    )
    figures = {f"{name}.png" for name in (*of_runs, *of_agents)}
    assert files == {"runs", "comparison.csv", "comparison.json", "study.toml", "view.html"} | figures
    for name in files - {"runs"}:
        assert f"written: {out / name}\n" in outcome.out
    document = json.loads((out / "comparison.json").read_text())
    rows = list(csv.DictReader((out / "comparison.csv").read_text().splitlines()))
    for agent, metric in (("easy-fcfs", "waiting_time_mean"), ("fcfs", "utilization")):
        (row,) = (row for row in rows if row["agent"] == agent and row["metric"] == metric)
        assert float(row["mean"]) == document["means"][agent][metric]["mean"]
        assert (row["difference_mean"] == "") == (agent == "fcfs")
        assert row["seeds"] == "2"
    html = (out / "view.html").read_text()
    assert "95 % confidence" in html
    assert "Difference from fcfs, paired by seed" in html
    for run in document["runs"]:
        result = Result.load(run["records"])
        assert result.info["agent"] == run["agent"]
        assert result.metrics()["waiting_time_mean"] == run["metrics"]["waiting_time_mean"]
        assert desim("validate", run["records"]).status == 0
    assert json.loads(desim(*arguments, "--json").out)["means"] == document["means"]


@pytest.mark.usefixtures("no_figures")
def test_stored_runs_are_not_repeated(desim: Desim, tmp_path: Path, simulated: list[tuple[str, int]]) -> None:
    arguments = ["compare", "batch", *SMALL, "--out", tmp_path, "--seeds", "2", "--agents"]
    first = desim(*arguments, "fcfs,easy")
    assert sorted(simulated) == [("easy-fcfs", 0), ("easy-fcfs", 1), ("fcfs", 0), ("fcfs", 1)]
    simulated.clear()
    again = desim(*arguments, "fcfs,easy")
    assert simulated == []
    assert "4 runs, 4 of them from the store" in again.out
    assert first.out.partition("4 runs")[0] == again.out.partition("4 runs")[0]
    desim(*arguments, "fcfs,easy-fcfs,sjf", "--warm-up", "1000")
    assert simulated == [("sjf", 0), ("sjf", 1)]


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "change",
    [["--jobs", "61"], ["--load", "0.8"], ["--until", "30000"], ["--no-enforce-time-limit"], ["--overestimate", "2"]],
)
def test_other_settings_are_other_runs(
    desim: Desim, tmp_path: Path, simulated: list[tuple[str, int]], change: list[str]
) -> None:
    arguments = ["compare", "batch", *SMALL, "--out", tmp_path, "--seeds", "1", "--agents", "fcfs"]
    assert desim(*arguments).status == desim(*arguments, *change).status == 0
    assert len(simulated) == 2
    assert desim(*arguments).status == 0
    assert len(simulated) == 2


@pytest.mark.usefixtures("no_figures")
def test_other_code_is_another_run(
    desim: Desim, tmp_path: Path, simulated: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["compare", "batch", *SMALL, "--out", tmp_path, "--seeds", "1", "--agents", "fcfs"]
    desim(*arguments)
    for module in (runner, recording):
        monkeypatch.setattr(module, "source_digest", lambda *modules, as_in_files=False: "changed")
    desim(*arguments)
    assert len(simulated) == 2


def test_the_code_of_a_run_counts() -> None:
    names = modules_behind("desim.core", "desim.problems.dag.options", *plugins.modules("dag"))
    needed = {"desim.core", "desim.problems.dag.options", "desim.problems.dag.cluster", "desim.agents.dag.registry"}
    assert needed | {"desim.workloads.dag.tpch"} <= set(names)
    assert not [name for name in names if name.startswith(("desim.cli.app", "desim.plotting", "desim.agents.batch"))]


@pytest.mark.usefixtures("no_figures")
def test_metrics_of_stored_runs_follow_the_options(desim: Desim, tmp_path: Path) -> None:
    arguments = ["compare", "batch", *SMALL, "--seeds", "1", "--agents", "fcfs", "--json"]
    options = ["--warm-up", "20000", "--unfinished", "include", "--until", "60000"]
    desim(*arguments, "--until", "60000", "--out", tmp_path)
    stored = json.loads(desim(*arguments, *options, "--out", tmp_path).out)
    fresh = json.loads(desim(*arguments, *options).out)
    assert stored["runs"][0]["reused"] is True
    assert stored["means"] == fresh["means"]
    assert stored["means"] == json.loads(desim(*arguments, *options, "--out", tmp_path).out)["means"]


@pytest.mark.usefixtures("no_figures")
def test_a_file_is_known_by_its_content(
    desim: Desim, log: Path, tmp_path: Path, simulated: list[tuple[str, int]]
) -> None:
    arguments = ["compare", "batch", "--agents", "fcfs,sjf", "--workers", "1", "--out", tmp_path / "out", "--trace"]
    first = desim(*arguments, log)
    assert len(simulated) == 2
    assert "Metrics: one run each" in first.out
    moved = log.rename(tmp_path / "moved.swf")
    desim(*arguments, moved)
    assert len(simulated) == 2
    moved.write_text(moved.read_text().replace("9 40 -1 5", "9 40 -1 4"))
    desim(*arguments, moved)
    assert len(simulated) == 4
    outages = ["--mean-time-to-failure", "100", "--mean-time-to-repair", "9", "--seeds", "3"]
    desim(*arguments, moved, *outages)
    assert len(simulated) == 4 + 6


@pytest.mark.usefixtures("no_figures")
def test_an_interrupted_comparison_goes_on(
    desim: Desim, tmp_path: Path, simulated: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["compare", "batch", *AGENTS, *SMALL, "--seeds", "2", "--out", tmp_path]
    with monkeypatch.context() as patch:
        replay = command.replay

        def press_ctrl_c(*given: Any, **options: Any) -> Any:
            if len(simulated) == 4:
                raise KeyboardInterrupt
            return replay(*given, **options)

        patch.setattr(command, "replay", press_ctrl_c)
        outcome = desim(*arguments)
    assert outcome.status == 1
    assert "4 of 6 runs are stored" in outcome.err
    assert "run the same command again to continue" in outcome.err
    assert not list((tmp_path / "runs").glob(".*"))
    outcome = desim(*arguments)
    assert outcome.status == 0
    assert len(simulated) == 6
    assert "6 runs, 4 of them from the store" in outcome.out


def test_ctrl_c_stops_all_processes(tmp_path: Path) -> None:
    arguments = [
        "compare",
        "batch",
        "--agents",
        "fcfs,easy",
        "--jobs",
        "300000",
        "--workers",
        "2",
        "--out",
        str(tmp_path),
    ]
    code = f"{INTERRUPTIBLE}import sys; from desim.cli import main; sys.exit(main({arguments!r}))"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not list(tmp_path.glob("runs/.*/result.json")):  # simulations, each of minutes, have begun
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 1
    assert "Traceback" not in told
    assert "of 20 runs are stored" in told
    with pytest.raises(ProcessLookupError):
        while True:
            os.killpg(process.pid, 0)
            time.sleep(0.01)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_that_fails_is_named(desim: Desim, log: Path, workers: str) -> None:
    arguments = ["--agents", "fcfs,sjf", "--trace", log, "--cores", "4", "--workers", workers]
    outcome = desim("compare", "batch", *arguments)
    assert outcome.status == 2
    assert "desim: error: fcfs, seed 0: job 2 requests 8 cores" in outcome.err or "error: sjf, seed 0" in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_infeasible_action_is_a_failed_run(desim: Desim, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise InfeasibleAction("time 0: job 1 cannot start")

    monkeypatch.setattr(command, "replay", fail)
    outcome = desim("compare", "batch", *AGENTS, *SMALL)
    assert outcome.status == 1
    assert "fcfs, seed 0: time 0: job 1 cannot start" in outcome.err


OWN = """
class Breaks:
    def act(self, observation):
        return 1 // 0

class Waits:
    def act(self, observation):
        return None
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_others_go_on_when_an_agent_fails(
    desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    (tmp_path / "breaking_agents.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    agents = [
        "--agents",
        "breaking_agents:Breaks,fcfs,sjf",
        "--workers",
        workers,
        "--baseline",
        "breaking_agents:Breaks",
    ]
    outcome = desim("compare", "batch", *agents, *SMALL, "--seeds", "2")
    assert outcome.status == 1
    assert "Difference from fcfs" in outcome.out and "4 runs" in outcome.out and "Breaks" not in outcome.out
    assert "breaking_agents:Breaks failed and is left out (seed 0, 1): ZeroDivisionError" in outcome.err
    assert "in act" in outcome.err  # where it happened
    outcome = desim("compare", "batch", "--agents", "breaking_agents:Waits,fcfs", *SMALL, "--seeds", "1")
    assert outcome.status == 0 and "breaking_agents:Waits, seed 0: stalled: work remains" in outcome.err


@pytest.mark.parametrize("metric", ["wait_mean", "jobs_queued"])
def test_metrics_are_known_before_the_first_run(desim: Desim, monkeypatch: pytest.MonkeyPatch, metric: str) -> None:
    monkeypatch.setattr(command, "replay", None)
    outcome = desim("compare", "batch", *AGENTS, *SMALL, "--metric", metric)
    assert outcome.status == 2 and outcome.out == ""
    told = "(did you mean 'waiting_time_mean'?), expected" if metric == "wait_mean" else "give --better lower"
    assert told in outcome.err


@pytest.mark.usefixtures("no_figures")
def test_runs_that_are_not_valid_are_told(desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[..., Any] = command.checked

    def checked(*arguments: Any) -> Any:
        found, words = original(*arguments)
        return found | {"valid": False, "counts": {"capacity": 1}}, words

    arguments = ["compare", "batch", *SMALL, "--agents", "fcfs", "--seeds", "1", "--out", tmp_path]
    with monkeypatch.context() as patch:
        patch.setattr(command, "checked", checked)
        outcome = desim(*arguments)
    again = desim(*arguments)
    for told in (outcome, again):
        assert told.status == 1
        assert "0 valid" in told.out
        assert told.err.splitlines()[1:] == ["desim: fcfs, seed 0: invalid: capacity"]


def test_unfinished_jobs_are_told_and_never_best(desim: Desim) -> None:
    outcome = desim("compare", "batch", *AGENTS, *SMALL, "--seeds", "1", "--until", "40000")
    assert outcome.status == 0
    assert "† Runs of fcfs, easy-fcfs, sjf left jobs unfinished" in outcome.out
    cells = [line.split()[1:3] for line in outcome.out.splitlines() if line.startswith("sjf ")]
    assert cells[0][1] == "†"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agents", ","], "--agents: got ',', expected names separated by commas"),
        (["--agents", "fcfs,nope"], "unknown batch agent 'nope'; expected one of fcfs"),
        (["--agents", "fcfs", "--baseline", "sjf"], "expected one of the agents fcfs"),
        (["--agents", "fcfs", "--seeds", "0"], "--seeds: got 0, expected an integer from 1 to 1000000"),
        (["--agents", "fcfs", "--workers", "0"], "--workers: got 0, expected an integer from 1 to 10000"),
        (["--agents", "fcfs", "--trace", "absent.swf"], "cannot be read"),
        (["--agents", "fcfs", "--jobs", "3", "--mean-time-to-repair", "3"], "--mean-time-to-failure"),
    ],
)
def test_unusable_arguments_of_compare(desim: Desim, arguments: list[str], message: str) -> None:
    outcome = desim("compare", "batch", *arguments)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_demo(desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "AGENTS", demo.AGENTS[:3])
    monkeypatch.setattr(demo, "WORKLOAD", replace(demo.WORKLOAD, jobs=40))
    out = tmp_path / "demo"
    outcome = desim("demo", "--out", out, "--workers", "1")
    assert outcome.status == 0
    for agent in demo.AGENTS:
        assert any(line.startswith(agent) for line in outcome.out.splitlines())
    assert f"open {out / 'view.html'}" in outcome.out
    assert (out / "ranks.png").exists()
    assert "30 runs" in outcome.out and "Tests against fcfs" in outcome.out
    assert "too few" not in outcome.out


#: Packages of extras; ``make demo`` installs none of them.
EXTRAS = ("torch", "torch_geometric", "safetensors", "numba", "ortools", "cvxpy", "ray", "dask", "optuna", "sphinx")


def test_demo_needs_no_package_of_an_extra(tmp_path: Path) -> None:
    code = f"""
import sys
from dataclasses import replace
from desim.cli import demo, main

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
demo.AGENTS = demo.AGENTS[::3]
demo.WORKLOAD = replace(demo.WORKLOAD, jobs=40)
sys.exit(main(["demo", "--workers", "1"]))
"""
    outcome = subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "demo" / "view.html").exists()
