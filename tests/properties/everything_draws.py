"""Plain random values for scenarios, and what the scenarios of all problems share."""

from __future__ import annotations

import math
from collections.abc import Generator as Process
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import simpy
from numpy.random import Generator

from desim.core import Phase, at
from desim.problems.batch.cores import to_core_ids
from desim.processes import Outage, planned_outages, random_outages, stop_after

__all__ = ["Drawn", "Draws", "moments_of", "processes_of", "random_edges", "stream_of", "without_kind"]

Value = TypeVar("Value")


class Drawn(NamedTuple):
    """What a problem's part of a scenario is made of: plain values only.

    Attributes
    ----------
    system : dict
        Arguments of the problem.
    workload : dict
        ``kind`` and what goes with it: the rows themselves, or the arguments of a generator.
    agent : str
        By its name in the registry, or ``"anything"``.
    options : dict
        Of the agent, such as a shield.
    until : float
        End of the run.
    """

    system: dict[str, Any]
    workload: dict[str, Any]
    agent: str
    options: dict[str, Any]
    until: float


class Draws:
    """Draws Python's own numbers.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    """

    def __init__(self, rng: Generator) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def cycle(self) -> Any:
        return self.pick(("instant", "instant", "arrival", "event", 0.5, self.uniform(0.1, 20.0)))

    def predictor(self) -> str:
        return self.pick(("request", "request", "user-average", "user-average:1", "oracle"))

    def whole(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def pick(self, values: Sequence[Value]) -> Value:
        return values[int(self.rng.integers(len(values)))]

    def some(self, values: Sequence[Value], most: int) -> list[Value]:
        """Draw different ones, in any order."""
        count = min(len(values), self.whole(0, most))
        return [values[place] for place in self.rng.permutation(len(values))[:count].tolist()]

    def seed(self) -> int:
        return self.whole(0, 2**31)

    def amount(self, kind: str, most: int) -> float:
        """Draw a number from 0 on: whole ones with ties, fractions, or anything from tiny to huge.

        Parameters
        ----------
        kind : {"whole", "quarters", "thirds", "any", "mixed"}
            What kind of numbers.
        most : int
            Largest whole number; "mixed" goes far beyond it.
        """
        if kind == "mixed":
            return 0.0 if self.chance(0.05) else float(10.0 ** self.uniform(-9.0, 9.0))
        if kind == "any":
            return 0.0 if self.chance(0.05) else float(self.rng.exponential(most / 2 + 1e-9))
        number = self.whole(0, most)
        return {"whole": float(number), "quarters": number / 4, "thirds": number / 3}[kind]

    def end(self, moments: Sequence[float], probability: float = 0.25) -> float:
        """Draw when a run ends: never, at one of the moments at which something happens, or at any time before."""
        later = [moment for moment in moments if 0 < moment < math.inf]
        if not later or not self.chance(probability):
            return math.inf
        return self.pick(later) if self.chance(0.5) else max(later) * self.uniform(0.05, 1.2)

    def outages(self, units: int, span: float, kind: str = "any", *, forever: bool = True) -> dict[str, Any]:
        """Draw planned outages: intervals that may overlap and touch, of any sets of units."""
        lengths, planned = self.pick((0.05, 0.3)), []
        for _ in range(self.whole(1, 8)):
            start = float(round(self.uniform(0.0, span))) if kind == "whole" else self.uniform(0.0, span)
            length = max(float(round(self.uniform(0, lengths * span))), 1.0) if kind == "whole" else None
            length = self.uniform(0.001, lengths) * span if length is None else length
            end = math.inf if forever and self.chance(0.08) else start + length
            if end > start:
                planned.append((start, end, self.units(units)))
        return {"kind": "planned", "outages": sorted(planned)}

    def units(self, count: int) -> int:
        """Draw a set of units as a bit set: one, all, or any of them."""
        choice = self.whole(0, 3)
        if choice == 0:
            return 1 << self.whole(0, count - 1)
        if choice == 1:
            return (1 << count) - 1
        return sum(1 << unit for unit in range(count) if self.chance(0.4))


def random_edges(draws: Draws, count: int) -> list[tuple[int, int]]:
    """Draw a connected graph in which each node has parents among the last few before it."""
    width, most = draws.whole(1, 8), draws.whole(1, 3)
    edges = []
    for child in range(1, count):
        near = list(range(max(0, child - width), child))
        parents = draws.some(near, most) or [draws.pick(near)]
        edges += [(parent, child) for parent in sorted(parents)]
    return edges


def moments_of(times: Sequence[float], lengths: Sequence[float]) -> list[float]:
    """Return submissions and the ends of jobs that start at once: instants at which things coincide."""
    return [*times, *(float(np.float64(time) + length) for time, length in zip(times, lengths, strict=True))]


def without_kind(values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of what ``kind`` says."""
    return {name: value for name, value in values.items() if name != "kind"}


def processes_of(system: dict[str, Any], jobs: Sequence[Any], workload: dict[str, Any]) -> list[Any]:
    """Return outages, an early end, and a process that submits jobs of its own; their settings are taken out."""
    processes = []
    outages, stop = system.pop("outages", None), system.pop("stop_after", None)
    if outages is not None and outages["kind"] == "planned":
        kind = "nodes" if "nodes" in system else "cores" if "num_cores" in system else "executors"
        times_and_units = ((*times, {kind: to_core_ids(units)}) for *times, units in outages["outages"])
        processes.append(planned_outages([Outage(start, end, **units) for start, end, units in times_and_units]))
    elif outages is not None:
        means = outages["mean_time_to_failure"], outages["mean_time_to_repair"]
        processes.append(random_outages(*means, unit=outages["units_per_failure"]))
    if stop is not None:
        processes.append(stop_after(*stop))
    if own := workload.get("own"):
        processes.append(submitting([jobs[place] for place in own]))
    return processes


def stream_of(jobs: Sequence[Any], workload: dict[str, Any]) -> Any:
    """Return the jobs that no process submits."""
    stream = [job for place, job in enumerate(jobs) if place not in workload.get("own", [])]
    return iter(stream) if workload.get("iterator") else stream


def submitting(jobs: list[Any]) -> Any:
    """Return a process that submits jobs at their times."""

    def process(cluster: Any) -> Process[simpy.Event, Any, None]:
        for job in jobs:
            if job.submission_time > cluster.env.now:
                yield at(cluster.env, job.submission_time, Phase.ARRIVAL)
            cluster.submit(job)

    return process
