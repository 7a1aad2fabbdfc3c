"""Validation of multi-server runs: valid ones pass, errors in the simulator are noticed, the report reads well."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_runs import AGENTS, Run, random_rewards, random_run

from desim import InvalidConfiguration, Result, WorkloadError, simulate
from desim.agents.multiserver import create
from desim.problems.multiserver import (
    UTILITIES,
    BipartiteGraph,
    Gang,
    MultiServerCluster,
    MultiSlotCluster,
    RewardModel,
    RewardTerms,
    Utility,
    register_utility,
)
from desim.problems.multiserver.observation import Feasibility
from desim.validation import rules_of, validate
from desim.workloads.multiserver import bernoulli_arrivals, generate

OF_HOLDING = {"minimum_speed", "queue"}


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    agent=st.sampled_from(AGENTS),
    holding=st.booleans(),
    gang=st.sampled_from([None, None, "divisible", "whole"]),
    copies=st.sampled_from([1, 3]),
    every=st.sampled_from([1, 1, 3, 0]),
    until=st.sampled_from([float("inf"), 12.0, 7.25]),
)
def test_random_runs_are_valid(seed, **options):
    run = random_run(seed, slots=14, **options)
    report = validate(run.result, run.arrivals)
    assert report.ok, str(report)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), holding=st.booleans(), until=st.sampled_from([float("inf"), 8.0, 7.25]))
def test_runs_to_which_processes_submit_jobs_are_valid(seed, holding, until):
    run = random_run(seed, slots=12, copies=2, submitted=10, holding=holding, until=until)
    report = validate(run.result)
    assert report.ok, str(report)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("holding", [False, True])
def test_every_agent_leaves_valid_records_and_all_rules_are_checked(agent, holding):
    run = random_run(11, agent=agent, holding=holding, copies=2)
    report = validate(run.result, run.arrivals)
    assert report.ok, str(report)
    left_out = {"gangs"} if holding else {"gangs", *OF_HOLDING}
    assert set(report.checks) == set(rules_of("multiserver")) - left_out
    assert report.checks["capacity"] == len(run.result.table("allocations")) > 100
    assert (
        report.checks["gain"] == report.checks["overhead"] == report.checks["arrival_numbers"] == len(run.result.jobs)
    )


@pytest.mark.parametrize("agent", ["exact-oga-reactive", "drf"])
def test_a_run_in_the_setting_of_the_paper_is_valid(agent):
    arrivals = bernoulli_arrivals(25, 10)
    report = validate(simulate(MultiServerCluster(generate(), arrivals), create(agent)), arrivals)
    assert report.ok, str(report)
    assert report.checks["capacity"] > 10_000


def test_the_rules_of_gangs_take_the_place_of_requests():
    run = random_run(11, gang="divisible")
    report = validate(run.result)
    assert report.ok, str(report)
    assert set(rules_of("multiserver")) - set(report.checks) == {"requests", "conservation", *OF_HOLDING}


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize("slots", [0, 1, 6])
def test_runs_in_which_nothing_happens_are_valid(holding, slots):
    rewards = random_rewards(np.random.default_rng(0), 3, 2, 2)
    arrivals = np.zeros((slots, 3), dtype=int)
    problem = MultiSlotCluster(rewards, arrivals, work=1.0) if holding else MultiServerCluster(rewards, arrivals)
    report = validate(simulate(problem, create("fairness")), arrivals)
    assert report.ok, str(report)


@pytest.mark.parametrize("holding", [False, True])
def test_stored_and_streamed_runs_are_valid(holding, tmp_path):
    run = random_run(5, holding=holding)
    stored = Result.load(run.result.save(tmp_path / "stored"))
    assert str(validate(stored, run.arrivals)) == str(validate(run.result, run.arrivals))
    rewards = random_rewards(np.random.default_rng(5), 4, 6, 3)
    problem = (
        MultiSlotCluster(rewards, run.arrivals, work=9.0) if holding else MultiServerCluster(rewards, run.arrivals)
    )
    simulate(problem, create("drf"), until=20.0, out=tmp_path / "streamed")
    report = validate(Result.load(tmp_path / "streamed"), run.arrivals)
    assert report.ok, str(report)


class Tired:
    """Serve jobs in proportion to their requests, and give up at some slot."""

    def __init__(self, last):
        self.last, self.inner = last, create("fairness")

    def act(self, observation):
        if observation.slot == self.last:
            raise ValueError("enough")
        return self.inner.act(observation)


@pytest.mark.parametrize("last", [0, 5])
@pytest.mark.parametrize("holding", [False, True])
def test_a_failed_run_is_valid_as_far_as_it_went(holding, last):
    rewards = random_rewards(np.random.default_rng(2), 3, 4, 2)
    arrivals = np.ones((8, 3), dtype=int)
    problem = MultiSlotCluster(rewards, arrivals, work=9.0) if holding else MultiServerCluster(rewards, arrivals)
    with pytest.raises(ValueError, match="enough") as caught:
        simulate(problem, Tired(last))
    report = validate(caught.value.result, arrivals)
    assert report.ok, str(report)


def test_only_recorded_slots_are_looked_at():
    full, none, third = (random_run(3, every=every) for every in (1, 0, 3))
    assert len(full.result.jobs) == len(none.result.jobs) == len(third.result.jobs)
    unserved = full.result.jobs["starting_time"].null_count()
    recorded = int((full.result.jobs["starting_time"] % 3 == 0).sum())
    for run, count in ((full, len(full.result.jobs)), (none, unserved), (third, unserved + recorded)):
        report = validate(run.result, run.arrivals)
        assert report.ok, str(report)
        assert report.checks["gain"] == report.checks["overhead"] == count


def test_jobs_with_a_utility_that_is_not_known_here_are_left_out():
    shifted = Utility(
        "shifted", lambda y, a: a * np.log1p(0.5 * y), lambda y, a: 0.5 * a / (1.0 + 0.5 * y), lambda s, a: a / s - 2.0
    )
    register_utility(shifted)
    try:
        graph = BipartiteGraph([[2.0], [2.0]], [[3.0], [3.0]], [(0, 0), (1, 1)])
        rewards = RewardModel(graph, [["shifted"], ["linear"]], overhead=0.1)
        run = Run(simulate(MultiServerCluster(rewards, [[1, 1]] * 4), create("fairness")), np.ones((4, 2), dtype=int))
    finally:
        del UTILITIES["shifted"]
    report = validate(run.result, run.arrivals)
    assert report.ok, str(report)
    assert (report.checks["gain"], report.checks["overhead"]) == (4, 8)
    assert set(validate(run.edited("jobs", 0, gain=9.0, reward=9.0 - 0.2)).counts) == {"slot_rewards"}
    assert set(validate(run.edited("jobs", 1, gain=9.0, reward=9.0 - 0.2)).counts) == {"slot_rewards", "gain"}


@pytest.fixture
def tiny():
    """Return a run of two slots in which two jobs share one node, 3 and 2 of its 5."""
    graph = BipartiteGraph([[3.0], [4.0]], [[5.0]], ports=["small", "large"], nodes=["machine"], resources=["GPU"])
    arrivals = np.ones((2, 2), dtype=int)
    problem = MultiServerCluster(RewardModel(graph, "linear", 2.0, 0.5), arrivals)
    return Run(simulate(problem, create("drf")), arrivals)


def test_violations_name_job_slot_node_resource_and_values(tiny):
    assert tiny.result.table("allocations")["amount"].to_list() == [3.0, 2.0, 3.0, 2.0]
    report = validate(tiny.edited("allocations", 3, amount=4.5), tiny.arrivals)
    assert [str(violation) for violation in report.violations] == [
        "slot_amounts: slot 1: allocated_GPU: got 5.0, expected 7.5, the sum of the recorded allocations",
        "requests: job 3 gets 4.5 of GPU from machine in slot 1, expected at most its request, 4.0",
        "capacity: slot 1: machine gives 7.5 of GPU, expected at most 5.0; to jobs 2, 3",
        "gain: job 3, served from slot 1 on: gain: got 4.0, expected 9.0 for its amounts",
        "overhead: job 3, served from slot 1 on: overhead: got 1.0, expected 2.25 for its amounts",
    ]
    report = validate(tiny.result, [[1, 1], [2, 0]])
    assert [violation.message for violation in report.violations] == [
        "slot 1: got 1 jobs at small, expected 2 as in the workload",
        "slot 1: got 1 jobs at large, expected 0 as in the workload",
    ]


def test_rounding_is_no_violation_and_one_part_in_a_hundred_thousand_is(tiny):
    for change, rules in ((1e-7, set()), (1e-5, {"slot_amounts", "requests", "capacity", "gain", "overhead"})):
        edited = tiny.edited("allocations", 2, amount=3.0 * (1 + change))
        assert set(validate(edited, tiny.arrivals).counts) == rules


def test_all_violations_are_counted_and_some_described(tiny):
    jobs = tiny.result.jobs.with_columns(waiting_time=pl.lit(3.0))
    report = validate(tiny.with_table("jobs", jobs), stop_after=2)
    assert report.counts == {"derived_times": 4}
    assert [violation.message[:5] for violation in report.violations] == ["job 0", "job 1"]


def test_a_valid_report_reads_as_one_line(tiny):
    assert str(validate(tiny.result, tiny.arrivals)) == "valid: 25 rules hold (12 rows in the largest table)"


def test_the_workload_is_read_once_and_no_further_than_the_run_has_come():
    stopped = random_run(3, holding=True, until=6.5)
    read = []
    rows = (
        read.append(slot) or row
        for slot, row in zip(itertools.count(), itertools.cycle(stopped.arrivals), strict=False)
    )
    report = validate(stopped.result, rows)
    assert report.ok, str(report)
    assert read == [*range(7)]
    missing = stopped.arrivals.copy()
    missing[4, 2] += 1
    assert validate(stopped.result, missing).counts == {"conservation": 1}


@pytest.mark.parametrize("row", [[1.0, 1.0], [1, 1, 1], ["a", "b"]])
def test_a_workload_that_is_none_is_refused(tiny, row):
    with pytest.raises(WorkloadError, match="slot 1: arrivals: got"):
        validate(tiny.result, [[1, 1], row])


def test_a_missing_table_is_a_violation(tiny):
    tables = {name: tiny.result.scan(name) for name in tiny.result.table_names if name != "slots"}
    report = validate(Result(tables, tiny.result.info))
    assert report.counts == {"columns": 1}
    assert "no table 'slots'" in str(report)


def test_an_option_out_of_range_is_refused(tiny):
    with pytest.raises(InvalidConfiguration, match="stop_after: got 0"):
        validate(tiny.result, stop_after=0)


class Generous:
    """Give every job twice what it requests, through every channel."""

    def act(self, observation):
        return 2.0 * observation.graph.channel_requests


def scenario(holding):
    """Return a cluster whose jobs compete."""
    rewards = random_rewards(np.random.default_rng(6), 4, 3, 3)
    arrivals = np.ones((12, 4), dtype=int)
    if holding:
        return MultiSlotCluster(rewards, arrivals, work=60.0, jobs_per_port=2), arrivals
    return MultiServerCluster(rewards, arrivals), arrivals


@pytest.mark.parametrize("holding", [False, True])
def test_a_simulator_that_does_not_check_allocations_is_noticed(monkeypatch, holding):
    problem, arrivals = scenario(holding)
    monkeypatch.setattr(Feasibility, "check", lambda self, action, observation: np.asarray(action))
    report = validate(simulate(problem, Generous()), arrivals)
    assert set(report.counts) == {"requests", "capacity", "slot_amounts"}  # more is reserved than there is


def test_a_simulator_that_adds_overheads_up_is_noticed(monkeypatch):
    def added_up(self, allocation, arrived):
        right = evaluate(self, allocation, arrived)
        return RewardTerms(right.gain, (right.held * self.overhead).sum(axis=1), right.dominant, right.held)

    evaluate = RewardModel.evaluate
    problem, arrivals = scenario(False)
    monkeypatch.setattr(RewardModel, "evaluate", added_up)
    assert set(validate(simulate(problem, create("drf")), arrivals).counts) == {"overhead"}


def test_a_simulator_with_another_utility_is_noticed(monkeypatch):
    gains = RewardModel.utility_gains
    problem, arrivals = scenario(False)
    monkeypatch.setattr(RewardModel, "utility_gains", lambda self, allocation: 1.01 * gains(self, allocation))
    assert set(validate(simulate(problem, create("drf")), arrivals).counts) == {"gain"}


@pytest.mark.parametrize(("amount", "rules"), [(1e-12, set()), (1e-3, {"gangs"})])
def test_what_rounding_leaves_serves_no_component(amount, rules):
    """A projection may end at such an amount instead of at 0, and the cluster takes it for nothing."""
    rewards = RewardModel(BipartiteGraph([[1.0]], [[4.0]]), "linear")
    cluster = MultiServerCluster(rewards, [[1]], gang=Gang([[[1.0], [1.0]]], 2))
    result = simulate(cluster, Fixed([[1e-12], [0.0]]))
    jobs = result.jobs.with_columns(gain=amount, reward=amount)
    slots = result.table("slots").with_columns(
        pl.lit(amount).alias(name) for name in ("gain", "reward", "allocated_resource0", "reserved_resource0")
    )
    given = result.table("allocations").with_columns(amount=amount)
    tables = {name: result.scan(name) for name in result.table_names}
    edited = tables | {"jobs": jobs.lazy(), "slots": slots.lazy(), "allocations": given.lazy()}
    assert set(validate(Result(edited, result.info), [[1]]).counts) == rules


class Fixed:
    """Gives the same to all slots."""

    def __init__(self, allocation):
        self.allocation = allocation

    def act(self, observation):
        return self.allocation
