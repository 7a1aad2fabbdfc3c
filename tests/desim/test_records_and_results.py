"""Tables in memory and in files, saved, loaded, and never overwritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from small_agents import random_jobs

from desim import RecordError, Result, simulate
from desim.agents.batch import FCFS, create
from desim.problems.batch import BatchCluster, parse_core_sets
from desim.processes import random_outages
from desim.validation import validate


def cluster(count: int = 200, num_cores: int = 8) -> BatchCluster:
    return BatchCluster(random_jobs(count, 8), num_cores, processes=[random_outages(500.0, 5.0, unit=num_cores // 2)])


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(cluster(), create("easy-sjf"), seed=11)


def assert_same(first: Result, second: Result) -> None:
    assert first.info == second.info
    assert first.table_names == second.table_names
    for name in first.table_names:
        assert_frame_equal(first.table(name), second.table(name))


def test_streaming_in_many_parts_gives_the_same_tables(tmp_path: Path) -> None:
    # Tables of wide clusters are written every 1,024 jobs.
    big = cluster(5_000, 16_384)
    in_memory = simulate(big, FCFS(), seed=3)
    streamed = simulate(big, FCFS(), seed=3, out=tmp_path / "run")
    assert len(list((tmp_path / "run" / "jobs").glob("part-*.parquet"))) > 3
    assert len(in_memory.jobs) == 5_000
    assert len(in_memory.table("interruptions")) > 0
    assert_same(streamed, in_memory)
    assert_same(Result.load(tmp_path / "run"), in_memory)


def test_the_job_table_is_sorted_by_submission_and_id(result: Result) -> None:
    assert_frame_equal(result.jobs, result.jobs.sort("submission_time", "job_id"))


def test_the_columns_of_the_job_table(result: Result) -> None:
    assert result.jobs.columns == [
        "job_id",
        "submission_time",
        "requested_number_of_resources",
        "requested_time",
        "run_time",
        "starting_time",
        "execution_time",
        "finish_time",
        "waiting_time",
        "turnaround_time",
        "stretch",
        "allocated_resources",
        "success",
        "status",
        "attempts",
        "earlier_execution_time",
        "useful_execution_time",
        "user_id",
        "arrival_number",
    ]


def test_derived_columns_follow_from_the_others(result: Result) -> None:
    jobs = result.jobs
    for derived, expected in {
        "waiting_time": pl.col("starting_time") - pl.col("submission_time") - pl.col("earlier_execution_time"),
        "turnaround_time": pl.col("finish_time") - pl.col("submission_time"),
        "stretch": pl.col("turnaround_time") / pl.col("useful_execution_time"),
        "success": pl.col("status") == "completed",
    }.items():
        assert_frame_equal(jobs.select(derived), jobs.select(expected.alias(derived)))
    widths = (
        parse_core_sets(jobs["allocated_resources"])
        .group_by("row")
        .agg((pl.col("last") - pl.col("first") + 1).sum().alias("cores"))
    )
    assert widths.sort("row")["cores"].to_list() == jobs["requested_number_of_resources"].to_list()


def test_save_and_load(result: Result, tmp_path: Path) -> None:
    assert result.save(tmp_path / "kept") == tmp_path / "kept"
    loaded = Result.load(tmp_path / "kept")
    assert_same(loaded, result)
    assert loaded.metrics() == result.metrics()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_run_that_was_stored_before_the_renames_is_read(result: Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "old") / "result.json"
    path.write_text(path.read_text().replace("enforce_time_limit", "kill_at_request"))
    assert "kill_at_request" in json.loads(path.read_text())
    loaded = Result.load(tmp_path / "old")
    assert loaded.info == result.info
    assert validate(loaded).ok


def test_a_loaded_result_can_be_saved_again(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "one")
    Result.load(tmp_path / "one").save(str(tmp_path / "two"))
    assert_same(Result.load(tmp_path / "two"), result)


def test_saving_into_an_empty_directory(result: Result, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result.save(tmp_path / "empty")
    assert_same(Result.load(tmp_path / "empty"), result)


class TestNothingIsOverwritten:
    def test_save_over_a_result(self, result: Result, tmp_path: Path) -> None:
        result.save(tmp_path / "kept")
        before = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}
        with pytest.raises(RecordError, match="kept already"):
            result.save(tmp_path / "kept")
        assert {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()} == before

    def test_save_into_a_directory_with_something_else(self, result: Result, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(RecordError, match="not empty"):
            result.save(tmp_path)
        assert (tmp_path / "thesis.tex").read_text() == "years of work"

    def test_save_over_a_file(self, result: Result, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("precious")
        with pytest.raises(RecordError, match="file"):
            result.save(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "precious"

    def test_stream_over_a_result(self, tmp_path: Path) -> None:
        simulate(cluster(20), FCFS(), out=tmp_path / "run")
        before = (tmp_path / "run" / "result.json").read_bytes()
        with pytest.raises(RecordError, match="already contains a result"):
            simulate(cluster(20), FCFS(), out=tmp_path / "run")
        assert (tmp_path / "run" / "result.json").read_bytes() == before

    def test_stream_under_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("precious")
        with pytest.raises(RecordError, match="file"):
            simulate(cluster(20), FCFS(), out=tmp_path / "file" / "run")

    def test_save_where_nothing_can_be_written(self, result: Result, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("precious")
        with pytest.raises(RecordError, match="file"):
            result.save(tmp_path / "file" / "kept")


class TestLoadingWhatIsNotThere:
    def test_a_directory_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match="nowhere"):
            Result.load(tmp_path / "nowhere")

    def test_a_directory_that_holds_no_result(self, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match="no result"):
            Result.load(tmp_path)

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "{}", '{"format": 99, "tables": {}}', '{"format": 1, "tables": []}']
    )
    def test_a_description_that_is_none(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(RecordError, match=r"result\.json"):
            Result.load(tmp_path)

    def test_a_table_that_does_not_exist(self, result: Result) -> None:
        for ask in (result.table, result.scan):
            with pytest.raises(RecordError, match=r"'nodes'.*jobs"):
                ask("nodes")


def test_the_description_says_what_was_run(result: Result) -> None:
    described: dict[str, Any] = {
        "problem": "batch",
        "num_cores": 8,
        "enforce_time_limit": True,
        "infeasible": "raise",
        "too_wide": "error",
        "on_outage": "requeue",
        "agent": "easy-sjf",
        "seed": 11,
        "status": "complete",
        "until": None,
    }
    assert described.items() <= result.info.items()
    assert result.info["end_time"] == result.jobs["finish_time"].max()
    assert json.loads(json.dumps(result.info)) == result.info
    for word in ("batch", "easy-sjf", "11", "complete"):
        assert word in repr(result)
