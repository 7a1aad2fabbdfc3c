"""Rules on the slots of a run of a cluster for deferrable jobs: what the jobs add up to."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from desim.validation.deferrable_tables import DeferrableRun, as_slots, sums_at, sums_from
from desim.validation.report import Findings

__all__ = ["check_slots"]

_RELATIVE = 1e-9
"""Difference of two sums, relative to the larger, that is taken for rounding."""

_ABSOLUTE = 1e-9
"""Difference that is taken for rounding in any case, for sums near 0."""

_SUMMED = 1e-12
"""Difference, relative to the largest, of sums that were built up by adding and taking away."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def check_slots(run: DeferrableRun, findings: Findings, *, in_time: bool) -> None:
    """Check numbers of slots and jobs, waiting work, amounts and rewards.

    Parameters
    ----------
    run : DeferrableRun
        The run.
    findings : Findings
        Takes the violations.
    in_time : bool
        Whether all jobs that are submitted at the beginning of a slot must be known in it: a process may submit others
        once it has begun, which are known from the next one on.
    """
    _check_numbers(run, findings)
    _check_known(run, findings, in_time=in_time)
    _check_events(run, findings)
    _check_amounts(run, findings)
    _check_rewards(run, findings)
    if not run.info["overcommit"]:
        _check_starts_fit(run, findings)


def _check_numbers(run: DeferrableRun, findings: Findings) -> None:
    """Check that the slots are numbered, and that there are as many as have begun at the end of the run."""
    slots, end, info = run.slots["slot"], run.end_time, run.info
    findings.check(
        "slots",
        len(slots),
        slots != np.arange(len(slots)),
        lambda row: f"row {row} of the slots has number {slots[row]}",
    )
    most = math.ceil(end) if run.complete else math.floor(end) + 1  # one that broke off in a slot may have served it
    faults = []
    if not math.ceil(end) <= len(slots) <= most:
        faults.append(f"there are {len(slots)} slots, and {run.how}")
    if run.complete and not run.cut and end != (len(slots) if run.drained else info["num_slots"]):
        faults.append(f"{run.how}, want num_slots ({info['num_slots']!r}), until ({info['until']!r}) or the last job")
    findings.note("slots", len(slots), faults)


def _check_known(run: DeferrableRun, findings: Findings, *, in_time: bool) -> None:
    """Check how many jobs become known, and those that could be started in each slot or can be in a later one."""
    count = run.num_slots
    current: Whole = np.rint(_current(run, np.ones(len(run.known)))).astype(np.int64)
    current_work = _current(run, run.jobs["revenue"])
    opens = np.maximum(as_slots(run.jobs["earliest_start"]), run.known)
    future = sums_from(run.known, opens, count)
    future_work = sums_from(run.known, opens, count, run.jobs["revenue"])
    late = np.zeros(count, dtype=np.int64) if in_time else _late(run, current + future)
    _check_number(run, findings, "submitted", sums_at(run.known, count) - late + np.append(0, late)[:count])
    _check_number(run, findings, "current", current, late)
    _check_number(run, findings, "future", future, late)
    _check_sum(run, findings, "slot_work", "current_work", current_work, at_most=late > 0)
    _check_sum(run, findings, "slot_work", "future_work", future_work, at_most=late > 0)


def _current(run: DeferrableRun, weights: Floats) -> Floats:
    """Add up the weights of the jobs that can be started in each slot, also of those that expire with it."""
    first, last, count = as_slots(run.jobs["earliest_start"]), as_slots(run.jobs["latest_start"]), run.num_slots
    time, job, expired = run.evictions["eviction_time"], run.evicted_job, np.flatnonzero(run.status["expired"])
    back = np.flatnonzero(job >= 0) if run.info["eviction"] == "restarted" else np.empty(0, dtype=np.int64)
    back = back[last[job[back]] >= time[back]]
    came = sums_at(first, count, weights) + sums_at(as_slots(time[back]), count, weights[job[back]])
    ends = sums_at(run.runs.start + 1, count, weights[run.runs.job])
    ends += sums_at(last[expired] + 1, count, weights[expired])
    sums: Floats = np.cumsum(came - ends)
    return sums


def _late(run: DeferrableRun, waiting: Whole) -> Whole:
    """Return how many jobs were submitted at the beginning of each slot but too late for it.

    Nothing tells of them but that as many are missing among those that have become known and among those that wait.
    """
    count, submission = run.num_slots, run.jobs["submission_time"]
    missing = waiting - run.slots["current"] - run.slots["future"]
    ahead = np.cumsum(sums_at(run.known, count) - run.slots["submitted"])
    at_slot = sums_at(run.known[submission == run.known], count)
    return np.where((missing > 0) & (missing == ahead) & (missing <= at_slot), missing, 0)


def _check_events(run: DeferrableRun, findings: Findings) -> None:
    """Count what happens in each slot, and the jobs that run once jobs have been started."""
    count, runs = run.num_slots, run.runs
    expired = as_slots(run.jobs["latest_start"])[run.status["expired"]]
    _check_number(run, findings, "started", sums_at(runs.start, count))
    _check_number(run, findings, "expired", sums_at(expired, count))
    _check_number(run, findings, "evicted", sums_at(run.evictions["eviction_time"], count))
    _check_number(run, findings, "running", sums_from(runs.start, runs.end, count))


def _check_number(run: DeferrableRun, findings: Findings, column: str, found: Whole, late: Whole | int = 0) -> None:
    said, slots = run.slots[column], run.slots["slot"]
    findings.check(
        "slot_counts",
        len(said),
        (said > found) | (said < found - late),
        lambda row: f"slot {slots[row]}: {column} is {said[row]}, by the other tables {found[row]}",
    )


def _check_sum(
    run: DeferrableRun,
    findings: Findings,
    rule: str,
    column: str,
    found: Floats,
    *,
    at_most: NDArray[np.bool_] | bool = False,
    slack: Floats | float = 0.0,
) -> None:
    """Compare a column with what the other tables add up to, or check that it is at most that."""
    said, slots = run.slots[column], run.slots["slot"]
    slack = slack + _SUMMED * np.abs(found).max(initial=0.0)
    tolerance = _RELATIVE * np.maximum(np.abs(said), np.abs(found)) + _ABSOLUTE + slack
    findings.check(
        rule,
        len(said),
        (said - found > tolerance) | (np.where(at_most, 0.0, found) - said > tolerance),
        lambda row: f"slot {slots[row]}: {column} is {said[row]}, by the other tables {found[row]}",
    )


def _check_amounts(run: DeferrableRun, findings: Findings) -> None:
    """Check what is used, and what of it is above the capacity."""
    runs, slots = run.runs, run.slots["slot"]
    for place, name in enumerate(run.resources):
        used = sums_from(runs.start, runs.end, run.num_slots, run.requests[runs.job, place])
        _check_sum(run, findings, "used", f"used_{name}", used)
    differs = (np.abs(run.violation - run.excess) > 2 * run.tolerance) | (run.violation < 0)
    where, what = np.nonzero(differs)
    findings.check(
        "violation",
        len(slots),
        np.arange(len(where)),
        lambda found: (
            f"slot {slots[where[found]]}: violation_{run.resources[what[found]]} is "
            f"{run.violation[where[found], what[found]]}, {run.used[where[found], what[found]]} is used of "
            f"{run.capacity[where[found], what[found]]}"
        ),
    )


def _check_rewards(run: DeferrableRun, findings: Findings) -> None:
    """Check revenue, delay and reward of each slot: equation (6) of the OSDEC paper, less what evictions take back."""
    count, runs, stood = run.num_slots, run.runs, run.runs.num_stood
    lost, back = runs.job[stood:], runs.end[stood:]
    delays = (runs.start - run.jobs["earliest_start"][runs.job]).astype(np.float64)
    weights = np.array(run.info["violation_weights"], dtype=np.float64)
    parts = {"revenue": (run.jobs["revenue"][runs.job], run.jobs["revenue"][lost]), "delay": (delays, delays[stood:])}
    reward, size = -(run.excess @ weights), run.excess @ weights + run.tolerance @ weights / _RELATIVE
    for column, factor in (("revenue", 1.0), ("delay", -float(run.info["delay_weight"]))):
        gained, taken = sums_at(runs.start, count, parts[column][0]), sums_at(back, count, parts[column][1])
        _check_sum(
            run, findings, "slot_rewards", column, gained - taken, slack=_RELATIVE * (np.abs(gained) + np.abs(taken))
        )
        reward = reward + factor * (gained - taken)
        size = size + abs(factor) * (np.abs(gained) + np.abs(taken))
    _check_sum(run, findings, "slot_rewards", "reward", reward, slack=_RELATIVE * size)


def _check_starts_fit(run: DeferrableRun, findings: Findings) -> None:
    """Check that no job which needs something of a resource starts in a slot in which more is used than there is."""
    runs, slots = run.runs, run.slots["slot"]
    needs = (run.requests[runs.job] > 0).astype(np.float64)
    started = sums_at(runs.start, run.num_slots, needs)
    where, what = np.nonzero((started > 0) & (run.excess > 2 * run.tolerance))
    findings.check(
        "overcommit",
        len(slots),
        np.arange(len(where)),
        lambda found: (
            f"slot {slots[where[found]]}: jobs start that need {run.resources[what[found]]}, and "
            f"{run.used[where[found], what[found]]} is used of {run.capacity[where[found], what[found]]}"
        ),
    )
