"""Jobs per second of the batch agents on one core, against FCFS in the same run."""

from __future__ import annotations

import time

from benchmarks.common import print_table, trace
from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster

AGENTS = (
    "fcfs",
    "sjf",
    "f1",
    "backfilling-fcfs",
    "easy",
    "easy-f1",
    "easy-specific",
    "conservative",
    "conservative-specific",
)
ROUNDS = 5


def main() -> None:
    """Print jobs per second for two traces."""
    for name, num_cores in (("lublin_256", 256), ("KTH-SP2-1996-2", 100)):
        source, jobs = trace(name)
        best = dict.fromkeys(AGENTS, float("inf"))
        waits = {}
        for _ in range(ROUNDS):
            for agent in AGENTS:
                begin = time.perf_counter()
                result = simulate(BatchCluster(jobs, num_cores), create(agent))
                best[agent] = min(best[agent], time.perf_counter() - begin)
                waits[agent] = result.jobs["waiting_time"].mean()
        print_table(
            f"Agents, {source}, {len(jobs):,} jobs, {num_cores} cores (best of {ROUNDS})",
            ["agent", "s", "jobs/s", "time of FCFS", "mean waiting time s"],
            [
                [
                    agent,
                    f"{best[agent]:.3f}",
                    f"{len(jobs) / best[agent]:,.0f}",
                    f"{best[agent] / best['fcfs']:.2f} x",
                    f"{waits[agent]:,.1f}",
                ]
                for agent in AGENTS
            ],
        )
    print("For comparison, the AccaSim package on lublin_256, as measured elsewhere: FCFS 170 jobs/s; its EBF,")
    print("which keeps no reservation, 875 jobs/s.")


if __name__ == "__main__":
    main()
