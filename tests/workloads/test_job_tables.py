"""Jobs of tables: data frames, mappings, structured arrays and CSV; names, units, repairs, and errors by row."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_files import BATCH_JOBS, data, refusal

from desim import simulate
from desim.agents.batch import create
from desim.exceptions import InvalidConfiguration
from desim.export import to_batsim_csv, to_csv
from desim.problems.batch import BatchCluster
from desim.problems.batch.job import Job
from desim.workloads import job_table, lublin
from desim.workloads.batch.selection import ids_of
from desim.workloads.batch.trace import TraceReason

Put = Callable[..., Path]
Columns = dict[str, list[Any]]

OURS: Columns = {
    "job_id": [4, 7],
    "submission_time": [0.0, 60.0],
    "requested_number_of_resources": [2, 1],
    "requested_time": [50.0, 40.0],
    "run_time": [30.0, 20.5],
    "user_id": [3, -1],
}
JOBS = [Job(4, 0.0, 2, 50.0, 30.0, 3), Job(7, 60.0, 1, 40.0, 20.5, -1)]
MAKERS: dict[str, Callable[[Columns], Any]] = {
    "mapping": dict,
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "pandas": pd.DataFrame,
}
EVERY = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


def renamed(**names: str) -> Columns:
    return {names.get(name, name): column for name, column in OURS.items()}


@EVERY
def test_our_names(make: Callable[[Columns], Any]) -> None:
    trace = job_table.jobs_from(make(OURS))
    assert trace.jobs == JOBS
    assert [type(value) for value in trace.jobs[0][:6]] == [int, float, int, float, float, int]
    assert (trace.num_cores, trace.report.headline()) == (None, "2 rows: 2 jobs, 0 dropped")
    assert trace.recorded_starts() == {}


@EVERY
def test_names_of_batsim(make: Callable[[Columns], Any]) -> None:
    columns = renamed(
        job_id="id", submission_time="subtime", requested_number_of_resources="res", requested_time="walltime"
    )
    columns["execution_time"] = columns.pop("run_time")
    assert job_table.jobs_from(make(columns), num_cores=8).jobs == JOBS
    assert job_table.jobs_from(make(columns), num_cores=8).num_cores == 8


def test_structured_arrays() -> None:
    array = np.array([(0, 2, 30.0), (60, 1, 20.5)], dtype=[("subtime", int), ("cores", int), ("runtime", float)])
    assert job_table.jobs_from(array).jobs == [Job(0, 0.0, 2, 30.0, 30.0), Job(1, 60.0, 1, 20.5, 20.5)]


def test_names_of_ones_own() -> None:
    columns = renamed(requested_number_of_resources="ncpus", run_time="elapsed") | {"run_time": [1.0, 1.0]}
    trace = job_table.jobs_from(columns, columns={"requested_cores": "ncpus", "run_time": "elapsed"})
    assert trace.jobs == JOBS
    with pytest.raises(
        InvalidConfiguration, match=r"^columns: got 'cores', expected keys among job_id, submission_time, "
    ):
        job_table.jobs_from(columns, columns={"cores": "ncpus"})
    assert refusal(lambda: job_table.jobs_from(columns, columns={"run_time": "gone"})) == (
        "table: has no column gone, which columns maps to run_time"
    )


@EVERY
def test_unread_columns_are_told(make: Callable[[Columns], Any]) -> None:
    trace = job_table.jobs_from(make(OURS | {"gpus": [0, 1], "stretch": [1.0, 1.0], "cores": [5, 5]}))
    assert trace.jobs == JOBS
    assert trace.report.headline() == "2 rows: 2 jobs, 0 dropped; columns not read: gpus, cores"
    assert trace.report.as_dict()["unread"] == ("gpus", "cores")


@EVERY
def test_unknown_values_and_repairs(make: Callable[[Columns], Any]) -> None:
    columns = OURS | {"requested_time": [None, 40.0], "user_id": [None, 5], "submission_time": [90.0, 60.0]}
    trace = job_table.jobs_from(make(columns))
    assert trace.jobs == [JOBS[1]._replace(user_id=5), Job(4, 90.0, 2, 30.0, 30.0, -1)]
    assert {reason.name for reason in trace.report.counts} == {"ASSUMED_REQUESTED_TIME", "OUT_OF_ORDER"}


@pytest.mark.parametrize(
    ("submission", "message"),
    [
        (["2024-10-27T00:30:00", 50], "table: row 1: submission_time: got 50, expected a date as in other rows"),
        (["50", "2024-10-27"], "table: row 0: submission_time: got '50', expected a date as in other rows"),
        (
            [datetime.datetime(2024, 10, 27), datetime.timedelta(seconds=5)],
            "table: row 1: submission_time: got datetime.",
        ),
    ],
)
def test_dates_and_numbers_in_one_column(submission: list[Any], message: str) -> None:
    assert refusal(lambda: job_table.jobs_from(OURS | {"submission_time": submission})).startswith(message)


def test_dates_and_numbers_of_submission_and_start() -> None:
    day = datetime.datetime(2024, 10, 27)
    dates, seconds = [day, day + datetime.timedelta(seconds=60)], [5.0, 70.0]
    for make in MAKERS.values():
        table = make(OURS | {"submission_time": dates, "starting_time": seconds})
        assert refusal(lambda table=table: job_table.jobs_from(table)) == (
            "table: got dates in submission_time and numbers in starting_time, expected the same in both"
        )
        table = make(OURS | {"starting_time": dates})
        assert "got dates in starting_time and numbers in submission_time" in refusal(
            lambda table=table: job_table.jobs_from(table)
        )
        table = make(OURS | {"submission_time": dates, "starting_time": [None, None]})
        assert job_table.jobs_from(table).recorded_starts() == {}
    unknown = OURS | {"submission_time": list(map(str, dates)), "starting_time": [str(dates[1]), -1]}
    trace = job_table.jobs_from(unknown, shift=True)
    assert trace.waiting_time is not None
    assert np.array_equal(trace.waiting_time, [60.0, np.nan], equal_nan=True)


def test_dates_and_durations() -> None:
    day = datetime.datetime(2020, 1, 1)
    columns = OURS | {
        "submission_time": [day, day + datetime.timedelta(seconds=60)],
        "run_time": [datetime.timedelta(seconds=30), datetime.timedelta(seconds=20.5)],
        "starting_time": [day + datetime.timedelta(seconds=5), None],
    }
    for make in MAKERS.values():
        trace = job_table.jobs_from(make(columns), shift=True)
        assert trace.jobs == JOBS
        assert trace.recorded_starts() == {4: 5.0}
        assert job_table.jobs_from(make(columns)).jobs[0].submission_time == 1_577_836_800
    zoned = OURS | {"submission_time": pd.to_datetime(columns["submission_time"]).tz_localize("Europe/Stockholm")}
    assert job_table.jobs_from(zoned).jobs[0].submission_time == 1_577_836_800 - 3_600


def test_dates_in_text(put: Put) -> None:
    """Those of times only: a date is no number of cores, nor a duration."""
    rows = ["2017-09-04 10:30:41,1,5", "2017-09-04T10:30:51Z,2,5", "2017-09-04 12:30:51.5+02:00,3,5"]
    path = put("\n".join(["timestamp,num_gpus,duration", *rows]), "log.csv")
    names = {"submission_time": "timestamp", "requested_cores": "num_gpus", "run_time": "duration"}
    trace = job_table.read(path, columns=names, shift=True)
    assert [job.submission_time for job in trace] == [0.0, 10.0, 10.5]
    path = put("subtime,cores,runtime\n2017-13-04,1,5\n", "log.csv")
    assert refusal(lambda: job_table.read(path)) == (
        f"{path}: line 2: subtime: got '2017-13-04', expected a finite number of at most 1e+15"
    )
    path = put("subtime,cores,runtime\n1,1,2017-12-04\n", "log.csv")
    assert refusal(lambda: job_table.read(path)).startswith(f"{path}: line 2: runtime: got '2017-12-04', expected a")
    for make in MAKERS.values():
        table = make(OURS | {"run_time": [datetime.datetime(2020, 1, 1)] * 2})
        assert "row 0: run_time: got " in refusal(lambda table=table: job_table.jobs_from(table))


def test_philly() -> None:
    """A table of another site in one call: its sums are those of the description of the data."""
    names = {"submission_time": "timestamp", "requested_cores": "num_gpus", "run_time": "duration"}
    trace = job_table.read(data("gpu/philly.csv.gz"), columns=names, shift=True)
    assert trace.report.headline() == "82,247 rows: 82,247 jobs, 0 dropped; columns not read: gpu_time, cluster"
    assert sum(job.requested_cores * job.run_time for job in trace) / 3_600 == pytest.approx(978_078.47, abs=0.01)
    assert sum(job.requested_cores == 128 for job in trace) == 3


def test_recorded_waits_follow_their_jobs() -> None:
    columns = OURS | {"submission_time": [90.0, 60.0], "waiting_time": [7.0, -1.0]}
    trace = job_table.jobs_from(columns)
    assert trace.recorded_starts() == {4: 97.0}
    assert job_table.jobs_from(columns, shift=True).recorded_starts() == {4: 37.0}
    assert job_table.jobs_from(columns, users={3}).recorded_starts() == {4: 97.0}


def test_identifiers_that_are_text() -> None:
    trace = job_table.jobs_from(OURS | {"job_id": ["w0!4", "w0!7"]})
    assert trace.jobs == [job._replace(job_id=f"w0!{job.job_id}") for job in JOBS]
    assert trace.report.counts == {}
    digits = job_table.jobs_from(OURS | {"job_id": ["4", "007"]})  # the type of the column says that they are texts
    assert [job.job_id for job in digits] == ["4", "007"]
    assert refusal(lambda: job_table.jobs_from(OURS | {"job_id": ["red", None]})) == (
        "table: row 1: job_id: got None, expected an integer or a string"
    )


WRONG: dict[str, tuple[str, list[Any], str]] = {
    "text": ("run_time", [1.0, "long"], "row 1: run_time: got 'long', expected a finite number of at most 1e+15"),
    "nothing": ("run_time", [None, 1.0], "row 0: run_time: got {}, expected a finite number of at most 1e+15"),
    "fraction": (
        "requested_number_of_resources",
        [1.0, 1.5],
        "row 1: requested_number_of_resources: got 1.5, expected an",
    ),
    "text for an optional one": ("user_id", [1, "root"], "row 1: user_id: got 'root', expected an integer"),
    "truth": ("submission_time", [True, False], "row 0: submission_time: got True, expected a finite number"),
    "infinite": ("requested_time", [1.0, float("inf")], "row 1: requested_time: got inf, expected a finite number"),
    "missing identifier": ("job_id", [1.0, float("nan")], "row 1: job_id: got nan, expected an integer"),
}


@EVERY
@pytest.mark.parametrize("name", WRONG)
def test_wrong_cells_are_named(make: Callable[[Columns], Any], name: str) -> None:
    column, values, message = WRONG[name]
    if make is MAKERS["polars"] and name in ("text", "text for an optional one"):
        values = list(map(str, values))  # a column of polars has one type
    table = make(OURS | {column: values})
    missing = "nan" if make is MAKERS["pandas"] else "None"
    assert refusal(lambda: job_table.jobs_from(table)).startswith(f"table: {message.format(missing)}")


def test_wrong_tables() -> None:
    for table in (5, [1, 2], np.zeros(3), "file.csv"):
        with pytest.raises(
            InvalidConfiguration, match=r"^table: got type \w+, expected a data frame, a mapping of col"
        ):
            job_table.jobs_from(table)  # type: ignore[arg-type]
    assert refusal(lambda: job_table.jobs_from({"res": [1], "id": [2], "run_time": [3]})) == (
        "table: is not a job table: has no column submission_time or subtime or Submit or sim_submit_ts or sim_submit; "
        "try --columns"
    )
    assert refusal(lambda: job_table.jobs_from(OURS | {"user_id": [1]})) == (
        "table: column user_id: got 1 rows, expected 2 as in run_time"
    )
    assert refusal(lambda: job_table.jobs_from({name: [] for name in OURS})) == "table: no usable job in 0 rows"


@given(jobs=st.lists(BATCH_JOBS, min_size=1, max_size=5))
def test_every_way_in_gives_the_same_jobs(jobs: list[Job], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "jobs.csv"
    numbered = [job._replace(job_id=number) for number, job in enumerate(jobs)]
    expected = sorted(numbered, key=lambda job: job.submission_time)
    job_table.write(path, numbered)
    frame = pl.DataFrame(numbered, schema=Job._fields, orient="row", strict=False)
    assert job_table.read(path).jobs == job_table.jobs_from(frame).jobs == expected


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv(put: Put, separator: str) -> None:
    text = 'id,subtime,"res",walltime,run_time,"a name, quoted"\n4,0,2,50,30,x\n\n7,60,1,,20.5,"two\nlines"\n'
    if separator != ",":
        text = text.replace("a name, quoted", "a name").replace(",", separator)
    trace = job_table.read(put(text.replace("\n", "\r\n").encode("utf-8-sig"), "log.csv"))
    assert trace.jobs == [JOBS[0]._replace(user_id=-1), Job(7, 60.0, 1, 20.5, 20.5)]
    assert trace.report.unread == ("a name, quoted" if separator == "," else "a name",)
    assert list(trace.report.places.values()) == [[5]]  # the line that the row ends in


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subtime,res,run_time\n0,1,5\n1,x,5\n", "line 3: res: got 'x', expected an integer of at most 1e+15"),
        ("subtime,res,run_time\n0,1,5\n1,1_0,5\n", "line 3: res: got '1_0', expected an integer of at most 1e+15"),
        ("subtime,res,run_time\n0,1,\n", "line 2: run_time: got '', expected a finite number of at most 1e+15"),
        ("subtime,res,run_time\n0,1\n", "line 2: got 2 cells, expected 3 as in line 1"),
        ("subtime,res,res,run_time\n", "line 1: got two columns 'res', expected distinct names"),
        (
            "",
            "is not a job table: has no column submission_time or subtime or Submit or sim_submit_ts or ",
        ),
        ('subtime,res,run_time\n0,1,"5\n', "line 2: unexpected end of data"),
        (b"subtime\xff", "line 1, column 8: byte 0xff is not UTF-8 text"),
        ("subtime,res,run_time\n", "no usable job in 0 rows"),
    ],
)
def test_wrong_csv(put: Put, text: str | bytes, message: str) -> None:
    path = put(text, "log.csv")
    assert refusal(lambda: job_table.read(path, strict=True)).startswith(f"{path}: {message}")
    if "1,5\n" not in str(text):  # otherwise the other row is read
        assert refusal(lambda: job_table.read(path)).startswith(f"{path}: {message}")


def test_rows_that_cannot_be_read_are_dropped_and_counted(put: Put, tmp_path: Path) -> None:
    text = "id,subtime,res,run_time\n1,0,1,5\n2,1,x,5\n3,2,1,soon\n4,3,1\n5,4,1,5,6\n6,5,1,5\n7,2024-13-01,1,5\n"
    path = put(text, "log.csv")
    trace = job_table.read(path)
    assert trace.jobs["job_id"].tolist() == [1, 6]
    assert trace.report.count(TraceReason.UNREADABLE) == 5
    assert sorted(trace.report.places[TraceReason.UNREADABLE]) == [3, 4, 5, 6, 8]
    assert (trace.report.rows, trace.report.jobs, trace.report.dropped) == (7, 2, 5)
    assert refusal(lambda: job_table.read(path, strict=True)) == f"{path}: line 5: got 3 cells, expected 4 as in line 1"
    places = [[1, 0.0], [2, None], [3, 4.0]]
    pl.DataFrame(places, schema=["id", "subtime"], orient="row").with_columns(res=1, run_time=5).write_parquet(
        tmp_path / "log.parquet"
    )
    trace = job_table.read(tmp_path / "log.parquet")
    assert trace.jobs["job_id"].tolist() == [1, 3]
    assert trace.report.places[TraceReason.UNREADABLE] == [1]
    table = {"subtime": [0, 1], "res": [1, "x"], "run_time": [5, 5]}
    assert refusal(lambda: job_table.jobs_from(table)).startswith("table: row 1: res: got 'x'")


@pytest.mark.parametrize(
    ("memory", "nodes", "cpus", "tasks", "each"),
    [
        ("4Gn", 2, 8, 2, 4 << 30),
        ("2000Mc", 2, 8, 2, 4 * 2000 << 20),
        ("16G", 2, 8, 2, 8 << 30),
        ("512", 1, 4, 1, 512 << 20),
        ("1.5Gn", 1, 4, 1, 3 << 29),
        ("3Gn", 2, 3, 3, 2 << 30),
        ("", 2, 8, 2, 0),
    ],
)
def test_memory_of_slurms_accounting(put: Put, memory: str, nodes: int, cpus: int, tasks: int, each: int) -> None:
    """With n it is that of a node, with c of a core, without a letter of the whole job; plain numbers are MiB."""
    head = "JobID|Submit|Elapsed|NNodes|AllocCPUS|ReqMem"
    row = f"7|2024-10-27T00:30:00|00:01:00|{nodes}|{cpus}|{memory}"
    trace = job_table.read(put(f"{head}\n{row}\n", "log.csv"), requests=True)
    request = trace.jobs[0].request
    assert (request.tasks, request.memory, trace.jobs[0].requested_cores) == (tasks, each, cpus)
    wrong = put(f"{head}\n{row.rpartition('|')[0]}|4Gx\n", "wrong.csv")
    assert "ReqMem: got '4Gx', expected memory such as 4Gn" in refusal(lambda: job_table.read(wrong, requests=True))


def test_records_of_a_run_are_a_workload(tmp_path: Path) -> None:
    jobs = lublin.generate(50, 16, seed=1, load=0.9)
    result = simulate(BatchCluster(jobs, 16), create("easy"))
    to_csv(result, tmp_path / "ours.csv")
    to_batsim_csv(result, tmp_path / "batsim.csv")
    ours, batsim = (job_table.read(tmp_path / name) for name in ("ours.csv", "batsim.csv"))
    assert ours.jobs == job_table.jobs_from(result.jobs).jobs == jobs
    assert [job._replace(user_id=-1) for job in jobs] == batsim.jobs
    assert ours.report.unread == batsim.report.unread == ()
    starts = dict(zip(result.jobs["job_id"], result.jobs["starting_time"], strict=True))
    assert ours.recorded_starts() == pytest.approx(starts)


def test_ids_of_numpy_are_kept() -> None:
    assert ids_of([np.int64(-5), np.int32(5)]).tolist() == [-5, 5]


def test_what_slurm_prints(put: Put) -> None:
    lines = (
        "JobID|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|State|User",
        "101|2024-10-27T00:30:00|2024-10-27T00:31:00|2024-10-27T00:41:00|00:10:00|1-00:00:00|4|COMPLETED|ann",
        "102|2024-10-27T00:31:00|2024-10-27T00:31:30|2024-10-28T00:31:31|1-00:00:01|UNLIMITED|2|COMPLETED|bob",
    )
    trace = job_table.read(put("\n".join(lines), "sacct.csv"))
    first, second = trace.jobs
    assert first[2:6] == (4, 86_400.0, 600.0, 0)
    assert second[2:6] == (2, 86_401.0, 86_401.0, 1), "without a time limit, the run time"
    assert (first.job_id, second.job_id, second.submission_time - first.submission_time) == (101, 102, 60.0)
    assert trace.waiting_time is not None
    assert trace.waiting_time.tolist() == [60.0, 30.0]
    path = put("Submit,Elapsed,AllocCPUS\n0,10:99,1\n", "wrong.csv")
    assert refusal(lambda: job_table.read(path)).startswith(f"{path}: line 2: Elapsed: got '10:99', expected a finite")


SACCT = """\
JobID|User|Partition|QOS|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|State
101|ann|big|high|2024-10-27T00:30:00|2024-10-27T00:31:00|2024-10-27T00:41:00|00:10:00|1-00:00:00|4|COMPLETED
101.batch|||||2024-10-27T00:31:00|2024-10-27T00:41:00|00:10:00||4|COMPLETED
102_4|bob|big|None|2024-10-27T00:31:00|2024-10-27T00:32:00|2024-10-28T02:32:01|1-02:00:01|UNLIMITED|2|CANCELLED by 7
103|bob|big||2024-10-27T00:32:00|Unknown|Unknown|00:00:00|00:05:00|2|PENDING
104+1|ann|big||2024-10-27T00:33:00|2024-10-27T00:33:00|Unknown|00:01:00|00:05:00|2|RUNNING
105|ann|big||2024-10-27T00:34:00|None|2024-10-27T00:35:00|00:00:00|Partition_Limit|0|CANCELLED
"""


def test_slurm(put: Callable[..., Path]) -> None:
    """Steps are no jobs, what has not ended has no run time, and times are durations and dates."""
    trace = job_table.read(put(SACCT, "sacct.csv"), shift=True)
    assert [(job.job_id, job[1:5], job.attributes["user"], job.partition, job.qos) for job in trace.jobs] == [
        ("101", (0.0, 4, 86_400.0, 600.0), "ann", "big", "high"),
        ("102_4", (60.0, 2, 93_601.0, 93_601.0), "bob", "big", ""),
    ]
    assert (trace.waiting_time.tolist(), trace.place.tolist()) == ([60.0, 60.0], [2, 4])
    assert {reason.name: trace.report.places[reason] for reason in trace.report.counts} == {
        "PARTIAL_EXECUTION": [3], "UNKNOWN_RUN_TIME": [5, 6], "UNKNOWN_CORES": [7], "ASSUMED_REQUESTED_TIME": [4],
    }  # fmt: skip
    assert (trace.report.rows, trace.report.dropped, trace.report.unread) == (6, 4, ())


def test_slurm_simulators(put: Callable[..., Path]) -> None:
    text = (
        ",sim_job_id,sim_submit,sim_wclimit,sim_duration,sim_tasks,sim_cpus_per_task,sim_username\n"
        "0,1001,2017-01-01 00:02:15,2,90,3,4,ann\n"
    )
    trace = job_table.read(put(text, "sim.csv"), shift=True)
    assert [job[:5] for job in trace.jobs] == [(1001, 0.0, 12, 120.0, 90.0)] and trace.report.unread == ()


def test_comments_unknown_cells_wide_digits_and_large_ids(put: Callable[..., Path]) -> None:
    text = "# made by hand\nid,subtime,res,walltime,run_time\n9007199254740993,0,1,NULL,5\n3,1,1,\\N,6\n"
    trace = job_table.read(put(text, "log.csv"))
    assert [job[:5] for job in trace.jobs] == [(2**53 + 1, 0, 1, 5, 5), (3, 1, 1, 6, 6)]
    assert trace.place.tolist() == [3, 4]
    path = put("subtime,res,run_time\n0,\uff11,5\n", "wide.csv")
    assert refusal(lambda: job_table.read(path)) == (
        f"{path}: line 2: res: got '\uff11', expected an integer of at most 1e+15"
    )


def test_strict(put: Callable[..., Path]) -> None:
    path = put(SACCT, "sacct.csv")
    assert refusal(lambda: job_table.read(path, strict=True)).startswith(f"{path}: line 3: part of a job that has its")
    table = {"submission_time": [0.0, 1.0], "cores": [1, 2], "requested_time": [9.0, 9.0], "run_time": [5.0, 5.0]}
    assert len(job_table.jobs_from(table, strict=True, max_cores=1)) == 1, "the caller asked for this"
