"""What an agent sees of a cluster for deferrable jobs as a slot begins, which jobs it may start, and what fits when."""

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
"""By how much, relative to the capacity, what runs may exceed it: amounts that are not whole add up with errors."""

HORIZON = 24
"""Slots that are looked at, unless another number is given."""

LATER = -1
"""Stands for a job that has no slot."""


def limit_of(capacity: Floats) -> Floats:
    """Return a capacity with the tolerance up to which it counts as kept."""
    return capacity + TOLERANCE * np.maximum(capacity, 1.0)


class DeferrableObservation:
    """A live view, valid until the decision is answered; its arrays are not to be changed.

    The three sets of jobs are those of the OSDEC paper, section 4.1.1.

    Parameters
    ----------
    resources : tuple of str
        Names of the resources, cores first.
    num_slots : int, optional
        How many slots the run has; None if it ends with its jobs.
    delay_weight : float
        What each slot of a job's delay costs, in core-slots.
    violation_weights : numpy.ndarray of shape (num_resources,)
        What each unit and slot above the capacity costs, in core-slots.

    Attributes
    ----------
    resources, num_slots, delay_weight, violation_weights
        As above.
    slot : int
        The slot that begins, from 0.
    current : JobSet
        Jobs that may be started now, in the order in which they became known; an evicted job that may be started again
        stands behind those that were known when it was evicted.
    future : JobSet
        Jobs that are known and whose window is not yet open, in the same order.
    running : JobSet
        Jobs that run on, in the order of their starts.
    capacity : numpy.ndarray of shape (num_resources,)
        What on-demand jobs leave in this slot.
    used : numpy.ndarray of shape (num_resources,)
        What the running jobs hold.
    nobody : JobSet
        No job.
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

    @property
    def free(self) -> Floats:
        """What the running jobs leave of the capacity; below 0 if it has fallen below what they hold."""
        return self.capacity - self.used

    @property
    def limit(self) -> Floats:
        """The capacity with the tolerance up to which it counts as kept: what runs may add up to this."""
        if self._limit is None:
            self._limit = limit_of(self.capacity)
        return self._limit

    @property
    def log(self) -> Floats:
        """All slots up to this one, a row each: what the histories below are columns of, as an encoder shows them.

        Jobs whose window was open, jobs that were started, mean duration of the former; then of each resource:
        capacity, what was used, by how much that was more, and what jobs requested on average. This slot's row is as it
        begins.
        """
        return self._log[: self.slot + 1]

    @property
    def capacity_history(self) -> Floats:
        """Capacities of all slots up to this one, of shape (slot + 1, num_resources)."""
        return self._log[: self.slot + 1, 3 : 3 + len(self.resources)]

    @property
    def used_history(self) -> Floats:
        """What jobs held in the slots before this one, once jobs had been started: of shape (slot, num_resources)."""
        width = len(self.resources)
        return self._log[: self.slot, 3 + width : 3 + 2 * width]

    @property
    def current_history(self) -> Floats:
        """Jobs whose window was open in each slot up to this one, of shape (slot + 1, 2 + num_resources).

        Their number, their mean duration, and what they request on average, 0 if there was none.
        """
        return self._log[: self.slot + 1, [0, 2, *range(3 + 3 * len(self.resources), self._log.shape[1])]]

    @property
    def started_history(self) -> Floats:
        """How many jobs were started in the slots before this one, of shape (slot,)."""
        return self._log[: self.slot, 1]

    def begin_slot(
        self,
        slot: int,
        capacity: Floats,
        current: JobSet | None = None,
        future: JobSet | None = None,
        running: JobSet | None = None,
    ) -> None:
        """Go on to a slot, and remember its capacity and what jobs have an open window; for the cluster."""
        width = len(self.resources)
        if self._started is not None:  # not before: this slot's row stays as it began
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
        """Remember what is held in the slot, once so many jobs have been started; for the cluster."""
        if num_started:
            self._started = used, num_started

    def _held(self, used: Floats) -> list[float]:
        """Return what is held of each resource, and by how much that is more than there is."""
        held: list[float] = used.tolist()
        return held + [max(one - most, 0.0) for one, most in zip(held, self.capacity.tolist(), strict=True)]


_NONE = np.empty(0, dtype=np.int64)
_NONE.flags.writeable = False


def positions_of(action: Any, observation: DeferrableObservation, *, overcommit: bool) -> Ints:
    """Return an agent's answer as an array of positions in ``observation.current``.

    Parameters
    ----------
    action : sequence of int, or None
        The answer.
    observation : DeferrableObservation
        What was asked.
    overcommit : bool
        Whether jobs may be started beyond the capacity.

    Returns
    -------
    numpy.ndarray of int64
        In the order of the answer.

    Raises
    ------
    InfeasibleAction
        If it is no sequence of whole numbers, there is no such job, one is started twice, or one does not fit.
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
    except ValueError:  # of sequences of unequal length
        positions = np.zeros((0, 0))
    if positions.size == 0 and positions.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "ui":
        raise InfeasibleAction(
            f"time {time}: the answer is {action!r}, want the positions in current of the jobs to be started, or None"
        )
    if positions.min() < 0 or positions.max() >= len(current):
        wrong = positions[(positions < 0) | (positions >= len(current))][0]
        raise InfeasibleAction(f"time {time}: position {wrong} is to be started, and there are {len(current)} jobs")
    if len(np.unique(positions)) < len(positions):
        values, counts = np.unique(positions, return_counts=True)
        job_id = current.job_id[values[counts > 1][0]]
        raise InfeasibleAction(f"time {time}: job {job_id} is to be started twice")
    if not overcommit:
        _check_fit(positions, observation)
    return positions.astype(np.int64)


def _are_plain(positions: list[Any], count: int) -> bool:
    """Tell at once whether plain numbers are positions of different jobs; few of them are seen faster than an array."""
    whole = all(type(position) is int and 0 <= position < count for position in positions)
    return whole and len(set(positions)) == len(positions)


def _check_fit(positions: Ints, observation: DeferrableObservation) -> None:
    """Raise unless jobs fit beside those that run, those before them included."""
    requests = observation.current.requests[positions]
    after = observation.used + np.cumsum(requests, axis=0)
    # a job that needs nothing of a resource fits however much others hold of it
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
        raise InfeasibleAction(f"time {observation.slot}: job {job_id} requests {wanted} and {free} are free")


def free_ahead(observation: DeferrableObservation, forecast: Floats) -> Floats:
    """Return what running jobs leave of the capacity of this slot and of later ones.

    Parameters
    ----------
    observation : DeferrableObservation
        What is seen now.
    forecast : numpy.ndarray of shape (num_steps, num_resources)
        Expected capacities of the slots after this one.

    Returns
    -------
    numpy.ndarray of shape (1 + num_steps, num_resources)
        Negative where the running jobs hold more than there will be.
    """
    room = np.concatenate([observation.limit[None, :], np.asarray(forecast, dtype=np.float64)])
    finish = observation.running.finish_time
    slots = observation.slot + np.arange(len(room))
    runs_on = finish[None, :] > slots[:, None]
    return np.asarray(room - runs_on.astype(np.float64) @ observation.running.requests)


class EarliestFitPlan:
    """The known jobs, and the room for them: each is given the first slots of its window in which it fits.

    As in backfilling with a reservation for every job, a job that does not fit now keeps its place from those that
    come after it.

    Parameters
    ----------
    observation : DeferrableObservation
        What is seen now.
    horizon : int
        Slots that are looked at, this one included.
    ahead : numpy.ndarray of shape (at least horizon - 1, num_resources), optional
        Capacities of the slots after this one; the capacity as it is if left out.

    Attributes
    ----------
    jobs : JobSet
        Those whose window is open, then those whose window is to open.
    first, last : numpy.ndarray of shape (jobs,)
        In how many slots their windows open, 0 if they have, and in how many slots they close, or a start would cost
        more delay than it brings.
    worth : numpy.ndarray of shape (jobs,)
        What a start in the first of these slots adds to the objective, in core-slots.
    usable : numpy.ndarray of bool, shape (jobs,)
        Whether there is a slot in which a start adds anything.
    room : numpy.ndarray of shape (horizon, num_resources)
        What running jobs leave.
    """

    def __init__(self, observation: DeferrableObservation, horizon: int = HORIZON, ahead: Floats | None = None) -> None:
        self.jobs = jobs = JobSet(np.concatenate([observation.current.rows, observation.future.rows]))
        slot, self.weight = observation.slot, observation.delay_weight
        self.first = np.maximum(jobs.earliest_start - slot, 0.0)
        last = np.minimum(jobs.latest_start - slot, horizon - 1)
        self.worth = jobs.revenue - self.weight * np.maximum(slot - jobs.earliest_start, 0.0)
        if self.weight > 0:  # later it costs more than it brings
            last = np.minimum(last, self.first + np.ceil(self.worth / self.weight) - 1)
        self.last = last
        self.usable: NDArray[np.bool_] = (self.worth > 0) & (last >= self.first)
        if ahead is None:
            ahead = np.broadcast_to(observation.limit, (horizon - 1, len(observation.limit)))
        self.room = free_ahead(observation, ahead[: horizon - 1])
        duration = np.minimum(jobs.duration, horizon)
        self._windows = np.stack([self.first, last, duration], axis=1).astype(np.int64).tolist()

    def starts(self, order: Iterable[int]) -> Ints:
        """Return in how many slots jobs start that are placed one after another.

        Parameters
        ----------
        order : iterable of int
            Their positions in ``jobs``; those that are not usable are left out.

        Returns
        -------
        numpy.ndarray of int64, shape (jobs,)
            :data:`LATER` for those that are not placed.
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
    """Place jobs that request one resource; plain numbers, as there are few and arrays would take longer."""
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
    """Place jobs that request several; a job that requests nothing of one fits however short it is."""
    for place in places:
        first, last, duration = windows[place]
        request = requests[place]
        for start in range(first, last + 1):
            held = room[start : start + duration]
            if (held >= request)[:, request > 0].all():
                held -= request
                starts[place] = start
                break
