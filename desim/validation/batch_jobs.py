"""Rules on single rows of the job table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.batch_tables import BatchRun
from desim.validation.job_rules import (
    check_derived,
    check_differences,
    check_filled,
    check_horizon,
    check_reuse,
    check_success,
)
from desim.validation.report import Findings
from desim.validation.tables import choice_of, rounding

__all__ = ["check_jobs"]

Floats = NDArray[np.float64]


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
    check_horizon(run, findings, ("submission_time", "starting_time", "finish_time"), unit=" s")


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
    gone = np.where(run.status["running"] | run.status["queued"], np.inf, run.jobs["finish_time"])
    check_reuse(run, findings, "unique_ids", gone, ~run.status["rejected"])  # these never enter the system


def _check_presence(run: BatchRun, findings: Findings) -> None:
    """Check that each status has the times and cores that belong to it, and no others."""
    status = run.status
    ended = status["completed"] | status["killed"] | status["lost"]
    begun = ended | status["running"]
    for column in ("starting_time", "waiting_time"):
        check_filled(run, findings, column, begun)
    for column in ("finish_time", "execution_time", "turnaround_time"):
        check_filled(run, findings, column, ended)
    check_filled(run, findings, "stretch", ended & (run.jobs["execution_time"] > 0))
    filled = run.texts["jobs"].is_not_null().to_numpy()
    check_filled(run, findings, "allocated_resources", begun, filled=filled)
    check_success(run, findings)


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
    check_differences(run, findings, ("waiting_time", "turnaround_time"))
    runs = execution > 0
    stretch = np.divide(turnaround, execution, out=np.full(len(ids), np.nan), where=runs)
    check_derived(run, findings, "stretch", stretch, rounding(stretch))


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
            f"job {ids[row]} is {choice_of(run.status, row)} after {execution[row]} s, with run time {run_time[row]} "
            f"s, requested time {requested[row]} s, {'' if run.kills else 'not '}killed at its request"
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
            f"job {ids[row]} is {choice_of(run.status, row)}: it requests {cores[row]} of {run.num_cores} cores, too "
            f"wide jobs are {'rejected' if run.rejects else 'an error'}"
        ),
    )
