"""CPOP, PEFT and DLS: list schedulers of the literature with an order or a choice of their own.

Sources: H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, section 4.2, for CPOP, the critical path on one executor; H. Arabnejad
and J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE TPDS 25(3),
2014, for PEFT, in which a table of what is still to come, computed once, looks ahead; G. C. Sih and E. A. Lee, "A
compile-time scheduling heuristic for interconnection-constrained heterogeneous processor architectures", IEEE TPDS
4(2), 1993, for DLS, in which dynamic levels choose the node and its executor together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.dag.allocation import InsertionEFT, assign_inserted, insertion_finish_times
from desim.agents.dag.list_scheduling import ListScheduler, require_planning
from desim.agents.dag.orders import (
    RESOLUTION,
    CriticalPath,
    PerJob,
    mean_run_times,
    mean_transfer_times,
    rounded,
    static_levels,
    upward_rank,
)
from desim.problems.dag import Assign, DagObservation, Executors, Job, JobState
from desim.reprs import NamedRepr

__all__ = ["CPOP", "DLS", "PEFT", "critical_path", "optimistic_cost_table"]

Floats = NDArray[np.float64]


class CPOP(ListScheduler):
    """Critical Path On a Processor: the nodes of the critical path on one executor, the others by insertion-based EFT.

    Of the nodes whose parents are assigned, the one on the longest path comes next (upward and downward rank together).
    The nodes of the critical path go to the executor on which their run times have the least sum, also in idle time
    there. It plans whole jobs, so it needs a cluster with ``plan_ahead=True``.

    Jobs that arrive together are one graph with one critical path; each group of later jobs has its own. A node that
    comes back after an outage goes to the executor of its path if that is up, and by EFT otherwise. Of equal priorities
    the job that arrived first comes first, then the node that is first in topological order; of equal sums or finishes
    the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), CPOP())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    def __init__(self) -> None:
        self._allocation = _PathOnOneExecutor()
        super().__init__(CriticalPath(), self._allocation)
        self.name = "cpop"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        require_planning(self.name, info)
        self._allocation.forget()
        super().reset(info, rng)


class _PathOnOneExecutor:
    """The executor of the critical path for its nodes, insertion-based EFT for the others."""

    name = "critical-path executor"

    def __init__(self) -> None:
        self._others = InsertionEFT()
        self.forget()

    def forget(self) -> None:
        """Forget the jobs of another run."""
        self._planned: dict[int, JobState] = {}
        self._critical: dict[tuple[int, int], int] = {}

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node; None if there is no executor for it."""
        if available is None:
            available = observation.available_times
        if available.min() == np.inf:
            return None
        job_id = state.job.job_id
        if self._planned.get(job_id) is not state:
            self._plan(observation, available)
        executor = self._critical.get((job_id, node))
        if executor is None or available[executor] == np.inf:
            return self._others.allocate(observation, state, node, available)
        return assign_inserted(observation, state, node, executor)

    def _plan(self, observation: DagObservation, available: Floats) -> None:
        """Find the critical path of the jobs that are new, and its executor."""
        jobs = observation.jobs
        self._critical = {key: executor for key, executor in self._critical.items() if self._is_current(jobs, key[0])}
        new = [state for job_id, state in jobs.items() if self._planned.get(job_id) is not state]
        self._planned = dict(jobs)
        index, path = critical_path([state.job for state in new], observation.executors)
        sums = new[index].run_times[path].sum(axis=0)
        sums[available == np.inf] = np.inf
        executor = int(np.flatnonzero(sums <= sums.min() * (1.0 + RESOLUTION))[0])
        self._critical |= {(new[index].job.job_id, node): executor for node in path}

    def _is_current(self, jobs: Mapping[int, JobState], job_id: int) -> bool:
        return job_id in jobs and jobs[job_id] is self._planned.get(job_id)


def critical_path(jobs: Sequence[Job], executors: Executors) -> tuple[int, list[int]]:
    """Return the longest path through some jobs, taken as one graph, with mean run times and mean transfer times.

    It goes from one node to the child that its upward rank comes from. (The paper takes any child whose priority is
    that of the path, which may be a node of another path that is just as long.)

    Parameters
    ----------
    jobs : sequence of Job
        At least one.
    executors : Executors
        What they run on.

    Returns
    -------
    index : int
        Which of the jobs it lies in; of equal ones the first.
    path : list of int
        Its nodes, from one without parents to one without children; of equal ones the first child at each step.
    """
    ranks = [upward_rank(job, executors) for job in jobs]
    lengths = [rank.max().item() for rank in ranks]
    tolerance = 4.0 * RESOLUTION * max(lengths)
    index = _first_greatest(lengths, tolerance)
    job, rank = jobs[index], ranks[index].tolist()
    transfers = mean_transfer_times(job, executors).tolist()
    entries = [node for node, parents in enumerate(job.parent_lists) if not parents]
    path = [entries[_first_greatest([rank[node] for node in entries], tolerance)]]
    while job.child_lists[path[-1]]:
        first = int(job.child_start[path[-1]])
        children = [child for child, _ in job.child_lists[path[-1]]]
        ways = [transfers[first + number] + rank[child] for number, child in enumerate(children)]
        path.append(children[_first_greatest(ways, tolerance)])
    return index, path


def _first_greatest(values: Sequence[float], tolerance: float) -> int:
    """Return the position of the first value that is the greatest but for rounding."""
    greatest = max(values)
    return next(position for position, value in enumerate(values) if value >= greatest - tolerance)


def optimistic_cost_table(job: Job, executors: Executors) -> Floats:
    """Return the least time from the end of each node to the end of its job, if executors were always free.

    OCT(i, k) is 0 for a node without children; otherwise, over its children j, the greatest of the least, over the
    executors l, of OCT(j, l) + run time of j on l + mean transfer time of the edge, which is 0 if l is k.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        What it runs on.

    Returns
    -------
    numpy.ndarray of shape (num_nodes, num_executors)
        Seconds, for each executor that the node may run on.
    """
    run_times = job.run_times_on(executors)
    transfers = mean_transfer_times(job, executors).tolist()
    starts = job.child_start.tolist()
    table = np.zeros_like(run_times)
    to_come = np.empty_like(run_times)  # OCT + run time
    least = [0.0] * job.num_nodes
    for node in range(job.num_nodes - 1, -1, -1):
        row = table[node]
        for number, (child, _) in enumerate(job.child_lists[node], starts[node]):
            np.maximum(row, np.minimum(to_come[child], least[child] + transfers[number]), out=row)
        np.add(row, run_times[node], out=to_come[node])
        least[node] = to_come[node].min().item()
    return table


class PEFT(ListScheduler):
    """Predict Earliest Finish Time: HEFT with the optimistic cost table in place of ranks, and in the choice.

    Of the nodes whose parents are assigned, the one with the highest mean of its row of the table comes next; it goes
    to the executor with the least finish (in idle time, too) plus entry of the table. It plans the whole job when it
    arrives, so it needs a cluster with ``plan_ahead=True``.

    Of means that are equal but for rounding the job that arrived first comes first, then the node that is first in
    topological order; of such sums the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), PEFT())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    def __init__(self) -> None:
        self._tables = PerJob(_table_of)
        super().__init__(_RankOCT(self._tables), _OptimisticEFT(self._tables))
        self.name = "peft"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; a cluster that does not plan ahead is an InvalidConfiguration."""
        require_planning(self.name, info)
        self._tables.forget()
        super().reset(info, rng)


def _table_of(state: JobState, executors: Executors) -> Floats:
    return optimistic_cost_table(state.job, executors)


class _RankOCT:
    """The node with the highest mean optimistic cost."""

    name = "rank_oct"
    changes = False

    def __init__(self, tables: PerJob[Floats]) -> None:
        self._tables = tables

    def reset(self, rng: Generator) -> None:
        """Do nothing: the keys follow from the job."""

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative means, in seconds, rounded so that equal ones are equal."""
        return -rounded(self._tables.of(observation, state).mean(axis=1))


class _OptimisticEFT:
    """The executor with the least finish plus optimistic cost: O_EFT, equation (6) of the paper."""

    name = "optimistic-EFT"

    def __init__(self, tables: PerJob[Floats]) -> None:
        self._tables = tables

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node; None if there is no executor for it."""
        costs = self._tables.of(observation, state)[node]
        finish, positions = insertion_finish_times(observation, state, node, available, costs)
        sums = finish + costs
        least = sums.min()
        if least == np.inf:
            return None
        executor = int(np.flatnonzero(sums <= least * (1.0 + 4.0 * RESOLUTION))[0])
        return Assign(state.job.job_id, node, executor, (), positions.get(executor))


class DLS(NamedRepr):
    """Dynamic Level Scheduling: the pair of a ready node and an executor that has the highest dynamic level.

    The dynamic level of node i on executor k is its static level (the longest way to the end of the job, without
    transfers), less the time at which it could start there (its data have arrived and the executor has run all that is
    assigned to it), plus how much faster than the mean k runs i.

    Departures from the paper: links are not reserved, and run times are averaged by the mean instead of the median, so
    that the static level is that of the other agents here. With ``plan_ahead=True`` it schedules before anything runs,
    as in the paper; without, it chooses among the nodes whose parents have finished.

    Of levels that are equal but for rounding, the job that arrived first comes first, then the node that is first in
    topological order, then the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), DLS())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name = "dls"

    def __init__(self) -> None:
        self._jobs = PerJob(self._number_and_advantages)
        self._forget()

    def _forget(self) -> None:
        self._time = -1.0
        self._read = 0
        self._chosen = -1
        self._frontier = _Frontier(0)
        self._jobs.forget()
        self._num_jobs = 0

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run."""
        self._forget()

    def act(self, observation: DagObservation) -> Assign | None:
        """Return the assignment of the highest dynamic level; None if no executor is up."""
        available = observation.available_times
        if available.min() == np.inf:
            return None
        self._take(observation)
        while True:
            ticket, executor = self._frontier.highest(available)
            entry = observation.ready.get(ticket)
            self._frontier.remove(ticket)
            if entry is not None:  # otherwise somebody else has assigned it
                self._chosen = ticket
                state, node = entry
                return Assign(state.job.job_id, node, executor)

    def _take(self, observation: DagObservation) -> None:
        """Bring the frontier up to date; as long as time stands still, assignments do not change what is in it."""
        if observation.time != self._time:
            self._time = observation.time
            self._frontier = _Frontier(observation.executors.num_executors)
            tickets = list(observation.ready)
        else:
            tickets = [self._chosen, *range(self._read, observation.num_revealed)]  # a stage may have tasks left
        self._read = observation.num_revealed
        for ticket in tickets:
            entry = observation.ready.get(ticket)
            if entry is not None:
                state, node = entry
                number, advantages = self._jobs.of(observation, state)
                self._frontier.add((number, node, ticket), advantages[node], state.ready_times(node))

    def _number_and_advantages(self, state: JobState, executors: Executors) -> tuple[int, Floats]:
        """Return the number of a job in order of arrival, and static level + mean run time - run time of its nodes."""
        self._num_jobs += 1
        levels = static_levels(state.job, executors) + mean_run_times(state.job, executors)
        return self._num_jobs, levels[:, None] - state.run_times


class _Frontier:
    """The ready nodes as rows of arrays; the last row takes the place of one that is removed."""

    def __init__(self, num_executors: int) -> None:
        self._keys: list[tuple[int, int, int]] = []
        self._row_of: dict[int, int] = {}
        self._advantages = np.empty((16, num_executors))
        self._ready = np.empty((16, num_executors))

    def add(self, key: tuple[int, int, int], advantages: Floats, ready: Floats) -> None:
        """Add a node: its place in the order, the last part of it the ticket; levels as if it started at time 0."""
        row = len(self._keys)
        if row == len(self._ready):
            self._advantages = np.concatenate((self._advantages, self._advantages))
            self._ready = np.concatenate((self._ready, self._ready))
        self._advantages[row] = advantages
        self._ready[row] = ready
        self._keys.append(key)
        self._row_of[key[2]] = row

    def remove(self, ticket: int) -> None:
        """Remove a node."""
        row = self._row_of.pop(ticket)
        key = self._keys.pop()
        if key[2] != ticket:
            last = len(self._keys)
            self._advantages[row] = self._advantages[last]
            self._ready[row] = self._ready[last]
            self._keys[row] = key
            self._row_of[key[2]] = row

    def highest(self, available: Floats) -> tuple[int, int]:
        """Return the ticket and the executor of the highest dynamic level."""
        count = len(self._keys)
        levels = np.maximum(self._ready[:count], available)
        np.subtract(self._advantages[:count], levels, out=levels)
        place = int(levels.argmax())
        row, executor = divmod(place, levels.shape[1])
        # Levels are differences of times: they are as exact as the largest of these.
        start = max(self._ready.item(row, executor), available.item(executor))
        tolerance = 4.0 * RESOLUTION * max(start, abs(self._advantages.item(row, executor)))
        rows, executors = np.nonzero(levels >= levels.item(place) - tolerance)
        if len(rows) == 1:
            return self._keys[row][2], executor
        best = min(zip(rows.tolist(), executors.tolist(), strict=True), key=lambda pair: (self._keys[pair[0]], pair[1]))
        return self._keys[best[0]][2], best[1]
