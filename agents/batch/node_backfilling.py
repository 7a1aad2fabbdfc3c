"""The orders and the backfilling of the queue where cores belong to nodes: jobs get nodes, not a number of cores.

What :mod:`desim.agents.batch.backfilling` does with counts of cores is done here with all resources of all nodes. Where
jobs go, now and in reservations, is up to the placement policy of the cluster.
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
    """Raise an error if a run is on nodes: for the ``reset`` of agents that count cores.

    Parameters
    ----------
    simulation_info : mapping
        What an agent is told of the run.
    name : str
        The agent's.
    instead : str
        An agent that knows nodes and comes next to it.

    Raises
    ------
    InvalidConfiguration
        If the cluster's cores belong to nodes.
    """
    if simulation_info.get("num_nodes"):
        raise InvalidConfiguration(f"{name} counts cores and knows no nodes; on nodes use {instead}")


class NodeRoom:
    """What is still free while somebody decides which jobs start, and who has found no room so far.

    Where nodes have reservations, a job has room only on nodes that it leaves before any begins, by its requested time.

    Parameters
    ----------
    observation : NodeObservation
        The moment.

    Attributes
    ----------
    room : NodeAvailability
        What is free now, less what the jobs hold that are to start.
    starts : list of StartOnNodes
        Those jobs.
    """

    def __init__(self, observation: NodeObservation) -> None:
        self.room = observation.room.copy()
        self.policy = observation.policy
        self.starts: list[StartOnNodes] = []
        self._time, self._reservations = observation.time, bool(observation.reservations)
        self._failed: set[object] = set()  # what has no room now has none later: room only shrinks

    def look(self, requested: float = 0.0) -> None:
        """Close the nodes that have a reservation between now and a requested time from now, in seconds."""
        if self._reservations:
            self.room.closed = self.room.table.closed_between(self._time, self._time + requested)

    def start(
        self, job_id: int, shape: CompiledRequest, requested: float, where: Sequence[tuple[int, int]] | None = None
    ) -> tuple[NodeAllocation, ...] | None:
        """Let a job start if it has room for a requested time, where it wants to if it says so; return what it gets."""
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
    """Return id, shape and requested time of the queued jobs in an order of their positions."""
    queue: Queue = observation.queue
    shapes = observation.compiled_requests()
    job_ids, times = queue.job_id[order].tolist(), queue.requested_time[order].tolist()
    return list(zip(job_ids, map(shapes.__getitem__, order.tolist()), times, strict=True))


def _hopeful(
    now: NodeRoom, waiting: Sequence[tuple[int, CompiledRequest, float]]
) -> Iterator[tuple[int, CompiledRequest, float]]:
    """Yield the waiting jobs for which some node has room for a task: nobody else can start, as room only shrinks."""
    shapes = list(dict.fromkeys(map(itemgetter(1), waiting)))
    if not shapes:
        return iter(())
    now.look()
    hopeful = {shape for shape, takes in zip(shapes, now.room.take_one(shapes).tolist(), strict=True) if takes}
    return (entry for entry in waiting if entry[1] in hopeful)


def strict_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[StartOnNodes]:
    """Start jobs in order for as long as they have room.

    Parameters
    ----------
    observation : NodeObservation
        L jobs are queued.
    order : array of int, shape (L,)
        Their positions, first to last.

    Returns
    -------
    list of StartOnNodes
        The jobs to start.
    """
    room = NodeRoom(observation)
    requested_times = observation.queue.requested_time
    job_ids = observation.queue.job_id[order].tolist()
    for position, job_id in zip(order.tolist(), job_ids, strict=True):  # few are looked at, as a rule
        if room.start(job_id, observation.compiled_request(job_id), float(requested_times[position])) is None:
            break
    return room.starts


def simple_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[StartOnNodes]:
    """Start every job that has room, in order; nothing is reserved.

    Parameters
    ----------
    observation : NodeObservation
        L jobs are queued.
    order : array of int, shape (L,)
        Their positions, first to last.

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
    """Start jobs in order for as long as they have room, and later ones that leave the first blocked one alone.

    The first job without room has a reservation: as soon as the running jobs, by requested times, have left it enough,
    on the nodes that the placement policy gives it then. A later job may start now where the policy puts it if it ends
    by then; otherwise it may have what is free now and will not be reserved then.

    Parameters
    ----------
    observation : NodeObservation
        L jobs are queued.
    order : array of int, shape (L,)
        Their positions, first to last.

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
    too_long: set[tuple[CompiledRequest, tuple[int, ...]]] = set()  # without room beside the reservation
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
    """Reserve for a blocked job; return when it starts, and what is free then beside it.

    If nodes are down, and it may never start, nothing is reserved: the time is infinite.
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
