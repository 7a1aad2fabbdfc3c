"""What happens to copies: they start, they finish, they are withdrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from desim.problems.dag.copies import Copy
from desim.processes.executors import ExecutorProcess

if TYPE_CHECKING:
    from desim.problems.dag.dynamics import DagDynamics
    from desim.problems.dag.job_state import JobState

__all__ = ["Execution"]


class Execution:
    """The part of a cluster that runs copies on executors.

    Parameters
    ----------
    cluster : DagDynamics
        The bound cluster.

    Attributes
    ----------
    processes : list of ExecutorProcess
        The executors.
    """

    def __init__(self, cluster: DagDynamics) -> None:
        self._cluster = cluster
        self._plan = cluster._plan
        self._timetables = cluster._plan.timetables
        self._receiving = cluster._receiving
        tables = cluster.simulation.records.tables
        self._record_copy = tables["copies"].append
        self._record_transfer = tables["transfers"].append
        self.processes = [ExecutorProcess(cluster.env, self, executor) for executor in self._timetables]

    def next_item(self, executor: int) -> Copy | None:
        """Return the copy that an executor runs next."""
        waiting = self._timetables[executor].waiting
        return waiting[0] if waiting else None

    def start_time(self, copy: Copy) -> float | None:
        """Return when a copy that is next can start, in seconds; None while that is not known."""
        start = max(self._timetables[copy.executor].free_since, copy.assigned)
        if copy.receiving != copy.receiving:  # NaN: this is the first time that somebody asks
            copy.receiving = start
        start += self._delay(copy)
        ready = self._receiving.ready_time(copy)
        if ready is None or ready > start:
            return ready
        return start

    def _delay(self, copy: Copy) -> float:
        """Return how long an executor that is free needs before it can run a copy, in seconds."""
        return 0.0

    def begin(self, copy: Copy) -> float:
        """Let a copy run, and return when it will have finished, in seconds."""
        start = self.start_time(copy)
        assert start is not None  # the executor has asked before
        self._receiving.settle(copy)
        self._plan.begin(copy, start)
        copy.has_started = True
        state = copy.state
        if not start >= state._started_at:
            state._started_at = start
        job_id, node, executor = state.job.job_id, copy.node, copy.executor
        for parent, source, begin, arrival, size in copy.inputs.values():
            self._record_transfer((job_id, parent, node, copy.task, source, executor, begin, arrival, size))
        if self._cluster.listening:
            self._cluster.emit("start", copy)
        return copy.finish

    def complete(self, copy: Copy) -> None:
        """Take note that a copy has finished."""
        cluster = self._cluster
        state, node = copy.state, copy.node
        copy.has_finished = True
        self._plan.end(copy.executor, copy.finish)
        self.record(copy, copy.start, copy.finish, "completed")
        self._receiving.finished(copy)
        is_whole = self._is_whole(copy)
        if is_whole and not state._has_data[node]:
            state._has_data[node] = True
            missing = state._unfinished_parents
            for child, _ in state._children[node]:
                missing[child] -= 1
                if not missing[child] and not cluster.plan_ahead and not state.assigned[child]:
                    cluster._reveal(state, child)
        for executor in state._watchers.pop(node, ()):
            self.processes[executor].look_again()
        if cluster.listening:
            cluster.emit("completion", copy)
        if is_whole and not state.finished[node]:
            state.finished[node] = True
            state.num_unfinished -= 1
            if not state.num_unfinished:
                cluster._finish_job(state, copy.finish)
        cluster._open_cycle()

    def _is_whole(self, copy: Copy) -> bool:
        """Tell whether a node has all its results once a copy of it has finished."""
        return True

    def record(self, copy: Copy, start: float | None, finish: float | None, outcome: str) -> None:
        """Record what has become of a copy."""
        self._record_copy(
            (
                copy.state.job.job_id,
                copy.node,
                copy.task,
                copy.executor,
                copy.duplicate,
                copy.assigned,
                copy.receiving if copy.receiving == copy.receiving else None,
                start,
                finish,
                outcome,
            )
        )

    def withdraw(self, copy: Copy) -> None:
        """Take a copy back that waits."""
        table = self._timetables[copy.executor]
        if table.running is None and table.waiting[0] is copy:
            table.free_since = self._cluster.env.now  # until now the executor was kept for this copy
        table.waiting.remove(copy)
        self._plan.mark(copy.executor)
        copy.state._remove(copy)
        self._receiving.dropped(copy)
        self.record(copy, None, None, "withdrawn")
        if self._cluster.listening:
            self._cluster.emit("withdrawal", copy)

    def withdraw_rest(self, state: JobState) -> None:
        """Take back the copies of a job that has ended."""
        left = [copy for copies in state.copies for copy in copies if not copy.has_started]
        for copy in left:
            was_next = self.next_item(copy.executor) is copy
            self.withdraw(copy)
            if was_next:
                self.processes[copy.executor].look_again()

    def expected_ends(self) -> dict[simpy.Event, float]:
        """Let what runs, now and later, take as long as expected; return the ends that this changes, in seconds."""
        return {}

    def close(self) -> None:
        """Record the copies that run or wait when the run ends."""
        for table in self._timetables.values():
            if table.running is not None:
                self.record(table.running, table.running.start, None, "running")
            for copy in table.waiting:
                self.record(copy, None, None, "waiting")
