"""Metrics of a batch cluster: answers worked out by hand, options, errors."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from desim import InvalidConfiguration, Metric, Result, simulate
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.metrics import METRICS, batch_metrics, warm_up_of
from desim.processes.outages import Outage, planned_outages

LUBLIN = Path(__file__).parents[3] / "shared" / "data" / "swf" / "lublin_256.swf"


@pytest.fixture
def table(job_table):
    """Four cores until 20 s: one job of each fate."""
    return job_table(
        [
            (1, 0.0, 2, 20.0, 10.0, 0.0, 10.0, 10.0, "completed", 1),
            (2, 2.0, 4, 5.0, 8.0, 10.0, 5.0, 15.0, "killed", 2),
            (3, 4.0, 1, 30.0, 30.0, 15.0, None, None, "running", 1),
            (4, 10.0, 4, 10.0, 10.0, None, None, None, "queued", 2),
            (5, 12.0, 8, 10.0, 10.0, None, None, None, "rejected", 3),
        ]
    )


def cuts_of(rows):
    """Return a table of interruptions: number, start, end, outcome, work before and after, at speed 1."""
    columns = ["arrival_number", "starting_time", "finish_time", "outcome", "work_before", "work_after"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(speed=pl.lit(1.0))


def check(values, **expected):
    """Compare the metrics that a test is about."""
    assert {name: values[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_counts_and_times_of_a_small_table(table):
    values = batch_metrics(table, num_cores=4, end_time=20.0)
    check(
        values,
        jobs_submitted=5,
        jobs_started=3,
        jobs_finished=2,
        jobs_completed=1,
        jobs_killed=1,
        jobs_lost=0,
        jobs_running=1,
        jobs_queued=1,
        jobs_rejected=1,
        waiting_time_mean=19 / 3,
        waiting_time_median=8,
        waiting_time_p95=10.7,
        waiting_time_p99=10.94,
        waiting_time_max=11,
        turnaround_time_mean=11.5,
        slowdown_mean=1.8,
        slowdown_max=2.6,
        bounded_slowdown_mean=1.15,
        makespan=15,
        offered_load=122 / 40,
    )


def test_time_averages_of_a_small_table(table):
    values = batch_metrics(table, num_cores=4, end_time=20.0)
    check(
        values,
        utilization=45 / 80,
        busy_core_seconds=45,
        available_core_seconds=80,
        wasted_core_seconds=0,
        interruptions=0,
        queue_length_mean=29 / 20,
        queue_length_max=2,
        queued_load_mean=890 / 20,
        throughput=2 / 20 * 3600,
    )


def test_fairness_compares_the_means_of_the_users(table):
    values = batch_metrics(table, num_cores=4, end_time=20.0)
    check(values, users=2, fairness_jain=2.3**2 / (2 * (1 + 1.3**2)), fairness_max_over_mean=1.3 / 1.15)


def test_fairness_is_undefined_without_users(table):
    values = batch_metrics(table.with_columns(user_id=pl.lit(-1)), num_cores=4, end_time=20.0)
    check(values, users=0, fairness_jain=math.nan, fairness_max_over_mean=math.nan)


def test_unfinished_jobs_count_with_their_times_so_far(table):
    values = batch_metrics(table, num_cores=4, end_time=20.0, unfinished="include")
    check(
        values,
        waiting_time_mean=29 / 4,
        waiting_time_max=11,
        turnaround_time_mean=(10 + 13 + 16 + 10) / 4,
        slowdown_mean=(1 + 2.6 + 1 + 1) / 4,
        bounded_slowdown_mean=(1 + 1.3 + 1 + 1) / 4,
        makespan=15,
        utilization=45 / 80,
        queue_length_mean=29 / 20,
    )


@pytest.mark.parametrize("options", [{"window": (5.0, 15.0)}, {"warm_up": 5.0, "cool_down": 5.0}])
def test_an_interval_keeps_the_jobs_submitted_in_it_and_averages_over_it(table, options):
    values = batch_metrics(table, num_cores=4, end_time=20.0, **options)
    check(
        values,
        jobs_submitted=2,
        jobs_queued=1,
        jobs_rejected=1,
        waiting_time_mean=math.nan,
        makespan=math.nan,
        utilization=30 / 40,
        queue_length_mean=20 / 10,
        queue_length_max=2,
        queued_load_mean=(20 * 5 + 30 * 10 + 40 * 5) / 10,
        throughput=1 / 10 * 3600,
    )
    check(batch_metrics(table, num_cores=4, end_time=20.0, unfinished="include", **options), waiting_time_mean=10)


def test_the_end_of_the_run_belongs_to_the_interval(job_table):
    jobs = job_table([(1, 5.0, 1, 0.0, 0.0, 5.0, 0.0, 5.0, "completed", 1)])
    values = batch_metrics(jobs, num_cores=1, end_time=5.0)
    check(values, jobs_submitted=1, waiting_time_mean=0, makespan=0, utilization=math.nan, queue_length_max=math.nan)


def test_a_requeued_job_waits_while_it_does_not_run_and_its_cut_execution_is_wasted(job_table):
    jobs = job_table([(1, 0.0, 2, 10.0, 10.0, 6.0, 10.0, 16.0, "completed", -1, 4.0)])
    interruptions = cuts_of([(0, 0.0, 4.0, "requeued", 0.0, 0.0)])
    outages = pl.DataFrame({"time": [4.0, 6.0], "cores_up": [1, 2]})
    values = batch_metrics(jobs, num_cores=2, end_time=16.0, interruptions=interruptions, outages=outages)
    check(
        values,
        waiting_time_mean=2,
        turnaround_time_mean=16,
        slowdown_mean=1.6,
        busy_core_seconds=28,
        wasted_core_seconds=8,
        available_core_seconds=30,
        utilization=28 / 30,
        interruptions=1,
        queue_length_mean=2 / 16,
        queue_length_max=1,
        queued_load_mean=2 * 20 / 16,
    )
    late = batch_metrics(jobs, num_cores=2, end_time=16.0, interruptions=interruptions, outages=outages, warm_up=5.0)
    check(late, interruptions=0, wasted_core_seconds=0, available_core_seconds=21, queue_length_mean=1 / 11)


def test_a_lost_job_has_started_but_not_finished(job_table):
    jobs = job_table([(1, 0.0, 2, 10.0, 10.0, 2.0, 3.0, 5.0, "lost", 7)])
    interruptions = cuts_of([(0, 2.0, 5.0, "lost", 0.0, 0.0)])
    values = batch_metrics(jobs, num_cores=2, end_time=5.0, interruptions=interruptions)
    check(
        values,
        jobs_started=1,
        jobs_finished=0,
        jobs_lost=1,
        waiting_time_mean=2,
        turnaround_time_mean=math.nan,
        busy_core_seconds=6,
        wasted_core_seconds=6,
        interruptions=1,
        throughput=0,
    )


@pytest.mark.parametrize(
    ("cuts", "last", "kept", "expected"),
    [
        pytest.param(
            [(0, 950, "requeued", 0, 0)],
            (960, 1960),
            0,
            {"slowdown_mean": 1.96, "waiting_time_mean": 10, "wasted_core_seconds": 3800},
            id="requeue",
        ),
        pytest.param(
            [(0, 950, "requeued", 0, 900)],
            (960, 1060),
            900,
            {"slowdown_mean": 1.06, "waiting_time_mean": 10, "wasted_core_seconds": 200},
            id="checkpoints",
        ),
        pytest.param(
            [(0, 950, "requeued", 0, 900), (960, 1015, "preempted", 900, 900)],
            (1020, 1120),
            900,
            {"slowdown_mean": 1.12, "waiting_time_mean": 15, "wasted_core_seconds": 4 * (50 + 55)},
            id="cut before the next checkpoint",
        ),
        pytest.param(
            [(0, 300, "suspended", 0, 300)],
            (500, 1200),
            300,
            {"slowdown_mean": 1.2, "waiting_time_mean": 200, "wasted_core_seconds": 0},
            id="suspension",
        ),
        pytest.param(
            [(0, 300, "suspended", 0, 300), (500, 600, "requeued", 300, 0)],
            (700, 1700),
            0,
            {"slowdown_mean": 1.7, "waiting_time_mean": 300, "wasted_core_seconds": 1600},
            id="suspension, then requeue",
        ),
        pytest.param(
            [(0, 300, "suspended", 0, 300), (500, 600, "requeued", 300, 250)],
            (700, 1450),
            250,
            {"slowdown_mean": 1.45, "waiting_time_mean": 300, "wasted_core_seconds": 600},
            id="suspension, then requeue with checkpoints",
        ),
        pytest.param(
            [(0, 950, "requeued", 0, 900), (960, 1000, "lost", 900, 0)],
            (960, 1000),
            None,
            {"slowdown_mean": math.nan, "waiting_time_mean": 10, "wasted_core_seconds": 4 * 990},
            id="lost in the end",
        ),
    ],
)
def test_work_that_is_kept_and_work_that_is_done_again(job_table, cuts, last, kept, expected):
    """A job of 1,000 s on 4 cores, submitted at 0."""
    start, finish = map(float, last)
    status = "lost" if kept is None else "completed"
    earlier = sum(float(end - begin) for begin, end, outcome, *_ in cuts if outcome != "lost")
    useful = None if kept is None else kept + finish - start
    row = (1, 0.0, 4, 1000.0, 1000.0, start, finish - start, finish, status, -1, earlier, useful)
    interruptions = cuts_of([(0, float(begin), float(end), *others) for begin, end, *others in cuts])
    values = batch_metrics(job_table([row]), num_cores=4, end_time=2000.0, interruptions=interruptions)
    check(values, **expected)
    check(values, busy_core_seconds=4 * (earlier + finish - start), killed_core_seconds=0)
    if useful is not None:  # the same work, at whose end the job is killed
        table = job_table([(*row[:8], "killed", *row[9:])])
        values = batch_metrics(table, num_cores=4, end_time=2000.0, interruptions=interruptions)
        check(values, **expected)
        check(values, killed_core_seconds=4 * useful)
        window = {"num_cores": 4, "end_time": 2000.0, "interruptions": interruptions, "window": (start, finish)}
        check(batch_metrics(table, **window), killed_core_seconds=4 * (finish - start))


def test_what_a_queued_job_ran_it_has_not_waited(job_table):
    jobs = job_table([(1, 0.0, 4, 1000.0, 1000.0, None, None, None, "queued", -1, 950.0)])
    cut = cuts_of([(0, 10.0, 960.0, "requeued", 0.0, 0.0)])
    options = {"num_cores": 4, "end_time": 980.0, "interruptions": cut, "unfinished": "include"}
    check(batch_metrics(jobs, **options), waiting_time_mean=30)


@pytest.mark.parametrize("interval", [None, 1.0])
def test_a_run_with_checkpoints_loses_nothing(interval):
    """Cut at 95 s and back at 96 s: with checkpoints each second, all 95 s are kept."""
    outage = planned_outages([Outage(95.0, 96.0, cores=[0])])
    cluster = BatchCluster([Job(1, 0.0, 1, 200.0, 100.0)], 1, checkpoint_interval=interval, processes=[outage])
    values = simulate(cluster, FirstComeFirstServed()).metrics()
    if interval is None:
        check(values, bounded_slowdown_mean=1.96, wasted_core_seconds=95, waiting_time_mean=1)
    else:
        check(values, bounded_slowdown_mean=1.01, wasted_core_seconds=0, waiting_time_mean=1)


def test_a_job_id_may_be_used_again(job_table):
    jobs = job_table(
        [
            (1, 0.0, 1, 5.0, 5.0, 0.0, 5.0, 5.0, "completed", -1),
            (1, 6.0, 2, 5.0, 5.0, 9.0, 5.0, 14.0, "completed", -1, 2.0),
        ]
    )
    cut = cuts_of([(1, 6.0, 8.0, "requeued", 0.0, 0.0)])
    check(batch_metrics(jobs, num_cores=2, end_time=14.0, interruptions=cut), wasted_core_seconds=4, interruptions=1)


def test_an_execution_of_length_0_has_a_bounded_slowdown_only(job_table):
    jobs = job_table(
        [
            (1, 0.0, 1, 0.0, 0.0, 30.0, 0.0, 30.0, "completed", -1),
            (2, 0.0, 1, 2.0, 2.0, 2.0, 2.0, 4.0, "completed", -1),
        ]
    )
    check(batch_metrics(jobs, num_cores=1, end_time=30.0), slowdown_mean=2, bounded_slowdown_mean=2)
    threshold = {"bounded_slowdown_threshold": 1.0}
    check(batch_metrics(jobs, num_cores=1, end_time=30.0, **threshold), bounded_slowdown_mean=16)


def test_without_jobs_there_is_nothing_but_idle_cores(job_table):
    values = batch_metrics(job_table([]), num_cores=3, end_time=10.0)
    check(values, jobs_submitted=0, utilization=0, queue_length_max=0, waiting_time_mean=math.nan, users=0)
    assert list(values) == METRICS.names_for(())
    assert all(type(value) is float for value in values.values())


def test_warm_up_leaves_out_a_fraction_of_the_jobs(table):
    assert warm_up_of(table, 0.0) == 0.0
    assert warm_up_of(table, 0.4) == 4.0
    check(batch_metrics(table, num_cores=4, end_time=20.0, warm_up=warm_up_of(table, 0.4)), jobs_submitted=3)
    assert warm_up_of(table.clear(), 0.5) == 0.0
    with pytest.raises(InvalidConfiguration, match=r"fraction: got 1\.0"):
        warm_up_of(table, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unfinished": "drop"}, "unfinished: got 'drop'"),
        ({"bounded_slowdown_threshold": 0.0}, "bounded_slowdown_threshold: got 0.0"),
        ({"warm_up": -1.0}, "warm_up: got -1.0"),
        ({"cool_down": math.nan}, "cool_down: got nan"),
        ({"warm_up": 15.0, "cool_down": 6.0}, "would start at 15.0 s"),
        ({"warm_up": 1.0, "window": (0.0, 5.0)}, "give either window or these"),
        ({"window": (8.0, 5.0)}, r"window: got \(8\.0, 5\.0\)"),
        ({"window": (0.0, 21.0)}, r"window: got \(0\.0, 21\.0\)"),
    ],
)
def test_options_out_of_range_are_refused(table, options, message):
    with pytest.raises(InvalidConfiguration, match=message):
        batch_metrics(table, num_cores=4, end_time=20.0, **options)


def test_a_table_without_a_column_is_refused(table):
    with pytest.raises(InvalidConfiguration, match="lacks the columns run_time, status"):
        batch_metrics(table.drop("status", "run_time"), num_cores=4, end_time=20.0)


def test_an_unknown_problem_has_no_metrics():
    with pytest.raises(InvalidConfiguration, match="no metrics for problem 'bakery'"):
        Result({}, {"problem": "bakery"}).metrics()
    with pytest.raises(InvalidConfiguration, match=r"no metrics for problem None \(run status 'running'\)"):
        Result({}, {"status": "running"}).metrics()


@pytest.mark.parametrize("problem", ["batch", "dag", "multiserver"])
def test_a_run_without_an_end_has_no_metrics(random_run, problem):
    result = random_run(4)
    info = {
        "problem": problem,
        "status": "running",
        "num_cores": 8,
        "resources": [],
        "total_capacity": [],
        "holding": 0,
    }
    names = (
        "jobs",
        "outages",
        "interruptions",
        "nodes",
        "edges",
        "copies",
        "transfers",
        "executors",
        "channels",
        "slots",
    )
    died = Result(dict.fromkeys(names, result.scan("jobs")), info)
    with pytest.raises(InvalidConfiguration, match="the run has status 'running' and no end"):
        died.metrics()


def test_the_result_hands_its_tables_and_options_on(random_run):
    result = random_run(4)
    direct = batch_metrics(
        result.jobs,
        num_cores=8,
        end_time=result.info["end_time"],
        outages=result.table("outages"),
        interruptions=result.table("interruptions"),
        warm_up=5.0,
    )
    assert result.metrics(warm_up=5.0) == pytest.approx(direct, rel=1e-12, nan_ok=True)


def test_stored_results_have_the_same_metrics(random_run, tmp_path):
    result = random_run(7)
    stored = Result.load(result.save(tmp_path / "run"))
    assert stored.metrics() == pytest.approx(result.metrics(), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("options", [{}, {"unfinished": "include", "warm_up": 5.0}])
def test_named_metrics_are_those_of_all(random_run, options):
    """Each metric alone, and several in the order of their names, are equal to the last bit."""
    result = random_run(7)
    result.own_metrics = (Metric("longest", measure=lambda run: run.jobs["waiting_time"].max()),)
    every = result.metrics(**options)
    for name, value in every.items():
        assert repr(result.metrics(name, **options)) == repr({name: value})
    names = ("utilization", "longest", "waiting_time_p95", "jobs_completed")
    assert list(result.metrics(*names, **options).items()) == [(name, every[name]) for name in names]


def test_an_unknown_name_of_a_metric_is_an_error(random_run):
    with pytest.raises(InvalidConfiguration, match=r"metrics: got 'waiting_time_men'.*waiting_time_mean"):
        random_run(1).metrics("utilization", "waiting_time_men")


def test_only_the_needed_columns_are_read(random_run):
    result = random_run(1)
    narrow = {"jobs": result.scan("jobs").drop("allocated_resources", "waiting_time", "stretch", "success", "attempts")}
    tables = {name: narrow.get(name, result.scan(name)) for name in result.table_names}
    assert Result(tables, result.info).metrics() == pytest.approx(result.metrics(), rel=1e-12, nan_ok=True)


class FirstComeFirstServed:
    """Start the head of the queue as soon as it fits."""

    def act(self, observation):
        """Choose a job."""
        queue = observation.queue
        return int(queue.row[0]) if queue.requested_cores[0] <= observation.free_cores else None


@pytest.mark.skipif(not LUBLIN.exists(), reason=f"{LUBLIN.name} is not in ../shared")
def test_first_come_first_served_on_the_lublin_workload():
    rows = np.loadtxt(LUBLIN, comments=";", usecols=(0, 1, 4, 3))
    jobs = [Job(int(number), submitted, int(cores), ran, ran) for number, submitted, cores, ran in rows.tolist()]
    values = simulate(BatchCluster(jobs, num_cores=256), FirstComeFirstServed()).metrics()
    check(values, jobs_completed=10_000, waiting_time_mean=2_388_443.7601)
    assert values["bounded_slowdown_mean"] == pytest.approx(66_502.5, abs=0.05)
