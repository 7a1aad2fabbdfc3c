"""Windows of deferrable jobs, their starts and runs: what is drawn is what the tables say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from batch_pictures import boxes, check_layout
from batch_pictures import run as run_batch
from dag_pictures import heft
from deferrable_pictures import AnyOf, InOrder, Nobody, crashed, interrupted, legend, run, simple, some_jobs, spans
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result
from desim.plotting import gantt, job_windows
from desim.plotting.job_windows import LOW, RUN, RUNS_ON, TALL
from desim.problems.deferrable import Job


@pytest.fixture(scope="module")
def result() -> Result:
    """Return a run with jobs of every fate."""
    made = run(some_jobs(70), agent=AnyOf(0.25), eviction="restarted")
    assert made.jobs["status"].n_unique() == 5
    return made


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
    (found,) = [collection for collection in axes.collections if collection.get_gid() == gid]
    return [tuple(segment.ravel().tolist()) for segment in found.get_segments()]


def rows_of(axes, gid: str) -> list[tuple[float, float, int]]:
    """Return begin, end and row of rectangles."""
    return [(begin, end, round((low + high) / 2)) for begin, end, low, high in boxes(axes, gid).tolist()]


def faces(axes, gid: str) -> list[str]:
    (found,) = [collection for collection in axes.collections if collection.get_gid() == gid]
    return [to_hex(face) for face in found.get_facecolor()]


def marks(axes) -> list[tuple[float, float]]:
    """Return where evictions are marked."""
    found = [line for line in axes.get_lines() if line.get_gid() == "evictions"]
    return sorted(pair for line in found for pair in zip(*(part.tolist() for part in line.get_data()), strict=True))


def names(axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def test_windows_and_notices_stand_in_the_order_of_earliest_starts(result):
    axes = job_windows(result, num_jobs=None)
    jobs = list(enumerate(ordered(result)))
    for gid, expired in (("windows", False), ("expired", True)):
        chosen = [(row, job) for row, job in jobs if (job["status"] == "expired") == expired]
        assert rows_of(axes, gid) == [(job["earliest_start"], job["latest_start"] + 1, row) for row, job in chosen]
        assert chosen
    assert set(faces(axes, "windows")).isdisjoint(faces(axes, "expired"))
    early = [(row, job) for row, job in jobs if job["submission_time"] < job["earliest_start"]]
    expected = [(job["submission_time"], row, job["earliest_start"], row) for row, job in early]
    assert np.array(lines(axes, "notice")) == pytest.approx(np.array(expected))
    assert axes.get_xlim() == (0.0, 30.0) and axes.get_ylim() == (69.5, -0.5)
    heights = np.diff(boxes(axes, "windows")[:, 2:], axis=1)
    assert heights == pytest.approx(2 * TALL) and np.diff(boxes(axes, "runs")[:, 2:], axis=1) == pytest.approx(2 * LOW)


@pytest.mark.parametrize("eviction", ["never", "lost", "restarted"])
def test_every_execution_is_a_bar_with_a_start(eviction):
    made = run(some_jobs(70), agent=AnyOf(0.5), eviction=eviction)
    axes = job_windows(made, num_jobs=None)
    row_of = {job["job_id"]: row for row, job in enumerate(ordered(made))}
    ran = [(begin, end, row_of[job["job_id"]], cut, job["finish_time"]) for job, begin, end, cut in spans(made)]
    assert sorted(rows_of(axes, "runs")) == sorted((begin, end, row) for begin, end, row, *_ in ran)
    starts = sorted((begin, row - TALL, begin, row + TALL) for begin, _, row, *_ in ran)
    assert np.array(sorted(lines(axes, "starts"))) == pytest.approx(np.array(starts))
    cut = sorted((begin, end, row) for begin, end, row, evicted, _ in ran if evicted)
    assert sorted(rows_of(axes, "cut")) == cut and bool(cut) == (eviction != "never")
    assert marks(axes) == sorted((end, row) for _, end, row in cut)
    on = {(begin, row) for begin, end, row, evicted, finish in ran if not evicted and finish is None}
    colors = dict.fromkeys(((begin, row) for begin, _, row in rows_of(axes, "runs")), None)
    for (begin, _, row), color in zip(rows_of(axes, "runs"), faces(axes, "runs"), strict=True):
        assert color == (RUNS_ON if (begin, row) in on else RUN).lower()
    assert on and len(colors) == len(ran)


def test_a_job_that_is_evicted_and_started_anew_has_several_bars_in_its_row():
    jobs = [Job(5, 0.0, 0, 0, 9, 1.0), Job(8, 0.5, 1, 9, 3, 2.0), Job(9, 0.5, 2, 3, 1, 9.0)]
    axes = job_windows(simple(jobs, [3, 3, 1, 1, 3], InOrder(), eviction="restarted"))
    assert names(axes) == ["5", "8", "9"]
    assert rows_of(axes, "runs") == [(0, 9, 0), (1, 2, 1), (4, 7, 1)]
    assert rows_of(axes, "cut") == [(1, 2, 1)] and marks(axes) == [(2, 1)]
    assert rows_of(axes, "expired") == [(2, 4, 2)]
    assert legend(axes) == [
        "notice",
        "window",
        "window of a job that expired",
        "start",
        "run, with its cores",
        "eviction",
    ]
    assert axes.get_title("right") == "3 jobs: 2 completed, 1 expired"
    assert [text.get_text() for text in axes.texts] == ["1", "2", "2"]


@pytest.mark.parametrize("number", [1, 7, 40, 69, 70, 100])
def test_only_the_first_jobs_are_drawn_and_the_slots_end_with_them(result, number):
    axes = job_windows(result, num_jobs=number)
    shown = ordered(result)[:number]
    assert len(boxes(axes, "windows")) + len(boxes(axes, "expired")) == len(shown)
    assert axes.get_ylim() == (len(shown) - 0.5, -0.5)
    last = max(max(leave(job, 30.0), job["latest_start"] + 1) for job in shown)
    assert axes.get_xlim() == (0.0, min(last, 30.0) if number < 70 else 30.0)
    assert axes.get_title("right").startswith(f"first {number} of 70 jobs: " if number < 70 else "70 jobs: ")
    counts = {status: sum(job["status"] == status for job in shown) for status in result.jobs["status"].unique()}
    words = axes.get_title("right").split(": ")[1].split(", ")
    assert {word.split()[1]: int(word.split()[0]) for word in words} == {s: n for s, n in counts.items() if n}


def test_forty_jobs_by_default(result):
    assert len(lines(job_windows(result), "notice")) == len(lines(job_windows(result, num_jobs=40), "notice"))
    assert job_windows(result).get_title("right").startswith("first 40 of 70 jobs")


LOSING = run(some_jobs(70), agent=AnyOf(0.25), eviction="lost")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 29), st.integers(1, 12))
def test_jobs_whose_windows_are_open_in_some_slots(begin, length):
    made = LOSING
    axes = job_windows(made, slots=(begin, begin + length), num_jobs=None)
    end = begin + length
    shown = set(range(begin, end))
    there = [job for job in ordered(made) if leave(job, 30.0) > begin]
    expected = [job for job in there if shown & set(range(job["earliest_start"], job["latest_start"] + 1))]
    assert axes.get_title("right").startswith(f"{len(expected)} job")
    drawn = sorted([*rows_of(axes, "windows"), *rows_of(axes, "expired")], key=lambda box: box[2])
    assert drawn == [(job["earliest_start"], job["latest_start"] + 1, row) for row, job in enumerate(expected)]
    assert axes.get_xlim() == (begin, end)


def test_slots_with_more_jobs_than_are_drawn_end_with_those():
    jobs = [Job(number, 0.0, number, number + 1, 2, 1.0) for number in range(20)]
    axes = job_windows(simple(jobs, [9]), slots=(3, 18), num_jobs=4)
    assert names(axes) == ["2", "3", "4", "5"] and axes.get_xlim() == (3.0, 7.0)
    assert axes.get_title("right") == "first 4 of 16 jobs: 4 completed"
    assert job_windows(simple(jobs, [9]), slots=(3, 5), num_jobs=4).get_xlim() == (3.0, 5.0)


def test_a_gantt_chart_of_deferrable_jobs_is_this_one(result):
    for chart, same in (
        (gantt(result), job_windows(result)),
        (gantt(result, by="job", window=(3.0, 7.0)), job_windows(result, slots=(3, 7))),
        (gantt(result, window=(-2.5, 6.2), labels=False), job_windows(result, slots=(0, 7), labels=False)),
        (gantt({"a": result})[0], job_windows({"a": result})[0]),
    ):
        assert (boxes(chart, "runs") == boxes(same, "runs")).all() and chart.get_xlim() == same.get_xlim()
        assert [text.get_text() for text in chart.texts] == [text.get_text() for text in same.texts]
    with pytest.raises(InvalidConfiguration, match="by is 'core', which is not for results of the problem 'deferr"):
        gantt(result, by="core")
    with pytest.raises(InvalidConfiguration, match="color_by is 'job', which is not for results of the problem 'def"):
        gantt(result, color_by="job")
    with pytest.raises(InvalidConfiguration, match="window is"):
        gantt(result, window=(5, 5))
    with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'deferrable'"):
        gantt({"a": result, "b": run_batch([], 4)})
    with pytest.raises(InvalidConfiguration, match="the problem 'deferrable', want 'batch'"):
        gantt({"b": run_batch([], 4), "a": result})
    with pytest.raises(InvalidConfiguration, match="by is 'job', which is not for results of the problem 'dag'"):
        gantt(heft(), by="job")


def test_bars_carry_the_cores_where_they_fit(result):
    axes = job_windows(result, num_jobs=10)
    assert axes.texts and {text.get_text() for text in axes.texts} <= {"1", "2", "4", "8"}
    assert "run, with its cores" in legend(axes)
    bare = job_windows(result, num_jobs=10, labels=False)
    assert not bare.texts and "run" in legend(bare)
    many = run(some_jobs(600, gap=0.05))
    assert not job_windows(many, num_jobs=None).texts
    some = job_windows(many, num_jobs=60, slots=(5, 9), labels=True)
    seen = [span for span in rows_of(some, "runs") if span[0] < some.get_xlim()[1] and span[1] > 5]
    assert len(some.texts) == len(seen) > 0


def test_several_runs_share_their_slots():
    results = {"any of": run(), "in order": run(agent=InOrder(), eviction="lost"), "nobody": run(agent=Nobody())}
    panels = job_windows(results, num_jobs=12)
    assert [axes.get_title("left") for axes in panels] == list(results)
    assert len({axes.get_xlim() for axes in panels}) == 1 and names(panels[0]) == names(panels[1]) == names(panels[2])
    assert not len(boxes(panels[2], "runs"))
    check_layout(panels[0].figure)
    check_layout(job_windows({f"an agent with the rather long name {n}": run() for n in range(4)})[0].figure)


def test_many_rows_have_few_names_and_thin_lines():
    axes = job_windows(run(some_jobs(900, gap=0.03)), num_jobs=None)
    check_layout(axes.figure)
    assert 5 < len(names(axes)) < 100
    widths = {c.get_gid(): np.max(c.get_linewidth()) for c in axes.collections}
    assert max(widths.values()) < 0.6 and widths["windows"] == 0.0
    check_layout(job_windows(run(some_jobs(40))).figure)


def test_a_run_that_was_cut_shows_what_it_has():
    for made, end in ((interrupted(9), 9.0), (run(until=7.5), 8.0)):
        axes = job_windows(made, num_jobs=None)
        assert axes.get_xlim() == (0.0, end)
        on = [job for job in made.jobs.iter_rows(named=True) if job["status"] == "running"]
        drawn = zip(rows_of(axes, "runs"), faces(axes, "runs"), strict=True)
        ends = [finish for (_, finish, _), color in drawn if color == RUNS_ON.lower()]
        assert ends == [end] * len(on) and on
        assert "pending" in axes.get_title("right") and "run that goes on" in legend(axes)
        check_layout(axes.figure)
    assert job_windows(interrupted(9)).get_title("left") == "any of (interrupted)"


def test_a_run_that_crashed_shows_what_was_recorded():
    part = crashed(run(eviction="lost", agent=AnyOf(0.5)), jobs=pl.col("job_id") > 9, slots=pl.col("slot") < 5)
    axes = job_windows(part, num_jobs=None)
    assert len(rows_of(axes, "windows") + rows_of(axes, "expired")) == len(part.jobs)
    last = max(part.jobs[name].max() for name in ("submission_time", "starting_time", "finish_time"))
    assert axes.get_xlim() == (0.0, np.ceil(last))
    empty = crashed(part, jobs=pl.lit(False), slots=pl.lit(False))
    assert not len(boxes(job_windows(empty), "runs")) and job_windows(empty).get_xlim() == (0.0, 1.0)


def test_a_run_without_jobs_and_one_in_which_none_starts():
    for made in (run([], None), run([]), run(num_slots=1), run(agent=Nobody())):
        check_layout(job_windows(made).figure)
    check_layout(job_windows({"one": run(some_jobs(3)), "none": run([])})[0].figure)
    axes = job_windows(run([], None))
    assert axes.get_title("right") == "0 jobs" and legend(axes) == [] and axes.get_xlim() == (0.0, 1.0)
    assert legend(job_windows(run(agent=Nobody()), num_jobs=20)) == ["notice", "window of a job that expired"]
    past = job_windows(run(), slots=(40, 50))
    assert past.get_title("right") == "0 jobs" and past.get_xlim() == (40.0, 50.0)


def test_jobs_in_real_time_have_windows_of_one_slot():
    axes = job_windows(run(real_time=True), num_jobs=None)
    assert "notice" not in legend(axes) and lines(axes, "notice") == []
    assert {end - begin for begin, end, _ in [*rows_of(axes, "windows"), *rows_of(axes, "expired")]} == {1.0}


def test_a_saved_run_gives_the_same_picture(result, tmp_path):
    saved, axes = job_windows(Result.load(result.save(tmp_path / "run"))), job_windows(result)
    for gid in ("windows", "expired", "runs", "cut"):
        assert (boxes(saved, gid) == boxes(axes, gid)).all()


def test_axes_of_the_caller_are_used(result):
    figure = Figure(figsize=(8, 6))
    mine = figure.subplots(2, 1)
    assert job_windows(result, axes=mine[0]) is mine[0] and mine[0].get_xlabel() == "slot"
    assert job_windows({"a": result, "b": result}, axes=mine) == list(mine)


def test_what_cannot_be_drawn_is_refused(result):
    for number in (0, -3, 2.5, "all", True):
        with pytest.raises(InvalidConfiguration, match="num_jobs is "):
            job_windows(result, num_jobs=number)
    with pytest.raises(InvalidConfiguration, match="labels is 'never'"):
        job_windows(result, labels="never")
    for slots in ((3, 3), (-1, 4), (0.5, 2), (1,), 5):
        with pytest.raises(InvalidConfiguration, match=r"slots is .*whole numbers"):
            job_windows(result, slots=slots)
    with pytest.raises(InvalidConfiguration, match="the problem 'dag', want 'deferrable'"):
        job_windows(heft())
    with pytest.raises(InvalidConfiguration, match="axes holds 1 Axes, want 2"):
        job_windows({"a": result, "b": result}, axes=Figure().subplots())
