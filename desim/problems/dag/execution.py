"""What is assigned to executors and when it is expected to run; what happens: copies start, finish, are taken back."""

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
    """The copies of one executor that run or wait, in order, with the idle times between them; live, do not change it.

    Attributes
    ----------
    running : Copy or None
        What runs now.
    waiting : list of Copy
        What comes next, in order; expected starts and finishes are those of the copies.
    gaps : list of (float, float)
        Idle times before waiting copies as (begin, end), in seconds, in order.
    free_since : float
        When the executor last became free, or came back from an outage, in seconds.
    """

    __slots__ = ("free_since", "gaps", "running", "waiting")

    def __init__(self) -> None:
        self.running: Copy | None = None
        self.waiting: list[Copy] = []
        self.gaps: list[tuple[float, float]] = []
        self.free_since = 0.0

    def finish_before(self, position: int) -> float:
        """Return when what comes before a position of the queue is expected to have finished, in seconds."""
        if position:
            return self.waiting[position - 1].finish
        return self.free_since if self.running is None else self.running.finish

    def earliest_gap(self, ready: float, duration: float) -> tuple[float, int] | None:
        """Find the first idle time before a waiting copy that something fits into.

        Parameters
        ----------
        ready : float
            Earliest start, not before now, in seconds.
        duration : float
            In seconds.

        Returns
        -------
        (float, int) or None
            The start in seconds and the position in the queue; None if it fits into no gap.
        """
        gaps = self.gaps
        for index in range(bisect_left(gaps, ready + duration, key=_end), len(gaps)):
            begin, end = gaps[index]
            start = begin if begin > ready else ready
            if start < end and start + duration <= end:  # at the end itself, others may be that take no time
                return start, bisect_left(self.waiting, end, key=_start)
        return None


class Plan:
    """The executor_queues of all executors.

    Expected times are computed when something is assigned. When something happens at another time than expected,
    the executors concerned are marked, and :meth:`refresh` computes anew what has changed.

    Parameters
    ----------
    env : simpy.Environment
        Whose clock counts.
    num_executors : int
        Number of executors.
    is_exact : bool
        Nothing happens later than expected unless the executor concerned is marked. Otherwise what is overdue is
        looked for, and expected now.

    Attributes
    ----------
    available : numpy.ndarray of shape (num_executors,)
        When all that is assigned will have run, in seconds; infinite for an executor that is down.
    last_gap_ends : numpy.ndarray of shape (num_executors,)
        Where the last gap ends, -inf without one.
    executor_queues : dict of int to ExecutorQueue
        By executor.
    """

    def __init__(self, env: simpy.Environment, num_executors: int, *, is_exact: bool = True) -> None:
        self.available = np.zeros(num_executors)
        self.last_gap_ends = np.full(num_executors, -np.inf)
        self.executor_queues = {executor: ExecutorQueue() for executor in range(num_executors)}
        self._env = env
        self._outdated: dict[int, None] = {}  # a set in order
        self._sequence = 0
        self._is_exact = is_exact
        self._checked_at = -np.inf

    def assign(self, state: JobState, nodes: Sequence[int], executor: int, position: int | None) -> list[Copy] | None:
        """Add a copy of each node, one behind the other, at a position of an executor's queue.

        Parameters
        ----------
        state : JobState
            The job.
        nodes : sequence of int
            Nodes whose parents are assigned or come before them here.
        executor : int
            The executor, which is up.
        position : int, optional
            The end of the queue if None.

        Returns
        -------
        list of Copy or None
            The new copies; None, with nothing changed, if they do not fit into the idle time at the position.
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
            state.add(copy)  # its children among the nodes find it
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
        """Let the first waiting copy of an executor run from a time on."""
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

    def end(self, executor: int, time: float) -> None:
        """Let what runs on an executor end at a time."""
        table = self.executor_queues[executor]
        table.running = None
        table.free_since = time
        if not table.waiting and self.available[executor] != time:
            self.available[executor] = time

    def withdraw(self, copy: Copy) -> None:
        """Take a copy back that waits."""
        table = self.executor_queues[copy.executor]
        if table.running is None and table.waiting[0] is copy:
            table.free_since = self._env.now  # until now the executor was kept for this copy
        table.waiting.remove(copy)
        self._outdated[copy.executor] = None

    def on_failure(self, executor: int) -> Copy | None:
        """Let an executor be down from now on, and return what ran on it."""
        table = self.executor_queues[executor]
        copy, table.running = table.running, None
        self.available[executor] = np.inf
        return copy

    def on_repair(self, executor: int) -> None:
        """Let an executor be free from now on."""
        self.executor_queues[executor].free_since = self.available[executor] = self._env.now

    def move(self, copy: Copy, start: float) -> None:
        """Expect a copy at another time, and mark what that may change."""
        copy.start = start
        copy.finish = start + copy.state.run_times.item(copy.node, copy.executor)
        copy.state.forget_arrivals(copy.node)
        for child, _ in copy.state.job.child_lists[copy.node]:
            for other in copy.state.copies[child]:
                if not other.has_started and other.executor != copy.executor:
                    self._outdated[other.executor] = None

    def mark(self, executor: int) -> None:
        """Take note that what waits on an executor may run at other times than expected."""
        self._outdated[executor] = None

    def refresh(self) -> None:
        """Compute anew the expected times that may have changed."""
        if not self._is_exact and self._checked_at != self._env.now:
            self._mark_overdue()
        while self._outdated:
            executor = next(iter(self._outdated))
            del self._outdated[executor]
            self._expect(executor)

    def _mark_overdue(self) -> None:
        """Mark the executors on which something should have happened by now."""
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


# -- what executors do ---------------------------------------------------------------------------


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
        self._processes = [ExecutorProcess(problem.env, self, executor) for executor in self._executor_queues]

    # -- what an executor asks for and tells ----------------------------------------------------------

    def next_item(self, executor: int) -> Copy | None:
        """Return the copy that an executor runs next."""
        waiting = self._executor_queues[executor].waiting
        return waiting[0] if waiting else None

    def start_time(self, copy: Copy) -> float | None:
        """Return when a copy that is next can start, in seconds; None while that is not known."""
        start = max(self._executor_queues[copy.executor].free_since, copy.assigned)
        if copy.receiving != copy.receiving:  # NaN: this is the first time that somebody asks
            copy.receiving = start
        start += copy.state.delay(copy)
        ready = copy.state.received_at(copy) if self._shared is None else self._shared.received_at(copy)
        if ready is None or ready > start:
            return ready
        return start

    def begin(self, copy: Copy, start: float) -> float:
        """Let a copy run from a time on, and return when it will have finished, in seconds."""
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
        if self._executor_queues[executor].waiting[0] is copies[0]:
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

    def on_failure(self, executors: Sequence[int]) -> list[Copy]:
        """Drop what runs and waits on executors that go down, and return what waits on the others."""
        self._plan.refresh()  # what is expected now tells what waited for what
        now = self._problem.env.now
        if self._shared is None:
            for executor, table in self._executor_queues.items():
                if executor not in executors:
                    for copy in table.waiting:
                        copy.state.receive(copy, now)
        for executor in executors:
            self._processes[executor].fail()
            interrupted = self._plan.on_failure(executor)
            if interrupted is not None:
                interrupted.state.remove(interrupted)
                self._record(interrupted, interrupted.start, now, "interrupted")
            for copy in list(self._executor_queues[executor].waiting):
                self.withdraw(copy)
            if self._shared is not None and self._lose_data:
                self._shared.lost(executor)
        return [copy for table in self._executor_queues.values() for copy in table.waiting]

    def on_repair(self, executor: int) -> None:
        """Let an executor that was down work again."""
        self._plan.on_repair(executor)
        self._processes[executor].repair()

    def go_on_as_expected(self) -> None:
        """Let what runs take as long as agents expect, at least until now, and let nothing else happen by itself."""
        ends, now = {}, self._problem.env.now
        for executor, table in self._executor_queues.items():
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
        for table in self._executor_queues.values():
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


# -- transfers over shared links -----------------------------------------------------------------


class SharedTransfers:
    """Data move over links that they share, see :class:`SharedLinks`.

    Each input of a copy sets out when it is assigned and its parent has finished, while its executor may still be busy.
    It comes from the executor itself if a copy of the parent has finished there or is ahead in its queue; otherwise
    from the finished copy that is nominally the fastest, or, if there is none yet, from the first that finishes.
    If the parent finishes on the executor itself in the meantime, the transfer is broken off. Where outages lose data,
    those under way from an executor that goes down end, and another source is looked for.

    Parameters
    ----------
    env : simpy.Environment
        Its clock.
    executors : Executors
        Of the cluster.
    links : SharedLinks
        Between them.
    executor_queues : mapping of int to ExecutorQueue
        What is assigned to them.
    holds_data : callable
        Tells of an executor whether what was computed on it is still there.
    received : callable
        Called with a copy all of whose inputs have arrived.
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
        self._routes = links.routes
        self._seconds = executors.seconds_per_unit
        self._latencies = executors.latencies
        self._channels = SharedChannels(env, links.bandwidths.tolist())
        self._flows: dict[tuple[Copy, int], tuple[Flow, int]] = {}  # with the source, by receiver and parent

    @property
    def next_event(self) -> simpy.Event:
        """What the links wait for."""
        return self._channels.next_event

    def received_at(self, copy: Copy) -> float | None:
        """Return when all inputs of a copy were there, in seconds; None as long as they are not."""
        inputs = copy.inputs
        if len(inputs) < len(copy.state.job.parent_lists[copy.node]):
            return None
        return max((delivery.arrival for delivery in inputs.values()), default=0.0)

    def assigned(self, copy: Copy) -> None:
        """Send the inputs of a new copy that can be had."""
        for parent, size in copy.state.job.parent_lists[copy.node]:
            self._seek(copy, parent, size)

    def finished(self, copy: Copy) -> None:
        """Send the data of a copy that has finished to the copies that wait for them."""
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
        """Break off what was under way to a copy, and serve those that counted on its data from elsewhere."""
        state, node = copy.state, copy.node
        for parent, _ in state.job.parent_lists[node]:
            self._break_off(copy, parent)
        for child, size in state.job.child_lists[node]:
            for other in state.copies[child]:
                if other.executor == copy.executor and not other.has_started:
                    self._seek(other, node, size)

    def lost(self, executor: int) -> None:
        """Break off what was under way from an executor that has lost its data, and look for other sources."""
        for (copy, parent), (_, source) in list(self._flows.items()):
            if source == executor:
                self._break_off(copy, parent)
                self._seek(copy, parent, dict(copy.state.job.parent_lists[copy.node])[parent])

    def _seek(self, copy: Copy, parent: int, size: float) -> None:
        """Get an input from where it can be had, unless that has been done."""
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
        """Return a copy of a parent that has finished, runs or is ahead in the queue on the executor of a copy."""
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
            self._routes[start][end],
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
