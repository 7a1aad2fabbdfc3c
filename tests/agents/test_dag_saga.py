"""HEFT and CPOP beside those of anrg-saga: where they differ, one of its conventions explains it.

Its conventions, which are not those of the paper (IEEE TPDS 13(3), 2002):

1. The mean transfer time counts the channel of each processor with itself, which takes no time.
2. The downward rank adds the node's own work over the mean speed, instead of its parent's mean run time.
3. Every node whose priority is close to the critical path's runs on the executor of the path, which is chosen for them
   all; the paper follows one path.

With random real numbers there are no ties, which it breaks by the order of sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isclose

import numpy as np
import pytest
from dag_references import (
    Gantt,
    Key,
    Schedule,
    by_path,
    by_rank,
    critical_nodes,
    heft,
    list_schedule,
    mean_transfer,
    place_inserted,
    random_edges,
    run_times_of,
    schedule_of,
    upward,
)

from desim import simulate
from desim.agents.dag import CPOP, HEFT
from desim.core import Agent
from desim.problems.dag import DagCluster, Executors, Job

saga = pytest.importorskip("saga", reason="anrg-saga is not installed: pip install --no-deps anrg-saga pysmt pydantic")
schedulers = pytest.importorskip("saga.schedulers", reason="anrg-saga needs pysmt")

SEEDS = range(220)


def instance(seed: int, *, transfers: bool = True) -> tuple[Job, Executors]:
    """Return a graph with one first and one last node, and related executors with channels alike in both directions."""
    rng = np.random.default_rng([seed, 5])
    inner = int(rng.integers(1, 9))
    ratio = float(rng.choice([0.2, 1.0, 4.0]))
    edges = [
        (parent + 1, child + 1, size)
        for parent, child, size in random_edges(rng, inner, lambda: float(rng.exponential(10 * ratio)))
    ]
    with_children = {parent for parent, _, _ in edges}
    edges.append((0, 1, float(rng.exponential(10))))
    edges += [
        (node, inner + 1, float(rng.exponential(10))) for node in range(1, inner + 1) if node not in with_children
    ]
    count = int(rng.integers(1, 5))
    speeds = rng.uniform(0.5, 3, (count, count))
    channels = np.triu(speeds) + np.triu(speeds, 1).T
    work = rng.exponential(10, inner + 2)
    executors = Executors(rng.uniform(1, 4, count), channels if transfers else np.inf)
    return Job(1, work, edges), executors


def by_saga(name: str, job: Job, executors: Executors) -> float:
    """Return the makespan of one of its schedulers."""
    count = executors.num_executors
    network = saga.Network.create(
        nodes=[(f"v{index}", float(speed)) for index, speed in enumerate(executors.speeds)],
        edges=[
            (f"v{first}", f"v{second}", float(executors.transfer_speeds[first, second]))
            for first in range(count)
            for second in range(first, count)
        ],
    )
    graph = saga.TaskGraph.create(
        tasks=[(f"t{node:02}", float(work)) for node, work in enumerate(job.work)],
        dependencies=[
            (f"t{parent:02}", f"t{child:02}", size)
            for child, parents in enumerate(job.parent_lists)
            for parent, size in parents
        ],
    )
    return float(getattr(schedulers, name)().schedule(network, graph).makespan)


def by_us(agent: Agent, job: Job, executors: Executors) -> float:
    """Return the makespan of ours."""
    return makespan(schedule_of(simulate(DagCluster([job], executors, plan_ahead=True), agent)))


def makespan(schedule: Schedule) -> float:
    """Return when all is done."""
    return max(finish for _, _, finish in schedule.values())


def same(first: float, second: float) -> bool:
    """Tell whether makespans are equal but for rounding."""
    return isclose(first, second, rel_tol=1e-9)


def sagas_priorities(job: Job, executors: Executors) -> dict[Key, Fraction]:
    """Return the negative priorities of nodes in its CPOP."""
    speed = sum(map(Fraction, executors.speeds.tolist())) / executors.num_executors
    down: list[Fraction] = []
    for node, parents in enumerate(job.parent_lists):
        own = Fraction(float(job.work[node])) / speed
        ways = [down[parent] + mean_transfer(size, executors, self_loops=True) + own for parent, size in parents]
        down.append(max(ways, default=Fraction(0)))
    up = upward(job, executors, self_loops=True)
    return {(job.job_id, node): -(up[node] + down[node]) for node in range(job.num_nodes)}


def sagas_critical_nodes(job: Job, executors: Executors) -> set[Key]:
    """Return the nodes that its CPOP takes for critical."""
    keys = sagas_priorities(job, executors)
    return {key for key, value in keys.items() if isclose(value, keys[job.job_id, 0], rel_tol=1e-5, abs_tol=1e-8)}


def cpop_with(
    job: Job, executors: Executors, keys: dict[Key, Fraction], critical: Sequence[Key] | set[Key]
) -> Schedule:
    """Return CPOP's schedule for given priorities and critical nodes."""
    times = run_times_of(job, executors)
    sums = [sum(times[node][executor] for _, node in critical) for executor in range(executors.num_executors)]
    home = sums.index(min(sums))

    def place(gantt: Gantt, key: Key) -> None:
        if key in critical:
            gantt.put(key, home, gantt.inserted(*key, home))
        else:
            place_inserted(gantt, key)

    return list_schedule([job], executors, lambda batch: keys, place)[0].schedule()


def order_of(keys: dict[Key, Fraction]) -> list[Key]:
    """Return nodes by priority."""
    return sorted(keys, key=lambda key: keys[key])


def test_heft_with_its_mean_transfer_time() -> None:
    for seed in SEEDS:
        job, executors = instance(seed)
        reference = makespan(heft([job], executors, self_loops=True))
        assert same(by_saga("HeftScheduler", job, executors), reference), seed


def test_heft_differs_only_where_that_changes_the_order() -> None:
    differ = 0
    for seed in SEEDS:
        job, executors = instance(seed)
        ours, theirs = by_us(HEFT(), job, executors), by_saga("HeftScheduler", job, executors)
        if not same(ours, theirs):
            differ += 1
            assert order_of(by_rank([job], executors)) != order_of(by_rank([job], executors, self_loops=True)), seed
    assert 5 < differ < len(SEEDS) // 2


def test_heft_is_the_same_where_nothing_has_to_move() -> None:
    for seed in SEEDS[:60]:
        job, executors = instance(seed, transfers=False)
        assert same(by_us(HEFT(), job, executors), by_saga("HeftScheduler", job, executors)), seed


def test_cpop_with_its_priorities_and_its_critical_nodes() -> None:
    for seed in SEEDS:
        job, executors = instance(seed)
        reference = cpop_with(job, executors, sagas_priorities(job, executors), sagas_critical_nodes(job, executors))
        assert same(by_saga("CpopScheduler", job, executors), makespan(reference)), seed


def test_cpop_differs_only_where_these_differ() -> None:
    differ = agree = 0
    for seed in SEEDS:
        job, executors = instance(seed)
        ours, theirs = by_us(CPOP(), job, executors), by_saga("CpopScheduler", job, executors)
        keys, path = by_path([job], executors), critical_nodes([job], executors)
        assert same(ours, makespan(cpop_with(job, executors, keys, path))), seed
        if same(ours, theirs):
            agree += 1
        else:
            differ += 1
            same_order = order_of(keys) == order_of(sagas_priorities(job, executors))
            assert not same_order or set(path) != sagas_critical_nodes(job, executors), seed
    assert differ > 10
    assert agree > 20
