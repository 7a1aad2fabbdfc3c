"""Figures of batch runs on nodes: Gantt charts by node, and maps of node utilization over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.formatting import duration_words, how_many, nice_count, nice_duration
from desim.plotting.axes import (
    add_legend,
    color_bar,
    label_panels,
    name_rows,
    new_panels,
    set_titles,
    shade_unmeasured,
    time_axis,
)
from desim.plotting.bars import CUT, DOWN, add_boxes, boxes_of
from desim.plotting.colors import DOWN_COLOR
from desim.plotting.maps import draw_map, integrals, share_scale
from desim.plotting.runs import Results, Window, down_spans, load_runs, one_panel_a_run, span_of, title_of
from desim.problem import Figure
from desim.problems.batch.allocations import allocations, capacities, devices, is_readable, placed
from desim.problems.batch.figures import FIGURES as CORE_FIGURES
from desim.problems.batch.figures import draw_executions, draw_gantts
from desim.problems.batch.nodes import GPU
from desim.problems.batch.occupancy import read_core_ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.result import Result

__all__ = ["FIGURES", "node_gantt", "node_map"]

Floats = NDArray[np.float64]

#: Maximum numbers of rows and columns of a map.
MOST_ROWS, MOST_COLUMNS = 80, 160
#: Boxes of a chart other than executions, with their styles.
RESERVED = {"facecolor": "#F4F4F4", "edgecolor": DOWN_COLOR, "hatch": "..", "linewidth": 0.0}
MARKS = {"cut by an outage": CUT, "preempted": CUT, "node down": DOWN, "reserved for users": RESERVED}
KEY = ["arrival_number", "starting_time"]


@one_panel_a_run
def node_gantt(
    results: Results,
    resource: str = "cores",
    *,
    color_by: str | None = None,
    window: Window = None,
    labels: bool = True,
    axes: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw a Gantt chart by node: which job held how much of each node when.

    Each row is a node, and its height stands for the node's capacity of the resource; the height of an execution stands
    for what it holds of it. For GPUs, an execution is drawn on the GPUs that it held. For other resources it takes the
    lowest free part of the row, in pieces if necessary. Nodes without the resource have no row. A black line divides
    partitions. Times in which a node is down (also for maintenance) or reserved for some users are marked.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run on nodes, or several by name, which are drawn one above the other with the same time axis.
    resource : str
        Resource to show: ``"cores"``, ``"memory"``, ``"gpus"`` or another resource of the nodes.
    color_by : str, optional
        Colouring, as for :func:`~desim.problems.batch.figures.gantt`.
    window : (float, float), optional
        Time range to show, in seconds.
    labels : bool
        Whether rectangles show job ids where these fit.
    axes : Axes or iterable of Axes, optional
        Axes to draw into, one per run (default: a new figure).

    Returns
    -------
    Axes or list of Axes
        One Axes for a Result, a list for a mapping. Row i extends from i - 0.5 to i + 0.5.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or a run is not one of ``batch`` on nodes with this resource.
    """
    runs = _load(results, resource)
    rows = [_rows(run, resource) for run in runs]
    height = min(max(0.5 * max(map(len, rows)), 1.8), 4.6 if len(runs) == 1 else 3.0)
    draw = partial(_draw_nodes, resource=resource, span=span_of(runs, window), labels=labels)
    sizes = [f"{how_many(len(names), 'node')}, {resource}" for names in rows]
    panels = new_panels(axes, len(runs), height=height)
    return draw_gantts(runs, window, color_by, panels, draw=draw, sizes=sizes, marks=MARKS)


def _draw_nodes(
    axes: Axes,
    run: Result,
    table: pl.DataFrame,
    faces: Floats,
    *,
    resource: str,
    span: tuple[float, float],
    labels: bool,
) -> None:
    """Draw executions over nodes, with the times in which nodes were down or reserved."""
    names = _rows(run, resource)
    partitions = names["partition"].to_list()
    labels_of_rows = [f"{part} {name}".strip() for part, name in zip(partitions, names["name"], strict=True)]
    name_rows(axes, labels_of_rows, "node" if not any(partitions) else "partition and node")
    ends = [row - 0.5 for row, (one, other) in enumerate(pairwise(partitions), 1) if one != other]
    axes.hlines(ends, *span, colors="black", linewidth=1.2, zorder=3.1, gid="partitions")
    down, kept = _down(run, names), _reserved(run, names)
    add_boxes(axes, boxes_of(down["begin"], down["end"], down["row"], 0.5), "node down", zorder=1.0, **DOWN)
    reserved = boxes_of(kept["start"], kept["end"], kept["row"], 0.5)
    add_boxes(axes, reserved, "reserved for users", zorder=0.9, **RESERVED)
    index = table.select(*KEY, "cut", "status", execution=pl.int_range(pl.len())).unique(KEY, keep="last")
    bars = _pieces(run, resource, names).join(index, on=KEY, maintain_order="left")
    middle, half = (bars["low"] + bars["high"]) / 2, ((bars["high"] - bars["low"]) / 2).to_numpy()
    boxes = boxes_of(bars["starting_time"], bars["finish_time"], middle, half)
    draw_executions(axes, bars, boxes, faces[bars["execution"].to_numpy()], rows=len(names), labels=labels)
    if 1 < len(names) <= MOST_ROWS // 2:
        axes.hlines(np.arange(1, len(names)) - 0.5, *span, colors="#808080", linewidth=0.6, zorder=3.0)


def _load(results: Results, resource: str) -> list[Result]:
    """Return the runs; raise an error if one is not on nodes with the resource."""
    runs = load_runs(results, "batch")
    for run in runs:
        if "num_nodes" not in run.info:
            raise InvalidConfiguration(
                f"results: got a run on cores without nodes ({run.name!r}), expected runs on nodes"
            )
        check_choice("resource", resource, capacities(run.table("nodes")).columns[3:])
    return runs


def _rows(run: Result, resource: str) -> pl.DataFrame:
    """Return the nodes that have a resource, by partition: ``node``, ``name``, ``partition``, ``capacity``, ``row``."""
    nodes = capacities(run.table("nodes")).select("node", "name", capacity=pl.col(resource).cast(pl.Float64))
    nodes = nodes.with_columns(run.table("nodes")["partition"]).filter(pl.col("capacity") > 0)
    nodes = nodes.sort("partition", maintain_order=True)
    return nodes.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))


def _down(run: Result, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the time spans in which nodes were down, with their rows."""
    outages, nodes = run.table("outages"), run.table("nodes")
    ranges = read_core_ranges(outages["resources"], run.info["num_cores"])
    first = nodes["first_core"].to_numpy()
    low, high = np.searchsorted(first, ranges.first), np.searchsorted(first, ranges.last, "right")
    frame = outages[ranges.row].with_columns(node=pl.int_ranges(pl.Series(low), pl.Series(high))).explode("node")
    spans = down_spans(frame.drop_nulls("node"), "node", run.span[1])
    return spans.rename({"lane": "node"}).join(rows, on="node", maintain_order="left")


def _reserved(run: Result, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the time spans in which nodes were reserved for some users, with their rows."""
    if "user_reservations" not in run.info:
        return rows.clear().with_columns(start=pl.lit(0.0), end=pl.lit(0.0))
    reservations = (
        run.table("reservations")
        .filter(pl.col("start") < run.span[1])
        .join(run.table("reservation_users"), "reservation", "semi")
    )
    of_nodes = run.table("reservation_nodes").join(reservations, on="reservation", maintain_order="left")
    return of_nodes.with_columns(pl.col("end").clip(upper_bound=run.span[1])).join(
        rows, on="node", maintain_order="left"
    )


def _pieces(run: Result, resource: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces to draw: execution key, ``job_id``, its end, and lower and upper edge on the y axis."""
    tables = run.table("nodes"), run.table("requests"), run.table("placements")
    if resource == "gpus":
        held = devices(placed(*tables).filter(is_readable())).select(
            *KEY, "job_id", "node", "finish_time", "gpu", amount="share"
        )
        held = held.with_columns(size=pl.lit(GPU))
    else:
        held = allocations(*tables).select(*KEY, "job_id", "node", "finish_time", gpu=0, amount=resource)
        held = held.join(rows.select("node", size="capacity"), on="node", maintain_order="left")
    held = held.join(rows.select("node", "row", "capacity"), on="node", maintain_order="left")
    held = held.with_columns(pl.col("finish_time").fill_null(run.span[1]))
    lasting = (pl.col("starting_time") < pl.col("finish_time")) & (pl.col("amount") > 0)
    held = held.filter(lasting).sort("starting_time", "arrival_number")
    index, low, high = _stack(held)
    parts = pl.col("capacity") if resource == "gpus" else pl.lit(1.0)  # the GPUs of a node share the height of its row
    bottom, lane = pl.col("row") - 0.5, pl.col("gpu")
    return (
        held[index]
        .with_columns(low=pl.Series(low), high=pl.Series(high))
        .with_columns(
            low=bottom + (lane + pl.col("low") / pl.col("size")) / parts,
            high=bottom + (lane + pl.col("high") / pl.col("size")) / parts,
        )
    )


def _stack(held: pl.DataFrame) -> tuple[list[int], list[float], list[float]]:
    """Assign the lowest free parts of its lane to each holding, by start: index, lower and upper edge of each piece."""
    lanes: dict[tuple[int, int], list[tuple[float, float, float]]] = {}  # low, high and end of used parts, ascending
    found: tuple[list[int], list[float], list[float]] = ([], [], [])
    columns = held.select("node", "gpu", "starting_time", "finish_time", "amount", "size")
    for index, (node, gpu, begin, end, amount, size) in enumerate(columns.iter_rows()):
        lane = [taken for taken in lanes.get((node, gpu), ()) if taken[2] > begin]
        bottom, left, fresh = 0.0, float(amount), []
        for low, high in [*((low, high) for low, high, _ in lane), (float(size), float(size))]:
            take = min(low - bottom, left)
            if take > 0:
                fresh.append((bottom, bottom + take, end))
                left -= take
            bottom = max(bottom, high)
        lanes[node, gpu] = sorted([*lane, *fresh])
        for low, high, _ in fresh:
            found[0].append(index)
            found[1].append(low)
            found[2].append(high)
    return found


@one_panel_a_run
def node_map(
    results: Results, resource: str = "cores", *, window: Window = None, axes: Axes | Iterable[Axes] | None = None
) -> list[Axes]:
    """Draw a map of how much of each node was used over time.

    The darker a cell, the larger the share of the node's capacity that executions hold, averaged over the time of the
    cell in which the node was up. A cell is grey if the node was never up or does not have the resource. A job
    with exclusive nodes holds their full capacity. With many nodes, each row shows several.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run on nodes, or several by name, which are drawn one above the other with the same colours.
    resource : str
        Resource to show: ``"cores"``, ``"memory"``, ``"gpus"`` or another resource of the nodes.
    window : (float, float), optional
        Time range to show, in seconds.
    axes : Axes or iterable of Axes, optional
        Axes to draw into, one per run (default: a new figure).

    Returns
    -------
    Axes or list of Axes
        One Axes for a Result, a list for a mapping. Row i extends from i - 0.5 to i + 0.5.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or a run is not one of ``batch`` on nodes with this resource.
    """
    runs = _load(results, resource)
    span = span_of(runs, window)
    width = nice_duration((span[1] - span[0]) / MOST_COLUMNS)
    grids = [_grid(run, resource, span, width) for run in runs]
    tallest = max(len(values) for _, values, _ in grids)
    panels = new_panels(axes, len(runs), height=min(max(0.22 * tallest, 1.6), 4.6 if len(runs) == 1 else 3.4))
    scale = share_scale(100.0)
    for panel, run, (edges, values, names) in zip(panels, runs, grids, strict=True):
        draw_map(panel, edges, 100.0 * values, scale, names=names, label="node")
        time_axis(panel, *span)
        together = -(-run.info["num_nodes"] // max(len(names), 1))
        shared = f" and {together} nodes" if together > 1 else ""
        set_titles(panel, title_of(run), f"a cell is the mean of {duration_words(width)}{shared}", has_bar=True)
    missing = any(np.isnan(values).any() for _, values, _ in grids)
    down = [(f"down, or without {resource}", {"facecolor": DOWN_COLOR})] * missing
    add_legend(panels, [*down, *shade_unmeasured(panels, runs)])
    color_bar(panels, scale, f"{resource} that jobs hold\n(% of the node's)")
    label_panels(panels)
    return panels


def _grid(run: Result, resource: str, span: tuple[float, float], width: float) -> tuple[Floats, Floats, Sequence[str]]:
    """Return bin edges, the used share of each row of nodes in each bin, and names of rows."""
    nodes = run.table("nodes")
    together = nice_count(len(nodes) / MOST_ROWS)
    end = min(span[1], run.span[1])
    edges = np.append(np.arange(span[0], end, width), end) if end > span[0] else np.array([span[0], span[0] + width])
    row = pl.col("node") // together
    capacity = capacities(nodes).select(row=row, capacity=pl.col(resource).cast(pl.Float64))
    count = -(-len(nodes) // together)
    whole = np.bincount(capacity["row"].to_numpy(), capacity["capacity"].to_numpy(), count)
    held = allocations(nodes, run.table("requests"), run.table("placements"))
    amounts = held.select(
        row=row,
        begin="starting_time",
        end=pl.col("finish_time").fill_null(run.span[1]),
        amount=pl.col(resource).cast(pl.Float64),
    )
    numbered = nodes.select("node", "name", row="node", capacity=capacities(nodes)[resource].cast(pl.Float64))
    down = _down(run, numbered).select(row=row, begin="begin", end="end", amount="capacity")
    up = whole[:, None] * np.diff(edges) - integrals(down, edges, count)
    used = integrals(amounts, edges, count)
    there = up > 1e-9 * whole[:, None]
    shares = np.divide(used, up, out=np.full(used.shape, np.nan), where=there)
    return edges, shares, nodes["name"].to_list()[::together]


def _is_on_nodes(result: Result) -> bool:
    return "num_nodes" in result.info


def _has_gpus(result: Result) -> bool:
    return _is_on_nodes(result) and "gpus" in capacities(result.table("nodes")).columns


FIGURES = CORE_FIGURES | {
    "nodes": Figure(
        node_map,
        "Node utilization over time: the share of each node's cores that executions hold. Nodes that are down are "
        "grey.",
        when=_is_on_nodes,
    ),
    "node-gantt": Figure(
        node_gantt,
        "Gantt chart by node: which job held how many cores of each node when. The height of a row stands for the "
        "node's cores.",
        when=_is_on_nodes,
    ),
    "nodes-gpus": Figure(
        partial(node_map, resource="gpus"), "GPU utilization of nodes over time, as for cores.", when=_has_gpus
    ),
    "node-gantt-gpus": Figure(
        partial(node_gantt, resource="gpus"), "Gantt chart by node: which job held which GPUs when.", when=_has_gpus
    ),
}
"""Figures of a batch run, including those of runs on nodes."""
