"""Stage graphs in the manner of Spark for the TPC-H queries, made up from the figures of each query.

A query scans its tables; a spine of shuffles, one behind the other, joins, aggregates and sorts what was scanned; a
last stage collects the result. Further shuffles join scans off the spine. A scalar subquery ends in a single task, for
whose result the scans of the outer query wait. Numbers of stages and edges and the depth are exactly those of the
measured query; which scan meets which shuffle is drawn, once for all sizes and seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from numpy.random import Generator, SeedSequence, default_rng

from desim.workloads._tpch_figures import FIGURES, Figures

__all__ = ["Stage", "shape"]

Kind = Literal["scan", "shuffle", "single", "final"]

# Part of what the generated jobs are: another number gives other graphs.
_SEED = 22
_SHUFFLE_SPREAD = 0.6
_SCAN_SPREAD = 0.08


class Stage(NamedTuple):
    """A stage of a query.

    Attributes
    ----------
    kind : {"scan", "shuffle", "single", "final"}
        What it does.
    table : str
        Letter of the table that a scan reads, else empty.
    parents : tuple of int
        Stages that it needs, in ascending order, all with lower numbers.
    weight : float
        Random factor of its work, the same at all sizes.
    """

    kind: Kind
    table: str
    parents: tuple[int, ...]
    weight: float


@cache
def shape(query: int) -> tuple[Stage, ...]:
    """Return the stages of a query in topological order.

    Parameters
    ----------
    query : int
        1 to 22.

    Returns
    -------
    tuple of Stage
        The last one is the only sink.
    """
    figures = FIGURES[query]
    rng = default_rng(SeedSequence([_SEED, query]))
    graph = _Graph(rng)
    early, _, late = figures.tables.partition("|")
    num_shuffles = figures.num_stages - len(early) - len(late) - (2 if late else 1)
    if late:
        inner = graph.join(graph.scans(early), max(1, len(early) - 1), 0)
        single = graph.add("single", parents=inner[-1:])
        spine = graph.join(graph.scans(late, [single]), num_shuffles - len(inner), 0)
        sources = inner[-1:]
    else:
        sources = graph.scans(early)
        spine = graph.join(sources, figures.depth - 2, num_shuffles - (figures.depth - 2))
    graph.add("final", parents=spine[-1:] or sources)
    graph.link(sources, spine, figures)
    return tuple(
        Stage(kind, table, tuple(sorted(parents)), weight)
        for kind, table, parents, weight in zip(graph.kinds, graph.tables, graph.parents, graph.weights, strict=True)
    )


@dataclass
class _Graph:
    """A graph that grows from its sources."""

    rng: Generator
    kinds: list[Kind] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, kind: Kind, *, table: str = "", parents: list[int]) -> int:
        """Add a stage behind others and return its number."""
        spread = {"scan": _SCAN_SPREAD, "shuffle": _SHUFFLE_SPREAD}.get(kind, 0.0)
        self.kinds.append(kind)
        self.tables.append(table)
        self.parents.append(list(parents))
        self.weights.append(float(self.rng.lognormal(-(spread**2) / 2, spread)))
        return len(self.kinds) - 1

    def scans(self, tables: str, parents: list[int] | None = None) -> list[int]:
        """Add one scan for each table."""
        return [self.add("scan", table=table, parents=parents or []) for table in tables]

    def join(self, scans: list[int], length: int, num_aside: int) -> list[int]:
        """Join scans by shuffles; return those of the spine, each of which needs the one before it."""
        if not length:
            return []
        left = [scans[index] for index in self.rng.permutation(len(scans))]
        aside: list[list[int]] = [[left.pop()] for _ in range(num_aside)]
        spine: list[list[int]] = [[] for _ in range(length)]
        meets = self._meeting_points(length, num_aside)
        fan_in = [meets.count(place) + (place > 0) for place in range(length)]
        spine[0].append(left.pop())
        fan_in[0] += 1
        # Spark joins early: what is left goes where an input is missing, the spine's tail comes last.
        while left:
            bare = next((inputs for inputs in aside if len(inputs) < 2), None)
            if bare is not None and fan_in[0] > 1:
                bare.append(left.pop())
                continue
            place = min(range(length), key=lambda place: (max(fan_in[place], 1), place))
            spine[place].append(left.pop())
            fan_in[place] += 1
        side = [self.add("shuffle", parents=inputs) for inputs in aside]
        numbers: list[int] = []
        for place, inputs in enumerate(spine):
            joined = [number for number, meet in zip(side, meets, strict=True) if meet == place]
            numbers.append(self.add("shuffle", parents=[*numbers[-1:], *inputs, *joined]))
        return numbers

    def _meeting_points(self, length: int, num_aside: int) -> list[int]:
        """Return for each shuffle off the spine which shuffle of the spine, after the first, needs it."""
        places: list[int] = []
        while len(places) < num_aside:
            free = list(range(1, length))[: num_aside - len(places)]
            places += [free[index] for index in self.rng.permutation(len(free))]
        return places

    def link(self, sources: list[int], spine: list[int], figures: Figures) -> None:
        """Add edges from stages that are used twice until there are as many as in the measured query."""
        missing = figures.num_edges - sum(map(len, self.parents))
        pairs = [
            (source, target)
            for target in spine
            for source in sources
            if source not in self.parents[target] and len(self.parents[target]) < 3
        ]
        while missing:
            source, target = pairs.pop(int(self.rng.integers(len(pairs))) if len(sources) > 1 else 0)
            self.parents[target].append(source)
            missing -= 1
