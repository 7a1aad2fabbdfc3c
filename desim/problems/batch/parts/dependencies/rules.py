"""Validation rules of job dependencies, on the table ``dependencies`` of a batch run."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import polars as pl

from desim.problems.batch.recorded import KEY
from desim.problems.batch.tables import ENDED
from desim.validation import Recorded, RuleBook, rounding

__all__ = ["RULES", "submitted"]


RULES = RuleBook(only_with="dependencies")
"""Validation rules of dependencies."""
rule, check = RULES.rule, RULES.check


def submitted(run: Recorded, jobs: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """Return the jobs of a workload; those with dependencies have their recorded submission times."""
    if "dependencies" not in run.info:
        return jobs
    columns = run["dependencies"].select("position", "job_id", "trace_submission_time", "submission_time")
    recorded = {position: (tuple(planned), submitted) for position, *planned, submitted in columns.iter_rows()}
    rows = []
    for position, (job_id, planned, *others) in enumerate(jobs):
        known, submitted = recorded.get(position, (None, None))
        if known != (job_id, planned):
            rows.append((job_id, planned, *others))
        elif submitted is not None:
            rows.append((job_id, submitted, *others))
    return sorted(rows, key=itemgetter(1))


rule(
    "dependencies",
    "jobs",
    "a job with dependencies is submitted when its predecessors have ended and its think time has passed, but not "
    "before its time in the workload",
)


@check(
    "job {job_id}, planned for {trace_submission_time} s after jobs {after} with think time "
    "{think_time} s: submitted at {submission_time} s, expected {expected} s"
)
def _wrong_dependencies(run: Recorded) -> pl.DataFrame:
    """Return the jobs with dependencies whose submission time does not match them."""
    status, submission = pl.col("status").cast(pl.String), pl.col("submission_time")
    of_row = run["dependencies"]
    ended = pl.when(status == "rejected").then(submission).when(status.is_in(ENDED)).then("finish_time")
    ends = run["jobs"].select(other="arrival_number", ended=ended, name=pl.col("job_id").cast(pl.String))
    others = of_row.select("position", other=pl.col("preceding").str.split(" ")).explode("other")
    others = others.with_columns(pl.col("other").cast(pl.Int64, strict=False))
    others = others.join(ends, on="other", how="left", maintain_order="left")
    last = others.group_by("position", maintain_order=True).agg(  # null if a predecessor has not ended or arrived
        ended=pl.when(pl.col("ended").is_null().any()).then(None).otherwise(pl.col("ended").max()),
        named=pl.when(pl.col("name").is_null().any()).then(None).otherwise(pl.col("name").str.join(" ")),
    )
    expected = pl.max_horizontal("trace_submission_time", pl.col("ended") + pl.col("think_time"))
    due = of_row.join(last, on="position", how="left").with_columns(
        expected=pl.when(pl.col("ended").is_not_null()).then(expected)
    )
    recorded = run["jobs"].select(*KEY, recorded="submission_time").unique(KEY)
    due = due.join(recorded, on=KEY, how="left", maintain_order="left")
    may = pl.col("expected").is_not_null()  # else a predecessor never ended
    is_late = may & (pl.lit(run.drained) | (pl.col("expected") < run.end_time))
    waits = pl.col("submission_time").is_null()
    off = (pl.col("expected") - pl.col("submission_time")).abs()  # ends on nodes with speeds are rounded
    is_off = (off > rounding(pl.col("expected"))).fill_null(True)
    wrong = pl.when(waits).then(is_late).otherwise(is_off)
    wrong |= (pl.col("named") != pl.col("after")).fill_null(False)
    return due.filter(wrong | pl.col("recorded").ne_missing(pl.col("submission_time")))
