"""Metrics of random DAG runs against loops over rows, written without arrays."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_numbers import mean, quantile, ratio

from tests.validation.dag_runs import AGENTS, random_run

END = {"completed", "interrupted"}


def run_times(result):
    """Return for each job and node how long it runs on each executor."""
    speeds = result.table("executors")["speed"].to_list()
    return {
        (row["job_id"], row["node"]): row["run_times"] or [row["work"] / speed for speed in speeds]
        for row in result.table("nodes").iter_rows(named=True)
    }, speeds


def path_of(job_id, num_nodes, times, edges):
    """Return the longest path through a job by recursion."""
    children = {node: [c for j, p, c, _ in edges if (j, p) == (job_id, node)] for node in range(num_nodes)}

    @cache
    def to_the_end(node):
        """Return the longest path from a node on."""
        return min(times[job_id, node]) + max(map(to_the_end, children[node]), default=0.0)

    return max(map(to_the_end, range(num_nodes)))


def finish_of(job_id, num_nodes, times, edges, fastest):
    """Return the earliest finish of a job, over all divisions of parents into those on the executor and the others."""
    parents = {node: [(p, size) for j, p, c, size in edges if (j, c) == (job_id, node)] for node in range(num_nodes)}
    speed, latency = fastest

    @cache
    def start(node):
        """Return the earliest start of a node."""
        best = math.inf
        for here in product((False, True), repeat=len(parents[node])):
            own = sorted((start(p), p) for (p, _), local in zip(parents[node], here, strict=True) if local)
            time = 0.0
            for begin, p in own:
                time = max(time, begin) + min(times[job_id, p])
            for (p, size), local in zip(parents[node], here, strict=True):
                if not local:
                    time = max(time, start(p) + min(times[job_id, p]) + (latency + size / speed if speed else math.inf))
            best = min(best, time)
        return best

    return max(start(node) + min(times[job_id, node]) for node in range(num_nodes))


def schedule(result):
    """Compute makespan and bounds."""
    rows = list(result.jobs.iter_rows(named=True))
    times, speeds = run_times(result)
    edges = result.table("edges").drop("arrival_number").rows()
    first = min(row["submission_time"] for row in rows)
    paths = {row["job_id"]: path_of(row["job_id"], row["num_nodes"], times, edges) for row in rows}
    makespan = math.nan
    if all(row["status"] == "completed" for row in rows):
        makespan = max(row["finish_time"] for row in rows) - first
    serial = min(sum(each[executor] for each in times.values()) for executor in range(len(speeds)))
    channels = result.table("channels")
    fastest = max(channels["transfer_speed"].to_list(), default=0.0), min(channels["latency"].to_list(), default=0.0)
    bounds = [
        row["submission_time"] + finish_of(row["job_id"], row["num_nodes"], times, edges, fastest) for row in rows
    ]
    for weights in ([speed / sum(speeds) for speed in speeds], [1 / len(speeds)] * len(speeds)):
        for start in {row["submission_time"] for row in rows}:
            late = {row["job_id"] for row in rows if row["submission_time"] >= start}
            load = sum(
                min(y * p for y, p in zip(weights, each, strict=True))
                for (job, _), each in times.items()
                if job in late
            )
            bounds.append(start + load)
    bound = max(bounds) - first
    ended = [row for row in rows if row["status"] == "completed"]
    turnaround = [row["finish_time"] - row["submission_time"] for row in ended]
    return {
        "jobs_submitted": len(rows),
        **{f"jobs_{name}": sum(row["status"] == name for row in rows) for name in ("completed", "running", "queued")},
        "num_nodes": len(times),
        "makespan": makespan,
        "serial_time": serial,
        "speedup": ratio(serial, makespan),
        "critical_path": max(paths.values()),
        "slr": ratio(makespan, max(paths.values())),
        "job_slr_mean": mean(
            [t / paths[row["job_id"]] for t, row in zip(turnaround, ended, strict=True) if paths[row["job_id"]] > 0]
        ),
        "lower_bound": bound,
        "gap_to_lower_bound": ratio(makespan, bound) - 1,
        "turnaround_time_mean": mean(turnaround),
        "turnaround_time_median": quantile(turnaround, 0.5),
        "turnaround_time_p95": quantile(turnaround, 0.95),
        "waiting_time_mean": mean(
            [row["starting_time"] - row["submission_time"] for row in rows if row["starting_time"] is not None]
        ),
    }


def useful_copies(result):
    """Return the numbers of the copies that are useful by the definition of the module."""
    copies = list(result.table("copies").iter_rows(named=True))
    parents = set(result.table("edges").select("job_id", "parent").iter_rows())
    done = [number for number, copy in enumerate(copies) if copy["outcome"] == "completed"]
    useful = set()
    for row in result.table("transfers").iter_rows(named=True):
        there = [
            number
            for number in done
            if (copies[number]["job_id"], copies[number]["node"], copies[number]["executor"])
            == (row["job_id"], row["parent"], row["source"])
            and copies[number]["finish_time"] <= row["starting_time"]
        ]
        useful.add(max(there, key=lambda number: (copies[number]["finish_time"], number)))
    firsts = {}
    for number in done:
        key = copies[number]["job_id"], copies[number]["node"]
        if key not in parents:
            firsts.setdefault(key, []).append((copies[number]["finish_time"], number))
    return useful | {min(each)[1] for each in firsts.values()}


def work(result):
    """Compute what the executors did."""
    end, useful = result.info["end_time"], useful_copies(result)
    copies = list(result.table("copies").iter_rows(named=True))
    ended = {row["job_id"] for row in result.jobs.iter_rows(named=True) if row["status"] == "completed"}
    busy = wasted = again = 0
    for number, copy in enumerate(copies):
        if copy["starting_time"] is None:
            continue
        seconds = (end if copy["outcome"] == "running" else copy["finish_time"]) - copy["starting_time"]
        busy += seconds
        if copy["outcome"] == "interrupted" or (copy["job_id"] in ended and number not in useful):
            wasted += seconds
        before = [
            other
            for other in copies[:number]
            if (other["job_id"], other["node"]) == (copy["job_id"], copy["node"])
            and other["outcome"] == "completed"
            and other["finish_time"] <= copy["assignment_time"]
        ]
        again += bool(before) and not copy["duplicate"]
    first = min(row["submission_time"] for row in result.jobs.iter_rows(named=True))
    up, down = len(result.table("executors")) * (end - first), {}
    for time, executor, event in result.table("outages").iter_rows():
        if event == "down":
            down[executor] = time
        else:
            up -= max(time, first) - max(down.pop(executor), first)
    up -= sum(end - max(time, first) for time in down.values())
    started = [number for number, copy in enumerate(copies) if copy["starting_time"] is not None]
    duplicates = [number for number in started if copies[number]["duplicate"]]
    open_jobs = [n for n in duplicates if copies[n]["job_id"] not in ended and copies[n]["outcome"] == "completed"]
    return {
        "utilization": ratio(busy, up),
        "useful_utilization": ratio(busy - wasted, up),
        "wasted_time": wasted,
        "num_copies": len(started),
        "num_duplicates": len(duplicates),
        "num_useful_duplicates": len(set(duplicates) & useful | set(open_jobs)),
        "num_interrupted": sum(copy["outcome"] == "interrupted" for copy in copies),
        "num_withdrawn": sum(copy["outcome"] == "withdrawn" for copy in copies),
        "num_reexecuted": again,
    }


def transfers(result):
    """Compute what was moved."""
    rows = list(result.table("transfers").iter_rows(named=True))
    moved = [row for row in rows if row["source"] != row["destination"]]
    total, amount = sum(row["size"] for row in rows), sum(row["size"] for row in moved)
    return {
        "num_transfers": len(moved),
        "data_moved": amount,
        "local_share": ratio(total - amount, total),
        "transfer_time_mean": mean([row["arrival_time"] - row["starting_time"] for row in moved]),
    }


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    agent=st.sampled_from(sorted(AGENTS)),
    plan_ahead=st.booleans(),
    outages=st.booleans(),
    lose=st.booleans(),
    links=st.booleans(),
    whole=st.booleans(),
    executors=st.integers(1, 4),
    until=st.sampled_from([5_000.0, 30.0]),
)
def test_all_metrics_agree_with_loops(seed, **options):
    result = random_run(seed, size=10, **options).result
    expected = {**schedule(result), **work(result), **transfers(result)}
    values = result.metrics()
    assert list(values) == list(expected)
    assert values == pytest.approx(expected, nan_ok=True, abs=1e-9)
