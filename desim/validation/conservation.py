"""Conservation: the job table is the workload, nothing lost, nothing invented, nothing changed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.validation.batch_tables import BatchRun
from desim.validation.report import Findings

if TYPE_CHECKING:
    from desim.problems.batch import Job

__all__ = ["check_conservation"]

_FIELDS = np.dtype(
    [
        ("job_id", np.int64),
        ("submission_time", np.float64),
        ("requested_number_of_resources", np.int64),
        ("requested_time", np.float64),
        ("run_time", np.float64),
        ("user_id", np.int64),
    ]
)


def check_conservation(run: BatchRun, workload: Iterable[Job], findings: Findings) -> None:
    """Check that every submitted job is in the job table exactly once, as it was submitted.

    A run that was stopped need not have the jobs submitted at its end or later.

    Parameters
    ----------
    run : BatchRun
        The run.
    workload : iterable of Job
        The jobs in order of submission; read no further than the run has come.
    findings : Findings
        Takes the violations.
    """
    known = workload if run.drained else takewhile(lambda job: not job.submission_time > run.end_time, workload)
    given = np.fromiter(known, _FIELDS)
    recorded = np.empty(len(run.jobs["job_id"]), _FIELDS)
    for name in recorded.dtype.names or ():
        recorded[name] = run.jobs[name]
    ours, theirs = _matched(given, recorded)
    rows = max(len(given), len(recorded))
    _check_missing(run, given, ours, findings)
    extra = np.ones(len(recorded), np.bool_)
    extra[theirs] = False
    findings.check(
        "conservation",
        rows,
        extra,
        lambda row: f"job {recorded['job_id'][row]} is recorded but was not submitted: {_text(recorded[row])}",
    )
    changed = np.zeros(len(ours), np.bool_)
    for name in recorded.dtype.names or ():
        changed |= given[name][ours] != recorded[name][theirs]
    findings.check(
        "conservation",
        rows,
        changed,
        lambda pair: (
            f"job {given['job_id'][ours[pair]]} was submitted as {_text(given[ours[pair]])} "
            f"and is recorded as {_text(recorded[theirs[pair]])}"
        ),
    )


def _matched(given: NDArray[np.void], recorded: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair the rows of two arrays: those of the same id by their order of submission."""
    ids = np.concatenate((given["job_id"], recorded["job_id"]))
    number = np.concatenate((_occurrences(given), _occurrences(recorded)))
    order = np.lexsort((np.arange(len(ids)), number, ids))
    one, other = order[:-1], order[1:]
    pairs = (ids[one] == ids[other]) & (number[one] == number[other])
    return one[pairs], other[pairs] - len(given)


def _occurrences(jobs: NDArray[np.void]) -> NDArray[np.int64]:
    """Count for each job those of the same id that were submitted before it."""
    order = np.lexsort((jobs["submission_time"], jobs["job_id"]))
    place, ids = np.arange(len(jobs)), jobs["job_id"][order]
    new = np.append(True, ids[1:] != ids[:-1])[: len(jobs)]
    number = np.empty(len(jobs), np.int64)
    number[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return number


def _check_missing(run: BatchRun, given: NDArray[np.void], ours: NDArray[np.int64], findings: Findings) -> None:
    missing = np.ones(len(given), np.bool_)
    missing[ours] = False
    if not run.drained:
        missing &= given["submission_time"] < run.end_time
    findings.check(
        "conservation",
        max(len(given), len(run.jobs["job_id"])),
        missing,
        lambda row: f"job {given['job_id'][row]} was submitted but is not recorded: {_text(given[row])}",
    )


def _text(job: np.void) -> str:
    fields = job.dtype.names or ()
    return ", ".join(f"{name} {job[name]}" for name in fields if name != "job_id")
