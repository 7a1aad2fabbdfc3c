"""Backfilling on nodes: processor time per job, and how it grows with nodes, with the queue and with request shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from benchmarks.common import exponent_of, print_table, processor_seconds, risen
from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Node, Request

AGENTS = ("easy", "conservative")
GIB = 2**30
RUNS = 1
NUM_JOBS = 800
DIVERSE = 10_000
"""As many shapes that hardly two jobs are alike."""


def requests(count: int, rng: np.random.Generator) -> list[Request]:
    """Return random requests of cores, memory and GPUs, some of them of several tasks."""
    cores, memory = rng.integers(1, 17, count).tolist(), (rng.integers(1, 49, count) * GIB).tolist()
    gpus, tasks = rng.choice([0, 0, 0, 0.25, 0.5, 1, 2], count).tolist(), rng.choice([1, 1, 1, 1, 2, 4], count).tolist()
    columns = zip(tasks, cores, memory, gpus, strict=True)
    return [Request(tasks=many, cores=each, memory=size, gpus=devices) for many, each, size, devices in columns]


def workload(num_jobs: int, num_nodes: int, queue: int, num_shapes: int) -> list[Job]:
    """Return jobs of which about as many wait as given: the others arrive at the rate at which EASY ends them."""
    rng = np.random.default_rng(0)
    shapes = requests(num_shapes, rng)
    kinds, times = rng.integers(0, num_shapes, num_jobs).tolist(), rng.uniform(60, 3_600, num_jobs)
    longest = (times * rng.uniform(1, 3, num_jobs)).tolist()
    jobs = [
        Job(number, 0.0, shapes[kind].num_cores, longest[number], time, request=shapes[kind])
        for number, (kind, time) in enumerate(zip(kinds, times.tolist(), strict=True))
    ]
    gap = simulate(cluster(jobs, num_nodes), create("easy")).end_time / num_jobs
    return [job._replace(submission_time=max(0.0, (number - queue) * gap)) for number, job in enumerate(jobs)]


def cluster(jobs: list[Job], num_nodes: int) -> BatchCluster:
    """Return a cluster of alike nodes."""
    return BatchCluster(jobs, nodes=Node.several(num_nodes, 32, memory=128 * GIB, gpus=4))


def run(agent: str, num_jobs: int, num_nodes: int, queue: int, num_shapes: int) -> Callable[[], object]:
    """Return a run of an agent."""
    problem = cluster(workload(num_jobs, num_nodes, queue, num_shapes), num_nodes)
    return lambda: simulate(problem, create(agent))


DIMENSIONS: dict[str, tuple[Callable[[int], tuple[int, int, int, int]], tuple[int, ...], tuple[float, float]]] = {
    "nodes": (lambda size: (NUM_JOBS + 4 * size, size, 40, 32), (10, 100, 1_000), (-0.2, 0.1)),
    "queued jobs": (lambda size: (max(NUM_JOBS, 2 * size), 10, size, DIVERSE), (10, 100, 1_000), (0.1, 0.5)),
    "request shapes": (lambda size: (NUM_JOBS, 10, 40, size), (1, 4, 16, 32), (0.2, 0.1)),
}
"""From a size: jobs, nodes, queue and shapes; the sizes; and the exponent that is recorded for each agent."""


def main() -> list[str]:
    """Print milliseconds per job by size, and the exponent of each dimension; return which exponents have risen.

    With ``quick``, sizes are at most 100, and no exponent is compared.
    """
    is_quick = "quick" in sys.argv
    rows, faults = [], []
    for name, (arguments, sizes, recorded) in DIMENSIONS.items():
        used = [size for size in sizes if size <= 100 or not is_quick]
        for agent, expected in zip(AGENTS, recorded, strict=True):
            each = [processor_seconds(RUNS, run(agent, *arguments(size)))[0] for size in used]
            per_job = [1e3 * seconds / arguments(size)[0] for size, seconds in zip(used, each, strict=True)]
            exponent = exponent_of(used, per_job)
            if not is_quick:
                faults += risen(f"nodes, {agent}, {name}", exponent, expected)
            shown = [f"{milliseconds:.3f}" for milliseconds in per_job] + [""] * (4 - len(used))
            rows.append([name, agent, f"{used[0]:,} to {used[-1]:,}", *shown, f"{exponent:.2f}", f"{expected:.2f}"])
            print(f"  measured: {name}, {agent}, {', '.join(shown)} ms", file=sys.stderr, flush=True)
    seconds = processor_seconds(RUNS, *(run(agent, NUM_JOBS, 10, 200, DIVERSE) for agent in AGENTS))
    head = ["growth with", "agent", "sizes", *("ms" for _ in range(4)), "exponent", "recorded"]
    print_table("Nodes with 32 cores, 128 GiB and 4 GPUs: processor time per job", head, rows)
    for agent, least in zip(AGENTS, seconds, strict=True):
        per_run = 1e3 * least / NUM_JOBS
        print(f"  {agent}, 10 nodes, {NUM_JOBS} different requests, a queue of 200: {per_run:.3f} ms per job")
    return faults


if __name__ == "__main__":
    main()
