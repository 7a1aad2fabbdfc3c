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
        first = np.searchsorted(graph.channel_port, np.arange(graph.num_ports + 1))
        ports = np.flatnonzero(observation.arrived & (np.diff(first) > 0))
        rounds = [ports] if self.order == "workers" and len(ports) else ports[:, None]
        allocation = np.zeros(graph.shape)
        free = observation.capacity.copy()
        for together in rounds:
            self._place(graph, together, first, allocation, free)
        return allocation

    def _place(
        self,
        graph: BipartiteGraph,
        ports: NDArray[np.int64],
        first: NDArray[np.int64],
        allocation: Floats,
        free: Floats,
    ) -> None:
        """Place one worker after another of some jobs; writes into ``allocation`` and ``free``.

        In every pass each job names its best node; where several name the same, the lowest port gets it and the others
        name one again.
        """
        width = int((first[ports + 1] - first[ports]).max())
        channels = first[ports][:, None] + np.arange(width)
        unused = channels < first[ports + 1][:, None]
        channels = np.where(unused, channels, 0)
        nodes = graph.channel_node[channels]
        requests = graph.requests[ports]
        inverse = np.divide(1.0, graph.capacity, out=np.zeros_like(graph.capacity), where=graph.capacity > 0)
        weights = inverse / np.maximum((graph.capacity > 0).sum(axis=1, keepdims=True), 1)
        # The score of a node is the mean use of the resources that it has, as Kubernetes' MostAllocated has it.
        score = self._sign * (1.0 - (free * weights).sum(axis=1))
        left = np.full(len(ports), width if self.most_workers is None else self.most_workers)
        turn = np.zeros(len(ports), dtype=np.int64)
        rows = np.arange(len(ports))
        while True:
            open_ = unused & (left > 0)[:, None]
            waiting = open_.any(axis=1)
            if not waiting.any():
                return
            turns = np.where(waiting, turn, turn.max() + 1)
            now = rows[turns == turns.min()]
            column = np.where(open_[now], score[nodes[now]], -np.inf).argmax(axis=1)
            _, winners = np.unique(nodes[now, column], return_index=True)
            job, place = now[winners], column[winners]
            node = nodes[job, place]
            given = np.minimum(requests[job], free[node])
            allocation[channels[job, place]] = given
            free[node] -= given
            score[node] = self._sign * (1.0 - (free[node] * weights[node]).sum(axis=1))
            unused[job, place] = False
            turn[job] += 1
            left[job] -= given.any(axis=1)


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
