"""Bipartite graph of job types and computing instances: which jobs may run where, and with which amounts.

Source: Zhao et al., "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning", arXiv 2305.06572,
section 2.1. A job type is a *port*, a computing instance a *node*, an edge between them a *channel*.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import places_of
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["BipartiteGraph", "from_networkx", "to_networkx"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class BipartiteGraph:
    """Bipartite graph with ports, nodes, channels, requests and capacities; immutable.

    An allocation is an array of shape (num_channels, num_resources): row ``c`` is the amount of each resource that
    node ``channel_node[c]`` gives to the job at port ``channel_port[c]``. Channels are sorted by port, then by node.
    :meth:`to_dense` and :meth:`from_dense` convert to and from y[l, r, k].

    Parameters
    ----------
    requests : array_like of shape (num_ports, num_resources)
        Largest amount that a job of each port takes through one channel, a_l^k in equation (5); at least 0.
    capacity : array_like of shape (num_nodes, num_resources)
        Capacity of each node, c_r^k; at least 0.
    channels : iterable of (port, node), optional
        Channels by index or by name; default: every port with every node.
    ports, nodes, resources : sequence of str, optional
        Names; default: ``port0``, ``node0``, ``resource0``, ... If any name is a number, numbers in ``channels`` are
        names on that side as well, not indices.

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
        If shapes do not match, an amount is negative or not finite, names of ports and nodes or of resources are not
        distinct, or a channel names an unknown port or node or is given twice.

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
        self.requests = _amounts("requests", requests)
        self.capacity = _amounts("capacity", capacity)
        if self.requests.shape[1] != self.capacity.shape[1]:
            raise InvalidConfiguration(
                f"requests, capacity: got {self.requests.shape[1]} and {self.capacity.shape[1]} columns, expected equal"
            )
        self.ports = _names("port", ports, len(self.requests))
        self.nodes = _names("node", nodes, len(self.capacity))
        self.resources = _names("resource", resources, self.capacity.shape[1])
        both = next((name for name in self.ports if name in set(self.nodes)), None)
        if both is not None:
            raise InvalidConfiguration(f"ports, nodes: got {both!r} in both, expected distinct names")
        _check_amounts("requests", self.requests, self.ports, self.resources)
        _check_amounts("capacity", self.capacity, self.nodes, self.resources)
        self.channel_port, self.channel_node = self._sort_channels(channels, ports, nodes)

    def _sort_channels(
        self,
        channels: Iterable[tuple[int | str, int | str]] | None,
        ports: Sequence[Any] | None,
        nodes: Sequence[Any] | None,
    ) -> tuple[Indices, Indices]:
        if channels is None:
            ends = np.indices((self.num_ports, self.num_nodes)).reshape(2, -1).T
        else:
            port_of, node_of = places_of(self.ports, ports), places_of(self.nodes, nodes)
            pairs = [_ends(channel, port_of, node_of) for channel in channels]
            ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
            repeated = np.flatnonzero((ends[1:] == ends[:-1]).all(axis=1))
            if len(repeated):
                port, node = ends[repeated[0]]
                raise InvalidConfiguration(
                    f"channels: got the channel from {self.ports[port]} to {self.nodes[node]} twice, expected it once"
                )
        port, node = (np.ascontiguousarray(column, dtype=np.int64) for column in ends.T)
        port.flags.writeable = node.flags.writeable = False
        return port, node

    def __repr__(self) -> str:
        """Return the numbers of ports, nodes, resources and channels."""
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
        """Mean number of ports per node (section 4.2)."""
        return self.num_channels / self.num_nodes

    @cached_property
    def channel_requests(self) -> Floats:
        """Upper bound of an allocation: the request of each channel's port, (num_channels, num_resources)."""
        return _frozen(self.requests[self.channel_port])

    @cached_property
    def slots_by_node(self) -> Indices:
        """Channels of each node, by port: shape (largest degree, num_nodes), padded with ``num_channels``."""
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
        """Return the sums over the channels of each port.

        Parameters
        ----------
        values : numpy.ndarray of shape (num_channels,) or (num_channels, n)
            Values, one row per channel.

        Returns
        -------
        numpy.ndarray of shape (num_ports,) or (num_ports, n)
            Sums; zero for a port without channels.
        """
        served, first = self._port_segments
        sums = np.zeros((self.num_ports, *values.shape[1:]))
        if len(served):
            sums[served] = np.add.reduceat(values, first, axis=0)
        return sums

    def node_sums(self, values: Floats) -> Floats:
        """Return the sums over the channels of each node.

        Parameters
        ----------
        values : numpy.ndarray of shape (num_channels,) or (num_channels, n)
            Values, one row per channel.

        Returns
        -------
        numpy.ndarray of shape (num_nodes,) or (num_nodes, n)
            Sums; zero for a node without channels.
        """
        sums: Floats = self._node_sums @ values
        return sums

    def to_dense(self, allocation: Floats) -> Floats:
        """Return an allocation as y[l, r, k], with zero where there is no channel.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Allocation, one row per channel.

        Returns
        -------
        numpy.ndarray of shape (num_ports, num_nodes, num_resources)
            New dense array.
        """
        dense = np.zeros((self.num_ports, self.num_nodes, *allocation.shape[1:]))
        dense[self.channel_port, self.channel_node] = allocation
        return dense

    def from_dense(self, dense: Floats) -> Floats:
        """Return the rows of y[l, r, k] that belong to channels; the inverse of :meth:`to_dense`."""
        rows: Floats = dense[self.channel_port, self.channel_node]
        return rows

    def repeat_ports(self, copies: int) -> BipartiteGraph:
        """Return the graph in which several jobs can be served per port and slot (section 3.4).

        Parameters
        ----------
        copies : int
            Largest number of jobs that arrive at a port for one slot, J_l; at least 1.

        Returns
        -------
        BipartiteGraph
            Graph in which port ``l`` becomes the ports ``l * copies`` to ``l * copies + copies - 1``, one per job,
            named ``name#1``, ``name#2``, ...

        Raises
        ------
        InvalidConfiguration
            If ``copies`` is not an integer of at least 1.
        """
        if not isinstance(copies, int | np.integer) or copies < 1:
            raise InvalidConfiguration(f"copies: got {copies!r}, expected an integer >= 1")
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


def _amounts(what: str, table: ArrayLike) -> Floats:
    try:
        amounts = np.array(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{what}: expected a table of numbers: {error}") from error
    if amounts.ndim != 2 or 0 in amounts.shape:
        raise InvalidConfiguration(f"{what}: got shape {amounts.shape}, expected at least one row and one column")
    return _frozen(amounts)


def _check_amounts(what: str, table: Floats, rows: tuple[str, ...], resources: tuple[str, ...]) -> None:
    wrong = np.argwhere(~((table >= 0) & (table < np.inf)))
    if len(wrong):
        row, resource = wrong[0]
        value = float(table[row, resource])
        raise InvalidConfiguration(
            f"{what} of {rows[row]}, {resources[resource]}: got {value!r}, expected a finite amount >= 0"
        )


def _names(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{what}{index}" for index in range(count))
    if len(names) != count:
        raise InvalidConfiguration(f"{what}s: got {len(names)} names, expected {count}")
    result = tuple(map(str, names))
    if len(set(result)) < count:
        repeated = next(name for index, name in enumerate(result) if name in result[:index])
        raise InvalidConfiguration(f"{what}s: got the name {repeated!r} twice, expected distinct names")
    return result


def _ends(channel: Any, port_of: Mapping[Any, int], node_of: Mapping[Any, int]) -> tuple[int, int]:
    """Return the indices of a channel's port and node."""
    if not isinstance(channel, Sequence | np.ndarray) or len(channel) != 2:
        raise InvalidConfiguration(f"channels: got {channel!r}, expected a pair of a port and a node")
    return _index("port", channel[0], port_of), _index("node", channel[1], node_of)


def _index(what: str, name: Any, known: Mapping[Any, int]) -> int:
    """Return the index of a port or node named by a channel."""
    index = known.get(name) if isinstance(name, Hashable) else None
    if index is None:
        there = "" if isinstance(name, str) else f"; valid indices are 0 to {len(set(known.values())) - 1}"
        raise InvalidConfiguration(f"channels: got the unknown {what} {name!r}{there}")
    return index


def _frozen(array: Floats) -> Floats:
    array.flags.writeable = False
    return array


def to_networkx(graph: BipartiteGraph) -> nx.Graph:
    """Convert a bipartite graph to a networkx graph.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph to convert.

    Returns
    -------
    networkx.Graph
        Graph in which ports have the attributes ``bipartite=0`` and ``requests``, and nodes ``bipartite=1`` and
        ``capacity``; the amounts are dicts by resource name. ``graph.graph["resources"]`` holds the resource names.
    """
    import networkx as nx

    result = nx.Graph(resources=graph.resources)
    sides = (
        (0, graph.ports, "requests", graph.requests),
        (1, graph.nodes, "capacity", graph.capacity),
    )
    for side, names, key, table in sides:
        for name, row in zip(names, table.tolist(), strict=True):
            result.add_node(name, **{"bipartite": side, key: dict(zip(graph.resources, row, strict=True))})
    ends = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
    result.add_edges_from((graph.ports[port], graph.nodes[node]) for port, node in ends)
    return result


def from_networkx(source: nx.Graph) -> BipartiteGraph:
    """Convert a networkx graph with the attributes of :func:`to_networkx` to a bipartite graph.

    Parameters
    ----------
    source : networkx.Graph
        Graph whose attributes ``requests`` and ``capacity`` are dicts by resource name, in which a missing resource
        counts as 0, or sequences in the order of ``source.graph["resources"]``. Without that entry, the resources are
        those of the dicts, in order of first occurrence.

    Returns
    -------
    BipartiteGraph
        Bipartite graph, with ports and nodes in the order of ``source``.

    Raises
    ------
    InvalidConfiguration
        If a vertex belongs to neither side or lacks its amounts, an edge does not join a port and a node, or an amount
        is invalid.
    """
    if source.is_multigraph():
        raise InvalidConfiguration("source: got a multigraph, expected networkx.Graph: at most one channel per pair")
    sides: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for vertex, attributes in source.nodes(data=True):
        side = attributes.get("bipartite")
        if side not in (0, 1):
            raise InvalidConfiguration(
                f"vertex {vertex!r}: bipartite: got {side!r}, expected 0 for a port or 1 for a node"
            )
        side = int(side)
        key = ("requests", "capacity")[side]
        if key not in attributes:
            raise InvalidConfiguration(f"vertex {vertex!r}: no attribute {key!r}, expected one amount per resource")
        sides[side][vertex] = attributes[key]
    resources = _resources(source, [*sides[0].values(), *sides[1].values()])
    port_of, node_of = ({vertex: index for index, vertex in enumerate(side)} for side in sides)
    channels = []
    for first, second in source.edges:
        port, node = (first, second) if first in port_of else (second, first)
        if port not in port_of or node not in node_of:
            raise InvalidConfiguration(f"edge from {first!r} to {second!r}: expected an edge between a port and a node")
        channels.append((port_of[port], node_of[node]))
    return BipartiteGraph(
        np.array([_row(vertex, amounts, resources) for vertex, amounts in sides[0].items()]),
        np.array([_row(vertex, amounts, resources) for vertex, amounts in sides[1].items()]),
        channels,
        ports=[str(vertex) for vertex in sides[0]],
        nodes=[str(vertex) for vertex in sides[1]],
        resources=resources,
    )


def _resources(source: nx.Graph, tables: list[Any]) -> list[str]:
    if "resources" in source.graph:
        return [str(name) for name in source.graph["resources"]]
    names: dict[str, None] = {}
    for amounts in tables:
        if not isinstance(amounts, Mapping):
            raise InvalidConfiguration(
                "requests, capacity: got amounts without names, expected dicts, or the graph attribute 'resources'"
            )
        names |= dict.fromkeys(map(str, amounts))
    return list(names)


def _row(vertex: Any, amounts: Mapping[str, float] | Sequence[float], resources: list[str]) -> list[float]:
    """Return the amounts of a vertex in the order of the resources."""
    if not isinstance(amounts, Mapping):
        if not isinstance(amounts, Sequence | np.ndarray):
            raise InvalidConfiguration(f"amounts of vertex {vertex!r}: got {amounts!r}, expected a dict or a sequence")
        if len(amounts) != len(resources):
            raise InvalidConfiguration(f"amounts of vertex {vertex!r}: got {len(amounts)}, expected {len(resources)}")
        return list(amounts)
    amounts = {str(name): amount for name, amount in amounts.items()}
    unknown = next((name for name in amounts if name not in resources), None)
    if unknown is not None:
        raise InvalidConfiguration(f"amounts of vertex {vertex!r}: got the unknown resource {unknown!r}")
    return [amounts.get(name, 0.0) for name in resources]
