"""Arrivals and a bipartite graph as arrays; actions are allocations, as shares of what is requested."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays
from desim.envs.scaling import bounded, compressed
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, GangRewards, MultiServerObservation

__all__ = ["AllocationEncoder"]

Floats = NDArray[np.float64]


class AllocationEncoder:
    """Which ports have a job, and the graph.

    An action has a number for each channel and resource, from -1 for nothing to 1 for all that the job at the channel's
    port requests: (1 + action) / 2 times the request. Ports without a job get nothing. Where a node would have to give
    more of a resource than it has free, all that it gives of this resource is scaled down by the same factor, to what
    is free.

    Parameters
    ----------
    graph : BipartiteGraph
        Of the cluster, or one with as many ports, nodes, channels and resources.

    Raises
    ------
    InvalidConfiguration
        If the graph has no channel.
    """

    def __init__(self, graph: BipartiteGraph) -> None:
        self.num_ports, self.num_nodes = graph.num_ports, graph.num_nodes
        self.shape = graph.shape
        if min(self.shape) < 1:
            raise InvalidConfiguration(f"{graph!r}: want at least one channel")
        resources = graph.num_resources
        ends = max(self.num_ports, self.num_nodes) - 1
        self.observation_space = gymnasium.spaces.Dict(
            {
                "arrivals": gymnasium.spaces.Box(0, 1, (self.num_ports,), np.int8),
                "requests": bounded((self.num_ports, resources)),
                "capacity": bounded((self.num_nodes, resources)),
                "channels": gymnasium.spaces.Box(0, ends, (graph.num_channels, 2), np.int64),
                ACTION_MASK: gymnasium.spaces.Box(0, 1, self.shape, np.int8),
            }
        )
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(-1.0, 1.0, self.shape, np.float32)
        self._graph: BipartiteGraph | None = None

    def encode(self, observation: MultiServerObservation) -> Arrays:
        """Return ``arrivals``, ``requests``, ``capacity``, ``channels``, and the mask.

        Parameters
        ----------
        observation : MultiServerObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Whether each port has a job; what it requests, and what each node has free, compressed; the port and the
            node of each channel, by index. The mask, of the shape of an allocation, tells the channels of ports that
            have a job.

        Raises
        ------
        InvalidConfiguration
            If the graph has another shape, or jobs are gangs, which shares do not describe.
        """
        graph = observation.graph
        if graph is not self._graph:
            self._take(observation)
        arrived = observation.arrived
        return {
            "arrivals": arrived.astype(np.int8),
            "requests": self._requests.copy(),
            "capacity": compressed(observation.capacity).astype(np.float32),
            "channels": self._channels.copy(),
            ACTION_MASK: np.repeat(arrived[graph.channel_port], self.shape[1]).reshape(self.shape).astype(np.int8),
        }

    def _take(self, observation: MultiServerObservation) -> None:
        """Look at a graph for the first time."""
        graph = observation.graph
        if isinstance(observation.rewards, GangRewards):
            raise InvalidConfiguration("jobs are gangs: shares of requests would serve them in part")
        if (graph.num_ports, graph.num_nodes, graph.shape) != (self.num_ports, self.num_nodes, self.shape):
            raise InvalidConfiguration(
                f"the cluster has a {graph!r}, the encoder is for {self.num_ports} ports, {self.num_nodes} nodes and "
                f"allocations of shape {self.shape}"
            )
        self._graph = graph
        self._requests = compressed(graph.requests).astype(np.float32)
        self._channels = np.stack((graph.channel_port, graph.channel_node), axis=1)

    def forced(self, observation: MultiServerObservation) -> bool:
        """Tell whether no port has a job.

        Parameters
        ----------
        observation : MultiServerObservation
            A decision.
        """
        return not observation.arrived.any()

    def decode(self, observation: MultiServerObservation, action: Any) -> tuple[Floats | None, bool]:
        """Return the allocation that an action stands for, and whether its entries are numbers.

        Parameters
        ----------
        observation : MultiServerObservation
            What was encoded.
        action : array_like of shape (num_channels, num_resources)
            Numbers from -1 to 1; what lies outside counts as the nearer of the two.

        Returns
        -------
        tuple of (numpy.ndarray or None) and bool
            An action with an entry that is not a number gives nothing to anybody.

        Raises
        ------
        InvalidConfiguration
            If the action has another shape.
        """
        given = np.asarray(action, dtype=np.float64)
        if given.shape != self.shape:
            raise InvalidConfiguration(f"the action has shape {given.shape}, want {self.shape}")
        if np.isnan(given).any():
            return None, False
        graph, capacity = observation.graph, observation.capacity
        allocation: Floats = np.clip(given, -1.0, 1.0)
        allocation += 1.0
        allocation *= 0.5
        allocation *= graph.channel_requests
        allocation *= observation.arrived[graph.channel_port][:, None]
        asked = graph.node_sums(allocation)
        if (asked > capacity).any():
            factor = np.divide(capacity, asked, out=np.ones_like(asked), where=asked > capacity)
            allocation *= factor[graph.channel_node]
        return allocation, True
