"""Conservation: the deferrable jobs of a run are the workload, nothing lost, nothing invented, nothing changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.exceptions import WorkloadError
from desim.validation.deferrable_tables import DeferrableRun
from desim.validation.report import Findings

if TYPE_CHECKING:
    import polars as pl

    from desim.problems.deferrable import Job

__all__ = ["check_conservation"]

_TIMES = ("submission_time", "earliest_start", "latest_start", "requested_time")


def check_conservation(run: DeferrableRun, workload: Iterable[Job], findings: Findings) -> None:
    """Check that every submitted job is in the job table exactly once, as it was submitted.

    In a real-time run a job is submitted at its earliest start, to be started then. A run that was stopped need not
    have the jobs submitted at its end or later.

    Parameters
    ----------
    run : DeferrableRun
        The run.
    workload : iterable of Job
        The jobs in order of submission; read no further than the run has come.
    findings : Findings
        Takes the violations.

    Raises
    ------
    WorkloadError
        If the workload has something else than jobs, or jobs with another number of requests.
    """
    import polars as pl

    names = [*_TIMES, *(f"requested_{name}" for name in run.resources)]
    given = _given(run, workload, names)
    recorded = pl.DataFrame({"job_id": run.jobs["job_id"], **{name: run.jobs[name] for name in names}})
    recorded = recorded.with_columns(pl.col(names).cast(pl.Float64))
    pairs = _numbered(given).join(
        _numbered(recorded),
        on=("job_id", "number"),
        how="full",
        coalesce=True,
        suffix=" recorded",
        maintain_order="left_right",
    )
    late = pl.lit(False) if run.drained else pl.col(names[0]) >= run.end_time
    missing, extra = (pl.col(f"{names[0]}{suffix}").is_null() for suffix in (" recorded", ""))
    changed = pl.any_horizontal(pl.col(name) != pl.col(f"{name} recorded") for name in names)
    wrong = pairs.select((missing & ~late) | extra | changed.fill_null(False)).to_series().fill_null(False)
    findings.check(
        "conservation", len(pairs), np.array(wrong.to_numpy()), lambda row: _text(pairs.row(row, named=True), names)
    )


def _text(job: Mapping[str, Any], names: list[str]) -> str:
    """Say how a job was submitted, and how it is recorded."""
    submitted, found = (
        ", ".join(f"{name} {job[name + suffix]}" for name in names if job[name + suffix] is not None)
        for suffix in ("", " recorded")
    )
    said = f"submitted with {submitted}" if submitted else "which was never submitted"
    return f"job {job['job_id']}, {said}, is {f'recorded with {found}' if found else 'not recorded'}"


def _given(run: DeferrableRun, workload: Iterable[Job], names: list[str]) -> pl.DataFrame:
    """Return the numbers of the jobs of the workload, as the run must have recorded them."""
    import polars as pl

    kinds = [("job_id", np.int64), *((name, np.float64) for name in names)]
    table = np.fromiter(_numbers(run, workload), kinds)
    if run.info["real_time"]:
        table["submission_time"] = table["latest_start"] = table["earliest_start"]
    if not run.drained:
        table = table[table["submission_time"] <= run.end_time]
    return pl.DataFrame({name: table[name] for name, _ in kinds})


def _numbers(run: DeferrableRun, workload: Iterable[Job]) -> Iterator[tuple[Any, ...]]:
    """Yield the numbers of the jobs that are submitted before a run's end or at it."""
    count = len(run.resources) - 1
    for job in workload:
        try:
            job_id, submission, earliest, latest, duration, cores, others = job
            wrong = len(others) != count
        except (TypeError, ValueError):
            wrong = True
        if wrong:
            raise WorkloadError(f"the workload has {job!r}, want a job with {count} others")
        if submission > run.end_time and not run.drained:
            return
        yield (job_id, submission, earliest, latest, duration, cores, *others)


def _numbered(jobs: pl.DataFrame) -> pl.DataFrame:
    """Number the jobs of each identifier by submission."""
    import polars as pl

    place, name = pl.int_range(pl.len()), pl.col("job_id")
    first = pl.when(name.ne_missing(name.shift())).then(place).forward_fill()
    return jobs.sort("job_id", "submission_time", maintain_order=True).with_columns(number=place - first)
