"""DAG jobs: HEFT and rank-up-DEFT through the kernel with records, beside HEFT without simulation, and their growth."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left, insort
from collections.abc import Callable
from statistics import median

from benchmarks.common import print_table
from desim import simulate
from desim.agents.dag import HEFT, ListScheduler, RankUp
from desim.core import Agent
from desim.problems.dag import DagCluster, Executors, Job
from desim.workloads import executors, random_dags, tpch

NUM_EXECUTORS = 50
RUNS = 7
#: Of the program that is compared with; longer than all the rest together.
OTHER_RUNS = 1


def plain_heft(job: Job, machines: Executors) -> float:
    """Return the makespan of HEFT, computed in plain Python without a simulation."""
    run_times = job.run_times_on(machines).tolist()
    seconds = machines.seconds_per_unit.tolist()
    mean = machines.mean_seconds_per_unit
    rank = [sum(row) / len(row) for row in run_times]
    for node in reversed(range(job.num_nodes)):
        rank[node] += max((size * mean + rank[child] for child, size in job.child_lists[node]), default=0.0)
    finish = [0.0] * job.num_nodes
    place = [0] * job.num_nodes
    busy: list[list[tuple[float, float]]] = [[] for _ in seconds]
    for node in sorted(range(job.num_nodes), key=lambda node: (-rank[node], node)):
        inputs = [(finish[parent], size, seconds[place[parent]]) for parent, size in job.parent_lists[node]]
        best = (float("inf"), 0.0, 0)
        for executor, slots in enumerate(busy):
            ready = max((end + size * row[executor] for end, size, row in inputs), default=0.0)
            length = run_times[node][executor]
            if ready + length >= best[0]:
                continue
            start = ready
            for begin, end in slots[max(0, bisect_left(slots, (ready,)) - 1) :]:
                if start + length <= begin:
                    break
                start = max(start, end)
            best = min(best, (start + length, start, executor))
        finish[node], start, place[node] = best
        insort(busy[place[node]], (start, finish[node]))
    return max(finish)


def other_heft(job: Job, machines: Executors) -> Callable[[], float] | None:
    """Return what computes HEFT's makespan with anrg-saga; None if that is not installed."""
    try:
        from saga import Network, TaskGraph
        from saga.schedulers.heft import HeftScheduler
    except ImportError:
        return None
    logging.disable(logging.WARNING)  # it says that it adds a source and a sink
    names = [str(node) for node in range(job.num_nodes)]
    graph = TaskGraph.create(
        tasks=list(zip(names, job.work.tolist(), strict=True)),
        dependencies=[
            (names[parent], names[child], size)
            for child, parents in enumerate(job.parent_lists)
            for parent, size in parents
        ],
    )
    count = machines.num_executors
    network = Network.create(
        nodes=[(f"e{executor}", speed) for executor, speed in enumerate(machines.speeds.tolist())],
        edges=[
            (f"e{first}", f"e{second}", machines.transfer_speeds.item(first, second))
            for first in range(count)
            for second in range(first + 1, count)
        ],
    )
    return lambda: float(HeftScheduler().schedule(network, graph).makespan)


def timed(function: Callable[[], float], runs: int = RUNS) -> tuple[float, float]:
    """Return what a function returns and the median of its times in seconds, after a first one that warms up."""
    seconds = []
    for _ in range(runs + (runs > 1)):
        begin = time.perf_counter()
        value = function()
        seconds.append(time.perf_counter() - begin)
    return value, median(seconds[runs > 1 :])


def simulated(jobs: list[Job], machines: Executors, agent: Agent, *, plan_ahead: bool = False) -> Callable[[], float]:
    """Return what runs a simulation up to its tables and returns the makespan."""

    def run() -> float:
        """Simulate."""
        result = simulate(DagCluster(jobs, machines, plan_ahead=plan_ahead), agent)
        for name in result.table_names:
            result.table(name)
        return float(result.jobs["finish_time"].max())  # type: ignore[arg-type]

    return run


def sizes() -> None:
    """Print the two sizes that are to take at most 0.1 s, beside HEFT without simulation."""
    machines = executors.heterogeneous(NUM_EXECUTORS, seed=0)
    job = random_dags.generate(1_000, mean_work=25.0, seed=0)
    batch = tpch.generate(100, seed=0)
    rows = []
    graph = f"{job.num_nodes:,} nodes, {job.num_edges:,} edges"
    plain, reference = timed(lambda: plain_heft(job, machines))
    rows.append([graph, "HEFT, plain Python, no simulation", f"{plain:,.1f}", f"{reference:.3f}", "1.0"])
    other = other_heft(job, machines)
    if other is None:
        rows.append([graph, "HEFT of anrg-saga: not installed", "", "", ""])
    else:
        value, seconds = timed(other, OTHER_RUNS)
        rows.append(
            [graph, "HEFT of anrg-saga, no simulation", f"{value:,.1f}", f"{seconds:.3f}", f"{seconds / reference:.1f}"]
        )
    stages = f"{len(batch)} TPC-H-like jobs, {sum(each.num_nodes for each in batch):,} nodes"
    for name, jobs, agent, plan_ahead in (
        (graph, [job], HEFT(), True),
        (graph, [job], ListScheduler(RankUp()), False),
        (stages, batch, ListScheduler(RankUp()), False),
        (stages, batch, ListScheduler(RankUp()), True),
        (stages, batch, HEFT(), True),
    ):
        value, seconds = timed(simulated(jobs, machines, agent, plan_ahead=plan_ahead))
        label = f"desim: {agent.name}{', planned' if plan_ahead and agent.name != 'HEFT' else ''}"  # type: ignore[attr-defined]
        rows.append([name, label, f"{value:,.1f}", f"{seconds:.3f}", f"{seconds / reference:.1f}"])
    head = ["workload", "scheduler", "makespan s", "seconds", "x plain HEFT"]
    print_table(f"{NUM_EXECUTORS} executors, simulation with all records, medians of {RUNS}", head, rows)


def growth() -> None:
    """Print how the time grows with the number of nodes."""
    machines = executors.heterogeneous(NUM_EXECUTORS, seed=0)
    agents: tuple[tuple[Agent, bool], ...] = ((HEFT(), True), (ListScheduler(RankUp()), False))
    rows = []
    for count in (100, 1_000, 10_000, 100_000):
        job = random_dags.generate(count, mean_work=25.0, seed=0)
        seconds = [
            timed(simulated([job], machines, agent, plan_ahead=plan_ahead), 3 if count < 10_000 else 1)[1]
            for agent, plan_ahead in agents
        ]
        rows.append([f"{count:,}", *(f"{time:.3f}" for time in seconds), *(f"{1e6 * s / count:.0f}" for s in seconds)])
    head = ["nodes", "HEFT s", "rank-up-DEFT s", "HEFT us a node", "rank-up-DEFT us a node"]
    print_table("Growth with the number of nodes", head, rows)


def main() -> None:
    """Print both tables."""
    sizes()
    print()
    growth()


if __name__ == "__main__":
    main()
