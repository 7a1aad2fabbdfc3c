"""EASY over generated traces of 10^4 to 10^6 jobs, records streamed to Parquet: time and peak memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import print_table
from desim import simulate
from desim.agents.batch import EASYBackfilling
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

NUM_CORES = 256
LOAD = 0.8


def run(num_jobs: int) -> dict[str, float]:
    """Simulate in this process; return seconds, peak memory in MB and the mean waiting time in s."""
    with tempfile.TemporaryDirectory() as directory:
        begin = time.perf_counter()
        jobs = lublin.stream(num_jobs, NUM_CORES, seed=0, load=LOAD)
        result = simulate(BatchCluster(jobs, NUM_CORES), EASYBackfilling("fcfs"), out=Path(directory) / "run")
        seconds = time.perf_counter() - begin
        waiting = result.scan("jobs").select("waiting_time").collect()["waiting_time"].mean()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak": peak, "waiting": float(waiting)}  # type: ignore[arg-type]


def main() -> None:
    """Run each size in a process of its own and print the table."""
    rows = []
    for num_jobs in (10_000, 100_000, 1_000_000):
        output = subprocess.run(
            [sys.executable, "-m", "benchmarks.scaling", str(num_jobs)], check=True, capture_output=True, text=True
        ).stdout
        figures = json.loads(output)
        rows.append(
            [
                f"{num_jobs:,}",
                f"{figures['seconds']:.2f}",
                f"{figures['seconds'] / num_jobs * 1e6:.1f}",
                f"{figures['peak']:.0f}",
                f"{figures['waiting']:,.0f}",
            ]
        )
    print_table(
        f"EASY, Lublin at load {LOAD}, {NUM_CORES} cores, jobs generated and records written on the way",
        ["jobs", "s", "us a job", "peak MB", "mean waiting time s"],
        rows,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(run(int(sys.argv[1]))))
    else:
        main()
