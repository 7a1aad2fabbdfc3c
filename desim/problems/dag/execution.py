"""Queues of the executors with expected times, and their execution: copies start, finish or are withdrawn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter

import numpy as np
import simpy

from desim.core import reschedule
from desim.problem import Problem
from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.state import Copy, InputTransfer, JobState
from desim.processes.channels import Flow, SharedChannels
from desim.processes.executors import ExecutorProcess, ExecutorStatus

__all__ = ["Execution", "ExecutorQueue", "Plan", "SharedTransfers"]


class ExecutorQueue:
    """Queue of one executor: its running and waiting copies and the idle times between them; live, do not modify it.

    Attributes
    ----------
    running : Copy or None
        Copy that runs now.
    waiting : list of Copy
        Waiting copies, in order of execution. Each copy holds its expected start and finish.
    gaps : list of (float, float)
        Idle times before waiting copies as (begin, end), in seconds, in order.
    free_since : float
        Time at which the executor last became free or was repaired, in seconds.
    """

    __slots__ = ("free_since", "gaps", "running", "waiting")

    def __init__(self) -> None:
        self.running: Copy | None = None
        self.waiting: list[Copy] = []
        self.gaps: list[tuple[float, float]] = []
        self.free_since = 0.0

    def copies(self) -> list[Copy]:
        """Return the copies that run now."""
        return [] if self.running is None else [self.running]

    def finish_before(self, position: int) -> float:
        """Return when all copies before a queue position are expected to have finished, in seconds."""
        if position:
            return self.waiting[position - 1].finish
        return self.free_since if self.running is None else self.running.finish

    def earliest_gap(self, ready: float, duration: float) -> tuple[float, int] | None:
        """Find the first idle time before a waiting copy that is long enough for a given duration.

        Parameters
        ----------
        ready : float
            Earliest start, not before now, in seconds.
        duration : float
            Run time in seconds.

        Returns
        -------
        (float, int) or None
            Start in seconds and position in the queue, or None if no gap is long enough.
        """
        gaps = self.gaps
        for index in range(bisect_left(gaps, ready + duration, key=_end), len(gaps)):
            begin, end = gaps[index]
            start = begin if begin > ready else ready
            if start < end and start + duration <= end:  # several copies without duration may lie at the end itself
                return start, bisect_left(self.waiting, end, key=_start)
        return None


class Plan:
    """PartialSchedule of all executors.

    Expected times are computed when copies are assigned. When something happens at another time than expected, the
    executors concerned are marked, and :meth:`refresh` recomputes what has changed.

    Parameters
    ----------
    env : simpy.Environment
        Environment whose clock is used.
    num_executors : int
        Number of executors.
    is_exact : bool
        Whether nothing happens later than expected on executors that are not marked. Otherwise, overdue copies are
        searched for and expected now.

    Attributes
    ----------
    available : numpy.ndarray of shape (num_executors,)
        Time at which all assigned copies will have run, in seconds; infinite for an executor that is down.
    last_gap_ends : numpy.ndarray of shape (num_executors,)
        End of the last gap in seconds; -inf if there is no gap.
    executor_queues : dict of int to ExecutorQueue
        ExecutorQueue by executor.
    """

    def __init__(self, env: simpy.Environment, num_executors: int, *, is_exact: bool = True) -> None:
        self.available = np.zeros(num_executors)
        self.last_gap_ends = np.full(num_executors, -np.inf)
        self.executor_queues = {executor: ExecutorQueue() for executor in range(num_executors)}
        self._env = env
        self._outdated: dict[int, None] = {}  # an ordered set
        self._sequence = 0
        self._is_exact = is_exact
        self._checked_at = -np.inf

    def assign(
        self, state: JobState, nodes: Sequence[int], executor: int, position: int | None, mode: int | None = None
    ) -> list[Copy] | None:
        """Insert copies of nodes, one after the other, at a position of an executor's queue.

        Parameters
        ----------
        state : JobState
            Job of the nodes.
        nodes : sequence of int
            Nodes whose parents are assigned or come earlier in this sequence.
        executor : int
            Executor, which is up.
        position : int, optional
            Position in the queue; default: the end.
        mode : int, optional
            Mode of the last node, on a pool.

        Returns
        -------
        list of Copy or None
            New copies, or None, with nothing changed, if they do not fit into the idle time at the position.
        """
        self.refresh()
        table = self.executor_queues[executor]
        at_end = position is None or position == len(table.waiting)
        place = len(table.waiting) if position is None else position
        time = self.available.item(executor) if at_end else table.finish_before(place)
        now = self._env.now
        copies = []
        gaps = []
        for node in nodes:
            start = max(time, state.ready_time(node, executor), now)
            if start > time:
                gaps.append((time, start))
            time = start + state.run_times.item(node, executor)
            copy = state.new_copy(node, executor, now=now, sequence=self._sequence, start=start, finish=time)
            self._sequence += 1
            copies.append(copy)
            state.add(copy)  # so that its children among the nodes find it
        if at_end:
            table.waiting.extend(copies)
            self.available[executor] = time
            if gaps:
                table.gaps.extend(gaps)
                self.last_gap_ends[executor] = gaps[-1][1]
            return copies
        behind = table.waiting[place]
        if time > behind.start or behind.finish <= copies[-1].start:
            for copy in copies:
                state.remove(copy)
            return None
        table.waiting[place:place] = copies
        if behind.start > time:
            gaps.append((time, behind.start))
        index = bisect_left(table.gaps, behind.start, key=_end)
        was_there = index < len(table.gaps) and table.gaps[index][1] == behind.start
        table.gaps[index : index + was_there] = gaps
        self.last_gap_ends[executor] = table.gaps[-1][1] if table.gaps else -np.inf
        return copies

    def begin(self, copy: Copy, start: float) -> None:
        """Start the first waiting copy of an executor at a given time."""
        executor = copy.executor
        table = self.executor_queues[executor]
        del table.waiting[0]
        table.running = copy
        if start != copy.start:
            self.move(copy, start)
            self._outdated[executor] = None
        gaps = table.gaps
        if gaps and gaps[0][1] <= copy.start:
            while gaps and gaps[0][1] <= copy.start:
                del gaps[0]
            if not gaps:
                self.last_gap_ends[executor] = -np.inf

    def end(self, copy: Copy) -> None:
        """End the running copy of an executor at its finish."""
        executor, time = copy.executor, copy.finish
        table = self.executor_queues[executor]
        table.running = None
        table.free_since = time
        if not table.waiting and self.available[executor] != time:
            self.available[executor] = time

    def withdraw(self, copy: Copy) -> None:
        """Remove a waiting copy."""
        table = self.executor_queues[copy.executor]
        if table.running is None and table.waiting[0] is copy:
            table.free_since = self._env.now  # until now, the executor was reserved for this copy
        table.waiting.remove(copy)
        self._outdated[copy.executor] = None

    def on_failure(self, executor: int) -> list[Copy]:
        """Mark an executor as down from now on, and return the copies that ran on it."""
        table = self.executor_queues[executor]
        ran, table.running = table.copies(), None
        self.available[executor] = np.inf
        return ran

    def on_repair(self, executor: int) -> None:
        """Mark an executor as free from now on."""
        self.executor_queues[executor].free_since = self.available[executor] = self._env.now

    def move(self, copy: Copy, start: float) -> None:
        """Change a copy's expected start, and mark executors that this may affect."""
        copy.start = start
        copy.finish = start + copy.state.run_times.item(copy.node, copy.executor)
        copy.state.forget_arrivals(copy.node)
        for child, _ in copy.state.job.child_lists[copy.node]:
            for other in copy.state.copies[child]:
                if not other.has_started and other.executor != copy.executor:
                    self._outdated[other.executor] = None

    def mark(self, executor: int) -> None:
        """Mark an executor: its waiting copies may run at other times than expected."""
        self._outdated[executor] = None

    def refresh(self) -> None:
        """Recompute the expected times that may have changed."""
        if not self._is_exact and self._checked_at != self._env.now:
            self._mark_overdue()
        while self._outdated:
            executor = next(iter(self._outdated))
            del self._outdated[executor]
            self._expect(executor)

    def _mark_overdue(self) -> None:
        """Mark executors with a waiting copy whose expected start has passed."""
        self._checked_at = now = self._env.now
        for executor, table in self.executor_queues.items():
            if table.waiting and table.waiting[0].start < now:
                self._outdated[executor] = None

    def _expect(self, executor: int) -> None:
        table = self.executor_queues[executor]
        now = self._env.now
        time = table.free_since if table.running is None else max(table.running.finish, now)
        for copy in table.waiting:
            start = max(time, copy.state.expected_at(copy), now)
            if start != copy.start:
                self.move(copy, start)
            time = copy.finish
        if self.available[executor] < np.inf:
            self.available[executor] = time
        self._find_gaps(executor)

    def _find_gaps(self, executor: int) -> None:
        table = self.executor_queues[executor]
        time = table.finish_before(0)
        table.gaps = []
        for copy in table.waiting:
            if copy.start > time:
                table.gaps.append((time, copy.start))
            time = copy.finish
        self.last_gap_ends[executor] = table.gaps[-1][1] if table.gaps else -np.inf


_end = itemgetter(1)
_start = attrgetter("start")


# -- execution --------------------------------------------------------------------------------------


class Execution:
    """Execution on the executors of a cluster: runs the assigned copies in order and records them.

    Parameters
    ----------
    problem : Problem
        Bound cluster, whose listeners are notified.
    executors : Executors
        Executors of the cluster.
    plan : Plan
        Queues of the executors.
    links : SharedLinks or None
        Links that transfers share. None: each pair of executors has its own channel at that pair's transfer speed.
    outages_lose_data : bool
        Whether an executor that fails loses the results that it holds.
    completed : callable
        Function that is called with each finished copy.
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
        self._executor_queues = plan.executor_queues
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
                plan.executor_queues,
                holds_data=self._holds_data,
                received=self._look_again_for,
            )
        self._processes = [self._process(executor) for executor in self._executor_queues]

    def _process(self, executor: int) -> ExecutorProcess:
        return ExecutorProcess(self._problem.env, self, executor)

    # -- called by the executor processes -------------------------------------------------------------

    def next_item(self, executor: int) -> Copy | None:
        """Return the copy that an executor runs next, or None."""
        waiting = self._executor_queues[executor].waiting
        return waiting[0] if waiting else None

    def start_time(self, copy: Copy) -> float | None:
        """Return when the next copy can start, in seconds; None while that is unknown."""
        start = max(self._executor_queues[copy.executor].free_since, copy.assigned)
        if copy.receiving != copy.receiving:  # NaN: this is the first call for this copy
            copy.receiving = start
        start += copy.state.delay(copy)
        ready = copy.state.received_at(copy) if self._shared is None else self._shared.received_at(copy)
        if ready is None or ready > start:
            return ready
        return start

    def begin(self, copy: Copy, start: float) -> float:
        """Start a copy at a given time, and return when it will finish, in seconds."""
        state = copy.state
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
        """Update the state after a copy has finished."""
        copy.has_finished = True
        if copy.finish != copy.due:
            copy.finish = copy.due
            self._plan.mark(copy.executor)
        self._plan.end(copy)
        self._record(copy, copy.start, copy.finish, "completed")
        if self._shared is not None:
            self._shared.finished(copy)
        self._completed(copy)

    # -- called by the cluster ------------------------------------------------------------------------

    def assign(
        self, state: JobState, nodes: Sequence[int], executor: int, position: int | None, mode: int | None = None
    ) -> bool:
        """Insert copies of nodes into a queue, one after the other; return whether they fit there."""
        copies = self._plan.assign(state, nodes, executor, position, mode)
        if copies is None:
            return False
        for copy in copies:
            if self._shared is not None:
                self._shared.assigned(copy)
            if self._problem.listening:
                self._problem.emit("assignment", copy)
        if self._executor_queues[executor].waiting[0] is copies[0]:
            self._processes[executor].look_again()
        return True

    def is_down(self, executor: int) -> bool:
        """Return whether an executor is down."""
        return self._processes[executor].status is ExecutorStatus.DOWN

    def look_again(self, executors: Iterable[int]) -> None:
        """Notify executors that their next copy, or its start time, may have changed."""
        for executor in executors:
            self._processes[executor].look_again()

    def withdraw(self, copy: Copy) -> None:
        """Withdraw a waiting copy."""
        self._plan.withdraw(copy)
        copy.state.remove(copy)
        if self._shared is not None:
            self._shared.dropped(copy)
        self._record(copy, None, None, "withdrawn")
        if self._problem.listening:
            self._problem.emit("withdrawal", copy)

    def withdraw_rest(self, state: JobState) -> None:
        """Withdraw the waiting copies of a job that has ended."""
        left = [copy for copies in state.copies for copy in copies if not copy.has_started]
        for copy in left:
            was_next = self.next_item(copy.executor) is copy
            self.withdraw(copy)
            if was_next:
                self._processes[copy.executor].look_again()

    def on_failure(self, executors: Sequence[int]) -> list[Copy]:
        """Drop what runs and waits on failing executors, and return what waits on the others."""
        self._plan.refresh()  # expected times show which copies waited for which data
        now = self._problem.env.now
        if self._shared is None:
            for executor, table in self._executor_queues.items():
                if executor not in executors:
                    for copy in table.waiting:
                        copy.state.receive(copy, now)
        for executor in executors:
            self._processes[executor].fail()
            for interrupted in self._plan.on_failure(executor):
                interrupted.state.remove(interrupted)
                interrupted.finish = now
                self._record(interrupted, interrupted.start, now, "interrupted")
                if self._problem.listening:
                    self._problem.emit("interruption", interrupted)
            for copy in list(self._executor_queues[executor].waiting):
                self.withdraw(copy)
            if self._shared is not None and self._lose_data:
                self._shared.lost(executor)
        return [copy for table in self._executor_queues.values() for copy in table.waiting]

    def on_repair(self, executor: int) -> None:
        """Resume an executor that was down."""
        self._plan.on_repair(executor)
        self._processes[executor].repair()

    def go_on_as_expected(self) -> None:
        """Set the ends of running copies to the times that agents expect, at least now; cancel all other events."""
        ends = self._expected_ends()
        kept = {process.next_event: None for process in self._processes}
        if self._shared is not None:
            kept[self._shared.next_event] = None

        def time_of(event: simpy.Event, time: float) -> float | None:
            """Return when a scheduled event will happen, or None if it is cancelled."""
            return ends.get(event, time) if event in kept else None

        reschedule(self._problem.env, time_of)

    def _expected_ends(self) -> dict[simpy.Event, float]:
        """Set the ends of running copies to the times that agents expect, and return them by event."""
        ends, now = {}, self._problem.env.now
        for executor, table in self._executor_queues.items():
            if table.running is not None:
                table.running.due = max(table.running.finish, now)
                ends[self._processes[executor].next_event] = table.running.due
        return ends

    def close(self, time: float) -> None:
        """Record the copies that run or wait when the run ends at a given time."""
        for table in self._executor_queues.values():
            for copy in [*table.copies(), *table.waiting]:
                started = copy.has_started
                self._record(copy, copy.start if started else None, None, "running" if started else "queued")
                for listener in self._problem.listeners["unfinished"]:
                    listener(time, copy)

    def _record(self, copy: Copy, start: float | None, finish: float | None, outcome: str) -> None:
        """Record the outcome of a copy."""
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
                copy.mode,
            )
        )

    def _holds_data(self, executor: int) -> bool:
        """Return whether the results computed on an executor are still there."""
        return not (self._lose_data and self.is_down(executor))

    def _look_again_for(self, copy: Copy) -> None:
        if self.next_item(copy.executor) is copy:
            self._processes[copy.executor].look_again()


# -- transfers over shared links -----------------------------------------------------------------


class SharedTransfers:
    """Transfers over shared links, see :class:`SharedLinks`.

    The transfer of an input begins when the copy is assigned and the parent has finished, even if the executor is still
    busy. No transfer is needed if a copy of the parent has finished on the executor itself or is ahead in its queue.
    Otherwise, the source is the finished copy with the earliest nominal arrival or, if none has finished, the first
    copy to finish. If the parent meanwhile finishes on the executor itself, the transfer is cancelled. If outages lose
    data, transfers from a failing executor are cancelled, and another source is sought.

    Parameters
    ----------
    env : simpy.Environment
        Environment of the cluster.
    executors : Executors
        Executors of the cluster.
    links : SharedLinks
        Links between the executors.
    executor_queues : mapping of int to ExecutorQueue
        Queues of the executors.
    holds_data : callable
        Function that returns whether results computed on a given executor are still there.
    received : callable
        Function that is called with a copy when all its inputs have arrived.
    """

    def __init__(
        self,
        env: simpy.Environment,
        executors: Executors,
        links: SharedLinks,
        executor_queues: Mapping[int, ExecutorQueue],
        *,
        holds_data: Callable[[int], bool],
        received: Callable[[Copy], None],
    ) -> None:
        self._env = env
        self._executor_queues = executor_queues
        self._holds_data = holds_data
        self._received = received
        self._route = links.route
        self._seconds = executors.seconds_between
        self._latencies = executors.latency_between
        self._channels = SharedChannels(env, links.bandwidths.tolist())
        self._flows: dict[tuple[Copy, int], tuple[Flow, int]] = {}  # (receiver, parent) -> (flow, source executor)

    @property
    def next_event(self) -> simpy.Event:
        """Event that the links wait for."""
        return self._channels.next_event

    def received_at(self, copy: Copy) -> float | None:
        """Return when the last input of a copy arrived, in seconds; None if some are missing."""
        inputs = copy.inputs
        if len(inputs) < len(copy.state.job.parent_lists[copy.node]):
            return None
        return max((delivery.arrival for delivery in inputs.values()), default=0.0)

    def assigned(self, copy: Copy) -> None:
        """Start the transfers of a new copy's available inputs."""
        for parent, size in copy.state.job.parent_lists[copy.node]:
            self._seek(copy, parent, size)

    def finished(self, copy: Copy) -> None:
        """Send the data of a finished copy to the copies that wait for them."""
        state, node, executor = copy.state, copy.node, copy.executor
        for child, size in state.job.child_lists[node]:
            for other in state.copies[child]:
                if other.has_started or node in other.inputs:
                    continue
                if other.executor == executor:
                    self._break_off(other, node)
                    other.inputs[node] = InputTransfer(node, executor, copy.finish, copy.finish, size)
                elif (other, node) not in self._flows and self._at_home(other, node) is None:
                    self._send(copy, other, size)

    def dropped(self, copy: Copy) -> None:
        """Cancel the transfers to a dropped copy, and find other sources for copies that relied on its data."""
        state, node = copy.state, copy.node
        for parent, _ in state.job.parent_lists[node]:
            self._break_off(copy, parent)
        for child, size in state.job.child_lists[node]:
            for other in state.copies[child]:
                if other.executor == copy.executor and not other.has_started:
                    self._seek(other, node, size)

    def lost(self, executor: int) -> None:
        """Cancel the transfers from an executor that has lost its data, and find other sources."""
        for (copy, parent), (_, source) in list(self._flows.items()):
            if source == executor:
                self._break_off(copy, parent)
                self._seek(copy, parent, dict(copy.state.job.parent_lists[copy.node])[parent])

    def _seek(self, copy: Copy, parent: int, size: float) -> None:
        """Obtain an input from the best source, unless it has arrived or is on its way."""
        if parent in copy.inputs or (copy, parent) in self._flows:
            return
        near = self._at_home(copy, parent)
        if near is not None:
            if near.has_finished:
                copy.inputs[parent] = InputTransfer(parent, near.executor, near.finish, near.finish, size)
            return
        now, state = self._env.now, copy.state
        best, first = None, float("inf")
        for other in state.copies[parent]:
            if other.has_finished and self._holds_data(other.executor):
                arrival = state.arrival_from(other, size, copy.executor, now)
                if arrival < first:
                    best, first = other, arrival
        if best is not None:
            self._send(best, copy, size)

    def _at_home(self, copy: Copy, parent: int) -> Copy | None:
        """Return the parent's copy that has finished, runs or is ahead in the queue on the same executor, if any."""
        found = None
        for other in copy.state.copies[parent]:
            if other.executor == copy.executor:
                if other.has_finished:
                    return other
                if found is None and (other.has_started or self._is_ahead(other, copy)):
                    found = other
        return found

    def _is_ahead(self, one: Copy, other: Copy) -> bool:
        waiting = self._executor_queues[other.executor].waiting
        return waiting.index(one) < waiting.index(other)

    def _send(self, source: Copy, copy: Copy, size: float) -> None:
        start, end = source.executor, copy.executor
        flow = self._channels.start(
            self._route(start, end),
            size,
            partial(self._arrived, copy, source.node, start),
            seconds_per_unit=self._seconds.item(start, end),
            latency=self._latencies.item(start, end),
        )
        self._flows[copy, source.node] = flow, start

    def _arrived(self, copy: Copy, parent: int, source: int, flow: Flow) -> None:
        del self._flows[copy, parent]
        copy.inputs[parent] = InputTransfer(parent, source, flow.begin, flow.due, flow.size)
        if self.received_at(copy) is not None:
            self._received(copy)

    def _break_off(self, copy: Copy, parent: int) -> None:
        under_way = self._flows.pop((copy, parent), None)
        if under_way is not None:
            self._channels.cancel(under_way[0])
