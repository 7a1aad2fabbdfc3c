"""The rules on deferrable runs against loops, on tables that no simulator has made."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, Simulation
from desim.problems.deferrable import DeferrableCluster
from desim.validation import validate

SLOTS = 12
RESOURCES = ("cores", "memory")
WEIGHTS = {"delay_weight": 2.0, "violation_weights": [10.0, 4.0]}
STATUSES = ("completed", "expired", "evicted", "running", "queued")


def job(name, submission, earliest, latest, duration, requests, start=None, eviction=None):
    """Make a row of the job table; a job is evicted at most once."""
    row = {
        "job_id": name,
        "submission_time": float(submission),
        "earliest_start": earliest,
        "latest_start": latest,
        "requested_time": duration,
        **{f"requested_{name}": float(amount) for name, amount in zip(RESOURCES, requests, strict=True)},
        "starting_time": start,
        "revenue": float(requests[0] * duration),
        "evictions": int(eviction is not None),
    }
    end = None if start is None else start + duration
    if start is None:
        status, finish = "expired" if latest < SLOTS else "queued", None
    elif eviction is not None:
        status, finish = "evicted", eviction
    else:
        status, finish = ("completed", end) if end <= SLOTS else ("running", None)
    return row | {
        "finish_time": finish,
        "waiting_time": None if start is None else start - submission,
        "execution_time": None if finish is None else finish - start,
        "turnaround_time": None if finish is None else finish - submission,
        "delay": None if start is None else start - earliest,
        "status": status,
        "success": status == "completed",
    }


def runs_in(row, slot):
    """Tell whether a job runs once jobs have been started in a slot."""
    start = row["starting_time"]
    end = None if start is None else row["finish_time"] or start + row["requested_time"]
    return start is not None and start <= slot < end


def waits_in(row, slot):
    """Tell whether a job is known and neither started nor expired when a slot has begun."""
    last = row["latest_start"] if row["starting_time"] is None else row["starting_time"]
    return row["submission_time"] <= slot <= last


def violations(used, capacity):
    """Return what is used above the capacity."""
    return {name: max(0.0, used[name] - capacity[name]) for name in RESOURCES}


def slot_row(rows, slot, capacity):
    """Make a row of the slots by loops over the jobs."""
    known = [row for row in rows if waits_in(row, slot)]
    current = [row for row in known if row["earliest_start"] <= slot]
    future = [row for row in known if row["earliest_start"] > slot]
    started = [row for row in rows if row["starting_time"] == slot]
    gone = [row for row in rows if row["status"] == "evicted" and row["finish_time"] == slot]
    used = {name: sum(row[f"requested_{name}"] for row in rows if runs_in(row, slot)) for name in RESOURCES}
    above = violations(used, capacity)
    revenue = sum(row["revenue"] for row in started) - sum(row["revenue"] for row in gone)
    delay = sum(row["delay"] for row in started) - sum(row["delay"] for row in gone)
    penalty = sum(w * above[name] for w, name in zip(WEIGHTS["violation_weights"], RESOURCES, strict=True))
    return {
        "slot": slot,
        "arrived": sum(slot - 1 < row["submission_time"] <= slot for row in rows),
        "current": len(current),
        "future": len(future),
        "started": len(started),
        "expired": sum(row["status"] == "expired" and row["latest_start"] == slot for row in rows),
        "evicted": len(gone),
        "running": sum(runs_in(row, slot) for row in rows),
        "current_work": sum(row["revenue"] for row in current),
        "future_work": sum(row["revenue"] for row in future),
        "revenue": revenue,
        "delay": delay,
        "reward": revenue - WEIGHTS["delay_weight"] * delay - penalty,
        **{f"capacity_{name}": float(capacity[name]) for name in RESOURCES},
        **{f"used_{name}": used[name] for name in RESOURCES},
        **{f"violation_{name}": above[name] for name in RESOURCES},
    }


def result_of(rows, capacities, **info):
    """Put jobs into the tables of a run that goes on to its last slot."""
    empty = Simulation(DeferrableCluster([], [1.0], num_slots=SLOTS, resources=RESOURCES)).finish()
    rows = [row | {"arrival_number": n} for n, row in enumerate(sorted(rows, key=lambda row: row["submission_time"]))]
    evictions = [
        {name: row[name] for name in ("job_id", "starting_time", "arrival_number")}
        | {"eviction_time": row["finish_time"]}
        for row in rows
        if row["status"] == "evicted"
    ]
    slots = [slot_row(rows, slot, capacity) for slot, capacity in enumerate(capacities)]
    made = {"jobs": rows, "slots": slots, "evictions": evictions}
    tables = {
        name: pl.DataFrame(table, schema=empty.table(name).schema, strict=False).lazy() for name, table in made.items()
    }
    return Result(tables, empty.info | WEIGHTS | {"end_time": SLOTS} | info)


def named(report, rule):
    """Return the slots that the violations of a rule name."""
    return {int(text.split()[1].rstrip(":")) for name, text in report.violations if name == rule}


amounts = st.tuples(st.sampled_from([1, 2, 3.5]), st.sampled_from([0, 1, 2.25]))
jobs = st.lists(
    st.tuples(
        st.sampled_from([0, 0.5, 1, 1.5, 2, 4, 6, 8.5, 11]),
        st.integers(0, 3),
        st.integers(0, 4),
        st.none() | st.integers(0, 4),
        st.integers(1, 6),
        amounts,
    ),
    max_size=8,
)
capacity = st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.sampled_from([0, 1, 2, 4.5, 8])))
capacities = st.lists(capacity, min_size=SLOTS, max_size=SLOTS)


def rows_of(specification):
    """List the rows of the job table: jobs start as late as said, if that is in their window and in the run."""
    rows = []
    for name, (submission, lead_time, slack, wait, duration, requests) in enumerate(specification):
        earliest = int(-(-submission // 1)) + lead_time
        latest, start = earliest + slack, None if wait is None else earliest + min(wait, slack)
        rows.append(
            job(name, submission, earliest, latest, duration, requests, None if (start or 0) >= SLOTS else start)
        )
    return rows


@settings(max_examples=50, deadline=None)
@given(specification=jobs, capacities=capacities)
def test_sums_and_starts_beyond_the_capacity_agree_with_loops(specification, capacities):
    rows = rows_of(specification)
    report = validate(result_of(rows, capacities))
    assert report.ok, str(report)
    report = validate(result_of(rows, capacities, overcommit=False), stop_after=1_000)
    expected = {
        slot
        for slot, there in enumerate(capacities)
        for name in RESOURCES
        if any(row["starting_time"] == slot and row[f"requested_{name}"] > 0 for row in rows)
        and sum(row[f"requested_{name}"] for row in rows if runs_in(row, slot)) > there[name]
    }
    assert set(report.counts) <= {"overcommit"}, str(report)
    assert named(report, "overcommit") == expected


@settings(max_examples=40, deadline=None)
@given(specification=jobs.filter(bool), capacities=capacities, data=st.data())
def test_a_wrong_number_is_told_with_its_slot_and_both_values(specification, capacities, data):
    result = result_of(rows_of(specification), capacities)
    counts = ["arrived", "current", "future", "started", "expired", "evicted", "running"]
    column = data.draw(st.sampled_from([*counts, "current_work", "future_work", "revenue", "delay", "reward"]))
    slot = data.draw(st.integers(0, SLOTS - 1))
    frame = result.table("slots")
    right = frame[column][slot]
    wrong = right + data.draw(st.sampled_from([-1, 1, 2]))
    frame = frame.with_columns(pl.when(pl.col("slot") == slot).then(wrong).otherwise(column).alias(column))
    report = validate(
        Result({name: result.scan(name) for name in result.table_names} | {"slots": frame.lazy()}, result.info)
    )
    assert sum(report.counts.values()) == 1, str(report)
    text = report.violations[0].message
    before, after = text.split(", expected ")
    assert before == f"slot {slot}: {column}: got {wrong}"
    assert after.endswith(" by the other tables")
    assert float(after.split()[0]) == pytest.approx(right)


def evicted_in_order(order, over):
    """Return which jobs are evicted if they are looked at in this order: those that hold something that is short."""
    over, gone = dict(over), set()
    for row in order:
        if any(over[name] > 0 and row[f"requested_{name}"] > 0 for name in RESOURCES):
            gone.add(row["job_id"])
            over = {name: over[name] - row[f"requested_{name}"] for name in RESOURCES}
    return gone


def possible_evictions(rows, capacity):
    """Return all sets of jobs that may be evicted: the last started first, in any order within a slot."""
    over = {name: sum(row[f"requested_{name}"] for row in rows) - capacity[name] for name in RESOURCES}
    starts = sorted({row["starting_time"] for row in rows}, reverse=True)
    groups = [itertools.permutations([row for row in rows if row["starting_time"] == start]) for start in starts]
    orders = (itertools.chain.from_iterable(choice) for choice in itertools.product(*groups))
    return {frozenset(evicted_in_order(order, over)) for order in orders}


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_evictions_agrees_with_all_permutations(seed):
    rng = np.random.default_rng(seed)
    count, slot = int(rng.integers(2, 5)), 3
    starts = rng.integers(0, slot, count).tolist()
    requests = [(int(rng.integers(1, 4)), int(rng.integers(0, 3))) for _ in range(count)]
    plenty = dict.fromkeys(RESOURCES, 100)
    scarce = {
        name: int(rng.integers(0, 1 + sum(row[place] for row in requests))) for place, name in enumerate(RESOURCES)
    }

    def rows_with(gone):
        return [
            job(name, 0, 0, slot, 5 + name, requests[name], start, slot if name in gone else None)
            for name, start in enumerate(starts)
        ]

    possible = possible_evictions(rows_with(()), scarce)
    assert possible
    for size in range(count + 1):
        for gone in itertools.combinations(range(count), size):
            there = [plenty] * slot + [scarce] + [plenty] * (SLOTS - slot - 1)
            report = validate(result_of(rows_with(gone), there, eviction="lost"))
            assert set(report.counts) <= {"eviction_order"}, str(report)
            assert report.ok == (frozenset(gone) in possible), (starts, requests, scarce, gone, str(report))
            assert named(report, "eviction_order") <= {slot}
