"""The bipartite graph of job types and computing instances: who may be served where, and with how much.

Source: Zhao et al., "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning", arXiv 2305.06572,
section 2.1. A job type is a *port*, a computing instance a *node*, an edge between them a *channel*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver._checks import amounts_of, check_amounts, ends_of, frozen, names_of

__all__ = ["BipartiteGraph"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class BipartiteGraph:
    """Ports, nodes, channels, requests and capacities; it does not change.

    An allocation is an array of shape (num_channels, num_resources): row ``c`` is what the node
    ``channel_node[c]`` gives to the job at port ``channel_port[c]``. Channels are sorted by port, then by
    node. :meth:`to_dense` and :meth:`from_dense` convert to and from y[l, r, k].

    Parameters
    ----------
    requests : array_like of shape (num_ports, num_resources)
        The most that a job of each port takes through one channel, a_l^k in equation (5); at least 0.
    capacity : array_like of shape (num_nodes, num_resources)
        What each node has, c_r^k; at least 0.
    channels : iterable of (port, node), optional
        By index or by name; every port with every node if left out.
    ports, nodes, resources : sequence of str, optional
        Names; ``port0``, ``node0``, ``resource0``, ... if left out.

    Attributes
    ----------
    requests, capacity : numpy.ndarray
        As given, read-only, as float64.
    ports, nodes, resources : tuple of str
        Names.
    channel_port, channel_node : numpy.ndarray of shape (num_channels,)
        Indices of the ends of each channel.

    Raises
    ------
    InvalidConfiguration
        If shapes do not fit, an amount is negative or not finite, two of the ports and nodes or two resources have one
        name, or a channel names an unknown port or node, or is given twice.

    Examples
    --------
    >>> graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], [(0, 0), (1, 0), (1, 1)])
    >>> graph.num_channels, graph.density
    (3, 1.5)
    """

    def __init__(
        self,
        requests: ArrayLike,
        capacity: ArrayLike,
        channels: Iterable[tuple[int | str, int | str]] | None = None,
        *,
        ports: Sequence[str] | None = None,
        nodes: Sequence[str] | None = None,
        resources: Sequence[str] | None = None,
    ) -> None:
        self.requests = amounts_of("requests", requests)
        self.capacity = amounts_of("capacity", capacity)
        if self.requests.shape[1] != self.capacity.shape[1]:
            raise InvalidConfiguration(
                f"requests has {self.requests.shape[1]} resources, capacity {self.capacity.shape[1]}"
            )
        self.ports = names_of("port", ports, len(self.requests))
        self.nodes = names_of("node", nodes, len(self.capacity))
        self.resources = names_of("resource", resources, self.capacity.shape[1])
        both = next((name for name in self.ports if name in set(self.nodes)), None)
        if both is not None:
            raise InvalidConfiguration(f"a port and a node are called {both!r}")
        check_amounts("requests", self.requests, self.ports, self.resources)
        check_amounts("capacity", self.capacity, self.nodes, self.resources)
        self.channel_port, self.channel_node = self._sort_channels(channels)

    def _sort_channels(self, channels: Iterable[tuple[int | str, int | str]] | None) -> tuple[Indices, Indices]:
        if channels is None:
            ends = np.indices((self.num_ports, self.num_nodes)).reshape(2, -1).T
        else:
            port_of = {name: index for index, name in enumerate(self.ports)}
            node_of = {name: index for index, name in enumerate(self.nodes)}
            pairs = [ends_of(channel, port_of, node_of) for channel in channels]
            ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
            repeated = np.flatnonzero((ends[1:] == ends[:-1]).all(axis=1))
            if len(repeated):
                port, node = ends[repeated[0]]
                raise InvalidConfiguration(f"the channel from {self.ports[port]} to {self.nodes[node]} is given twice")
        port, node = (np.ascontiguousarray(column, dtype=np.int64) for column in ends.T)
        port.flags.writeable = node.flags.writeable = False
        return port, node

    def __repr__(self) -> str:
        """Say how large it is."""
        return (
            f"BipartiteGraph({self.num_ports} ports, {self.num_nodes} nodes, {self.num_resources} resources, "
            f"{self.num_channels} channels)"
        )

    @property
    def num_ports(self) -> int:
        """Number of ports."""
        return len(self.ports)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def num_resources(self) -> int:
        """Number of resource types, K."""
        return len(self.resources)

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return len(self.channel_port)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of an allocation, (num_channels, num_resources)."""
        return self.num_channels, self.num_resources

    @property
    def density(self) -> float:
        """Mean number of ports that a node serves (section 4.2)."""
        return self.num_channels / self.num_nodes

    @cached_property
    def channel_requests(self) -> Floats:
        """Upper bound of an allocation: the request of each channel's port, (num_channels, num_resources)."""
        return frozen(self.requests[self.channel_port])

    @cached_property
    def slots_by_node(self) -> Indices:
        """Channels of each node, by port: shape (largest degree, num_nodes), filled up with ``num_channels``."""
        degree = np.bincount(self.channel_node, minlength=self.num_nodes)
        order = np.lexsort((self.channel_port, self.channel_node))
        first = np.cumsum(degree) - degree
        position = np.arange(self.num_channels) - first[self.channel_node[order]]
        table = np.full((int(degree.max(initial=0)), self.num_nodes), self.num_channels, dtype=np.int64)
        table[position, self.channel_node[order]] = order
        table.flags.writeable = False
        return table

    @cached_property
    def _port_segments(self) -> tuple[Indices, Indices]:
        """Ports that have channels, and the first channel of each."""
        served = np.flatnonzero(np.bincount(self.channel_port, minlength=self.num_ports))
        return served, np.searchsorted(self.channel_port, served)

    @cached_property
    def _node_sums(self) -> Any:
        from scipy.sparse import csr_array

        entries = (np.ones(self.num_channels), (self.channel_node, np.arange(self.num_channels)))
        return csr_array(entries, shape=(self.num_nodes, self.num_channels))

    def port_sums(self, values: Floats) -> Floats:
        """Sum over the channels of each port.

        Parameters
        ----------
        values : numpy.ndarray of shape (num_channels,) or (num_channels, n)
            One row a channel.

        Returns
        -------
        numpy.ndarray of shape (num_ports,) or (num_ports, n)
            Zero for a port without channels.
        """
        served, first = self._port_segments
        sums = np.zeros((self.num_ports, *values.shape[1:]))
        if len(served):
            sums[served] = np.add.reduceat(values, first, axis=0)
        return sums

    def node_sums(self, values: Floats) -> Floats:
        """Sum over the channels of each node.

        Parameters
        ----------
        values : numpy.ndarray of shape (num_channels,) or (num_channels, n)
            One row a channel.

        Returns
        -------
        numpy.ndarray of shape (num_nodes,) or (num_nodes, n)
            Zero for a node without channels.
        """
        sums: Floats = self._node_sums @ values
        return sums

    def to_dense(self, allocation: Floats) -> Floats:
        """Return y[l, r, k], zero where there is no channel.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            One row a channel.

        Returns
        -------
        numpy.ndarray of shape (num_ports, num_nodes, num_resources)
            A new array.
        """
        dense = np.zeros((self.num_ports, self.num_nodes, *allocation.shape[1:]))
        dense[self.channel_port, self.channel_node] = allocation
        return dense

    def from_dense(self, dense: Floats) -> Floats:
        """Return the rows of y[l, r, k] that belong to channels; the reverse of :meth:`to_dense`."""
        rows: Floats = dense[self.channel_port, self.channel_node]
        return rows

    def repeat_ports(self, copies: int) -> BipartiteGraph:
        """Return the graph in which several jobs a port and slot can be served (section 3.4).

        Parameters
        ----------
        copies : int
            The most jobs that arrive at a port in one slot, J_l; at least 1.

        Returns
        -------
        BipartiteGraph
            Port ``l`` becomes the ports ``l * copies`` to ``l * copies + copies - 1``, one a job, called
            ``name#1``, ``name#2``, ...

        Raises
        ------
        InvalidConfiguration
            If ``copies`` is not a whole number of at least 1.
        """
        if not isinstance(copies, int | np.integer) or copies < 1:
            raise InvalidConfiguration(f"copies is {copies!r}, want a whole number of at least 1")
        if copies == 1:
            return self
        offsets = np.arange(int(copies))
        port = (self.channel_port[:, None] * copies + offsets).ravel().tolist()
        return BipartiteGraph(
            np.repeat(self.requests, copies, axis=0),
            self.capacity,
            zip(port, np.repeat(self.channel_node, copies).tolist(), strict=True),
            ports=[f"{name}#{copy + 1}" for name in self.ports for copy in offsets],
            nodes=self.nodes,
            resources=self.resources,
        )
