"""Free cores of nodes as bit sets of nodes, for clusters whose jobs request only cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from math import inf
from typing import Self

from desim.problems.batch.cores import lowest_cores
from desim.problems.batch.nodes import CompiledRequest, NodeAllocation, NodeAllocations, NodeTable
from desim.problems.batch.placement import PlacementPolicy

__all__ = ["NodeLevels"]


class NodeLevels:
    """Free cores per node: what a :class:`NodeAvailability` knows of them, with first-fit placement.

    Level k is the set of the nodes with at least k free cores. Equal nodes change together, so that the time of an
    operation depends on the number of cores per node, and hardly on the number of nodes. Requests must be
    :attr:`~CompiledRequest.only_cores`.

    Parameters
    ----------
    table : NodeTable
        Nodes, initially all empty.

    Attributes
    ----------
    levels : list of int
        Levels from 0, which are all nodes, as bit sets.
    up : int
        Nodes that are up, as a bit set.
    closed : tuple of int
        Advance reservations in force: none.
    single : CompiledRequest or None
        Request of one task, if the tasks of all jobs so far are alike and any number of them fits on any node with
        enough cores. Then a job fits if as many cores are free as it requests, see :meth:`free_for`.
    """

    __slots__ = ("_singles", "closed", "levels", "single", "up")

    def __init__(self, table: NodeTable) -> None:
        cores = table.capacity[:, 0].tolist()
        self.levels = [0] * (max(cores) + 1)
        for node, count in enumerate(cores):
            for level in range(count + 1):
                self.levels[level] |= 1 << node
        self.up = self.levels[0]
        self.closed: tuple[int, ...] = ()
        self.single: CompiledRequest | None = None
        self._singles: tuple[CompiledRequest, ...] = ()

    def add(self, shape: CompiledRequest) -> None:
        """Note that jobs may have a request."""
        self._singles = tuple({*self._singles, shape.single})
        fits_everywhere = shape.request.tasks_per_node is None and bool(shape.eligible.all())
        self.single = shape.single if len(self._singles) == 1 and fits_everywhere else None

    def free_for(self, single: CompiledRequest) -> int:
        """Return how many cores are free for such tasks."""
        return self.total(single) * single.amounts[0]

    def copy(self) -> Self:
        """Return a copy for hypothetical allocations."""
        other = object.__new__(type(self))
        other.levels, other.up, other.closed = self.levels.copy(), self.up, ()
        other.single, other._singles = self.single, self._singles
        return other

    def least_of(self, other: Self) -> Self:
        """Return the cores that are free both here and in another object."""
        least = self.copy()
        least.levels = [one & another for one, another in zip(self.levels, other.levels, strict=True)]
        return least

    def total(self, shape: CompiledRequest) -> int:
        """Return how many tasks of a request fit on all nodes together."""
        usable, each = self.up & shape.node_set, shape.amounts[0]
        return _size_of(self.levels[each : each * shape.most + 1 : each], usable)

    def fits(self, shape: CompiledRequest) -> bool:
        """Return whether all tasks of a request fit now."""
        return self.total(shape) >= shape.tasks

    def place(self, shape: CompiledRequest, policy: PlacementPolicy) -> NodeAllocations | None:
        """Return the allocation on the first nodes with room, without allocating it; None if the tasks do not fit."""
        by_cores = self._first(shape)
        if by_cores is None:
            return None
        each = shape.amounts[0]
        held = [one for cores, nodes in by_cores.items() for one in _among(nodes, shape.allocations(cores // each))]
        if len(by_cores) > 1:
            held.sort()
        place = NodeAllocations(held)
        place.request, place.by_cores = shape, by_cores
        return place

    def _first(self, shape: CompiledRequest) -> dict[int, int] | None:
        """Return the first nodes with room for all tasks, by the number of cores on each; None if they do not fit."""
        usable, each, tasks = self.up & shape.node_set, shape.amounts[0], shape.tasks
        # nodes for one, two, three tasks and so on
        rooms = [*map(usable.__and__, self.levels[each : each * min(shape.most, tasks) + 1 : each])]
        while rooms and not rooms[-1]:
            rooms.pop()
        if _size_of(rooms, usable) < tasks:
            return None
        if len(rooms) == 1:
            return {each: lowest_cores(rooms[0], tasks)}
        last, high = 0, rooms[0].bit_length()
        while high - last > 1:  # invariant: too few tasks fit on the nodes before the last, enough before high
            middle = (last + high) >> 1
            before = (1 << middle) - 1
            if _size_of(rooms, before) < tasks:
                last = middle
            else:
                high = middle
        by_cores, more, before = {}, 0, (1 << last) - 1
        for number in range(len(rooms), 0, -1):
            nodes = rooms[number - 1] & before
            tasks -= nodes.bit_count()
            if exactly := nodes & ~more:
                by_cores[each * number] = exactly
            more = nodes
        by_cores[each * tasks] = by_cores.get(each * tasks, 0) | 1 << last
        return by_cores

    def place_on(
        self, shape: CompiledRequest, where: Sequence[tuple[int, int]], policy: PlacementPolicy
    ) -> tuple[NodeAllocation, ...] | None:
        """Return the allocation of a request on given nodes, without allocating it; None if the tasks do not fit."""
        held = tuple(shape.allocations(tasks)[node] for node, tasks in where)
        fits = self._has(shape, _by_cores(held)) and all(tasks <= shape.most for _, tasks in where)
        return held if fits else None

    def fault(self, shape: CompiledRequest, held: Sequence[NodeAllocation]) -> str:
        """Return why a job cannot have a given allocation, or an empty string if it can."""
        if isinstance(held, NodeAllocations) and held.request is shape:
            is_right = True
        else:
            nodes, number = {one.node for one in held}, self.levels[0].bit_length()
            is_right = sum(one.tasks for one in held) == shape.tasks and len(nodes) == len(held)
            is_right &= all(0 <= one.node < number and 0 < one.tasks <= shape.most for one in held)
            is_right = is_right and all(one[2:] == (shape.amounts_of(one.tasks), ()) for one in held)
        if is_right and self._has(shape, _by_cores(held)):
            return ""
        return "it was made for another request, or its cores are not free"

    def _has(self, shape: CompiledRequest, by_cores: Mapping[int, int]) -> bool:
        """Return whether nodes have as many free cores, and are up and eligible."""
        usable, levels = self.up & shape.node_set, self.levels
        return all(cores < len(levels) and not nodes & ~(levels[cores] & usable) for cores, nodes in by_cores.items())

    def take(self, held: Sequence[NodeAllocation]) -> None:
        """Allocate the cores of an allocation."""
        levels = self.levels
        for cores, nodes in _by_cores(held).items():
            others, last = ~nodes, len(levels) - cores  # the last level with another one as many cores above it
            for level in range(1, last):
                levels[level] &= others | levels[level + cores]
            for level in range(max(last, 1), len(levels)):
                levels[level] &= others

    def release(self, held: Sequence[NodeAllocation]) -> None:
        """Release the cores of an allocation."""
        levels = self.levels
        for cores, nodes in _by_cores(held).items():
            for level in range(len(levels) - 1, cores, -1):
                levels[level] |= nodes & levels[level - cores]
            for level in range(min(cores, len(levels) - 1), 0, -1):
                levels[level] |= nodes

    def release_until_fits(
        self,
        shape: CompiledRequest,
        releases: Iterable[tuple[float, tuple[NodeAllocation, ...]]],
        requested: float = 0.0,
    ) -> float:
        """Release the cores of jobs by their ends until a request fits, and return when; see NodeAvailability."""
        start, missing = inf, shape.request.num_cores - _size_of(self.levels[1:], self.levels[0])
        for end, held in releases:
            if end > start:
                break
            self.release(held)
            missing -= sum(cores * nodes.bit_count() for cores, nodes in _by_cores(held).items())
            if missing <= 0 and start == inf and self.fits(shape):
                start = end
        return start


def _size_of(sets: Iterable[int], within: int) -> int:
    """Return the sum of the sizes of some sets within another one."""
    return sum(map(int.bit_count, map(within.__and__, sets)))


def _by_cores(held: Sequence[NodeAllocation]) -> dict[int, int]:
    """Return the nodes of an allocation by the number of cores on each, as bit sets."""
    if isinstance(held, NodeAllocations):
        return held.by_cores
    found: dict[int, int] = {}
    for node, _, amounts, _ in held:
        cores = amounts[0]
        found[cores] = found.get(cores, 0) | 1 << node
    return found


def _among(nodes: int, of_nodes: Iterable[NodeAllocation]) -> Iterator[NodeAllocation]:
    """Return an iterator over those items, one for each node, whose nodes are in a bit set."""
    return compress(of_nodes, f"{nodes:b}"[::-1].encode().translate(_BITS))


_BITS = bytes(digit == ord("1") for digit in range(256))
"""Whether each character is 1."""
