"""The rules on multi-server runs against loops, on tables that no simulator has made."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, Simulation
from desim.problems.multiserver import BipartiteGraph, MultiSlotCluster, RewardModel
from desim.validation import validate

PORTS, NODES, RESOURCES = ("a", "b"), ("m", "n"), ("CPU", "GPU")
SLOTS = 8
VALUE = {
    "linear": lambda y, alpha: alpha * y,
    "log": lambda y, alpha: alpha * math.log(y + 1),
    "reciprocal": lambda y, alpha: 1 / alpha - 1 / (y + alpha),
    "poly": lambda y, alpha: alpha * math.sqrt(y + 1) - alpha,
}
UTILITIES = np.array([["linear", "log"], ["reciprocal", "poly"]])
WEIGHTS = np.array([[1.0, 1.5], [1.25, 2.0]])
OVERHEAD = [0.1, 0.05]
CAPACITY = [[4.0, 3.0], [5.0, 2.0]]

given_amounts = st.dictionaries(
    st.tuples(st.sampled_from(NODES), st.sampled_from(RESOURCES)), st.sampled_from([0.5, 1.0, 2.0]), min_size=1
)
jobs = st.lists(
    st.tuples(
        st.sampled_from(PORTS),
        st.integers(0, 5),
        st.none() | st.integers(0, 4),
        st.sampled_from([0.25, 1.0, 2.5, 3.0]),
        given_amounts,
    ),
    max_size=9,
).map(lambda rows: sorted(rows, key=lambda row: row[1]))


def earned(amounts):
    """Return gain, overhead and dominant resource of what a job gets."""
    gain = sum(
        VALUE[UTILITIES[NODES.index(n), RESOURCES.index(r)]](y, WEIGHTS[NODES.index(n), RESOURCES.index(r)])
        for (n, r), y in amounts.items()
    )
    costs = [
        OVERHEAD[place] * sum(y for (_, r), y in amounts.items() if r == resource)
        for place, resource in enumerate(RESOURCES)
    ]
    return gain, max(costs), RESOURCES[costs.index(max(costs))]


def rows_of(specification):
    """List the rows of the job table: those that wait have no start."""
    rows = []
    for number, (port, submission, wait, length, amounts) in enumerate(specification):
        gain, overhead, dominant = earned(amounts) if wait is not None else (0.0, 0.0, "CPU")
        start = None if wait is None else float(submission + wait)
        finish = None if wait is None else start + length
        rows.append(
            {
                "job_id": number,
                "port": port,
                "submission_time": float(submission),
                "starting_time": start,
                "finish_time": finish,
                "waiting_time": None if wait is None else float(wait),
                "execution_time": None if wait is None else length,
                "turnaround_time": None if wait is None else finish - submission,
                "work": 1.0 if wait is None else length * (gain - overhead),
                "gain": gain,
                "overhead": overhead,
                "reward": gain - overhead,
                "dominant_resource": dominant,
                "status": "queued" if wait is None else "completed",
                "success": wait is not None,
                "arrival_number": number,
            }
        )
    return rows


def running(row, slot):
    """Tell whether a job runs once a slot has begun."""
    return row["starting_time"] is not None and row["starting_time"] <= slot < row["finish_time"]


def share(row, slot):
    """Return in which part of a slot a running job runs."""
    return min(row["finish_time"], slot + 1) - max(row["starting_time"], slot)


def used(specification, rows, slot, node, resource):
    """Add up what running jobs hold on average over a slot."""
    return sum(
        amounts.get((node, resource), 0.0) * share(row, slot)
        for (*_, amounts), row in zip(specification, rows, strict=True)
        if running(row, slot)
    )


def held(specification, rows, slot, node, resource):
    """Add up what running jobs hold as a slot begins."""
    return sum(
        amounts.get((node, resource), 0.0)
        for (*_, amounts), row in zip(specification, rows, strict=True)
        if running(row, slot)
    )


def slots_of(specification, rows, num_slots):
    """List the rows of the slots by loops over the jobs."""
    table = []
    for slot in range(num_slots):
        now = [row for row in rows if running(row, slot)]
        queue = [row for row in rows if row["submission_time"] <= slot]
        gone = [row for row in queue if row["starting_time"] is not None and row["starting_time"] <= slot]
        gain, overhead = (sum(row[name] * share(row, slot) for row in now) for name in ("gain", "overhead"))
        amounts = {r: sum(held(specification, rows, slot, n, r) for n in NODES) for r in RESOURCES}
        averages = {r: sum(used(specification, rows, slot, n, r) for n in NODES) for r in RESOURCES}
        table.append(
            {
                "slot": slot,
                "arrived": sum(row["submission_time"] == slot for row in rows),
                "queued": len(queue) - len(gone),
                "running": len(now),
                "gain": gain,
                "overhead": overhead,
                "reward": gain - overhead,
                **{f"allocated_{r}": amount for r, amount in averages.items()},
                **{f"reserved_{r}": amount for r, amount in amounts.items()},
            }
        )
    return table


def result_of(specification, jobs_per_port):
    """Put jobs into the tables of a run that goes on until all have ended."""
    graph = BipartiteGraph([[2.0, 2.0], [2.0, 2.0]], CAPACITY, ports=PORTS, nodes=NODES, resources=RESOURCES)
    rewards = RewardModel(graph, UTILITIES, WEIGHTS, OVERHEAD)
    empty = Simulation(MultiSlotCluster(rewards, [], work=1.0, jobs_per_port=jobs_per_port)).finish()
    rows = rows_of(specification)
    last = max((row["finish_time"] or row["submission_time"] + 1 for row in rows), default=0.0)
    slots = slots_of(specification, rows, math.ceil(last))
    allocations = [
        {
            "slot": int(row["starting_time"]),
            "job_id": row["job_id"],
            "arrival_number": row["job_id"],
            "port": row["port"],
            "component": 0,
            "node": node,
            "resource": resource,
            "amount": amount,
        }
        for (*_, amounts), row in zip(specification, rows, strict=True)
        if row["starting_time"] is not None
        for (node, resource), amount in amounts.items()
    ]
    made = {"jobs": rows, "slots": slots, "allocations": allocations}
    tables = {name: empty.scan(name) for name in empty.table_names} | {
        name: pl.DataFrame(table, schema=empty.table(name).schema).lazy() for name, table in made.items()
    }
    return Result(tables, empty.info | {"end_time": math.ceil(last)}), rows, slots


def overloaded(specification, rows, num_slots):
    """List the (slot, node, resource) at which a job is given something and a node gives more than it has."""
    return {
        (slot, node, resource)
        for slot in range(num_slots)
        for n, node in enumerate(NODES)
        for r, resource in enumerate(RESOURCES)
        if held(specification, rows, slot, node, resource) > CAPACITY[n][r]
        and any(
            row["starting_time"] == slot and (node, resource) in amounts
            for (*_, amounts), row in zip(specification, rows, strict=True)
        )
    }


def overtaking(rows, places):
    """List the jobs that start although as many before them as can start in a slot are waiting."""
    return {
        row["job_id"]
        for row in rows
        if row["starting_time"] is not None
        and sum(
            other["port"] == row["port"]
            and other["job_id"] < row["job_id"]
            and (other["starting_time"] is None or other["starting_time"] >= row["starting_time"])
            for other in rows
        )
        >= places
    }


def crowded(rows, places):
    """List the ports and slots at which too many jobs start."""
    starts = defaultdict(int)
    for row in rows:
        if row["starting_time"] is not None:
            starts[row["port"], int(row["starting_time"])] += 1
    return {key for key, count in starts.items() if count > places}


@settings(max_examples=80, deadline=None)
@given(specification=jobs, places=st.integers(1, 2))
def test_rules_on_what_jobs_hold_and_on_queues_agree_with_loops(specification, places):
    result, rows, slots = result_of(specification, places)
    report = validate(result, stop_after=1_000)
    # More than there is may be reserved, too; everything else is right.
    assert set(report.counts) <= {"capacity", "queue", "jobs_per_port", "slot_amounts"}, str(report)
    told = defaultdict(set)
    for rule, message in report.violations:
        words = message.replace(":", "").split()
        if rule == "capacity":
            told[rule].add((float(words[1]), words[2], words[6].rstrip(",")))
        elif rule == "queue":
            told[rule].add(int(words[1]))
        elif rule == "jobs_per_port":
            told[rule].add((words[4], int(words[7].rstrip(","))))
    assert told["capacity"] == overloaded(specification, rows, len(slots))
    assert told["queue"] == overtaking(rows, places)
    assert told["jobs_per_port"] == crowded(rows, places)
    most = {r: sum(row[place] for row in CAPACITY) for place, r in enumerate(RESOURCES)}
    assert ("slot_amounts" in report.counts) == any(row[f"reserved_{r}"] > most[r] for row in slots for r in RESOURCES)


@settings(max_examples=40, deadline=None)
@given(specification=jobs.filter(bool), column=st.sampled_from(["arrived", "queued", "running"]), data=st.data())
def test_a_wrong_number_of_jobs_is_told_with_its_slot(specification, column, data):
    result, _, slots = result_of(specification, 9)
    slot = data.draw(st.integers(0, len(slots) - 1))
    wrong = slots[slot][column] + data.draw(st.sampled_from([-1, 1, 2]))
    frame = result.table("slots")
    frame = frame.with_columns(pl.when(pl.col("slot") == slot).then(wrong).otherwise(column).alias(column))
    tables = {name: result.scan(name) for name in result.table_names} | {"slots": frame.lazy()}
    report = validate(Result(tables, result.info), stop_after=1_000)
    if column == "arrived":
        # One that arrives for the last slot, and is said not to, may have come too late for it: it counts as waiting.
        assert {"arrivals", "slot_counts"} & set(report.counts), str(report)
    else:
        message = f"slot {slot}: {column}: got {wrong} jobs, expected {slots[slot][column]} as in the job table"
        assert ("slot_counts", message) in report.violations
        assert report.counts["slot_counts"] == 1


@settings(max_examples=40, deadline=None)
@given(specification=jobs.filter(lambda rows: any(row[2] is not None for row in rows)), data=st.data())
def test_a_gain_or_overhead_that_the_amounts_do_not_yield_is_told(specification, data):
    result, rows, _ = result_of(specification, 9)
    column = data.draw(st.sampled_from(["gain", "overhead"]))
    row = data.draw(st.sampled_from([row for row in rows if row["starting_time"] is not None]))
    frame = result.jobs
    value = row[column] * data.draw(st.sampled_from([0.999, 1.001]))
    frame = frame.with_columns(pl.when(pl.col("job_id") == row["job_id"]).then(value).otherwise(column).alias(column))
    tables = {name: result.scan(name) for name in result.table_names} | {"jobs": frame.lazy()}
    report = validate(Result(tables, result.info))
    told = [violation.message for violation in report.violations if violation.rule == column]
    assert len(told) == 1
    before, after = told[0].split(", expected ")
    assert before.startswith(f"job {row['job_id']}, served from slot {row['starting_time']:g} on: {column}: got ")
    assert float(before.split()[-1]) == pytest.approx(value)
    assert float(after.split()[0]) == pytest.approx(row[column])
