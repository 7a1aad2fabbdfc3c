"""FCFS over lublin_256: desim with full records against the shortest SimPy program for the same replay."""

from __future__ import annotations

import cProfile
import pstats
from collections import deque
from collections.abc import Iterator, Sequence

import simpy

from benchmarks.common import best_and_median, print_table, trace
from desim import Result, simulate
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster, Job

NUM_CORES = 256


def shortest_program(jobs: Sequence[Job], num_cores: int = NUM_CORES) -> list[float]:
    """Replay the jobs by hand: one arrival process, a Timeout with a callback a job; return the waiting times."""
    env = simpy.Environment()
    queue: deque[Job] = deque()
    waits = []
    free = num_cores

    def start_jobs() -> None:
        nonlocal free
        while queue and queue[0].requested_cores <= free:
            job = queue.popleft()
            free -= job.requested_cores
            waits.append(env.now - job.submission_time)
            env.timeout(job.run_time, job).callbacks.append(end_job)

    def end_job(event: simpy.Event) -> None:
        nonlocal free
        free += event.value.requested_cores
        start_jobs()

    def arrive() -> Iterator[simpy.Event]:
        for job in jobs:
            yield env.timeout(job.submission_time - env.now)
            queue.append(job)
            start_jobs()

    env.process(arrive())
    env.run()
    return waits


def replay(jobs: Sequence[Job]) -> Result:
    """Replay the jobs with desim."""
    return simulate(BatchCluster(jobs, NUM_CORES), FCFS())


def where_time_goes(jobs: Sequence[Job]) -> dict[str, float]:
    """Return the share of the time in each part of a replay, as a profiler sees it."""
    profiler = cProfile.Profile()
    profiler.enable()
    replay(jobs)
    profiler.disable()
    packages = {
        "simpy/": "SimPy: event queue, processes",
        "heapq": "SimPy: event queue, processes",
        "desim/core": "kernel: advance, answer, the loop",
        "desim/_clock": "kernel: advance, answer, the loop",
        "processes/": "arrival process",
        "batch/cluster": "cluster: queue, cores, cycles",
        "batch/execution": "cluster: queue, cores, cycles",
        "batch/cores": "core ids, and their text in the records",
        "batch/observation": "observation arrays",
        "agents/": "agent",
        "batch/tables": "records to a table",
        "desim/records": "records to a table",
    }
    shares: dict[str, float] = {}
    total = 0.0
    for (path, _, name), (_, _, seconds, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        total += seconds
        part = next(
            (part for key, part in packages.items() if key in path or key in name), "built-in functions, numpy, polars"
        )
        shares[part] = shares.get(part, 0.0) + seconds
    return {part: seconds / total for part, seconds in sorted(shares.items(), key=lambda item: -item[1])}


def main() -> None:
    """Print the comparison and where the rest of the time goes."""
    source, jobs = trace("lublin_256")
    waits = shortest_program(jobs)
    table = replay(jobs).jobs
    assert abs(sum(waits) / len(waits) - table["waiting_time"].mean()) < 1e-3  # type: ignore[operator]
    (bare, bare_median), (full, full_median) = best_and_median(15, lambda: shortest_program(jobs), lambda: replay(jobs))
    print_table(
        f"FCFS, {source}, {len(jobs):,} jobs, {NUM_CORES} cores (15 runs each, in turn)",
        ["program", "best s", "jobs/s", "ratio of best", "ratio of medians"],
        [
            ["shortest SimPy program, waiting times only", f"{bare:.4f}", f"{len(jobs) / bare:,.0f}", "1.000", "1.000"],
            [
                "desim, full records",
                f"{full:.4f}",
                f"{len(jobs) / full:,.0f}",
                f"{bare / full:.3f}",
                f"{bare_median / full_median:.3f}",
            ],
        ],
    )
    print_table(
        "Where desim's time goes (own time under cProfile, which favours built-in functions)",
        ["part", "share"],
        [[part, f"{share:.1%}"] for part, share in where_time_goes(jobs).items()],
    )


if __name__ == "__main__":
    main()
