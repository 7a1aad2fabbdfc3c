"""Figures of multi-server runs: rewards, use of resources by node and over time, and the graph itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.formatting import nice_count, shortened
from desim.plotting.axes import (
    add_legend,
    beside,
    class_axis,
    color_bar,
    group_digits,
    label_panels,
    literal,
    new_panels,
    panel_pixels,
    plain,
    set_titles,
    slot_axis,
)
from desim.plotting.colors import DOWN_COLOR, POLICY_COLORS, line_styles, rgba
from desim.plotting.curves import bin_edges, bin_means, draw_curves, slots_together
from desim.plotting.graphs import draw_discs, relative, uncrossed
from desim.plotting.maps import draw_map, integrals, share_scale
from desim.plotting.runs import (
    Results,
    Window,
    chosen_resource,
    load_runs,
    one_panel_a_run,
    resources_of,
    span_of,
    title_of,
)
from desim.problem import Figure, ReportText
from desim.problems.multiserver.graph import BipartiteGraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.result import Result

__all__ = [
    "FIGURES",
    "WORDS",
    "allocation_map",
    "average_reward",
    "bipartite_drawing",
    "cumulative_reward",
    "resource_utilization",
    "reward_parts",
    "reward_ratio",
    "shares_of_nodes",
]

Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]

PARTS = ("gain", "overhead", "reward")
#: Largest number of runs whose bars have numbers.
MOST_NUMBERED = 7
#: Largest number of points drawn per curve.
MOST_POINTS = 3_000
#: Largest numbers of rows and columns of a map; more nodes, ports or slots share them.
MOST_ROWS, MOST_COLUMNS = 128, 300
#: Height of a line of the legend, in inches.
LEGEND_LINE = 0.19

#: Largest number of named vertices on a side.
MOST_NAMED = 40
#: Smallest distance of nodes in points; closer ones are spread over several columns of this width.
CLOSEST, COLUMN_WIDTH = 3.4, 0.02
#: Largest area of a vertex in square points, and largest width of a channel in points.
LARGEST, WIDEST = 260.0, 5.0
IDLE = "#C8C8C8"


def _slots(result: Result) -> tuple[float, float]:
    """Return the time range of a run in slots; if jobs last one slot, all begun slots are complete."""
    end = result.info.get("end_time") if result.info["holding"] else None
    return 0.0, float(len(result.table("slots")) if end is None else end)


def average_reward(results: Results, *, window: Window = None, axes: Axes | None = None) -> Axes:
    """Draw the mean reward of the slots so far.

    After t slots, it is the sum of their rewards divided by t: figure 2(a) of arXiv 2305.06572. If jobs hold
    resources, the reward of a slot is the time average over the running jobs.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    window : (int, int), optional
        Slots to show, from the first to before the second.
    axes : Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    Axes
        The axes. The mean of the slots 0 to t is at t + 1, the end of slot t. For very many slots, not every point is
        drawn.

    Raises
    ------
    InvalidConfiguration
        If the results do not come from ``multiserver``, or the window is invalid.
    """
    runs = load_runs(results, "multiserver")
    return _draw_rewards(runs, [_averages(run) for run in runs], "average reward per slot", axes, window=window)


def cumulative_reward(results: Results, *, window: Window = None, axes: Axes | None = None) -> Axes:
    """Draw the sum of the rewards of the slots so far, figure 2(b) of arXiv 2305.06572.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    window : (int, int), optional
        Slots to show, from the first to before the second.
    axes : Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    Axes
        The axes. The sum of the slots 0 to t is at t + 1, the end of slot t. For very many slots, not every point is
        drawn.

    Raises
    ------
    InvalidConfiguration
        If the results do not come from ``multiserver``, or the window is invalid.
    """
    runs = load_runs(results, "multiserver")
    curves = [(times, means * times) for times, means in map(_averages, runs)]
    return _draw_rewards(runs, curves, "cumulative reward", axes, window=window)


def reward_ratio(results: Mapping[str, Result], *, of: str, axes: Axes | None = None) -> Axes:
    """Draw the ratio of one run's average reward to that of each other run, over the slots so far.

    Figure 2(c) of arXiv 2305.06572. A curve has the colour of the other run.

    Parameters
    ----------
    results : mapping of str to Result
        Several runs by name.
    of : str
        Name of the run whose reward is divided by those of the others.
    axes : Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    Axes
        The axes. The ratio after the slots 0 to t is at t + 1, up to the end of the shorter run. There is a gap where
        the average reward of the other run is not above 0. The y axis shows 98 percent of the values, so that extreme
        ratios at the beginning do not stretch it.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results do not come from ``multiserver``.
    """
    runs = load_runs(results, "multiserver")
    names = [run.name for run in runs]
    if of not in names or len(runs) < 2:
        raise InvalidConfiguration(f"of: got {of!r}, expected one of at least two runs: {', '.join(names)}")
    times, above = _averages(runs[names.index(of)])
    curves = []
    for run in runs:
        if run.name != of:
            below = _averages(run)[1][: len(above)]
            gaps = np.full(len(below), np.nan)
            curves.append((times[: len(below)], np.divide(above[: len(below)], below, out=gaps, where=below > 0)))
    name = literal(shortened(title_of(runs[names.index(of)]), 25))
    panel = _draw_rewards(runs, curves, f"average reward:\n{name} / other run", axes, without=of)
    panel.axhline(1.0, color="#777777", linewidth=0.8, zorder=1.9, gid="equal")
    ratios = np.concatenate([values for _, values in curves])
    known = np.append(ratios[np.isfinite(ratios)], 1.0)
    low = min(1.0, float(np.percentile(known, 1.0, method="lower")))
    high = max(1.0, float(np.percentile(known, 99.0, method="higher")))
    room = 0.05 * (high - low) or 0.05
    panel.set_ylim(low - room, high + room)
    return panel


def _averages(run: Result) -> Curve:
    """Return the ends of the slots and the mean rewards until then; the run may end within the last slot."""
    rewards, lengths = run.table("slots")["reward"].to_numpy(), slot_lengths(run)
    times = lengths.cumsum()
    return times, np.divide((rewards * lengths).cumsum(), times, out=np.zeros_like(times), where=times > 0)


def slot_lengths(run: Result) -> Floats:
    """Return the length of each slot; if jobs hold resources, the run may end within the last one."""
    ends = np.arange(1.0, len(run.table("slots")) + 1.0)
    return np.minimum(ends, _slots(run)[1]) - (ends - 1.0) if run.info["holding"] else np.ones_like(ends)


def _draw_rewards(
    runs: Sequence[Result],
    curves: Sequence[Curve],
    label: str,
    axes: Axes | None,
    *,
    window: Window = None,
    without: str | None = None,
) -> Axes:
    """Draw curves of rewards, optionally without one run; the axis begins at 0 unless some rewards are negative."""
    (panel,) = new_panels(axes, 1, height=3.2)
    styles = line_styles(run.name for run in runs)
    shown = [run for run in runs if run.name != without]
    thinned = []
    for times, values in curves:
        step = -(-len(times) // MOST_POINTS) or 1  # the last point is always drawn
        thinned.append((times[::-1][::step][::-1], values[::-1][::step][::-1]))
    lines = draw_curves(panel, thinned, [styles[run.name] for run in shown])
    panel.set_ylabel(label)
    group_digits(panel.yaxis)
    slot_axis(panel, *span_of(runs, window, whole=True, span=_slots))
    _name_runs(panel, runs, zip((title_of(run) for run in shown), lines, strict=True))
    values = np.concatenate([values for _, values in curves])
    if values.min(initial=0.0) >= 0.0:
        panel.set_ylim(0.0, 1.05 * values.max(initial=0.0) or 1.0)
    return panel


def _name_runs(panel: Axes, runs: Sequence[Result], entries: Iterable[tuple[str, Any]]) -> None:
    """Name the runs: a single one in the title, several in a legend."""
    set_titles(panel, title_of(runs[0]) if len(runs) == 1 else "")
    add_legend([panel], entries if len(runs) > 1 else [])


def reward_parts(results: Results, *, axes: Axes | None = None) -> Axes:
    """Draw the parts of rewards: means of gain, overhead and their difference, as in figure 6 of arXiv 2305.06572.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, side by side.
    axes : Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    Axes
        The axes, with bars around 0 for the gain by parallel computation, 1 for the communication overhead and 2 for
        the reward; one container of bars per run. A run without slots has no bars.

    Raises
    ------
    InvalidConfiguration
        If the results do not come from ``multiserver``.
    """
    runs = load_runs(results, "multiserver")
    styles = line_styles(run.name for run in runs)
    (panel,) = new_panels(axes, 1, height=3.4)
    bars = []
    for position, run in enumerate(runs):
        lengths, rows = slot_lengths(run), run.table("slots")
        total = lengths.sum()
        means = [float(rows[part].to_numpy() @ lengths) / total if total > 0 else np.nan for part in PARTS]
        shift, width = beside(position, len(runs), share=0.72)
        look: Any = {"color": styles[run.name].color, "hatch": styles[run.name].hatch}
        bars.append(panel.bar(np.arange(len(PARTS)) + shift, means, width, **look))
        if len(runs) <= MOST_NUMBERED and np.isfinite(means).all():
            texts = [f"{mean:,.0f}" if abs(mean) >= 100 else f"{mean:.3g}" for mean in means]
            panel.bar_label(bars[-1], texts, fontsize=7, padding=1)
    plain(panel, grid="y")
    panel.axhline(0.0, color="black", linewidth=0.8)
    class_axis(panel, PARTS)
    panel.set_ylabel("mean per slot")
    group_digits(panel.yaxis)
    _name_runs(panel, runs, zip((title_of(run) for run in runs), bars, strict=True))
    return panel


def resource_utilization(results: Results, *, window: Window = None, axes: Iterable[Axes] | None = None) -> list[Axes]:
    """Draw the share of each resource that jobs hold over time, one panel per resource.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, on clusters with the same resources.
    window : (int, int), optional
        Slots to show, from the first to before the second.
    axes : iterable of Axes, optional
        Axes to draw on, one per resource; default: a new figure.

    Returns
    -------
    list of Axes
        One per resource, in the order of the graph, in percent of the capacity of all nodes. Slot t reaches from t to
        t + 1; the last value is repeated at the end of its slot. For more than 150 slots, means over bins are drawn. A
        resource without capacity has no curve.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, the results do not come from ``multiserver``, or the resources differ.
    """
    runs = load_runs(results, "multiserver")
    resources = resources_of(runs[0])
    for run in runs:
        if resources_of(run) != resources:
            raise InvalidConfiguration(
                f"results[{run.name!r}]: resources: got {resources_of(run)}, expected {resources} as in the first run"
            )
    span = span_of(runs, window, whole=True, span=_slots)
    width = slots_together(span, most=150, bins=100)
    styles = [*line_styles(run.name for run in runs).values()]
    height = 1.6 + LEGEND_LINE * len(runs) / -(-len(resources) // 2)
    panels = new_panels(axes, len(resources), height=height, columns=min(2, len(resources)))
    for index, (panel, resource) in enumerate(zip(panels, resources, strict=True)):
        curves = [_used(run, resource, index, width, span) for run in runs]
        lines = draw_curves(panel, curves, styles, stepped=True)
        slot_axis(panel, *span)
        group_digits(panel.yaxis)
        panel.set_ylim(0.0, 105.0)
        panel.set_ylabel("in use (%)" if index % 2 == 0 or axes is not None else "")
        there = any(run.info["total_capacity"][index] for run in runs)
        remark = (f"means over {width} slots" if width > 1 else "") if there else "no node has it"
        set_titles(panel, shortened(resource, 40), remark)
    add_legend(panels, zip((title_of(run) for run in runs), lines, strict=True))
    label_panels(panels)
    return panels


def _used(run: Result, resource: str, index: int, width: int, span: tuple[float, float]) -> Curve:
    """Return the beginnings of bins and their means, in percent of the capacity; the last mean is repeated."""
    capacity, slots = float(run.info["total_capacity"][index]), run.table("slots")
    edges = bin_edges(span[0], min(span[1], float(len(slots))), width)
    if not len(edges) or not capacity > 0:
        return np.zeros(0), np.zeros(0)
    means = 100.0 * bin_means(slots[f"allocated_{resource}"].to_numpy(), edges) / capacity
    return edges, np.append(means, means[-1])


class _Grid(NamedTuple):
    """Means over rows and bins: percent of a capacity (NaN if that is 0), or amounts.

    Attributes
    ----------
    values : array of shape (rows, bins)
        Means.
    edges : array of shape (bins + 1,)
        Edges of the bins; empty if there are none.
    names : list of str
        Name of the first node or port of each row.
    remark : str
        Description of what a cell averages over.
    """

    values: Floats
    edges: Floats
    names: list[str]
    remark: str


@one_panel_a_run
def allocation_map(
    results: Results,
    resource: str | None = None,
    *,
    by: Literal["node", "port"] = "node",
    window: Window = None,
    axes: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw a map of how much of a resource the jobs of a multi-server cluster hold, by node and slot.

    A row is a node, in the order of the graph, and a column a slot. A cell is the darker, the larger the share of the
    node's capacity that jobs hold. White is nothing, and nodes without the resource are grey. Amounts reserved at ports
    without a job do not count. If there are many slots or nodes, a cell shows a mean. If allocations were recorded only
    at an interval of several slots, each is drawn until the next one.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same colours.
    resource : str, optional
        Name of the resource; default: the first one.
    by : {"node", "port"}
        Meaning of a row. For ``"port"``, the colour is the amount that the jobs of the port hold.
    window : (int, int), optional
        Slots to show, from the first to before the second.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1, row i from i - 0.5 to i + 0.5.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, the results do not come from ``multiserver``, or they do not include the
        allocations of all jobs.

    Examples
    --------
    >>> import numpy as np
    >>> from desim.agents.multiserver import Fairness
    >>> from desim import simulate
    >>> from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
    >>> graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], resources=["cpu"])
    >>> cluster = MultiServerCluster(RewardModel(graph, "log"), np.ones((5, 2), dtype=bool))
    >>> axes = allocation_map(simulate(cluster, Fairness()), "cpu")
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('slot', 'node')
    """
    check_choice("by", by, ("node", "port"))
    runs = load_runs(results, "multiserver")
    name = chosen_resource(runs, resource)
    span = span_of(runs, window, whole=True, span=_slots)
    grids = [_grid(run, name, by, span) for run in runs]
    height = min(max(0.22 * max(len(grid.names) for grid in grids), 1.6), 4.6 if len(runs) == 1 else 3.4)
    panels = new_panels(axes, len(runs), height=height)
    largest = max(float(np.nanmax(grid.values, initial=0.0)) for grid in grids) or 1.0
    scale = share_scale(100.0 if by == "node" else largest)
    for panel, run, grid in zip(panels, runs, grids, strict=True):
        draw_map(panel, grid.edges, grid.values, scale, names=grid.names, label=by)
        slot_axis(panel, *span)
        set_titles(panel, title_of(run), grid.remark, has_bar=True)
    without = any(np.isnan(grid.values).any() for grid in grids)
    add_legend(panels, [(f"nodes without {name}", {"facecolor": DOWN_COLOR})] * without)
    of = "\n(% of the node's)" if by == "node" else "\n(amount per port)"
    color_bar(panels, scale, f"{literal(shortened(name, 30))} that jobs hold{of}")
    label_panels(panels)
    return panels


def _grid(run: Result, resource: str, by: str, span: tuple[float, float]) -> _Grid:
    """Return the mean amounts of a resource that jobs were given, by row and bin."""
    every = int(run.info["record_allocations"])
    if every == 0 or (every > 1 and run.info["holding"]):
        raise InvalidConfiguration(
            f"results[{run.name!r}]: record_allocations: got {every}, expected 1, so that all allocations are recorded"
        )
    rows = run.scan(f"{by}s").filter(pl.col("resource") == resource).collect()
    names, together = rows[by].cast(pl.String), nice_count(len(rows) / MOST_ROWS)
    width = nice_count((span[1] - span[0]) / MOST_COLUMNS)
    edges = bin_edges(span[0], min(span[1], _slots(run)[1]), width)
    shared = [f"{width} slots"] * (width > 1) + [f"{together} {by}s"] * (together > 1)
    parts = [f"a cell is the mean of {' and '.join(shared)}"] * bool(shared)
    remark = "; ".join(parts + [f"allocations of every {every} slots"] * (every > 1))
    if not len(names) or not len(edges):
        return _Grid(np.zeros((0, 0)), np.zeros(0), [], remark)
    row_of = np.arange(len(names)) // together
    whole = rows["capacity"].to_numpy() / 100.0 if by == "node" else np.ones(len(names))
    wholes = np.bincount(row_of, weights=whole)[:, None] * np.diff(edges)
    given = _given(
        run, resource, pl.col(by).cast(pl.String).cast(pl.Enum(names)).to_physical().cast(pl.Int64) // together
    )
    total = integrals(given, edges, len(wholes))
    values = np.divide(total, wholes, out=np.full(wholes.shape, np.nan), where=wholes > 0)
    return _Grid(values, edges, names[::together].to_list(), remark)


def shares_of_nodes(run: Result, resource: str, width: int) -> tuple[list[str], Floats, Floats]:
    """Return the share of each node's resource that jobs hold, between 0 and 1.

    Parameters
    ----------
    run : Result
        Result with the allocations of all jobs.
    resource : str
        Name of the resource.
    width : int
        Number of slots per bin.

    Returns
    -------
    names : list of str
        Names of the nodes.
    edges : array of shape (bins + 1,)
        Edges of the bins.
    values : array of shape (nodes, bins)
        Mean shares; NaN for a node without the resource.
    """
    rows = run.scan("nodes").filter(pl.col("resource") == resource).collect()
    names = rows["node"].cast(pl.String)
    edges = bin_edges(0.0, float(len(run.table("slots"))), width)
    given = _given(run, resource, pl.col("node").cast(pl.String).cast(pl.Enum(names)).to_physical().cast(pl.Int64))
    wholes = rows["capacity"].to_numpy()[:, None] * np.diff(edges)
    total = integrals(given, edges, len(names))
    values = np.divide(total, wholes, out=np.full(wholes.shape, np.nan), where=wholes > 0)
    return names.to_list(), edges, values


def _given(run: Result, resource: str, row: pl.Expr) -> pl.DataFrame:
    """Return each ``amount`` given, with its ``row`` and its time from ``begin`` to ``end``."""
    given = run.table("allocations").filter(pl.col("resource") == resource)
    if run.info["holding"]:
        finish = run.jobs.select("arrival_number", end=pl.col("finish_time").fill_null(_slots(run)[1]))
        given = given.join(finish, on="arrival_number", how="left", maintain_order="left")
    else:  # a recorded allocation also stands for the slots up to the next recorded one
        given = given.with_columns(end=pl.col("slot") + float(run.info["record_allocations"]))
    return given.select("end", "amount", row=row, begin=pl.col("slot").cast(pl.Float64))


class _Sizes(NamedTuple):
    """Values shown as areas, widths and colours."""

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

    Both sides are sorted so that few channels cross. A channel has the colour of its port. Colours repeat, but differ
    between neighbours. With an allocation, the width of a channel shows the amount that flows through it, and channels
    without flow are grey. A node is the darker, the more it has given away.

    Parameters
    ----------
    graph : BipartiteGraph
        Graph to draw.
    allocation : array_like of shape (num_channels, num_resources), optional
        Amounts that each node gives to each port.
    resource : str, optional
        Name of the resource to show: areas are then requests of ports and capacities of nodes, and widths are amounts.
        Without it, areas are numbers of channels, a width is the mean over the resources of the channel's amount as a
        share of the request, and the colour of a node is its largest share over the resources.
    axes : Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    Axes
        The axes. Ports are at x = 0 and nodes at x = 1, or further out if there are many; y goes down from 0 to 1. The
        channels are a LineCollection, in the order of the graph.

    Raises
    ------
    InvalidConfiguration
        If there is no such resource, or the allocation does not match the graph.

    Examples
    --------
    >>> from desim.problems.multiserver import BipartiteGraph
    >>> graph = BipartiteGraph([[2.0], [1.0]], [[3.0], [4.0]], [(0, 0), (1, 0), (1, 1)], resources=["cpu"])
    >>> axes = bipartite_drawing(graph, allocation=[[2.0], [1.0], [1.0]], resource="cpu")
    >>> axes.get_title("right")
    'area: cpu requested, capacity; width: cpu given'
    """
    sizes = _sizes(graph, None if allocation is None else _checked(graph, allocation), resource)
    longest = max(graph.num_ports, graph.num_nodes)
    (panel,) = new_panels(axes, 1, width=7.5, height=min(max(0.4 * longest, 2.0), 8.0))
    layer = np.repeat([0, 1], [graph.num_ports, graph.num_nodes])
    links = np.column_stack([graph.channel_port, graph.channel_node + graph.num_ports])
    ports, nodes = uncrossed(layer, links)
    room = panel_pixels(panel)[1] * 0.72  # in points
    port_places, node_places = _places(ports, 0.0, room), _places(nodes - graph.num_ports, 1.0, room)
    colors = np.empty((graph.num_ports, 4))
    colors[ports] = rgba(POLICY_COLORS)[np.arange(graph.num_ports) % len(POLICY_COLORS)]
    lines = np.stack([port_places[graph.channel_port], node_places[graph.channel_node]], axis=1)
    _draw_channels(panel, lines, colors[graph.channel_port], sizes.channels)
    faces: Any = IDLE
    if sizes.shares is not None:
        scale = share_scale(100.0)
        color_bar([panel], scale, sizes.label)
        faces = scale.to_rgba(100.0 * sizes.shares)
    for places, size, shades in ((port_places, sizes.ports, colors), (node_places, sizes.nodes, faces)):
        largest = min(LARGEST, max(1.1 * room / len(places), 2.2) ** 2)  # so that neighbours hardly touch
        draw_discs(panel, places, np.sqrt(np.maximum(relative(size), 0.04) * largest), shades)
    _name(panel, graph.ports, port_places, "right")
    _name(panel, graph.nodes, node_places, "left")
    panel.set_axis_off()
    panel.set_xlim(-0.06, max(1.0, float(node_places[:, 0].max())) + 0.06)
    panel.set_ylim(1.0, 0.0)
    set_titles(panel, "", sizes.remark)
    return panel


def _checked(graph: BipartiteGraph, allocation: ArrayLike) -> Floats:
    """Return an allocation as an array; raise an error if it does not match the graph."""
    try:
        amounts = np.asarray(allocation, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"allocation: expected an array of numbers: {error}") from error
    if amounts.shape != graph.shape:
        raise InvalidConfiguration(
            f"allocation: got shape {amounts.shape}, expected {graph.shape}, (channels, resources)"
        )
    wrong = np.argwhere(~((amounts >= 0) & (amounts < np.inf)))
    if len(wrong):
        channel = int(wrong[0, 0])
        port, node = graph.ports[graph.channel_port[channel]], graph.nodes[graph.channel_node[channel]]
        raise InvalidConfiguration(
            f"allocation of the channel from {port} to {node}: got {amounts[channel].tolist()}, expected amounts >= 0"
        )
    return amounts


def _sizes(graph: BipartiteGraph, allocation: Floats | None, resource: str | None) -> _Sizes:
    """Return the values to show for one resource, or for all."""
    if resource is None:
        chosen = list(range(graph.num_resources))
        ports = np.bincount(graph.channel_port, minlength=graph.num_ports).astype(np.float64)
        nodes = np.bincount(graph.channel_node, minlength=graph.num_nodes).astype(np.float64)
        remark, width, label = "area: channels", "mean share of the request", "resource given away most"
    else:
        chosen = [graph.resources.index(check_choice("resource", resource, graph.resources))]
        ports, nodes = graph.requests[:, chosen[0]], graph.capacity[:, chosen[0]]
        remark, width, label = f"area: {resource} requested, capacity", f"{resource} given", f"{resource} given away"
    if allocation is None:
        return _Sizes(ports, nodes, None, None, remark, "")
    amounts = allocation[:, chosen]
    shares = _divide(graph.node_sums(amounts), graph.capacity[:, chosen]).max(axis=1, initial=0.0)
    if resource is None:
        requests = graph.channel_requests
        amounts = _divide(amounts, requests).sum(axis=1) / np.maximum((requests > 0).sum(axis=1), 1)
    label = literal(f"{label}\n(% of the node's)")
    return _Sizes(ports, nodes, amounts.ravel(), shares, f"{remark}; width: {width}", label)


def _divide(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _places(order: NDArray[np.int64], side: float, room: float) -> Floats:
    """Return x and y of each vertex; if space is short, the vertices are spread over several columns."""
    columns = int(np.ceil(CLOSEST * len(order) / room))
    places = np.empty((len(order), 2))
    places[order, 0] = side + np.sign(side - 0.5) * COLUMN_WIDTH * (np.arange(len(order)) % columns)
    places[order, 1] = (np.arange(len(order)) + 0.5) / len(order)
    return places


def _draw_channels(axes: Axes, lines: Floats, tints: Floats, amounts: Floats | None) -> None:
    """Draw channels as lines with the colours of their ports and widths by amount; many lines are translucent."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    tints[:, 3] = opacity = min(max(500.0 / max(len(lines), 1), 0.15), 0.6)
    thin, wide = (1.2, WIDEST) if len(lines) <= 100 else (0.7, 0.6 * WIDEST)
    widths = np.full(len(lines), thin)
    if amounts is not None:
        widths = 0.3 + wide * relative(amounts)
        tints[amounts <= 0] = to_rgba(IDLE, opacity)
    axes.add_collection(LineCollection(list(lines), linewidths=widths, colors=tints, zorder=1.0, gid="channels"))


def _name(axes: Axes, names: Sequence[str], places: Floats, side: str) -> None:
    """Write names beside the vertices, unless there are too many."""
    if len(names) > MOST_NAMED:
        return
    look: Any = {"textcoords": "offset points", "va": "center", "parse_math": False}
    look |= {"xytext": (-12.0 if side == "right" else 12.0, 0.0), "fontsize": 9 if len(names) <= 20 else 7}
    for name, place in zip(names, places, strict=True):
        axes.annotate(shortened(name, 24), place, ha=side, **look)


def _workload(result: Result) -> dict[str, float]:
    """Return summary numbers of a run's jobs and graph."""
    slots, jobs, ports = len(result.table("slots")), len(result.jobs), int(result.info["num_ports"])
    return {
        "slots": float(slots),
        "jobs": float(jobs),
        "ports": float(ports),
        "nodes": float(result.info["num_nodes"]),
        "channels": float(result.info["num_channels"]),
        "resources": float(len(result.info["resources"])),
        "jobs per slot and port": jobs / (slots * ports) if slots * ports else float("nan"),
    } | _realized(result)


def _realized(result: Result) -> dict[str, float]:
    """Return the largest offered load of a resource, requests of all jobs over capacity and slots, and its capacity."""
    slots = len(result.table("slots"))
    ports = result.table("ports").select(pl.col("port", "resource").cast(pl.String), "request")
    jobs = result.jobs.select(pl.col("port").cast(pl.String))
    asked = dict(jobs.join(ports, on="port").group_by("resource").agg(pl.col("request").sum()).iter_rows())
    capacity = dict(zip(result.info["resources"], result.info["total_capacity"], strict=True))
    loads = {name: asked.get(name, 0.0) / (slots * total) for name, total in capacity.items() if slots and total}
    name = max(loads, key=lambda one: loads[one], default="")
    return {f"offered load, highest ({name})": loads[name], f"capacity ({name})": capacity[name]} if name else {}


FIGURES = {
    "allocation": Figure(
        allocation_map,
        "Amounts of the first resource that jobs hold, by node and slot: a cell is the darker, the larger the share of "
        "the node's capacity.",
    ),
    "reward": Figure(average_reward, "Average reward: the mean of the rewards of all slots so far."),
    "parts": Figure(reward_parts, "Parts of the reward: gain, overhead and their difference, means over the slots."),
    "resources": Figure(
        resource_utilization, "Utilization: amount of each resource that jobs hold, as a share of its capacity."
    ),
}
WORDS = ReportText(
    workload=_workload,
    realized=_realized,
    size=lambda result: ("nodes", int(result.info["num_nodes"])),
)
