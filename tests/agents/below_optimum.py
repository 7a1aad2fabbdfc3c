"""CP-SAT against every agent on small random instances with pools: no agent is below the optimum.

``python -m tests.agents.below_optimum --seeds 500 --processes 16 --out rows.csv`` writes a row per instance as soon as
it is measured, and goes on where an earlier call stopped.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from desim.agents.dag import Optimum, create
from desim.core import run_to_end
from desim.problems.dag import DagCluster, Executors, Job
from desim.validation import validate

RULES = ("rank-up-eft-idle", "sjf-eft-idle", "rank-up-deft-idle", "heft", "fifo-eft")
SEARCH = "search:dag:makespan:50"
ORDERS = ("fifo", "sjf", "hrrn", "hrrn-node", "rank-up", "critical-path", "least-work", "random")
ALLOCATIONS = ("eft", "insertion-eft", "deft", "insertion-deft")
AGENTS = (
    *("-".join(parts) for parts in product(ORDERS, ALLOCATIONS)),
    *("-".join(parts) for parts in product(ORDERS, ALLOCATIONS, ("idle", "patient"))),
    *("heft", "cpop", "peft", "dls", "tdca", "portfolio:heft+tdca+rank-up-eft-patient"),
    *(SEARCH, "search:dag:turnaround_time_mean:50", "rollout:rank-up-eft-idle"),
)
"""All agents without networks."""

Schedule = tuple[tuple[float, int, int, int], ...]
"""End, job, node and executor of each copy."""

TICK = 0.5
"""All times of the instances are multiples of it, in seconds."""
ROUNDING = 1e-9


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


def measure(seed: int, agents: Sequence[str], time_limit: float = 10.0) -> dict[str, Any]:
    """Return the bound of CP-SAT, and the makespan of its plan and of each agent, all valid.

    Parameters
    ----------
    seed : int
        Seed of the instance.
    agents : sequence of str
        Names of the agents.
    time_limit : float
        Limit of CP-SAT, in seconds.
    """
    jobs, pools = random_pools(seed)
    begin = time.process_time()
    optimum = Optimum(time_limit=time_limit, resolution=TICK)
    schedules: set[Schedule] = set()
    row: dict[str, Any] = {"seed": seed, "optimum": makespan_of(jobs, pools, optimum, np.inf, schedules)}
    (schedule,) = optimum.schedules
    assert row["optimum"] <= schedule.makespan + ROUNDING
    row |= {"status": schedule.status, "bound": schedule.bound, "seconds": time.process_time() - begin}
    return row | {name: makespan_of(jobs, pools, create(name), row["optimum"], schedules) for name in agents}


def makespan_of(jobs: list[Job], pools: Executors, agent: Any, optimum: float, schedules: set[Schedule]) -> float:
    """Return the makespan of a run.

    The records of a run that is not longer than the optimum are checked, unless its schedule is among those known: the
    checks take ten times as long as the run, and no other run could be below the optimum.
    """
    copies: list[Any] = []
    problem = DagCluster(jobs, pools)
    problem.on("completion", lambda time, copy: copies.append((time, copy.state.job.job_id, copy.node, copy.executor)))
    ended: dict[Any, float] = {}
    problem.on("job_completion", lambda time, job: ended.setdefault(job.job_id, time))
    simulation = run_to_end(problem, agent)
    assert len(ended) == len(jobs)
    makespan, schedule = max(ended.values()), tuple(copies)
    if makespan <= optimum + ROUNDING and schedule not in schedules:
        result = simulation.finish()
        validate(result, jobs).raise_if_invalid()
        assert result.metrics()["makespan"] == makespan
        schedules.add(schedule)
    return makespan


def below(row: dict[str, Any]) -> list[str]:
    """Return whose makespan is below the bound, which is the optimum where CP-SAT has proved it."""
    others = row.keys() - {"seed", "status", "bound", "seconds"}
    return sorted(name for name in others if float(row[name]) < float(row["bound"]) - ROUNDING)


def rows_of(seeds: Sequence[int], processes: int, stop: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of seeds, measured in processes, until a time of the wall clock."""
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(measure, seed, AGENTS) for seed in seeds]
        for future in as_completed(futures):
            yield future.result()
            if time.time() > stop:
                pool.shutdown(cancel_futures=True)
                return


def main() -> None:
    """Measure instances, and print whether anybody is below the optimum and how far the agents are above it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="number of instances")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--out", type=Path, required=True, help="file of rows")
    parser.add_argument("--seconds", type=float, default=400.0, help="wall time after which to stop")
    options = parser.parse_args()
    done = set()
    if options.out.exists():
        with options.out.open(encoding="utf-8") as file:
            done = {int(row["seed"]) for row in csv.DictReader(file)}
    names = ["seed", "status", "bound", "optimum", "seconds", *AGENTS]
    with options.out.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        if not done:
            writer.writeheader()
        todo = [seed for seed in range(options.seeds) if seed not in done]
        for row in rows_of(todo, options.processes, time.time() + options.seconds):
            writer.writerow(row)
            file.flush()
    with options.out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    proved = [row for row in rows if row["status"] == "optimal"]
    print(f"{len(rows)} instances, {len(proved)} of them with a proved optimum")
    print(f"below the bound: {[(row['seed'], below(row)) for row in rows if below(row)] or 'no agent'}")
    for name in AGENTS:
        ratios = np.array([float(row[name]) / float(row["optimum"]) for row in proved])
        met = (ratios <= 1 + ROUNDING).mean()
        print(f"{name}: {100 * (ratios.mean() - 1):.1f} % above the optimum, which it meets in {100 * met:.0f} %")


if __name__ == "__main__":
    main()
