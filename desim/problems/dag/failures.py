"""Executors that go down and come back, and what becomes of the copies and data on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.problems.dag.copies import Copy
from desim.problems.dag.job_state import JobState
from desim.problems.failures import FailureCounts

if TYPE_CHECKING:
    from desim.problems.dag.dynamics import DagDynamics

__all__ = ["ExecutorFailures"]


class ExecutorFailures:
    """The part of a cluster that takes executors down and brings them back.

    Parameters
    ----------
    cluster : DagDynamics
        The bound cluster whose executors they are.

    Attributes
    ----------
    back_since : numpy.ndarray of shape (num_executors,) or None
        When each executor came back from its last outage, in seconds; None if none has lost data so far.
    """

    def __init__(self, cluster: DagDynamics) -> None:
        self._cluster = cluster
        self._counts = FailureCounts("executor", cluster.executors.num_executors)
        self.back_since: NDArray[np.float64] | None = None

    def fail(self, units: int) -> None:
        """Take executors down; see :meth:`DagCluster.fail`."""
        fresh = self._counts.fail(units)
        if fresh:
            self._go_down(fresh)

    def repair(self, units: int) -> None:
        """Bring executors back; see :meth:`DagCluster.repair`."""
        cluster = self._cluster
        for executor in self._counts.repair(units, cluster.env.now):
            cluster._plan.timetables[executor].free_since = cluster.env.now
            cluster._plan.available[executor] = cluster.env.now
            cluster._execution.processes[executor].repair()
            self._change(executor, "up")
            if cluster.outages_lose_data:
                self._send_again(executor)
        cluster._open_cycle()

    def _send_again(self, executor: int) -> None:
        """See to it that data that an executor had received before it went down have to be sent to it again."""
        if self.back_since is None:
            self.back_since = np.zeros(self._cluster.executors.num_executors)
        self.back_since[executor] = self._cluster.env.now
        for state in self._cluster._jobs.values():
            state._lose_received(self.back_since)

    def _change(self, executor: int, event: str) -> None:
        cluster = self._cluster
        cluster.simulation.records.tables["outages"].append((cluster.env.now, executor, event))
        cluster.emit("outage" if event == "down" else "repair", executor)

    def _go_down(self, executors: list[int]) -> None:
        cluster = self._cluster
        cluster._plan.refresh()  # what is expected now tells what waited for what
        now = cluster.env.now
        tables = cluster._plan.timetables
        for executor, table in tables.items():
            if executor not in executors:
                for copy in table.waiting:
                    cluster._receiving.keep_received(copy, now)
        for executor in executors:
            self._clear(executor, now)
            cluster._receiving.failed(executor)
        waiting = [copy for table in tables.values() for copy in table.waiting]
        for state in list(cluster._jobs.values()):
            self._recover(state, executors, [copy for copy in waiting if copy.state is state])
        for executor in tables:
            if executor not in executors:
                cluster._plan.mark(executor)
                cluster._execution.processes[executor].look_again()
        for executor in executors:
            self._change(executor, "down")
        cluster._open_cycle()

    def _clear(self, executor: int, now: float) -> None:
        """Drop what runs and waits on an executor."""
        cluster = self._cluster
        table = cluster._plan.timetables[executor]
        cluster._execution.processes[executor].fail()
        if table.running is not None:
            copy, table.running = table.running, None
            copy.state._remove(copy)
            cluster._execution.record(copy, copy.start, now, "interrupted")
        for copy in list(table.waiting):
            cluster._execution.withdraw(copy)
        cluster._plan.available[executor] = np.inf

    def _recover(self, state: JobState, executors: list[int], waiting: list[Copy]) -> None:
        """Find out which nodes of a job have to be run, perhaps again, and which copies cannot run any more."""
        if self._cluster.outages_lose_data:
            for copies in state.copies:
                for copy in [copy for copy in copies if copy.executor in executors]:
                    state._remove(copy)
        by_node: dict[int, list[Copy]] = {}
        for copy in waiting:
            by_node.setdefault(copy.node, []).append(copy)
        for node in sorted(by_node):  # parents before their children
            for copy in by_node[node]:
                if not all(self._is_supported(copy, parent) for parent, _ in state._parents[node]):
                    self._cluster._execution.withdraw(copy)
        self._find_unfinished(state)
        self._find_executable(state)

    def _is_supported(self, copy: Copy, parent: int) -> bool:
        """Tell whether a waiting copy has its data of a parent or can count on a copy of it, as expected before."""
        if parent in copy.inputs:
            return True
        return any(
            other.has_started or (other.finish, other.sequence) < (copy.start, copy.sequence)
            for other in copy.state.copies[parent]
        )

    def _find_unfinished(self, state: JobState) -> None:
        """Find the nodes that have to finish, perhaps once more, before the job has ended, and those assigned."""
        state._has_data[:] = [any(copy.has_finished for copy in copies) for copies in state.copies]
        must_run = ~state.finished
        for node in reversed(range(state.job.num_nodes)):
            if state.finished[node] and not state._has_data[node]:
                must_run[node] = any(
                    must_run[child] and not any(node in copy.inputs for copy in state.copies[child])
                    for child, _ in state._children[node]
                )
        state.finished[:] = ~must_run
        state.num_unfinished = int(must_run.sum())
        state.assigned[:] = state.finished | [bool(copies) for copies in state.copies]

    def _find_executable(self, state: JobState) -> None:
        """Count anew what each node waits for, and withdraw or offer nodes accordingly."""
        cluster = self._cluster
        for node, parents in enumerate(state._parents):
            state._unassigned_parents[node] = sum(not state.assigned[parent] for parent, _ in parents)
            state._unfinished_parents[node] = sum(not state._has_data[parent] for parent, _ in parents)
            missing = state._unassigned_parents if cluster.plan_ahead else state._unfinished_parents
            executable = not missing[node] and not state.assigned[node]
            ticket = state._tickets[node]
            if executable and ticket is None:
                cluster._reveal(state, node)
            elif not executable and ticket is not None:
                del cluster._executable[ticket]
                state._tickets[node] = None
