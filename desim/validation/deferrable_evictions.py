"""Rules on evictions in a run of a cluster for deferrable jobs: of what, when, in which order, and what comes of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.deferrable_order import check_order
from desim.validation.deferrable_tables import DeferrableRun
from desim.validation.report import Findings

__all__ = ["check_evictions"]

Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


def check_evictions(run: DeferrableRun, findings: Findings) -> None:
    """Check that evictions are of jobs that run, and that they are those that the capacity demands.

    Parameters
    ----------
    run : DeferrableRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_rows(run, findings)
    _check_succession(run, findings)
    _check_numbers(run, findings)
    _check_outcomes(run, findings)
    if run.info["eviction"] != "never":
        check_order(run, findings)


def _check_rows(run: DeferrableRun, findings: Findings) -> None:
    """Check that each eviction is of a job that was started in its window and had not ended."""
    ids, start, time = (run.evictions[name] for name in ("job_id", "starting_time", "eviction_time"))
    job = run.evicted_job
    findings.check(
        "evictions",
        len(ids),
        job < 0,
        lambda row: f"job {ids[row]}, evicted at {time[row]}: no such job is known when it starts, at {start[row]}",
    )
    rows = np.flatnonzero(job >= 0)
    start, time, job = start[rows], time[rows], job[rows]
    first, last, length = (run.jobs[name][job] for name in ("earliest_start", "latest_start", "requested_time"))
    findings.check(
        "evictions",
        len(ids),
        (start < first) | (start > last),
        lambda row: (
            f"job {ids[rows[row]]}, evicted at {time[row]}, was started at {start[row]}, want a slot from {first[row]} "
            f"to {last[row]}"
        ),
    )
    findings.check(
        "evictions",
        len(ids),
        (time <= start) | (time - start >= length) | (time > run.last_slot),
        lambda row: (
            f"job {ids[rows[row]]} is evicted at {time[row]}, started at {start[row]} for {length[row]} slots; the "
            f"last slot of the run is {run.last_slot}"
        ),
    )


def _check_succession(run: DeferrableRun, findings: Findings) -> None:
    """Check that a job is started anew only when it has been evicted, and that the last run is that of its row."""
    ids, runs, length = run.jobs["job_id"], run.runs, len(run.evictions["job_id"])
    order = np.lexsort((runs.end, runs.start, runs.job))
    job, start, end = runs.job[order], runs.start[order], runs.end[order]
    findings.check(
        "evictions",
        length,
        np.flatnonzero((job[1:] == job[:-1]) & (start[1:] < end[:-1])),
        lambda place: (
            f"job {ids[job[place]]} starts at {start[place + 1]}, and its run from {start[place]} on goes up to "
            f"{end[place]}"
        ),
    )
    final = np.append(job[1:] != job[:-1], True)[: len(job)]
    place = np.full(len(ids), -1)
    place[job[final]] = np.flatnonzero(final)
    rows = np.flatnonzero(run.status["evicted"])
    last = place[rows]
    finish, begin = run.jobs["finish_time"][rows], run.jobs["starting_time"][rows]
    wrong = np.ones(len(rows), dtype=np.bool_)
    known = last >= 0
    wrong[known] = (start[last[known]] != begin[known]) | (end[last[known]] != finish[known])
    findings.check(
        "evictions",
        length,
        wrong & ~np.isnan(finish) & ~np.isnan(begin),
        lambda row: (
            f"job {ids[rows[row]]} was evicted for good at {finish[row]}, started at {begin[row]}, which is not "
            f"its last eviction"
        ),
    )


def _check_numbers(run: DeferrableRun, findings: Findings) -> None:
    ids, said = run.jobs["job_id"], run.jobs["evictions"]
    found = np.bincount(run.evicted_job[run.evicted_job >= 0], minlength=len(ids))
    findings.check(
        "evictions",
        len(run.evictions["job_id"]),
        said != found,
        lambda row: f"job {ids[row]}: its number of evictions is {said[row]}, there are {found[row]}",
    )


def _check_outcomes(run: DeferrableRun, findings: Findings) -> None:
    """Check what has become of evicted jobs: they are started anew while that is allowed and their window is open."""
    rows, kind = np.flatnonzero(run.evicted_job >= 0), run.info["eviction"]
    job, time = run.evicted_job[rows], run.evictions["eviction_time"][rows]
    last = run.jobs["latest_start"][job]
    latest = np.full(len(run.jobs["job_id"]), -1)
    np.maximum.at(latest, job, time)
    for_good = run.status["evicted"][job] & (time == latest[job])
    closed = last < time if kind == "restarted" else np.ones(len(rows), dtype=np.bool_)
    findings.check(
        "eviction_outcomes",
        len(run.evicted_job),
        (for_good != closed) | (kind == "never"),
        lambda row: (
            f"job {run.jobs['job_id'][job[row]]}, evicted at {time[row]} and to be started up to slot {last[row]}, "
            f"{'was lost' if for_good[row] else 'came back'}, and evicted jobs are "
            f"{'not to be' if kind == 'never' else kind}"
        ),
    )
