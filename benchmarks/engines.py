"""The compiled engine against SimPy's kernel: metrics only, and with the job table."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.common import print_table, processor_seconds, trace
from desim import Result, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Workload
from desim.workloads import lublin

AGENTS = ("fcfs", "easy", "easy-sjf", "conservative")
RUNS = 5


def run(problem: BatchCluster, agent: str, engine: Any, *, full: bool) -> Result:
    """Simulate, measure, and make the job table if it is wanted."""
    result = simulate(problem, create(agent), engine=engine)
    result.metrics()
    if full:
        result.table("jobs")
    return result


def main() -> None:
    """Print times and ratios on two logs, and the time of a million jobs under EASY."""
    for name, num_cores in (("lublin_256", 256), ("KTH-SP2-1996-2", 100)):
        source, jobs = trace(name)
        problem, rows = BatchCluster(Workload.of(jobs), num_cores), []
        for agent in AGENTS:
            row = [agent]
            for full in (False, True):
                calls = (partial(run, problem, agent, engine, full=full) for engine in ("simpy", "compiled"))
                slow, quick = processor_seconds(RUNS, *calls)
                row += [f"{slow:.3f}", f"{quick:.4f}", f"{slow / quick:.1f}"]
            rows.append(row)
        heads = ("SimPy s", "compiled s", "ratio")
        print_table(
            f"{source}, {len(jobs):,} jobs, {num_cores} cores: least processor time of {RUNS} runs with metrics, then "
            "also with the job table",
            ["agent", *heads, *heads],
            rows,
        )
    million = BatchCluster(Workload.of(lublin.generate(1_000_000, 256, seed=0, load=0.8)), 256)
    (seconds,) = processor_seconds(1, lambda: simulate(million, create("easy"), engine="compiled"))
    (scores,) = processor_seconds(1, lambda: run(million, "easy", "compiled", full=False))
    print(f"a million jobs under EASY, compiled: {seconds:.2f} s of processor time, with metrics {scores:.2f} s")


if __name__ == "__main__":
    main()
