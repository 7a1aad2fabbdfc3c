"""The agent `optimum` on pools: CP-SAT with cumulative resources, below every other agent."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import Optimum, create
from desim.problems.dag import DagCluster, Executors, Job
from desim.validation import validate
from tests.agents.test_pool_search import optimum, random_job

pytest.importorskip("ortools")

RULES = ("rank-up-eft-idle", "sjf-eft-idle", "rank-up-deft-idle", "heft", "fifo-eft")


def random_pools(seed: int) -> tuple[list[Job], Executors]:
    """Return small jobs with demands for one or two resources on up to three pools."""
    rng = np.random.default_rng(seed)
    count, names = int(rng.integers(1, 4)), ["cores", "memory"][: int(rng.integers(1, 3))]
    capacities = [{name: float(rng.integers(3, 8)) for name in names} for _ in range(count)]
    least = {name: min(pool[name] for pool in capacities) for name in names}
    jobs = []
    for number in range(int(rng.integers(1, 3))):
        size = int(rng.integers(2, 7))
        edges = [(a, b, float(rng.integers(0, 4))) for a, b in product(range(size), repeat=2) if a < b]
        edges = [edge for edge in edges if rng.random() < 0.3]
        demands = [
            None if rng.random() < 0.05 else {name: float(rng.integers(0, most + 1)) for name, most in least.items()}
            for _ in range(size)
        ]
        work = rng.integers(1, 9, size).astype(float)
        jobs.append(Job(number, work, edges, demands=demands, allow_disconnected=True))
    speeds = rng.choice([1.0, 1.0, 2.0, 0.5], count)
    return jobs, Executors(speeds, float(rng.choice([np.inf, 1.0])), capacities=capacities)


def check(seed: int, agents: tuple[str, ...]) -> None:
    """Check that the optimum is valid, as its bound says, and at most the makespan of each agent if it is proved."""
    jobs, pools = random_pools(seed)
    agent = Optimum(time_limit=10.0)
    result = simulate(DagCluster(jobs, pools), agent)
    validate(result, jobs).raise_if_invalid()
    (schedule,) = agent.schedules
    least = result.metrics()["makespan"]
    assert schedule.bound - 1e-9 <= least <= schedule.makespan + 1e-9
    bound = least if schedule.status == "optimal" else schedule.bound
    for name in agents:
        assert simulate(DagCluster(jobs, pools), create(name)).metrics()["makespan"] >= bound - 1e-9, name


@pytest.mark.parametrize("seed", range(5))
def test_no_agent_is_below_the_optimum(seed: int) -> None:
    check(seed, RULES)


def test_data_on_their_way_to_empty_pools_are_waited_for() -> None:
    jobs, pools = random_pools(56)
    result = simulate(DagCluster(jobs, pools), create("sjf-eft-idle"))
    assert result.jobs["status"].to_list() == ["completed", "completed"]


@pytest.mark.slow
def test_no_agent_is_below_the_optimum_of_500_instances() -> None:
    pytest.importorskip("numba")
    for seed in range(500):
        check(seed, (*RULES, "search:dag:makespan:50"))


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_of_one_pool_is_that_of_a_model_of_its_own(seed: int) -> None:
    job, capacity = random_job(seed)
    result = simulate(DagCluster([job], Executors([1.0], capacities=[capacity])), Optimum())
    assert result.metrics()["makespan"] == optimum(job, capacity)
