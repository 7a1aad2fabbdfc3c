"""DRF and Fairness: what a port gets follows from shares (section 4 of arXiv 2305.06572, "Baselines").

Every job is offered what it requests through each of its channels. Where the definition in the paper leaves a choice,
the reading that earns more is the default; ``desim.experiments.ogasched.rivals`` measures them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation

__all__ = ["DRF", "Fairness", "dominant_shares", "fill_in_order"]

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
        A resource that a port requests none of counts as 0, one that its nodes have none of as infinite.
    """
    within_reach = graph.port_sums(graph.capacity[graph.channel_node])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(graph.requests > 0, graph.requests / within_reach, 0.0)
    largest: Floats = shares.max(axis=1)
    return largest


def fill_in_order(graph: BipartiteGraph, order: NDArray[np.int64], arrived: Booleans, capacity: Floats) -> Floats:
    """Give the jobs that have arrived, one after another, all that they may take.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes, channels.
    order : numpy.ndarray of int64, shape (num_ports,)
        The ports, the first to be served first.
    arrived : numpy.ndarray of bool, shape (num_ports,)
        Ports that have a job.
    capacity : numpy.ndarray of shape (num_nodes, num_resources)
        What is free.

    Returns
    -------
    numpy.ndarray of shape (num_channels, num_resources)
        The allocation.
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


class DRF:
    """Dominant resource fairness (Ghodsi et al., NSDI 2011), in two readings.

    Parameters
    ----------
    filling : {"ordered", "progressive"}
        ``ordered``: the jobs that have arrived are served in ascending order of their dominant shares, each with
        all that it may take, as arXiv 2305.06572 describes it; ties go to the lower port. ``progressive``: on every
        node the jobs' dominant shares of that node grow together, each job's resources in proportion to its requests,
        until it has all that it requests or one of its resources is used up, as in the original.

    Raises
    ------
    InvalidConfiguration
        If ``filling`` is unknown.
    """

    def __init__(self, filling: Literal["ordered", "progressive"] = "ordered") -> None:
        if filling not in ("ordered", "progressive"):
            raise InvalidConfiguration(f"filling is {filling!r}, want 'ordered' or 'progressive'")
        self.filling = filling
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
            Feasible.
        """
        graph = observation.graph
        if graph is not self._graph:
            self._graph = graph
            self._order = np.argsort(dominant_shares(graph), kind="stable")
        if self.filling == "ordered":
            return fill_in_order(graph, self._order, observation.arrived, observation.capacity)
        return _fill_progressively(graph, observation.arrived, observation.capacity)


def _fill_progressively(graph: BipartiteGraph, arrived: Booleans, capacity: Floats) -> Floats:
    """Let the dominant shares on every node grow together: one pass for each time that something is used up."""
    node = graph.channel_node
    requests = graph.channel_requests
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(requests > 0, requests / graph.capacity[node], 0.0).max(axis=1)
    active = arrived[graph.channel_port] & (share > 0) & (share < np.inf)
    # A job's rate is what it takes while its dominant share on the node grows from 0 to 1.
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


class Fairness:
    """Every node shares each resource out in proportion to requests.

    Node r gives port l the part a_l^k / sum of a^k of its resource k, and never more than a_l^k.

    Parameters
    ----------
    among : {"arrived", "all"}
        Whose requests are summed: those of the ports that have a job, so that nothing is left over while a job
        could take more, or those of all ports that the node serves, as the formula in the paper has it when read to
        the letter.

    Raises
    ------
    InvalidConfiguration
        If ``among`` is unknown.
    """

    def __init__(self, among: Literal["arrived", "all"] = "arrived") -> None:
        if among not in ("arrived", "all"):
            raise InvalidConfiguration(f"among is {among!r}, want 'arrived' or 'all'")
        self.among = among
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
            Feasible.
        """
        graph = observation.graph
        present = observation.arrived[graph.channel_port][:, None]
        requests = np.where(present, graph.channel_requests, 0.0)
        total = graph.node_sums(requests if self.among == "arrived" else graph.channel_requests)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(total > 0, observation.capacity / total, 0.0)
        return requests * np.minimum(factor, 1.0)[graph.channel_node]
