"""Pools: executors that run several nodes at once, as long as their demands fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from desim import simulate
from desim.agents.dag import create
from desim.exceptions import DisregardedWarning, InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problems.dag import Assign, DagCluster, Executors, Job, SharedLinks, TaskCluster, from_networkx, to_networkx
from desim.processes.outages import random_outages
from desim.result import Result
from desim.validation import validate

ONE = Executors([1.0], capacities=[{"cores": 4, "memory": 8}])


def job_of(*nodes: tuple[float, Any], edges: Any = ()) -> Job:
    """Return a job of nodes with run times and demands."""
    return Job(1, [time for time, _ in nodes], edges, demands=[each for _, each in nodes], allow_disconnected=True)


def starts_of(result: Result) -> list[float]:
    return result.table("copies").sort("node")["starting_time"].to_list()  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::desim.exceptions.DisregardedWarning")
def test_a_pool_serves_its_queue_in_order_and_several_nodes_at_once() -> None:
    """Two cores and three do not fit together, the third node does not overtake, and one without demands is alone."""
    job = job_of((2, {"cores": 2}), (3, {"cores": 3}), (1, {"cores": 1, "memory": 8}), (4, None))
    result = simulate(DagCluster([job], ONE), create("fifo-eft"))
    assert starts_of(result) == [0.0, 2.0, 2.0, 5.0]
    metrics = result.metrics()
    assert metrics["utilization_cores"] == (2 * 2 + 3 * 3 + 1 + 4 * 4) / (4 * 9)
    assert metrics["utilization_memory"] == (8 * 1 + 8 * 4) / (8 * 9)
    assert metrics["utilization"] == pytest.approx((metrics["utilization_cores"] + metrics["utilization_memory"]) / 2)
    assert metrics["lower_bound"] == (2 * 2 + 3 * 3 + 1 + 4 * 4) / 4  # the work in cores; the longest path is 4
    assert validate(result, [job]).ok


def test_list_schedulers_let_nodes_that_fit_go_first() -> None:
    job = job_of((2, {"cores": 2}), (3, {"cores": 3}), (1, {"cores": 1, "memory": 8}), (4, None))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisregardedWarning)  # they take demands into account
        result = simulate(DagCluster([job], ONE), create("fifo-eft-idle"))
    assert starts_of(result) == [0.0, 2.0, 0.0, 5.0]


def test_agents_that_do_not_know_demands_say_so() -> None:
    with pytest.warns(DisregardedWarning, match="heft does not take into account: demands"):
        simulate(DagCluster([job_of((1, None))], ONE), create("heft"))


def test_exact_fills_start_together() -> None:
    """Ten tenths and three thirds fill one core, although they do not add up to 1 as floats."""
    executors = Executors([1.0], capacities=[{"cores": 1}])
    for count in (3, 6, 7, 10):
        job = job_of(*[(1, {"cores": 1 / count})] * count)
        assert starts_of(simulate(DagCluster([job], executors), create("fifo-eft-idle"))) == [0.0] * count


def test_large_amounts_are_exact() -> None:
    """Large amounts of memory are exact: half of 131,795,956,000 bytes fits twice."""
    executors = Executors([1.0], capacities=[{"memory": 131_795_956_000}])
    assert executors.capacities == [{"memory": 131_795_956_000.0}]
    job = job_of(*[(1, {"memory": 65_897_978_000})] * 2, (1, {"memory": 1}))
    assert starts_of(simulate(DagCluster([job], executors), create("fifo-eft-idle"))) == [0.0, 0.0, 1.0]


def test_a_demand_beyond_a_pool_makes_it_ineligible() -> None:
    executors = Executors([1.0, 1.0], capacities=[{"cores": 1}, {"cores": 8, "gpus": 1}])
    job = job_of((1, {"cores": 2}), (1, {"gpus": 1}), (1, {"cores": 1}))
    assert job.run_times_on(executors).tolist() == [[np.inf, 1.0], [np.inf, 1.0], [1.0, 1.0]]
    with pytest.raises(WorkloadError, match=r"node 'node0' may run on no executor .* demands: {'cores': 9}"):
        job_of((1, {"cores": 9})).run_times_on(executors)


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        ({"disk": 1}, "got the resource 'disk', expected one of cores, memory"),
        ({"cores": -1}, "cores: got -1, expected 0 or a number from 1e-6"),
        ({"cores": float("nan")}, "cores: got nan"),
        (3, "got 3, expected amounts by resource"),
    ],
)
def test_wrong_demands_are_refused(demands: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        DagCluster([job_of((1, demands))], ONE)


def test_wrong_clusters_are_refused() -> None:
    with pytest.raises(WorkloadError, match="the executors have no capacities"):
        DagCluster([job_of((1, {"cores": 1}))], Executors([1.0]))
    with pytest.raises(InvalidConfiguration, match="capacities: got 1, expected 2"):
        Executors([1.0, 1.0], capacities=[{"cores": 1}])
    with pytest.raises(InvalidConfiguration, match="capacities of 'executor1': got none"):
        Executors([1.0, 1.0], capacities=[{"cores": 1}, {}])
    with pytest.raises(InvalidConfiguration, match="an executor runs one task at a time"):
        TaskCluster([], ONE)


def test_no_copy_goes_before_another_one_in_a_pool() -> None:
    class Inserting:
        def act(self, observation: Any) -> Any:
            return [Assign(1, 0, 0), Assign(1, 1, 0, position=0)]

    with pytest.raises(InfeasibleAction, match="copies join the end of a pool's queue"):
        simulate(DagCluster([job_of((1, None), (1, None))], ONE), Inserting())


def test_graphs_and_parts_of_clusters_keep_demands() -> None:
    job = job_of((1, {"cores": 2}), (1, None), edges=[(0, 1, 0.0)])
    again = from_networkx(to_networkx(job))
    assert again.demands == job.demands
    executors = Executors([1.0, 2.0], capacities=[{"cores": 4}, {"gpus": 1}])
    assert executors.only([1]).capacities == [{"cores": 0.0, "gpus": 1.0}]


def test_rules_find_overfull_pools_and_needless_waits() -> None:
    job = job_of((2, {"cores": 2}), (3, {"cores": 3}), (4, None))
    result = simulate(DagCluster([job], ONE), create("fifo-eft-idle"))
    for shifts, message in (([0, -1, 0], "hold"), ([0, 0, 1], "were free")):
        moved = (
            result.table("copies")
            .sort("node")
            .with_columns((pl.col("starting_time") + pl.Series(shifts)), (pl.col("finish_time") + pl.Series(shifts)))
        )
        tables = {name: result.table(name).lazy() for name in result.table_names}
        report = validate(Result({**tables, "copies": moved.lazy()}, result.info))
        assert message in str(report)


# -- random scenarios, checked by a loop of their own -----------------------------------------------

AGENTS = (
    "fifo-eft",
    "rank-up-deft-idle",
    "critical-path-eft-idle",
    "heft",
    "tdca",
    "random-insertion-deft",
    "rank-up-eft-patient",
    "search:dag:makespan:5",
)


def scenarios(count: int) -> Iterator[tuple[list[Job], DagCluster, str, float | None]]:
    """Yield random jobs on random pools, with a cluster and an agent."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        num_pools, resources = int(rng.integers(1, 4)), ["cores", "memory", "gpus"][: int(rng.integers(1, 4))]
        speeds = rng.choice([0.5, 1.0, 2.0], num_pools)
        capacities = [{name: float(rng.integers(1, 9)) for name in resources} for _ in range(num_pools)]
        largest = {name: max(each[name] for each in capacities[:1]) for name in resources}
        jobs = []
        for number in range(int(rng.integers(1, 9))):
            size = int(rng.integers(1, 9))
            edges = [
                (a, b, float(rng.integers(0, 4))) for b in range(size) for a in range(b) if rng.random() < rng.random()
            ]
            demands = [
                None if rng.random() < 0.1 else {name: rng.integers(0, 11) / 10 * largest[name] for name in resources}
                for _ in range(size)
            ]
            time = float(rng.integers(0, 9)) * (seed % 2)
            jobs.append(
                Job(
                    number,
                    rng.integers(0, 6, size).astype(float),
                    edges,
                    demands=demands,
                    submission_time=time,
                    allow_disconnected=True,
                )
            )
        jobs.sort(key=lambda job: (job.submission_time, job.job_id))
        pools = Executors(speeds, 2.0 if rng.random() < 0.7 else np.inf, capacities=capacities)
        fails, shares = rng.random() < 0.3, rng.random() < 0.3
        cluster = DagCluster(
            jobs,
            pools,
            transfers="when_assigned" if shares else "when_finished",
            links=SharedLinks.bus(num_pools, 3.0) if shares else None,
            outages_lose_data=bool(rng.random() < 0.5),
            processes=[random_outages(60.0, 5.0)] if fails else [],
        )
        yield jobs, cluster, AGENTS[seed % len(AGENTS)], 400.0 if fails else None


def check(jobs: list[Job], pools: Executors, result: Result) -> None:
    """Check a run on its table of copies alone: eligible pools, capacities, precedence, and all nodes."""
    by_id = {job.job_id: job for job in jobs}
    rows = result.table("copies").filter(pl.col("starting_time").is_not_null()).rows(named=True)
    capacities = pools.capacities or []
    done: dict[tuple[int, int], float] = {}
    for row in rows:
        if row["outcome"] == "completed":
            key = row["job_id"], row["node"]
            done[key] = min(row["finish_time"], done.get(key, np.inf))
    for row in rows:
        job, capacity = by_id[row["job_id"]], capacities[row["executor"]]
        assert job.demands is not None
        for name, amount in (job.demands[row["node"]] or {}).items():
            assert amount <= capacity[name] + 1e-9
        for parent in job.parents(row["node"]).tolist():
            assert done[job.job_id, parent] <= row["starting_time"]
        held = dict.fromkeys(capacity, 0.0)
        for other in rows:
            ends = np.inf if other["finish_time"] is None else other["finish_time"]
            if other["executor"] == row["executor"] and other["starting_time"] <= row["starting_time"] < ends:
                wanted = by_id[other["job_id"]].demands[other["node"]]  # type: ignore[index]
                for name in held:
                    held[name] += capacity[name] if wanted is None else wanted.get(name, 0.0)
        assert all(held[name] <= capacity[name] + 1e-9 for name in held)
    if result.info["status"] == "completed":
        assert len(done) == sum(job.num_nodes for job in jobs)


def run_scenarios(count: int) -> None:
    for jobs, cluster, agent, until in scenarios(count):
        options: dict[str, Any] = {} if until is None else {"until": until}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisregardedWarning)
            result = simulate(cluster, create(agent), **options)
        check(jobs, cluster.executors, result)
        report = validate(result, jobs)
        assert report.ok, f"{agent}: {report}"
        metrics = result.metrics()
        assert not metrics["makespan"] < metrics["lower_bound"] * (1 - 1e-9)


def test_pools_are_never_overfull() -> None:
    run_scenarios(14)


@pytest.mark.slow
def test_pools_are_never_overfull_in_thousands_of_scenarios() -> None:
    run_scenarios(3_000)
