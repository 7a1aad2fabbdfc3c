"""Validation of deferrable runs: valid ones pass, errors in the simulator are noticed, the report reads well."""

from __future__ import annotations

import itertools
import math
import signal

import numpy as np
import polars as pl
import pytest
from deferrable_runs import RESOURCES, AtRandom, Run, random_jobs, random_run
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, Phase, Result, SimulationInterrupted, WorkloadError, at, simulate
from desim.problems.deferrable import DeferrableCluster, Job, cluster
from desim.problems.deferrable.job import START, JobSet
from desim.validation import rules_of, validate

options = {
    "seed": st.integers(0, 10_000),
    "resources": st.integers(1, 3),
    "whole": st.booleans(),
    "reused": st.booleans(),
    "until": st.sampled_from([math.inf, math.inf, 12.0, 7.5]),
    "num_slots": st.sampled_from([None, 12, 20]),
    "eviction": st.sampled_from(["never", "lost", "restarted"]),
    "overcommit": st.booleans(),
    "real_time": st.booleans(),
    "level": st.sampled_from([3.0, 9.0, 20.0]),
    "delay_weight": st.sampled_from([0, 2.0]),
    "violation_weight": st.sampled_from([0, 10.0]),
}


@settings(max_examples=100, deadline=None)
@given(**options)
def test_random_runs_are_valid(seed, **chosen):
    run = random_run(seed, **chosen)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


@settings(max_examples=100, deadline=None)
@given(table=st.sampled_from(["jobs", "slots", "slots", "evictions"]), data=st.data(), **options)
def test_any_value_that_is_changed_is_noticed(table, data, seed, **chosen):
    run = random_run(seed, count=20, **chosen)
    frame = run.result.table(table)
    columns = [name for name in frame.columns if not name.startswith("capacity_")]
    if frame.is_empty():
        return
    column, row = data.draw(st.sampled_from(columns)), data.draw(st.integers(0, len(frame) - 1))
    old = frame[column][row]
    if column == "status":
        new = data.draw(st.sampled_from(["completed", "expired", "evicted", "running", "queued"]))
    elif column == "success":
        new = not old
    else:
        new = (old or 0) + data.draw(st.sampled_from([-1000, -2, -1, 1, 3]))
    report = validate(run.edited(table, row, **{column: new}), run.jobs)
    assert report.ok == (new == old), (column, row, old, new)


def test_all_rules_are_checked():
    run = random_run(3, eviction="restarted", resources=2)
    report = validate(run.result, run.jobs)
    assert set(report.checks) == set(rules_of("deferrable"))
    assert report.checks["starts"] == report.checks["conservation"] == len(run.jobs)
    assert report.checks["used"] == report.checks["slot_counts"] == len(run.result.table("slots"))
    assert report.checks["evictions"] == len(run.result.table("evictions")) > 0
    assert set(report.checks) - set(validate(run.result).checks) == {"conservation"}


@pytest.mark.parametrize("chosen", [{}, {"num_slots": 1}, {"num_slots": 4}, {"real_time": True, "eviction": "lost"}])
def test_runs_in_which_nothing_happens_are_valid(chosen):
    result = simulate(DeferrableCluster([], [3.0], **chosen), AtRandom(0))
    report = validate(result, [])
    assert report.ok, str(report)
    assert len(result.table("slots")) == chosen.get("num_slots", 0)


@pytest.mark.parametrize("eviction", ["never", "restarted"])
def test_stored_and_streamed_runs_are_valid(eviction, tmp_path):
    run = random_run(5, eviction=eviction)
    stored = Result.load(run.result.save(tmp_path / "stored"))
    assert str(validate(stored, run.jobs)) == str(validate(run.result, run.jobs))
    capacity = np.random.default_rng(5).integers(0, 12, 20)
    simulate(
        DeferrableCluster(run.jobs, capacity, eviction=eviction), AtRandom(5), until=20.0, out=tmp_path / "streamed"
    )
    report = validate(Result.load(tmp_path / "streamed"), run.jobs)
    assert report.ok, str(report)


class Tired(AtRandom):
    """Start jobs at random, and give up in some slot: with an error, a wrong answer, or Ctrl-C."""

    def __init__(self, seed, last, how):
        super().__init__(seed)
        self.last, self.how = last, how

    def act(self, observation):
        if observation.slot == self.last:
            if self.how == "error":
                raise ValueError("enough")
            if self.how == "answer":
                return [10_000]
            signal.raise_signal(signal.SIGINT)
        return super().act(observation)


@pytest.mark.parametrize("how", ["error", "answer", "interruption"])
@pytest.mark.parametrize("eviction", ["never", "lost", "restarted"])
@pytest.mark.parametrize("last", [0, 4, 11])
def test_a_run_that_breaks_off_is_valid_as_far_as_it_went(how, eviction, last):
    seen = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        jobs = random_jobs(rng, 40, 2, whole=True)
        problem = DeferrableCluster(jobs, rng.integers(0, 15, (30, 2)), resources=RESOURCES[:2], eviction=eviction)
        with pytest.raises((ValueError, SimulationInterrupted, Exception)) as caught:
            simulate(problem, Tired(seed, last, how))
        result = caught.value.result
        assert result.info["status"] == ("interrupted" if how == "interruption" else "failed")
        assert len(result.table("slots")) == last + (how == "interruption")
        seen += result.table("evictions").filter(pl.col("eviction_time") == last).height
        report = validate(result, jobs)
        assert report.ok, str(report)
    if last == 4:  # evictions in the slot that has no row, unless the run was interrupted after its answer
        assert (seen > 0) == (eviction != "never")


@pytest.mark.parametrize("event", ["arrival", "start", "completion", "expiry", "eviction", "slot"])
def test_a_run_that_a_listener_ends_is_valid_as_far_as_it_went(event):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        jobs = random_jobs(rng, 40, 1, whole=True)
        problem = DeferrableCluster(jobs, rng.integers(0, 15, 30), eviction="restarted")
        heard = itertools.count()

        def listen(time, subject, heard=heard):
            if next(heard) == 2:
                raise ValueError("enough")

        problem.on(event, listen)
        with pytest.raises(ValueError, match="enough") as caught:
            simulate(problem, AtRandom(seed))
        report = validate(caught.value.result, jobs)
        assert report.ok, str(report)


@pytest.mark.parametrize("time", [0, 0.5, 5, 7.25])
@pytest.mark.parametrize("phase", [Phase.COMPLETION, Phase.CAPACITY, Phase.ARRIVAL, Phase.SLOT])
def test_a_run_that_a_process_ends_is_valid_as_far_as_it_went(time, phase):
    def fails(problem):
        yield at(problem.env, time, phase)
        raise ValueError("enough")

    rng = np.random.default_rng(1)
    jobs = random_jobs(rng, 40, 1, whole=True)
    problem = DeferrableCluster(jobs, rng.integers(0, 15, 30), eviction="lost", processes=[fails])
    with pytest.raises(ValueError, match="enough") as caught:
        simulate(problem, AtRandom(1))
    report = validate(caught.value.result, jobs)
    assert report.ok, str(report)


def resubmission(same_name):
    """Return a process that submits jobs anew when they expire, which is when their slot has begun."""

    def process(problem):
        gone, waiting = [], [problem.env.event()]

        def listen(time, job):
            gone.append(job)
            if not waiting[0].triggered:
                waiting[0].succeed()

        problem.on("expiry", listen)
        for number in range(10):
            yield waiting[0]
            waiting[0] = problem.env.event()
            while gone:
                job, slot = gone.pop(), int(problem.env.now)
                name = job.job_id if same_name else 1_000 + 100 * number + len(gone)
                problem.submit(Job(name, slot, slot + number % 2, slot + 1 + number % 3, job.duration, job.cores))

    process.background = True
    return process


@pytest.mark.parametrize("same_name", [False, True])
@pytest.mark.parametrize("num_slots", [None, 14])
def test_jobs_that_come_when_their_slot_has_begun_count_for_the_next(same_name, num_slots):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        jobs = random_jobs(rng, 40, 1, whole=True)
        problem = DeferrableCluster(
            jobs, rng.integers(0, 15, 30), num_slots=num_slots, processes=[resubmission(same_name)]
        )
        result = simulate(problem, AtRandom(seed, 0.4))
        assert len(result.jobs) > sum(job.submission_time < result.info["end_time"] for job in jobs)
        report = validate(result)
        assert report.ok, str(report)
        # with the workload they are none of it, and all jobs are to be known at once
        assert {"conservation", "slot_counts"} <= set(validate(result, jobs).counts)


def test_rounding_is_no_violation_and_one_part_in_ten_million_is():
    jobs = [Job(number, 0, 0, 0, 3, 0.1) for number in range(3)]
    run = Run(simulate(DeferrableCluster(jobs, [0.3, 0.2], num_slots=4), All()), jobs)
    used = run.result.table("slots")["used_cores"].to_list()
    assert used[0] > 0.3
    assert validate(run.result, jobs).ok
    assert validate(run.described(overcommit=False), jobs).ok  # as much as fits is started
    for change, rules in ((1e-10, set()), (1e-7, {"used", "violation", "slot_rewards"})):
        edited = run.edited("slots", 0, used_cores=used[0] + change)
        assert set(validate(edited, jobs).counts) == rules
    for change, rules in ((1e-10, set()), (1e-7, {"violation", "slot_rewards", "overcommit"})):
        edited = Run(run.edited("slots", 0, capacity_cores=0.3 - change), jobs).described(overcommit=False)
        assert set(validate(edited, jobs).counts) == rules


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_run_that_breaks_off_may_have_served_the_slot_in_which_it_does(status):
    problem = DeferrableCluster([], [1.0], num_slots=5)
    run = Run(simulate(problem, AtRandom(0), until=3.0), [])
    for end, right in ((2.0, True), (2.75, True), (3.0, True), (1.75, False), (3.25, False), (4.0, False)):
        report = validate(run.described(status=status, end_time=end, until=None))
        assert report.counts == ({} if right else {"slots": 1}), end
    for end, right in ((3.0, True), (2.5, True), (2.0, False), (3.5, False)):
        report = validate(run.described(end_time=end, until=end))
        assert report.counts == ({} if right else {"slots": 1}), end


class All:
    """Start all that can be started."""

    def act(self, observation):
        return range(len(observation.current))


@pytest.fixture
def tiny():
    """Return a run of two slots: job 1 is evicted in slot 1, in which job 3 starts; job 2 expires."""

    class First:
        def act(self, observation):
            return [0]

    jobs = [Job(1, 0, 0, 1, 2, 3.0), Job(2, 0, 0, 0, 2, 2.0), Job(3, 0.5, 1, 2, 1, 1.0)]
    return Run(simulate(DeferrableCluster(jobs, [5, 1], num_slots=2, eviction="lost"), First()), jobs)


def test_violations_name_job_slot_resource_and_values(tiny):
    assert tiny.result.jobs["status"].to_list() == ["evicted", "expired", "completed"]

    def told(result):
        return [str(violation) for violation in validate(result, tiny.jobs).violations]

    assert told(tiny.edited("slots", 0, used_cores=6.0)) == [
        "used: slot 0: used_cores: got 6.0, expected 3.0 by the other tables",
        "violation: slot 0: violation_cores: got 0.0, expected the excess of 6.0 used over 5.0",
        "slot_rewards: slot 0: reward: got 6.0, expected -4.0 by the other tables",
    ]
    assert told(tiny.edited("jobs", 2, latest_start=0)) == [
        "windows: job 3: submission 0.5, earliest start 1 and latest start 0 are not in ascending order",
        "starts: job 3: starting_time: got 1.0, expected a slot from 1 to 0, within the 2 slots of the run",
        "conservation: job 3 was submitted as submission_time 0.5, earliest_start 1, latest_start 2, requested_time 1, "
        "requested_cores 1.0 and is recorded as submission_time 0.5, earliest_start 1, latest_start 0, requested_time "
        "1, requested_cores 1.0",
    ]
    assert told(tiny.edited("jobs", 2, turnaround_time=3.0)) == [
        "derived_times: job 3 is completed: turnaround_time is 3.0, finish_time - submission_time gives 1.5"
    ]
    assert told(tiny.edited("slots", 1, capacity_cores=4.0)) == [
        "eviction_order: slot 1: job 1, started at 0, is evicted, although without the jobs started later "
        "no resource that it holds is short"
    ]
    assert told(tiny.described(eviction="restarted"))[-1] == (
        "eviction_outcomes: job 1, evicted at 1 with latest start 1, was lost, expected for evicted jobs: restarted"
    )
    report = validate(tiny.result, [*tiny.jobs, Job(9, 1, 1, 1, 1, 1)])
    assert [violation.message for violation in report.violations] == [
        "job 9 was submitted but is not recorded: submission_time 1.0, earliest_start 1, latest_start 1, "
        "requested_time 1, requested_cores 1.0"
    ]
    report = validate(tiny.result, tiny.jobs[:2])
    assert [violation.message for violation in report.violations] == [
        "job 3 is recorded but was not submitted: submission_time 0.5, earliest_start 1, latest_start 2, "
        "requested_time 1, requested_cores 1.0"
    ]


def test_an_eviction_that_is_due_and_does_not_happen_is_told(tiny):
    jobs = [Job(1, 0, 0, 0, 2, 3.0), Job(2, 0, 0, 0, 2, 2.0)]
    run = Run(simulate(DeferrableCluster(jobs, [5, 1], num_slots=2), All()), jobs)
    report = validate(run.described(eviction="lost"), jobs)
    assert [str(violation) for violation in report.violations] == [
        "eviction_order: slot 1: job 1, started at 0, stays, although cores is short"
    ]


@pytest.mark.parametrize(("duration", "time"), [(8, 0), (2, 2), (8, 4), (8, -1)])
def test_an_eviction_ends_a_run_in_a_slot_between_its_start_and_its_end(duration, time):
    class Once:
        def act(self, observation):
            return [0] if observation.slot == 0 else None

    jobs = [Job(1, 0, 0, 9, duration, 2.0)]
    cluster = DeferrableCluster(jobs, [2, 1], num_slots=4, eviction="restarted")
    run = Run(simulate(cluster, Once()), jobs)
    assert run.row("evictions", 0) == {"job_id": 1, "starting_time": 0, "eviction_time": 1, "arrival_number": 0}
    assert run.row("jobs", 0)["status"] == "queued"
    report = validate(run.edited("evictions", 0, eviction_time=time), jobs)
    told = [violation.message for violation in report.violations if violation.rule == "evictions"]
    assert told == [
        f"job 1 is evicted at {time}, expected a slot of the 4 of the run within {duration} slots after the start at 0",
    ]


@pytest.mark.parametrize("start", [0, 3])
def test_an_evicted_job_was_started_in_its_window(start):
    jobs = [Job(1, 0, 1, 2, 8, 2.0)]
    cluster = DeferrableCluster(jobs, [2, 2, 2, 2, 1], num_slots=6, eviction="lost")
    run = Run(simulate(cluster, All()), jobs)
    assert run.row("evictions", 0) == {"job_id": 1, "starting_time": 1, "eviction_time": 4, "arrival_number": 0}
    report = validate(run.edited("evictions", 0, starting_time=start), jobs)
    told = [violation.message for violation in report.violations if violation.rule == "evictions"]
    assert told[0] == f"job 1, evicted at 4, was started at {start}, expected a slot from 1 to 2"
    assert report.counts["evictions"] == 2  # and that of the job's row is another


@pytest.mark.parametrize("finish", [0.0, 0.5, 2.0, 3.0])
def test_an_evicted_job_ran_for_some_slots_and_not_for_all(tiny, finish):
    times = {"finish_time": finish, "execution_time": finish, "turnaround_time": finish}
    report = validate(tiny.edited("jobs", 0, **times), tiny.jobs)
    told = [violation.message for violation in report.violations if violation.rule == "finish_time"]
    assert told == [
        f"job 1 is evicted at {finish}, expected a slot after its start at 0.0 and before its end, 2 slots later"
    ]


def test_of_two_runs_of_a_job_the_first_must_have_ended():
    jobs = [Job(1, 0, 0, 9, 4, 2.0)]
    cluster = DeferrableCluster(jobs, [2, 1, 2], num_slots=8, eviction="restarted")
    run = Run(simulate(cluster, All()), jobs)
    assert run.result.jobs["starting_time"].to_list() == [1.0]
    report = validate(run.edited("evictions", 0, eviction_time=3), jobs)
    told = [violation.message for violation in report.violations if violation.rule == "evictions"]
    assert told == ["job 1 starts at 1, but its execution from 0 lasts until 3"]


def test_only_who_holds_what_is_short_is_told():
    jobs = [Job(1, 0, 0, 0, 3, 1.0, (0.0,)), Job(2, 0, 0, 0, 3, 1.0, (2.0,)), Job(3, 0, 0, 0, 3, 1.0, (0.0,))]
    cluster = DeferrableCluster(jobs, [[9, 9], [9, 1]], num_slots=3, resources=RESOURCES[:2])
    run = Run(simulate(cluster, All()), jobs)
    assert [violation.message for violation in validate(run.described(eviction="lost")).violations] == [
        f"slot {slot}: job 2, started at 0, stays, although memory is short" for slot in (1, 2)
    ]


def test_all_violations_are_counted_and_some_described(tiny):
    jobs = tiny.result.jobs.with_columns(revenue=pl.col("revenue") + 1)
    report = validate(tiny.with_table("jobs", jobs), stop_after=2)
    assert report.counts["revenue"] == 3
    told = [violation.message for violation in report.violations if violation.rule == "revenue"]
    assert told == [
        "job 1: revenue: got 7.0, expected 6.0 (cores x duration)",
        "job 2: revenue: got 5.0, expected 4.0 (cores x duration)",
    ]


def test_a_valid_report_reads_as_one_line(tiny):
    assert str(validate(tiny.result, tiny.jobs)) == "valid: 26 rules hold (10 rows in the largest table)"


@pytest.mark.parametrize("real_time", [False, True])
def test_the_workload_is_read_once_and_no_further_than_the_run_has_come(real_time):
    stopped = random_run(3, until=6.5, real_time=real_time)
    read = []

    def endless():
        for job in stopped.jobs:
            read.append(job)
            yield job
        raise AssertionError("read too far")

    report = validate(stopped.result, endless())
    assert report.ok, str(report)
    assert len(read) == 1 + sum(job.submission_time <= 6.5 for job in stopped.jobs) < len(stopped.jobs)


def test_of_a_run_that_has_drained_the_whole_workload_is_wanted():
    run = random_run(3)
    late = run.jobs[-1]._replace(job_id=99, submission_time=1e6, earliest_start=10**6, latest_start=10**6)
    assert validate(run.result, [*run.jobs, late]).counts == {"conservation": 1}
    cut = random_run(3, num_slots=30)
    assert validate(cut.result, [*cut.jobs, late]).ok


def test_a_job_is_wanted_if_it_is_submitted_before_the_end_and_may_be_there_if_at_the_end():
    run = random_run(3, num_slots=12)
    for submission, wanted in ((11, True), (11.75, True), (12, False), (13, False)):
        job = Job(99, submission, 15, 16, 1, 1.0)
        jobs = sorted([*run.jobs, job], key=lambda each: each.submission_time)
        assert set(validate(run.result, jobs).counts) == ({"conservation"} if wanted else set())


@pytest.mark.parametrize("job", [3, ("a", 1), Job(5, 0, 0, 0, 1, 1.0, (2.0,))])
def test_a_workload_that_is_none_is_refused(tiny, job):
    with pytest.raises(WorkloadError, match=r"jobs: got .*, expected a deferrable job with 0 amounts in others"):
        validate(tiny.result, [tiny.jobs[0], job])


def test_a_missing_table_is_a_violation(tiny):
    tables = {name: tiny.result.scan(name) for name in tiny.result.table_names if name != "evictions"}
    report = validate(Result(tables, tiny.result.info))
    assert report.counts == {"columns": 1}
    assert "no table 'evictions'" in str(report)


def test_an_option_out_of_range_is_refused(tiny):
    with pytest.raises(InvalidConfiguration, match="stop_after: got 0"):
        validate(tiny.result, stop_after=0)


def mistaken(**chosen):
    """Return the rules that a run of whatever the simulator now is breaks."""
    broken = set()
    for seed in range(5):
        run = random_run(seed, **chosen)
        broken |= set(validate(run.result, run.jobs).counts)
    return broken


def wrong_evictions(change):
    """Return a wrong choice of the jobs to be evicted, made of the right one and the running jobs."""
    right = cluster.newest_to_evict

    def choose(running, limit):
        return np.sort(change(right(running, limit), running)).astype(np.int64)

    return choose


@pytest.mark.parametrize(
    "change",
    [
        lambda chosen, running: np.arange(len(chosen)),  # the oldest
        lambda chosen, running: chosen[:0],  # none
        lambda chosen, running: chosen[1:],  # one too few
        lambda chosen, running: (
            np.arange(max(chosen[0] - 1, 0), len(running)) if len(chosen) > 0 else chosen
        ),  # too many
        lambda chosen, running: np.arange(len(running))[-1:] if len(running) > 4 else chosen,  # without need
    ],
)
@pytest.mark.parametrize("eviction", ["lost", "restarted"])
def test_a_simulator_that_evicts_others_is_noticed(monkeypatch, change, eviction):
    monkeypatch.setattr(cluster, "newest_to_evict", wrong_evictions(change))
    assert mistaken(eviction=eviction) == {"eviction_order"}


def test_a_simulator_that_lets_start_what_does_not_fit_is_noticed(monkeypatch):
    right = cluster.positions_of
    monkeypatch.setattr(
        cluster, "positions_of", lambda action, seen, *, overcommit: right(action, seen, overcommit=True)
    )
    monkeypatch.setattr(AtRandom, "act", All.act)
    assert mistaken(overcommit=False) == {"overcommit"}


def test_a_simulator_in_which_jobs_run_too_long_is_noticed(monkeypatch):
    late = property(lambda self: self.rows[:, START] + self.duration + 1)
    monkeypatch.setattr(JobSet, "finish_time", late)
    assert (
        {"finish_time", "used", "slot_counts"}
        <= mistaken()
        <= {"finish_time", "used", "slot_counts", "violation", "slot_rewards"}
    )


def test_the_work_of_a_job_that_all_but_never_ends_does_not_hide_that_of_others():
    jobs = [Job(1, 0, 0, 0, 2**52, 1e6), Job(2, 0, 2, 3, 3, 10.0)]  # the first is known and can be started at once
    run = Run(simulate(DeferrableCluster(jobs, [20.0], num_slots=5, overcommit=False), AtRandom(0)), jobs)
    assert run.result.table("slots")["future_work"].to_list()[:2] == [30.0, 30.0]
    report = validate(run.result, jobs)
    assert report.ok, str(report)
    assert set(validate(run.edited("slots", 0, future_work=31.0), jobs).counts) == {"slot_work"}
