"""Gantt charts: what is drawn is what the tables say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from batch_pictures import InOrder, area, boxes, check_layout, outage, run, some_jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result
from desim.plotting import gantt
from desim.plotting._bars import make_chart
from desim.plotting._job_colors import neighbour_colors
from desim.plotting._runs import load_runs
from desim.plotting._series import executions
from desim.problems.batch import Job, parse_core_sets

JOBS = some_jobs(10, 4)


@pytest.fixture(scope="module")
def with_outages() -> Result:
    return run(JOBS, 4, outage(150.0, 300.0, [2]), outage(420.0, 700.0, [0, 1]), agent=InOrder())


def colors(axes) -> list[str]:
    (collection,) = [c for c in axes.collections if c.get_gid() == "executions"]
    faces = np.broadcast_to(collection.get_facecolor(), (len(collection.get_paths()), 4))
    return [to_hex(face) for face in faces]


def labels(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_one_rectangle_for_each_range_of_cores(with_outages):
    jobs, interruptions = with_outages.jobs, with_outages.table("interruptions")
    expected = set()
    for table in (jobs, interruptions):
        for row, first, last in parse_core_sets(table["allocated_resources"]).iter_rows():
            start, finish = table["starting_time"][row], table["finish_time"][row]
            expected.add((start, finish, first - 0.5, last + 0.5))
    drawn = boxes(gantt(with_outages), "executions")
    assert len(interruptions) > 0 and len(drawn) == len(expected)
    assert {tuple(box) for box in drawn.tolist()} == expected


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30), st.integers(1, 9), st.sampled_from([np.inf, 300.0]))
def test_the_area_is_the_core_seconds(seed, number, num_cores, until):
    result = run(some_jobs(number, num_cores, seed=seed), num_cores, outage(100.0, 200.0, [0]), until=until)
    end = result.info["end_time"]
    table = executions(result.jobs, result.table("interruptions"), end)
    work = float((table["requested_number_of_resources"] * (table["finish_time"] - table["starting_time"])).sum())
    assert area(boxes(gantt(result), "executions")) == pytest.approx(work)


def test_outages_and_cut_executions_are_hatched(with_outages):
    axes = gantt(with_outages)
    assert sorted(map(tuple, boxes(axes, "outages").tolist())) == [(150.0, 300.0, 1.5, 2.5), (420.0, 700.0, -0.5, 1.5)]
    cut = with_outages.table("interruptions")
    ranges = parse_core_sets(cut["allocated_resources"])
    lengths = (cut["finish_time"] - cut["starting_time"]).to_numpy()[ranges["row"].to_numpy()]
    assert area(boxes(axes, "cut")) == pytest.approx(
        (lengths * (ranges["last"] - ranges["first"] + 1).to_numpy()).sum()
    )
    hatches = {c.get_gid(): c.get_hatch() for c in axes.collections}
    assert hatches["outages"] and hatches["cut"] and not hatches["executions"]
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["cut by an outage", "cores down"]


def test_a_run_without_outages_has_no_legend():
    assert not gantt(run(JOBS, 4)).figure.legends


def test_a_repeated_execution_keeps_its_colour(with_outages):
    axes = gantt(with_outages)
    by_job = {}
    table = executions(with_outages.jobs, with_outages.table("interruptions"), with_outages.info["end_time"])
    rows = parse_core_sets(table["allocated_resources"])["row"]
    for row, color in zip(rows, colors(axes), strict=True):
        by_job.setdefault(table["job_id"][row], set()).add(color)
    assert all(len(seen) == 1 for seen in by_job.values())
    assert len(table) > len(by_job)


def touching(boxes: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of rectangles that share a border."""
    pairs = []
    for i, (begin, end, low, high) in enumerate(boxes.tolist()):
        for j in range(i):
            b, e, lower, upper = boxes[j].tolist()
            in_time, in_cores = min(end, e) - max(begin, b), min(high, upper) - max(low, lower)
            if (in_time > 0 and in_cores == 0) or (in_time == 0 and in_cores > 0):
                pairs.append((i, j))
    return pairs


@pytest.mark.parametrize("seed", range(8))
def test_neighbours_have_different_colours(seed):
    result = run(some_jobs(60, 6, seed=seed, gap=20.0), 6)
    (loaded,) = load_runs(result, ["allocated_resources"])
    chart = make_chart(loaded, "core")
    shades = neighbour_colors(chart.executions, chart.ranges, 6)[chart.owners]
    pairs = [(i, j) for i, j in touching(chart.boxes) if chart.owners[i] != chart.owners[j]]
    assert len(pairs) > 60
    assert all(shades[i] != shades[j] for i, j in pairs)


def test_jobs_one_after_the_other_on_one_core_differ():
    jobs = [Job(i, 0.0, 1, 5.0, 5.0) for i in range(40)]
    seen = colors(gantt(run(jobs, 1)))
    assert all(one != other for one, other in pairwise(seen))


def test_few_jobs_have_edges_and_labels_and_many_have_neither():
    few, many = run(JOBS, 4), run(some_jobs(4_000, 64, gap=10.0), 64)
    axes = gantt(few)
    (bars,) = [c for c in axes.collections if c.get_gid() == "executions"]
    assert max(bars.get_linewidth()) > 0 and {"4", "10"} <= set(labels(axes)) <= {str(job.job_id) for job in JOBS}
    axes = gantt(many)
    (bars,) = [c for c in axes.collections if c.get_gid() == "executions"]
    assert len(axes.collections) == 1 and bars.get_rasterized()
    assert max(bars.get_linewidth()) == 0 and not labels(axes)


@pytest.mark.parametrize("gap", [4.0, 12.0])
def test_a_dense_chart_paints_as_many_pixels_as_cores_were_busy(gap):
    # jobs that are narrower than a pixel must neither vanish together nor spread
    result = run(some_jobs(5_000, 64, gap=gap, run_time=5.0), 64)
    axes = gantt(result, labels=False)
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    place = axes.get_window_extent()
    height = canvas.get_width_height()[1]
    rows = slice(int(height - place.y1) + 3, int(height - place.y0) - 3)
    inside = np.asarray(canvas.buffer_rgba())[rows, int(place.x0) + 3 : int(place.x1) - 3, :3]
    painted = (inside != 255).any(axis=2).mean()
    assert 0.2 < painted < 0.95
    assert painted == pytest.approx(result.metrics()["utilization"], abs=0.02)


def test_a_window_brings_edges_and_labels_back():
    axes = gantt(run(some_jobs(4_000, 64, gap=10.0), 64), window=(20_000.0, 21_000.0))
    assert axes.get_xlim() == (20_000.0, 21_000.0)
    drawn = boxes(axes, "executions")
    assert (drawn[:, 0] <= 21_000.0).all() and (drawn[:, 1] >= 20_000.0).all() and 0 < len(drawn) < 500
    assert labels(axes)


def test_labels_fit_into_their_rectangles():
    axes = gantt(run(some_jobs(100, 32, gap=15.0), 32))
    axes.figure.draw_without_rendering()
    pixels = axes.transData.transform(boxes(axes, "executions")[:, [0, 2, 1, 3]].reshape(-1, 2)).reshape(-1, 4)
    assert len(axes.texts) > 20
    for text in axes.texts:
        place = text.get_window_extent()
        assert any(
            x0 - 1 <= place.x0 and place.x1 <= x1 + 1 and y0 - 1 <= place.y0 and place.y1 <= y1 + 1
            for x0, y0, x1, y1 in pixels
        ), text.get_text()


def test_labels_can_be_forced_and_forbidden():
    result = run(some_jobs(100, 32, gap=15.0), 32)
    ranges = len(boxes(gantt(result), "executions"))
    assert len(labels(gantt(result, labels=True))) == ranges
    assert labels(gantt(result, labels=False)) == []


def test_several_runs_share_their_time_axis(with_outages):
    panels = gantt({"plain": run(JOBS, 4), "with outages": with_outages})
    assert [panel.get_title("left") for panel in panels] == ["plain", "with outages"]
    assert len({panel.get_xlim() for panel in panels}) == 1
    assert panels[0].get_xlabel() == "" and panels[1].get_xlabel() == "time (min)"
    assert panels[0].figure is panels[1].figure
    check_layout(panels[0].figure)


def test_jobs_on_the_y_axis(with_outages):
    axes = gantt(with_outages, by="job")
    drawn = boxes(axes, "executions")
    assert len(drawn) == 10 + len(with_outages.table("interruptions"))
    assert axes.get_ylim() == (9.5, -0.5)
    waits = boxes(axes, "waiting")
    assert (waits[:, 1] - waits[:, 0]).tolist() == pytest.approx(with_outages.jobs["waiting_time"].to_list())
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_yticklabels() if tick.get_text()] == [str(job.job_id) for job in JOBS]


def test_what_is_not_drawn_whole_is_counted():
    jobs = [*JOBS, Job(99, 2_000.0, 9, 5.0, 5.0), Job(100, 2_001.0, 4, 50.0, 50.0), Job(101, 2_002.0, 4, 5.0, 5.0)]
    axes = gantt(run(jobs, 4, until=2_010.0, too_wide="reject"))
    assert axes.get_title("right") == "13 jobs on 4 cores, 1 still running, 1 still queued, 1 rejected"
    assert boxes(axes, "executions")[:, 1].max() == 2_010.0


def test_an_unfinished_run_says_so():
    result = run(JOBS, 4, until=300.0)
    stopped = Result({name: result.scan(name) for name in result.table_names}, result.info | {"status": "interrupted"})
    assert gantt(stopped).get_title("left") == "any that fits (interrupted)"


def test_a_run_that_crashed_is_drawn_without_its_description():
    result = run(JOBS, 4)
    crashed = Result({name: result.scan(name) for name in result.table_names}, {"status": "running"})
    assert boxes(gantt(crashed), "executions").tolist() == boxes(gantt(result), "executions").tolist()
    assert gantt(crashed).get_ylim() == (-0.5, 3.5)


@pytest.mark.parametrize("by", ["core", "job"])
def test_an_empty_run_gives_an_empty_chart(by):
    axes = gantt(run([], 4), by=by)
    assert len(boxes(axes, "executions")) == 0
    check_layout(axes.figure)


@pytest.mark.parametrize(
    "color_by", ["user", "status", "waiting_time", "requested_cores", "submission_time", "stretch"]
)
def test_other_colours_are_explained(color_by, with_outages):
    panels = gantt({"a": with_outages, "b": run(JOBS, 4, until=400.0)}, color_by=color_by)
    figure = panels[0].figure
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    bars = [axes for axes in figure.axes if axes not in panels]
    if color_by == "status":
        assert {"completed", "requeued", "running"} <= set(names)
    elif color_by == "user":
        assert {name for name in names if name.startswith("user ")} == {f"user {job.user_id}" for job in JOBS}
    else:
        assert len(bars) == 1 and color_by.split("_")[0] in bars[0].get_ylabel() + " " + bars[0].get_xlabel()
    check_layout(figure)


def test_users_beyond_the_palette_share_one_colour():
    jobs = [Job(i, 0.0, 1, 100.0, 100.0 - i, user) for i, user in enumerate([*range(10), -1])]
    axes = gantt(run(jobs, 11), color_by="user")
    names = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert names == [*(f"user {i}" for i in range(8)), "3 others"]
    assert len(set(colors(axes)[8:])) == 1 and len(set(colors(axes))) == 9


def test_equal_waits_have_equal_colours():
    jobs = [Job(1, 0.0, 1, 500.0, 500.0), Job(2, 0.0, 1, 500.0, 500.0), Job(3, 0.0, 2, 10.0, 10.0)]
    first, second, third = colors(gantt(run(jobs, 2), color_by="waiting_time"))
    assert first == second != third


def test_the_callers_axes_are_used(with_outages):
    figure = Figure()
    axes = figure.subplots(2)
    assert gantt(with_outages, axes=axes[1]) is axes[1]
    panels = gantt({"a": with_outages, "b": with_outages}, axes=axes)
    assert panels == list(axes) and all(isinstance(panel, Axes) for panel in panels)
    assert figure.axes == list(axes)


def test_names_are_not_read_as_formulas():
    panels = gantt({"$x^2": run(JOBS, 4), "_a": run(JOBS, 4), "n" * 200: run(JOBS, 4)})
    panels[0].figure.draw_without_rendering()
    assert panels[0].get_title("left") == r"\$x^2"
    assert len(panels[2].get_title("left").strip()) == 60


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"by": "user"}, "by"),
        ({"color_by": "shoe size"}, "shoe size"),
        ({"labels": "all"}, "labels"),
        ({"window": (5.0, 5.0)}, "window"),
        ({"window": (0.0, np.inf)}, "window"),
        ({"window": 7}, "window"),
        ({"axes": "here"}, "axes"),
        ({"axes": []}, "axes"),
    ],
)
def test_bad_arguments(arguments, word):
    with pytest.raises(InvalidConfiguration, match=word):
        gantt(run(JOBS, 4), **arguments)


@pytest.mark.parametrize("results", [None, [], {}, {"a": 3}, Result({}, {"problem": "dag"})])
def test_bad_results(results):
    with pytest.raises(InvalidConfiguration, match="result"):
        gantt(results)
