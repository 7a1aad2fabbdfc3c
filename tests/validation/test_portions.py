"""What is found portion by portion is what whole tables give: every violation, in the same order and words."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_batch_corruptions import CASES

from desim import Result, records
from desim.records import Parts
from desim.validation import ValidationReport, validate


def in_portions(result: Result, jobs: Any, rows: int) -> ValidationReport:
    """Validate with so many rows a portion."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PORTION_ROWS", rows)
        return validate(Result({name: result.scan(name) for name in result.table_names}, result.info), jobs)


def in_files(result: Result, directory: Path, rng: np.random.Generator) -> Result:
    """Write tables in parts of a few rows, in an order of recording other than their own."""
    tables = {}
    for name in result.table_names:
        (directory / name).mkdir()
        frame = (
            result.table(name).with_row_index("place").sample(fraction=1.0, shuffle=True, seed=int(rng.integers(99)))
        )
        size = int(rng.integers(3, 20))
        for number in range(len(frame) // size + 1):
            frame[number * size :][:size].write_parquet(directory / name / f"part-{number:06d}.parquet")
        tables[name] = Parts(directory / name, ["place"])
    return Result(tables, result.info)


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case[1]}-{index}") for index, case in enumerate(CASES)])
def test_a_corruption_is_told_in_the_same_words(request: pytest.FixtureRequest, case: tuple[Any, ...]) -> None:
    run = request.getfixturevalue(case[0])
    result = case[2](run)
    rows = 1 if case[1] in ("core_exclusive", "capacity") else 7  # so that those that clash come in different portions
    assert in_portions(result, run.jobs, rows) == validate(result, run.jobs)


def edited(run: Any, rng: np.random.Generator, count: int) -> Result:
    """Change some values, of one table each, by a little or to those of other rows."""
    tables = {name: run.result.table(name) for name in run.result.table_names}
    for _ in range(count):
        name = rng.choice(["jobs", "jobs", "jobs", "interruptions", "outages"])
        frame = tables[name]
        if frame.is_empty():
            continue
        column, row, other = rng.choice(frame.columns), int(rng.integers(len(frame))), int(rng.integers(len(frame)))
        value = frame[column][other]
        if frame.schema[column].is_numeric() and rng.random() < 0.5:
            value = (frame[column][row] or 0) + (1 if frame.schema[column].is_integer() else float(rng.choice([-9, 5])))
        here = pl.int_range(pl.len()) == row
        new = pl.when(here).then(pl.lit(value, frame.schema[column])).otherwise(pl.col(column))
        tables[name] = frame.with_columns(new.alias(column))
    if rng.random() < 0.2:
        tables["jobs"] = tables["jobs"].gather(np.sort(rng.integers(0, len(tables["jobs"]), len(tables["jobs"]))))
    return Result({name: frame.lazy() for name, frame in tables.items()}, run.result.info)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), count=st.integers(0, 6), rows=st.sampled_from([4, 16]))
def test_random_faults_are_told_alike(random_run: Any, seed: int, count: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    options = ({}, {"on_outage": "lose"}, {"until": 90.0}, {"too_wide": "reject"}, {"enforce_time_limit": False})
    run = random_run(seed % 7, count=40, outages=bool(rng.random() < 0.7), **options[rng.integers(len(options))])
    result, jobs = edited(run, rng, count), [job for job in run.jobs if count < 3 or rng.random() < 0.98]
    whole = validate(result, jobs)
    assert in_portions(result, jobs, rows) == whole
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PORTION_ROWS", rows)
        stored, read, table = in_files(result, Path(directory), rng), [], Result.table
        patch.setattr(Result, "table", lambda self, name: (read.append(name), table(self, name))[1])
        assert validate(stored, iter(jobs)) == whole
        if whole.ok:
            assert "jobs" not in read, "a valid run is read in portions only"
