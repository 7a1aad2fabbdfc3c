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
        self.ends: dict[int, float] = {}  # expected ends of jobs that were running after the last decision
        self.capacity: tuple[int, int] = (0, 0)

    def act(self, observation: BatchObservation) -> list[int | WaitUntil]:
        """Return the jobs whose time has come, and the time of the next promise."""
        now, queue, running = observation.time, observation.queue, observation.running
        columns = (queue.row, queue.submission_time, queue.requested_cores, queue.requested_time)
        jobs = [Job(*row, math.nan) for row in zip(*(column.tolist() for column in columns), strict=True)]
        places = {job.job_id: place for place, job in enumerate(jobs)}
        in_order = sorted(jobs, key=lambda job: (self.order(job, places[job.job_id], now), places[job.job_id]))
        ends = dict(zip(running.row.tolist(), running.expected_end.tolist(), strict=True))
        taken = list(_taken(observation))
        free = observation.num_cores - observation.down_cores
        free += sum(each.cores for each in observation.reservations if each.start <= now)  # known to come back

        capacity = observation.down_cores, observation.preemptions
        is_corrected = any(ends.get(job_id, -math.inf) > end for job_id, end in self.ends.items())
        is_late = any(promise.start < min(now, promise.end) for promise in self.promised.values())
        if capacity != self.capacity or is_corrected or is_late:  # rule 1
            self.promised = {}
        elif self.ends.keys() - ends.keys():  # rule 2
            for job in in_order:
                if self.promised.pop(job.job_id, None) is not None:
                    self._fit(job, free, taken, now)
        for job in in_order:  # rule 3
            if job.job_id not in self.promised:
                self._fit(job, free, taken, now)

        idle, starts = observation.free_cores, []
        due = sorted((promise.start, job_id) for job_id, promise in self.promised.items() if promise.start <= now)
        for _, job_id in due:  # rule 4
            if self.promised[job_id].cores <= idle:
                promise = self.promised.pop(job_id)
                idle -= promise.cores
                ends[job_id] = promise.end
                starts.append(job_id)
        self.ends, self.capacity = ends, capacity
        following = min((each.start for each in self.promised.values() if each.start > now), default=math.inf)
        return [*starts, WaitUntil(following)] if following < math.inf else [*starts]  # rule 5

    def _fit(self, job: Job, free: int, taken: list[Span], now: float) -> None:
        """Promise a job the earliest start from which on enough cores stay free for as long as it requests."""
        spans = [*taken, *self.promised.values()]
        for start in sorted({now, *(span.end for span in spans if span.end > now)}):
            end = start + job.requested_time
            moments = [start, *(span.start for span in spans if start < span.start < end)]
            if all(
                job.requested_cores <= free - sum(span.cores for span in spans if span.start <= moment < span.end)
                for moment in moments
            ):
                self.promised[job.job_id] = Span(start, end, job.requested_cores)
                return


def _taken(observation: BatchObservation) -> Iterator[Span]:
    """Yield what running jobs and advance reservations take from now on."""
    running = observation.running
    for end, cores in zip(running.expected_end.tolist(), running.requested_cores.tolist(), strict=True):
        yield Span(observation.time, end, cores)
    for reservation in observation.reservations:
        yield Span(max(reservation.start, observation.time), reservation.end, reservation.cores)
