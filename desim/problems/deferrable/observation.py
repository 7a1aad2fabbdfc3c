"""What an agent sees of a cluster for deferrable jobs at the beginning of a slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.job_set import DURATION, REQUESTS, JobSet

__all__ = ["TOLERANCE", "DeferrableObservation"]

Floats = NDArray[np.float64]

#: By how much, relative to the capacity, what runs may exceed it: amounts that are not whole add up with errors.
TOLERANCE = 1e-9


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
    """

    def __init__(
        self, resources: tuple[str, ...], num_slots: int | None, delay_weight: float, violation_weights: Floats
    ) -> None:
        self.resources = resources
        self.num_slots = num_slots
        self.delay_weight = delay_weight
        self.violation_weights = violation_weights
        empty = np.empty((0, REQUESTS + len(resources)))
        self.slot = 0
        self.current = JobSet(empty)
        self.future = JobSet(empty)
        self.running = JobSet(empty)
        self.capacity: Floats = np.zeros(len(resources))
        self.used: Floats = np.zeros(len(resources))
        self._history = np.empty((2, 64, len(resources)))
        self._current_history = np.zeros((64, 2 + len(resources)))
        self._started_history = np.empty(64)
        self._summarized = [DURATION, *range(REQUESTS, REQUESTS + len(resources))]

    @property
    def free(self) -> Floats:
        """What the running jobs leave of the capacity; below 0 if it has fallen below what they hold."""
        return self.capacity - self.used

    @property
    def limit(self) -> Floats:
        """The capacity with the tolerance up to which it counts as kept: what runs may add up to this."""
        return self.capacity + TOLERANCE * np.maximum(self.capacity, 1.0)

    @property
    def capacity_history(self) -> Floats:
        """Capacities of all slots up to this one, of shape (slot + 1, num_resources)."""
        return self._history[0, : self.slot + 1]

    @property
    def used_history(self) -> Floats:
        """What jobs held in the slots before this one, once jobs had been started: of shape (slot, num_resources)."""
        return self._history[1, : self.slot]

    @property
    def current_history(self) -> Floats:
        """Jobs whose window was open in each slot up to this one, of shape (slot + 1, 2 + num_resources).

        Their number, their mean duration, and what they request on average, 0 if there was none.
        """
        return self._current_history[: self.slot + 1]

    @property
    def started_history(self) -> Floats:
        """How many jobs were started in the slots before this one, of shape (slot,)."""
        return self._started_history[: self.slot]

    def begin_slot(self, slot: int, capacity: Floats) -> None:
        """Go on to a slot and remember its capacity; for the cluster."""
        if slot >= self._history.shape[1]:
            self._history = np.concatenate([self._history, np.empty_like(self._history)], axis=1)
            self._current_history = np.concatenate([self._current_history, np.zeros_like(self._current_history)])
            self._started_history = np.concatenate([self._started_history, np.empty_like(self._started_history)])
        self.slot = slot
        self.capacity = capacity
        self._history[0, slot] = capacity

    def note_current(self) -> None:
        """Remember what jobs have an open window; for the cluster, once it has said so."""
        number = len(self.current)
        if number:
            summary = self._current_history[self.slot]
            summary[0] = number
            summary[1:] = self.current.rows[:, self._summarized].sum(axis=0) / number

    def end_slot(self, used: Floats, num_started: int) -> None:
        """Remember what is held in the slot, once so many jobs have been started; for the cluster."""
        self._history[1, self.slot] = used
        self._started_history[self.slot] = num_started
