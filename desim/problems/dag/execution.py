"""What happens to copies: they are assigned, start, finish, are withdrawn and interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import simpy

from desim.core import reschedule
from desim.problem import Problem
from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.plan import Plan
from desim.problems.dag.state import Copy, JobState
from desim.problems.dag.transfers import SharedTransfers
from desim.processes.executors import ExecutorProcess, ExecutorStatus

__all__ = ["Execution"]


class Execution:
    """The executors of a cluster at work: each runs what is assigned to it, in order, and records it.

    Parameters
    ----------
    problem : Problem
        The bound cluster, whose listeners are told.
    executors : Executors
        Its executors.
    plan : Plan
        What is assigned to them.
    links : SharedLinks or None
        What transfers share; without, they move between each pair at that pair's speed, whatever else is moving.
    outages_lose_data : bool
        An executor that goes down loses the results that it holds.
    completed : callable
        Called with a copy that has finished.
    """

    def __init__(
        self,
        problem: Problem,
        executors: Executors,
        plan: Plan,
        links: SharedLinks | None,
        *,
        outages_lose_data: bool,
        completed: Callable[[Copy], None],
    ) -> None:
        self._problem = problem
        self._plan = plan
        self._timetables = plan.timetables
        self._lose_data = outages_lose_data
        self._completed = completed
        tables = problem.simulation.records.tables
        self._record_copy = tables["copies"].append
        self._record_transfer = tables["transfers"].append
        self._shared: SharedTransfers | None = None
        if links is not None:
            self._shared = SharedTransfers(
                problem.env,
                executors,
                links,
                plan.timetables,
                holds_data=self._holds_data,
                received=self._look_again_for,
            )
        self._processes = [ExecutorProcess(problem.env, self, executor) for executor in self._timetables]

    # -- what an executor asks for and tells ----------------------------------------------------------

    def next_item(self, executor: int) -> Copy | None:
        """Return the copy that an executor runs next."""
        waiting = self._timetables[executor].waiting
        return waiting[0] if waiting else None

    def start_time(self, copy: Copy) -> float | None:
        """Return when a copy that is next can start, in seconds; None while that is not known."""
        start = max(self._timetables[copy.executor].free_since, copy.assigned)
        if copy.receiving != copy.receiving:  # NaN: this is the first time that somebody asks
            copy.receiving = start
        start += copy.state.delay(copy)
        ready = copy.state.received_at(copy) if self._shared is None else self._shared.received_at(copy)
        if ready is None or ready > start:
            return ready
        return start

    def begin(self, copy: Copy) -> float:
        """Let a copy run, and return when it will have finished, in seconds."""
        start, state = self.start_time(copy), copy.state
        assert start is not None  # the executor has asked before
        if self._shared is None:
            state.receive(copy, float("inf"))
        else:
            copy.inputs = dict(sorted(copy.inputs.items()))
        self._plan.begin(copy, start)
        copy.has_started = True
        if not start >= state.started_at:
            state.started_at = start
        copy.due = state.run(copy)
        state.record_inputs(copy, self._record_transfer)
        if self._problem.listening:
            self._problem.emit("start", copy)
        return copy.due

    def complete(self, copy: Copy) -> None:
        """Take note that a copy has finished."""
        copy.has_finished = True
        if copy.finish != copy.due:
            copy.finish = copy.due
            self._plan.mark(copy.executor)
        self._plan.end(copy.executor, copy.finish)
        self._record(copy, copy.start, copy.finish, "completed")
        if self._shared is not None:
            self._shared.finished(copy)
        self._completed(copy)

    # -- what the cluster asks for --------------------------------------------------------------------

    def assign(self, state: JobState, nodes: Sequence[int], executor: int, position: int | None) -> bool:
        """Put copies of nodes into a queue, one behind the other, if they fit there, and tell whether they do."""
        copies = self._plan.assign(state, nodes, executor, position)
        if copies is None:
            return False
        for copy in copies:
            if self._shared is not None:
                self._shared.assigned(copy)
            if self._problem.listening:
                self._problem.emit("assignment", copy)
        if self._timetables[executor].waiting[0] is copies[0]:
            self._processes[executor].look_again()
        return True

    def is_down(self, executor: int) -> bool:
        """Tell whether an executor is down."""
        return self._processes[executor].status is ExecutorStatus.DOWN

    def look_again(self, executors: Iterable[int]) -> None:
        """Tell executors that what is to run next, or when, may have changed."""
        for executor in executors:
            self._processes[executor].look_again()

    def withdraw(self, copy: Copy) -> None:
        """Take a copy back that waits."""
        self._plan.withdraw(copy)
        copy.state.remove(copy)
        if self._shared is not None:
            self._shared.dropped(copy)
        self._record(copy, None, None, "withdrawn")
        if self._problem.listening:
            self._problem.emit("withdrawal", copy)

    def withdraw_rest(self, state: JobState) -> None:
        """Take back the copies of a job that has ended."""
        left = [copy for copies in state.copies for copy in copies if not copy.has_started]
        for copy in left:
            was_next = self.next_item(copy.executor) is copy
            self.withdraw(copy)
            if was_next:
                self._processes[copy.executor].look_again()

    def take_down(self, executors: Sequence[int]) -> list[Copy]:
        """Drop what runs and waits on executors that go down, and return what waits on the others."""
        self._plan.refresh()  # what is expected now tells what waited for what
        now = self._problem.env.now
        if self._shared is None:
            for executor, table in self._timetables.items():
                if executor not in executors:
                    for copy in table.waiting:
                        copy.state.receive(copy, now)
        for executor in executors:
            self._processes[executor].fail()
            interrupted = self._plan.take_down(executor)
            if interrupted is not None:
                interrupted.state.remove(interrupted)
                self._record(interrupted, interrupted.start, now, "interrupted")
            for copy in list(self._timetables[executor].waiting):
                self.withdraw(copy)
            if self._shared is not None and self._lose_data:
                self._shared.lost(executor)
        return [copy for table in self._timetables.values() for copy in table.waiting]

    def bring_up(self, executor: int) -> None:
        """Let an executor that was down work again."""
        self._plan.bring_up(executor)
        self._processes[executor].repair()

    def go_on_as_expected(self) -> None:
        """Let what runs take as long as agents expect, at least until now, and let nothing else happen by itself."""
        ends, now = {}, self._problem.env.now
        for executor, table in self._timetables.items():
            if table.running is not None:
                table.running.due = max(table.running.finish, now)
                ends[self._processes[executor].next_event] = table.running.due
        kept = {process.next_event: None for process in self._processes}
        if self._shared is not None:
            kept[self._shared.next_event] = None

        def time_of(event: simpy.Event, time: float) -> float | None:
            """Return when what is scheduled for a time will happen, if it will."""
            return ends.get(event, time) if event in kept else None

        reschedule(self._problem.env, time_of)

    def close(self) -> None:
        """Record the copies that run or wait when the run ends."""
        for table in self._timetables.values():
            if table.running is not None:
                self._record(table.running, table.running.start, None, "running")
            for copy in table.waiting:
                self._record(copy, None, None, "queued")

    def _record(self, copy: Copy, start: float | None, finish: float | None, outcome: str) -> None:
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
                copy.state.arrival_number,
            )
        )

    def _holds_data(self, executor: int) -> bool:
        """Tell whether what was computed on an executor is still there."""
        return not (self._lose_data and self.is_down(executor))

    def _look_again_for(self, copy: Copy) -> None:
        if self.next_item(copy.executor) is copy:
            self._processes[copy.executor].look_again()
