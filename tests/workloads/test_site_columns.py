"""Columns of job tables on users, queues, dependencies, think times, sizes, and run times by model of GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from desim import WorkloadError, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Dependency, Limit, Node
from desim.validation import validate
from desim.workloads.batch import job_table
from desim.workloads.batch.trace import TraceReason

TEXT = """job_id,submission_time,cores,run_time,walltime,user,queue,partition,after,think_time,sizes
a1,0,4,100,120,ann,long,big,,,2:180:240|8:60:80
a2,5,2,50,60,bob,short,,a1,30,
a3,6,2,10,20,ann,,big,a1 a2,,
a4,7,1,10,20,,short,small,,,
"""


def columns(**more: Any) -> dict[str, Any]:
    """Return a small table with other columns."""
    return {"id": [3, 1, 2], "subtime": [2, 0, 1], "cores": [1, 2, 3], "run_time": [10, 20, 30]} | more


def field_of(trace: Any, name: str) -> dict[int | str, Any]:
    """Return a field of the jobs that have it, by job id."""
    return {job.job_id: getattr(job, name) for job in trace.jobs if getattr(job, name)}


def test_all_columns_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(TEXT)
    trace = job_table.read(path)
    assert trace.report.unread == ()
    assert [job.user_id for job in trace.jobs] == [0, 1, 0, -1]
    assert [job.job_id for job in trace.jobs] == ["a1", "a2", "a3", "a4"]
    assert field_of(trace, "queue") == {"a1": "long", "a2": "short", "a4": "short"}
    assert field_of(trace, "partition") == {"a1": "big", "a3": "big", "a4": "small"}
    assert [job.attributes.get("user") for job in trace.jobs] == ["ann", "bob", "ann", None]
    assert field_of(trace, "after") == {"a2": Dependency(("a1",), 30.0), "a3": Dependency(("a1", "a2"))}
    first = trace.jobs[0]
    assert [job[2:5] for job in first.in_all_sizes()] == [(4, 120, 100), (2, 240, 180), (8, 80, 60)]
    limits = [Limit(scope="queue", members=("short",), running_jobs=1)]
    cluster = BatchCluster(trace.jobs, 8, limits=limits)
    result = simulate(cluster, create("easy-moldable"))
    starts = dict(result.jobs.select("job_id", "submission_time").iter_rows())
    ends = dict(result.jobs.select("job_id", "finish_time").iter_rows())
    assert starts["a2"] == ends["a1"] + 30 and starts["a3"] == max(ends["a1"], ends["a2"])
    validate(result, trace.jobs).raise_if_invalid()


@pytest.mark.parametrize("make", [dict, pd.DataFrame, lambda table: pl.DataFrame(table, strict=False)])
def test_tables_in_memory(make: Any) -> None:
    """Ids are numbers here, of a list or of one job; rows need not be in the order of submission."""
    table = make(columns(after=["1|2", None, "1"], think_time=[1.5, None, None], queue=["x", None, "y"]))
    trace = job_table.jobs_from(table)
    assert field_of(trace, "after") == {3: Dependency((1, 2), 1.5), 2: Dependency((1,))}
    assert field_of(trace, "queue") == {3: "x", 2: "y"}
    lists = job_table.jobs_from(pl.DataFrame(columns(after=[[1, 2], [], None])))
    assert field_of(lists, "after") == {3: Dependency((1, 2))}
    assert field_of(job_table.jobs_from(pd.DataFrame(columns(after=[1.0, np.nan, 1.0]))), "after") == {
        3: Dependency((1,)),
        2: Dependency((1,)),
    }
    named = job_table.jobs_from(columns(needs=["1", "", ""]), columns={"after": "needs"})
    assert field_of(named, "after") == {3: Dependency((1,))}


def test_a_job_does_not_wait_for_one_that_is_dropped() -> None:
    trace = job_table.jobs_from(columns(after=["1 2", "", ""], run_time=[10, 20, -1]))
    assert field_of(trace, "after") == {3: Dependency((1,))}


def test_run_times_by_model_and_sizes_on_nodes(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,submission_time,run_time,walltime,tasks,cores,gpus,run_time:A100,run_time:T4,sizes\n"
        "1,0,100,400,2,2,1,40,200,8:60:300\n2,0,100,400,1,1,1,,,\n3,0,100,400,1,1,1,25,,\n"
    )
    trace = job_table.read(path, requests=True)
    first, second, third = trace.jobs
    assert first.run_times == {"A100": 40.0, "T4": 200.0}
    sizes = [(size.request and size.request.tasks, size[2:5]) for size in first.in_all_sizes()]
    assert sizes == [(2, (4, 400, 100)), (4, (8, 300, 60))]
    assert second.run_times == {} and third.run_times == {"A100": 25.0}
    nodes = Node.several(2, 8, gpus=4, gpu_model="A100")
    result = simulate(BatchCluster(trace.jobs, nodes=nodes), create("fcfs"))
    assert result.jobs.sort("job_id")["execution_time"].to_list() == [40.0, 100.0, 25.0]
    validate(result, trace.jobs).raise_if_invalid()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"after": ["7", "", ""]}, "row 0: after: got 7, but no job has this id"),
        ({"after": ["1", "2", "1"]}, "table: after: dependencies form a cycle: 1 after 2 after 1"),
        (
            {"after": ["1", "", ""], "think_time": [-1, 0, 0]},
            "row 0: think_time: got -1, expected a finite number",
        ),
        ({"after": ["1", "", ""], "think_time": ["x", 0, 0]}, "row 0: think_time: got 'x', expected a number"),
        ({"sizes": ["", "4", ""]}, "row 1: sizes: got '4', expected sizes such as 8:60 or 8:60:90"),
        ({"sizes": ["", "", "0.5:9"]}, "row 2: sizes: got '0.5:9', expected sizes such as"),
        ({"sizes": ["", "", "4:x"]}, "row 2: sizes: got 'x', expected a number"),
        ({"sizes": ["", "", "4:-3"]}, "row 2: sizes: got '-3', expected a finite number >= 0"),
        ({"think_time": [1.0]}, "column think_time: got 1 rows, expected 3 as in run_time"),
    ],
)
def test_what_is_wrong_is_said_by_column_and_row(more: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match="table: ") as caught:
        job_table.jobs_from(columns(**more))
    assert message in str(caught.value)


def test_what_is_wrong_on_nodes() -> None:
    for more, message in (
        ({"sizes": ["", "5:9", ""]}, "row 1: sizes: got '5:9', expected a multiple of 2 cores per task"),
        ({"run_time:A": [1, "", "y"]}, "row 2: run_time:A: got 'y', expected a number"),
    ):
        with pytest.raises(WorkloadError) as caught:
            job_table.jobs_from(columns(**more), requests=True)
        assert message in str(caught.value)


def test_qualities_of_service() -> None:
    trace = job_table.jobs_from(columns(qos=["urgent", None, "standby"]))
    assert [job.qos for job in trace.jobs] == ["", "standby", "urgent"]  # in order of submission


BROKEN = {
    "tasks": "x", "memory": "7 parsecs", "gpus": "-1", "exclusive": "perhaps", "tasks_per_node": "1.5",
    "resource:fpga": "y", "sizes": "4", "think_time": "-1", "run_time:A100": "1e16",
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_cell_costs_its_row_and_with_strict_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        f"job_id,submission_time,run_time,requested_time,cores,after,{name}\n"
        f"1,0,9,9,2,,\n2,1,9,9,2,,{BROKEN[name]}\n3,2,9,9,2,2,\n4,3,9,9,2,3,\n"
    )
    trace = job_table.read(path, requests=True)
    assert [job.job_id for job in trace.jobs] == [1, 3, 4]
    assert field_of(trace, "after") == {4: Dependency((3,))}
    assert trace.report.places[TraceReason.UNREADABLE] == [3]
    assert trace.report.places[TraceReason.UNKNOWN_DEPENDENCY] == [4]
    assert (trace.report.rows, trace.report.jobs, trace.report.dropped) == (4, 3, 1)
    with pytest.raises(WorkloadError, match=rf"jobs.csv: line 3: {name}: got '?{BROKEN[name]}[.0]*'?, expected "):
        job_table.read(path, requests=True, strict=True)


def test_dependencies_on_nobody_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,submission_time,run_time,cores,after\n"
        "1,0,9,2,7\n2,1,9,2,1 2\n2,2,9,2,\n3,3,9,2,1 2\n,4,9,2,1\nx,5,9,2,1\n"
    )
    trace = job_table.read(path)
    assert [job.after.jobs if job.after else None for job in trace.jobs] == [None, ("1",), None, ("1",), ("1",)]
    assert trace.report.places[TraceReason.UNKNOWN_DEPENDENCY] == [2, 3, 5]
    assert trace.report.places[TraceReason.UNREADABLE] == [6]
    path.write_text("job_id,submission_time,run_time,cores,after\n1,0,9,2,\n2,1,9,2,2\n3,2,9,2,9\n")
    assert job_table.read(path).report.places[TraceReason.SELF_DEPENDENCY] == [3]
    for text, told in (("2", "got 2, its own id"), ("9", "got 9, but no job has this id")):
        path.write_text(f"job_id,submission_time,run_time,requested_time,cores,after\n1,0,9,9,2,\n2,1,9,9,2,{text}\n")
        with pytest.raises(WorkloadError, match=f"jobs.csv: line 3: after: {told}"):
            job_table.read(path, strict=True)
