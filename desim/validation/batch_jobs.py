"""Rules on single rows of the job table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.batch_tables import BatchRun
from desim.validation.report import Findings

__all__ = ["check_jobs", "rounding"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def rounding(*values: Floats) -> Floats:
    """Return how far a sum or difference of times may be off: four units in the last place of the largest.

    Parameters
    ----------
    *values : array of float, shape (n,)
        The terms.

    Returns
    -------
    array of float, shape (n,)
        The tolerance, NaN where a term is.
    """
    largest: Floats = np.max(np.abs(values), axis=0)
    return 4.0 * np.spacing(largest)


def check_jobs(run: BatchRun, findings: Findings) -> None:
    """Check what can be seen from each row on its own, and that ids are unique.

    Parameters
    ----------
    run : BatchRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_values(run, findings)
    _check_ids(run, findings)
    _check_presence(run, findings)
    _check_times(run, findings)
    _check_execution_times(run, findings)
    _check_rejections(run, findings)
    _check_horizon(run, findings)


def _check_values(run: BatchRun, findings: Findings) -> None:
    lowest = dict.fromkeys(("submission_time", "requested_time", "run_time", "execution_time", "attempts"), 0)
    lowest |= {"requested_number_of_resources": 1, "user_id": -1}
    for column, least in lowest.items():
        _check_lowest(run, findings, column, least)


def _check_lowest(run: BatchRun, findings: Findings, column: str, least: int) -> None:
    ids, values = run.jobs["job_id"], run.jobs[column]
    findings.check(
        "values",
        len(ids),
        values < least,
        lambda row: f"job {ids[row]}: {column} is {values[row]}, want at least {least}",
    )


def _check_ids(run: BatchRun, findings: Findings) -> None:
    """Check that of all jobs with the same id at most one is in the system at any time."""
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    gone = np.where(run.status["running"] | run.status["queued"], np.inf, run.jobs["finish_time"])
    rows = np.flatnonzero(~run.status["rejected"])  # these never enter the system
    rows = rows[np.lexsort((submission[rows], ids[rows]))]
    before, after = rows[:-1], rows[1:]
    same_time = submission[after] == submission[before]
    clash = (ids[after] == ids[before]) & (same_time | ~(gone[before] <= submission[after]))
    findings.check(
        "unique_ids",
        len(ids),
        np.flatnonzero(clash),
        lambda pair: (
            f"job {ids[after[pair]]} is submitted at {submission[after[pair]]} s while another job of this id, "
            f"submitted at {submission[before[pair]]} s, is still in the system"
        ),
    )


def _check_presence(run: BatchRun, findings: Findings) -> None:
    """Check that each status has the times and cores that belong to it, and no others."""
    jobs, status = run.jobs, run.status
    ended = status["completed"] | status["killed"] | status["lost"]
    begun = ended | status["running"]
    for column in ("starting_time", "waiting_time"):
        _check_filled(run, findings, column, ~np.isnan(jobs[column]), begun)
    for column in ("finish_time", "execution_time", "turnaround_time"):
        _check_filled(run, findings, column, ~np.isnan(jobs[column]), ended)
    _check_filled(run, findings, "stretch", ~np.isnan(jobs["stretch"]), ended & (jobs["execution_time"] > 0))
    _check_filled(run, findings, "allocated_resources", run.texts["jobs"].is_not_null().to_numpy(), begun)
    ids, success = jobs["job_id"], jobs["success"]
    findings.check(
        "status_fields",
        len(ids),
        success != status["completed"],
        lambda row: f"job {ids[row]} is {_status(run, row)}: success is {success[row]}",
    )


def _check_filled(run: BatchRun, findings: Findings, column: str, filled: Mask, wanted: Mask) -> None:
    ids = run.jobs["job_id"]
    findings.check(
        "status_fields",
        len(ids),
        filled != wanted,
        lambda row: f"job {ids[row]} is {_status(run, row)}: {column} is {'null' if wanted[row] else 'not null'}",
    )


def _status(run: BatchRun, row: int) -> str:
    return next(status for status, mask in run.status.items() if mask[row])


def _check_times(run: BatchRun, findings: Findings) -> None:
    """Check the order of the times and the columns that follow from others."""
    jobs = run.jobs
    ids, submission, start, finish = (jobs[n] for n in ("job_id", "submission_time", "starting_time", "finish_time"))
    execution, turnaround = jobs["execution_time"], jobs["turnaround_time"]
    findings.check(
        "start_after_submission",
        len(ids),
        start < submission,
        lambda row: f"job {ids[row]} starts at {start[row]} s, before its submission at {submission[row]} s",
    )
    findings.check(
        "finish_time",
        len(ids),
        np.abs(finish - (start + execution)) > rounding(finish, start, execution),
        lambda row: f"job {ids[row]}: end {finish[row]} s is not start {start[row]} s + execution {execution[row]} s",
    )
    _check_derived(run, findings, "waiting_time", start - submission, rounding(start, submission))
    _check_derived(run, findings, "turnaround_time", finish - submission, rounding(finish, submission))
    runs = execution > 0
    stretch = np.divide(turnaround, execution, out=np.full(len(ids), np.nan), where=runs)
    _check_derived(run, findings, "stretch", stretch, rounding(stretch))


def _check_derived(run: BatchRun, findings: Findings, column: str, expected: Floats, tolerance: Floats) -> None:
    ids, values = run.jobs["job_id"], run.jobs[column]
    findings.check(
        "derived_times",
        len(ids),
        np.abs(values - expected) > tolerance,
        lambda row: f"job {ids[row]}: {column} is {values[row]}, its times give {expected[row]}",
    )


def _check_execution_times(run: BatchRun, findings: Findings) -> None:
    """Check how long each job ran against how long it had to run."""
    jobs, status = run.jobs, run.status
    ids, execution, run_time, requested = (jobs[n] for n in ("job_id", "execution_time", "run_time", "requested_time"))
    too_long = run_time > requested if run.kills else np.zeros(len(ids), np.bool_)
    whole = np.where(too_long, requested, run_time)
    lost, running = status["lost"], status["running"]
    wrong = (status["completed"] & ((execution != run_time) | too_long)) | (
        status["killed"] & ((execution != requested) | ~too_long)
    )
    wrong |= lost & (execution > whole + rounding(jobs["finish_time"], whole))
    findings.check(
        "execution_time",
        len(ids),
        wrong,
        lambda row: (
            f"job {ids[row]} is {_status(run, row)} after {execution[row]} s, with run time {run_time[row]} s, "
            f"requested time {requested[row]} s, {'' if run.kills else 'not '}killed at its request"
        ),
    )
    due = jobs["starting_time"] + whole
    findings.check(
        "unfinished",
        len(ids),
        running & ((due < run.end_time - rounding(due)) | run.drained),
        lambda row: (
            f"job {ids[row]}, started at {jobs['starting_time'][row]} s and due at {due[row]} s, is still running "
            f"when the {run.run_status} run ends at {run.end_time} s"
        ),
    )


def _check_rejections(run: BatchRun, findings: Findings) -> None:
    ids, cores, rejected = run.jobs["job_id"], run.jobs["requested_number_of_resources"], run.status["rejected"]
    wide = cores > run.num_cores
    findings.check(
        "rejected",
        len(ids),
        (wide != rejected) | (rejected & (not run.rejects)),
        lambda row: (
            f"job {ids[row]} is {_status(run, row)}: it requests {cores[row]} of {run.num_cores} cores, too wide jobs "
            f"are {'rejected' if run.rejects else 'an error'}"
        ),
    )


def _check_horizon(run: BatchRun, findings: Findings) -> None:
    """Check that nothing happens after the end of the run."""
    ids, end = run.jobs["job_id"], run.end_time
    for column in ("submission_time", "starting_time", "finish_time"):
        _check_before(findings, column, ids, run.jobs[column], end)


def _check_before(findings: Findings, column: str, ids: NDArray[np.int64], times: Floats, end: float) -> None:
    findings.check(
        "horizon",
        len(ids),
        times > end,
        lambda row: f"job {ids[row]}: {column} {times[row]} s lies after the end of the run at {end} s",
    )
