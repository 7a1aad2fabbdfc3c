"""Metrics of a user's own: in results, tables, files and ranks, by object, by name, or named by a problem."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import desim
from desim import Metric, Result
from desim.cli import main
from desim.exceptions import ComparisonWarning, InvalidConfiguration
from desim.plotting import comparison_figures
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

SMALL: dict[str, Any] = {"jobs": 30, "cores": 16}
MODULE = """
from desim import Metric
def wait_x(result):
    return result.jobs["waiting_time"].quantile(0.5) * {factor}
longest = Metric("longest", "longest wait", "s", "lower", measure=lambda result: result.jobs["waiting_time"].max())
"""


def longest(result: Result) -> float:
    """Return the longest wait."""
    return float(result.jobs["waiting_time"].max())  # type: ignore[arg-type]


LONGEST = Metric("longest_wait", "longest wait", "s", "lower", measure=longest)


class Mine(BatchCluster):
    """Names a metric."""

    own_metrics = (LONGEST,)


def mine(rng: Any) -> Mine:
    """Return a small cluster."""
    return Mine(lublin.generate(30, 16, seed=int(rng.integers(99))), 16)


def test_in_results() -> None:
    jobs = lublin.generate(30, 16, seed=0)
    plain = desim.simulate(BatchCluster(jobs, 16), "fcfs")
    for found in (
        desim.simulate(BatchCluster(jobs, 16), "fcfs", metrics=[LONGEST]),
        desim.simulate(Mine(jobs, 16), "fcfs"),
    ):
        assert found.metrics() == plain.metrics() | {"longest_wait": longest(plain)}
        assert "longest_wait" in found._repr_html_()
    wrong = {"waiting_time_mean": "there is one of this name", "text": "got 'much', expected a number"}
    for name, message in wrong.items():
        with pytest.raises(InvalidConfiguration, match=message):
            desim.simulate(BatchCluster(jobs, 16), "fcfs", metrics=[Metric(name, measure=lambda _: "much")]).metrics()  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidConfiguration, match=r"expected Metric\(name, measure=FUNCTION_OF_RESULT\)"):
        desim.simulate(BatchCluster(jobs, 16), "fcfs", metrics=[Metric("none")]).metrics()


def waits_measured(result: Result) -> float:
    """Return the mean wait of the measured jobs."""
    return float(result.measured_jobs["waiting_time"].mean())  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"split": "1d"}, {"warm_up": 40_000, "cool_down": 20_000}, {}])
def test_they_can_leave_out_what_the_problem_leaves_out(options: dict[str, Any], tmp_path: Path) -> None:
    mine = Metric("mine", measure=waits_measured)
    given: Any = {"workers": 1, "metrics": [mine], "cores": 32, "jobs": 300, "out": tmp_path / "store"}
    given |= options | ({"warm_up": "6h", "cool_down": "6h"} if "split" in options else {"seeds": 2})
    found = desim.compare("batch", ["fcfs", "easy"], **given)
    for one in found.all_runs:
        assert one.metrics["mine"] == pytest.approx(one.metrics["waiting_time_mean"], rel=1e-12)
        assert not options or one.load().jobs["waiting_time"].mean() != one.metrics["mine"]


def test_of_slots_they_can_leave_out_the_warm_up() -> None:
    counts: Any = [Metric("mine", measure=lambda result: len(result.measured_jobs))]
    found = desim.compare("multiserver", ["fairness"], seeds=2, workers=1, metrics=counts, slots=40, warm_up_slots=10)
    for one in found.all_runs:
        assert one.metrics["mine"] == one.metrics["jobs_submitted"] > 0


def failing(result: Result) -> float:
    """Fail for one agent in one run."""
    if result.info["agent"] == "easy-fcfs" and result.info["seed"] == 1:
        raise ZeroDivisionError("no long job")
    return 1.0


@pytest.mark.parametrize("agents", [["fcfs", "easy"], ["easy"]])
def test_one_that_raises_names_itself_agent_seed_and_line(agents: list[str]) -> None:
    told = (
        r"easy-fcfs, seed 1: metric failing of "
        r"Result\(problem='batch', agent='easy-fcfs', seed=1, status='complete'\): "
        r"ZeroDivisionError: no long job \(.*test_own_metrics.py, line \d+\)"
    )
    given: Any = {"seeds": 3, "workers": 1, "metrics": [Metric("failing", measure=failing)]} | SMALL
    if len(agents) == 1:
        with pytest.raises(desim.DesimError, match=told):
            desim.compare("batch", agents, **given)
        return
    with pytest.warns(ComparisonWarning) as warned:
        found = desim.compare("batch", agents, **given)
    assert list(found.means) == ["fcfs"] and any(re.search(told, str(one.message)) for one in warned)


@pytest.mark.parametrize("problem", ["batch", mine])
def test_in_comparisons(problem: Any) -> None:
    options = {"metrics": [LONGEST]} | SMALL if problem == "batch" else {}
    found = desim.compare(problem, ["fcfs", "sjf"], seeds=3, workers=1, metric="longest_wait", **options)
    assert found.criterion is not None and found.criterion.better == "lower"
    assert "longest_wait" in found.shown and "longest_wait" in found.runs.columns
    assert "longest wait" in str(found).lower().replace("\n", " ")
    assert "longest wait" in comparison_figures(found)["metrics"][0].get_title(loc="left").replace("\n", " ")


def test_by_name_in_all_files_and_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("desim.comparing.draw_figures", lambda *arguments, **look: [])
    means = []
    for factor in (1, 2):
        Path("own_wait.py").write_text(MODULE.format(factor=factor))
        sys.modules.pop("own_wait", None)
        line = ["--agents", "fcfs,sjf", "--jobs", "30", "--cores", "16", "--seeds", "2", "--workers", "1", "--out", "o"]
        assert main(["compare", "batch", *line, "--metric", "own_wait:wait_x", "--better", "lower"]) == 0
        assert f"4 runs, {4 if factor == 2 else 0} of them from the store" in capsys.readouterr().out
        rows = [
            row
            for row in csv.DictReader(Path("o/comparison.csv").read_text().splitlines())
            if row["metric"] == "wait_x"
        ]
        assert [row["agent"] for row in rows] == ["fcfs", "sjf"]
        means.append([float(row["mean"]) for row in rows])
        assert "wait_x" in Path("o/view.html").read_text()
        assert "wait_x" in json.loads(Path("o/comparison.json").read_text())["means"]["fcfs"]
    assert means[1] == pytest.approx([2 * value for value in means[0]])
    assert main(["compare", "batch", *line, "--metric", "own_wait:longest", "--json"]) == 0
    assert "longest" in json.loads(capsys.readouterr().out)["means"]["fcfs"]
    assert main(["compare", "batch", *line, "--metric", "own_wait:wait_x"]) == 2
    assert "give --better lower or higher" in capsys.readouterr().err
    sys.modules.pop("own_wait", None)
