"""What an agent sees of a multi-server cluster at one slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.rewards import Rewards

__all__ = ["MultiServerObservation"]


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
