"""Back-filling: letting jobs overtake those that are first in order but do not fit yet.

* Simple back-filling starts any job that fits, and reserves nothing.
* EASY reserves the earliest possible slot for the first blocked job, and starts others only
  where they do not delay it: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu'alem and
  Feitelson, IEEE TPDS 12(6), 2001.
* :mod:`desim.agents.batch.conservative` reserves for every job.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.core_profile import CoreProfile
from desim.agents.batch.orders import as_priority
from desim.agents.batch.priorities import FCFS, Priority
from desim.agents.batch.profile import AvailabilityProfile, Slot
from desim.problems.batch import BatchObservation, Queue, Start, lowest_cores

__all__ = ["EASYBackfilling", "SimpleBackfilling"]


class SimpleBackfilling:
    """Start every queued job that fits, in order of priority; nothing is reserved.

    This is the back-filling of the baselines in the DBF paper. A wide job can starve.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Which job comes first, for example ``"fcfs"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs") -> None:
        self.priority = as_priority(order)
        self.name = f"backfilling-{self.priority.name}"

    def act(self, observation: BatchObservation) -> list[int] | None:
        """Return the jobs to start."""
        queue, free = observation.queue, observation.free_cores
        cores = queue.requested_cores
        candidates = _in_order(self.priority, queue, observation.time, (cores <= free).nonzero()[0])
        started: list[int] = []
        while len(candidates):
            position = candidates[0]
            started.append(int(queue.job_id[position]))
            free -= int(cores[position])
            candidates = candidates[1:]
            candidates = candidates[cores[candidates] <= free]
        return started or None


class EASYBackfilling:
    """EASY back-filling: only the first blocked job has a reservation, made anew at each decision.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Which job comes first, for example ``"fcfs"`` or ``F1``.
    specific_cores : bool
        Reserve particular cores instead of a number of cores, as the reference schedulers of
        Batsim do.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs", *, specific_cores: bool = False) -> None:
        self.priority = as_priority(order)
        self.specific_cores = specific_cores
        self.name = f"easy-{'specific-' if specific_cores else ''}{self.priority.name}"

    def act(self, observation: BatchObservation) -> list[int | Start] | None:
        """Return the jobs to start."""
        queue, free, time = observation.queue, observation.free_cores, observation.time
        cores = queue.requested_cores
        if not len(cores):
            return None
        fitting = cores <= free
        blocked = self.priority.first(queue, time)
        actions: list[int | Start] = []
        if not fitting[blocked]:
            if not fitting.any():
                return None
            room = self._room_beside(observation, [], blocked)
        else:
            order = self.priority.order(queue, time)
            count = int(cores[order[:free]].cumsum().searchsorted(free, "right"))
            slots = []
            room = self._room(observation, np.inf)
            for position in order[:count].tolist():
                slots.append(room.take(int(cores[position]), time, time + float(queue.requested_time[position])))
                actions.append(_start(queue, position, slots[-1]))
            if count == len(order):
                return actions
            fitting[order[:count]] = False
            room = self._room_beside(observation, slots, int(order[count]))
        ends = time + queue.requested_time
        candidates = (fitting & room.allows(cores, ends)).nonzero()[0]
        candidates = _in_order(self.priority, queue, time, candidates)
        while len(candidates):
            position = int(candidates[0])
            slot = room.take(int(cores[position]), time, float(ends[position]))
            actions.append(_start(queue, position, slot))
            candidates = candidates[1:]
            candidates = candidates[room.allows(cores[candidates], ends[candidates])]
        return actions or None

    def _room(self, observation: BatchObservation, shadow: float) -> _Room:
        """Return all that is free now."""
        if self.specific_cores:
            return _CoreRoom(observation.free_core_set, shadow, 0)
        return _Room(observation.free_cores, shadow, observation.free_cores)

    def _room_beside(self, observation: BatchObservation, slots: list[Slot], blocked: int) -> _Room:
        """Reserve for the blocked job; return what others may use, once the given slots are taken."""
        kind = CoreProfile if self.specific_cores else AvailabilityProfile
        profile = kind.of_running(observation)
        for slot in slots:
            profile.take(slot)
        queue = observation.queue
        reservation = profile.fit(int(queue.requested_cores[blocked]), float(queue.requested_time[blocked]))
        if reservation is None:  # cores are down, and nobody knows for how long: nothing delays the job further
            room = self._room(observation, np.inf)
        elif self.specific_cores:
            room = _CoreRoom(observation.free_core_set, reservation.start, reservation.core_set)
        else:
            spare = profile.free_at(reservation.start) - reservation.cores
            room = _Room(observation.free_cores, reservation.start, spare)
        for slot in slots:
            room.remove(slot)
        return room


class _Room:
    """What jobs that start now may use beside a reservation that begins at the shadow time.

    A job that ends by then may use every free core; one that would still run may use ``spare``
    of them.
    """

    def __init__(self, free: int, shadow: float, spare: int) -> None:
        self.free = free
        self.shadow = shadow
        self.spare = spare

    def allows(self, cores: NDArray[np.int64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell for each of n jobs, by cores and expected end in seconds, whether it may start."""
        return (cores <= self.free) & ((ends <= self.shadow) | (cores <= self.spare))

    def take(self, cores: int, start: float, end: float) -> Slot:
        """Let an allowed job have its cores."""
        slot = Slot(start, end, cores, 0)
        self.remove(slot)
        if end > self.shadow:
            self.spare -= cores
        return slot

    def remove(self, slot: Slot) -> None:
        """Account for cores that are no longer free now; the reservation knows of them already."""
        self.free -= slot.cores


class _CoreRoom(_Room):
    """The same, where the reservation holds particular cores."""

    def __init__(self, free: int, shadow: float, reserved: int) -> None:
        super().__init__(free.bit_count(), shadow, (free & ~reserved).bit_count())
        self.free_set = free
        self.reserved = reserved

    def take(self, cores: int, start: float, end: float) -> Slot:
        """Let an allowed job have the lowest cores that it may use."""
        usable = self.free_set if end <= self.shadow else self.free_set & ~self.reserved
        slot = Slot(start, end, cores, lowest_cores(usable, cores))
        self.remove(slot)
        return slot

    def remove(self, slot: Slot) -> None:
        """Account for cores that are no longer free now."""
        self.free -= slot.cores
        self.free_set &= ~slot.core_set
        self.spare = (self.free_set & ~self.reserved).bit_count()


def _in_order(priority: Priority, queue: Queue, time: float, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ascending positions in the order of a priority."""
    if len(positions) < 2 or isinstance(priority, FCFS):
        return positions
    return positions[priority.scores(queue, time)[positions].argsort(kind="stable")]


def _start(queue: Queue, position: int, slot: Slot) -> int | Start:
    """Return the action that starts a queued job: on the slot's cores, where it names them."""
    job_id = int(queue.job_id[position])
    return Start(job_id, slot.core_set) if slot.core_set else job_id
