"""Jobs and capacities of which all is known, and what a schedule of them brings: what the planners plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.observation import TOLERANCE

__all__ = ["Instance", "usage", "value_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Instance(NamedTuple):
    """Jobs, and the slots 0, ..., num_slots - 1 in which they may be started.

    A schedule is an array with the slot of each job, -1 if it is not started.

    Attributes
    ----------
    first, last : numpy.ndarray of int64, shape (num_jobs,)
        Their windows, within these slots.
    worth : numpy.ndarray of shape (num_jobs,)
        What they bring if they are started in ``first``, in core-slots.
    duration : numpy.ndarray of int64, shape (num_jobs,)
        Slots that they run.
    requests : numpy.ndarray of shape (num_jobs, num_resources)
        What they hold while they run.
    capacity, held : numpy.ndarray of shape (num_slots, num_resources)
        What there is, and what jobs hold that run already.
    delay_weight : float
        What each slot after ``first`` costs.
    violation_weights : numpy.ndarray of shape (num_resources,)
        What each unit and slot above the capacity costs.
    overcommit : bool
        Whether a job may be started where it does not fit.
    """

    first: Ints
    last: Ints
    worth: Floats
    duration: Ints
    requests: Floats
    capacity: Floats
    held: Floats
    delay_weight: float
    violation_weights: Floats
    overcommit: bool

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return len(self.first)

    @property
    def num_slots(self) -> int:
        """How many slots there are."""
        return len(self.capacity)

    @property
    def limit(self) -> Floats:
        """The capacity with the tolerance up to which the cluster counts it as kept."""
        return self.capacity + TOLERANCE * np.maximum(self.capacity, 1.0)

    @property
    def is_whole(self) -> bool:
        """Whether the values of all schedules are whole numbers."""
        parts = (self.worth, self.requests, self.capacity, self.held, self.violation_weights, self.delay_weight)
        return all(bool((np.asarray(part) % 1 == 0).all()) for part in parts)


def usage(instance: Instance, starts: Ints) -> Floats:
    """Return what is held in each slot, of shape (num_slots, num_resources)."""
    placed = np.flatnonzero(starts >= 0)
    begins, requests = starts[placed], instance.requests[placed]
    ends = np.minimum(begins + instance.duration[placed], instance.num_slots)
    changes = np.zeros((instance.num_slots + 1, requests.shape[1]))
    np.add.at(changes, begins, requests)
    np.subtract.at(changes, ends, requests)
    return np.asarray(instance.held + np.cumsum(changes[:-1], axis=0))


def value_of(instance: Instance, starts: Ints) -> float:
    """Return what a schedule brings, in core-slots, less the cost of all violations."""
    placed = starts >= 0
    delays = (starts - instance.first)[placed].sum()
    used = usage(instance, starts)
    violation = np.where(used > instance.limit, used - instance.capacity, 0.0)
    worth = instance.worth[placed].sum() - instance.delay_weight * delays
    return float(worth - (violation @ instance.violation_weights).sum())
