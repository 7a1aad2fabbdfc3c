"""Runs as trace events."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from desim import Result, simulate
from desim.agents.batch import create
from desim.exceptions import InvalidConfiguration, RecordError
from desim.export import to_chrome_trace
from desim.problems.batch import BatchCluster, Job, parse_core_sets
from desim.processes import Outage, planned_outages

Run = Callable[..., Result]
Events = list[dict[str, Any]]


def export(result: Result, path: Path, **options: Any) -> tuple[dict[str, Any], Events]:
    document = json.loads(to_chrome_trace(result, path / "trace.json", **options).read_text())
    return document["otherData"], document["traceEvents"]


def slices(events: Events) -> Events:
    return [event for event in events if event["ph"] == "X"]


def cores_of(text: str) -> list[tuple[int, int]]:
    ranges = parse_core_sets(pl.Series([text]))
    return list(zip(ranges["first"].to_list(), ranges["last"].to_list(), strict=True))


@pytest.mark.parametrize("until", [float("inf"), 70_000.0])
def test_every_range_of_every_execution_is_a_slice(run: Run, tmp_path: Path, until: float) -> None:
    result = run(until=until)
    other, events = export(result, tmp_path)
    expected = set()
    cut = result.table("interruptions").filter(pl.col("outcome") == "requeued")
    assert len(cut) > 0
    ends = result.jobs.with_columns(pl.col("finish_time").fill_null(result.info["end_time"]))
    columns = ["job_id", "starting_time", "finish_time", "allocated_resources"]
    for table in (ends.filter(pl.col("starting_time").is_not_null()), cut):
        for job_id, start, finish, cores in table.select(columns).iter_rows():
            for first, _ in cores_of(cores):
                expected.add((f"job {job_id}", first + 1, round(start * 1e6), round(finish * 1e6)))
    assert {(e["name"], e["tid"], e["ts"], e["ts"] + e["dur"]) for e in slices(events)} == expected
    assert len(slices(events)) == len(expected)
    assert other["executions_left_out"] == 0
    assert (other["agent"], other["num_cores"]) == ("easy-fcfs", 32)


def test_slices_of_a_track_follow_each_other(run: Run, tmp_path: Path) -> None:
    _, events = export(run(), tmp_path)
    tracks = defaultdict(list)
    for event in slices(events):
        tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(tracks) > 8
    for spans in tracks.values():
        assert all(end <= begin for (_, end), (begin, _) in pairwise(sorted(spans)))
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {track: f"core {track - 1}" for track in tracks}


def test_curves_count_jobs_and_cores(run: Run, tmp_path: Path) -> None:
    result = run()
    _, events = export(result, tmp_path)
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            curves[event["name"]].append((event["ts"], event["args"][event["name"]]))
    assert set(curves) == {"queued jobs", "busy cores", "cores up"}
    area = {}
    for name, points in curves.items():
        times, values = np.array(points).T
        assert (np.diff(times) >= 0).all()
        assert values.min() >= 0
        area[name] = float((values[:-1] * np.diff(times)).sum() / 1e6)
        if name != "cores up":
            assert values[-1] == 0
    metrics = result.metrics()
    assert area["busy cores"] == pytest.approx(metrics["busy_core_seconds"])
    first = result.jobs["submission_time"].min()
    span = result.info["end_time"] - first
    assert area["queued jobs"] == pytest.approx(metrics["queue_length_mean"] * span)
    assert {value for _, value in curves["cores up"]} >= {32.0, 29.0}


def test_the_size_is_bounded(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run()
    other, events = export(result, tmp_path)
    executions, ranges = other["executions"], len(slices(events))
    assert ranges > executions
    other, events = export(result, tmp_path, max_slices=executions)
    assert len(slices(events)) == executions
    assert other["executions_left_out"] == 0
    monkeypatch.setattr("desim.export.MOST_POINTS", 50)
    other, events = export(result, tmp_path, max_slices=20)
    assert other["executions_left_out"] == executions - 20
    assert len(slices(events)) == 20
    assert sum(event["ph"] == "C" for event in events) <= 2 * 50 + 10
    work = result.jobs.with_columns(work=pl.col("execution_time") * pl.col("requested_number_of_resources"))
    largest = work.sort("work", descending=True, nulls_last=True)["job_id"][0]
    assert f"job {largest}" in {event["name"] for event in slices(events)}


def test_a_run_that_broke_off(run: Run, tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    run(out=stored)
    info = json.loads((stored / "result.json").read_text())
    (stored / "result.json").write_text(json.dumps({key: info[key] for key in ("format", "tables")}))
    _, events = export(Result.load(stored), tmp_path)
    assert len(slices(events)) > 100


def test_what_cannot_be_exported(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="max_slices: got 0"):
        to_chrome_trace(run(), tmp_path / "trace.json", max_slices=0)
    with pytest.raises(RecordError, match="cannot write"):
        to_chrome_trace(run(), tmp_path / "absent" / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_cut_executions_of_an_id_that_comes_back(tmp_path: Path) -> None:
    jobs = [
        Job(2, 0.0, 4, 4.0, 4.0),
        Job(1, 1.0, 2, 10.0, 10.0),
        Job(1, 2.0, 9, 1.0, 1.0),  # rejected
        Job(1, 50.0, 4, 3.0, 3.0),
    ]
    outages = planned_outages([Outage(5.0, 6.0, cores=[0])])
    _, events = export(
        simulate(BatchCluster(jobs, 4, too_wide="reject", processes=[outages]), create("fcfs")), tmp_path
    )
    found = [
        (one["cat"], one["ts"] / 1e6, one["args"]["requested_cores"], one["args"]["waiting_time"])
        for one in slices(events)
    ]
    assert sorted(found, key=lambda one: one[1]) == [
        ("completed", 0.0, 4, 0.0),
        ("cut by an outage", 4.0, 2, 3.0),
        ("completed", 5.0, 2, 4.0),
        ("completed", 50.0, 4, 0.0),
    ]
    busy = [(one["ts"] / 1e6, one["args"]["busy cores"]) for one in events if one["name"] == "busy cores"]
    assert busy == [(0.0, 4.0), (4.0, 2.0), (5.0, 2.0), (15.0, 0.0), (50.0, 4.0), (53.0, 0.0)]
