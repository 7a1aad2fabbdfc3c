"""Stored runs are found again if nothing that they used has changed, and only then: a test for each way."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import desim
from desim.agents.batch import EASYBackfilling
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.learning import pretrained
from desim.agents.learning.checkpoint import save_weights
from desim.exceptions import ComparisonWarning, InvalidConfiguration
from desim.problems.dag import DagCluster, Executors, from_networkx
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
from desim.sweep import recording
from desim.sweep.runner import _Sweep

ROOT = Path(__file__).parents[2]
ANOTHER = "is not that with which the comparison began"
SMALL: dict[str, Any] = {"jobs": 20, "cores": 16}
DEFERRABLE: dict[str, Any] = {"trace": "fluctuating", "slots": 20}

OWN = """
import importlib, json, os
from functools import cache
from pathlib import Path
from desim.problems.deferrable import DeferrableCluster
from desim.problems.deferrable.job import Job
import own_helper

class Level:
    def __init__(self, read):
        self.read = read
    def __call__(self, problem):
        problem.set_capacity(self.read())
        yield problem.env.timeout(1)

def imported():
    return own_helper.level()

def by_name():
    return importlib.import_module("own_" + "other").level()

def file():
    return json.loads(Path("level.json").read_text())

@cache
def kept():
    return file()

def variable():
    return float(os.environ["OWN_LEVEL"])

def by_path():
    spec = importlib.util.spec_from_file_location("own_plugin", "plugins/plugin.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.level()

def problem(read):
    return DeferrableCluster([Job(i, 0, 0, 3, 2, 2.0) for i in range(6)], Level(read), num_slots=10)

def make(rng, read="imported"):
    return problem(globals()[read])
"""
LEVEL = "def level():\n    return {}\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Go to a directory with modules, of which the first uses the others, and forget them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python tells files of one size and second not apart
    (tmp_path / "plugins").mkdir()
    (tmp_path / "own_problem.py").write_text(OWN)
    set_level(tmp_path, 1.0, monkeypatch)
    yield tmp_path
    forget()


def forget() -> None:
    """Forget modules, as a new process would."""
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    recording._earlier.clear()


def set_level(place: Path, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the level to everything that it may be read from."""
    for name in ("own_helper.py", "own_other.py", "plugins/plugin.py"):
        (place / name).write_text(LEVEL.format(level))
    (place / "level.json").write_text(json.dumps(level))
    monkeypatch.setenv("OWN_LEVEL", str(level))


@pytest.fixture
def reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Return a function that compares agents, without pictures, and says which runs were found."""
    monkeypatch.setattr("desim.comparing.with_pages", lambda found, directory: found)

    def compare(problem: Any, agents: Any, **options: Any) -> list[bool]:
        found = desim.compare(
            problem, agents, seeds=1, workers=options.pop("workers", 1), out=tmp_path / "o", **options
        )
        return [one.reused for one in found.all_runs]

    return compare


@pytest.mark.parametrize("read", ["imported", "by_name", "file", "kept", "variable", "by_path"])
@pytest.mark.parametrize("how", ["name", "object"])
def test_own_problems(
    read: str, how: str, place: Path, reused: Callable[..., list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare() -> list[bool]:
        if how == "name":
            return reused("own_problem:make", ["fifo", "tetris"], read=read)
        own = importlib.import_module("own_problem")
        return reused(own.problem(getattr(own, read)), ["fifo", "tetris"])

    for level in (1.0, 4.0):
        set_level(place, level, monkeypatch)
        for expected in (False, True):
            forget()
            assert compare() == [expected] * 2
    set_level(place, 1.0, monkeypatch)
    forget()
    assert compare() == [True] * 2  # what it was at first


def test_edited_and_not_loaded_again(
    place: Path, reused: Callable[..., list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reused("own_problem:make", ["fifo"]) == [False]
    set_level(place, 4.0, monkeypatch)
    with pytest.raises(InvalidConfiguration, match=r"own_helper.py has changed since module own_helper was loaded"):
        reused("own_problem:make", ["fifo"])
    importlib.reload(sys.modules["own_helper"])
    assert reused("own_problem:make", ["fifo"]) == [False]
    assert reused("own_problem:make", ["fifo"]) == [True]


def test_an_own_agent_does_not_make_others_run_again(place: Path, reused: Callable[..., list[bool]]) -> None:
    (place / "own_agents.py").write_text("from desim.agents.batch import FCFS\nclass Mine(FCFS):\n    pass\n")
    agents = ["fcfs", "own_agents:Mine"]
    for expected in ([False] * 2, [True] * 2):
        assert reused("batch", agents, **SMALL) == expected
    (place / "own_agents.py").write_text("from desim.agents.batch import SJF\nclass Mine(SJF):\n    pass\n")
    forget()
    assert reused("batch", agents, **SMALL) == [True, False]


def test_state_of_given_agents(reused: Callable[..., list[bool]]) -> None:
    agents: dict[str, Any] = {"one": EASYBackfilling("sjf"), "other": EASYBackfilling("fcfs")}
    assert reused("batch", agents, **SMALL) == [False, False]
    assert reused("batch", agents | {"other": EASYBackfilling("f1")}, **SMALL) == [True, False]


@pytest.mark.parametrize("what", ["./own", "./own[1]"])
def test_weights_cards_and_own_networks(what: str, place: Path, reused: Callable[..., list[bool]]) -> None:
    name = pretrained.pretrained_names("score")[0]
    stem = Path(what).name
    weights, card = place / f"{stem}.safetensors", place / f"{stem}.json"
    shutil.copy(pretrained.PRETRAINED / f"{name}.safetensors", weights)
    shutil.copy(pretrained.PRETRAINED / f"{name}.json", card)
    agents = [f"score:{what}", "fifo"]
    assert reused("deferrable", agents, **DEFERRABLE) == [False, False]
    assert reused("deferrable", agents, **DEFERRABLE) == [True, True]
    card.write_text(json.dumps(json.loads(card.read_text()) | {"remark": "another"}))
    assert reused("deferrable", agents, **DEFERRABLE) == [False, True]
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with suppress(desim.DesimError):  # cards may name the digest of their tensors
        assert reused("deferrable", agents, **DEFERRABLE) == [False, True]


def test_pretrained_names(tmp_path: Path, reused: Callable[..., list[bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    name, *_, another = pretrained.pretrained_names("score")
    agents, shipped = [f"score:{name}"], pretrained.PRETRAINED
    assert reused("deferrable", agents, **DEFERRABLE) == [False]
    (tmp_path / "other").mkdir()
    for source, expected in ((name, True), (another, False)):
        for suffix in (".json", ".safetensors"):
            shutil.copy(shipped / f"{source}{suffix}", tmp_path / "other" / f"{name}{suffix}")
        monkeypatch.setattr(pretrained, "PRETRAINED", tmp_path / "other")
        assert reused("deferrable", agents, **DEFERRABLE) == [expected]


NET = """
from own_helper import level
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.score_policy import AttentionPolicy

class Mine(AttentionPolicy):
    def __init__(self, observation_space, action_space, rng):
        super().__init__(ScoreConfig(max_jobs=4, width=8).encoder(), rng, "none", 8, 1)
    def forward(self, observations):
        distribution, values = super().forward(observations)
        return distribution, values * level()
"""


def test_code_of_own_networks(place: Path, reused: Callable[..., list[bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A card names a network by reference; its module, and what that imports, belong to the agent."""
    (place / "own_net.py").write_text(NET)
    importlib.import_module("own_net")  # a card alone does not import code
    config = ScoreConfig(max_jobs=4, width=8, network="own_net:Mine")
    policy = config.policy(np.random.default_rng(0))
    save_weights(place / "own", policy.state_dict(), {"agent": "score", "config": asdict(config)})
    agents = ["score:./own", "fifo"]
    for at, level in enumerate((1.0, 4.0, 1.0)):
        set_level(place, level, monkeypatch)
        forget()
        importlib.import_module("own_net")
        assert reused("deferrable", agents, **DEFERRABLE) == [at == 2, at > 0]


def test_weights_that_change_between_request_and_run(
    place: Path, reused: Callable[..., list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run with other weights stands beside those that were asked for."""

    def put(name: str) -> None:
        for suffix in (".json", ".safetensors"):
            shutil.copy(pretrained.PRETRAINED / f"{name}{suffix}", place / f"own{suffix}")

    one, *_, other = pretrained.pretrained_names("score")
    put(one)
    with monkeypatch.context() as patch:
        run = _Sweep.run_missing
        patch.setattr(_Sweep, "run_missing", lambda self, workers: (put(other), run(self, workers)))
        with pytest.warns(ComparisonWarning) as told:
            assert reused("deferrable", ["score:./own", "fifo"], **DEFERRABLE) == [False]  # of fifo
    assert f"its state, code, weights or model card {ANOTHER}" in str(told[0].message)
    for name in (one, other):
        put(name)
        assert reused("deferrable", ["score:./own", "fifo"], **DEFERRABLE) == [False, True]


SIGNED = """
from desim import Metric
from desim.agents.batch import EASYBackfilling, Priority
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

SIGN = 1.0

times = {}

class Signed(Priority):
    name = "signed"
    def scores(self, queue, time):
        times[len(times)] = time  # what runs keep in a module does not matter
        return SIGN * queue["submission_time"]

def problem(rng):
    return BatchCluster(lublin.generate(20, 16, seed=rng), num_cores=max(int(16 * SIGN), 16))

def sign(result):
    return SIGN

metric = Metric("signed", measure=sign)
"""


@pytest.mark.usefixtures("place")
def test_workers_that_import_other_values_than_the_session_has(reused: Callable[..., list[bool]]) -> None:
    """A worker imports modules anew; what the session has set in them is refused there instead of ignored."""
    Path("signed.py").write_text(SIGNED)
    mine = importlib.import_module("signed")
    importlib.reload(mine)
    agents = {"mine": EASYBackfilling(mine.Signed)}
    assert reused(mine.problem, agents, workers=2, metrics=[mine.metric]) == [False]
    mine.SIGN = 2.0
    assert reused(mine.problem, agents) == [False]
    for problem, given, options in (
        ("batch", agents, SMALL),
        (mine.problem, ["easy"], {}),
        ("batch", ["easy"], SMALL | {"metrics": [mine.metric]}),
    ):
        with pytest.raises(InvalidConfiguration, match=f"its signed.SIGN(, signed.times)? {ANOTHER}"):
            reused(problem, given, workers=2, **options)


def test_given_problems_whose_objects_compute_and_keep_things(reused: Callable[..., list[bool]]) -> None:
    graph = BipartiteGraph([[1.0]], [[2.0]])
    multiserver = MultiServerCluster(RewardModel(graph, "log"), np.ones((5, 1), int))
    tasks = nx.DiGraph()
    tasks.add_nodes_from([(1, {"work": 2.0}), (2, {"work": 3.0})])
    tasks.add_edge(1, 2, size=1.0)
    dag = DagCluster([from_networkx(tasks)], Executors([1.0, 2.0]), plan_ahead=True)
    for problem, agents in ((multiserver, ["drf", "fairness"]), (dag, ["heft", "fifo-eft"])):
        assert reused(problem, agents) == [False, False]
        assert reused(problem, agents) == [True, True]


NOTEBOOK = """
import sys
from pathlib import Path
sys.path.insert(0, ".")
CODE = "{}from desim.agents.batch import EASYBackfilling\\nclass Mine(EASYBackfilling):\\n    level = {}\\n"

def write(name, level, first=""):
    Path(f"{name}.py").write_text(CODE.format(first, level))

def told(module):
    try:
        given = {"seeds": 1, "workers": 1, "jobs": 20, "cores": 16, "out": "out"}
        found = desim.compare("batch", {"mine": module.Mine("fcfs")}, **given)
        return found.runs["reused"].item()
    except desim.InvalidConfiguration as error:
        return str(error).partition(".py ")[2].partition(",")[0].partition(";")[0]

if __name__ == "__main__":
    Path("helper.py").write_text("LEVEL = 1")
    write("first", 1, "import helper\\n")
    import first  # which imports desim
    import desim
    write("second", 1)
    import second
    print(told(second), told(second), told(first))
    import importlib
    importlib.reload(first.helper)
    print(told(first))
    write("second", 2)
    write("first", 2, "import helper\\n")
    print(told(second), told(first))
    write("first", 1, "import helper\\n")
    print(told(first))
"""


def test_modules_written_and_loaded_in_a_session(tmp_path: Path) -> None:
    """As in a notebook: known are those loaded after desim, and the one that imports it; not one loaded before."""
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    done = subprocess.run(
        [sys.executable, "notebook.py"],
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "False True has changed since this process started",
        "False",
        "has changed since module second was loaded has changed since module first was loaded",
        "True",
    ], done.stderr
