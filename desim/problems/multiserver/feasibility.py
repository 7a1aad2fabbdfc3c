"""Whether an allocation can be carried out, and why not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.multiserver.gang import NEGLIGIBLE, GangRewards
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.layout import Layout
from desim.problems.multiserver.rewards import Earnings

__all__ = ["Feasibility"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

#: Relative excess that is taken for rounding.
TOLERANCE = 1e-9


class Feasibility:
    """Checks allocations of one graph.

    Parameters
    ----------
    layout : Layout
        The graph that agents see, and its gangs.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._graph: BipartiteGraph = layout.graph
        self._rewards = layout.rewards
        self._most = layout.graph.channel_requests * (1 + TOLERANCE) + TOLERANCE
        self._slack = layout.graph.capacity * TOLERANCE + TOLERANCE

    def check(self, action: Any, arrived: Booleans, capacity: Floats, time: float) -> Floats:
        """Return an agent's answer as an allocation.

        Parameters
        ----------
        action : array_like of shape (num_channels, num_resources), or None
            What the agent answered; None gives nothing to anybody.
        arrived : numpy.ndarray of bool, shape (num_ports,)
            Ports that have a job.
        capacity : numpy.ndarray of shape (num_nodes, num_resources)
            What the nodes have free.
        time : float
            For the message.

        Returns
        -------
        numpy.ndarray
            Amounts of at least 0.

        Raises
        ------
        InfeasibleAction
            If the shape does not fit, or an amount is not a number, below 0 or above its request, if a node gives
            more than it has, or if a gang is served in part.
        """
        graph = self._graph
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
        if isinstance(self._rewards, GangRewards):
            present = allocation * arrived[graph.channel_port][:, None]
            self._check_gangs(self._rewards, present, time)
        return allocation

    def not_a_number(self, earnings: Earnings, time: float) -> InvalidConfiguration:
        """Return the error for a reward that is not a number.

        Parameters
        ----------
        earnings : Earnings
            By seat, of which one has such a reward.
        time : float
            For the message.

        Returns
        -------
        InvalidConfiguration
            To be raised.
        """
        reward = earnings.gain - earnings.overhead
        seat = int(np.flatnonzero(~np.isfinite(reward))[0])
        port = self._layout.types.ports[self._layout.type_of[seat]]
        return InvalidConfiguration(
            f"time {time}: the reward of the job at {port} is {float(reward[seat])!r}; its gain is "
            f"{float(earnings.gain[seat])!r}, its overhead {float(earnings.overhead[seat])!r}: look at the utilities"
        )

    def _explain_entry(self, allocation: Floats) -> str:
        graph = self._graph
        wrong = ~((allocation >= -TOLERANCE) & (allocation <= self._most))
        channel, resource = np.argwhere(wrong)[0]
        amount = float(allocation[channel, resource])
        request = float(graph.channel_requests[channel, resource])
        port, node = graph.ports[graph.channel_port[channel]], graph.nodes[graph.channel_node[channel]]
        want = f"the most that it requests is {request!r}" if amount > request else "want at least 0"
        return f"the job at {port} gets {amount!r} of {graph.resources[resource]} from {node}; {want}"

    def _check_gangs(self, rewards: GangRewards, allocation: Floats, time: float) -> None:
        gang, jobs = rewards.gang, rewards.jobs.graph
        served = rewards.components_served(allocation)
        partial = (served > 0) & (served < gang.minimum)
        if partial.any():
            job = int(np.flatnonzero(partial)[0])
            raise InfeasibleAction(
                f"time {time}: the job at {jobs.ports[job]} gets resources for {served[job]} of its {gang.counts[job]} "
                f"components and needs {gang.minimum[job]} or none"
            )
        if gang.whole:
            self._check_whole(allocation, time)

    def _check_whole(self, allocation: Floats, time: float) -> None:
        graph = self._graph
        has = np.max(allocation, axis=1) > NEGLIGIBLE
        short = has & (allocation < graph.channel_requests * (1 - TOLERANCE) - TOLERANCE).any(axis=1)
        several = graph.port_sums(np.where(has, 1.0, 0.0)) > 1
        if short.any():
            channel = int(np.flatnonzero(short)[0])
            port, node = graph.ports[graph.channel_port[channel]], graph.nodes[graph.channel_node[channel]]
            raise InfeasibleAction(
                f"time {time}: {port} gets a part of what it requests from {node} and is indivisible"
            )
        if several.any():
            port = graph.ports[int(np.flatnonzero(several)[0])]
            raise InfeasibleAction(f"time {time}: {port} gets resources from several nodes and is indivisible")
