"""TDCA: what it plans can be executed as planned, and is never worse than no parallelism at all."""

from __future__ import annotations

import numpy as np
import pytest
from dag_exhaustive import assert_feasible
from dag_references import random_instance, run_times_of

from desim import simulate
from desim.agents.dag import TDCA
from desim.agents.dag.planning import union_of
from desim.agents.dag.tdca import estimate, make_clusters, plan_with_tdca
from desim.problems.dag import DagCluster, Executors, Job
from desim.processes.outages import random_outages


def fork() -> Job:
    """Return a, from which b needs much and c little; d needs little of b and much of c."""
    edges = [("a", "b", 20.0), ("a", "c", 1.0), ("b", "d", 5.0), ("c", "d", 30.0)]
    return Job(1, [10.0] * 4, edges, names="abcd")


def test_clusters_of_a_fork() -> None:
    graph = union_of([fork()], Executors([1.0, 1.0], 1.0), np.zeros(2))
    estimates = estimate(graph)
    assert estimates.favourites == [-1, 0, 0, 2]
    assert estimates.least == [10.0, 20.0, 20.0, 35.0]  # d behind c, with b from elsewhere at 25
    clusters = make_clusters(graph, estimates)
    assert [(cluster.nodes, cluster.duplicates) for cluster in clusters] == [([0, 2, 3], []), ([1], [0])]


def test_schedule_of_a_fork() -> None:
    cluster = DagCluster([fork()], Executors([1.0, 1.0], 1.0), plan_ahead=True)
    copies = simulate(cluster, TDCA()).table("copies").sort("executor", "starting_time")
    columns = ("node", "executor", "starting_time", "finish_time")
    assert list(copies.select(*columns).iter_rows()) == [
        (0, 0, 0.0, 10.0),
        (2, 0, 10.0, 20.0),
        (3, 0, 25.0, 35.0),
        (0, 1, 0.0, 10.0),  # the duplicate
        (1, 1, 10.0, 20.0),
    ]


def test_one_executor_is_used_where_moving_data_takes_too_long() -> None:
    job = Job(1, [1.0] * 5, [(0, child, 1000.0) for child in (1, 2, 3)] + [(parent, 4, 1000.0) for parent in (1, 2, 3)])
    copies = simulate(DagCluster([job], Executors([1.0, 3.0, 2.0], 1.0), plan_ahead=True), TDCA()).table("copies")
    assert copies["executor"].to_list() == [1] * 5


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_plans_are_executed_as_planned(first: int) -> None:
    duplicates = 0
    for seed in range(first, first + 40):
        jobs, executors = random_instance(seed, max_nodes=25)
        result = simulate(DagCluster(jobs, executors, plan_ahead=True), TDCA(), seed=seed)
        assert_feasible(result, jobs, executors)
        makespan = result.jobs["finish_time"].max()
        plan = plan_with_tdca(union_of(jobs, executors, np.zeros(executors.num_executors)))
        assert [copy.start for copy in plan] == sorted(copy.start for copy in plan)
        assert makespan <= max(copy.finish for copy in plan)  # type: ignore[operator]
        rows = [row for job in jobs for row in run_times_of(job, executors)]
        serial = min(sum(row[executor] for row in rows) for executor in range(executors.num_executors))
        assert makespan <= serial * (1 + 1e-12)  # type: ignore[operator]
        duplicates += len(plan) - len(rows)
        again = simulate(DagCluster(jobs, executors, plan_ahead=True), TDCA(), seed=seed + 1)
        assert again.table("copies").equals(result.table("copies"))
    assert duplicates > 20


def test_every_duplicate_in_a_plan_is_of_use() -> None:
    for seed in range(200, 230):
        jobs, executors = random_instance(seed, max_nodes=25)
        graph = union_of(jobs, executors, np.zeros(executors.num_executors))
        plan = plan_with_tdca(graph)
        children = {parent for parents in graph.parents for parent, _, _ in parents}
        where = {(copy.node, copy.executor): copy.finish for copy in plan}
        assert len(where) == len(plan)
        used = set()
        for copy in plan:
            for parent, size, _ in graph.parents[copy.node]:
                sources = [executor for node, executor in where if node == parent]
                arrivals = {
                    executor: where[parent, executor]
                    + size * graph.seconds_per_unit[executor, copy.executor]
                    + graph.latencies[executor, copy.executor]
                    for executor in sources
                }
                used |= {(parent, source) for source in sources if arrivals[source] <= min(arrivals.values()) + 1e-9}
        assert {key for key in where if key[0] in children} <= used
        assert len([node for node, _ in where if node not in children]) == graph.num_nodes - len(children)


def test_later_jobs_and_outages() -> None:
    interrupted = 0
    for seed in range(300, 330):
        jobs, executors = random_instance(seed, staggered=True)
        assert_feasible(simulate(DagCluster(jobs, executors, plan_ahead=True), TDCA()), jobs, executors)
        cluster = DagCluster(jobs, executors, plan_ahead=True, processes=[random_outages(80.0, 10.0)])
        result = simulate(cluster, TDCA(), seed=seed, until=20_000.0)
        assert result.jobs["success"].all()
        interrupted += (result.table("copies")["outcome"] == "interrupted").sum()
    assert interrupted > 10
