"""Mutation tests: each corruption of a valid run is caught by the rule that is meant for it.

A case is the run to corrupt, the rule that is meant, what to do, and the other rules that must
break as a consequence: no more and no fewer.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from corruptions import (
    began_later,
    cut,
    cut_after_its_last_execution,
    cut_by_no_outage,
    cut_elsewhere,
    drop,
    finished_earlier,
    id_of_the_job_before,
    killed_after_its_run_time,
    moved,
    on_a_core_that_is_down,
    on_the_cores_of_another,
    one_core_less,
    overdue,
    preempted_by_another,
    repeat,
    rescaled,
    resumed_elsewhere,
    runs_again_before,
    same_group,
    shifted_cut,
    still_running_at_the_end,
    two_at_once,
    unknown_quality,
    wider_than_what_is_up,
    with_job,
)
from editable_runs import EditableRun

from desim import simulate
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.node_rules import NODE_RULES
from desim.processes import Outage, planned_outages
from desim.validation import rules_of, validate

OF_NODES = {*(rule.name for rule in NODE_RULES), "reservation_nodes"}

CASES = [
    ("plain", "description", lambda run: run.described(num_cores=0)),
    ("plain", "description", lambda run: run.described(end_time=float("nan"))),
    ("plain", "description", lambda run: run.described(status="paused")),
    ("stopped", "unfinished", lambda run: run.described(until=1e9), "conservation"),
    ("plain", "description", lambda run: run.described(enforce_time_limit=None)),
    ("plain", "description", lambda run: run.described(on_outage="ignore")),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.drop("stretch"))),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.cast({"job_id": pl.Float64}))),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.with_columns(status=pl.lit("done")))),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.cast({"success": pl.Int8}))),
    ("plain", "columns", lambda run: run.edited("jobs", 5, attempts=None)),
    ("plain", "columns", lambda run: run.edited("jobs", 5, run_time=float("inf"))),
    ("plain", "columns", lambda run: run.edited("jobs", 5, starting_time=float("nan"))),
    ("requeued", "columns", lambda run: run.with_table("outages", run.result.table("outages").drop("cores_up"))),
    ("plain", "values", lambda run: with_job(run, user_id=-2), "conservation"),
    ("plain", "values", lambda run: with_job(run, requested_time=-1.0), "execution_time", "conservation"),
    ("plain", "values", lambda run: with_job(run, attempts=-1), "attempts"),
    (
        "stopped",
        "arrival_numbers",
        lambda run: repeat(run, "jobs", run.find("jobs", status="queued")),
        "conservation",
    ),
    ("plain", "arrival_numbers", lambda run: with_job(run, arrival_number=1)),
    ("plain", "conservation", id_of_the_job_before),
    ("plain", "status_fields", lambda run: with_job(run, success=False)),
    ("plain", "status_fields", lambda run: with_job(run, waiting_time=None)),
    ("plain", "status_fields", lambda run: with_job(run, stretch=None)),
    ("plain", "status_fields", lambda run: with_job(run, allocated_resources=None), "core_count"),
    ("stopped", "status_fields", lambda run: run.edited("jobs", run.find("jobs", status="queued"), waiting_time=3.0)),
    (
        "requeued",
        "status_fields",
        lambda run: run.edited("jobs", run.find("jobs", status="rejected"), allocated_resources="0-11"),
    ),
    ("plain", "start_after_submission", lambda run: moved(run, 0, -0.5)),
    ("plain", "finish_time", lambda run: finished_earlier(run, 1e-9)),
    ("plain", "derived_times", lambda run: with_job(run, waiting_time=1e-6)),
    ("plain", "derived_times", lambda run: with_job(run, turnaround_time=1.0)),
    ("plain", "derived_times", lambda run: with_job(run, stretch=2.0)),
    ("plain", "execution_time", lambda run: with_job(run, status="killed", success=False)),
    ("plain", "execution_time", lambda run: rescaled(run, run.find("jobs", status="completed"), 1e-3)),
    ("plain", "execution_time", killed_after_its_run_time, "core_exclusive", "capacity"),
    ("plain", "execution_time", lambda run: run.described(enforce_time_limit=False)),
    (
        "lost",
        "execution_time",
        lambda run: run.edited("jobs", run.find("jobs", status="lost"), run_time=3.5),
        "interruptions",
        "conservation",
    ),
    ("stopped", "unfinished", overdue, "core_exclusive", "capacity"),
    ("plain", "unfinished", still_running_at_the_end),
    ("requeued", "rejected", lambda run: run.described(too_wide="error")),
    ("plain", "rejected", lambda run: with_job(run, requested_number_of_resources=13), "core_count", "conservation"),
    ("plain", "horizon", lambda run: run.described(end_time=run.result.info["end_time"] - 1e-3)),
    ("requeued", "outages", lambda run: run.edited("outages", 2, cores_up=0), "capacity"),
    ("requeued", "outages", lambda run: run.edited("outages", 0, event="up"), "interruptions"),
    ("requeued", "outages", lambda run: run.edited("outages", 0, resources="0-12"), "interruptions"),
    ("requeued", "outages", lambda run: run.edited("outages", 0, time=1e6), "interruptions"),
    ("requeued", "interruptions", lambda run: cut(run, job_id=10_000), "attempts", "work"),
    ("requeued", "interruptions", shifted_cut, "work"),
    ("requeued", "interruptions", cut_elsewhere, "core_exclusive"),
    ("requeued", "interruptions", lambda run: cut(run, starting_time=0.0), "work"),
    ("requeued", "interruptions", lambda run: run.described(on_outage="lose")),
    (
        "lost",
        "interruptions",
        lambda run: cut(run, outcome="requeued"),
        "one_at_a_time",
        "core_exclusive",
        "capacity",
        "work",
    ),
    ("lost", "interruptions", lambda run: cut(run, starting_time=run.row("interruptions", 0)["starting_time"] + 0.01)),
    ("lost", "interruptions", lambda run: cut(run, allocated_resources="0")),
    ("lost", "interruptions", lambda run: drop(run, "interruptions", 0), "attempts"),
    ("requeued", "attempts", lambda run: drop(run, "interruptions", 0), "work"),
    ("plain", "attempts", lambda run: with_job(run, attempts=2)),
    ("requeued", "one_at_a_time", runs_again_before, "interruptions", "core_exclusive", "core_down", "work"),
    ("requeued", "one_at_a_time", cut_after_its_last_execution, "interruptions", "work"),
    (
        "stopped",
        "horizon",
        lambda run: run.edited("jobs", run.find("jobs", status="queued"), submission_time=200.0),
        "conservation",
    ),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="0-2x")),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="3 1-2")),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="0-3 3-5")),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="5-4")),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="12")),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="-1")),
    ("plain", "core_ranges", lambda run: with_job(run, allocated_resources="")),
    ("requeued", "core_ranges", lambda run: run.edited("interruptions", 0, allocated_resources="3-1")),
    ("plain", "core_count", one_core_less),
    ("requeued", "core_count", lambda run: run.edited("interruptions", 1, allocated_resources="0-9")),  # 0-10 before
    ("plain", "core_exclusive", on_the_cores_of_another),
    ("plain", "core_exclusive", two_at_once, "capacity"),
    ("plain", "core_down", on_a_core_that_is_down),
    ("requeued", "capacity", wider_than_what_is_up, "outages"),
    ("plain", "conservation", lambda run: drop(run, "jobs", 7), "arrival_numbers"),
    (
        "plain",
        "conservation",
        lambda run: repeat(run, "jobs", 0),
        "arrival_numbers",
        "one_at_a_time",
        "core_exclusive",
        "capacity",
    ),
    ("plain", "conservation", lambda run: with_job(run, user_id=99)),
    ("plain", "conservation", lambda run: with_job(run, job_id=99_999)),
    ("plain", "conservation", lambda run: rescaled(run, 0, 1e-3, run_time=1e-3)),
    (
        "stopped",
        "conservation",
        lambda run: drop(run, "jobs", run.find("jobs", status="queued")),
        "arrival_numbers",
    ),
    ("saving", "work", lambda run: run.edited("interruptions", 0, work_after=1.0)),
    ("saving", "work", lambda run: run.edited("interruptions", 0, work_before=1.0)),
    ("saving", "work", lambda run: run.edited("interruptions", 0, speed=2.0)),
    ("requeued", "work", lambda run: run.edited("interruptions", 0, work_after=1.0)),
    ("plain", "work", lambda run: with_job(run, earlier_execution_time=1.0), "derived_times"),
    ("plain", "work", lambda run: with_job(run, useful_execution_time=1.0), "derived_times"),
    ("saving", "execution_time", lambda run: run.described(over_time_limit=4.0)),
    ("windowed", "reservations", lambda run: run.edited("reservations", 0, cores=6)),
    ("windowed", "reservations", lambda run: run.edited("reservations", 1, start=49.0)),
    ("windowed", "values", lambda run: run.edited("reservations", 1, cores=0)),
    ("limited", "limits", lambda run: run.edited("limits", 0, running_jobs=1)),
    ("limited", "limits", lambda run: run.edited("limits", 1, running_cores=5), "rejected"),
    ("limited", "limits", same_group),
    ("limited", "rejected", lambda run: run.edited("limits", 0, job_time=40.0)),
    ("limited", "rejected", lambda run: run.edited("limits", 0, job_time=None)),
    ("limited", "values", lambda run: run.edited("limits", 0, running_jobs=0), "limits"),
    ("preempted", "qos", unknown_quality),
    ("preempted", "qos", lambda run: run.edited("qos", 2, preempts=["urgent"])),
    ("preempted", "preemptions", lambda run: run.edited("qos", 2, mode="requeue")),
    ("preempted", "preemptions", lambda run: drop(run, "preemptions", 0)),
    ("preempted", "preemptions", preempted_by_another),
    ("graced", "preemptions", lambda run: run.edited("preemptions", 0, announced=run.row("preemptions", 0)["time"])),
    ("graced", "qos", lambda run: run.edited("qos", 1, grace_time=2.0)),
    ("preempted", "suspended", resumed_elsewhere, "core_down"),
    ("preempted", "suspended", lambda run: run.edited("qos", 0, preempts=["spare"]), "preemptions"),
    ("preempted", "execution_time", began_later, "work"),
    ("preempted", "interruptions", cut_by_no_outage, "preemptions"),
    ("dependent", "dependencies", lambda run: run.edited("dependencies", 4, think_time=9.0)),
    ("dependent", "dependencies", lambda run: run.edited("dependencies", 0, after="9 11")),
    ("dependent", "dependencies", lambda run: run.edited("dependencies", 0, after="10 nobody")),
    ("dependent", "dependencies", lambda run: run.edited("dependencies", 0, preceding="9 11")),
    ("dependent", "dependencies", lambda run: run.edited("dependencies", 0, submission_time=None), "conservation"),
    ("dependent", "conservation", lambda run: run.edited("dependencies", 3, trace_submission_time=1.0)),
    ("dependent", "values", lambda run: run.edited("dependencies", 0, think_time=-1.0), "dependencies"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case[1]}-{index}") for index, case in enumerate(CASES)])
def test_a_corruption_is_caught_by_the_rule_that_is_meant(request, case):
    scenario, rule, corrupt, *consequences = case
    run = request.getfixturevalue(scenario)
    report = validate(corrupt(run), run.jobs)
    assert set(report.counts) == {rule, *consequences}, str(report)
    assert set(report.counts) == {violation.rule for violation in report.violations}


def test_every_rule_has_its_corruption():
    assert {case[1] for case in CASES} == set(rules_of("batch")) - OF_NODES


@pytest.mark.parametrize(
    "scenario",
    ["plain", "requeued", "lost", "stopped", "dependent", "limited", "windowed", "saving", "preempted", "graced"],
)
def test_the_runs_are_valid_before_they_are_corrupted(request, scenario):
    run = request.getfixturevalue(scenario)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)
    of_sites = {
        "dependent": {"dependencies"},
        "limited": {"limits"},
        "windowed": {"reservations"},
        "preempted": {"qos", "preemptions", "suspended"},
        "graced": {"qos", "preemptions", "suspended"},
    }
    absent = OF_NODES | (set.union(*of_sites.values()) - of_sites.get(scenario, set()))
    assert list(report.checks) == [rule for rule in rules_of("batch") if rule not in absent]


def test_rounding_in_the_last_place_is_no_violation(plain):
    row = plain.find("jobs", status="completed")
    finish = plain.row("jobs", row)["finish_time"]
    assert validate(finished_earlier(plain, np.spacing(finish)), plain.jobs).ok
    assert not validate(finished_earlier(plain, 8 * np.spacing(finish)), plain.jobs).ok


@pytest.mark.parametrize("scenario", ["plain", "requeued", "lost", "stopped"])
def test_a_change_of_any_single_value_of_the_job_table_is_noticed(request, scenario):
    run = request.getfixturevalue(scenario)
    frame = run.result.jobs
    others = {"completed": "killed", "killed": "completed", "running": "queued", "queued": "running"}
    for column in frame.columns:
        for row in range(0, len(frame), 17):
            value = frame[column][row]
            if column == "allocated_resources":  # another free core would be just as valid
                continue
            if column == "status":
                changed = others.get(value, "completed")
            elif column == "success":
                changed = not value
            else:
                changed = 1 if value is None else value + 1
            assert not validate(run.edited("jobs", row, **{column: changed}), run.jobs).ok, (column, row, changed)


def test_what_a_checkpoint_has_saved_is_not_lost() -> None:
    """For a job that still runs at the end, the interruption alone shows how much work was kept."""
    outage = planned_outages([Outage(50.0, 60.0, cores=[0])])
    cluster = BatchCluster([Job(1, 0.0, 1, 200.0, 200.0)], 1, checkpoint_interval=20.0, processes=[outage])
    result = simulate(cluster, FCFS(), until=100.0)
    assert result.table("interruptions")["work_after"].to_list() == [40.0] and validate(result).ok
    broken = validate(EditableRun(result).edited("interruptions", 0, work_after=20.0))
    assert [violation.rule for violation in broken.violations] == ["work"]
