"""All schedules of tiny DAG jobs, tried one after the other; and a check that a schedule is one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from dag_references import Key, run_times_of, transfer_time

from desim import Result
from desim.problems.dag import Executors, Job

Placed = tuple[int, float, float]  # executor, start, finish


def need_ortools() -> None:
    """Skip a test where the solver is not installed, or cannot be loaded beside another one in this process."""
    pytest.importorskip("ortools.sat.python.cp_model", reason="ortools cannot be imported", exc_type=ImportError)


def least_makespan(jobs: Sequence[Job], executors: Executors, *, duplication: bool) -> float:
    """Return the optimum, by placing copies in order of start in all possible ways.

    Each copy starts as soon as its executor is free and some copy of each parent, placed before, has its data there:
    every schedule without needless waiting is one of these.
    """
    times = {job.job_id: run_times_of(job, executors) for job in jobs}
    nodes = [(job, node) for job in jobs for node in range(job.num_nodes)]
    count = executors.num_executors
    best = [min(_serial(jobs, times, executor) for executor in range(count))]

    def extend(placed: dict[Key, list[Placed]], free: tuple[float, ...], last: float) -> None:
        if len(placed) == len(nodes):
            best[0] = min(best[0], max(min(finish for _, _, finish in copies) for copies in placed.values()))
        for job, node in nodes:
            key = job.job_id, node
            there = placed.get(key, [])
            if there and not duplication:
                continue
            parents = job.parent_lists[node]
            if any((job.job_id, parent) not in placed for parent, _ in parents):
                continue
            for executor in range(count):
                if any(source == executor for source, _, _ in there):
                    continue
                arrivals = [
                    min(
                        finish + transfer_time(size, source, executor, executors)
                        for source, _, finish in placed[job.job_id, parent]
                    )
                    for parent, size in parents
                ]
                start = max([free[executor], job.submission_time, *arrivals])
                finish = start + times[job.job_id][node][executor]
                if start < last or finish >= best[0]:
                    continue
                now_free = tuple(finish if index == executor else time for index, time in enumerate(free))
                extend({**placed, key: [*there, (executor, start, finish)]}, now_free, start)

    extend({}, (0.0,) * count, 0.0)
    return best[0]


def _serial(jobs: Sequence[Job], times: dict[int, list[list[float]]], executor: int) -> float:
    finish = 0.0
    for job in sorted(jobs, key=lambda job: job.submission_time):
        finish = max(finish, job.submission_time) + sum(row[executor] for row in times[job.job_id])
    return finish


def assert_feasible(result: Result, jobs: Sequence[Job], executors: Executors) -> None:
    """Check that every node has run, in its time, one after another, with its data there; without outages."""
    copies: dict[Key, list[dict[str, Any]]] = {}
    rows = result.table("copies").rows(named=True)
    for row in rows:
        if row["outcome"] != "withdrawn":
            assert row["outcome"] in ("completed", "running")  # a copy may run when the last job has ended
            copies.setdefault((row["job_id"], row["node"]), []).append(row)
    for executor in range(executors.num_executors):
        intervals = [
            (row["starting_time"], row["finish_time"])
            for of_node in copies.values()
            for row in of_node
            if row["executor"] == executor and row["finish_time"] is not None
        ]
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(intervals)))
    for job in jobs:
        times = run_times_of(job, executors)
        for node, parents in enumerate(job.parent_lists):
            assert any(row["outcome"] == "completed" for row in copies[job.job_id, node])
            for row in copies[job.job_id, node]:
                executor, start = row["executor"], row["starting_time"]
                assert start >= job.submission_time
                if row["finish_time"] is not None:
                    assert row["finish_time"] == start + times[node][executor]
                for parent, size in parents:
                    assert start >= min(
                        other["finish_time"] + transfer_time(size, other["executor"], executor, executors)
                        for other in copies[job.job_id, parent]
                        if other["finish_time"] is not None
                    )
