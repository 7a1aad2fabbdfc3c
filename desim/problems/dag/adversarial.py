"""Small instances of ``dag`` for the search for worst cases: one job, and executors of different speeds.

As in PISA, an initial instance is a chain of three to five nodes on three to five executors. A change moves a weight by
up to a tenth of its range, or adds or removes an edge. Tiny weights are excluded, because ratios would grow without
bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.random import Generator

from desim import plugins
from desim.core import Agent, Simulation
from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job

__all__ = ["DagInstance"]

#: Ranges of a node's work, an edge's data size, an executor's speed, and a channel's speed.
WORK, DATA, SPEED, CHANNEL = (0.01, 1.0), (0.0, 1.0), (0.1, 1.0), (0.1, 1.0)
#: Largest change of a weight, as a share of its range.
LARGEST_CHANGE = 0.1


@dataclass(frozen=True)
class DagInstance:
    """Instance of one job on a set of executors.

    Attributes
    ----------
    work : list of float
        Work of each node.
    edges : list of [parent, child, size]
        Edges, each from a node to one with a higher number.
    speeds : list of float
        Speeds of the executors.
    channels : list of list of float
        Units of data per second between each pair of executors, symmetric; the diagonal is ignored.
    """

    # The only job is submitted at time 0, and the run ends when it completes.
    at_the_end: ClassVar[Mapping[str, Callable[[Simulation], float]]] = {"makespan": lambda end: end.end_time}

    work: list[float]
    edges: list[list[Any]]
    speeds: list[float]
    channels: list[list[float]]

    @classmethod
    def draw(cls, rng: Generator) -> Self:
        """Return a random chain of three to five nodes on three to five executors."""
        nodes, executors = (int(count) for count in rng.integers(3, 6, size=2))
        work = [float(rng.uniform(*WORK)) for _ in range(nodes)]
        edges = [[node, node + 1, float(rng.uniform(*DATA))] for node in range(nodes - 1)]
        speeds = [float(rng.uniform(*SPEED)) for _ in range(executors)]
        channels = [[1.0] * executors for _ in range(executors)]
        for one in range(executors):
            for other in range(one):
                channels[one][other] = channels[other][one] = float(rng.uniform(*CHANNEL))
        return cls(work, edges, speeds, channels)

    def changed(self, rng: Generator) -> Self:
        """Return a copy of the instance with one weight or edge changed."""
        kind = ("work", "data", "speed", "channel", "add", "remove")[int(rng.integers(6))]
        if kind == "work":
            return replace(self, work=_nudged(self.work, WORK, rng))
        if kind == "speed":
            return replace(self, speeds=_nudged(self.speeds, SPEED, rng))
        if kind == "channel":
            one, other = rng.choice(len(self.speeds), size=2, replace=False).tolist()
            channels = [row.copy() for row in self.channels]
            channels[one][other] = channels[other][one] = _moved(channels[one][other], CHANNEL, rng)
            return replace(self, channels=channels)
        if kind == "add":
            parent, child = sorted(rng.choice(len(self.work), size=2, replace=False).tolist())
            new = [] if self._has(parent, child) else [[parent, child, float(rng.uniform(*DATA))]]
            return replace(self, edges=self.edges + new)
        if not self.edges:
            return self
        at = int(rng.integers(len(self.edges)))
        parent, child, size = self.edges[at]
        kept = [] if kind == "remove" else [[parent, child, _moved(size, DATA, rng)]]
        return replace(self, edges=self.edges[:at] + kept + self.edges[at + 1 :])

    def _has(self, parent: int, child: int) -> bool:
        return any(edge[:2] == [parent, child] for edge in self.edges)

    def job(self) -> Job:
        """Return the job of the instance."""
        return Job(0, self.work, [(*edge,) for edge in self.edges], allow_disconnected=True, label="adversarial")

    def executors(self) -> Executors:
        """Return the executors of the instance."""
        return Executors(self.speeds, self.channels)

    def problem(self, agent: Agent) -> DagCluster:
        """Return the cluster for the run of an agent."""
        return DagCluster([self.job()], self.executors()).for_agent(agent)

    def plain(self) -> dict[str, Any]:
        """Return the instance as a dictionary of plain values."""
        return asdict(self)

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> Self:
        """Return the instance with the given plain values."""
        return cls(**values)

    def write(self, path: Path) -> None:
        """Write job and executors as WfFormat, for ``desim run dag --trace``."""
        plugins.workload_provider("dag", str(path)).write(path, self.job(), executors=self.executors())


def _moved(value: float, within: tuple[float, float], rng: Generator) -> float:
    """Return a value changed by up to a tenth of its range, and kept within the range."""
    low, high = within
    change = LARGEST_CHANGE * (high - low) * rng.uniform(-1.0, 1.0)
    return float(min(max(value + change, low), high))


def _nudged(values: list[float], within: tuple[float, float], rng: Generator) -> list[float]:
    at = int(rng.integers(len(values)))
    return [*values[:at], _moved(values[at], within, rng), *values[at + 1 :]]
