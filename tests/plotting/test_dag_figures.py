"""Figures of runs of DAG jobs: what is drawn is what the tables say, found by an inspection of every moment."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from batch_pictures import boxes, check_layout, find, legend
from batch_pictures import run as run_batch
from batch_pictures import some_jobs as batch_jobs
from dag_pictures import (
    Pinned,
    activities,
    down,
    heft,
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
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result, simulate
from desim.agents.dag import EFT, FIFO, HEFT, ListScheduler, RankUp, create
from desim.plotting import executor_utilization, gantt, jobs_in_system, pool_utilization, queue_length, utilization
from desim.problems.dag import Assign, DagCluster, Executors, Job, TaskCluster
from desim.problems.dag.figures import FIGURES
from desim.problems.dag.view import view
from desim.processes import Outage, planned_outages
from tests.agents.below_optimum import random_pools


class EveryNodeTwice:
    """Assigns each node to the fastest executor, and a second copy to the next."""

    name = "twice"

    def act(self, observation):
        for state, node in observation.ready.values():
            job_id = state.job.job_id
            return [Assign(job_id, node, 0), Assign(job_id, node, 1)]
        return None


@pytest.fixture(scope="module")
def planned() -> Result:
    return heft()


@pytest.fixture(scope="module")
def troubled() -> Result:
    return with_outages()


@pytest.fixture(scope="module")
def large() -> Result:
    return run(some_jobs(25, number=30), some_executors(6))


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
    # executor 2 runs all the time until 49, the others wait for the data of what HEFT has planned
    waits = [(0, 27, 0), (40, 57, 0), (0, 18, 1), (42, 56, 1), (68, 73, 1)]
    assert spans(axes, "waiting for data") == waits
    thin, bars = boxes(axes, "waiting for data"), boxes(axes, "copies")
    assert (thin[:, 3] - thin[:, 2]).max() < 0.5 * (bars[:, 3] - bars[:, 2]).min()
    assert len(arrows(axes)) == 9 and find(axes, "critical chain") is None


def test_the_critical_chain_of_the_published_schedule(planned):
    axes = gantt(planned, critical_chain=True)
    assert spans(axes, "critical chain") == [(73, 80, 1), (57, 62, 0), (26, 42, 1), (18, 26, 1), (0, 9, 2)]
    assert sorted((a, b) for a, _, b, _ in arrows(axes, "critical transfers")) == [(9, 18), (42, 57), (62, 73)]
    assert len(arrows(axes)) == 6


@pytest.mark.parametrize("until", [np.inf, 60.0])
def test_every_copy_that_started_is_a_bar(until):
    result = with_outages(until)
    axes, rows = gantt(result), started(result)
    assert spans(axes, "copies") == chosen(rows)
    assert spans(axes, "duplicate") == chosen([row for row in rows if row["duplicate"]])
    assert spans(axes, "cut by an outage") == chosen([row for row in rows if row["outcome"] == "interrupted"])
    assert sorted(spans(axes, "executor down")) == sorted((begin, end, k) for k, begin, end in down(result))
    assert spans(axes, "duplicate") and spans(axes, "cut by an outage")
    hatches = [find(axes, gid).get_hatch() for gid in ("copies", "duplicate", "cut by an outage", "executor down")]
    assert hatches[0] is None and None not in hatches[1:] and len(set(hatches)) == 4
    counts = result.jobs["status"].to_list()
    words = [f", {counts.count(name)} still {name}" for name in ("running", "waiting") if name in counts]
    duplicates = sum(row["duplicate"] for row in rows)
    doubled = f", {duplicates} duplicate" + "s" * (duplicates > 1)
    assert axes.get_title("right") == "".join(["4 jobs on 3 executors", doubled, *words])


def test_arrows_are_the_transfers_between_executors(troubled, large):
    table = troubled.table("transfers")
    moved = table.filter(table["source"] != table["destination"])
    drawn = arrows(gantt(troubled))
    assert len(drawn) == len(moved) > 5
    for (sent, begin, arrived, end), row in zip(drawn, moved.iter_rows(named=True), strict=True):
        assert sent == row["starting_time"] and arrived == pytest.approx(row["arrival_time"])
        assert (round(begin), round(end)) == (row["source"], row["destination"])
        assert abs(end - begin) < abs(row["source"] - row["destination"])  # from edge to edge
    assert int((large.table("transfers")["source"] != large.table("transfers")["destination"]).sum()) > 200
    assert arrows(gantt(large)) == []


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


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans(), st.booleans())
def test_a_critical_chain_spans_the_whole_run(seed, count, plan_ahead, duplicates):
    agent = None if duplicates else ListScheduler(RankUp(), EFT())
    result = run(some_jobs(3, seed=seed), some_executors(count, seed=seed), plan_ahead=plan_ahead, agent=agent)
    axes = gantt(result, critical_chain=True, labels=False)
    by_place = {(row["starting_time"], row["finish_time"], row["executor"]): row for row in started(result)}
    rows = [by_place[span] for span in spans(axes, "critical chain")]
    assert rows[0]["finish_time"] == result.jobs["finish_time"].max()
    assert all(tight(result, *pair) for pair in pairwise(rows))
    assert rows[-1]["starting_time"] == 0.0
    assert {arrow[2] for arrow in arrows(axes, "critical transfers")} <= {row["starting_time"] for row in rows}


def test_a_critical_chain_ends_where_an_executor_came_back():
    # the node is cut at 3 and starts anew when its executor is back
    axes = gantt(run([Job(1, [5.0])], Executors([1.0]), outage(3.0, 10.0, 0)), critical_chain=True)
    assert spans(axes, "copies") == [(0, 3, 0), (10, 15, 0)] and spans(axes, "critical chain") == [(10, 15, 0)]
    # the second node is cut on executor 1 and runs there again, with the data that it gets anew
    job = Job(1, [4.0, 10.0, 1.0], [(0, 1, 2.0), (1, 2, 5.0)])
    result = run([job], Executors([1.0, 1.0, 1.0], 1.0), outage(8.0, 12.0, 1), agent=Pinned())
    assert chosen(started(result)) == [(0, 4, 0), (6, 8, 1), (14, 24, 1), (29, 30, 2)]
    assert [begin for begin, *_ in spans(gantt(result, critical_chain=True), "critical chain")] == [29.0, 14.0, 0.0]


@pytest.mark.parametrize("color_by", ["job", "node", "label"])
def test_a_job_node_or_label_keeps_its_colour_and_neighbours_differ(color_by):
    result = run(some_jobs(12, seed=2), some_executors(2 if color_by == "node" else 5))
    axes, rows = gantt(result, color_by=color_by, labels=False), started(result)
    keys = {"job": lambda row: row["job_id"], "node": lambda row: (row["job_id"], row["node"])}
    key = keys.get(color_by, lambda row: row["job_id"] % 3)
    shades = colors(axes)
    drawn = {key(row): color for row, color in zip(rows, shades, strict=True)}
    assert [drawn[key(row)] for row in rows] == shades
    assert len(set(drawn.values())) == (3 if color_by == "label" else 8)
    if color_by == "label":
        assert sorted(legend(axes)[:3]) == ["q0", "q1", "q2"]
    if color_by != "node":
        return
    order = sorted(zip(chosen(rows), shades, map(key, rows), strict=True), key=lambda bar: (bar[0][2], bar[0]))
    touching = [(one, other) for one, other in pairwise(order) if one[0][1:] == (other[0][0], other[0][2])]
    assert len(touching) > 20
    assert all((one[1] == other[1]) == (one[2] == other[2]) for one, other in touching)


def test_names_of_nodes_jobs_and_executors():
    assert texts(gantt(run([Job(4, [3.0])], Executors([1.0])))) == ["0"]
    two = [Job(4, [3.0], names=["map"]), Job(5, [3.0])]
    assert texts(gantt(run(two, Executors([1.0, 1.0])))) == ["4:map", "5:0"]
    assert texts(gantt(run(two, Executors([1.0])), labels=False)) == []
    dollars = gantt(run([Job(4, [3.0], names=["$a_b$"])], Executors([1.0])))
    dollars.figure.draw_without_rendering()
    assert texts(dollars) == ["$a_b$"]
    job = some_job(5, np.random.default_rng(0))

    def marks(executors: Executors, **options) -> list[str]:
        return [label.get_text() for label in gantt(run([job], executors), **options).get_yticklabels()]

    assert marks(Executors([1.0, 2.5])) == ["0", "1"]
    assert marks(Executors([1.0, 2.5], names=["left", "right"]), speeds=True) == ["left (1)", "right (2.5)"]
    assert marks(Executors(np.ones(300))) == [str(number) for number in range(0, 300, 10)]


def test_tasks_of_nodes():
    job = Job(1, [6.0, 2.0], [(0, 1, 1.0)], num_tasks=[3, 1], names=["map", "reduce"])
    cluster = TaskCluster([job], Executors([1.0, 1.0], 1.0), moving_delay=1.0)
    axes = gantt(simulate(cluster, ListScheduler(RankUp(), EFT())), critical_chain=True)
    assert texts(axes) == ["map/0", "map/1", "map/2", "reduce/0"]
    assert spans(axes, "critical chain") == [(4, 6, 0), (2, 4, 0), (0, 2, 0)]
    two = TaskCluster([Job(1, [4.0], num_tasks=[2]), Job(2, [3.0])], Executors([1.0]), moving_delay=1.0)
    axes = gantt(simulate(two, ListScheduler(FIFO(), EFT())), critical_chain=True)
    assert spans(axes, "critical chain") == [(5, 8, 0), (2, 4, 0), (0, 2, 0)]
    assert spans(axes, "waiting for data") == [(4, 5, 0)]


def test_a_run_that_crashed_is_drawn_as_far_as_it_is_known(troubled):
    tables = {name: troubled.scan(name) for name in troubled.table_names}
    tables["copies"] = tables["copies"].filter(tables["copies"].collect()["finish_time"].is_not_null())
    tables["jobs"] = tables["jobs"].head(1)
    axes = gantt(Result(tables, troubled.info | {"end_time": None, "status": "failed"}), critical_chain=True)
    assert len(boxes(axes, "copies")) == len(started(troubled)) and axes.get_title("left").endswith("(failed)")
    assert axes.get_xlim()[1] == max(row["finish_time"] for row in started(troubled))


def test_nothing_overlaps(troubled, large):
    panels = gantt({f"run {number}": troubled for number in range(3)}, critical_chain=True, speeds=True)
    check_layout(panels[0].figure)
    wanted = ["waiting for data", "duplicate", "cut by an outage", "executor down", "critical chain"]
    assert legend(panels[0])[-5:] == wanted
    shares = executor_utilization({"one": troubled, "two": large}, speeds=True)
    assert [panel.get_xlabel() for panel in shares] == ["", "share of the time (%)"]
    check_layout(shares[0].figure)
    faces = [to_hex(collection.get_facecolor()[0]) for collection in shares[0].collections]
    assert len(set(faces)) == len(faces) >= 5


def shares_of(axes, executor: int) -> dict[str, float]:
    """Return the lengths of the parts of a bar, by name."""
    found = {}
    for collection in axes.collections:
        rows = boxes(axes, collection.get_gid())
        inside = rows[np.abs(rows[:, 2:].mean(axis=1) - executor) < 1e-9]
        if len(inside):
            found[collection.get_gid()] = float((inside[:, 1] - inside[:, 0]).sum())
    return found


def agree(axes, result: Result) -> None:
    end = result.info["end_time"]
    for executor in range(result.info["num_executors"]):
        drawn = shares_of(axes, executor)
        assert sum(drawn.values()) == pytest.approx(100.0)
        drawn["copies"] = drawn.pop("useful copies", 0.0) + drawn.pop("useless copies", 0.0)
        for name, seconds in activities(result, executor).items():
            assert drawn.get(name, 0.0) == pytest.approx(100.0 * seconds / end, abs=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([np.inf, 70.0]))
def test_parts_are_what_executors_did(seed, count, plan_ahead, twice, until):
    twice = twice and count > 1
    agent = EveryNodeTwice() if twice else HEFT() if plan_ahead else None
    outages = [] if twice else [outage(15.0, 40.0, 0), outage(60.0, 65.0, count - 1)]
    result = run(
        some_jobs(3, seed=seed),
        some_executors(count, seed=seed),
        *outages,
        plan_ahead=plan_ahead and not twice,
        agent=agent,
        until=until,
    )
    axes = executor_utilization(result)
    parts = [shares_of(axes, executor) for executor in range(count)]
    wasted = sum(part.get(name, 0.0) for part in parts for name in ("useless copies", "interrupted copies"))
    assert result.metrics()["wasted_time"] == pytest.approx(wasted / 100.0 * result.info["end_time"])
    agree(axes, result)
    useful = [part.get("useful copies", 0.0) for part in parts]
    assert axes.get_title("right") == f"on average {np.mean(useful):.3g} % useful"
    chart = gantt(result, labels=False)
    busy = sorted((row, begin, end) for gid in BUSY for begin, end, row in spans(chart, gid) if end > begin)
    assert all(one[0] != other[0] or one[2] <= other[1] for one, other in pairwise(busy))


BUSY = ("copies", "waiting for data", "executor down")


def test_a_copy_that_nobody_needs_is_useless():
    # both copies of the first node finish, and the copies of the second one take their data from the one on executor 0;
    # the job is over while the second copy of the second node still runs
    job = Job(1, [2.0, 3.0], [(0, 1, 0.0)])
    axes = executor_utilization(run([job], Executors([2.0, 1.0], 1.0), agent=EveryNodeTwice()))
    assert [shares_of(axes, executor) for executor in (0, 1)] == [{"useful copies": 100.0}, {"useless copies": 100.0}]
    empty = executor_utilization(run([], Executors([1.0, 1.0])))
    assert len(empty.collections) == 0 and empty.get_title("right") == "on average 0 % useful"
    late = run([Job(1, [10.0], submission_time=90.0)], Executors([1.0, 0.5]))
    assert shares_of(executor_utilization(late), 0) == {"useful copies": 100.0}
    assert utilization(late).get_xlim() == (90.0, 100.0)


def curve(axes) -> tuple[np.ndarray, np.ndarray]:
    (line,) = [line for line in axes.get_lines() if line.get_gid() == "curve"]
    return line.get_data()


def at(times: np.ndarray, values: np.ndarray, moment: float) -> float:
    return values[np.searchsorted(times, moment, side="right") - 1]


@pytest.mark.parametrize("until", [np.inf, 55.0])
def test_curves_count_at_every_moment(until):
    result = with_outages(until)
    counts, shares, jobs = utilization(result, unit="executors"), utilization(result), jobs_in_system(result)
    (limit,) = [line for line in counts.get_lines() if line.get_gid() == "limit"]
    rows = started(result)
    for moment in np.linspace(0.01, result.info["end_time"] - 0.01, 60):
        running = sum(row["starting_time"] <= moment < row["finish_time"] for row in rows)
        up = 3 - sum(begin <= moment < end for _, begin, end in down(result))
        there = sum(
            row["submission_time"] <= moment and (row["finish_time"] is None or moment < row["finish_time"])
            for row in result.jobs.iter_rows(named=True)
        )
        assert at(*curve(counts), moment) == running and at(*limit.get_data(), moment) == up
        assert at(*curve(shares), moment) == pytest.approx(100.0 * running / up)
        assert at(*curve(jobs), moment) == there
    assert legend(counts) == ["executors up"]
    assert counts.get_ylabel() == "running executors" and shares.get_ylabel() == "utilization\n(% of executors up)"
    total = sum(row["finish_time"] - row["starting_time"] for row in rows)
    times, values = curve(utilization(result, unit="executors", bin_width=10.0))
    assert float((np.diff(times) * values[:-1]).sum()) == pytest.approx(total)


def test_wrong_arguments(troubled):
    batch = run_batch(batch_jobs(3, 2), 2)
    two = list(Figure().subplots(2, 1))
    for draw, results, options, message in (
        (gantt, troubled, {"color_by": "user"}, "color_by: got 'user', expected one of 'job', 'label', 'node'"),
        (gantt, troubled, {"window": (4.0, 4.0)}, "window"),
        (gantt, troubled, {"axes": two}, "axes: got 2 Axes, expected 1"),
        (gantt, {"a": troubled, "b": batch}, {}, r"results\['b'\]: got a result of problem 'batch', expected 'dag'"),
        (utilization, troubled, {"unit": "cores"}, "unit: got 'cores', expected one of 'percent', 'executors'"),
        (queue_length, troubled, {}, "problem 'dag', expected 'batch'"),
        (jobs_in_system, batch, {}, "problem 'batch', expected 'dag'"),
        (executor_utilization, batch, {}, "problem 'batch', expected 'dag'"),
    ):
        with pytest.raises(InvalidConfiguration, match=message):
            draw(results, **options)


# -- pools ----------------------------------------------------------------------------------------


def on_pools() -> Result:
    """Return a run with an outage on two pools, on which several copies run at once."""
    jobs, pools = random_pools(1)
    cluster = DagCluster(jobs, pools, processes=[planned_outages([Outage(5.0, 9.0, executors=[0])])])
    return simulate(cluster, create("rank-up-eft-idle"))


def test_copies_on_a_pool_do_not_cover_each_other() -> None:
    result = on_pools()
    axes = gantt(result)
    found = boxes(axes, "copies")  # begin, end, lower and upper edge
    assert len(found) == result.table("copies")["starting_time"].is_not_null().sum()
    at_once = 0
    for one, other in combinations(found.tolist(), 2):
        together = min(one[1], other[1]) - max(one[0], other[0]) > 1e-9
        apart = min(one[3], other[3]) - max(one[2], other[2]) <= 1e-9
        assert apart or not together
        at_once += together and round((one[2] + one[3]) / 2) == round((other[2] + other[3]) / 2)
    assert at_once > 0


def test_amounts_held_add_up_to_the_utilization() -> None:
    result = on_pools()
    axes = pool_utilization(result)
    metrics, pools = result.metrics(), result.table("executors")
    for name, line in zip(result.info["resources"], axes.get_lines(), strict=True):
        time, share = line.get_data()
        up = np.full(len(time), pools[f"capacity_{name}"].sum())
        up[(time >= 5.0) & (time < 9.0)] -= pools[f"capacity_{name}"][0]
        held = np.nan_to_num(np.asarray(share))[:-1] / 100 * up[:-1] * np.diff(time)
        assert held.sum() / (up[:-1] * np.diff(time)).sum() == pytest.approx(metrics[f"utilization_{name}"])
    assert axes.get_title("right").startswith("on average ")
    assert {name for name, figure in FIGURES.items() if figure.suits([result])} == {"gantt", "pools", "jobs"}
    with pytest.raises(InvalidConfiguration, match="expected a run on pools"):
        pool_utilization(simulate(DagCluster([Job(1, [1.0])], Executors([1.0])), create("heft")))


def test_the_interactive_view_has_rows_for_what_runs_at_once() -> None:
    result = on_pools()
    seen = view(result)
    chart = seen.charts["executors"]
    copies = result.table("copies").filter(result.table("copies")["starting_time"].is_not_null())
    owned = chart.owner >= 0
    rows = list(zip(chart.first[owned], chart.begin[owned], chart.end[owned], strict=True))
    assert len(rows) == len(copies)
    for one, other in combinations(sorted(rows), 2):
        assert one[0] != other[0] or one[2] <= other[1]
    assert {name for name in seen.curves if name.startswith("utilization")} == {
        f"utilization_{name}" for name in result.info["resources"]
    }
    assert all(0.0 <= value <= 100.0 for name in seen.curves for value in seen.curves[name].value if "util" in name)
    with pytest.raises(InvalidConfiguration, match="try pool_utilization"):
        utilization(result)
