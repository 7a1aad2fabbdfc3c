"""Mutation tests: each corruption of a valid deferrable run is caught by the rule that is meant for it.

A case is the run to corrupt, the rule that is meant, what to do, and the other rules that must break as a
consequence: no more and no fewer.
"""

from __future__ import annotations

import math
from functools import cache

import polars as pl
import pytest
from deferrable_corruptions import (
    DUE,
    STATUS,
    all_jobs,
    another_status,
    another_window,
    capacity,
    job,
    moved,
    other_requests,
    resubmitted,
    same_name,
    slot,
    slot_of_eviction,
    swapped_evictions,
)
from deferrable_runs import random_run

from desim.validation import rules_of, validate

RUNS = {
    "plain": {"seed": 11, "num_slots": 40},
    "drained": {"seed": 2},
    "stopped": {"seed": 3, "until": 12.5, "resources": 2},
    "cut": {"seed": 6, "until": 14.0, "num_slots": 20},
    "fitting": {"seed": 5, "overcommit": False, "resources": 3},
    "lost": {"seed": 6, "eviction": "lost", "num_slots": 18},
    "restarted": {"seed": 7, "eviction": "restarted", "num_slots": 18},
    "several": {"seed": 8, "eviction": "restarted", "resources": 3, "whole": False},
    "instant": {"seed": 9, "real_time": True},
}


@cache
def run_of(name):
    return random_run(**RUNS[name])


def row_of(run, *conditions, table="jobs"):
    return run.find(table, pl.all_horizontal(*conditions))


COMPLETED, EXPIRED = STATUS == "completed", STATUS == "expired"
OPEN = pl.col("earliest_start") < 14
EARLY = pl.col("latest_start") < 10
SLACK = pl.col("latest_start") > pl.col("starting_time")
DELAYED = pl.col("delay") > 0
LONG = pl.col("requested_time") > 3
NEVER_EVICTED = pl.col("evictions") == 0

CASES = [
    ("plain", "description", lambda run: run.described(resources=[])),
    ("plain", "description", lambda run: run.described(resources=["cores", "cores"])),
    ("plain", "description", lambda run: run.described(violation_weights=[1.0, 2.0])),
    ("plain", "description", lambda run: run.described(violation_weights=[-1.0])),
    ("plain", "description", lambda run: run.described(delay_weight=math.nan)),
    ("plain", "description", lambda run: run.described(overcommit="yes")),
    ("plain", "description", lambda run: run.described(eviction="sometimes")),
    ("plain", "description", lambda run: run.described(status="paused")),
    ("plain", "description", lambda run: run.described(num_slots=0, end_time=0)),
    ("plain", "description", lambda run: run.described(end_time=41)),
    ("plain", "description", lambda run: run.described(until=20.0)),
    ("plain", "description", lambda run: run.described(end_time=math.nan)),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.drop("revenue"))),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.drop("requested_cores"))),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.cast({"earliest_start": pl.Float64}))),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.with_columns(status=pl.lit("done")))),
    ("plain", "columns", lambda run: run.with_table("slots", run.result.table("slots").drop("used_cores"))),
    ("plain", "columns", lambda run: run.with_table("evictions", run.result.table("evictions").drop("job_id"))),
    ("plain", "columns", lambda run: run.edited("slots", 5, capacity_cores=None)),
    ("plain", "columns", lambda run: run.edited("slots", 5, reward=math.inf)),
    ("plain", "columns", lambda run: run.edited("jobs", 5, status=None)),
    ("plain", "columns", lambda run: run.edited("jobs", 5, starting_time=math.nan)),
    (
        "plain",
        "arrival_numbers",
        lambda run: all_jobs(run, arrival_number=pl.len() - 1 - pl.col("arrival_number")),
    ),
    ("plain", "unique_ids", same_name, "conservation"),
    (
        "plain",
        "unique_ids",
        lambda run: run.repeated("jobs", row_of(run, COMPLETED, EARLY)),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
        "conservation",
        "arrival_numbers",
    ),
    (
        "plain",
        "values",
        lambda run: run.edited("jobs", 0, submission_time=-1.0),
        "derived_times",
        "slot_counts",
        "conservation",
    ),
    (
        "plain",
        "values",
        lambda run: run.edited("jobs", row_of(run, EXPIRED), requested_time=0),
        "revenue",
        "conservation",
    ),
    ("plain", "values", lambda run: other_requests(run, row_of(run, EXPIRED), -1.0), "slot_work", "conservation"),
    ("plain", "values", lambda run: other_requests(run, row_of(run, EXPIRED), 0.0), "slot_work", "conservation"),
    ("fitting", "values", lambda run: run.edited("jobs", row_of(run, EXPIRED), requested_disk=-1.0), "conservation"),
    ("plain", "values", lambda run: run.edited("jobs", 3, evictions=-1), "evictions"),
    ("plain", "values", lambda run: run.edited("jobs", 3, job_id=2**60), "conservation"),
    (
        "plain",
        "values",
        lambda run: run.edited("jobs", row_of(run, EXPIRED), latest_start=2**62),
        "expiry",
        "slot_counts",
        "slot_work",
        "conservation",
    ),
    ("plain", "values", lambda run: capacity(run, pl.col("violation_cores") > 0, -1.0)),
    (
        "plain",
        "windows",
        lambda run: resubmitted(run, row_of(run, COMPLETED, EARLY), 2.0),
        "slot_counts",
        "conservation",
        "arrival_numbers",
    ),
    (
        "plain",
        "windows",
        lambda run: another_window(run, row_of(run, COMPLETED, ~SLACK, ~DELAYED), 0, -1),
        "starts",
        "values",
        "conservation",
    ),
    ("instant", "real_time", lambda run: another_window(run, row_of(run, COMPLETED), 0, 1), "conservation"),
    (
        "instant",
        "real_time",
        lambda run: resubmitted(run, row_of(run, COMPLETED), -0.25),
        "conservation",
        "arrival_numbers",
    ),
    ("plain", "real_time", lambda run: run.described(real_time=True), "conservation"),
    ("plain", "status_fields", lambda run: job(run, "completed", success=False)),
    ("plain", "status_fields", lambda run: job(run, "expired", success=True)),
    ("plain", "status_fields", lambda run: job(run, "completed", waiting_time=None)),
    ("plain", "status_fields", lambda run: job(run, "completed", finish_time=None)),
    ("plain", "status_fields", lambda run: job(run, "expired", delay=1.0)),
    ("stopped", "status_fields", lambda run: job(run, "running", finish_time=12.0)),
    ("lost", "status_fields", lambda run: job(run, "evicted", turnaround_time=None)),
    (
        "plain",
        "starts",
        lambda run: moved(run, row_of(run, COMPLETED, ~SLACK), 1.0),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
    ),
    (
        "plain",
        "starts",
        lambda run: moved(run, row_of(run, COMPLETED, ~DELAYED), -1.0),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
    ),
    (
        "plain",
        "starts",
        lambda run: moved(run, row_of(run, COMPLETED, SLACK), 0.5),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
    ),
    ("cut", "starts", lambda run: another_status(run, row_of(run, STATUS == "queued", ~OPEN), "running")),
    ("plain", "finish_time", lambda run: moved(run, row_of(run, COMPLETED), 0.0, end=1.0)),
    ("plain", "finish_time", lambda run: moved(run, row_of(run, COMPLETED), 0.0, end=-1.0)),
    (
        "lost",
        "finish_time",
        lambda run: moved(run, row_of(run, STATUS == "evicted"), 0.0, end=20.0),
        "horizon",
        "evictions",
    ),
    ("lost", "finish_time", lambda run: moved(run, row_of(run, STATUS == "evicted"), 0.0, end=0.5), "evictions"),
    ("plain", "derived_times", lambda run: job(run, "completed", waiting_time=0.25)),
    ("plain", "derived_times", lambda run: job(run, "completed", execution_time=9.0)),
    ("plain", "derived_times", lambda run: job(run, "completed", turnaround_time=0.5)),
    ("plain", "derived_times", lambda run: job(run, "completed", delay=-1.0)),
    ("plain", "revenue", lambda run: job(run, "completed", revenue=1e3), "slot_work", "slot_rewards"),
    ("plain", "revenue", lambda run: job(run, "expired", revenue=1e3), "slot_work"),
    ("plain", "unfinished", lambda run: another_status(run, row_of(run, COMPLETED), "running")),
    ("lost", "unfinished", lambda run: another_status(run, row_of(run, COMPLETED, DUE == 18), "running")),
    ("drained", "unfinished", lambda run: another_status(run, row_of(run, COMPLETED), "running")),
    (
        "plain",
        "unfinished",
        lambda run: another_status(run, row_of(run, EXPIRED), "queued"),
        "slot_counts",
        "slot_work",
    ),
    (
        "cut",
        "unfinished",
        lambda run: another_status(run, row_of(run, COMPLETED, pl.col("finish_time") == 13), "running"),
    ),
    ("cut", "expiry", lambda run: another_status(run, row_of(run, STATUS == "queued"), "expired")),
    ("cut", "horizon", lambda run: another_status(run, row_of(run, STATUS == "running"), "completed")),
    ("cut", "horizon", lambda run: another_status(run, row_of(run, STATUS == "running", DUE == 14), "completed")),
    (
        "cut",
        "horizon",
        lambda run: run.edited("jobs", row_of(run, STATUS == "queued"), submission_time=14.0),
        "arrival_numbers",
        "windows",
        "slot_counts",
        "conservation",
    ),
    ("plain", "slots", lambda run: run.edited("slots", 4, slot=5)),
    ("plain", "slots", lambda run: run.dropped("slots", 39), "starts"),
    ("drained", "slots", lambda run: run.described(end_time=run.result.info["end_time"] - 1), "horizon"),
    ("plain", "slots", lambda run: run.described(num_slots=50)),
    ("stopped", "slots", lambda run: run.described(until=13.0), "unfinished", "conservation"),
    *(
        ("restarted", "slot_counts", lambda run, column=column, by=by: slot(run, pl.col("slot") == 4, column, by=by))
        for column in ("arrived", "current", "future", "started", "expired", "evicted", "running")
        for by in (-1, 1)
    ),
    (
        "plain",
        "slot_counts",
        lambda run: run.dropped("jobs", row_of(run, COMPLETED, EARLY)),
        "arrival_numbers",
        "slot_work",
        "used",
        "slot_rewards",
        "conservation",
    ),
    (
        "plain",
        "slot_counts",
        lambda run: run.dropped("jobs", row_of(run, EXPIRED, EARLY)),
        "slot_work",
        "conservation",
        "arrival_numbers",
    ),
    (
        "plain",
        "slot_counts",
        lambda run: another_status(run, row_of(run, EXPIRED, EARLY), "completed"),
        "used",
        "slot_rewards",
    ),
    (
        "plain",
        "slot_counts",
        lambda run: another_status(run, row_of(run, COMPLETED, EARLY), "expired"),
        "used",
        "slot_rewards",
    ),
    (
        "plain",
        "slot_counts",
        lambda run: moved(run, row_of(run, COMPLETED, SLACK), 1.0),
        "slot_work",
        "used",
        "slot_rewards",
    ),
    ("plain", "slot_work", lambda run: slot(run, pl.col("slot") == 4, "current_work")),
    ("several", "slot_work", lambda run: slot(run, pl.col("slot") == 4, "future_work", by=-1e-3)),
    ("plain", "used", lambda run: slot(run, pl.col("used_cores") < pl.col("capacity_cores") - 1, "used_cores")),
    (
        "several",
        "used",
        lambda run: slot(run, pl.col("used_disk") > pl.col("capacity_disk") + 1, "used_disk", by=-1e-4),
        "violation",
        "slot_rewards",
    ),
    ("several", "used", lambda run: run.edited("jobs", row_of(run, COMPLETED), requested_disk=50.0), "conservation"),
    ("plain", "violation", lambda run: slot(run, pl.col("violation_cores") > 0, "violation_cores", by=1e-6)),
    (
        "plain",
        "violation",
        lambda run: slot(run, pl.col("violation_cores") > 0, "capacity_cores", by=1e-3),
        "slot_rewards",
    ),
    ("plain", "violation", lambda run: slot(run, pl.col("violation_cores") == 0, "violation_cores", by=-1e-6)),
    ("plain", "slot_rewards", lambda run: slot(run, pl.col("slot") == 4, "revenue")),
    ("plain", "slot_rewards", lambda run: slot(run, pl.col("slot") == 4, "delay")),
    ("restarted", "slot_rewards", lambda run: slot(run, pl.col("slot") == 4, "reward", by=-1e-4)),
    ("plain", "slot_rewards", lambda run: run.described(delay_weight=3.0)),
    ("plain", "slot_rewards", lambda run: run.described(violation_weights=[9.0])),
    (
        "restarted",
        "slot_rewards",  # as if an eviction gave nothing back
        lambda run: slot(run, pl.col("evicted") > 0, "revenue", "reward", by=5.0),
    ),
    ("fitting", "overcommit", lambda run: capacity(run, (pl.col("started") > 0) & (pl.col("used_cores") > 1), 1.0)),
    ("plain", "overcommit", lambda run: run.described(overcommit=False)),
    (
        "lost",
        "evictions",
        lambda run: run.edited("evictions", 0, job_id=10_000),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
    ),
    ("lost", "evictions", lambda run: run.dropped("evictions", 0), "slot_counts", "slot_work", "used", "slot_rewards"),
    ("lost", "evictions", lambda run: run.repeated("evictions", 0), "slot_counts", "slot_work", "used", "slot_rewards"),
    ("restarted", "evictions", lambda run: run.dropped("evictions", 0), "slot_counts", "used", "slot_rewards"),
    (
        "restarted",
        "evictions",
        lambda run: run.edited("evictions", 1, starting_time=0),
        "slot_work",
        "eviction_order",
        "slot_counts",
        "used",
        "slot_rewards",
    ),
    ("restarted", "evictions", lambda run: run.edited("jobs", row_of(run, COMPLETED, NEVER_EVICTED), evictions=1)),
    (
        "restarted",
        "eviction_order",
        lambda run: slot_of_eviction(run, 0, 1),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
        "eviction_outcomes",
    ),
    (
        "restarted",
        "evictions",
        lambda run: slot_of_eviction(run, 0, 30),
        "slot_counts",
        "slot_work",
        "used",
        "slot_rewards",
        "eviction_outcomes",
    ),
    ("lost", "eviction_outcomes", lambda run: run.described(eviction="never")),
    ("lost", "eviction_outcomes", lambda run: run.described(eviction="restarted"), "slot_counts", "slot_work"),
    ("restarted", "eviction_outcomes", lambda run: run.described(eviction="lost"), "slot_counts", "slot_work"),
    ("restarted", "eviction_outcomes", lambda run: run.described(eviction="never"), "slot_counts", "slot_work"),
    (
        "restarted",
        "eviction_outcomes",
        lambda run: another_window(run, row_of(run, STATUS == "evicted"), 0, 9),
        "slot_counts",
        "slot_work",
        "conservation",
    ),
    ("lost", "eviction_order", swapped_evictions, "slot_rewards"),
    ("lost", "eviction_order", lambda run: capacity(run, pl.col("evicted") > 0, 1e3)),
    (
        "lost",
        "eviction_order",
        lambda run: capacity(run, (pl.col("running") > pl.col("started")) & (pl.col("evicted") == 0), 0.0),
    ),
    ("restarted", "eviction_order", lambda run: capacity(run, pl.col("running") > pl.col("started"), 0.0)),
    ("plain", "eviction_order", lambda run: run.described(eviction="lost")),
    ("plain", "conservation", lambda run: another_window(run, row_of(run, COMPLETED, SLACK), 0, 1)),
    ("plain", "conservation", lambda run: run.edited("jobs", 3, job_id=1234)),
    (
        "fitting",
        "conservation",
        lambda run: resubmitted(run, row_of(run, pl.col("submission_time") % 1 == 0.5, DUE > 0), 0.25),
    ),
    ("instant", "conservation", lambda run: all_jobs(run, job_id=pl.col("job_id") + 1)),
]


@pytest.mark.parametrize(("name", "rule", "corrupt", "also"), [(*case[:3], case[3:]) for case in CASES])
def test_a_corruption_is_caught_by_its_rule(name, rule, corrupt, also):
    run = run_of(name)
    report = validate(corrupt(run), run.jobs)
    assert set(report.counts) == {rule, *also}, str(report)


@pytest.mark.parametrize("name", RUNS)
def test_the_runs_that_are_corrupted_are_valid(name):
    run = run_of(name)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


def test_every_rule_has_a_corruption():
    assert {rule for _, rule, *_ in CASES} == set(rules_of("deferrable"))
