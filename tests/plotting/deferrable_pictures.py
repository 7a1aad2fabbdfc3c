"""Runs of deferrable jobs to draw, their tables summed up the slow way, and the areas of a figure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.patches import StepPatch

from desim import Result, Simulation, simulate
from desim.problems.deferrable import DeferrableCluster, Job

RESOURCES = ("cores", "memory")


class InOrder:
    """Starts the jobs whose window is open in the order in which they became known, those that fit, and more."""

    name = "in order"

    def __init__(self, beyond: float = 0.0) -> None:
        self.beyond = beyond

    def act(self, observation):
        free, chosen = observation.free + self.beyond, []
        for position, request in enumerate(observation.current.requests):
            if (request <= free).all():
                chosen.append(position)
                free = free - request
        return chosen


class AnyOf:
    """Starts jobs at random, whether they fit or not, and remembers what it has seen."""

    name = "any of"

    def __init__(self, share: float = 0.4, seed: int = 0) -> None:
        self.share, self.seed = share, seed

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.left: list[tuple[float, float, float]] = []

    def act(self, observation):
        running, current, future = observation.running, observation.current, observation.future
        left = float((running.cores * (running.finish_time - observation.slot)).sum())
        self.left.append((left, float(current.revenue.sum()), float(future.revenue.sum())))
        return np.flatnonzero(self.rng.random(len(current)) < self.share)


class Nobody:
    """Starts nothing."""

    name = "nobody"

    def act(self, observation):
        return None


def some_jobs(number: int = 60, *, seed: int = 0, sizes: Any = (1, 2, 4, 8), gap: float = 0.4) -> list[Job]:
    """Return random jobs that come one after the other."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number_, time in enumerate(np.cumsum(rng.exponential(gap, number)).tolist(), start=1):
        earliest = int(np.ceil(time)) + int(rng.integers(4))
        latest, duration = earliest + int(rng.integers(6)), int(rng.integers(1, 7))
        size = float(rng.choice(sizes))
        jobs.append(Job(number_, time, earliest, latest, duration, size, (float(rng.integers(4)),)))
    return jobs


def some_capacity(num_slots: int, *, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(3, 30, (num_slots, 2)).astype(float)


def cluster(jobs: Any = None, num_slots: int | None = 30, **options: Any) -> DeferrableCluster:
    jobs = some_jobs() if jobs is None else jobs
    return DeferrableCluster(jobs, some_capacity(num_slots or 30), num_slots=num_slots, resources=RESOURCES, **options)


def run(jobs: Any = None, num_slots: int | None = 30, agent: Any = None, *, until: float = np.inf, **options) -> Result:
    """Simulate jobs on two resources."""
    return simulate(cluster(jobs, num_slots, **options), agent or AnyOf(), until=until)


def simple(jobs: list[Job], capacity: Any, agent: Any = None, **options: Any) -> Result:
    """Simulate jobs on cores alone."""
    return simulate(DeferrableCluster(jobs, capacity, **options), agent or InOrder(beyond=np.inf))


def interrupted(decisions: int, agent: Any = None, **options: Any) -> Result:
    """Break off a run right after some decisions."""
    agent = agent or AnyOf()
    if hasattr(agent, "reset"):
        agent.reset({}, np.random.default_rng(0))
    simulation = Simulation(cluster(**options))
    for _ in range(decisions):
        simulation.advance().answer(agent.act(simulation.advance().observation))
    return simulation.finish(status="interrupted", agent=agent.name)


class Fails(AnyOf):
    """Starts jobs at random until it raises an exception."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def act(self, observation):
        if observation.slot == self.after:
            raise RuntimeError
        return super().act(observation)


def failed(after: int, **options: Any) -> Result:
    """Run until the agent fails."""
    try:
        run(agent=Fails(after), **options)
    except RuntimeError as error:
        return error.result
    raise AssertionError


def crashed(result: Result, **kept: pl.Expr) -> Result:
    """Return what is left of a run that was killed: only some of its rows, and no end."""
    tables = {name: result.scan(name).filter(kept.get(name, pl.lit(True))) for name in result.table_names}
    info = {name: value for name, value in result.info.items() if name not in ("end_time", "agent")}
    return Result(tables, info | {"status": "running"})


class Span(NamedTuple):
    """When an execution of a job began and ended, and whether it was evicted."""

    job: dict[str, Any]
    begin: float
    end: float
    cut: bool


def spans(result: Result) -> list[Span]:
    """Return all executions; identifiers are those of one job each."""
    found = []
    jobs = {job["job_id"]: job for job in result.jobs.iter_rows(named=True)}
    for row in result.table("evictions").iter_rows(named=True):
        found.append(Span(jobs[row["job_id"]], row["starting_time"], row["eviction_time"], True))
    for job in jobs.values():
        if job["starting_time"] is not None and job["status"] != "evicted":
            end = len(result.table("slots")) if job["finish_time"] is None else job["finish_time"]
            found.append(Span(job, job["starting_time"], end, False))
    return found


def use(result: Result, resource: str, *, size: float | None = None) -> np.ndarray:
    """Return what jobs, or those with so many cores, hold in each slot."""
    amounts = np.zeros(len(result.table("slots")))
    for job, begin, end, _ in spans(result):
        if size in (None, job["requested_cores"]):
            amounts[int(begin) : int(np.ceil(end))] += job[f"requested_{resource}"]
    return amounts


class Area(NamedTuple):
    """What lies between two steps."""

    edges: list[float]
    below: np.ndarray
    above: np.ndarray


def areas(axes: Any) -> dict[str, Area]:
    """Return the filled areas of a panel by gid."""
    found = {}
    for patch in axes.patches:
        assert isinstance(patch, StepPatch)
        values, edges, baseline = patch.get_data()
        if baseline is not None:
            assert patch.get_fill() and patch.get_gid() not in found
            found[patch.get_gid()] = Area(edges.tolist(), np.asarray(baseline), np.asarray(values))
    return found


def line(axes: Any, gid: str = "capacity") -> tuple[list[float], list[float]]:
    """Return the edges and values of a line of steps."""
    (patch,) = [patch for patch in axes.patches if patch.get_gid() == gid]
    values, edges, baseline = patch.get_data()
    assert baseline is None and not patch.get_fill()
    return edges.tolist(), values.tolist()
