"""Waiting times by size, and metrics side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from batch_pictures import check_layout, run, some_jobs
from hypothesis import given
from hypothesis import strategies as st

from desim import InvalidConfiguration
from desim.plotting import compare_metrics, waiting_by_size
from desim.plotting._metric_names import compared, format_value, metric_name
from desim.plotting._presentations import presentation_of
from desim.plotting._sizes import class_names, classify, default_edges, waiting_quantiles
from desim.problem import kind_of
from desim.problems.batch import Job

BATCH = presentation_of(kind_of("batch"))


@pytest.fixture(scope="module")
def result():
    """A run in which jobs of all sizes wait."""
    return run(some_jobs(300, 16, gap=40.0), 16)


def test_percentiles_of_each_class(result):
    jobs = result.jobs
    edges = default_edges([jobs], "cores")
    assert edges == [1, 2, 3, 5, 9, 17]
    assert class_names(edges, "cores") == ["1", "2", "3-4", "5-8", "9-16"]
    table = waiting_quantiles(classify(jobs, "cores", edges))
    cores, waiting = jobs["requested_number_of_resources"].to_numpy(), jobs["waiting_time"].to_numpy()
    assert table["class"].to_list() == [0, 1, 2, 3, 4]
    for index, *percentiles in table.iter_rows():
        chosen = waiting[(cores >= edges[index]) & (cores < edges[index + 1])]
        assert percentiles == pytest.approx(np.percentile(chosen, [5, 25, 50, 75, 95]).tolist())


def test_bars_dots_and_lines_are_the_percentiles(result):
    axes = waiting_by_size(result)
    table = waiting_quantiles(classify(result.jobs, "cores", default_edges([result.jobs], "cores")))
    bars = axes.containers[0]
    assert [bar.get_y() for bar in bars] == pytest.approx(table["p25"].to_list())
    assert [bar.get_y() + bar.get_height() for bar in bars] == pytest.approx(table["p75"].to_list())
    (dots,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert dots.get_ydata().tolist() == pytest.approx(table["p50"].to_list())
    ends = np.array([path.vertices[:, 1] for path in axes.collections[0].get_paths()])
    assert ends.ravel().tolist() == pytest.approx(table.select("p5", "p95").to_numpy().ravel().tolist())


def test_classes_of_work():
    jobs = [
        Job(1, 0.0, 2, 9.0, 3.0),
        Job(2, 0.0, 1, 9.0, 0.0),
        Job(3, 0.0, 2, 600.0, 500.0),
        Job(4, 0.0, 1, 99.0, 10.0),
    ]
    result = run(jobs, 8)
    edges = default_edges([result.jobs], "core_seconds")
    assert edges == [0, 10, 100, 1_000, 10_000]
    assert classify(result.jobs, "core_seconds", edges)["class"].to_list() == [0, 0, 3, 1]
    assert class_names(edges, "core_seconds") == ["below 10", "10 to 100", "100 to 1 k", "1 k to 10 k"]


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=20))
def test_default_classes_hold_every_job(widths):
    table = run([Job(i, 0.0, cores, 1.0, 1.0) for i, cores in enumerate(widths)], 5_000).jobs
    for size in ("cores", "core_seconds"):
        assert len(classify(table, size, default_edges([table], size))) == len(widths)


def test_own_classes_leave_jobs_out(result):
    axes = waiting_by_size(result, edges=[4, 8, 12])
    axes.figure.draw_without_rendering()
    cores = result.jobs["requested_number_of_resources"]
    counts = [cores.is_between(4, 7).sum(), cores.is_between(8, 11).sum()]
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names == [f"4-7\n({counts[0]})", f"8-11\n({counts[1]})"]


def test_jobs_that_have_not_started_are_counted():
    jobs = [Job(1, 0.0, 1, 100.0, 100.0), Job(2, 0.0, 1, 100.0, 100.0), Job(3, 0.0, 9, 1.0, 1.0)]
    stopped = run(jobs, 1, until=50.0, too_wide="reject")
    assert "without 1 jobs that have not started" in waiting_by_size(stopped).get_title("right")


def test_long_waits_are_on_a_logarithmic_axis(result):
    assert waiting_by_size(result).get_yscale() == "symlog"
    short = run(some_jobs(30, 4, gap=400.0), 16)
    assert waiting_by_size(short).get_yscale() == "linear"


@pytest.mark.parametrize("size", ["cores", "core_seconds"])
def test_layout(result, size):
    runs = {"one": result, "another with a longer name": result, "third": result}
    check_layout(waiting_by_size(runs, size=size).figure)


@pytest.mark.parametrize("edges", [[], [1], [1, 1], [3, 2], ["a", "b"], 5])
def test_bad_classes(result, edges):
    with pytest.raises(InvalidConfiguration, match="edges"):
        waiting_by_size(result, edges=edges)


def test_bad_size(result):
    with pytest.raises(InvalidConfiguration, match="size"):
        waiting_by_size(result, size="weight")


METRICS = {
    "a": {"waiting_time_mean": 10.0, "utilization": 0.5, "jobs_submitted": 7.0},
    "b": {"waiting_time_mean": 4.0, "utilization": 0.25, "jobs_submitted": 7.0},
    "c": {"waiting_time_mean": math.nan, "utilization": 0.75},
}


def test_bars_are_the_metrics():
    panels = compare_metrics(METRICS)
    assert [panel.get_title("left") for panel in panels] == [
        "waiting time, mean (s)\nlower is better",
        "utilization\nhigher is better",
    ]
    assert [bar.get_width() for bar in panels[0].patches] == [10.0, 4.0, 0.0]
    assert [bar.get_width() for bar in panels[1].patches] == [0.5, 0.25, 0.75]
    texts = {text.get_text(): text.get_fontweight() for text in panels[0].texts}
    assert texts == {"10": "normal", "4": "bold", "n/a": "normal"}
    check_layout(panels[0].figure)


def test_chosen_metrics_in_the_chosen_order():
    panels = compare_metrics(METRICS, metrics=["jobs_submitted", "utilization"])
    assert [panel.get_title("left") for panel in panels] == ["jobs submitted (jobs)\n", "utilization\nhigher is better"]
    with pytest.raises(InvalidConfiguration, match="shoe_size"):
        compare_metrics(METRICS, metrics=["utilization", "shoe_size"])
    with pytest.raises(InvalidConfiguration, match="empty"):
        compare_metrics({})


def test_runs_that_left_jobs_behind_are_never_the_best():
    assert compared("waiting_time_mean", METRICS, (), BATCH) == [("10", False), ("4", True), ("n/a", False)]
    assert compared("waiting_time_mean", METRICS, ["b"], BATCH) == [("10", False), ("4†", False), ("n/a", False)]
    assert compared("utilization", METRICS, ["c"], BATCH)[2] == ("0.7500", True)
    assert compared("jobs_submitted", METRICS, (), BATCH) == [("7", False), ("7", False), ("n/a", False)]


@pytest.mark.parametrize(
    ("name", "heading", "better"),
    [
        ("waiting_time_p95", "waiting time, 95th percentile (s)", "lower"),
        ("bounded_slowdown_mean", "bounded slowdown, mean", "lower"),
        ("queue_length_max", "queue length, maximum (jobs)", "lower"),
        ("jobs_completed", "jobs completed (jobs)", "higher"),
        ("offered_load", "offered load", None),
        ("surprise", "surprise", None),
    ],
)
def test_metrics_in_words(name, heading, better):
    known = metric_name(name, BATCH)
    assert (known.heading, known.better) == (heading, better)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12.0, "12"),
        (1_234_567.0, "1,234,567"),
        (0.123456, "0.1235"),
        (12.3456, "12.35"),
        (123_456.7, "123,457"),
        (1.5e-7, "1.500e-07"),
        (-2.5, "-2.500"),
        (math.nan, "n/a"),
        (-math.inf, "-infinite"),
    ],
)
def test_values_in_words(value, text):
    assert format_value(value) == text
