"""Baselines of OGASched (section 4 of arXiv 2305.06572, "Baselines").

DRF and Fairness allocate by shares; BinPacking and Spreading score nodes by their usage.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice, check_int
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation
from desim.reprs import NamedRepr

__all__ = ["DRF", "BinPacking", "Fairness", "Spreading", "dominant_shares", "fill_in_order"]

Booleans = NDArray[np.bool_]

Floats = NDArray[np.float64]


def dominant_shares(graph: BipartiteGraph) -> Floats:
    """Return the dominant share of each port, max_k a_l^k / sum over r in R_l of c_r^k.

    Parameters
    ----------
    graph : BipartiteGraph
        Requests and capacities.

    Returns
    -------
    numpy.ndarray of shape (num_ports,)
        Dominant shares. The share of a resource that a port does not request is 0; the share of a requested resource
        that its nodes lack is infinite.
    """
    within_reach = graph.port_sums(graph.capacity[graph.channel_node])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(graph.requests > 0, graph.requests / within_reach, 0.0)
    largest: Floats = shares.max(axis=1)
    return largest


def fill_in_order(graph: BipartiteGraph, order: NDArray[np.int64], arrived: Booleans, capacity: Floats) -> Floats:
    """Serve the arrived jobs one after another, each with its whole request as far as capacity is free.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and channels.
    order : numpy.ndarray of int64, shape (num_ports,)
        Ports in the order in which they are served.
    arrived : numpy.ndarray of bool, shape (num_ports,)
        Mask of the ports that have a job.
    capacity : numpy.ndarray of shape (num_nodes, num_resources)
        Free capacity.

    Returns
    -------
    numpy.ndarray of shape (num_channels, num_resources)
        Feasible allocation.
    """
    allocation = np.zeros(graph.shape)
    free = capacity.copy()
    first = np.searchsorted(graph.channel_port, np.arange(graph.num_ports + 1))
    for port in order[arrived[order]].tolist():
        channels = slice(first[port], first[port + 1])
        nodes = graph.channel_node[channels]
        given = np.minimum(graph.requests[port], free[nodes])
        allocation[channels] = given
        free[nodes] -= given
    return allocation


class DRF(NamedRepr):
    """Dominant resource fairness (Ghodsi et al., NSDI 2011), in two interpretations.

    Parameters
    ----------
    filling : {"ordered", "progressive"}
        Interpretation. ``ordered``, as described in arXiv 2305.06572: arrived jobs are served by ascending dominant
        share, each with its whole request as far as capacity is free; ties go to the lower port. ``progressive``, as in
        the original: on every node the jobs' dominant shares of that node grow at the same rate, with each job's
        resources in proportion to its requests, until its request is met or one of its resources is used up.

    Raises
    ------
    InvalidConfiguration
        If ``filling`` is unknown.
    """

    def __init__(self, filling: Literal["ordered", "progressive"] = "ordered") -> None:
        self.filling = check_choice("filling", filling, ("ordered", "progressive"))
        self.name = "drf" if filling == "ordered" else "drf-progressive"
        self._graph: BipartiteGraph | None = None

    def act(self, observation: MultiServerObservation) -> Floats:
        """Return the allocation of the slot.

        Parameters
        ----------
        observation : MultiServerObservation
            Jobs and free capacity.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible allocation.
        """
        graph = observation.graph
        if graph is not self._graph:
            self._graph = graph
            self._order = np.argsort(dominant_shares(graph), kind="stable")
        if self.filling == "ordered":
            return fill_in_order(graph, self._order, observation.arrived, observation.capacity)
        return _fill_progressively(graph, observation.arrived, observation.capacity)


def _fill_progressively(graph: BipartiteGraph, arrived: Booleans, capacity: Floats) -> Floats:
    """Increase the dominant shares on every node at the same rate; each pass ends when a request or resource is met."""
    node = graph.channel_node
    requests = graph.channel_requests
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(requests > 0, requests / graph.capacity[node], 0.0).max(axis=1)
    active = arrived[graph.channel_port] & (share > 0) & (share < np.inf)
    # A job's rate is its usage at a dominant share of 1 on the node.
    rate = np.where(active[:, None], requests / np.where(active, share, 1.0)[:, None], 0.0)
    level = np.zeros(graph.num_channels)
    free = capacity.copy()
    while active.any():
        used = graph.node_sums(rate * active[:, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            until_empty = np.where(used > 0, free / used, np.inf).min(axis=1)
        until_full = np.full(graph.num_nodes, np.inf)
        np.minimum.at(until_full, node[active], (share - level)[active])
        step = np.minimum(until_empty, until_full)
        step[~np.isfinite(step)] = 0.0
        level = np.where(active, level + step[node], level)
        free = np.maximum(free - used * step[:, None], 0.0)
        empty = (free <= 1e-12 * graph.capacity)[node] & (rate > 0)
        active &= (level < share * (1 - 1e-12)) & ~empty.any(axis=1)
    return np.minimum(rate * level[:, None], requests)


class Fairness(NamedRepr):
    """Proportional sharing: every node shares each resource in proportion to requests.

    Port l gets the fraction a_l^k / sum of a^k of resource k of node r, but at most a_l^k.

    Parameters
    ----------
    among : {"arrived", "all"}
        Ports whose requests are summed: those that have a job, so that no capacity stays free while a job could use
        it, or all ports that the node serves, which is the literal formula of the paper.

    Raises
    ------
    InvalidConfiguration
        If ``among`` is unknown.
    """

    def __init__(self, among: Literal["arrived", "all"] = "arrived") -> None:
        self.among = check_choice("among", among, ("arrived", "all"))
        self.name = "fairness" if among == "arrived" else "fairness-all"

    def act(self, observation: MultiServerObservation) -> Floats:
        """Return the allocation of the slot.

        Parameters
        ----------
        observation : MultiServerObservation
            Jobs and free capacity.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible allocation.
        """
        graph = observation.graph
        present = observation.arrived[graph.channel_port][:, None]
        requests = np.where(present, graph.channel_requests, 0.0)
        total = graph.node_sums(requests if self.among == "arrived" else graph.channel_requests)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(total > 0, observation.capacity / total, 0.0)
        return requests * np.minimum(factor, 1.0)[graph.channel_node]


Order = Literal["workers", "jobs"]


class _Scored(NamedRepr):
    """Base class of agents that place workers on nodes by score."""

    #: +1 favours full nodes, -1 empty ones.
    _sign: float
    _name: str

    def __init__(self, order: Order = "workers", most_workers: int | None = None) -> None:
        self.order = check_choice("order", order, ("workers", "jobs"))
        self.most_workers = None if most_workers is None else check_int("most_workers", most_workers, least=1)
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
            Feasible allocation.
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
    """Placement of a slot's workers on nodes."""

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
        self._nothing = np.where(has.any(axis=1), 0.0, 1.0)  # a node without any resource counts as full

    def _scores(self, nodes: NDArray[np.int64] | slice) -> Floats:
        """Return the scores of nodes: the mean utilization of their resources, as in MostAllocated."""
        used = (self._graph.capacity[nodes] - self._free[nodes]) * self._weights[nodes]
        scores: Floats = self._sign * (self._nothing[nodes] + used.sum(axis=1))
        return scores

    def place(self, ports: NDArray[np.int64]) -> None:
        """Place the workers of some jobs one after another.

        In every pass each job selects its best node (ties go to the first). If several jobs select the same node, the
        lowest port gets it and the others select again.
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
    """Return the positions of the first occurrence of each value."""
    if len(set(values)) == len(values):
        return list(range(len(values)))
    return [position for position, value in enumerate(values) if value not in values[:position]]


class BinPacking(_Scored):
    """Bin packing: workers are placed on the fullest nodes, as with Kubernetes' strategy MostAllocated.

    Parameters
    ----------
    order : {"workers", "jobs"}
        Order of placement: jobs take turns, one worker each, or are served one after another in order of port.
    most_workers : int or None
        Largest number of nodes that a job uses; None for all of its nodes.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    _sign = 1.0
    _name = "bin-packing"


class Spreading(_Scored):
    """Spreading: workers are placed on the emptiest nodes, as with Kubernetes' strategy LeastAllocated.

    Parameters
    ----------
    order : {"workers", "jobs"}
        Order of placement: jobs take turns, one worker each, or are served one after another in order of port.
    most_workers : int or None
        Largest number of nodes that a job uses; None for all of its nodes.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    _sign = -1.0
    _name = "spreading"
