"""Deferrable jobs: time of many short trajectories, and time and memory of a run of trace size."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import best_and_median, print_table
from desim import simulate
from desim.agents.deferrable.registry import create, descriptions
from desim.agents.learning.pretrained import pretrained_names
from desim.problems.deferrable import DeferrableCluster, Job
from desim.processes import OnDemand, replayed_vms
from desim.workloads.deferrable import DEFAULT, generate

TRAJECTORIES = 100
#: 14 days of slots of five minutes, and how many VMs of each kind begin in one: a million in all.
NUM_SLOTS, JOBS_PER_SLOT, VMS_PER_SLOT = 4_032, 124, 124
#: Cores of the platform, about what both kinds ask for by day.
PLATFORM = 16_000


def trajectories() -> None:
    """Print the time of 100 trajectories of the default workload for each heuristic."""
    scenarios = [generate(seed=seed) for seed in range(TRAJECTORIES)]
    jobs = sum(len(scenario.jobs) for scenario in scenarios)
    rows = []
    learned = [f"{kind}:{name}" for kind in ("osdec", "score") for name in pretrained_names(kind)]
    for name in [*(name for name in descriptions() if ":" not in name), *learned]:
        agent = create(name)
        begin = time.perf_counter()
        for seed, scenario in enumerate(scenarios):
            cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
            simulate(cluster, agent, seed=seed).metrics()
        seconds = time.perf_counter() - begin
        rows.append([name, f"{seconds:.2f}", f"{jobs / seconds:,.0f}"])
    title = f"{TRAJECTORIES} trajectories of {DEFAULT.num_slots} slots, records and metrics included"
    print_table(title, ["agent", "seconds", "jobs a second"], rows)


def decisions() -> None:
    """Print how long networks that score jobs take for a decision, in NumPy and in torch, and the ratio."""
    from desim.agents.deferrable.score_agent import InTorch, ScoreConfig, scores_of
    from desim.agents.deferrable.training import DeferrableEpisodes, ScoreTraining, make_env

    rows = []
    for auxiliary in ("none", "both"):
        config = ScoreConfig("attention", auxiliary)
        policy = config.policy(np.random.default_rng(0))
        seen, _ = make_env(ScoreTraining(config, episodes=DeferrableEpisodes(("fluctuating",)))).reset(seed=1)
        asked = [partial(_ask, ask, seen) for ask in (scores_of(policy), InTorch(policy))]
        (numpy, _), (torch, _) = best_and_median(5, *asked)
        rows.append([f"attention, {auxiliary}", f"{2e4 * numpy:.0f}", f"{2e4 * torch:.0f}", f"{torch / numpy:.1f}"])
    print_table("Networks that score jobs, microseconds a decision", ["network", "NumPy", "torch", "ratio"], rows)


def _ask(scores: Callable[[Any], Any], seen: Any) -> None:
    for _ in range(50):
        scores(seen)


class VM(NamedTuple):
    """An on-demand VM, times in slots."""

    start: float
    end: float
    cores: int


def _vms(rng: np.random.Generator, per_slot: float, num_slots: int) -> Iterator[VM]:
    """Yield VMs: more by day, sizes and life times about those of Azure's trace of 2017."""
    for slot in range(num_slots):
        level = 1 + 0.4 * np.sin(2 * np.pi * slot / 288)
        count = int(rng.poisson(per_slot * level))
        starts = np.sort(slot + rng.random(count))
        lives = np.minimum(rng.lognormal(1.7, 1.8, count), 1_000)
        cores = rng.choice([1, 2, 4, 8], p=[0.62, 0.185, 0.1, 0.095], size=count)
        yield from map(VM, starts.tolist(), (starts + lives).tolist(), cores.tolist())


def _jobs(rng: np.random.Generator, num_slots: int) -> Iterator[Job]:
    """Yield the same kind of VMs as deferrable jobs."""
    for number, vm in enumerate(_vms(rng, JOBS_PER_SLOT, num_slots)):
        earliest = int(np.ceil(vm.start)) + int(rng.integers(0, 12))
        latest = earliest + int(rng.integers(0, 24))
        yield Job(number, vm.start, earliest, latest, max(1, round(vm.end - vm.start)), vm.cores)


def long_run(num_slots: int) -> None:
    """Simulate one run of trace size, records going to files, and print what it took; in a process of its own."""
    platforms: list[OnDemand] = []
    stream = _vms(np.random.default_rng(1), VMS_PER_SLOT, num_slots)
    vms = replayed_vms(PLATFORM, stream, listener=platforms.append)
    cluster = DeferrableCluster(_jobs(np.random.default_rng(2), num_slots), vms, num_slots=num_slots)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        result = simulate(cluster, create("fifo"), out=f"{directory}/run")
        seconds = time.perf_counter() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        metrics = result.metrics()
    number = int(metrics["jobs_submitted"]) + platforms[0].num_arrived
    share = metrics["utilization_cores"]
    print(f"{num_slots:,}|{number:,}|{seconds:.1f}|{number / seconds:,.0f}|{peak:,.0f}|{100 * share:.0f} %")


def long_runs() -> None:
    """Print time and memory of a run of trace size and of shorter ones."""
    rows = []
    for slots in (NUM_SLOTS // 10, NUM_SLOTS):
        code = f"from benchmarks.deferrable import long_run; long_run({slots})"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        rows.append(done.stdout.strip().split("|"))
    head = ["slots", "VMs", "seconds", "VMs a second", "peak memory, MiB", "capacity used"]
    print_table("FIFO, on-demand VMs and deferrable jobs as streams, records to files", head, rows)


def main() -> None:
    """Print all tables."""
    trajectories()
    print()
    decisions()
    print()
    long_runs()


if __name__ == "__main__":
    main()
