"""Agents and problems of the user's own: ``module:Name`` on the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Desim

from desim import plugins, user_code
from desim.exceptions import InvalidConfiguration
from desim.scenario import system_of
from desim.sweep import simulated
from desim.sweep.digest import modules_behind

AGENTS = """
import os

import numpy as np
from mine_helpers import first_that

class Shortest:
    name = "shortest-that-fits"

    def act(self, observation):
        queue = observation.queue
        return first_that(queue, np.flatnonzero(queue.requested_cores <= observation.free_cores), queue.requested_time)

class WithArguments(Shortest):
    def __init__(self, patience):
        self.patience = patience

class Counting:
    decisions = 0

    def act(self, observation):
        self.decisions += 1
        if self.decisions > 100:
            raise RuntimeError("was used before")

one = Shortest()
counting = Counting()
number = 3

def factory(patience=2):
    return WithArguments(patience)

def nothing():
    return None

class Broken:
    def act(self, observation):
        raise ZeroDivisionError("oh no")

class Reading:
    def act(self, observation):
        open("absent.bin")

class Deadly:
    def act(self, observation):
        os.kill(os.getpid(), 9)
"""
HELPERS = """
def first_that(queue, fits, keys):
    return int(queue.row[fits[keys[fits].argmin()]]) if len(fits) else None
"""
PROBLEM = """
from dataclasses import replace
from desim import Column, ProblemDescriptor, Metric, Metrics, Problem, Table
from desim.problems.batch import BatchCluster
from desim.problems.batch.kind import KIND as BATCH
from desim.workloads import lublin

calls = 0

def make(rng, num_jobs=30, num_cores=16):
    return BatchCluster(lublin.generate(num_jobs, num_cores, rng), num_cores)

def unfair(rng):
    global calls
    calls += 1
    return BatchCluster(lublin.generate(10 + calls, 16, rng), 16)

def measure(result):
    more = {"first_start": result.jobs["starting_time"].min(), "num_decided": len(result.jobs)}
    return BATCH.metrics.measure(result) | more

MORE = (Metric("first_start", "when the first job starts, s", "s", "lower"), Metric("num_decided", "decisions"))

class Measured(BatchCluster):
    metrics = Metrics(BATCH.metrics.described + MORE, measure, headline=("first_start", *BATCH.metrics.headline))
    kind = replace(BATCH, metrics_from=metrics)

def measured(rng):
    return Measured(lublin.generate(10, 16, rng), 16)

CALLS = Table("calls", "a call", (Column("number", "integer", "who"), Column("time", "float", "when", "s")), ("time",))

def measure_tickets(result):
    return {"mean_wait": result.table("calls")["time"].mean(), "customers": len(result.table("calls"))}

TICKETS = ProblemDescriptor(
    name="tickets",
    tables=(CALLS,),
    metrics_from=Metrics(
        (Metric("mean_wait", "how long customers wait, s", "s", "lower"), Metric("customers", "customers")),
        measure_tickets,
        headline=("mean_wait",),
    ),
)

class Tickets(Problem):
    '''Customers draw numbers; the agent calls one of them every minute.'''
    name = "tickets"
    kind = TICKETS

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def begin(self):
        self.env.process(self.run())

    def run(self):
        waiting = list(self.numbers)
        while waiting:
            number = yield self.simulation.decide(waiting)
            waiting.remove(number)
            self.simulation.records.tables["calls"].append((number, self.env.now))
            yield self.env.timeout(1.0 + number)

def tickets(rng, count=4):
    return Tickets(rng.integers(1, 9, count).tolist())

class WithoutMeasure(Tickets):
    kind = None

def unmeasured(rng):
    return WithoutMeasure([1])

def wrong(rng):
    return [1, 2]

class Lowest:
    def act(self, waiting):
        return min(waiting)

class Highest:
    def act(self, waiting):
        return max(waiting)
"""
SMALL = ["--jobs", "40", "--cores", "16", "--seeds", "2", "--workers", "1"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Go to a directory with modules, and forget them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, text in {"mine_agents": AGENTS, "mine_helpers": HELPERS, "mine_problem": PROBLEM}.items():
        (tmp_path / f"{name}.py").write_text(text)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("mine_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("place")
def test_classes_agents_and_functions(desim: Desim) -> None:
    names = ["mine_agents:Shortest", "mine_agents:one", "mine_agents:factory"]
    outcome = desim("compare", "batch", *SMALL, "--agents", ",".join([*names, "fcfs"]), "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    assert list(document["means"]) == [*names, "fcfs"]
    assert document["means"][names[0]] == document["means"][names[1]] == document["means"][names[2]]
    assert document["means"][names[0]] != document["means"]["fcfs"]
    assert document["baseline"] == "fcfs"
    single = desim("run", "batch", "--jobs", "40", "--cores", "16", "--agent", names[0], "--json")
    assert json.loads(single.out)["metrics"] == document["runs"][0]["metrics"]
    assert json.loads(single.out)["run"]["agent"] == "shortest-that-fits"


def test_a_folder_that_is_called_like_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("")
    (tmp_path / "agents" / "mine.py").write_text(AGENTS.replace("mine_helpers", "agents.helpers"))
    (tmp_path / "agents" / "helpers.py").write_text(HELPERS)
    call = [sys.executable, "-P", "-c", "from desim.cli import main; main()", "run", "batch", "--jobs", "5", "--json"]
    done = subprocess.run([*call, "--agent", "agents.mine:Shortest"], cwd=tmp_path, capture_output=True, check=False)
    assert json.loads(done.stdout)["run"]["agent"] == "shortest-that-fits", done.stderr


@pytest.mark.usefixtures("place")
def test_an_agent_in_a_module_is_copied_for_every_run() -> None:
    first, second = (user_code.load_agent("mine_agents:counting") for _ in range(2))
    first.act(None)
    assert first is not second
    assert getattr(second, "decisions") == 0  # noqa: B009


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine_agents:Nope", "no 'Nope' in mine_agents"),
        ("mine_agents:Nope", "there is Broken, Counting, Deadly, Reading, Shortest, WithArguments, counting, factory"),
        ("mine_agents:Shortest.nope", "no 'nope' in Shortest; there is act, name"),
        ("mine_agents:WithArguments", "missing a required argument: 'patience'; it takes (patience)"),
        ("mine_agents:number", "got 3, expected an agent, a class or a function"),
        ("mine_agents:nothing", "NoneType has no method act(observation)"),
        ("mine_nowhere:Agent", "there is no module 'mine_nowhere', neither installed nor in"),
        ("mine_syntax:Agent", "mine_syntax cannot be imported: SyntaxError"),
        ("mine_import:Agent", "mine_import cannot be imported: ModuleNotFoundError: No module named 'mine_missing'"),
        ("mine_error:Agent", "mine_error cannot be imported: KeyError: 'x' ("),
        ("mine_error:Agent", "mine_error.py, line 3)"),
        ("split-window:none", "unknown pretrained split-window agent 'none'"),
    ],
)
def test_what_cannot_be_found_is_named(desim: Desim, place: Path, name: str, message: str) -> None:
    (place / "mine_syntax.py").write_text("class Agent\n")
    (place / "mine_import.py").write_text("import mine_missing\n")
    (place / "mine_error.py").write_text("known = {}\n\nknown['x']\n")
    outcome = desim("run", "batch", "--agent", name, "--jobs", "3")
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_packages_are_asked_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "inspector.py").write_text("class Mine:\n    def act(self, observation):\n        pass\n")
    assert type(plugins.create_agent("batch", "inspector:Mine")).__module__ == "inspector"
    del sys.modules["inspector"]
    with pytest.raises(InvalidConfiguration, match="unknown pretrained"):
        plugins.create_agent("batch", "inspector:Other")
    del sys.modules["inspector"]


@pytest.mark.usefixtures("place")
def test_an_agent_that_fails_shows_where(desim: Desim) -> None:
    outcome = desim("compare", "batch", *SMALL, "--agents", "fcfs,mine_agents:Broken")
    assert outcome.status == 1
    assert "mine_agents.py" in outcome.err
    assert "mine_agents:Broken failed and is left out (seed 0, 1): ZeroDivisionError: oh no\n" in outcome.err
    assert outcome.err.endswith("desim: compared with fcfs: the other agents without failures\n")


def test_a_file_that_an_agent_does_not_find_is_no_fault_of_the_store(desim: Desim, place: Path) -> None:
    arguments = ["compare", "batch", *SMALL, "--agents", "mine_agents:Reading", "--out", place / "out"]
    outcome = desim(*arguments)
    assert outcome.status == 1
    error = "FileNotFoundError: [Errno 2] No such file or directory: 'absent.bin'\n"
    assert outcome.err.endswith(f"desim: error: mine_agents:Reading, seed 0: {error}")
    assert {path.name for path in (place / "out" / "runs").iterdir()} == {"failures", "sweeps"}


@pytest.mark.usefixtures("place")
def test_an_agent_that_ends_its_process_is_named(desim: Desim) -> None:
    arguments = ["--agents", "mine_agents:Deadly", "--jobs", "3", "--cores", "16", "--seeds", "2", "--workers", "2"]
    outcome = desim("compare", "batch", *arguments)
    assert outcome.status == 1
    assert re.search(r"error: mine_agents:Deadly, seed [01]: WorkerCrashed: its process ended by itself", outcome.err)


@pytest.mark.usefixtures("no_figures")
def test_changed_code_is_another_run(desim: Desim, place: Path, simulated: list[tuple[str, int]]) -> None:
    arguments = ["compare", "batch", *SMALL, "--out", place / "out", "--agents", "fcfs,mine_agents:Shortest"]

    def edit(name: str) -> list[str]:
        (place / name).write_text((place / name).read_text() + "\nANOTHER = 1  # line\n")
        simulated.clear()
        sys.modules.pop(name.removesuffix(".py"), None)
        sys.modules.pop("mine_agents", None)
        assert desim(*arguments).status == 0
        return sorted(agent for agent, _ in simulated)

    assert desim(*arguments).status == 0
    assert simulated == [(agent, seed) for seed in (0, 1) for agent in ("fcfs", "mine_agents:Shortest")]
    assert edit("mine_problem.py") == []
    assert edit("mine_agents.py") == ["mine_agents:Shortest"] * 2
    assert edit("mine_helpers.py") == ["mine_agents:Shortest"] * 2  # mine_agents imports it


def test_a_package_of_ones_own(place: Path) -> None:
    (place / "mine_package").mkdir()
    (place / "mine_package" / "__init__.py").write_text("")
    (place / "mine_package" / "agents.py").write_text("from .base import Base\n\nclass Agent(Base):\n    pass\n")
    (place / "mine_package" / "base.py").write_text("class Base:\n    def act(self, observation):\n        pass\n")
    assert user_code.load_agent("mine_package.agents:Agent").act(None) is None


def test_of_a_package_and_a_module_of_one_name_the_package_counts(place: Path) -> None:
    (place / "mine_package").mkdir()
    (place / "mine_package" / "__init__.py").write_text("number = 1\n")
    (place / "mine_package.py").write_text("number = 2\n")
    assert user_code.load("mine_package:number") == 1
    assert modules_behind("mine_package") == {"mine_package": place / "mine_package" / "__init__.py"}


@pytest.mark.usefixtures("place")
def test_a_problem_with_ones_own_workload(desim: Desim) -> None:
    import numpy as np

    from desim import simulate
    from desim.agents.batch import create
    from desim.problems.batch import BatchCluster
    from desim.workloads import lublin

    arguments = ["compare", "mine_problem:make", "--agents", "fcfs,easy,mine_agents:Shortest", "--seeds", "2"]
    outcome = desim(*arguments, "--workers", "1", "--seed", "4", "--set", "num_jobs=25", "--json")
    assert outcome.status == 0
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert document["workload"] == {
        "name": "mine_problem:make",
        "kind": "batch",
        "settings": {"num_jobs": 25},
        "repairs": None,
    }
    assert list(document["means"]) == ["fcfs", "easy-fcfs", "mine_agents:Shortest"]
    for run in document["runs"]:
        assert run["valid"] is True
        if run["agent"] == "easy-fcfs":
            jobs = lublin.generate(25, 16, np.random.default_rng(run["seed"]))
            expected = simulate(BatchCluster(jobs, 16), create("easy")).metrics()
            assert run["metrics"]["waiting_time_mean"] == expected["waiting_time_mean"]
    one = desim("run", "mine_problem:make", "--agent", "easy", "--json")
    assert json.loads(one.out)["metrics"]["jobs_submitted"] == 30


@pytest.mark.usefixtures("no_figures")
def test_a_problem_of_ones_own_kind(desim: Desim, place: Path, simulated: list[tuple[str, int]]) -> None:
    agents = "mine_problem:Highest,mine_problem:Lowest"
    arguments = ["compare", "mine_problem:tickets", "--agents", agents, "--seeds", "3", "--set", "count=5"]
    outcome = desim(*arguments, "--workers", "1", "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    means = {agent: row["mean_wait"]["mean"] for agent, row in document["means"].items()}
    assert means["mine_problem:Lowest"] < means["mine_problem:Highest"]  # shortest first
    assert document["runs"][0]["metrics"]["customers"] == 5
    assert document["runs"][0]["valid"] is True
    assert document["profile"]["shares"]["mine_problem:Lowest"][0] == 1.0
    for found in (0, 6):
        shown = desim(*arguments, "--workers", "1", "--out", place / "out")
        assert f"6 runs, {found} of them from the store; 6 valid" in shown.out
    simulated.clear()
    (place / "mine_problem.py").write_text(PROBLEM + "\nANOTHER = 1  # line\n")
    del sys.modules["mine_problem"]
    desim(*arguments, "--workers", "1", "--out", place / "out")
    assert len(simulated) == 6
    run = desim("run", "mine_problem:tickets", "--agent", "mine_problem:Lowest")
    assert run.status == 0
    assert "valid: 2 rules hold (4 rows in the largest table)" in run.out
    assert any(line.split()[:1] == ["mean_wait"] for line in run.out.splitlines())


def test_a_report_of_a_problem_of_ones_own(desim: Desim, place: Path) -> None:
    agents = "mine_problem:Highest,mine_problem:Lowest"
    out = place / "out"
    outcome = desim(
        "compare", "mine_problem:tickets", "--agents", agents, "--seeds", "2", "--workers", "1", "--out", out
    )
    assert outcome.status == 0
    assert {path.name for path in out.iterdir()} == {
        "runs",
        "comparison.csv",
        "comparison.json",
        "study.toml",
        "view.html",
        "metrics.png",
        "profiles.png",
    }
    assert "mean wait" in (out / "view.html").read_text()


@pytest.mark.usefixtures("place")
def test_own_metrics_come_in_addition(desim: Desim) -> None:
    outcome = desim(
        "compare", "mine_problem:measured", "--agents", "fcfs,sjf", "--seeds", "2", "--workers", "1", "--json"
    )
    document = json.loads(outcome.out)
    assert document["profile"] is None or document["profile"]["metric"] == "first_start"
    assert document["means"]["fcfs"]["num_decided"]["mean"] == 10
    assert "waiting_time_mean" in document["means"]["fcfs"]
    assert next(iter(document["tests"])) == "first_start"


@pytest.mark.usefixtures("place")
def test_workloads_that_differ_between_agents_are_told(desim: Desim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulated, "shared_instance", lambda setting: system_of(setting.problem).instance(setting.options)
    )
    outcome = desim("compare", "mine_problem:unfair", "--agents", "fcfs,sjf", "--seeds", "2", "--workers", "1")
    assert outcome.status == 0
    assert "desim: seed 0: workload differs from that of fcfs: sjf\n" in outcome.err
    assert "desim: seed 1: workload differs from that of fcfs: sjf\n" in outcome.err


@pytest.mark.parametrize(
    ("problem", "more", "message"),
    [
        ("mine_problem:nope", [], "no 'nope' in mine_problem"),
        ("mine_problem:wrong", [], "mine_problem:wrong: got [1, 2] as its return value, expected a desim.Problem"),
        ("mine_problem:calls", [], "got 0, expected an agent, a class or a function"),
        (
            "mine_problem:make",
            ["--set", "size=3"],
            "got an unexpected keyword argument 'size'; it takes (rng, num_jobs",
        ),
        ("mine_problem:make", ["--set", "num_jobs=-3"], "num_jobs: got -3"),
        ("mine_problem:make", ["--agents", "heft"], "unknown batch agent 'heft'"),
        ("mine_problem:tickets", ["--agents", "fcfs"], "no installed package offers agents for problem 'tickets'"),
        ("mine_problem:unmeasured", [], "give WithoutMeasure an attribute kind = desim.ProblemDescriptor(...)"),
        ("mine_nowhere:make", [], "there is no module 'mine_nowhere'"),
    ],
)
@pytest.mark.usefixtures("place")
def test_problems_that_cannot_be_made(desim: Desim, problem: str, more: list[str], message: str) -> None:
    outcome = desim("compare", problem, "--agents", "mine_problem:Lowest", "--workers", "1", *more)
    assert outcome.status in (1, 2)
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_processes_of_their_own_find_the_modules(desim: Desim, place: Path) -> None:
    arguments: Callable[[int], list[str]] = lambda workers: [  # noqa: E731
        *("compare", "mine_problem:make", "--agents", "mine_agents:Shortest,fcfs", "--seeds", "2", "--json"),
        *("--workers", str(workers)),
    ]
    here, there = (json.loads(desim(*arguments(count)).out) for count in (1, 2))
    assert here["runs"] == there["runs"]
