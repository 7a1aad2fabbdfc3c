"""Gymnasium environment for multi-server jobs on a bipartite graph, with array observations and rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim import plugins
from desim.checks import named
from desim.core import Simulation
from desim.envs.base import (
    ACTION_MASK,
    Arrays,
    Encoder,
    Episodes,
    Reward,
    SchedulingEnv,
    SlotReward,
    bounded,
    episodes_of,
    log_scaled,
)
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver.cluster import MultiServerCluster, MultiSlotCluster
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.job import SlotOutcome
from desim.problems.multiserver.observation import MultiServerObservation
from desim.problems.multiserver.rewards import GangRewards, RewardModel

__all__ = ["REWARDS", "AllocationEncoder", "MultiServerEnv", "PaperReward"]

Floats = NDArray[np.float64]


class AllocationEncoder:
    """Encoder of the ports with jobs, and of the graph.

    An action has a number for each channel and resource, from -1 for nothing to 1 for the full request of the channel's
    port: the amount is (1 + action) / 2 times the request. Ports without a job get nothing. If a node would give more
    of a resource than it has free, all its amounts of this resource are scaled down by a common factor.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph of the cluster, or one with the same numbers of ports, nodes, channels and resources.

    Raises
    ------
    InvalidConfiguration
        If the graph has no channels.
    """

    def __init__(self, graph: BipartiteGraph) -> None:
        self.num_ports, self.num_nodes = graph.num_ports, graph.num_nodes
        self.shape = graph.shape
        if min(self.shape) < 1:
            raise InvalidConfiguration(f"graph: got {graph!r}, expected at least one channel and one resource")
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
        self._capacity: Floats | None = None

    def encode(self, observation: MultiServerObservation) -> Arrays:
        """Return ``arrivals``, ``requests``, ``capacity``, ``channels``, and the action mask.

        Parameters
        ----------
        observation : MultiServerObservation
            Observation at a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays: whether each port has a job; its requests, and the free amounts of each node, log-scaled; the port
            and the node of each channel, by index. The mask has the shape of an allocation and marks the channels of
            ports with a job.

        Raises
        ------
        InvalidConfiguration
            If the graph has a different shape, or jobs are gangs, for which shares of requests are unsuitable.
        """
        graph = observation.graph
        if graph is not self._graph:
            self._take(observation)
        if observation.capacity is not self._capacity:  # without holding, it is always the same object
            self._capacity = observation.capacity
            self._free = log_scaled(self._capacity).astype(np.float32)
        mask = np.empty(self.shape, np.int8)
        mask[:] = observation.channel_arrived[:, None]
        return {
            "arrivals": observation.arrived.astype(np.int8),
            "requests": self._requests.copy(),
            "capacity": self._free.copy(),
            "channels": self._channels.copy(),
            ACTION_MASK: mask,
        }

    def _take(self, observation: MultiServerObservation) -> None:
        """Check and store a new graph."""
        graph = observation.graph
        if isinstance(observation.rewards, GangRewards):
            raise InvalidConfiguration(
                "jobs: got gangs, expected single jobs, as shares of requests would serve gangs in part"
            )
        if (graph.num_ports, graph.num_nodes, graph.shape) != (self.num_ports, self.num_nodes, self.shape):
            raise InvalidConfiguration(
                f"graph: got {graph!r}, expected {self.num_ports} ports, {self.num_nodes} nodes and allocations of "
                f"shape {self.shape}"
            )
        self._graph = graph
        self._requests = log_scaled(graph.requests).astype(np.float32)
        self._channels = np.stack((graph.channel_port, graph.channel_node), axis=1)

    def is_forced(self, observation: MultiServerObservation) -> bool:
        """Return whether no port has a job.

        Parameters
        ----------
        observation : MultiServerObservation
            Observation at a decision.
        """
        return not observation.arrived.any()

    def decode(self, observation: MultiServerObservation, action: Any) -> tuple[Floats | None, bool]:
        """Return the allocation that an action stands for, and whether the action is valid.

        Parameters
        ----------
        observation : MultiServerObservation
            Observation that was encoded.
        action : array_like of shape (num_channels, num_resources)
            Numbers from -1 to 1; numbers outside this range are clipped.

        Returns
        -------
        tuple of (numpy.ndarray or None) and bool
            Allocation, and whether the action is valid. If an entry is NaN, nothing is allocated.

        Raises
        ------
        InvalidConfiguration
            If the shape of the action is wrong.
        """
        given = np.asarray(action, dtype=np.float64)
        if given.shape != self.shape:
            raise InvalidConfiguration(f"action: got shape {given.shape}, expected {self.shape}")
        if np.isnan(given.min()):
            return None, False
        graph, capacity = observation.graph, observation.capacity
        allocation: Floats = np.maximum(given, -1.0)
        np.minimum(allocation, 1.0, out=allocation)
        allocation += 1.0
        allocation *= 0.5
        allocation *= graph.channel_requests
        allocation *= observation.channel_arrived[:, None].astype(np.float64)
        asked = graph.node_sums(allocation)
        if (asked > capacity).any():
            factor = np.divide(capacity, asked, out=np.ones_like(asked), where=asked > capacity)
            allocation *= factor.take(graph.channel_node, axis=0)
        return allocation, True

    def encode_action(self, observation: MultiServerObservation, answer: Any) -> NDArray[np.float32] | None:
        """Return the action, shares of requests, that corresponds to an agent's allocation.

        Parameters
        ----------
        observation : MultiServerObservation
            Observation that the agent decided on.
        answer : array_like of shape (num_channels, num_resources), or None
            Answer of the agent.

        Returns
        -------
        numpy.ndarray or None
            Action, -1 where nothing is requested or no job is; None if the allocation exceeds requests or free amounts.
        """
        given = np.zeros(self.shape) if answer is None else np.asarray(answer, np.float64)
        requested = observation.graph.channel_requests
        shares = np.divide(given, requested, out=np.zeros(self.shape), where=requested > 0)
        action = (2.0 * shares - 1.0).astype(np.float32)
        meant, _ = self.decode(observation, action)
        if meant is None or not np.allclose(meant, given, rtol=1e-5, atol=1e-5 * max(float(requested.max()), 1.0)):
            return None
        return action


class PaperReward(SlotReward):
    """Gain by parallel computation minus dominant overhead: equation (8) of arXiv 2305.06572, divided by a scale.

    Summed over an episode, it is the metric ``total_reward``.

    Parameters
    ----------
    scale : float
        Amount that yields a reward of 1.
    """

    def __init__(self, scale: float = 1_000.0) -> None:
        super().__init__(scale)

    def reset(self, simulation: Simulation) -> None:
        """Prepare for a new episode; raise an error for a cluster with holding, whose slots have no own reward."""
        if isinstance(simulation.problem, MultiSlotCluster):
            raise InvalidConfiguration("reward: got 'paper' with a MultiSlotCluster, expected jobs that last one slot")
        super().reset(simulation)

    def value(self, outcome: SlotOutcome) -> float:
        """Return the value of a slot."""
        return float(outcome.gain.sum() - outcome.overhead.sum())


REWARDS: dict[str, Callable[[], Reward]] = {"paper": PaperReward}
"""Rewards by name."""


class MultiServerEnv(SchedulingEnv):
    """``desim/MultiServer-v0``: environment in which an action allocates resources of nodes to jobs, slot by slot.

    The action space is Box(-1, 1, (num_channels, num_resources)): shares of requests, see :class:`AllocationEncoder`.

    Parameters
    ----------
    workload : sequence of MultiServerCluster, or callable, optional
        Clusters that episodes are sampled from, or a function that creates the cluster of an episode from a random
        generator. Their graphs must have the same numbers of ports, nodes, channels and resources; a callable is called
        once to determine them. By default, a system is generated once for the environment, and arrivals for each
        episode, see :func:`desim.workloads.multiserver.registry.draw`.
    observation : {"shares"} or Encoder
        Name of an encoder, or a custom encoder.
    reward : {"paper"} or Reward
        Name of a reward, or a custom reward.
    num_slots : int
        Length of an episode of the default workload, in slots.
    until, max_decisions, skip_forced, render_mode : float, int, bool, str
        As for :class:`~desim.envs.SchedulingEnv`; a decision is forced if no port has a job.
    workload_seed : int
        Seed of the default system.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If the package for the default workload is not installed.
    """

    def __init__(
        self,
        workload: Sequence[MultiServerCluster] | Episodes | None = None,
        *,
        observation: str | Encoder = "shares",
        reward: str | Reward = "paper",
        num_slots: int = 500,
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        render_mode: str | None = None,
        workload_seed: int = 0,
    ) -> None:
        if workload is None:
            make = plugins.episode_workload("multiserver")
            rewards, _ = make(np.random.default_rng(workload_seed), num_slots=num_slots)
            workload = partial(_drawn, make, rewards, num_slots)
        episodes = episodes_of(workload)

        def encoder() -> Encoder:
            first = cast(MultiServerCluster, episodes(np.random.default_rng(workload_seed)))
            return AllocationEncoder(first.layout.graph)

        super().__init__(
            episodes,
            named("observation", observation, {"shares": encoder}),
            named("reward", reward, REWARDS),
            until=until,
            max_decisions=max_decisions,
            skip_forced=skip_forced,
            render_mode=render_mode,
        )


def _drawn(
    make: Callable[..., Any], rewards: RewardModel, num_slots: int, rng: np.random.Generator
) -> MultiServerCluster:
    rewards, arrivals = make(rng, rewards=rewards, num_slots=num_slots)
    return MultiServerCluster(rewards, arrivals)
