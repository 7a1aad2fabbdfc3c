"""What an agent sees of a multi-server cluster at one slot, and whether its answer can be carried out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InfeasibleAction
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.rewards import NEGLIGIBLE, GangRewards, Rewards

__all__ = ["Feasibility", "MultiServerObservation"]

Floats = NDArray[np.float64]

#: Relative excess that is taken for rounding.
TOLERANCE = 1e-9


class MultiServerObservation:
    """A live view, valid until the decision is answered; its arrays are not to be changed.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and channels.
    rewards : Rewards
        What allocations earn.

    Attributes
    ----------
    graph, rewards
        As above.
    slot : int
        The slot that begins, from 0.
    arrived : numpy.ndarray of bool, shape (num_ports,)
        Ports that have a job to be served now.
    capacity : numpy.ndarray of shape (num_nodes, num_resources)
        What is free: the graph's capacity, less what running jobs hold.
    """

    def __init__(self, graph: BipartiteGraph, rewards: Rewards) -> None:
        self.graph = graph
        self.rewards = rewards
        self.slot = 0
        self.arrived: NDArray[np.bool_] = np.zeros(graph.num_ports, dtype=bool)
        self.capacity: NDArray[np.float64] = graph.capacity
        self._channel_arrived: NDArray[np.bool_] | None = None

    @property
    def channel_arrived(self) -> NDArray[np.bool_]:
        """Channels of the ports that have a job, of shape (num_channels,)."""
        known = self._channel_arrived
        if known is None:
            self._channel_arrived = known = self.arrived[self.graph.channel_port]
        return known

    def begin_slot(self, slot: int, arrived: NDArray[np.bool_]) -> None:
        """Go on to a slot with jobs at some ports; for the cluster."""
        self.slot, self.arrived, self._channel_arrived = slot, arrived, None


class Feasibility:
    """Checks allocations of one graph.

    Parameters
    ----------
    graph : BipartiteGraph
        The graph that agents see.
    enforced : bool
        Whether amounts are held to 0, requests and capacities.
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
            What the agent answered; None gives nothing to anybody.
        observation : MultiServerObservation
            What was asked.

        Returns
        -------
        numpy.ndarray
            Amounts of at least 0.

        Raises
        ------
        InfeasibleAction
            If the shape does not fit, or an amount is not a number; and where limits are enforced, if one is below 0 or
            above its request, a node gives more than it has, or a gang is served in part.
        """
        graph, time, capacity = self._graph, observation.slot, observation.capacity
        if action is None:
            return np.zeros(graph.shape)
        try:
            allocation = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InfeasibleAction(f"time {time}: the action is not an array of numbers: {error}") from error
        if allocation.shape != graph.shape:
            raise InfeasibleAction(
                f"time {time}: the allocation has shape {allocation.shape}, want {graph.shape}, one row a channel"
            )
        if allocation.size == 0:
            return allocation
        if not self._enforced:
            if not np.isfinite(allocation).all():
                raise InfeasibleAction(f"time {time}: the allocation has an amount that is not a finite number")
            return allocation
        least = allocation.min()
        if not (least >= -TOLERANCE and (allocation <= self._most).all()):
            raise InfeasibleAction(f"time {time}: {self._explain_entry(allocation)}")
        given = graph.node_sums(allocation)
        if not (given <= capacity + self._slack).all():
            node, resource = np.argwhere(given > capacity + self._slack)[0]
            raise InfeasibleAction(
                f"time {time}: {graph.nodes[node]} gives {float(given[node, resource])!r} of "
                f"{graph.resources[resource]} and has {float(capacity[node, resource])!r} free"
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
        want = f"the most that it requests is {request!r}" if amount > request else "want at least 0"
        return f"the job at {port} gets {amount!r} of {graph.resources[resource]} from {node}; {want}"

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
                f"{gang.counts[job]} components and needs {gang.minimum[job]} or none"
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
                f"time {time}: {port} gets a part of what it requests from {node} and is indivisible"
            )
        if several.any():
            port = graph.ports[int(np.flatnonzero(several)[0])]
            raise InfeasibleAction(f"time {time}: {port} gets resources from several nodes and is indivisible")
