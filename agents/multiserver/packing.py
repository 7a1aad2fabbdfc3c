"""BinPacking and Spreading: nodes are scored by how full they are (section 4 of arXiv 2305.06572, "Baselines").

Kubernetes places pod after pod, each on the node with the best score. Here a worker of a job is what one node gives
it: all that it may take there. In the order ``workers`` the jobs of a slot take turns, one worker at a time, each on
the best node that it has not used yet; in the order ``jobs`` one job after another is placed on its nodes, the best
first. With ``jobs``, unless the number of workers is limited, every job gets a worker on each of its nodes, whatever
the scores say, and the two policies coincide.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from desim.agents.multiserver.shares import fill_in_order
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation

__all__ = ["BinPacking", "Spreading"]

Floats = NDArray[np.float64]
Order = Literal["workers", "jobs"]


class _Scored:
    """Places workers on nodes by score."""

    #: +1 favours full nodes, -1 empty ones.
    _sign: float
    _name: str

    def __init__(self, order: Order = "workers", most_workers: int | None = None) -> None:
        if order not in ("workers", "jobs"):
            raise InvalidConfiguration(f"order is {order!r}, want 'workers' or 'jobs'")
        if most_workers is not None and most_workers < 1:
            raise InvalidConfiguration(f"most_workers is {most_workers!r}, want at least 1")
        self.order = order
        self.most_workers = most_workers
        limit = "" if most_workers is None else f"-{most_workers}"
        self.name = self._name + ("" if order == "workers" else "-jobs") + limit

    def act(self, observation: MultiServerObservation) -> Floats:
        """Return the allocation of the slot.

        Parameters
        ----------
        observation : MultiServerObservation
            Jobs and free capacity.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible.
        """
        graph = observation.graph
        if self.order == "jobs" and self.most_workers is None:
            return fill_in_order(graph, np.arange(graph.num_ports), observation.arrived, observation.capacity)
        placing = _Placing(graph, observation.capacity, self._sign, self.most_workers)
        ports = np.flatnonzero(observation.arrived & (np.diff(placing.first) > 0))
        rounds = [ports] if self.order == "workers" and len(ports) else ports[:, None]
        for together in rounds:
            placing.place(together)
        return placing.allocation


class _Placing:
    """The workers of a slot and the nodes that they are placed on."""

    def __init__(self, graph: BipartiteGraph, capacity: Floats, sign: float, most_workers: int | None) -> None:
        self.first = np.searchsorted(graph.channel_port, np.arange(graph.num_ports + 1))
        self.allocation = np.zeros(graph.shape)
        self._graph = graph
        self._free = capacity.copy()
        self._sign = sign
        self._most_workers = most_workers
        has = graph.capacity > 0
        inverse = np.divide(1.0, graph.capacity, out=np.zeros_like(graph.capacity), where=has)
        self._weights = inverse / np.maximum(has.sum(axis=1, keepdims=True), 1)
        self._nothing = np.where(has.any(axis=1), 0.0, 1.0)  # a node that has none of them counts as full

    def _scores(self, nodes: NDArray[np.int64] | slice) -> Floats:
        """Return the scores of nodes: the mean use of the resources that they have, as in MostAllocated."""
        used = (self._graph.capacity[nodes] - self._free[nodes]) * self._weights[nodes]
        scores: Floats = self._sign * (self._nothing[nodes] + used.sum(axis=1))
        return scores

    def place(self, ports: NDArray[np.int64]) -> None:
        """Place one worker after another of some jobs.

        In every pass each job names its best node, of equal ones the first; where several name the same, the lowest
        port gets it and the others name one again.
        """
        graph, first = self._graph, self.first[ports]
        last = self.first[ports + 1]
        width = int((last - first).max())
        channels = first[:, None] + np.arange(width)
        unused = channels < last[:, None]
        channels = np.where(unused, channels, 0)
        nodes = graph.channel_node[channels]
        requests = graph.requests[ports]
        score = self._scores(slice(None))
        left = np.full(len(ports), width if self._most_workers is None else self._most_workers)
        for _ in range(width):
            waiting = np.flatnonzero(unused.any(axis=1) & (left > 0))
            if not len(waiting):
                return
            while len(waiting):
                within_reach = np.where(unused[waiting], score.take(nodes[waiting]), -np.inf)
                place = within_reach.argmax(axis=1)
                node = nodes[waiting, place]
                winners = _first_of_each(node.tolist())
                job, place, node = waiting[winners], place[winners], node[winners]
                given = np.minimum(requests[job], self._free[node])
                self.allocation[channels[job, place]] = given
                self._free[node] -= given
                score[node] = self._scores(node)
                unused[job, place] = False
                left[job] -= given.any(axis=1)
                waiting = np.delete(waiting, winners) if len(winners) < len(waiting) else waiting[:0]


def _first_of_each(values: list[int]) -> list[int]:
    """Return the positions at which values occur for the first time."""
    if len(set(values)) == len(values):
        return list(range(len(values)))
    return [position for position, value in enumerate(values) if value not in values[:position]]


class BinPacking(_Scored):
    """Workers go to the fullest nodes, as with Kubernetes' strategy MostAllocated.

    Parameters
    ----------
    order : {"workers", "jobs"}
        Whether jobs take turns, worker by worker, or are served one after another, by port.
    most_workers : int or None
        The most nodes that a job uses; all of its nodes if None.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    _sign = 1.0
    _name = "bin-packing"


class Spreading(_Scored):
    """Workers go to the emptiest nodes, as with Kubernetes' strategy LeastAllocated.

    Parameters
    ----------
    order : {"workers", "jobs"}
        Whether jobs take turns, worker by worker, or are served one after another, by port.
    most_workers : int or None
        The most nodes that a job uses; all of its nodes if None.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    _sign = -1.0
    _name = "spreading"
