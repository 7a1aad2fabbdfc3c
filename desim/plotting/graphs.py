"""Layered drawings of graphs from left to right, with few crossing edges and marks that fit the available room.

Source: Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE
Transactions on Systems, Man, and Cybernetics 11(2), 1981: longest-path layers, a dummy vertex in each layer that an
edge crosses, barycentres. Positions within the layers are then as close to those of the neighbours as the order allows,
by least squares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CHARACTER",
    "EMPHASIS",
    "Layout",
    "NodeSpacing",
    "draw_discs",
    "draw_edges",
    "draw_rings",
    "lay_out",
    "relative",
    "uncrossed",
    "write_names",
    "write_numbers",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Number of sweeps over the layers for orders, and maximum for positions: more if neighbours are many layers apart.
ROUNDS, MOST_ROUNDS = 24, 120
#: Distance of adjacent vertices in a layer, by the number of dummies among the two.
DISTANCES = np.array([1.0, 0.6, 0.3])
#: Weight of a dummy's straightness relative to a node's, and weight that pulls everything to the middle, so that long
#: graphs do not drift.
STRAIGHT, CENTRAL = 4.0, 0.03

#: Colours of emphasized edges and outlines, of edges, and of outlines.
EMPHASIS, EDGE_COLOR, OUTLINE = "#D55E00", "#9A9A9A", "#404040"
#: Number of points on a bend of an edge.
BEND = 14
#: Smallest area of a disc relative to the largest; smallest and largest diameter in points.
SMALLEST, LEAST, LARGEST = 0.06, 2.2, 30.0
#: Diameter of a second ring minus that of its disc, in widths of the outline.
RING = 7.0
#: Width of a character, height of a name with a number, and smallest diameter around a name, in points.
CHARACTER, TWO_LINES, LEAST_AROUND = 5.2, 21.0, 10.0
#: Number of edges above which edges are thinner.
MOST_WIDE = 50
#: Positions on an edge where a number may be written, as fractions of its first bend.
NUMBER_AT = (0.38, 0.5, 0.3, 0.62)


class Layout(NamedTuple):
    """Positions of nodes and routes of edges.

    Attributes
    ----------
    places : array of shape (num_nodes, 2)
        Layer, and position within it.
    routes : list of array, shape (k, 2)
        Points that each edge passes through, including both ends.
    """

    places: Floats
    routes: list[Floats]


def lay_out(num_nodes: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Return a layout of a directed acyclic graph.

    A node is in the layer given by the longest path to it; a node without parents is just before its first child.

    Parameters
    ----------
    num_nodes : int
        Number of nodes; they are 0, 1, ...
    edges : sequence of (int, int)
        Parent and child of each edge.

    Returns
    -------
    Layout
        Layout in the order of nodes and edges, deterministic. Positions within a layer are at least 1 apart.
    """
    import networkx as nx

    graph = nx.empty_graph(num_nodes, create_using=nx.DiGraph)
    graph.add_edges_from(edges)
    layers = [0] * num_nodes
    for number, generation in enumerate(nx.topological_generations(graph)):
        for node in generation:
            layers[node] = number
    for node in graph:
        if not graph.in_degree(node) and graph.out_degree(node):
            layers[node] = min(layers[child] for child in graph.successors(node)) - 1
    chains: list[list[int]] = []
    for parent, child in edges:  # with a dummy in each layer that the edge crosses
        between = range(layers[parent] + 1, layers[child])
        chains.append([parent, *range(len(layers), len(layers) + len(between)), child])
        layers += between
    layer = np.array(layers, dtype=np.int64)
    links = np.array([link for chain in chains for link in pairwise(chain)], dtype=np.int64).reshape(-1, 2)
    heights = _heights(layer, links, uncrossed(layer, links), num_nodes)
    places = np.column_stack([layer, heights]).astype(np.float64)
    return Layout(places[:num_nodes], [places[chain] for chain in chains])


def uncrossed(layer: Indices, links: Indices) -> list[Indices]:
    """Return the vertices of each layer, sorted so that few links cross, by barycentres from left and right in turn.

    The best order of several rounds is returned; finding the optimum is NP-hard.

    Parameters
    ----------
    layer : array of int, shape (num_vertices,)
        Layer of each vertex, from 0.
    links : array of int, shape (num_links, 2)
        Pairs of linked vertices in adjacent layers, the left one first.

    Returns
    -------
    list of array
        Vertices of each layer from top to bottom.
    """
    orders = [np.flatnonzero(layer == number) for number in range(int(layer.max(initial=0)) + 1)]
    rank = np.empty(len(layer))
    for order in orders:
        rank[order] = np.arange(len(order))
    best, fewest = list(orders), _crossings(layer, links, rank)
    for round_number in range(ROUNDS):
        if not fewest:
            break
        forward = round_number % 2 == 0
        far, near = links.T if forward else links.T[::-1]
        for number in range(len(orders)) if forward else reversed(range(len(orders))):
            chosen = layer[near] == number
            means = _means(near[chosen], rank[far[chosen]], rank)
            orders[number] = orders[number][np.argsort(means[orders[number]], kind="stable")]
            rank[orders[number]] = np.arange(len(orders[number]))
        crossings = _crossings(layer, links, rank)
        if crossings < fewest:
            best, fewest = list(orders), crossings
    return best


def _means(ends: Indices, values: Floats, default: Floats) -> Floats:
    """Return the mean value at each vertex, or the default if it has none."""
    count = np.bincount(ends, minlength=len(default))
    total = np.bincount(ends, weights=values, minlength=len(default))
    means: Floats = np.divide(total, count, out=default.copy(), where=count > 0)
    return means


def _crossings(layer: Indices, links: Indices, rank: Floats) -> int:
    """Return the number of pairs of links that cross."""
    count = 0
    begin, end = links.T
    for number in range(int(layer.max(initial=0))):
        chosen = layer[begin] == number
        left, right = rank[begin[chosen]].astype(np.int64), rank[end[chosen]].astype(np.int64)
        joined = np.zeros((left.max(initial=0) + 1, right.max(initial=0) + 1), dtype=np.int64)
        np.add.at(joined, (left, right), 1)
        above = joined.cumsum(axis=1) - joined
        count += int((joined * (above[::-1].cumsum(axis=0)[::-1] - above)).sum())
    return count


def _heights(layer: Indices, links: Indices, orders: list[Indices], num_nodes: int) -> Floats:
    """Return positions within the layers: close to the neighbours on both sides, and to the middle."""
    from scipy.optimize import isotonic_regression

    height = np.empty(len(layer))
    closest = []  # positions of the vertices of a layer at minimum distances
    for order in orders:
        dummies = (order >= num_nodes).astype(np.int64)
        closest.append(np.concatenate([[0.0], DISTANCES[dummies[1:] + dummies[:-1]].cumsum()]))
        height[order] = closest[-1] - closest[-1].mean()
    ends, others = np.concatenate([links, links[:, ::-1]]).T
    chosen = [layer[ends] == number for number in range(len(orders))]
    for number in range(min(max(ROUNDS, 2 * len(orders)), MOST_ROUNDS)):
        for place in range(len(orders)) if number % 2 == 0 else reversed(range(len(orders))):
            order = orders[place]
            wanted = (1.0 - CENTRAL) * _means(ends[chosen[place]], height[others[chosen[place]]], height)[order]
            weights = np.where(order < num_nodes, 1.0, STRAIGHT)
            height[order] = isotonic_regression(wanted - closest[place], weights=weights).x + closest[place]
    height -= height.min(initial=np.inf)
    return height


class NodeSpacing(NamedTuple):
    """Available room in points.

    Attributes
    ----------
    wide, high : float
        Distance of adjacent layers, and of adjacent nodes in a layer.
    noted : bool
        Whether nodes have a name above and a number below.
    """

    wide: float
    high: float
    noted: bool

    @property
    def diameter(self) -> float:
        """Diameter of the largest disc."""
        free = self.high - TWO_LINES if self.noted else 0.72 * self.high
        return max(min(0.45 * self.wide, free, LARGEST), LEAST)

    def diameters(self, sizes: Floats) -> Floats:
        """Return the diameters of discs with areas proportional to sizes."""
        shares = relative(sizes) if sizes.any() else np.full(len(sizes), 0.5)
        found: Floats = np.maximum(self.diameter * np.sqrt(np.maximum(shares, SMALLEST)), LEAST)
        return found


def relative(sizes: Floats) -> Floats:
    """Return sizes divided by the largest; 0 if all are 0."""
    return sizes / (sizes.max(initial=0.0) or 1.0)


def draw_edges(axes: Axes, layout: Layout, sizes: Floats, strong: Mask, room: NodeSpacing) -> None:
    """Draw edges as bent lines with widths proportional to sizes, some of them emphasized."""
    from matplotlib.collections import LineCollection

    widest = min(max(0.22 * room.diameter, 0.8), 4.5) * min(1.0, (MOST_WIDE / max(len(sizes), 1)) ** 0.5)
    widths = 0.4 + widest * relative(sizes)
    opacity = min(max(600.0 / max(len(sizes), 1), 0.3), 1.0)
    least = min(0.08 * room.diameter + 0.6, 1.8)
    lines = [_bent(route) for route in layout.routes]
    for chosen, name, look in (
        (~strong, "edges", {"linewidths": widths, "colors": EDGE_COLOR, "alpha": opacity, "zorder": 1.0}),
        (strong, "critical edges", {"linewidths": np.maximum(widths, least), "colors": EMPHASIS, "zorder": 1.5}),
    ):
        look["linewidths"] = look["linewidths"][chosen]
        shown = [line for line, wanted in zip(lines, chosen.tolist(), strict=True) if wanted]
        axes.add_collection(LineCollection(shown, capstyle="butt", gid=name, **look), autolim=False)


def _bent(route: Floats) -> Floats:
    """Return a smooth line through points, horizontal where it leaves and enters each layer."""
    share = np.linspace(0.0, 1.0, BEND)
    smooth = share * share * (3.0 - 2.0 * share)
    starts, steps = route[:-1, None, :], np.diff(route, axis=0)[:, None, :]
    line: Floats = (starts + steps * np.stack([share, smooth], axis=1)).reshape(-1, 2)
    return line


def draw_discs(axes: Axes, places: Floats, diameters: Floats, faces: Any, strong: Mask | None = None) -> None:
    """Draw discs of given diameters in points, with emphasized outlines for some."""
    thick = _outline(diameters)
    bold = np.zeros(len(places), dtype=np.bool_) if strong is None else strong
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=diameters**2,
        c=faces,
        edgecolors=[EMPHASIS if emphasised else OUTLINE for emphasised in bold.tolist()],
        linewidths=np.where(bold, 2.2 * thick, thick).tolist(),
        zorder=3.0,
        clip_on=False,
        gid="nodes",
    )


def draw_rings(axes: Axes, places: Floats, diameters: Floats, doubled: Mask) -> Floats:
    """Draw a second ring around some discs; return the diameters including the rings."""
    thick = _outline(diameters)
    rings = diameters + RING * thick
    look: dict[str, Any] = {"facecolors": "none", "edgecolors": "#000000", "linewidths": thick, "clip_on": False}
    if doubled.any():
        axes.scatter(
            places[doubled, 0], places[doubled, 1], s=rings[doubled] ** 2, zorder=3.1, gid="duplicated", **look
        )
    return np.where(doubled, rings, diameters)


def _outline(diameters: Floats) -> float:
    """Return the width of outlines."""
    return float(min(max(0.07 * diameters.max(), 0.3), 1.0))


def write_names(axes: Axes, places: Floats, names: Sequence[str], notes: Sequence[str], diameters: Floats) -> None:
    """Write names into discs, or above them if they do not fit; notes go below.

    Parameters
    ----------
    axes : Axes
        Panel to draw on.
    places : array of shape (n, 2)
        Centres of the discs.
    names, notes : sequence of str
        Texts to write; empty for none.
    diameters : array of shape (n,)
        Diameters of the discs, in points.
    """
    inside = CHARACTER * max(map(len, names), default=0) + 2.0 <= np.median(diameters)
    for place, name, note, diameter in zip(places, names, notes, diameters.tolist(), strict=True):
        common: dict[str, Any] = {"ha": "center", "textcoords": "offset points", "parse_math": False, "zorder": 4.0}
        fits = inside and diameter >= max(CHARACTER * len(name) + 2.0, LEAST_AROUND)
        if name:
            up = 0.0 if fits else diameter / 2 + 1.5
            axes.annotate(name, place, xytext=(0.0, up), va="center" if fits else "bottom", fontsize=7.5, **common)
        if note:
            down = -diameter / 2 - 1.5
            axes.annotate(note, place, xytext=(0.0, down), va="top", fontsize=6.5, color="#555555", **common)


def write_numbers(axes: Axes, layout: Layout, sizes: Floats, colors: Iterable[str], room: NodeSpacing) -> None:
    """Write sizes > 0 on edges, on a white background, as far as possible from earlier numbers and from nodes."""
    scale = np.array([room.wide, room.high])
    taken = layout.places * scale
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6.5, "parse_math": False, "zorder": 2.0}
    for route, size, color in zip(layout.routes, sizes.tolist(), colors, strict=True):
        if not size:
            continue
        line = _bent(route[:2])
        spots = line[[round(at * (BEND - 1)) for at in NUMBER_AT]]
        apart = [np.hypot(*((taken - spot * scale) / (2.0, 1.0)).T).min() for spot in spots]
        near = [index for index, distance in enumerate(apart) if distance >= CHARACTER * 1.7]
        spot = spots[near[0] if near else int(np.argmax(apart))]
        taken = np.vstack([taken, spot * scale])
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.annotate(f"{size:.3g}", tuple(spot), color=color, bbox=ground, **look)
