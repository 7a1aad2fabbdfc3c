"""Local search on schedules by reinsertion: each job moves to its best start slot, until no job moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.program import PlanningInstance, usage

__all__ = ["improved"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Largest number of passes over all jobs; two or three are usual.
MOST_PASSES = 10


def improved(instance: PlanningInstance, starts: Ints | None = None) -> Ints:
    """Return a schedule that is at least as good, and to which no job can be added with a gain.

    Ties between start slots go to the earliest. A start that is not allowed, because the job does not fit, is replaced.

    Parameters
    ----------
    instance : PlanningInstance
        Planning instance.
    starts : numpy.ndarray of int64, shape (num_jobs,), optional
        Initial schedule. Default: an empty one, into which jobs are inserted by descending worth.

    Returns
    -------
    numpy.ndarray of int64, shape (num_jobs,)
        Improved schedule.
    """
    timetable = _Timetable(instance)
    if starts is None:
        starts = np.full(instance.num_jobs, -1, dtype=np.int64)
    missing = np.flatnonzero(starts < 0)
    placed = np.flatnonzero(starts >= 0)
    placed = placed[np.argsort(starts[placed], kind="stable")]
    timetable.begin(placed, starts[placed])
    order = np.concatenate([placed, missing[np.argsort(-instance.worth[missing], kind="stable")]])
    for _ in range(MOST_PASSES):
        if not timetable.move_each(order):
            break
    return timetable.starts


#: Number of jobs that are evaluated together, which takes about as long as evaluating one.
TOGETHER = 32


class _Timetable:
    """Schedule with its usage per slot.

    Jobs move one after the other. Because few move, many are evaluated together as if no other job moved, which is
    correct up to the first that does.

    Parameters
    ----------
    instance : PlanningInstance
        Planning instance.
    """

    def __init__(self, instance: PlanningInstance) -> None:
        self.instance = instance
        self.limit = instance.limit
        self.used = instance.held.copy()
        self.begun = np.zeros(self.used.shape, dtype=np.int64)  # jobs per start slot and resource used
        self.starts = np.full(instance.num_jobs, -1, dtype=np.int64)

    def begin(self, jobs: Ints, starts: Ints) -> None:
        """Start jobs one after the other if allowed."""
        instance = self.instance
        wanted = np.full(instance.num_jobs, -1, dtype=np.int64)
        wanted[jobs] = starts
        used = usage(instance, wanted)
        if instance.overcommit or (used <= self.limit).all():  # jobs that fit together also fit one after the other
            self.used, self.starts = used, wanted
            np.add.at(self.begun, starts, instance.requests[jobs] > 0)
            return
        for job, start in zip(jobs.tolist(), starts.tolist(), strict=True):
            if _Places(self, np.array([job])).allowed()[0, start - instance.first[job]]:
                self._put(job, start)

    def move_each(self, order: Ints) -> bool:
        """Move each job to its best start slot; return whether any job moved."""
        has_changed, position = False, 0
        while position < len(order):
            jobs = order[position : position + TOGETHER]
            best = _Places(self, jobs).best()
            moved = np.flatnonzero(best != self.starts[jobs])
            if not len(moved):
                position += len(jobs)
                continue
            first = int(moved[0])
            self._put(int(jobs[first]), int(best[first]))
            has_changed, position = True, position + first + 1
        return has_changed

    def _put(self, job: int, start: int) -> None:
        """Set the start slot of a job; -1 removes it from the schedule."""
        requests, duration = self.instance.requests[job], self.instance.duration[job]
        for slot, sign in ((int(self.starts[job]), -1), (start, 1)):
            if slot >= 0:
                self.used[slot : slot + duration] += sign * requests
                self.begun[slot] += sign * (requests > 0)
        self.starts[job] = start


class _Places:
    """Possible start slots of some jobs, each evaluated as if it alone were removed and reinserted.

    Tables have one row per job and one column per slot, starting with the first slot of the job's start window.

    Parameters
    ----------
    timetable : _Timetable
        Present schedule.
    jobs : numpy.ndarray of int64
        Jobs to evaluate.
    """

    def __init__(self, timetable: _Timetable, jobs: Ints) -> None:
        self._timetable, self._instance = timetable, timetable.instance
        instance, starts = timetable.instance, timetable.starts[jobs]
        self._first, self._duration = instance.first[jobs], instance.duration[jobs]
        self._worth, self._requests = instance.worth[jobs], instance.requests[jobs][:, None, :]
        width = instance.last[jobs] - self._first + 1
        ends = np.minimum(instance.last[jobs] + self._duration, instance.num_slots)
        slots = self._first[:, None] + np.arange((ends - self._first).max())
        self._is_window = np.arange(width.max()) < width[:, None]
        self._is_reach = slots < ends[:, None]
        self._slots = np.minimum(slots, instance.num_slots - 1)
        since = slots - starts[:, None]
        is_there = starts[:, None] >= 0
        runs = is_there & (since >= 0) & (since < self._duration[:, None])
        self._limit = timetable.limit[self._slots]
        self._used = timetable.used[self._slots] - runs[:, :, None] * self._requests
        self._begins = (is_there & (since == 0))[:, :, None] & (self._requests > 0)

    def allowed(self) -> NDArray[np.bool_]:
        """Return for each slot whether the job may start there."""
        if self._instance.overcommit:
            return self._is_window
        over = (self._used + self._requests > self._limit) & (self._requests > 0)
        spoils = (over & (self._timetable.begun[self._slots] - self._begins > 0)).any(axis=2)
        fits = ~over[:, : self._is_window.shape[1]].any(axis=2)
        spoiled = self._over_runs(spoils.astype(np.float64))
        return np.asarray(self._is_window & fits & (spoiled == 0))

    def best(self) -> Ints:
        """Return the best start slot of each job, -1 if there is no gain; ties go to the earliest."""
        instance = self._instance
        after = self._used + self._requests
        base = np.where(self._used > self._limit, self._used, instance.capacity[self._slots])
        more = np.where(after > self._limit, after - base, 0.0)
        delays = instance.delay_weight * np.arange(self._is_window.shape[1])
        gains = self._worth[:, None] - delays - self._over_runs(more @ instance.violation_weights)
        gains[~self.allowed()] = -np.inf
        best = gains.argmax(axis=1)
        return np.where(gains[np.arange(len(best)), best] > 0, self._first + best, -1)

    def _over_runs(self, values: Floats) -> Floats:
        """Return, for each start slot, the sum of values over the slots in which the job runs."""
        sums = np.zeros((len(values), values.shape[1] + 1))
        np.cumsum(np.where(self._is_reach, values, 0.0), axis=1, out=sums[:, 1:])
        begins = np.arange(self._is_window.shape[1])
        ends = np.minimum(begins + self._duration[:, None], values.shape[1])
        return np.asarray(np.take_along_axis(sums, ends, axis=1) - sums[:, : len(begins)])
