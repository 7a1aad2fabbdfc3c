"""``desim validate``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from command_line import Desim


def corrupt(stored: Path) -> None:
    """Let the first job start a second early."""
    part = max((stored / "jobs").iterdir())
    table = pl.read_parquet(part)
    first = pl.col("job_id") == 3
    table.with_columns(starting_time=pl.when(first).then(pl.lit(1.0)).otherwise("starting_time")).write_parquet(part)


def test_a_valid_run(desim: Desim, stored: Path, log: Path) -> None:
    outcome = desim("validate", stored)
    assert outcome.status == 0
    assert outcome.out.startswith("valid: ")
    with_workload = json.loads(desim("validate", stored, "--trace", log, "--json").out)
    assert with_workload["valid"] is True
    assert "conservation" in with_workload["checks"]


def test_a_corrupt_run(desim: Desim, stored: Path) -> None:
    corrupt(stored)
    outcome = desim("validate", stored)
    assert outcome.status == 1
    assert outcome.out.startswith("invalid: ")
    assert "job 3" in outcome.out
    document = json.loads(desim("validate", stored, "--json").out)
    assert document["valid"] is False
    assert "start_after_submission" in document["counts"]
    assert any("job 3" in violation["message"] for violation in document["violations"])


def test_a_window_is_rebuilt(desim: Desim, log: Path, tmp_path: Path) -> None:
    where = ["--trace", log, "--split", "4", "--warm-up", "2", "--window", "1", "--agent", "fcfs"]
    assert desim("run", "batch", *where, "--out", tmp_path / "out").status == 0
    outcome = desim("validate", tmp_path / "out", "--trace", log, "--json")
    assert outcome.status == 0 and "conservation" in json.loads(outcome.out)["checks"]


def test_another_workload(desim: Desim, stored: Path, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.swf"
    other.write_text(log.read_text().replace("9 40 -1 5 8", "9 41 -1 5 8"))
    outcome = desim("validate", stored, "--trace", other)
    assert outcome.status == 1
    assert "conservation" in outcome.out


def test_a_generated_workload(desim: Desim, tmp_path: Path) -> None:
    options = ["--jobs", "50", "--seed", "3", "--load", "0.7", "--overestimate", "2"]
    assert desim("run", "batch", "--cores", "32", *options, "--out", tmp_path / "out").status == 0
    assert desim("validate", tmp_path / "out", "--trace", "lublin", *options).status == 0
    assert desim("validate", tmp_path / "out", "--trace", "lublin", *options[:2]).status == 1


def test_what_cannot_be_checked(desim: Desim, stored: Path, tmp_path: Path) -> None:
    assert "no result in" in desim("validate", tmp_path).err
    info = json.loads((stored / "result.json").read_text())
    (stored / "result.json").write_text(json.dumps(info | {"status": "running"}))
    outcome = desim("validate", stored)
    assert outcome.status == 2
    assert "stored: the run has not ended" in outcome.err


def test_damaged_files_are_an_error_in_one_line(desim: Desim, stored: Path) -> None:
    part = max((stored / "jobs").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    outcome = desim("validate", stored)
    assert outcome.status in (1, 2)
    assert outcome.err.startswith("desim: error: ")
    assert outcome.err.count("\n") == 1
