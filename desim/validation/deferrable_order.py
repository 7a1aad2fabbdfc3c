"""Which running jobs have to go when the capacity falls: those that were started last, if they hold what is short."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.validation.deferrable_tables import DeferrableRun, sums_at
from desim.validation.report import Findings

__all__ = ["check_order"]

_SHORT = 0.5
"""What is used counts as too much for an eviction above the capacity and this part of the tolerance."""

_TOO_MUCH = 2.0
"""What is used counts as too much for a job to stay above the capacity and this multiple of the tolerance."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


class _Evicted(NamedTuple):
    """Evictions in the order in which they must have happened: by slot, the last started first.

    Attributes
    ----------
    slot, start, job : array of int, shape (n,)
        When it was evicted and started, and its row of the job table.
    group : array of int, shape (n,)
        Number of the jobs that were started together and evicted together.
    requests : array of float, shape (n, num_resources)
        What it held.
    over : array of float, shape (num_groups, num_resources)
        What the jobs that are left then hold above the capacity, once those of the group have gone, too.
    """

    slot: Whole
    start: Whole
    job: Whole
    group: Whole
    requests: Floats
    over: Floats


def check_order(run: DeferrableRun, findings: Findings) -> None:
    """Check that jobs are evicted if, and only if, what they hold is short once later ones have gone.

    The tables do not tell in which order the jobs of one slot were started. So these may have gone in any order that
    makes each of them necessary, and then those that stayed.

    Parameters
    ----------
    run : DeferrableRun
        The run.
    findings : Findings
        Takes the violations.
    """
    over = _over_before(run)
    evicted = _in_order(run, over)
    ids, tolerance = run.jobs["job_id"], run.tolerance[evicted.slot]
    findings.check(
        "eviction_order",
        len(run.evictions["job_id"]),
        ~_necessary(evicted, _SHORT * tolerance),
        lambda row: (
            f"slot {evicted.slot[row]}: job {ids[evicted.job[row]]}, started at {evicted.start[row]}, is evicted, and "
            f"without it and those started later there is enough of all that it holds"
        ),
    )
    too_much = over > _TOO_MUCH * run.tolerance
    if too_much.any():
        enough = evicted.over[evicted.group] <= _TOO_MUCH * tolerance
        _check_survivors(run, too_much, _settled(run, evicted, enough), findings)


def _over_before(run: DeferrableRun) -> Floats:
    """Return what the jobs that would run on hold above the capacity of each slot, before any is evicted."""
    runs, count = run.runs, run.num_slots
    requests = run.requests[runs.job]
    gone = sums_at(runs.end[runs.num_stood :], count, requests[runs.num_stood :])
    over: Floats = run.used - sums_at(runs.start, count, requests) + gone - run.capacity
    return over


def _in_order(run: DeferrableRun, over: Floats) -> _Evicted:
    """Sort the evictions of recorded slots, and follow what is too much."""
    time, start = run.evictions["eviction_time"], run.evictions["starting_time"]
    rows = np.flatnonzero((run.evicted_job >= 0) & (time >= 0) & (time < run.num_slots))
    rows = rows[np.lexsort((-start[rows], time[rows]))]
    slot, start, job = time[rows], start[rows], run.evicted_job[rows]
    requests = run.requests[job]
    new_slot = np.append(True, slot[1:] != slot[:-1])[: len(rows)]
    first = new_slot | np.append(True, start[1:] != start[:-1])[: len(rows)]
    group = np.cumsum(first) - 1
    gone = requests.copy()
    if len(rows):  # begin anew in each slot: the sum of all would be too large for small differences
        firsts = np.flatnonzero(new_slot)
        gone[firsts[1:]] -= np.add.reduceat(requests, firsts, axis=0)[:-1]
    gone = np.cumsum(gone, axis=0)
    last = np.append(first[1:], True)[: len(rows)]
    return _Evicted(slot, start, job, group, requests, over[slot[last]] - gone[last])


def _necessary(evicted: _Evicted, least: Floats) -> Mask:
    """Tell which evictions are necessary in the best order, going back from the last.

    Those that come later in the order of evictions can only find less to be short. So whoever is necessary as the last
    of those that are left is put there, as long as there is one.
    """
    done = np.zeros(len(evicted.slot), dtype=np.bool_)
    over = evicted.over.copy()
    while True:
        short = over[evicted.group] + evicted.requests > least
        more = ~done & ((evicted.requests > 0) & short).any(axis=1)
        if not more.any():
            return done
        done |= more
        for place, held in enumerate(evicted.requests.T):
            over[:, place] += np.bincount(evicted.group[more], held[more], minlength=len(over))


def _settled(run: DeferrableRun, evicted: _Evicted, enough: Mask) -> Whole:
    """Return the start of the jobs with which there is enough again, -1 if never, by slot and resource."""
    settled = np.full(run.used.shape, -1)
    for place in range(run.used.shape[1]):
        rows = enough[:, place]
        np.maximum.at(settled[:, place], evicted.slot[rows], evicted.start[rows])
    return settled


def _check_survivors(run: DeferrableRun, too_much: Mask, settled: Whole, findings: Findings) -> None:
    """Check that no job stays that was started after those with which there is enough again, and holds some of it."""
    ids, runs = run.jobs["job_id"], run.runs
    for place, name in enumerate(run.resources):
        newest = _newest_holders(run, place)
        wrong = too_much[:, place] & (newest > settled[:, place])

        def message(slot: int, newest: Whole = newest, name: str = name, place: int = place) -> str:
            holds = run.requests[runs.job, place] > 0
            row = np.flatnonzero((runs.start == newest[slot]) & (runs.end > slot) & holds)[0]
            return f"slot {slot}: job {ids[runs.job[row]]}, started at {newest[slot]}, stays, and {name} is short"

        findings.check("eviction_order", len(run.evictions["job_id"]), wrong, message)


def _newest_holders(run: DeferrableRun, place: int) -> Whole:
    """Return the last start before each slot of a job that runs on in it and holds some of a resource, -1 if none."""
    runs, count = run.runs, run.num_slots
    there = (run.requests[runs.job, place] > 0) & (runs.start >= 0) & (runs.start < count)
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, runs.start[there], runs.end[there])
    newest = np.full(count, -1)
    holders: list[tuple[int, int]] = []  # start and end: those below the top end later
    for slot, end in enumerate(longest.tolist()):
        while holders and holders[-1][1] <= slot:
            holders.pop()
        if holders:
            newest[slot] = holders[-1][0]
        holders.append((slot, end))
    return newest
