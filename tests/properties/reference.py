"""A slow, plain cluster and plain schedulers, written from their definitions and from nothing else.

Everything is a list or a set that is searched from end to end; times are those of the jobs, in
seconds. A scheduler's ``cycle`` returns the jobs to start now, in order, each with its cores or
with None for the lowest free ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from desim.problems.batch import Job

__all__ = ["ORDERS", "Conservative", "Easy", "Placed", "Running", "Simple", "Strict", "run_reference"]

Order = Callable[[Job, int, float], float]
"""The priority of a job at a position of the queue and a time: the lowest goes first, ties by position."""

ORDERS: dict[str, Order] = {
    "fcfs": lambda job, position, now: position,
    "lcfs": lambda job, position, now: -position,
    "sjf": lambda job, position, now: job.requested_time,
    "smallest-first": lambda job, position, now: job.requested_cores,
    "f1": lambda job, position, now: (
        np.log10(max(job.requested_time, 1)) * job.requested_cores + 870 * np.log10(max(job.submission_time, 1))
    ),
    "wfp3": lambda job, position, now: (
        -(((now - job.submission_time) / max(job.requested_time, 1)) ** 3) * job.requested_cores
    ),
}


@dataclass
class Running:
    """A job on its cores."""

    job: Job
    start: float
    end: float
    cores: frozenset[int]

    @property
    def requested_end(self) -> float:
        """When the job ends as far as a scheduler knows."""
        return self.start + self.job.requested_time


class Placed(NamedTuple):
    """Where and when a job ran."""

    start: float
    cores: frozenset[int]


class State(NamedTuple):
    """What a scheduler may look at."""

    now: float
    num_cores: int
    queue: Sequence[Job]
    running: Sequence[Running]
    completed: bool

    @property
    def free(self) -> set[int]:
        """The cores that no job holds."""
        return set(range(self.num_cores)) - {core for other in self.running for core in other.cores}


Starts = list[tuple[Job, frozenset[int] | None]]


def lowest(cores: Iterable[int], count: int) -> frozenset[int]:
    """Return the ``count`` cores of the smallest numbers."""
    return frozenset(sorted(cores)[:count])


def in_order(jobs: Sequence[Job], order: Order, now: float) -> list[Job]:
    """Return the jobs by priority, those of equal priority as they were."""
    positions = sorted(range(len(jobs)), key=lambda position: order(jobs[position], position, now))
    return [jobs[position] for position in positions]


class Scheduler:
    """What all schedulers share: an order, and no wish to be woken."""

    def __init__(self, order: str) -> None:
        self.order = ORDERS[order]

    def cycle(self, state: State) -> Starts:
        """Return what is to be started now."""
        raise AssertionError

    def wake_up(self) -> float:
        """Return when a cycle is needed though nothing may happen then."""
        return math.inf


class Strict(Scheduler):
    """The first job by priority, while it fits."""

    def cycle(self, state: State) -> Starts:
        starts: Starts = []
        left = len(state.free)
        for job in in_order(state.queue, self.order, state.now):
            if job.requested_cores > left:
                break
            left -= job.requested_cores
            starts.append((job, None))
        return starts


class Simple(Scheduler):
    """Every job that fits, by priority."""

    def cycle(self, state: State) -> Starts:
        starts: Starts = []
        left = len(state.free)
        for job in in_order(state.queue, self.order, state.now):
            if job.requested_cores <= left:
                left -= job.requested_cores
                starts.append((job, None))
        return starts


class Easy(Scheduler):
    """One reservation, for the first job that is blocked."""

    def __init__(self, order: str, specific_cores: bool) -> None:
        super().__init__(order)
        self.specific_cores = specific_cores

    def cycle(self, state: State) -> Starts:
        now, free = state.now, state.free
        ends = [(other.requested_end, other.cores) for other in state.running]
        starts: Starts = []

        def start(job: Job, cores: frozenset[int]) -> None:
            free.difference_update(cores)
            ends.append((now + job.requested_time, cores))
            starts.append((job, cores))

        ordered = in_order(state.queue, self.order, now)
        while ordered and ordered[0].requested_cores <= len(free):
            job = ordered.pop(0)
            start(job, lowest(free, job.requested_cores))
        if not ordered:
            return starts
        blocked = ordered.pop(0)
        for shadow in sorted(end for end, _ in ends):
            free_then = free | {core for end, cores in ends if end <= shadow for core in cores}
            if len(free_then) >= blocked.requested_cores:
                break
        reserved = lowest(free_then, blocked.requested_cores)
        spare = len(free_then) - blocked.requested_cores
        for job in ordered:
            in_time = now + job.requested_time <= shadow
            if self.specific_cores:
                usable = free if in_time else free - reserved
                if job.requested_cores <= len(usable):
                    start(job, lowest(usable, job.requested_cores))
            elif job.requested_cores <= len(free) and (in_time or job.requested_cores <= spare):
                start(job, lowest(free, job.requested_cores))
                if not in_time:
                    spare -= job.requested_cores
        return starts


@dataclass
class Reservation:
    """A queued job's place in the future; its cores only where they are specific."""

    job: Job
    start: float
    cores: frozenset[int]

    @property
    def end(self) -> float:
        """When the job will have left, by its request."""
        return self.start + self.job.requested_time


class Conservative(Scheduler):
    """A reservation for every job."""

    def __init__(self, order: str, specific_cores: bool) -> None:
        super().__init__(order)
        self.specific_cores = specific_cores
        self.reservations: list[Reservation] = []
        self.first_promise: dict[int, float] = {}

    def fit(self, job: Job, state: State) -> Reservation:
        """Return the earliest place of a job beside all others."""
        busy = [(other.start, other.requested_end, other.cores, len(other.cores)) for other in state.running]
        busy += [(other.start, other.end, other.cores, other.job.requested_cores) for other in self.reservations]
        changes = sorted({time for start, end, _, _ in busy for time in (start, end) if time > state.now})
        for begin in [state.now, *changes]:
            finish = begin + job.requested_time
            moments = [begin, *(time for time in changes if begin < time < finish)]
            if self.specific_cores:
                usable = set(range(state.num_cores))
                for moment in moments:
                    for start, end, cores, _ in busy:
                        if start <= moment < end:
                            usable -= cores
                if len(usable) >= job.requested_cores:
                    return Reservation(job, begin, lowest(usable, job.requested_cores))
            else:
                room = min(
                    state.num_cores - sum(count for start, end, _, count in busy if start <= moment < end)
                    for moment in moments
                )
                if room >= job.requested_cores:
                    return Reservation(job, begin, frozenset())
        raise AssertionError("after the last change every core is free")

    def cycle(self, state: State) -> Starts:
        if state.completed:
            for job in in_order(state.queue, self.order, state.now):
                others = [held for held in self.reservations if held.job is not job]
                if len(others) < len(self.reservations):
                    self.reservations = others
                    self.reservations.append(self.fit(job, state))
        for job in in_order(state.queue, self.order, state.now):
            if not any(held.job is job for held in self.reservations):
                place = self.fit(job, state)
                self.reservations.append(place)
                self.first_promise[job.job_id] = place.start
        due = [held for held in self.reservations if held.start <= state.now]
        self.reservations = [held for held in self.reservations if held.start > state.now]
        rows = [job.job_id for job in state.queue]  # in order of arrival, as in the workload
        ordered = sorted(due, key=lambda held: (held.start, rows.index(held.job.job_id)))
        return [(held.job, held.cores if self.specific_cores else None) for held in ordered]

    def wake_up(self) -> float:
        """Return the time of the next reservation."""
        return min((held.start for held in self.reservations), default=math.inf)


def run_reference(
    jobs: Sequence[Job], num_cores: int, scheduler: Scheduler, cycle: str = "instant"
) -> dict[int, Placed]:
    """Run jobs, given by submission time, and return where each of them ran; a cycle for each instant or arrival."""
    coming, queue, running = list(jobs), [], []
    placed: dict[int, Placed] = {}
    while coming or queue or running:
        wake_up = scheduler.wake_up()
        now = min([wake_up, *(other.end for other in running), *(job.submission_time for job in coming[:1])])
        assert now < math.inf, "the queue waits for nothing"
        woken = wake_up <= now
        first_of_instant = True
        while True:
            ended = [other for other in running if other.end <= now]
            running = [other for other in running if other.end > now]
            arrived = bool(coming) and coming[0].submission_time <= now
            if arrived and cycle == "instant":
                queue += [job for job in coming if job.submission_time <= now]
                coming = [job for job in coming if job.submission_time > now]
            elif arrived and not (first_of_instant and queue and (ended or woken)):
                queue.append(coming.pop(0))
            elif not (queue and (ended or (first_of_instant and woken))):
                break
            first_of_instant = False
            state = State(now, num_cores, tuple(queue), tuple(running), bool(ended))
            free = state.free
            for job, chosen in scheduler.cycle(state):
                cores = lowest(free, job.requested_cores) if chosen is None else chosen
                assert cores <= free
                assert len(cores) == job.requested_cores
                free -= cores
                queue = [other for other in queue if other is not job]
                running.append(Running(job, now, now + min(job.run_time, job.requested_time), cores))
                placed[job.job_id] = Placed(now, cores)
    return placed
