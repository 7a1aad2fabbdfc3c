"""Rules on the copies of nodes: their times, their executors, and the outages of these."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_executors import next_down
from desim.validation.dag_tables import DagRun
from desim.validation.report import Findings
from desim.validation.tables import choice_of, rounding

__all__ = ["check_copies"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


def check_copies(run: DagRun, findings: Findings) -> None:
    """Check when copies run, and where.

    Parameters
    ----------
    run : DagRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_outages(run, findings)
    _check_fields(run, findings)
    _check_order(run, findings)
    _check_record_order(run, findings)
    _check_durations(run, findings)
    _check_overlaps(run, findings)
    _check_downtimes(run, findings)
    _check_cuts(run, findings)
    _check_unfinished(run, findings)


def _check_outages(run: DagRun, findings: Findings) -> None:
    times, executor, count = run.outages["time"], run.outages["executor"], len(run.down)
    disorder = ~(np.diff(times, prepend=0.0) >= 0)
    findings.check("outages", count, disorder, lambda row: f"the event at {times[row]} s comes after a later one")
    late = times > run.end_time
    findings.check("outages", count, late, lambda row: f"event at {times[row]} s: the run ended at {run.end_time} s")
    order = np.argsort(executor, kind="stable")
    was_down = np.zeros(count, dtype=np.bool_)
    was_down[1:] = run.down[order][:-1] & (np.diff(executor[order]) == 0)
    findings.check(
        "outages",
        count,
        order[run.down[order] == was_down],
        lambda row: (
            f"executor {executor[row]} goes {'down' if run.down[row] else 'up'} at {times[row]} s, although it is "
            f"{'down' if run.down[row] else 'up'} already"
        ),
    )


def _check_fields(run: DagRun, findings: Findings) -> None:
    """Check that each outcome has the times that belong to it, and no others."""
    outcome, count = run.outcome, len(run.copy_node)
    ended = outcome["completed"] | outcome["interrupted"]
    nowhere = np.zeros(count, dtype=np.bool_)
    for column, wanted, free in (
        ("receiving_time", ended | outcome["running"], outcome["withdrawn"] | outcome["waiting"]),
        ("starting_time", ended | outcome["running"], nowhere),
        ("finish_time", ended, nowhere),
    ):
        wrong = (~np.isnan(run.copies[column]) != wanted) & ~free
        findings.check(
            "outcome_fields",
            count,
            wrong,
            lambda row, column=column, wanted=wanted: (  # type: ignore[misc]
                f"{run.copy_text(row)} is {choice_of(run.outcome, row)}: {column} is "
                f"{'null' if wanted[row] else 'not null'}"
            ),
        )


def _check_order(run: DagRun, findings: Findings) -> None:
    """Check that a copy is assigned after the submission, next after that, then starts, then finishes, in time."""
    steps = ("assignment_time", "receiving_time", "starting_time", "finish_time")
    columns = {"submission_time": run.jobs["submission_time"][run.copy_job]}
    columns |= {name: run.copies[name] for name in steps}
    for earlier, later in (*pairwise(columns), ("assignment_time", "starting_time")):
        before, after = columns[earlier], columns[later]
        findings.check(
            "copy_times",
            len(before),
            after < before,
            lambda row, names=(earlier, later), before=before, after=after: (  # type: ignore[misc]
                f"{run.copy_text(row)}: {names[1]} {after[row]} s lies before {names[0]} {before[row]} s"
            ),
        )
    ended = run.jobs["finish_time"][run.copy_job]
    for name in steps:
        times = columns[name]
        findings.check(
            "horizon",
            len(times),
            times > run.end_time,
            lambda row, name=name, times=times: (  # type: ignore[misc]
                f"{run.copy_text(row)}: {name} {times[row]} s lies after the end of the run at {run.end_time} s"
            ),
        )
    for name in ("assignment_time", "starting_time"):
        times = columns[name]
        findings.check(
            "after_completion",
            len(times),
            times > ended,
            lambda row, name=name, times=times: (  # type: ignore[misc]
                f"{run.copy_text(row)}: {name} {times[row]} s lies after the end of the job at {ended[row]} s"
            ),
        )


def _check_record_order(run: DagRun, findings: Findings) -> None:
    """Check that no copy ended before another whose end was recorded earlier: it would have run in the past."""
    rows = np.flatnonzero(run.outcome["completed"] | run.outcome["interrupted"])
    finish = run.copies["finish_time"][rows]
    last = np.maximum.accumulate(finish)
    findings.check(
        "record_order",
        len(rows),
        last - finish > rounding(last),
        lambda row: f"{run.copy_text(rows[row])} ended at {finish[row]} s, recorded after what ended at {last[row]} s",
    )


def _check_durations(run: DagRun, findings: Findings) -> None:
    start, finish, whole = run.copies["starting_time"], run.copies["finish_time"], run.run_times
    due = start + whole
    tolerance = rounding(due, whole)
    completed, cut = run.outcome["completed"], run.outcome["interrupted"]
    wrong = completed & (np.abs(finish - due) > tolerance) | cut & (finish - due > tolerance)
    findings.check(
        "duration",
        len(whole),
        wrong,
        lambda row: (
            f"{run.copy_text(row)} is {choice_of(run.outcome, row)} in [{start[row]}, {finish[row]}) s, "
            f"it takes {whole[row]} s"
        ),
    )


def _check_overlaps(run: DagRun, findings: Findings) -> None:
    rows = np.flatnonzero(run.started)
    executor, start, end = run.copies["executor"][rows], run.copies["starting_time"][rows], run.ends[rows]
    order = np.lexsort((end, start, executor))
    before, after = order[:-1], order[1:]
    wrong = (executor[before] == executor[after]) & (end[before] > start[after])
    findings.check(
        "executor_exclusive",
        len(rows),
        np.flatnonzero(wrong),
        lambda pair: (
            f"{run.copy_text(rows[after[pair]])} starts at {start[after[pair]]} s, while "
            f"{run.copy_text(rows[before[pair]])} runs there in [{start[before[pair]]}, {end[before[pair]]}) s"
        ),
    )


def _check_downtimes(run: DagRun, findings: Findings) -> None:
    """Check that nothing runs on, or is assigned to, an executor that is down, or outlasts an outage in its queue."""
    start, assigned, executor = (run.copies[name] for name in ("starting_time", "assignment_time", "executor"))
    for first, last, what in ((start, run.ends, "runs"), (assigned, assigned, "is assigned")):
        since, until = _downtime_before(run, executor, last)
        findings.check(
            "executor_down",
            len(executor),
            until > first,
            lambda row, first=first, last=last, what=what, since=since, until=until: (  # type: ignore[misc]
                f"{run.copy_text(row)} {what} from {first[row]} s to {last[row]} s, but the executor is down in "
                f"[{since[row]}, {until[row]}) s"
            ),
        )
    kept = np.where(run.outcome["waiting"], np.inf, start)
    outage = next_down(run.outages, run.down, executor, assigned, np.ones(len(assigned), dtype=np.bool_))
    findings.check(
        "executor_down",
        len(executor),
        outage < kept,
        lambda row: (
            f"{run.copy_text(row)}, assigned at {assigned[row]} s, still waits or starts after the outage of its "
            f"executor at {outage[row]} s"
        ),
    )


def _downtime_before(run: DagRun, executor: Whole, times: Floats) -> tuple[Floats, Floats]:
    """Return the last downtime of executors that begins before some times; NaN if there is none."""
    since, until = np.full(len(times), np.nan), np.full(len(times), np.nan)
    for number in np.unique(run.outages["executor"]):
        own = run.outages["executor"] == number
        begins = run.outages["time"][own & run.down]
        ends = run.outages["time"][own & ~run.down]
        ends = np.concatenate((ends, np.full(max(len(begins) - len(ends), 0), np.inf)))
        here = np.flatnonzero((executor == number) & ~np.isnan(times))
        place = np.searchsorted(begins, times[here]) - 1
        here, place = here[place >= 0], place[place >= 0]
        since[here], until[here] = begins[place], ends[place]
    return since, until


def _check_cuts(run: DagRun, findings: Findings) -> None:
    """Check that copies are cut by outages of their executors, and withdrawn for a reason."""
    executor, finish, assigned = (run.copies[name] for name in ("executor", "finish_time", "assignment_time"))
    cut, count = run.outcome["interrupted"], len(executor)
    outage = next_down(run.outages, run.down, executor, finish, np.zeros(count, dtype=np.bool_))
    findings.check(
        "interruptions",
        count,
        cut & (outage != finish),
        lambda row: f"{run.copy_text(row)} is cut at {finish[row]} s, but its executor does not go down then",
    )
    last = float(np.max(run.outages["time"][run.down], initial=-np.inf))
    since = np.full(count, last)
    if run.by_task and not run.info["outages_lose_data"]:
        since = np.full(run.graph.num_executors, -np.inf)
        np.maximum.at(since, run.outages["executor"][run.down], run.outages["time"][run.down])
        since = since[executor]
    # A job whose nodes run task by task does not end while any of them waits.
    ended = run.status["completed"][run.copy_job] & (not run.by_task)
    unexplained = run.outcome["withdrawn"] & ~ended & (assigned > since)
    findings.check(
        "withdrawals",
        count,
        unexplained,
        lambda row: (
            f"{run.copy_text(row)}, assigned at {assigned[row]} s, is withdrawn, but there is no outage from then on "
            f"that explains it{'' if run.by_task else ' and its job has not ended'}"
        ),
    )


def _check_unfinished(run: DagRun, findings: Findings) -> None:
    """Check that copies still run or wait only if there is nothing to end that."""
    start, due = run.copies["starting_time"], run.copies["starting_time"] + run.run_times
    ended = run.status["completed"][run.copy_job]
    running, waiting = run.outcome["running"], run.outcome["waiting"]
    wrong = running & ((due < run.end_time - rounding(due)) | (run.drained & ~ended))
    findings.check(
        "unfinished",
        len(due),
        wrong,
        lambda row: (
            f"{run.copy_text(row)}, started at {start[row]} s and due at {due[row]} s, is still running when the "
            f"{run.info['status']} run ends at {run.end_time} s"
        ),
    )
    findings.check(
        "unfinished",
        len(due),
        waiting & (ended | run.drained),
        lambda row: (
            f"{run.copy_text(row)} is still waiting when the {run.info['status']} run ends at {run.end_time} s"
            f"{', although its job has ended' if ended[row] else ''}"
        ),
    )
