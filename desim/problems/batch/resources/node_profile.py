"""Availability profiles of nodes: the resources expected to be free over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.nodes import CompiledRequest, NodeAllocation
from desim.problems.batch.placement import FirstFit, PlacementPolicy
from desim.problems.batch.resources.node_availability import NodeAvailability
from desim.problems.batch.resources.profile import AvailabilityProfile

__all__ = ["NodeProfile", "NodeSlot"]

IntArray = NDArray[np.int64]


@cache
def _kernel() -> ModuleType:
    """Return the functions on arrays, whose module imports numba."""
    from desim.problems.batch.resources import node_kernel

    return node_kernel


class NodeSlot(NamedTuple):
    """A reservation in a profile: the resources that a job holds from ``start`` to ``end``, in seconds.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    changes : array of int, shape (n, 2 + C)
        Allocated resources: node, number of tasks, amounts of R resources, 1 for the job, thousandths of each GPU.
    shape : CompiledRequest or None
        Compiled request of the job; None for a job that was running when the profile was created.
    """

    start: float
    end: float
    changes: IntArray
    shape: CompiledRequest | None

    @property
    def place(self) -> tuple[NodeAllocation, ...]:
        """Allocated resources, per node, of a queued job."""
        assert self.shape is not None
        last = 2 + len(self.shape.amounts)
        held = []
        for node, tasks, *columns in self.changes.tolist():
            gpus = tuple((gpu, share) for gpu, share in enumerate(columns[last - 1 :]) if share)
            held.append(NodeAllocation(node, tasks, tuple(columns[: last - 2]), gpus))
        return tuple(held)


def _changes_of(held: Sequence[NodeAllocation], num_gpus: int) -> IntArray:
    """Return an allocation as numbers; see NodeSlot."""
    rows = [(one.node, one.tasks, *one.amounts, 1) + (0,) * num_gpus for one in held]
    changes = np.array(rows, np.int64)
    for row, one in enumerate(held):
        for gpu, share in one.gpus:
            changes[row, gpu - num_gpus] = share
    return changes


class NodeProfile(AvailabilityProfile):
    """Free resources of all nodes from now on: an :class:`AvailabilityProfile` with a step function for each node.

    The arrays are those of :mod:`~desim.problems.batch.resources.node_kernel`, with P segments of N nodes.

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
        table = free.table
        self.running: dict[int, Any] = {}
        self.now, self.table, self.policy, self.down = float(time), table, policy, free.down.copy()
        self._takes_first = type(policy) is FirstFit
        self._num_gpus = table.gpus.shape[1] if table.num_gpus else 0  # columns
        first = self._columns_of(free)
        num_nodes, num_columns = first.shape
        self._times = np.full((num_nodes, 8), time, np.float64)
        self._free: IntArray = np.repeat(first[:, None], 8, axis=1)
        self._head, self._size = np.zeros(num_nodes, np.int64), np.ones(num_nodes, np.int64)
        # what nodes each kind of requests of the table can use, and which reservations do not admit its user
        self._usable = np.zeros((0, num_nodes), np.bool_)
        self._barred = np.zeros((0, len(table.reservations)), np.bool_)
        self._periods = np.array([(each.start, each.end) for each in table.reservations], np.float64).reshape(-1, 2)
        self._outside = np.array([table.outside([number]) for number in range(len(self._periods))], np.bool_)
        self._outside = self._outside.reshape(-1, num_nodes)
        # to be overwritten
        self._least, self._chosen = np.zeros(num_columns, np.int64), np.zeros((num_nodes, 2 + num_columns), np.int64)
        self._scratch = np.zeros(num_nodes, np.int64), np.zeros(num_nodes), self._least
        self._nothing = self._chosen[:0], np.inf  # of a job's own
        # since a round began, see compress
        self._freed, self._freed_later = self._nothing_freed(), self._nothing_freed()

    def __len__(self) -> int:
        """Return the number of segments."""
        return int((self._size - self._head).sum())

    def _columns_of(self, room: NodeAvailability) -> IntArray:
        """Return free resources in the columns of the arrays, shape (N, C)."""
        return np.column_stack([room.free, -room.jobs, room.gpus[:, : self._num_gpus]])

    @classmethod
    def _of_free(cls, observation: Any) -> Self:
        return cls(observation.time, observation.nodes.room, observation.nodes.policy)

    @classmethod
    def _slot_of(cls, observation: Any, row: int, cores: int, end: float) -> NodeSlot:
        nodes = observation.nodes
        num_gpus = nodes.table.gpus.shape[1] if nodes.table.num_gpus else 0
        changes = _changes_of(nodes.allocation_of(row), num_gpus)
        return NodeSlot(observation.time, end, changes, None)

    @staticmethod
    def _state_of(observation: Any) -> tuple[Any, int]:
        """Return which nodes have failed, without those that are down for advance reservations; see the base class."""
        return observation.nodes.room.down.tobytes(), observation.preemptions

    def _release_at(self, end: float, slot: Any) -> None:
        self._hold(slot._replace(start=end, end=np.inf), 1)

    def _add_reservations(self, observation: Any) -> None:
        """Add nothing: the nodes of advance reservations are known from the table."""

    def advance(self, time: float) -> None:
        """Move the beginning of the profile to a later time."""
        self.now = max(self.now, time)

    @property
    def _segments(self) -> tuple[Any, ...]:
        """Arguments of the functions on arrays, see there."""
        return self._times, self._free, self._head, self._size

    @property
    def _requests(self) -> tuple[Any, ...]:
        """Arguments of the functions on arrays, see there."""
        table = self.table
        if len(self._usable) < len(table.usable):
            others = range(len(self._periods))
            barred = [[other not in passes for other in others] for passes in table.passes]
            self._usable = table.usable & ~self.down
            self._barred = np.array(barred, np.bool_).reshape(len(barred), -1)
        return table.columns, self._usable, self._periods, self._barred, self._outside

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
        where = self._segments, self._requests, self._scratch, self._nothing
        start = _kernel().earliest(*where, wanted.number, duration, longest, self.now, np.inf)
        return self._slot_at(wanted, start, duration, longest) if start < np.inf else None

    def _slot_at(self, shape: CompiledRequest, start: float, duration: float, longest: float) -> NodeSlot:
        """Return the slot that begins at a time at which a request fits."""
        end = start + duration
        if self._takes_first:
            where = self._segments, self._requests, self._nothing, self._least, self._chosen
            count = _kernel().first_fit(*where, shape.number, start, end, longest)
            return NodeSlot(start, end, self._chosen[:count].copy(), shape)
        room = self._room(start, end)
        room.closed = self.table.closed_between(start, max(end, start + longest))
        held = room.place(shape, self.policy)
        assert held is not None, "the placement policy finds the room that the profile has"
        return NodeSlot(start, end, _changes_of(held, self._num_gpus), shape)

    def _room(self, start: float, end: float) -> NodeAvailability:
        """Return the resources that are free during an interval, or at its start."""
        least = self._least_between(start, end)
        num_resources = len(self.table.resources)
        gpus = least[:, num_resources + 1 :] if self._num_gpus else self.table.gpus
        return NodeAvailability.of(self.table, least[:, :num_resources], gpus, -least[:, num_resources], self.down)

    def _least_between(self, start: float, end: float) -> IntArray:
        """Return the same in the columns of the arrays, shape (N, C)."""
        least = np.empty((len(self.table), len(self._least)), np.int64)
        _kernel().window(self._segments, start, end, least)
        return least

    def compress(
        self, slots: Sequence[Any], durations: Sequence[float], longest: Sequence[float]
    ) -> Iterator[tuple[int, Any]]:
        """Move each slot, in order, to the earliest one that its job could have beside all others; yield those moved.

        A slot was the earliest when it was taken or in the last round. So an earlier one must have a task on a node
        with resources freed since, and must overlap the interval in which they were freed.

        Parameters
        ----------
        slots : sequence of NodeSlot
            Slots of queued jobs, all of them taken.
        durations : sequence of float
            Seconds for which each job is expected to hold its nodes.
        longest : sequence of float
            As for :meth:`fit`.

        Yields
        ------
        (int, NodeSlot)
            Position of a slot that was moved, and the new one.
        """
        kernel = _kernel()
        self._freed, self._freed_later = self._freed_later, self._nothing_freed()
        slot_starts, ends, of_slots, shapes = zip(*slots, strict=True)
        numbers = np.zeros((len(slots) + 1, 2), np.int64)
        numbers[:-1, 0] = [shape.number for shape in shapes]
        numbers[1:, 1] = np.cumsum([*map(len, of_slots)])
        changes, times = np.concatenate(of_slots), np.array([slot_starts, ends, durations, longest]).T.copy()
        moves, starts = np.zeros((len(slots), 2), np.int64), np.zeros(len(slots))
        chosen = np.zeros((len(self.table) + 2 * len(changes), changes.shape[1]), np.int64)
        freed_nodes, place = np.zeros(len(self.table), np.int64), 0
        while place < len(slots):
            where = self._segments, self._requests, self._scratch, chosen, self.now
            arguments = times, numbers, changes, self._freed, self._freed_later, freed_nodes, self._takes_first
            count, why, place = kernel.compress(*where, *arguments, place, moves, starts)
            begin, held = 0, chosen[: moves[count - 1, 1] if count else 0].copy()
            for (moved, end), start in zip(moves[:count].tolist(), starts[:count].tolist(), strict=True):
                yield moved, NodeSlot(start, start + durations[moved], held[begin:end], slots[moved].shape)
                begin = end
            if why == kernel.FULL:
                self._grow()
            elif why != kernel.ENDED:
                slot, duration, longer = slots[place], durations[place], longest[place]
                if why == kernel.EMPTY:  # it holds nothing, so others may have been placed over it
                    better = self.fit(slot.shape, duration, longer)
                else:
                    better = self._slot_at(slot.shape, float(starts[0]), duration, longer)
                if better is not None:
                    self._note_freed(slot)
                    self.take(better)
                    yield place, better
                place += 1

    def agrees_with(self, observation: Any, taken: list[Any]) -> bool:
        """Return whether the profile begins with the resources that are free now, apart from slots yet to be filled.

        Parameters
        ----------
        observation : BatchObservation
            Observation at the beginning of the profile.
        taken : list of NodeSlot
            Slots that begin now and are occupied in the profile although their jobs have not started.
        """
        columns = self._columns_of(observation.nodes.room)
        for slot in taken:
            columns[slot.changes[:, 0]] -= slot.changes[:, 2:]
        return bool(_kernel().agree(self._segments, self.now, columns))

    def take(self, slot: Any) -> None:
        """Occupy a slot."""
        self._hold(slot, -1)

    def _untake(self, slot: Any) -> None:
        """Free a slot, although it may be taken again."""
        self._hold(slot, 1)

    def _has_slot(self, slot: Any) -> bool:
        """Return whether what a slot holds is free."""
        least, changes = self._least_between(slot.start, slot.end), slot.changes.copy()
        changes[:, 2 + len(self.table.resources)] = np.iinfo(np.int64).min  # any number of jobs
        return bool((least[changes[:, 0]] >= changes[:, 2:]).all())

    def _note_freed(self, slot: Any) -> None:
        """Note from when and until when each node was freed, for :meth:`compress`."""
        nodes = slot.changes[:, 0]
        for freed in (self._freed, self._freed_later):
            freed[0, nodes] = np.minimum(freed[0, nodes], slot.start)
            freed[1, nodes] = np.maximum(freed[1, nodes], slot.end)

    def _nothing_freed(self) -> NDArray[np.float64]:
        """Return from when and until when resources of each node were freed if none were, shape (2, N)."""
        return np.full((2, len(self.table)), [[np.inf], [-np.inf]])

    def _hold(self, slot: Any, sign: int) -> None:
        """Take what a slot holds (-1) or release it (1)."""
        start, end, changes, _ = slot
        if start < end:
            change = _kernel().change
            while not change(self._segments, self.now, changes, start, end, sign):
                self._grow()

    def _grow(self) -> None:
        """Allocate more segments."""
        more = self._times.shape[1]
        self._times = np.pad(self._times, ((0, 0), (0, more)))
        self._free = np.pad(self._free, ((0, 0), (0, more), (0, 0)))
