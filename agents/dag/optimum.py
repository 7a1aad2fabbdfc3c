"""The exact optimum of small instances, by constraint programming (CP-SAT of ortools, an extra: ``desim[optimum]``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag._cp_model import Instance, Solution, solve
from desim.agents.dag._placing import Placed, Timetables, serial_plan
from desim.agents.dag._planning import PlanningAgent
from desim.agents.dag._ticks import choose_resolution, in_ticks
from desim.agents.dag._union import UnionGraph, union_of
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Executors, Job

__all__ = ["OptimalSchedule", "Optimum", "ScheduledCopy", "optimal_schedule"]

Floats = NDArray[np.float64]

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
    num_workers: int
    seed: int

    def check(self) -> None:
        """Raise InvalidConfiguration if a number is out of range."""
        if not self.time_limit > 0:
            raise InvalidConfiguration(f"time_limit is {self.time_limit!r}, want a number of seconds above 0")
        if self.resolution is not None and not 0 < self.resolution < np.inf:
            raise InvalidConfiguration(f"resolution is {self.resolution!r}, want a number of seconds above 0")
        if self.num_workers < 1:
            raise InvalidConfiguration(f"num_workers is {self.num_workers!r}, want at least 1")


def optimal_schedule(
    jobs: Sequence[Job],
    executors: Executors,
    *,
    duplication: bool = True,
    time_limit: float = 60.0,
    resolution: float | None = None,
    num_workers: int = 1,
    seed: int = 0,
) -> OptimalSchedule:
    """Return a schedule of least makespan.

    Executors are up all the time, data move between pairs that do not disturb each other from when a copy has
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
    num_workers : int
        Threads of the solver; with more than one, which of several best schedules is returned may change.
    seed : int
        Of the solver's random choices.

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
    options = _Options(duplication, time_limit, resolution, num_workers, seed)
    options.check()
    if not jobs:
        raise InvalidConfiguration("there are no jobs to be scheduled")
    graph = union_of(jobs, executors, np.zeros(executors.num_executors))
    releases = np.repeat([job.submission_time for job in jobs], [job.num_nodes for job in jobs])
    return _solve(graph, releases, options)[0]


class Optimum(PlanningAgent):
    """Plans the jobs that arrive together by :func:`optimal_schedule`, on executors as they are.

    For jobs that all arrive at once that is the optimum; a plan takes no account of jobs to come, and later jobs queue
    behind those planned before. It needs a cluster with ``plan_ahead=True``. A node that comes back after an outage is
    assigned by upward rank and EFT.

    Parameters
    ----------
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Seconds of real time for each plan.
    resolution : float, optional
        Seconds of a tick, see :func:`optimal_schedule`.
    num_workers : int
        Threads of the solver.
    seed : int
        Of the solver's random choices.

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
        num_workers: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._options = _Options(duplication, time_limit, resolution, num_workers, seed)
        self._options.check()
        self.schedules: list[OptimalSchedule] = []

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        super().reset(info, rng)
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
    instance = Instance(
        edges=edges, **{name: in_ticks(array, resolution, long_time) for name, array in seconds.items()}
    )
    solution = solve(
        instance,
        duplication=options.duplication,
        time_limit=options.time_limit,
        num_workers=options.num_workers,
        seed=options.seed,
    )
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
    timetables = Timetables(graph)
    for node, executor in order:
        timetables.append(node, executor, releases.item(node))
    timetables.drop_unused()
    return timetables.in_order()


def _makespan(placed: list[Placed]) -> float:
    first: dict[int, float] = {}
    for copy in placed:
        first[copy.node] = min(copy.finish, first.get(copy.node, np.inf))
    return max(first.values())
