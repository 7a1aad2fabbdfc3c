"""Rules on the job table of a run of a cluster for deferrable jobs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.deferrable_tables import DeferrableRun
from desim.validation.job_rules import check_differences, check_filled, check_success
from desim.validation.report import Findings

__all__ = ["check_jobs"]

Mask = NDArray[np.bool_]

_LARGEST = 2**53
"""Up to here floats hold all whole numbers."""

_RELATIVE = 1e-12
"""Difference of a product, relative to it, that is taken for rounding."""


def check_jobs(run: DeferrableRun, findings: Findings) -> None:
    """Check identifiers, statuses, windows and times.

    Parameters
    ----------
    run : DeferrableRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_ids(run, findings)
    _check_values(run, findings)
    _check_windows(run, findings)
    _check_presence(run, findings)
    _check_starts(run, findings)
    _check_ends(run, findings)
    check_differences(run, findings, ("waiting_time", "execution_time", "turnaround_time", "delay"))
    _check_revenue(run, findings)
    _check_unfinished(run, findings)
    _check_expiry(run, findings)
    _check_horizon(run, findings)


def _check_ids(run: DeferrableRun, findings: Findings) -> None:
    """Check that a job comes only when the one before it with the same identifier has left."""
    order, left, submission = run.by_submission, run.left, run.jobs["submission_time"]
    ids = run.jobs["job_id"][order]
    one, other = order[:-1], order[1:]
    findings.check(
        "job_ids",
        len(ids),
        (ids[1:] == ids[:-1]) & (submission[other] < left[one]),
        lambda place: (
            f"job {ids[place]} is submitted at {submission[other[place]]}, and the one of that name submitted at "
            f"{submission[one[place]]} is there until {left[one[place]]}"
        ),
    )


def _check_values(run: DeferrableRun, findings: Findings) -> None:
    jobs, slots = run.jobs, run.slots
    for column, least in (("submission_time", 0), ("earliest_start", 0), ("requested_time", 1), ("evictions", 0)):
        _check_range(findings, f"job {{}}: {column}", jobs["job_id"], jobs[column], jobs[column] < least)
    for column in ("job_id", "latest_start", "requested_time"):
        _check_range(findings, f"job {{}}: {column}", jobs["job_id"], jobs[column], np.abs(jobs[column]) > _LARGEST)
    for place, name in enumerate(run.resources):
        requests, capacity = run.requests[:, place], run.capacity[:, place]
        wrong = requests < 0 if place else requests <= 0
        _check_range(findings, f"job {{}}: requested_{name}", jobs["job_id"], requests, wrong)
        _check_range(findings, f"slot {{}}: capacity_{name}", slots["slot"], capacity, capacity < 0)


def _check_range(
    findings: Findings, what: str, names: NDArray[np.int64], values: NDArray[np.number], bad: Mask
) -> None:
    findings.check(
        "values", len(names), bad, lambda row: f"{what.format(names[row])} is {values[row]}, which is out of range"
    )


def _check_windows(run: DeferrableRun, findings: Findings) -> None:
    ids, known, first, last = (
        run.jobs[name] for name in ("job_id", "submission_time", "earliest_start", "latest_start")
    )
    findings.check(
        "windows",
        len(ids),
        (known > first) | (first > last),
        lambda row: (
            f"job {ids[row]}: submission {known[row]}, earliest start {first[row]} and latest start {last[row]} are "
            f"not in this order"
        ),
    )
    if run.info["real_time"]:
        findings.check(
            "real_time",
            len(ids),
            (known != first) | (first != last),
            lambda row: (
                f"job {ids[row]}: submission {known[row]}, earliest start {first[row]} and latest start {last[row]} "
                f"are not the same"
            ),
        )


def _check_presence(run: DeferrableRun, findings: Findings) -> None:
    """Check that each status has the columns that belong to it, and no others."""
    ended = run.status["completed"] | run.status["evicted"]
    begun = ended | run.status["running"]
    for columns, wanted in (
        (("starting_time", "waiting_time", "delay"), begun),
        (("finish_time", "execution_time", "turnaround_time"), ended),
    ):
        for column in columns:
            check_filled(run, findings, column, wanted)
    check_success(run, findings)


def _check_starts(run: DeferrableRun, findings: Findings) -> None:
    """Check that jobs start in a slot of their windows; the starts that evictions undid are checked with these."""
    ids, start, first, last = (run.jobs[name] for name in ("job_id", "starting_time", "earliest_start", "latest_start"))
    findings.check(
        "starts",
        len(ids),
        (start != np.floor(start)) & ~np.isnan(start) | (start < first) | (start > np.minimum(last, run.last_slot)),
        lambda row: (
            f"job {ids[row]} starts at {start[row]}, want a slot from {first[row]} to {last[row]}; the last one of "
            f"the run is {run.last_slot}"
        ),
    )


def _check_ends(run: DeferrableRun, findings: Findings) -> None:
    ids, start, finish, length = (
        run.jobs[name] for name in ("job_id", "starting_time", "finish_time", "requested_time")
    )
    completed, evicted = run.status["completed"], run.status["evicted"]
    due = start + length
    findings.check(
        "finish_time",
        len(ids),
        completed & (finish != due) & ~np.isnan(finish) & ~np.isnan(start),
        lambda row: f"job {ids[row]} ends at {finish[row]}, started at {start[row]} for {length[row]} slots",
    )
    findings.check(
        "finish_time",
        len(ids),
        evicted & ((finish <= start) | (finish >= due) | (finish > np.floor(finish))),
        lambda row: (
            f"job {ids[row]} is evicted at {finish[row]}, want a slot between its start at {start[row]} and its "
            f"end at {due[row]}"
        ),
    )


def _check_revenue(run: DeferrableRun, findings: Findings) -> None:
    ids, revenue, due = run.jobs["job_id"], run.jobs["revenue"], run.requests[:, 0] * run.jobs["requested_time"]
    findings.check(
        "revenue",
        len(ids),
        np.abs(revenue - due) > _RELATIVE * np.abs(due),
        lambda row: f"job {ids[row]}: revenue is {revenue[row]}, {run.resources[0]} times duration is {due[row]}",
    )


def _check_unfinished(run: DeferrableRun, findings: Findings) -> None:
    """Check that jobs are left behind only where that can be."""
    ids, end, last = run.jobs["job_id"], run.end_time, run.jobs["latest_start"]
    due = run.jobs["starting_time"] + run.jobs["requested_time"]
    ended = due <= end if run.complete and not run.cut else due < end
    findings.check(
        "unfinished",
        len(ids),
        run.status["running"] & (ended | run.drained),
        lambda row: f"job {ids[row]}, due at {due[row]}, is still running when {run.how}",
    )
    findings.check(
        "unfinished",
        len(ids),
        run.status["pending"] & ((last < run.num_slots) | run.drained),
        lambda row: f"job {ids[row]}, to be started up to slot {last[row]}, is still pending when {run.how}",
    )


def _check_expiry(run: DeferrableRun, findings: Findings) -> None:
    ids, last = run.jobs["job_id"], run.jobs["latest_start"]
    findings.check(
        "expiry",
        len(ids),
        run.status["expired"] & (last > run.last_slot),
        lambda row: f"job {ids[row]} has expired and could still be started up to slot {last[row]}, and {run.how}",
    )


def _check_horizon(run: DeferrableRun, findings: Findings) -> None:
    for column in ("submission_time", "finish_time"):
        _check_before(run, findings, column)


def _check_before(run: DeferrableRun, findings: Findings, column: str) -> None:
    ids, times, end = run.jobs["job_id"], run.jobs[column], run.end_time
    findings.check(
        "horizon",
        len(ids),
        times >= end if run.cut else times > end,
        lambda row: f"job {ids[row]}: {column} is {times[row]}, and {run.how}",
    )
