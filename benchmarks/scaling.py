"""EASY over generated traces, records streamed to Parquet: processor time and peak memory, stage by stage.

``python -m benchmarks scaling`` goes from 10^4 to 10^6 jobs; ``python -m benchmarks long`` from 10^6 to 10^7, which
takes a quarter of an hour and more, and is done only when it is named. Each size is a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import print_table
from desim import simulate
from desim.agents.batch import EASYBackfilling
from desim.problems.batch import BatchCluster
from desim.validation import validate
from desim.workloads import lublin

NUM_CORES = 256
LOAD = 0.8
SIZES = (10_000, 100_000, 1_000_000)
LONG = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
STAGES = ("simulate", "metrics", "validate")


def run(num_jobs: int) -> dict[str, float]:
    """Simulate, measure and check in this process; return of each stage seconds, and the peak in MB up to its end."""
    found = {}
    begin = time.process_time()

    def note(stage: str) -> None:
        nonlocal begin
        found[f"{stage} s"] = time.process_time() - begin
        found[f"{stage} MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        begin = time.process_time()

    with tempfile.TemporaryDirectory() as directory:
        jobs = lublin.stream(num_jobs, NUM_CORES, seed=0, load=LOAD)
        result = simulate(BatchCluster(jobs, NUM_CORES), EASYBackfilling("fcfs"), out=Path(directory) / "run")
        note("simulate")
        found["waiting"] = result.metrics()["waiting_time_mean"]
        note("metrics")
        validate(result, lublin.stream(num_jobs, NUM_CORES, seed=0, load=LOAD)).raise_if_invalid()
        note("validate")
    return found


def measured(num_jobs: int) -> dict[str, float]:
    """Return the figures of a size, measured in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.scaling", str(num_jobs)]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | one_thread).stdout
    found: dict[str, float] = json.loads(output)
    return found


def main(sizes: Sequence[int] = SIZES) -> None:
    """Run each size and print the table; an exponent of 1 is linear."""
    figures = []
    for num_jobs in sizes:
        figures.append(measured(num_jobs))
        print(f"{num_jobs:,}: {figures[-1]}", file=sys.stderr, flush=True)
    rows = [
        [
            f"{num_jobs:,}",
            *(f"{found[f'{stage} s'] / num_jobs * 1e6:.1f}" for stage in STAGES),
            *(f"{found[f'{stage} MB']:.0f}" for stage in STAGES),
            f"{found['waiting']:,.0f}",
        ]
        for num_jobs, found in zip(sizes, figures, strict=True)
    ]
    print_table(
        f"EASY, Lublin at load {LOAD}, {NUM_CORES} cores, jobs generated and records written on the way "
        "(goals: 300 MB for 10^6 jobs with metrics and validation, 400 MB for the simulation of 10^7, exponent 1)",
        ["jobs", *(f"{stage} us a job" for stage in STAGES), *(f"{stage} peak MB" for stage in STAGES), "mean wait s"],
        rows,
    )
    seconds = [found["simulate s"] for found in figures]
    print(f"  exponent of the simulation: {np.polyfit(np.log(sizes), np.log(seconds), 1)[0]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(run(int(sys.argv[1]))))
    else:
        main()
