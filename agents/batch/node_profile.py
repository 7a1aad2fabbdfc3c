"""What is expected to be free on the nodes of a cluster from now on: the profile of conservative back-filling there."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple, Self

import numpy as np

from desim.agents.batch.profile import AvailabilityProfile, expected_releases
from desim.problems.batch import Held, NodeObservation, Place, Room, Shape
from desim.problems.batch.placement import PlacementPolicy

__all__ = ["FreeNodes", "NodeProfile", "NodeSlot"]


class NodeSlot(NamedTuple):
    """A place in a profile: what a job holds of nodes from ``start`` to ``end``, in seconds.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    held : tuple of Held
        What of which nodes.
    shape : Shape or None
        What the job requests; None of a job that runs already.
    """

    start: float
    end: float
    held: tuple[Held, ...]
    shape: Shape | None


class NodeProfile(AvailabilityProfile):
    """What is free on nodes from now on: :class:`AvailabilityProfile` with a :class:`Room` at each point.

    Parameters
    ----------
    time : float
        Where the profile begins, in seconds.
    free : Room
        What is free at that time; it is copied.
    policy : PlacementPolicy
        Says which nodes a job gets, of those that have room for its whole requested time.
    """

    free: list[Room]  # type: ignore[assignment]  # of rooms, not of numbers

    def __init__(self, time: float, free: Room, policy: PlacementPolicy) -> None:
        super().__init__(time, 0)
        self.free = [free.copy()]
        self.policy = policy

    @classmethod
    def of_running(cls, observation: Any) -> Self:
        """Return what the running jobs leave free, by their expected ends."""
        profile = cls(observation.time, observation.room, observation.policy)
        ends, _, job_ids = expected_releases(observation)
        for end, job_id in zip(ends.tolist(), job_ids.tolist(), strict=True):
            profile._hold(end, np.inf, observation.held_by(job_id), taken=False)
        return profile

    def fit(self, wanted: Any, duration: float) -> Any:
        """Find the first time from which nodes have room for a duration.

        Parameters
        ----------
        wanted : Shape
            What is requested.
        duration : float
            For how long, in seconds.

        Returns
        -------
        NodeSlot or None
            None if they never have.
        """
        return self._first(wanted, duration, len(self.times))

    def fit_again(self, slot: Any, duration: float) -> Any:
        """Find the first slot for a job that holds one, as if it held none.

        Parameters
        ----------
        slot : NodeSlot
            What the job holds: the first that there was when it was taken.
        duration : float
            For how long the job wants its nodes, in seconds.

        Returns
        -------
        NodeSlot
            The very same if there is none before.
        """
        if slot.start == slot.end:  # it holds nothing, so that others may be in its place
            return self.fit(slot.shape, duration) or slot
        if self.times[0] >= min(slot.start, self._freed_until):
            return slot
        self._hold(slot.start, slot.end, slot.held, taken=False)
        stop = bisect_left(self.times, min(slot.start, self._freed_until))  # an earlier one uses what was freed since
        earlier = self._first(slot.shape, duration, stop)
        self._hold(slot.start, slot.end, slot.held, taken=True)
        return earlier or slot

    def _first(self, shape: Shape, duration: float, stop: int) -> NodeSlot | None:
        """Return the first slot that begins at one of the points before a number."""
        times, free = self.times, self.free
        for place in range(stop):
            common = free[place]
            end = times[place] + duration
            following = place + 1
            while common.fits(shape):
                if following == len(times) or times[following] >= end:
                    held = common.place(shape, self.policy)
                    assert held is not None  # as it fits
                    return NodeSlot(times[place], end, held, shape)
                common = common.least_of(free[following])
                following += 1
        return None

    def agrees_with(self, observation: Any, taken: list[Any]) -> bool:
        """Tell whether the profile begins with what is free now, but for slots that are yet to be filled.

        Parameters
        ----------
        observation : NodeObservation
            Now, where the profile begins.
        taken : list of NodeSlot
            Slots that begin now and are taken in the profile, but whose jobs have not started.
        """
        room = self.free[0]
        if taken:
            room = room.copy()
            for slot in taken:
                room.give_back(slot.held)
        return _are_equal(room, observation.room)

    def take(self, slot: Any) -> None:
        """Occupy a slot."""
        self._hold(slot.start, slot.end, slot.held, taken=True)

    def give(self, slot: Any) -> None:
        """Free a slot that was taken before."""
        self._hold(slot.start, slot.end, slot.held, taken=False)
        self._freed_until = max(self._freed_until, slot.end)
        self._freed_next = max(self._freed_next, slot.end)

    def _hold(self, start: float, end: float, held: tuple[Held, ...], *, taken: bool) -> None:
        """Take what is held in an interval, or give it back, and keep no point at which nothing changes."""
        if not start < end:
            return
        times, free = self.times, self.free
        first = self._point(start, 0)
        last = self._point(end, first) if end < np.inf else len(times)
        for room in free[first:last]:
            (room.take if taken else room.give_back)(held)
        for place in (last, first):
            if 0 < place < len(free) and _are_equal(free[place], free[place - 1]):
                del times[place], free[place]

    def _point(self, time: float, low: int) -> int:
        """Return the number of the point at a time, which is made if there is none."""
        place = bisect_left(self.times, time, low)
        if place == len(self.times) or self.times[place] != time:
            self.times.insert(place, time)
            self.free.insert(place, self.free[place - 1].copy())
        return place


class FreeNodes:
    """What is free while jobs are started whose time has come.

    Parameters
    ----------
    observation : NodeObservation
        The moment.
    """

    def __init__(self, observation: NodeObservation) -> None:
        self.room = observation.room.copy()

    def start(self, job_id: int, slot: Any) -> Place | None:
        """Return the action that starts a job in its slot; None if it is not free."""
        if self.room.fault(slot.shape, slot.held):
            return None
        self.room.take(slot.held)
        return Place(job_id, slot.held)


def _are_equal(one: Room, other: Room) -> bool:
    return (
        np.array_equal(one.free, other.free)
        and np.array_equal(one.gpus, other.gpus)
        and np.array_equal(one.jobs, other.jobs)
    )
