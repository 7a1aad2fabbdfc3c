"""The concave program of the best fixed allocation, as flat arrays, and its Lagrangian bound.

Over the entries e = (channel, resource) that can be given anything,

    maximize   sum_e n_e f_e(y_e) - sum_l n_l t_l
    subject to 0 <= y <= a,  cell sums of y <= c,  beta_k sum_r y_(l,r)^k <= t_l  for every port l and resource k.

A *cell* is a node and resource with its capacity, a *holding* a port and resource with its overhead. Counts are
divided by the largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.multiserver import RewardModel

__all__ = ["FixedAllocationProgram"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Half the relative width of the interval in which the maximum of a piece of the Lagrangian is looked for.
NEARBY = 1e-9
#: Half the relative width of the differences that give the curvature.
DIFFERENCE = 1e-3
#: Relative allowance for the rounding of a sum.
ROUNDING = 1e-15


class FixedAllocationProgram:
    """Data and functions of the program.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead, on a graph.
    counts : numpy.ndarray of shape (num_ports,)
        Jobs a port, at least 0.

    Attributes
    ----------
    scale : float
        The largest count, or 1 if all are 0.
    ports : numpy.ndarray of shape (num_active,)
        Ports that have jobs and can be given anything; they are numbered anew.
    upper : numpy.ndarray of shape (num_entries,)
        min(a, c), above 0. Entries are sorted by resource, then channel.
    capacity : numpy.ndarray of shape (num_cells,)
        Of the cells that have entries, sorted by resource, then node.
    counts : numpy.ndarray of shape (num_active,)
        Scaled, above 0.
    overhead : numpy.ndarray of shape (num_holdings,)
        beta of each holding; holdings are sorted by resource, then port.
    entry_port, entry_cell, entry_holding : numpy.ndarray of shape (num_entries,)
        Where an entry belongs.
    entry_bounds, cell_bounds : list of int
        The entries and cells of resource ``k`` are those from ``bounds[k]`` up to ``bounds[k + 1]``.
    """

    def __init__(self, rewards: RewardModel, counts: Floats) -> None:
        graph = rewards.graph
        self.rewards = rewards
        self.num_resources = graph.num_resources
        self.scale = float(counts.max()) or 1.0
        upper = np.minimum(graph.channel_requests, graph.capacity[graph.channel_node])
        active = (upper > 0) & (counts > 0)[graph.channel_port][:, None]
        resource, channel = np.nonzero(active.T)
        self._flat = channel * self.num_resources + resource
        self.upper = upper.ravel()[self._flat]
        self._cut = graph.channel_requests.ravel()[self._flat] > self.upper
        self.ports, self.entry_port = np.unique(graph.channel_port[channel], return_inverse=True)
        self.counts = counts[self.ports] / self.scale
        self.overhead = np.repeat(rewards.overhead, self.num_ports)
        self.entry_holding = resource * self.num_ports + self.entry_port
        self._cells, self.entry_cell = np.unique(
            resource * graph.num_nodes + graph.channel_node[channel], return_inverse=True
        )
        self.capacity = graph.capacity.T.ravel()[self._cells]
        resources = np.arange(self.num_resources + 1)
        self.entry_bounds = np.searchsorted(resource, resources).tolist()
        self.cell_bounds = np.searchsorted(self._cells // graph.num_nodes, resources).tolist()
        self._entry_counts = self.counts[self.entry_port]
        self._sums = [
            _summation(self.entry_cell, len(self.capacity)),
            _summation(self.entry_holding, len(self.overhead)),
        ]

    @property
    def num_ports(self) -> int:
        """Number of active ports."""
        return len(self.ports)

    @property
    def num_entries(self) -> int:
        """Number of amounts to choose."""
        return len(self.upper)

    def cell_sums(self, values: Floats) -> Floats:
        """Sum entries over the ports of each cell."""
        sums: Floats = self._sums[0] @ values
        return sums

    def holding_sums(self, values: Floats) -> Floats:
        """Sum entries over the nodes of each holding."""
        sums: Floats = self._sums[1] @ values
        return sums

    def to_allocation(self, amounts: Floats) -> Floats:
        """Return entries as an array of shape (num_channels, num_resources), 0 elsewhere."""
        allocation = np.zeros(self.rewards.graph.shape)
        allocation.ravel()[self._flat] = amounts
        return allocation

    def from_allocation(self, allocation: Floats) -> Floats:
        """Return the entries of an array of shape (num_channels, num_resources)."""
        entries: Floats = allocation.ravel()[self._flat]
        return entries

    def gains(self, amounts: Floats) -> Floats:
        """Return n f(y) of every entry."""
        return self._entry_counts * self.from_allocation(self.rewards.utility_gains(self.to_allocation(amounts)))

    def slopes(self, amounts: Floats) -> Floats:
        """Return n f'(y) of every entry."""
        return self._entry_counts * self.from_allocation(self.rewards.slopes(self.to_allocation(amounts)))

    def curvatures(self, amounts: Floats, room: Floats) -> Floats:
        """Return -n f''(y) of every entry by differences; ``room`` is what is left of its upper bound."""
        step = DIFFERENCE * np.minimum(amounts, room)
        fall = self.slopes(amounts - step) - self.slopes(amounts + step)
        return np.maximum(fall / (2.0 * step), 0.0)

    def value(self, amounts: Floats) -> float:
        """Return the objective, with every t_l as small as can be."""
        overheads = (self.overhead * self.holding_sums(amounts)).reshape(self.num_resources, self.num_ports).max(axis=0)
        return float(self.gains(amounts).sum() - self.counts @ overheads)

    def costs(self, shares: Floats, prices: Floats) -> Floats:
        """Return what a unit of every entry costs: its share of the overhead, and the price of its cell."""
        costs: Floats = (self.overhead * shares)[self.entry_holding] + prices[self.entry_cell]
        return costs

    def normalize(self, shares: Floats) -> Floats:
        """Scale multipliers of the overheads so that those of each port sum to its count."""
        table = shares.reshape(self.num_resources, self.num_ports)
        normal: Floats = (table * (self.counts / table.sum(axis=0))).ravel()
        return normal

    def bound(self, shares: Floats, prices: Floats) -> float:
        """Return an upper bound of the objective over the feasible set.

        Parameters
        ----------
        shares : numpy.ndarray of shape (num_holdings,)
            Multipliers of the overheads, at least 0; those of each port sum to its count.
        prices : numpy.ndarray of shape (num_cells,)
            Multipliers of the capacities, at least 0.

        Returns
        -------
        float
            sum of price c + sum_e max over [0, min(a, c)] of (n f(y) - cost y). The maximum is bounded by tangents
            around the place where the slope is the cost, so that the bound holds however badly that is found.
        """
        costs = self.costs(shares, prices)
        wanted = self.rewards.slope_inverse(
            self.to_allocation(costs / self._entry_counts), self.to_allocation(self.upper)
        )
        best = self.from_allocation(wanted)
        low, high = best * (1.0 - NEARBY), np.minimum(best * (1.0 + NEARBY), self.upper)
        net_low, tilt_low = self.gains(low) - costs * low, self.slopes(low) - costs
        net_high, tilt_high = self.gains(high) - costs * high, self.slopes(high) - costs
        pieces = net_low + np.maximum(np.maximum(-tilt_low, 0.0) * low, np.maximum(tilt_low, 0.0) * (high - low))
        pieces = np.maximum(pieces, net_high + np.maximum(tilt_high, 0.0) * (self.upper - high))
        total = float(prices @ self.capacity + pieces.sum())
        return total + ROUNDING * float(prices @ self.capacity + np.abs(pieces).sum())

    def full_prices(self, prices: Floats, ceilings: Floats) -> Floats:
        """Return what more capacity would earn; where it is less than a request, it is the upper bound as well.

        Parameters
        ----------
        prices : numpy.ndarray of shape (num_cells,)
            Multipliers of the capacities.
        ceilings : numpy.ndarray of shape (num_entries,)
            Multipliers of the upper bounds.

        Returns
        -------
        numpy.ndarray of shape (num_cells,)
            Multipliers of the capacities, which give as low a bound.
        """
        return prices + self.cell_sums(np.where(self._cut, ceilings, 0.0))

    def to_tables(self, shares: Floats, prices: Floats) -> tuple[Floats, Floats]:
        """Return multipliers as they are for all slots.

        Returns
        -------
        numpy.ndarray of shape (num_ports, num_resources)
            p, whose rows sum to 1.
        numpy.ndarray of shape (num_nodes, num_resources)
            Prices of the capacities.
        """
        graph = self.rewards.graph
        split = np.full((graph.num_ports, self.num_resources), 1.0 / self.num_resources)
        split[self.ports] = (shares.reshape(self.num_resources, self.num_ports) / self.counts).T
        charge = np.zeros(graph.capacity.T.shape)
        charge.ravel()[self._cells] = prices * self.scale
        return split, np.ascontiguousarray(charge.T)

    def from_tables(self, split: Floats, charge: Floats) -> tuple[Floats, Floats]:
        """Return multipliers of the overheads and of the capacities; the reverse of :meth:`to_tables`."""
        return (split[self.ports].T * self.counts).ravel(), charge.T.ravel()[self._cells] / self.scale


def _summation(groups: Indices, count: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(count, len(groups)))
