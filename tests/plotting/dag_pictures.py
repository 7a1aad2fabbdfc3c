"""Runs of DAG jobs to draw, and what a reader of a figure would check, found the slow way."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from desim import Result, simulate
from desim.agents.dag import DEFT, HEFT, ListScheduler, RankUp
from desim.problems.dag import Assign, DagCluster, Executors, Job
from tests.agents.published_dags import topcuoglu
from tests.desim.dag_scripts import outage

EXAMPLE, THREE = topcuoglu()


def some_job(number: int, rng: np.random.Generator, job_id: int = 0, *, time: float = 0.0, data: float = 5.0) -> Job:
    """Return a connected random job."""
    edges = []
    for child in range(1, number):
        count = min(child, 1 + int(rng.integers(3)))
        parents = rng.choice(np.arange(max(0, child - 6), child), size=min(count, child, 6), replace=False)
        edges += [(int(parent), child, float(rng.exponential(data))) for parent in parents]
    return Job(job_id, rng.exponential(20.0, number), edges, submission_time=time, label=f"q{job_id % 3}")


def some_jobs(count: int, *, seed: int = 0, gap: float = 0.0, number: int = 10) -> list[Job]:
    """Return random jobs of up to ``number`` nodes, one every ``gap`` seconds."""
    rng = np.random.default_rng(seed)
    return [some_job(int(rng.integers(1, number + 1)), rng, k, time=gap * k) for k in range(count)]


def some_executors(count: int, *, seed: int = 0) -> Executors:
    """Return executors of different speeds."""
    return Executors(np.random.default_rng(seed).integers(1, 4, count), 1.0)


class Pinned:
    """Runs node k on executor k, and waits while that is down."""

    name = "pinned"

    def act(self, observation):
        for state, node in observation.ready.values():
            if np.isfinite(observation.available_times[node]):
                return Assign(state.job.job_id, node, node)
        return None


def run(
    jobs: Iterable[Job], executors: Executors, *outages: Any, agent: Any = None, until: float = np.inf, **options: Any
) -> Result:
    """Simulate jobs."""
    cluster = DagCluster(jobs, executors, processes=outages, **options)
    return simulate(cluster, agent or ListScheduler(RankUp(), DEFT()), until=until)


def heft() -> Result:
    """Return the example under HEFT, whose makespan is 80."""
    return run([EXAMPLE], THREE, agent=HEFT(), plan_ahead=True)


def with_outages(until: float = np.inf, **options: Any) -> Result:
    """Return a run with copies that are cut, repeated and duplicated."""
    jobs = some_jobs(4, seed=3, gap=12.0)
    return run(jobs, some_executors(3), outage(20.0, 45.0, 0), outage(50.0, 70.0, 2), until=until, **options)


def started(result: Result) -> list[dict[str, Any]]:
    """Return the copies that have started, with the end of the run as the finish of those that run."""
    rows = [row for row in result.table("copies").iter_rows(named=True) if row["starting_time"] is not None]
    return [row | {"finish_time": row["finish_time"] or result.info["end_time"]} for row in rows]


def down(result: Result) -> list[tuple[int, float, float]]:
    """Return executor, begin and end of outages."""
    found, since = [], {}
    for row in result.table("outages").iter_rows(named=True):
        if row["event"] == "down":
            since[row["executor"]] = row["time"]
        else:
            found.append((row["executor"], since.pop(row["executor"]), row["time"]))
    return found + [(executor, time, result.info["end_time"]) for executor, time in since.items()]


def activities(result: Result, executor: int) -> dict[str, float]:
    """Return how long an executor did what, from an inspection of every moment between two events."""
    end = result.info["end_time"]
    copies = [row for row in started(result) if row["executor"] == executor]
    outages = [(begin, until) for number, begin, until in down(result) if number == executor]
    waits = [
        (row["receiving_time"], row["starting_time"] if row["starting_time"] is not None else end)
        for row in result.table("copies").iter_rows(named=True)
        if row["executor"] == executor and row["receiving_time"] is not None and row["outcome"] != "withdrawn"
    ]
    times = {0.0, end, *(time for span in outages + waits for time in span)}
    times |= {row[name] for row in copies for name in ("starting_time", "finish_time")}
    ordered = sorted(times)
    total = dict.fromkeys(("copies", "interrupted copies", "waiting for data"), 0.0)
    total |= {"idle": 0.0, "down": 0.0}
    for begin, until in pairwise(ordered):
        middle = (begin + until) / 2
        running = [row for row in copies if row["starting_time"] < middle < row["finish_time"]]
        if running:
            name = "interrupted copies" if running[0]["outcome"] == "interrupted" else "copies"
            total[name] += until - begin
        elif any(a < middle < b for a, b in outages):
            total["down"] += until - begin
        elif any(a < middle < b for a, b in waits):
            total["waiting for data"] += until - begin
        else:
            total["idle"] += until - begin
    return total
