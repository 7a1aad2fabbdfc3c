"""Small random workloads for clusters of deferrable jobs, in eighths so that sums are exact; and how a run is seen."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
import simpy

from desim.problems.deferrable import DeferrableCluster, Job
from desim.processes import replayed_capacity, stepped_capacity

Amounts = tuple[float, ...]


class Scenario(NamedTuple):
    """A cluster and its jobs: those of the workload, in order, and those that a process submits."""

    jobs: list[Job]
    own: list[Job]
    idle_until: float
    capacity_kind: str
    capacity: list[tuple[float, Amounts]]
    num_slots: int | None
    resources: tuple[str, ...]
    delay_weight: float
    violation_weights: Amounts
    overcommit: bool
    eviction: Any
    real_time: bool
    until: float

    def capacity_at(self, slot: int) -> list[Fraction]:
        """Return what on-demand jobs leave in a slot."""
        amounts = [amounts for _, amounts in self.capacity]
        if self.capacity_kind == "repeated":
            row = amounts[slot % len(amounts)]
        else:
            row = [amounts for time, amounts in self.capacity if time <= slot][-1]
        return [Fraction(amount) for amount in row]

    def cluster(self) -> DeferrableCluster:
        """Return the cluster, with fresh processes."""
        table: Any = [amounts for _, amounts in self.capacity]
        if len(self.resources) == 1 and self.capacity_kind == "series":
            table = [amount for (amount,) in table]
        capacity = {
            "series": lambda: table,
            "repeated": lambda: replayed_capacity(table, repeat=True),
            "steps": lambda: stepped_capacity(self.capacity),
            "own": lambda: setting(self.capacity),
        }[self.capacity_kind]()
        weights = self.violation_weights[0] if len(set(self.violation_weights)) == 1 else self.violation_weights
        return DeferrableCluster(
            self.jobs,
            capacity,
            num_slots=self.num_slots,
            resources=self.resources,
            delay_weight=self.delay_weight,
            violation_weight=weights,
            overcommit=self.overcommit,
            eviction=self.eviction,
            real_time=self.real_time,
            processes=[submitting(self.own), idling(self.idle_until)] if self.own or self.idle_until else (),
        )


Process = Callable[[Any], Generator[simpy.Event, Any, None]]


def submitting(jobs: Iterable[Job]) -> Process:
    """Return a process that submits jobs at their times."""

    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        for job in jobs:
            if job.submission_time > cluster.env.now:
                yield cluster.env.timeout(job.submission_time - cluster.env.now)
            cluster.submit(job)

    return process


def idling(until: float) -> Process:
    """Return a process that does nothing for a while."""

    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        yield cluster.env.timeout(until)

    return process


def setting(steps: Sequence[tuple[float, Amounts]]) -> Process:
    """Return a process that sets the capacity at given times, written with nothing but timeouts."""

    def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
        for time, amounts in steps:
            if time > cluster.env.now:
                yield cluster.env.timeout(time - cluster.env.now)
            cluster.set_capacity(amounts if len(amounts) > 1 else amounts[0])

    return process


def random_jobs(rng: Random, ids: Sequence[int], last: int, width: int, *, at_once: bool = False) -> list[Job]:
    """Return jobs in order of submission; ``at_once`` gives neither notice nor slack."""
    whole, lead_time = rng.random() < 0.4, rng.choice((0, 1, 4))
    slack, longest, most = rng.choice((0, 1, 5, 9)), rng.choice((1, 3, 7)), rng.choice((4, 16, 40))
    times = sorted(rng.randint(0, last) + (0 if whole else rng.choice((0, 0.125, 0.5, 0.75))) for _ in ids)
    jobs = []
    for job_id, time in zip(ids, times, strict=True):
        earliest = math.ceil(time) + rng.randint(0, lead_time)
        latest = earliest + rng.randint(0, slack)
        others = tuple(rng.choice((0, 0, 1, 2, 7)) / 4 for _ in range(width - 1))
        job = Job(job_id, time, earliest, latest, rng.randint(1, longest), rng.randint(1, most) / 8, others)
        jobs.append(job._replace(submission_time=earliest, latest_start=earliest) if at_once else job)
    jobs.sort(key=lambda job: job.submission_time)
    return [in_numpy(job) if rng.random() < 0.1 else job for job in jobs]


def in_numpy(job: Job) -> Job:
    """Return a job whose numbers are numpy's, as a table of them gives."""
    whole = {name: np.int64(getattr(job, name)) for name in ("job_id", "earliest_start", "latest_start", "duration")}
    return job._replace(**whole, submission_time=np.float64(job.submission_time), cores=np.float32(job.cores))


def random_capacity(rng: Random, kind: str, last: int, width: int) -> list[tuple[float, Amounts]]:
    """Return (time, amounts), one a slot for a series and at any times for steps."""
    most = rng.choice((8, 32, 80, 160))

    def draw() -> Amounts:
        return tuple(0.0 if rng.random() < 0.15 else rng.randint(0, most) / 8 for _ in range(width))

    if kind in ("series", "repeated"):
        return [(slot, draw()) for slot in range(rng.randint(1, last + 3))]
    times = sorted(rng.randint(0, 8 * last + 8) / rng.choice((8, 1)) for _ in range(rng.randint(0, last + 2)))
    return [(time, draw()) for time in (0, *times)]


def random_scenario(rng: Random, **fixed: Any) -> Scenario:
    """Return a scenario; ``fixed`` are entries that are not drawn."""
    last = rng.choice((1, 4, 9, 14))
    resources = rng.choice((("cores",), ("cores",), ("cores", "memory"), ("cores", "memory", "disk")))
    resources = fixed.get("resources", resources)
    num_slots = fixed.get("num_slots", rng.choice((None, None, rng.randint(1, last + 4))))
    real_time = fixed.get("real_time", rng.random() < 0.2)
    count, own = rng.choice((0, 3, 8, 15, 30)), rng.choice((0, 0, 0, 2, 5))
    ids = rng.sample(range(-5, 50), count + own) if rng.random() < 0.8 else [2**53 - n for n in range(count + own)]
    own_jobs = random_jobs(rng, ids[count:], last, len(resources), at_once=real_time)
    kind = fixed.get("capacity_kind", rng.choice(("series", "repeated", "steps", "own")))
    same = rng.random() < 0.5
    weights = tuple(rng.choice((0.0, 10.0, 2.25)) for _ in resources)
    scenario = Scenario(
        jobs=random_jobs(rng, ids[:count], last, len(resources)),
        own=own_jobs,
        idle_until=rng.choice((0.0, 0.0, 0.0, rng.randint(0, 8 * last) / 8)),
        capacity_kind=kind,
        capacity=random_capacity(rng, kind, last, len(resources)),
        num_slots=num_slots,
        resources=resources,
        delay_weight=rng.choice((2.0, 0.0, 0.75)),
        violation_weights=weights[:1] * len(resources) if same else weights,
        overcommit=rng.random() < 0.8,
        eviction=rng.choice(("never", "lost", "restarted", "restarted")),
        real_time=real_time,
        until=rng.choice((math.inf, math.inf, math.inf, rng.randint(1, 8 * last + 16) / rng.choice((8, 1)))),
    )
    return scenario._replace(**fixed)


def caught(error: type[Exception], message: str, run: Callable[[], Any]) -> Any:
    """Return the error that a run raises; its message is one string (notes are not part of it)."""
    with pytest.raises(error) as caught:
        run()
    assert len(caught.value.args) == 1
    assert re.search(message, str(caught.value))
    return caught.value
