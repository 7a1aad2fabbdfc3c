"""Random scenarios with eligible executors, and a loop that checks them without any code of the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from desim import simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster, Executors, Job, SharedLinks, TaskCluster
from desim.processes import Outage, planned_outages
from desim.validation import validate

__all__ = ["AHEAD", "ANYWHERE", "TASKS", "check_scenario", "faults_of"]

AHEAD = ("heft", "cpop", "peft", "tdca", "portfolio:heft+dls+tdca+rank-up-deft-patient+fifo-deft")
"""Agents that plan whole jobs."""

ANYWHERE = (
    "dls",
    *(
        f"{order}-{rest}"
        for order in ("fifo", "rank-up")
        for rest in ("eft", "deft", "insertion-eft", "insertion-deft")
    ),
    *(f"{order}-{rest}" for order in ("sjf", "hrrn", "least-work") for rest in ("deft-idle", "deft-patient")),
    "critical-path-eft-patient",
    "random-deft",
    "hrrn-node-eft",
)
"""Agents for all clusters of whole nodes."""

TASKS = ("dls", "fifo-eft", "rank-up-deft", "least-work-eft-patient", "sjf-eft-idle")
"""Agents for tasks."""

FEATURES = ("gpu", "big", "ssd")


def _one_of_each(rng: np.random.Generator, count: int, num_executors: int) -> list[list[int]]:
    """Return the executors that may run each of some nodes."""
    found = []
    for _ in range(count):
        size = int(rng.integers(1, num_executors + 1))
        found.append(sorted(rng.choice(num_executors, size=size, replace=False).tolist()))
    return found


def _job(rng: np.random.Generator, job_id: int, time: float, speeds: Any, features: list[list[str]]) -> tuple[Job, Any]:
    """Return a random job, and the run times that it should have, computed here with infinity where it may not run."""
    count, num_executors = int(rng.integers(1, 7)), len(speeds)
    work = rng.integers(0, 9, size=count).astype(float)
    edges = [
        (parent, child, float(rng.integers(0, 6)))
        for child in range(count)
        for parent in range(child)
        if rng.random() < 0.4
    ]
    expected = np.array([[amount / speed for speed in speeds] for amount in work])
    options: dict[str, Any] = {}
    kinds = rng.random(3) < 0.5
    if kinds[0]:
        own = rng.integers(1, 9, size=(count, num_executors)).astype(float)
        expected = own.copy()
        for node, able in enumerate(_one_of_each(rng, count, num_executors)):
            for executor in range(num_executors):
                if executor not in able:
                    expected[node, executor] = np.inf
        options["run_times"] = expected.copy()
    if kinds[1]:
        options["eligible"] = []
        for node in range(count):
            able = np.flatnonzero(expected[node] < np.inf).tolist()
            kept = [executor for executor in able if rng.random() < 0.6] or able[:1]
            none = rng.random() < 0.3
            options["eligible"].append(None if none else [f"executor{executor}" for executor in kept] + ["elsewhere"])
            for executor in range(num_executors):
                if not none and executor not in kept:
                    expected[node, executor] = np.inf
    if kinds[2]:
        options["required_features"] = []
        for node in range(count):
            able = np.flatnonzero(expected[node] < np.inf).tolist()
            there = features[able[int(rng.integers(len(able)))]]
            needed = [name for name in there if rng.random() < 0.7]
            options["required_features"].append(needed or None)
            for executor in range(num_executors):
                if not all(name in features[executor] for name in needed):
                    expected[node, executor] = np.inf
    if rng.random() < 0.3:
        options["num_tasks"] = rng.integers(1, 4, size=count)
    return Job(job_id, work, edges, submission_time=time, allow_disconnected=True, **options), expected


def faults_of(
    copies: pl.DataFrame, jobs: dict[int, tuple[Job, Any]], outages: list[Outage], *, tasks: bool
) -> list[str]:
    """Return what is wrong with the copies of a run: a plain loop over them and over the executors."""
    faults = []
    by_executor: dict[int, list[tuple[float, float]]] = {}
    finished: dict[tuple[int, int], list[float]] = {}
    for row in copies.iter_rows(named=True):
        job, expected = jobs[row["job_id"]]
        seconds = expected[row["node"]][row["executor"]]
        if seconds == np.inf:
            faults.append(f"node {row['node']} of job {row['job_id']} on executor {row['executor']}")
        if row["outcome"] == "completed":
            seconds /= job.num_tasks[row["node"]] if tasks else 1
            if abs(row["finish_time"] - row["starting_time"] - seconds) > 1e-9 * max(row["finish_time"], 1.0):
                faults.append(f"{row} took no {seconds} s")
            finished.setdefault((row["job_id"], row["node"]), []).append(row["finish_time"])
        if row["finish_time"] is not None and row["starting_time"] is not None:
            by_executor.setdefault(row["executor"], []).append((row["starting_time"], row["finish_time"]))
    for executor, spans in by_executor.items():
        for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            if begin < end:
                faults.append(f"executor {executor} runs two copies at {begin} s")
        for outage in outages:
            for begin, end in spans:
                if executor in outage.executors and begin < outage.end and end > outage.start and end > begin:
                    faults.append(f"executor {executor} runs from {begin} s to {end} s while it is down")
    for number, (job, _) in jobs.items():
        missing = [node for node in range(job.num_nodes) if (number, node) not in finished]
        if missing:
            faults.append(f"job {number} without nodes {missing}")
    return faults


def check_scenario(seed: int) -> str:
    """Simulate a random scenario with a random agent, raise AssertionError if anything is wrong; return the agent."""
    rng = np.random.default_rng(seed)
    num_executors = int(rng.integers(1, 5))
    speeds = rng.integers(1, 4, size=num_executors).astype(float)
    features = [[name for name in FEATURES if rng.random() < 0.6] for _ in range(num_executors)]
    executors = Executors(speeds, float(rng.integers(1, 4)), float(rng.integers(0, 2)), features=features)
    times = np.sort(rng.integers(0, 12, size=int(rng.integers(1, 5)))).astype(float)
    jobs = {number: _job(rng, number, time, speeds, features) for number, time in enumerate(times.tolist())}
    down = int(rng.integers(num_executors))
    outages = [Outage(3.0, 8.0, executors=(down,))] if rng.random() < 0.4 else []
    tasks = rng.random() < 0.2
    links = not tasks and rng.random() < 0.2
    transfers = "when_assigned" if links or rng.random() < 0.5 else "when_finished"
    shared: dict[str, Any] = {"transfers": transfers, "processes": [planned_outages(outages)]}
    given = [job for job, _ in jobs.values()]
    if tasks:
        names, cluster = TASKS, TaskCluster(given, executors, **shared)
    else:
        if links:
            shared["links"] = SharedLinks.bus(num_executors, 2.0)
        ahead = rng.random() < 0.5
        names = (*AHEAD, *ANYWHERE) if ahead else ANYWHERE
        cluster = DagCluster(given, executors, plan_ahead=ahead, **shared)
    name = names[int(rng.integers(len(names)))]
    result = simulate(cluster, create(name), seed=seed)
    wrong = faults_of(result.table("copies"), jobs, outages, tasks=tasks)
    assert not wrong, (seed, name, wrong)
    report = validate(result, given)
    assert report.ok, (seed, name, report)
    result.metrics()
    return name
