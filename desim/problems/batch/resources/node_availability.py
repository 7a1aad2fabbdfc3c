"""Free resources on the nodes of a cluster, and possible allocations: current or hypothetical."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from types import ModuleType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job
from desim.problems.batch.nodes import GPU, CompiledRequest, NodeAllocation, NodeTable
from desim.problems.batch.placement import PlacementPolicy

__all__ = ["NodeAvailability", "StartOnNodes"]

IntArray = NDArray[np.int64]

SEVERAL, MANY = 8, 128
"""From more requests and up to this number of nodes, counting tasks for all requests at once is faster."""

MOST = np.iinfo(np.int64).max
FEW = 4
"""Up to this number, changing nodes one by one is faster than array operations."""


WORTH = 2_000_000
"""After counting for as many pairs of a request and a node by array operations, to load the compiled function pays."""
_counted = 0


def _kernel(work: int) -> ModuleType | None:
    """Return the compiled functions once they are worth loading, given pairs to count for; None if numba is missing."""
    global _counted  # noqa: PLW0603  # modules are loaded once a process
    _counted += work
    if _counted < WORTH and "numba" not in sys.modules:
        return None
    from desim.problems.batch.resources import node_kernel

    return node_kernel if node_kernel.IS_COMPILED else None


class StartOnNodes(NamedTuple):
    """Action that starts a queued job on given nodes.

    Attributes
    ----------
    row : int
        Row of the queued job.
    held : tuple of NodeAllocation
        Allocation on each of its nodes.
    """

    row: int
    held: tuple[NodeAllocation, ...]


class NodeAvailability:
    """Free resources per node. Copy it to explore hypothetical allocations.

    Parameters
    ----------
    table : NodeTable
        Nodes, initially all empty.

    Attributes
    ----------
    free : array of int, shape (N, R)
        Free amount of each resource.
    gpus : array of int, shape (N, G)
        Free thousandths of each GPU.
    whole, largest : array of int, shape (N,)
        Number of entirely free GPUs per node, and free thousandths of its GPU with the most.
    jobs : array of int, shape (N,)
        Number of jobs on each node.
    down : array of bool, shape (N,)
        Whether each node has failed.
    closed : tuple of int
        Numbers of the reservations in force, whose nodes only the admitted users can use. For a hypothetical
        allocation in the future, those in force then, see ``NodeTable.closed_between``.
    """

    __slots__ = ("closed", "down", "free", "gpus", "jobs", "largest", "table", "whole")

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.free = table.capacity.copy()
        self.gpus = table.gpus.copy()
        self.jobs = np.zeros(len(table), np.int64)
        self.down = np.zeros(len(table), np.bool_)
        self.closed: tuple[int, ...] = ()
        self._count_gpus()

    @classmethod
    def of(cls, table: NodeTable, free: IntArray, gpus: IntArray, jobs: IntArray, down: NDArray[np.bool_]) -> Self:
        """Return free resources with the given arrays, which are not copied; see the attributes."""
        room = object.__new__(cls)
        room.table, room.free, room.gpus, room.jobs, room.down, room.closed = table, free, gpus, jobs, down, ()
        room._count_gpus()
        return room

    def _count_gpus(self) -> None:
        self.whole = (self.gpus == GPU).sum(axis=1)
        self.largest = self.gpus.max(axis=1)

    def copy(self) -> Self:
        """Return a copy for hypothetical allocations."""
        other = object.__new__(type(self))
        other.table, other.closed = self.table, self.closed
        other.free, other.gpus = self.free.copy(), self.gpus.copy()
        other.jobs, other.down = self.jobs.copy(), self.down.copy()
        other.whole, other.largest = self.whole.copy(), self.largest.copy()
        return other

    def least_of(self, other: NodeAvailability) -> Self:
        """Return the resources that are free both here and in another object."""
        least = self.copy()
        np.minimum(self.free, other.free, out=least.free)
        np.minimum(self.gpus, other.gpus, out=least.gpus)
        np.maximum(self.jobs, other.jobs, out=least.jobs)
        least.down |= other.down
        if other.closed:
            least.closed = tuple(sorted({*self.closed, *other.closed}))
        least._count_gpus()
        return least

    @property
    def up(self) -> NDArray[np.bool_]:
        """Whether each node is up, shape (N,): neither failed nor in a reservation without users."""
        return ~self.down & self.table.outside(
            number for number in self.closed if not self.table.reservations[number].users
        )

    def counts(self, shape: CompiledRequest) -> IntArray:
        """Return how many tasks of a request fit on each node now, shape (N,)."""
        return self.counts_on(shape, slice(None))

    def counts_on(self, shape: CompiledRequest, nodes: slice | IntArray) -> IntArray:
        """Return how many tasks of a request fit on each of some nodes now, shape (n,)."""
        free = self.free[nodes]
        counts: IntArray | None = None
        for column, amount in shape.needed:
            of_this = free[:, column] // amount if amount > 1 else free[:, column]
            counts = of_this if counts is None else np.minimum(counts, of_this)
        assert counts is not None  # every task needs a core
        if shape.gpus:
            counts = np.minimum(counts, self.whole[nodes] // shape.gpus)
        elif shape.share:
            counts = np.minimum(counts, (self.gpus[nodes] // shape.share).sum(axis=1))
        usable = shape.eligible[nodes] & ~self.down[nodes]
        if self.closed:
            usable &= self.table.open_to(shape, self.closed)[nodes]
        if shape.exclusive:
            usable &= self.jobs[nodes] == 0
        if shape.request.tasks_per_node:
            counts = np.minimum(counts, shape.most)
        return counts * usable

    def takes_one(self, shape: CompiledRequest) -> NDArray[np.bool_]:
        """Return whether a task of a request fits on each node now, shape (N,); faster than counting tasks."""
        usable = shape.eligible & ~self.down
        if self.closed:
            usable &= self.table.open_to(shape, self.closed)
        for column, amount in shape.needed:
            usable &= self.free[:, column] >= amount
        if shape.gpus:
            usable &= self.whole >= shape.gpus
        elif shape.share:
            usable &= self.largest >= shape.share
        if shape.exclusive:
            usable &= self.jobs == 0
        return usable

    def total(self, shape: CompiledRequest) -> int:
        """Return how many tasks of a request fit on all nodes together."""
        return int(self.counts(shape).sum())

    def enough_for(self, numbers: IntArray) -> NDArray[np.bool_]:
        """Return whether all tasks of some requests fit now, each on its own.

        Parameters
        ----------
        numbers : array of int, shape (n,)
            Numbers of requests, see ``NodeTable.requests``.

        Returns
        -------
        array of bool, shape (n,)
            Whether each fits.
        """
        if not self.counts_at_once(len(numbers)):
            requests = self.table.requests
            return np.array([self.fits(requests[number]) for number in numbers.tolist()], np.bool_)
        kernel = _kernel(len(numbers) * len(self.table))
        if kernel is None:
            return np.asarray(self.table.columns[numbers, len(self.table.resources)] <= self._totals(numbers))
        fits = np.zeros(len(numbers), np.bool_)
        room = *map(np.ascontiguousarray, (self.free, self.jobs, self.gpus)), self.down
        kernel.enough(room, self.table.columns, self.table.usable, numbers, fits)
        return fits

    def counts_at_once(self, count: int) -> bool:
        """Return whether counting tasks for that many requests at once is faster than for one after the other."""
        is_small = len(self.table) <= MANY or _kernel(0) is not None
        return count > SEVERAL and is_small and not self.table.reservations

    def _totals(self, numbers: IntArray) -> IntArray:
        """Return how many tasks of some requests fit, by operations on all of them, without advance reservations."""
        *amounts, _, counts, gpus, share, exclusive, suits = self.table.columns[numbers].T[:, :, None]
        for column, needed in enumerate(amounts):
            if needed.any():
                fit = self.free[:, column] // np.maximum(needed, 1)
                counts = np.minimum(counts, fit if needed.all() else np.where(needed, fit, MOST))
        if gpus.any():
            counts = np.minimum(counts, np.where(gpus, self.whole // np.maximum(gpus, 1), MOST))
        if len(shared := share.ravel().nonzero()[0]):
            counts[shared] = np.minimum(counts[shared], (self.gpus // share[shared, :, None]).sum(axis=2))
        usable = self.table.usable[suits[:, 0]] & ~self.down
        if exclusive.any():
            usable &= (self.jobs == 0) | (exclusive == 0)
        return np.asarray((counts * usable).sum(axis=1))

    def fits(self, shape: CompiledRequest) -> bool:
        """Return whether all tasks of a request fit now."""
        if shape.tasks == 1:
            return bool(self.takes_one(shape).any())
        return self.total(shape) >= shape.tasks

    def misfit(self, shape: CompiledRequest) -> str:
        """Return why a request does not fit here."""
        if not shape.eligible.any():
            return f"no node has the requested partition, GPU model and features: {shape.request}"
        free, gpus = self.free[shape.eligible], self.whole[shape.eligible]
        most = [(self.table.resources[column], amount, int(free[:, column].max())) for column, amount in shape.needed]
        most.append(("GPUs", shape.gpus, int(gpus.max())))
        for what, amount, there in most:
            if amount > there:
                return f"a task requests {amount:,} {what}, but eligible nodes have at most {there:,}"
        room = self.total(shape)
        return f"nodes have room for only {room:,} of its {shape.tasks:,} tasks: {shape.request}"

    def place(self, shape: CompiledRequest, policy: PlacementPolicy) -> tuple[NodeAllocation, ...] | None:
        """Return the allocation that a policy chooses for all tasks of a request, without allocating it.

        Parameters
        ----------
        shape : CompiledRequest
            Compiled request.
        policy : PlacementPolicy
            Policy that orders the nodes; from the first one on, each gets as many tasks as fit.

        Returns
        -------
        tuple of NodeAllocation, or None
            Allocation; None if the tasks do not fit.

        Raises
        ------
        InvalidConfiguration
            If the policy names too few nodes, a node twice, a node without room, or a GPU without room for a share.
        """
        counts = self.takes_one(shape) if shape.tasks == 1 else self.counts(shape)
        nodes = counts.nonzero()[0]
        if int(counts.sum()) < shape.tasks:
            return None
        left = shape.tasks
        held: list[NodeAllocation] = []
        for node in policy.order(self, shape, nodes):
            if not (0 <= node < len(counts) and counts[node]):
                what = " twice" if node in (one.node for one in held) else ", which has no room for a task"
                raise InvalidConfiguration(f"placement {policy.name!r} names node {node}{what}: {shape.request}")
            tasks = min(left, int(counts[node]))
            counts[node] = 0
            held.append(self._hold(shape, node, tasks, policy))
            left -= tasks
            if not left:
                return tuple(held)
        missing = f"{left:,} of {shape.tasks:,} tasks have no node: {shape.request}"
        raise InvalidConfiguration(f"placement {policy.name!r} names too few nodes, {missing}")

    def place_job(self, job: Job, policy: PlacementPolicy) -> tuple[NodeAllocation, ...] | None:
        """Do the same for a job, whose id then stands in errors."""
        try:
            return self.place(self.table.compiled_request(job), policy)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"job {job.job_id}: {error}") from error

    def place_on(
        self, shape: CompiledRequest, where: Sequence[tuple[int, int]], policy: PlacementPolicy
    ) -> tuple[NodeAllocation, ...] | None:
        """Return the allocation of a request on given nodes, without allocating it.

        Parameters
        ----------
        shape : CompiledRequest
            Compiled request.
        where : sequence of (int, int)
            Numbers of the nodes, and number of tasks on each.
        policy : PlacementPolicy
            Policy that chooses GPUs for shares.

        Returns
        -------
        tuple of NodeAllocation, or None
            Allocation; None if the tasks do not fit there.
        """
        counts = self.counts_on(shape, np.array([node for node, _ in where]))
        if any(count < tasks for count, (_, tasks) in zip(counts.tolist(), where, strict=True)):
            return None
        return tuple(self._hold(shape, node, tasks, policy) for node, tasks in where)

    def _hold(self, shape: CompiledRequest, node: int, tasks: int, policy: PlacementPolicy) -> NodeAllocation:
        """Return the allocation of some tasks on a node that has room for them."""
        if shape.exclusive:
            devices = [(gpu, GPU) for gpu, free in enumerate(self.gpus[node].tolist()) if free]
            return NodeAllocation(node, tasks, tuple(self.free[node].tolist()), tuple(devices))
        amounts = shape.amounts_of(tasks)
        if shape.gpus:
            whole = (self.gpus[node] == GPU).nonzero()[0][: shape.gpus * tasks].tolist()
            return NodeAllocation(node, tasks, amounts, tuple((gpu, GPU) for gpu in whole))
        if not shape.share:
            return NodeAllocation(node, tasks, amounts, ())
        free = self.gpus[node].copy()
        shares: dict[int, int] = {}
        for _ in range(tasks):
            gpu = policy.device(self, shape, node, free)
            if not (0 <= gpu < len(free) and free[gpu] >= shape.share):
                fault = f"names GPU {gpu} of node {node}, which has no room for a share: {shape.request}"
                raise InvalidConfiguration(f"placement {policy.name!r} {fault}")
            free[gpu] -= shape.share
            shares[gpu] = shares.get(gpu, 0) + shape.share
        return NodeAllocation(node, tasks, amounts, tuple(sorted(shares.items())))

    def take(self, held: Sequence[NodeAllocation]) -> None:
        """Allocate resources to a job."""
        self._change(held, -1)

    def release(self, held: Sequence[NodeAllocation]) -> None:
        """Release the resources of a job."""
        self._change(held, 1)

    def _change(self, held: Sequence[NodeAllocation], sign: int) -> None:
        """Allocate resources (-1) or release them (1); all nodes at once if there are several."""
        if len(held) > FEW:
            nodes = [one.node for one in held]
            self.free[nodes] += sign * np.array([one.amounts for one in held])
            self.jobs[nodes] -= sign
        else:
            for node, _, amounts, _ in held:
                self.free[node] += amounts if sign > 0 else [-amount for amount in amounts]
                self.jobs[node] -= sign
        for node, _, _, gpus in held:
            if gpus:
                self._change_gpus(node, gpus, sign)

    def release_until_fits(
        self,
        shape: CompiledRequest,
        releases: Iterable[tuple[float, tuple[NodeAllocation, ...]]],
        requested: float = 0.0,
    ) -> float:
        """Release the resources of jobs in order of their ends until a request fits, and return when it does.

        Parameters
        ----------
        shape : CompiledRequest
            Compiled request, which does not fit yet.
        releases : iterable of (float, tuple of NodeAllocation)
            Ends of jobs in seconds, ascending, and their allocations; ends of reservations have empty allocations.
        requested : float
            Seconds for which the request must fit, if nodes have reservations.

        Returns
        -------
        float
            Time in seconds at which it fits: everything that ends by then has been released. Infinite if it never fits.
        """
        reservations = self.table.reservations
        if not (shape.gpus or shape.share or reservations):
            return self._release_one_by_one(shape, releases)
        for end, together in groupby(releases, itemgetter(0)):
            for _, held in together:
                self.release(held)
            if reservations:
                self.closed = self.table.closed_between(end, end + requested)
            if self.fits(shape):
                return float(end)
        return np.inf

    def _release_one_by_one(
        self, shape: CompiledRequest, releases: Iterable[tuple[float, tuple[NodeAllocation, ...]]]
    ) -> float:
        """Do the same for a request without GPUs, counting its tasks only on the nodes where a job ends.

        This is faster with plain numbers than with arrays.
        """
        usable, counts = (shape.eligible & ~self.down).tolist(), self.counts(shape).tolist()
        left = shape.tasks - sum(counts)
        free, jobs = self.free.tolist(), self.jobs.tolist()
        start = np.inf
        for end, held in releases:
            if end > start:
                break
            for node, _, amounts, gpus in held:
                here = free[node]
                for column, amount in enumerate(amounts):
                    here[column] += amount
                jobs[node] -= 1
                if gpus:
                    self._change_gpus(node, gpus, 1)
                if usable[node] and not (shape.exclusive and jobs[node]):
                    count = min(shape.most, *(here[column] // amount for column, amount in shape.needed))
                    left -= count - counts[node]
                    counts[node] = count
                    if left <= 0:
                        start = end
        self.free[:], self.jobs[:] = free, jobs
        return start

    def _change_gpus(self, node: int, gpus: Iterable[tuple[int, int]], sign: int) -> None:
        of_node = self.gpus[node]
        for gpu, share in gpus:
            of_node[gpu] += sign * share
        free = of_node.tolist()
        self.whole[node], self.largest[node] = free.count(GPU), max(free)

    def fault(self, shape: CompiledRequest, held: Sequence[NodeAllocation]) -> str:
        """Return why a job cannot have a given allocation, or an empty string if it can."""
        num_nodes, tasks = len(self.table), 0
        if len({one.node for one in held}) < len(held):
            return "held names a node twice"
        nodes = [one.node for one in held]
        for node in nodes:
            if not 0 <= node < num_nodes:
                return f"there is no node {node}"
        counts = self.counts_on(shape, np.array(nodes, np.int64)).tolist()
        for (node, here, amounts, gpus), room in zip(held, counts, strict=True):
            name = self.table.nodes[node].name
            if not 0 < here <= room:
                return f"node {name!r} has room for {room} of its tasks, got {here}"
            if shape.exclusive:
                wanted = tuple(self.free[node].tolist())
                right = sorted(gpus) == [(gpu, GPU) for gpu, free in enumerate(self.gpus[node].tolist()) if free]
            else:
                wanted = shape.amounts_of(here)
                right = self._are_right(shape, node, here, gpus)
            if tuple(amounts) != wanted:
                return f"amounts on node {name!r}: got {tuple(amounts)}, expected {wanted} for {here} of its tasks"
            if not right:
                return f"GPUs {gpus!r} of node {name!r} are not free, or are not what its tasks request"
            tasks += here
        return "" if tasks == shape.tasks else f"it has {shape.tasks} tasks, got {tasks}"

    def _are_right(self, shape: CompiledRequest, node: int, tasks: int, gpus: Sequence[tuple[int, int]]) -> bool:
        """Return whether GPUs are free and match what the tasks on a node request."""
        free = self.gpus[node].tolist()
        each = GPU if shape.gpus else shape.share
        if not each:
            return not gpus
        return (
            sum(share for _, share in gpus) == each * tasks * (shape.gpus or 1)
            and len({gpu for gpu, _ in gpus}) == len(gpus)
            and all(0 <= gpu < len(free) and 0 < share <= free[gpu] and share % each == 0 for gpu, share in gpus)
        )
