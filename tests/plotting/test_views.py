"""What an interactive page shows of runs, as arrays: beside what is counted directly from the records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim import Result, plotting, simulate
from desim.agents.batch import create
from desim.agents.dag import create as dag_agent
from desim.agents.deferrable import create as deferrable_agent
from desim.agents.multiserver import Fairness
from desim.exceptions import InvalidConfiguration
from desim.plotting import view
from desim.plotting.curves import bin_averages
from desim.plotting.maps import coverage
from desim.plotting.packing import Pool, unpacked
from desim.plotting.views import LOOKS, Curve, Lanes, Map, free_rows, lanes_of, plain_view
from desim.problems.batch import BatchCluster, Node, QualityOfService, Request
from desim.problems.batch import Job as BatchJob
from desim.problems.batch.cores import parse_core_sets
from desim.problems.batch.figures import steps_of
from desim.problems.batch.view import view as batch_view
from desim.problems.dag import DagCluster, Executors, Job
from desim.problems.dag.view import view as dag_view
from desim.problems.deferrable import DeferrableCluster
from desim.problems.deferrable.view import view as deferrable_view
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
from desim.problems.multiserver.view import view as multiserver_view
from desim.processes import Outage, planned_outages, random_outages
from desim.workloads import lublin
from desim.workloads.deferrable.generator import Settings, generate


def run_of(agent: str = "easy-fcfs", *, seed: int = 1, outages: Any = ()) -> Result:
    jobs, processes = lublin.generate(120, 32, seed=seed, load=0.9), [planned_outages(outages)] if outages else []
    return simulate(BatchCluster(jobs, 32, processes=processes), create(agent))


def data_of(page: Path) -> dict[str, Any]:
    """Return what a page holds for its script."""
    found = re.search(r'id="desim-data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def arrays_of(page: Path) -> str:
    found = re.search(r'id="desim-arrays">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def value_at(curve: Curve, time: float) -> float:
    return float(curve.value[np.searchsorted(curve.time, time, side="right") - 1])


def test_a_batch_run_has_a_rectangle_for_each_range_of_cores() -> None:
    result = run_of()
    found = batch_view(result)
    lanes = found.charts["cores"]
    assert isinstance(lanes, Lanes)
    expected = set()
    for job in result.jobs.iter_rows(named=True):
        for _, first, last in parse_core_sets(pl.Series([job["allocated_resources"]])).iter_rows():
            expected.add((job["starting_time"], job["finish_time"], first, last, job["arrival_number"]))
    shown = (lanes.begin, lanes.end, lanes.first, lanes.last, lanes.owner)
    assert set(zip(*(part.tolist() for part in shown), strict=True)) == expected
    assert (np.diff(lanes.begin) >= 0).all()
    assert set(lanes.look.tolist()) == {LOOKS.index("runs")}


def test_curves_of_a_batch_run_count_what_the_records_say() -> None:
    result = run_of("fcfs")
    curves, jobs = batch_view(result).curves, result.jobs
    for time in np.linspace(0.0, result.span[1] * 0.999, 40).tolist():
        running = (jobs["starting_time"] <= time) & (jobs["finish_time"] > time)
        queued = (jobs["submission_time"] <= time) & (jobs["starting_time"] > time)
        busy = jobs.filter(running)["requested_number_of_resources"].sum()
        assert value_at(curves["utilization"], time) == pytest.approx(100.0 * busy / 32)
        assert value_at(curves["queue"], time) == queued.sum()


def test_outages_are_shown() -> None:
    end = run_of().end_time
    result = run_of(outages=[Outage(0.3 * end, 0.4 * end, cores=range(4, 20))])
    found = batch_view(result)
    lanes = found.charts["cores"]
    assert isinstance(lanes, Lanes)
    down = lanes.look == LOOKS.index("down")
    assert [(lanes.first[i], lanes.last[i]) for i in np.flatnonzero(down)] == [(4, 19)]
    assert (lanes.owner[down] == -1).all()
    assert int((lanes.look == LOOKS.index("cut")).sum()) >= int(result.table("interruptions").height > 0)
    assert found.curves["up"].bound is not None
    assert found.curves["up"].bound.min() == 16


def test_a_problem_without_a_view_shows_its_jobs() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submission_time": [0, 1, 2],
            "starting_time": [0, 3, None],
            "finish_time": [3, 4, None],
        }
    )
    result = Result({"jobs": jobs.lazy()}, {"problem": "batch", "agent": "x", "end_time": 5.0, "status": "complete"})
    found = plain_view(result)
    lanes = found.charts["jobs"]
    assert isinstance(lanes, Lanes)
    looks = [(LOOKS[look], *times) for look, *times in zip(lanes.look, lanes.begin, lanes.end, strict=True)]
    assert sorted(looks) == [("runs", 0, 3), ("runs", 3, 4), ("waiting", 1, 3), ("waiting", 2, 5)]
    assert [value_at(found.curves["waiting"], time) for time in (0.5, 1.5, 2.5, 3.5)] == [0, 1, 2, 1]
    assert [value_at(found.curves["running"], time) for time in (0.5, 3.5, 4.5)] == [1, 1, 0]
    assert plain_view(Result({}, {})).charts == {}


def test_the_script_of_the_page_has_words_for_every_look() -> None:
    script = (Path(plotting.__file__).parent / "view.js").read_text()
    for name, known in (("LOOK_WORDS", LOOKS[1:]), ("LOOK_COLORS", LOOKS[LOOKS.index("down") :])):
        found = re.search(rf"const {name} = \{{(.*?)\}};", script, re.DOTALL)
        assert found is not None
        assert set(re.findall(r"(\w+): \"", found[1])) == set(known), name


def test_what_lies_behind_comes_first() -> None:
    one = {"begin": [1.0], "end": [2.0], "first": [0]}
    lanes = lanes_of("rows", 1, [one, one | {"look": "window", "texts": ["w"]}])
    assert [LOOKS[look] for look in lanes.look] == ["window", "runs"]
    assert lanes.texts == ["w", ""]
    assert lanes_of("rows", 1, []).begin.tolist() == []


@given(
    st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), max_size=30),
    st.lists(st.integers(-(2**30), 2**30), max_size=30),
)
def test_packed_arrays_come_back(times: list[float], numbers: list[int]) -> None:
    pool = Pool(-1e9, 1e9)
    packed, whole = pool.times(times), pool.numbers(numbers)
    assert pool.numbers(numbers) == whole
    text = pool.text()
    assert text == pool.text()
    np.testing.assert_allclose(
        unpacked(text, packed), np.array(times, dtype=float), atol=2.0
    )  # a billionth of the span
    assert unpacked(text, whole).tolist() == numbers


def test_a_page_needs_nothing_else_and_is_the_same_again(tmp_path: Path) -> None:
    results = {name: run_of(name) for name in ("fcfs", "easy-fcfs")}
    page = view(results, tmp_path / "a.html", title="Two <policies>", notes=["A note."], made={"command": "none"})
    assert (
        page.read_bytes()
        == view(
            results, tmp_path / "b.html", title="Two <policies>", notes=["A note."], made={"command": "none"}
        ).read_bytes()
    )
    text = page.read_text()
    assert "Two &lt;policies&gt;" in text
    outside = re.findall(
        r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?(?!data:)([^\"'> ]+)", text.split("<script>\n")[0]
    )
    assert outside == []
    data = data_of(page)
    assert [run["name"] for run in data["runs"]] == ["fcfs", "easy-fcfs"]
    begin = unpacked(arrays_of(page), data["charts"][1]["begin"])
    starts = results["easy-fcfs"].jobs["starting_time"].to_numpy()
    np.testing.assert_allclose(begin[np.searchsorted(begin, starts - 0.001)], starts, atol=0.001)
    # what both runs share, such as the jobs' sizes, stands there once
    first, second = ({column["name"]: column["values"] for column in card["columns"]} for card in data["cards"])
    assert first["requested_number_of_resources"] == second["requested_number_of_resources"]
    assert first["starting_time"] != second["starting_time"]


def test_a_page_of_runs_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="metrics: got those of"):
        view({"a": run_of()}, tmp_path / "a.html", metrics={"b": {}})


def test_bokeh_is_loaded_when_a_page_is_written() -> None:
    code = "import sys, desim, desim.plotting.interactive, desim.cli.view; assert 'bokeh' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=40))
def test_intervals_in_free_rows_never_meet(spans: list[tuple[int, int]]) -> None:
    begin, end = np.array([span[0] for span in spans]), np.array([sum(span) for span in spans])
    rows = free_rows(begin, end)
    for one in range(len(spans)):
        for other in range(one):
            assert rows[one] != rows[other] or begin[one] >= end[other] or begin[other] >= end[one]
    most = max((int(((begin <= time) & (end > time)).sum()) for time in begin.tolist()), default=0)
    assert rows.max(initial=-1) + 1 == most


def test_a_dag_run_shows_copies_transfers_and_the_critical_chain() -> None:
    jobs = [Job(number, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc") for number in range(3)]
    result = simulate(DagCluster(jobs, Executors([1.0, 2.0], 10.0), plan_ahead=True), dag_agent("heft"))
    found = dag_view(result)
    lanes, copies = found.charts["executors"], result.table("copies")
    assert isinstance(lanes, Lanes)
    front = np.isin(lanes.look, [LOOKS.index(look) for look in ("runs", "critical", "duplicate", "cut")])
    shown = set(zip(lanes.begin[front], lanes.end[front], lanes.first[front], lanes.owner[front], strict=True))
    columns = copies.select("starting_time", "finish_time", "executor", "arrival_number")
    assert shown == set(columns.iter_rows())
    critical = lanes.look == LOOKS.index("critical")
    assert lanes.end[critical].max() == result.span[1]
    transfers = result.table("transfers").filter(pl.col("source") != pl.col("destination"))
    assert lanes.arrows is not None
    assert sorted(lanes.arrows.begin.tolist()) == sorted(transfers["starting_time"].to_list())
    for time in np.linspace(0.0, result.span[1] * 0.999, 20).tolist():
        running = ((copies["starting_time"] <= time) & (copies["finish_time"] > time)).sum()
        assert value_at(found.curves["utilization"], time) == pytest.approx(50.0 * running)


def test_deferrable_jobs_show_windows_and_what_they_hold() -> None:
    scenario = generate(Settings(num_slots=40), seed=2)
    result = simulate(DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=40), deferrable_agent("fifo"))
    found = deferrable_view(result)
    lanes = found.charts["jobs"]
    assert isinstance(lanes, Lanes)
    windows = np.isin(lanes.look, [LOOKS.index("window"), LOOKS.index("expired")])
    shown = set(zip(lanes.begin[windows], lanes.end[windows], lanes.owner[windows], strict=True))
    columns = result.jobs.select("earliest_start", pl.col("latest_start") + 1, "arrival_number")
    assert shown == set(columns.iter_rows())
    assert int((lanes.look == LOOKS.index("runs")).sum()) == result.jobs["starting_time"].count()
    slots = result.table("slots")
    assert found.curves["cores"].value[:-1].tolist() == slots["used_cores"].to_list()
    assert found.curves["cores"].bound is not None
    assert found.curves["cores"].bound[:-1].tolist() == slots["capacity_cores"].to_list()


def test_a_multi_server_run_shows_shares_of_nodes() -> None:
    graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], resources=["cpu"])
    result = simulate(MultiServerCluster(RewardModel(graph, "log"), np.ones((5, 2), dtype=bool)), Fairness())
    found = multiserver_view(result)
    shares = found.charts["nodes"]
    assert isinstance(shares, Map)
    given = result.table("allocations").group_by("slot", "node").agg(pl.col("amount").sum())
    for slot, node, amount in given.iter_rows():
        capacity = {"node0": 3.0, "node1": 4.0}[str(node)]
        assert shares.values[list(shares.rows).index(str(node)), slot] == pytest.approx(amount / capacity)
    assert found.curves["reward"].value[:-1].tolist() == result.table("slots")["reward"].to_list()


def test_cores_are_named_after_nodes_and_gpus_shown_by_their_shares() -> None:
    nodes = [Node("a", 8, gpus=2), Node("b", 4, gpus=1)]
    jobs = [
        BatchJob.of_tasks(1, 0.0, Request(1, cores=2, gpus=0.5), 10.0, 10.0),
        BatchJob.of_tasks(2, 0.0, Request(1, cores=2, gpus=0.5), 20.0, 20.0),
        BatchJob.of_tasks(3, 1.0, Request(1, cores=1, gpus=2), 10.0, 10.0),
    ]
    result = simulate(BatchCluster(jobs, nodes=nodes), create("fcfs"))
    charts = batch_view(result).charts
    cores, gpus = charts["cores"], charts["gpus"]
    assert isinstance(cores, Lanes)
    assert isinstance(gpus, Lanes)
    assert dict(cores.groups) == {"a": 0, "b": 8}
    held = sum(len(gpu.split(" ")) for gpu in result.table("placements")["gpus"].to_list() if gpu)
    assert len(gpus.begin) == held
    assert sorted(gpus.texts).count("50 %") == 2
    for one in range(held):
        for other in range(one):
            apart = gpus.begin[one] >= gpus.end[other] or gpus.begin[other] >= gpus.end[one]
            assert apart or gpus.first[one] != gpus.first[other]


def test_a_page_of_a_run_without_jobs(tmp_path: Path) -> None:
    view(simulate(BatchCluster([], num_cores=4), create("fcfs")), tmp_path / "empty.html")
    assert data_of(tmp_path / "empty.html")["runs"]


def test_a_long_run_opens_on_its_busiest_day(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    begin = np.sort(np.concatenate([rng.uniform(0.0, 864_000.0, 1_600), rng.uniform(345_600.0, 430_000.0, 400)]))
    begin[0] = 0.0
    jobs = pl.DataFrame({"submission_time": begin, "starting_time": begin, "finish_time": begin + 600.0})
    info = {"problem": "tickets", "agent": "x", "status": "complete", "end_time": 864_600.0}
    page = view({"one": Result({"jobs": jobs.lazy()}, info)}, tmp_path / "long.html")
    assert data_of(page)["opening"] == [345_600.0, 432_000.0]
    page = view({"one": Result({"jobs": jobs[:200].lazy()}, info)}, tmp_path / "short.html")
    assert data_of(page)["opening"] is None


@pytest.mark.parametrize("suspends", [False, True])
def test_very_long_runs_are_shown_as_means(suspends: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Map and curves equal the means of what happened core by core, with interrupted, suspended and lost jobs."""
    levels = [
        QualityOfService("high", 1.0, ("low",)),
        QualityOfService("low", mode="suspend" if suspends else "requeue"),
    ]
    jobs = [
        job._replace(qos="high" if row % 5 == 0 else "low")
        for row, job in enumerate(lublin.generate(150, 40, seed=3, load=1.1))
    ]
    failures = [] if suspends else [random_outages(4e5, 2e4)]
    cluster = BatchCluster(jobs, 40, qos=levels, processes=failures, on_outage="requeue" if suspends else "lose")
    run = simulate(cluster, create("preemptive-easy"), out=tmp_path / "run")
    assert run.height("interruptions") >= 5
    monkeypatch.setattr("desim.problems.batch.view.MOST_JOBS", 100)
    monkeypatch.setattr("desim.problems.batch.view.BANDS", 9)
    found = batch_view(run)
    part = found.charts["cores"]
    assert isinstance(part, Map)
    assert part.rows[0] == "0-3"
    assert part.rows[-1] == "36-39"
    assert part.things == 40
    means = bin_averages(steps_of(run), part.edges)
    share = 100.0 * means["busy"].to_numpy() / means["up"].to_numpy()
    assert np.allclose(found.curves["queue"].value[-1], means["queued"][-1])
    queued = np.interp(part.edges[:-1], found.curves["queue"].time, np.arange(len(found.curves["queue"].time)))
    assert np.allclose(found.curves["queue"].value[np.floor(queued).astype(int)], means["queued"], atol=1e-6)
    if not suspends:
        used = np.interp(
            part.edges[:-1], found.curves["utilization"].time, np.arange(len(found.curves["utilization"].time))
        )
        assert np.allclose(found.curves["utilization"].value[np.floor(used).astype(int)], share, atol=1e-6)
    page = view({"run": run}, tmp_path / "page.html")
    assert "150 jobs, more than the 100 that a page shows one by one" in page.read_text()
    assert data_of(page)["charts"][0]["kind"] == "map"


def test_coverage_of_a_map_by_rectangles() -> None:
    """Shares equal those that cells of unit size give, and outside the map nothing counts."""
    rng = np.random.default_rng(5)
    begin, end = np.sort(rng.integers(-3, 23, (2, 50)), axis=0).astype(float)
    first, last = np.sort(rng.integers(0, 13, (2, 50)), axis=0)
    units = np.zeros((12, 20))
    for a, b, c, d in zip(begin.clip(0), end.clip(0), first, last, strict=True):
        units[c:d, int(a) : int(b)] += 1.0
    edges, row_edges = np.array([0.0, 4.0, 5.0, 20.0]), np.array([0.0, 1.0, 6.0, 12.0])
    sums = np.add.reduceat(np.add.reduceat(units, [0, 4, 5], axis=1), [0, 1, 6], axis=0)
    shares = coverage(begin, end, edges, first=first, last=last, row_edges=row_edges)
    assert np.allclose(shares, sums / np.outer(np.diff(row_edges), np.diff(edges)))
