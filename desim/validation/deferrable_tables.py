"""The tables of a run of a cluster for deferrable jobs, checked for columns and types, then taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.validation.deferrable_description import STATUSES, columns, description_faults
from desim.validation.report import Findings
from desim.validation.tables import Columns, masks, read_tables, to_arrays

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["TOLERANCE", "DeferrableRun", "Runs", "as_slots", "read_deferrable_run", "sums_at", "sums_from"]

TOLERANCE = 1e-9
"""By how much, relative to the capacity and at least to 1, what is used may exceed it without being a violation."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


class Runs(NamedTuple):
    """From each start of a job to its end or its eviction.

    Attributes
    ----------
    job : array of int, shape (n,)
        Row of the job table.
    start : array of int, shape (n,)
        The first slot; those of starts that are no numbers of slots are left out.
    end : array of int, shape (n,)
        The first slot in which it does not run any more, be that after the end of the simulation.
    num_stood : int
        The first so many stood, the others ended with an eviction.
    """

    job: Whole
    start: Whole
    end: Whole
    num_stood: int


@dataclass(frozen=True)
class DeferrableRun:
    """A run of a cluster for deferrable jobs, taken apart.

    Attributes
    ----------
    jobs, slots, evictions : mapping of str to array
        The columns of the tables that hold numbers; what is null is NaN.
    status : mapping of str to array of bool
        For each status which jobs have it.
    requests : array of float, shape (number of jobs, num_resources)
        What the jobs request.
    capacity, used, violation : array of float, shape (number of slots, num_resources)
        The columns of that kind of the table ``slots``.
    info : mapping
        The description.
    """

    jobs: Columns
    slots: Columns
    evictions: Columns
    status: Mapping[str, Mask]
    requests: Floats
    capacity: Floats
    used: Floats
    violation: Floats
    info: Mapping[str, Any]

    @property
    def resources(self) -> list[str]:
        """Names of the resources."""
        return list(self.info["resources"])

    @property
    def num_slots(self) -> int:
        """Slots that are recorded."""
        return len(self.slots["slot"])

    @property
    def end_time(self) -> float:
        """When the run ended."""
        return float(self.info["end_time"])

    @property
    def complete(self) -> bool:
        """Whether the run went on to its end."""
        return bool(self.info["status"] == "complete")

    @property
    def cut(self) -> bool:
        """Whether the run ended because of its ``until``: what happens at that time is no part of it."""
        return self.complete and self.info["until"] is not None and self.end_time >= self.info["until"]

    @property
    def drained(self) -> bool:
        """Whether the run went on until nothing was left to happen."""
        return self.complete and not self.cut and self.info["num_slots"] is None

    @property
    def last_slot(self) -> int:
        """The last slot in which anything can have happened: one that broke off has no row."""
        broke_off = not self.complete and self.end_time == self.num_slots
        return self.num_slots if broke_off else self.num_slots - 1

    @property
    def how(self) -> str:
        """How the run ended, in words."""
        return f"the {self.info['status']} run ends at {self.end_time}"

    @cached_property
    def known(self) -> Whole:
        """The first slot that begins when each job is known."""
        return as_slots(np.ceil(self.jobs["submission_time"]))

    @cached_property
    def tolerance(self) -> Floats:
        """What may be used of each resource above the capacity of each slot without being a violation."""
        return TOLERANCE * np.maximum(np.abs(self.capacity), 1.0)

    @cached_property
    def excess(self) -> Floats:
        """What is used of each resource above the capacity of each slot, 0 if it is less."""
        return np.maximum(self.used - self.capacity, 0.0)

    @cached_property
    def left(self) -> Floats:
        """When each job has left the system; infinity for those that were there to the end."""
        finish = np.nan_to_num(self.jobs["finish_time"], nan=np.inf)
        return np.where(self.status["expired"], self.jobs["latest_start"].astype(np.float64), finish)

    @cached_property
    def by_submission(self) -> Whole:
        """Rows of the jobs by identifier, those of one by submission."""
        return np.lexsort((self.left, self.jobs["submission_time"], self.jobs["job_id"]))

    @cached_property
    def evicted_job(self) -> Whole:
        """The row of the job of each eviction, -1 if there is none: the last one known at the start by its name."""
        order, count = self.by_submission, len(self.jobs["job_id"])
        ids = np.concatenate((self.jobs["job_id"][order], self.evictions["job_id"]))
        times = np.concatenate((self.jobs["submission_time"][order], self.evictions["starting_time"]))
        places = np.arange(len(ids))
        merged = np.lexsort((places, times, ids))  # jobs before evictions of the same time
        last = np.maximum.accumulate(np.where(merged < count, places, -1))
        before = merged[np.maximum(last, 0)]
        found = (last >= 0) & (ids[before] == ids[merged])
        rows = np.full(len(ids), -1)
        rows[merged[found]] = order[before[found]]
        return rows[count:].astype(np.int64)

    @cached_property
    def runs(self) -> Runs:
        """All runs of jobs."""
        start = self.jobs["starting_time"]
        stood = np.flatnonzero((self.status["completed"] | self.status["running"]) & (start == np.floor(start)))
        lost = np.flatnonzero(self.evicted_job >= 0)
        begin = as_slots(start[stood])
        length = as_slots(self.jobs["requested_time"][stood])
        return Runs(
            np.concatenate((stood, self.evicted_job[lost])),
            np.concatenate((begin, self.evictions["starting_time"][lost])),
            np.concatenate((begin + length, self.evictions["eviction_time"][lost])),
            len(stood),
        )


def as_slots(times: NDArray[Any]) -> Whole:
    """Return times as numbers of slots that can be added up.

    Parameters
    ----------
    times : array, shape (n,)
        Whole numbers, maybe as floats.

    Returns
    -------
    array of int, shape (n,)
        The same; what is far out of range still is, but does not overflow.
    """
    slots: Whole = np.clip(times, -(2.0**60), 2.0**60).astype(np.int64)
    return slots


def sums_at(slots: Whole, num_slots: int, weights: Floats | None = None) -> NDArray[Any]:
    """Add up what happens in each slot.

    Parameters
    ----------
    slots : array of int, shape (n,)
        When something happens; what is not in any slot is left out.
    num_slots : int
        Number of slots.
    weights : array of float, shape (n,) or (n, k), optional
        What is added; 1 if None.

    Returns
    -------
    array, shape (num_slots,) or (num_slots, k)
        The sums.
    """
    there = (slots >= 0) & (slots < num_slots)
    at = slots[there]
    if weights is None:
        return np.bincount(at, minlength=num_slots)
    if weights.ndim == 1:
        return np.bincount(at, weights[there], minlength=num_slots).astype(np.float64)  # of nothing it counts
    return np.column_stack([sums_at(slots, num_slots, column) for column in weights.T])


def sums_from(first: Whole, end: Whole, num_slots: int, weights: Floats | None = None) -> NDArray[Any]:
    """Add up what lasts from slot to slot.

    Parameters
    ----------
    first, end : array of int, shape (n,)
        The first slot in which something is there, and the first in which it is no longer.
    num_slots : int
        Number of slots.
    weights : array of float, shape (n,) or (n, k), optional
        What is added; 1 if None.

    Returns
    -------
    array, shape (num_slots,) or (num_slots, k)
        The sums.
    """
    lasts = first != end  # else it would only leave its rounding
    first, end = np.maximum(first[lasts], 0), np.maximum(end[lasts], 0)
    weights = None if weights is None else weights[lasts]
    sums: NDArray[Any] = np.cumsum(sums_at(first, num_slots, weights) - sums_at(end, num_slots, weights), axis=0)
    return sums


def read_deferrable_run(result: Result, findings: Findings) -> DeferrableRun | None:
    """Read the tables of a run of a cluster for deferrable jobs.

    Parameters
    ----------
    result : Result
        The run.
    findings : Findings
        Takes what is wrong with its description, columns and types.

    Returns
    -------
    DeferrableRun or None
        None if nothing more can be checked.
    """
    info = result.info
    findings.note("description", 1, description_faults(info))
    if not findings.report().ok:
        return None
    tables = read_tables(result, columns(info["resources"]), findings)
    if not findings.report().ok:
        return None
    jobs, slots, evictions = (to_arrays(tables[name]) for name in ("jobs", "slots", "evictions"))
    status = masks(tables["jobs"]["status"], STATUSES)
    requests = np.column_stack([jobs[f"requested_{name}"] for name in info["resources"]])
    capacity, used, violation = (
        np.column_stack([slots[f"{kind}_{name}"] for name in info["resources"]])
        for kind in ("capacity", "used", "violation")
    )
    return DeferrableRun(jobs, slots, evictions, status, requests, capacity, used, violation, info)
