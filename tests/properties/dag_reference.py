"""DAG jobs on executors a second time, in plain loops over plain lists, and random scenarios for both."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from desim.problems.dag import DagCluster, Executors, Job

Edge = tuple[int, int, float]


class PlainJob(NamedTuple):
    """A job: nodes in topological order, edges as (parent, child, size)."""

    job_id: int
    submission_time: float
    work: list[float]
    edges: list[Edge]
    run_times: list[list[float]] | None


class Scenario(NamedTuple):
    """Jobs, executors and how they work."""

    jobs: list[PlainJob]
    speeds: list[float]
    transfer_speed: list[list[float]]
    latency: list[list[float]]
    plan_ahead: bool = False
    when_finished: bool = True

    def run_time(self, job: int, node: int, executor: int) -> float:
        times = self.jobs[job].run_times
        return self.jobs[job].work[node] / self.speeds[executor] if times is None else times[node][executor]

    def transfer(self, source: int, destination: int, size: float) -> float:
        if source == destination:
            return 0.0
        return size * (1.0 / self.transfer_speed[source][destination]) + self.latency[source][destination]

    def parents(self, job: int, node: int) -> list[tuple[int, float]]:
        return [(parent, size) for parent, child, size in self.jobs[job].edges if child == node]

    def cluster(self, kind: Callable[..., DagCluster] = DagCluster, **options: Any) -> DagCluster:
        """Return the system under test."""
        jobs = [
            Job(job.job_id, job.work, job.edges, submission_time=job.submission_time, run_times=job.run_times)
            for job in self.jobs
        ]
        settings: dict[str, Any] = {
            "plan_ahead": self.plan_ahead,
            "transfers": "when_finished" if self.when_finished else "when_assigned",
        }
        return kind(jobs, Executors(self.speeds, self.transfer_speed, self.latency), **settings | options)


def random_edges(rng: Random, count: int, size: Callable[[], float]) -> list[Edge]:
    """Return a connected graph of nodes each of which has parents among the last few before it."""
    width = rng.randint(1, 6)
    edges = []
    for child in range(1, count):
        before = range(max(0, child - width), child)
        for parent in rng.sample(before, min(len(before), rng.randint(1, 3))):
            edges.append((parent, child, size()))
    return edges


def random_scenario(
    rng: Random, *, exact: bool | None = None, alike: bool | None = None, power_of_two: bool = False, most: int = 14
) -> Scenario:
    """Return a scenario; exact ones are in quarters, with ties and zeros, alike ones have one speed for all pairs."""
    exact = rng.random() < 0.6 if exact is None else exact
    alike = rng.random() < 0.4 if alike is None else alike
    count = rng.choice([1, 2, 4]) if power_of_two else rng.randint(1, 5)
    scale = rng.choice([0, 1, 1, 4])

    def number(high: int) -> float:
        return float(rng.randint(0, high)) if exact else rng.choice([0.0, rng.expovariate(1 / (high + 1))])

    def pairs(draw: Callable[[], float]) -> list[list[float]]:
        value = draw()
        return [[value if alike else draw() for _ in range(count)] for _ in range(count)]

    jobs, time = [], 0.0
    for job_id in range(rng.randint(1, 4)):
        nodes = rng.randint(1, most)
        unrelated = rng.random() < 0.3
        run_times = [[number(6) for _ in range(count)] for _ in range(nodes)] if unrelated else None
        edges = random_edges(rng, nodes, lambda: number(3) * scale)
        jobs.append(PlainJob(job_id, time, [number(6) for _ in range(nodes)], edges, run_times))
        if rng.random() < 0.7:
            time += number(12)
    return Scenario(
        jobs,
        [rng.choice([0.5, 1.0, 2.0, 4.0] if exact else [0.7, 1.1, 2.3]) for _ in range(count)],
        pairs(lambda: rng.choice([0.5, 1.0, 4.0, math.inf] if exact else [0.3, 3.0, math.inf])),
        pairs(lambda: rng.choice([0.0, 0.0, 0.25, 2.0] if exact else [0.0, 0.1])),
        rng.random() < 0.5,
        rng.random() < 0.5,
    )


class ReferenceCopy:
    """One execution of a node."""

    def __init__(self, job: int, node: int, executor: int, assigned: float) -> None:
        self.job, self.node, self.executor, self.assigned = job, node, executor, assigned
        self.start = self.finish = self.withdrawn = math.nan
        self.sources: dict[int, tuple[int, float, float]] = {}

    @property
    def has_finished(self) -> bool:
        return self.finish == self.finish and not self.is_running

    is_running = False


class Reference:
    """Executors that run their queues, from the definition: at each instant what ends, then what can start, again.

    Whether a copy that can start at the instant at which its job ends still does is left open: those in ``kept``, by
    their place in the order of assignment, do.
    """

    def __init__(self, scenario: Scenario, kept: frozenset[int] = frozenset()) -> None:
        self.kept = kept
        self.scenario = scenario
        self.now = 0.0
        self.queues: list[list[ReferenceCopy]] = [[] for _ in scenario.speeds]
        self.running: list[ReferenceCopy | None] = [None for _ in scenario.speeds]
        self.copies: list[ReferenceCopy] = []
        self.ended: dict[int, float] = {}

    def clone(self) -> Reference:
        return deepcopy(self, {id(self.scenario): self.scenario})

    def copies_of(self, job: int, node: int) -> list[ReferenceCopy]:
        return [copy for copy in self.copies if (copy.job, copy.node) == (job, node) and math.isnan(copy.withdrawn)]

    def is_done(self, job: int, node: int) -> bool:
        return any(copy.has_finished for copy in self.copies_of(job, node))

    def assign(self, job: int, nodes: tuple[int, ...], executor: int, position: int | None) -> list[ReferenceCopy]:
        new = [ReferenceCopy(job, node, executor, self.now) for node in nodes]
        queue = self.queues[executor]
        place = len(queue) if position is None else position
        queue[place:place] = new
        self.copies += new
        return new

    def advance(self, until: float) -> None:
        """Let everything happen up to a time, that included."""
        while True:
            while self._end_some() or self._start_some():
                pass
            later = [time for time in self.events() if time <= until]
            if not later:
                break
            self.now = min(later)
        if self.now < until < math.inf:
            self.now = until

    def events(self) -> list[float]:
        times = [copy.finish for copy in self.running if copy is not None]
        for executor, queue in enumerate(self.queues):
            if queue and self.running[executor] is None:
                times.append(max(self.now, self._ready(queue[0])))
        return [time for time in times if time < math.inf]

    def arrivals(self, copy: ReferenceCopy, parent: int, size: float) -> list[tuple[float, int, int, float]]:
        """Return when the results of a parent that there are arrive: (arrival, number, executor, begin)."""
        found = []
        for number, other in enumerate(self.copies_of(copy.job, parent)):
            if other.has_finished:
                begin = other.finish
                if other.executor != copy.executor and not self.scenario.when_finished:
                    begin = max(begin, copy.assigned)
                arrival = begin + self.scenario.transfer(other.executor, copy.executor, size)
                found.append((arrival, number, other.executor, begin))
        return found

    def _ready(self, copy: ReferenceCopy) -> float:
        parents = self.scenario.parents(copy.job, copy.node)
        options = [self.arrivals(copy, parent, size) for parent, size in parents]
        return max((min(option)[0] if option else math.inf for option in options), default=0.0)

    def _end_some(self) -> bool:
        ending = [copy for copy in self.running if copy is not None and copy.finish <= self.now]
        for copy in ending:
            self.running[copy.executor] = None
            copy.is_running = False
            if copy.job in self.ended:
                continue
            if all(self.is_done(copy.job, node) for node in range(len(self.scenario.jobs[copy.job].work))):
                self.ended[copy.job] = self.now
                for queue in self.queues:
                    for other in [other for other in queue if other.job == copy.job and not self._is_kept(other)]:
                        queue.remove(other)
                        other.withdrawn = self.now
        return bool(ending)

    def _is_kept(self, copy: ReferenceCopy) -> bool:
        return bool(self.kept) and self.copies.index(copy) in self.kept

    def _start_some(self) -> bool:
        started = False
        for executor, queue in enumerate(self.queues):
            if queue and self.running[executor] is None and self._ready(queue[0]) <= self.now:
                copy = queue.pop(0)
                self.running[executor] = copy
                copy.is_running = started = True
                copy.start = self.now
                copy.finish = self.now + self.scenario.run_time(copy.job, copy.node, executor)
                for parent, size in self.scenario.parents(copy.job, copy.node):
                    arrival, _, source, begin = min(self.arrivals(copy, parent, size))
                    copy.sources[parent] = (source, begin, arrival)
        return started
