"""Reinsertion as it is told: one job after the other is taken out, and put in where it brings most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.program import PlanningInstance

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_PASSES = 10


def slowly_improved(instance: PlanningInstance, starts: Ints | None = None) -> Ints:
    """Return a schedule that is no worse, and to which nothing can be added."""
    timetable = _Timetable(instance)
    if starts is None:
        starts = np.full(instance.num_jobs, -1, dtype=np.int64)
    missing = np.flatnonzero(starts < 0)
    placed = np.flatnonzero(starts >= 0)
    order = [
        *placed[np.argsort(starts[placed], kind="stable")].tolist(),
        *missing[np.argsort(-instance.worth[missing], kind="stable")].tolist(),
    ]
    for job in order:
        start = int(starts[job])
        if start >= 0 and timetable.allows(job)[start - instance.first[job]]:
            timetable.put(job, start)
    for _ in range(MOST_PASSES):
        if not sum(timetable.move(job) for job in order):
            break
    return timetable.starts


class _Timetable:
    """Which jobs are started when, and what they hold."""

    def __init__(self, instance: PlanningInstance) -> None:
        self._instance = instance
        self._limit = instance.limit
        self._used = instance.held.copy()
        self._begun = np.zeros(self._used.shape, dtype=np.int64)  # how many that hold a resource begin in a slot
        self.starts = np.full(instance.num_jobs, -1, dtype=np.int64)

    def put(self, job: int, start: int, sign: int = 1) -> None:
        """Put a job in, or take it out."""
        requests = self._instance.requests[job]
        self._used[start : start + self._instance.duration[job]] += sign * requests
        self._begun[start] += sign * (requests > 0)
        self.starts[job] = start if sign > 0 else -1

    def move(self, job: int) -> bool:
        """Take a job out, put it in where it brings most, and tell whether that has changed anything."""
        before = int(self.starts[job])
        if before >= 0:
            self.put(job, before, -1)
        gains = np.where(self.allows(job), self._gains(job), -np.inf)
        best = int(gains.argmax())
        if gains[best] > 0:
            self.put(job, int(self._instance.first[job]) + best)
        return before != int(self.starts[job])

    def allows(self, job: int) -> NDArray[np.bool_]:
        """Tell for each slot of a job's window whether it may begin there."""
        instance = self._instance
        reach, width = self._reach(job)
        if instance.overcommit:
            return np.ones(width, dtype=bool)
        requests = instance.requests[job]
        over = (self._used[reach] + requests > self._limit[reach]) & (requests > 0)
        spoils = (over & (self._begun[reach] > 0)).any(axis=1)
        allowed: NDArray[np.bool_] = ~over[:width].any(axis=1) & (self._over_runs(job, spoils.astype(np.float64)) == 0)
        return allowed

    def _gains(self, job: int) -> Floats:
        """Return for each slot of a job's window what it adds if it begins there."""
        instance = self._instance
        reach, width = self._reach(job)
        used, limit, capacity = self._used[reach], self._limit[reach], instance.capacity[reach]
        after = used + instance.requests[job]
        more = np.where(after > limit, after - np.where(used > limit, used, capacity), 0.0)
        delays = instance.delay_weight * np.arange(width)
        gains: Floats = instance.worth[job] - delays - self._over_runs(job, more @ instance.violation_weights)
        return gains

    def _over_runs(self, job: int, values: Floats) -> Floats:
        """Return the sum of values over the slots in which a job runs, for each slot of its window."""
        _, width = self._reach(job)
        sums = np.concatenate([[0.0], np.cumsum(values)])
        begins = np.arange(width)
        over: Floats = sums[np.minimum(begins + self._instance.duration[job], len(values))] - sums[begins]
        return over

    def _reach(self, job: int) -> tuple[slice, int]:
        """Return the slots in which a job may run, and the number of those in which it may begin."""
        instance = self._instance
        first, last = int(instance.first[job]), int(instance.last[job])
        return slice(first, last + int(instance.duration[job])), last - first + 1
