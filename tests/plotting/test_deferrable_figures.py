"""Figures of deferrable jobs: what is drawn is what the tables say, and what agents have seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from batch_pictures import area, boxes, check_layout, find, legend
from batch_pictures import run as run_batch
from deferrable_pictures import (
    AnyOf,
    Area,
    InOrder,
    Nobody,
    areas,
    cluster,
    crashed,
    failed,
    interrupted,
    line,
    run,
    simple,
    some_jobs,
    spans,
    use,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result, simulate
from desim.plotting import capacity_use, gantt, known_work
from desim.problems.deferrable import Job

SIZES = {"1 core": 1.0, "2 cores": 2.0, "4 cores": 4.0, "8 cores": 8.0}
LAYERS = ["running: what is left", "window open", "window open, expires in the slot", "window not open yet"]
RUN, RUNS_ON = "#0072b2", "#56b4e9"
EVICTIONS = ("never", "lost", "restarted")


@pytest.fixture(scope="module", params=EVICTIONS)
def result(request) -> Result:
    """Return a run with violations and, if there may be some, with evictions."""
    made = run(some_jobs(70), agent=AnyOf(0.5), eviction=request.param)
    assert made.table("slots")["violation_cores"].sum() > 0
    assert (len(made.table("evictions")) > 5) == (request.param != "never")
    return made


@pytest.fixture(scope="module")
def fates() -> Result:
    """Return a run with jobs of every fate."""
    made = run(some_jobs(70), agent=AnyOf(0.25), eviction="restarted")
    assert made.jobs["status"].n_unique() == 5
    return made


@pytest.fixture(scope="module")
def empty() -> Result:
    return run([], None)


def column(result: Result, name: str) -> np.ndarray:
    return result.table("slots")[name].to_numpy()


def stacked(drawn: dict[str, Area], names) -> np.ndarray:
    """Return the top of layers, each of which begins where the one before ends."""
    top = np.zeros(len(next(iter(drawn.values())).above))
    for name in names:
        if name in drawn:
            assert drawn[name].below == pytest.approx(top)
            top = drawn[name].above
    return top


@pytest.mark.parametrize("resource", ["cores", "memory"])
def test_layers_are_what_jobs_of_each_size_hold(result, resource):
    axes = capacity_use(result, resource=resource)
    drawn = areas(axes)
    for name, size in SIZES.items():
        assert drawn[name].edges == list(range(31))
        assert drawn[name].above - drawn[name].below == pytest.approx(use(result, resource, size=size))
    used, capacity = column(result, f"used_{resource}"), column(result, f"capacity_{resource}")
    assert stacked(drawn, SIZES) == pytest.approx(used)
    assert line(axes) == (list(range(31)), capacity.tolist())
    assert axes.get_ylabel() == f"{resource} in use" and axes.get_xlim() == (0.0, 30.0)
    if resource == "cores":
        assert drawn["violation"].above == pytest.approx(used)
        assert drawn["violation"].below == pytest.approx(np.minimum(used, capacity))
        (patch,) = [patch for patch in axes.patches if patch.get_gid() == "violation"]
        assert to_hex(patch.get_facecolor()) == "#d55e00" and patch.get_hatch()
        over, share = int((used > capacity).sum()), 100.0 * used.sum() / capacity.sum()
        assert axes.get_title("right") == f"{share:.3g} % of the capacity in use; exceeded in {over} of 30 slots"
        assert legend(axes) == ["capacity", *SIZES, "violation"]


def test_a_run_that_keeps_the_capacity_has_no_violation():
    axes = capacity_use(run(agent=InOrder(), eviction="lost"))
    assert "violation" not in areas(axes) and "violation" not in legend(axes)
    assert "exceeded" not in axes.get_title("right")


@pytest.mark.parametrize("resource", ["cores", "memory"])
def test_single_jobs_are_piled_up(result, resource):
    axes = capacity_use(result, by="job", resource=resource)
    drawn = boxes(axes, "jobs")
    work = sum(job[f"requested_{resource}"] * (end - begin) for job, begin, end, _ in spans(result))
    assert area(drawn) == pytest.approx(work)
    for slot, used in enumerate(column(result, f"used_{resource}").tolist()):
        here = drawn[(drawn[:, 0] <= slot) & (drawn[:, 1] > slot)]
        here = here[here[:, 2].argsort()]
        assert here[:, 3].max(initial=0.0) == pytest.approx(used)
        assert (here[:, 3] > here[:, 2]).all()
        assert here[:1, 2].sum() == 0.0 and here[1:, 2] == pytest.approx(here[:-1, 3])  # no gap, no overlap


def test_jobs_that_follow_each_other_differ_and_what_is_started_anew_keeps_its_colour():
    jobs = [Job(number, 0.0, 0, 9, 3, 1.0) for number in (1, 2, 3)]
    axes = capacity_use(simple(jobs, [3, 3, 2, 2, 3], InOrder(), eviction="restarted"), by="job")
    faces = find(axes, "jobs").get_facecolor()
    drawn = [(*box, to_hex(face)) for box, face in zip(boxes(axes, "jobs"), faces, strict=True)]
    colors = {color for *_, color in drawn}
    assert len(colors) == 3 and "#ee8866" not in colors  # which is near that of a violation
    again = [(begin, end) for begin, end, *_, color in drawn if color == drawn[2][-1]]
    assert again == [(0.0, 2.0), (3.0, 6.0)]  # the third job is evicted after two slots, and begins anew
    jobs = [Job(1, 0.0, 0, 0, 4, 2.0), Job(2, 0.0, 0, 0, 2, 1.0), Job(3, 0.0, 0, 0, 4, 3.0)]
    drawn = boxes(capacity_use(simple(jobs, [9]), by="job"), "jobs")
    assert drawn.tolist() == [[0, 4, 0, 2], [0, 2, 2, 3], [0, 2, 3, 6], [2, 4, 2, 5]]


def test_identifiers_that_come_back_are_told_apart():
    jobs = [Job(7, 0.0, 0, 0, 2, 4.0), Job(7, 5.0, 5, 9, 2, 1.0)]
    made = simple(jobs, [4, 0, 0, 0, 0, 1, 0, 1], eviction="restarted")
    assert made.table("evictions")["job_id"].to_list() == [7, 7]
    drawn = areas(capacity_use(made))
    assert (drawn["4 cores"].above - drawn["4 cores"].below).tolist() == [4, 0, 0, 0, 0, 0, 0, 0]
    assert drawn["1 core"].above.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert drawn["violation"].above[6] == 1 and drawn["violation"].below[6] == 0


def test_of_many_slots_means_over_bins_are_drawn():
    made = run(some_jobs(150, gap=2.0), 299)
    bounds = [*range(0, 296, 5), 299]

    def means(values: np.ndarray) -> list[float]:
        return [values[first:last].mean() for first, last in pairwise(bounds)]

    axes = capacity_use(made)
    drawn = areas(axes)
    used, violation = means(column(made, "used_cores")), means(column(made, "violation_cores"))
    assert line(axes) == (bounds, pytest.approx(means(column(made, "capacity_cores"))))
    assert stacked(drawn, SIZES) == pytest.approx(used)
    assert drawn["violation"].above == pytest.approx(used)
    assert drawn["violation"].above - drawn["violation"].below == pytest.approx(violation)
    assert drawn["8 cores"].above - drawn["8 cores"].below == pytest.approx(means(use(made, "cores", size=8.0)))
    assert axes.get_title("right").endswith("; means over 5 slots")
    piled = boxes(capacity_use(made, by="job"), "jobs")
    assert area(piled) == pytest.approx(column(made, "used_cores").sum())
    assert known_work(made).get_title("right").endswith("; means over 5 slots")
    assert "means" not in capacity_use(made, window=(0, 250)).get_title("right")


def test_a_window_of_slots(result, fates):
    axes = capacity_use(result, window=(8, 20.5))
    used, capacity = column(result, "used_cores")[8:21], column(result, "capacity_cores")[8:21]
    assert axes.get_xlim() == (8.0, 21.0) and line(axes) == (list(range(8, 22)), capacity.tolist())
    assert stacked(areas(axes), SIZES) == pytest.approx(used)
    assert axes.get_title("right").startswith(f"{100.0 * used.sum() / capacity.sum():.3g} % of")
    assert axes.get_ylim() == pytest.approx((0.0, 1.06 * max(used.max(), capacity.max())))
    piled = boxes(capacity_use(result, window=(8, 21), by="job"), "jobs")
    assert piled[:, 0].min() == 8.0 and piled[:, 1].max() <= 21.0 and area(piled) == pytest.approx(used.sum())
    past = capacity_use(result, window=(40, 50))
    assert not past.patches and past.get_xlim() == (40.0, 50.0) and past.get_title("right") == ""
    past = gantt(fates, window=(40, 50))
    assert past.get_title("right") == "0 jobs" and past.get_xlim() == (40.0, 50.0)


def test_several_runs_share_their_axes():
    results = {"in order": run(agent=InOrder()), "more": run(agent=InOrder(6)), "short": run(num_slots=12)}
    panels = capacity_use(results)
    assert [axes.get_title("left") for axes in panels] == list(results)
    assert len({axes.get_ylim() for axes in panels}) == len({axes.get_xlim() for axes in panels}) == 1
    highest = max(column(made, f"{kind}_cores").max() for made in results.values() for kind in ("used", "capacity"))
    assert panels[0].get_ylim() == pytest.approx((0.0, 1.06 * highest))
    for axes, made in zip(panels, results.values(), strict=True):
        assert stacked(areas(axes), SIZES) == pytest.approx(column(made, "used_cores"))
    assert [axes.get_xlabel() for axes in panels] == ["", "", "slot"]
    windows = gantt(results)
    assert len({axes.get_xlim() for axes in windows}) == 1
    long = {f"an agent with the rather long name {name}": made for name, made in results.items()}
    for drawn in (panels, known_work(long), gantt(long)):
        check_layout(drawn[0].figure)


@pytest.mark.parametrize(
    "sizes", [(1.5, 3.25), range(1, 65), (0.1, 0.2, 0.4, 0.8, 3, 5, 7), (0.01, 3, 1e4, *range(5, 9))]
)
def test_every_job_is_in_a_layer_whatever_its_size(sizes):
    made = run(some_jobs(80, sizes=sizes))
    axes = capacity_use(made)
    drawn = areas(axes)
    names = [name for name in drawn if name != "violation"]
    assert 1 < len(names) <= 6 and stacked(drawn, names) == pytest.approx(column(made, "used_cores"))
    of = {patch.get_gid(): to_rgb(patch.get_facecolor()) for patch in axes.patches}
    light = [np.dot(of[name], (0.299, 0.587, 0.114)) for name in names]
    assert light == sorted(light, reverse=True) and len(set(light)) == len(light)


def test_names_of_sizes():
    def named(*sizes: float) -> list[str]:
        jobs = [Job(number, 0.0, 0, 0, 1, size) for number, size in enumerate(sizes)]
        return legend(capacity_use(simple(jobs, [99.0])))[1:]

    assert named(4.0, 1.0, 1.0) == ["1 core", "4 cores"]
    assert named(*range(1, 9)) == ["up to 1 cores", "above 1 to 2", "above 2 to 4", "above 4 to 8"]


def test_a_run_that_was_cut_shows_what_it_has():
    whole = layers(known_work(run()))
    for made, slots in ((interrupted(9), 9), (run(until=7.5), 8), (failed(9), 9), (run(num_slots=None), None)):
        axes = capacity_use(made)
        assert stacked(areas(axes), SIZES) == pytest.approx(column(made, "used_cores"))
        assert stacked(areas(axes), SIZES) == pytest.approx(use(made, "cores"))
        if slots is None:
            continue
        assert axes.get_xlim() == (0.0, float(slots))
        assert layers(known_work(made)) == pytest.approx(whole[:, :slots])
        chart = gantt(made, num_jobs=None)
        on = [job for job in made.jobs.iter_rows(named=True) if job["status"] == "running"]
        assert [end for _, end, _ in rows_of(chart, "run that goes on")] == [slots] * len(on) and on
        assert "queued" in chart.get_title("right") and "run that goes on" in legend(chart)
    assert capacity_use(interrupted(9)).get_title("left") == "any of (interrupted)"


def test_what_a_crash_has_left_out_is_grey():
    whole = run(agent=AnyOf(0.5), eviction="restarted")
    even = pl.col("job_id") % 2 == 0
    part = crashed(whole, jobs=even)  # it has evictions of jobs that it does not know
    known = use(crashed(whole, jobs=even, evictions=even), "cores")
    for by in ("size", "job"):
        axes = capacity_use({"x": part}, by=by)[0]
        missing = areas(axes)["not recorded"]
        assert missing.below == pytest.approx(known) and missing.above == pytest.approx(column(whole, "used_cores"))
        assert "not recorded" in legend(axes) and axes.get_title("left") == "x (running)"
    assert "not recorded" not in legend(capacity_use(whole))
    nothing = crashed(whole, jobs=pl.lit(False), evictions=pl.lit(False))
    assert areas(capacity_use(nothing))["not recorded"].above == pytest.approx(column(whole, "used_cores"))
    axes = gantt(crashed(whole, jobs=pl.col("job_id") > 9, slots=pl.col("slot") < 5), num_jobs=None)
    assert len(rows_of(axes, "window") + rows_of(axes, "window of a job that expired")) == 51
    axes = gantt(crashed(part, jobs=pl.lit(False), slots=pl.lit(False), evictions=pl.lit(False)))
    assert boxes(axes, "run").size == 0 and axes.get_xlim() == (0.0, 1.0)


def test_a_run_of_one_slot_and_one_of_none(empty):
    one, idle = run(num_slots=1), run(agent=Nobody())
    for draw in (capacity_use, known_work, gantt):
        draw({"none": empty, "one": one, "idle": idle})[0].figure.draw_without_rendering()
        axes = draw(empty)
        assert not axes.patches and axes.get_xlim() == (0.0, 1.0) and legend(axes) == []
    assert len(line(capacity_use(one))[1]) == 1 and areas(capacity_use(idle)) == {}
    assert capacity_use(simple([], [0], num_slots=2)).get_title("right") == ""
    assert known_work(empty).get_title("right") == "0 jobs" == gantt(empty).get_title("right")
    assert legend(gantt(idle, num_jobs=20)) == ["lead time", "window of a job that expired"]


def ordered(result: Result) -> list[dict]:
    """Return the jobs in the order of their rows."""
    jobs = result.jobs.iter_rows(named=True)
    return sorted(jobs, key=lambda job: (job["earliest_start"], job["submission_time"], job["job_id"]))


def leave(job: dict, end: float) -> float:
    """Return when a job has left the system."""
    if job["status"] == "expired":
        return job["latest_start"] + 1
    return end if job["finish_time"] is None else job["finish_time"]


def lines(axes, gid: str) -> list[tuple[float, float, float, float]]:
    """Return both ends of lines."""
    found = find(axes, gid)
    return [] if found is None else [tuple(segment.ravel().tolist()) for segment in found.get_segments()]


def rows_of(axes, gid: str) -> list[tuple[float, float, int]]:
    """Return begin, end and row of rectangles."""
    return [(begin, end, round((low + high) / 2)) for begin, end, low, high in boxes(axes, gid).tolist()]


def marks(axes) -> list[tuple[float, float]]:
    """Return where evictions are marked."""
    found = [line for line in axes.get_lines() if line.get_gid() == "eviction"]
    return sorted(pair for line in found for pair in zip(*(part.tolist() for part in line.get_data()), strict=True))


def test_windows_and_notices_stand_in_the_order_of_earliest_starts(fates):
    axes = gantt(fates, num_jobs=None)
    jobs = list(enumerate(ordered(fates)))
    for gid, expired in (("window", False), ("window of a job that expired", True)):
        chosen = [(row, job) for row, job in jobs if (job["status"] == "expired") == expired]
        assert rows_of(axes, gid) == [(job["earliest_start"], job["latest_start"] + 1, row) for row, job in chosen]
        assert chosen
    early = [(row, job) for row, job in jobs if job["submission_time"] < job["earliest_start"]]
    expected = [(job["submission_time"], row, job["earliest_start"], row) for row, job in early]
    assert np.array(lines(axes, "lead time")) == pytest.approx(np.array(expected))
    assert axes.get_xlim() == (0.0, 30.0) and axes.get_ylim() == (69.5, -0.5)
    tall, low = (np.diff(boxes(axes, gid)[:, 2:], axis=1) for gid in ("window", "run"))
    assert low.max() < tall.min() < 1.0


def test_every_execution_is_a_bar_with_a_start(result):
    axes = gantt(result, num_jobs=None)
    row_of = {job["job_id"]: row for row, job in enumerate(ordered(result))}
    ran = [(begin, end, row_of[job["job_id"]], cut, job["finish_time"]) for job, begin, end, cut in spans(result)]
    on = [(begin, end, row) for begin, end, row, evicted, finish in ran if not evicted and finish is None]
    over = [(begin, end, row) for begin, end, row, evicted, finish in ran if evicted or finish is not None]
    assert sorted(rows_of(axes, "run")) == sorted(over) and over
    assert sorted(rows_of(axes, "run that goes on")) == sorted(on) and on
    assert {to_hex(face) for face in find(axes, "run").get_facecolor()} == {RUN}
    assert {to_hex(face) for face in find(axes, "run that goes on").get_facecolor()} == {RUNS_ON}
    starts = sorted((x, round((low + high) / 2)) for x, low, _, high in lines(axes, "start"))
    assert starts == sorted((begin, row) for begin, _, row, *_ in ran)
    cut = sorted((begin, end, row) for begin, end, row, evicted, _ in ran if evicted)
    assert sorted(rows_of(axes, "cut")) == cut and marks(axes) == sorted((end, row) for _, end, row in cut)


def test_a_job_that_is_evicted_and_started_anew_has_several_bars_in_its_row():
    jobs = [Job(5, 0.0, 0, 0, 9, 1.0), Job(8, 0.5, 1, 9, 3, 2.0), Job(9, 0.5, 2, 3, 1, 9.0)]
    axes = gantt(simple(jobs, [3, 3, 1, 1, 3], InOrder(), eviction="restarted"))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["5", "8", "9"]
    assert rows_of(axes, "run") == [(0, 9, 0), (1, 2, 1), (4, 7, 1)]
    assert rows_of(axes, "cut") == [(1, 2, 1)] and marks(axes) == [(2, 1)]
    assert rows_of(axes, "window of a job that expired") == [(2, 4, 2)]
    windows = ["window", "window of a job that expired"]
    assert legend(axes) == ["lead time", *windows, "start", "run, with its cores", "eviction"]
    assert axes.get_title("right") == "3 jobs: 2 completed, 1 expired"
    assert [text.get_text() for text in axes.texts] == ["1", "2", "2"]


@pytest.mark.parametrize("number", [1, 7, "auto", 69, 70, 100])
def test_only_the_first_jobs_are_drawn_and_the_slots_end_with_them(fates, number):
    axes = gantt(fates, num_jobs=number)
    shown = ordered(fates)[: 40 if number == "auto" else number]
    assert len(boxes(axes, "window")) + len(boxes(axes, "window of a job that expired")) == len(shown)
    assert axes.get_ylim() == (len(shown) - 0.5, -0.5)
    last = max(max(leave(job, 30.0), job["latest_start"] + 1) for job in shown)
    assert axes.get_xlim() == (0.0, min(last, 30.0) if len(shown) < 70 else 30.0)
    remark = axes.get_title("right")
    assert remark.startswith(f"first {len(shown)} of 70 jobs: " if len(shown) < 70 else "70 jobs: ")
    counts = {status: sum(job["status"] == status for job in shown) for status in fates.jobs["status"].unique()}
    words = remark.split(": ")[1].split(", ")
    assert {word.split()[1]: int(word.split()[0]) for word in words} == {s: n for s, n in counts.items() if n}


@settings(max_examples=10)
@given(st.integers(0, 29), st.integers(1, 12))
def test_jobs_whose_windows_are_open_in_some_slots(begin, length):
    end = begin + length
    axes = gantt(LOSING, window=(begin, end), num_jobs=None, labels=False)
    shown = set(range(begin, end))
    there = [job for job in ordered(LOSING) if leave(job, 30.0) > begin]
    expected = [job for job in there if shown & set(range(job["earliest_start"], job["latest_start"] + 1))]
    assert axes.get_title("right").startswith(f"{len(expected)} job")
    drawn = [*rows_of(axes, "window"), *rows_of(axes, "window of a job that expired")]
    wanted = [(job["earliest_start"], job["latest_start"] + 1, row) for row, job in enumerate(expected)]
    assert sorted(drawn, key=lambda box: box[2]) == wanted


LOSING = run(some_jobs(70), agent=AnyOf(0.25), eviction="lost")


def test_many_rows_have_few_names_and_thin_lines_and_bars_carry_the_cores_where_they_fit(fates):
    axes = gantt(run(some_jobs(900, gap=0.03)), num_jobs=None)
    assert 5 < len(axes.get_yticklabels()) < 100 and not axes.texts
    widths = {c.get_gid(): np.max(c.get_linewidth()) for c in axes.collections}
    assert max(widths.values()) < 0.6 and widths["window"] == 0.0
    check_layout(axes.figure)
    few = gantt(fates, num_jobs=10)
    assert few.texts and {text.get_text() for text in few.texts} <= {"1", "2", "4", "8"}
    bare = gantt(fates, num_jobs=10, labels=False)
    assert not bare.texts and "run" in legend(bare)


def test_jobs_in_real_time_have_windows_of_one_slot():
    axes = gantt(run(real_time=True), num_jobs=None)
    assert "lead time" not in legend(axes) and lines(axes, "lead time") == []
    windows = [*rows_of(axes, "window"), *rows_of(axes, "window of a job that expired")]
    assert {end - begin for begin, end, _ in windows} == {1.0}


def layers(axes) -> np.ndarray:
    """Return how high the layers of known work are; each begins where the one below it ends."""
    drawn = areas(axes)
    number = len(next(iter(drawn.values())).above)
    top, found = np.zeros(number), []
    for name in LAYERS:
        if name in drawn:
            assert drawn[name].below == pytest.approx(top)
        before, top = top, drawn[name].above if name in drawn else top
        found.append(top - before)
    return np.array(found)


@pytest.mark.parametrize("options", [{}, {"eviction": "lost"}, {"eviction": "restarted"}, {"real_time": True}])
def test_known_work_is_what_the_agent_has_seen(options):
    agent, expired = AnyOf(0.3), np.zeros(30)
    system = cluster(some_jobs(80), **options)
    system.on("expiry", lambda time, job: expired.__setitem__(int(time), expired[int(time)] + job.revenue))
    made = simulate(system, agent)
    left, current, future = np.array(agent.left).T
    expected = np.array([left, current - expired, expired, future])
    axes = known_work(made)
    assert (expected.sum(axis=1) > 0).tolist() == [True, True, True, "real_time" not in options]
    assert layers(axes) == pytest.approx(expected) and areas(axes)[LAYERS[0]].edges == list(range(31))
    assert legend(axes) == [name for name, work in zip(LAYERS, expected, strict=True) if work.any()]
    assert axes.get_ylim() == pytest.approx((0.0, 1.06 * expected.sum(axis=0).max()))
    over = made.jobs.filter(pl.col("status") == "expired")
    text = f"{len(over)} of {len(made.jobs)} jobs expired, {expected[2].sum():g} core-slots"
    assert axes.get_title("right") == text
    part = known_work(made, window=(8, 21))
    assert layers(part) == pytest.approx(expected[:, 8:21]) and areas(part)[LAYERS[0]].edges == list(range(8, 22))


@pytest.mark.parametrize("amount", [0.1, 1e9])
def test_nothing_is_left_where_nothing_runs(amount):
    jobs = [
        Job(number, 0.0, number % 9, number % 9, 1 + number // 9 % 3, amount * (1 + number % 7)) for number in range(99)
    ]
    jobs.append(Job(99, 0.0, 19, 19, 1, amount))
    drawn = layers(known_work(simple(jobs, [1], num_slots=25)))
    assert not drawn[0, 11:].any() and (drawn[0, 1:11] > 0).all() and (drawn >= 0).all()


def test_the_first_resource_gives_the_unit():
    made = simple([Job(1, 0.0, 0, 2, 3, 2.0, (5.0,))], np.ones((3, 2)), Nobody(), resources=("gpus", "cores"))
    axes = known_work(made)
    assert axes.get_ylabel() == "known work\n(gpus x slots)" and layers(axes).sum(axis=0).tolist() == [6, 6, 6]
    assert axes.get_title("right") == "1 of 1 job expired, 6 gpus x slots"


def test_a_saved_run_gives_the_same_picture(fates, tmp_path):
    loaded = Result.load(fates.save(tmp_path / "run"))
    for gid in ("window", "run", "cut"):
        assert (boxes(gantt(loaded), gid) == boxes(gantt(fates), gid)).all()
    assert (layers(known_work(loaded)) == layers(known_work(fates))).all()


def test_what_cannot_be_drawn_is_refused(fates):
    mine = Figure(figsize=(8, 6)).subplots(2, 1)
    for draw in (gantt, capacity_use, known_work):
        assert draw({"a": fates, "b": fates}, axes=mine) == list(mine)
        with pytest.raises(InvalidConfiguration, match="axes: got 2 Axes, expected 1"):
            draw(fates, axes=mine)
        with pytest.raises(InvalidConfiguration, match="window: got"):
            draw(fates, window=(5, 5))
        with pytest.raises(InvalidConfiguration, match="problem 'batch', expected 'deferrable'"):
            draw({"a": fates, "b": run_batch([], 4)})
    for number in (0, 2.5, "all"):
        with pytest.raises(InvalidConfiguration, match="num_jobs: got "):
            gantt(fates, num_jobs=number)
    with pytest.raises(InvalidConfiguration, match="by: got 'user'"):
        capacity_use(fates, by="user")
    cores = simple([], [1], num_slots=3)
    with pytest.raises(InvalidConfiguration, match=r"resource: got 'memory', but results\['b'\] has 'cores'"):
        capacity_use({"a": fates, "b": cores}, resource="memory")
