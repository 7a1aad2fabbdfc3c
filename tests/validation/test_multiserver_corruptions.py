"""Mutation tests: each corruption of a valid multi-server run is caught by the rule that is meant for it.

A case is the run to corrupt, the rule that is meant, what to do, and the other rules that must break as a
consequence: no more and no fewer.
"""

from __future__ import annotations

import math
from functools import cache

import polars as pl
import pytest
from multiserver_corruptions import (
    STATUS,
    another_dominant,
    another_reward,
    busy,
    component_gone,
    elsewhere,
    given,
    job,
    longer,
    lower,
    moved,
    moved_with_amounts,
    scaled,
    split_component,
    still_running,
    still_waiting,
    swapped_in_queue,
    unknown,
)
from multiserver_runs import random_run

from desim.validation import rules_of, validate

RUNS = {
    "slots": {"seed": 1},
    "copies": {"seed": 2, "copies": 3, "agent": "bin-packing"},
    "sparse": {"seed": 3, "every": 3},
    "scarce": {"seed": 9, "agent": "drf"},
    "holding": {"seed": 4, "holding": True},
    "stopped": {"seed": 4, "holding": True, "until": 17.5, "copies": 2},
    "gang": {"seed": 3, "gang": "divisible", "agent": "exact-oga-reactive"},
    "whole": {"seed": 8, "gang": "whole", "holding": True},
}


@cache
def run_of(name):
    return random_run(**RUNS[name])


def ended(run):
    """Return the first job that has ended."""
    return run.find("jobs", STATUS == "completed")


CASES = [
    ("slots", "description", lambda run: run.described(holding="no")),
    ("slots", "description", lambda run: run.described(num_ports=0)),
    ("slots", "description", lambda run: run.described(end_time=math.nan)),
    ("slots", "description", lambda run: run.described(end_time=25, until=20)),
    ("slots", "description", lambda run: run.described(status="paused")),
    ("slots", "description", lambda run: run.described(resources=["CPU", "CPU", "GPU"])),
    ("slots", "description", lambda run: run.described(overhead=[0.1])),
    ("slots", "description", lambda run: run.described(total_capacity=[1.0, -1.0, 1.0])),
    ("gang", "description", lambda run: run.described(gang={"minimum": [1], "whole": False})),
    ("gang", "description", lambda run: run.described(gang={"minimum": [1, 1, 0, 1], "whole": False})),
    ("holding", "description", lambda run: run.described(minimum_speed=None)),
    ("slots", "columns", lambda run: run.with_table("jobs", run.result.jobs.drop("reward"))),
    ("slots", "columns", lambda run: run.with_table("jobs", run.result.jobs.cast({"job_id": pl.Float64}))),
    ("slots", "columns", lambda run: run.with_table("jobs", run.result.jobs.with_columns(status=pl.lit("done")))),
    ("slots", "columns", lambda run: run.with_table("slots", run.result.table("slots").drop("reserved_GPU"))),
    ("slots", "columns", lambda run: run.edited("allocations", 5, amount=None)),
    ("slots", "columns", lambda run: run.edited("jobs", 5, gain=math.inf)),
    ("slots", "graph", lambda run: run.repeated("channels", 0)),
    ("slots", "graph", lambda run: run.dropped("channels", 0)),
    ("slots", "graph", lambda run: run.repeated("nodes", 4)),
    ("slots", "graph", lambda run: run.dropped("nodes", 4)),
    ("slots", "graph", lambda run: run.dropped("ports", 0)),
    ("slots", "graph", lambda run: run.edited("nodes", 0, capacity=-1.0)),
    ("slots", "graph", lambda run: run.edited("nodes", 0, weight=0.0)),
    ("slots", "graph", lambda run: run.edited("ports", 0, request=-1.0)),
    ("slots", "graph", lambda run: run.edited("ports", 0, resource="NPU")),
    ("slots", "graph", lambda run: run.edited("nodes", 0, node="machine 7")),
    ("slots", "graph", lambda run: run.described(num_nodes=7)),
    ("slots", "graph", lambda run: run.described(total_capacity=[1.0, 2.0, 3.0])),
    ("slots", "graph", lambda run: unknown(run, "channels", "node")),
    ("slots", "graph", lambda run: unknown(run, "jobs", "port")),
    ("slots", "graph", lambda run: unknown(run, "jobs", "dominant_resource")),
    ("slots", "graph", lambda run: unknown(run, "allocations", "port")),
    ("slots", "graph", lambda run: unknown(run, "allocations", "node")),
    ("slots", "graph", lambda run: unknown(run, "allocations", "resource")),
    (
        "slots",
        "arrival_numbers",
        lambda run: run.repeated("jobs", 0),
        "jobs_per_port",
        "arrivals",
        "slot_counts",
        "slot_rewards",
        "gain",
        "overhead",
        "conservation",
    ),
    (
        "slots",
        "arrival_numbers",
        lambda run: run.dropped("jobs", 3),
        "arrivals",
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
        "allocations",
        "conservation",
    ),
    (
        "slots",
        "values",
        lambda run: run.edited("jobs", 3, job_id=-1, arrival_number=-1),
        "slot_amounts",
        "allocations",
        "gain",
        "overhead",
    ),
    ("slots", "values", lambda run: run.edited("jobs", 0, submission_time=-1.0), "derived_times", "conservation"),
    ("slots", "values", lambda run: another_reward(run, busy(run), gain=-1.0), "slot_rewards", "gain"),
    ("slots", "values", lambda run: another_reward(run, busy(run), overhead=-1.0), "slot_rewards", "overhead"),
    ("holding", "values", lambda run: run.edited("jobs", busy(run), work=0.0), "finish_time"),
    ("slots", "status_fields", lambda run: run.edited("jobs", ended(run), success=False)),
    ("slots", "status_fields", lambda run: run.edited("jobs", ended(run), waiting_time=None)),
    (
        "slots",
        "status_fields",
        lambda run: run.edited("jobs", ended(run), finish_time=None),
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
    ),
    ("slots", "status_fields", lambda run: run.edited("jobs", ended(run), work=1.0)),
    ("scarce", "status_fields", lambda run: job(run, "unserved", starting_time=3.0), "allocations"),
    (
        "slots",
        "status_fields",
        lambda run: still_running(run, ended(run)),
        "unfinished",
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
        "capacity",
    ),
    ("holding", "status_fields", lambda run: run.edited("jobs", busy(run), work=None)),
    ("stopped", "status_fields", lambda run: job(run, "queued", status="unserved")),
    (
        "slots",
        "start_after_submission",
        lambda run: moved(run, busy(run), -1.0),
        "start_slot",
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
        "allocations",
        "capacity",
    ),
    (
        "holding",
        "start_after_submission",
        lambda run: moved_with_amounts(run, 2, -2.0),
        "start_slot",
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
    ),
    (
        "slots",
        "start_slot",
        lambda run: moved_with_amounts(run, busy(run), 1.0),
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
        "capacity",
    ),
    (
        "holding",
        "start_slot",
        lambda run: moved(run, busy(run), 0.5),
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
        "allocations",
    ),
    ("slots", "derived_times", lambda run: run.edited("jobs", busy(run), waiting_time=0.5)),
    ("slots", "derived_times", lambda run: run.edited("jobs", busy(run), execution_time=0.5)),
    ("holding", "derived_times", lambda run: run.edited("jobs", busy(run), turnaround_time=0.5)),
    ("holding", "minimum_speed", lambda run: run.described(minimum_speed=1.0)),
    ("holding", "queue", swapped_in_queue),
    ("stopped", "queue", lambda run: run.described(jobs_per_port=1), "jobs_per_port"),
    ("slots", "finish_time", lambda run: longer(run, busy(run), 0.5), "capacity"),
    ("slots", "finish_time", lambda run: longer(run, busy(run), -0.5)),
    ("holding", "finish_time", lambda run: longer(run, busy(run), 1e-3), "slot_rewards", "slot_amounts"),
    ("holding", "finish_time", lambda run: run.edited("jobs", busy(run), work=3.0)),
    ("holding", "unfinished", lambda run: still_running(run, busy(run)), "slot_counts", "slot_rewards", "slot_amounts"),
    (
        "stopped",
        "unfinished",
        lambda run: still_running(run, busy(run)),
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
        "capacity",
    ),
    ("scarce", "unfinished", still_waiting),
    ("stopped", "unfinished", lambda run: run.described(until=30.0), "conservation"),
    ("slots", "horizon", lambda run: run.described(end_time=20, until=20), "slots", "conservation"),
    (
        "holding",
        "horizon",
        lambda run: run.described(end_time=20, until=20),
        "slots",
        "conservation",
        "slot_rewards",
        "slot_amounts",
    ),
    ("copies", "jobs_per_port", lambda run: run.described(jobs_per_port=2)),
    ("stopped", "jobs_per_port", lambda run: run.described(jobs_per_port=1), "queue"),
    ("slots", "slots", lambda run: run.edited("slots", 4, slot=5)),
    ("slots", "slots", lambda run: run.dropped("slots", 24), "start_slot", "unfinished"),
    ("slots", "slots", lambda run: run.described(end_time=26)),
    (
        "slots",
        "arrivals",
        lambda run: run.edited("slots", 4, arrived=run.row("slots", 4)["arrived"] + 1),
        "start_slot",
        "jobs_per_port",
    ),
    (
        "slots",
        "arrivals",
        lambda run: run.edited("jobs", busy(run), submission_time=0.0),
        "derived_times",
        "conservation",
    ),
    ("slots", "slot_counts", lambda run: run.edited("slots", 4, running=9)),
    ("slots", "slot_counts", lambda run: run.edited("slots", 4, queued=1)),
    ("holding", "slot_counts", lambda run: run.edited("slots", 4, running=99)),
    ("holding", "slot_counts", lambda run: run.edited("slots", 4, queued=9)),
    ("slots", "slot_rewards", lambda run: run.edited("slots", 4, gain=1.0), "derived_times"),
    ("slots", "slot_rewards", lambda run: run.edited("slots", 4, overhead=1.0), "derived_times"),
    ("holding", "slot_rewards", lambda run: run.edited("slots", 4, reward=1.0), "derived_times"),
    ("slots", "slot_amounts", lambda run: run.edited("slots", 4, allocated_CPU=0.1)),
    ("holding", "slot_amounts", lambda run: run.edited("slots", 4, allocated_GPU=0.1)),
    ("sparse", "slot_amounts", lambda run: run.edited("slots", 3, allocated_CPU=0.1)),
    ("slots", "slot_amounts", lambda run: run.edited("slots", 4, reserved_CPU=0.1)),
    ("sparse", "slot_amounts", lambda run: run.edited("slots", 4, reserved_CPU=1e3)),
    ("slots", "allocations", lambda run: given(run, job_id=10_000, arrival_number=10_000), "slot_amounts", "gain"),
    ("slots", "allocations", lambda run: given(run, slot=24)),
    ("slots", "allocations", lambda run: run.repeated("allocations", 0), "slot_amounts", "capacity", "gain"),
    ("slots", "allocations", lambda run: given(run, component=1)),
    ("slots", "allocations", lambda run: scaled(run, -1.0), "slot_amounts", "gain"),
    ("slots", "allocations", lambda run: given(run, port="type 3"), "channels", "requests"),
    ("sparse", "allocations", lambda run: run.described(record_allocations=2), "slot_amounts", "gain", "overhead"),
    ("sparse", "allocations", lambda run: run.described(record_allocations=0)),
    (
        "slots",
        "allocations",
        lambda run: run.with_table("allocations", run.result.table("allocations").clear()),
        "slot_amounts",
        "gain",
        "overhead",
    ),
    ("slots", "channels", elsewhere, "gain"),
    ("slots", "requests", lambda run: scaled(run, 3.0), "slot_amounts", "capacity", "gain"),
    ("slots", "requests", lambda run: lower(run, "ports", "request")),
    ("slots", "gain", lambda run: scaled(run, 0.99), "slot_amounts"),
    ("gang", "gangs", component_gone, "slot_amounts", "gain", "overhead"),
    ("whole", "gangs", split_component, "capacity", "gain"),
    ("scarce", "capacity", lambda run: scaled(run, 1.5), "slot_amounts", "requests", "gain", "overhead"),
    ("slots", "capacity", lambda run: lower(run, "nodes", "capacity")),
    ("gang", "capacity", lambda run: lower(run, "nodes", "capacity")),
    ("whole", "capacity", lambda run: lower(run, "nodes", "capacity")),
    ("sparse", "capacity", lambda run: lower(run, "nodes", "capacity")),
    (
        "holding",
        "capacity",
        lambda run: moved_with_amounts(run, busy(run), -1.0),
        "queue",
        "jobs_per_port",
        "slot_counts",
        "slot_rewards",
        "slot_amounts",
    ),
    ("slots", "derived_times", lambda run: run.edited("jobs", busy(run), reward=0.5), "slot_rewards"),
    ("slots", "gain", lambda run: another_reward(run, busy(run), gain=50.0), "slot_rewards"),
    ("holding", "gain", lambda run: another_reward(run, busy(run), gain=50.0), "finish_time", "slot_rewards"),
    ("slots", "gain", lambda run: run.edited("nodes", 1, utility="linear", weight=3.0)),
    ("slots", "overhead", lambda run: another_reward(run, busy(run), overhead=0.01), "slot_rewards"),
    ("slots", "overhead", another_dominant),
    ("slots", "overhead", lambda run: run.described(overhead=[0.5, 0.5, 0.5])),
    (
        "slots",
        "conservation",
        lambda run: run.edited("jobs", ended(run), port="type 3"),
        "jobs_per_port",
        "allocations",
    ),
    (
        "stopped",
        "conservation",
        lambda run: run.edited("jobs", 0, submission_time=0.5),
        "start_after_submission",
        "derived_times",
        "arrivals",
    ),
]


@pytest.mark.parametrize(("name", "rule", "corrupt", "also"), [(*case[:3], case[3:]) for case in CASES])
def test_a_corruption_is_caught_by_its_rule(name, rule, corrupt, also):
    run = run_of(name)
    report = validate(corrupt(run), run.arrivals)
    assert set(report.counts) == {rule, *also}, str(report)


@pytest.mark.parametrize("name", RUNS)
def test_the_runs_that_are_corrupted_are_valid(name):
    run = run_of(name)
    report = validate(run.result, run.arrivals)
    assert report.ok, str(report)


def test_every_rule_has_a_corruption():
    assert {rule for _, rule, *_ in CASES} == set(rules_of("multiserver"))
