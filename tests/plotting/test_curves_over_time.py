"""Utilization and the queue over time."""

from __future__ import annotations

import numpy as np
import pytest
from batch_pictures import InOrder, check_layout, outage, run, some_jobs
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration
from desim.plotting import queue_length, utilization, waiting_by_size
from desim.problems.batch import Job

JOBS = some_jobs(10, 4)


@pytest.fixture(scope="module")
def two():
    """Two runs of the same jobs, one with outages."""
    cut = (outage(150.0, 300.0, [2]), outage(420.0, 700.0, [0, 1]))
    return {"plain": run(JOBS, 4), "with outages": run(JOBS, 4, *cut, agent=InOrder())}


@pytest.fixture(scope="module")
def long():
    """A run of so many jobs that curves are averaged."""
    return run(some_jobs(2_000, 16, gap=60.0), 16)


def curves(axes, gid="curve"):
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def line_area(line) -> float:
    times, values = line.get_data()
    return float((np.diff(times) * values[:-1]).sum())


def busy_core_seconds(result) -> float:
    jobs, cut = result.jobs, result.table("interruptions")
    work = (jobs["requested_number_of_resources"] * (jobs["finish_time"] - jobs["starting_time"])).sum()
    sizes = dict(jobs.select("job_id", "requested_number_of_resources").iter_rows())
    rows = cut.select("job_id", "starting_time", "finish_time").iter_rows()
    return float(work) + sum(sizes[job] * (finish - start) for job, start, finish in rows)


def test_the_area_below_busy_cores_is_the_core_seconds(two):
    axes = utilization(two, unit="cores")
    assert [line_area(line) for line in curves(axes)] == pytest.approx([busy_core_seconds(run) for run in two.values()])


@pytest.mark.parametrize("bin_width", ["auto", None, 1_000.0, 777.7])
def test_averages_keep_the_area(long, bin_width):
    (line,) = curves(utilization(long, unit="cores", bin_width=bin_width))
    assert line_area(line) == pytest.approx(busy_core_seconds(long))


def test_averages_are_drawn_for_long_runs_only(two, long):
    assert utilization(two).get_title("right") == ""
    axes = utilization(long)
    assert axes.get_title("right").startswith("mean over ")
    assert 50 < len(curves(axes)[0].get_xdata()) < 200
    exact = curves(utilization(long, bin_width=None))[0]
    assert len(exact.get_xdata()) > 2_000


def test_the_share_is_that_of_the_cores_that_are_up():
    # 2 of 4 cores are busy from 0 to 10; from 4 to 6 only 2 are up
    result = run([Job(1, 0.0, 2, 10.0, 10.0)], 4, outage(4.0, 6.0, [2, 3]))
    times, share = curves(utilization(result))[0].get_data()
    assert times.tolist() == [0.0, 4.0, 6.0, 10.0]
    assert share.tolist() == [50.0, 100.0, 50.0, 0.0]
    (line,) = curves(utilization(result, bin_width=5.0))
    assert line.get_ydata()[:2].tolist() == pytest.approx([100 * 10 / 18, 100 * 10 / 18])
    (up,) = curves(utilization(result, unit="cores"), "limit")
    assert up.get_ydata().tolist() == [4, 2, 4, 4]


def test_there_is_no_share_while_no_core_is_up():
    result = run([Job(1, 0.0, 1, 10.0, 10.0)], 1, outage(2.0, 5.0, [0]))
    times, share = curves(utilization(result))[0].get_data()
    assert times.tolist() == [0.0, 2.0, 5.0, 15.0]
    assert share[[0, 2, 3]].tolist() == [100.0, 100.0, 0.0] and np.isnan(share[1])


def test_the_area_below_the_queue_is_the_waiting_time():
    result = run(JOBS, 4)
    (line,) = curves(queue_length(result))
    assert line_area(line) == pytest.approx(result.jobs["waiting_time"].sum())


@pytest.mark.parametrize(
    ("of", "area", "label"),
    [
        ("jobs", 10.0 * 2, "queued jobs"),
        ("cores", 10.0 * (3 + 1), "cores requested\nby queued jobs"),
        ("core_seconds", 10.0 * (3 * 20.0 + 1 * 8.0), "queued work\n(core-seconds)"),
    ],
)
def test_what_is_queued(of, area, label):
    jobs = [Job(1, 0.0, 4, 10.0, 10.0), Job(2, 0.0, 3, 20.0, 5.0), Job(3, 0.0, 1, 8.0, 8.0)]
    axes = queue_length(run(jobs, 4), of=of)
    assert line_area(curves(axes)[0]) == pytest.approx(area)
    assert axes.get_ylabel() == label


def test_work_is_marked_in_the_unit_that_suits_it():
    jobs = [Job(1, 0.0, 1, 1e6, 1e6), Job(2, 0.0, 1, 864_000.0, 10.0)]
    axes = queue_length(run(jobs, 1), of="core_seconds")
    axes.figure.draw_without_rendering()
    marks = {tick.get_loc(): tick.label1.get_text() for tick in axes.yaxis.get_major_ticks()}
    assert axes.get_ylabel() == "queued work\n(core-days)" and marks[8 * 86_400.0] == "8"


def test_jobs_left_over_stay_in_the_queue_until_the_end():
    result = run([Job(1, 0.0, 1, 100.0, 100.0), Job(2, 0.0, 1, 100.0, 100.0)], 1, until=30.0)
    (line,) = curves(queue_length(result))
    assert line.get_data()[0].tolist() == [0.0, 30.0] and line.get_data()[1].tolist() == [1, 1]
    assert curves(utilization(result))[0].get_ydata().tolist() == [100.0, 100.0]


@pytest.mark.parametrize("draw", [utilization, queue_length])
def test_panels_and_one_panel_have_the_same_colours_and_names(draw, two):
    together, apart = draw(two), draw(two, panels=True)
    assert [to_hex(line.get_color()) for line in curves(together)] == [
        to_hex(curves(panel)[0].get_color()) for panel in apart
    ]
    names = [text.get_text() for text in together.figure.legends[0].get_texts()]
    assert names == [panel.get_title("left") for panel in apart] == list(two)
    assert len({panel.get_xlim() for panel in apart}) == 1


def test_colours_can_be_chosen(two):
    axes = utilization(two, colors={"with outages": "black"})
    assert to_hex(curves(axes)[1].get_color()) == "#000000" != to_hex(curves(axes)[0].get_color())
    with pytest.raises(InvalidConfiguration, match="colors"):
        utilization(two, colors={"plain": "no colour"})


def test_many_runs_differ_in_colour_or_dashes():
    result = run(JOBS, 4)
    lines = curves(utilization({str(i): result for i in range(15)}))
    assert len({(to_hex(line.get_color()), line.get_linestyle()) for line in lines}) == 15


def test_a_window_limits_the_time_axis(two, long):
    assert queue_length(two, window=(100.0, 200.0)).get_xlim() == (100.0, 200.0)
    assert len(curves(utilization(long, window=(1e9, 2e9), bin_width=1e6))[0].get_xdata()) == 0


def test_a_workload_that_starts_late_is_shown_from_there():
    late = [Job(1, 1e6, 1, 100.0, 100.0)]
    assert utilization(run(late, 1)).get_xlim() == (1e6, 1e6 + 100.0)


def test_an_empty_run():
    for draw in (utilization, queue_length, waiting_by_size):
        check_layout(draw(run([], 4)).figure)


def test_layout(two, long):
    names = ("First come, first served", "Shortest job first with easy back-filling", "$n_{jobs}$", "_", "x" * 90)
    many = dict.fromkeys(names, long)
    for axes in (utilization(two), queue_length(many), utilization(many, panels=True)[0], waiting_by_size(many)):
        check_layout(axes.figure)


def test_the_callers_axes_are_used(two):
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    assert utilization(two, axes=axes[0, 0]) is axes[0, 0]
    assert queue_length(two, panels=True, axes=axes[1]) == list(axes[1])
    assert waiting_by_size(two, axes=axes[0, 1]) is axes[0, 1]
    assert figure.axes == axes.ravel().tolist()
    check_layout(figure)


@pytest.mark.parametrize("bin_width", [0.0, -1.0, np.nan, np.inf, 1e-9, "wide"])
def test_bad_bins(two, bin_width):
    with pytest.raises(InvalidConfiguration, match="bin_width"):
        utilization(two, bin_width=bin_width)


def test_bad_arguments(two):
    for message, call in {
        "unit": lambda: utilization(two, unit="furlongs"),
        "of": lambda: queue_length(two, of="users"),
        "window": lambda: queue_length(two, window=(3.0, 1.0)),
        "2": lambda: utilization(two, panels=True, axes=Figure().subplots()),
    }.items():
        with pytest.raises(InvalidConfiguration, match=message):
            call()
