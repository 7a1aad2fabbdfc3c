"""The batch cluster of nodes with resources: what jobs hold where, and what becomes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import simpy

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.cores import core_set, lowest_cores
from desim.problems.batch.job import Job, Start
from desim.problems.batch.moldable import StartWithSize
from desim.problems.batch.node_availability import NodeAvailability, NodeObservation, StartOnNodes
from desim.problems.batch.nodes import CompiledRequest, Node, NodeAllocation, NodeJob, NodeTable, Request, run_time_on
from desim.problems.batch.observation import Execution
from desim.problems.batch.placement import PlacementPolicy, placement_of
from desim.problems.batch.preemption import StartPreempting
from desim.problems.batch.reservations import AdvanceReservation
from desim.processes.outages import FailureCounts

__all__ = ["NodeCluster"]


class NodeCluster(BatchCluster):
    """A :class:`BatchCluster` of nodes; the same arguments, with ``nodes`` in the place of ``num_cores``.

    An answer is the id of a queued job, which the placement policy of the cluster then puts on nodes, or a
    :class:`StartOnNodes`, which names them; otherwise decisions are those of a :class:`BatchCluster`. A plain
    :class:`Job` requests a task of one core for each of its cores. Cores are numbered node after node. A job runs for
    as long as on the slowest of its nodes, by their speeds and by its run times on models of GPUs; what it requests is
    a limit on all of them. What fails and is repaired, by the processes of :mod:`desim.processes.outages`, are nodes.

    Parameters
    ----------
    jobs : iterable of Job
        With requests, if they are of the class :class:`NodeJob`.
    num_cores : None
        The nodes say how many.
    nodes : iterable of Node
        At least one.
    placement : str or PlacementPolicy, optional
        Which nodes jobs get of those that have room, by default the first ones.
    **options : object
        As of a :class:`BatchCluster`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    constants: ClassVar[tuple[type, ...]] = (
        *BatchCluster.constants,
        NodeJob,
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
            raise InvalidConfiguration("a batch cluster has num_cores or nodes, not both")
        self.table = nodes if isinstance(nodes, NodeTable) else NodeTable(nodes)
        self.placement = placement_of(placement or "first-fit")
        if reservations := tuple(options.pop("reservations", ())):
            self.table = NodeTable(self.table.nodes, reservations)
        super().__init__(jobs, self.table.num_cores, **options)
        self.reservations = self.table.reservations

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without the jobs, as plain values."""
        description = super().describe() | {"num_nodes": len(self.table), "placement": self.placement.name}
        if self.reservations:
            description["node_reservations"] = len(self.reservations)
        if user_reservations := sum(bool(reservation.users) for reservation in self.reservations):
            description["user_reservations"] = user_reservations
        return description

    # -- dynamics of one simulation, on the bound copy ------------------------------------------

    def begin(self) -> None:
        """Set up the empty cluster and start the scheduler and the arrivals."""
        self._room = NodeAvailability(self.table)
        self._empty = NodeAvailability(self.table)
        self._held: dict[int, tuple[NodeAllocation, ...]] = {}  # what running jobs hold, by id
        self._elsewhere: dict[int, Job] = {}  # as submitted, the running jobs that run for another time where they are
        self._saved_of: dict[int, float] = {}  # seconds that jobs which checkpoints have kept would have run there
        self._is_possible: dict[CompiledRequest, bool] = {}  # whether the empty cluster has room
        self._borrowed_from: dict[
            int, tuple[NodeAllocation, ...]
        ] = {}  # what suspended jobs and those on their cores hold in all
        self._maintained: set[int] = set()  # nodes that are down for reservations, whether they have failed or not
        super().begin()
        self.observation = self._decision.observation = NodeObservation(
            self._state, self._room, self.placement, self._held
        )
        self.failures = FailureCounts("node", len(self.table))
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
        """Record a job when nothing of it will change any more, its size included, and what it requests."""
        job, number = row[:2]
        self._record_request((number, job.job_id, self.table.compiled_request(job).request))
        self._record_last(row)

    # jobs come

    def _take(self, job: Job) -> None:
        """Put a job that has arrived into the queue, unless the empty cluster has no room for it."""
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
            self._turn_away(job, f"fits on no nodes of the cluster, even if it is empty: {self._empty.misfit(shape)}")

    # decisions are carried out

    def _carry_out(self, action: Any) -> bool:
        """Start the job that an action names, or note what to wait for; return whether that is possible."""
        try:
            job = self._state.queued.get(action)
        except TypeError:  # not hashable, so no job id
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
        """Return where the policy of the cluster would put a job; None if it has no room."""
        try:
            return room.place(self.table.compiled_request(job), self.placement)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"time {self.env.now}: job {job.job_id}: {error}") from error

    def _place(self, action: Any) -> bool:
        """Start a job on the nodes that the action names; return whether it does, and may."""
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
            return f"{action!r} names cores, want a StartOnNodes that names nodes, or the id of a job"
        job = self._state.queued.get(action.job_id if isinstance(action, StartOnNodes) else action)
        if job is None:
            return super()._explain(action)
        shape = self.table.compiled_request(job)
        if isinstance(action, StartOnNodes):
            return f"job {job.job_id} cannot start: {self._room.fault(shape, action.held)}"
        return f"job {job.job_id} cannot start, no nodes have room for {shape.request} now"

    def _has_room(self, job: Job) -> bool:
        """Tell whether a job could start now."""
        return self._room.fits(self.table.compiled_request(job))

    # jobs start and end

    def _start_on(self, job: Job, held: Sequence[NodeAllocation]) -> None:
        """Start a job on nodes that have room."""
        held = tuple(held)
        self._start_there(job, held, self._cores_on(job, held, self._state.free, 0))

    def _cores_on(self, job: Job, held: Sequence[NodeAllocation], free: int, borrowed: int) -> int:
        """Return the cores that a job gets on nodes: the lowest of those that are free, then of those that are lent."""
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
        """Start a job on nodes, on these of their cores."""
        self._room.take(held)
        self._held[job.job_id] = held
        if self.table.has_speeds or getattr(job, "run_times", None):
            time = run_time_on(job, (self.table.nodes[node] for node, *_ in held))
            if time != job.run_time:
                self._elsewhere[job.job_id] = job
                job = job._replace(run_time=time)
            if job.job_id in self._saved:  # the same share of the work takes another time here
                self._saved[job.job_id] = min(time, self._saved[job.job_id] * (time / self._saved_of[job.job_id]))
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
        if execution.job.job_id in self._saved:
            self._saved_of[execution.job.job_id] = execution.job.run_time

    def _as_submitted(self, job: Job) -> Job:
        """Return a job that has been cut with the run time that it was submitted with."""
        return self._elsewhere.get(job.job_id, job)

    def _vacate(self, execution: Execution, end: float) -> None:
        """Give back what an execution held, and record where it was."""
        job_id = execution.job.job_id
        held = self._held.pop(job_id)
        self._room.release(held)
        self._record_placement((self._numbers[job_id], job_id, held, execution.starting_time, end))

    # jobs preempt others

    def _place_without(self, job: Job, victims: Sequence[int]) -> Any:
        assert self.qos is not None
        room = self.observation.room_without(job.job_id, victims)  # type: ignore[attr-defined]  # of nodes
        held = self._placed(job, room)
        if held is None:
            return None
        return held, self._cores_on(job, held, *self.qos.open_to(self._state, job.job_id, victims))

    def _start_preempting(self, job: Job, place: Any) -> None:
        self._start_there(job, *place)

    def _suspend(self, execution: Execution) -> None:
        job_id, start = execution.job.job_id, execution.starting_time
        self._record_placement((self._numbers[job_id], job_id, self._held[job_id], start, self.env.now))
        super()._suspend(execution)

    def _tell_lent(self) -> None:
        """Let each core of a node count once: for the suspended job whose it is, not for one that runs on it."""
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
        """Return how many of some cores belong to a node."""
        return ((cores >> self.table.first_core[node]) & ((1 << self.table.nodes[node].cores) - 1)).bit_count()

    def close(self, time: float) -> None:
        """Record the jobs that are running or queued when the run ends."""
        for job_id, execution in self._state.running.items():
            held = self._held[job_id]
            self._record_placement((self._numbers[job_id], job_id, held, execution.starting_time, None))
        super().close(time)

    # nodes fail and come back

    def on_failure(self, units: int, fresh: list[int]) -> None:
        """Interrupt what runs on nodes that fail."""
        self._room.down[fresh] = True
        self._lose(node for node in fresh if node not in self._maintained)

    def on_repair(self, units: int, fresh: list[int]) -> None:
        """Let nodes be used again."""
        self._room.down[fresh] = False
        self._regain(node for node in fresh if node not in self._maintained)

    def _lose(self, nodes: Iterable[int]) -> None:
        cores = self.table.core_ids(list(nodes))
        super().on_failure(core_set(cores), cores)

    def _regain(self, nodes: Iterable[int]) -> None:
        cores = self.table.core_ids(list(nodes))
        super().on_repair(core_set(cores), cores)

    def _cores_of(self, reservation: AdvanceReservation) -> int:
        """Return how many cores the nodes of a reservation have."""
        return sum(self.table.nodes[node].cores for node in self.table.nodes_of(self.reservations.index(reservation)))

    def _open_reservation(self, event: simpy.Event) -> None:
        """Take the nodes of a reservation down, or leave them to the users whom it admits; jobs of others are cut."""
        number: Any = event.value
        nodes, users = self.table.nodes_of(number), self.reservations[number].users
        self._room.closed += (number,)
        if not users:
            self._maintained.update(nodes)
            self._lose(node for node in nodes if not self._room.down[node])
            return
        running = reversed(self._state.running.values())  # as when nodes fail
        others = [execution for execution in running if execution.job.user_id not in users]
        for execution in others:
            if any(held.node in nodes for held in self._held[execution.job.job_id]):
                self._interrupt(execution)
        for one in reversed(list(self._state.suspended.values())):
            if one.job.user_id not in users and any(held.node in nodes for held in self._held[one.job.job_id]):
                self._interrupt(self._resumed(one, 0.0))
        self._open_cycle()

    def _close_reservation(self, event: simpy.Event) -> None:
        """Bring the nodes of a reservation back, or leave them to everybody."""
        number: Any = event.value
        nodes, reservation = self.table.nodes_of(number), self.reservations[number]
        self._forget_reservation(reservation)
        self._room.closed = tuple(other for other in self._room.closed if other != number)
        if reservation.users:
            self._open_cycle()
            return
        self._maintained.difference_update(nodes)
        self._regain(node for node in nodes if not self._room.down[node])
