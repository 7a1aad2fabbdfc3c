"""Who may import whom, and what an import must not load."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_agents import python

import desim

ROOT = Path(desim.__file__).resolve().parents[1]
PACKAGES = ("desim", "desim/agents", "desim/workloads", "desim/experiments")
OTHERS = ("desim.agents", "desim.workloads", "desim.experiments")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


def room_of(module: str) -> str:
    """Return which of the four packages a module belongs to."""
    return next((other for other in OTHERS if f"{module}.".startswith(f"{other}.")), "desim")


def imports_of(name: str, *, when_imported: bool) -> Iterator[str]:
    """Yield the modules of this project that a module imports, or only those that it needs to be imported itself."""
    is_package = MODULES[name].name == "__init__.py"
    todo: list[ast.AST] = [ast.parse(MODULES[name].read_text())]
    while todo:
        node = todo.pop()
        if when_imported and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if when_imported and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = name.split(".") if is_package else name.split(".")[:-1]
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            members = [f"{base}.{alias.name}" for alias in node.names]
            yield from (member if member in MODULES else base for member in members)
        todo.extend(ast.iter_child_nodes(node))


def project_imports(name: str, *, when_imported: bool = False) -> list[str]:
    found = imports_of(name, when_imported=when_imported)
    return sorted({module for module in found if module.split(".")[0] == "desim"})


def test_the_packages_are_there() -> None:
    assert {
        "desim.core",
        "desim.problems.batch.cluster",
        "desim.agents.batch.backfilling",
        "desim.workloads.swf",
    } <= set(MODULES)
    assert "desim._clock" in project_imports("desim.core")
    assert "desim.result" in project_imports("desim.core")
    assert "desim.result" not in project_imports("desim.core", when_imported=True)


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) == "desim"])
def test_desim_knows_no_agent_workload_or_experiment(name: str) -> None:
    allowed = {"desim"}
    if name.startswith("desim.cli"):  # the command line is where everything meets
        allowed |= set(OTHERS)
    assert {room_of(module) for module in project_imports(name)} <= allowed


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) == "desim.agents"])
def test_agents_know_desim_only(name: str) -> None:
    assert {room_of(module) for module in project_imports(name)} <= {"desim.agents", "desim"}


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) == "desim.workloads"])
def test_workloads_know_entities_and_errors_only(name: str) -> None:
    foreign = [module for module in project_imports(name) if not module.startswith("desim.workloads")]
    entities = {"desim.exceptions", "desim.problems.batch.entities", "desim.problems.batch"}
    entities |= {f"desim.problems.multiserver{name}" for name in ("", ".graph", ".rewards", ".utilities")}
    entities |= {f"desim.problems.dag{name}" for name in ("", ".job", ".executors", ".task_times")}
    entities |= {f"desim.problems.deferrable{name}" for name in ("", ".job")}
    assert set(foreign) <= entities, f"{name} imports {sorted(set(foreign) - entities)}"


@pytest.mark.parametrize("name", ["core", "records", "result", "exceptions", "_clock", "_interruption"])
def test_the_kernel_knows_no_problem(name: str) -> None:
    found = project_imports(f"desim.{name}", when_imported=True)
    assert [module for module in found if module.startswith("desim.problems.")] == []


LEARNERS = ("env", "features", "graph_encoder")
"""Modules of a problem that make an environment of it."""


@pytest.mark.parametrize(
    "name",
    [name for name in MODULES if name.startswith("desim.problems") and name.rpartition(".")[2] not in LEARNERS],
)
def test_problems_know_neither_plots_nor_metrics_nor_the_command_line(name: str) -> None:
    others = ("desim.plotting", "desim.metrics", "desim.cli", "desim.validation", "desim.envs")
    assert [module for module in project_imports(name) if module.startswith(others)] == []


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("desim.validation")])
def test_validation_shares_no_code_with_the_dynamics(name: str) -> None:
    dynamics = ("desim.core", "desim._clock", "desim.processes", "desim.problems.batch.cluster")
    dynamics += ("desim.problems.dag.",)  # the package itself gives the types of what was submitted
    assert [module for module in project_imports(name) if module.startswith(dynamics)] == []


def test_no_module_needs_itself_to_be_imported() -> None:
    edges = {
        name: [other for other in project_imports(name, when_imported=True) if other in MODULES] for name in MODULES
    }
    finished: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in finished:
            for other in edges[name]:
                visit(other, (*path, name))
            finished.add(name)

    for name in MODULES:
        visit(name, ())
    assert finished == set(MODULES)


FAKE = "loaded = True\n"
HEAVY = ("torch", "matplotlib", "polars", "scipy", "torch_geometric", "networkx", "pandas", "ortools")


def fresh(code: str, tmp_path: Path) -> str:
    """Run code where a package called torch can be imported; return what it prints."""
    for name in ("torch", "torch_geometric"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FAKE)
    done = python(code, PYTHONPATH=f"{tmp_path}:{ROOT}", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_torch_of_these_tests_can_be_imported(tmp_path: Path) -> None:
    assert fresh("import torch; print(torch.loaded)", tmp_path) == "True"


@pytest.mark.parametrize(
    "module",
    [
        "desim",
        "desim.problems.batch",
        "desim.problems.multiserver",
        "desim.problems.dag",
        "desim.problems.deferrable",
        "desim.processes",
        "desim.envs",
        "desim.envs.batch",
        "desim.problems.dag.env",
        "desim.problems.dag.graph_encoder",
        "desim.envs.deferrable",
        "desim.envs.multiserver",
        "desim.agents.batch",
        "desim.agents.dag",
        "desim.agents.multiserver",
        "desim.workloads.azure",
        "desim.workloads.deferrable",
        "desim.workloads.episodes",
        "desim.workloads.swf",
        "desim.workloads.multiserver",
        "desim.workloads.tpch",
        "desim.workloads.wfformat",
    ],
)
def test_an_import_is_light(module: str, tmp_path: Path) -> None:
    code = f"import {module}, sys; print(*sorted(set(sys.modules) & {set(HEAVY)!r}))"
    assert fresh(code, tmp_path) == ""


@pytest.mark.parametrize("module", ["desim", "desim.problems.batch", "desim.plugins", "desim.workloads.episodes"])
def test_only_environments_import_gymnasium(module: str, tmp_path: Path) -> None:
    code = f"import {module}, sys; before = 'gymnasium' in sys.modules; import desim.envs; "
    assert fresh(f"{code} print(before, 'gymnasium' in sys.modules)", tmp_path) == "False True"


def test_an_import_prints_nothing_and_leaves_random_states_alone(tmp_path: Path) -> None:
    code = """
import random, sys
import numpy as np
before = random.getstate(), np.random.get_state()[1].tolist()
import desim, desim.agents.batch, desim.workloads.swf, desim.workloads.lublin, desim.plotting
import desim.metrics, desim.validation
after = random.getstate(), np.random.get_state()[1].tolist()
assert before == after
"""
    assert fresh(code, tmp_path) == ""


def test_heuristics_run_without_torch(tmp_path: Path) -> None:
    code = """
import sys
from desim.agents.batch import PRIORITIES, create
from desim import simulate
from desim.problems.batch import BatchCluster, Job
jobs = [Job(number, float(number), 1 + number % 3, 9.0, 7.0) for number in range(30)]
for name in [*PRIORITIES, "backfilling", "easy", "easy-specific", "conservative", "conservative-specific"]:
    result = simulate(BatchCluster(jobs, 3), create(name))
    assert len(result.jobs) == 30
    result.metrics()
print(*sorted(set(sys.modules) & {"torch", "torch_geometric", "matplotlib"}))
"""
    assert fresh(code, tmp_path) == ""
