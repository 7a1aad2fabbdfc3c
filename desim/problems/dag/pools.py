"""Pools: executors with amounts of resources, which run several nodes at once as long as their demands fit.

A pool serves its queue in order: the next copy starts as soon as its inputs have arrived and its demands are free. No
copy overtakes another one in the queue, so an agent that wants a smaller node to go first assigns it first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import simpy

from desim.core import at
from desim.problems.dag.execution import Execution, ExecutorQueue, Plan
from desim.problems.dag.executors import Executors
from desim.problems.dag.state import Copy, JobState
from desim.processes.executors import ExecutorProcess, ExecutorStatus

__all__ = ["PoolExecution", "PoolPlan", "PoolProcess", "PoolQueue"]


class PoolQueue(ExecutorQueue):
    """Queue of one pool; live, do not modify it.

    ``running`` is the running copy that is expected to finish last. There are no gaps, because no copy may go before
    one that waits.

    Parameters
    ----------
    capacity : list of int
        Amounts of the pool's resources, in millionths.

    Attributes
    ----------
    capacity : list of int
        As given.
    started : list of Copy
        Copies that run now, in order of start.
    free : list of int
        Amounts that the copies that run now leave free.
    """

    __slots__ = ("capacity", "free", "started", "tail")

    def __init__(self, capacity: list[int]) -> None:
        super().__init__()
        self.capacity = capacity
        self.started: list[Copy] = []
        self.free = list(capacity)
        self.tail = Tail(capacity)

    def demand(self, copy: Copy) -> list[int]:
        """Return the amounts that a copy takes of the pool."""
        found = copy.state.demand(copy.node, copy.mode)
        return self.capacity if found is None else found

    def soonest_mode(self, state: JobState, node: int, executor: int, ready: float) -> int:
        """Return the mode in which a node is expected to finish first at the end of the queue; ties go to the first.

        Parameters
        ----------
        state : JobState
            Job of the node, which has modes.
        node, executor : int
            The node, and this pool.
        ready : float
            Time at which its data are there, in seconds.
        """
        modes = state.modes[node]
        times = modes.run_times[:, executor]
        finishes = [
            self.tail.copy().start(ready, units) + time if time < np.inf else np.inf
            for time, units in zip(times.tolist(), modes.units.tolist(), strict=True)
        ]
        return int(np.argmin(finishes))

    def fits(self, copy: Copy) -> bool:
        """Return whether the amounts that a copy demands are free beside the copies that run."""
        return all(amount <= free for amount, free in zip(self.demand(copy), self.free, strict=True))

    def begin(self, copy: Copy) -> None:
        """Add a copy to those that run."""
        self.started.append(copy)
        self.free = [free - amount for free, amount in zip(self.free, self.demand(copy), strict=True)]

    def end(self, copy: Copy) -> None:
        """Remove a copy from those that run."""
        self.started.remove(copy)
        self.free = [free + amount for free, amount in zip(self.free, self.demand(copy), strict=True)]

    def copies(self) -> list[Copy]:
        """Return the copies that run now."""
        return self.started


class Tail:
    """Free amounts of a pool after the expected start of its last copy.

    Parameters
    ----------
    capacity : list of int
        Amounts of the pool's resources.
    """

    def __init__(self, capacity: list[int]) -> None:
        self.time = 0.0
        self.free = list(capacity)
        self.ends: list[tuple[float, int, list[int]]] = []

    def copy(self) -> Tail:
        """Return a copy, to try a start."""
        other = Tail(self.free)
        other.time, other.ends = self.time, self.ends.copy()
        return other

    def take(self, start: float, finish: float, demand: list[int]) -> None:
        """Take amounts from one time to another."""
        self.time = start
        self.free = [free - amount for free, amount in zip(self.free, demand, strict=True)]
        heapq.heappush(self.ends, (finish, len(self.ends), demand))

    def start(self, earliest: float, demand: list[int]) -> float:
        """Return the first time at which amounts are free; what ends until then is given back.

        Parameters
        ----------
        earliest : float
            Earliest time; no copy starts before the last one in the queue.
        demand : list of int
            Amounts.
        """
        time = max(self.time, earliest)
        while self.ends and (
            self.ends[0][0] <= time or any(free < amount for free, amount in zip(self.free, demand, strict=True))
        ):
            finish, _, amounts = heapq.heappop(self.ends)
            time = max(time, finish)
            self.free = [free + amount for free, amount in zip(self.free, amounts, strict=True)]
        return time


class PoolPlan(Plan):
    """Plan of pools. Parameters and attributes are those of :class:`Plan`.

    Parameters
    ----------
    env : simpy.Environment
        Environment whose clock is used.
    executors : Executors
        Pools of the cluster.
    is_exact : bool
        Whether nothing happens later than expected on pools that are not marked.

    Attributes
    ----------
    free : numpy.ndarray of shape (num_executors, num_resources)
        Amounts that no assigned copy takes, in millionths; negative where copies wait for others to finish.
    """

    def __init__(self, env: simpy.Environment, executors: Executors, *, is_exact: bool = True) -> None:
        super().__init__(env, executors.num_executors, is_exact=is_exact)
        self._pools = {number: PoolQueue(capacity) for number, capacity in enumerate(executors.units.tolist())}
        self.executor_queues.update(self._pools)
        self.free = executors.units.copy()

    def assign(
        self, state: JobState, nodes: Sequence[int], executor: int, position: int | None, mode: int | None = None
    ) -> list[Copy] | None:
        """Append copies of nodes to a pool's queue.

        Parameters
        ----------
        state : JobState
            Job of the nodes.
        nodes : sequence of int
            Nodes whose parents are assigned or come earlier in this sequence.
        executor : int
            Pool, which is up.
        position : int, optional
            Position in the queue, which must be its end.
        mode : int, optional
            Mode of the last node. Default, also for the others: that in which the node is expected to finish first.

        Returns
        -------
        list of Copy or None
            New copies, or None, with nothing changed, if a position before the end is asked for.
        """
        self.refresh()
        table = self._pools[executor]
        if position is not None and position != len(table.waiting):
            return None
        copies = []
        for node in nodes:
            copy = state.new_copy(node, executor, now=self._env.now, sequence=self._sequence, start=0.0, finish=0.0)
            self._sequence += 1
            ready = max(state.ready_time(node, executor), self._env.now)
            if state.modes and node in state.modes:
                own = mode if node == nodes[-1] else None
                copy.mode = table.soonest_mode(state, node, executor, ready) if own is None else own
            copy.start = table.tail.start(ready, table.demand(copy))
            copy.finish = copy.start + state.run_time(node, executor, copy.mode)
            table.tail.take(copy.start, copy.finish, table.demand(copy))
            self.free[executor] -= table.demand(copy)
            self.available[executor] = max(self.available.item(executor), copy.finish)
            copies.append(copy)
            state.add(copy)
        table.waiting.extend(copies)
        return copies

    def move(self, copy: Copy, start: float) -> None:
        """Change a copy's expected start, and mark pools that this may affect."""
        super().move(copy, start)
        copy.finish = start + copy.state.run_time(copy.node, copy.executor, copy.mode)

    def begin(self, copy: Copy, start: float) -> None:
        """Start the first waiting copy of a pool at a given time."""
        table = self._pools[copy.executor]
        del table.waiting[0]
        table.begin(copy)
        if start != copy.start:
            self.move(copy, start)
            self.mark(copy.executor)
        self._note_last(table)

    @staticmethod
    def _note_last(table: PoolQueue) -> None:
        table.running = max(table.started, key=lambda copy: copy.finish, default=None)

    def end(self, copy: Copy) -> None:
        """End a running copy at its finish."""
        table = self._pools[copy.executor]
        table.end(copy)
        table.free_since = copy.finish
        self.free[copy.executor] += table.demand(copy)
        self._note_last(table)

    def withdraw(self, copy: Copy) -> None:
        """Remove a waiting copy."""
        table = self._pools[copy.executor]
        table.waiting.remove(copy)
        self.free[copy.executor] += table.demand(copy)
        self.mark(copy.executor)

    def on_failure(self, executor: int) -> list[Copy]:
        """Mark a pool as down from now on, and return the copies that ran on it."""
        table = self._pools[executor]
        ran, table.started, table.running = table.started, [], None
        table.free = list(table.capacity)
        for copy in ran:
            self.free[executor] += table.demand(copy)
        self.available[executor] = np.inf
        self.mark(executor)
        return ran

    def _expect(self, executor: int) -> None:
        table = self._pools[executor]
        now = self._env.now
        table.tail = tail = Tail(table.capacity)
        latest = now
        for copy in table.started:
            finish = max(copy.finish, now)
            tail.take(copy.start, finish, table.demand(copy))
            latest = max(latest, finish)
        for copy in table.waiting:
            start = tail.start(max(copy.state.expected_at(copy), now), table.demand(copy))
            if start != copy.start:
                self.move(copy, start)
            tail.take(start, copy.finish, table.demand(copy))
            latest = max(latest, copy.finish)
        if self.available[executor] < np.inf:
            self.available[executor] = latest


class PoolExecution(Execution):
    """Execution on the pools of a cluster. Parameters are those of :class:`Execution`."""

    _plan: PoolPlan

    def _process(self, executor: int) -> ExecutorProcess:
        return PoolProcess(self._problem.env, self, executor)

    def start_time(self, copy: Copy) -> float | None:
        """Return when the next copy can start, in seconds; None while that is unknown."""
        now = self._problem.env.now
        if copy.receiving != copy.receiving:  # NaN: this is the first call for this copy
            copy.receiving = now
        table = self._executor_queues[copy.executor]
        assert isinstance(table, PoolQueue)
        if not table.fits(copy):
            return None
        ready = copy.state.received_at(copy) if self._shared is None else self._shared.received_at(copy)
        return ready if ready is None else max(ready, now)

    def _expected_ends(self) -> dict[simpy.Event, float]:
        return {}  # nodes that run as a whole take as long as expected


class PoolProcess(ExecutorProcess):
    """Pool that runs several items at once, in the order of its queue.

    The host returns None as the start of an item whose demand does not fit, and is asked again when an item ends.

    Parameters
    ----------
    env : simpy.Environment
        Environment of the process.
    host : PoolExecution
        Execution that provides the items.
    executor : int
        Number of the pool.
    """

    def __init__(self, env: simpy.Environment, host: PoolExecution, executor: int) -> None:
        self._items: list[tuple[float, int, Any]] = []
        super().__init__(env, host, executor)
        self._host: Any = host

    def _finish(self) -> None:
        self.status = ExecutorStatus.IDLE
        while self._items and self._items[0][0] <= self._env.now:
            self._host.complete(heapq.heappop(self._items)[2])

    def _go_on(self) -> simpy.Event:
        """Start the items that can start; return the event that the process then waits for."""
        env, host = self._env, self._host
        if self.status is ExecutorStatus.DOWN:
            return self._until_told()
        self.status, times = ExecutorStatus.IDLE, []
        while (item := host.next_item(self._executor)) is not None:
            start = host.start_time(item)
            if start is None or start > env.now:
                self.status, times = ExecutorStatus.RECEIVING, [] if start is None else [start]
                break
            heapq.heappush(self._items, (max(host.begin(item, start), env.now), item.sequence, item))
        if self._items:
            self.status = ExecutorStatus.RUNNING
            times.append(self._items[0][0])
        return at(env, min(times)) if times else self._until_told()

    def look_again(self) -> None:
        """Notify a pool that its next item, or the item's start time, may have changed."""
        super().look_again()
        if self._pause is None and self.status is ExecutorStatus.RUNNING:
            self._interrupt()

    def fail(self) -> None:
        """Go down, interrupting any activity."""
        self._items.clear()
        super().fail()
