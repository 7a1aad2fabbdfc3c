"""Observation of a multi-server cluster in a slot, and the feasibility check of allocations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InfeasibleAction
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.rewards import NEGLIGIBLE, GangRewards, Rewards

__all__ = ["Feasibility", "MultiServerObservation"]

Floats = NDArray[np.float64]

#: Relative excess that is accepted because of rounding.
TOLERANCE = 1e-9


class MultiServerObservation:
    """Live view, valid until the agent answers; do not modify its arrays.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and channels.
    rewards : Rewards
        Rewards of allocations.

    Attributes
    ----------
    graph, rewards
        As above.
    slot : int
        Number of the slot that begins, from 0.
    arrived : numpy.ndarray of bool, shape (num_ports,)
        Whether each port has a job to serve now.
    capacity : numpy.ndarray of shape (num_nodes, num_resources)
        Free amounts: the graph's capacity minus what running jobs hold.
    """

    def __init__(self, graph: BipartiteGraph, rewards: Rewards) -> None:
        self.graph = graph
        self.rewards = rewards
        self.slot = 0
        self.arrived: NDArray[np.bool_] = np.zeros(graph.num_ports, dtype=bool)
        self.capacity: NDArray[np.float64] = graph.capacity
        self._channel_arrived: NDArray[np.bool_] | None = None

    def __repr__(self) -> str:
        """Return a summary of the state."""
        jobs = f"{np.count_nonzero(self.arrived)} of {len(self.arrived)}"
        return f"MultiServerObservation(slot={self.slot}, ports_with_jobs={jobs}, nodes={self.graph.num_nodes})"

    @property
    def channel_arrived(self) -> NDArray[np.bool_]:
        """Whether the port of each channel has a job, of shape (num_channels,)."""
        known = self._channel_arrived
        if known is None:
            self._channel_arrived = known = self.arrived[self.graph.channel_port]
        return known

    def begin_slot(self, slot: int, arrived: NDArray[np.bool_]) -> None:
        """Move to a slot with jobs at some ports; for the cluster."""
        self.slot, self.arrived, self._channel_arrived = slot, arrived, None


class Feasibility:
    """Feasibility check of allocations on a graph.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph that agents see.
    enforced : bool
        Whether amounts must be at least 0 and within requests and capacities.
    """

    def __init__(self, graph: BipartiteGraph, *, enforced: bool = True) -> None:
        self._graph = graph
        self._enforced = enforced
        self._most = graph.channel_requests * (1 + TOLERANCE) + TOLERANCE
        self._slack = graph.capacity * TOLERANCE + TOLERANCE

    def check(self, action: Any, observation: MultiServerObservation) -> Floats:
        """Return an agent's answer as an allocation.

        Parameters
        ----------
        action : array_like of shape (num_channels, num_resources), or None
            Answer of the agent; None allocates nothing.
        observation : MultiServerObservation
            Observation that the agent decided on.

        Returns
        -------
        numpy.ndarray
            Allocation; with enforced limits, all amounts are at least 0.

        Raises
        ------
        InfeasibleAction
            If the shape is wrong or an amount is not a number. With enforced limits, also if an amount is below 0 or
            above its request, a node gives more than it has, or a gang is served in part.
        """
        graph, time, capacity = self._graph, observation.slot, observation.capacity
        if action is None:
            return np.zeros(graph.shape)
        try:
            allocation = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InfeasibleAction(f"time {time}: action: expected an array of numbers: {error}") from error
        if allocation.shape != graph.shape:
            raise InfeasibleAction(
                f"time {time}: action: got shape {allocation.shape}, expected {graph.shape}, one row per channel"
            )
        if allocation.size == 0:
            return allocation
        if not self._enforced:
            if not np.isfinite(allocation).all():
                raise InfeasibleAction(f"time {time}: action: got an infinite or NaN amount, expected finite numbers")
            return allocation
        least = allocation.min()
        if not (least >= -TOLERANCE and (allocation <= self._most).all()):
            raise InfeasibleAction(f"time {time}: {self._explain_entry(allocation)}")
        given = graph.node_sums(allocation)
        if not (given <= capacity + self._slack).all():
            node, resource = np.argwhere(given > capacity + self._slack)[0]
            raise InfeasibleAction(
                f"time {time}: {graph.nodes[node]} gives {float(given[node, resource])!r} of "
                f"{graph.resources[resource]}, expected at most {float(capacity[node, resource])!r}, which is free"
            )
        if least < 0:
            allocation = np.maximum(allocation, 0.0)
        if isinstance(observation.rewards, GangRewards):
            present = allocation * observation.channel_arrived[:, None]
            self._check_gangs(observation.rewards, present, time)
        return allocation

    def _explain_entry(self, allocation: Floats) -> str:
        graph = self._graph
        channel, resource = np.argwhere(~((allocation >= -TOLERANCE) & (allocation <= self._most)))[0]
        amount, request = float(allocation[channel, resource]), float(graph.channel_requests[channel, resource])
        port, node = self._ends(channel)
        want = f"expected at most its request, {request!r}" if amount > request else "expected a number >= 0"
        return f"the job at {port} gets {amount!r} of {graph.resources[resource]} from {node}, {want}"

    def _ends(self, channel: int) -> tuple[str, str]:
        graph = self._graph
        return graph.ports[graph.channel_port[channel]], graph.nodes[graph.channel_node[channel]]

    def _check_gangs(self, rewards: GangRewards, allocation: Floats, time: float) -> None:
        gang, served = rewards.gang, rewards.components_served(allocation)
        partial = (served > 0) & (served < gang.minimum)
        if partial.any():
            job = int(np.flatnonzero(partial)[0])
            raise InfeasibleAction(
                f"time {time}: the job at {rewards.jobs.graph.ports[job]} gets resources for {served[job]} of its "
                f"{gang.counts[job]} components, expected at least {gang.minimum[job]}, or none"
            )
        if gang.whole:
            self._check_whole(allocation, time)

    def _check_whole(self, allocation: Floats, time: float) -> None:
        graph = self._graph
        has = np.max(allocation, axis=1) > NEGLIGIBLE
        short = has & (allocation < graph.channel_requests * (1 - TOLERANCE) - TOLERANCE).any(axis=1)
        several = graph.port_sums(np.where(has, 1.0, 0.0)) > 1
        if short.any():
            port, node = self._ends(int(np.flatnonzero(short)[0]))
            raise InfeasibleAction(
                f"time {time}: {port} is indivisible and gets part of its request from {node}, expected all or nothing"
            )
        if several.any():
            port = graph.ports[int(np.flatnonzero(several)[0])]
            raise InfeasibleAction(
                f"time {time}: {port} is indivisible and gets resources from several nodes, expected one"
            )
