"""Transfers over links that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import simpy

from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.plan import Timetable
from desim.problems.dag.state import Copy, Delivery
from desim.processes.channels import Flow, SharedChannels

__all__ = ["SharedTransfers"]


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
    timetables : mapping of int to Timetable
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
        timetables: Mapping[int, Timetable],
        *,
        holds_data: Callable[[int], bool],
        received: Callable[[Copy], None],
    ) -> None:
        self._env = env
        self._timetables = timetables
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
                    other.inputs[node] = Delivery(node, executor, copy.finish, copy.finish, size)
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
                copy.inputs[parent] = Delivery(parent, near.executor, near.finish, near.finish, size)
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
        waiting = self._timetables[other.executor].waiting
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
        copy.inputs[parent] = Delivery(parent, source, flow.begin, flow.due, flow.size)
        if self.received_at(copy) is not None:
            self._received(copy)

    def _break_off(self, copy: Copy, parent: int) -> None:
        under_way = self._flows.pop((copy, parent), None)
        if under_way is not None:
            self._channels.cancel(under_way[0])
