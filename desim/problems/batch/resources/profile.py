"""Availability profiles: the number or set of cores expected to be free over time.

A profile is a step function of time. The value of point i holds from its time to the time of point i + 1; the last
value holds forever.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import add, xor
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from desim.problems.batch.cores import lowest_cores

if TYPE_CHECKING:
    from desim.problems.batch.observation import BatchObservation

__all__ = ["AvailabilityProfile", "CoreProfile", "Reservation"]


class Reservation(NamedTuple):
    """A reservation of cores in a profile, from ``start`` to ``end`` in seconds.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    cores : int
        Number of cores.
    core_set : int
        Particular cores as a bit set; 0 if only their number matters.
    """

    start: float
    end: float
    cores: int
    core_set: int

    @property
    def place(self) -> int | None:
        """Particular cores as a bit set; None if only their number matters."""
        return self.core_set or None


class AvailabilityProfile:
    """The number of free cores from now on.

    Times and values are plain lists. Most queries read a few points near the beginning and most changes affect a few
    points, for which lists are faster than arrays up to about a thousand points.

    Parameters
    ----------
    time : float
        Beginning of the profile in seconds.
    free : int
        Number of free cores at that time (a bit set in :class:`CoreProfile`).

    Attributes
    ----------
    times : list of float
        Times of the points in seconds, strictly increasing.
    free : list of int
        Free cores from each point on; adjacent values differ.
    running : dict of int to Reservation
        Slots of the running jobs by job id, as of the creation of the profile; its owner may keep them up to date.
    """

    _add = staticmethod(add)
    _state: tuple[Any, int] = 0, 0

    def __init__(self, time: float, free: int) -> None:
        self.times = [time]
        self.free = [free]
        self.running: dict[int, Any] = {}
        self._freed_until = -np.inf  # nothing was freed after this time since the previous round began
        self._freed_next = -np.inf  # the same for the next round
        self._bounds: AvailabilityProfile | None = None  # what advance reservations leave, if jobs may run longer

    @classmethod
    def of_latest(cls, observation: BatchObservation) -> Self:
        """Return the profile of running jobs, by their requested ends, and of advance reservations."""
        profile = cls._of_free(observation)
        for end, cores, row in observation.latest_ends():
            profile._release_at(end, cls._slot_of(observation, row, cores, end))
        profile._add_reservations(observation)
        return profile

    @classmethod
    def of_running(cls, observation: BatchObservation) -> Self:
        """Return the profile of running jobs, by their expected ends, and of advance reservations."""
        profile = cls._of_free(observation)
        profile._state = cls._state_of(observation)
        for end, cores, row in observation.running.releases():
            slot = profile.running[row] = cls._slot_of(observation, row, cores, end)
            profile._release_at(end, slot)
        profile._add_reservations(observation)
        return profile

    @classmethod
    def _of_free(cls, observation: BatchObservation) -> Self:
        """Return the profile of what is free now."""
        return cls(observation.time, observation.free_cores)

    @classmethod
    def _slot_of(cls, observation: BatchObservation, row: int, cores: int, end: float) -> Any:
        """Return the slot of a running job, from now to its expected end."""
        return Reservation(observation.time, end, cores, 0)

    @staticmethod
    def _state_of(observation: BatchObservation) -> tuple[Any, int]:
        """Return what is down, and how often preemption has changed the running jobs."""
        return observation.down_cores, observation.preemptions

    def _release_at(self, end: float, slot: Any) -> None:
        """Free what a running job holds when it ends."""
        self._change(end, np.inf, slot.cores)

    def _add_reservations(self, observation: BatchObservation) -> None:
        if observation.predicts and observation.reservations:
            self._bounds = AvailabilityProfile(observation.time, observation.num_cores - observation.down_cores)
            self._bounds._reserve(observation)
        self._reserve(observation)

    def _reserve(self, observation: BatchObservation) -> None:
        for reservation in observation.reservations:
            if reservation.start > observation.time:
                self._change(reservation.start, reservation.end, -reservation.cores)
            else:  # active: its cores are already down
                self._change(reservation.end, np.inf, reservation.cores)

    def is_outdated(self, observation: BatchObservation) -> bool:
        """Return whether cores have failed or been repaired, or jobs been preempted, since the profile was created.

        Parameters
        ----------
        observation : BatchObservation
            Observation of the current decision.
        """
        return self._state != self._state_of(observation)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.times)

    def advance(self, time: float) -> None:
        """Move the beginning of the profile to a later time."""
        times = self.times
        if len(times) > 1 and times[1] <= time:
            self._drop(bisect_right(times, time) - 1)
        times[0] = max(times[0], time)

    def _drop(self, count: int) -> None:
        """Drop the first points."""
        del self.times[:count], self.free[:count]

    def fit(self, cores: int, duration: float, longest: float = 0.0) -> Reservation | None:
        """Return the earliest slot with enough free cores for a duration.

        Parameters
        ----------
        cores : int
            Number of cores.
        duration : float
            Duration in seconds.
        longest : float
            Seconds for which advance reservations must leave enough cores, if run times are predicted.

        Returns
        -------
        Reservation or None
            The slot; None if there are never enough cores.
        """
        start = self._earliest(cores, duration, np.inf, np.inf, longest)
        return Reservation(start, start + duration, cores, 0) if start < np.inf else None

    def compress(
        self, slots: Sequence[Any], durations: Sequence[float], longest: Sequence[float]
    ) -> Iterator[tuple[int, Any]]:
        """Move each slot, in order, to the earliest one that its job could have beside all others; yield those moved.

        A slot was the earliest when it was taken or in the last round. So an earlier one must use cores that were
        freed since, by the end of a job or by another job that moved.

        Parameters
        ----------
        slots : sequence of Reservation
            Slots of queued jobs, all of them taken.
        durations : sequence of float
            Seconds for which each job is expected to hold its cores.
        longest : sequence of float
            As for :meth:`fit`.

        Yields
        ------
        (int, Reservation)
            Position of a slot that was moved, and the new one.
        """
        self._freed_until, self._freed_next = self._freed_next, -np.inf
        for place, (slot, duration, most) in enumerate(zip(slots, durations, longest, strict=True)):
            better = self._best(slot, duration, most)
            if better is not slot:
                self.give(slot)
                self.take(better)
                yield place, better

    def _best(self, slot: Reservation, duration: float, longest: float) -> Reservation:
        """Return the earliest slot for a job as if it had none; the same object if it is not earlier."""
        if slot.start == slot.end:  # an empty slot holds no cores, so others may have been placed over it
            return self.fit(slot.cores, duration, longest) or slot
        start = self._earliest(slot.cores, duration, slot.start, self._freed_until, longest)
        return Reservation(start, start + duration, slot.cores, 0) if start < slot.start else slot

    def has_until(self, end: float, cores: int) -> bool:
        """Return whether enough cores stay free from the beginning of the profile until a given time.

        Parameters
        ----------
        end : float
            End of the interval in seconds.
        cores : int
            Number of cores.
        """
        points = zip(self.times, self.free, strict=True)
        return self.free[0] >= cores and all(free >= cores for time, free in points if time < end)

    def _earliest(self, cores: int, duration: float, before: float, freed_until: float, longest: float) -> float:
        """Return the earliest time from which enough cores stay free for a duration, or until the time ``before``.

        Return ``before`` if there is none, or if it would not lie before the end of what was freed.
        """
        times, free = self.times, self.free
        place, stop = 0, bisect_left(times, before)
        last = stop if freed_until >= before else bisect_left(times, freed_until, 0, stop)
        while place < last:
            if free[place] < cores:
                place += 1
                continue
            start = times[place]
            end = start + duration
            place += 1
            while place < stop and times[place] < end:
                if free[place] < cores:
                    break
                place += 1
            else:
                if self._bounds is None or self._bounds._has(start, start + longest, cores):
                    return start
                place = bisect_right(times, start)
        return before

    def _has(self, start: float, end: float, cores: int) -> bool:
        """Return whether enough cores are free in an interval, at least at its start."""
        first = max(bisect_right(self.times, start) - 1, 0)
        last = max(bisect_left(self.times, end), first + 1)
        return min(self.free[first:last]) >= cores

    def agrees_with(self, observation: BatchObservation, taken: list[Reservation]) -> bool:
        """Return whether the profile begins with the cores that are free now, apart from slots yet to be filled.

        Parameters
        ----------
        observation : BatchObservation
            Observation at the beginning of the profile.
        taken : list of Reservation
            Slots that begin now and are occupied in the profile although their jobs have not started.
        """
        return self.free[0] + sum(slot.cores for slot in taken) == observation.free_cores

    def take(self, slot: Any) -> None:
        """Occupy a slot."""
        self._change(slot.start, slot.end, -slot.cores)

    def give(self, slot: Any) -> None:
        """Free a slot that was occupied before."""
        self._untake(slot)
        self._note_freed(slot)

    def extend(self, longer: list[Any], slots: list[Any]) -> list[bool]:
        """Occupy more for running jobs that continue, and return which slots fit beside them.

        Parameters
        ----------
        longer : list of Slot
            What the running jobs occupy in addition.
        slots : list of Slot
            All occupied slots that overlap these, most important ones first. A slot that does not fit beside
            the running jobs and the slots before it is freed.

        Returns
        -------
        list of bool
            Whether each slot is still occupied.
        """
        for slot in slots:
            self._untake(slot)
        for slot in longer:
            self.take(slot)
        fits = []
        for slot in slots:
            fits.append(self._has_slot(slot))
            if fits[-1]:
                self.take(slot)
            else:
                self._note_freed(slot)
        return fits

    def _untake(self, slot: Any) -> None:
        """Free a slot, although it may be taken again."""
        self._change(slot.start, slot.end, slot.cores)

    def _note_freed(self, slot: Any) -> None:
        """Note until when resources were freed, for :meth:`compress`."""
        self._freed_until = max(self._freed_until, slot.end)
        self._freed_next = max(self._freed_next, slot.end)

    def _has_slot(self, slot: Any) -> bool:
        """Return whether what a slot holds is free."""
        return self._has(slot.start, slot.end, slot.cores)

    def _change(self, start: float, end: float, change: int) -> None:
        """Change the free cores in an interval, and remove points at which nothing changes."""
        if not start < end:
            return
        times, free = self.times, self.free
        first = bisect_left(times, start)
        if first == len(times) or times[first] != start:
            times.insert(first, start)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end, first)
        if end < np.inf and (last == len(times) or times[last] != end):
            times.insert(last, end)
            free.insert(last, free[last - 1])
        free[first:last] = map(self._add, free[first:last], repeat(change))
        for place in (last, first):
            if 0 < place < len(free) and free[place] == free[place - 1]:
                del times[place], free[place]


class CoreProfile(AvailabilityProfile):
    """The sets of free cores from now on, as bit sets.

    A job fits if the intersection of the free sets over its whole requested time has enough cores; it takes the lowest
    of them, as in Batsim's reference schedulers.
    """

    _add = staticmethod(xor)

    @classmethod
    def _of_free(cls, observation: BatchObservation) -> Self:
        return cls(observation.time, observation.free_core_set)

    @classmethod
    def _slot_of(cls, observation: BatchObservation, row: int, cores: int, end: float) -> Reservation:
        return Reservation(observation.time, end, cores, observation.core_set_of(row))

    def _release_at(self, end: float, slot: Any) -> None:
        self._change(end, np.inf, slot.core_set)

    def _add_reservations(self, observation: BatchObservation) -> None:
        """Ignore advance reservations, which choose their cores only when they begin."""

    def agrees_with(self, observation: BatchObservation, taken: list[Reservation]) -> bool:
        """Return whether the profile begins with the cores that are free now, apart from slots yet to be filled."""
        free = self.free[0]
        for slot in taken:
            free |= slot.core_set
        return free == observation.free_core_set

    def take(self, slot: Any) -> None:
        """Occupy a slot."""
        self._change(slot.start, slot.end, slot.core_set)

    _untake = take

    def _has_slot(self, slot: Any) -> bool:
        """Return whether what a slot holds is free."""
        first, last = bisect_right(self.times, slot.start) - 1, bisect_left(self.times, slot.end)
        return all(not slot.core_set & ~free for free in self.free[first:last])

    def fit(self, cores: int, duration: float, longest: float = 0.0) -> Reservation | None:
        """Return the earliest slot in which enough cores, always the same ones, stay free for a duration."""
        for place, start in enumerate(self.times):
            slot = self._slot(place, start, cores, duration, None)
            if slot is not None:
                return slot
        return None

    def _best(self, slot: Reservation, duration: float, longest: float) -> Reservation:
        """Return the earliest slot for a job as if it had none; it may start as before on lower cores."""
        since, _, cores, _ = slot
        if slot.start == slot.end:
            return self.fit(cores, duration) or slot
        for place in range(bisect_left(self.times, since)):
            if self.free[place].bit_count() >= cores:
                earlier = self._slot(place, self.times[place], cores, duration, slot)
                if earlier is not None:
                    return earlier
        found = self._slot(bisect_right(self.times, since) - 1, since, cores, duration, slot)
        return slot if found is None or found == slot else found

    def _slot(
        self, place: int, start: float, cores: int, duration: float, held: Reservation | None
    ) -> Reservation | None:
        """Return the slot that starts at a given point; None if it does not fit. The job's own cores count as free."""
        times, free = self.times, self.free
        end = start + duration
        since, own = (np.inf, 0) if held is None else (held.start, held.core_set)
        common = free[place] | own if start >= since else free[place]
        while common.bit_count() >= cores:
            place += 1
            if place == len(times) or times[place] >= end:
                return Reservation(start, end, cores, lowest_cores(common, cores))
            common &= free[place] | own if times[place] >= since else free[place]
        return None
