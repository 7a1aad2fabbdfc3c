"""Rules on the job table of a run of DAG jobs."""

from __future__ import annotations

import numpy as np

from desim.validation.dag_tables import DagRun
from desim.validation.job_rules import check_differences, check_filled, check_reuse, check_success
from desim.validation.report import Findings
from desim.validation.tables import choice_of

__all__ = ["check_jobs"]


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
    check_differences(run, findings, ("waiting_time", "turnaround_time"))
    _check_starts(run, findings)
    _check_ends(run, findings)


def _check_ids(run: DagRun, findings: Findings) -> None:
    """Check when jobs are submitted, and that of those with one id at most one is in the system at any time."""
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
    check_reuse(run, findings, "submissions", gone, np.ones(len(ids), dtype=np.bool_))


def _check_fields(run: DagRun, findings: Findings) -> None:
    """Check that each status has the times that belong to it, and no others."""
    ended = run.status["completed"]
    for column in ("starting_time", "waiting_time"):
        check_filled(run, findings, column, ended | run.status["running"])
    for column in ("finish_time", "turnaround_time"):
        check_filled(run, findings, column, ended)
    check_success(run, findings)


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
        lambda row: (
            f"job {ids[row]} is {choice_of(run.status, row)}, although all its nodes have finished by {last[row]} s"
        ),
    )
