"""Event-driven list scheduling a second time: exact orders, and allocations that try everything."""

from __future__ import annotations

import math
from fractions import Fraction

from dag_reference import PlainJob, Reference, ReferenceCopy, Scenario


class ListScheduling:
    """Event-driven list scheduling, decision loop included, on the reference executors.

    Orders are computed with fractions; the times of what waits are found by letting a clone run to its end.
    """

    def __init__(self, scenario: Scenario, order: str, allocation: str) -> None:
        self.scenario, self.order, self.allocation = scenario, order, allocation
        self.reference = Reference(scenario)
        self.totals = [sum(self._mean(job, node) for node in range(len(job.work))) for job in scenario.jobs]
        self.ranks = [self._ranks(job) for job in scenario.jobs]

    def _mean(self, job: PlainJob, node: int) -> Fraction:
        count = len(self.scenario.speeds)
        times = [Fraction(self.scenario.run_time(job.job_id, node, executor)) for executor in range(count)]
        return sum(times, Fraction(0)) / count

    def _ranks(self, job: PlainJob) -> list[Fraction]:
        count = range(len(self.scenario.speeds))
        apart = [(source, destination) for source in count for destination in count if source != destination]
        ranks = [Fraction(0)] * len(job.work)
        for node in reversed(range(len(job.work))):
            longest = Fraction(0)
            for parent, child, size in job.edges:
                if parent == node:
                    moves = [Fraction(self.scenario.transfer(*pair, size)) for pair in apart]
                    longest = max(longest, ranks[child] + sum(moves, Fraction(0)) / max(1, len(moves)))
            ranks[node] = longest + self._mean(job, node)
        return ranks

    def _key(self, job: int, node: int) -> Fraction:
        submitted = Fraction(self.scenario.jobs[job].submission_time)
        if self.order == "FIFO":
            return submitted
        if self.order == "SJF":
            return self.totals[job]
        if self.order == "rank_up":
            return -self.ranks[job][node]
        wait = Fraction(self.reference.now) - submitted
        return -wait / (wait + self.totals[job]) if wait + self.totals[job] else Fraction(0)

    def run(self) -> list[ReferenceCopy]:
        """Return all copies, in order of assignment."""
        reference = self.reference
        while True:
            reference.advance(reference.now)
            executable = self._executable()
            if executable:
                job, node = min(executable, key=lambda pair: (self._key(*pair), *pair))
                nodes, executor = self._allocate(job, node)
                reference.assign(job, nodes, executor, None)
                continue
            arrivals = [job.submission_time for job in self.scenario.jobs if job.submission_time > reference.now]
            times = [*reference.events(), *arrivals]
            if not times:
                return reference.copies
            reference.advance(min(times))

    def _executable(self) -> list[tuple[int, int]]:
        has = self.reference.copies_of if self.scenario.plan_ahead else self.reference.is_done
        return [
            (job.job_id, node)
            for job in self.scenario.jobs
            if job.submission_time <= self.reference.now
            for node in range(len(job.work))
            if not self.reference.copies_of(job.job_id, node)
            and all(has(job.job_id, parent) for parent, _ in self.scenario.parents(job.job_id, node))
        ]

    def _allocate(self, job: int, node: int) -> tuple[tuple[int, ...], int]:
        """Try every executor, and behind a copy of every parent, each in a clone that runs to its end."""
        parents = [parent for parent, _ in self.scenario.parents(job, node)] if self.allocation == "DEFT" else []
        choices: list[tuple[int, ...]] = [(node,), *((parent, node) for parent in parents)]
        tried = []
        for executor in range(len(self.scenario.speeds)):
            for number, nodes in enumerate(choices):
                clone = self.reference.clone()
                copy = clone.assign(job, nodes, executor, None)[-1]
                clone.advance(math.inf)
                tried.append((copy.finish, number > 0, executor, number, nodes))
        _, _, executor, _, nodes = min(tried)
        return nodes, executor
