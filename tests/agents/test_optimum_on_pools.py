"""The agent `optimum` on pools: CP-SAT with cumulative resources, below every other agent."""

from __future__ import annotations

import pytest

from desim import simulate
from desim.agents.dag import Optimum, create
from desim.problems.dag import DagCluster, Executors
from tests.agents.below_optimum import AGENTS, RULES, below, measure, random_pools
from tests.agents.test_pool_search import optimum, random_job

pytest.importorskip("ortools")


@pytest.mark.parametrize("seed", range(5))
def test_no_agent_is_below_the_optimum(seed: int) -> None:
    assert not below(measure(seed, RULES))


def test_this_would_find_an_agent_below_the_optimum() -> None:
    row = measure(0, ())
    assert below(row | {"cheat": row["bound"] - 0.5}) == ["cheat"]


def test_data_on_their_way_to_empty_pools_are_waited_for() -> None:
    jobs, pools = random_pools(56)
    result = simulate(DagCluster(jobs, pools), create("sjf-eft-idle"))
    assert result.jobs["status"].to_list() == ["completed", "completed"]


@pytest.mark.slow
def test_none_of_all_agents_is_below_the_optimum() -> None:
    """The first few of the 500 instances of ``python -m tests.agents.below_optimum``."""
    pytest.importorskip("numba")
    for seed in range(10):
        assert not below(measure(seed, AGENTS)), seed


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_of_one_pool_is_that_of_a_model_of_its_own(seed: int) -> None:
    job, capacity = random_job(seed)
    result = simulate(DagCluster([job], Executors([1.0], capacities=[capacity])), Optimum())
    assert result.metrics()["makespan"] == optimum(job, capacity)
