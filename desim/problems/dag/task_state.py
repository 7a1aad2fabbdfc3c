"""A job in the system whose nodes run task by task: which tasks are where, and what each receives."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.copies import Copy
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.problems.dag.job_state import JobState
from desim.problems.dag.tasks import NOTHING, Shares, TaskCopy, task_run_times

if TYPE_CHECKING:
    import simpy

__all__ = ["TaskState"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Outputs(NamedTuple):
    """Where the results of a node are: executors, tasks run there, and when the last of these finished."""

    sources: Whole
    counts: Floats
    finishes: Floats


class TaskState(JobState):
    """A job in the system whose nodes run task by task, as agents see it; live, do not change it.

    Times of tasks that have not finished are expectations, from mean durations. ``copies[node]`` are the tasks of a
    node that are assigned or whose results are held; ``assigned`` and ``finished`` tell whether all its tasks are.

    Parameters
    ----------
    job : Job
        The job.
    executors : Executors
        Of the cluster.
    env : simpy.Environment
        Its clock.
    sent_when_finished : bool
        See :class:`JobState`.
    number : int
        How many jobs arrived before.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Mean seconds that a task of each node takes on each executor.
    unassigned_tasks, unfinished_tasks : numpy.ndarray of int, shape (num_nodes,)
        How many tasks of each node have not been assigned, and how many have not finished.
    """

    def __init__(
        self, job: Job, executors: Executors, env: simpy.Environment, *, sent_when_finished: bool, number: int
    ) -> None:
        super().__init__(job, executors, env, sent_when_finished=sent_when_finished)
        self.run_times = task_run_times(job, executors)
        self.unassigned_tasks = job.num_tasks.copy()
        self.unfinished_tasks = job.num_tasks.copy()
        self._number = number
        self._num_tasks = job.num_tasks.tolist()
        self._next_task = [0] * job.num_nodes
        self._returned: list[list[int]] = [[] for _ in range(job.num_nodes)]  # numbers to be assigned again
        self._lost: list[list[int]] = [[] for _ in range(job.num_nodes)]  # finished, the results are gone
        self._visited: set[int] = set()  # executors; only looked up
        self._outputs: dict[int, Outputs] = {}
        self._ready_at = [np.nan] * job.num_nodes
        self._shares: dict[tuple[int, int], tuple[float, Shares]] = {}

    def arrivals(self, node: int) -> Floats:
        """Return when a task's share of each parent's results arrives at each executor.

        Parameters
        ----------
        node : int
            A node that has parents.

        Returns
        -------
        numpy.ndarray of shape (num_parents, num_executors)
            Seconds, infinite for a parent that has not finished; the parents are in ascending order.
        """
        table = np.full((len(self._parents[node]), len(self._seconds)), np.inf)
        for row, (parent, size) in enumerate(self._parents[node]):
            if not self._has_data[parent]:
                continue
            outputs = self._outputs_of(parent)
            sizes = self._sizes(outputs, parent, node, size)
            table[row] = self._arrivals_from(outputs.sources, sizes, outputs.finishes).max(axis=0)
        return table

    def ready_times(self, node: int) -> Floats:
        """Return when a task of a node would have received all its inputs on each executor.

        Parameters
        ----------
        node : int
            The node.

        Returns
        -------
        numpy.ndarray of shape (num_executors,)
            Seconds, infinite if a parent has not finished; 0 for a node without parents. Do not change it.
        """
        ready = self._ready[node]
        now = self._env.now
        if ready is None or not (self._sent_when_finished or self._ready_at[node] == now):
            ready = self.arrivals(node).max(axis=0) if self._parents[node] else self._nothing_to_wait_for
            self._ready[node] = ready
            self._ready_at[node] = now
        return ready

    def ready_time(self, node: int, executor: int) -> float:
        """Return when a task of a node would have received all its inputs on one executor, in seconds."""
        return self.ready_times(node).item(executor)

    def _outputs_of(self, node: int) -> Outputs:
        """Return where the results of a node that has finished are."""
        outputs = self._outputs.get(node)
        if outputs is None:
            held = self.copies[node]
            sources, places, counts = np.unique(
                [copy.executor for copy in held], return_inverse=True, return_counts=True
            )
            finishes = np.zeros(len(sources))
            np.maximum.at(finishes, places, [copy.finish for copy in held])
            outputs = self._outputs[node] = Outputs(sources.astype(np.int64), counts.astype(np.float64), finishes)
        return outputs

    def _sizes(self, outputs: Outputs, parent: int, node: int, size: float) -> Floats:
        """Return how much a task of a node receives from each executor that has results of a parent."""
        sizes: Floats = outputs.counts / self._num_tasks[parent] * size / self._num_tasks[node]
        return sizes

    def shares(self, node: int, executor: int) -> Shares:
        """Return what a task receives that is assigned now.

        Parameters
        ----------
        node : int
            A node whose parents have finished.
        executor : int
            Where the task is to run.

        Returns
        -------
        Shares
            One entry for each parent and each executor that has results of it. Do not change the arrays.
        """
        time, shares = self._shares.get((node, executor), (np.nan, None))
        now = self._env.now
        if shares is None or not (self._sent_when_finished or time == now):
            shares = self._compute_shares(node, executor)
            self._shares[node, executor] = now, shares
        return shares

    def _compute_shares(self, node: int, executor: int) -> Shares:
        parents = self._parents[node]
        if not parents:
            return NOTHING
        outputs = [self._outputs_of(parent) for parent, _ in parents]
        sources = np.concatenate([each.sources for each in outputs])
        finishes = np.concatenate([each.finishes for each in outputs])
        sizes = np.concatenate(
            [self._sizes(each, parent, node, size) for each, (parent, size) in zip(outputs, parents, strict=True)]
        )
        earliest = self._env.now
        if self._sent_when_finished:
            earliest = 0.0 if self._back_since is None else self._back_since.item(executor)
        begins = np.where(sources == executor, finishes, np.maximum(finishes, earliest))
        arrivals: Floats = self._seconds[sources, executor] * sizes
        if self._latencies is not None:
            arrivals += self._latencies[sources, executor]
        arrivals += begins
        numbers = np.repeat([parent for parent, _ in parents], [len(each.sources) for each in outputs])
        return Shares(numbers, sources, begins, arrivals, sizes, arrivals.max().item())

    # -- for the cluster ----------------------------------------------------------------------------

    def _new_copy(
        self, node: int, executor: int, *, assigned: float, sequence: int, start: float, finish: float
    ) -> TaskCopy:
        """Return the next task of a node, which is to run on an executor."""
        task = heapq.heappop(self._returned[node]) if self._returned[node] else self._next_task[node]
        if task == self._next_task[node]:
            self._next_task[node] += 1
        self.unassigned_tasks[node] -= 1
        copy = TaskCopy(
            self,
            node,
            executor,
            duplicate=False,
            assigned=assigned,
            sequence=sequence,
            start=start,
            finish=finish,
            task=task,
        )
        copy.shares = self.shares(node, executor)
        return copy

    def _add(self, copy: Copy) -> None:
        """Take note of a new task; nobody else's data change before its node has finished."""
        self.copies[copy.node].append(copy)

    def _remove(self, copy: Copy) -> None:
        """Forget a task that will not run, to be assigned again, or the results of one that has finished."""
        node = copy.node
        self.copies[node].remove(copy)
        if copy.has_finished:
            self._lost[node].append(copy.task)
            self._forget_outputs(node)
        else:
            heapq.heappush(self._returned[node], copy.task)
            self.unassigned_tasks[node] += 1

    def _run_lost_again(self, node: int) -> None:
        """Offer the tasks of a node again whose results are gone."""
        for task in self._lost[node]:
            heapq.heappush(self._returned[node], task)
        self.unassigned_tasks[node] += len(self._lost[node])
        self.unfinished_tasks[node] += len(self._lost[node])
        self._lost[node].clear()

    def _lose_received(self, back_since: Floats) -> None:
        """Take note that executors have been down: what they had received by then has to be sent again."""
        super()._lose_received(back_since)
        self._shares.clear()

    def _forget_outputs(self, node: int) -> None:
        """Forget where the results of a node are and when they arrive."""
        self._outputs.pop(node, None)
        for child, _ in self._children[node]:
            self._ready[child] = None
            for key in [key for key in self._shares if key[0] == child]:
                del self._shares[key]

    def _copies_changed(self, node: int) -> None:
        """Do nothing: data arrive as they do when a node has finished, whatever was expected."""
