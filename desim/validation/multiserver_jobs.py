"""Rules on the job table of a multi-server run."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray

from desim.validation.job_rules import check_differences, check_filled, check_horizon, check_success
from desim.validation.multiserver_tables import ABSOLUTE, RELATIVE, MultiServerRun, combined
from desim.validation.report import Findings
from desim.validation.tables import choice_of, rounding

__all__ = ["check_jobs"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


def check_jobs(run: MultiServerRun, findings: Findings) -> None:
    """Check ids, statuses and times.

    Parameters
    ----------
    run : MultiServerRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_ids(run, findings)
    _check_values(run, findings)
    _check_presence(run, findings)
    _check_starts(run, findings)
    check_differences(run, findings, ("waiting_time", "execution_time", "turnaround_time"))
    if run.holding:
        _check_speeds(run, findings)
        _check_queues(run, findings)
    _check_ends(run, findings)
    _check_unfinished(run, findings)
    _check_horizon(run, findings)
    _check_places(run, findings)


def _check_ids(run: MultiServerRun, findings: Findings) -> None:
    ids = np.sort(run.jobs["job_id"])
    before = np.append(-1, ids)[: len(ids)]
    findings.check(
        "job_ids",
        len(ids),
        ids != before + 1,
        lambda place: (
            f"job {ids[place]} is the next after job {before[place]}, want {before[place] + 1}"
            if place
            else f"the first job is {ids[0]}, want 0"
        ),
    )


def _check_values(run: MultiServerRun, findings: Findings) -> None:
    ids = run.jobs["job_id"]
    lowest = {"submission_time": 0.0, "gain": -ABSOLUTE, "overhead": -ABSOLUTE}
    for column, least in lowest.items():
        _check_lowest(findings, column, ids, run.jobs[column], run.jobs[column] < least)
    _check_lowest(findings, "work", ids, run.jobs["work"], run.jobs["work"] <= 0)


def _check_lowest(findings: Findings, column: str, ids: Whole, values: Floats, wrong: Mask) -> None:
    findings.check(
        "values", len(ids), wrong, lambda row: f"job {ids[row]}: {column} is {values[row]}, which is too low"
    )


def _check_presence(run: MultiServerRun, findings: Findings) -> None:
    """Check that each status has the columns that belong to it, and no others."""
    status = run.status
    ended = status["completed"]
    begun = ended | status["running"]
    for columns, wanted in (
        (("starting_time", "waiting_time"), begun),
        (("finish_time", "execution_time", "turnaround_time"), ended),
        (("work",), np.full(len(run.port), run.holding)),
    ):
        for column in columns:
            check_filled(run, findings, column, wanted)
    check_success(run, findings)
    ids = run.jobs["job_id"]
    strange = status["unserved" if run.holding else "running"]
    kind = "in which jobs wait until they are served" if run.holding else "in which a job lasts one slot"
    findings.check(
        "status_fields",
        len(ids),
        strange,
        lambda row: f"job {ids[row]} is {choice_of(run.status, row)} in a run {kind}",
    )


def _check_starts(run: MultiServerRun, findings: Findings) -> None:
    """Check that jobs start when a slot begins, and which slot that can be."""
    ids, start, submission = (run.jobs[name] for name in ("job_id", "starting_time", "submission_time"))
    findings.check(
        "start_after_submission",
        len(ids),
        start < submission,
        lambda row: f"job {ids[row]} starts at {start[row]}, before its submission at {submission[row]}",
    )
    first = run.arrival_slot
    wrong = (start != np.floor(start)) | (start < first) | (start >= run.num_slots)
    if not run.holding:
        wrong |= start != first
    findings.check(
        "start_slot",
        len(ids),
        run.started & wrong,
        lambda row: (
            f"job {ids[row]} arrives for slot {first[row]} of {run.num_slots} and starts at {start[row]}, which "
            f"{'comes before or is no slot' if run.holding else 'is another time'}"
        ),
    )


def _due(run: MultiServerRun) -> tuple[Floats, Floats]:
    """Return when each job that has started must end, and how far that may be off."""
    jobs = run.jobs
    if not run.holding:
        return jobs["starting_time"] + 1.0, np.zeros(len(run.port))
    speed = np.where(jobs["reward"] > 0, jobs["reward"], np.nan)
    length = jobs["work"] / speed
    due = jobs["starting_time"] + length
    return due, RELATIVE * length + rounding(due)


def _check_ends(run: MultiServerRun, findings: Findings) -> None:
    ids, start, finish, work, reward = (
        run.jobs[name] for name in ("job_id", "starting_time", "finish_time", "work", "reward")
    )
    due, tolerance = _due(run)
    why = "work {} at speed {}" if run.holding else "one slot"
    findings.check(
        "finish_time",
        len(ids),
        np.abs(finish - due) > tolerance,
        lambda row: (
            f"job {ids[row]}: end {finish[row]} is not start {start[row]} + {why.format(work[row], reward[row])}, "
            f"which is {due[row]}"
        ),
    )


def _check_speeds(run: MultiServerRun, findings: Findings) -> None:
    ids, reward, least = run.jobs["job_id"], run.jobs["reward"], run.info["minimum_speed"]
    findings.check(
        "minimum_speed",
        len(ids),
        run.started & ~(reward > least),
        lambda row: f"job {ids[row]} has started with speed {reward[row]}, want more than {least}",
    )


def _check_queues(run: MultiServerRun, findings: Findings) -> None:
    """Check that only the first jobs in the queue of a type start: as many as can be served in one slot."""
    places = run.info["jobs_per_port"]
    starts = np.where(run.started, run.jobs["starting_time"], np.inf)
    order = np.lexsort((run.jobs["job_id"], run.port))
    queues: list[list[float]] = [[] for _ in run.graph.ports]
    ahead = np.zeros(len(order), dtype=np.int64)
    for row, port, start in zip(order.tolist(), run.port[order].tolist(), starts[order].tolist(), strict=True):
        queue = queues[port]  # when the jobs that arrived before it left the queue, in ascending order
        ahead[row] = len(queue) - bisect_left(queue, start)
        insort(queue, start)
    ids = run.jobs["job_id"]
    findings.check(
        "queue",
        len(ids),
        run.started & (ahead >= places),
        lambda row: (
            f"job {ids[row]} starts at {starts[row]} while {ahead[row]} jobs that came before it wait at "
            f"{run.graph.ports[run.port[row]]}; of each type {places} can start in a slot"
        ),
    )


def _check_unfinished(run: MultiServerRun, findings: Findings) -> None:
    """Check that jobs are left behind only where that can be."""
    ids, status, end = run.jobs["job_id"], run.status, run.end_time
    how = f"the {run.info['status']} run ends at {end}"
    due, tolerance = _due(run)
    findings.check(
        "unfinished",
        len(ids),
        status["running"] & ((due < end - tolerance) | run.drained),
        lambda row: f"job {ids[row]}, due at {due[row]}, is still running when {how}",
    )
    come = run.arrival_slot < run.num_slots
    if not run.holding:
        findings.check(
            "unfinished",
            len(ids),
            status["queued"] & (come | run.drained),
            lambda row: f"job {ids[row]} of slot {run.arrival_slot[row]} is still waiting when {how}",
        )
    findings.check(
        "unfinished",
        len(ids),
        ~status["queued"] & ~come,
        lambda row: f"job {ids[row]} is {choice_of(run.status, row)}, and its slot has not come when {how}",
    )


def _check_horizon(run: MultiServerRun, findings: Findings) -> None:
    """Check that nothing happens after the end of the run, but for the ends of slots that have begun."""
    check_horizon(run, findings, ("submission_time", "starting_time", *(("finish_time",) if run.holding else ())))


def _check_places(run: MultiServerRun, findings: Findings) -> None:
    """Check how many jobs of a type are served, or start, in one slot."""
    places = run.info["jobs_per_port"]
    slot = np.where(run.started, run.jobs["starting_time"], -1) if run.holding else run.arrival_slot
    rows = np.flatnonzero((slot >= 0) & (slot < run.num_slots))
    ports = len(run.graph.ports)
    kinds, counts = np.unique(
        combined((slot[rows].astype(np.int64), run.num_slots), (run.port[rows], ports)), return_counts=True
    )
    what = "start" if run.holding else "arrive"
    findings.check(
        "jobs_per_port",
        len(slot),
        np.flatnonzero(counts > places),
        lambda place: (
            f"{counts[place]} jobs {what} at {run.graph.ports[kinds[place] % ports]} in slot {kinds[place] // ports}, "
            f"want at most {places}"
        ),
    )
