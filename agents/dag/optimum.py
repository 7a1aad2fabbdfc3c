"""Exact optima of small instances, by constraint programming (CP-SAT of ortools, an extra: ``desim[optimum]``).

The solver only handles integers, so times are converted to integer ticks. A pool is a cumulative constraint for each
resource. If nodes have modes, each pair of a pool and a mode is a place with an optional interval.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.planning import PartialSchedule, Placed, PlanningAgent, UnionGraph, serial_plan, union_of
from desim.checks import check_float
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.problems.dag import Executors, Job
from desim.problems.dag.pools import Tail

__all__ = ["OptimalSchedule", "Optimum", "ScheduledCopy", "optimal_schedule"]

Floats = NDArray[np.float64]

#: Number of ticks in a long time, if some times are not whole seconds and no resolution is given.
NUM_TICKS = 100_000_000

#: Durations above this number of ticks, and much longer than a schedule, are clipped: they are never chosen anyway.
FAR = 2.0**40

#: Largest number of ticks in a schedule, because the solver adds 64-bit integers.
LONGEST = 2.0**48

#: Shortest time between two looks at the processor time, in seconds.
SHORTEST_WAIT = 0.01

#: Relative deviation from an integer number of ticks that counts as a rounding error.
TOLERANCE = 1e-9


def choose_resolution(times: Sequence[Floats], given: float | None, long_time: float) -> tuple[float, bool]:
    """Return the length of a tick.

    Parameters
    ----------
    times : sequence of numpy.ndarray
        All times that will be converted, in seconds.
    given : float, optional
        Length of a tick chosen by the user, in seconds.
    long_time : float
        Time in seconds that is divided into ticks if some times are not whole seconds.

    Returns
    -------
    resolution : float
        Length of a tick in seconds.
    is_exact : bool
        Whether all times are integer numbers of ticks.
    """
    if given is not None:
        return given, all(_is_whole(array / given) for array in times)
    if all(_is_whole(array) for array in times):
        return 1.0, True
    return (long_time / NUM_TICKS or 1.0), False


def in_ticks(times: Floats, resolution: float, long_time: float) -> NDArray[np.int64]:
    """Return times as integer ticks, rounded up except for rounding errors.

    Times too long for any schedule are clipped, since the solver might not be able to represent them.

    Parameters
    ----------
    times : numpy.ndarray
        Times in seconds.
    resolution : float
        Length of a tick in seconds.
    long_time : float
        Time in seconds in which everything can be done.

    Returns
    -------
    numpy.ndarray of int, of the same shape
        Times in ticks.

    Raises
    ------
    InvalidConfiguration
        If a schedule may have more ticks than the solver can represent.
    """
    if not long_time / resolution < LONGEST:
        raise InvalidConfiguration(
            f"resolution: got {resolution!r} s, expected more, because a schedule may take {long_time!r} s: "
            "too many ticks for the solver"
        )
    ticks = np.minimum(times / resolution, max(4.0 * long_time / resolution, FAR))
    return np.where(_close(ticks), np.rint(ticks), np.ceil(ticks)).astype(np.int64)


def _is_whole(ticks: Floats) -> bool:
    return bool(_close(ticks).all())


def _close(ticks: Floats) -> NDArray[np.bool_]:
    close: NDArray[np.bool_] = np.abs(ticks - np.rint(ticks)) <= TOLERANCE * np.maximum(ticks, 1.0)
    return close


Ticks = NDArray[np.int64]


class CopyInTicks(NamedTuple):
    """A copy of a node in the solver's schedule."""

    start: int
    finish: int
    node: int
    place: int


class CPInstance(NamedTuple):
    """A scheduling instance with all times in ticks.

    Places are executors or, if nodes have modes, pairs of an executor and a mode.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_places)
        Run time of each node at each place.
    eligible : numpy.ndarray of bool, shape (num_nodes, num_places)
        Whether each node may run at each place.
    edges : list of (int, int)
        Pairs (parent, child); nodes are in topological order.
    transfers : numpy.ndarray of shape (num_edges, num_places, num_places)
        Transfer time of each edge from each place to each other, 0 within an executor.
    releases : numpy.ndarray of shape (num_nodes,)
        Earliest start of each node.
    free : numpy.ndarray of shape (num_places,)
        Time from which the executor of each place is free.
    demands : list of numpy.ndarray of shape (num_nodes, num_resources)
        Amounts that each node takes at each place.
    units : numpy.ndarray of shape (num_executors, num_resources)
        Amounts of pools.
    executors : list of int
        Executor of each place.
    """

    run_times: Ticks
    eligible: NDArray[np.bool_]
    edges: list[tuple[int, int]]
    transfers: Ticks
    releases: Ticks
    free: Ticks
    demands: list[Ticks]
    units: Ticks
    executors: list[int]

    @property
    def horizon(self) -> int:
        """A feasible makespan: everything on one executor or, if none may run all, one node after the other."""
        on_one = self.eligible.all(axis=0)
        if on_one.any():
            totals = np.maximum(self.free, self.releases.max()) + self.run_times.sum(axis=0)
            return int(totals[on_one].min())
        shortest = np.where(self.eligible, self.run_times, np.iinfo(np.int64).max).min(axis=1)
        slowest = self.transfers.max(axis=(1, 2)).sum() if self.edges else 0
        return int(max(self.free.max(), self.releases.max()) + shortest.sum() + slowest)


class Solution(NamedTuple):
    """Result of the solver.

    Attributes
    ----------
    copies : list of CopyInTicks or None
        Schedule; None if none was found within the time limit.
    bound : int
        Lower bound on the makespan.
    is_optimal : bool
        Whether the schedule is proved to be optimal.
    """

    copies: list[CopyInTicks] | None
    bound: int
    is_optimal: bool


def solve(instance: CPInstance, *, duplication: bool, time_limit: float) -> Solution:
    """Build the model and solve it.

    Parameters
    ----------
    instance : CPInstance
        Instance in ticks.
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Limit on the processor time of the process, in seconds.

    Returns
    -------
    Solution
        Best solution found.

    Raises
    ------
    MissingDependency
        If ortools is not installed.
    """
    cp_model = _import()
    model = _Model(cp_model, instance, duplication)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several workers may return different optimal schedules in each run
    solver.parameters.random_seed = 0
    with _stopped_after(solver, time_limit):
        status = solver.solve(model.model)
    assert status != cp_model.INFEASIBLE  # everything on one executor is always feasible
    bound = max(solver.best_objective_bound, 0.0)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, round(bound), False)
    copies = [
        CopyInTicks(solver.value(start), solver.value(start) + instance.run_times.item(key), *key)
        for key, start in model.starts.items()
        if solver.value(model.present[key])
    ]
    return Solution(copies, round(bound), status == cp_model.OPTIMAL)


@contextmanager
def _stopped_after(solver: Any, seconds: float) -> Iterator[None]:
    """Stop a solver that has used its processor time, because its own limits count wall time or steps."""
    end, ended = time.process_time() + seconds, threading.Event()

    def watch() -> None:
        while not ended.wait(max(end - time.process_time(), SHORTEST_WAIT)):
            if time.process_time() >= end:
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _import() -> Any:
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise MissingDependency(f"agent optimum needs ortools: pip install 'desim[optimum]' ({error})") from error


class _Model:
    """Variables and constraints of the optimization model.

    A schedule does not get worse if unused copies are removed, and a second copy of a node on the same executor is
    useless. So there is at most one copy of each node per executor, each copy is used, and all finish by the makespan.

    Parameters
    ----------
    cp_model : module
        Module ``cp_model`` of ortools.
    instance : CPInstance
        Instance in ticks.
    duplication : bool
        Whether a node may run on several executors.

    Attributes
    ----------
    model : CpModel
        The model.
    present, starts : dict
        For each pair (node, place): whether there is a copy, and when it starts.
    """

    def __init__(self, cp_model: Any, instance: CPInstance, duplication: bool) -> None:
        self.model = cp_model.CpModel()
        self.present: dict[tuple[int, int], Any] = {}
        self.starts: dict[tuple[int, int], Any] = {}
        self._instance = instance
        self._duplication = duplication
        self._horizon = instance.horizon
        self._eligible = [np.flatnonzero(row).tolist() for row in instance.eligible]
        self._add_copies()
        self._add_data()
        self._add_makespan()

    def _add_copies(self) -> None:
        """Add the copies: at least one of each node, without overlap on an executor."""
        model, run_times = self.model, self._instance.run_times
        earliest = self._earliest_starts()
        has_children = {parent for parent, _ in self._instance.edges}
        intervals: list[dict[tuple[int, int], Any]] = [{} for _ in self._instance.units]
        for node in range(len(run_times)):
            for place in self._eligible[node]:
                key = node, place
                self.present[key] = present = model.new_bool_var(f"present {key}")
                first = earliest.item(key)
                if first + run_times.item(key) > self._horizon:
                    model.add(present == 0)
                    first = 0
                self.starts[key] = start = model.new_int_var(first, self._horizon, f"start {key}")
                intervals[self._instance.executors[place]][key] = model.new_optional_fixed_size_interval_var(
                    start, run_times.item(key), present, f"copy {key}"
                )
            copies = [self.present[node, place] for place in self._eligible[node]]
            if self._duplication and node in has_children:
                model.add_at_least_one(copies)
                for _, places in groupby(self._eligible[node], self._instance.executors.__getitem__):
                    modes = [self.present[node, place] for place in places]
                    if len(modes) > 1:
                        model.add_at_most_one(modes)
            else:
                model.add_exactly_one(copies)
        for executor, of_executor in enumerate(intervals):
            if not self._instance.units.shape[1]:
                model.add_no_overlap(of_executor.values())
            for demands, capacity in self._resources(executor, list(of_executor)):
                model.add_cumulative(of_executor.values(), demands, capacity)

    def _resources(self, executor: int, copies: list[tuple[int, int]]) -> Iterator[tuple[list[int], int]]:
        """Yield the demands of copies and the capacity for each resource of a pool, without common divisors."""
        amounts = np.array([self._instance.demands[place][node] for node, place in copies], dtype=np.int64)
        amounts = amounts.reshape(len(copies), self._instance.units.shape[1])
        for demands, capacity in zip(amounts.T, self._instance.units[executor], strict=True):
            divisor = np.gcd.reduce([capacity, *demands, 0])
            if demands.any():
                yield (demands // divisor).tolist(), int(capacity // divisor)

    def _earliest_starts(self) -> Ticks:
        """Return when each node could start on each executor if executors were unlimited."""
        run_times = self._instance.run_times
        earliest = np.maximum(self._instance.releases[:, None], self._instance.free)
        for number, (parent, child) in sorted(enumerate(self._instance.edges), key=lambda entry: entry[1][1]):
            finish = earliest[parent] + run_times[parent]
            arrival = (finish[:, None] + self._instance.transfers[number]).min(axis=0)
            earliest[child] = np.maximum(earliest[child], arrival)
        return earliest

    def _add_data(self) -> None:
        """Add the data flow: each copy gets data from one copy of each parent, and each copy with children is used."""
        model, run_times = self.model, self._instance.run_times
        uses: dict[tuple[int, int], list[Any]] = {}
        for number, (parent, child) in enumerate(self._instance.edges):
            transfers = self._instance.transfers[number].tolist()
            for executor in self._eligible[child]:
                sources = []
                for source in self._eligible[parent]:
                    used = model.new_bool_var(f"edge {parent} {child} from {source} to {executor}")
                    model.add_implication(used, self.present[parent, source])
                    finish = self.starts[parent, source] + run_times.item(parent, source)
                    arrival = finish + transfers[source][executor]
                    model.add(self.starts[child, executor] >= arrival).only_enforce_if(used)
                    sources.append(used)
                    uses.setdefault((parent, source), []).append(used)
                model.add(sum(sources) == self.present[child, executor])
        for key, of_copy in uses.items():
            model.add_bool_or([*of_copy, self.present[key].negated()])

    def _add_makespan(self) -> None:
        """Add the makespan, with lower bounds from each node's tail and each executor's work."""
        model, run_times = self.model, self._instance.run_times
        makespan = model.new_int_var(0, self._horizon, "makespan")
        tails = self._tails()
        for key, start in self.starts.items():
            model.add(makespan >= start + (run_times.item(key) + tails.item(key))).only_enforce_if(self.present[key])
        begin = int(self._instance.free.min())
        for executor in range(len(self._instance.units)):
            copies = sorted(key for key in self.present if self._instance.executors[key[1]] == executor)
            work = [run_times.item(key) * self.present[key] for key in copies]
            if copies and not self._instance.units.shape[1]:
                model.add(makespan >= begin + sum(work))
            for demands, capacity in self._resources(executor, copies):
                if capacity * self._horizon < LONGEST:  # larger sums are none for the solver
                    amounts = [demand * one for demand, one in zip(demands, work, strict=True)]
                    model.add(capacity * makespan >= capacity * begin + sum(amounts))
        model.minimize(makespan)

    def _tails(self) -> Ticks:
        """Return the least time from the end of each copy to the makespan.

        Without duplication, all children use the copy; with duplication, at least one child does.
        """
        run_times = self._instance.run_times
        tails = np.zeros_like(run_times)
        seen = np.zeros(len(run_times), dtype=bool)
        for number, (parent, child) in sorted(enumerate(self._instance.edges), key=lambda entry: -entry[1][0]):
            way = (self._instance.transfers[number] + run_times[child] + tails[child]).min(axis=1)
            if seen[parent]:
                way = np.minimum(tails[parent], way) if self._duplication else np.maximum(tails[parent], way)
            tails[parent] = way
            seen[parent] = True
        return tails


#: Largest size of a model, which has a variable for each edge and pair of executors; larger ones only fill the memory.
LARGEST = 200_000


class ScheduledCopy(NamedTuple):
    """A copy of a node in a schedule.

    Attributes
    ----------
    job_id, node, executor : int
        Job id, node and executor of the copy.
    start, finish : float
        Start and finish in seconds.
    mode : int, optional
        Mode of the node; None if nodes have no modes.
    """

    job_id: int
    node: int
    executor: int
    start: float
    finish: float
    mode: int | None = None


class OptimalSchedule(NamedTuple):
    """The best schedule found, with a bound on better ones.

    Attributes
    ----------
    copies : tuple of ScheduledCopy
        Copies in order of start; each comes after those that it depends on.
    makespan : float
        Finish time of the last node in seconds.
    bound : float
        Lower bound on the makespan of any schedule, in seconds.
    status : str
        ``"optimal"`` if optimality is proved, for times rounded up to integer ticks; otherwise ``"feasible"``.
    resolution : float
        Length of a tick in seconds.
    is_exact : bool
        Whether all times are integer numbers of ticks. If so, ``"optimal"`` means that makespan and bound are equal;
        otherwise they differ by the possible effect of rounding.
    """

    copies: tuple[ScheduledCopy, ...]
    makespan: float
    bound: float
    status: str
    resolution: float
    is_exact: bool


class _Options(NamedTuple):
    """Options of the solver, see :func:`optimal_schedule`."""

    duplication: bool
    time_limit: float
    resolution: float | None

    def check(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        check_float("time_limit", self.time_limit, above=0)
        if self.resolution is not None:
            check_float("resolution", self.resolution, above=0)


def optimal_schedule(
    jobs: Sequence[Job],
    executors: Executors,
    *,
    duplication: bool = True,
    time_limit: float = 60.0,
    resolution: float | None = None,
) -> OptimalSchedule:
    """Return a schedule with the smallest makespan.

    The model assumes that executors are always up, that transfers begin when a copy has finished and do not share
    links, and that submission times are known in advance. Under these conditions, no agent can finish all jobs earlier.

    The solver computes in integer ticks, to which other times are rounded up. The returned schedule has the solver's
    assignment and order, with the true times. Its bound also holds for the true times: it is lowered by one tick for
    each time that may have been rounded on the way to the last finish.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs, few and small: 30 nodes on 4 executors take about a second.
    executors : Executors
        Executors.
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Limit on the processor time of the process, in seconds; then the best schedule so far is returned, which may
        depend on the machine.
    resolution : float, optional
        Length of a tick in seconds. Default: 1 if all times are whole seconds, otherwise 1e-8 times the time that all
        nodes take on one executor.

    Returns
    -------
    OptimalSchedule
        Schedule with a lower bound and whether it is proved to be optimal.

    Raises
    ------
    InvalidConfiguration
        If there are no jobs, a value is out of range, or the instance is too large.
    MissingDependency
        If ortools is not installed.

    Examples
    --------
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> schedule = optimal_schedule([job], Executors([1.0, 2.0], 10.0), resolution=0.5)
    >>> schedule.makespan, schedule.status
    (3.5, 'optimal')
    """
    options = _Options(duplication, time_limit, resolution)
    options.check()
    if not jobs:
        raise InvalidConfiguration("jobs: got an empty sequence, expected at least one job")
    graph = union_of(jobs, executors, np.zeros(executors.num_executors))
    releases = np.repeat([job.submission_time for job in jobs], [job.num_nodes for job in jobs])
    return _solve(graph, releases, options)[0]


class Optimum(PlanningAgent):
    """Agent that plans jobs that arrive together by :func:`optimal_schedule`, given the current state of the executors.

    If all jobs arrive at once, this is the optimum. A plan ignores jobs to come, and later jobs queue behind those
    planned before. The cluster must not have shared links. A node that has to run again after an
    outage is assigned by upward rank and EFT.

    Parameters
    ----------
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Limit on the processor time of the process per plan, in seconds.
    resolution : float, optional
        Length of a tick in seconds, see :func:`optimal_schedule`.

    Attributes
    ----------
    schedules : list of OptimalSchedule
        Plans since the beginning of the run.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> agent = Optimum(resolution=0.5)
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), agent)
    >>> result.jobs["finish_time"].to_list(), agent.schedules[0].bound
    ([3.5], 3.5)
    """

    considers = frozenset({"demands", "modes"})

    name = "optimum"

    def __init__(
        self,
        *,
        duplication: bool = True,
        time_limit: float = 60.0,
        resolution: float | None = None,
    ) -> None:
        super().__init__()
        self._options = _Options(duplication, time_limit, resolution)
        self._options.check()
        self.schedules: list[OptimalSchedule] = []

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster does not plan ahead, or has links."""
        super().reset(info, rng)
        if info.get("links") is not None:
            raise InvalidConfiguration(
                "optimum: got a cluster with shared links, which the solver does not model, expected links=None; "
                "try portfolio"
            )
        self.schedules = []

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return the schedule of jobs that arrived together, in order of start."""
        schedule, placed = _solve(graph, np.zeros(graph.num_nodes), self._options)
        self.schedules.append(schedule)
        return placed

    def remarks(self) -> str:
        """Return one line on how many plans of the latest run are optimal, and for what."""
        proved = sum(schedule.status == "optimal" for schedule in self.schedules)
        return f"{proved} of {len(self.schedules)} plans proved optimal, for jobs that arrive together without outages"


def _solve(graph: UnionGraph, releases: Floats, options: _Options) -> tuple[OptimalSchedule, list[Placed]]:
    """Solve in ticks, counted from when the first executor is free, and convert the result to seconds."""
    edges = [(parent, child) for child, parents in enumerate(graph.parents) for parent, _, _ in parents]
    places = _places(graph)
    eligible = places.run_times < np.inf
    counts = eligible.sum(axis=1).tolist()
    if sum(counts) + sum(counts[parent] * counts[child] for parent, child in edges) > LARGEST:
        raise InvalidConfiguration(
            f"optimum: got {graph.num_nodes} nodes and {len(edges)} edges on {graph.num_executors} executors, too many "
            "for an exact solution"
        )
    begin = graph.free.min().item()
    sizes = np.array([size for parents in graph.parents for _, size, _ in parents])
    transfers = sizes[:, None, None] * graph.seconds_per_unit + graph.latencies
    seconds = {
        "run_times": places.run_times,
        "transfers": transfers[:, places.executors][:, :, places.executors],
        "releases": np.maximum(releases - begin, 0.0),
        "free": (graph.free - begin)[places.executors],
    }
    on_one = (graph.free - begin + graph.run_times.sum(axis=0)).min().item()
    latest = np.maximum(graph.free - begin, seconds["releases"].max())
    long_time = (latest + graph.run_times.sum(axis=0)).min().item()
    if on_one == np.inf:  # no executor may run all nodes: one after the other, each where it is fastest
        slowest = seconds["transfers"].max(axis=(1, 2)).sum() if edges else 0.0
        on_one = float(seconds["free"].max() + graph.run_times.min(axis=1).sum() + slowest)
        long_time = on_one + float(seconds["releases"].max())
    known = [places.run_times[eligible], *(array for name, array in seconds.items() if name != "run_times")]
    resolution, is_exact = choose_resolution(known, options.resolution, on_one)
    instance = CPInstance(
        edges=edges,
        eligible=eligible,
        demands=places.demands,
        units=graph.units,
        executors=places.executors,
        **{name: in_ticks(array, resolution, long_time) for name, array in seconds.items()},
    )
    solution = solve(instance, duplication=options.duplication, time_limit=options.time_limit)
    placed = _with_true_times(graph, releases, solution, places)
    # The path to the last finish has a first start, then copies and transfers in turn, with each copy at most once.
    roundings = 0 if is_exact else 2 * graph.num_nodes * (graph.num_executors if options.duplication else 1)
    makespan = _makespan(placed)
    schedule = OptimalSchedule(
        tuple(
            ScheduledCopy(*graph.owners[copy.node], graph.executors[copy.executor], *copy[:2], copy.mode)
            for copy in placed
        ),
        makespan,
        min(begin + max(solution.bound - roundings, 0) * resolution, makespan),
        "optimal" if solution.is_optimal else "feasible",
        resolution,
        is_exact,
    )
    return schedule, placed


class _Places(NamedTuple):
    """Places where nodes may run: an executor, or a pair of an executor and a mode.

    Attributes
    ----------
    executors, modes : list of int
        Executor and mode of each place.
    run_times : numpy.ndarray of shape (num_nodes, num_places)
        Run times in seconds, infinite where a node may not run.
    demands : list of numpy.ndarray of shape (num_nodes, num_resources)
        Amounts that each node takes at each place.
    """

    executors: list[int]
    modes: list[int]
    run_times: Floats
    demands: list[Ticks]


def _places(graph: UnionGraph) -> _Places:
    """Return the places of each executor in turn, one per mode; a node without modes has the first."""
    count = max((len(modes.units) for modes in graph.modes.values()), default=1)
    executors = np.repeat(np.arange(graph.num_executors), count).tolist()
    modes = list(range(count)) * graph.num_executors
    run_times = np.full((graph.num_nodes, len(executors)), np.inf)
    run_times[:, ::count] = graph.run_times
    demands = [graph.demands[executor].copy() for executor in executors]
    for node, (times, units) in graph.modes.items():
        run_times[node] = np.inf
        for place, (executor, mode) in enumerate(zip(executors, modes, strict=True)):
            if mode < len(units):
                run_times[node, place], demands[place][node] = times[mode, executor], units[mode]
    return _Places(executors, modes, run_times, demands)


def _with_true_times(graph: UnionGraph, releases: Floats, solution: Solution, places: _Places) -> list[Placed]:
    """Return the solver's schedule with true times: the same order per executor, each copy as early as possible."""
    if solution.copies is None:
        if not releases.any():
            return serial_plan(graph)
        place_of = {
            copy.node: min(
                (place for place, executor in enumerate(places.executors) if executor == copy.executor),
                key=lambda place: places.run_times.item(copy.node, place),
            )
            for copy in serial_plan(graph)
        }
        order = [(node, place_of[node]) for node in np.argsort(releases, kind="stable").tolist()]
    else:
        order = [(copy.node, copy.place) for copy in sorted(solution.copies)]
    schedule = PartialSchedule(graph)
    if graph.units.shape[1]:
        return _on_pools(graph, releases, order, schedule, places)
    for node, executor in order:
        schedule.append(node, executor, releases.item(node))
    schedule.drop_unused()
    return schedule.in_order()


def _on_pools(
    graph: UnionGraph, releases: Floats, order: list[tuple[int, int]], schedule: PartialSchedule, places: _Places
) -> list[Placed]:
    """Return a schedule on pools: each copy as early as possible, but not before the one ahead in its pool's queue."""
    tails = [Tail(units) for units in graph.units.tolist()]
    for node, place in order:
        executor, mode = places.executors[place], places.modes[place] if node in graph.modes else None
        ready = max(graph.free.item(executor), releases.item(node), *schedule.arrivals(node, executor))
        demand = places.demands[place][node].tolist()
        start = tails[executor].start(ready, demand)
        finish = start + places.run_times.item(node, place)
        tails[executor].take(start, finish, demand)
        schedule.place(Placed(start, finish, node, executor, mode))
    return schedule.in_order()


def _makespan(placed: list[Placed]) -> float:
    first: dict[int, float] = {}
    for copy in placed:
        first[copy.node] = min(copy.finish, first.get(copy.node, np.inf))
    return max(first.values())
