"""DAG agents by name: every one of them runs wherever it may be sent, and comes to the same twice."""

from __future__ import annotations

from typing import Any

import pytest
from dag_exhaustive import assert_feasible, need_ortools
from dag_references import random_instance

from desim import Result, simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster, Executors, Job
from desim.processes.outages import random_outages

PLANNING = ["heft", "cpop", "peft", "tdca", "optimum", "portfolio:heft+dls"]
ORDERS = ["fifo", "sjf", "hrrn", "hrrn-node", "rank-up", "critical-path", "least-work", "random"]
ALLOCATIONS = ["eft", "insertion-eft", "deft", "insertion-deft"]
OTHERS = [
    "dls",
    *(f"{order}-{allocation}" for order in ORDERS for allocation in ALLOCATIONS),
    "rank-up-deft-idle",
    "rank-up-deft-patient",
]


def run(name: str, jobs: list[Job], executors: Executors, seed: int, **options: Any) -> Result:
    """Return the result of an agent."""
    return simulate(DagCluster(jobs, executors, **options), create(name), seed=seed, until=1e5)


@pytest.mark.parametrize(
    ("name", "plan_ahead"), [*((name, True) for name in PLANNING + OTHERS), *((name, False) for name in OTHERS)]
)
def test_every_agent_in_every_cluster(name: str, plan_ahead: bool) -> None:
    if name == "optimum":
        need_ortools()
    for seed in (4, 5):
        jobs, executors = random_instance(seed, staggered=True, max_nodes=9)
        for transfers in ("when_finished", "when_assigned"):
            options = {"plan_ahead": plan_ahead, "transfers": transfers}
            first, second = (run(name, jobs, executors, seed, **options) for _ in range(2))
            assert_feasible(first, jobs, executors)
            assert first.table("copies").equals(second.table("copies"))
            cut = run(name, jobs, executors, seed, processes=[random_outages(60.0, 10.0)], **options)
            assert cut.jobs["success"].all()
