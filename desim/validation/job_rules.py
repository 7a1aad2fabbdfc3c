"""Rules on job tables that several problems have, with what they say where they are broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from desim.validation.report import Findings
from desim.validation.tables import Columns, choice_of, rounding

__all__ = [
    "RecordedJobs",
    "check_derived",
    "check_differences",
    "check_filled",
    "check_horizon",
    "check_reuse",
    "check_success",
]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_FROM_TO = {
    "waiting_time": ("submission_time", "starting_time"),
    "execution_time": ("starting_time", "finish_time"),
    "turnaround_time": ("submission_time", "finish_time"),
    "delay": ("earliest_start", "starting_time"),
}


class RecordedJobs(Protocol):
    """A run of any problem, taken apart."""

    @property
    def jobs(self) -> Columns:
        """The columns of the job table that hold numbers; what is null is NaN."""

    @property
    def status(self) -> Mapping[str, Mask]:
        """For each status which jobs have it."""

    @property
    def end_time(self) -> float:
        """When the run ended."""


def check_filled(
    run: RecordedJobs, findings: Findings, column: str, wanted: Mask, *, filled: Mask | None = None
) -> None:
    """Check that a column is null for some jobs and not for the others.

    Parameters
    ----------
    run : RecordedJobs
        The run.
    findings : Findings
        Takes the violations, by the rule ``status_fields``.
    column : str
        Name.
    wanted : array of bool, shape (n,)
        The jobs for which it is not null.
    filled : array of bool, shape (n,), optional
        Those for which it is not, where it holds no numbers.
    """
    ids = run.jobs["job_id"]
    given = ~np.isnan(run.jobs[column]) if filled is None else filled
    findings.check(
        "status_fields",
        len(ids),
        given != wanted,
        lambda row: (
            f"job {ids[row]} is {choice_of(run.status, row)}: {column} is {'null' if wanted[row] else 'not null'}"
        ),
    )


def check_success(run: RecordedJobs, findings: Findings) -> None:
    """Check that success means completed.

    Parameters
    ----------
    run : RecordedJobs
        The run.
    findings : Findings
        Takes the violations, by the rule ``status_fields``.
    """
    ids, success = run.jobs["job_id"], run.jobs["success"]
    findings.check(
        "status_fields",
        len(ids),
        success != run.status["completed"],
        lambda row: f"job {ids[row]} is {choice_of(run.status, row)}: success is {success[row]}",
    )


def check_derived(run: RecordedJobs, findings: Findings, column: str, expected: Floats, tolerance: Floats) -> None:
    """Check that a column is what the times of the jobs give.

    Parameters
    ----------
    run : RecordedJobs
        The run.
    findings : Findings
        Takes the violations, by the rule ``derived_times``.
    column : str
        Name.
    expected : array of float, shape (n,)
        What they give, NaN where that is nothing.
    tolerance : array of float, shape (n,)
        How far it may be off.
    """
    ids, values = run.jobs["job_id"], run.jobs[column]
    findings.check(
        "derived_times",
        len(ids),
        np.abs(values - expected) > tolerance,
        lambda row: f"job {ids[row]}: {column} is {values[row]}, its times give {expected[row]}",
    )


def check_differences(run: RecordedJobs, findings: Findings, columns: Iterable[str]) -> None:
    """Check columns that are the difference of two others.

    Parameters
    ----------
    run : RecordedJobs
        The run.
    findings : Findings
        Takes the violations, by the rule ``derived_times``.
    columns : iterable of str
        ``waiting_time``, ``execution_time``, ``turnaround_time`` or ``delay``.
    """
    for column in columns:
        begin, end = (run.jobs[name] for name in _FROM_TO[column])
        check_derived(run, findings, column, end - begin, rounding(end, begin))


def check_horizon(run: RecordedJobs, findings: Findings, columns: Iterable[str], *, unit: str = "") -> None:
    """Check that nothing happens after the end of the run.

    Parameters
    ----------
    run : RecordedJobs
        The run.
    findings : Findings
        Takes the violations, by the rule ``horizon``.
    columns : iterable of str
        The columns with times.
    unit : str
        What follows a time in messages.
    """
    for column in columns:
        _check_end(run, findings, column, unit)


def _check_end(run: RecordedJobs, findings: Findings, column: str, unit: str) -> None:
    ids, times, end = run.jobs["job_id"], run.jobs[column], run.end_time
    findings.check(
        "horizon",
        len(ids),
        times > end,
        lambda row: f"job {ids[row]}: {column} {times[row]}{unit} lies after the end of the run at {end}{unit}",
    )


def check_reuse(run: RecordedJobs, findings: Findings, rule: str, gone: Floats, admitted: Mask) -> None:
    """Check that of all jobs with the same id at most one is in the system at any time.

    Parameters
    ----------
    run : RecordedJobs
        The run.
    findings : Findings
        Takes the violations.
    rule : str
        Their rule.
    gone : array of float, shape (n,)
        When each job has left the system, in seconds; infinite if it has not.
    admitted : array of bool, shape (n,)
        The jobs that ever enter the system.
    """
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    rows = np.flatnonzero(admitted)
    rows = rows[np.lexsort((submission[rows], ids[rows]))]
    before, after = rows[:-1], rows[1:]
    same_time = submission[after] == submission[before]
    clash = (ids[after] == ids[before]) & (same_time | ~(gone[before] <= submission[after]))
    findings.check(
        rule,
        len(ids),
        np.flatnonzero(clash),
        lambda pair: (
            f"job {ids[after[pair]]} is submitted at {submission[after[pair]]} s while another job of this id, "
            f"submitted at {submission[before[pair]]} s, is still in the system"
        ),
    )
