"""Stored runs are found again if nothing that they used has changed, and only then: a test for each way."""

from __future__ import annotations

import importlib
import json
import os
import pickle
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
from desim.agents.batch import EASYBackfilling, create
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.learning import pretrained
from desim.agents.learning.checkpoint import save_weights
from desim.exceptions import ComparisonWarning, InvalidConfiguration
from desim.problems.batch import BatchCluster, Job, Workload
from desim.problems.dag import DagCluster, Executors, from_networkx
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
from desim.sweep import recording
from desim.sweep.identity import identity_of
from desim.sweep.runner import _Sweep
from desim.workloads import lublin

ROOT = Path(__file__).parents[2]
ANOTHER = "its weights, model card, code or a value in its module is not that with which the comparison began"
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
    assert ANOTHER in str(told[0].message)
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
        with pytest.raises(InvalidConfiguration, match=ANOTHER):
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
import desim, own_helper
from desim.agents.batch import FCFS
from desim.problems.deferrable import DeferrableCluster
from desim.problems.deferrable.job import Job

desim.comparing.with_pages = lambda found, directory: found
FACTOR = float(sys.argv[1])

class Mine(FCFS):
    name = "mine"
    def act(self, observation):
        return super().act(observation) if FACTOR > 0 else None

def capacity(problem):
    problem.set_capacity(FACTOR * own_helper.level())
    yield problem.env.timeout(1)

def make(rng, count):
    return DeferrableCluster([Job(i, 0, 0, 3, 2, 2.0) for i in range(count)], capacity, num_slots=10)

if __name__ == "__main__":
    for workers in (1, 2):
        own = desim.compare("batch", [Mine(), "fcfs"], seeds=1, workers=workers, out="agents", jobs=20, cores=16)
        made = desim.compare(make, ["fifo", "tetris"], seeds=1, workers=workers, out="problems", count=6)
        print([one.reused for one in (*own.all_runs, *made.all_runs)], made.runs["revenue"].to_list())
"""


def test_classes_of_a_notebook(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes and functions of ``__main__``, in new processes, by one worker and by two."""
    (place / "study.py").write_text(NOTEBOOK.replace("import desim,", "import desim, desim.comparing,"))

    def run(factor: float) -> list[str]:
        done = subprocess.run(
            [sys.executable, "study.py", str(factor)],
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{place}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    new, old = "[False, True, False, False]", "[True, True, True, True]"
    assert run(1.0) == ["[False, False, False, False] [0.0, 0.0]", f"{old} [0.0, 0.0]"]
    assert run(1.0) == [f"{old} [0.0, 0.0]"] * 2
    assert run(4.0) == [f"{new} [16.0, 16.0]", f"{old} [16.0, 16.0]"]
    set_level(place, 0.25, monkeypatch)
    first, _ = run(4.0)
    assert first.endswith("False, False] [0.0, 0.0]")


def test_tables_of_stored_runs(tmp_path: Path) -> None:
    def stored(out: Path) -> set[str]:
        desim.simulate(BatchCluster(lublin.generate(20, 16, seed=0), 16), create("fcfs"), out=out)
        desim.Result.load(out)
        return {str(path) for path in out.rglob("*") if path.is_file()}

    files = stored(tmp_path / "earlier")
    with recording.recording() as heard:
        assert not stored(tmp_path / "own") & heard.used()["files"].keys()  # what a run has written is its own
        assert len(desim.Result.load(tmp_path / "earlier").jobs) == 20
    assert any(path.endswith(".parquet") for path in files)
    assert files <= heard.used()["files"].keys()


def test_identities() -> None:
    pairs: list[tuple[Any, Any]] = [
        ([1, 2], (1, 2)), ({1, 2}, {1, 3}), (np.ones(2), np.ones(2, int)), (np.ones(4), np.ones((2, 2))),
        (create("fcfs"), create("sjf")), (lambda: 1, lambda: 2), ({"a": 1}, {"b": 1}), (b"1", "1"), (True, 1),
    ]  # fmt: skip
    for one, other in pairs:
        assert identity_of(one) != identity_of(other)
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    jobs = lublin.generate(50, 16, seed=0)
    for value in (cyclic, {"b", "a"}, jobs, BatchCluster(jobs, 16), create("easy"), np.random.default_rng(1)):
        assert identity_of(value) == identity_of(value)
    assert identity_of(BatchCluster(jobs, 16)) == identity_of(pickle.loads(pickle.dumps(BatchCluster(jobs, 16))))
    with Path(__file__).open() as file:
        assert identity_of(file) != identity_of(file)  # the contents of an open file are unknown


def test_workloads_of_equal_content_are_the_same() -> None:
    """However their columns are encoded: a part of a log knows names that none of its jobs has."""
    every = Workload.of([Job(number, float(number), 1, 1.0, 1.0, queue=name) for number, name in enumerate("bacac")])
    part, anew = every[1:], Workload.of(list(every)[1:])
    assert identity_of(part) == identity_of(anew) != identity_of(every)
    assert identity_of(part) != identity_of(anew.with_columns(queue=["c", "c", "a", "c"]))
