"""DAG schedulers once more, in plain Python from their definitions, and instances to compare them on.

Ranks and levels are exact fractions, so that equal ones are equal. Times are floats that are added up in the order of
the model: run times w / v; transfer times size * (1 / c) + latency; start = max of what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from desim import Result
from desim.problems.dag import Executors, Job

Key = tuple[int, int]  # a job and a node of it
Schedule = dict[Key, tuple[int, float, float]]


# -- instances ---------------------------------------------------------------------------------------


def random_edges(rng: Generator, num_nodes: int, sizes: Callable[[], float]) -> list[tuple[int, int, float]]:
    """Return the edges of a connected random graph: each node but the first has one to three parents before it."""
    edges = []
    for child in range(1, num_nodes):
        first = max(0, child - 6)
        count = min(child - first, 1 + int(rng.integers(3)))
        parents = rng.choice(np.arange(first, child), size=count, replace=False)
        edges += [(int(parent), child, sizes()) for parent in sorted(parents)]
    return edges


def random_instance(
    seed: int,
    *,
    staggered: bool = False,
    max_nodes: int = 14,
    max_executors: int = 5,
    max_jobs: int = 3,
    transfers: str = "any",
) -> tuple[list[Job], Executors]:
    """Return some jobs and executors: related or unrelated, small whole numbers (so that much is equal) or not.

    Transfers are ``"none"``, between pairs that are all alike (``"uniform"``), or ``"any"``.
    """
    rng = np.random.default_rng([seed, 77])
    whole = bool(rng.random() < 0.4)
    count = int(rng.integers(1, max_executors + 1))
    speeds = 2.0 ** rng.integers(0, 3, count) if whole else rng.uniform(1, 4, count)
    channels: Any = 1.0
    latency: Any = 0.0
    ratio = float(rng.choice([0.1, 1.0, 5.0]))
    if transfers == "none":
        channels = np.inf
    elif transfers == "any" and rng.random() < 0.6:
        channels = 2.0 ** rng.integers(-1, 3, (count, count)) if whole else rng.uniform(0.5, 3, (count, count))
        if rng.random() < 0.5:
            latency = rng.integers(0, 3, (count, count)) if whole else rng.uniform(0, 2, (count, count))
    executors = Executors(speeds, channels, latency)
    jobs, time = [], 0.0
    for job_id in range(int(rng.integers(1, max_jobs + 1))):
        num_nodes = int(rng.integers(1, max_nodes + 1))
        if whole:
            work = rng.integers(0 if rng.random() < 0.3 else 1, 5, num_nodes).astype(float)
            edges = random_edges(rng, num_nodes, lambda: float(rng.integers(0, 5)))
        else:
            work = rng.exponential(10, num_nodes)
            edges = random_edges(rng, num_nodes, lambda: float(rng.exponential(10 * ratio)))
        run_times = None
        if rng.random() < 0.4:
            factors = rng.integers(1, 4, (num_nodes, count)) if whole else rng.uniform(0.3, 3, (num_nodes, count))
            run_times = work[:, None] * factors
        jobs.append(Job(10 + job_id, work, edges, submission_time=time, run_times=run_times))
        if staggered and rng.random() < 0.8:
            time += float(rng.integers(0, 15)) if whole else float(rng.exponential(15))
    return jobs, executors


def schedule_of(result: Result) -> Schedule:
    """Return the executor, the start and the finish of each node, each of which has one copy."""
    copies = result.table("copies").rows(named=True)
    schedule = {
        (copy["job_id"], copy["node"]): (copy["executor"], copy["starting_time"], copy["finish_time"])
        for copy in copies
    }
    assert len(schedule) == len(copies)
    return schedule


# -- what everybody computes -------------------------------------------------------------------------


def run_times_of(job: Job, executors: Executors) -> list[list[float]]:
    """Return the run times, by node and executor."""
    if job.run_times is not None:
        return [[float(time) for time in row] for row in job.run_times]
    return [[float(work) / float(speed) for speed in executors.speeds] for work in job.work]


def transfer_time(size: float, source: int, target: int, executors: Executors) -> float:
    """Return how long data move."""
    if source == target:
        return 0.0
    per_unit = 1.0 / float(executors.transfer_speeds[source, target])
    return size * per_unit + float(executors.latencies[source, target])


@cache
def mean_transfer(size: float, executors: Executors, *, self_loops: bool = False) -> Fraction:
    """Return the mean transfer time between different executors.

    With ``self_loops``, the mean over all unordered pairs, those of an executor with itself included.
    """
    count = executors.num_executors
    if self_loops:
        pairs = [(first, second) for first in range(count) for second in range(first, count)]
    else:
        pairs = [(first, second) for first in range(count) for second in range(count) if first != second]
    if not pairs:
        return Fraction(0)
    return sum((Fraction(transfer_time(size, *pair, executors)) for pair in pairs), Fraction(0)) / len(pairs)


def mean(values: Sequence[float]) -> Fraction:
    """Return the exact mean."""
    return sum(map(Fraction, values), Fraction(0)) / len(values)


def upward(job: Job, executors: Executors, *, self_loops: bool = False, transfers: bool = True) -> list[Fraction]:
    """Return the upward ranks."""
    times = run_times_of(job, executors)
    ranks: dict[int, Fraction] = {}
    for node in reversed(range(job.num_nodes)):
        ways = [
            ranks[child] + (mean_transfer(size, executors, self_loops=self_loops) if transfers else 0)
            for child, size in job.child_lists[node]
        ]
        ranks[node] = mean(times[node]) + max(ways, default=Fraction(0))
    return [ranks[node] for node in range(job.num_nodes)]


def downward(job: Job, executors: Executors) -> list[Fraction]:
    """Return the downward ranks."""
    times = run_times_of(job, executors)
    ranks: list[Fraction] = []
    for parents in job.parent_lists:
        ways = [ranks[parent] + mean(times[parent]) + mean_transfer(size, executors) for parent, size in parents]
        ranks.append(max(ways, default=Fraction(0)))
    return ranks


class Gantt:
    """What has been scheduled: intervals on each executor, in order, and where each node is."""

    def __init__(self, jobs: Sequence[Job], executors: Executors) -> None:
        self.executors = executors
        self.jobs = {job.job_id: job for job in jobs}
        self.times = {job.job_id: run_times_of(job, executors) for job in jobs}
        self.rows: list[list[tuple[float, float]]] = [[] for _ in range(executors.num_executors)]
        self.copies: dict[Key, list[tuple[int, float, float]]] = {}
        self.now = 0.0

    def arrival(self, job_id: int, parent: int, size: float, executor: int) -> float:
        """Return when the data of a parent are on an executor, from the copy that is first."""
        return min(
            finish if source == executor else finish + transfer_time(size, source, executor, self.executors)
            for source, _, finish in self.copies[job_id, parent]
        )

    def ready(self, job_id: int, node: int, executor: int) -> float:
        """Return when all inputs are on an executor."""
        parents = self.jobs[job_id].parent_lists[node]
        return max((self.arrival(job_id, parent, size, executor) for parent, size in parents), default=0.0)

    def free(self, executor: int) -> float:
        """Return when an executor has run everything."""
        row = self.rows[executor]
        return max(row[-1][1] if row else 0.0, self.now)

    def behind(self, job_id: int, node: int, executor: int) -> tuple[float, float]:
        """Return start and finish behind everything."""
        start = max(self.free(executor), self.ready(job_id, node, executor))
        return start, start + self.times[job_id][node][executor]

    def inserted(self, job_id: int, node: int, executor: int) -> tuple[float, float]:
        """Return start and finish in the first idle time that is long enough; nothing starts at its very end."""
        ready = max(self.ready(job_id, node, executor), self.now)
        duration = self.times[job_id][node][executor]
        row = [(0.0, 0.0), *self.rows[executor]]
        for (_, begin), (end, _) in pairwise(row):
            start = max(begin, ready)
            if start < end and start + duration <= end:
                return start, start + duration
        return self.behind(job_id, node, executor)

    def put(self, key: Key, executor: int, times: tuple[float, float]) -> None:
        """Schedule a copy."""
        self.copies.setdefault(key, []).append((executor, *times))
        self.rows[executor].append(times)
        self.rows[executor].sort()

    def schedule(self) -> Schedule:
        """Return where each node is, each with one copy."""
        assert all(len(copies) == 1 for copies in self.copies.values())
        return {key: copies[0] for key, copies in self.copies.items()}


Choose = Callable[[Gantt, int, int], Any]


def list_schedule(
    jobs: Sequence[Job],
    executors: Executors,
    priorities: Callable[[Sequence[Job]], dict[Key, Any]],
    place: Callable[[Gantt, Key], Any],
) -> tuple[Gantt, list[Any]]:
    """Plan jobs when they arrive, those of one time together: ready nodes in order of priority go where ``place`` says.

    Returns the schedule and what ``place`` has returned, in order.
    """
    gantt = Gantt(jobs, executors)
    answers = []
    for time in sorted({job.submission_time for job in jobs}):
        gantt.now = time
        batch = [job for job in jobs if job.submission_time == time]
        keys = priorities(batch)
        left = [(keys[job.job_id, node], jobs.index(job), job, node) for job in batch for node in range(job.num_nodes)]
        left.sort(key=lambda entry: (entry[0], entry[1], entry[3]))
        while left:
            index = next(
                index
                for index, (_, _, job, node) in enumerate(left)
                if all((job.job_id, parent) in gantt.copies for parent, _ in job.parent_lists[node])
            )
            _, _, job, node = left.pop(index)
            answers.append(place(gantt, (job.job_id, node)))
    return gantt, answers


# -- priorities and placements -----------------------------------------------------------------------


def by_rank(jobs: Sequence[Job], executors: Executors, *, self_loops: bool = False) -> dict[Key, Fraction]:
    """Return the negative upward ranks."""
    ranks = {job.job_id: upward(job, executors, self_loops=self_loops) for job in jobs}
    return {(job_id, node): -rank for job_id, of_job in ranks.items() for node, rank in enumerate(of_job)}


def by_path(jobs: Sequence[Job], executors: Executors) -> dict[Key, Fraction]:
    """Return the negative sums of upward and downward ranks."""
    keys = {}
    for job in jobs:
        for node, (up, down) in enumerate(zip(upward(job, executors), downward(job, executors), strict=True)):
            keys[job.job_id, node] = -(up + down)
    return keys


def by_submission(jobs: Sequence[Job], executors: Executors) -> dict[Key, float]:
    """Return the submission times."""
    return {(job.job_id, node): job.submission_time for job in jobs for node in range(job.num_nodes)}


def by_size(jobs: Sequence[Job], executors: Executors) -> dict[Key, Fraction]:
    """Return the sums of the mean run times of the jobs."""
    sums = {job.job_id: sum(map(mean, run_times_of(job, executors))) for job in jobs}
    return {(job.job_id, node): Fraction(sums[job.job_id]) for job in jobs for node in range(job.num_nodes)}


def place_eft(gantt: Gantt, key: Key) -> tuple[int, tuple[int, ...]]:
    """Put a node where it finishes first, behind everything."""
    times = [gantt.behind(*key, executor) for executor in range(gantt.executors.num_executors)]
    executor = min(range(len(times)), key=lambda index: times[index][1])
    gantt.put(key, executor, times[executor])
    return executor, ()


def place_inserted(gantt: Gantt, key: Key) -> tuple[int, tuple[int, ...]]:
    """Put a node where it finishes first, in idle time too."""
    times = [gantt.inserted(*key, executor) for executor in range(gantt.executors.num_executors)]
    executor = min(range(len(times)), key=lambda index: times[index][1])
    gantt.put(key, executor, times[executor])
    return executor, ()


def place_inserted_deft(gantt: Gantt, key: Key) -> tuple[int, tuple[int, ...]]:
    """Do the same, in idle time too unless a parent is copied."""
    return place_deft(gantt, key, inserted=True)


def place_deft(gantt: Gantt, key: Key, *, inserted: bool = False) -> tuple[int, tuple[int, ...]]:
    """Put a node where it finishes first, with a copy of one of its parents before it if that is earlier."""
    job_id, node = key
    parents = gantt.jobs[job_id].parent_lists[node]
    executors = range(gantt.executors.num_executors)
    alone = gantt.inserted if inserted else gantt.behind
    best, executor = min((alone(job_id, node, executor)[1], executor) for executor in executors)
    chosen = None
    for other in executors:
        for copied, _ in parents:
            first = gantt.behind(job_id, copied, other)
            arrivals = [gantt.arrival(job_id, parent, size, other) for parent, size in parents if parent != copied]
            start = max([first[1], *arrivals])
            finish = start + gantt.times[job_id][node][other]
            if finish < best:
                best, executor, chosen = finish, other, (copied, first, (start, finish))
    if chosen is None:
        gantt.put(key, executor, alone(job_id, node, executor))
        return executor, ()
    copied, first, times = chosen
    gantt.put((job_id, copied), executor, first)
    gantt.put(key, executor, times)
    return executor, (copied,)


# -- the published algorithms ------------------------------------------------------------------------


def heft(jobs: Sequence[Job], executors: Executors, *, self_loops: bool = False) -> Schedule:
    """HEFT."""

    def ranks(batch: Sequence[Job]) -> dict[Key, Fraction]:
        return by_rank(batch, executors, self_loops=self_loops)

    return list_schedule(jobs, executors, ranks, place_inserted)[0].schedule()


def critical_nodes(jobs: Sequence[Job], executors: Executors) -> list[Key]:
    """Return the critical path of jobs that are one graph: from the first of the highest, edge by tight edge."""
    best: tuple[Fraction, Job, list[Fraction]] | None = None
    for job in jobs:
        ranks = upward(job, executors)
        if best is None or max(ranks) > best[0]:
            best = max(ranks), job, ranks
    assert best is not None
    length, job, ranks = best
    node = next(node for node in range(job.num_nodes) if not job.parent_lists[node] and ranks[node] == length)
    path = [node]
    times = run_times_of(job, executors)
    while job.child_lists[node]:
        rest = ranks[node] - mean(times[node])
        node = next(
            child for child, size in job.child_lists[node] if mean_transfer(size, executors) + ranks[child] == rest
        )
        path.append(node)
    return [(job.job_id, node) for node in path]


def cpop(jobs: Sequence[Job], executors: Executors) -> Schedule:
    """CPOP: the critical path on the executor where it takes least."""
    home: dict[Key, int] = {}

    def keys(batch: Sequence[Job]) -> dict[Key, Fraction]:
        critical = critical_nodes(batch, executors)
        of_job = {job.job_id: run_times_of(job, executors) for job in batch}
        sums = [
            sum(Fraction(of_job[job_id][node][executor]) for job_id, node in critical)
            for executor in range(executors.num_executors)
        ]
        home.update(dict.fromkeys(critical, sums.index(min(sums))))
        return by_path(batch, executors)

    def place(gantt: Gantt, key: Key) -> None:
        if key in home:
            gantt.put(key, home[key], gantt.inserted(*key, home[key]))
        else:
            place_inserted(gantt, key)

    return list_schedule(jobs, executors, keys, place)[0].schedule()


def optimistic_costs(job: Job, executors: Executors) -> list[list[Fraction]]:
    """Return the optimistic cost table, from its definition."""
    times = run_times_of(job, executors)
    count = range(executors.num_executors)
    table: dict[int, list[Fraction]] = {}
    for node in reversed(range(job.num_nodes)):
        table[node] = [
            max(
                (
                    min(
                        table[child][other]
                        + Fraction(times[child][other])
                        + (mean_transfer(size, executors) if other != executor else 0)
                        for other in count
                    )
                    for child, size in job.child_lists[node]
                ),
                default=Fraction(0),
            )
            for executor in count
        ]
    return [table[node] for node in range(job.num_nodes)]


def peft(jobs: Sequence[Job], executors: Executors) -> Schedule:
    """PEFT."""
    tables = {job.job_id: optimistic_costs(job, executors) for job in jobs}

    def keys(batch: Sequence[Job]) -> dict[Key, Fraction]:
        return {(job.job_id, node): -mean(tables[job.job_id][node]) for job in batch for node in range(job.num_nodes)}

    def place(gantt: Gantt, key: Key) -> None:
        job_id, node = key
        costs = tables[job_id][node]
        times = [gantt.inserted(*key, executor) for executor in range(gantt.executors.num_executors)]
        sums = [Fraction(finish) + cost for (_, finish), cost in zip(times, costs, strict=True)]
        executor = sums.index(min(sums))
        gantt.put(key, executor, times[executor])

    return list_schedule(jobs, executors, keys, place)[0].schedule()


def dls(jobs: Sequence[Job], executors: Executors) -> Schedule:
    """DLS on jobs that are planned when they arrive: all pairs, the highest level first."""
    gantt = Gantt(jobs, executors)
    levels = {job.job_id: upward(job, executors, transfers=False) for job in jobs}
    for time in sorted({job.submission_time for job in jobs}):
        gantt.now = time
        left = [(job, node) for job in jobs if job.submission_time == time for node in range(job.num_nodes)]
        while left:
            pairs = []
            for job, node in left:
                if any((job.job_id, parent) not in gantt.copies for parent, _ in job.parent_lists[node]):
                    continue
                times = gantt.times[job.job_id][node]
                for executor, run_time in enumerate(times):
                    start, _ = gantt.behind(job.job_id, node, executor)
                    level = levels[job.job_id][node] - Fraction(start) + mean(times) - Fraction(run_time)
                    pairs.append((-level, jobs.index(job), node, executor))
            _, index, node, executor = min(pairs)
            job = jobs[index]
            gantt.put((job.job_id, node), executor, gantt.behind(job.job_id, node, executor))
            left.remove((job, node))
    return gantt.schedule()
