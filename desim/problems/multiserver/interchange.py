"""Bipartite graphs to and from networkx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver.graph import BipartiteGraph

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["from_networkx", "to_networkx"]


def to_networkx(graph: BipartiteGraph) -> nx.Graph:
    """Return a graph for networkx.

    Parameters
    ----------
    graph : BipartiteGraph
        Ports, nodes and channels.

    Returns
    -------
    networkx.Graph
        Ports have the attributes ``bipartite=0`` and ``requests``, nodes ``bipartite=1`` and ``capacity``, both
        dicts from resource name to amount; ``graph.graph["resources"]`` are the names of the resources.
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
    """Read a networkx graph that has the attributes which :func:`to_networkx` writes.

    Parameters
    ----------
    source : networkx.Graph
        ``requests`` and ``capacity`` may be dicts by resource name, in which a resource that is left out
        counts as 0, or sequences in the order of ``source.graph["resources"]``. Without that entry the resources
        are those of the dicts, in the order in which they are met.

    Returns
    -------
    BipartiteGraph
        Ports and nodes in the order of the graph.

    Raises
    ------
    InvalidConfiguration
        If a vertex is on neither side or lacks its amounts, an edge does not join a port to a node, or the
        amounts make no sense.
    """
    if source.is_multigraph():
        raise InvalidConfiguration("the graph is a multigraph: a port and a node have one channel or none")
    sides: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for vertex, attributes in source.nodes(data=True):
        side = attributes.get("bipartite")
        if side not in (0, 1):
            raise InvalidConfiguration(f"vertex {vertex!r} has bipartite={side!r}, want 0 for a port or 1 for a node")
        side = int(side)
        key = ("requests", "capacity")[side]
        if key not in attributes:
            raise InvalidConfiguration(f"vertex {vertex!r} has no attribute {key!r}")
        sides[side][vertex] = attributes[key]
    resources = _resources(source, [*sides[0].values(), *sides[1].values()])
    port_of, node_of = ({vertex: index for index, vertex in enumerate(side)} for side in sides)
    channels = []
    for first, second in source.edges:
        port, node = (first, second) if first in port_of else (second, first)
        if port not in port_of or node not in node_of:
            raise InvalidConfiguration(f"the edge from {first!r} to {second!r} does not join a port to a node")
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
            raise InvalidConfiguration("amounts without names need the graph attribute 'resources'")
        names |= dict.fromkeys(map(str, amounts))
    return list(names)


def _row(vertex: Any, amounts: Mapping[str, float] | Sequence[float], resources: list[str]) -> list[float]:
    """Return the amounts of a vertex in the order of the resources."""
    if not isinstance(amounts, Mapping):
        if not isinstance(amounts, Sequence | np.ndarray):
            raise InvalidConfiguration(f"the amounts of vertex {vertex!r} are {amounts!r}, want a dict or a sequence")
        if len(amounts) != len(resources):
            raise InvalidConfiguration(f"vertex {vertex!r} has {len(amounts)} amounts for {len(resources)} resources")
        return list(amounts)
    amounts = {str(name): amount for name, amount in amounts.items()}
    unknown = next((name for name in amounts if name not in resources), None)
    if unknown is not None:
        raise InvalidConfiguration(f"vertex {vertex!r} has an amount of the unknown resource {unknown!r}")
    return [amounts.get(name, 0.0) for name in resources]
