"""Mutation tests: each corruption of a valid run of DAG jobs is caught by the rule that is meant for it.

A case is the run to corrupt, the rule that is meant, what to do, and the other rules that must break as a
consequence: no more and no fewer.
"""

from __future__ import annotations

import re
from functools import cache

import polars as pl
import pytest
from dag_corruptions import (
    LONG,
    MOVED,
    OUTCOME,
    SIZED,
    STATUS,
    before_parents,
    copy,
    cut_without_outage,
    ended_earlier,
    from_afar,
    job,
    later,
    longer,
    lost_earlier,
    moved_share,
    narrower,
    not_measured,
    other_runs,
    outage_before_start,
    outage_meanwhile,
    renamed,
    same_executor,
    shifted,
    started_before_moving,
    submitted_earlier,
    swapped_source,
    twice,
    unfinished_node,
    unfinished_task,
    waiting_on,
    with_outage,
)
from dag_runs import Careless, Run, random_run, random_task_run

from desim import simulate
from desim.problems.dag import Assign, DagCluster, Executors, Job, TaskCluster
from desim.validation import rules_of, validate

RUNS = {
    "plain": {"seed": 5},
    "planned": {"seed": 1, "agent": "heft"},
    "assigned": {"seed": 1, "transfers": "when_assigned"},
    "outages": {"seed": 8, "outages": True},
    "planned-outages": {"seed": 3, "outages": True, "plan_ahead": True},
    "kept": {"seed": 2, "outages": True, "lose": False, "plan_ahead": True},
    "links": {"seed": 1, "links": True},
    "stopped": {"seed": 1, "until": 40.0, "plan_ahead": True},
}


TASK_RUNS = {
    "plain": {"seed": 5, "moving_delay": 1.0},
    "assigned": {"seed": 1, "transfers": "when_assigned"},
    "outages": {"seed": 8, "outages": True},
    "kept": {"seed": 2, "outages": True, "lose": False},
    "stopped": {"seed": 1, "until": 40.0},
    "measured": {"seed": 6},
}


@cache
def run_of(name, tasks=False):
    if name == "reused":  # the second job has the id of the first, which has ended by then
        jobs = [Job(7, [10.0]), Job(7, [3.0, 1.0], [(0, 1, 1.0)], submission_time=100.0)]
        return Run(simulate(DagCluster(jobs, Executors([1.0, 2.0], 1.0)), Careless(patience=1.0)), jobs)
    if name == "small":  # two tasks run on one executor, and their data go to the other
        jobs = [Job(1, [2.0, 3.0], [(0, 1, 10.0)], num_tasks=[2, 1])]
        return Run(simulate(TaskCluster(jobs, Executors([1.0, 1.0], 1.0)), Apart()), jobs)
    if name == "restricted":  # executor 1 may not run the only node
        jobs = [Job(1, [2.0], run_times=[[2.0, float("inf")]])]
        return Run(simulate(DagCluster(jobs, Executors([1.0, 1.0])), Careless(patience=1.0)), jobs)
    return random_task_run(**TASK_RUNS[name]) if tasks else random_run(**RUNS[name])


class Apart:
    """Run all tasks of a node on the executor of that number."""

    name = "apart"

    def act(self, observation):
        """Assign all tasks of the first node that is executable."""
        state, node = next(iter(observation.ready.values()))
        return [Assign(state.job.job_id, node, node)] * int(state.unassigned_tasks[node])


def table(run, name, **columns):
    """Replace columns of a table."""
    return run.with_table(name, run.result.table(name).with_columns(**columns))


EARLIER = 1e-6

CASES = [
    ("plain", "arrival_numbers", lambda run: renamed(run, "jobs", "arrival_number", 1), "graph"),
    ("plain", "description", lambda run: run.described(plan_ahead="no")),
    ("plain", "description", lambda run: run.described(speeds=[1.0])),
    ("plain", "description", lambda run: run.described(end_time=25, until=20)),
    ("links", "description", lambda run: run.described(transfers="when_finished")),
    ("plain", "columns", lambda run: run.with_table("jobs", run.result.jobs.cast({"job_id": pl.Float64}))),
    ("plain", "columns", lambda run: table(run, "copies", outcome=pl.lit("done"))),
    ("plain", "columns", lambda run: run.edited("transfers", 5, arrival_time=None)),
    ("plain", "executors", lambda run: run.edited("channels", 0, transfer_speed=0.0)),
    ("plain", "columns", lambda run: run.with_table("channels", run.result.table("channels").drop("transfer_speed"))),
    ("plain", "graph", lambda run: table(run, "nodes", run_times=pl.lit([1.0, 2.0]))),
    ("plain", "graph", lambda run: table(run, "nodes", run_times=pl.lit([1.0, 2.0, -1.0, 1.0]))),
    ("plain", "executors", lambda run: run.edited("executors", 1, executor=7)),
    ("plain", "executors", lambda run: run.edited("executors", 1, speed=9.0)),
    ("plain", "executors", lambda run: run.edited("executors", 1, name="another")),
    ("plain", "executors", lambda run: run.repeated("channels", 0)),
    ("plain", "executors", lambda run: run.dropped("channels", 3)),
    ("plain", "executors", lambda run: run.edited("channels", 3, latency=9.0)),
    ("plain", "executors", lambda run: run.described(latency=[[0.0]])),
    ("plain", "graph", lambda run: run.dropped("nodes", 3)),
    ("plain", "graph", lambda run: run.repeated("nodes", 3)),
    ("plain", "graph", lambda run: renamed(run, "nodes", "job_id", 99)),
    ("plain", "graph", lambda run: renamed(run, "nodes", "node", 1)),
    ("plain", "values", lambda run: renamed(run, "nodes", "num_tasks", 0), "conservation"),
    ("plain", "graph", lambda run: run.edited("nodes", 2, work=run.row("nodes", 2)["work"] + 1)),
    ("plain", "graph", lambda run: run.dropped("edges", 0)),
    ("plain", "graph", lambda run: run.edited("edges", 0, parent=run.row("edges", 0)["child"])),
    ("plain", "graph", lambda run: run.edited("edges", 0, child=99)),
    ("plain", "graph", lambda run: run.edited("edges", 0, **run.row("edges", 1))),
    ("plain", "references", lambda run: renamed(run, "copies", "job_id", 99)),
    ("plain", "copy_times", lambda run: copy(run, "completed", assignment_time=-1.0), "no_waiting"),
    ("plain", "references", lambda run: renamed(run, "copies", "executor", 4)),
    ("plain", "references", lambda run: renamed(run, "transfers", "job_id", 99)),
    ("plain", "references", lambda run: renamed(run, "transfers", "source", 4)),
    ("plain", "references", lambda run: run.edited("transfers", 0, parent=run.row("transfers", 0)["child"])),
    ("plain", "references", lambda run: renamed(run, "copies", "task", 1)),
    ("outages", "references", lambda run: renamed(run, "outages", "executor", 4)),
    ("reused", "unique_ids", submitted_earlier, "conservation"),
    (
        "plain",
        "values",
        lambda run: shifted(run, "jobs", STATUS == "completed", submission_time=-5, waiting_time=5, turnaround_time=5),
        "conservation",
    ),
    ("plain", "horizon", lambda run: run.described(end_time=run.result.info["end_time"] - 1.0)),
    ("plain", "status_fields", lambda run: job(run, "completed", waiting_time=None)),
    ("stopped", "status_fields", lambda run: job(run, "running", finish_time=30.0)),
    ("plain", "derived_times", lambda run: job(run, "completed", waiting_time=7.0)),
    (
        "plain",
        "job_times",
        lambda run: shifted(run, "jobs", STATUS == "completed", starting_time=0.5, waiting_time=0.5),
    ),
    ("plain", "job_times", lambda run: shifted(run, "jobs", STATUS == "completed", finish_time=1, turnaround_time=1)),
    ("plain", "all_nodes", unfinished_node, "job_times", "parents", "sources"),
    ("plain", "unfinished", lambda run: job(run, "completed", status="running", success=False), "status_fields"),
    ("stopped", "unfinished", lambda run: run.described(until=50.0)),
    ("stopped", "unfinished", lambda run: run.described(end_time=1000.0, until=1000.0)),
    ("planned-outages", "outages", lambda run: run.repeated("outages", 0), "executor_down"),
    ("planned-outages", "outages", lambda run: run.dropped("outages", 0)),
    ("planned-outages", "outages", lambda run: shifted(run, "outages", pl.col("time") > 0, time=1e5)),
    ("plain", "copy_times", lambda run: copy(run, "completed", receiving_time=None)),
    (
        "planned-outages",
        "status_fields",
        lambda run: copy(run, "withdrawn", starting_time=50.0),
        "executor_down",
        "inputs",
        "no_waiting",
    ),
    ("plain", "copy_times", lambda run: copy(run, LONG, receiving_time=0.0)),
    ("plain", "copy_times", lambda run: shifted(run, "copies", LONG, receiving_time=1e3), "horizon"),
    ("plain", "after_completion", ended_earlier, "job_times"),
    ("plain", "record_order", lambda run: run.with_table("copies", run.result.table("copies").reverse())),
    ("plain", "duration", lambda run: shifted(run, "copies", LONG, finish_time=-EARLIER), "job_times"),
    ("plain", "duration", other_runs, "conservation"),
    (
        "outages",
        "duration",
        lambda run: shifted(run, "copies", OUTCOME == "interrupted", starting_time=-1e2),
        "copy_times",
        "executor_exclusive",
        "job_times",
    ),
    ("plain", "executor_exclusive", same_executor, "duration", "inputs", "sources"),
    ("plain", "executor_down", outage_meanwhile),
    ("planned", "executor_down", outage_meanwhile),
    ("planned", "executor_down", outage_before_start),
    ("stopped", "executor_down", lambda run: with_outage(run, waiting_on(run), 39.9)),
    ("outages", "interruptions", cut_without_outage, "duplicates"),
    ("stopped", "withdrawals", lambda run: copy(run, "queued", outcome="withdrawn")),
    ("plain", "duplicates", lambda run: copy(run, pl.col("duplicate"), duplicate=False)),
    ("plain", "duplicates", lambda run: copy(run, ~pl.col("duplicate"), duplicate=True)),
    ("outages", "duplicates", lambda run: table(run, "copies", duplicate=pl.lit(value=False))),
    ("plain", "parents", before_parents),
    ("planned", "parents", lambda run: run.described(plan_ahead=False)),
    ("plain", "inputs", lambda run: run.dropped("transfers", 4), "no_waiting"),
    ("plain", "inputs", lambda run: run.repeated("transfers", 4)),
    ("plain", "inputs", lambda run: run.edited("transfers", 4, size=77.0), "transfer_times"),
    ("plain", "inputs", lambda run: shifted(run, "transfers", MOVED, arrival_time=1e3), "transfer_times"),
    ("plain", "sources", swapped_source, "transfer_times"),
    ("plain", "sources", lambda run: shifted(run, "transfers", MOVED, starting_time=-0.5), "transfer_times"),
    ("plain", "sources", lost_earlier, "executor_down", "parents", "transfer_times"),
    ("kept", "sources", lambda run: run.described(outages_lose_data=True), "transfer_times"),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", MOVED, arrival_time=-EARLIER), "no_waiting"),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", ~MOVED, arrival_time=EARLIER), "inputs"),
    ("plain", "transfer_times", lambda run: run.described(transfers="when_assigned")),
    ("assigned", "transfer_times", lambda run: run.described(transfers="when_finished"), "earliest_source"),
    (
        "links",
        "transfer_times",
        lambda run: shifted(run, "transfers", MOVED, arrival_time=-1.0),
        "links",
        "no_waiting",
    ),
    ("links", "transfer_times", lambda run: run.described(links=None), "earliest_source"),
    ("plain", "earliest_source", from_afar),
    ("plain", "no_waiting", later),
    ("links", "no_waiting", later),
    ("links", "links", lambda run: narrower(run, 0.5)),
    (
        "plain",
        "conservation",
        lambda run: shifted(
            run, "jobs", STATUS == "completed", submission_time=-0.25, waiting_time=0.25, turnaround_time=0.25
        ),
    ),
]


TASK_CASES = [
    ("plain", "description", lambda run: run.described(moving_delay=None)),
    ("plain", "description", lambda run: run.described(plan_ahead=True)),
    ("plain", "values", lambda run: renamed(run, "nodes", "num_tasks", 0), "references"),
    ("plain", "references", lambda run: renamed(run, "copies", "task", 5)),
    ("plain", "references", lambda run: renamed(run, "transfers", "task", 5)),
    ("plain", "all_nodes", unfinished_task, "withdrawals"),
    ("plain", "duration", lambda run: longer(run, 1e-6)),
    ("plain", "duration", other_runs, "conservation"),
    ("measured", "duration", not_measured, "conservation"),
    ("plain", "executor_exclusive", same_executor, "duration", "shares", "transfer_times"),
    ("plain", "executor_down", outage_meanwhile, "transfer_times"),
    ("outages", "interruptions", cut_without_outage, "repetitions"),
    ("stopped", "withdrawals", lambda run: copy(run, "queued", outcome="withdrawn")),
    ("plain", "duplicates", lambda run: copy(run, "completed", duplicate=True)),
    ("plain", "repetitions", twice, "all_nodes"),
    ("outages", "repetitions", lambda run: run.described(outages_lose_data=False), "withdrawals", "inputs", "shares"),
    ("plain", "parents", before_parents, "inputs", "sources", "transfer_times"),
    ("plain", "inputs", lambda run: run.repeated("transfers", 4)),
    ("plain", "inputs", lambda run: shifted(run, "transfers", MOVED, arrival_time=1e3), "transfer_times"),
    ("plain", "sources", swapped_source, "inputs", "transfer_times"),
    ("restricted", "eligible", lambda run: run.edited("copies", 0, executor=1)),
    ("small", "sources", lost_earlier),
    (
        "plain",
        "transfer_times",
        lambda run: shifted(run, "transfers", MOVED & (pl.col("starting_time") > 1), starting_time=-0.5),
    ),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", ~MOVED, arrival_time=-EARLIER)),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", MOVED & SIZED, arrival_time=-EARLIER)),
    ("plain", "shares", lambda run: run.edited("transfers", run.find("transfers", ~MOVED & SIZED), size=77.0)),
    ("plain", "shares", lambda run: moved_share(run, 0.1), "transfer_times"),
    ("plain", "no_waiting", later),
    ("plain", "no_waiting", lambda run: run.described(moving_delay=0.5)),
    ("plain", "moving_delay", started_before_moving, "job_times", "transfer_times"),
    ("plain", "moving_delay", lambda run: run.described(moving_delay=1.5)),
]


@pytest.mark.parametrize(
    ("tasks", "name", "rule", "corrupt", "also"),
    [(tasks, *case[:3], case[3:]) for tasks, cases in ((False, CASES), (True, TASK_CASES)) for case in cases],
)
def test_a_corruption_is_caught_by_its_rule(tasks, name, rule, corrupt, also):
    run = run_of(name, tasks)
    report = validate(corrupt(run), run.jobs)
    assert set(report.counts) == {rule, *also}, str(report)
    if rule not in ("description", "columns", "executors"):
        text = next(violation.message for violation in report.violations if violation.rule == rule)
        assert re.search(r"job \d+|executor \d+|at \d+", text), text


@pytest.mark.parametrize(
    ("tasks", "name"),
    [*((False, name) for name in (*RUNS, "reused", "restricted")), *((True, name) for name in (*TASK_RUNS, "small"))],
)
def test_the_runs_that_are_corrupted_are_valid(tasks, name):
    run = run_of(name, tasks)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


def test_every_rule_has_a_corruption():
    elsewhere = {"pools"}  # see test_dag_pools
    assert {rule for _, rule, *_ in (*CASES, *TASK_CASES)} | elsewhere == set(rules_of("dag"))
