"""Validation rules of job dependencies, on the table ``dependencies`` of a batch run."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import polars as pl

from desim.problems.batch.tables import ENDED
from desim.validation import Check, Recorded, rule

__all__ = ["RULES", "submitted"]


def _wrong_dependencies(run: Recorded) -> pl.DataFrame:
    """Return the jobs with dependencies whose submission time does not match them."""
    status, submission = pl.col("status").cast(pl.String), pl.col("submission_time")
    of_row = run["dependencies"].with_row_index("row")
    ended = pl.when(status == "rejected").then(submission).when(status.is_in(ENDED)).then("finish_time")
    ends = run["jobs"].select(other="job_id", ended=ended)
    others = of_row.select("row", other=pl.col("after").str.split(" ")).explode("other")
    others = others.with_columns(pl.col("other").cast(pl.Int64, strict=False)).join(ends, on="other", how="left")
    last = others.group_by("row").agg(  # null if a predecessor has not ended
        ended=pl.when(pl.col("ended").is_null().any()).then(None).otherwise(pl.col("ended").max())
    )
    expected = pl.max_horizontal("trace_submission_time", pl.col("ended") + pl.col("think_time"))
    due = of_row.join(last, on="row", how="left").with_columns(
        expected=pl.when(pl.col("ended").is_not_null()).then(expected)
    )
    recorded = run["jobs"].select("job_id", recorded="submission_time").unique("job_id")
    due = due.join(recorded, on="job_id", how="left", maintain_order="left")
    may = pl.col("expected").is_not_null()  # else a predecessor never ended
    is_late = may & (pl.lit(run.drained) | (pl.col("expected") < run.end_time))
    waits = pl.col("submission_time").is_null()
    wrong = pl.when(waits).then(is_late).otherwise(pl.col("expected").ne_missing(pl.col("submission_time")))
    return due.filter(wrong | pl.col("recorded").ne_missing(pl.col("submission_time")))


def submitted(run: Recorded, jobs: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """Return the jobs of a workload; those with dependencies have their recorded submission times."""
    if "dependencies" not in run.info:
        return jobs
    columns = run["dependencies"].select("job_id", "trace_submission_time", "submission_time")
    times = {job_id: (planned, submitted) for job_id, planned, submitted in columns.iter_rows()}
    rows = []
    for job_id, planned, *others in jobs:
        known, submitted = times.get(job_id, (None, None))
        if known != planned:
            rows.append((job_id, planned, *others))
        elif submitted is not None:
            rows.append((job_id, submitted, *others))
    return sorted(rows, key=itemgetter(1))


RULES = (
    rule(
        "dependencies",
        "a job with dependencies is submitted when its predecessors have ended and its think time has passed, but not "
        "before its time in the workload",
        Check(
            "jobs",
            _wrong_dependencies,
            "job {job_id}, planned for {trace_submission_time} s after jobs {after} with think time "
            "{think_time} s: submitted at {submission_time} s, expected {expected} s",
            when=lambda run: "dependencies" in run.info,
        ),
    ),
)
"""Validation rules of dependencies."""
