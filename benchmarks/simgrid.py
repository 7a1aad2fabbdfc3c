"""EASY against SimGrid: the same logs on a C++ program of ours, if its compiler and library are there."""

from __future__ import annotations

import subprocess
import tempfile
from functools import partial
from pathlib import Path
from shutil import which

import numpy as np

from benchmarks.common import print_table, processor_seconds, trace
from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Workload

SOURCE = Path(__file__).with_name("simgrid_easy.cpp")
RUNS = 5
QUIET = "--log=root.thres:error"


def build(folder: Path) -> Path | str:
    """Return the compiled program, or why there is none."""
    compiler = which("g++") or which("c++")
    if compiler is None:
        return "there is no C++ compiler"
    program = folder / "simgrid_easy"
    command = [compiler, "-std=c++17", "-O2", "-o", str(program), str(SOURCE), "-lsimgrid"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else "the program does not compile; try apt-get install libsimgrid-dev"


def replay(program: Path, jobs: list[Job], num_cores: int) -> tuple[float, np.ndarray]:
    """Return the processor seconds that SimGrid simulates, the least of several runs, and the start times."""
    lines = (f"{j.submission_time!r} {j.requested_cores} {j.requested_time!r} {j.run_time!r}" for j in jobs)
    text, best, starts = "\n".join([str(num_cores), *lines]), np.inf, np.zeros(0)
    for _ in range(RUNS):
        done = subprocess.run([str(program), QUIET], input=text, capture_output=True, text=True, check=True)
        seconds, *rows = map(float, done.stdout.split())
        best, starts = min(best, seconds), np.array(rows)
    return best, starts


def main() -> None:
    """Print processor time and ratios on two logs, and how many start times differ; one line if it cannot run."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        if isinstance(program, str):
            print(f"SimGrid: skipped, {program}")
            return
        rows = []
        for name, num_cores in (("lublin_256", 256), ("KTH-SP2-1996-2", 100)):
            source, jobs = trace(name)
            jobs = [job._replace(run_time=min(job.run_time, job.requested_time)) for job in jobs]
            problem = BatchCluster(Workload.of(jobs), num_cores)
            calls = [partial(simulate, problem, create("easy"), engine=engine) for engine in ("simpy", "compiled")]
            interpreted, compiled = processor_seconds(RUNS, *calls)
            table = calls[1]().jobs.sort("job_id")
            rival, starts = replay(program, sorted(jobs, key=lambda job: job.submission_time), num_cores)
            order = np.argsort([job.submission_time for job in jobs], kind="stable")
            ids = np.array([job.job_id for job in jobs])[order]
            ours = dict(zip(table["job_id"].to_list(), table["starting_time"].to_list(), strict=True))
            differ = sum(ours[job_id] != start for job_id, start in zip(ids.tolist(), starts.tolist(), strict=True))
            times = (rival, interpreted, compiled)
            shown = [f"{1e3 * seconds:.1f}" for seconds in times]
            rows.append([source, len(jobs), *shown, f"{rival / interpreted:.2f}", f"{rival / compiled:.1f}", differ])
        head = ["log", "jobs", "SimGrid", "SimPy", "compiled", "to SimPy", "to compiled", "starts differ"]
        print_table(f"EASY, ms of processor time (best of {RUNS}), and how many times SimGrid's", head, rows)


if __name__ == "__main__":
    main()
