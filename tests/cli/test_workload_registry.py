"""Workloads by name or file, and job tables in Parquet."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Job
from desim.workloads.batch import job_table, lublin, registry, transform

whole = st.integers(0, 10**9)
durations = st.one_of(whole.map(float), st.floats(0, 1e9))


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    count = draw(st.integers(1, 8))
    times = sorted(draw(st.lists(durations, min_size=count, max_size=count)))
    ids = draw(st.lists(whole, min_size=count, max_size=count, unique=True))
    return [
        Job(
            number,
            time,
            draw(st.integers(1, 4096)),
            draw(durations.filter(bool)),
            draw(durations),
            draw(st.integers(-1, 99)),
        )
        for number, time in zip(ids, times, strict=True)
    ]


@given(jobs=workloads(), suffix=st.sampled_from([".swf", ".swf.gz", ".json", ".json.gz", ".parquet", ".csv"]))
@settings(max_examples=60, deadline=None)
def test_every_format_gives_jobs_back_exactly(tmp_path: Path, jobs: list[Job], suffix: str) -> None:
    path = tmp_path / f"jobs{suffix}"
    registry.write(path, jobs, num_cores=4096)
    trace = registry.read(path)
    assert trace.jobs == jobs
    assert all(
        type(field) is type(other)
        for job, again in zip(jobs, trace.jobs, strict=True)
        for field, other in zip(job, again, strict=True)
    )
    assert trace.num_cores == (None if suffix == ".csv" else 4096)


def test_the_generated_workload_is_that_of_its_module() -> None:
    workload = registry.load("lublin", num_jobs=30, num_cores=64, seed=2, load=0.5, overestimate=2.0)
    expected = lublin.generate(30, 64, 2, load=0.5, overestimate=2.0)
    assert workload.jobs == expected
    assert (workload.name, workload.num_cores, workload.num_jobs, workload.report) == ("lublin", 64, 30, None)
    stream = registry.load("lublin", num_jobs=30, num_cores=64, seed=2, load=0.5, overestimate=2.0, stream=True)
    assert list(stream.jobs) == list(stream.jobs) == expected


def test_sizes_have_defaults() -> None:
    workload = registry.load()
    assert (workload.num_jobs, workload.num_cores) == (10_000, 256)


def test_files_are_read_and_rescaled(log: Path) -> None:
    workload = registry.load(log)
    assert (workload.name, workload.num_cores, workload.num_jobs) == ("tiny.swf", 8, 5)
    assert workload.report is not None
    rescaled = registry.load(log, load=0.7)
    assert transform.offered_load(rescaled.jobs, 8) == pytest.approx(0.7)
    assert transform.offered_load(registry.load(log, load=0.7, num_cores=16).jobs, 16) == pytest.approx(0.7)
    assert len(list(registry.load(log, num_jobs=2).jobs)) == 2


def test_streams_of_files(log: Path) -> None:
    stream = registry.load(log, stream=True)
    assert list(stream.jobs) == list(stream.jobs) == registry.load(log).jobs
    assert stream.num_cores == 8
    assert stream.num_jobs is None
    assert stream.report is not None
    assert stream.report.jobs == 5


def test_unknown_suffixes_are_read_as_logs(log: Path) -> None:
    other = log.rename(log.with_name("log_without_suffix"))
    assert len(registry.load(other).jobs) == 5  # type: ignore[arg-type]
    other.write_bytes(gzip.compress(other.read_bytes()))
    assert len(registry.read(other.rename(log.with_name("log.gz")))) == 5


@pytest.mark.parametrize("options", [{"overestimate": 2.0}, {"stream": True, "load": 0.5}])
def test_options_that_a_file_cannot_fulfil(log: Path, options: dict[str, float]) -> None:
    with pytest.raises(InvalidConfiguration):
        registry.load(log, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_cores", [0, -5, 2.5, float("inf")])
def test_cores_out_of_range(log: Path, num_cores: int, stream: bool) -> None:
    with pytest.raises(InvalidConfiguration, match=r"num_cores: got .*, expected an integer from 1 to"):
        registry.load(log, num_cores=num_cores, stream=stream)


def test_only_logs_are_streamed(log: Path, tmp_path: Path) -> None:
    registry.write(tmp_path / "a.json", registry.read(log).jobs, num_cores=8)
    with pytest.raises(InvalidConfiguration, match="cannot be streamed"):
        registry.load(tmp_path / "a.json", stream=True)


def test_a_load_needs_the_cores(tmp_path: Path) -> None:
    registry.write(tmp_path / "a.parquet", lublin.generate(5, 8))
    with pytest.raises(InvalidConfiguration, match="does not state the cores"):
        registry.load(tmp_path / "a.parquet", load=0.5)


def test_names_that_are_nothing() -> None:
    with pytest.raises(WorkloadError, match="no such file or generated workload"):
        registry.load("lubln")


def test_suffixes_that_tell_no_format(tmp_path: Path) -> None:
    for name in ("a.txt", "a", "a.parquet.gz"):
        with pytest.raises(InvalidConfiguration, match="unknown workload format"):
            registry.write(tmp_path / name, [])
    assert list(tmp_path.iterdir()) == []


def table(**columns: list[object]) -> pl.DataFrame:
    """Make a table of two jobs with some columns changed."""
    start = {
        "job_id": [1, 2],
        "submission_time": [0.0, 1.0],
        "requested_number_of_resources": [1, 2],
        "requested_time": [5.0, 5.0],
        "run_time": [4, 3],
    }
    return pl.DataFrame(start | columns)


def test_a_table_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table(colour=["red", "blue"], user_id=[None, 7]).write_parquet(path)
    trace = job_table.read(path)
    assert trace.jobs == [Job(1, 0.0, 1, 5.0, 4.0, -1), Job(2, 1.0, 2, 5.0, 3.0, 7)]
    assert trace.num_cores is None


def test_tables_are_repaired_by_the_rules_of_logs(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table(submission_time=[3.0, 1.0], requested_time=[-1.0, 5.0], job_id=[1, 1]).write_parquet(path)
    trace = job_table.read(path)
    assert trace.jobs == [Job(1, 1.0, 2, 5.0, 3.0), Job(1, 3.0, 1, 4.0, 4.0)]
    assert {reason.name for reason in trace.report.counts} == {"OUT_OF_ORDER", "ASSUMED_REQUESTED_TIME", "REPEATED_ID"}
    table(run_time=[-1, 3]).write_parquet(path)
    assert len(job_table.read(path)) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"run_time": ["a", "b"]}, "row 0: run_time: got 'a', expected a finite number"),
        ({"run_time": [1.0, float("nan")]}, "row 1: run_time: got nan, expected a finite number"),
        ({"run_time": [1.0, None]}, "row 1: run_time: got None"),
        ({"submission_time": [0.0, 1e16]}, "row 1: submission_time: got 1e"),
        (
            {"requested_number_of_resources": [1.5, 2.0]},
            "row 0: requested_number_of_resources: got 1.5, expected an integer",
        ),
        ({"run_time": [-1, -1]}, "no usable job in 2 rows"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    path = tmp_path / "a.parquet"
    table(**columns).write_parquet(path)
    with pytest.raises(WorkloadError, match=message):
        job_table.read(path, strict="usable" not in message)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(WorkloadError, match="No such file"):
        job_table.read(path)
    path.write_text("hello")
    with pytest.raises(WorkloadError, match="is not a Parquet file"):
        job_table.read(path)
    table().drop("run_time", "submission_time").write_parquet(path)
    missing = "has no column submission_time or .*, no column run_time or .* or sim_duration; try --columns"
    with pytest.raises(WorkloadError, match=missing):
        job_table.read(path)


def test_tables_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be written"):
        job_table.write(tmp_path / "absent" / "a.parquet", lublin.generate(2, 8))
    with pytest.raises(WorkloadError, match="requested_time: got 0"):
        job_table.write(tmp_path / "a.parquet", [Job(1, 0.0, 1, 0.0, 5.0)])
    assert list(tmp_path.iterdir()) == []


def test_descriptions_are_lines() -> None:
    for name, text in registry.descriptions().items():
        assert name
        assert text.endswith(".")
        assert "\n" not in text
