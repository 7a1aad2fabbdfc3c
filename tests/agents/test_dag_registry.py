"""DAG agents by name: every one of them runs wherever it may be sent, and comes to the same twice."""

from __future__ import annotations

from typing import Any

import pytest
from dag_exhaustive import assert_feasible
from dag_references import random_instance

from desim import Result, simulate
from desim.agents.dag import create, descriptions
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, Executors, Job
from desim.processes.outages import random_outages

PLANNING = ["heft", "cpop", "peft", "tdca", "optimum"]
ORDERS = ["fifo", "sjf", "hrrn", "hrrn-node", "rank_up", "critical-path", "least-work", "random"]
ALLOCATIONS = ["eft", "insertion-eft", "deft", "insertion-deft"]
OTHERS = [
    "dls",
    *(f"{order}-{allocation}" for order in ORDERS for allocation in ALLOCATIONS),
    "rank_up-deft-idle",
    "rank_up-deft-patient",
]


def test_names_and_descriptions() -> None:
    assert list(descriptions()) == [
        "heft",
        "cpop",
        "peft",
        "dls",
        "tdca",
        "optimum",
        *(f"{order}-ALLOCATION" for order in ORDERS),
        *(f"ORDER-{allocation}" for allocation in ALLOCATIONS),
        "ORDER-ALLOCATION-idle",
        "ORDER-ALLOCATION-patient",
        "graph:NAME",
        "rollout:BASE",
    ]
    assert all(text.endswith(".") and len(text) < 120 for text in descriptions().values())


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("heft", "HEFT"),
        ("cpop", "CPOP"),
        ("peft", "PEFT"),
        ("dls", "DLS"),
        ("tdca", "TDCA"),
        ("optimum", "optimum"),
        ("fifo", "FIFO-DEFT"),
        ("rank_up-deft", "rank_up-DEFT"),
        ("hrrn-node-insertion-eft", "HRRN (node)-insertion-EFT"),
        ("critical-path-eft", "critical path-EFT"),
        ("sjf-idle", "SJF-DEFT (idle)"),
        ("hrrn-eft-idle", "HRRN-EFT (idle)"),
        ("rank_up-patient", "rank_up-DEFT (patient)"),
        ("least-work-eft-patient", "least work-EFT (patient)"),
    ],
)
def test_agents_by_name(name: str, full_name: str) -> None:
    agent: Any = create(name)
    assert agent.name == full_name
    assert create(name) is not agent


@pytest.mark.parametrize(
    "name", ["", "HEFT", "eft", "deft-fifo", "fifo-", "fifo-idle-eft", "heft-idle", "fifo-dls", "idle"]
)
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"no dag agent {name!r}; there are heft, .*rank_up.*insertion-eft"):
        create(name)


def run(name: str, jobs: list[Job], executors: Executors, seed: int, **options: Any) -> Result:
    """Return the result of an agent."""
    return simulate(DagCluster(jobs, executors, **options), create(name), seed=seed, until=1e5)


@pytest.mark.parametrize(
    ("name", "plan_ahead"), [*((name, True) for name in PLANNING + OTHERS), *((name, False) for name in OTHERS)]
)
def test_every_agent_in_every_cluster(name: str, plan_ahead: bool) -> None:
    if name == "optimum":
        pytest.importorskip("ortools", reason="ortools is not installed: pip install 'desim[optimum]'")
    for seed in (4, 5, 6):
        jobs, executors = random_instance(seed, staggered=True, max_nodes=9)
        for transfers in ("when_finished", "when_assigned"):
            options = {"plan_ahead": plan_ahead, "transfers": transfers}
            first, second = (run(name, jobs, executors, seed, **options) for _ in range(2))
            assert_feasible(first, jobs, executors)
            assert first.table("copies").equals(second.table("copies"))
            cut = run(name, jobs, executors, seed, processes=[random_outages(60.0, 10.0)], **options)
            assert cut.jobs["success"].all()
