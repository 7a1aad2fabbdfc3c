"""Observation of a cluster for deferrable jobs at the start of a slot, checks of actions, and earliest-fit plans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InfeasibleAction
from desim.problems.deferrable.job import DURATION, REQUESTS, JobSet

__all__ = [
    "HORIZON",
    "LATER",
    "TOLERANCE",
    "DeferrableObservation",
    "EarliestFitPlan",
    "free_ahead",
    "limit_of",
    "positions_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-9
"""Relative excess of the amounts in use over the capacity that is tolerated, because sums of floats are rounded."""

HORIZON = 24
"""Default number of slots to look ahead."""

LATER = -1
"""Start of a job that has no slot."""


def limit_of(capacity: Floats) -> Floats:
    """Return a capacity with the tolerance up to which it counts as kept."""
    return capacity + TOLERANCE * np.maximum(capacity, 1.0)


class DeferrableObservation:
    """Live view, valid until the agent answers; do not modify its arrays.

    The three sets of jobs are those of the OSDEC paper, section 4.1.1.

    Parameters
    ----------
    resources : tuple of str
        Names of the resources, cores first.
    num_slots : int, optional
        Number of slots of the run; None if it ends with its jobs.
    delay_weight : float
        Cost of a slot of a job's delay, in core-slots.
    violation_weights : numpy.ndarray of shape (num_resources,)
        Cost per unit and slot above the capacity, in core-slots.

    Attributes
    ----------
    resources, num_slots, delay_weight, violation_weights
        As above.
    slot : int
        Number of the slot that begins, from 0.
    current : JobSet
        Jobs that may start now, in the order in which they became known. An evicted job that may start again comes
        after the jobs that were known when it was evicted.
    future : JobSet
        Known jobs whose window is not open yet, in the same order.
    running : JobSet
        Running jobs, in the order of their starts.
    capacity : numpy.ndarray of shape (num_resources,)
        Capacity that on-demand jobs leave in this slot.
    used : numpy.ndarray of shape (num_resources,)
        Amounts that the running jobs hold.
    nobody : JobSet
        Empty set of jobs.
    """

    def __init__(
        self, resources: tuple[str, ...], num_slots: int | None, delay_weight: float, violation_weights: Floats
    ) -> None:
        self.resources = resources
        self.num_slots = num_slots
        self.delay_weight = delay_weight
        self.violation_weights = violation_weights
        width = len(resources)
        self.slot = 0
        self.nobody = JobSet(np.empty((0, REQUESTS + width)))
        self.current = self.future = self.running = self.nobody
        self.capacity: Floats = np.zeros(width)
        self._limit: Floats | None = None
        self.used: Floats = np.zeros(width)
        self._log = np.empty((64, 3 + 4 * width))
        self._started: tuple[Floats, int] | None = None
        self._summarized = [DURATION, *range(REQUESTS, REQUESTS + width)]

    def __repr__(self) -> str:
        """Return a summary of the state."""
        jobs = ", ".join(f"{name}={len(getattr(self, name))}" for name in ("current", "future", "running"))
        return f"DeferrableObservation(slot={self.slot}, {jobs}, free={self.free.tolist()})"

    @property
    def free(self) -> Floats:
        """Capacity that the running jobs leave; negative if it has fallen below what they hold."""
        return self.capacity - self.used

    @property
    def limit(self) -> Floats:
        """Capacity plus tolerance: the largest amount in use that is no violation."""
        if self._limit is None:
            self._limit = limit_of(self.capacity)
        return self._limit

    @property
    def log(self) -> Floats:
        """All slots up to this one, one row each: the source of the histories below, in the form used by encoders.

        Columns: number of jobs with an open window, number of started jobs, mean duration of the former; then, for each
        resource: capacity, amount used, violation, and mean request. The row of this slot shows its beginning.
        """
        return self._log[: self.slot + 1]

    @property
    def capacity_history(self) -> Floats:
        """Capacities of all slots up to this one, of shape (slot + 1, num_resources)."""
        return self._log[: self.slot + 1, 3 : 3 + len(self.resources)]

    @property
    def used_history(self) -> Floats:
        """Amounts held in the slots before this one, after the starts, of shape (slot, num_resources)."""
        width = len(self.resources)
        return self._log[: self.slot, 3 + width : 3 + 2 * width]

    @property
    def current_history(self) -> Floats:
        """Jobs with an open window in each slot up to this one, of shape (slot + 1, 2 + num_resources).

        Columns: their number, their mean duration, and their mean requests; 0 if there were none.
        """
        return self._log[: self.slot + 1, [0, 2, *range(3 + 3 * len(self.resources), self._log.shape[1])]]

    @property
    def started_history(self) -> Floats:
        """Numbers of jobs started in the slots before this one, of shape (slot,)."""
        return self._log[: self.slot, 1]

    def begin_slot(
        self,
        slot: int,
        capacity: Floats,
        current: JobSet | None = None,
        future: JobSet | None = None,
        running: JobSet | None = None,
    ) -> None:
        """Move to a slot, and log its capacity and its jobs with an open window; for the cluster."""
        width = len(self.resources)
        if self._started is not None:  # deferred until now, so that the row of a slot shows its beginning
            used, number = self._started
            self._log[self.slot, 1] = number
            self._log[self.slot, 3 + width : 3 + 3 * width] = self._held(used)
            self._started = None
        if slot >= len(self._log):
            self._log = np.concatenate([self._log, np.empty_like(self._log)])
        self.slot, self.capacity, self._limit = slot, capacity, None
        self.current = self.nobody if current is None else current
        self.future = self.nobody if future is None else future
        if running is not self.running:
            self.running = self.nobody if running is None else running
            self.used = self.running.requests.sum(axis=0)
        rows = self.current.rows
        number = len(rows)
        if number > 1:
            duration, *requests = (rows[:, self._summarized].sum(axis=0) / number).tolist()
        elif number:
            duration, *requests = rows[0, self._summarized].tolist()
        else:
            duration, requests = 0.0, [0.0] * width
        self._log[slot] = [number, 0.0, duration, *capacity.tolist(), *self._held(self.used), *requests]

    def end_slot(self, used: Floats, num_started: int) -> None:
        """Store the amounts held after the starts of the slot; for the cluster."""
        if num_started:
            self._started = used, num_started

    def _held(self, used: Floats) -> list[float]:
        """Return the amounts held of each resource, followed by their violations."""
        held: list[float] = used.tolist()
        return held + [max(one - most, 0.0) for one, most in zip(held, self.capacity.tolist(), strict=True)]


_NONE = np.empty(0, dtype=np.int64)
_NONE.flags.writeable = False


def positions_of(action: Any, observation: DeferrableObservation, *, overcommit: bool) -> Ints:
    """Return an agent's answer as an array of positions in ``observation.current``.

    Parameters
    ----------
    action : sequence of int, or None
        Answer of the agent.
    observation : DeferrableObservation
        Observation that the agent decided on.
    overcommit : bool
        Whether jobs may be started beyond the capacity.

    Returns
    -------
    numpy.ndarray of int64
        Positions in the order of the answer.

    Raises
    ------
    InfeasibleAction
        If the answer is not a sequence of integers, a position is out of range or repeated, or a job does not fit.
    """
    time, current = observation.slot, observation.current
    if action is None:
        return _NONE
    if type(action) is list and _are_plain(action, len(current)):
        plain: Ints = np.array(action, dtype=np.int64)
        if action and not overcommit:
            _check_fit(plain, observation)
        return plain
    try:
        positions = np.asarray([] if action is None else action)
    except ValueError:  # sequences of unequal lengths
        positions = np.zeros((0, 0))
    if positions.size == 0 and positions.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "ui":
        raise InfeasibleAction(
            f"time {time}: action: got {action!r}, expected positions in current of the jobs to start, or None"
        )
    if positions.min() < 0 or positions.max() >= len(current):
        wrong = positions[(positions < 0) | (positions >= len(current))][0]
        raise InfeasibleAction(
            f"time {time}: position: got {wrong}, expected 0 <= position < {len(current)}, the number of current jobs"
        )
    if len(np.unique(positions)) < len(positions):
        values, counts = np.unique(positions, return_counts=True)
        job_id = current.job_id[values[counts > 1][0]]
        raise InfeasibleAction(f"time {time}: job {job_id} is in the action twice, expected at most once")
    if not overcommit:
        _check_fit(positions, observation)
    return positions.astype(np.int64)


def _are_plain(positions: list[Any], count: int) -> bool:
    """Return whether plain integers are valid, distinct positions; for few numbers, faster than an array."""
    whole = all(type(position) is int and 0 <= position < count for position in positions)
    return whole and len(set(positions)) == len(positions)


def _check_fit(positions: Ints, observation: DeferrableObservation) -> None:
    """Raise an error if jobs do not fit beside the running jobs and the jobs before them."""
    requests = observation.current.requests[positions]
    after = observation.used + np.cumsum(requests, axis=0)
    # A job that requests none of a resource fits regardless of how much others hold of it.
    over = ((after > observation.limit) & (requests > 0)).any(axis=1)
    if over.any():
        place = int(over.argmax())
        job_id = observation.current.job_id[positions[place]]
        wanted, free = (
            ", ".join(
                f"{amount:.12g} {name}" for amount, name in zip(amounts.tolist(), observation.resources, strict=True)
            )
            for amounts in (requests[place], observation.capacity - after[place] + requests[place])
        )
        raise InfeasibleAction(f"time {observation.slot}: job {job_id} requests {wanted}, but only {free} are free")


def free_ahead(observation: DeferrableObservation, forecast: Floats) -> Floats:
    """Return the capacity that running jobs leave in this slot and in later ones.

    Parameters
    ----------
    observation : DeferrableObservation
        Current observation.
    forecast : numpy.ndarray of shape (num_steps, num_resources)
        Expected capacities of the slots after this one.

    Returns
    -------
    numpy.ndarray of shape (1 + num_steps, num_resources)
        Free amounts, negative where the running jobs hold more than the capacity.
    """
    room = np.concatenate([observation.limit[None, :], np.asarray(forecast, dtype=np.float64)])
    finish = observation.running.finish_time
    slots = observation.slot + np.arange(len(room))
    runs_on = finish[None, :] > slots[:, None]
    return np.asarray(room - runs_on.astype(np.float64) @ observation.running.requests)


class EarliestFitPlan:
    """Earliest-fit plan of the known jobs: each is placed in the first slots of its window in which it fits.

    As in backfilling with a reservation for every job, a job that does not fit now keeps its place against jobs placed
    after it.

    Parameters
    ----------
    observation : DeferrableObservation
        Current observation.
    horizon : int
        Number of slots to plan, including this one.
    ahead : numpy.ndarray of shape (at least horizon - 1, num_resources), optional
        Capacities of the slots after this one; default: the current capacity.

    Attributes
    ----------
    jobs : JobSet
        Jobs whose window is open, followed by jobs whose window opens later.
    first, last : numpy.ndarray of shape (jobs,)
        Number of slots until a start is possible, 0 if the window is open, and until the last worthwhile start: the end
        of the window, or the last start before the delay costs more than the job brings.
    worth : numpy.ndarray of shape (jobs,)
        Contribution to the objective of a start in the first possible slot, in core-slots.
    usable : numpy.ndarray of bool, shape (jobs,)
        Whether a start in some slot improves the objective.
    room : numpy.ndarray of shape (horizon, num_resources)
        Capacity that running jobs leave in each slot.
    """

    def __init__(self, observation: DeferrableObservation, horizon: int = HORIZON, ahead: Floats | None = None) -> None:
        self.jobs = jobs = JobSet(np.concatenate([observation.current.rows, observation.future.rows]))
        slot, self.weight = observation.slot, observation.delay_weight
        self.first = np.maximum(jobs.earliest_start - slot, 0.0)
        last = np.minimum(jobs.latest_start - slot, horizon - 1)
        self.worth = jobs.revenue - self.weight * np.maximum(slot - jobs.earliest_start, 0.0)
        if self.weight > 0:  # from some slot on, the delay costs more than the job brings
            last = np.minimum(last, self.first + np.ceil(self.worth / self.weight) - 1)
        self.last = last
        self.usable: NDArray[np.bool_] = (self.worth > 0) & (last >= self.first)
        if ahead is None:
            ahead = np.broadcast_to(observation.limit, (horizon - 1, len(observation.limit)))
        self.room = free_ahead(observation, ahead[: horizon - 1])
        duration = np.minimum(jobs.duration, horizon)
        self._windows = np.stack([self.first, last, duration], axis=1).astype(np.int64).tolist()

    def starts(self, order: Iterable[int]) -> Ints:
        """Place jobs one after another, and return the number of slots until each starts.

        Parameters
        ----------
        order : iterable of int
            Positions of the jobs in ``jobs``; those that are not usable are skipped.

        Returns
        -------
        numpy.ndarray of int64, shape (jobs,)
            Slots until each start; :data:`LATER` for jobs that are not placed.
        """
        found = np.full(len(self.jobs), LATER, np.int64)
        usable = self.usable.tolist()
        wanted = [place for place in order if usable[place]]
        if self.room.shape[1] == 1:
            _place(found, wanted, self._windows, self.jobs.cores.tolist(), self.room[:, 0].tolist())
        else:
            _place_all(found, wanted, self._windows, self.jobs.requests, self.room.copy())
        return found


def _place(starts: Ints, places: list[int], windows: list[list[int]], cores: list[float], room: list[float]) -> None:
    """Place jobs that request one resource, with plain numbers: faster than arrays for few jobs."""
    for place in places:
        first, last, duration = windows[place]
        request = cores[place]
        start = first
        for now in range(first, min(last + duration, len(room))):
            if room[now] < request:
                start = now + 1
                if start > last:
                    break
            elif now + 1 - start >= duration:
                break
        if start <= last:
            starts[place] = start
            for now in range(start, min(start + duration, len(room))):
                room[now] -= request


def _place_all(starts: Ints, places: list[int], windows: list[list[int]], requests: Floats, room: Floats) -> None:
    """Place jobs that request several resources; a resource of which a job requests none cannot prevent its start."""
    for place in places:
        first, last, duration = windows[place]
        request = requests[place]
        for start in range(first, last + 1):
            held = room[start : start + duration]
            if (held >= request)[:, request > 0].all():
                held -= request
                starts[place] = start
                break
