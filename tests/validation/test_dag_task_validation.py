"""Validation of DAG runs task by task: valid ones pass, and each corruption is caught by the rule meant for it.

A case of a corruption is the run to corrupt, the rule that is meant, what to do, and the other rules that must break as
a consequence: no more and no fewer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache

import polars as pl
import pytest
from dag_corruptions import (
    LONG,
    MOVED,
    OUTCOME,
    STATUS,
    copy,
    cut_without_outage,
    job,
    lost_earlier,
    other_runs,
    outage_meanwhile,
    renamed,
    same_executor,
    shifted,
)
from dag_runs import Run
from dag_task_runs import AGENTS, CarelessTasks, random_task_run
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, Result, simulate
from desim.problems.dag import AssignTasks, Executors, Job, TaskCluster, TaskState, TaskTimes
from desim.processes import random_outages
from desim.validation import rules_of, validate
from desim.workloads import tpch

# -- valid runs ---------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    agent=st.sampled_from(sorted(AGENTS)),
    transfers=st.sampled_from(["when_finished", "when_assigned"]),
    outages=st.booleans(),
    lose=st.booleans(),
    whole=st.booleans(),
    moving_delay=st.sampled_from([0.0, 0.5, 2.0]),
    executors=st.integers(1, 5),
    until=st.sampled_from([math.inf, 40.0, 33.3]),
)
def test_random_runs_are_valid(seed, **options):
    run = random_task_run(seed, **options)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("outages", [False, True])
def test_every_agent_leaves_valid_records_and_all_rules_are_checked(agent, outages):
    repeated, outcomes = 0, Counter()
    for seed in range(5):
        run = random_task_run(seed, agent=agent, outages=outages, moving_delay=1.0, whole=seed % 2 == 1)
        report = validate(run.result, run.jobs)
        assert report.ok, str(report)
        assert set(report.checks) == set(rules_of("dag"))
        copies = run.result.table("copies")
        assert report.checks["repetitions"] == report.checks["duration"] == len(copies)
        assert report.checks["shares"] == len(run.result.table("transfers"))
        outcomes.update(copies["outcome"].to_list())
        repeated += int(copies.filter(OUTCOME == "completed").select("job_id", "node", "task").is_duplicated().sum())
    assert (outcomes["interrupted"] > 0, outcomes["withdrawn"] > 0, repeated > 0) == (outages,) * 3


@pytest.mark.parametrize("agent", AGENTS)
def test_jobs_with_measured_durations_leave_valid_records(agent):
    jobs = tpch.generate(3, sizes=(2,), task_times=True, seed=2)
    cluster = TaskCluster(
        jobs, Executors([2.0, 2.5, 3.0] * 3, 1.0, 0.1), moving_delay=2.0, processes=[random_outages(100.0, 20.0)]
    )
    result = simulate(cluster, AGENTS[agent](), seed=1, until=5_000.0)
    assert result.table("nodes")["measured"].all()
    assert len(result.table("outages"))
    report = validate(result, jobs)
    assert report.ok, str(report)


@pytest.mark.parametrize("jobs", [[], [Job(1, [0.0], num_tasks=[3])], [Job(1, [0.0, 0.0], [(0, 1, 0.0)])]])
def test_runs_in_which_nothing_takes_time_are_valid(jobs):
    report = validate(simulate(TaskCluster(jobs, Executors([1.0, 1.0])), AGENTS["rank_up"]()), jobs)
    assert report.ok, str(report)


def test_ids_may_be_used_again():
    jobs = [
        Job(7, [4.0, 2.0], [(0, 1, 2.0)], num_tasks=[2, 3]),
        Job(8, [1.0], submission_time=1.0),
        Job(7, [3.0, 1.0, 1.0], [(0, 2, 1.0), (1, 2, 3.0)], submission_time=50.0, num_tasks=[3, 1, 4]),
    ]
    cluster = TaskCluster(jobs, Executors([1.0, 2.0], 1.0), moving_delay=1.0)
    report = validate(simulate(cluster, CarelessTasks(patience=1.0), seed=2), jobs)
    assert report.ok, str(report)


def test_stored_and_streamed_runs_are_valid(tmp_path):
    run = random_task_run(8, outages=True)
    stored = Result.load(run.result.save(tmp_path / "stored"))
    assert str(validate(stored, run.jobs)) == str(validate(run.result, run.jobs))
    simulate(TaskCluster(run.jobs, Executors([1.0] * 4, 1.0)), AGENTS["sjf"](), until=60.0, out=tmp_path / "streamed")
    report = validate(Result.load(tmp_path / "streamed"), run.jobs)
    assert report.ok, str(report)


# -- corrupted runs -----------------------------------------------------------------------------------

RUNS = {
    "plain": {"seed": 5, "moving_delay": 1.0},
    "assigned": {"seed": 1, "transfers": "when_assigned"},
    "outages": {"seed": 8, "outages": True},
    "kept": {"seed": 2, "outages": True, "lose": False},
    "stopped": {"seed": 1, "until": 40.0},
    "measured": {"seed": 6},
}


@cache
def run_of(name):
    if name == "small":  # two tasks run on one executor, and their data go to the other
        jobs = [Job(1, [2.0, 3.0], [(0, 1, 10.0)], num_tasks=[2, 1])]
        return Run(simulate(TaskCluster(jobs, Executors([1.0, 1.0], 1.0)), Apart()), jobs)
    return random_task_run(**RUNS[name])


class Apart:
    """Run all tasks of a node on the executor of that number."""

    name = "apart"

    def act(self, observation):
        """Assign all tasks of the first node that is executable."""
        state, node = next(iter(observation.executable.values()))
        return AssignTasks(state.job.job_id, node, node, int(state.unassigned_tasks[node]))


EARLIER_JOB = {"submission_time": -0.25, "waiting_time": 0.25, "turnaround_time": 0.25}
MEASURED = pl.col("measured")
EARLIER = 1e-6
SIZED = pl.col("size") > 0
LATER = MOVED & (pl.col("starting_time") > 1)


def copies_with(run):
    """Return the copies with row numbers, and with what the table of nodes tells about their nodes."""
    nodes = run.result.table("nodes").select("job_id", "node", "num_tasks", "measured")
    copies = run.result.table("copies").with_row_index()
    return copies.join(nodes, on=["job_id", "node"], maintain_order="left")


def longer(run, seconds):
    """Let a task that is not measured, the last of its executor, and not the last of its job, end later."""
    copies = copies_with(run).filter(~MEASURED & (OUTCOME == "completed"))
    ends = run.result.jobs.select("job_id", end="finish_time")
    copies = copies.join(ends, on="job_id", maintain_order="left")
    for row in copies.iter_rows(named=True):
        time = row["finish_time"]
        others = run.result.table("copies").filter(pl.col("executor") == row["executor"])
        children = run.result.table("edges").filter(pl.col("job_id") == row["job_id"])["parent"].to_list()
        is_last = others["starting_time"].max() == row["starting_time"] and row["node"] not in children
        if is_last and time + seconds < row["end"]:
            return run.edited("copies", row["index"], finish_time=time + seconds)
    raise LookupError("no task is followed by nothing")


def not_measured(run):
    """Say that the durations of a job were not drawn."""
    nodes = run.result.table("nodes")
    mine = nodes.filter(MEASURED)["job_id"][0]
    return run.with_table("nodes", nodes.with_columns(measured=MEASURED & (pl.col("job_id") != mine)))


def unfinished_task(run):
    """Say that a task of a node without children, of a job that is completed, was withdrawn, and forget its data."""
    edges = run.result.table("edges").select("job_id", node="parent").unique()
    copies = copies_with(run).join(edges, on=["job_id", "node"], how="anti", maintain_order="left")
    ends = run.result.jobs.select("job_id", end="finish_time", begin="starting_time")
    copies = copies.join(ends, on="job_id", maintain_order="left").filter(pl.col("num_tasks") > 1)
    row = copies.filter(pl.col("starting_time") > pl.col("begin")).row(0, named=True)
    gone = dict.fromkeys(("receiving_time", "starting_time", "finish_time"))
    result = run.edited("copies", row["index"], outcome="withdrawn", **gone)
    mine = (pl.col("job_id") == row["job_id"]) & (pl.col("child") == row["node"]) & (pl.col("task") == row["task"])
    return run.again(result).with_table("transfers", run.result.table("transfers").filter(~mine))


def twice(run):
    """Give a task the number of another of its node that is done by then."""
    row = copies_with(run).filter((pl.col("num_tasks") > 1) & (pl.col("task") == 1)).row(0, named=True)
    return run.edited("copies", row["index"], task=0)


def assigned_early(run):
    """Say that a task was assigned when its job was submitted, although its node has parents."""
    children = run.result.table("edges").select("job_id", node="child").unique()
    copies = copies_with(run).join(children, on=["job_id", "node"], how="semi", maintain_order="left")
    jobs = run.result.jobs.select("job_id", "submission_time")
    row = copies.join(jobs, on="job_id", maintain_order="left").row(0, named=True)
    return run.edited("copies", row["index"], assignment_time=row["submission_time"])


def moved_share(run, by):
    """Let a task receive more from one executor, and less from another."""
    transfers = run.result.table("transfers").with_row_index()
    key = ["job_id", "parent", "child", "task", "destination"]
    rows = transfers.filter(SIZED & (pl.len().over(key) > 1))
    first = rows.row(0, named=True)
    other = rows.filter(pl.col("index") > first["index"]).filter(*(pl.col(name) == first[name] for name in key))
    result = run.edited("transfers", first["index"], size=first["size"] * (1 + by))
    return run.again(result).edited("transfers", other["index"][0], size=other["size"][0] - first["size"] * by)


def other_source(run):
    """Say that data came from an executor that has run no task of the node."""
    copies = run.result.table("copies")
    for number, row in enumerate(run.result.table("transfers").filter(pl.len() > 0).iter_rows(named=True)):
        mine = copies.filter((pl.col("job_id") == row["job_id"]) & (pl.col("node") == row["parent"]))
        free = set(range(len(run.result.table("executors")))) - {*mine["executor"], row["destination"]}
        if free and row["source"] != row["destination"]:
            return run.edited("transfers", number, source=min(free))
    raise LookupError("every executor has run every node")


def without_moving(run):
    """Let the first task after a change of job start, and end, as soon as its executor is free."""
    copies = run.result.table("copies").with_row_index().sort("executor", "starting_time")
    before = copies.select(pl.col("job_id", "executor", "finish_time").shift().name.prefix("last_"))
    joined = pl.concat([copies, before], how="horizontal").filter(
        (pl.col("last_executor") == pl.col("executor")) & (pl.col("last_job_id") != pl.col("job_id"))
    )
    late = joined.filter(pl.col("starting_time") == pl.max_horizontal("last_finish_time", "assignment_time") + 1.0)
    return late["index"][0]


def started_before_moving(run):
    row = without_moving(run)
    old = run.row("copies", row)
    return run.edited("copies", row, **{name: old[name] - 0.25 for name in ("starting_time", "finish_time")})


def waiting_longer(run):
    """Let the last task of the run wait for a second before it starts; its job ends as much later."""
    row = int(run.result.table("copies")["finish_time"].arg_max())
    old = run.row("copies", row)
    result = run.edited("copies", row, **{name: old[name] + 1 for name in ("starting_time", "finish_time")})
    end = run.find("jobs", pl.col("job_id") == old["job_id"])
    times = {name: run.row("jobs", end)[name] + 1 for name in ("finish_time", "turnaround_time")}
    result = run.again(result).edited("jobs", end, **times)
    return run.again(result).described(end_time=run.result.info["end_time"] + 1)


CASES = [
    ("plain", "description", lambda run: run.described(moving_delay=None)),
    ("plain", "description", lambda run: run.described(moving_delay=-1.0)),
    ("plain", "description", lambda run: run.described(plan_ahead=True)),
    ("plain", "columns", lambda run: run.with_table("nodes", run.result.table("nodes").drop("measured"))),
    ("plain", "columns", lambda run: run.edited("nodes", 0, measured=None)),
    ("plain", "executors", lambda run: run.edited("executors", 1, speed=9.0)),
    ("plain", "values", lambda run: renamed(run, "nodes", "num_tasks", 0), "references"),
    ("plain", "references", lambda run: renamed(run, "copies", "task", 5)),
    ("plain", "references", lambda run: renamed(run, "copies", "task", -1)),
    ("plain", "references", lambda run: renamed(run, "transfers", "task", 5)),
    ("plain", "values", lambda run: shifted(run, "jobs", STATUS == "completed", **EARLIER_JOB), "conservation"),
    ("plain", "horizon", lambda run: run.described(end_time=run.result.info["end_time"] - 1.0)),
    ("plain", "status_fields", lambda run: job(run, "completed", waiting_time=None)),
    ("plain", "derived_times", lambda run: job(run, "completed", waiting_time=7.0)),
    ("plain", "job_times", lambda run: shifted(run, "jobs", STATUS == "completed", finish_time=1, turnaround_time=1)),
    ("plain", "all_nodes", unfinished_task, "withdrawals"),
    ("plain", "unfinished", lambda run: job(run, "completed", status="running", success=False), "status_fields"),
    ("stopped", "unfinished", lambda run: run.described(until=50.0)),
    ("outages", "outages", lambda run: run.dropped("outages", 0)),
    ("plain", "copy_times", lambda run: copy(run, "completed", receiving_time=None)),
    ("plain", "copy_times", lambda run: shifted(run, "copies", LONG, receiving_time=1e3), "horizon"),
    ("plain", "after_completion", lambda run: job(run, "completed", finish_time=0.5, turnaround_time=0.5), "job_times"),
    ("plain", "record_order", lambda run: run.with_table("copies", run.result.table("copies").reverse())),
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
    ("plain", "parents", assigned_early, "inputs", "sources", "transfer_times"),
    ("plain", "inputs", lambda run: run.dropped("transfers", 4)),
    ("plain", "inputs", lambda run: run.repeated("transfers", 4)),
    ("plain", "inputs", lambda run: shifted(run, "transfers", MOVED, arrival_time=1e3), "transfer_times"),
    ("plain", "sources", other_source, "inputs", "transfer_times"),
    ("small", "sources", lost_earlier),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", LATER, starting_time=-0.5)),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", ~MOVED, arrival_time=-EARLIER)),
    ("plain", "transfer_times", lambda run: shifted(run, "transfers", MOVED & SIZED, arrival_time=-EARLIER)),
    ("plain", "transfer_times", lambda run: run.described(transfers="when_assigned")),
    ("assigned", "transfer_times", lambda run: run.described(transfers="when_finished")),
    ("plain", "shares", lambda run: run.edited("transfers", run.find("transfers", ~MOVED & SIZED), size=77.0)),
    ("plain", "shares", lambda run: moved_share(run, 0.1), "transfer_times"),
    ("plain", "no_waiting", waiting_longer),
    ("plain", "no_waiting", lambda run: run.described(moving_delay=0.5)),
    ("plain", "moving_delay", started_before_moving, "job_times", "transfer_times"),
    ("plain", "moving_delay", lambda run: run.described(moving_delay=1.5)),
    ("plain", "conservation", lambda run: shifted(run, "jobs", pl.col("submission_time") > 1, **EARLIER_JOB)),
]


@pytest.mark.parametrize(("name", "rule", "corrupt", "also"), [(*case[:3], case[3:]) for case in CASES])
def test_a_corruption_is_caught_by_its_rule(name, rule, corrupt, also):
    run = run_of(name)
    report = validate(corrupt(run), run.jobs)
    assert set(report.counts) == {rule, *also}, str(report)
    if rule not in ("description", "columns", "executors"):
        text = next(violation.message for violation in report.violations if violation.rule == rule)
        assert re.search(r"job \d+|executor \d+|at \d+", text), text


@pytest.mark.parametrize("name", [*RUNS, "small"])
def test_the_runs_that_are_corrupted_are_valid(name):
    run = run_of(name)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


def test_every_rule_has_a_corruption():
    assert {"repetitions", "shares", "moving_delay"} <= {rule for _, rule, *_ in CASES} <= set(rules_of("dag"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_tasks": [2, 2]}, "the number of tasks of node 1 was submitted as 2, recorded as 1"),
        ({"task_times": [TaskTimes([1], [[]], [[1.0]], [[1.0]])] * 2}, "submitted with task times, recorded otherwise"),
    ],
)
def test_a_job_whose_tasks_were_changed(changes, message):
    job = Job(1, [2.0, 3.0], [(0, 1, 10.0)], **{"num_tasks": [2, 1], **changes})
    report = validate(run_of("small").result, [job])
    assert [str(violation) for violation in report.violations] == [f"conservation: job 1: {message}"]


# -- errors in the simulator --------------------------------------------------------------------------


def larger_shares(patch):
    """Send more than a task needs."""
    right = TaskState.shares

    def wrong(self, node, executor):
        shares = right(self, node, executor)
        return shares._replace(sizes=2.0 * shares.sizes)

    patch.setattr(TaskState, "shares", wrong)


def early_results(patch):
    """Offer a node when the first task of each parent has finished."""
    right = TaskState.complete
    patch.setattr(TaskState, "complete", lambda self, copy: right(self, copy) or True)


def shorter_runs(patch):
    """Let every task run a little shorter."""
    right = TaskState.run
    patch.setattr(TaskState, "run", lambda self, task: task.start + (right(self, task) - task.start) * 0.999)


def unconcerned_starts(patch):
    """Start tasks as soon as their executor is free, whether or not their data are there."""
    patch.setattr(TaskState, "received_at", lambda self, copy: 0.0)


def moving_always(patch):
    """Let executors take their time for every task."""
    patch.setattr(TaskState, "delay", lambda self, copy: 1.0)


def moving_never(patch):
    """Let executors take no time to move."""
    patch.setattr(TaskState, "delay", lambda self, copy: 0.0)


def early_data(patch):
    """Let shares arrive a little too early."""
    right = TaskState.shares

    def wrong(self, node, executor):
        shares = right(self, node, executor)
        return shares._replace(arrivals=shares.begins + 0.99 * (shares.arrivals - shares.begins))

    patch.setattr(TaskState, "shares", wrong)


def lasting_data(patch):
    """Forget that data were lost on the way, and let tasks that wait for them go on."""
    patch.setattr(TaskState, "unsupported", lambda self, waiting, executors, lost: iter(()))


def needless_repetitions(patch):
    """Run all tasks of a node again that has lost some."""
    right = TaskState.remove

    def wrong(self, copy):
        others = [other for other in self.copies[copy.node] if other.has_finished and other is not copy]
        right(self, copy)
        if copy.has_finished and others:
            right(self, others[0])

    patch.setattr(TaskState, "remove", wrong)


def kept_inputs(patch):
    """Do not send data again to executors that have been down."""
    patch.setattr(TaskState, "lose_received", lambda self, back_since: None)


@pytest.mark.parametrize(
    ("error", "rule", "options"),
    [
        (larger_shares, "shares", {}),
        (shorter_runs, "duration", {}),
        (unconcerned_starts, "inputs", {}),
        (moving_always, "no_waiting", {"moving_delay": 1.0}),
        (moving_never, "moving_delay", {"moving_delay": 1.0}),
        (early_data, "transfer_times", {}),
        (early_results, "parents", {}),
        (lasting_data, "sources", {"outages": True}),
        (needless_repetitions, "repetitions", {"outages": True}),
        (kept_inputs, "transfer_times", {"outages": True}),
    ],
)
def test_an_error_in_the_simulator_is_noticed(monkeypatch, error, rule, options):
    seeds = range(1, 17)
    assert all(validate(random_task_run(seed, **options).result).ok for seed in seeds)
    error(monkeypatch)
    found = set()
    for seed in seeds:
        try:
            found |= set(validate(random_task_run(seed, **options, until=500.0).result).counts)
        except (AssertionError, InvalidConfiguration, ValueError, IndexError):  # the simulator may notice itself
            continue
    assert rule in found
