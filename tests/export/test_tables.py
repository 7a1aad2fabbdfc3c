"""Job tables as text."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from desim import Result
from desim.exceptions import RecordError
from desim.export import to_batsim_csv, to_csv

Run = Callable[..., Result]
BATSIM_COLUMNS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy"
)


def test_csv_reads_back_exactly(run: Run, tmp_path: Path) -> None:
    result = run(until=70_000.0)
    assert result.jobs["starting_time"].null_count() > 0
    path = to_csv(result, tmp_path / "jobs.csv")
    assert path == tmp_path / "jobs.csv"
    assert pl.read_csv(path, schema_overrides=dict(result.jobs.schema)).equals(result.jobs)


@pytest.mark.parametrize("on_outage", ["requeue", "lose"])
def test_batsim_columns(run: Run, tmp_path: Path, on_outage: str) -> None:
    result = run(until=70_000.0, on_outage=on_outage)
    path = to_batsim_csv(result, tmp_path / "jobs.csv")
    lines = path.read_text().splitlines()
    assert lines[0] == BATSIM_COLUMNS
    states = {
        "completed": ("COMPLETED_SUCCESSFULLY", "1"),
        "killed": ("COMPLETED_WALLTIME_REACHED", "0"),
        "lost": ("COMPLETED_KILLED", "0"),
        "running": ("RUNNING", "0"),
        "queued": ("SUBMITTED", "0"),
        "rejected": ("REJECTED", "0"),
    }
    seen = set()
    for row, job in zip(csv.DictReader(lines), result.jobs.iter_rows(named=True), strict=True):
        assert (row["final_state"], row["success"]) == states[job["status"]]
        seen.add(job["status"])
        assert int(row["job_id"]) == job["job_id"]
        assert float(row["profile"].removeprefix("delay_")) == job["run_time"]
        assert row["allocated_resources"] == (job["allocated_resources"] or "")
        assert (row["workload_name"], row["consumed_energy"]) == ("w0", "-1")
        for name in ("submission_time", "requested_time", "starting_time", "execution_time", "finish_time", "stretch"):
            assert (float(row[name]) if row[name] else None) == job[name]
    assert seen >= {"completed", "killed", "running", "queued", "rejected"}
    assert ("lost" in seen) == (on_outage == "lose")


def test_the_workload_may_have_a_name(run: Run, tmp_path: Path) -> None:
    rows = csv.DictReader(to_batsim_csv(run(), tmp_path / "jobs.csv", workload_name="kth").read_text().splitlines())
    assert {row["workload_name"] for row in rows} == {"kth"}


@pytest.mark.parametrize("write", [to_csv, to_batsim_csv])
def test_files_that_cannot_be_written(run: Run, tmp_path: Path, write: Callable[..., Path]) -> None:
    with pytest.raises(RecordError, match="cannot write"):
        write(run(), tmp_path / "absent" / "jobs.csv")
    assert list(tmp_path.iterdir()) == []
