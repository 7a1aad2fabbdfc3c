"""Schedules that become no worse: each job is taken out and put in where it brings most, until none moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.program import PlanningInstance, usage

__all__ = ["improved"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Passes over all jobs; two or three are usual.
MOST_PASSES = 10


def improved(instance: PlanningInstance, starts: Ints | None = None) -> Ints:
    """Return a schedule that is no worse, and to which nothing can be added.

    Of starts that bring the same the earliest is taken. A start that is not allowed, because the job does not fit, is
    replaced.

    Parameters
    ----------
    instance : PlanningInstance
        What is to be planned.
    starts : numpy.ndarray of int64, shape (num_jobs,), optional
        A schedule to begin with; if left out, jobs are put into an empty one, those that bring most first.

    Returns
    -------
    numpy.ndarray of int64, shape (num_jobs,)
        The schedule.
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


#: So many jobs are looked at together, which takes about as long as to look at one.
TOGETHER = 32


class _Timetable:
    """Which jobs are started when, and what they hold.

    Jobs move one after the other. As few do, many are looked at together, as if each were the only one that may move;
    that is true up to the first that does.

    Parameters
    ----------
    instance : PlanningInstance
        What is to be planned.
    """

    def __init__(self, instance: PlanningInstance) -> None:
        self.instance = instance
        self.limit = instance.limit
        self.used = instance.held.copy()
        self.begun = np.zeros(self.used.shape, dtype=np.int64)  # how many that hold a resource begin in a slot
        self.starts = np.full(instance.num_jobs, -1, dtype=np.int64)

    def begin(self, jobs: Ints, starts: Ints) -> None:
        """Start jobs, one after the other, where that is allowed."""
        instance = self.instance
        wanted = np.full(instance.num_jobs, -1, dtype=np.int64)
        wanted[jobs] = starts
        used = usage(instance, wanted)
        if instance.overcommit or (used <= self.limit).all():  # what fits all together fits one after the other
            self.used, self.starts = used, wanted
            np.add.at(self.begun, starts, instance.requests[jobs] > 0)
            return
        for job, start in zip(jobs.tolist(), starts.tolist(), strict=True):
            if _Places(self, np.array([job])).allowed()[0, start - instance.first[job]]:
                self._put(job, start)

    def move_each(self, order: Ints) -> bool:
        """Take each job out, put it in where it brings most, and tell whether that has changed anything."""
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
        """Let a job begin in a slot, or, if that is -1, not at all."""
        requests, duration = self.instance.requests[job], self.instance.duration[job]
        for slot, sign in ((int(self.starts[job]), -1), (start, 1)):
            if slot >= 0:
                self.used[slot : slot + duration] += sign * requests
                self.begun[slot] += sign * (requests > 0)
        self.starts[job] = start


class _Places:
    """Where each of some jobs could begin, if it were taken out and no other moved.

    Tables have a row for each job, and columns for the slots from its first on, in which it may run or begin.

    Parameters
    ----------
    timetable : _Timetable
        What is planned so far.
    jobs : numpy.ndarray of int64
        The jobs.
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
        """Tell for each place whether a job may begin there."""
        if self._instance.overcommit:
            return self._is_window
        over = (self._used + self._requests > self._limit) & (self._requests > 0)
        spoils = (over & (self._timetable.begun[self._slots] - self._begins > 0)).any(axis=2)
        fits = ~over[:, : self._is_window.shape[1]].any(axis=2)
        spoiled = self._over_runs(spoils.astype(np.float64))
        return np.asarray(self._is_window & fits & (spoiled == 0))

    def best(self) -> Ints:
        """Return the slot in which each job brings most, of equal ones the first; -1 if it brings nothing."""
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
        """Return the sum of values over the slots in which a job runs, for each place."""
        sums = np.zeros((len(values), values.shape[1] + 1))
        np.cumsum(np.where(self._is_reach, values, 0.0), axis=1, out=sums[:, 1:])
        begins = np.arange(self._is_window.shape[1])
        ends = np.minimum(begins + self._duration[:, None], values.shape[1])
        return np.asarray(np.take_along_axis(sums, ends, axis=1) - sums[:, : len(begins)])
