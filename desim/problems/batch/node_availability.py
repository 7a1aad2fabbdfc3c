"""What is free on the nodes of a cluster, and where jobs could go: live, or as somebody supposes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job
from desim.problems.batch.nodes import GPU, CompiledRequest, NodeAllocation, NodeTable
from desim.problems.batch.observation import BatchObservation, BatchState
from desim.problems.batch.placement import PlacementPolicy

__all__ = ["NodeAvailability", "NodeObservation", "StartOnNodes"]

IntArray = NDArray[np.int64]


class StartOnNodes(NamedTuple):
    """The action that starts a queued job on chosen nodes.

    Attributes
    ----------
    job_id : int
        The queued job.
    held : tuple of NodeAllocation
        What it gets of each of its nodes.
    """

    job_id: int
    held: tuple[NodeAllocation, ...]


class NodeAvailability:
    """Free resources of nodes; a copy is somebody's supposition.

    Parameters
    ----------
    table : NodeTable
        The nodes, all of which are empty.

    Attributes
    ----------
    free : array of int, shape (N, R)
        What is free of each resource.
    gpus : array of int, shape (N, G)
        Free thousandths of each GPU.
    whole, largest : array of int, shape (N,)
        How many GPUs of a node are wholly free, and the free thousandths of the freest one.
    jobs : array of int, shape (N,)
        How many jobs are on each node.
    down : array of bool, shape (N,)
        Nodes that have failed.
    closed : tuple of int
        Numbers of the reservations whose nodes cannot be used, but by users whom they admit. A supposition of some time
        to come has those of that time, see ``NodeTable.closed_between``.
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
        """Return a supposition of arrays, which it keeps; see the attributes."""
        room = object.__new__(cls)
        room.table, room.free, room.gpus, room.jobs, room.down, room.closed = table, free, gpus, jobs, down, ()
        room._count_gpus()
        return room

    def _count_gpus(self) -> None:
        self.whole = (self.gpus == GPU).sum(axis=1)
        self.largest = self.gpus.max(axis=1)

    def copy(self) -> Self:
        """Return a supposition that begins with what is so."""
        other = object.__new__(type(self))
        other.table, other.closed = self.table, self.closed
        other.free, other.gpus = self.free.copy(), self.gpus.copy()
        other.jobs, other.down = self.jobs.copy(), self.down.copy()
        other.whole, other.largest = self.whole.copy(), self.largest.copy()
        return other

    def least_of(self, other: NodeAvailability) -> Self:
        """Return what is free both here and in another supposition."""
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
        """Which nodes are up, shape (N,): neither failed nor in a reservation that admits nobody."""
        return ~self.down & self.table.outside(
            number for number in self.closed if not self.table.reservations[number].users
        )

    def counts(self, shape: CompiledRequest) -> IntArray:
        """Return how many tasks of a request each node could take now, shape (N,)."""
        return self.counts_on(shape, slice(None))

    def counts_on(self, shape: CompiledRequest, nodes: slice | IntArray) -> IntArray:
        """Return the same for some nodes, shape (n,)."""
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
        return np.where(usable, np.minimum(counts, shape.most), 0)

    def takes_one(self, shape: CompiledRequest) -> NDArray[np.bool_]:
        """Tell which nodes could take a task of a request now, shape (N,); costs less than to count."""
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

    def take_one(self, shapes: Sequence[CompiledRequest]) -> NDArray[np.bool_]:
        """Tell of each request whether some node could take one of its tasks now.

        Parameters
        ----------
        shapes : sequence of CompiledRequest
            The requests, n of them, at least one: a look at all costs hardly more than one at a single request.

        Returns
        -------
        array of bool, shape (n,)
            Whether some node could.
        """
        usable = np.array([shape.eligible for shape in shapes]) & ~self.down
        amounts = np.array([shape.amounts for shape in shapes])
        for column in range(amounts.shape[1]):
            usable &= self.free[:, column] >= amounts[:, column, None]
        for row, shape in enumerate(shapes):
            if self.closed:
                usable[row] &= self.table.open_to(shape, self.closed)
            if shape.gpus:
                usable[row] &= self.whole >= shape.gpus
            elif shape.share:
                usable[row] &= self.largest >= shape.share
            if shape.exclusive:
                usable[row] &= self.jobs == 0
        return np.asarray(usable.any(axis=1))

    def fits(self, shape: CompiledRequest) -> bool:
        """Tell whether all tasks of a request have room now."""
        if shape.tasks == 1:
            return bool(self.takes_one(shape).any())
        return int(np.minimum(self.counts(shape), shape.tasks).sum()) >= shape.tasks

    def misfit(self, shape: CompiledRequest) -> str:
        """Return why a request has no room here, in words."""
        if not shape.eligible.any():
            return f"no node is what it asks for: {shape.request}"
        free, gpus = self.free[shape.eligible], self.whole[shape.eligible]
        most = [(self.table.resources[column], amount, int(free[:, column].max())) for column, amount in shape.needed]
        most.append(("GPUs", shape.gpus, int(gpus.max())))
        for what, amount, there in most:
            if amount > there:
                return f"a task requests {amount:,} {what}, and no node that will do has more than {there:,}"
        room = int(np.minimum(self.counts(shape), shape.tasks).sum())
        return f"nodes have room for {room:,} of its {shape.tasks:,} tasks: {shape.request}"

    def place(self, shape: CompiledRequest, policy: PlacementPolicy) -> tuple[NodeAllocation, ...] | None:
        """Return where a policy would put all tasks of a request; nothing is taken.

        Parameters
        ----------
        shape : CompiledRequest
            The request.
        policy : PlacementPolicy
            Puts nodes in order: from the first one on, each takes as many tasks as it can.

        Returns
        -------
        tuple of NodeAllocation, or None
            None if they do not fit.

        Raises
        ------
        InvalidConfiguration
            If the policy names too few nodes, one twice or one that has no room, or a GPU without room for a share.
        """
        counts = self.takes_one(shape) if shape.tasks == 1 else self.counts(shape)
        nodes = counts.nonzero()[0]
        if int(np.minimum(counts[nodes], shape.tasks).sum()) < shape.tasks:
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
        missing = f"{left:,} of {shape.tasks:,} tasks have none: {shape.request}"
        raise InvalidConfiguration(f"placement {policy.name!r} names too few nodes, {missing}")

    def place_on(
        self, shape: CompiledRequest, where: Sequence[tuple[int, int]], policy: PlacementPolicy
    ) -> tuple[NodeAllocation, ...] | None:
        """Return what a request gets of chosen nodes; nothing is taken.

        Parameters
        ----------
        shape : CompiledRequest
            The request.
        where : sequence of (int, int)
            Nodes, and how many tasks each gets.
        policy : PlacementPolicy
            Chooses the GPUs that are shared.

        Returns
        -------
        tuple of NodeAllocation, or None
            None if they do not fit there.
        """
        counts = self.counts_on(shape, np.array([node for node, _ in where]))
        if any(count < tasks for count, (_, tasks) in zip(counts.tolist(), where, strict=True)):
            return None
        return tuple(self._hold(shape, node, tasks, policy) for node, tasks in where)

    def _hold(self, shape: CompiledRequest, node: int, tasks: int, policy: PlacementPolicy) -> NodeAllocation:
        """Return what some tasks hold of a node that has room for them."""
        if shape.exclusive:
            devices = [(gpu, GPU) for gpu, free in enumerate(self.gpus[node].tolist()) if free]
            return NodeAllocation(node, tasks, tuple(self.free[node].tolist()), tuple(devices))
        amounts = tuple(amount * tasks for amount in shape.amounts)
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

    def take(self, held: Iterable[NodeAllocation]) -> None:
        """Account for what a job holds from now on."""
        for node, _, amounts, gpus in held:
            self.free[node] -= amounts
            if gpus:
                self._change_gpus(node, gpus, -1)
            self.jobs[node] += 1

    def release(self, held: Iterable[NodeAllocation]) -> None:
        """Account for what a job held until now."""
        for node, _, amounts, gpus in held:
            self.free[node] += amounts
            if gpus:
                self._change_gpus(node, gpus, 1)
            self.jobs[node] -= 1

    def release_until_fits(
        self,
        shape: CompiledRequest,
        releases: Iterable[tuple[float, tuple[NodeAllocation, ...]]],
        requested: float = 0.0,
    ) -> float:
        """Account for the ends of jobs, until a request that has no room yet has room.

        Parameters
        ----------
        shape : CompiledRequest
            The request.
        releases : iterable of (float, tuple of NodeAllocation)
            When jobs end, ascending, and what they hold; when reservations end, nothing is held.
        requested : float
            For how long, in seconds, it must have room where nodes have reservations.

        Returns
        -------
        float
            When it has room: all that ends by then has been given back. Infinite if it never has.
        """
        reservations = self.table.reservations
        if shape.tasks == 1 and not (shape.gpus or shape.share or reservations):
            return self._release_until_one_fits(shape, releases)
        for end, together in groupby(releases, itemgetter(0)):
            for _, held in together:
                self.release(held)
            if reservations:
                self.closed = self.table.closed_between(end, end + requested)
            if self.fits(shape):
                return float(end)
        return np.inf

    def _release_until_one_fits(
        self, shape: CompiledRequest, releases: Iterable[tuple[float, tuple[NodeAllocation, ...]]]
    ) -> float:
        """Do so for a single task without GPUs, which can only have room on a node where a job ends.

        So a look at that node is enough, and with plain numbers it costs less than with arrays.
        """
        usable = (shape.eligible & ~self.down).tolist()
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
                has_room = usable[node] and not (shape.exclusive and jobs[node])
                if has_room and all(here[column] >= amount for column, amount in shape.needed):
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
        """Return why a job cannot have what somebody chose for it; empty if it can."""
        num_nodes, tasks = len(self.table), 0
        if len({one.node for one in held}) < len(held):
            return "a node is named twice"
        for node, here, amounts, gpus in held:
            if not 0 <= node < num_nodes:
                return f"there is no node {node}"
            name = self.table.nodes[node].name
            room = int(self.counts_on(shape, np.array([node]))[0])
            if not 0 < here <= room:
                return f"node {name!r} has room for {room} of its tasks, not {here}"
            if shape.exclusive:
                wanted = tuple(self.free[node].tolist())
                right = sorted(gpus) == [(gpu, GPU) for gpu, free in enumerate(self.gpus[node].tolist()) if free]
            else:
                wanted = tuple(amount * here for amount in shape.amounts)
                right = self._are_right(shape, node, here, gpus)
            if tuple(amounts) != wanted:
                return f"{here} of its tasks hold {wanted} of node {name!r}, not {tuple(amounts)}"
            if not right:
                return f"GPUs {gpus!r} of node {name!r} are not free, or not what its tasks hold"
            tasks += here
        return "" if tasks == shape.tasks else f"it has {shape.tasks} tasks, not {tasks}"

    def _are_right(self, shape: CompiledRequest, node: int, tasks: int, gpus: Sequence[tuple[int, int]]) -> bool:
        """Tell whether GPUs are free and what tasks on a node hold."""
        free = self.gpus[node].tolist()
        each = GPU if shape.gpus else shape.share
        if not each:
            return not gpus
        return (
            sum(share for _, share in gpus) == each * tasks * (shape.gpus or 1)
            and len({gpu for gpu, _ in gpus}) == len(gpus)
            and all(0 <= gpu < len(free) and 0 < share <= free[gpu] and share % each == 0 for gpu, share in gpus)
        )


class NodeObservation(BatchObservation):
    """The queue, the running jobs and what is free on the nodes at a decision.

    Parameters
    ----------
    state : BatchState
        The state that is seen.
    room : NodeAvailability
        What is free.
    policy : PlacementPolicy
        The cluster's own.
    held : mapping of int to tuple of NodeAllocation
        What the running jobs hold, by id.

    Attributes
    ----------
    room : NodeAvailability
        What is free now; copy it to suppose something.
    table : NodeTable
        The nodes.
    policy : PlacementPolicy
        Which nodes a job gets where an answer names none.
    """

    __slots__ = ("_held", "_shapes", "policy", "room", "table")

    def __init__(
        self,
        state: BatchState,
        room: NodeAvailability,
        policy: PlacementPolicy,
        held: Mapping[int, tuple[NodeAllocation, ...]],
    ) -> None:
        super().__init__(state)
        self.room, self.table, self.policy = room, room.table, policy
        self._held = held
        self._shapes: dict[int, tuple[Job, CompiledRequest]] = {}  # of queued jobs, and some that have left

    def compiled_requests(self) -> list[CompiledRequest]:
        """Return what the queued jobs request, in order of arrival."""
        queued, known = self._state.queued, self._shapes
        if len(known) > 2 * len(queued) + 100:
            known.clear()
        found = []
        for job_id, job in queued.items():
            entry = known.get(job_id)
            if entry is None or entry[0] is not job:
                entry = known[job_id] = job, self.table.compiled_request(job)
            found.append(entry[1])
        return found

    def compiled_request(self, job_id: int) -> CompiledRequest:
        """Return what a queued job requests."""
        return self.table.compiled_request(self._state.queued[job_id])

    def allocation_of(self, job_id: int) -> tuple[NodeAllocation, ...]:
        """Return what a running job holds."""
        return self._held[job_id]

    def room_without(self, job_id: int, victims: Collection[int]) -> NodeAvailability:
        """Return what would be free for a queued job if jobs that it may preempt were taken off.

        Suspended jobs lend their cores and nothing else, and a job that is alone on its nodes not even these.

        Parameters
        ----------
        job_id : int
            The queued job.
        victims : collection of int
            The running jobs that are taken off.
        """
        state, room, qos = self._state, self.room.copy(), self._state.qos
        if qos is None:
            return room
        kept = [each for each in (*state.running, *state.suspended) if each not in victims or qos.suspends(each)]
        for victim in victims:
            if not qos.suspends(victim):
                room.release(self._held[victim])
        free, borrowed = qos.open_to(state, job_id, victims)
        usable = free | borrowed
        for node, first in enumerate(self.table.first_core):
            room.free[node, 0] = ((usable >> first) & ((1 << self.table.nodes[node].cores) - 1)).bit_count()
        for each in kept:
            job = (state.suspended.get(each) or state.running[each]).job
            if self.table.compiled_request(job).exclusive:
                for held in self._held[each]:
                    room.free[held.node, 0] = 0
        return room

    def has_room_without(self, job_id: int, victims: Collection[int]) -> bool:
        """Tell whether a queued job could start if jobs that it may preempt were taken off.

        Parameters
        ----------
        job_id : int
            The queued job.
        victims : collection of int
            The running jobs that are taken off.
        """
        return self.room_without(job_id, victims).fits(self.compiled_request(job_id))

    def fitting(self, positions: IntArray | None = None) -> NDArray[np.bool_]:
        """Tell of queued jobs whether they have room now.

        Parameters
        ----------
        positions : array of int, shape (n,), optional
            In the queue; by default all of it.

        Returns
        -------
        array of bool, shape (n,)
            In the order of the positions.
        """
        shapes = self.compiled_requests()
        if positions is not None:
            shapes = [shapes[position] for position in positions.tolist()]
        fits = {shape: self.room.fits(shape) for shape in dict.fromkeys(shapes)}
        return np.array([fits[shape] for shape in shapes], np.bool_)
