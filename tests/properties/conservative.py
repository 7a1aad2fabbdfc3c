"""Conservative backfilling by its rules, for comparison: everything is searched from the beginning at every decision.

The rules and their numbers are those of "Conservative backfilling, rule by rule" in ``docs/guides/batch.rst``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from reference import ORDERS

from desim.problems.batch import BatchObservation, Job, WaitUntil

__all__ = ["ConservativeByRules"]


class Span(NamedTuple):
    """Cores in use over an interval, in seconds."""

    start: float
    end: float
    cores: int


class ConservativeByRules:
    """A promised start for every queued job.

    Attributes
    ----------
    promised : dict of int to Span
        Promises by job id.
    """

    name = "conservative-by-rules"

    def __init__(self, order: str) -> None:
        self.order = ORDERS[order]
        self.promised: dict[int, Span] = {}
        self.expected: dict[int, float] = {}  # expected run times of the queued jobs
        self.ends: dict[int, float] = {}  # expected ends of jobs that were running after the last decision
        self.capacity: tuple[int, int] = (0, 0)

    def act(self, observation: BatchObservation) -> list[int | WaitUntil]:
        """Return the jobs whose time has come, and the time of the next promise."""
        now, queue, running = observation.time, observation.queue, observation.running
        columns = (queue.row, queue.submission_time, queue.requested_cores, queue.requested_time)
        requested = dict(zip(queue.row.tolist(), queue.requested_time.tolist(), strict=True))
        jobs = [Job(*row, math.nan) for row in zip(*(column.tolist() for column in columns), strict=True)]
        self.expected = dict(zip(queue.row.tolist(), queue.expected_time.tolist(), strict=True))
        places = {job.job_id: place for place, job in enumerate(jobs)}
        in_order = sorted(jobs, key=lambda job: (self.order(job, places[job.job_id], now), places[job.job_id]))
        ends = dict(zip(running.row.tolist(), running.expected_end.tolist(), strict=True))
        reserved = list(_reserved(observation))
        taken = [*_running(observation), *reserved]
        free = observation.num_cores - observation.down_cores
        free += sum(each.cores for each in observation.reservations if each.start <= now)  # known to come back

        capacity = observation.down_cores, observation.preemptions
        is_corrected = any(ends.get(job_id, -math.inf) > end for job_id, end in self.ends.items())
        is_late = any(promise.start < min(now, promise.end) for promise in self.promised.values())
        if capacity != self.capacity or is_late:  # rule 1
            self.promised = {}
        promised = self.promised
        if is_corrected:  # rule 2
            self.promised = {}
            for job in in_order:
                promise = promised.get(job.job_id)
                if promise is not None and _fits(promise, free, [*taken, *self.promised.values()]):
                    self.promised[job.job_id] = promise
        if self.ends.keys() - ends.keys() or len(self.promised) < len(promised):  # rule 3
            for job in in_order:
                if self.promised.pop(job.job_id, None) is not None:
                    self._fit(job, free, taken, reserved, now)
        for job in in_order:  # rule 4
            if job.job_id not in self.promised:
                self._fit(job, free, taken, reserved, now)

        idle, starts = observation.free_cores, []
        due = sorted((promise.start, job_id) for job_id, promise in self.promised.items() if promise.start <= now)
        latest = [*reserved, *(Span(now, end, cores) for end, cores, _ in observation.latest_ends())]
        for _, job_id in due:  # rule 5
            promise = self.promised[job_id]
            certain = Span(now, now + requested[job_id], promise.cores)
            ends_in_time = not (observation.predicts and reserved) or _has_room(certain, free, latest)
            if promise.cores <= idle and ends_in_time:
                del self.promised[job_id]
                idle -= promise.cores
                latest.append(certain)
                ends[job_id] = promise.end
                starts.append(job_id)
        self.ends, self.capacity = ends, capacity
        following = min((each.start for each in self.promised.values() if each.start > now), default=math.inf)
        return [*starts, WaitUntil(following)] if following < math.inf else [*starts]  # rule 6

    def _fit(self, job: Job, free: int, taken: list[Span], reserved: list[Span], now: float) -> None:
        """Promise a job the earliest start from which on enough cores stay free for as long as it is expected to run.

        Advance reservations must leave enough cores for as long as it requests.
        """
        spans = [*taken, *self.promised.values()]
        for start in sorted({now, *(span.end for span in spans if span.end > now)}):
            promise = Span(start, start + self.expected[job.job_id], job.requested_cores)
            longest = promise._replace(end=start + job.requested_time)
            if _has_room(promise, free, spans) and _has_room(longest, free, reserved):
                self.promised[job.job_id] = promise
                return


def _has_room(span: Span, free: int, spans: list[Span]) -> bool:
    """Return whether a span fits beside others."""
    moments = [span.start, *(each.start for each in spans if span.start < each.start < span.end)]
    taken = (sum(each.cores for each in spans if each.start <= moment < each.end) for moment in moments)
    return all(span.cores <= free - cores for cores in taken)


def _fits(promise: Span, free: int, spans: list[Span]) -> bool:
    """Return whether a promise still fits beside others; one without length holds nothing."""
    return promise.start == promise.end or _has_room(promise, free, spans)


def _running(observation: BatchObservation) -> Iterator[Span]:
    """Yield what running jobs take from now on."""
    running = observation.running
    for end, cores in zip(running.expected_end.tolist(), running.requested_cores.tolist(), strict=True):
        yield Span(observation.time, end, cores)


def _reserved(observation: BatchObservation) -> Iterator[Span]:
    """Yield what advance reservations take from now on."""
    for reservation in observation.reservations:
        yield Span(max(reservation.start, observation.time), reservation.end, reservation.cores)
