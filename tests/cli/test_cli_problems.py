"""``desim run``, ``compare``, ``plot``, ``validate`` and ``list`` for all problems: what is simulated, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from command_line import Desim

from desim import Result, simulate
from desim.agents.dag import registry as dag_agents
from desim.agents.deferrable import registry as deferrable_agents
from desim.agents.multiserver import registry as multiserver_agents
from desim.problem import kind_of
from desim.problems.dag import DagCluster, Executors, Job
from desim.problems.deferrable import DeferrableCluster
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import wfformat
from desim.workloads.dag.registry import draw as draw_dags
from desim.workloads.deferrable.registry import draw as draw_deferrable
from desim.workloads.multiserver.registry import draw as draw_system


class Case(NamedTuple):
    """A problem, a small workload of it, and how the same is made without the command line."""

    options: list[str]
    agents: list[str]
    make: Callable[[np.random.Generator, str], Any]
    create: Callable[[str], Any]
    kinds: list[str]
    same: list[str]
    other: list[str]


def dag(rng: np.random.Generator, agent: str) -> DagCluster:
    jobs, executors = draw_dags(rng, num_jobs=2, num_executors=3, mean_interval=20.0, ccr=1.0)
    return DagCluster(jobs, executors, plan_ahead=agent == "heft")


def deferrable(rng: np.random.Generator, agent: str) -> DeferrableCluster:
    scenario = draw_deferrable(rng, settings="fluctuating", num_slots=12, slack=3, cores=[1, 2, 4, 8])
    return DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=12, delay_weight=1.5, overcommit=False)


def multiserver(rng: np.random.Generator, agent: str) -> MultiServerCluster:
    rewards, arrivals = draw_system(rng, num_slots=6, num_ports=3, num_nodes=5, probability=0.5)
    return MultiServerCluster(rewards, arrivals)


CASES = {
    "dag": Case(
        ["--jobs", "2", "--executors", "3", "--mean-interval", "20", "--ccr", "1"],
        ["heft", "fifo-eft", "rank-up-deft"],
        dag,
        dag_agents.create,
        ["gantt", "utilization", "jobs", "executors"],
        ["job_id", "submission_time", "work", "data_size"],
        ["--ccr", "2"],
    ),
    "deferrable": Case(
        [
            *("--workload", "fluctuating", "--slots", "12", "--set", "slack=3", "--set", "cores=[1, 2, 4, 8]"),
            *("--delay-weight", "1.5", "--no-overcommit"),
        ],
        ["fifo", "tetris", "earliest-deadline"],
        deferrable,
        deferrable_agents.create,
        ["gantt", "capacity", "work"],
        ["job_id", "submission_time", "earliest_start", "latest_start", "requested_time", "requested_cores"],
        ["--set", "lead_time=1"],
    ),
    "multiserver": Case(
        ["--slots", "6", "--ports", "3", "--nodes", "5", "--probability", "0.5"],
        ["exact-oga-reactive", "drf", "fairness"],
        multiserver,
        multiserver_agents.create,
        ["allocation", "reward", "parts", "resources"],
        ["job_id", "port", "submission_time"],
        ["--contention", "3"],
    ),
}
problems = pytest.mark.parametrize("problem", CASES)


def by_hand(problem: str, agent: str, seed: int) -> Result:
    """Simulate without the command line."""
    case = CASES[problem]
    return simulate(case.make(np.random.default_rng(seed), agent), case.create(agent), seed=seed)


def plain(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in metrics.items()}


@problems
def test_records_and_metrics_are_those_of_simulate(desim: Desim, tmp_path: Path, problem: str) -> None:
    case, out = CASES[problem], tmp_path / "out"
    agent = case.agents[0]
    outcome = desim("run", problem, *case.options, "--agent", agent, "--seed", "3", "--out", out, "--json")
    assert outcome.status == 0
    assert outcome.err == ""
    expected, document = by_hand(problem, agent, 3), json.loads(outcome.out)
    assert Result.load(out).jobs.equals(expected.jobs)
    assert document["metrics"] == plain(expected.metrics())
    assert document["run"] == json.loads(json.dumps(expected.info))
    assert document["validation"]["valid"] is True
    assert "conservation" in document["validation"]["checks"]
    assert document["options"]["seed"] == 3
    validated = desim("validate", out)
    assert validated.status == 0
    assert validated.out.startswith("valid: ")


@problems
def test_the_table_names_every_metric_with_its_meaning(desim: Desim, problem: str) -> None:
    case = CASES[problem]
    outcome = desim("run", problem, *case.options)
    assert outcome.status == 0
    metrics = by_hand(problem, case.agents[0], 0).metrics()
    rows = {line.split()[0]: line.split() for line in outcome.out.splitlines() if line}
    assert all(len(rows[name]) > 2 for name in metrics)
    assert "seed 0: complete at" in outcome.out


@problems
def test_figures_of_stored_runs(desim: Desim, tmp_path: Path, problem: str) -> None:
    case = CASES[problem]
    for agent in case.agents[:2]:
        assert desim("run", problem, *case.options, "--agent", agent, "--out", tmp_path / agent).status == 0
    outcome = desim("plot", *(tmp_path / agent for agent in case.agents[:2]), "--out", tmp_path / "figures")
    assert outcome.status == 0
    assert outcome.out.split() == [str(tmp_path / "figures" / f"{kind}.png") for kind in case.kinds]
    assert all(Path(name).read_bytes().startswith(b"\x89PNG") for name in outcome.out.split())
    outcome = desim("plot", tmp_path / case.agents[0], "--kind", "pie")
    assert outcome.status == 2
    assert f"--kind: got 'pie', expected some of {','.join(kind_of(problem).figures)}" in outcome.err


@problems
@pytest.mark.usefixtures("no_figures")
def test_all_agents_have_the_same_workload(desim: Desim, tmp_path: Path, problem: str, simulated: list[Any]) -> None:
    case = CASES[problem]
    arguments = ["compare", problem, *case.options, "--agents", ",".join(case.agents), "--seeds", "2", "--seed", "5"]
    arguments += ["--workers", "1", "--out", str(tmp_path), "--json"]
    outcome = desim(*arguments)
    assert outcome.status == 0
    assert outcome.err == "comparison: 6 runs to do, 0 already stored\n"
    assert sorted(simulated) == sorted((agent, seed) for agent in case.agents for seed in (5, 6))
    document = json.loads(outcome.out)
    assert document["baseline"] == case.agents[0]
    tables, digests = {}, {}
    for run in document["runs"]:
        result = Result.load(run["records"])
        assert run["metrics"] == plain(by_hand(problem, run["agent"], run["seed"]).metrics())
        assert run["valid"] is True
        tables.setdefault(run["seed"], []).append(result.jobs.select(case.same))
        digests.setdefault(run["seed"], set()).add(run["workload"])
    for seed in (5, 6):
        first, *others = tables[seed]
        assert len(others) == 2
        assert all(first.equals(other) for other in others)
        assert len(digests[seed]) == 1
    assert not tables[5][0].equals(tables[6][0])
    assert digests[5] != digests[6]

    simulated.clear()
    again = json.loads(desim(*arguments).out)
    assert simulated == []
    assert all(run["reused"] for run in again["runs"])
    assert again["means"] == document["means"]
    assert desim(*arguments, *case.other).status == 0
    assert len(simulated) == 6


def test_a_report_of_dag_runs(desim: Desim, tmp_path: Path) -> None:
    case, out = CASES["dag"], tmp_path / "out"
    agents = ["--agents", ",".join(case.agents), "--seeds", "3", "--workers", "1"]
    assert desim("compare", "dag", *case.options, *agents, "--out", out).status == 0
    files = {path.name for path in out.iterdir()}
    of_agents = ("metrics", "ranks", "profiles", "distribution", "over-time")
    figures = {f"{name}.png" for name in (*case.kinds, *of_agents)}
    assert files == {"runs", "comparison.csv", "comparison.json", "study.toml", "view.html"} | figures
    html = (out / "view.html").read_text()
    for text in ("makespan (s)", "Nemenyi", "Wilcoxon", "Performance profiles", "executors", "plan_ahead"):
        assert text in html


def test_agents_that_plan_ahead_get_a_system_that_lets_them(desim: Desim) -> None:
    arguments = ["dag", *CASES["dag"].options, "--json"]

    def plans(agent: str, choice: str) -> bool:
        outcome = desim("run", *arguments, "--agent", agent, "--plan-ahead", choice)
        assert outcome.status == 0
        return bool(json.loads(outcome.out)["run"]["plan_ahead"])

    assert plans("heft", "auto") and plans("tdca", "auto") and plans("cpop", "auto")
    assert not plans("fifo-eft", "auto")
    assert plans("fifo-eft", "yes")
    assert not plans("fifo-eft", "no")
    outcome = desim("run", *arguments, "--agent", "heft", "--plan-ahead", "no")
    assert outcome.status == 2
    assert "plan_ahead" in outcome.err


def test_two_sizes_of_a_file_are_shown(desim: Desim, tmp_path: Path) -> None:
    path = tmp_path / "x.dax"
    path.write_text(
        '<adag version="2.1"><job id="a" runtime="1"><uses file="f" link="output" size="10"/></job>'
        '<job id="b" runtime="1"><uses file="f" link="input" size="12"/></job>'
        '<child ref="b"><parent ref="a"/></child></adag>'
    )
    shown = desim("run", "dag", "--trace", path)
    assert shown.status == 0 and ", seed 0" in shown.out
    assert "size where a file is read, if its writer states another" in shown.out
    assert "x.dax: 'f' has 10 bytes in 'a', 12 in 'b'" in shown.out
    repairs = json.loads(desim("run", "dag", "--trace", path, "--json").out)["workload"]["repairs"]
    assert (repairs["rows"], repairs["reasons"]["other_size"]["count"]) == (2, 1)
    path.write_text(path.read_text().replace("12", "10"))
    assert json.loads(desim("run", "dag", "--trace", path, "--json").out)["workload"]["repairs"] is None


def test_recorded_workflows(desim: Desim, tmp_path: Path) -> None:
    small = Job(0, [2.85, 5.7], [(0, 1, 1e6)], names=["a", "b"], label="small")
    large = Job(0, [2.85, 2.85, 5.7], [(0, 2, 0.0), (1, 2, 4e6)], names=["a", "b", "c"], label="large")
    for job in (small, large):
        wfformat.write(tmp_path / f"{job.label}.json", job, reference_speed=2.85)
    (tmp_path / "again.json").write_text((tmp_path / "small.json").read_text())
    trace = f"{tmp_path / 'small.json'},{tmp_path / 'large.json'}"

    def run(*more: object) -> dict[str, Any]:
        outcome = desim("run", "dag", "--executors", "2", "--json", *more)
        assert outcome.status == 0, outcome.err
        found: dict[str, Any] = json.loads(outcome.out)
        return found

    both = run("--trace", trace, "--out", tmp_path / "out")
    assert both["metrics"]["num_nodes"] == 5
    assert both["run"]["transfer_speed"] == 1.25e8
    assert Result.load(tmp_path / "out").jobs["label"].to_list() == ["small", "large"]
    assert Result.load(tmp_path / "out").jobs["data_size"].to_list() == [1e6, 4e6]
    assert run("--workload", trace, "--jobs", "7")["metrics"]["jobs_submitted"] == 7
    run("--trace", trace, "--ccr", "3", "--out", tmp_path / "ccr")
    sized = Result.load(tmp_path / "ccr")
    seconds = np.mean(1.0 / np.array(sized.info["speeds"]))  # that a unit of work takes on the mean executor
    expected = [3 * 1.25e8 * 1 * seconds * 8.55 / 2, 3 * 1.25e8 * 2 * seconds * 11.4 / 3]
    assert sized.jobs["data_size"].to_list() == pytest.approx(expected)  # ratio x speed x edges x mean run time
    executors = Executors([1.0, 2.0], transfer_speed=5.0)
    wfformat.write(tmp_path / "placed.json", small, reference_speed=2.85, executors=executors)
    assert run("--trace", tmp_path / "placed.json")["run"]["transfer_speed"] == 5.0
    outcome = desim("run", "dag", "--trace", tmp_path / "placed.json", "--transfer-speed", "7")
    assert outcome.status == 2 and "--transfer-speed: got 7.0, but" in outcome.err
    for name, message in (("tpcc", "no such file or generated workload"), ("x.swf", "suffix"), ("x.json", "x.json")):
        outcome = desim("run", "dag", "--trace", name)
        assert outcome.status == 2
        assert message in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "chess"],
            "unknown problem 'chess'; expected one of batch, dag, deferrable, multiserver, or MODULE:FUNCTION",
        ),
        (["compare", "dag", "--agents", "eft"], "unknown dag agent 'eft' (did you mean 'peft'?); expected one of heft"),
        (["compare", "dag", "--agents", "fcfs"], "unknown dag agent 'fcfs': it is an agent for problem 'batch'"),
        (["run", "dag", "--executors", "0"], "--executors: got 0"),
        (["run", "dag", "--mean-time-to-failure", "5"], "--mean-time-to-repair"),
        (
            ["run", "deferrable", "--workload", "busy"],
            "unknown deferrable workload 'busy'; expected one of default, fluctuating",
        ),
        (
            ["run", "deferrable", "--set", "speed=4"],
            "unknown parameter 'speed' of deferrable jobs; expected one of num_slots, day_slots",
        ),
        (["run", "deferrable", "--set", "slack"], "--set: got slack, expected NAME=VALUE"),
        (["run", "deferrable", "--set", "slack=1", "--set", "slack=2"], "slack is given twice"),
        (["run", "deferrable", "--slots", "-1"], "--slots: got -1"),
        (["run", "multiserver", "--probability", "2"], "probability"),
        (
            ["compare", "multiserver", "--agents", "drf", "--metric", "speed"],
            "--metric: got speed (did you mean 'speed_mean'?), expected one of num_slots",
        ),
        (["compare", "multiserver", "--agents", "drf", "--metric", "utilization_cpu"], "give --better lower or"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(desim: Desim, arguments: list[str], message: str) -> None:
    small = CASES["multiserver"].options if arguments[1] == "multiserver" and "--metric" in arguments else []
    outcome = desim(*arguments, *small, *(["--seeds", "1", "--workers", "1"] if small else []))
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_results_of_different_problems_are_not_drawn_together(desim: Desim, stored: Path, tmp_path: Path) -> None:
    options = CASES["deferrable"].options
    assert desim("run", "deferrable", *options, "--out", tmp_path / "slots").status == 0
    outcome = desim("plot", stored, tmp_path / "slots")
    assert outcome.status == 2
    assert "different problems: batch, deferrable" in outcome.err
    outcome = desim("validate", tmp_path / "slots", "--trace", "lublin")
    assert outcome.status == 2
    assert "--trace is for batch" in outcome.err


def test_figures_that_need_what_was_not_recorded_are_left_out(desim: Desim, tmp_path: Path) -> None:
    options = [*CASES["multiserver"].options, "--record-allocations", "0"]
    assert desim("run", "multiserver", *options, "--out", tmp_path / "run").status == 0
    outcome = desim("plot", tmp_path / "run", "--out", tmp_path / "figures")
    assert outcome.status == 0
    assert "no figure 'allocation'" in outcome.err
    assert len(outcome.out.split()) == 3
    assert desim("plot", tmp_path / "run", "--kind", "allocation").status == 2


def test_jobs_that_hold_what_they_get_have_waiting_times(desim: Desim) -> None:
    options = CASES["multiserver"].options
    outcome = desim("run", "multiserver", *options, "--agent", "fairness", "--work", "50")
    assert outcome.status == 0
    assert "waiting_time_mean" in outcome.out and "valid: " in outcome.out + outcome.err
    assert "waiting_time_mean" not in desim("run", "multiserver", *options, "--agent", "fairness").out


@problems
def test_a_seed_below_0_is_refused(desim: Desim, problem: str) -> None:
    outcome = desim("run", problem, *CASES[problem].options, "--seed", "-1")
    assert outcome.status == 2
    assert outcome.err == "desim: error: --seed: got -1, expected an integer >= 0\n"


@problems
def test_formats_of_batch_take_no_other_results(desim: Desim, tmp_path: Path, problem: str) -> None:
    by_hand(problem, CASES[problem].agents[0], 0).save(tmp_path / "stored")
    for target, form in (("a.csv", "batsim-csv"), ("a.json", "chrome-trace")):
        outcome = desim("convert", tmp_path / "stored", tmp_path / target, "--to", form)
        assert outcome.status == 2
        assert outcome.err == f"desim: error: got a result of {problem}, expected one of batch for this format\n"
    assert desim("convert", tmp_path / "stored", tmp_path / "a.csv").status == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "stored"]
