"""Embeddings of nodes against a plain recursion, and what does not matter to them."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from desim.agents.dag.graph_policy import NodeEmbedding, levels_of  # noqa: E402

FEATURES = 3


def random_graph(rng: np.random.Generator, most: int = 8) -> tuple[Any, Any, Any]:
    """Return features, edges and times of a graph with up to so many nodes, in topological order."""
    count = int(rng.integers(1, most + 1))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count) if rng.random() < 0.4]
    edges = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)
    return torch.from_numpy(rng.normal(size=(count, FEATURES))), edges, torch.from_numpy(rng.random(len(pairs)))


def embedding(seed: int = 0) -> Any:
    return NodeEmbedding("messages", FEATURES, 4, np.random.default_rng(seed)).double()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_levels_are_longest_ways_down(seed: int) -> None:
    nodes, edges, _ = random_graph(np.random.default_rng(seed))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(nodes)))
    graph.add_edges_from(edges.tolist())
    below = [nx.dag_longest_path_length(graph.subgraph({n} | nx.descendants(graph, n))) for n in range(len(nodes))]
    assert levels_of(edges, len(nodes)).tolist() == below


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_embeddings_follow_their_equation(seed: int) -> None:
    nodes, edges, times = random_graph(np.random.default_rng(seed))
    network = embedding()
    with torch.no_grad():
        found = network(nodes, edges, times)
        own = network.prepare(nodes)

        def slow(node: int) -> Any:
            below = [
                (child, time) for (parent, child), time in zip(edges.tolist(), times, strict=True) if parent == node
            ]
            if not below:
                return own[node]
            heard, sizes = sum(slow(child) for child, _ in below), sum(time for _, time in below)
            return network.gather(heard) + network.other(sizes.reshape(1)) + own[node]

        for node in range(len(nodes)):
            torch.testing.assert_close(found[node], slow(node))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_order_of_nodes_and_edges_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, edges, times = random_graph(rng)
    order, among = torch.from_numpy(rng.permutation(len(nodes))), torch.from_numpy(rng.permutation(len(edges)))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    network = embedding()
    with torch.no_grad():
        moved = network(nodes[order], place[edges][among], times[among])
        torch.testing.assert_close(moved, network(nodes, edges, times)[order])


def test_gradients_are_those_of_differences() -> None:
    nodes, _, _ = random_graph(np.random.default_rng(11), 1)
    nodes = torch.cat([nodes, nodes + 0.7, nodes - 0.4, 2 * nodes])
    edges, times = torch.tensor([[0, 1], [0, 2], [1, 3], [2, 3]]), torch.tensor([0.3, 1.0, 0.5, 0.2]).double()
    network = embedding()
    names = [name for name, _ in network.named_parameters()]

    def of(features: Any, *weights: Any) -> Any:
        return torch.func.functional_call(network, dict(zip(names, weights, strict=True)), (features, edges, times))

    inputs = [nodes.requires_grad_(), *(weight.detach().requires_grad_() for weight in network.parameters())]
    assert torch.autograd.gradcheck(of, inputs)
