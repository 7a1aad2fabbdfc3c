"""Strict orders and backfilling on clusters with nodes, where jobs get particular nodes instead of a number of cores.

This module does for all resources of all nodes what :mod:`desim.agents.batch.backfilling` does for numbers of cores.
The cluster's placement policy chooses the nodes, for starts and for reservations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from desim.agents.batch.profile import expected_releases
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import CompiledRequest, NodeAllocation, NodeAvailability, NodeObservation, Queue, StartOnNodes

__all__ = ["NodeRoom", "easy_on_nodes", "refuse_nodes", "simple_on_nodes", "strict_on_nodes"]


def refuse_nodes(simulation_info: Mapping[str, Any], name: str, instead: str) -> None:
    """Raise an error if the cluster has nodes; called in the ``reset`` of agents that only count cores.

    Parameters
    ----------
    simulation_info : mapping
        Description of the problem that agents get at the beginning of a run.
    name : str
        Name of the agent.
    instead : str
        Name of the most similar agent that supports nodes.

    Raises
    ------
    InvalidConfiguration
        If the cluster has nodes.
    """
    if simulation_info.get("num_nodes"):
        raise InvalidConfiguration(f"{name}: got a cluster with nodes, expected one without; try {instead}")


class NodeRoom:
    """Free resources while starts are being decided, and the requests that did not fit.

    If nodes have advance reservations, a job fits only on nodes whose next reservation begins after the job's requested
    time.

    Parameters
    ----------
    observation : NodeObservation
        Observation of the current decision.

    Attributes
    ----------
    room : NodeAvailability
        Free resources, without those of the jobs in ``starts``.
    starts : list of StartOnNodes
        Jobs to start, with their nodes.
    """

    def __init__(self, observation: NodeObservation) -> None:
        self.room = observation.room.copy()
        self.policy = observation.policy
        self.starts: list[StartOnNodes] = []
        self._time, self._reservations = observation.time, bool(observation.reservations)
        self._failed: set[object] = set()  # requests that did not fit: free resources only shrink

    def look(self, requested: float = 0.0) -> None:
        """Close the nodes with an advance reservation within the given time from now, in seconds."""
        if self._reservations:
            self.room.closed = self.room.table.closed_between(self._time, self._time + requested)

    def start(
        self, job_id: int, shape: CompiledRequest, requested: float, where: Sequence[tuple[int, int]] | None = None
    ) -> tuple[NodeAllocation, ...] | None:
        """Start a job if it fits for its requested time, on given nodes if any; return its allocation or None."""
        key: object = shape
        if self._reservations:
            self.look(requested)
            key = shape, self.room.closed
        if key in self._failed:
            return None
        held = self.room.place_on(shape, where, self.policy) if where else self.room.place(shape, self.policy)
        if held is None:
            if not where:
                self._failed.add(key)
        else:
            self.room.take(held)
            self.starts.append(StartOnNodes(job_id, held))
        return held


def _in_order(observation: NodeObservation, order: np.ndarray) -> list[tuple[int, CompiledRequest, float]]:
    """Return job id, request and requested time of the queued jobs in a given order of positions."""
    queue: Queue = observation.queue
    shapes = observation.compiled_requests()
    job_ids, times = queue.job_id[order].tolist(), queue.requested_time[order].tolist()
    return list(zip(job_ids, map(shapes.__getitem__, order.tolist()), times, strict=True))


def _hopeful(
    now: NodeRoom, waiting: Sequence[tuple[int, CompiledRequest, float]]
) -> Iterator[tuple[int, CompiledRequest, float]]:
    """Yield the waiting jobs of which at least one task fits on some node; free resources only shrink."""
    shapes = list(dict.fromkeys(map(itemgetter(1), waiting)))
    if not shapes:
        return iter(())
    now.look()
    hopeful = {shape for shape, takes in zip(shapes, now.room.take_one(shapes).tolist(), strict=True) if takes}
    return (entry for entry in waiting if entry[1] in hopeful)


def strict_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[StartOnNodes]:
    """Start jobs in order until one does not fit.

    Parameters
    ----------
    observation : NodeObservation
        Observation with L queued jobs.
    order : array of int, shape (L,)
        Positions of the queued jobs, first to last.

    Returns
    -------
    list of StartOnNodes
        The jobs to start.
    """
    room = NodeRoom(observation)
    requested_times = observation.queue.requested_time
    job_ids = observation.queue.job_id[order].tolist()
    for position, job_id in zip(order.tolist(), job_ids, strict=True):  # lazily, since few are examined as a rule
        if room.start(job_id, observation.compiled_request(job_id), float(requested_times[position])) is None:
            break
    return room.starts


def simple_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[StartOnNodes]:
    """Start every job that fits, in order, without reservations.

    Parameters
    ----------
    observation : NodeObservation
        Observation with L queued jobs.
    order : array of int, shape (L,)
        Positions of the queued jobs, first to last.

    Returns
    -------
    list of StartOnNodes
        The jobs to start.
    """
    room = NodeRoom(observation)
    for job_id, shape, requested in _hopeful(room, _in_order(observation, order)):
        room.start(job_id, shape, requested)
    return room.starts


def easy_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[StartOnNodes]:
    """Start jobs in order while they fit, and later jobs that do not delay the first blocked one.

    The first job that does not fit gets a reservation. It begins as soon as enough running jobs have ended, by their
    requested times, on the nodes that the placement policy chooses then. A later job that ends before the reservation
    may start wherever the policy puts it. A job that ends later may only use resources that are free now and not part
    of the reservation.

    Parameters
    ----------
    observation : NodeObservation
        Observation with L queued jobs.
    order : array of int, shape (L,)
        Positions of the queued jobs, first to last.

    Returns
    -------
    list of StartOnNodes
        The jobs to start.
    """
    now = NodeRoom(observation)
    time, ends = observation.time, []
    waiting = _in_order(observation, order)
    blocked = len(waiting)
    for place, (job_id, shape, requested) in enumerate(waiting):
        held = now.start(job_id, shape, requested)
        if held is None:
            blocked = place
            break
        ends.append((time + requested, held))
    later = list(_hopeful(now, waiting[blocked + 1 :]))
    if not later:
        return now.starts
    shadow, beyond = _reserve(observation, now.room.copy(), ends, *waiting[blocked][1:])
    unreserved: NodeAvailability | None = None
    too_long: set[tuple[CompiledRequest, tuple[int, ...]]] = set()  # requests that do not fit beside the reservation
    for job_id, shape, requested in later:
        if time + requested <= shadow:
            if now.start(job_id, shape, requested) is not None:
                unreserved = None
            continue
        now.look(requested)
        key = shape, now.room.closed
        if key not in too_long:
            if unreserved is None:
                unreserved = now.room.least_of(beyond)
            unreserved.closed = now.room.closed
            held = unreserved.place(shape, now.policy)
            if held is None:
                too_long.add(key)
            else:
                for room in (now.room, beyond, unreserved):
                    room.take(held)
                now.starts.append(StartOnNodes(job_id, held))
    return now.starts


def _reserve(
    observation: NodeObservation,
    room: NodeAvailability,
    ends: list[tuple[float, tuple[NodeAllocation, ...]]],
    blocked: CompiledRequest,
    requested: float,
) -> tuple[float, NodeAvailability]:
    """Reserve for a blocked job; return its start and the resources that are free beside it then.

    If nodes are down and the job may never start, nothing is reserved and the start is infinite.
    """
    times, _, job_ids = (column.tolist() for column in expected_releases(observation))
    releases: Iterable[tuple[float, tuple[NodeAllocation, ...]]] = zip(
        times, map(observation.allocation_of, job_ids), strict=True
    )
    more = [*ends, *((reservation.end, ()) for reservation in observation.reservations)]
    if more:
        releases = sorted([*releases, *more], key=itemgetter(0))
    start = room.release_until_fits(blocked, releases, requested)
    place = room.place(blocked, observation.policy) if start < np.inf else None
    if place is not None:
        room.take(place)
    return start, room
