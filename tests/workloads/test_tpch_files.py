"""TPC-H files: exact jobs, the published figures, task durations, and every named error."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from tpch_documents import MEASURED, Document, durations, stages, write

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag import to_networkx
from desim.problems.dag.job import Job
from desim.workloads import tpch

measured = pytest.mark.skipif(not MEASURED.is_dir(), reason="needs the TPC-H measurements in the shared data")


def seconds(job: Job) -> float:
    return float(job.work.sum()) / tpch.REFERENCE_SPEED


def critical_path(job: Job) -> float:
    """Return the longest path with one mean task a stage, in seconds, by networkx."""
    graph = to_networkx(job)
    for name in graph:
        data = graph.nodes[name]
        for parent in graph.predecessors(name):
            graph.edges[parent, name]["weight"] = data["work"] / data["num_tasks"] / tpch.REFERENCE_SPEED
    start = {name: graph.nodes[name] for name in graph if not graph.in_degree(name)}
    for name, data in start.items():
        weight = data["work"] / data["num_tasks"] / tpch.REFERENCE_SPEED
        graph.add_edge("start", name, weight=weight)
    return float(nx.dag_longest_path_length(graph))


# -- the measurements ------------------------------------------------------------------------------


@measured
def test_figures_of_all_queries_and_sizes() -> None:
    with (MEASURED / "tpch_summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    sizes = sorted({int(row["size_gb"]) for row in rows})
    jobs = {job.label: job for job in tpch.read(MEASURED, sizes)}
    assert len(rows) == len(jobs) == 154
    for row in rows:
        job = jobs[f"tpch-q{row['query']}-{row['size_gb']}g"]
        assert (job.num_nodes, job.num_edges) == (int(row["num_stages"]), int(row["num_edges"]))
        assert nx.dag_longest_path_length(to_networkx(job), weight=None) + 1 == int(row["depth_stages"])
        assert job.num_tasks.sum() == int(row["num_tasks"])
        assert seconds(job) == pytest.approx(float(row["total_work_s"]), abs=0.001)
        expected = float(row["critical_path_one_task_per_stage_s"])
        assert critical_path(job) == pytest.approx(expected, abs=0.001)
        assert not job.child_size.any()


@measured
def test_totals() -> None:
    jobs = tpch.read(MEASURED, [100])
    assert (sum(job.num_nodes for job in jobs), sum(job.num_edges for job in jobs)) == (202, 187)
    assert sum(map(seconds, jobs)) == pytest.approx(47_110.3, abs=0.05)
    assert [job.job_id for job in jobs] == list(range(22))
    all_sizes = tpch.read(MEASURED)
    assert len(all_sizes) == 132
    assert np.mean([*map(seconds, all_sizes)]) == pytest.approx(946.8, abs=0.05)


@measured
@pytest.mark.parametrize("size", [2, 100])
def test_task_durations_agree_with_the_stages(size: int) -> None:
    document = json.loads((MEASURED / f"tpch_{size}g.json").read_bytes())["queries"]
    for job in tpch.read(MEASURED, [size], task_times=True):
        stage_list = document[job.label.split("-")[1][1:]]["stages"]
        assert job.task_times is not None
        for stage, times, count, work in zip(stage_list, job.task_times, job.num_tasks, job.work, strict=True):
            assert times.mean() == pytest.approx(stage["mean_all"] / 1e3, abs=1e-6)
            assert times.mean() * count * tpch.REFERENCE_SPEED == pytest.approx(work, rel=1e-4)
            assert times.reference_speed == tpch.REFERENCE_SPEED
            for run, count_of_executors in enumerate(times.executors):
                known = stage["by_executors"][str(count_of_executors)]
                lists = (times.fresh, times.first, times.first_warm, times.rest)
                found = [len(values[run]) for values in lists]
                assert found == [known[f"n_{wave}"] for wave in ("fresh", "first", "first_warm", "rest")]
                total = times.first[run].sum() + times.rest[run].sum()
                assert total == pytest.approx(known["sum_ms"] / 1e3)
                for values, wave in zip(lists, ("fresh", "first", "first_warm", "rest"), strict=True):
                    if len(values[run]):
                        assert values[run].mean() == pytest.approx(known[f"mean_{wave}"] / 1e3, abs=1e-6)


@measured
def test_mutilated_measurements_give_named_errors_or_jobs(tmp_path: Path) -> None:
    rng = random.Random(0)
    content = json.loads((MEASURED / "tpch_2g.json").read_bytes())
    small = {"queries": {query: content["queries"][query] for query in ("6", "14")}}
    text = bytearray(json.dumps(small).encode())
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(text)
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(damaged))
            damaged[start : start + rng.randint(0, 3)] = rng.choice(
                [b"", b"9", b"-", b"[", b'"', b"null", b"e9", b"\xff"]
            )
        write(tmp_path, bytes(damaged))
        try:
            outcomes.add(len(tpch.read(tmp_path, [2], [6, 14])))
        except WorkloadError as error:
            assert str(tmp_path) in str(error)
            outcomes.add(-1)
    assert outcomes == {-1, 2}


# -- small files -----------------------------------------------------------------------------------


def test_a_job_is_exactly_what_the_file_says(tmp_path: Path) -> None:
    job, other = tpch.read(write(tmp_path), [2], [1, 7])
    assert (job.job_id, job.label, job.names) == (0, "tpch-q1-2g", ("stage0", "stage1", "stage2"))
    assert (job.work / tpch.REFERENCE_SPEED).tolist() == [6.0, 1.0, 0.0]
    assert job.num_tasks.tolist() == [4, 2, 1]
    assert job.parents(2).tolist() == [0, 1]
    assert (job.submission_time, job.task_times) == (0.0, None)
    assert (other.job_id, other.label, other.work.tolist()) == (1, "tpch-q7-2g", [6 * tpch.REFERENCE_SPEED])


def test_task_durations_are_exactly_what_the_file_says(tmp_path: Path) -> None:
    job = tpch.read(write(tmp_path), [2], [1], task_times=True)[0]
    assert job.task_times is not None
    times = job.task_times[0]
    assert times.executors == (2, 10)
    assert [values.tolist() for values in times.fresh] == [[3.0], []]
    assert [values.tolist() for values in times.first_warm] == [[1.0], [2.0, 3.0]]
    assert [values.tolist() for values in times.rest] == [[1.0, 1.0], [0.5, 0.5]]
    assert (times.warm_up, times.reference_speed) == (1.0, tpch.REFERENCE_SPEED)


def at(document: Document, *path: Any) -> Any:
    """Return what lies at a path inside a document."""
    for key in path:
        document = document[key]
    return document


def changed(document: Document, path: tuple[Any, ...], value: Any) -> Document:
    at(document, *path[:-1])[path[-1]] = value
    return document


def without(document: Document, *path: Any) -> Document:
    del at(document, *path[:-1])[path[-1]]
    return document


FIRST = ("queries", "1", "stages", 0)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (gzip.compress(b"{}" * 5_000, mtime=0)[:-9], "corrupt gzip data"),
        ([], "got a JSON list, expected a JSON object"),
        (changed(stages(), ("size_gb",), 5), "size_gb: got 5, expected 2"),
        (changed(stages(), ("time_unit",), "s"), "time_unit: got 's', expected 'ms'"),
        (without(stages(), "queries", "1"), "queries: 1: got nothing, expected a JSON object"),
        (without(stages(), "queries", "1", "stages"), "query 1: stages: got nothing, expected a JSON list"),
        (changed(stages(), ("queries", "1", "stages"), []), "query 1: stages: got an empty list"),
        (changed(stages(), ("queries", "1", "edges"), [[0, 2]]), r"query 1: edge \[1, 2\]: expected it in both edges"),
        (changed(stages(), FIRST, 3), r"query 1: stages\[0\]: got 3, expected a JSON object"),
        (changed(stages(), (*FIRST, "stage"), 4), "query 1, stage 0: stage: got 4"),
        (without(stages(), *FIRST, "parents"), "query 1, stage 0: parents: got nothing, expected a JSON list"),
        (
            changed(stages(), (*FIRST, "parents"), [3]),
            "query 1, stage 0: parents: got 3, expected an integer from 0 to 2",
        ),
        (changed(stages(), (*FIRST, "num_tasks"), 0), "stage 0: num_tasks: got 0, expected a number from 1 to 1e15"),
        (
            changed(stages(), (*FIRST, "mean_all"), -1),
            "query 1, stage 0: mean_all: got -1, expected a number from 0 to 1e15",
        ),
    ],
)
def test_broken_files_of_stages(tmp_path: Path, document: Any, message: str) -> None:
    write(tmp_path, document)
    with pytest.raises(WorkloadError, match=rf"{tmp_path}/tpch_2g.json: .*{message}"):
        tpch.read(tmp_path, [2], [1])


def test_a_cycle_and_parts_without_connection(tmp_path: Path) -> None:
    cyclic = stages()
    del cyclic["queries"]["1"]["edges"]
    at(cyclic, *FIRST)["parents"] = [2]
    with pytest.raises(WorkloadError, match=r"query 1: job 0: the graph has the cycle stage2 -> stage0 -> stage2"):
        tpch.read(write(tmp_path, cyclic), [2], [1])
    apart = stages()
    del apart["queries"]["1"]["edges"]
    at(apart, "queries", "1", "stages", 2)["parents"] = [0]
    with pytest.raises(WorkloadError, match=r"query 1: job 0: the graph has 2 connected components"):
        tpch.read(write(tmp_path, apart), [2], [1])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (gzip.compress(json.dumps(durations()).encode(), mtime=0)[:-12], "corrupt gzip data"),
        (without(durations(), "1", 2), "query 1: got durations of 2 stages, expected 3"),
        (changed(durations(), ("1", 0, "x"), {}), "query 1, stage 0: got 'x', expected a number of executors"),
        (changed(durations(), ("1", 0), {}), r"query 1, stage 0: task times: executors: got \(\)"),
        (
            without(durations(), "1", 0, "2", "rest"),
            "query 1, stage 0, 2 executors: rest: got nothing, expected a JSON list",
        ),
        (
            changed(durations(), ("1", 0, "2", "rest"), ["3"]),
            "stage 0, 2 executors: rest: got '3', expected milliseconds",
        ),
        (
            changed(durations(), ("1", 0, "2", "rest"), [-3]),
            "query 1, stage 0, 2 executors: rest: got -3, expected milliseconds",
        ),
        (
            changed(durations(), ("1", 0, "2", "fresh"), [7]),
            "query 1, stage 0: task times: with 2 executors, fresh holds the duration",
        ),
    ],
)
def test_broken_files_of_durations(tmp_path: Path, document: Any, message: str) -> None:
    write(tmp_path, None, document)
    assert len(tpch.read(tmp_path, [2], [1])) == 1
    with pytest.raises(WorkloadError, match=rf"{tmp_path}/durations/tpch_durations_2g.json.gz: .*{message}"):
        tpch.read(tmp_path, [2], [1], task_times=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: tpch.read(path, []), r"sizes: got \[\], expected at least one value"),
        (lambda path: tpch.read(path, [2.0]), "sizes: got 2.0, expected integers >= 1"),
        (lambda path: tpch.read(path, [2], [0]), "queries: got 0, expected integers >= 1"),
    ],
)
def test_arguments_out_of_range(tmp_path: Path, call: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        call(write(tmp_path))
