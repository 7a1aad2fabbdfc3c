"""The orders and the back-filling of the queue where cores belong to nodes: jobs get nodes, not a number of cores.

What :mod:`desim.agents.batch.backfilling` does with counts of cores is done here with all resources of all nodes. Where
jobs go, now and in reservations, is up to the placement policy of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from desim.agents.batch.profile import expected_releases
from desim.problems.batch import Held, NodeObservation, Place, Queue, Room, Shape

__all__ = ["NodeRoom", "easy_on_nodes", "simple_on_nodes", "strict_on_nodes"]

Order = Iterator[tuple[int, Shape, float]]


class NodeRoom:
    """What is still free while somebody decides which jobs start, and who has found no room so far.

    Parameters
    ----------
    observation : NodeObservation
        The moment.

    Attributes
    ----------
    room : Room
        What is free now, less what the jobs hold that are to start.
    starts : list of Place
        Those jobs.
    """

    def __init__(self, observation: NodeObservation) -> None:
        self.room = observation.room.copy()
        self.policy = observation.policy
        self.starts: list[Place] = []
        self._failed: set[Shape] = set()  # what had no room once has none later: room only shrinks

    def start(
        self, job_id: int, shape: Shape, where: Sequence[tuple[int, int]] | None = None
    ) -> tuple[Held, ...] | None:
        """Let a job start if it has room, on chosen nodes with their numbers of tasks if given; return what it gets."""
        if shape in self._failed:
            return None
        held = self.room.place_on(shape, where, self.policy) if where else self.room.place(shape, self.policy)
        if held is None:
            if not where:
                self._failed.add(shape)
        else:
            self.room.take(held)
            self.starts.append(Place(job_id, held))
        return held


def _in_order(observation: NodeObservation, order: np.ndarray) -> Order:
    """Yield id, shape and requested time of the queued jobs in an order of their positions."""
    queue: Queue = observation.queue
    job_ids, times = queue.job_id[order].tolist(), queue.requested_time[order].tolist()
    for job_id, time in zip(job_ids, times, strict=True):
        yield job_id, observation.shape_of(job_id), time


def strict_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[Place]:
    """Start jobs in order for as long as they have room.

    Parameters
    ----------
    observation : NodeObservation
        L jobs are queued.
    order : array of int, shape (L,)
        Their positions, first to last.

    Returns
    -------
    list of Place
        The jobs to start.
    """
    room = NodeRoom(observation)
    for job_id, shape, _ in _in_order(observation, order):
        if room.start(job_id, shape) is None:
            break
    return room.starts


def simple_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[Place]:
    """Start every job that has room, in order; nothing is reserved.

    Parameters
    ----------
    observation : NodeObservation
        L jobs are queued.
    order : array of int, shape (L,)
        Their positions, first to last.

    Returns
    -------
    list of Place
        The jobs to start.
    """
    room = NodeRoom(observation)
    for job_id, shape, _ in _in_order(observation, order):
        room.start(job_id, shape)
    return room.starts


def easy_on_nodes(observation: NodeObservation, order: np.ndarray) -> list[Place]:
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
    list of Place
        The jobs to start.
    """
    now = NodeRoom(observation)
    time, ends = observation.time, []
    waiting = _in_order(observation, order)
    blocked: Shape | None = None
    for job_id, shape, requested in waiting:
        held = now.start(job_id, shape)
        if held is None:
            blocked = shape
            break
        ends.append((time + requested, held))
    if blocked is None:
        return now.starts
    shadow, beyond = _reserve(observation, now.room.copy(), ends, blocked)
    unreserved: Room | None = None
    too_long: set[Shape] = set()  # shapes without room beside the reservation
    for job_id, shape, requested in waiting:
        if time + requested <= shadow:
            if now.start(job_id, shape) is not None:
                unreserved = None
        elif shape not in too_long:
            if unreserved is None:
                unreserved = now.room.least_of(beyond)
            held = unreserved.place(shape, now.policy)
            if held is None:
                too_long.add(shape)
            else:
                for room in (now.room, beyond, unreserved):
                    room.take(held)
                now.starts.append(Place(job_id, held))
    return now.starts


def _reserve(
    observation: NodeObservation, room: Room, ends: list[tuple[float, tuple[Held, ...]]], blocked: Shape
) -> tuple[float, Room]:
    """Reserve for a blocked job; return when it starts, and what is free then beside it.

    If nodes are down, and it may never start, nothing is reserved: the time is infinite.
    """
    releases = [
        (end, observation.held_by(job_id))
        for end, _, job_id in zip(*(column.tolist() for column in expected_releases(observation)), strict=True)
    ]
    for end, together in groupby(sorted(releases + ends, key=itemgetter(0)), itemgetter(0)):
        for _, held in together:
            room.give_back(held)
        place = room.place(blocked, observation.policy)
        if place is not None:
            room.take(place)
            return end, room
    return np.inf, room
