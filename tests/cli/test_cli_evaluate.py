"""``desim evaluate``: the same episodes for all agents, means and differences, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Desim
from scipy import stats

from desim import Simulation
from desim.agents.batch import create
from desim.agents.batch.split_window import SplitWindowConfig
from desim.agents.learning.checkpoint import save_weights
from desim.agents.learning.learned import plain
from desim.cli.evaluate import METRICS
from desim.problems.batch import BatchCluster, Job
from desim.workloads import lublin, swf

TRACE = ("--jobs", "400", "--cores", "32", "--seed", "5", "--load", "1.1")
SMALL = ("evaluate", "batch", *TRACE, "--episodes", "4", "--episode-jobs", "60")


def episodes(jobs: list[Job], count: int, length: int, seed: int, arrivals: str) -> list[list[Job]]:
    """Cut episodes out of a trace by hand."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        rng.integers(1)  # the trace, of one
        behind = length if arrivals == "closed" else 2 * length
        start = int(rng.integers(len(jobs) - behind + 1))
        part = jobs[start : start + length] if arrivals == "closed" else jobs[start:]
        found.append([job._replace(submission_time=job.submission_time - part[0].submission_time) for job in part])
    return found


def mean_wait(jobs: list[Job], agent: Any, length: int, arrivals: str) -> float:
    """Return the mean waiting time at the length-th start, or when all are done, from the rows of the records."""
    simulation = Simulation(BatchCluster(jobs, 32))
    num_starts = 0

    def count(time: float, subject: Any) -> None:
        nonlocal num_starts
        num_starts += 1
        if num_starts == length and arrivals == "open":
            simulation.stop(truncated=True)

    simulation.problem.on("start", count)
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    now = simulation.end_time
    waits = []
    for row in simulation.finish().jobs.iter_rows(named=True):
        start = row["starting_time"]
        waits.append((now if start is None else start) - row["submission_time"])
    return float(np.mean(waits))


@pytest.mark.parametrize("arrivals", ["open", "closed"])
def test_figures_are_those_of_episodes_that_are_cut_by_hand(arrivals: str, desim: Desim) -> None:
    agents = "backfilling-sjf,fcfs,window-first-4-4"
    outcome = desim(*SMALL, "--agents", agents, "--arrivals", arrivals, "--episode-seed", "3", "--json")
    assert outcome.status == 0
    assert outcome.err == ""
    document = json.loads(outcome.out)
    trace = lublin.generate(400, 32, seed=5, load=1.1)
    waits = {}
    for name in agents.split(","):
        waits[name] = [mean_wait(part, create(name), 60, arrivals) for part in episodes(trace, 4, 60, 3, arrivals)]
        found = [metrics["waiting_time_mean"] for metrics in document["episodes"][name]]
        assert found == pytest.approx(waits[name])
        assert set(document["episodes"][name][0]) == set(METRICS)
    factor = stats.t.ppf(0.975, 3) / 2
    for name, values in waits.items():
        row = document["means"][name]["waiting_time_mean"]
        assert row["mean"] == pytest.approx(np.mean(values))
        assert row["half_width"] == pytest.approx(np.std(values, ddof=1) * factor)
    assert list(document["differences"]) == ["fcfs", "window-first-4-4"]
    for name, row in document["differences"].items():
        difference = np.subtract(waits[name], waits["backfilling-sjf"])
        assert row["waiting_time_mean"]["mean"] == pytest.approx(np.mean(difference))
        assert row["waiting_time_mean"]["half_width"] == pytest.approx(np.std(difference, ddof=1) * factor)


def test_a_log_and_a_table(desim: Desim, tmp_path: Path) -> None:
    jobs = lublin.generate(400, 32, seed=5, load=1.1)
    path = tmp_path / "trace.swf"
    swf.write(path, jobs, header={"MaxProcs": 32})
    arguments = (
        "evaluate",
        "batch",
        "--trace",
        path,
        "--episodes",
        "4",
        "--episode-jobs",
        "60",
        "--agents",
        "sjf,easy",
    )
    outcome = desim(*arguments)
    assert outcome.status == 0
    means = json.loads(desim(*arguments, "--json").out)["means"]
    lines = outcome.out.splitlines()
    assert lines[0] == "Means over 4 episodes ± half width of the 95 % confidence interval"
    rows = [line.split() for line in lines if line.startswith(("sjf ", "easy "))]
    assert [row[0] for row in rows] == ["sjf", "easy", "easy"]
    for row in rows[:2]:
        found = means[row[0]]["waiting_time_mean"]
        digits = 0 if abs(found["mean"]) >= 1000 else 3
        assert row[1:4] == [f"{found['mean']:,.{digits}f}", "±", f"{found['half_width']:,.{digits}f}"]
    assert "Difference from sjf, paired by episode" in lines
    assert rows[2][1][0] in "+-"


def test_one_agent_has_no_differences(desim: Desim) -> None:
    outcome = desim(*SMALL, "--agents", "easy")
    assert outcome.status == 0
    assert "Difference" not in outcome.out
    assert json.loads(desim(*SMALL, "--agents", "easy", "--json").out)["differences"] == {}


def test_more_processes_give_the_same(desim: Desim) -> None:
    first, second = (
        desim(*SMALL, "--agents", "sjf,window-random-4-4", "--json", *more) for more in ((), ("--workers", "2"))
    )
    assert first.status == second.status == 0
    assert json.loads(first.out) == json.loads(second.out)


def test_episodes_do_not_depend_on_how_many_there_are(desim: Desim) -> None:
    found = [
        json.loads(desim(*SMALL, "--agents", "sjf", "--json", "--episodes", number).out)["episodes"]["sjf"]
        for number in ("2", "4")
    ]
    assert found[1][:2] == found[0]
    other = json.loads(desim(*SMALL, "--agents", "sjf", "--json", "--episode-seed", "1").out)["episodes"]["sjf"]
    assert other != found[1]


def test_trained_weights_are_agents_too(desim: Desim, tmp_path: Path) -> None:
    config = SplitWindowConfig(4, 2, hidden=(8,))
    weights = config.policy(np.random.default_rng(0)).state_dict()
    save_weights(tmp_path / "mine", weights, {"agent": "split-window", "config": plain(config)})
    names = [f"split-window:{tmp_path}/mine", f"split-window:{tmp_path}/mine@8-8"]
    outcome = desim(*SMALL, "--agents", ",".join(names), "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    assert list(document["means"]) == names
    assert document["episodes"][names[0]] != document["episodes"][names[1]]


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--agents", "nobody"), "unknown batch agent 'nobody'"),
        (("--agents", "fcfs,split-window:./none"), "no weights at none: none.json is missing"),
        (("--agents", "split-window:none"), "unknown pretrained split-window agent 'none'"),
        (("--agents", ","), "expected different names"),
        (("--agents", "sjf,sjf"), "expected different names"),
        (("--trace", "none.swf"), "none.swf: cannot be read: No such file or directory"),
        (("--episodes", "0"), "got --episodes 0 and --workers 1"),
        (("--workers", "0"), "got --episodes 4 and --workers 0"),
        (("--episode-jobs", "0"), "num_jobs: got 0"),
        (("--episode-jobs", "401"), "traces[0]: got 400 jobs, expected at least num_jobs=401"),
        (("--episode-seed", "-1"), "--episode-seed: got -1"),
        (("--seed", "-1"), "--seed: got -1, expected an integer >= 0"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(
    more: tuple[str, ...], what: str, desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = desim(*SMALL, *more)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith("desim: error: ")
    assert what in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_unknown_problem_is_refused_by_the_parser(desim: Desim) -> None:
    assert desim("evaluate", "chess").status == 2
