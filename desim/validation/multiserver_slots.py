"""Rules on the slots of a multi-server run: what the jobs add up to."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from desim.validation.multiserver_tables import ABSOLUTE, RELATIVE, MultiServerRun, differs
from desim.validation.report import Findings

__all__ = ["check_slots"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


def check_slots(run: MultiServerRun, findings: Findings) -> None:
    """Check numbers of slots and jobs, and the totals of rewards and amounts.

    Parameters
    ----------
    run : MultiServerRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_numbers(run, findings)
    _check_arrivals(run, findings)
    first, last, active = _activity(run)
    _check_counts(run, first, last, active, findings)
    for column in ("gain", "overhead", "reward"):
        sums = _sums(first, last, np.where(active, run.jobs[column], 0.0), run.num_slots)
        _check_total(run, column, sums, findings)
    unknown = np.rint(_sums(first, last, (active & ~run.recorded).astype(np.float64), run.num_slots)) > 0
    for place, resource in enumerate(run.graph.resources):
        known = _sums(first, last, np.where(active, run.held[:, place], 0.0), run.num_slots)
        _check_allocated(run, place, known, unknown, findings)
        _check_reserved(run, place, resource, findings)


def _check_numbers(run: MultiServerRun, findings: Findings) -> None:
    """Check that the slots are numbered, and that there are as many as have begun at the end of the run."""
    slots, end = run.slots["slot"], run.end_time
    findings.check(
        "slots",
        len(slots),
        slots != np.arange(len(slots)),
        lambda row: f"row {row} of the slots has number {slots[row]}",
    )
    least, most = math.ceil(end), math.ceil(end)
    if run.info["status"] != "complete":
        most = math.floor(end) + 1  # the run may have broken off in the slot that begins at its end
    fault = f"there are {len(slots)} slots, and the {run.info['status']} run ends at {end}"
    findings.note("slots", len(slots), [] if least <= len(slots) <= most else [fault])


def _check_arrivals(run: MultiServerRun, findings: Findings) -> None:
    """Check how many jobs arrive for each slot, and that they arrive after the beginning of the slot before."""
    said, slot = run.slots["arrived"], run.arrival_slot
    found = np.bincount(slot, minlength=run.num_slots + 1)[: run.num_slots]
    findings.check(
        "arrivals",
        len(said),
        said != found,
        lambda row: f"slot {row}: {said[row]} jobs arrive, {found[row]} are in the job table",
    )
    ids, submission = run.jobs["job_id"], run.jobs["submission_time"]
    come = slot < run.num_slots
    findings.check(
        "arrivals",
        len(ids),
        (submission < slot - 1) | ((submission > slot) & come),
        lambda row: (
            f"job {ids[row]}, submitted at {submission[row]}, "
            + (f"is by its number one of slot {slot[row]}" if come[row] else "has not been there for any slot")
        ),
    )


def _activity(run: MultiServerRun) -> tuple[Whole, Whole, Mask]:
    """Return the first and the last slot at whose beginning each job runs, and which jobs that is right for."""
    start, ends = run.jobs["starting_time"], run.ends
    with np.errstate(invalid="ignore"):
        active = run.started & (start >= 0) & (start == np.floor(start)) & (start < run.num_slots) & (ends >= start)
        last = np.maximum(np.ceil(ends) - 1, start) if run.holding else start
    last = np.where(run.status["running"], run.num_slots - 1, last)
    first, last = (np.where(active, slot, 0).astype(np.int64) for slot in (start, last))
    return first, np.clip(last, first, max(run.num_slots - 1, 0)), active


def _sums(first: Whole, last: Whole, weights: Floats, num_slots: int) -> Floats:
    """Return for each slot the sum of the weights of those that run when it begins."""
    if np.array_equal(first, last):
        return np.bincount(first, weights, minlength=num_slots)[:num_slots].astype(np.float64)
    begun = np.bincount(first, weights, minlength=num_slots)
    ended = np.bincount(last + 1, weights, minlength=num_slots)
    sums: Floats = np.cumsum(begun[:num_slots] - ended[:num_slots])
    return sums


def _check_counts(run: MultiServerRun, first: Whole, last: Whole, active: Mask, findings: Findings) -> None:
    running = np.rint(_sums(first, last, active.astype(np.float64), run.num_slots)).astype(np.int64)
    begun = np.bincount(first[active], minlength=run.num_slots)[: run.num_slots]
    come = np.bincount(run.arrival_slot, minlength=run.num_slots + 1)[: run.num_slots]
    waiting = np.cumsum(come - begun) if run.holding else np.zeros_like(begun)
    for column, found in (("running", running), ("queued", waiting)):
        _check_count(run, column, found, findings)


def _check_count(run: MultiServerRun, column: str, found: Whole, findings: Findings) -> None:
    said = run.slots[column]
    findings.check(
        "slot_counts",
        len(said),
        said != found,
        lambda row: f"slot {row}: {said[row]} jobs are {column}, {found[row]} by the job table",
    )


def _rounding(sums: Floats) -> float:
    """Return how far sums may be off that were built up by adding and taking away."""
    return 1e-12 * float(np.abs(sums).max(initial=0.0))


def _check_total(run: MultiServerRun, column: str, sums: Floats, findings: Findings) -> None:
    said = run.slots[column]
    findings.check(
        "slot_rewards",
        len(said),
        differs(said, sums) & (np.abs(said - sums) > _rounding(sums)),
        lambda row: f"slot {row}: {column} is {said[row]}, that of its jobs is {sums[row]}",
    )


def _check_allocated(run: MultiServerRun, place: int, known: Floats, unknown: Mask, findings: Findings) -> None:
    """Check what running jobs hold; it is at least what is known where not all is recorded."""
    said, resource = run.allocated[:, place], run.graph.resources[place]
    off = differs(said, known) & (np.abs(said - known) > _rounding(known))
    findings.check(
        "slot_amounts",
        len(said),
        off & (~unknown | (said < known)),
        lambda row: (
            f"slot {row}: allocated_{resource} is {said[row]}, the allocations that are recorded add up to {known[row]}"
        ),
    )


def _check_reserved(run: MultiServerRun, place: int, resource: str, findings: Findings) -> None:
    allocated, reserved = run.allocated[:, place], run.reserved[:, place]
    capacity = float(run.graph.capacity[:, place].sum())
    slack = len(run.graph.nodes) * ABSOLUTE
    findings.check(
        "slot_amounts",
        len(reserved),
        (differs(reserved, allocated) & (reserved < allocated)) | (reserved > capacity * (1 + RELATIVE) + slack),
        lambda row: (
            f"slot {row}: reserved_{resource} is {reserved[row]}, want at least what is allocated, {allocated[row]}, "
            f"and at most the capacity, {capacity}"
        ),
    )
