"""Figures of batch runs: what is drawn is what the tables say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from batch_pictures import InOrder, area, boxes, check_layout, find, legend, outage, run, some_jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result, simulate
from desim.agents.batch import create
from desim.plotting import gantt, queue_length, utilization, waiting_by_size
from desim.problems.batch import BatchCluster, Job, parse_core_sets

JOBS = some_jobs(10, 4)


@pytest.fixture(scope="module")
def plain() -> Result:
    return run(JOBS, 4)


@pytest.fixture(scope="module")
def cut() -> Result:
    return run(JOBS, 4, outage(150.0, 300.0, [2]), outage(420.0, 700.0, [0, 1]), agent=InOrder())


@pytest.fixture(scope="module")
def dense() -> Result:
    """A run of so many short jobs that they are narrower than a pixel."""
    return run(some_jobs(5_000, 64, gap=4.0, run_time=5.0), 64)


def executions(result: Result) -> list[tuple[int, float, float, int]]:
    """Return job, start, finish and cores of all executions, those that an outage cut included."""
    end = result.info["end_time"]
    cores = dict(result.jobs.select("arrival_number", "requested_number_of_resources").iter_rows())
    columns = ("arrival_number", "starting_time", "finish_time")
    rows = [*result.jobs.drop_nulls("starting_time").select(columns).iter_rows()]
    rows += result.table("interruptions").filter(pl.col("outcome") == "requeued").select(columns).iter_rows()
    return [(job, start, end if finish is None else finish, cores[job]) for job, start, finish in rows]


def colors(axes) -> list[str]:
    collection = find(axes, "executions")
    faces = np.broadcast_to(collection.get_facecolor(), (len(collection.get_paths()), 4))
    return [to_hex(face) for face in faces]


def labels(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def curves(axes, gid="curve"):
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def line_area(line) -> float:
    times, values = line.get_data()
    return float((np.diff(times) * values[:-1]).sum())


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


@settings(max_examples=15)
@given(runs())
def test_areas_are_the_core_seconds_and_waits_of_the_tables(result):
    ran, end, size = executions(result), result.info["end_time"], result.info["num_cores"]
    work = sum(cores * (finish - start) for _, start, finish, cores in ran)
    axes, used, queue = gantt(result, labels=False), utilization(result, unit="cores"), queue_length(result)
    assert area(boxes(axes, "executions")) == pytest.approx(work)
    (busy,), (up,) = curves(used), curves(used, "limit")
    assert line_area(busy) == pytest.approx(work)
    assert (busy.get_ydata() >= 0).all() and (busy.get_ydata() <= up.get_ydata()).all()
    assert area(boxes(axes, "cores down")) == pytest.approx(size * end - line_area(up))
    jobs = result.jobs.with_columns(pl.col("finish_time").fill_null(end))
    in_system = float((jobs["finish_time"] - jobs["submission_time"]).sum())
    on_cores = sum(finish - start for _, start, finish, _ in ran)
    assert line_area(curves(queue)[0]) == pytest.approx(in_system - on_cores, abs=1e-6)


def test_one_rectangle_for_each_range_of_cores(cut):
    expected = set()
    for table in (cut.jobs, cut.table("interruptions")):
        for row, first, last in parse_core_sets(table["allocated_resources"]).iter_rows():
            expected.add((table["starting_time"][row], table["finish_time"][row], first - 0.5, last + 0.5))
    axes = gantt(cut)
    assert len(cut.table("interruptions")) > 0
    assert sorted(map(tuple, boxes(axes, "executions").tolist())) == sorted(expected)
    down = sorted(map(tuple, boxes(axes, "cores down").tolist()))
    assert down == [(150.0, 300.0, 1.5, 2.5), (420.0, 700.0, -0.5, 1.5)]
    table = cut.table("interruptions")
    ranges = parse_core_sets(table["allocated_resources"])
    lengths = (table["finish_time"] - table["starting_time"]).to_numpy()[ranges["row"].to_numpy()]
    hatched = area(boxes(axes, "cut by an outage"))
    assert hatched == pytest.approx((lengths * (ranges["last"] - ranges["first"] + 1).to_numpy()).sum())
    hatches = [find(axes, name).get_hatch() for name in ("cores down", "cut by an outage", "executions")]
    assert hatches[0] and hatches[1] and not hatches[2]
    assert legend(axes) == ["cut by an outage", "cores down"]
    check_layout(axes.figure)


def test_cores_that_were_down_together_are_one_rectangle():
    jobs = [Job(1, 0.0, 1, 30.0, 30.0)]
    result = run(jobs, 6, outage(2.0, 9.0, [1, 2, 5]), outage(4.0, 6.0, [3]), outage(20.0, 1e6, [0]), until=25.0)
    expected = [(2, 9, 0.5, 2.5), (2, 9, 4.5, 5.5), (4, 6, 2.5, 3.5), (20, 25, -0.5, 0.5)]
    assert sorted(map(tuple, boxes(gantt(result), "cores down").tolist())) == expected


def test_jobs_whose_id_comes_back_are_told_apart():
    jobs = [Job(7, 0.0, 2, 9.0, 3.0), Job(7, 50.0, 1, 9.0, 4.0), Job(7, 90.0, 1, 2.0, 2.0)]
    result = run(jobs, 2, outage(1.0, 2.0, [0]), outage(52.0, 53.0, [0]))
    drawn = boxes(gantt(result, by="job"), "executions")
    assert [(a, b, round((low + high) / 2)) for a, b, low, high in drawn.tolist()] == [
        (0, 1, 0),
        (2, 5, 0),
        (50, 52, 1),
        (52, 56, 1),
        (90, 92, 2),
    ]
    assert line_area(curves(utilization(result, unit="cores"))[0]) == 2 * 1 + 2 * 3 + 2 + 4 + 2
    assert len(set(colors(gantt(result)))) == 3


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


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_have_different_colours_and_a_job_keeps_its(seed):
    result = run(some_jobs(60, 6, seed=seed, gap=20.0), 6, outage(200.0, 400.0, [1]))
    axes = gantt(result)
    owner = {(start, finish): job for job, start, finish, _ in executions(result)}
    drawn, shades = boxes(axes, "executions"), colors(axes)
    owners = [owner[begin, end] for begin, end, *_ in drawn.tolist()]
    pairs = [(i, j) for i, j in touching(drawn) if owners[i] != owners[j]]
    assert len(pairs) > 60 and all(shades[i] != shades[j] for i, j in pairs)
    assert len(set(zip(owners, shades, strict=True))) == len(set(owners))


def test_a_job_has_the_same_colour_in_all_runs_and_neighbours_hardly_ever_the_same():
    jobs = some_jobs(60, 6, seed=2, gap=20.0)
    results = {name: simulate(BatchCluster(jobs, 6), create(name)) for name in ("fcfs", "easy-sjf", "sjf")}
    colours, alike, pairs = {}, 0, 0
    for axes, result in zip(gantt(results), results.values(), strict=True):
        owner = {(start, finish): job for job, start, finish, _ in executions(result)}
        drawn, shades = boxes(axes, "executions"), colors(axes)
        owners = [owner[begin, end] for begin, end, *_ in drawn.tolist()]
        for one, shade in zip(owners, shades, strict=True):
            assert colours.setdefault(one, shade) == shade
        met = [(i, j) for i, j in touching(drawn) if owners[i] != owners[j]]
        pairs += len(met)
        alike += sum(shades[i] == shades[j] for i, j in met)
    assert len(colours) == 60 and pairs > 180 and alike < 0.05 * pairs


def test_few_jobs_have_edges_and_labels_that_fit_and_many_have_neither(plain, dense):
    axes = gantt(plain)
    assert max(find(axes, "executions").get_linewidth()) > 0
    assert {"4", "10"} <= set(labels(axes)) <= {str(job.job_id) for job in JOBS}
    assert not labels(gantt(plain, labels=False))
    axes.figure.draw_without_rendering()
    pixels = axes.transData.transform(boxes(axes, "executions")[:, [0, 2, 1, 3]].reshape(-1, 2)).reshape(-1, 4)
    for text in axes.texts:
        place = text.get_window_extent()
        assert any(
            x0 - 1 <= place.x0 and place.x1 <= x1 + 1 and y0 - 1 <= place.y0 and place.y1 <= y1 + 1
            for x0, y0, x1, y1 in pixels
        ), text.get_text()
    axes = gantt(dense)
    assert len(axes.collections) == 1 and axes.collections[0].get_rasterized()
    assert max(axes.collections[0].get_linewidth()) == 0 and not labels(axes)
    part = gantt(dense, window=(9_000.0, 9_060.0))
    drawn = boxes(part, "executions")
    assert part.get_xlim() == (9_000.0, 9_060.0) and labels(part) and 0 < len(drawn) < 500
    assert (drawn[:, 0] <= 9_060.0).all() and (drawn[:, 1] >= 9_000.0).all()


def test_a_dense_chart_paints_as_many_pixels_as_cores_were_busy(dense):
    # jobs that are narrower than a pixel must neither vanish together nor spread
    axes = gantt(dense)
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    place = axes.get_window_extent()
    height = canvas.get_width_height()[1]
    rows = slice(int(height - place.y1) + 3, int(height - place.y0) - 3)
    inside = np.asarray(canvas.buffer_rgba())[rows, int(place.x0) + 3 : int(place.x1) - 3, :3]
    painted = (inside != 255).any(axis=2).mean()
    assert 0.2 < painted < 0.95
    assert painted == pytest.approx(dense.metrics()["utilization"], abs=0.02)


def test_several_runs_share_their_time_axis(plain, cut):
    panels = gantt({"$x^2": plain, "_": cut, "n" * 200: plain})
    assert [panel.get_title("left").strip() for panel in panels[:2]] == [r"\$x^2", "_"]
    assert len(panels[2].get_title("left").strip()) == 60
    assert len({panel.get_xlim() for panel in panels}) == 1
    assert [panel.get_xlabel() for panel in panels] == ["", "", "time (min)"]
    assert len({panel.figure for panel in panels}) == 1
    check_layout(panels[0].figure)


def test_jobs_on_the_y_axis(cut):
    axes = gantt(cut, by="job")
    assert len(boxes(axes, "executions")) == 10 + len(cut.table("interruptions"))
    assert axes.get_ylim() == (9.5, -0.5)
    waits = boxes(axes, "waiting")
    until = (cut.jobs["starting_time"] - cut.jobs["submission_time"]).to_list()  # the cut executions lie on top
    assert (waits[:, 1] - waits[:, 0]).tolist() == pytest.approx([wait for wait in until if wait])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [str(job.job_id) for job in JOBS]
    assert legend(axes) == ["waiting", "cut by an outage"]


def test_what_is_not_drawn_whole_is_counted():
    jobs = [*JOBS, Job(99, 2_000.0, 9, 5.0, 5.0), Job(100, 2_001.0, 4, 50.0, 50.0), Job(101, 2_002.0, 4, 5.0, 5.0)]
    result = run(jobs, 4, until=2_010.0, too_wide="reject")
    axes = gantt(result)
    assert axes.get_title("right") == "13 jobs on 4 cores, 1 still running, 1 still queued, 1 rejected"
    assert boxes(axes, "executions")[:, 1].max() == 2_010.0
    assert "without 1 jobs that have not started" in waiting_by_size(result).get_title("right")
    assert curves(queue_length(result))[0].get_ydata()[-1] == 1  # what is rejected is never queued


def test_unfinished_and_crashed_runs(plain):
    tables = {name: plain.scan(name) for name in plain.table_names}
    stopped = Result(tables, plain.info | {"status": "interrupted"})
    assert gantt(stopped).get_title("left") == "any that fits (interrupted)"
    left = {name: value for name, value in plain.info.items() if name not in ("end_time", "agent")}
    crashed = gantt(Result(tables, left | {"status": "running"}))
    assert boxes(crashed, "executions").tolist() == boxes(gantt(plain), "executions").tolist()
    assert crashed.get_title("left") == "result (running)" and crashed.get_xlim() == gantt(plain).get_xlim()


def test_an_empty_run():
    empty = run([], 4)
    for axes in (gantt(empty), gantt(empty, by="job"), utilization(empty), queue_length(empty), waiting_by_size(empty)):
        axes.figure.draw_without_rendering()
    assert boxes(gantt(empty), "executions").size == 0


@pytest.mark.parametrize("color_by", ["user", "status", "waiting_time", "submission_time", "stretch"])
def test_other_colours_are_explained(color_by, cut):
    panels = gantt({"a": cut, "b": run(JOBS, 4, until=400.0)}, color_by=color_by)
    names = set(legend(panels[0]))
    bars = [axes for axes in panels[0].figure.axes if axes not in panels]
    if color_by == "status":
        assert {"completed", "requeued", "running"} <= names
    elif color_by == "user":
        assert {name for name in names if name.startswith("user ")} == {f"user {job.user_id}" for job in JOBS}
    else:
        assert len(bars) == 1 and color_by.split("_")[0] in bars[0].get_ylabel()
    check_layout(panels[0].figure)


def test_users_beyond_the_palette_share_one_colour_and_equal_waits_have_one():
    jobs = [Job(i, 0.0, 1, 100.0, 100.0 - i, user) for i, user in enumerate([*range(10), -1])]
    axes = gantt(run(jobs, 11), color_by="user")
    assert legend(axes) == [*(f"user {i}" for i in range(8)), "3 others"]
    assert len(set(colors(axes)[8:])) == 1 and len(set(colors(axes))) == 9
    jobs = [Job(1, 0.0, 1, 500.0, 500.0), Job(2, 0.0, 1, 500.0, 500.0), Job(3, 0.0, 2, 10.0, 10.0)]
    first, second, third = colors(gantt(run(jobs, 2), color_by="waiting_time"))
    assert first == second != third


def test_many_executions_are_coloured_by_their_waits(monkeypatch: pytest.MonkeyPatch):
    jobs = [Job(i, float(i), 1, 100.0, 100.0) for i in range(12)]
    result = run(jobs, 4)
    monkeypatch.setattr("desim.problems.batch.figures.MOST_JOB_COLORS", 11)
    assert [axes.get_ylabel() for axes in gantt(result).figure.axes] == ["core id", "waiting time (min)"]
    assert len(gantt(result, color_by="job").figure.axes) == len(gantt(result, window=(0.0, 100.0)).figure.axes) == 1


def test_the_callers_axes_are_used(plain, cut):
    figure = Figure(figsize=(12, 10), layout="constrained")
    axes = figure.subplots(2, 2)
    assert gantt({"a": plain, "b": cut}, axes=axes[:, 0]) == list(axes[:, 0])
    assert utilization({"a": plain, "b": cut}, axes=axes[0, 1]) is axes[0, 1]
    assert waiting_by_size(plain, axes=axes[1, 1]) is axes[1, 1]
    assert figure.axes == axes.ravel().tolist() and axes[0, 0].get_xlabel() == "time (min)"
    check_layout(figure)


def test_averages_keep_the_area_and_are_drawn_for_long_runs_only(plain, dense):
    work = sum(cores * (finish - start) for _, start, finish, cores in executions(dense))
    for bin_width in ("auto", None, 777.7):
        (line,) = curves(utilization(dense, unit="cores", bin_width=bin_width))
        assert line_area(line) == pytest.approx(work)
    assert utilization(plain).get_title("right") == ""
    axes = utilization(dense)
    assert axes.get_title("right").startswith("mean over ") and 50 < len(curves(axes)[0].get_xdata()) < 200
    assert len(curves(utilization(dense, bin_width=None))[0].get_xdata()) > 2_000
    late = curves(utilization(dense, window=(1e9, 2e9), bin_width=1e6))[0]
    assert len(late.get_xdata()) == 0


def test_the_share_is_that_of_the_cores_that_are_up():
    # 2 of 4 cores are busy from 0 to 10; from 4 to 6 only 2 are up
    result = run([Job(1, 0.0, 2, 10.0, 10.0)], 4, outage(4.0, 6.0, [2, 3]))
    times, share = curves(utilization(result))[0].get_data()
    assert times.tolist() == [0.0, 4.0, 6.0, 10.0] and share.tolist() == [50.0, 100.0, 50.0, 0.0]
    (line,) = curves(utilization(result, bin_width=5.0))
    assert line.get_ydata()[:2].tolist() == pytest.approx([100 * 10 / 18, 100 * 10 / 18])
    (up,) = curves(utilization(result, unit="cores"), "limit")
    assert up.get_ydata().tolist() == [4, 2, 4, 4]
    none = run([Job(1, 0.0, 1, 10.0, 10.0)], 1, outage(2.0, 5.0, [0]))
    times, share = curves(utilization(none))[0].get_data()
    assert times.tolist() == [0.0, 2.0, 5.0, 15.0] and np.isnan(share[1]) and share[[0, 2, 3]].tolist() == [100, 100, 0]


def test_a_queue_that_is_known():
    # job 1 runs 0-10 on both cores; job 2 waits 2-10, job 3 4-10; then both run at once
    jobs = [Job(1, 0.0, 2, 20.0, 10.0), Job(2, 2.0, 1, 6.0, 5.0), Job(3, 4.0, 1, 3.0, 3.0)]
    times, queued = curves(queue_length(run(jobs, 2)))[0].get_data()
    assert times.tolist() == [0.0, 2.0, 4.0, 10.0, 13.0, 15.0] and queued.tolist() == [0, 1, 2, 0, 0, 0]
    # job 1 runs 1-4 on cores 0-1, is cut, waits until core 0 is back at 8, and runs 8-18
    again = run([Job(1, 1.0, 2, 10.0, 10.0)], 2, outage(4.0, 8.0, [0]))
    times, queued = curves(queue_length(again))[0].get_data()
    assert times.tolist() == [0.0, 1.0, 4.0, 8.0, 18.0] and queued.tolist() == [0, 0, 1, 0, 0]
    assert curves(utilization(again, unit="cores"))[0].get_ydata().tolist() == [0, 2, 0, 2, 0]
    left = run([Job(1, 0.0, 1, 100.0, 100.0), Job(2, 0.0, 1, 100.0, 100.0)], 1, until=30.0)
    assert [part.tolist() for part in curves(queue_length(left))[0].get_data()] == [[0.0, 30.0], [1, 1]]


@pytest.mark.parametrize("draw", [utilization, queue_length])
def test_many_runs_have_a_panel_each_and_all_have_their_colour(draw, plain, cut):
    names = ("First come, first served", "Shortest jobs first with easy backfilling", "$n_{jobs}$", "_", "x" * 90)
    many = dict.fromkeys(names, cut)
    together, apart = draw(dict(list(many.items())[:4])), draw(many).figure.axes
    assert len(apart) == 5 and len({panel.get_xlim() for panel in apart}) == 1
    assert [to_hex(line.get_color()) for line in curves(together)] == [
        to_hex(curves(panel)[0].get_color()) for panel in apart[:4]
    ]
    assert [name.strip() for name in legend(together)] == [names[0], names[1][:39] + "…", r"\$n_{jobs}\$", "_"]
    check_layout(together.figure)
    check_layout(apart[0].figure)


def test_time_axes_begin_with_the_first_job_or_the_window(plain):
    late = run([Job(1, 1e6, 1, 100.0, 100.0)], 1)
    assert utilization(late).get_xlim() == (1e6, 1e6 + 100.0)
    assert queue_length(plain, window=(100.0, 200.0)).get_xlim() == (100.0, 200.0)


def test_bars_dots_and_lines_are_the_percentiles():
    result = run(some_jobs(300, 16, gap=40.0), 16)
    axes = waiting_by_size({"one": result, "another with a longer name": result})
    cores, waiting = result.jobs["requested_number_of_resources"].to_numpy(), result.jobs["waiting_time"].to_numpy()
    classes = [waiting[(cores > low) & (cores <= high)] for low, high in ((0, 1), (1, 2), (2, 4), (4, 8), (8, 16))]
    expected = np.array([np.percentile(part, [5, 25, 50, 75, 95]) for part in classes])
    for bars, lines, dots in zip(axes.containers, axes.collections, axes.get_lines(), strict=True):
        assert [bar.get_y() for bar in bars] == pytest.approx(expected[:, 1])
        assert [bar.get_y() + bar.get_height() for bar in bars] == pytest.approx(expected[:, 3])
        assert dots.get_ydata() == pytest.approx(expected[:, 2])
        ends = np.array([path.vertices[:, 1] for path in lines.get_paths()])
        assert ends == pytest.approx(expected[:, [0, 4]])
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    sizes = [f"({len(part)})" for part in classes]
    assert names == [f"{name}\n{size}" for name, size in zip(["1", "2", "3-4", "5-8", "9-16"], sizes, strict=True)]
    assert axes.get_yscale() == "symlog"
    assert waiting_by_size(run(some_jobs(30, 4, gap=400.0), 16)).get_yscale() == "linear"
    check_layout(axes.figure)


@pytest.mark.parametrize(
    ("draw", "arguments", "word"),
    [
        (gantt, {"by": "user"}, "by"),
        (gantt, {"color_by": "shoe size"}, "shoe size"),
        (gantt, {"color_by": "allocated_resources"}, "color_by"),
        (gantt, {"window": (5.0, 5.0)}, "window"),
        (gantt, {"window": (0.0, np.inf)}, "window"),
        (gantt, {"window": 7}, "window"),
        (gantt, {"axes": "here"}, "axes"),
        (gantt, {"axes": []}, "axes"),
        (utilization, {"unit": "executors"}, "unit"),
        (utilization, {"bin_width": -1.0}, "bin_width"),
        (utilization, {"bin_width": 1e-9}, "bin_width"),
        (queue_length, {"bin_width": "wide"}, "bin_width"),
    ],
)
def test_bad_arguments(draw, arguments, word, plain):
    with pytest.raises(InvalidConfiguration, match=word):
        draw(plain, **arguments)


@pytest.mark.parametrize("results", [None, [], {}, {"a": 3}, Result({}, {"problem": "dag"})])
def test_bad_results(results):
    with pytest.raises(InvalidConfiguration, match="result"):
        queue_length(results)
