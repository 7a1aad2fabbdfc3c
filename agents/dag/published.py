"""CPOP, PEFT and DLS: published list schedulers with their own order or choice of executor.

Sources: H. Topcuoglu, S. Hariri and M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, section 4.2, for CPOP, which runs the critical path on one executor;
H. Arabnejad and J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE
TPDS 25(3), 2014, for PEFT, which looks ahead with a table of remaining costs, computed once; G. C. Sih and E. A. Lee,
"A compile-time scheduling heuristic for interconnection-constrained heterogeneous processor architectures", IEEE TPDS
4(2), 1993, for DLS, which chooses node and executor together by dynamic levels.
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
from desim.problems.dag.job import means_where_eligible
from desim.reprs import NamedRepr

__all__ = ["CPOP", "DLS", "PEFT", "critical_path", "optimistic_cost_table"]

Floats = NDArray[np.float64]


class CPOP(ListScheduler):
    """Critical Path On a Processor: the critical path on one executor, other nodes by insertion-based EFT.

    Among the nodes whose parents are assigned, the one on the longest path comes next (upward plus downward rank). The
    nodes of the critical path go to the executor with the smallest sum of their run times, also into idle intervals. If
    no executor may run all of them, they go to the one that may run most, and those that it may not run go by EFT.
    CPOP plans whole jobs.

    Jobs that arrive together form one graph with one critical path; each group of later jobs has its own. A node that
    has to run again after an outage goes to the executor of its path if that is up, and otherwise by EFT. Ties of
    priority go to the job that arrived first, then to the node that is first in topological order; ties of sums and
    finish times go to the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), CPOP())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    considers = frozenset({"arrivals"})

    plans_ahead = True

    def __init__(self) -> None:
        self._allocation = _PathOnOneExecutor()
        super().__init__(CriticalPath(), self._allocation)
        self.name = "cpop"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster does not plan ahead."""
        require_planning(self.name, info)
        self._allocation.forget()
        super().reset(info, rng)


class _PathOnOneExecutor:
    """Allocation of critical-path nodes to their executor, and of other nodes by insertion-based EFT."""

    name = "critical-path executor"

    def __init__(self) -> None:
        self._others = InsertionEFT()
        self.forget()

    def forget(self) -> None:
        """Discard the jobs of the previous run."""
        self._planned: dict[int, JobState] = {}
        self._critical: dict[tuple[int, int], int] = {}

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node; None if no executor can take it."""
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
        """Find the critical path of the new jobs, and its executor."""
        jobs = observation.jobs
        self._critical = {key: executor for key, executor in self._critical.items() if self._is_current(jobs, key[0])}
        new = [state for job_id, state in jobs.items() if self._planned.get(job_id) is not state]
        self._planned = dict(jobs)
        index, path = critical_path([state.job for state in new], observation.executors)
        run_times = new[index].run_times[path]
        able = run_times < np.inf
        counts = np.where(available < np.inf, able.sum(axis=0), -1)
        sums = np.where(able, run_times, 0.0).sum(axis=0)
        sums[counts < counts.max()] = np.inf
        executor = int(np.flatnonzero(sums <= sums.min() * (1.0 + RESOLUTION))[0])
        chosen = [node for node, may in zip(path, able[:, executor].tolist(), strict=True) if may]
        self._critical |= {(new[index].job.job_id, node): executor for node in chosen}

    def _is_current(self, jobs: Mapping[int, JobState], job_id: int) -> bool:
        return job_id in jobs and jobs[job_id] is self._planned.get(job_id)


def critical_path(jobs: Sequence[Job], executors: Executors) -> tuple[int, list[int]]:
    """Return the longest path through some jobs as one graph, by mean run times and mean transfer times.

    From each node, the path continues to the child that determines the node's upward rank. (The paper accepts any child
    with the priority of the path, which may be on another path of the same length.)

    Parameters
    ----------
    jobs : sequence of Job
        Jobs; at least one.
    executors : Executors
        Executors of the cluster.

    Returns
    -------
    index : int
        Position of the job with the path; ties go to the first job.
    path : list of int
        Nodes of the path, from one without parents to one without children; ties go to the first child.
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
    """Return the position of the first value that equals the greatest one within rounding errors."""
    greatest = max(values)
    return next(position for position, value in enumerate(values) if value >= greatest - tolerance)


def optimistic_cost_table(job: Job, executors: Executors) -> Floats:
    """Return the optimistic cost table: least time from the end of a node to the end of its job, with idle executors.

    OCT(i, k) is 0 for a node i without children. Otherwise, it is the maximum over the children j of the minimum over
    the executors l of OCT(j, l) + run time of j on l + mean transfer time of the edge, which is 0 if l = k.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Executors of the cluster.

    Returns
    -------
    numpy.ndarray of shape (num_nodes, num_executors)
        Costs in seconds, for each executor that may run the node; infinite where it may not.
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
    table[run_times == np.inf] = np.inf
    return table


class PEFT(ListScheduler):
    """Predict Earliest Finish Time: HEFT with the optimistic cost table, both for the order and for the executor.

    Among the nodes whose parents are assigned, the one with the highest mean of its table row comes next. It goes to
    the executor with the smallest sum of finish time (also in idle intervals) and table entry. PEFT plans a whole job
    when it arrives.

    Ties within rounding errors: equal means go to the job that arrived first, then to the node that is first in
    topological order; equal sums go to the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), PEFT())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    considers = frozenset({"arrivals"})

    plans_ahead = True

    def __init__(self) -> None:
        self._tables = PerJob(_table_of)
        super().__init__(_RankOCT(self._tables), _OptimisticEFT(self._tables))
        self.name = "peft"

    def reset(self, info: Mapping[str, Any], rng: Generator) -> None:
        """Begin a new run; raise InvalidConfiguration if the cluster does not plan ahead."""
        require_planning(self.name, info)
        self._tables.forget()
        super().reset(info, rng)


def _table_of(state: JobState, executors: Executors) -> Floats:
    return optimistic_cost_table(state.job, executors)


class _RankOCT:
    """Order by the highest mean optimistic cost."""

    name = "rank_oct"
    changes = False

    def __init__(self, tables: PerJob[Floats]) -> None:
        self._tables = tables

    def reset(self, rng: Generator) -> None:
        """Do nothing, because the keys only depend on the job."""

    def keys(self, observation: DagObservation, state: JobState) -> Floats:
        """Return the negative means in seconds, rounded so that equal ones compare equal."""
        return -rounded(means_where_eligible(self._tables.of(observation, state)))


class _OptimisticEFT:
    """Allocation by the least finish time plus optimistic cost: O_EFT, equation (6) of the paper."""

    name = "optimistic-EFT"

    def __init__(self, tables: PerJob[Floats]) -> None:
        self._tables = tables

    def allocate(
        self, observation: DagObservation, state: JobState, node: int, available: Floats | None = None
    ) -> Assign | None:
        """Return the assignment of a ready node; None if no executor can take it."""
        costs = self._tables.of(observation, state)[node]
        finish, positions = insertion_finish_times(observation, state, node, available, costs)
        sums = finish + costs
        least = sums.min()
        if least == np.inf:
            return None
        executor = int(np.flatnonzero(sums <= least * (1.0 + 4.0 * RESOLUTION))[0])
        return Assign(state.job.job_id, node, executor, (), positions.get(executor))


class DLS(NamedRepr):
    """Dynamic Level Scheduling: assign the pair of a ready node and an executor with the highest dynamic level.

    The dynamic level of node i on executor k is the static level of i (longest path to the end of the job, without
    transfers), minus the time at which i could start on k (its data have arrived and everything assigned to k has run),
    plus the difference between the mean run time of i and its run time on k.

    Departures from the paper: links are not reserved, and static levels use mean instead of median run times, as in
    the other agents here. With ``plan_ahead=True``, DLS schedules before anything runs, as in the paper; otherwise it
    chooses among the nodes whose parents have finished.

    Ties within rounding errors go to the job that arrived first, then to the node that is first in topological order,
    then to the first executor.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), DLS())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    considers = frozenset({"outages", "arrivals"})

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
        """Return the assignment with the highest dynamic level; None if no executor that is up may run a ready node."""
        available = observation.available_times
        if available.min() == np.inf:
            return None
        self._take(observation)
        while True:
            ticket, executor = self._frontier.highest(available)
            if ticket < 0:
                self._chosen = -1
                return None
            entry = observation.ready.get(ticket)
            self._frontier.remove(ticket)
            if entry is not None:  # otherwise another agent has assigned it
                self._chosen = ticket
                state, node = entry
                return Assign(state.job.job_id, node, executor)

    def _take(self, observation: DagObservation) -> None:
        """Update the frontier; assignments at the same time do not change the levels of the other nodes in it."""
        if observation.time != self._time:
            self._time = observation.time
            self._frontier = _Frontier(observation.executors.num_executors)
            tickets = list(observation.ready)
        else:
            tickets = [self._chosen, *range(self._read, observation.num_revealed)]  # a stage may have unassigned tasks
        self._read = observation.num_revealed
        for ticket in tickets:
            entry = observation.ready.get(ticket)
            if entry is not None:
                state, node = entry
                number, advantages = self._jobs.of(observation, state)
                self._frontier.add((number, node, ticket), advantages[node], state.ready_times(node))

    def _number_and_advantages(self, state: JobState, executors: Executors) -> tuple[int, Floats]:
        """Return a job's arrival number, and static level + mean run time - run time of its nodes on each executor."""
        self._num_jobs += 1
        levels = static_levels(state.job, executors) + mean_run_times(state.job, executors)
        return self._num_jobs, levels[:, None] - state.run_times


class _Frontier:
    """The ready nodes as rows of arrays; the last row replaces a removed one."""

    def __init__(self, num_executors: int) -> None:
        self._keys: list[tuple[int, int, int]] = []
        self._row_of: dict[int, int] = {}
        self._advantages = np.empty((16, num_executors))
        self._ready = np.empty((16, num_executors))

    def add(self, key: tuple[int, int, int], advantages: Floats, ready: Floats) -> None:
        """Add a node by its position in the order, which ends with the ticket, and its levels for a start at time 0."""
        row = len(self._keys)
        if row == len(self._ready):
            self._advantages = np.concatenate((self._advantages, self._advantages))
            self._ready = np.concatenate((self._ready, self._ready))
        self._advantages[row] = advantages
        self._ready[row] = ready
        self._keys.append(key)
        self._row_of[key[2]] = row

    def remove(self, ticket: int) -> None:
        """Remove the node with a given ticket."""
        row = self._row_of.pop(ticket)
        key = self._keys.pop()
        if key[2] != ticket:
            last = len(self._keys)
            self._advantages[row] = self._advantages[last]
            self._ready[row] = self._ready[last]
            self._keys[row] = key
            self._row_of[key[2]] = row

    def highest(self, available: Floats) -> tuple[int, int]:
        """Return the ticket and the executor with the highest dynamic level; (-1, -1) if no node can be placed."""
        count = len(self._keys)
        levels = np.maximum(self._ready[:count], available)
        np.subtract(self._advantages[:count], levels, out=levels)
        place = int(levels.argmax()) if levels.size else -1
        if place < 0 or levels.item(place) == -np.inf:
            return -1, -1
        row, executor = divmod(place, levels.shape[1])
        # Levels are differences of times, so their rounding error is relative to the largest of these times.
        start = max(self._ready.item(row, executor), available.item(executor))
        tolerance = 4.0 * RESOLUTION * max(start, abs(self._advantages.item(row, executor)))
        rows, executors = np.nonzero(levels >= levels.item(place) - tolerance)
        if len(rows) == 1:
            return self._keys[row][2], executor
        best = min(zip(rows.tolist(), executors.tolist(), strict=True), key=lambda pair: (self._keys[pair[0]], pair[1]))
        return self._keys[best[0]][2], best[1]
