"""What happens to tasks: how long they take, when they start and finish, and what outages take away."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator, Philox

from desim.problems.dag.copies import Copy
from desim.problems.dag.execution import Execution
from desim.problems.dag.failures import ExecutorFailures
from desim.problems.dag.job_state import JobState
from desim.problems.dag.plan import Plan
from desim.problems.dag.task_state import TaskState
from desim.problems.dag.tasks import TaskCopy

if TYPE_CHECKING:
    import simpy

    from desim.problems.dag.task_cluster import TaskCluster
    from desim.problems.dag.task_times import Wave

__all__ = ["TaskDraws", "TaskExecution", "TaskFailures", "TaskPlan", "TaskTransfers"]


class TaskDraws:
    """A random generator for each task, whatever else has been drawn before.

    Philox counts: its numbers follow from a key, here that of the run, and a counter, here the job, the node and the
    task (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the key comes from.
    """

    def __init__(self, rng: Generator) -> None:
        self._bits = Philox(key=rng.integers(2**64, size=2, dtype=np.uint64))
        self._rng = Generator(self._bits)
        self._state = self._bits.state

    def of(self, copy: Copy) -> Generator:
        """Return the generator of a task, the same for the same run, job, node and number; valid until the next call.

        Parameters
        ----------
        copy : Copy
            The task.

        Returns
        -------
        numpy.random.Generator
            At its beginning.
        """
        state = self._state
        state["state"]["counter"][:] = (0, copy.task, copy.node, copy.state.job.job_id % 2**64)
        self._bits.state = state
        return self._rng


class TaskPlan(Plan):
    """The timetables of executors whose tasks do not all take as long as expected.

    Parameters
    ----------
    env : simpy.Environment
        Whose clock counts.
    num_executors : int
        Number of executors.
    is_exact : bool
        See :class:`Plan`.
    """

    def ready_time(self, copy: Copy) -> float:
        """Return when all inputs of a waiting task are there, in seconds."""
        return _task(copy).shares.ready


class TaskTransfers:
    """The inputs of a task: all its parents have finished when it is assigned, so that nothing is left to find out."""

    def ready_time(self, copy: Copy) -> float | None:
        """Return when all inputs of a task are there, in seconds."""
        return _task(copy).shares.ready

    def settle(self, copy: Copy) -> None:
        """Do nothing: the shares of a task are known."""

    def keep_received(self, copy: Copy, now: float) -> None:
        """Do nothing: the shares of a task tell when they arrive."""

    def assigned(self, copy: Copy) -> None:
        """Do nothing: arrivals are known."""

    def finished(self, copy: Copy) -> None:
        """Do nothing: who needs the results is assigned later."""

    def dropped(self, copy: Copy) -> None:
        """Do nothing: nothing is under way that would have to be stopped."""

    def failed(self, executor: int) -> None:
        """Do nothing: see TaskFailures."""

    def next_events(self) -> tuple[simpy.Event, ...]:
        """Return nothing: the executors wait for their inputs."""
        return ()


class TaskExecution(Execution):
    """The part of a cluster that runs tasks on executors.

    Parameters
    ----------
    cluster : TaskCluster
        The bound cluster.
    """

    def __init__(self, cluster: TaskCluster) -> None:
        super().__init__(cluster)
        self._speeds: list[float] = cluster.executors.speeds.tolist()
        self._moving_delay = cluster.moving_delay
        self._draws: TaskDraws | None = TaskDraws(cluster.simulation.stream("durations"))
        self._last: list[tuple[int, int] | None] = [None] * len(self._speeds)  # job and node, by executor
        self._num_executors: Counter[int] = Counter()  # whose last task was one of a job

    def _delay(self, copy: Copy) -> float:
        """Return how long an executor that is free needs to move to the job of a task, in seconds."""
        last = self._last[copy.executor]
        return 0.0 if last is None or last[0] == _state(copy)._number else self._moving_delay

    def begin(self, copy: Copy) -> float:
        """Let a task run, and return when it will have finished, in seconds."""
        task = _task(copy)
        state, executor = _state(task), task.executor
        start = self.start_time(task)
        assert start is not None
        self._plan.begin(task, start)
        task.has_started = True
        if not start >= state._started_at:
            state._started_at = start
        task.true_finish = self._finish(task, state)
        self._record_transfer((state.job.job_id, task.node, task.task, executor, task.shares))
        if self._cluster.listening:
            self._cluster.emit("start", task)
        return task.true_finish

    def _finish(self, task: TaskCopy, state: TaskState) -> float:
        """Return when a task that starts will have finished, in seconds, and remember what its executor ran."""
        node, executor = task.node, task.executor
        last, number = self._last[executor], state._number
        wave: Wave = "first" if executor in state._visited else "fresh"
        if last is None or last[0] != number:
            self.forget(executor)
            self._num_executors[number] += 1
        elif last[1] == node:
            wave = "rest"
        self._last[executor] = number, node
        state._visited.add(executor)
        times = state.job.task_times
        if times is None or self._draws is None:
            return task.finish
        seconds = times[node].draw(self._draws.of(task), wave, self._num_executors[number])
        duration: float = seconds * times[node].reference_speed / self._speeds[executor]
        return task.start + duration

    def expected_ends(self) -> dict[simpy.Event, float]:
        """Draw no more, let what runs take as long as expected; return the new ends, in seconds, not before now."""
        self._draws = None
        ends = {}
        for executor, table in self._timetables.items():
            if table.running is not None:
                task = _task(table.running)
                task.true_finish = max(task.finish, self._cluster.env.now)
                ends[self.processes[executor].next_event] = task.true_finish
        return ends

    def forget(self, executor: int) -> None:
        """Forget what an executor ran last."""
        last = self._last[executor]
        if last is not None:
            self._last[executor] = None
            self._num_executors[last[0]] -= 1
            if not self._num_executors[last[0]]:
                del self._num_executors[last[0]]

    def complete(self, copy: Copy) -> None:
        """Take note that a task has finished."""
        task = _task(copy)
        if task.finish != task.true_finish:
            task.finish = task.true_finish
            self._plan.mark(task.executor)
        super().complete(task)

    def _is_whole(self, copy: Copy) -> bool:
        """Tell whether all tasks of a node have finished, now that one more has."""
        unfinished = _state(copy).unfinished_tasks
        unfinished[copy.node] -= 1
        return not unfinished[copy.node]


class TaskFailures(ExecutorFailures):
    """The part of a cluster of tasks that takes executors down and brings them back.

    Parameters
    ----------
    cluster : TaskCluster
        The bound cluster whose executors they are.
    """

    def _clear(self, executor: int, now: float) -> None:
        """Drop what runs and waits on an executor; it comes back knowing no job."""
        super()._clear(executor, now)
        execution = self._cluster._execution
        assert isinstance(execution, TaskExecution)
        execution.forget(executor)
        for state in self._cluster._jobs.values():
            assert isinstance(state, TaskState)
            state._visited.discard(executor)

    def _recover(self, state: JobState, executors: list[int], waiting: list[Copy]) -> None:
        """Find out which tasks of a job have to be run, perhaps again, and which cannot run any more."""
        if self._cluster.outages_lose_data:
            now = self._cluster.env.now
            for copies in state.copies:
                for copy in [copy for copy in copies if copy.executor in executors]:
                    state._remove(copy)
            for copy in waiting:
                shares = _task(copy).shares
                if (np.isin(shares.sources, executors) & (shares.arrivals > now)).any():
                    self._cluster._execution.withdraw(copy)
        self._find_unfinished(state)
        self._find_executable(state)

    def _find_unfinished(self, state: JobState) -> None:
        """Offer the tasks again whose results are gone and needed, and count anew what is assigned and finished."""
        assert isinstance(state, TaskState)
        for node in reversed(range(state.job.num_nodes)):
            # A task that has been assigned has its data, or was withdrawn; one that has not needs all of them.
            if any(state.unassigned_tasks[child] for child, _ in state._children[node]):
                state._run_lost_again(node)
        state.finished[:] = state.unfinished_tasks == 0
        state._has_data[:] = state.finished & [not lost for lost in state._lost]
        state.assigned[:] = state.unassigned_tasks == 0
        state.num_unfinished = int((~state.finished).sum())


def _task(copy: Copy) -> TaskCopy:
    assert isinstance(copy, TaskCopy)
    return copy


def _state(copy: Copy) -> TaskState:
    assert isinstance(copy.state, TaskState)
    return copy.state
