"""Batch cluster of nodes with resources: allocation, preemption, outages and reservations of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import simpy

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.cores import core_set, lowest_cores
from desim.problems.batch.job import Job, Start, StartWithSize
from desim.problems.batch.node_availability import NodeAvailability, NodeObservation, StartOnNodes
from desim.problems.batch.nodes import CompiledRequest, Node, NodeAllocation, NodeTable, run_time_on
from desim.problems.batch.observation import Execution
from desim.problems.batch.placement import PlacementPolicy, placement_of
from desim.problems.batch.preemption import StartPreempting
from desim.problems.batch.request import Request
from desim.problems.batch.reservations import AdvanceReservation
from desim.processes.outages import FailureCounts

__all__ = ["NodeCluster"]


class NodeCluster(BatchCluster):
    """Batch cluster of nodes with resources: a :class:`BatchCluster` with ``nodes`` instead of ``num_cores``.

    An agent answers with the id of a queued job, for which the cluster's placement policy chooses nodes, or with a
    :class:`StartOnNodes`, which names the nodes. Otherwise decisions are those of a :class:`BatchCluster`. A job
    without a request counts as one task per requested core, with one core each. Cores are numbered consecutively node
    by node. The run time of a job is that on the slowest of its nodes, given their speeds and the job's run times by
    GPU model. Its requested time is a limit on all nodes. The processes of :mod:`desim.processes.outages` let nodes
    fail and repair them.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission, with requests for nodes.
    num_cores : None
        Not allowed: the nodes determine the number of cores.
    nodes : iterable of Node
        Nodes of the cluster, at least one.
    placement : str or PlacementPolicy, optional
        Policy that chooses among the nodes with room for a job (default: ``"first-fit"``, the first ones).
    **options : object
        Other arguments of :class:`BatchCluster`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    constants: ClassVar[tuple[type, ...]] = (
        *BatchCluster.constants,
        NodeTable,
        Request,
        CompiledRequest,
        NodeAllocation,
    )

    def __init__(
        self,
        jobs: Iterable[Job],
        num_cores: int | None = None,
        *,
        nodes: Iterable[Node] | NodeTable,
        placement: str | PlacementPolicy | None = None,
        **options: Any,
    ) -> None:
        if num_cores is not None:
            raise InvalidConfiguration("nodes: got num_cores as well, expected only one of them")
        self.table = nodes if isinstance(nodes, NodeTable) else NodeTable(nodes)
        self.placement = placement_of(placement or "first-fit")
        if reservations := tuple(options.pop("reservations", ())):
            self.table = NodeTable(self.table.nodes, reservations)
        super().__init__(jobs, self.table.num_cores, **options)
        self.reservations = self.table.reservations

    def describe(self) -> dict[str, Any]:
        """Return the configuration without the jobs, as JSON-compatible values."""
        description = super().describe() | {"num_nodes": len(self.table), "placement": self.placement.name}
        if self.reservations:
            description["node_reservations"] = len(self.reservations)
        if user_reservations := sum(bool(reservation.users) for reservation in self.reservations):
            description["user_reservations"] = user_reservations
        return description

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster, and start the scheduler and the arrivals."""
        self._room = NodeAvailability(self.table)
        self._empty = NodeAvailability(self.table)
        self._held: dict[int, tuple[NodeAllocation, ...]] = {}  # node allocations of running jobs, by id
        self._elsewhere: dict[int, Job] = {}  # running jobs as submitted, if their run time differs on their nodes
        self._is_possible: dict[CompiledRequest, bool] = {}  # whether a request fits on the empty cluster
        self._borrowed_from: dict[
            int, tuple[NodeAllocation, ...]
        ] = {}  # full allocations of suspended jobs and of borrowing jobs
        self._maintained: set[int] = set()  # nodes that are down for reservations, whether or not they have failed
        super().begin()
        self.observation = self._decision.observation = NodeObservation(
            self._state, self._room, self.placement, self._held
        )
        self.failures = FailureCounts("node", len(self.table), [node.name for node in self.table.nodes])
        tables = self.simulation.records.tables
        self._record_last = self._record_job
        self._record_job = self._record_with_request
        self._record_request = tables["requests"].append
        self._record_placement = tables["placements"].append
        for number, node in enumerate(self.table.nodes):
            tables["nodes"].append((number, node, self.table.first_core[number]))
        for number, reservation in enumerate(self.reservations):
            for of_reservation in self.table.nodes_of(number):
                tables["reservation_nodes"].append((number, of_reservation))
            for user in reservation.users:
                tables["reservation_users"].append((number, user))

    def _record_with_request(self, row: tuple[Any, ...]) -> None:
        """Record a job and its request once nothing of it, including its size, can change any more."""
        job, number = row[:2]
        self._record_request((number, job.job_id, self.table.compiled_request(job).request))
        self._record_last(row)

    # arrivals

    def _take(self, job: Job) -> None:
        """Put a job that has arrived into the queue, unless it does not fit on the empty cluster."""
        try:
            shape = self.table.compiled_request(job)
        except WorkloadError as error:
            raise WorkloadError(f"job {job.job_id}: {error}") from error
        possible = self._is_possible.get(shape)
        if possible is None:
            possible = self._is_possible[shape] = self._empty.fits(shape)
        if possible:
            super()._take(job)
        else:
            self._arrived += 1
            self._turn_away(job, f"does not fit on the nodes, even if all are free: {self._empty.misfit(shape)}")

    # scheduling cycles

    def _carry_out(self, action: Any) -> bool:
        """Start the job that an action names, or store the wait condition; return whether the action is feasible."""
        try:
            job = self._state.queued.get(action)
        except TypeError:  # unhashable, so not a job id
            return self._refuse(action)
        if job is None:
            return (
                self._wait(action)
                or self._place(action)
                or self._mold(action)
                or self._preempt(action)
                or self._refuse(action)
            )
        held = self._placed(job, self._room)
        if held is None:
            return self._refuse(action)
        self._start_on(job, held)
        return True

    def _placed(self, job: Job, room: NodeAvailability) -> tuple[NodeAllocation, ...] | None:
        """Return the allocation that the placement policy chooses for a job, or None if it does not fit."""
        try:
            return room.place(self.table.compiled_request(job), self.placement)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"time {self.env.now}: job {job.job_id}: {error}") from error

    def _place(self, action: Any) -> bool:
        """Start a job on the nodes that the action names; return whether it is a feasible :class:`StartOnNodes`."""
        if type(action) is not StartOnNodes:
            return False
        job = self._state.queued.get(action.job_id)
        if job is None or self._room.fault(self.table.compiled_request(job), action.held):
            return False
        self._start_on(job, action.held)
        return True

    def _explain(self, action: Any) -> str:
        """Return why an action cannot be carried out."""
        if isinstance(action, StartWithSize | StartPreempting):
            return super()._explain(action)
        if isinstance(action, Start):
            return f"{action!r} names cores, but the cluster has nodes; try a Place, or return the id of the job"
        job = self._state.queued.get(action.job_id if isinstance(action, StartOnNodes) else action)
        if job is None:
            return super()._explain(action)
        shape = self.table.compiled_request(job)
        if isinstance(action, StartOnNodes):
            return f"job {job.job_id} cannot start: {self._room.fault(shape, action.held)}"
        return f"job {job.job_id} cannot start: {shape.request} does not fit on the nodes now"

    def _has_room(self, job: Job) -> bool:
        """Return whether a job could start now."""
        return self._room.fits(self.table.compiled_request(job))

    # jobs start and end

    def _start_on(self, job: Job, held: Sequence[NodeAllocation]) -> None:
        """Start a job on nodes with enough free resources."""
        held = tuple(held)
        self._start_there(job, held, self._cores_on(job, held, self._state.free, 0))

    def _cores_on(self, job: Job, held: Sequence[NodeAllocation], free: int, borrowed: int) -> int:
        """Return the cores for a job on given nodes: the lowest free ones, then the lowest borrowed ones."""
        cores, each = 0, self.table.compiled_request(job).amounts[0]
        for node, tasks, *_ in held:
            first, mask = self.table.first_core[node], (1 << self.table.nodes[node].cores) - 1
            of_node = (free >> first) & mask
            missing = tasks * each - of_node.bit_count()
            if missing > 0:
                of_node |= lowest_cores((borrowed >> first) & mask, missing)
            cores |= lowest_cores(of_node, tasks * each) << first
        return cores

    def _start_there(self, job: Job, held: tuple[NodeAllocation, ...], cores: int) -> None:
        """Start a job on the given nodes and cores."""
        self._room.take(held)
        self._held[job.job_id] = held
        if self.table.has_speeds or job.run_times:
            time = run_time_on(job, (self.table.nodes[node] for node, *_ in held))
            if time != job.run_time:
                self._elsewhere[job.job_id] = job
                job = job._replace(run_time=time)
            if job.job_id in self._past:  # the same share of the work takes a different time on these nodes
                self._past[job.job_id].move(time)
        self._start(job, cores)

    def _complete(self, execution: Execution) -> None:
        self._vacate(execution, execution.starting_time + execution.duration)
        if self._elsewhere:
            self._elsewhere.pop(execution.job.job_id, None)
        super()._complete(execution)

    def _interrupt(self, execution: Execution, outcome: str = "") -> None:
        self._vacate(execution, self.env.now)
        super()._interrupt(execution, outcome)
        self._elsewhere.pop(execution.job.job_id, None)

    def _speed_of(self, execution: Execution) -> float:
        """Return the seconds of work, in terms of the submitted run time, that a job does per second on its nodes."""
        there, submitted = execution.job.run_time, self._as_submitted(execution.job).run_time
        return submitted / there if submitted and there else 1.0

    def _as_submitted(self, job: Job) -> Job:
        """Return an interrupted job with the run time with which it was submitted."""
        return self._elsewhere.get(job.job_id, job)

    def _vacate(self, execution: Execution, end: float) -> None:
        """Release the nodes of an execution, and record its placement."""
        job_id = execution.job.job_id
        held = self._held.pop(job_id)
        self._room.release(held)
        self._record_placement((self._numbers[job_id], job_id, held, execution.starting_time, end))

    # preemption

    def _place_without(self, job: Job, victims: Sequence[int]) -> Any:
        assert self.qos is not None
        room = self.observation.room_without(job.job_id, victims)  # type: ignore[attr-defined]  # of nodes
        held = self._placed(job, room)
        if held is None:
            return None
        return held, self._cores_on(job, held, *self.qos.open_to(self._state, job, victims))

    def _start_preempting(self, job: Job, place: Any) -> None:
        self._start_there(job, *place)

    def _suspend(self, execution: Execution) -> None:
        job_id, start = execution.job.job_id, execution.starting_time
        self._record_placement((self._numbers[job_id], job_id, self._held[job_id], start, self.env.now))
        super()._suspend(execution)

    def _tell_lent(self) -> None:
        """Count each core of a node once: for the suspended job that owns it, not for the job that borrows it."""
        super()._tell_lent()
        state = self._state
        for job_id in dict.fromkeys((*self._borrowed_from, *state.borrowed)):
            shown = self._held.get(job_id)
            if shown is None:
                del self._borrowed_from[job_id]
                continue
            held = whole = self._borrowed_from.setdefault(job_id, shown)
            if job_id in state.borrowed:
                cores = (state.suspended.get(job_id) or state.running[job_id]).cores & ~state.borrowed[job_id][0]
                held = tuple(
                    one._replace(amounts=(one.amounts[0] - self._count_on(one.node, cores), *one.amounts[1:]))
                    for one in whole
                )
            else:
                del self._borrowed_from[job_id]
            if held != shown:
                self._room.release(shown)
                self._room.take(held)
                self._held[job_id] = held

    def _count_on(self, node: int, cores: int) -> int:
        """Return how many of the given cores belong to a node."""
        return ((cores >> self.table.first_core[node]) & ((1 << self.table.nodes[node].cores) - 1)).bit_count()

    def close(self, time: float) -> None:
        """Record the jobs that are running or queued when the run ends."""
        for job_id, execution in self._state.running.items():
            held = self._held[job_id]
            self._record_placement((self._numbers[job_id], job_id, held, execution.starting_time, None))
        super().close(time)

    # outages

    def on_failure(self, units: list[int]) -> None:
        """Interrupt the jobs that run on nodes that fail."""
        self._room.down[units] = True
        self._lose([node for node in units if node not in self._maintained])

    def on_repair(self, units: list[int]) -> None:
        """Return repaired nodes to service."""
        self._room.down[units] = False
        self._regain([node for node in units if node not in self._maintained])

    def _lose(self, nodes: list[int]) -> None:
        if nodes:
            self._take_down(core_set(self.table.core_ids(nodes)))
            self.emit("outage", self.failures.ids(nodes))

    def _regain(self, nodes: list[int]) -> None:
        if nodes:
            self._bring_up(core_set(self.table.core_ids(nodes)))
            self.emit("repair", self.failures.ids(nodes))

    def _cores_of(self, reservation: AdvanceReservation) -> int:
        """Return the number of cores of the nodes of a reservation."""
        return sum(self.table.nodes[node].cores for node in self.table.nodes_of(self.reservations.index(reservation)))

    def _open_reservation(self, event: simpy.Event) -> None:
        """Take the nodes of a reservation out of service, or reserve them for its users; interrupt other jobs."""
        number: Any = event.value
        nodes, users = self.table.nodes_of(number), self.reservations[number].users
        self._room.closed += (number,)
        if not users:
            self._maintained.update(nodes)
            self._lose([node for node in nodes if not self._room.down[node]])
            self._open_cycle()  # even if these nodes had failed before
            return
        running = reversed(self._state.running.values())  # same order as when nodes fail
        others = [execution for execution in running if execution.job.user_id not in users]
        for execution in others:
            if any(held.node in nodes for held in self._held[execution.job.job_id]):
                self._interrupt(execution)
        for one in reversed(list(self._state.suspended.values())):
            if one.job.user_id not in users and any(held.node in nodes for held in self._held[one.job.job_id]):
                self._interrupt(self._resumed(one, 0.0))
        self._open_cycle()

    def _close_reservation(self, event: simpy.Event) -> None:
        """End a reservation: return its nodes to service, or open them to all users."""
        number: Any = event.value
        nodes, reservation = self.table.nodes_of(number), self.reservations[number]
        self._forget_reservation(reservation)
        self._room.closed = tuple(other for other in self._room.closed if other != number)
        if not reservation.users:
            self._maintained.difference_update(nodes)
            self._regain([node for node in nodes if not self._room.down[node]])
        self._open_cycle()
