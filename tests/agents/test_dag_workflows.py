"""Real workflows and TPC-H's measured queries under the schedulers: valid schedules between the bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster, Executors, Job
from desim.validation import validate
from desim.workloads import dax, executors, submissions, tpch, wfformat

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the traces of the project's own workplace are absent")
AGENTS = [("heft", True), ("rank-up-deft", False), ("rank-up-deft", True), ("peft", True), ("tdca", True)]


def workflow(name: str) -> Job:
    if name == "montage":
        return wfformat.read(DATA / "workflows/montage-chameleon-2mass-005d-001.json")
    return dax.read(DATA / "workflows/GENOME.d.351024866.5.dax")


@pytest.mark.parametrize("name", ["montage", "genome"])
@pytest.mark.parametrize(("agent", "plan_ahead"), AGENTS)
def test_workflows_run(name: str, agent: str, plan_ahead: bool) -> None:
    """On eight executors; files move at 12.5 MB/s, as on a network of 100 Mbit/s."""
    machines = Executors(np.linspace(1.0, 2.0, 8), 12.5e6, 0.001)
    job = workflow(name)
    result = simulate(DagCluster([job], machines, plan_ahead=plan_ahead), create(agent))
    assert validate(result).ok
    metrics = result.metrics()
    assert metrics["num_nodes"] == {"montage": 58, "genome": 36}[name]
    assert metrics["lower_bound"] * (1 - 1e-12) <= metrics["makespan"] <= metrics["serial_time"] * (1 + 1e-12)
    assert metrics["serial_time"] == pytest.approx({"montage": 221.726, "genome": 113_799.36}[name] / 2, abs=0.01)
    if agent != "peft":  # which looks ahead on executors that will be busy then
        assert metrics["gap_to_lower_bound"] < 0.35


def test_the_critical_path_of_genome_bounds_its_makespan() -> None:
    """With executors enough and fast transfers the longest path, 24,633.77 s at speed 1, is what it takes."""
    machines = executors.homogeneous(36, transfer_speed=1e12)
    result = simulate(DagCluster([workflow("genome")], machines, plan_ahead=True), create("heft"))
    assert result.metrics()["makespan"] == pytest.approx(24_633.77, rel=1e-5)


def test_measured_queries_in_a_stream_are_valid_and_finish() -> None:
    jobs = submissions.poisson(tpch.generate(40, ccr=1.0, seed=3, directory=DATA / "tpch"), 45.0, seed=3)
    machines = executors.heterogeneous(10, seed=3)
    for agent, plan_ahead in (*AGENTS, ("sjf-deft-idle", False), ("hrrn-eft", False)):
        result = simulate(DagCluster(jobs, machines, plan_ahead=plan_ahead), create(agent))
        assert validate(result).ok, agent
        metrics = result.metrics()
        assert metrics["jobs_completed"] == 40
        assert metrics["lower_bound"] <= metrics["makespan"] * (1 + 1e-12)
