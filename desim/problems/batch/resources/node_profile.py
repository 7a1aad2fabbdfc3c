"""Availability profiles of nodes: the resources expected to be free over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.nodes import GPU, CompiledRequest, NodeAllocation
from desim.problems.batch.placement import PlacementPolicy
from desim.problems.batch.resources.node_availability import NodeAvailability
from desim.problems.batch.resources.profile import AvailabilityProfile

__all__ = ["NodeProfile", "NodeSlot"]

IntArray = NDArray[np.int64]
Stretches = list[tuple[float, float]]
Line = list[tuple[float, list[int], int, int, int]]

FEW = 16
"""Up to this number, checking nodes one by one is faster than array operations on all nodes."""


class NodeSlot(NamedTuple):
    """A reservation in a profile: the resources that a job holds from ``start`` to ``end``, in seconds.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    held : tuple of NodeAllocation
        Allocated resources, per node.
    shape : CompiledRequest or None
        Compiled request of the job; None for a running job.
    """

    start: float
    end: float
    held: tuple[NodeAllocation, ...]
    shape: CompiledRequest | None

    @property
    def place(self) -> tuple[NodeAllocation, ...]:
        """Allocated resources, per node."""
        return self.held


class NodeProfile(AvailabilityProfile):
    """Free resources of all nodes from now on: an :class:`AvailabilityProfile` with one entry per node and resource.

    Points are rows of arrays in arbitrary order. So points are added and removed without moving others, and many points
    are read by one array operation.

    Parameters
    ----------
    time : float
        Beginning of the profile in seconds.
    free : NodeAvailability
        Free resources at that time; copied.
    policy : PlacementPolicy
        Policy that chooses a job's nodes among those that are free for its whole requested time.
    """

    def __init__(self, time: float, free: NodeAvailability, policy: PlacementPolicy) -> None:
        self.times = [time]
        self.running: dict[int, Any] = {}
        self.table, self.policy, self.down = free.table, policy, free.down.copy()
        self._rows = [0]  # row of each point, in order of time
        self._spare: list[int] = []
        self._amounts: IntArray = free.free.T[:, None, :].copy()  # by resource, row and node
        self._jobs: IntArray = free.jobs[None].copy()
        self._gpus: IntArray = free.gpus[None].copy()
        self._has_gpus = bool(self.table.num_gpus)
        self._kept: set[float] = set()  # boundaries of advance reservations: points that are never removed
        self._freed: dict[int, float] = {}  # by node: until when resources were freed since the previous round began
        self._freed_later: dict[int, float] = {}  # the same for the next round
        self._lines: dict[int, Line] = {}  # by node: cached since the node last changed
        self._stretches: dict[int, dict[CompiledRequest, Stretches]] = {}  # by node: when a task fits, cached likewise

    @classmethod
    def _of_free(cls, observation: Any) -> Self:
        return cls(observation.time, observation.nodes.room, observation.nodes.policy)

    @classmethod
    def _slot_of(cls, observation: Any, row: int, cores: int, end: float) -> NodeSlot:
        return NodeSlot(observation.time, end, observation.nodes.allocation_of(row), None)

    @staticmethod
    def _state_of(observation: Any) -> tuple[Any, int]:
        """Return which nodes have failed, without those that are down for advance reservations; see the base class."""
        return observation.nodes.room.down.tobytes(), observation.preemptions

    def _release_at(self, end: float, slot: Any) -> None:
        self._hold(end, np.inf, slot.held, taken=False)

    def _add_reservations(self, observation: Any) -> None:
        """Add the bounds of advance reservations; :meth:`_counts` takes their nodes into account."""
        for reservation in observation.reservations:
            for time in (reservation.start, reservation.end):
                if time > observation.time:
                    self._point(time, 0)
                    self._kept.add(time)

    def _drop(self, count: int) -> None:
        self._spare += self._rows[:count]
        del self.times[:count], self._rows[:count]

    def fit(self, wanted: Any, duration: float, longest: float = 0.0) -> Any:
        """Return the earliest slot on nodes with enough free resources for a duration.

        Parameters
        ----------
        wanted : CompiledRequest
            Compiled request.
        duration : float
            Duration in seconds.
        longest : float
            Seconds for which the nodes must have no advance reservation, if longer.

        Returns
        -------
        NodeSlot or None
            The slot; None if it never fits.
        """
        return self._first(wanted, duration, longest, len(self.times))

    def begin_compression(self) -> None:
        """Begin a round of compression, in which :meth:`compress` is called once for each job with a slot."""
        self._freed, self._freed_later = self._freed_later, {}
        self._lines, self._stretches = {}, {}

    def compress(self, slot: Any, duration: float, longest: float = 0.0) -> Any:
        """Return the earliest slot for a job that has a slot, as if it had none.

        The slot was the earliest when it was taken or in the last round. So an earlier one must have a task on a node
        with resources freed since, and must begin before the end of what was freed. If there is no such node, the slot
        need not be removed to search all nodes.

        Parameters
        ----------
        slot : NodeSlot
            Slot of the job, the earliest at the time it was taken.
        duration : float
            Duration in seconds for which the job is expected to hold its nodes.
        longest : float
            As for :meth:`fit`.

        Returns
        -------
        NodeSlot
            The same object if there is no earlier slot.
        """
        if slot.start == slot.end:  # an empty slot holds nothing, so others may have been placed over it
            return self.fit(slot.shape, duration, longest) or slot
        span = self._span(slot, duration)
        if span is None:
            return slot
        self._hold(slot.start, slot.end, slot.held, taken=False)
        first, stop = (bisect_left(self.times, time) for time in span)
        earlier = self._first(slot.shape, duration, longest, stop, first)
        self._hold(slot.start, slot.end, slot.held, taken=True)
        return earlier or slot

    def _span(self, slot: NodeSlot, duration: float) -> tuple[float, float] | None:
        """Return the interval in which an earlier slot would begin; None if there is certainly none."""
        assert slot.shape is not None
        now, shape = self.times[0], slot.shape
        if len(self._freed) > FEW:
            return self._span_of_fitting(slot, duration, now, min(slot.start, max(self._freed.values())))
        first, before, own = np.inf, now, {held.node for held in slot.held}
        for node, until in self._freed.items():
            last = min(until, slot.start)
            if last <= now:
                continue
            known = self._stretches.setdefault(node, {})
            stretches = known.get(shape)
            if stretches is None:
                stretches = known[shape] = self._stretches_of(node, shape)
            covered = slot.start if node in own else np.inf  # from then on, the job fits by its own resources
            for begin, end in stretches:
                if begin >= last:
                    break
                if end >= min(begin + duration, covered):
                    first, before = min(first, begin), max(before, min(end, last))
        if shape.tasks > 1:
            return self._span_of_fitting(slot, duration, first, before)
        return (first, before) if first < before else None

    def _span_of_fitting(
        self, slot: NodeSlot, duration: float, first: float, before: float
    ) -> tuple[float, float] | None:
        """Return the same interval by examining all nodes up to the slot's start, where the job fits anyway."""
        begin, end, limit = (bisect_left(self.times, time) for time in (first, before, slot.start))
        fitting = self._fitting(slot.shape, duration, begin, end, limit) if begin < end else []  # type: ignore[arg-type]
        return (self.times[fitting[0][0]], before) if fitting else None

    def _stretches_of(self, node: int, shape: CompiledRequest) -> Stretches:
        """Return the intervals in which a task fits on a node, ignoring advance reservations."""
        if not shape.eligible[node] or self.down[node]:
            return []
        line = self._lines.get(node)
        if line is None:
            line = self._lines[node] = self._line_of(node)
        found: Stretches = []
        begin = np.inf
        for time, amounts, jobs, whole, largest in line:
            takes = (
                all(amounts[column] >= amount for column, amount in shape.needed)
                and whole >= shape.gpus
                and largest >= shape.share
                and not (shape.exclusive and jobs)
            )
            if takes and begin == np.inf:
                begin = time
            elif not takes and begin < np.inf:
                found.append((begin, time))
                begin = np.inf
        return found if begin == np.inf else [*found, (begin, np.inf)]

    def _line_of(self, node: int) -> Line:
        """Return the free resources of a node over time: amounts, jobs, whole GPUs, and largest share of one GPU."""
        rows = self._rows
        amounts, jobs = self._amounts[:, rows, node].T, self._jobs[rows, node]
        changes = (amounts[1:] != amounts[:-1]).any(axis=1) | (jobs[1:] != jobs[:-1])
        whole = largest = np.zeros(len(rows), np.int64)
        if self._has_gpus:
            gpus = self._gpus[rows, node]
            whole, largest = (gpus == GPU).sum(axis=1), gpus.max(axis=1)
            changes |= (gpus[1:] != gpus[:-1]).any(axis=1)
        places = [0, *(changes.nonzero()[0] + 1).tolist()]
        columns = (array[places].tolist() for array in (amounts, jobs, whole, largest))
        return list(zip([self.times[place] for place in places], *columns, strict=True))

    def _counts(self, shape: CompiledRequest, begin: int, end: int) -> NDArray[Any]:
        """Return how many of its tasks each node could take at each of some points, shape (n, N).

        With GPUs, several points together may admit fewer tasks than their minimum, because the free GPUs may differ.
        """
        rows = self._rows[begin:end]
        single = shape.tasks == 1
        kind = np.bool_ if single else np.uint8 if shape.tasks < 256 else np.int64
        counts: NDArray[Any] | None = None
        for column, amount in shape.needed:
            free = self._amounts[column, rows]
            of_this = free >= amount if single else np.minimum(free // amount, shape.tasks).astype(kind)
            counts = of_this if counts is None else np.minimum(counts, of_this)
        assert counts is not None  # every task requests a core
        if shape.gpus or shape.share:
            gpus = self._gpus[rows]
            tasks = (gpus == GPU).sum(axis=2) // shape.gpus if shape.gpus else (gpus // shape.share).sum(axis=2)
            counts = np.minimum(counts, np.minimum(tasks, shape.tasks).astype(kind))
        if shape.most < shape.tasks:
            counts = np.minimum(counts, np.array(shape.most, kind))
        usable = shape.eligible & ~self.down
        if shape.exclusive:
            usable = usable & (self._jobs[rows] == 0)
        counts = counts & usable if single else counts * usable
        if self._kept:
            for number, reservation in enumerate(self.table.reservations):
                if number not in shape.passes:
                    first, last = (
                        bisect_left(self.times, time, begin, end) for time in (reservation.start, reservation.end)
                    )
                    counts[first - begin : last - begin, self.table.nodes_of(number)] = 0
        return counts

    def _first(
        self, shape: CompiledRequest, duration: float, longest: float, stop: int, begin: int = 0
    ) -> NodeSlot | None:
        """Return the earliest slot that begins at a point from number ``begin`` to ``stop`` - 1; None if there is none.

        Points are examined in blocks that double in size.
        """
        width = 8
        while begin < stop:
            end = min(begin + width, stop)
            place = self._first_of(shape, duration, longest, begin, end)
            if place is not None:
                return place
            begin, width = end, 2 * width
        return None

    def _first_of(
        self, shape: CompiledRequest, duration: float, longest: float, begin: int, end: int
    ) -> NodeSlot | None:
        """Return the earliest slot that begins at one of some points; None if there is none."""
        for first, stop in self._fitting(shape, duration, begin, end, len(self.times)):
            slot_end = self.times[first] + duration
            room = self._room(first, stop)
            room.closed = self.table.closed_between(self.times[first], max(slot_end, self.times[first] + longest))
            held = room.place(shape, self.policy)
            if held is not None:  # otherwise the free GPUs differ between points
                return NodeSlot(self.times[first], slot_end, held, shape)
        return None

    def _fitting(
        self, shape: CompiledRequest, duration: float, begin: int, end: int, limit: int
    ) -> list[tuple[int, int]]:
        """Return (first, stop) for each of some points at which a job may begin; it spans points first to stop - 1.

        Points from ``limit`` on are not taken into account.
        """
        counts = self._counts(shape, begin, end)
        starts = np.flatnonzero(counts.sum(axis=1, dtype=np.int64) >= shape.tasks)
        if not len(starts):
            return []
        times, places = self.times, (starts + begin).tolist()
        stops = [max(bisect_left(times, times[place] + duration, place, limit), place + 1) for place in places]
        if stops[-1] > end:
            counts = np.concatenate((counts, self._counts(shape, end, stops[-1])))
        least = _least_of(counts, starts, np.array(stops) - begin)
        fits = least.sum(axis=1, dtype=np.int64) >= shape.tasks
        return [pair for pair, fit in zip(zip(places, stops, strict=True), fits.tolist(), strict=True) if fit]

    def _room(self, begin: int, end: int) -> NodeAvailability:
        """Return the resources that are free at all of some points."""
        rows = self._rows[begin:end]
        free = self._amounts[:, rows].min(axis=1).T
        gpus = self._gpus[rows].min(axis=0) if self._has_gpus else self.table.gpus
        return NodeAvailability.of(self.table, free, gpus, self._jobs[rows].max(axis=0), self.down)

    def agrees_with(self, observation: Any, taken: list[Any]) -> bool:
        """Return whether the profile begins with the resources that are free now, apart from slots yet to be filled.

        Parameters
        ----------
        observation : BatchObservation
            Observation at the beginning of the profile.
        taken : list of NodeSlot
            Slots that begin now and are occupied in the profile although their jobs have not started.
        """
        room, row = observation.nodes.room, self._rows[0]
        if taken:
            room = room.copy()
            for slot in taken:
                room.take(slot.held)
        return (
            np.array_equal(self._amounts[:, row], room.free.T)
            and np.array_equal(self._jobs[row], room.jobs)
            and (not self._has_gpus or np.array_equal(self._gpus[row], room.gpus))
        )

    def take(self, slot: Any) -> None:
        """Occupy a slot."""
        self._hold(slot.start, slot.end, slot.held, taken=True)

    def _untake(self, slot: Any) -> None:
        """Free a slot, although it may be taken again."""
        self._hold(slot.start, slot.end, slot.held, taken=False)

    def _has_slot(self, slot: Any) -> bool:
        """Return whether what a slot holds is free."""
        rows = self._rows[bisect_right(self.times, slot.start) - 1 : bisect_left(self.times, slot.end)]
        for one in slot.held:
            if (one.amounts > self._amounts[:, rows, one.node].T).any():
                return False
            if any((self._gpus[rows, one.node, gpu] < share).any() for gpu, share in one.gpus):
                return False
        return True

    def _note_freed(self, slot: Any) -> None:
        """Note until when each node was freed, for :meth:`compress`."""
        for held in slot.held:
            for freed in (self._freed, self._freed_later):
                freed[held.node] = max(freed.get(held.node, -np.inf), slot.end)

    def _hold(self, start: float, end: float, held: Sequence[NodeAllocation], *, taken: bool) -> None:
        """Take or release an allocation in an interval, and remove points at which nothing changes."""
        if not start < end:
            return
        times = self.times
        first = self._point(start, 0)
        last = self._point(end, first) if end < np.inf else len(times)
        rows, sign = np.array(self._rows[first:last]), -1 if taken else 1
        nodes = [one.node for one in held]
        self._amounts[:, rows[:, None], nodes] += sign * np.array([one.amounts for one in held]).T[:, None]
        self._jobs[rows[:, None], nodes] -= sign
        for one in held:
            for gpu, share in one.gpus:
                self._gpus[rows, one.node, gpu] += sign * share
        for node in nodes:
            if self._lines.pop(node, None) is not None:
                del self._stretches[node]
        for place in (last, first):
            if 0 < place < len(times) and times[place] not in self._kept and self._changes_nothing(place, nodes[0]):
                self._spare.append(self._rows[place])
                del times[place], self._rows[place]

    def _point(self, time: float, low: int) -> int:
        """Return the number of the point at a given time; insert the point if it is missing."""
        place = bisect_left(self.times, time, low)
        if place == len(self.times) or self.times[place] != time:
            if not self._spare:
                self._grow()
            row, before = self._spare.pop(), self._rows[place - 1]
            self._amounts[:, row] = self._amounts[:, before]
            self._jobs[row] = self._jobs[before]
            self._gpus[row] = self._gpus[before]
            self.times.insert(place, time)
            self._rows.insert(place, row)
        return place

    def _grow(self) -> None:
        """Allocate more rows for points."""
        count = len(self._jobs)
        more = max(count, 16)
        self._amounts = np.pad(self._amounts, ((0, 0), (0, more), (0, 0)))
        self._jobs = np.pad(self._jobs, ((0, more), (0, 0)))
        self._gpus = np.pad(self._gpus, ((0, more), (0, 0), (0, 0)))
        self._spare += range(count + more - 1, count - 1, -1)

    def _changes_nothing(self, place: int, node: int) -> bool:
        """Return whether a point equals the one before; comparing one node first decides most cases."""
        row, before = self._rows[place], self._rows[place - 1]
        return (
            self._jobs[row, node] == self._jobs[before, node]
            and np.array_equal(self._amounts[:, row], self._amounts[:, before])
            and np.array_equal(self._jobs[row], self._jobs[before])
            and (not self._has_gpus or np.array_equal(self._gpus[row], self._gpus[before]))
        )


def _least_of(counts: NDArray[Any], begins: IntArray, ends: IntArray) -> NDArray[Any]:
    """Return the minimum over rows ``begins[i]`` to ``ends[i]`` - 1 for each i, shape (n, N).

    Each range is covered by two overlapping ranges whose length is a power of two (a sparse table).
    """
    powers = np.frexp(ends - begins)[1] - 1  # exponent of the largest power of two within each range
    least = np.empty((len(begins), counts.shape[1]), counts.dtype)
    size = 1
    for power in range(int(powers.max()) + 1):
        if len(those := np.flatnonzero(powers == power)):
            least[those] = np.minimum(counts[begins[those]], counts[ends[those] - size])
        counts = np.minimum(counts[:-size], counts[size:])
        size *= 2
    return least
