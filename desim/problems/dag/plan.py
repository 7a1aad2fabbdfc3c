"""What is assigned to the executors, and when it is expected to run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter, itemgetter

import numpy as np
import simpy

from desim.problems.dag.state import Copy, JobState

__all__ = ["Plan", "Timetable"]


class Timetable:
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
    """The timetables of all executors.

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
    timetables : dict of int to Timetable
        By executor.
    """

    def __init__(self, env: simpy.Environment, num_executors: int, *, is_exact: bool = True) -> None:
        self.available = np.zeros(num_executors)
        self.last_gap_ends = np.full(num_executors, -np.inf)
        self.timetables = {executor: Timetable() for executor in range(num_executors)}
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
        table = self.timetables[executor]
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
        table = self.timetables[executor]
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
        table = self.timetables[executor]
        table.running = None
        table.free_since = time
        if not table.waiting and self.available[executor] != time:
            self.available[executor] = time

    def withdraw(self, copy: Copy) -> None:
        """Take a copy back that waits."""
        table = self.timetables[copy.executor]
        if table.running is None and table.waiting[0] is copy:
            table.free_since = self._env.now  # until now the executor was kept for this copy
        table.waiting.remove(copy)
        self._outdated[copy.executor] = None

    def take_down(self, executor: int) -> Copy | None:
        """Let an executor be down from now on, and return what ran on it."""
        table = self.timetables[executor]
        copy, table.running = table.running, None
        self.available[executor] = np.inf
        return copy

    def bring_up(self, executor: int) -> None:
        """Let an executor be free from now on."""
        self.timetables[executor].free_since = self.available[executor] = self._env.now

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
        for executor, table in self.timetables.items():
            if table.waiting and table.waiting[0].start < now:
                self._outdated[executor] = None

    def _expect(self, executor: int) -> None:
        table = self.timetables[executor]
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
        table = self.timetables[executor]
        time = table.finish_before(0)
        table.gaps = []
        for copy in table.waiting:
            if copy.start > time:
                table.gaps.append((time, copy.start))
            time = copy.finish
        self.last_gap_ends[executor] = table.gaps[-1][1] if table.gaps else -np.inf


_end = itemgetter(1)
_start = attrgetter("start")
