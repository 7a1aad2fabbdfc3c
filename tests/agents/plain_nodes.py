"""Backfilling on nodes from the definitions: lists, loops over nodes and tasks, everything computed afresh.

What is free at a time is counted from nothing: what the nodes have, less what each job holds that runs then or has its
reservation then. A job goes to no node that has a reservation at any time until it is expected to end, unless the
reservation admits its user. Of the code that is tested only the scores of the placement policies are used.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from desim.problems.batch import BatchObservation, NodeAllocation, NodeAvailability, NodeView, StartOnNodes


@dataclass
class Taken:
    """What a job holds from one time to another."""

    start: float
    end: float
    held: tuple[NodeAllocation, ...]


def nodes_of(observation: BatchObservation) -> NodeView:
    """Return the nodes of a cluster that has some."""
    assert observation.nodes is not None
    return observation.nodes


class Free:
    """What is free on each node: amounts, thousandths of GPUs, and how many jobs are there."""

    def __init__(self, observation: BatchObservation) -> None:
        self.observation, self.seen = observation, nodes_of(observation)
        table = self.seen.table
        self.amounts = table.capacity.tolist()
        self.gpus = table.gpus.tolist()
        self.jobs = [0] * len(table)
        self.down = self.seen.room.down.tolist()

    def take(self, held: Iterable[NodeAllocation]) -> None:
        """Let a job have what it holds."""
        for one in held:
            self.jobs[one.node] += 1
            amounts = self.amounts[one.node]
            for column, amount in enumerate(one.amounts):
                amounts[column] -= amount
            for gpu, share in one.gpus:
                self.gpus[one.node][gpu] -= share

    def and_also(self, other: Free) -> Free:
        """Return what is free in both."""
        both = Free(self.observation)
        for node in range(len(self.jobs)):
            both.amounts[node] = list(map(min, self.amounts[node], other.amounts[node]))
            both.gpus[node] = list(map(min, self.gpus[node], other.gpus[node]))
            both.jobs[node] = max(self.jobs[node], other.jobs[node])
        return both

    def as_room(self) -> NodeAvailability:
        """Return what policies look at."""
        room = NodeAvailability(self.seen.table)
        room.free, room.gpus = np.array(self.amounts), np.array(self.gpus)
        room.jobs, room.down = np.array(self.jobs), np.array(self.down)
        room._count_gpus()
        return room

    def on_node(self, shape: Any, node: int, limit: int) -> NodeAllocation | None:
        """Put tasks on a node one by one, the share of a GPU on the fullest one; None if there is room for none."""
        request = shape.request
        there = self.seen.table.nodes[node]
        suits = request.partition in ("", there.partition) and there.features >= set(request.features)
        suits = suits and not there.features & set(request.excluded_features)
        suits = suits and (not request.gpu_models or there.gpu_model in request.gpu_models)
        if not suits or self.down[node] or (request.exclusive and self.jobs[node]):
            return None
        amounts, gpus = list(self.amounts[node]), list(self.gpus[node])
        shares: dict[int, int] = {}
        tasks = 0
        while tasks < min(limit, request.tasks_per_node or limit):
            after = [left - amount for left, amount in zip(amounts, shape.amounts, strict=True)]
            fitting = [gpu for gpu, left in enumerate(gpus) if left >= (shape.share or 1000)]
            count = shape.gpus or bool(shape.share)
            if min(after) < 0 or len(fitting) < count:
                break
            if shape.share:
                fitting.sort(key=gpus.__getitem__)
            for gpu in fitting[:count]:
                gpus[gpu] -= shape.share or 1000
                shares[gpu] = shares.get(gpu, 0) + (shape.share or 1000)
            amounts = after
            tasks += 1
        if not tasks:
            return None
        if request.exclusive:
            every = tuple((gpu, 1000) for gpu, left in enumerate(self.gpus[node]) if left)
            return NodeAllocation(node, tasks, tuple(self.amounts[node]), every)
        return NodeAllocation(
            node, tasks, tuple(amount * tasks for amount in shape.amounts), tuple(sorted(shares.items()))
        )

    def place(self, shape: Any, closed: Collection[int] = ()) -> tuple[NodeAllocation, ...] | None:
        """Put all tasks on nodes in the order of the policy, each of which takes as many as it can."""
        nodes = [node for node in range(len(self.jobs)) if node not in closed and self.on_node(shape, node, 1)]
        left, held = shape.tasks, []
        order = self.seen.policy.scores(self.as_room(), shape, np.array(nodes)) if nodes else None
        if order is not None:
            nodes = [nodes[place] for place in sorted(range(len(nodes)), key=lambda place: -order[place])]
        for node in nodes:
            one = self.on_node(shape, node, left)
            assert one is not None
            held.append(one)
            left -= one.tasks
            if not left:
                return tuple(held)
        return None


def running(observation: BatchObservation) -> list[Taken]:
    """Return what the running jobs hold until they are expected to end."""
    rows = observation.running
    pairs = zip(rows.row.tolist(), rows.expected_end.tolist(), strict=True)
    return [Taken(-math.inf, end, nodes_of(observation).allocation_of(row)) for row, end in pairs]


def free_at(observation: BatchObservation, taken: Iterable[Taken], time: float) -> Free:
    """Count what is free at a time."""
    free = Free(observation)
    for one in taken:
        if one.start <= time < one.end:
            free.take(one.held)
    return free


def closed(observation: BatchObservation, job: Waiting, start: float) -> set[int]:
    """Return the nodes of reservations that a job would meet if it started at a time, and that are not for its user."""
    nodes: set[int] = set()
    for reservation in observation.reservations:
        apart = start + job.requested <= reservation.start and start != reservation.start
        if not apart and start < reservation.end and job.user not in reservation.users:
            nodes |= {int(node) for node in reservation.nodes}
    return nodes


class Waiting(NamedTuple):
    """A queued job."""

    row: int
    shape: Any
    requested: float
    user: int


def in_order(observation: BatchObservation, priority: Any) -> list[Waiting]:
    """Return the queued jobs."""
    queue, waiting = observation.queue, []
    for position in priority.order(queue, observation.time).tolist():
        row, user = int(queue.row[position]), int(queue.user_id[position])
        shape = nodes_of(observation).compiled_request(row)
        waiting.append(Waiting(row, shape, float(queue.requested_time[position]), user))
    return waiting


def plain_strict(observation: BatchObservation, priority: Any) -> list[StartOnNodes]:
    """Start jobs in order for as long as they have room."""
    taken, starts = running(observation), []
    for job in in_order(observation, priority):
        room, away = free_at(observation, taken, observation.time), closed(observation, job, observation.time)
        held = room.place(job.shape, away)
        if held is None:
            break
        taken.append(Taken(-math.inf, observation.time + job.requested, held))
        starts.append(StartOnNodes(job.row, held))
    return starts


def plain_simple(observation: BatchObservation, priority: Any) -> list[StartOnNodes]:
    """Start whatever has room, in order."""
    taken, starts = running(observation), []
    for job in in_order(observation, priority):
        room, away = free_at(observation, taken, observation.time), closed(observation, job, observation.time)
        held = room.place(job.shape, away)
        if held is not None:
            taken.append(Taken(-math.inf, observation.time + job.requested, held))
            starts.append(StartOnNodes(job.row, held))
    return starts


def plain_easy(observation: BatchObservation, priority: Any) -> list[StartOnNodes]:
    """Start what has room, and once something has none, what leaves it alone."""
    now, taken, starts = observation.time, running(observation), []
    shadow, is_blocked = math.inf, False
    for job in in_order(observation, priority):
        room = free_at(observation, taken, now)
        if is_blocked and now + job.requested > shadow:
            room = room.and_also(free_at(observation, taken, shadow))
        held = room.place(job.shape, closed(observation, job, now))
        if held is not None:
            taken.append(Taken(-math.inf, now + job.requested, held))
            starts.append(StartOnNodes(job.row, held))
        elif not is_blocked:
            is_blocked = True
            for end in sorted(
                {one.end for one in taken} | {reservation.end for reservation in observation.reservations}
            ):
                reserved = free_at(observation, taken, end).place(job.shape, closed(observation, job, end))
                if reserved is not None:
                    shadow = end
                    taken.append(Taken(shadow, math.inf, reserved))
                    break
    return starts


class PlainConservative:
    """Every job has a reservation; when one ends, each in order may move to where it could start earlier."""

    def __init__(self, priority: Any) -> None:
        self.priority = priority
        self.reserved: dict[int, Taken] = {}
        self.known: set[int] = set()
        self.disturbed: object = None

    def earliest(self, observation: BatchObservation, job: Waiting) -> Taken | None:
        """Return the first place beside all that run and all reservations."""
        taken = running(observation) + list(self.reserved.values())
        times = {time for one in taken for time in (one.start, one.end)}
        times |= {time for reservation in observation.reservations for time in (reservation.start, reservation.end)}
        later = sorted(time for time in times if time > observation.time)
        for start in [observation.time, *later]:
            room = free_at(observation, taken, start)
            for time in later:
                if start < time < start + job.requested:
                    room = room.and_also(free_at(observation, taken, time))
            held = room.place(job.shape, closed(observation, job, start))
            if held is not None:
                return Taken(start, start + job.requested, held)
        return None

    def act(self, observation: BatchObservation) -> list[StartOnNodes]:
        """Return the jobs whose time has come."""
        disturbed = nodes_of(observation).room.down.tolist(), observation.preemptions
        if disturbed != self.disturbed:
            self.reserved, self.disturbed = {}, disturbed
        waiting = in_order(observation, self.priority)
        now_running = {int(row) for row in observation.running.row}
        if self.known - now_running:
            for job in waiting:
                if old := self.reserved.pop(job.row, None):
                    new = self.earliest(observation, job)
                    assert new is not None
                    self.reserved[job.row] = new if new.start < old.start else old
        for job in waiting:
            if job.row not in self.reserved:
                new = self.earliest(observation, job)
                if new is not None:
                    self.reserved[job.row] = new
        due = [row for row, one in self.reserved.items() if one.start <= observation.time]
        starts = [StartOnNodes(row, self.reserved.pop(row).held) for row in due]
        self.known = now_running | set(due)
        return starts
