"""Nodes of a cluster, with memory, GPUs and other resources: what is free, what jobs hold, and what agents see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.problems.batch.cores import core_set, lowest_cores
from desim.problems.batch.nodes import CompiledRequest, Node, NodeAllocation, NodeAllocations, NodeTable, run_time_on
from desim.problems.batch.placement import FirstFit, PlacementPolicy, placement_of
from desim.problems.batch.resources.cores import CoreResources
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.node_levels import NodeLevels
from desim.processes.outages import FailureCounts

if TYPE_CHECKING:
    from desim.problems.batch.execution import Execution
    from desim.problems.batch.job import Job
    from desim.problems.batch.observation import BatchState
    from desim.problems.batch.parts.reservations import AdvanceReservation

__all__ = ["NodeResources", "NodeView"]

IntArray = NDArray[np.int64]
Held = tuple[NodeAllocation, ...]


class NodeResources(CoreResources):
    """Nodes, whose cores are numbered node by node; see :class:`~desim.problems.batch.resources.cores.CoreResources`.

    Parameters
    ----------
    nodes : iterable of Node
        Nodes, at least one.
    placement : str or PlacementPolicy, optional
        Policy that chooses among the nodes with room for a job (default: ``"first-fit"``, the first ones).
    reservations : iterable of AdvanceReservation
        Advance reservations of nodes.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    unit = "node"
    start_action = StartOnNodes

    def __init__(
        self,
        nodes: Iterable[Node] | NodeTable,
        placement: str | PlacementPolicy | None = None,
        reservations: Iterable[AdvanceReservation] = (),
    ) -> None:
        self.table = nodes if isinstance(nodes, NodeTable) else NodeTable(nodes)
        if reservations := tuple(reservations):
            self.table = NodeTable(self.table.nodes, reservations)
        self.policy = placement_of(placement or "first-fit")
        self.num_cores, self.reservations = self.table.num_cores, self.table.reservations
        self.always_fits, self.has_nodes = 0, True

    def describe(self) -> dict[str, Any]:
        """Return what a description of the cluster contains besides its number of cores."""
        return {"num_nodes": len(self.table), "placement": self.policy.name}

    # one run

    def _begin(self, tables: Mapping[str, Any]) -> None:
        super()._begin(tables)
        self._room = NodeAvailability(self.table)
        # as long as only free cores matter, these are kept up to date, and the arrays when they are read
        self.levels = NodeLevels(self.table) if type(self.policy) is FirstFit and not self.reservations else None
        self._behind: dict[int, Held] = {}  # allocations, by row, that the arrays lack
        self.held: dict[int, Held] = {}  # allocations of running and suspended jobs, by row
        self._empty = NodeAvailability(self.table)
        self._is_possible: dict[CompiledRequest, bool] = {}  # whether a request fits on the empty cluster
        self._whole: dict[int, Held] = {}  # full allocations of suspended jobs and of borrowing jobs
        self._maintained: set[int] = set()  # nodes that are down for reservations, whether or not they have failed
        self.failures = FailureCounts(self.unit, len(self.table), [node.name for node in self.table.nodes])
        self._record_last, self.record_job = self.record_job, self._record_with_request
        self._record_request = tables["requests"].append
        self._record_placement = tables["placements"].append
        for number, node in enumerate(self.table.nodes):
            tables["nodes"].append((number, node, self.table.first_core[number]))

    def _record_with_request(self, record: tuple[Any, ...]) -> None:
        """Record a job and its request once nothing of it, including its size, can change any more."""
        job, row = record[:2]
        self._record_request((row, job.job_id, self.table.compiled_request(job).request))
        self._record_last(record)

    def misfit(self, job: Job) -> str:
        """Return why a job cannot even start if everything is free, or an empty string if it can."""
        try:
            shape = self.table.compiled_request(job)
        except WorkloadError as error:
            raise WorkloadError(f"job {job.job_id}: {error}") from error
        if shape not in self._is_possible:
            self._is_possible[shape] = self._empty.fits(shape)
            if not shape.only_cores:
                self.levels = None
            elif self.levels is not None:
                self.levels.add(shape)
        if self._is_possible[shape]:
            return ""
        return f"does not fit on the nodes, even if all are free: {self._empty.misfit(shape)}"

    def view(self, state: BatchState) -> NodeView | None:
        """Return the nodes as observations show them."""
        return NodeView(state, self)

    # places

    @property
    def room(self) -> NodeAvailability:
        """Free resources now."""
        for held in self._behind.values():
            self._room.take(held)
        self._behind.clear()
        return self._room

    def fits(self, job: Job) -> bool:
        """Return whether a job could start now."""
        return self.room.fits(self.table.compiled_request(job))

    def fault(self, job: Job, place: Any = None) -> str:
        """Return why a job cannot start, at a given place if any; an empty string if it can."""
        shape = self.table.compiled_request(job)
        if place is not None:
            is_right = self.levels is not None and shape.only_cores and not self.levels.fault(shape, place)
            fault = "" if is_right else self.room.fault(shape, place)
        else:
            fault = "" if self.room.fits(shape) else f"{shape.request} does not fit on the nodes now"
        return f": {fault}" if fault else ""

    def take(self, job: Job, row: int) -> int:
        """Take the nodes that the placement policy chooses for a job; return its cores, or 0 if it does not fit."""
        held: Held | None
        if self.levels is not None and (shape := self.table.compiled_request(job)).only_cores:
            held = self.levels.place(shape, self.policy)
        else:
            held = self.room.place_job(job, self.policy)
        return 0 if held is None else self.take_at(job, row, held)

    def take_at(self, job: Job, row: int, place: Any, borrowed: int = 0) -> int:
        """Take a place that has no fault for a job; return its cores: the lowest free ones, then borrowed ones."""
        self.held[row] = held = place if isinstance(place, tuple) else tuple(place)
        cores, of_nodes = 0, self.table.core_sets
        if isinstance(held, NodeAllocations):
            for count, nodes in held.by_cores.items():
                chosen = self.free & self.table.cores_of(nodes)
                if chosen.bit_count() > count * nodes.bit_count():  # else all free cores of the nodes, as usual
                    among = (one.node for one in held if nodes >> one.node & 1)
                    chosen = reduce(or_, (lowest_cores(self.free & of_nodes[node], count) for node in among))
                cores |= chosen
        else:
            each = self.table.compiled_request(job).amounts[0]
            for node, tasks, *_ in held:
                of_node, count = self.free & of_nodes[node], tasks * each
                missing = count - of_node.bit_count()
                if missing > 0:
                    of_node |= lowest_cores(borrowed & of_nodes[node], missing)
                cores |= lowest_cores(of_node, count)
        if borrowed:
            self.levels = None  # for a time, the job holds more than is free
        if self.levels is not None:
            self.levels.take(held)
            self._behind[row] = held
        else:
            self.room.take(held)
        return super().take_at(job, row, cores)

    def release(self, execution: Execution, end: float) -> None:
        """Release what an execution holds besides its cores, and record its place."""
        self.record(execution, end)
        held = self.held.pop(execution.row)
        if self.levels is not None:
            self.levels.release(held)
        if self._behind.pop(execution.row, None) is None:
            self._room.release(held)

    def moved(self, job: Job, row: int) -> Job:
        """Return a job as it runs where it is; the same object if its run time is the submitted one."""
        if not (self.table.has_speeds or job.run_times):
            return job
        time = run_time_on(job, (self.table.nodes[node] for node, *_ in self.held[row]))
        return job if time == job.run_time else job._replace(run_time=time)

    def record(self, execution: Execution, end: float | None) -> None:
        """Record the place of an execution."""
        row = execution.row
        self._record_placement((row, execution.job.job_id, self.held[row], execution.starting_time, end))

    # preemption

    def room_without(self, state: BatchState, job: Job, victims: Collection[int]) -> NodeAvailability:
        """Return what would be free for a queued job, see :meth:`NodeView.room_without`."""
        room, qos = self.room.copy(), state.qos
        if qos is None:
            return room
        jobs = {each: one.job for each, one in state.running.items()}
        jobs |= {each: one.job for each, one in state.suspended.items()}
        kept = {each: one for each, one in jobs.items() if each not in victims or qos.suspends(one)}
        for victim in victims:
            if not qos.suspends(jobs[victim]):
                room.release(self.held[victim])
        free, borrowed = qos.open_to(state, job, victims)
        for node in range(len(self.table)):
            room.free[node, 0] = self._count_on(node, free | borrowed)
        for each, one in kept.items():
            if self.table.compiled_request(one).exclusive:
                for held in self.held[each]:
                    room.free[held.node, 0] = 0
        return room

    def fits_without(self, state: BatchState, job: Job, victims: Collection[int]) -> bool:
        """Return whether a queued job could start if running jobs that it may preempt were preempted."""
        return self.room_without(state, job, victims).fits(self.table.compiled_request(job))

    def place_without(self, state: BatchState, job: Job, victims: Collection[int]) -> Any:
        """Return where a queued job could start in that case; None if there is no room."""
        return self.room_without(state, job, victims).place_job(job, self.policy)

    def count_once(self, state: BatchState) -> None:
        """Count each core of a node once: for the suspended job that owns it, not for the job that borrows it."""
        for row in dict.fromkeys((*self._whole, *state.borrowed)):
            self.levels = None
            shown = self.held.get(row)
            if shown is None:
                del self._whole[row]
                continue
            held = whole = self._whole.setdefault(row, shown)
            if row in state.borrowed:
                cores = (state.suspended.get(row) or state.running[row]).cores & ~state.borrowed[row][0]
                held = tuple(
                    one._replace(amounts=(one.amounts[0] - self._count_on(one.node, cores), *one.amounts[1:]))
                    for one in whole
                )
            else:
                del self._whole[row]
            if held != shown:
                self.room.release(shown)
                self.room.take(held)
                self.held[row] = held

    def _count_on(self, node: int, cores: int) -> int:
        """Return how many of the given cores belong to a node."""
        return (cores & self.table.core_sets[node]).bit_count()

    # outages and reservations

    def core_set_of(self, units: Iterable[int]) -> int:
        """Return the cores of units, as a bit set."""
        return core_set(self.table.core_ids(list(units)))

    def fail(self, units: list[int]) -> list[int]:
        """Note units that fail; return those that were in service."""
        self._set_down(units, down=True)
        return [node for node in units if node not in self._maintained]

    def repair(self, units: list[int]) -> list[int]:
        """Note units that are repaired; return those that are in service again."""
        self._set_down(units, down=False)
        return [node for node in units if node not in self._maintained]

    def _set_down(self, units: list[int], *, down: bool) -> None:
        """Set whether nodes are down."""
        self._room.down[units] = down
        if self.levels is not None:
            self.levels.up = core_set((~self._room.down).nonzero()[0].tolist())

    def reserve(self, number: int) -> list[int]:
        """Begin a reservation; return the nodes to take out of service, or to clear of the jobs of other users."""
        self.room.closed += (number,)
        nodes = self.table.nodes_of(number)
        if self.reservations[number].users:
            return nodes
        self._maintained.update(nodes)
        return [node for node in nodes if not self.room.down[node]]

    def end_reservation(self, number: int, now: float) -> list[int]:
        """End a reservation; return the nodes that are in service again."""
        self.room.closed = tuple(other for other in self.room.closed if other != number)
        if self.reservations[number].users:
            return []
        nodes = self.table.nodes_of(number)
        self._maintained.difference_update(nodes)
        return [node for node in nodes if not self.room.down[node]]


class NodeView:
    """Nodes as an observation shows them: their free resources, the requests of the queue, and what jobs hold.

    Parameters
    ----------
    state : BatchState
        State of the cluster to observe.
    resources : NodeResources
        Nodes of the cluster.

    Attributes
    ----------
    table : NodeTable
        Nodes of the cluster.
    policy : PlacementPolicy
        Policy that chooses nodes for a job if an answer names none.
    """

    __slots__ = ("_insertions", "_numbers", "_resources", "_state", "policy", "table")

    def __init__(self, state: BatchState, resources: NodeResources) -> None:
        self._state, self._resources = state, resources
        self.table, self.policy = resources.table, resources.policy
        self._numbers = np.full(256, -1, np.int64)  # of the requests of jobs by row, as far as they are known
        self._insertions = 0  # the requests of jobs that return to the queue may have changed

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.table)

    @property
    def room(self) -> NodeAvailability:
        """Free resources now; copy it to explore hypothetical allocations."""
        return self._resources.room

    @property
    def levels(self) -> NodeLevels | None:
        """Free cores now, if nothing else has mattered to any job so far; faster than :attr:`room`."""
        return self._resources.levels

    def compiled_requests(self) -> list[CompiledRequest]:
        """Return the compiled requests of the queued jobs, in order of arrival."""
        requests = self.table.requests
        return [requests[number] for number in self.request_numbers().tolist()]

    def request_numbers(self) -> IntArray:
        """Return the numbers of the compiled requests of the queued jobs, in order of arrival, shape (L,)."""
        rows = self._state.table_of_queue().row
        if len(rows) and (last := int(rows.max())) >= len(self._numbers):
            self._numbers = np.pad(self._numbers, (0, last), constant_values=-1)
        if self._insertions != self._state.insertions:
            self._numbers[:], self._insertions = -1, self._state.insertions
        found = self._numbers[rows]
        if len(found) and found.min() < 0:
            for row in rows[found < 0].tolist():
                self._numbers[row] = self.compiled_request(row).number
            found = self._numbers[rows]
        return found

    def least_cores(self) -> int:
        """Return how many cores the queued job with the fewest requests; 0 if none is queued."""
        columns = self.table.columns[self.request_numbers()]
        return int((columns[:, 0] * columns[:, len(self.table.resources)]).min()) if len(columns) else 0

    def compiled_request(self, row: int) -> CompiledRequest:
        """Return the compiled request of a queued job."""
        return self.table.compiled_request(self._state.queued[row])

    def allocation_of(self, row: int) -> Held:
        """Return the allocation of a running job."""
        return self._resources.held[row]

    def room_without(self, row: int, victims: Collection[int]) -> NodeAvailability:
        """Return what would be free for a queued job if running jobs that it may preempt were preempted.

        Only the cores of suspended jobs may be borrowed, and not even those of a job with exclusive nodes.

        Parameters
        ----------
        row : int
            Row of the queued job.
        victims : collection of int
            Rows of the running jobs to preempt.
        """
        return self._resources.room_without(self._state, self._state.queued[row], victims)

    def fitting(self, positions: IntArray | None = None) -> NDArray[np.bool_]:
        """Return whether queued jobs fit now.

        Parameters
        ----------
        positions : array of int, shape (n,), optional
            Positions in the queue (default: all).

        Returns
        -------
        array of bool, shape (n,)
            Whether each job fits, in the order of the positions.
        """
        numbers = self.request_numbers() if positions is None else self.request_numbers()[positions]
        different = np.bincount(numbers).nonzero()[0]
        fits = np.zeros(len(self.table.requests), np.bool_)
        fits[different] = self.room.enough_for(different)
        return fits[numbers]
