"""`search:dag` on pools: justification passes, against the optimum and against the simulator."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, Executors, Job
from desim.validation import validate

pytest.importorskip("numba")


def optimum(job: Job, capacity: dict[str, int]) -> float:
    """Return the least makespan on one pool, by CP-SAT: a cumulative constraint for each resource."""
    cp_model = pytest.importorskip("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    times = job.work.astype(int).tolist()
    starts = [model.new_int_var(0, sum(times), "") for _ in times]
    spans = [model.new_fixed_size_interval_var(start, time, "") for start, time in zip(starts, times, strict=True)]
    end = model.new_int_var(0, sum(times), "")
    for node, start in enumerate(starts):
        model.add(end >= start + times[node])
        for parent in job.parents(node).tolist():
            model.add(start >= starts[parent] + times[parent])
    assert job.demands is not None
    for name, amount in capacity.items():
        wanted = [amount if each is None else int(each[name]) for each in job.demands]
        model.add_cumulative(spans, wanted, amount)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.objective_value


def random_job(seed: int, size: int = 9) -> tuple[Job, dict[str, int]]:
    rng = np.random.default_rng(seed)
    capacity = {"cores": 6, "memory": 9}
    demands = [{name: int(rng.integers(1, amount)) for name, amount in capacity.items()} for _ in range(size)]
    edges = [(a, b, 0.0) for a, b in product(range(size), repeat=2) if a < b and rng.random() < 0.2]
    return Job(seed, rng.integers(1, 9, size).astype(float), edges, demands=demands, allow_disconnected=True), capacity


def test_search_meets_the_optimum_of_small_jobs() -> None:
    """On one pool, 200 pairs of passes find the optimum of most small jobs, and nothing below it."""
    met = 0
    for seed in range(10):
        job, capacity = random_job(seed)
        least = optimum(job, capacity)
        agents = ("search:dag:makespan:200", "rank-up-eft-idle", "sjf-eft-idle")
        makespans = [
            simulate(DagCluster([job], Executors([1.0], capacities=[capacity])), create(name)).metrics()["makespan"]
            for name in agents
        ]
        assert min(makespans) >= least
        assert makespans[0] == min(makespans)
        met += makespans[0] == least
    assert met >= 8


@pytest.mark.parametrize("transfers", ["when_finished", "when_assigned"])
def test_plans_are_carried_out_as_planned(transfers: str) -> None:
    """On pools of two speeds with transfers, each simulated end is the planned one, to the last bit."""
    for seed in range(4):
        job, capacity = random_job(seed, size=14)
        job = job.sized(np.full(job.num_edges, 3.0))
        pools = Executors([1.0, 0.7], 2.0, 0.1, capacities=[capacity, {"cores": 6, "memory": 20}])
        agent = create("search:dag:makespan:30")
        result = simulate(DagCluster([job], pools, transfers=transfers), agent)
        assert validate(result, [job]).ok
        if transfers == "when_finished":
            assert result.metrics()["makespan"] * 1.001 == pytest.approx(agent.value, rel=1e-12)


def test_search_plans_again_when_jobs_arrive() -> None:
    jobs = [random_job(seed)[0] for seed in range(4)]
    jobs = [Job(n, j.work, [(int(a), b, 0.0) for b in range(j.num_nodes) for a in j.parents(b)], demands=j.demands,
                submission_time=5.0 * n, allow_disconnected=True) for n, j in enumerate(jobs)]  # fmt: skip
    pools = Executors([1.0], capacities=[{"cores": 6, "memory": 9}])
    found = {}
    for name in ("search:dag:turnaround_time_mean:100", "fifo-eft-idle"):
        result = simulate(DagCluster(jobs, pools), create(name))
        assert validate(result, jobs).ok
        found[name] = result.metrics()["turnaround_time_mean"]
    assert found["search:dag:turnaround_time_mean:100"] < found["fifo-eft-idle"]


def test_a_guide_that_cannot_plan_on_pools_is_refused() -> None:
    job, capacity = random_job(0)
    cluster = DagCluster([job], Executors([1.0], capacities=[capacity]))
    with pytest.raises(InvalidConfiguration, match="no guide is followed"):
        simulate(cluster, create("search:dag:makespan:10:heft"))
