"""``desim list``, and agents and workloads of other packages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from command_line import Desim

from desim import plugins, problem
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.problem import Extension


def test_everything_has_a_line(desim: Desim) -> None:
    outcome = desim("list")
    assert outcome.status == 0
    batch = ("batch", "fcfs", "easy-PRIORITY", "lublin", "FILE.swf")
    for name in (*batch, "dag", "heft", "tpch", "fluctuating", "exact-oga-reactive"):
        assert any(line.startswith(name) and len(line.split()) > 3 for line in outcome.out.splitlines()), name
    assert "MODULE:NAME" in outcome.out
    document = json.loads(desim("list", "--json").out)
    assert set(document) == {"problems", "agents", "workloads"}
    assert list(document["problems"]) == ["batch", "dag", "deferrable", "multiserver"]
    assert all(document["problems"].values())
    assert document["agents"]["batch"]["fcfs"].endswith(".")
    for known, agent, workload in (("dag", "heft", "tpch"), ("deferrable", "tetris", "fluctuating")):
        assert agent in document["agents"][known]
        assert workload in document["workloads"][known]
    one = json.loads(desim("list", "dag", "--json").out)
    assert one == {part: {"dag": document[part]["dag"]} for part in document}
    assert "PROBLEM: got 'dog' (did you mean 'dag'?)" in desim("list", "dog").err


class Idle:
    """Never starts a job."""

    def act(self, observation: object) -> None:
        """Wait."""


def install(monkeypatch: pytest.MonkeyPatch, point: EntryPoint) -> None:
    """Add an entry point to those of the installed packages."""
    known = problem.entry_points
    monkeypatch.setattr(problem, "entry_points", lambda group: [*known(group=group), point])
    problem.kinds.cache_clear()
    problem.kind_named.cache_clear()


@pytest.fixture(autouse=True)
def installed_packages() -> Iterator[None]:
    """Forget what a test has installed."""
    yield
    problem.kinds.cache_clear()
    problem.kind_named.cache_clear()


@pytest.fixture
def other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with an agent of its own."""

    def create(name: str) -> Idle:
        if name != "idle":
            raise InvalidConfiguration(f"no agent {name!r}; there is idle")
        return Idle()

    module = SimpleNamespace(create=create, descriptions=lambda: {"idle": "Never starts a job."})
    monkeypatch.setitem(sys.modules, "idle_agents", module)
    module.MORE = Extension(agents=("idle_agents",))
    install(monkeypatch, EntryPoint("batch", "idle_agents:MORE", "desim.problems"))


@pytest.mark.usefixtures("other_package")
def test_agents_of_other_packages(desim: Desim) -> None:
    assert json.loads(desim("list", "--json").out)["agents"]["batch"]["idle"] == "Never starts a job."
    outcome = desim("run", "batch", "--agent", "idle", "--jobs", "3", "--json")
    assert outcome.status == 1 and "desim: stalled: work remains that the agent does not start" in outcome.err
    assert json.loads(outcome.out)["metrics"]["jobs_queued"] == 3
    outcome = desim("run", "batch", "--agent", "nobody")
    assert "expected one of fcfs" in outcome.err
    assert "there is idle" in outcome.err


def test_packages_that_are_missing_or_broken(desim: Desim, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDependency, match="no installed package"):
        plugins.create_agent("parking", "fcfs")
    install(monkeypatch, EntryPoint("batch", "no_such_module:KIND", "desim.problems"))
    outcome = desim("run", "batch")
    assert outcome.status == 1
    assert "no_such_module" in outcome.err
