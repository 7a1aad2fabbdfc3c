"""How many cores, or which, are expected to be free from now on: the one profile of all back-filling.

A profile is a step function of time. Point i says what is free from its time to that of point
i + 1; the last one lasts for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch import BatchObservation, lowest_cores

__all__ = ["AvailabilityProfile", "CoreProfile", "Slot", "expected_releases", "upcoming_releases"]

OVERRUN_PATIENCE = 60.0

"""Seconds that a job which has just passed its requested time is expected to go on."""


class Slot(NamedTuple):
    """A place in a profile: cores from ``start`` to ``end``, in seconds.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    cores : int
        How many cores.
    core_set : int
        Which cores, as a bit set; 0 where only their number counts.
    """

    start: float
    end: float
    cores: int
    core_set: int


def expected_releases(
    observation: BatchObservation,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return when the running jobs are expected to give their cores back.

    A job that has passed its requested time, which a cluster that kills no jobs allows, is
    expected to go on for as long as it has overrun, and for at least a minute.

    Parameters
    ----------
    observation : BatchObservation
        R jobs are running.

    Returns
    -------
    ends : array of float, shape (R,)
        Expected ends in seconds, ascending.
    cores, job_id : array of int, shape (R,)
        How many cores each job gives back, and which job it is.
    """
    running, time = observation.running, observation.time
    ends = running.expected_end
    if not len(ends) or ends[0] > time:
        return ends, running.requested_cores, running.job_id
    ends = np.where(ends > time, ends, time + np.maximum(time - ends, OVERRUN_PATIENCE))
    order = ends.argsort(kind="stable")
    return ends[order], running.requested_cores[order], running.job_id[order]


def upcoming_releases(observation: BatchObservation) -> Iterator[tuple[float, int]]:
    """Return the same one after the other, without the job ids: for who needs few of them.

    Parameters
    ----------
    observation : BatchObservation
        R jobs are running.

    Returns
    -------
    iterator of (float, int)
        Expected ends in seconds, ascending, and the cores that are given back.
    """
    running = observation.running
    if running.first_end > observation.time:
        return running.releases()
    ends, cores, _ = expected_releases(observation)
    return zip(ends.tolist(), cores.tolist(), strict=True)


class AvailabilityProfile:
    """The number of free cores from now on.

    Parameters
    ----------
    time : float
        Where the profile begins, in seconds.
    free : int
        Free cores at that time.
    """

    def __init__(self, time: float, free: int) -> None:
        self._times = np.empty(64)
        self._free = np.empty(64, np.int64)
        self._times[0], self._free[0] = time, free
        self._begin, self._end = 0, 1

    @classmethod
    def of_running(cls, observation: BatchObservation) -> AvailabilityProfile:
        """Return what the running jobs leave free, by their expected ends."""
        ends, cores, _ = expected_releases(observation)
        profile = cls(observation.time, observation.free_cores)
        if len(ends):
            last = np.empty(len(ends), np.bool_)  # of jobs that end together, the last one counts for all
            np.not_equal(ends[1:], ends[:-1], out=last[:-1])
            last[-1] = True
            times, free = ends[last], cores.cumsum()[last]
            profile._reallocate(len(times) + 1)
            profile._times[1 : len(times) + 1] = times
            np.add(free, observation.free_cores, out=profile._free[1 : len(times) + 1])
            profile._end = len(times) + 1
        return profile

    def _reallocate(self, length: int) -> None:
        """Get buffers for a number of points and some more, and move those that are there to their front."""
        times, free, kept = self.times, self.free, len(self)
        self._times = np.empty(length + 64)
        self._free = np.empty(length + 64, np.int64)
        self._times[:kept], self._free[:kept] = times, free
        self._begin, self._end = 0, kept

    def __len__(self) -> int:
        """Return the number of points."""
        return self._end - self._begin

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of the points in seconds, strictly ascending, shape (P,)."""
        return self._times[self._begin : self._end]

    @property
    def free(self) -> NDArray[np.int64]:
        """Free cores from each point on, shape (P,)."""
        return self._free[self._begin : self._end]

    def advance(self, time: float) -> None:
        """Let the profile begin at a later time."""
        place = self._begin + int(self.times.searchsorted(time, "right")) - 1
        if place >= self._begin:
            self._begin = place
            self._times[place] = time

    def _split(self, time: float) -> int:
        """Return the place of the point at a time, a new one if need be; the end of all points for infinity."""
        place = self._begin + int(self.times.searchsorted(time))
        if time == np.inf or (place < self._end and self._times[place] == time):
            return place
        self._insert(place, time)
        return place

    def _insert(self, place: int, time: float) -> None:
        """Insert a point at which nothing changes yet."""
        end = self._end
        self._times[place + 1 : end + 1] = self._times[place:end]
        self._free[place + 1 : end + 1] = self._free[place:end]
        self._times[place] = time
        self._free[place] = self._free[place - 1]
        self._end = end + 1

    def _make_room(self) -> None:
        """Drop the points at which nothing changes, and get larger buffers."""
        keep = self._points_to_keep()
        length = int(keep.sum())
        self._times[self._begin : self._begin + length] = self.times[keep]
        self._free[self._begin : self._begin + length] = self.free[keep]
        self._end = self._begin + length
        self._reallocate(2 * length)

    def _points_to_keep(self) -> NDArray[np.bool_]:
        free = self.free
        return np.append(True, free[1:] != free[:-1])

    def fit(self, cores: int, duration: float) -> Slot | None:
        """Find the first time from which enough cores stay free for a duration.

        Parameters
        ----------
        cores : int
            Cores wanted.
        duration : float
            For how long, in seconds.

        Returns
        -------
        Slot or None
            None if there are never enough.
        """
        times = self.times
        short = (self.free < cores).nonzero()[0]
        count = len(short)
        if not count or (short[0] and times[0] + duration <= times[short[0]]):
            start = times[0]
        elif short[-1] == count - 1 and count < len(times):  # short up to some point and never after
            start = times[count]
        else:
            gaps = (short[1:] - short[:-1] > 1).nonzero()[0]  # stretches of enough cores between points that are short
            begins = times[short[gaps] + 1]
            fitting = (begins + duration <= times[short[gaps + 1]]).nonzero()[0]
            if len(fitting):
                start = begins[fitting[0]]
            elif short[-1] + 1 < len(times):
                start = times[short[-1] + 1]
            else:
                return None
        return Slot(float(start), float(start) + duration, cores, 0)

    def agrees_with(self, observation: BatchObservation, taken: list[Slot]) -> bool:
        """Tell whether the profile begins with what is free now, but for slots that are yet to be filled.

        Parameters
        ----------
        observation : BatchObservation
            Now, where the profile begins.
        taken : list of Slot
            Slots that begin now and are taken in the profile, but whose jobs have not started.
        """
        return int(self.free[0]) + sum(slot.cores for slot in taken) == observation.free_cores

    def free_at(self, time: float) -> int:
        """Return how many cores are free at a time, in seconds, not before the profile begins."""
        return int(self.free[self.times.searchsorted(time, "right") - 1])

    def take(self, slot: Slot) -> None:
        """Occupy a slot."""
        self._change(self._points(slot), slot, -slot.cores)

    def give(self, slot: Slot) -> slice:
        """Free a slot that was taken before; return its points, for :meth:`put_back`."""
        points = self._points(slot)
        self._change(points, slot, slot.cores)
        return points

    def put_back(self, slot: Slot, points: slice) -> None:
        """Undo :meth:`give`, as long as nothing else has changed."""
        self._change(points, slot, -slot.cores)

    def _points(self, slot: Slot) -> slice:
        """Return the positions of a slot's points, which are inserted where they are missing."""
        if not slot.start < slot.end:
            return slice(0)
        if self._end + 2 > len(self._times):
            self._make_room()
        first = self._split(slot.start)
        last = self._split(slot.end)
        return slice(first - self._begin, last - self._begin)

    def _change(self, points: slice, slot: Slot, cores: int) -> None:
        """Change the free cores at the points of a slot."""
        self.free[points] += cores


class CoreProfile(AvailabilityProfile):
    """The sets of free cores from now on.

    A job fits where the intersection of the free sets over its whole requested time is large
    enough, and takes the lowest cores of that: so do the reference schedulers of Batsim.

    Parameters
    ----------
    time : float
        Where the profile begins, in seconds.
    core_set : int
        Free cores at that time, as a bit set.
    """

    def __init__(self, time: float, core_set: int) -> None:
        super().__init__(time, core_set.bit_count())
        self._sets = [core_set]

    @classmethod
    def of_running(cls, observation: BatchObservation) -> CoreProfile:
        """Return what the running jobs leave free, by their expected ends."""
        profile = cls(observation.time, observation.free_core_set)
        ends, _, job_ids = expected_releases(observation)
        for end, job_id in zip(ends.tolist(), job_ids.tolist(), strict=True):
            cores = observation.core_set_of(job_id)
            profile.give(Slot(end, np.inf, cores.bit_count(), cores))
        return profile

    def advance(self, time: float) -> None:
        """Let the profile begin at a later time."""
        before = self._begin
        super().advance(time)
        del self._sets[: self._begin - before]

    def _insert(self, place: int, time: float) -> None:
        super()._insert(place, time)
        position = place - self._begin
        self._sets.insert(position, self._sets[position - 1])

    def _points_to_keep(self) -> NDArray[np.bool_]:
        keep = [True, *(a != b for a, b in zip(self._sets[1:], self._sets, strict=False))]
        self._sets = [cores for cores, kept in zip(self._sets, keep, strict=True) if kept]
        return np.array(keep)

    def _change(self, points: slice, slot: Slot, cores: int) -> None:
        super()._change(points, slot, cores)
        self._sets[points] = [core_set ^ slot.core_set for core_set in self._sets[points]]

    def agrees_with(self, observation: BatchObservation, taken: list[Slot]) -> bool:
        """Tell whether the profile begins with the cores that are free now, but for slots that are yet to be filled."""
        free = self._sets[0]
        for slot in taken:
            free |= slot.core_set
        return free == observation.free_core_set

    def fit(self, cores: int, duration: float) -> Slot | None:
        """Find the first point from which enough cores stay free together for a duration."""
        times, sets = self.times.tolist(), self._sets
        for position in np.flatnonzero(self.free >= cores).tolist():
            end = times[position] + duration
            common = sets[position]
            for later in range(position + 1, len(times)):
                if times[later] >= end:
                    break
                common &= sets[later]
                if common.bit_count() < cores:
                    break
            if common.bit_count() >= cores:
                return Slot(times[position], end, cores, lowest_cores(common, cores))
        return None
