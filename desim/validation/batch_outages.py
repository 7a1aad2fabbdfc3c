"""Rules on outages and on the executions that they cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.validation.batch_tables import BatchRun
from desim.validation.core_ranges import spread
from desim.validation.report import Findings
from desim.validation.tables import rounding

__all__ = ["check_interruptions", "check_outages", "owners"]

Whole = NDArray[np.int64]


def owners(run: BatchRun) -> Whole:
    """Return for each interruption the row of the job that was cut.

    An id may be used again once its job has left: then it is the last one submitted before.

    Parameters
    ----------
    run : BatchRun
        The run, with m interruptions.

    Returns
    -------
    array of int, shape (m,)
        Rows of the job table, -1 where there is no such job.
    """
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    order = np.lexsort((submission, run.status["rejected"], ids))
    order = order[~run.status["rejected"][order]]
    wanted, begins = run.interruptions["job_id"], run.interruptions["starting_time"]
    low, high = np.searchsorted(ids[order], wanted), np.searchsorted(ids[order], wanted, "right")
    place = low.copy()
    for row in np.flatnonzero(high - low > 1):
        candidates = submission[order[low[row] : high[row]]]
        place[row] += max(int(np.searchsorted(candidates, begins[row], "right")) - 1, 0)
    found = np.full(len(wanted), -1, np.int64)
    exists = low < high
    found[exists] = order[place[exists]]
    return found


def check_outages(run: BatchRun, findings: Findings) -> tuple[Whole, Whole, NDArray[np.float64]]:
    """Check the outage table in itself and return the downtimes.

    Parameters
    ----------
    run : BatchRun
        The run.
    findings : Findings
        Takes the violations.

    Returns
    -------
    event, core : array of int, shape (k,)
        For each time that a core was down the row of the outage and the core.
    until : array of float, shape (k,)
        When the core was repaired, infinite if it was not.
    """
    times, ranges = run.outages["time"], run.cores["outages"]
    count = len(times)
    findings.check(
        "outages",
        count,
        ranges.malformed | (ranges.counts == 0),
        lambda row: f"outage at {times[row]} s: {run.texts['outages'][row]!r} are no cores below {run.num_cores}",
    )
    disorder = np.flatnonzero(~(np.diff(times, prepend=0.0) >= 0))
    findings.check("outages", count, disorder, lambda row: f"outage at {times[row]} s comes after a later one")
    late = times > run.end_time
    findings.check("outages", count, late, lambda row: f"outage at {times[row]} s: the run ended at {run.end_time} s")
    up = run.num_cores + np.cumsum(np.where(run.down, -ranges.counts, ranges.counts))
    findings.check(
        "outages",
        count,
        up != run.outages["cores_up"],
        lambda row: f"after the outage at {times[row]} s {run.outages['cores_up'][row]} cores are up, want {up[row]}",
    )
    index, core = spread(ranges.first, ranges.last)
    order = np.argsort(core, kind="stable")
    event, core = ranges.row[index[order]], core[order]
    down = run.down[event]
    follows = np.zeros(len(core), np.bool_)
    follows[1:] = core[1:] == core[:-1]
    was_down = follows & np.roll(down, 1)
    findings.check(
        "outages",
        count,
        np.flatnonzero(down == was_down),
        lambda place: (
            f"core {core[place]} goes {'down' if down[place] else 'up'} at {times[event[place]]} s, "
            f"although it is {'down' if down[place] else 'up'} already"
        ),
    )
    until = np.where(np.roll(follows, -1), np.roll(times[event], -1), np.inf)
    return event[down], core[down], until[down]


def check_interruptions(run: BatchRun, owner: Whole, findings: Findings) -> None:
    """Check the executions that outages cut, one by one, and the number of attempts of each job.

    Parameters
    ----------
    run : BatchRun
        The run.
    owner : array of int, shape (m,)
        The row of the job of each interruption, -1 for none.
    findings : Findings
        Takes the violations.
    """
    ids, begins, ends = (run.interruptions[name] for name in ("job_id", "starting_time", "finish_time"))
    findings.check(
        "interruptions", len(ids), owner < 0, lambda row: f"job {ids[row]} was interrupted, but there is no such job"
    )
    known = np.flatnonzero(owner >= 0)
    jobs = {name: column[owner[known]] for name, column in run.jobs.items()}
    whole = np.minimum(jobs["run_time"], jobs["requested_time"]) if run.kills else jobs["run_time"]
    begin, end = begins[known], ends[known]
    wrong = ~((jobs["submission_time"] <= begin) & (begin <= end) & (end <= run.end_time))
    findings.check(
        "interruptions",
        len(ids),
        wrong | (end - begin > whole + rounding(end, whole)),
        lambda row: (
            f"job {ids[known[row]]}, submitted at {jobs['submission_time'][row]} s, due after {whole[row]} s, was cut "
            f"while it ran from {begin[row]} s to {end[row]} s; the run ended at {run.end_time} s"
        ),
    )
    _check_causes(run, findings)
    _check_outcomes(run, owner, findings)
    _check_attempts(run, owner[known], findings)


def _check_causes(run: BatchRun, findings: Findings) -> None:
    """Check that each execution was cut at the outage of a core of its own."""
    ids, ends = run.interruptions["job_id"], run.interruptions["finish_time"]
    outage, cut = run.cores["outages"], run.cores["interruptions"]
    index, failed = spread(outage.first, outage.last)
    event = outage.row[index]
    failed, moments = failed[run.down[event]], run.outages["time"][event[run.down[event]]]
    index, core = spread(cut.first, cut.last)
    row = cut.row[index]
    times = np.unique(moments)
    slot = np.searchsorted(times, ends[row])
    failures = np.searchsorted(times, moments) * run.num_cores + failed
    hit = np.isin(slot * run.num_cores + core, failures) & (np.append(times, np.inf)[slot] == ends[row])
    caused = np.zeros(len(ids), np.bool_)
    caused[row[hit]] = True
    findings.check(
        "interruptions",
        len(ids),
        ~caused & ~cut.malformed,
        lambda row: (
            f"job {ids[row]} was cut at {ends[row]} s on cores {run.texts['interruptions'][row]}, "
            "but none of them went down then"
        ),
    )


def _check_outcomes(run: BatchRun, owner: Whole, findings: Findings) -> None:
    """Check that jobs are requeued or lost as configured, and that a lost job's row is its cut execution."""
    ids, jobs, cuts, lost = run.interruptions["job_id"], run.jobs, run.interruptions, run.status["lost"]
    findings.check(
        "interruptions",
        len(ids),
        run.requeued == run.loses,
        lambda row: (
            f"job {ids[row]} was {'requeued' if run.requeued[row] else 'lost'} at {cuts['finish_time'][row]} s, "
            f"interrupted jobs are to be {'lost' if run.loses else 'requeued'}"
        ),
    )
    final = np.flatnonzero(~run.requeued & (owner >= 0))
    rows = owner[final]
    same = lost[rows] & (run.texts["jobs"][rows] == run.texts["interruptions"][final]).fill_null(False).to_numpy()
    for name in ("starting_time", "finish_time"):
        same &= jobs[name][rows] == cuts[name][final]
    findings.check(
        "interruptions",
        len(ids),
        final[~same],
        lambda row: (
            f"job {ids[row]} was lost on cores {run.texts['interruptions'][row]} from {cuts['starting_time'][row]} s "
            f"to {cuts['finish_time'][row]} s, but its own row says otherwise"
        ),
    )
    unexplained = lost.copy()
    unexplained[rows] = False
    findings.check(
        "interruptions", len(ids), unexplained, lambda row: f"job {jobs['job_id'][row]} is lost without an interruption"
    )


def _check_attempts(run: BatchRun, owner: Whole, findings: Findings) -> None:
    """Check that the attempts are the interruptions plus the execution that was not cut."""
    cuts = np.bincount(owner, minlength=len(run.jobs["job_id"]))
    begun = run.status["completed"] | run.status["killed"] | run.status["running"]
    ids, attempts = run.jobs["job_id"], run.jobs["attempts"]
    findings.check(
        "attempts",
        len(ids),
        attempts != cuts + begun,
        lambda row: (
            f"job {ids[row]} with {cuts[row]} interruptions has {attempts[row]} attempts, want {cuts[row] + begun[row]}"
        ),
    )
