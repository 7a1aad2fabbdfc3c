"""The data behind the figures."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from batch_pictures import outage, run, some_jobs
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.plotting._series import bin_averages, down_times, executions, step_curves
from desim.problems.batch import Job, parse_core_sets


def curves_of(result):
    info = result.info
    tables = (result.jobs, result.table("interruptions"), result.table("outages"))
    return step_curves(*tables, num_cores=info["num_cores"], end_time=info["end_time"])


def integral(curves: pl.DataFrame, name: str) -> float:
    return float((curves[name].to_numpy()[:-1] * np.diff(curves["time"].to_numpy())).sum())


@st.composite
def runs(draw):
    """Random runs with outages, some of them stopped early."""
    num_cores = draw(st.integers(1, 6))
    jobs = some_jobs(draw(st.integers(0, 12)), num_cores, seed=draw(st.integers(0, 10**6)))
    outages = []
    for _ in range(draw(st.integers(0, 3))):
        begin, length = draw(st.integers(1, 600)), draw(st.integers(1, 300))
        first = draw(st.integers(0, num_cores - 1))
        outages.append(outage(begin, begin + length, range(first, draw(st.integers(first, num_cores - 1)) + 1)))
    until = draw(st.sampled_from([np.inf, 250.0, 50.0]))
    return run(jobs, num_cores, *outages, until=until, on_outage=draw(st.sampled_from(["requeue", "lose"])))


def test_step_curves_of_a_known_run():
    # job 1 runs 0-10 on both cores; job 2 waits 2-10, runs on one core until 15; job 3 is queued 4-10, runs 10-13
    jobs = [Job(1, 0.0, 2, 20.0, 10.0), Job(2, 2.0, 1, 6.0, 5.0), Job(3, 4.0, 1, 3.0, 3.0)]
    curves = curves_of(run(jobs, 2))
    assert curves.rows() == [
        (0.0, 2, 2, 0, 0, 0.0),
        (2.0, 2, 2, 1, 1, 6.0),
        (4.0, 2, 2, 2, 2, 9.0),
        (10.0, 2, 2, 0, 0, 0.0),
        (13.0, 1, 2, 0, 0, 0.0),
        (15.0, 0, 2, 0, 0, 0.0),
    ]


def test_a_job_that_an_outage_cut_is_queued_again():
    # job 1 runs 1-4 on cores 0-1, is cut, waits until core 0 is back at 8, and runs 8-18
    result = run([Job(1, 1.0, 2, 10.0, 10.0)], 2, outage(4.0, 8.0, [0]))
    assert curves_of(result).select("time", "busy_cores", "cores_up", "queued_jobs", "queued_cores").rows() == [
        (0.0, 0, 2, 0, 0),
        (1.0, 2, 2, 0, 0),
        (4.0, 0, 1, 1, 2),
        (8.0, 2, 2, 0, 0),
        (18.0, 0, 2, 0, 0),
    ]
    table = executions(result.jobs, result.table("interruptions"), 18.0)
    assert table.select("job_id", "starting_time", "finish_time", "cut", "status").rows() == [
        (1, 1.0, 4.0, True, "requeued"),
        (1, 8.0, 18.0, False, "completed"),
    ]
    assert table["requested_number_of_resources"].to_list() == [2, 2]


def test_a_lost_job_is_one_cut_execution():
    result = run([Job(1, 1.0, 2, 10.0, 10.0)], 2, outage(4.0, 8.0, [0]), on_outage="lose")
    table = executions(result.jobs, result.table("interruptions"), 8.0)
    assert table.select("starting_time", "finish_time", "cut", "status").rows() == [(1.0, 4.0, True, "lost")]


def test_jobs_that_are_running_at_the_end_stay_busy_until_then():
    result = run([Job(1, 0.0, 1, 100.0, 100.0), Job(2, 1.0, 1, 100.0, 100.0)], 1, until=20.0)
    curves = curves_of(result)
    assert curves.select("time", "busy_cores", "queued_jobs").rows() == [(0.0, 1, 0), (1.0, 1, 1), (20.0, 1, 1)]
    table = executions(result.jobs, result.table("interruptions"), 20.0)
    assert table.select("job_id", "finish_time", "status").rows() == [(1, 20.0, "running")]


def test_rejected_jobs_are_never_queued():
    result = run([Job(1, 0.0, 9, 5.0, 5.0), Job(2, 0.0, 1, 5.0, 5.0)], 2, too_wide="reject")
    assert curves_of(result)["queued_jobs"].max() == 0


def test_a_job_id_that_comes_back_keeps_its_own_size():
    jobs = [Job(7, 0.0, 2, 10.0, 10.0), Job(7, 50.0, 1, 10.0, 10.0)]
    result = run(jobs, 2, outage(3.0, 4.0, [0]), outage(52.0, 53.0, [0]))
    table = executions(result.jobs, result.table("interruptions"), 100.0)
    assert table.select("starting_time", "submission_time", "requested_number_of_resources").rows() == [
        (0.0, 0.0, 2),
        (4.0, 0.0, 2),
        (50.0, 50.0, 1),
        (52.0, 50.0, 1),
    ]


def test_interruptions_of_jobs_that_a_crash_left_unrecorded():
    result = run([Job(1, 0.0, 2, 10.0, 10.0)], 2, outage(4.0, 8.0, [0]))
    curves = step_curves(
        result.jobs.clear(), result.table("interruptions"), result.table("outages"), num_cores=2, end_time=8.0
    )
    assert curves["busy_cores"].to_list() == [2, 0, 0]
    assert curves["queued_jobs"].to_list() == [0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(runs())
def test_integrals_are_the_core_seconds_and_waits_of_the_tables(result):
    curves, end = curves_of(result), result.info["end_time"]
    table = executions(result.jobs, result.table("interruptions"), end)
    ranges = parse_core_sets(table["allocated_resources"])
    lengths = (table["finish_time"] - table["starting_time"]).to_numpy()[ranges["row"].to_numpy()]
    work = float(((ranges["last"] - ranges["first"] + 1).to_numpy() * lengths).sum())
    assert integral(curves, "busy_cores") == pytest.approx(work)
    # time in the system is time in the queue plus time on cores
    jobs = result.jobs.with_columns(pl.col("finish_time").fill_null(end))
    in_system = float((jobs["finish_time"] - jobs["submission_time"]).sum())
    on_cores = float((table["finish_time"] - table["starting_time"]).sum())
    assert integral(curves, "queued_jobs") == pytest.approx(in_system - on_cores, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(runs())
def test_curves_stay_within_their_bounds(result):
    curves = curves_of(result)
    assert curves["time"].is_sorted() and curves["time"].is_unique().all()
    assert (curves["busy_cores"] >= 0).all() and (curves["busy_cores"] <= curves["cores_up"]).all()
    assert (curves["cores_up"] <= result.info["num_cores"]).all()
    for name in ("queued_jobs", "queued_cores", "queued_work"):
        assert (curves[name] >= 0).all()


@settings(max_examples=40, deadline=None)
@given(runs())
def test_down_times_cover_what_is_missing_from_the_cores_up(result):
    curves, end, size = curves_of(result), result.info["end_time"], result.info["num_cores"]
    down = down_times(result.table("outages"), size, end)
    area = float(((down["last"] - down["first"] + 1) * (down["end"] - down["begin"])).sum())
    assert area == pytest.approx(size * end - integral(curves, "cores_up"))


def test_down_times_of_a_known_run():
    jobs = [Job(1, 0.0, 1, 30.0, 30.0)]
    result = run(jobs, 6, outage(2.0, 9.0, [1, 2, 5]), outage(4.0, 6.0, [3]), outage(20.0, 1e6, [0]), until=25.0)
    assert sorted(down_times(result.table("outages"), 6, 25.0).rows()) == [
        (0, 0, 20.0, 25.0),
        (1, 2, 2.0, 9.0),
        (3, 3, 4.0, 6.0),
        (5, 5, 2.0, 9.0),
    ]


@settings(max_examples=30, deadline=None)
@given(runs(), st.lists(st.floats(0.0, 800.0), min_size=2, max_size=6, unique=True))
def test_bin_averages_equal_sums_over_the_steps(result, edges):
    curves, edges = curves_of(result), sorted(edges)
    means = bin_averages(curves, edges)
    times, values = curves["time"].to_numpy(), curves["busy_cores"].to_numpy()
    for (begin, end), mean in zip(pairwise(edges), means["busy_cores"], strict=True):
        overlap = np.minimum(times[1:], end) - np.maximum(times[:-1], begin)
        expected = float((values[:-1] * np.maximum(overlap, 0.0)).sum())
        assert mean * (end - begin) == pytest.approx(expected, abs=1e-6)
