"""Gantt charts of executors: what is drawn is what the tables say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from batch_pictures import area, boxes, check_layout
from batch_pictures import run as run_batch
from batch_pictures import some_jobs as batch_jobs
from dag_pictures import (
    THREE,
    Pinned,
    down,
    example,
    find,
    heft,
    legend,
    outage,
    run,
    some_executors,
    some_job,
    some_jobs,
    started,
    with_outages,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result, simulate
from desim.agents.dag import EFT, FIFO, HEFT, ListScheduler, RankUp
from desim.plotting import executor_gantt, gantt
from desim.plotting._critical_chain import critical_chain
from desim.problems.dag import Executors, Job, TaskCluster


@pytest.fixture(scope="module")
def planned() -> Result:
    return heft()


@pytest.fixture(scope="module")
def troubled() -> Result:
    return with_outages()


def spans(axes, gid: str) -> list[tuple[float, float, int]]:
    """Return begin, end and row of rectangles."""
    return [(a, b, round((low + high) / 2)) for a, b, low, high in boxes(axes, gid).tolist()]


def chosen(rows: list[dict]) -> list[tuple[float, float, int]]:
    return [(row["starting_time"], row["finish_time"], row["executor"]) for row in rows]


def colors(axes) -> list[str]:
    return [to_hex(face) for face in find(axes, "copies").get_facecolor()]


def texts(axes) -> list[str]:
    return sorted(text.get_text() for text in axes.texts)


def arrows(axes, gid: str = "transfers") -> list[tuple[float, ...]]:
    """Return sending and arrival time of arrows, and the rows that they join."""
    found = find(axes, gid)
    if found is None:
        return []
    tails, heads = found.XY, found.XY + np.column_stack([found.U, found.V])
    return [(*a, *b) for a, b in zip(tails.tolist(), heads.tolist(), strict=True)]


def test_the_published_schedule_of_heft(planned):
    axes = gantt(planned)
    expected = {"1": (0, 9, 2), "2": (27, 40, 0), "3": (9, 28, 2), "4": (18, 26, 1), "5": (28, 38, 2)}
    expected |= {"6": (26, 42, 1), "7": (38, 49, 2), "8": (57, 62, 0), "9": (56, 68, 1), "10": (73, 80, 1)}
    assert sorted(spans(axes, "copies")) == sorted(expected.values())
    places = {text.get_text(): text.get_position() for text in axes.texts}
    assert places == {name: ((a + b) / 2, row) for name, (a, b, row) in expected.items()}
    assert axes.get_xlim() == (0.0, 80.0) and axes.get_ylim() == (2.5, -0.5)


@pytest.mark.parametrize("until", [np.inf, 60.0])
def test_every_copy_that_started_is_a_bar(until):
    result = with_outages(until)
    axes = executor_gantt(result)
    rows = started(result)
    assert spans(axes, "copies") == chosen(rows)
    assert spans(axes, "duplicates") == chosen([row for row in rows if row["duplicate"]])
    assert spans(axes, "cut") == chosen([row for row in rows if row["outcome"] == "interrupted"])
    assert sorted(spans(axes, "outages")) == sorted((begin, end, executor) for executor, begin, end in down(result))
    assert spans(axes, "duplicates") and spans(axes, "cut")
    hatches = [find(axes, gid).get_hatch() for gid in ("copies", "duplicates", "cut", "outages")]
    assert hatches[0] is None and None not in hatches[1:] and len(set(hatches)) == 4


def test_arrows_are_the_transfers_between_executors(troubled):
    moved = troubled.table("transfers").filter(
        troubled.table("transfers")["source"] != troubled.table("transfers")["destination"]
    )
    drawn = arrows(executor_gantt(troubled))
    assert len(drawn) == len(moved) > 5
    for (sent, begin, arrived, end), row in zip(drawn, moved.iter_rows(named=True), strict=True):
        assert sent == row["starting_time"] and arrived == pytest.approx(row["arrival_time"])
        assert (round(begin), round(end)) == (row["source"], row["destination"])
        assert abs(end - begin) < abs(row["source"] - row["destination"])  # from edge to edge


def test_many_transfers_are_left_out_unless_asked_for():
    result = run(some_jobs(25, number=30), some_executors(6))
    count = int((result.table("transfers")["source"] != result.table("transfers")["destination"]).sum())
    assert count > 200
    assert arrows(executor_gantt(result)) == []
    assert len(arrows(executor_gantt(result, transfers=True))) == count
    assert arrows(executor_gantt(heft(), transfers=False)) == []
    assert len(arrows(executor_gantt(heft()))) == 9


def test_a_thin_bar_where_an_executor_waits_for_data(planned):
    # executor 2 runs all the time until 49, the others wait for the data of what HEFT has planned
    axes = executor_gantt(planned)
    waits = [(0, 27, 0), (40, 57, 0), (0, 18, 1), (42, 56, 1), (68, 73, 1)]
    assert spans(axes, "waiting") == waits
    thin, bars = boxes(axes, "waiting"), boxes(axes, "copies")
    assert (thin[:, 3] - thin[:, 2]).max() < 0.5 * (bars[:, 3] - bars[:, 2]).min()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.sampled_from([np.inf, 50.0]))
def test_waiting_overlaps_neither_copies_nor_outages(seed, count, plan_ahead, until):
    agent = HEFT() if plan_ahead else None
    jobs = some_jobs(3, seed=seed, gap=10.0)
    result = run(
        jobs,
        some_executors(count, seed=seed),
        outage(15.0, 30.0, 0),
        plan_ahead=plan_ahead,
        agent=agent,
        until=until,
    )
    axes = executor_gantt(result)
    for row in range(count):
        busy = sorted(
            (begin, end)
            for gid in ("copies", "waiting", "outages")
            for begin, end, at in spans(axes, gid)
            if at == row and end > begin
        )
        assert all(one[1] <= other[0] for one, other in pairwise(busy))


def test_the_critical_chain_of_the_published_schedule(planned):
    axes = executor_gantt(planned, critical_chain=True)
    assert spans(axes, "critical") == [(73, 80, 1), (57, 62, 0), (26, 42, 1), (18, 26, 1), (0, 9, 2)]
    assert sorted((a, b) for a, _, b, _ in arrows(axes, "critical transfers")) == [(9, 18), (42, 57), (62, 73)]
    assert len(arrows(axes)) == 6
    assert find(executor_gantt(planned), "critical") is None


def tight(result: Result, later: dict, earlier: dict) -> bool:
    """Tell whether a copy started when the other allowed it to."""
    start = later["starting_time"]
    sent = [
        row["arrival_time"]
        for row in result.table("transfers").iter_rows(named=True)
        if (row["job_id"], row["child"], row["destination"], row["parent"], row["source"])
        == (later["job_id"], later["node"], later["executor"], earlier["node"], earlier["executor"])
    ]
    behind = later["executor"] == earlier["executor"] and earlier["finish_time"] == start
    decided = later["job_id"] == earlier["job_id"] and later["assignment_time"] == earlier["finish_time"] == start
    return (later["job_id"] == earlier["job_id"] and start in sent) or behind or decided


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans(), st.booleans())
def test_a_critical_chain_spans_the_whole_run(seed, count, plan_ahead, duplicates):
    agent = None if duplicates else ListScheduler(RankUp(), EFT())
    result = run(some_jobs(3, seed=seed), some_executors(count, seed=seed), plan_ahead=plan_ahead, agent=agent)
    copies = result.table("copies").filter(result.table("copies")["starting_time"].is_not_null())
    chain = critical_chain(copies, result.table("transfers"))
    rows = [copies.row(index, named=True) for index in chain.copies.tolist()]
    assert rows[0]["finish_time"] == result.jobs["finish_time"].max()
    assert all(tight(result, *pair) for pair in pairwise(rows))
    assert rows[-1]["starting_time"] == 0.0
    times = [result.table("transfers")["arrival_time"][index] for index in chain.transfers.tolist()]
    assert set(times) <= {row["starting_time"] for row in rows}


def test_a_critical_chain_ends_where_an_executor_came_back():
    # the node is cut at 3 and starts anew when its executor is back
    result = run([Job(1, [5.0])], Executors([1.0]), outage(3.0, 10.0, 0))
    axes = executor_gantt(result, critical_chain=True)
    assert spans(axes, "copies") == [(0, 3, 0), (10, 15, 0)]
    assert spans(axes, "critical") == [(10, 15, 0)]


def test_a_repeated_copy_has_its_own_transfers():
    # the second node is cut on executor 1 and runs there again, with the data that it gets anew
    job = Job(1, [4.0, 10.0, 1.0], [(0, 1, 2.0), (1, 2, 5.0)])
    result = run([job], Executors([1.0, 1.0, 1.0], 1.0), outage(8.0, 12.0, 1), agent=Pinned())
    assert chosen(started(result)) == [(0, 4, 0), (6, 8, 1), (14, 24, 1), (29, 30, 2)]
    copies = result.table("copies").filter(result.table("copies")["starting_time"].is_not_null())
    chain = critical_chain(copies, result.table("transfers"))
    assert copies["starting_time"].gather(chain.copies).to_list() == [29.0, 14.0, 0.0]


def test_each_of_few_jobs_has_its_colour_in_all_runs():
    jobs = some_jobs(6, seed=1)
    results = {"one": run(jobs, some_executors(2)), "two": run(jobs[::-1], some_executors(4))}
    panels = executor_gantt(results)
    seen: dict[int, set[str]] = {}
    for panel, result in zip(panels, results.values(), strict=True):
        for row, color in zip(started(result), colors(panel), strict=True):
            seen.setdefault(row["job_id"], set()).add(color)
    assert len(seen) == 6 and all(len(one) == 1 for one in seen.values())
    assert len(set.union(*seen.values())) == 6
    assert legend(panels[0])[:6] == [f"job {job.job_id} ({job.label})" for job in jobs]


@pytest.mark.parametrize("color_by", ["job", "node"])
def test_a_job_or_node_keeps_its_colour(color_by):
    result = run(some_jobs(12, seed=2), some_executors(5))
    keys = [(row["job_id"], row["node"])[: 1 if color_by == "job" else 2] for row in started(result)]
    drawn = dict(zip(keys, colors(executor_gantt(result, color_by=color_by)), strict=True))
    assert [drawn[key] for key in keys] == colors(executor_gantt(result, color_by=color_by))
    assert len(set(drawn.values())) == 8


def test_neighbours_in_a_row_differ():
    result = run(some_jobs(12, seed=2), some_executors(2))
    shades = colors(executor_gantt(result, color_by="node"))
    drawn = sorted(
        zip(chosen(started(result)), shades, started(result), strict=True), key=lambda bar: (bar[0][2], bar[0])
    )
    touching = [(one, other) for one, other in pairwise(drawn) if one[0][1:] == (other[0][0], other[0][2])]
    assert len(touching) > 20
    for (_, first, a), (_, second, b) in touching:
        assert (first == second) == ((a["job_id"], a["node"]) == (b["job_id"], b["node"]))


def test_colours_by_label():
    result = run(some_jobs(12, seed=2), some_executors(5))
    axes = executor_gantt(result, color_by="label")
    assert sorted(legend(axes)[:3]) == ["q0", "q1", "q2"]
    shown = {f"q{row['job_id'] % 3}": color for row, color in zip(started(result), colors(axes), strict=True)}
    assert len(set(shown.values())) == 3


def test_names_of_nodes_and_jobs():
    assert texts(executor_gantt(run([Job(4, [3.0])], Executors([1.0])))) == ["0"]
    two = [Job(4, [3.0], names=["map"]), Job(5, [3.0])]
    assert texts(executor_gantt(run(two, Executors([1.0, 1.0])))) == ["4:map", "5:0"]
    assert texts(executor_gantt(run(two, Executors([1.0])), labels=False)) == []
    dollars = executor_gantt(run([Job(4, [3.0], names=["$a_b$"])], Executors([1.0])), labels=True)
    dollars.figure.draw_without_rendering()
    assert texts(dollars) == ["$a_b$"]


def test_tasks_of_nodes():
    job = Job(1, [6.0, 2.0], [(0, 1, 1.0)], num_tasks=[3, 1], names=["map", "reduce"])
    cluster = TaskCluster([job], Executors([1.0, 1.0], 1.0), moving_delay=1.0)
    axes = executor_gantt(simulate(cluster, ListScheduler(RankUp(), EFT())), critical_chain=True, labels=True)
    assert texts(axes) == ["map/0", "map/1", "map/2", "reduce/0"]
    assert spans(axes, "critical") == [(4, 6, 0), (2, 4, 0), (0, 2, 0)]
    two = TaskCluster([Job(1, [4.0], num_tasks=[2]), Job(2, [3.0])], Executors([1.0]), moving_delay=1.0)
    axes = executor_gantt(simulate(two, ListScheduler(FIFO(), EFT())), critical_chain=True)
    assert spans(axes, "critical") == [(5, 8, 0), (2, 4, 0), (0, 2, 0)]
    assert spans(axes, "waiting") == [(4, 5, 0)]


def test_executors_are_named():
    plain, named = Executors([1.0, 2.5]), Executors([1.0, 2.5], names=["left", "right"])
    job = some_job(5, np.random.default_rng(0))

    def marks(executors: Executors, **options) -> list[str]:
        axes = executor_gantt(run([job], executors), **options)
        return [label.get_text() for label in axes.get_yticklabels()]

    assert marks(plain) == ["0", "1"]
    assert marks(named, speeds=True) == ["left (1)", "right (2.5)"]
    many = Executors(np.ones(300))
    assert marks(many) == [str(number) for number in range(0, 300, 10)]


def test_the_remark_counts(troubled):
    count = sum(row["duplicate"] for row in started(troubled))
    assert executor_gantt(troubled).get_title("right") == f"4 jobs on 3 executors, {count} duplicates"
    cut = with_outages(30.0)
    statuses = cut.jobs["status"].to_list()
    words = [f", {statuses.count(status)} still {status}" for status in ("running", "queued") if status in statuses]
    axes = executor_gantt(cut)
    assert words and axes.get_title("right").endswith("".join(words))
    assert any(row["finish_time"] == 30.0 for row in started(cut)) and boxes(axes, "copies")[:, 1].max() == 30.0


@pytest.mark.parametrize("jobs", [[], [Job(1, [3.0])], [Job(1, [0.0])]])
def test_small_runs(jobs):
    result = run(jobs, Executors([2.0]))
    axes = executor_gantt(result, critical_chain=True)
    assert len(boxes(axes, "copies")) == len(jobs)
    assert axes.get_xlim()[1] > axes.get_xlim()[0]
    check_layout(axes.figure)
    FigureCanvasAgg(axes.figure).draw()


def test_a_run_that_crashed_is_drawn_as_far_as_it_is_known(troubled):
    tables = {name: troubled.scan(name) for name in troubled.table_names}
    tables["copies"] = tables["copies"].filter(tables["copies"].collect()["finish_time"].is_not_null())
    tables["jobs"] = tables["jobs"].head(1)
    info = troubled.info | {"end_time": None, "status": "failed"}
    axes = executor_gantt(Result(tables, info), critical_chain=True)
    assert len(boxes(axes, "copies")) == len(started(troubled))
    assert axes.get_xlim()[1] == max(row["finish_time"] for row in started(troubled))


def test_a_window_shows_a_part(troubled):
    axes = executor_gantt(troubled, window=(20.0, 40.0))
    inside = [span for span in chosen(started(troubled)) if span[1] >= 20.0 and span[0] <= 40.0]
    assert axes.get_xlim() == (20.0, 40.0) and spans(axes, "copies") == inside
    assert all(20.0 <= text.get_position()[0] <= 40.0 for text in axes.texts)


@pytest.mark.parametrize("names", [1, 3])
def test_nothing_overlaps(names, troubled):
    results = {f"run {number}": troubled for number in range(names)}
    for options in ({}, {"critical_chain": True, "speeds": True}):
        (first, *_) = executor_gantt(results, **options)
        check_layout(first.figure)
    large = run(some_jobs(20), some_executors(50))
    check_layout(executor_gantt(large).figure)
    wanted = ["waiting for data", "duplicate", "cut by an outage", "executor down", "critical chain"]
    assert legend(first)[-5:] == wanted


def test_own_axes_are_used(troubled):
    figure = Figure(figsize=(6.0, 6.0))
    panels = list(figure.subplots(2, 1))
    assert gantt({"a": troubled, "b": troubled}, axes=panels) == panels
    assert len(boxes(panels[1], "copies")) == len(started(troubled))
    with pytest.raises(InvalidConfiguration, match="axes holds 2 Axes, want 1"):
        gantt(troubled, axes=panels)


def test_large_runs_are_few_artists():
    rng = np.random.default_rng(0)
    result = run([some_job(1000, rng)], some_executors(50))
    axes = executor_gantt(result, transfers=True, critical_chain=True, labels=False)
    assert len(axes.get_children()) < 30
    assert area(boxes(axes, "copies")) == pytest.approx(
        0.6 * sum(row["finish_time"] - row["starting_time"] for row in started(result))
    )


def test_wrong_arguments(troubled):
    batch = run_batch(batch_jobs(3, 2), 2)
    with pytest.raises(InvalidConfiguration, match="color_by is 'user', want one of 'job', 'label', 'node'"):
        gantt(troubled, color_by="user")
    with pytest.raises(InvalidConfiguration, match="by is 'core', which is not for results of the problem 'dag'"):
        gantt(troubled, by="core")
    with pytest.raises(InvalidConfiguration, match="transfers is 'some'"):
        executor_gantt(troubled, transfers="some")
    with pytest.raises(InvalidConfiguration, match="labels is 3"):
        executor_gantt(troubled, labels=3)
    with pytest.raises(InvalidConfiguration, match="window"):
        executor_gantt(troubled, window=(4.0, 4.0))
    with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'dag'"):
        executor_gantt(batch)
    with pytest.raises(InvalidConfiguration, match=r"results\['b'\] is a result of the problem 'batch', want 'dag'"):
        gantt({"a": troubled, "b": batch})
    with pytest.raises(InvalidConfiguration, match=r"results\['b'\] is a result of the problem 'dag', want 'batch'"):
        gantt({"a": batch, "b": troubled})
    with pytest.raises(InvalidConfiguration, match="empty mapping"):
        executor_gantt({})


def test_a_saved_run_draws_the_same(tmp_path, troubled):
    loaded = Result.load(troubled.save(tmp_path / "run"))
    assert spans(executor_gantt(loaded), "copies") == spans(executor_gantt(troubled), "copies")
    assert run([example()], THREE, agent=HEFT(), plan_ahead=True).jobs["finish_time"][0] == 80.0
