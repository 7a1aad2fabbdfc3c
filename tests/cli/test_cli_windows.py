"""Comparisons over windows of a log: pairs by window, on the command line, in Python, and of a user's own problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import desim
from desim.agents.batch import create
from desim.cli import main
from desim.exceptions import DesimError, InvalidConfiguration
from desim.plotting import mean_curves
from desim.plotting.views import averages
from desim.problem import kind_of
from desim.problems.batch import BatchCluster, Job
from desim.statistics import mean_interval
from desim.workloads import swf
from desim.workloads.batch.transform import offered_load

AGENTS = ["fcfs", "easy-fcfs", "sjf"]
DAY = {"split": "1d", "warm_up": "6h", "cool_down": 7200}
LINE = ["--split", "1d", "--warm-up", "6h", "--cool-down", "7200"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of five days on 16 cores."""
    rng, path = np.random.default_rng(3), tmp_path_factory.mktemp("logs") / "week.swf"
    times = np.sort(rng.integers(0, 5 * 86_400, 200))
    jobs = [
        Job(n, float(time), int(rng.integers(1, 12)), 4e3, float(rng.integers(1, 4e3))) for n, time in enumerate(times)
    ]
    swf.write(path, jobs, header={"Version": 2.2, "MaxProcs": 16})
    return path


def own(rng: np.random.Generator, window: int, path: str) -> BatchCluster:
    """Return a cluster with the jobs of a day; a function of a module, as users write it."""
    return BatchCluster(swf.read(path).jobs.windows("1d", warm_up="6h", cool_down=7200)[window], num_cores=16)


def count_windows(rng: np.random.Generator, window: int) -> BatchCluster:
    """Return a cluster with one job more per window, which are no windows of a log."""
    return BatchCluster([Job(n, 0.0, 1, 10.0, 10.0) for n in range(window + 1)], num_cores=1)


def test_pairs_are_windows(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = desim.compare("batch", AGENTS, trace=str(log), workers=1, baseline="easy-fcfs", **DAY)
    windows = swf.read(log).jobs.windows("1d", warm_up="6h", cool_down="2h")
    assert len(windows) == 4
    rows = [(agent, number) for number in range(4) for agent in AGENTS]
    waits = [
        desim.simulate(BatchCluster(windows[n], 16), create(name)).metrics()["waiting_time_mean"] for name, n in rows
    ]
    assert list(zip(found.runs["agent"], found.runs["window"], strict=True)) == rows and found.runs["valid"].all()
    assert found.runs["waiting_time_mean"].to_list() == waits
    differences = np.array(waits).reshape(4, 3)[:, 0] - np.array(waits).reshape(4, 3)[:, 1]
    estimate = mean_interval(differences)
    assert found.differences["fcfs"]["waiting_time_mean"][:3] == (estimate.mean, estimate.low, estimate.high)
    assert found.ranking is not None and found.ranking.num_scenarios == 4
    assert "means over 4 windows" in str(found) and "Of 3 pairs of neighbouring windows, 3 touch" in str(found)
    assert repr(found).startswith("Comparison(batch: fcfs, easy-fcfs, sjf; 4 windows")

    line = ["compare", "batch", "--agents", ",".join(AGENTS), "--trace", str(log), "--workers", "1", *LINE, "--json"]
    assert main([*line, "--baseline", "easy"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["metrics"]["waiting_time_mean"] for run in told["runs"]] == waits
    assert told["pair"] == "window" and [run["window"][0] for run in told["runs"]] == [n for _, n in rows]
    assert main(["run", "batch", "--agent", "sjf", "--trace", str(log), *LINE, "--window", "2", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["metrics"]["waiting_time_mean"] == waits[rows.index(("sjf", 2))]
    assert main(["run", "batch", "--agent", "sjf", "--trace", str(log), *LINE, "--window", "2"]) == 0
    assert "week.swf, window 2" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_runs_of_windows_are_found_again(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"trace": str(log), "workers": 1, "out": tmp_path}
    found = desim.compare("batch", ["fcfs"], **options, **DAY | {"warm_up": "5h"})
    assert desim.compare("batch", ["fcfs"], **options, **DAY).all_runs[0].reused is False
    again = desim.compare("batch", ["fcfs"], **options, **DAY | {"warm_up": "5h"})
    assert [one.reused for one in found.all_runs + again.all_runs] == [False] * 4 + [True] * 4
    assert found.runs.drop("reused").equals(again.runs.drop("reused"))
    assert again.result("fcfs", 3).metrics() == found.all_runs[3].metrics
    assert main(["compare", str(tmp_path / "study.toml"), "--workers", "1"]) == 0
    assert "means over 4 windows" in capsys.readouterr().out  # the study says how the log is cut


def test_a_function_gets_the_number_of_the_window(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = desim.compare(own, ["fcfs", "easy"], windows=4, path=str(log), workers=1)
    same = desim.compare("batch", ["fcfs", "easy"], trace=str(log), workers=1, **DAY)
    assert found.runs["waiting_time_mean"].equals(same.runs["waiting_time_mean"])
    assert "Of 3 pairs of neighbouring windows, 3 touch" in str(found)
    line = ["compare", f"{__name__}:count_windows", "--agents", "fcfs", "--windows", "3", "--workers", "1"]
    assert main(line) == 0
    told = capsys.readouterr().out
    assert "means over 3 windows" in told and "neighbouring" not in told  # their places are unknown
    counted = desim.compare(count_windows, ["fcfs"], windows=3, workers=1)
    assert counted.runs["jobs_submitted"].to_list() == [1, 2, 3]


def test_a_sample_and_a_thinned_log(log: Path) -> None:
    found = desim.compare("batch", ["fcfs"], trace=str(log), workers=1, sample="4x30jobs", seed=2)
    expected = swf.read(log).jobs.windows("30jobs", sample=4, seed=2)
    assert found.runs["jobs_submitted"].to_list() == [len(one) for one in expected] == [30] * 4
    assert found.windows == tuple(one.window for one in expected)
    offered = offered_load(swf.read(log).jobs, 16)
    thinned = desim.compare("batch", ["fcfs"], trace=str(log), workers=1, seeds=2, load=offered / 2, load_by="thinning")
    assert thinned.runs["offered_load"].to_numpy() == pytest.approx([offered / 2] * 2, rel=0.05)
    assert thinned.runs["jobs_submitted"].n_unique() == 2  # each seed leaves out other jobs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seeds": 10}, r"seeds: got 10, but week\.swf is the same for all seeds: nothing in it is drawn; .*split"),
        ({"seeds": [4, 7]}, r"seeds: got \[4, 7\], but week\.swf is the same for all seeds"),
        ({"seeds": 2, "split": "1d"}, r"seeds: got 2, but the 4 windows of week\.swf are compared; leave seeds out"),
        ({"split": "1d", "sample": "2x1d"}, "got split 1d and sample 2x1d, expected one of them"),
        ({"window": 2}, "got neither split nor sample, expected one of them"),
        ({"window": 6, "split": "1d"}, "window: got 6, expected an integer from 0 to 3"),
        ({"sample": "2000jobs"}, "sample: got '2000jobs', expected COUNTxLENGTH, such as 20x2000jobs or 40x7d"),
        ({"split": "1d", "until": 5.0}, "until: got 5.0, but in a window time 0 is the begin of its warm-up"),
        ({"warm_up": "20jobs"}, "warm_up: got '20jobs' without windows, expected a time such as 86400 or 1d"),
        ({"load_by": "thinning"}, "load_by: got 'thinning', which needs a load to reach"),
    ],
)
def test_what_makes_no_sense_is_refused(log: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        desim.compare("batch", ["fcfs"], trace=str(log), workers=1, **given)


def test_seeds_that_give_the_same_runs_are_refused() -> None:
    fixed = BatchCluster([Job(0, 0.0, 1, 10.0, 10.0)], num_cores=1)
    with pytest.raises(
        InvalidConfiguration, match=r"seeds: got 2, but all of them gave the same runs: nothing is drawn"
    ):
        desim.compare(fixed, ["fcfs"], seeds=2, workers=1)
    assert desim.compare(fixed, ["fcfs"], workers=1).seeds == [0]


def test_a_run_needs_the_number_of_a_window(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "batch", "--trace", str(log), "--split", "1d"]) == 2
    assert "window: got none of the 4 windows of week.swf; give the number" in capsys.readouterr().err
    with pytest.raises(DesimError, match=r"it takes \(rng: .*, window: "):
        desim.compare(count_windows, ["fcfs"], workers=1)


@pytest.mark.usefixtures("no_figures")
def test_figures_show_what_metrics_measure(log: Path, tmp_path: Path) -> None:
    """Not the jobs and the hours of warm-up and cool-down."""
    found = desim.compare("batch", ["fcfs"], trace=str(log), workers=1, out=tmp_path, **DAY)
    results = found.results["fcfs"]
    views = [kind_of(result).view(result) for result in results]
    measured = [one.metrics["waiting_time_mean"] for one in found.all_runs]
    assert [view.spread_values().mean() for view in views] == pytest.approx(measured)
    assert any(len(view.spread_values()) < len(view.jobs) for view in views)
    panel = mean_curves({"fcfs": results}, bin_width=3600.0)[0]
    assert panel.get_xlim()[1] <= 86_400.0
    begins = [view.measured[0] if view.measured else 0.0 for view in views]
    first = np.mean(
        [averages(v.curves, b + np.array([0.0, 3600.0]))["utilization"][0] for v, b in zip(views, begins, strict=True)]
    )
    assert panel.lines[0].get_ydata()[0] == pytest.approx(first)
