"""The compiled engine against SimPy's kernel: simulation alone, with metrics, and with the job table."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.common import print_table, processor_seconds, trace
from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Workload
from desim.problems.batch.metrics import METRICS
from desim.workloads import lublin

GOALS = {"fcfs": (150, 9), "easy": (100, 20), "easy-sjf": (100, 20), "conservative": (50, 10)}
"""Ratios to reach: with a score, and with all metrics and the job table."""
SCORE = "bounded_slowdown_mean"
SIMPY_RUNS, COMPILED_RUNS = 2, 15


def run(problem: BatchCluster, agent: str, engine: Any, wanted: str) -> None:
    """Simulate, and compute what is wanted."""
    result = simulate(problem, create(agent), engine=engine)
    if wanted == "score":
        result.metrics(SCORE)
    elif wanted == "five scores":
        result.metrics(*METRICS.headline)
    elif wanted != "nothing":
        result.metrics()
        if wanted == "job table":
            result.table("jobs")


def main() -> None:
    """Print times and ratios on two logs, and the time of a million jobs under EASY."""
    for name, num_cores in (("lublin_256", 256), ("KTH-SP2-1996-2", 100)):
        source, jobs = trace(name)
        problem, rows = BatchCluster(Workload.of(jobs), num_cores), []
        for agent, (goal, goal_of_table) in GOALS.items():
            for wanted in ("nothing", "score", "five scores", "all metrics", "job table"):
                calls = [partial(run, problem, agent, engine, wanted) for engine in ("simpy", "compiled")]
                (slow,) = processor_seconds(SIMPY_RUNS, calls[0])
                (quick,) = processor_seconds(COMPILED_RUNS, calls[1])
                to_reach = {"score": goal, "job table": goal_of_table}.get(wanted, "")
                rows.append([agent, wanted, f"{1e3 * slow:.1f}", f"{1e3 * quick:.2f}", f"{slow / quick:.1f}", to_reach])
        print_table(
            f"{source}, {len(jobs):,} jobs, {num_cores} cores: least processor time in ms, of {SIMPY_RUNS} and "
            f"{COMPILED_RUNS} runs. The score is {SCORE}, the five are {', '.join(METRICS.headline)}",
            ["agent", "wanted", "SimPy", "compiled", "ratio", "goal"],
            rows,
        )
    million = BatchCluster(Workload.of(lublin.generate(1_000_000, 256, seed=0, load=0.8)), 256)
    for wanted in ("nothing", "score", "all metrics"):
        (seconds,) = processor_seconds(1, partial(run, million, "easy", "compiled", wanted))
        print(f"a million jobs under EASY, compiled, {wanted}: {seconds:.2f} s of processor time")


if __name__ == "__main__":
    main()
