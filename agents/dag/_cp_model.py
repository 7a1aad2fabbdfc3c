"""The exact model of scheduling with duplication, in whole ticks, for CP-SAT."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import MissingDependency

__all__ = ["CopyInTicks", "Instance", "Solution", "solve"]

Ticks = NDArray[np.int64]


class CopyInTicks(NamedTuple):
    """A copy of a node that the solver has placed."""

    start: int
    finish: int
    node: int
    executor: int


class Instance(NamedTuple):
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


def solve(instance: Instance, *, duplication: bool, time_limit: float, num_workers: int, seed: int) -> Solution:
    """Build the model and solve it.

    Parameters
    ----------
    instance : Instance
        In ticks.
    duplication : bool
        Whether a node may run on several executors.
    time_limit : float
        Seconds of real time.
    num_workers : int
        Threads of the solver.
    seed : int
        Of its random choices.

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
    solver.parameters.num_workers = num_workers
    solver.parameters.random_seed = seed
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
    instance : Instance
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

    def __init__(self, cp_model: Any, instance: Instance, duplication: bool) -> None:
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
