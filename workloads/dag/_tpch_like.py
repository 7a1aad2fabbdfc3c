"""Synthetic TPC-H queries from published figures: stages as in Spark, their tasks, work and durations.

A query scans its tables. A chain of shuffles, the spine, then joins, aggregates and sorts the scanned data, and a
last stage collects the result. Further shuffles join scans off the spine. A scalar subquery ends in a single task, and
the scans of the outer query wait for its result. The numbers of stages and edges and the depth equal those of the
measured query; which scan feeds which shuffle is random, but the same for all sizes and seeds.

The numbers of stages, edges and tasks, the depth and the work were computed from the measurements of TPC-H on Spark
that accompany H. Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019.
The tables are those in the FROM clauses of the queries (TPC Benchmark H, standard specification, section 2.4), each
repeated as often as Spark scanned it. The model's constants were fitted to the same measurements, over sizes of 2 to
100 GB. Its results are scaled so that the tasks and work of each query and size add up to the measured totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_Kind = Literal["scan", "shuffle", "single", "final"]

#: Gigabytes of data in all tables together, in the order of the columns of _FIGURES.
SIZES = (2, 5, 10, 20, 50, 80, 100)
#: Per query: tables, stages, edges, depth, tasks at each of the sizes, and seconds of work at each of the sizes.
_FIGURES = """
 1  L          4   3  4   417   434   463   522   700   879   998  108.4  163.9  262.6   433.4   856.0  1271.7  1573.3
 2  RNNSSBPP  18  19  7  1817  1820  1824  1837  1875  1914  1940  189.7  205.2  224.2   272.5   423.6   555.1   631.1
 3  COL        6   5  4   418   439   474   549   772   996  1146  160.5  227.7  343.4   544.9  1122.6  1735.5  2298.1
 4  LO         6   5  5   621   642   677   750   967  1186  1332  139.3  207.5  322.0   512.5  1036.2  1600.9  2060.8
 5  RNSLOC    14  13  9  1429  1450  1485  1560  1783  2007  2157  227.6  306.2  433.7   668.8  1326.7  2045.3  2562.8
 6  L          2   1  2    13    30    59   118   296   475   594   36.5   85.0  178.3   335.1   711.0  1086.1  1359.3
 7  NSLCO     13  13  7  1426  1447  1482  1557  1780  2004  2154  211.2  279.9  389.5   596.5  1167.7  1810.5  2338.2
 8  RNNSPLOC  18  17  8  1830  1851  1886  1963  2191  2421  2575  231.4  312.0  443.1   671.7  1321.0  2034.8  2623.7
 9  NSPLBO    14  13  8  1599  1623  1662  1746  1996  2248  2416  272.6  368.9  525.3   790.4  1599.0  2468.4  3425.8
10  OCNL       9   8  6   820   841   876   951  1174  1398  1548  185.9  251.2  358.0   551.0  1097.1  1689.8  2123.8
11  NSB|B     11  11  9  1020  1016  1024  1042  1098  1152  1188  158.4  176.3  201.0   248.4   393.2   536.1   626.5
12  LO         6   5  5   618   639   674   747   964  1183  1329  137.7  202.2  311.5   496.2  1008.2  1530.1  1890.3
13  CO         7   6  6   847   852   862   877   923   967   998  138.4  162.0  197.9   273.8   506.8   720.3   851.3
14  PL         4   3  3   215   232   261   322   505   690   813  100.7  153.0  243.3   399.8   808.6  1210.5  1507.0
15  L|S        7   7  7   617   634   663   722   899  1079  1198  128.5  182.6  273.6   438.0   836.5  1225.5  1504.6
16  SBP        9   8  7  1206  1209  1213  1224  1257  1290  1312  210.0  223.9  244.0   285.7   410.9   529.6   606.6
17  PLL        6   6  4   427   461   519   639  1000  1364  1606  174.5  296.2  485.2   822.7  1828.1  2896.0  3635.2
18  LOLC       8   7  5   630   668   732   866  1267  1670  1939  187.5  317.0  504.7   859.1  1864.6  2888.0  3765.4
19  PL         4   3  3   215   232   261   322   505   690   813  103.9  156.5  247.7   404.5   816.8  1235.3  1569.2
20  NSLPB     12  11  6  1420  1440  1473  1543  1754  1966  2107  222.6  291.3  399.8   586.8  1093.2  1624.2  1980.7
21  LLNSLO    16  15  7  1844  1899  1992  2183  2756  3333  3717  381.6  603.2  932.2  1586.3  3494.3  5744.0  7560.1
22  C|OC       8   8  7   616   620   626   644   695   745   780  118.1  132.7  158.8   214.1   377.5   524.7   616.2
"""
#: Scan tasks per gigabyte: lineitem, orders, partsupp (B), part, customer, supplier, nation, region.
_TASKS_PER_GB = {"L": 5.93, "O": 1.33, "B": 0.91, "P": 0.19, "C": 0.19, "S": 0.0, "N": 0.0, "R": 0.0}
#: Tasks of a stage after a shuffle: the default of Spark's spark.sql.shuffle.partitions.
_SHUFFLE_TASKS = 200

# It belongs to the definition of the generated jobs: another number gives other graphs
_SEED = 22
_SHUFFLE_SPREAD = 0.6
_SCAN_SPREAD = 0.08

# A scan task takes 3.6 s at 2 GB and 2.5 s at 100 GB; one that reads a whole small table takes 1.6 s
_SCAN_SECONDS, _SCAN_EXPONENT, _SMALL_SCAN_SECONDS = 3.6, -0.09, 1.6
# The work of a shuffle stage has a constant part, larger if it joins; a share of the work of the scans whose data it
# receives; and a share of what its parent shuffles received
_JOIN_SECONDS, _PASS_SECONDS, _SCAN_SHARE, _SHUFFLE_SHARE = 22.0, 5.5, 0.13, 0.3
_SINGLE_SECONDS, _FINAL_SECONDS, _FINAL_TASK_SECONDS = 0.3, 0.1, 0.08

_EXECUTORS = (2, 5, 10, 20, 40, 50, 60, 80, 100)


class _Figures(NamedTuple):
    """Published figures of a query.

    Attributes
    ----------
    tables : str
        Scanned tables, as letters of `_TASKS_PER_GB`. Tables after a bar are scanned when the scalar
        subquery over the tables before it has its result.
    num_stages, num_edges : int
        Numbers of stages and edges of the graph.
    depth : int
        Number of stages on the longest path.
    num_tasks : mapping of int to int
        Total number of tasks of all stages, by size.
    work : mapping of int to float
        Total work of all tasks in seconds, by size.
    """

    tables: str
    num_stages: int
    num_edges: int
    depth: int
    num_tasks: Mapping[int, int]
    work: Mapping[int, float]


@cache
def _figures(query: int) -> _Figures:
    tables, *numbers = next(row[1:] for row in map(str.split, _FIGURES.splitlines()) if row[:1] == [str(query)])
    num_stages, num_edges, depth, *tasks = map(int, numbers[: 3 + len(SIZES)])
    work = map(float, numbers[3 + len(SIZES) :])
    by_size = dict(zip(SIZES, tasks, strict=True)), dict(zip(SIZES, work, strict=True))
    return _Figures(tables, num_stages, num_edges, depth, *by_size)


def _scan_tasks(table: str, size: int) -> int:
    """Return the number of tasks that scan a table: proportional to the size, but at least two."""
    return max(2, round(_TASKS_PER_GB[table] * size))


class Stage(NamedTuple):
    """Stage of a query.

    Attributes
    ----------
    kind : {"scan", "shuffle", "single", "final"}
        Kind of work that the stage does.
    table : str
        Letter of the table that a scan reads, otherwise empty.
    parents : tuple of int
        Numbers of the stages that it needs, ascending, all lower than its own.
    weight : float
        Random factor of its work, the same at all sizes.
    """

    kind: _Kind
    table: str
    parents: tuple[int, ...]
    weight: float


@cache
def shape(query: int) -> tuple[Stage, ...]:
    """Return the stages of a query in topological order; the last one is the only sink."""
    figures = _figures(query)
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
    """Graph of stages under construction."""

    rng: Generator
    kinds: list[_Kind] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, kind: _Kind, *, table: str = "", parents: list[int]) -> int:
        """Add a stage that depends on its parents, and return its number."""
        spread = {"scan": _SCAN_SPREAD, "shuffle": _SHUFFLE_SPREAD}.get(kind, 0.0)
        self.kinds.append(kind)
        self.tables.append(table)
        self.parents.append(list(parents))
        self.weights.append(float(self.rng.lognormal(-(spread**2) / 2, spread)))
        return len(self.kinds) - 1

    def scans(self, tables: str, parents: list[int] | None = None) -> list[int]:
        """Add one scan per table, and return their numbers."""
        return [self.add("scan", table=table, parents=parents or []) for table in tables]

    def join(self, scans: list[int], length: int, num_aside: int) -> list[int]:
        """Join scans by shuffles; return the shuffles of the spine, each of which depends on the previous one."""
        if not length:
            return []
        left = [scans[index] for index in self.rng.permutation(len(scans))]
        aside: list[list[int]] = [[left.pop()] for _ in range(num_aside)]
        spine: list[list[int]] = [[] for _ in range(length)]
        meets = self._meeting_points(length, num_aside)
        fan_in = [meets.count(place) + (place > 0) for place in range(length)]
        spine[0].append(left.pop())
        fan_in[0] += 1
        # Spark joins early: remaining scans fill shuffles that lack an input, and the end of the spine comes last
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
        """Return, for each shuffle off the spine, the shuffle of the spine (after the first) that depends on it."""
        places: list[int] = []
        while len(places) < num_aside:
            free = list(range(1, length))[: num_aside - len(places)]
            places += [free[index] for index in self.rng.permutation(len(free))]
        return places

    def link(self, sources: list[int], spine: list[int], figures: _Figures) -> None:
        """Add edges from sources that are used several times until there are as many as in the measured query."""
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


def stage_tasks(query: int, size: int) -> list[int]:
    """Return the number of tasks of each stage; they add up to the measured total."""
    stages = shape(query)
    total = _figures(query).num_tasks[size]
    tasks = [_tasks(stage, size) for stage in stages]
    # The last stage gets the remaining tasks, at least one; if the sum is then too large, the largest scan has fewer
    tasks[-1] = max(1, total - sum(tasks))
    scans = [number for number, stage in enumerate(stages) if stage.kind == "scan"]
    tasks[max(scans, key=tasks.__getitem__)] += total - sum(tasks)
    return tasks


def _tasks(stage: Stage, size: int) -> int:
    return {"scan": _scan_tasks(stage.table or "N", size), "shuffle": _SHUFFLE_TASKS, "single": 1, "final": 0}[
        stage.kind
    ]


def stage_work(query: int, size: int) -> Floats:
    """Return the work of each stage in seconds; it adds up to the measured total."""
    stages = shape(query)
    tasks = stage_tasks(query, size)
    work = np.zeros(len(stages))
    data = np.zeros(len(stages))  # output of a stage, in seconds of work
    for number, (stage, count) in enumerate(zip(stages, tasks, strict=True)):
        if stage.kind == "scan":
            small = _scan_tasks(stage.table, max(SIZES)) == 2
            seconds = _SMALL_SCAN_SECONDS if small else _SCAN_SECONDS * (size / 2) ** _SCAN_EXPONENT
            work[number] = count * seconds * stage.weight
            data[number] = _SCAN_SHARE * work[number]
        elif stage.kind == "shuffle":
            got = stage.weight * float(data[list(stage.parents)].sum())
            work[number] = got + (_JOIN_SECONDS if len(stage.parents) > 1 else _PASS_SECONDS)
            data[number] = _SHUFFLE_SHARE * got
        else:
            work[number] = _SINGLE_SECONDS if stage.kind == "single" else _FINAL_SECONDS + _FINAL_TASK_SECONDS * count
    total = _figures(query).work[size]
    scaled: Floats = work * (total / work.sum())
    return scaled


@dataclass(frozen=True)
class _WaveModel:
    """Model of task durations by wave and number of executors, for one kind of stage.

    With e executors, the duration of a task that is not the first of its executor is proportional to e ** growth. The
    first task of an executor takes `first` times as long, and `fresh` times as long as that if its executor is new
    to the job. The share of first tasks on new executors is `new_at_2 + new_slope * ln(e / 2)`. Within a wave,
    durations are log-normal.
    """

    growth: float
    first: float
    fresh: float
    new_at_2: float
    new_slope: float
    spread: float

    def runs(self, num_tasks: int) -> list[tuple[Floats, Floats, Floats]]:
        """Return fresh, first and later durations for each number of executors, with mean 1 over all runs."""
        runs = []
        for count in _EXECUTORS:
            num_first = min(count, num_tasks)
            share = self.new_at_2 + self.new_slope * np.log(count / 2)
            num_fresh = round(share * num_first)
            later = (count / 2) ** self.growth
            fresh = later * self.first * self.fresh * _quantiles(num_fresh, self.spread)
            warm = later * self.first * _quantiles(num_first - num_fresh, self.spread)
            rest = later * _quantiles(num_tasks - num_first, self.spread)
            runs.append((fresh, np.concatenate((fresh, warm)), rest))
        mean = float(np.mean([value for _, first, rest in runs for value in (*first, *rest)]))
        return [(fresh / mean, first / mean, rest / mean) for fresh, first, rest in runs]


@lru_cache(maxsize=512)
def _quantiles(count: int, spread: float) -> Floats:
    """Return equally likely values of a log-normal distribution, scaled to a mean of exactly 1."""
    levels = [NormalDist().inv_cdf((index + 0.5) / count) for index in range(count)]
    values: Floats = np.exp(spread * np.array(levels))
    values /= values.mean() if count else 1.0
    values.flags.writeable = False
    return values


_SCAN = _WaveModel(growth=0.16, first=1.2, fresh=1.4, new_at_2=0.25, new_slope=0.075, spread=0.1)
_SHUFFLE = _WaveModel(growth=0.35, first=5.0, fresh=2.0, new_at_2=0.0, new_slope=0.03, spread=0.25)
_MODELS = {"scan": _SCAN, "shuffle": _SHUFFLE, "single": _SCAN, "final": _SHUFFLE}


def stage_runs(query: int, size: int) -> list[dict[int, list[Floats]]]:
    """Return durations of fresh, first and later tasks of each stage, by number of executors.

    Their mean over all runs is the stage's mean task duration.
    """
    result = []
    for stage, count, work in zip(
        shape(query), stage_tasks(query, size), stage_work(query, size).tolist(), strict=True
    ):
        mean = work / count
        runs = zip(_EXECUTORS, _runs(stage.kind, count), strict=True)
        result.append({executors: [mean * values for values in run] for executors, run in runs})
    return result


@lru_cache(maxsize=512)
def _runs(kind: str, num_tasks: int) -> list[tuple[Floats, Floats, Floats]]:
    return _MODELS[kind].runs(num_tasks)
