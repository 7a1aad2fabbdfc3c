"""What an import must not load, print or change. Who may import whom is for the contracts in setup.cfg."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from small_agents import python

ROOT = Path(__file__).resolve().parents[2]
FAKE = "loaded = True\n"
HEAVY = (
    "torch", "matplotlib", "polars", "scipy", "highspy", "torch_geometric", "networkx", "pandas", "ortools", "pooch",
)  # fmt: skip
#: What is imported when it is wanted, by what that needs itself.
LAZY = {
    "desim.core": {"desim.result"},
}
LIGHT = (
    "desim",
    "desim.plugins",
    "desim.problems.batch",
    "desim.problems.multiserver",
    "desim.problems.dag",
    "desim.problems.deferrable",
    "desim.processes",
    "desim.agents.batch",
    "desim.agents.dag",
    "desim.agents.multiserver",
    "desim.workloads.azure",
    "desim.workloads.deferrable",
    "desim.workloads.batch.registry",
    "desim.workloads.dag.registry",
    "desim.workloads.batch.swf",
    "desim.workloads.catalogue",
    "desim.workloads.multiserver",
    "desim.workloads.dag.tpch",
    "desim.workloads.dag.wfformat",
)
ENVIRONMENTS = (
    "desim.envs",
    "desim.problems.batch.env",
    "desim.problems.dag.env",
    "desim.problems.dag.graph_encoder",
    "desim.problems.deferrable.env",
    "desim.problems.multiserver.env",
)


def test_no_module_needs_itself() -> None:
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("desim", exclude_type_checking_imports=True, cache_dir=None)
    needed = {
        module: graph.find_modules_directly_imported_by(module) - LAZY.get(module, set()) for module in graph.modules
    }
    TopologicalSorter(needed).prepare()  # says which circle there is


def fresh(code: str, tmp_path: Path) -> str:
    """Run code where a package called torch can be imported; return what it prints."""
    for name in ("torch", "torch_geometric"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FAKE)
    done = python(code, PYTHONPATH=f"{tmp_path}:{ROOT}", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_imports_are_light_print_nothing_and_leave_random_states_alone(tmp_path: Path) -> None:
    code = f"""
import importlib, random, sys
import numpy as np
def state():
    return random.getstate(), np.random.get_state()[1].tolist()
def bring(names, heavy):
    for name in names:
        importlib.import_module(name)
        assert not set(sys.modules) & set(heavy), (name, *sorted(set(sys.modules) & set(heavy)))
before = state()
bring({LIGHT}, ("gymnasium", *{HEAVY}))
bring({ENVIRONMENTS}, {HEAVY})
assert "gymnasium" in sys.modules
import desim.workloads.batch.lublin, desim.plotting, desim.validation
assert state() == before
import torch
assert torch.loaded
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


def test_a_command_loads_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n1 0 -1 9 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n")
    code = f"""
import sys
from desim.cli import main
status = main(["run", "batch", "--trace", {str(tmp_path / "log.swf")!r}, "--agent", "easy"])
print(status, *sorted(set(sys.modules) & {{"matplotlib", "scipy", "torch", "typeguard", "desim.plotting.files"}}))
"""
    assert fresh(code, tmp_path).splitlines()[-1] == "0"
