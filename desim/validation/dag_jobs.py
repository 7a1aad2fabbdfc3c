"""Rules on the job table of a run of DAG jobs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_lookup import rounding
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings

__all__ = ["check_jobs"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def check_jobs(run: DagRun, findings: Findings) -> None:
    """Check the job table in itself and against the copies.

    Parameters
    ----------
    run : DagRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_ids(run, findings)
    _check_fields(run, findings)
    _check_derived(run, findings)
    _check_starts(run, findings)
    _check_ends(run, findings)


def _check_ids(run: DagRun, findings: Findings) -> None:
    """Check that of all jobs with the same id at most one is in the system at any time."""
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    early = submission < 0
    findings.check("submissions", len(ids), early, lambda row: f"job {ids[row]} is submitted at {submission[row]} s")
    late = submission > run.end_time
    findings.check(
        "horizon",
        len(ids),
        late,
        lambda row: f"job {ids[row]} is submitted at {submission[row]} s, after the end of the run at {run.end_time} s",
    )
    gone = np.where(run.status["completed"], run.jobs["finish_time"], np.inf)
    order = np.lexsort((submission, ids))
    before, after = order[:-1], order[1:]
    same_time = submission[after] == submission[before]
    clash = (ids[after] == ids[before]) & (same_time | ~(gone[before] <= submission[after]))
    findings.check(
        "submissions",
        len(ids),
        np.flatnonzero(clash),
        lambda pair: (
            f"job {ids[after[pair]]} is submitted at {submission[after[pair]]} s while another job of this id, "
            f"submitted at {submission[before[pair]]} s, is still in the system"
        ),
    )


def _check_fields(run: DagRun, findings: Findings) -> None:
    """Check that each status has the times that belong to it, and no others."""
    jobs, status, ids = run.jobs, run.status, run.jobs["job_id"]
    begun = status["completed"] | status["running"]
    for column, wanted in (
        ("starting_time", begun),
        ("waiting_time", begun),
        ("finish_time", status["completed"]),
        ("turnaround_time", status["completed"]),
    ):
        filled = ~np.isnan(jobs[column])
        findings.check(
            "status_fields",
            len(ids),
            filled != wanted,
            lambda row, column=column, wanted=wanted: (  # type: ignore[misc]
                f"job {ids[row]} is {_status(run, row)}: {column} is {'null' if wanted[row] else 'not null'}"
            ),
        )
    success = jobs["success"]
    findings.check(
        "status_fields",
        len(ids),
        success != status["completed"],
        lambda row: f"job {ids[row]} is {_status(run, row)}: success is {success[row]}",
    )


def _status(run: DagRun, row: int) -> str:
    return next(status for status, mask in run.status.items() if mask[row])


def _check_derived(run: DagRun, findings: Findings) -> None:
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    for column, time in (("waiting_time", "starting_time"), ("turnaround_time", "finish_time")):
        values, expected = run.jobs[column], run.jobs[time] - submission
        findings.check(
            "derived_times",
            len(ids),
            np.abs(values - expected) > rounding(run.jobs[time], submission),
            lambda row, column=column, values=values, expected=expected: (  # type: ignore[misc]
                f"job {ids[row]}: {column} is {values[row]}, its times give {expected[row]}"
            ),
        )


def _check_starts(run: DagRun, findings: Findings) -> None:
    """Check that a job starts with the first of its copies."""
    ids, given = run.jobs["job_id"], run.jobs["starting_time"]
    first = np.full(len(ids), np.inf)
    np.minimum.at(first, run.copy_job[run.started], run.copies["starting_time"][run.started])
    findings.check(
        "job_times",
        len(ids),
        np.where(np.isnan(given), np.inf, given) != first,
        lambda row: f"job {ids[row]} starts at {given[row]} s, the first of its copies at {first[row]} s",
    )


def _check_ends(run: DagRun, findings: Findings) -> None:
    """Check that a job ends when the last of its nodes has finished for the first time, and only then."""
    if not len(run.jobs["job_id"]):
        return
    ids, given, first = run.jobs["job_id"], run.jobs["finish_time"], run.graph.first_node
    last = np.maximum.reduceat(run.first_finish, first)
    completed = run.status["completed"]
    missing = completed & (last == np.inf)

    def unfinished(row: int) -> int:
        nodes = run.first_finish[first[row] : first[row] + run.graph.node_counts[row]]
        return int(np.argmax(nodes))

    findings.check(
        "all_nodes",
        len(run.first_finish),
        missing,
        lambda row: f"job {ids[row]} is completed, but its node {unfinished(row)} has not finished",
    )
    findings.check(
        "job_times",
        len(ids),
        completed & ~missing & (given != last),
        lambda row: f"job {ids[row]} ends at {given[row]} s, the last of its nodes at {last[row]} s",
    )
    findings.check(
        "unfinished",
        len(ids),
        ~completed & (last < np.inf),
        lambda row: f"job {ids[row]} is {_status(run, row)}, although all its nodes have finished by {last[row]} s",
    )
