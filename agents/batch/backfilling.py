"""Backfilling: jobs may overtake earlier jobs that do not fit yet.

* Simple backfilling starts any job that fits and reserves nothing.
* EASY backfilling reserves the earliest possible start for the first blocked job, and starts other jobs only if they
  do not delay it: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
* Conservative backfilling reserves for every job, so no job delays another (also Mu'alem and Feitelson). A new job gets
  the earliest start that the profile allows. When jobs end, the schedule is compressed once: in order of priority, each
  queued job is removed and fitted again, so it keeps its reservation or moves forward. Reservations are kept: if no
  arrival or completion coincides with a reserved start, the agent asks for a decision at that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, merge
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.batch.node_backfilling import easy_on_nodes, refuse_nodes, simple_on_nodes
from desim.agents.batch.node_profile import FreeNodes, NodeProfile, NodeSlot
from desim.agents.batch.priorities import FCFS, Priority, as_priority
from desim.agents.batch.profile import AvailabilityProfile, CoreProfile, Reservation, expected_releases, iter_releases
from desim.agents.batch.reservations import start_around_reservations
from desim.problems.batch import (
    BatchObservation,
    NodeObservation,
    Queue,
    Start,
    StartOnNodes,
    WaitForCores,
    WaitUntil,
    lowest_cores,
)
from desim.reprs import NamedRepr

__all__ = ["ConservativeBackfilling", "EASYBackfilling", "SimpleBackfilling"]


FEW = 16
"""Up to this number, checking jobs one by one is faster than array operations."""


class SimpleBackfilling(NamedRepr):
    """Start every queued job that fits, in order of priority, without reservations.

    The baselines of the DBF paper use this kind of backfilling. A wide job can starve.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"fcfs"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs") -> None:
        self.priority = as_priority(order)
        self.name = f"backfilling-{self.priority.name}"

    def act(self, observation: BatchObservation) -> Sequence[int | StartOnNodes | WaitForCores] | None:
        """Return the jobs to start or, if no job fits, the number of free cores to wait for."""
        self.priority.look(observation)
        if isinstance(observation, NodeObservation):
            return simple_on_nodes(observation, self.priority.order(observation.queue, observation.time))
        if observation.reservations:
            order = self.priority.order(observation.queue, observation.time)
            return start_around_reservations(observation, order, "waits")
        queue, free = observation.queue, observation.free_cores
        cores = queue.requested_cores
        if not len(cores):
            return None
        fitting = (cores <= free).nonzero()[0]
        if not len(fitting):
            return [WaitForCores(int(cores.min()))]
        positions = _in_order(self.priority, queue, observation.time, fitting)
        started: list[int | WaitForCores] = []
        for job_id, width in zip(queue.job_id[positions].tolist(), cores[positions].tolist(), strict=True):
            if width <= free:
                started.append(job_id)
                free -= width
                if not free:
                    break
        return started


class EASYBackfilling(NamedRepr):
    """EASY backfilling: only the first blocked job has a reservation, renewed at each decision.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"fcfs"`` or ``F1``.
    specific_cores : bool
        Whether a reservation is for particular cores instead of a number of cores, as in Batsim's reference schedulers.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs", *, specific_cores: bool = False) -> None:
        self.priority = as_priority(order)
        self.specific_cores = specific_cores
        self.name = f"easy-{'specific-' if specific_cores else ''}{self.priority.name}"

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Begin a run; raise InvalidConfiguration if specific_cores is used on a cluster with nodes."""
        if self.specific_cores:
            refuse_nodes(simulation_info, self.name, f"easy-{self.priority.name}")

    def act(self, observation: BatchObservation) -> Sequence[int | StartOnNodes | Start | WaitForCores] | None:
        """Return the jobs to start or, if no job fits, the number of free cores to wait for."""
        self.priority.look(observation)
        if isinstance(observation, NodeObservation):
            return easy_on_nodes(observation, self.priority.order(observation.queue, observation.time))
        if observation.reservations and not self.specific_cores:
            order = self.priority.order(observation.queue, observation.time)
            return start_around_reservations(observation, order, "reserves")
        queue, free, time = observation.queue, observation.free_cores, observation.time
        cores = queue.requested_cores
        if not len(cores):
            return None
        positions = (cores <= free).nonzero()[0]
        if not len(positions):
            return [WaitForCores(int(cores.min()))]
        blocked = self.priority.first(queue, time)
        actions: list[int | Start | WaitForCores] = []
        slots: list[Reservation] = []
        if cores[blocked] <= free:
            order = self.priority.order(queue, time)
            count = int(cores[order[:free]].cumsum().searchsorted(free, "right"))
            room = self._room(observation, np.inf)
            for position in order[:count].tolist():
                slots.append(room.take(int(cores[position]), time, time + float(queue.requested_time[position])))
                actions.append(_start(queue, position, slots[-1]))
            if count == len(positions) or not room.free:
                return actions
            blocked = int(order[count])
            left = np.ones(len(order), np.bool_)
            left[order[:count]] = False
            positions = positions[left[positions]]
        room = self._room_beside(observation, slots, blocked)
        times = queue.requested_time
        if len(positions) > FEW:
            positions = positions[room.allows(cores[positions], time + times[positions])]
        positions = _in_order(self.priority, queue, time, positions)
        widths, ends = cores[positions].tolist(), (time + times[positions]).tolist()
        for position, width, end in zip(positions.tolist(), widths, ends, strict=True):
            if width <= room.free and (end <= room.shadow or width <= room.spare):
                actions.append(_start(queue, position, room.take(width, time, end)))
                if not room.free:
                    break
        return actions or None

    def _room(self, observation: BatchObservation, shadow: float) -> _Room:
        """Return all cores that are free now, with a given shadow time."""
        if self.specific_cores:
            return _CoreRoom(observation.free_core_set, shadow, 0)
        return _Room(observation.free_cores, shadow, observation.free_cores)

    def _room_beside(self, observation: BatchObservation, slots: list[Reservation], blocked: int) -> _Room:
        """Reserve for the blocked job; return the cores that others may use after the given slots are taken."""
        queue = observation.queue
        reserve = self._reserve_cores if self.specific_cores else self._reserve
        room = reserve(observation, slots, int(queue.requested_cores[blocked]))
        if room is None:  # cores are down for an unknown time: no other job can delay the blocked one further
            room = self._room(observation, np.inf)
        for slot in slots:
            room.remove(slot)
        return room

    def _reserve(self, observation: BatchObservation, slots: list[Reservation], cores: int) -> _Room | None:
        """Reserve a number of cores for a blocked job at the shadow time; return None if there are never enough.

        This needs no profile, because the number of free cores only grows as the running jobs end.
        """
        available = observation.free_cores
        releases = iter_releases(observation)
        if slots:
            available -= sum(slot.cores for slot in slots)
            releases = merge(releases, sorted((slot.end, slot.cores, 0) for slot in slots))
        shadow = np.inf
        for end, released, _ in releases:
            if end > shadow:  # count the cores of all jobs that end at the shadow time
                break
            available += released
            if available >= cores:
                shadow = end
        return _Room(observation.free_cores, shadow, available - cores) if shadow < np.inf else None

    def _reserve_cores(self, observation: BatchObservation, slots: list[Reservation], cores: int) -> _Room | None:
        """Reserve the lowest cores that are free at the shadow time; return None if there are never enough."""
        available = observation.free_core_set
        releases = ((end, observation.core_set_of(job_id)) for end, _, job_id in iter_releases(observation))
        if slots:
            available &= ~sum(slot.core_set for slot in slots)
            releases = merge(releases, sorted((slot.end, slot.core_set) for slot in slots))
        shadow = np.inf
        for end, released in releases:
            if end > shadow:
                break
            available |= released
            if available.bit_count() >= cores:
                shadow = end
        if shadow == np.inf:
            return None
        return _CoreRoom(observation.free_core_set, shadow, lowest_cores(available, cores))


class _Room:
    """Cores that jobs starting now may use beside a reservation that begins at the shadow time.

    A job that ends by the shadow time may use all free cores; a job that ends later may use ``spare`` of them.
    """

    def __init__(self, free: int, shadow: float, spare: int) -> None:
        self.free = free
        self.shadow = shadow
        self.spare = spare

    def allows(self, cores: NDArray[np.int64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each of n fitting jobs, by cores and expected end in seconds, may start; shape (n,)."""
        return (ends <= self.shadow) | (cores <= self.spare)

    def take(self, cores: int, start: float, end: float) -> Reservation:
        """Take the cores of a job that may start; return its slot."""
        slot = Reservation(start, end, cores, 0)
        self.remove(slot)
        if end > self.shadow:
            self.spare -= cores
        return slot

    def remove(self, slot: Reservation) -> None:
        """Subtract cores that are no longer free; the reservation already accounts for them."""
        self.free -= slot.cores


class _CoreRoom(_Room):
    """Cores that jobs starting now may use beside a reservation of particular cores."""

    def __init__(self, free: int, shadow: float, reserved: int) -> None:
        super().__init__(free.bit_count(), shadow, (free & ~reserved).bit_count())
        self.free_set = free
        self.reserved = reserved

    def take(self, cores: int, start: float, end: float) -> Reservation:
        """Take the lowest cores that a job may use; return its slot."""
        usable = self.free_set if end <= self.shadow else self.free_set & ~self.reserved
        slot = Reservation(start, end, cores, lowest_cores(usable, cores))
        self.remove(slot)
        return slot

    def remove(self, slot: Reservation) -> None:
        """Subtract cores that are no longer free."""
        self.free -= slot.cores
        self.free_set &= ~slot.core_set
        self.spare = (self.free_set & ~self.reserved).bit_count()


def _in_order(priority: Priority, queue: Queue, time: float, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ascending positions in the order of a priority."""
    if len(positions) < 2 or isinstance(priority, FCFS):
        return positions
    return positions[priority.scores(queue, time)[positions].argsort(kind="stable")]


def _start(queue: Queue, position: int, slot: Reservation) -> int | Start:
    """Return the action that starts a queued job, on the slot's cores if it names particular ones."""
    job_id = int(queue.job_id[position])
    return Start(job_id, slot.core_set) if slot.core_set else job_id


class _FreeCores:
    """Free cores while jobs with due reservations are started."""

    __slots__ = ("free", "free_set")

    def __init__(self, observation: BatchObservation) -> None:
        self.free = observation.free_cores
        self.free_set = observation.free_core_set

    def start(self, job_id: int, slot: Reservation) -> int | Start | None:
        """Return the action that starts a job in its slot; None if the slot's cores are not free."""
        if slot.cores > self.free or slot.core_set & ~self.free_set:
            return None
        self.free -= slot.cores
        self.free_set &= ~slot.core_set
        return Start(job_id, slot.core_set) if slot.core_set else job_id


def _down(observation: BatchObservation) -> int | bytes:
    """Return the state of failures; on nodes, the profile already contains the advance reservations."""
    return observation.room.down.tobytes() if isinstance(observation, NodeObservation) else observation.down_cores


class ConservativeBackfilling(NamedRepr):
    """Conservative backfilling with any priority order.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order in which jobs that arrive together are fitted, and in which the schedule is compressed.
    specific_cores : bool
        Whether a reservation is for particular cores instead of a number of cores, as in Batsim's reference schedulers.

    Attributes
    ----------
    reservations : dict of int to Reservation
        Reserved slots of the queued jobs, by job id; a job may have none while cores are down.
    """

    def __init__(self, order: str | Priority | type[Priority] = "fcfs", *, specific_cores: bool = False) -> None:
        self.priority = as_priority(order)
        self.specific_cores = specific_cores
        self.name = f"conservative-{'specific-' if specific_cores else ''}{self.priority.name}"
        self.reset({}, None)

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Discard all reservations."""
        if self.specific_cores:
            refuse_nodes(simulation_info, self.name, f"conservative-{self.priority.name}")
        self.reservations: dict[int, Reservation] = {}
        self._starts: list[tuple[float, int]] = []  # heap of reserved starts; entries of moved jobs are stale
        self._running: dict[int, Reservation] = {}
        self._ends: dict[float, int] = {}  # number of running jobs expected to end at each time
        self._profile: AvailabilityProfile | None = None
        self._changes = 0
        self._down: int | bytes = 0
        self._preemptions = 0
        self._settled = True

    def act(self, observation: BatchObservation) -> list[int | StartOnNodes | Start | WaitUntil] | None:
        """Return the jobs whose reserved start is due, and the time of the next decision if one must be requested."""
        self.priority.look(observation)
        profile = self._profile
        is_void = _down(observation) != self._down or observation.preemptions != self._preemptions
        if profile is None or is_void or self._is_late(observation.time):
            profile = self._rebuild(observation)
        else:
            profile.advance(observation.time)
            if observation.running.changes != self._changes:
                self._release_ended(profile, observation)
        self._fit_new(profile, observation)
        due = self._pop_due(observation.time)
        is_settled = observation.running.first_end > observation.time  # else jobs that end now have not all ended
        if is_settled and not profile.agrees_with(observation, [slot for _, slot in due if slot.end > slot.start]):
            # an expected end was corrected, or another agent has acted: no reservation is valid any more
            profile = self._rebuild(observation)
            self._fit_new(profile, observation)
            due = self._pop_due(observation.time)
        return self._start(due, observation)

    def _rebuild(self, observation: BatchObservation) -> AvailabilityProfile:
        """Build the profile from the running jobs alone; all reservations are discarded."""
        on_nodes = isinstance(observation, NodeObservation)
        kind = NodeProfile if on_nodes else CoreProfile if self.specific_cores else AvailabilityProfile
        self._profile = profile = kind.of_running(observation)
        self._down, self._preemptions = _down(observation), observation.preemptions
        self._running, self._ends = {}, {}
        for end, cores, job_id in zip(*(column.tolist() for column in expected_releases(observation)), strict=True):
            if isinstance(observation, NodeObservation):
                slot: Any = NodeSlot(observation.time, end, observation.allocation_of(job_id), None)
            else:
                core_set = observation.core_set_of(job_id) if self.specific_cores else 0
                slot = Reservation(observation.time, end, cores, core_set)
            self._note_running(job_id, slot)
        self._changes = observation.running.changes
        self.reservations = {}
        self._starts = []
        self._settled = True
        return profile

    def _note_running(self, job_id: int, slot: Reservation) -> None:
        """Record that a job is running and holds its slot in the profile."""
        self._running[job_id] = slot
        self._ends[slot.end] = self._ends.get(slot.end, 0) + 1

    def _release_ended(self, profile: AvailabilityProfile, observation: BatchObservation) -> None:
        """Free the remaining slots of ended jobs and compress the schedule."""
        self._changes = observation.running.changes
        time = observation.time
        ended = self._running.keys() - observation.running.ids()
        for job_id in ended:
            slot = self._running.pop(job_id)
            if self._ends[slot.end] == 1:
                del self._ends[slot.end]
            else:
                self._ends[slot.end] -= 1
            if slot.end > time:
                profile.give(slot._replace(start=time))
                self._settled = False
        if ended and not self._settled:
            self._fit_again(profile, observation)

    def _is_late(self, time: float) -> bool:
        """Return whether a reserved start has passed between two decisions."""
        return self._next_start()[0] < time and any(
            slot.start < min(time, slot.end) for slot in self.reservations.values()
        )

    def _fit_again(self, profile: AvailabilityProfile, observation: BatchObservation) -> None:
        """Compress the schedule: move each queued job, in order, to the earliest start beside all others.

        If no job moves, none will move at the next job end either unless that job ends early, because the number of
        free cores has only decreased. ``_settled`` records this.
        """
        self._settled = True
        if not self.reservations:
            return
        queue = observation.queue
        job_ids, requested_times = queue.job_id, queue.requested_time
        if not isinstance(self.priority, FCFS):
            order = self.priority.order(queue, observation.time)
            job_ids, requested_times = job_ids[order], requested_times[order]
        profile.begin_compression()
        for job_id, requested in zip(job_ids.tolist(), requested_times.tolist(), strict=True):
            slot = self.reservations.get(job_id)
            if slot is None:
                continue
            better = profile.compress(slot, requested)
            if better is not slot:
                profile.give(slot)
                self._reserve(profile, job_id, better)
                self._settled = False

    def _fit_new(self, profile: AvailabilityProfile, observation: BatchObservation) -> None:
        """Reserve for the jobs without a reservation, in order."""
        queue = observation.queue
        missing = len(queue) - len(self.reservations)
        if not missing:
            return
        if missing == 1 and int(queue.job_id[-1]) not in self.reservations:
            positions = [len(queue) - 1]
        else:
            positions = self.priority.order(queue, observation.time).tolist()
        for position in positions:
            job_id = int(queue.job_id[position])
            if job_id not in self.reservations:
                if isinstance(observation, NodeObservation):
                    wanted: Any = observation.compiled_request(job_id)
                else:
                    wanted = int(queue.requested_cores[position])
                slot = profile.fit(wanted, float(queue.requested_time[position]))
                if slot is not None:  # otherwise cores are down, and the job waits for their repair
                    self._reserve(profile, job_id, slot)

    def _reserve(self, profile: AvailabilityProfile, job_id: int, slot: Reservation) -> None:
        profile.take(slot)
        self.reservations[job_id] = slot
        heappush(self._starts, (slot.start, job_id))
        if len(self._starts) > 64 + 4 * len(self.reservations):
            self._starts = [(slot.start, job_id) for job_id, slot in self.reservations.items()]
            heapify(self._starts)

    def _next_start(self) -> tuple[float, int]:
        """Return the time and job id of the earliest valid reservation."""
        while self._starts:
            start, job_id = self._starts[0]
            slot = self.reservations.get(job_id)
            if slot is not None and slot.start == start:
                return start, job_id
            heappop(self._starts)
        return np.inf, -1

    def _pop_due(self, time: float) -> list[tuple[int, Reservation]]:
        """Remove and return the reservations that are due."""
        due = []
        start, job_id = self._next_start()
        while start <= time:
            due.append((job_id, self.reservations.pop(job_id)))
            start, job_id = self._next_start()
        return due

    def _start(
        self, due: list[tuple[int, Reservation]], observation: BatchObservation
    ) -> list[int | StartOnNodes | Start | WaitUntil] | None:
        """Start jobs; ask for a decision at the next reserved start if no running job is expected to end then.

        In the profile, jobs with a requested time of 0 may share cores with others. They start one after the other at
        the same instant: when one completes, the next one starts.
        """
        actions: list[int | StartOnNodes | Start | WaitUntil] = []
        if due:
            free = FreeNodes(observation) if isinstance(observation, NodeObservation) else _FreeCores(observation)
            for job_id, slot in due:
                action = free.start(job_id, slot)
                if action is None:
                    self.reservations[job_id] = slot
                    heappush(self._starts, (slot.start, job_id))
                    continue
                actions.append(action)
                self._note_running(job_id, slot)
            self._changes += len(actions)
        following, _ = self._next_start()
        if observation.time < following < np.inf and following not in self._ends:
            actions.append(WaitUntil(following))
        return actions or None
