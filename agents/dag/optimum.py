"""The exact optimum of small instances, by constraint programming (CP-SAT of ortools, an extra: ``desim[optimum]``).

The solver knows only whole numbers, so that times become whole ticks.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.planning import PartialSchedule, Placed, PlanningAgent, UnionGraph, serial_plan, union_of
from desim.checks import check_float
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.problems.dag import Executors, Job

__all__ = ["OptimalSchedule", "Optimum", "ScheduledCopy", "optimal_schedule"]

Floats = NDArray[np.float64]

#: Without a resolution that fits, a long time is divided into this many ticks.
NUM_TICKS = 100_000_000

#: What takes longer than this, and much longer than a schedule need be, is never chosen, however long it takes.
FAR = 2.0**40

#: A schedule of more ticks is too long for a solver that adds numbers of 64 bits.
LONGEST = 2.0**48

#: Times that are within this part of a whole number of ticks are one: a rounding error.
TOLERANCE = 1e-9


def choose_resolution(times: Sequence[Floats], given: float | None, long_time: float) -> tuple[float, bool]:
    """Return how long a tick is.

    Parameters
    ----------
    times : sequence of numpy.ndarray
        All times that will be converted, in seconds.
    given : float, optional
        What the user wants, in seconds.
    long_time : float
        In seconds; it is divided if not all times are whole seconds.

    Returns
    -------
    resolution : float
        Seconds of a tick.
    is_exact : bool
        Whether all times are whole ticks.
    """
    if given is not None:
        return given, all(_is_whole(array / given) for array in times)
    if all(_is_whole(array) for array in times):
        return 1.0, True
    return (long_time / NUM_TICKS or 1.0), False


def in_ticks(times: Floats, resolution: float, long_time: float) -> NDArray[np.int64]:
    """Return times as whole ticks, rounded up but for what is only a rounding error.

    Those that are too long for any schedule are only that: how long they are may be more than the solver can count.

    Parameters
    ----------
    times : numpy.ndarray
        Seconds.
    resolution : float
        Seconds of a tick.
    long_time : float
        Seconds in which all can be done.

    Returns
    -------
    numpy.ndarray of int, of the same shape
        Ticks.

    Raises
    ------
    InvalidConfiguration
        If that are more ticks than the solver can count.
    """
    if not long_time / resolution < LONGEST:
        raise InvalidConfiguration(
            f"the resolution is {resolution!r} s, and a schedule may take {long_time!r} s: "
            "these are more ticks than the solver can count"
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
    """A copy of a node that the solver has placed."""

    start: int
    finish: int
    node: int
    executor: int


class CPInstance(NamedTuple):
    """What is to be scheduled, all times in ticks.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Of each node on each executor.
    edges : list of (int, int)
        Parent and child; nodes are in topological order.
    transfers : numpy.ndarray of shape (num_edges, num_executors, num_executors)
        From each executor to each other, 0 on the diagonal.
    releases : numpy.ndarray of shape (num_nodes,)
        When nodes may start.
    free : numpy.ndarray of shape (num_executors,)
        When executors may start.
    """

    run_times: Ticks
    edges: list[tuple[int, int]]
    transfers: Ticks
    releases: Ticks
    free: Ticks

    @property
    def horizon(self) -> int:
        """A makespan that can be had: all on one executor."""
        totals = np.maximum(self.free, self.releases.max()) + self.run_times.sum(axis=0)
        return int(totals.min())


class Solution(NamedTuple):
    """What the solver found.

    Attributes
    ----------
    copies : list of CopyInTicks or None
        None if it found nothing in its time.
    bound : int
        No makespan is below.
    is_optimal : bool
        Whether it has proved that no schedule is better.
    """

    copies: list[CopyInTicks] | None
    bound: int
    is_optimal: bool


def solve(instance: CPInstance, *, duplication: bool, time_limit: float) -> Solution:
    """Build the model and solve it.

    Parameters
    ----------
    instance : CPInstance
        In ticks.
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Seconds of real time.

    Returns
    -------
    Solution
        The best that it found.

    Raises
    ------
    MissingDependency
        If ortools is not installed.
    """
    cp_model = _import()
    model = _Model(cp_model, instance, duplication)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = 1  # more may find another of several best schedules each time
    solver.parameters.random_seed = 0
    status = solver.solve(model.model)
    assert status != cp_model.INFEASIBLE  # all on one executor is always possible
    bound = max(solver.best_objective_bound, 0.0)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, round(bound), False)
    copies = [
        CopyInTicks(solver.value(start), solver.value(start) + instance.run_times.item(key), *key)
        for key, start in model.starts.items()
        if solver.value(model.present[key])
    ]
    return Solution(copies, round(bound), status == cp_model.OPTIMAL)


def _import() -> Any:
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise MissingDependency(f"the optimum needs ortools: pip install 'desim[optimum]' ({error})") from error


class _Model:
    """The variables and constraints.

    A schedule stays as good when copies are taken out whose data nobody uses, and a second copy on the same executor is
    of no use: so there is at most one of each node on each executor, each is used, and all finish by the makespan.

    Parameters
    ----------
    cp_model : module
        Of ortools.
    instance : CPInstance
        In ticks.
    duplication : bool
        Whether a node may run on several executors.

    Attributes
    ----------
    model : CpModel
        The whole.
    present, starts : dict
        Whether there is a copy of (node, executor), and when it starts.
    """

    def __init__(self, cp_model: Any, instance: CPInstance, duplication: bool) -> None:
        self.model = cp_model.CpModel()
        self.present: dict[tuple[int, int], Any] = {}
        self.starts: dict[tuple[int, int], Any] = {}
        self._instance = instance
        self._duplication = duplication
        self._horizon = instance.horizon
        self._add_copies()
        self._add_data()
        self._add_makespan()

    def _add_copies(self) -> None:
        """A copy of each node somewhere, one after another on each executor."""
        model, run_times = self.model, self._instance.run_times
        num_nodes, num_executors = run_times.shape
        earliest = self._earliest_starts()
        has_children = {parent for parent, _ in self._instance.edges}
        intervals: list[list[Any]] = [[] for _ in range(num_executors)]
        for node in range(num_nodes):
            for executor in range(num_executors):
                key = node, executor
                self.present[key] = present = model.new_bool_var(f"present {key}")
                first = earliest.item(key)
                if first + run_times.item(key) > self._horizon:
                    model.add(present == 0)
                    first = 0
                self.starts[key] = start = model.new_int_var(first, self._horizon, f"start {key}")
                intervals[executor].append(
                    model.new_optional_fixed_size_interval_var(start, run_times.item(key), present, f"copy {key}")
                )
            copies = [self.present[node, executor] for executor in range(num_executors)]
            if self._duplication and node in has_children:
                model.add_at_least_one(copies)
            else:
                model.add_exactly_one(copies)
        for of_executor in intervals:
            model.add_no_overlap(of_executor)

    def _earliest_starts(self) -> Ticks:
        """Return when each node can start on each executor if every node had executors of its own."""
        run_times = self._instance.run_times
        earliest = np.maximum(self._instance.releases[:, None], self._instance.free)
        for number, (parent, child) in sorted(enumerate(self._instance.edges), key=lambda entry: entry[1][1]):
            finish = earliest[parent] + run_times[parent]
            arrival = (finish[:, None] + self._instance.transfers[number]).min(axis=0)
            earliest[child] = np.maximum(earliest[child], arrival)
        return earliest

    def _add_data(self) -> None:
        """Each copy has its data from a copy of each parent, and each copy but of the last nodes is used."""
        model, run_times = self.model, self._instance.run_times
        executors = range(run_times.shape[1])
        uses: dict[tuple[int, int], list[Any]] = {}
        for number, (parent, child) in enumerate(self._instance.edges):
            transfers = self._instance.transfers[number].tolist()
            for executor in executors:
                sources = []
                for source in executors:
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
        """The makespan, which is not below the time after each node, nor below what runs on each executor."""
        model, run_times = self.model, self._instance.run_times
        makespan = model.new_int_var(0, self._horizon, "makespan")
        tails = self._tails()
        for key, start in self.starts.items():
            model.add(makespan >= start + (run_times.item(key) + tails.item(key))).only_enforce_if(self.present[key])
        begin = int(self._instance.free.min())
        for executor in range(run_times.shape[1]):
            work = sum(run_times.item(node, executor) * self.present[node, executor] for node in range(len(run_times)))
            model.add(makespan >= begin + work)
        model.minimize(makespan)

    def _tails(self) -> Ticks:
        """Return the least time from the end of a copy to the makespan.

        Without duplication all children use the copy; with it, at least one does.
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


#: The model has a variable for each edge and each pair of executors; with more the solver would only fill the memory.
LARGEST = 200_000


class ScheduledCopy(NamedTuple):
    """A copy in a schedule.

    Attributes
    ----------
    job_id, node, executor : int
        What runs where.
    start, finish : float
        Seconds.
    """

    job_id: int
    node: int
    executor: int
    start: float
    finish: float


class OptimalSchedule(NamedTuple):
    """The best schedule that was found, and what is known of better ones.

    Attributes
    ----------
    copies : tuple of ScheduledCopy
        In order of start; none comes before one that it depends on.
    makespan : float
        When the last node has finished, in seconds.
    bound : float
        No schedule is shorter, in seconds.
    status : str
        ``"optimal"`` if that is proved, for times that are rounded up to whole ticks; otherwise ``"feasible"``.
    resolution : float
        Seconds of a tick.
    is_exact : bool
        Whether all times are whole ticks. If so, ``"optimal"`` means that makespan and bound are equal; if not, they
        differ by what rounding can hide.
    """

    copies: tuple[ScheduledCopy, ...]
    makespan: float
    bound: float
    status: str
    resolution: float
    is_exact: bool


class _Options(NamedTuple):
    """How to solve; see optimal_schedule."""

    duplication: bool
    time_limit: float
    resolution: float | None

    def check(self) -> None:
        """Raise InvalidConfiguration if a number is out of range."""
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
    """Return a schedule of least makespan.

    Executors are up all the time, data move between pairs that share no links from when a copy has
    finished, and submission times are known in advance: no agent can finish all jobs earlier.

    The solver computes with whole ticks. Times that are no whole numbers of ticks are rounded up for the solver; the
    schedule then has the solver's assignment and order with the true times, and the bound is lowered by one tick for
    everything that can have been rounded on the way to the last finish, so that it holds for the true times.

    Parameters
    ----------
    jobs : sequence of Job
        Few and small: 30 nodes on 4 executors take about a second.
    executors : Executors
        What they run on.
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Seconds of real time; if they are over, the best so far is returned, which another computer may not repeat.
    resolution : float, optional
        Seconds of a tick. If left out, 1 where all times are whole seconds, otherwise a hundred-millionth of the time
        that all nodes take on one executor.

    Returns
    -------
    OptimalSchedule
        With a lower bound and whether it is proved to be the best.

    Raises
    ------
    InvalidConfiguration
        If there are no jobs, a number is out of range, or the instance is hopelessly large.
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
        raise InvalidConfiguration("there are no jobs to be scheduled")
    graph = union_of(jobs, executors, np.zeros(executors.num_executors))
    releases = np.repeat([job.submission_time for job in jobs], [job.num_nodes for job in jobs])
    return _solve(graph, releases, options)[0]


class Optimum(PlanningAgent):
    """Plans the jobs that arrive together by :func:`optimal_schedule`, on executors as they are.

    For jobs that all arrive at once that is the optimum; a plan takes no account of jobs to come, and later jobs queue
    behind those planned before. It needs a cluster with ``plan_ahead=True`` and without shared links. A node that
    comes back after an outage is assigned by upward rank and EFT.

    Parameters
    ----------
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Seconds of real time for each plan.
    resolution : float, optional
        Seconds of a tick, see :func:`optimal_schedule`.

    Attributes
    ----------
    schedules : list of OptimalSchedule
        What it has planned since the run began.

    Raises
    ------
    InvalidConfiguration
        If a number is out of range.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> agent = Optimum(resolution=0.5)
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), agent)
    >>> result.jobs["finish_time"].to_list(), agent.schedules[0].bound
    ([3.5], 3.5)
    """

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
        """Begin a new run; a cluster that does not plan ahead, or has shared links, is an InvalidConfiguration."""
        super().reset(info, rng)
        if info.get("links") is not None:
            raise InvalidConfiguration(
                "optimum knows no shared links, so that what it takes for the best would not be: want links=None; try "
                "portfolio"
            )
        self.schedules = []

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return the schedule of jobs that have arrived together, in order of start."""
        schedule, placed = _solve(graph, np.zeros(graph.num_nodes), self._options)
        self.schedules.append(schedule)
        return placed


def _solve(graph: UnionGraph, releases: Floats, options: _Options) -> tuple[OptimalSchedule, list[Placed]]:
    """Solve in ticks, counted from when the first executor is free, and return to seconds."""
    edges = [(parent, child) for child, parents in enumerate(graph.parents) for parent, _, _ in parents]
    if len(edges) * graph.num_executors**2 + graph.run_times.size > LARGEST:
        raise InvalidConfiguration(
            f"{graph.num_nodes} nodes and {len(edges)} edges on {graph.num_executors} executors are too many for an "
            "exact solution"
        )
    begin = graph.free.min().item()
    sizes = np.array([size for parents in graph.parents for _, size, _ in parents])
    seconds = {
        "run_times": graph.run_times,
        "transfers": sizes[:, None, None] * graph.seconds_per_unit + graph.latencies,
        "releases": np.maximum(releases - begin, 0.0),
        "free": graph.free - begin,
    }
    on_one = (seconds["free"] + graph.run_times.sum(axis=0)).min().item()
    resolution, is_exact = choose_resolution(list(seconds.values()), options.resolution, on_one)
    latest = np.maximum(seconds["free"], seconds["releases"].max())
    long_time = (latest + graph.run_times.sum(axis=0)).min().item()
    instance = CPInstance(
        edges=edges, **{name: in_ticks(array, resolution, long_time) for name, array in seconds.items()}
    )
    solution = solve(instance, duplication=options.duplication, time_limit=options.time_limit)
    placed = _with_true_times(graph, releases, solution)
    # On the way to the last finish lie a first start, and copies and transfers by turns, each copy once.
    roundings = 0 if is_exact else 2 * graph.num_nodes * (graph.num_executors if options.duplication else 1)
    makespan = _makespan(placed)
    schedule = OptimalSchedule(
        tuple(ScheduledCopy(*graph.owners[copy.node], graph.executors[copy.executor], *copy[:2]) for copy in placed),
        makespan,
        min(begin + max(solution.bound - roundings, 0) * resolution, makespan),
        "optimal" if solution.is_optimal else "feasible",
        resolution,
        is_exact,
    )
    return schedule, placed


def _with_true_times(graph: UnionGraph, releases: Floats, solution: Solution) -> list[Placed]:
    """Return the schedule with its order on each executor, each copy as early as that allows."""
    if solution.copies is None:
        if not releases.any():
            return serial_plan(graph)
        executor = serial_plan(graph)[0].executor
        order = [(node, executor) for node in np.argsort(releases, kind="stable").tolist()]
    else:
        order = [(copy.node, copy.executor) for copy in sorted(solution.copies)]
    schedule = PartialSchedule(graph)
    for node, executor in order:
        schedule.append(node, executor, releases.item(node))
    schedule.drop_unused()
    return schedule.in_order()


def _makespan(placed: list[Placed]) -> float:
    first: dict[int, float] = {}
    for copy in placed:
        first[copy.node] = min(copy.finish, first.get(copy.node, np.inf))
    return max(first.values())
