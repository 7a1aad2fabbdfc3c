"""Drawings of the bipartite graph of job types and computing instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._crossings import uncrossed_orders
from desim.plotting._panels import given_or_new_panels, panel_pixels, set_titles
from desim.plotting._share_colors import share_colors
from desim.plotting._style import POLICY_COLORS
from desim.problems.multiserver import BipartiteGraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bipartite_drawing"]

Floats = NDArray[np.float64]

#: More vertices on a side have no names.
MOST_NAMED = 40
#: Nodes that are closer than this, in points, stand in several columns, so far apart.
CLOSEST, COLUMN_WIDTH = 3.4, 0.02
#: The largest area of a vertex in square points, and the largest width of a channel in points.
LARGEST, WIDEST = 260.0, 5.0
IDLE = "#C8C8C8"


class _Sizes(NamedTuple):
    """What areas, widths and colours stand for."""

    ports: Floats
    nodes: Floats
    channels: Floats | None
    shares: Floats | None
    remark: str
    label: str


def bipartite_drawing(
    graph: BipartiteGraph,
    *,
    allocation: ArrayLike | None = None,
    resource: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw ports on the left, nodes on the right, and the channels between them.

    Both sides are sorted such that few channels cross. A channel has the colour of its port; colours
    repeat, neighbours differ. With an allocation, a channel is the wider the more flows through it,
    grey if nothing does, and a node is the darker the more it has given away.

    Parameters
    ----------
    graph : BipartiteGraph
        What is drawn.
    allocation : array_like of shape (num_channels, num_resources), optional
        What each node gives to each port.
    resource : str, optional
        The resource that is shown: areas are then requests of ports and capacities of nodes, and widths are amounts.
        Without it areas are numbers of channels, a width is the mean over the resources of what a channel carries as
        a share of the request, and a node's colour its largest share over the resources.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        Ports stand at x = 0, nodes at x = 1, or to the left and to the right of that where there are many; y goes down
        from 0 to 1. The channels are a LineCollection, in the order of the graph.

    Raises
    ------
    InvalidConfiguration
        If there is no such resource, or the allocation does not fit the graph.

    Examples
    --------
    >>> from desim.problems.multiserver import BipartiteGraph
    >>> graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], [(0, 0), (1, 0), (1, 1)], resources=["cpu"])
    >>> axes = bipartite_drawing(graph, allocation=[[2.0], [1.0], [1.0]], resource="cpu")
    >>> axes.get_title("right")
    'area: cpu requested, capacity; width: cpu given'
    """
    if not isinstance(graph, BipartiteGraph):
        raise InvalidConfiguration(f"graph is {graph!r}, want a BipartiteGraph")
    sizes = _sizes(graph, None if allocation is None else _check(graph, allocation), resource)
    longest = max(graph.num_ports, graph.num_nodes)
    (panel,), _ = given_or_new_panels(axes, 1, width=7.5, height=min(max(0.4 * longest, 2.0), 8.0))
    ports, nodes = uncrossed_orders(graph)
    room = panel_pixels(panel)[1] * 0.72  # in points
    port_places, node_places = _places(ports, 0.0, room), _places(nodes, 1.0, room)
    colors = _port_colors(ports)
    lines = np.stack([port_places[graph.channel_port], node_places[graph.channel_node]], axis=1)
    _draw_channels(panel, lines, colors[graph.channel_port], sizes.channels)
    _draw_vertices(panel, port_places, sizes.ports, colors, room)
    faces: Any = IDLE if sizes.shares is None else _shade(panel, sizes.shares, sizes.label)
    _draw_vertices(panel, node_places, sizes.nodes, faces, room)
    _name(panel, graph.ports, port_places, "right")
    _name(panel, graph.nodes, node_places, "left")
    panel.set_axis_off()
    panel.set_xlim(-0.06, max(1.0, float(node_places[:, 0].max())) + 0.06)
    panel.set_ylim(1.0, 0.0)
    set_titles(panel, "", sizes.remark)
    return panel


def _check(graph: BipartiteGraph, allocation: ArrayLike) -> Floats:
    try:
        amounts = np.asarray(allocation, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"allocation is not an array of numbers: {error}") from error
    if amounts.shape != graph.shape:
        raise InvalidConfiguration(f"allocation has shape {amounts.shape}, want {graph.shape}: channels, resources")
    if not ((amounts >= 0) & (amounts < np.inf)).all():
        channel = int(np.argwhere(~((amounts >= 0) & (amounts < np.inf)))[0, 0])
        port, node = graph.ports[graph.channel_port[channel]], graph.nodes[graph.channel_node[channel]]
        raise InvalidConfiguration(
            f"allocation of the channel from {port} to {node} is {amounts[channel].tolist()}, want at least 0"
        )
    return amounts


def _sizes(graph: BipartiteGraph, allocation: Floats | None, resource: str | None) -> _Sizes:
    """Return what is shown of a resource, or of all."""
    if resource is not None and resource not in graph.resources:
        raise InvalidConfiguration(f"resource is {resource!r}, want one of {', '.join(map(repr, graph.resources))}")
    if resource is None:
        chosen = list(range(graph.num_resources))
        ports = np.bincount(graph.channel_port, minlength=graph.num_ports).astype(np.float64)
        nodes = np.bincount(graph.channel_node, minlength=graph.num_nodes).astype(np.float64)
        remark, width, label = "area: channels", "mean share of the request", "resource given away most"
    else:
        chosen = [graph.resources.index(resource)]
        ports, nodes = graph.requests[:, chosen[0]], graph.capacity[:, chosen[0]]
        remark, width, label = f"area: {resource} requested, capacity", f"{resource} given", f"{resource} given away"
    if allocation is None:
        return _Sizes(ports, nodes, None, None, remark, "")
    amounts = allocation[:, chosen]
    shares = _divide(graph.node_sums(amounts), graph.capacity[:, chosen]).max(axis=1, initial=0.0)
    if resource is None:
        requests = graph.channel_requests
        amounts = _divide(amounts, requests).sum(axis=1) / np.maximum((requests > 0).sum(axis=1), 1)
    label = f"{label}\n(% of the node's)".replace("$", r"\$")
    return _Sizes(ports, nodes, amounts.ravel(), shares, f"{remark}; width: {width}", label)


def _divide(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _places(order: NDArray[np.int64], side: float, room: float) -> Floats:
    """Return x and y of each vertex; if there is little room, the vertices stand in several columns."""
    columns = int(np.ceil(CLOSEST * len(order) / room))
    places = np.empty((len(order), 2))
    places[order, 0] = side + np.sign(side - 0.5) * COLUMN_WIDTH * (np.arange(len(order)) % columns)
    places[order, 1] = (np.arange(len(order)) + 0.5) / len(order)
    return places


def _port_colors(order: NDArray[np.int64]) -> Floats:
    """Return the colours of ports, such that neighbours in the drawing differ."""
    from matplotlib.colors import to_rgba_array

    palette = to_rgba_array(POLICY_COLORS)
    colors = np.empty((len(order), 4))
    colors[order] = palette[np.arange(len(order)) % len(palette)]
    return colors


def _draw_channels(axes: Axes, lines: Floats, tints: Floats, amounts: Floats | None) -> None:
    """Draw lines in the tints of their ports, wide in proportion to amounts; many lines are translucent."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    tints[:, 3] = opacity = min(max(500.0 / max(len(lines), 1), 0.15), 0.6)
    thin, wide = (1.2, WIDEST) if len(lines) <= 100 else (0.7, 0.6 * WIDEST)
    widths = np.full(len(lines), thin)
    if amounts is not None:
        widths = 0.3 + wide * _relative(amounts)
        tints[amounts <= 0] = to_rgba(IDLE, opacity)
    axes.add_collection(LineCollection(list(lines), linewidths=widths, colors=tints, zorder=1.0, gid="channels"))


def _draw_vertices(axes: Axes, places: Floats, sizes: Floats, colors: Any, room: float) -> None:
    """Draw discs whose areas are in proportion, the largest such that neighbours hardly touch."""
    largest = min(LARGEST, max(1.1 * room / len(places), 2.2) ** 2)
    many = len(places) > MOST_NAMED
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=np.maximum(_relative(sizes), 0.04) * largest,
        c=colors,
        edgecolors="#333333",
        linewidths=0.3 if many else 0.8,
        zorder=2.0,
        clip_on=False,
    )


def _relative(sizes: Floats) -> Floats:
    return sizes / (sizes.max(initial=0.0) or 1.0)


def _shade(axes: Axes, shares: Floats, label: str) -> Any:
    """Return the colours of shares, and explain them beside the panel."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    from desim.plotting._time_axis import color_bar

    scale = ScalarMappable(Normalize(0.0, 100.0), share_colors())
    color_bar([axes], scale, label)
    return scale.to_rgba(100.0 * shares)


def _name(axes: Axes, names: tuple[str, ...], places: Floats, side: str) -> None:
    """Write names beside the vertices, unless there are too many."""
    if len(names) > MOST_NAMED:
        return
    for name, place in zip(names, places, strict=True):
        axes.annotate(
            name if len(name) <= 24 else name[:23] + "…",
            place,
            xytext=(-12.0 if side == "right" else 12.0, 0.0),
            textcoords="offset points",
            ha=side,
            va="center",
            fontsize=9 if len(names) <= 20 else 7,
            parse_math=False,
        )
