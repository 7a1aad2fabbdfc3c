"""Observations of a cluster of nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.job import Job
from desim.problems.batch.nodes import CompiledRequest, NodeAllocation
from desim.problems.batch.observation import BatchObservation, BatchState
from desim.problems.batch.placement import PlacementPolicy
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.node_plan import NodePlan
from desim.problems.batch.resources.node_profile import NodeProfile

__all__ = ["NodeAvailability", "NodeObservation", "StartOnNodes"]

IntArray = NDArray[np.int64]


class NodeObservation(BatchObservation):
    """Observation at a decision: the queue, the running jobs and the free resources of the nodes.

    Parameters
    ----------
    state : BatchState
        State of the cluster to observe.
    room : NodeAvailability
        Free resources of the nodes.
    policy : PlacementPolicy
        Placement policy of the cluster.
    held : mapping of int to tuple of NodeAllocation
        Allocations of the running jobs, by id.

    Attributes
    ----------
    room : NodeAvailability
        Free resources now; copy it to explore hypothetical allocations.
    table : NodeTable
        Nodes of the cluster.
    policy : PlacementPolicy
        Policy that chooses nodes for a job if an answer names none.
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
        self._shapes: dict[int, tuple[Job, CompiledRequest]] = {}  # cache for queued jobs, and some that have started

    def compiled_requests(self) -> list[CompiledRequest]:
        """Return the compiled requests of the queued jobs, in order of arrival."""
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
        """Return the compiled request of a queued job."""
        return self.table.compiled_request(self._state.queued[job_id])

    def request_at(self, position: int) -> CompiledRequest:
        """Return the compiled request of the job at a position in the queue."""
        return self.compiled_request(self.queue.job_at(position)[0])

    def plan(self, *, specific_cores: bool = False, around_reservations: bool = True) -> NodePlan:
        """Return a new plan on the nodes; see :meth:`BatchObservation.plan`."""
        return NodePlan(self, around_reservations=around_reservations)

    def profile(self, *, specific_cores: bool = False) -> NodeProfile:
        """Return a new profile of the nodes; see :meth:`BatchObservation.profile`."""
        return NodeProfile.of_running(self)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the cluster."""
        return len(self.table)

    def allocation_of(self, job_id: int) -> tuple[NodeAllocation, ...]:
        """Return the allocation of a running job."""
        return self._held[job_id]

    def room_without(self, job_id: int, victims: Collection[int]) -> NodeAvailability:
        """Return what would be free for a queued job if running jobs that it may preempt were preempted.

        Suspended jobs lend only their cores; a job with exclusive nodes does not even lend these.

        Parameters
        ----------
        job_id : int
            Id of the queued job.
        victims : collection of int
            Ids of the running jobs to preempt.
        """
        state, room, qos = self._state, self.room.copy(), self._state.qos
        if qos is None:
            return room
        kept = [
            each for each in (*state.running, *state.suspended) if each not in victims or qos.suspends(self._job(each))
        ]
        for victim in victims:
            if not qos.suspends(self._job(victim)):
                room.release(self._held[victim])
        free, borrowed = qos.open_to(state, state.queued[job_id], victims)
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
        """Return whether a queued job could start if running jobs that it may preempt were preempted.

        Parameters
        ----------
        job_id : int
            Id of the queued job.
        victims : collection of int
            Ids of the running jobs to preempt.
        """
        return self.room_without(job_id, victims).fits(self.compiled_request(job_id))

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
        shapes = self.compiled_requests()
        if positions is not None:
            shapes = [shapes[position] for position in positions.tolist()]
        fits = {shape: self.room.fits(shape) for shape in dict.fromkeys(shapes)}
        return np.array([fits[shape] for shape in shapes], np.bool_)
