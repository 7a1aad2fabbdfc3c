"""Giving known jobs the first slots of their windows in which they fit, one job after another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.job_set import JobSet
from desim.problems.deferrable.observation import DeferrableObservation

__all__ = ["HORIZON", "LATER", "Placing", "room_ahead"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HORIZON = 24
"""Slots that are looked at, unless another number is given."""

LATER = -1
"""Stands for a job that has no slot."""


def room_ahead(observation: DeferrableObservation, forecast: Floats) -> Floats:
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


class Placing:
    """The known jobs, and the room for them.

    As in back-filling with a reservation for every job, a job that does not fit now keeps its place from those that
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
        self.room = room_ahead(observation, ahead[: horizon - 1])
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
