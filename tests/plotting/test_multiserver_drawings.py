"""Drawings of bipartite graphs, and orders in which few channels cross."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from multiserver_pictures import some_rewards

from desim import InvalidConfiguration
from desim.plotting import bipartite_drawing
from desim.plotting._crossings import count_crossings, uncrossed_orders
from desim.plotting._share_colors import share_colors
from desim.problems.multiserver import BipartiteGraph

SMALL = BipartiteGraph(
    [[2.0, 1.0], [4.0, 0.0], [1.0, 1.0]],
    [[8.0, 2.0], [4.0, 0.0], [4.0, 1.0], [16.0, 4.0], [2.0, 0.0]],
    [(0, 0), (0, 2), (1, 1), (1, 3), (1, 4), (2, 0), (2, 1), (2, 3)],
    ports=["train", "batch", "web"],
    nodes=["a", "b", "c", "d", "e"],
    resources=["cpu", "gpu"],
)
GIVEN = 0.5 * SMALL.channel_requests * np.arange(8)[:, None] / 7.0
LARGE = some_rewards(10, 128).graph


def graphs() -> st.SearchStrategy[BipartiteGraph]:
    """Return a strategy for graphs of up to 5 ports and 7 nodes, not all of them with channels."""

    def build(ports: int, nodes: int, mask: int) -> BipartiteGraph:
        ends = [(cell // nodes, cell % nodes) for cell in range(ports * nodes) if mask >> cell & 1]
        return BipartiteGraph(np.ones((ports, 1)), np.ones((nodes, 1)), ends)

    return st.builds(build, st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**35 - 1))


def crossings_of(lines: np.ndarray) -> int:
    """Count crossing lines between two columns by looking at all pairs."""
    ends = lines[:, :, 1]
    return sum(bool((one[0] - other[0]) * (one[1] - other[1]) < 0) for one, other in combinations(ends, 2))


def channels(axes):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == "channels"]
    return found


def segments(axes) -> np.ndarray:
    return np.array(channels(axes).get_segments()).reshape(-1, 2, 2)


def vertices(axes):
    """Return the two collections of discs, ports first."""
    return [collection for collection in axes.collections if collection.get_gid() != "channels"]


def names(axes) -> dict[str, list[float]]:
    return {text.get_text(): list(text.xy) for text in axes.texts}


@for_all(graphs())
def test_crossings_are_counted(graph):
    rng = np.random.default_rng(graph.num_channels)
    ports, nodes = rng.permutation(graph.num_ports), rng.permutation(graph.num_nodes)
    place = {int(port): rank for rank, port in enumerate(ports)}, {int(node): rank for rank, node in enumerate(nodes)}
    ends = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
    lines = np.array([[[0, place[0][port]], [1, place[1][node]]] for port, node in ends]).reshape(-1, 2, 2)
    assert count_crossings(graph, ports, nodes) == crossings_of(lines)


@for_all(graphs())
def test_orders_hold_everything_once_and_cross_no_more(graph):
    ports, nodes = uncrossed_orders(graph)
    assert sorted(ports) == list(range(graph.num_ports)) and sorted(nodes) == list(range(graph.num_nodes))
    given = np.arange(graph.num_ports), np.arange(graph.num_nodes)
    assert count_crossings(graph, ports, nodes) <= count_crossings(graph, *given)


@settings(max_examples=30)
@for_all(st.permutations(range(9)))
def test_stars_and_pairs_do_not_cross(order):
    pairs = BipartiteGraph(np.ones((9, 1)), np.ones((9, 1)), enumerate(order))
    assert count_crossings(pairs, *uncrossed_orders(pairs)) == 0
    stars = BipartiteGraph(np.ones((3, 1)), np.ones((9, 1)), [(leaf % 3, node) for leaf, node in enumerate(order)])
    assert count_crossings(stars, *uncrossed_orders(stars)) == 0


def test_sorting_is_worth_it():
    given = count_crossings(LARGE, np.arange(10), np.arange(128))
    assert count_crossings(LARGE, *uncrossed_orders(LARGE)) < 0.7 * given


@settings(max_examples=15, deadline=None)
@for_all(graphs())
def test_lines_join_the_vertices_of_channels(graph):
    axes = bipartite_drawing(graph)
    ports, nodes = (collection.get_offsets() for collection in vertices(axes))
    assert len(ports) == graph.num_ports and len(nodes) == graph.num_nodes
    assert len({*map(tuple, ports.tolist())}) == len(ports) and len({*map(tuple, nodes.tolist())}) == len(nodes)
    lines = segments(axes)
    assert lines[:, 0].tolist() == ports[graph.channel_port].tolist()
    assert lines[:, 1].tolist() == nodes[graph.channel_node].tolist()
    assert crossings_of(lines) == count_crossings(graph, *uncrossed_orders(graph))


def test_names_stand_at_their_vertices():
    axes = bipartite_drawing(SMALL)
    ports, nodes = (collection.get_offsets().tolist() for collection in vertices(axes))
    assert names(axes) == dict(zip((*SMALL.ports, *SMALL.nodes), ports + nodes, strict=True))
    assert {place[0] for place in ports} == {0.0} and {place[0] for place in nodes} == {1.0}
    assert set(names(bipartite_drawing(LARGE))) == set(LARGE.ports)


def test_lines_are_those_of_networkx():
    import desim.problems.multiserver as multiserver

    graph = multiserver.to_networkx(SMALL)
    found = {frozenset(map(tuple, line)) for line in segments(bipartite_drawing(SMALL)).tolist()}
    places = names(bipartite_drawing(SMALL))
    assert found == {frozenset((tuple(places[one]), tuple(places[other]))) for one, other in graph.edges}
    assert nx.is_bipartite(graph)


@pytest.mark.parametrize("resource", [None, "cpu", "gpu"])
def test_areas_are_in_proportion(resource):
    axes = bipartite_drawing(SMALL, resource=resource)
    if resource is None:
        wanted = np.bincount(SMALL.channel_port), np.bincount(SMALL.channel_node)
    else:
        column = SMALL.resources.index(resource)
        wanted = SMALL.requests[:, column], SMALL.capacity[:, column]
    for collection, sizes in zip(vertices(axes), wanted, strict=True):
        areas = collection.get_sizes()
        some = sizes > 0
        assert areas[some] / areas.max() == pytest.approx(sizes[some] / sizes.max())
        assert (areas[~some] <= areas[some].min()).all()


def test_amounts_widen_lines():
    axes = bipartite_drawing(SMALL, allocation=GIVEN, resource="cpu")
    widths = np.asarray(channels(axes).get_linewidths())
    amounts = GIVEN[:, 0]
    assert amounts[0] == 0.0 and (amounts[1:] > 0).all()
    assert widths == pytest.approx(widths[0] + (widths.max() - widths[0]) * amounts / amounts.max())
    assert widths[0] < widths[1:].min()
    grey = to_rgba("#C8C8C8")[:3]
    assert [tuple(color[:3]) == grey for color in channels(axes).get_colors().tolist()] == [True] + [False] * 7


def test_without_a_resource_a_width_is_the_mean_share_of_the_request():
    axes = bipartite_drawing(SMALL, allocation=GIVEN)
    widths = np.asarray(channels(axes).get_linewidths())
    shares = []
    for channel, port in enumerate(SMALL.channel_port):
        asked = [resource for resource in range(2) if SMALL.requests[port, resource] > 0]
        shares.append(np.mean([GIVEN[channel, resource] / SMALL.requests[port, resource] for resource in asked]))
    widened = (widths - 0.3)[1:] / (widths - 0.3)[-1]
    assert widened == pytest.approx(np.array(shares)[1:] / shares[-1])


def test_nodes_are_the_darker_the_more_they_have_given():
    nodes = vertices(bipartite_drawing(SMALL, allocation=GIVEN, resource="cpu"))[1]
    shares = [GIVEN[SMALL.channel_node == node, 0].sum() / SMALL.capacity[node, 0] for node in range(5)]
    assert nodes.get_facecolors() == pytest.approx(share_colors()(shares))
    nodes = vertices(bipartite_drawing(SMALL, allocation=GIVEN))[1]
    both = np.array([GIVEN[SMALL.channel_node == node].sum(axis=0) for node in range(5)])
    largest = np.divide(both, SMALL.capacity, out=np.zeros_like(both), where=SMALL.capacity > 0).max(axis=1)
    assert nodes.get_facecolors() == pytest.approx(share_colors()(largest))


def test_darker_means_more():
    red, green, blue = share_colors()(np.linspace(0.0, 1.0, 50))[:, :3].T
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert (np.diff(luminance) < 0).all() and luminance[0] == pytest.approx(1.0)


def test_channels_have_the_colours_of_their_ports():
    axes = bipartite_drawing(LARGE)
    colors = vertices(axes)[0].get_facecolors()
    assert channels(axes).get_colors()[:, :3].tolist() == colors[LARGE.channel_port][:, :3].tolist()
    ranked = colors[np.argsort(vertices(axes)[0].get_offsets()[:, 1])]
    assert (ranked[1:] != ranked[:-1]).any(axis=1).all()


def test_many_nodes_stand_in_columns():
    axes = bipartite_drawing(some_rewards(4, 600).graph)
    places = vertices(axes)[1].get_offsets()
    assert len(set(places[:, 0])) > 1 and (places[:, 0] >= 1.0).all() and places[:, 0].max() < axes.get_xlim()[1]
    assert len(set(places[:, 1])) == 600 and places[:, 1].min() > 0.0 and places[:, 1].max() < 1.0
    assert len(set(vertices(bipartite_drawing(LARGE))[1].get_offsets()[:, 0])) == 1


@pytest.mark.parametrize("graph", [SMALL, LARGE, some_rewards(40, 40).graph], ids=["small", "large", "many names"])
@pytest.mark.parametrize("resource", [None, "gpu"])
def test_names_have_their_own_places(graph, resource):
    figure = bipartite_drawing(graph, allocation=0.1 * graph.channel_requests, resource=resource).figure
    figure.draw_without_rendering()
    axes, bar = figure.axes
    texts = [*axes.texts, axes._right_title, bar.yaxis.label]
    boxes = [text.get_window_extent() for text in texts]
    for text, box in zip(texts, boxes, strict=True):
        inside = figure.bbox.padded(1.0)
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1, f"{text.get_text()!r} is cut off"
        assert inside.y0 <= box.y0 and box.y1 <= inside.y1, f"{text.get_text()!r} is cut off"
    for one, other in combinations(boxes, 2):
        wide, high = min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(wide, high) < 1.0


def test_odd_names_and_axes_of_the_caller():
    graph = BipartiteGraph([[1.0]], [[1.0]], ports=["$x"], nodes=["y$" * 20], resources=["c$u$"])
    mine = Figure().subplots()
    assert bipartite_drawing(graph, allocation=[[0.0]], resource="c$u$", axes=mine) is mine
    mine.figure.draw_without_rendering()
    assert list(names(mine)) == ["$x", ("y$" * 20)[:23] + "…"]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InvalidConfiguration, match="graph is 3, want a BipartiteGraph"):
        bipartite_drawing(3)
    with pytest.raises(InvalidConfiguration, match="resource is 'fpga', want one of 'cpu', 'gpu'"):
        bipartite_drawing(SMALL, resource="fpga")
    with pytest.raises(InvalidConfiguration, match=r"shape \(7, 2\), want \(8, 2\)"):
        bipartite_drawing(SMALL, allocation=GIVEN[:7])
    with pytest.raises(InvalidConfiguration, match=r"from batch to d is \[nan, 1.0\]"):
        bipartite_drawing(SMALL, allocation=np.where(np.arange(16).reshape(8, 2) == 6, np.nan, 1.0))
    with pytest.raises(InvalidConfiguration, match="not an array of numbers"):
        bipartite_drawing(SMALL, allocation="much")
