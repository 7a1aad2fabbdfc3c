"""Bipartite graphs: order, sums and dense arrays against loops, networkx and back, repeated ports, all refusals."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, from_networkx, to_networkx


@st.composite
def graphs(draw: st.DrawFn) -> BipartiteGraph:
    """Yield graphs of up to five ports and nodes; some have no channel, or none at a port or node."""
    num_ports, num_nodes, num_resources = (draw(st.integers(1, most)) for most in (5, 5, 3))
    pairs = list(product(range(num_ports), range(num_nodes)))
    channels = draw(st.one_of(st.lists(st.sampled_from(pairs), unique=True), st.permutations(pairs)))
    amounts = st.sampled_from([0.0, 0.1, 1.0, 2.5, 1e9])
    requests, capacity = (
        [[draw(amounts) for _ in range(num_resources)] for _ in range(rows)] for rows in (num_ports, num_nodes)
    )
    names = draw(st.booleans())
    return BipartiteGraph(
        requests,
        capacity,
        channels,
        ports=[f"job {index}" for index in range(num_ports)] if names else None,
        nodes=[f"machine {index}" for index in range(num_nodes)] if names else None,
        resources=["cpu", "gpu", "memory"][:num_resources] if names else None,
    )


def contents(graph: BipartiteGraph) -> tuple[Any, ...]:
    arrays = (graph.requests, graph.capacity, graph.channel_port, graph.channel_node)
    return (graph.ports, graph.nodes, graph.resources, *(array.tolist() for array in arrays))


def values_for(graph: BipartiteGraph, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.arange(1.0, graph.num_channels * width + 1).reshape(graph.num_channels, width)


def test_channels_are_sorted_by_port_then_node_and_may_be_named() -> None:
    graph = BipartiteGraph(
        [[1, 2], [3, 4], [5, 6]],
        [[7, 8], [9, 10]],
        [("c", "y"), (2, 0), ("a", 1), (np.int64(0), "x")],
        ports=["a", "b", "c"],
        nodes=["x", "y"],
        resources=["cpu", "gpu"],
    )
    assert graph.channel_port.tolist() == [0, 0, 2, 2]
    assert graph.channel_node.tolist() == [0, 1, 0, 1]
    assert (graph.num_ports, graph.num_nodes, graph.num_resources, graph.num_channels) == (3, 2, 2, 4)
    assert graph.shape == (4, 2)
    assert graph.density == 2
    assert graph.channel_requests.tolist() == [[1, 2], [1, 2], [5, 6], [5, 6]]
    assert repr(graph) == "BipartiteGraph(3 ports, 2 nodes, 2 resources, 4 channels)"
    assert (graph.ports, graph.nodes, graph.resources) == (("a", "b", "c"), ("x", "y"), ("cpu", "gpu"))


@pytest.mark.parametrize("kind", [int, np.int64])
def test_numbers_that_are_names_are_no_indices(kind: type[Any]) -> None:
    ports = [kind(number) for number in (2, 1, 0)]
    graph = BipartiteGraph([[1.0]] * 3, [[1.0]] * 2, [(kind(2), 1), (kind(0), "x")], ports=ports, nodes=["x", "y"])
    assert graph.channel_port.tolist() == [0, 2] and graph.channel_node.tolist() == [1, 0]
    with pytest.raises(InvalidConfiguration, match="unknown port 3; valid indices are 0 to 2"):
        BipartiteGraph([[1.0]] * 3, [[1.0]] * 2, [(3, 1)], ports=ports, nodes=["x", "y"])


def test_every_port_with_every_node_if_channels_are_left_out() -> None:
    left_out = BipartiteGraph(np.ones((3, 1)), np.ones((2, 1)))
    assert contents(left_out) == contents(BipartiteGraph(np.ones((3, 1)), np.ones((2, 1)), product(range(3), range(2))))
    assert (left_out.ports, left_out.nodes) == (("port0", "port1", "port2"), ("node0", "node1"))
    assert left_out.resources == ("resource0",)
    assert BipartiteGraph(np.ones((3, 1)), np.ones((2, 1)), []).shape == (0, 1)


def test_a_graph_does_not_change() -> None:
    requests, capacity = np.ones((2, 1)), np.ones((2, 1))
    graph = BipartiteGraph(requests, capacity)
    requests[:] = capacity[:] = 9.0
    assert graph.requests.tolist() == graph.capacity.tolist() == [[1.0], [1.0]]
    tables = ("requests", "capacity", "channel_port", "channel_node", "channel_requests", "slots_by_node")
    for table in (getattr(graph, name) for name in tables):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0


@settings(max_examples=200, deadline=None)
@given(graph=graphs(), width=st.integers(1, 3))
def test_sums_and_dense_arrays_are_those_of_loops(graph: BipartiteGraph, width: int) -> None:
    values = values_for(graph, width)
    by_port, by_node = np.zeros((graph.num_ports, width)), np.zeros((graph.num_nodes, width))
    dense = np.zeros((graph.num_ports, graph.num_nodes, width))
    for row, port, node in zip(values, graph.channel_port, graph.channel_node, strict=True):
        by_port[port] += row
        by_node[node] += row
        dense[port, node] = row
    assert np.array_equal(graph.port_sums(values), by_port)
    assert np.array_equal(graph.node_sums(values), by_node)
    assert np.array_equal(graph.port_sums(values[:, 0]), by_port[:, 0])
    assert np.array_equal(graph.node_sums(values[:, 0]), by_node[:, 0])
    assert np.array_equal(graph.to_dense(values), dense)
    assert np.array_equal(graph.from_dense(dense), values)
    assert np.array_equal(graph.from_dense(dense + 1), values + 1)


@settings(max_examples=200, deadline=None)
@given(graph=graphs())
def test_slots_list_the_channels_of_each_node_by_port(graph: BipartiteGraph) -> None:
    slots = graph.slots_by_node
    ends = list(zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True))
    lists = [[index for index, (_, other) in enumerate(ends) if other == node] for node in range(graph.num_nodes)]
    assert len(slots) == max(map(len, lists))
    for node, channels in enumerate(lists):
        assert slots[:, node].tolist() == channels + [graph.num_channels] * (len(slots) - len(channels))


@settings(max_examples=200, deadline=None)
@given(graph=graphs())
def test_networkx_and_back(graph: BipartiteGraph) -> None:
    there = to_networkx(graph)
    assert list(there) == [*graph.ports, *graph.nodes]
    assert [side for _, side in there.nodes(data="bipartite")] == [0] * graph.num_ports + [1] * graph.num_nodes
    ends = zip(graph.channel_port, graph.channel_node, strict=True)
    assert list(there.edges) == [(graph.ports[port], graph.nodes[node]) for port, node in ends]
    for name, row in zip(graph.nodes, graph.capacity.tolist(), strict=True):
        assert there.nodes[name]["capacity"] == dict(zip(graph.resources, row, strict=True))
    back = from_networkx(there)
    assert contents(back) == contents(graph)


def small(**changes: Any) -> nx.Graph:
    """Return two ports and two nodes, with changed attributes by the name of the vertex."""
    graph = nx.Graph()
    graph.add_node("p", bipartite=0, requests={"cpu": 1.0, "gpu": 2.0})
    graph.add_node("m", bipartite=1, capacity={"memory": 3.0, "cpu": 4.0})
    graph.add_node("q", bipartite=0, requests={})
    graph.add_node("n", bipartite=1, capacity={"gpu": 5.0})
    for name, attributes in changes.items():
        graph.nodes[name].clear()
        graph.nodes[name].update(attributes)
    graph.add_edges_from([("n", "q"), ("p", "n"), ("m", "p")])
    return graph


def test_resources_are_those_of_the_dicts_in_the_order_in_which_they_are_met() -> None:
    graph = from_networkx(small())
    assert (graph.ports, graph.nodes, graph.resources) == (("p", "q"), ("m", "n"), ("cpu", "gpu", "memory"))
    assert graph.requests.tolist() == [[1, 2, 0], [0, 0, 0]]
    assert graph.capacity.tolist() == [[4, 0, 3], [0, 5, 0]]
    ends = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
    assert list(ends) == [(0, 0), (0, 1), (1, 1)]


def test_amounts_may_be_sequences_and_vertices_may_be_numbers() -> None:
    source = nx.Graph(resources=["gpu", "cpu"])
    source.add_node(7, bipartite=1, capacity=np.array([3.0, 4.0]))
    source.add_node((1, 2), bipartite=0, requests={"cpu": 1})
    source.add_edge(7, (1, 2))
    graph = from_networkx(source)
    assert (graph.ports, graph.nodes, graph.resources) == (("(1, 2)",), ("7",), ("gpu", "cpu"))
    assert (graph.requests.tolist(), graph.capacity.tolist(), graph.num_channels) == ([[0, 1]], [[3, 4]], 1)


def test_a_larger_graph_of_networkx_has_its_neighbours() -> None:
    source = nx.bipartite.random_graph(30, 40, 0.2, seed=1)
    for vertex, attributes in source.nodes(data=True):
        attributes["requests" if vertex < 30 else "capacity"] = {"cpu": vertex}
    graph = from_networkx(source)
    dense = graph.to_dense(np.ones(graph.num_channels))
    expected = nx.bipartite.biadjacency_matrix(source, range(30), range(30, 70)).toarray()
    assert np.array_equal(dense, expected)
    assert graph.capacity[:, 0].tolist() == list(range(30, 70))


PORT, NODE = {"bipartite": 0, "requests": {"cpu": 1.0}}, {"bipartite": 1, "capacity": {"cpu": 1.0}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": {"requests": {}}}, "vertex 'p': bipartite: got None, expected 0 for a port or 1 for a node"),
        ({"m": {**NODE, "bipartite": 2}}, "vertex 'm': bipartite: got 2"),
        ({"m": {"bipartite": 1, "requests": {}}}, "vertex 'm': no attribute 'capacity'"),
        ({"q": {"bipartite": 0, "capacity": {}}}, "vertex 'q': no attribute 'requests'"),
        ({"m": PORT}, "edge from 'p' to 'm': expected an edge between a port and a node"),
        ({"q": NODE}, "edge from 'q' to 'n': expected an edge between a port and a node"),
        ({"p": {**PORT, "requests": {"cpu": -1.5}}}, "requests of p, cpu: got -1.5"),
        ({"n": {**NODE, "capacity": {"gpu": float("nan")}}}, "capacity of n, gpu: got nan"),
        (
            {"n": {**NODE, "capacity": [1.0]}},
            "got amounts without names, expected dicts, or the graph attribute 'resources'",
        ),
    ],
)
def test_refused_by_from_networkx(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        from_networkx(small(**changes))


def test_named_resources_that_do_not_fit_are_refused_by_from_networkx() -> None:
    source = small()
    source.graph["resources"] = ["cpu", "memory"]
    with pytest.raises(InvalidConfiguration, match="amounts of vertex 'p': got the unknown resource 'gpu'"):
        from_networkx(source)
    source = small(p={**PORT, "requests": [1.0, 2.0]})
    source.graph["resources"] = ["cpu", "gpu", "memory"]
    with pytest.raises(InvalidConfiguration, match="amounts of vertex 'p': got 2, expected 3"):
        from_networkx(source)


def test_an_edge_from_a_vertex_to_itself_and_a_one_sided_graph_are_refused() -> None:
    source = small()
    source.add_edge("p", "p")
    with pytest.raises(InvalidConfiguration, match="edge from 'p' to 'p': expected an edge between"):
        from_networkx(source)
    source.remove_nodes_from(["m", "n", "q"])
    source.remove_edge("p", "p")
    with pytest.raises(InvalidConfiguration, match="capacity: got shape"):
        from_networkx(source)


ONES = [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": [(0, 0), (2, 0)]}, "channels: got the unknown port 2; valid indices are 0 to 1"),
        ({"channels": [(0, -1)]}, "channels: got the unknown node -1; valid indices are 0 to 1"),
        ({"channels": [("ghost", 0)]}, "channels: got the unknown port 'ghost'"),
        ({"channels": [(0, "port0")]}, "channels: got the unknown node 'port0'"),
        ({"channels": [(1, 0), (0, 1), ("port1", 0)]}, "got the channel from port1 to node0 twice"),
        ({"requests": [[1.0, 1.0], [1.0, -2.0]]}, "requests of port1, resource1: got -2.0"),
        ({"capacity": [[1.0, float("nan")], [1.0, 1.0]], "nodes": ["x", "y"]}, "capacity of x, resource1: got nan"),
        (
            {"capacity": [[1.0, 1.0], [float("inf"), 1.0]], "resources": ["cpu", "gpu"]},
            "capacity of node1, cpu: got inf",
        ),
        ({"requests": [1.0, 2.0]}, "requests: got shape (2,), expected at least one row and one column"),
        ({"capacity": np.ones((0, 2))}, "capacity: got shape (0, 2)"),
        ({"requests": np.ones((2, 0)), "capacity": np.ones((2, 0))}, "requests: got shape (2, 0)"),
        ({"requests": np.ones((2, 3))}, "requests, capacity: got 3 and 2 columns"),
        ({"requests": [["many", 1.0]]}, "requests: expected a table of numbers"),
        ({"capacity": [[1.0, 2.0], [3.0]]}, "capacity: expected a table of numbers"),
        ({"ports": ["a", "a"]}, "ports: got the name 'a' twice"),
        ({"nodes": ["b", "b"]}, "nodes: got the name 'b' twice"),
        ({"resources": ["cpu", "cpu"]}, "resources: got the name 'cpu' twice"),
        ({"ports": ["a"]}, "ports: got 1 names, expected 2"),
        ({"nodes": ["a", "b", "c"]}, "nodes: got 3 names, expected 2"),
        ({"resources": []}, "resources: got 0 names, expected 2"),
    ],
)
def test_refused_graphs(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        BipartiteGraph(**{"requests": ONES, "capacity": ONES, **arguments})


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), copies=st.integers(2, 4))
def test_repeated_ports_stand_side_by_side_and_reach_the_same_nodes(graph: BipartiteGraph, copies: int) -> None:
    repeated = graph.repeat_ports(copies)
    assert repeated.ports == tuple(f"{name}#{copy}" for name in graph.ports for copy in range(1, copies + 1))
    assert (repeated.nodes, repeated.resources) == (graph.nodes, graph.resources)
    assert np.array_equal(repeated.capacity, graph.capacity)
    there = graph.to_dense(np.ones(graph.num_channels))
    copied = repeated.to_dense(np.ones(repeated.num_channels))
    for port, copy in product(range(graph.num_ports), range(copies)):
        assert np.array_equal(copied[port * copies + copy], there[port])
        assert np.array_equal(repeated.requests[port * copies + copy], graph.requests[port])


def test_one_copy_of_each_port_is_the_graph_itself_and_fewer_are_refused() -> None:
    graph = BipartiteGraph(ONES, ONES)
    assert graph.repeat_ports(1) is graph
    for copies in (0, -1, 1.5):
        with pytest.raises(InvalidConfiguration, match=f"copies: got {copies}, expected an integer >= 1"):
            graph.repeat_ports(copies)  # type: ignore[arg-type]


def test_a_port_and_a_node_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="ports, nodes: got 'a' in both"):
        BipartiteGraph([[1.0], [2.0]], [[3.0]], ports=["a", "b"], nodes=["a"])
