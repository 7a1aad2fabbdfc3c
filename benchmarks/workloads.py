"""Making and reading batch workloads, beside a simulation of the same jobs."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.common import best_and_median, print_table
from desim import simulate
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster
from desim.workloads import lublin
from desim.workloads.batch import registry

NUM_CORES = 256
NUM_JOBS = 100_000
ROUNDS = 3


def main() -> None:
    """Print a line for the generator, each format of files, and the simulation."""
    jobs = lublin.generate(NUM_JOBS, NUM_CORES, 0)
    calls = {
        "simulate, FCFS": lambda: simulate(BatchCluster(jobs, NUM_CORES), FCFS()),
        "generate": lambda: lublin.generate(NUM_JOBS, NUM_CORES, 0),
    }
    with tempfile.TemporaryDirectory() as directory:
        for suffix in (".swf", ".swf.gz", ".json", ".parquet"):
            path = Path(directory) / f"jobs{suffix}"
            registry.write(path, jobs, num_cores=NUM_CORES)
            calls[f"read {suffix}"] = partial(registry.read, path)
        times = best_and_median(ROUNDS, *calls.values())
    simulated = times[0][0]
    rows = [[name, f"{best:.2f}", f"{best / simulated:.2f}"] for name, (best, _) in zip(calls, times, strict=True)]
    print_table(
        f"{NUM_JOBS:,} jobs of the Lublin-Feitelson model, best of {ROUNDS}", ["what", "s", "of the simulation"], rows
    )


if __name__ == "__main__":
    main()
