"""Validation of batch runs: valid ones pass, the report reads well, limits are kept."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import DesimError, InvalidConfiguration, Phase, Result, at, simulate
from desim.problems.batch import BatchCluster, Job, Node, Size, StartWithSize
from desim.problems.batch.node_rules import NODE_RULES
from desim.validation import ValidationReport, rules_of, validate

LUBLIN = Path(__file__).parents[3] / "shared" / "data" / "swf" / "lublin_256.swf"
OF_SITES = {
    "dependencies",
    "limits",
    "reservations",
    "reservation_nodes",
    "qos",
    "preemptions",
    "suspended",
}
OF_SOME_RUNS = {*(rule.name for rule in NODE_RULES), *OF_SITES}


class FirstComeFirstServed:
    """Start the head of the queue as soon as it fits."""

    def act(self, observation):
        """Choose a job."""
        queue = observation.queue
        return int(queue.row[0]) if queue.requested_cores[0] <= observation.free_cores else None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    outages=st.booleans(),
    until=st.sampled_from([30.0, 150.0, float("inf")]),
    enforce_time_limit=st.booleans(),
    on_outage=st.sampled_from(["requeue", "lose"]),
    too_wide=st.sampled_from(["error", "reject"]),
)
def test_random_runs_are_valid(random_run, seed, outages, until, **options):
    run = random_run(seed, outages=outages, until=until, count=40, **options)
    report = validate(run.result, run.jobs)
    assert report.ok, str(report)


@pytest.mark.skipif(not LUBLIN.exists(), reason=f"{LUBLIN.name} is not in ../shared")
def test_a_run_of_the_lublin_workload_is_valid():
    rows = np.loadtxt(LUBLIN, comments=";", usecols=(0, 1, 4, 3))
    jobs = [Job(int(number), submitted, int(cores), ran, ran) for number, submitted, cores, ran in rows.tolist()]
    report = validate(simulate(BatchCluster(jobs, num_cores=256), FirstComeFirstServed()), jobs)
    assert report.ok, str(report)
    assert set(report.checks) == set(rules_of("batch")) - OF_SOME_RUNS
    assert report.checks["core_exclusive"] == report.checks["conservation"] == 10_000


def test_a_run_without_jobs_is_valid():
    report = validate(simulate(BatchCluster([], num_cores=3), FirstComeFirstServed()), [])
    assert report.ok, str(report)


def test_a_job_that_takes_no_time_shares_its_core_with_nobody(plain):
    jobs = [Job(1, 0.0, 2, 0.0, 0.0), Job(2, 0.0, 2, 5.0, 5.0), Job(3, 1.0, 2, 0.0, 0.0)]
    report = validate(simulate(BatchCluster(jobs, num_cores=2), FirstComeFirstServed()), jobs)
    assert report.ok, str(report)


def test_job_ids_may_recur():
    jobs = [Job(1, 0.0, 1, 5.0, 5.0), Job(1, 6.0, 1, 9.0, 9.0), Job(2, 6.0, 1, 1.0, 1.0), Job(1, 7.0, 1, 2.0, 2.0)]

    def outage(problem):
        yield at(problem.env, 8.0, Phase.CAPACITY)
        problem.fail(cores=[0])
        problem.repair(cores=[0])

    result = simulate(BatchCluster(jobs, num_cores=1, processes=[outage]), FirstComeFirstServed())
    assert result.table("interruptions")["job_id"].to_list() == [1]
    report = validate(result, jobs)
    assert report.ok, str(report)
    assert set(validate(result, [*jobs[:3], jobs[3]._replace(run_time=1.0)]).counts) == {"conservation"}


def test_an_instantaneous_job_recorded_twice_is_noticed():
    result = simulate(BatchCluster([Job(1, 0.0, 1, 0.0, 0.0)], num_cores=1), FirstComeFirstServed())
    tables = {name: result.scan(name) for name in result.table_names} | {"jobs": result.jobs[[0, 0]].lazy()}
    assert validate(Result(tables, result.info)).counts == {"arrival_numbers": 2}


def test_a_failed_run_is_valid_as_far_as_it_went(tmp_path):
    class Tired(FirstComeFirstServed):
        def act(self, observation):
            if observation.time > 4:
                raise RuntimeError("tired")
            return super().act(observation)

    jobs = [Job(number, float(number), 1, 3.0, 3.0) for number in range(9)]
    with pytest.raises(RuntimeError, match="tired"):
        simulate(BatchCluster(jobs, num_cores=2), Tired(), out=tmp_path / "run")
    result = Result.load(tmp_path / "run")
    assert result.info["status"] == "failed"
    report = validate(result, jobs)
    assert report.ok, str(report)


def test_an_endless_workload_is_read_no_further_than_the_run():
    def endless():
        for number in itertools.count():
            yield Job(number, number * 1.0, 1, 1.5, 1.5)

    result = simulate(BatchCluster(endless(), num_cores=2), FirstComeFirstServed(), until=50.0)
    report = validate(result, endless())
    assert report.ok, str(report)
    assert report.checks["conservation"] == 50  # the job submitted at the very end is not recorded


def test_without_the_workload_conservation_is_not_checked(plain):
    report = validate(plain.result)
    assert report.ok
    assert set(rules_of("batch")) - set(report.checks) == {"conservation"} | OF_SOME_RUNS


def test_a_valid_report_reads_as_one_line(plain):
    report = validate(plain.result, plain.jobs)
    assert str(report) == "valid: 23 rules hold (60 rows in the largest table)"
    report.raise_if_invalid()


def test_an_invalid_report_names_jobs_and_values(plain):
    broken = plain.edited("jobs", 0, waiting_time=123.0)
    report = validate(broken, plain.jobs)
    job_id = plain.jobs[0].job_id
    formula = "starting_time - submission_time - earlier_execution_time"
    message = f"job {job_id} is completed: waiting_time is 123.0, {formula} gives 0.0"
    assert [str(violation) for violation in report.violations] == [f"derived_times: {message}"]
    assert str(report) == (f"invalid: 1 violations of 1 of 23 rules\n  derived_times (1 of 60 rows)\n    {message}")
    with pytest.raises(DesimError, match=f"job {job_id} is completed: waiting_time is 123.0"):
        report.raise_if_invalid()


def test_all_violations_are_counted_and_some_described(plain):
    broken = plain.with_table("jobs", plain.result.jobs.with_columns(attempts=3))
    report = validate(broken, stop_after=4)
    assert report.counts == {"attempts": 60}
    assert len(report.violations) == 4
    assert str(report).endswith("and 56 more")


def test_a_double_booked_core_is_told_with_both_jobs():
    jobs = [Job(1, 0.0, 1, 10.0, 10.0), Job(2, 0.0, 1, 10.0, 10.0)]
    result = simulate(BatchCluster(jobs, num_cores=2), FirstComeFirstServed())
    frame = result.jobs.with_columns(allocated_resources=np.array(["1", "1"]))
    tables = {name: result.table(name).lazy() for name in result.table_names} | {"jobs": frame.lazy()}
    report = validate(Result(tables, result.info), jobs)
    assert [str(violation) for violation in report.violations] == [
        "core_exclusive: core 1 runs job 1 in [0.0, 10.0) s and job 2 in [0.0, 10.0) s"
    ]


def test_what_cannot_be_validated_is_refused(plain):
    with pytest.raises(InvalidConfiguration, match="no rules for problem 'bakery'"):
        validate(Result({}, {"problem": "bakery"}))
    with pytest.raises(InvalidConfiguration, match=r"no rules for problem None \(run status 'running'\)"):
        validate(Result({}, {"status": "running"}))
    with pytest.raises(InvalidConfiguration, match="stop_after: got 0"):
        validate(plain.result, stop_after=0)


def test_a_missing_table_is_a_violation(plain):
    result = Result({"jobs": plain.result.jobs.lazy()}, plain.result.info)
    report = validate(result)
    assert report.counts == {"columns": 2}
    assert "no table 'outages' in this result" in str(report)


def test_a_report_is_frozen():
    report = ValidationReport((), {}, {})
    assert report.ok
    with pytest.raises(AttributeError):
        report.counts = {"values": 1}


@pytest.mark.parametrize("num_cores", [3, 70])
def test_runs_of_jobs_whose_numbers_are_numpys_are_valid(num_cores):
    plain = [Job(1, 0.0, 2, 4.0, 3.0), Job(2, 1.0, 1, 2.0, 5.0), Job(3, 1.0, num_cores, 2.0, 2.0)]
    whole, real = np.int64, np.float64
    jobs = [Job(whole(job[0]), real(job[1]), whole(job[2]), *map(real, job[3:5])) for job in plain]
    result = simulate(BatchCluster(jobs, num_cores), FirstComeFirstServed())
    report = validate(result, jobs)
    assert report.ok, str(report)
    assert result.jobs.equals(simulate(BatchCluster(plain, num_cores), FirstComeFirstServed()).jobs)


class StartInSize:
    """Start the head of the queue in a given size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def act(self, observation):
        """Choose a job and its size."""
        return StartWithSize(int(observation.queue.row[0]), self.size)


@pytest.mark.parametrize(("size", "run_time"), [(0, 40.0), (1, 15.0), (2, 25.0)])
def test_sizes_that_differ_only_in_run_time_are_told_apart_on_nodes_of_unequal_speed(size, run_time):
    sizes = Size(2, 100.0, 30.0), Size(2, 100.0, 50.0)
    jobs = [Job(1, 0.0, 2, 100.0, 80.0, sizes=sizes)]
    result = simulate(BatchCluster(jobs, nodes=[Node("fast", 4, speed=2.0), Node("slow", 4)]), StartInSize(size))
    assert result.jobs["run_time"].to_list() == [run_time]
    assert validate(result, jobs).ok
    assert "conservation" in validate(result, [jobs[0]._replace(sizes=(), run_time=2 * run_time + 1)]).counts
