"""How run time grows with each dimension: the exponent that a straight line through the logarithms has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.common import print_table, processor_seconds
from benchmarks.figures import TREE, commit_of, last_stored, store, stored
from desim import simulate
from desim.agents.batch import EASYBackfilling
from desim.agents.dag import ListScheduler, RankUp
from desim.agents.multiserver import ExactOGA
from desim.problems.batch import BatchCluster, Job
from desim.problems.dag import DagCluster
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import executors, random_dags
from desim.workloads.multiserver import bernoulli_arrivals, generate

ROUNDS = 3


def queued(count: int) -> Callable[[], object]:
    """Return a run of EASY with so many jobs in the queue at the beginning."""
    rng = np.random.default_rng(0)
    cores, times = rng.integers(1, 64, count).tolist(), rng.uniform(10, 1_000, count).tolist()
    jobs = [Job(number, 0.0, cores[number], times[number], times[number]) for number in range(count)]
    return lambda: simulate(BatchCluster(jobs, 64), EASYBackfilling("fcfs"))


def running(count: int) -> Callable[[], object]:
    """Return a run of EASY over 4,000 jobs, of which so many run at a time."""
    times = np.random.default_rng(0).uniform(10, 1_000, 4_000).tolist()
    jobs = [Job(number, 0.0, 1, time, time) for number, time in enumerate(times)]
    return lambda: simulate(BatchCluster(jobs, count), EASYBackfilling("fcfs"))


def dag(num_nodes: int, num_executors: int) -> Callable[[], object]:
    """Return a run of rank-up-DEFT over one job."""
    job, machines = random_dags.generate(num_nodes, mean_work=25.0, seed=0), executors.heterogeneous(num_executors)
    return lambda: simulate(DagCluster([job], machines), ListScheduler(RankUp()))


def multiserver(num_slots: int, num_ports: int) -> Callable[[], object]:
    """Return a run of ExactOGA over a complete graph of 64 nodes."""
    rewards = generate(num_ports=num_ports, num_nodes=64, density=None, seed=0)
    arrivals = bernoulli_arrivals(num_slots, num_ports, 0.7, seed=1)
    return lambda: simulate(MultiServerCluster(rewards, arrivals, record_allocations=0), ExactOGA())


DIMENSIONS: dict[str, tuple[Callable[[int], Callable[[], object]], tuple[int, ...]]] = {
    "queued jobs": (queued, (500, 1_000, 2_000, 4_000)),
    "running jobs, as many in all": (running, (125, 250, 500, 1_000)),
    "nodes": (partial(dag, num_executors=20), (500, 1_000, 2_000, 4_000)),
    "executors": (partial(dag, 500), (10, 20, 40, 80)),
    "slots": (partial(multiserver, num_ports=10), (250, 500, 1_000, 2_000)),
    "ports": (partial(multiserver, 100), (10, 20, 40, 80)),
}
"""What makes a run of a size, and the sizes."""


def main() -> None:
    """Print the time of each size and the exponent, 1 is linear, beside the last that were stored; store them."""
    path = last_stored()
    before, what = (stored(path), path.stem) if path else ({}, "nothing stored")
    rows, found = [], {}
    for name, (make, sizes) in DIMENSIONS.items():
        seconds = processor_seconds(ROUNDS, *map(make, sizes))
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        found[f"growth, {name}"] = float(exponent)
        last = f"{before[f'growth, {name}']:.2f}" if f"growth, {name}" in before else ""
        milliseconds = (f"{1e3 * s:.0f}" for s in seconds)
        rows.append([name, f"{sizes[0]:,} to {sizes[-1]:,}", *milliseconds, f"{exponent:.2f}", last])
    head = ["time of a run with", "sizes, doubled", *("ms" for _ in range(4)), "exponent", what]
    print_table(f"Growth, processor time (best of {ROUNDS})", head, rows)
    print(f"  stored in {store(found, commit_of(TREE))}")


if __name__ == "__main__":
    main()
