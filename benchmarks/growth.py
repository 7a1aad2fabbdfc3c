"""How run time grows with each dimension: the exponent that a straight line through the logarithms has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.common import exponent_of, print_table, processor_seconds, risen
from benchmarks.figures import TREE, commit_of, last_stored, store, stored
from desim import simulate
from desim.agents.batch import EASYBackfilling
from desim.agents.dag import ListScheduler, RankUp
from desim.agents.multiserver import ExactOGA
from desim.problems.batch import BatchCluster, Job
from desim.problems.dag import DagCluster
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import executors, lublin, random_dags
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


def jobs_in_all(count: int) -> Callable[[], object]:
    """Return a run of EASY over so many jobs of the Lublin-Feitelson model."""
    jobs = lublin.generate(count, 256, seed=0, load=0.8)
    return lambda: simulate(BatchCluster(jobs, 256), EASYBackfilling("fcfs"), engine="simpy")


def cores(count: int) -> Callable[[], object]:
    """Return a run of EASY over 1,000 jobs, each of which requests a part of so many cores."""
    rng = np.random.default_rng(0)
    widths, times = rng.integers(1, 64, 1_000).tolist(), rng.uniform(10, 1_000, 1_000).tolist()
    jobs = [Job(row, 5.0 * row, widths[row] * count // 256, times[row], times[row]) for row in range(1_000)]
    return lambda: simulate(BatchCluster(jobs, count), EASYBackfilling("fcfs"), engine="simpy")


def dag(num_nodes: int, num_executors: int) -> Callable[[], object]:
    """Return a run of rank-up-DEFT over one job."""
    job, machines = random_dags.generate(num_nodes, mean_work=25.0, seed=0), executors.heterogeneous(num_executors)
    return lambda: simulate(DagCluster([job], machines), ListScheduler(RankUp()))


def multiserver(num_slots: int, num_ports: int) -> Callable[[], object]:
    """Return a run of ExactOGA over a complete graph of 64 nodes."""
    rewards = generate(num_ports=num_ports, num_nodes=64, density=None, seed=0)
    arrivals = bernoulli_arrivals(num_slots, num_ports, 0.7, seed=1)
    return lambda: simulate(MultiServerCluster(rewards, arrivals, record_allocations=0), ExactOGA())


DIMENSIONS: dict[str, tuple[Callable[[int], Callable[[], object]], tuple[int, ...], float]] = {
    "jobs": (jobs_in_all, (1_000, 2_000, 4_000, 8_000), 1.0),
    "queued jobs": (queued, (500, 1_000, 2_000, 4_000), 1.1),
    "running jobs, as many in all": (running, (125, 250, 500, 1_000), 0.0),
    "cores": (cores, (1_024, 2_048, 4_096, 8_192), 0.2),
    "nodes": (partial(dag, num_executors=20), (500, 1_000, 2_000, 4_000), 1.0),
    "executors": (partial(dag, 500), (10, 20, 40, 80), 0.0),
    "slots": (partial(multiserver, num_ports=10), (250, 500, 1_000, 2_000), 1.0),
    "ports": (partial(multiserver, 100), (10, 20, 40, 80), 0.4),
}
"""What makes a run of a size, the sizes, and the exponent that is recorded."""


def main() -> list[str]:
    """Print the time of each size and the exponent beside the last that were stored; return which have risen."""
    path = last_stored()
    before, what = (stored(path), path.stem) if path else ({}, "nothing stored")
    rows, found, faults = [], {}, []
    for name, (make, sizes, recorded) in DIMENSIONS.items():
        seconds = processor_seconds(ROUNDS, *map(make, sizes))
        found[f"growth, {name}"] = exponent = exponent_of(sizes, seconds)
        faults += risen(f"growth, {name}", exponent, recorded)
        last = f"{before[f'growth, {name}']:.2f}" if f"growth, {name}" in before else ""
        milliseconds = (f"{1e3 * s:.0f}" for s in seconds)
        rows.append([name, f"{sizes[0]:,} to {sizes[-1]:,}", *milliseconds, f"{exponent:.2f}", f"{recorded:.2f}", last])
    head = ["time of a run with", "sizes, doubled", *("ms" for _ in range(4)), "exponent", "recorded", what]
    print_table(f"Growth, processor time (best of {ROUNDS})", head, rows)
    print(f"  stored in {store(found, commit_of(TREE))}")
    return faults


if __name__ == "__main__":
    main()
