"""How the inputs of a copy come to its executor where transfers share links."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from desim.problems.dag.copies import Copy, Delivery
from desim.processes.channels import SharedChannels
from desim.processes.flows import Flow

if TYPE_CHECKING:
    import simpy

    from desim.problems.dag.dynamics import DagDynamics
    from desim.problems.dag.links import SharedLinks

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
    cluster : DagDynamics
        The bound cluster.
    links : SharedLinks
        Its links.
    """

    def __init__(self, cluster: DagDynamics, links: SharedLinks) -> None:
        self._cluster = cluster
        self._plan = cluster._plan
        self._routes = links.routes
        self._seconds = cluster.executors.seconds_per_unit
        self._latencies = cluster.executors.latencies
        self._channels = SharedChannels(cluster.env, links.bandwidths.tolist())
        self._flows: dict[tuple[Copy, int], tuple[Flow, int]] = {}  # with the source, by receiver and parent

    def ready_time(self, copy: Copy) -> float | None:
        """Return when all inputs of a copy were there, in seconds; None as long as they are not."""
        inputs = copy.inputs
        if len(inputs) < len(copy.state.job.parent_lists[copy.node]):
            return None
        return max((delivery.arrival for delivery in inputs.values()), default=0.0)

    def settle(self, copy: Copy) -> None:
        """Put the inputs of a copy that starts into the order of its parents."""
        copy.inputs = dict(sorted(copy.inputs.items()))

    def keep_received(self, copy: Copy, now: float) -> None:
        """Do nothing: inputs are filled in when they arrive."""

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

    def failed(self, executor: int) -> None:
        """Break off what was under way from an executor that is down, unless what it holds outlives it."""
        if not self._cluster.outages_lose_data:
            return
        for (copy, parent), (_, source) in list(self._flows.items()):
            if source == executor:
                self._break_off(copy, parent)
                self._seek(copy, parent, dict(copy.state.job.parent_lists[copy.node])[parent])

    def next_events(self) -> tuple[simpy.Event, ...]:
        """Return what the links wait for."""
        return (self._channels.next_event,)

    def _seek(self, copy: Copy, parent: int, size: float) -> None:
        """Get an input from where it can be had, unless that has been done."""
        if parent in copy.inputs or (copy, parent) in self._flows:
            return
        near = self._at_home(copy, parent)
        if near is not None:
            if near.has_finished:
                copy.inputs[parent] = Delivery(parent, near.executor, near.finish, near.finish, size)
            return
        now = self._cluster.env.now
        state = copy.state
        best, first = None, float("inf")
        for other in state.copies[parent]:
            if other.has_finished and self._has_data(other.executor):
                arrival = state.arrival_from(other, size, copy.executor, now)
                if arrival < first:
                    best, first = other, arrival
        if best is not None:
            self._send(best, copy, size)

    def _has_data(self, executor: int) -> bool:
        """Tell whether what was computed on an executor is still there."""
        return not (self._cluster.outages_lose_data and self._cluster.is_down(executor))

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
        waiting = self._plan.timetables[other.executor].waiting
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
        execution = self._cluster._execution
        if execution.next_item(copy.executor) is copy and self.ready_time(copy) is not None:
            execution.processes[copy.executor].look_again()

    def _break_off(self, copy: Copy, parent: int) -> None:
        under_way = self._flows.pop((copy, parent), None)
        if under_way is not None:
            self._channels.cancel(under_way[0])
