"""Validation of DAG runs, node by node and task by task: valid ones pass, and reports read well."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from dag_corruptions import OUTCOME
from dag_runs import AGENTS, TASK_AGENTS, Careless, random_executors, random_jobs, random_run, random_task_run
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, simulate
from desim.problems.dag import Assign, DagCluster, Executors, Job, SharedLinks, TaskCluster, TaskTimes
from desim.processes import random_outages
from desim.validation import rules_of, validate
from desim.workloads import tpch
from tests.desim.dag_scripts import Script


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    agent=st.sampled_from(sorted(AGENTS)),
    plan_ahead=st.booleans(),
    transfers=st.sampled_from(["when_finished", "when_assigned"]),
    outages=st.booleans(),
    lose=st.booleans(),
    links=st.sampled_from([False, False, True]),
    whole=st.booleans(),
    executors=st.integers(1, 5),
    until=st.sampled_from([math.inf, 40.0, 33.3]),
)
def test_random_runs_are_valid(seed, **options):
    run = random_run(seed, size=10, **options)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    agent=st.sampled_from(sorted(TASK_AGENTS)),
    transfers=st.sampled_from(["when_finished", "when_assigned"]),
    outages=st.booleans(),
    lose=st.booleans(),
    whole=st.booleans(),
    moving_delay=st.sampled_from([0.0, 0.5, 2.0]),
    executors=st.integers(1, 5),
    until=st.sampled_from([math.inf, 40.0, 33.3]),
)
def test_random_runs_task_by_task_are_valid(seed, **options):
    run = random_task_run(seed, **options)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("links", [False, True])
def test_every_agent_leaves_valid_records_and_all_rules_are_checked(agent, links):
    run = random_run(3, agent=agent, outages=True, links=links)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)
    assert set(report.checks) == set(rules_of("dag")) - {
        "repetitions",
        "shares",
        "moving_delay",
        "pools",
        "earliest_source" if links else "links",
    }
    assert report.checks["duration"] == len(run.result.table("copies"))
    assert report.checks["sources"] == len(run.result.table("transfers"))
    assert set(validate(run.result).checks) == set(report.checks) - {"conservation"}


@pytest.mark.parametrize("agent", TASK_AGENTS)
def test_every_agent_leaves_valid_records_task_by_task(agent):
    repeated, outcomes = 0, Counter()
    for seed in range(3):
        run = random_task_run(seed, agent=agent, outages=True, moving_delay=1.0, whole=seed == 1)
        report = validate(run.result, run.jobs)
        assert report.ok, str(report)
        copies = run.result.table("copies")
        assert set(report.checks) == set(rules_of("dag")) - {"earliest_source", "links", "pools"}
        assert report.checks["repetitions"] == report.checks["duration"] == len(copies)
        outcomes.update(copies["outcome"].to_list())
        repeated += int(copies.filter(OUTCOME == "completed").select("job_id", "node", "task").is_duplicated().sum())
    assert outcomes["interrupted"] > 0 and outcomes["withdrawn"] > 0 and repeated > 0


def test_jobs_with_measured_durations_leave_valid_records():
    jobs = tpch.generate(3, sizes=(2,), task_times=True, seed=2)
    cluster = TaskCluster(
        jobs, Executors([2.0, 2.5, 3.0] * 3, 1.0, 0.1), moving_delay=2.0, processes=[random_outages(100.0, 20.0)]
    )
    result = simulate(cluster, TASK_AGENTS["hrrn"](), seed=1, until=5_000.0)
    assert result.table("nodes")["measured"].all()
    assert len(result.table("outages"))
    report = validate(result, jobs)
    assert report.ok, str(report)


@pytest.mark.parametrize("cluster", [DagCluster, TaskCluster])
@pytest.mark.parametrize(
    "jobs", [[], [Job(1, [0.0], num_tasks=[3])], [Job(1, [0.0, 0.0], [(0, 1, 0.0)]), Job(2, [0.0])]]
)
def test_runs_in_which_nothing_takes_time_are_valid(cluster, jobs):
    report = validate(simulate(cluster(jobs, Executors([1.0, 1.0])), TASK_AGENTS["rank-up"]()), jobs)
    assert report.ok, str(report)


@pytest.mark.parametrize("simulated", [random_run, random_task_run])
def test_stored_and_streamed_runs_are_valid(simulated, tmp_path):
    run = simulated(8, outages=True)
    stored = Result.load(run.result.save(tmp_path / "stored"))
    assert str(validate(stored, run.jobs)) == str(validate(run.result, run.jobs))
    cluster = DagCluster if simulated is random_run else TaskCluster
    simulate(cluster(run.jobs, Executors([1.0] * 4, 1.0)), TASK_AGENTS["sjf"](), until=60.0, out=tmp_path / "streamed")
    report = validate(Result.load(tmp_path / "streamed"), run.jobs)
    assert report.ok, str(report)


class Tired(Careless):
    """Give up after some decisions."""

    def __init__(self, decisions):
        super().__init__()
        self.left = decisions

    def act(self, observation):
        self.left -= 1
        if self.left < 0:
            raise ValueError("enough")
        return super().act(observation)


@pytest.mark.parametrize("decisions", [0, 7])
@pytest.mark.parametrize("plan_ahead", [False, True])
def test_a_failed_run_is_valid_as_far_as_it_went(decisions, plan_ahead):
    rng = np.random.default_rng(3)
    jobs = random_jobs(rng, 4, 12, whole=False, data=1.0, executors=4)
    executors = random_executors(rng, 4, whole=False)
    with pytest.raises(ValueError, match="enough") as caught:
        simulate(DagCluster(jobs, executors, plan_ahead=plan_ahead), Tired(decisions))
    report = validate(caught.value.result, jobs)
    assert report.ok, str(report)


@pytest.mark.parametrize("cluster", [DagCluster, TaskCluster])
def test_ids_may_be_used_again(cluster):
    jobs = [
        Job(7, [4.0, 2.0], [(0, 1, 2.0)], num_tasks=[2, 3]),
        Job(8, [1.0], submission_time=1.0),
        Job(7, [3.0, 1.0, 1.0], [(0, 2, 1.0), (1, 2, 3.0)], submission_time=50.0, num_tasks=[3, 1, 4]),
    ]
    report = validate(simulate(cluster(jobs, Executors([1.0, 2.0], 1.0)), Careless(patience=1.0), seed=2), jobs)
    assert report.ok, str(report)


# -- conservation -----------------------------------------------------------------------------------


GIVEN = {"work": [1.0, 2.0, 3.0], "edges": [(0, 1, 1.0), (1, 2, 2.0)], "num_tasks": [1, 2, 1]}
OWN = GIVEN | {"run_times": np.ones((3, 2))}
CHANGES = [
    (GIVEN, {"work": [1.0, 5.0, 3.0]}, "with node 1 (node1) of work 5.0, 2 tasks"),
    (GIVEN, {"submission_time": 1.0}, "as submission_time 1.0"),
    (
        GIVEN,
        {"run_times": np.ones((3, 2))},
        "with node 0 (node0) of work 1.0, 1 tasks, run times [1.0, 1.0]",
    ),
    (GIVEN, {"edges": [(0, 1, 9.0), (1, 2, 2.0)]}, "with an edge from node 0 to 1 of size 9.0"),
    (GIVEN, {"edges": [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 2.0)]}, "with an edge from node 0 to 2 of size 1.0"),
    (
        GIVEN,
        {"work": [6.0], "edges": [], "num_tasks": [1]},
        "as submission_time 0.0, label , num_nodes 1, num_edges 0, work 6.0",
    ),
    (GIVEN, {"num_tasks": [1, 3, 1]}, "with node 1 (node1) of work 2.0, 3 tasks"),
    (
        GIVEN,
        {"task_times": [TaskTimes([1], [[]], [[1.0]], [[1.0]])] * 3},
        "with node 2 (node2) of work 3.0, 1 tasks, run times None, measured durations: True",
    ),
    (OWN, {"run_times": None}, "with node 2 (node2) of work 3.0, 1 tasks, run times None"),
    (
        OWN,
        {"run_times": np.full((3, 2), 2.0)},
        "with node 0 (node0) of work 1.0, 1 tasks, run times [2.0, 2.0]",
    ),
]


@pytest.mark.parametrize(("given", "change", "message"), CHANGES, ids=[message for *_, message in CHANGES])
def test_a_job_that_was_changed(given, change, message):
    result = simulate(TaskCluster([Job(1, **given)], Executors([1.0, 1.0], 1.0)), TASK_AGENTS["fifo"]())
    report = validate(result, [Job(1, **given | change)])
    assert set(report.counts) == {"conservation"}
    assert f"job 1 was submitted {message}" in str(report)


def test_jobs_that_are_missing_or_invented():
    conserved = random_run(5)
    more = [*conserved.jobs, Job(99, [1.0], submission_time=1e3)]
    assert "job 99 was submitted but is not recorded: submission_time 1000.0" in str(validate(conserved.result, more))
    less = conserved.jobs[1:]
    text = str(validate(conserved.result, less))
    assert f"job {conserved.jobs[0].job_id} is recorded but was not submitted" in text
    stopped = random_run(5, until=3.0)
    assert validate(stopped.result, stopped.jobs).ok
    endless = itertools.chain(stopped.jobs, (Job(n, [1.0], submission_time=float(n)) for n in itertools.count(1_000)))
    assert validate(stopped.result, endless).ok


# -- the report --------------------------------------------------------------------------


def test_a_time_may_be_off_by_its_rounding():
    run = random_run(5)
    row = run.find("copies", pl.col("finish_time") - pl.col("starting_time") > 1.0)
    finish = run.row("copies", row)["finish_time"]
    for units, ok in ((3, True), (9, False)):
        moved = finish
        for _ in range(units):
            moved = math.nextafter(moved, 0.0)
        report = validate(run.edited("copies", row, finish_time=moved))
        assert ("duration" not in report.counts) == ok


@pytest.mark.parametrize("column", ["transfer_speed", "latency"])
def test_channels_that_take_no_time_are_described_within_a_table(column):
    """None stands for infinity in a description, where a table has it as well as a number for all."""
    speeds = [[1.0, math.inf, 2.0], [3.0, 1.0, math.inf], [math.inf, 1.0, 1.0]]
    jobs = [Job(1, [1.0, 2.0, 1.0], [(0, 1, 5.0), (1, 2, 4.0)])]
    result = simulate(DagCluster(jobs, Executors([1.0, 1.0, 2.0], speeds, 0.5)), Careless())
    assert result.info["transfer_speed"][0] == [None, None, 2.0]
    report = validate(result, jobs)
    assert report.ok, str(report)
    table = [[None, None, 2.0], [3.0, None, None], [1.0, 1.0, None]]
    wrong = Result({name: result.scan(name) for name in result.table_names}, result.info | {column: table})
    assert set(validate(wrong, jobs).counts) == {"executors"}


def test_a_link_may_round_when_little_is_sent_late():
    """At 2**40 s the clock has steps of a quarter of a millisecond; what takes less than one must take one."""
    jobs = [Job(1, [1.0, 1.0], [(0, 1, 1e-4)], submission_time=2.0**40)]
    links = SharedLinks.bus(2, 1.0)
    cluster = DagCluster(jobs, Executors([1.0, 1.0]), transfers="when_assigned", links=links)
    result = simulate(cluster, Script(Assign(1, 0, 0), Assign(1, 1, 1)))
    transfers = result.table("transfers")
    assert transfers["source"].to_list() == [0]
    assert validate(result, jobs).ok
    faster = transfers.with_columns(arrival_time=pl.col("starting_time"), size=pl.lit(1.0))
    tables = {name: result.scan(name) for name in result.table_names} | {"transfers": faster.lazy()}
    assert "links" in validate(Result(tables, result.info)).counts


def test_channels_are_compared_in_portions_in_any_order(monkeypatch):
    """What is wrong in a later portion is found, with the executors that the row names."""
    monkeypatch.setattr("desim.problems.dag.recorded.CHANNELS_AT_ONCE", 5)
    speeds = np.arange(1.0, 17.0).reshape(4, 4)
    result = simulate(DagCluster([Job(1, [1.0])], Executors([1.0] * 4, speeds)), Careless())
    channels = result.table("channels").sample(fraction=1.0, shuffle=True, seed=1)

    def report_on(changed):
        tables = {name: result.scan(name) for name in result.table_names} | {"channels": changed.lazy()}
        return validate(Result(tables, result.info))

    assert report_on(channels).ok
    pair = (pl.col("source") == 3) & (pl.col("destination") == 2)
    faster = pl.when(pair).then(99.0).otherwise("transfer_speed")
    report = report_on(channels.with_columns(transfer_speed=faster))
    assert "transfer_speed from executor 3 to 2: got 99.0, expected 15.0" in str(report)
    report = report_on(channels.with_columns(destination=pl.when(pair).then(1).otherwise("destination")))
    assert "channels: got one from executor 3 to 1, expected one from 3 to 2" in str(report)
