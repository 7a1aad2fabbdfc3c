"""Drawings of jobs as graphs: nodes and edges, the critical path, and the executors of the nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many, shortened
from desim.plotting.axes import add_legend, color_bar, count_axis, new_panels, panel_pixels, set_titles
from desim.plotting.colors import JOB_COLORS, OTHER_COLOR, rgba
from desim.plotting.graphs import (
    CHARACTER,
    EMPHASIS,
    NodeSpacing,
    draw_discs,
    draw_edges,
    draw_rings,
    lay_out,
    write_names,
    write_numbers,
)
from desim.plotting.runs import load_runs
from desim.problems.dag.executors import Executors
from desim.problems.dag.figures import executor_names, started_copies
from desim.problems.dag.job import Job, means_where_eligible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.result import Result

__all__ = ["dag_drawing"]

Floats = NDArray[np.float64]

#: Largest number of named nodes and of numbered edges, and smallest distance of neighbours for each, in points.
MOST_NAMED, MOST_NUMBERED = 80, 30
LEAST_ROOM, LEAST_ROOM_FOR_NOTES = 15.0, 34.0
PLAIN = "#DCE6F2"


class _Weights(NamedTuple):
    """Weights of nodes and edges, shown as areas of discs and widths of lines."""

    nodes: Floats
    edges: Floats
    words: str
    unit: str


def dag_drawing(
    job: Job | int,
    *,
    result: Result | None = None,
    executors: Executors | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a job as a graph from left to right, with its critical path.

    Nodes are arranged in layers by the longest path from the beginning, and sorted so that few edges cross. The area of
    a node shows its work, and the width of an edge its data size. With executors, areas show mean run times, and the
    critical path is the longest path of mean run times and mean transfer times. Without them, it is the path with the
    most work. A small graph has names and numbers: the weight below each node, and the data size at each edge.

    Parameters
    ----------
    job : Job or int
        Job, or its id in ``result``.
    result : Result, optional
        Run of the job. Nodes then have the colour of the executor on which they finished first, or which ran most of
        their tasks. Nodes with a duplicate have a second ring. The run's executors are used unless others are given.
    executors : Executors, optional
        Executors for mean run times and transfer times.
    axes : Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    Axes
        The axes: x is the layer, y the position within it, downwards. The nodes are a PathCollection, in the order of
        the job.

    Raises
    ------
    InvalidConfiguration
        If the result does not come from ``dag`` or has no such job, or ``job`` is invalid.

    Examples
    --------
    >>> axes = dag_drawing(Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc"))
    >>> axes.get_title("right")
    '3 nodes, 2 edges; area: work, width: data; critical path: work 6'
    """
    run = None if result is None else load_runs(result, "dag")[0]
    job, copies = _job(job, run)
    if executors is None and run is not None:
        executors = _executors(run)
    weights = _weights(job, executors)
    children = np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start))
    edges = list(zip(job.parent_index.tolist(), children.tolist(), strict=True))
    lengths = weights.edges if executors is not None else np.zeros(job.num_edges)
    path = _longest_path(weights.nodes, edges, lengths)
    steps = set(pairwise(path))
    on_path = np.array([edge in steps for edge in edges], dtype=np.bool_)
    critical = np.isin(np.arange(job.num_nodes), path) & (job.num_nodes > 1)
    layout = lay_out(job.num_nodes, edges)
    layers, rows = np.concatenate([layout.places, *layout.routes]).max(axis=0) + 1.0
    width, height = min(max(0.9 * layers + 1.0, 6.5), 12.0), min(max(0.62 * rows, 1.6), 8.5)
    (panel,) = new_panels(axes, 1, width=width, height=height)
    panel.set_axis_off()
    panel.set(xticks=[], yticks=[], xlim=(-0.5, layers - 0.5), ylim=(rows - 0.4, -0.6))
    wide, high = (0.72 * size for size in panel_pixels(panel))
    high = min(high, 72.0 * height)  # in a low figure, titles and legend take more space than panel_pixels assumes
    noted = job.num_nodes <= MOST_NAMED and high / rows >= LEAST_ROOM_FOR_NOTES
    room = NodeSpacing(wide / layers, high / rows, noted)
    draw_edges(panel, layout, job.parent_size, on_path, room)
    faces, entries = (PLAIN, []) if run is None else _faces(panel, job, run, copies)
    diameters = room.diameters(weights.nodes)
    draw_discs(panel, layout.places, diameters, faces, critical)
    doubled = np.isin(np.arange(job.num_nodes), copies.filter("duplicate")["node"].to_numpy())
    around = draw_rings(panel, layout.places, diameters, doubled)
    if job.num_nodes <= MOST_NAMED and room.high >= LEAST_ROOM:
        notes = [f"{weight:.3g}" if noted else "" for weight in weights.nodes.tolist()]
        write_names(panel, layout.places, _short_names(job, room), notes, around)
        if job.num_edges <= MOST_NUMBERED and noted:
            colors = [EMPHASIS if strong else "#555555" for strong in on_path.tolist()]
            write_numbers(panel, layout, job.parent_size, colors, room)
    length = weights.nodes[path].sum() + lengths[on_path].sum()
    counts = f"{how_many(job.num_nodes, 'node')}, {how_many(job.num_edges, 'edge')}"
    remark = f"{counts}; area: {weights.words}, width: data; critical path: {weights.unit.format(f'{length:.4g}')}"
    set_titles(panel, f"job {job.job_id}" + (f" ({job.label})" if job.label else ""), remark)
    _explain(panel, entries, critical=bool(critical.any()), doubled=bool(doubled.any()))
    return panel


def _job(job: Job | int, run: Result | None) -> tuple[Job, pl.DataFrame]:
    """Return the job and its copies that have started."""
    job_id = job.job_id if isinstance(job, Job) else job
    if not isinstance(job_id, int | np.integer) or (run is None and not isinstance(job, Job)):
        raise InvalidConfiguration(f"job: got {job!r}, expected a Job or, with a result, the id of a job")
    if run is None:
        return job, pl.DataFrame(schema={"node": pl.Int64, "duplicate": pl.Boolean})  # type: ignore[return-value]
    found = run.jobs.filter(job_id=job_id)
    if len(found) != 1:
        raise InvalidConfiguration(f"job: got {job_id!r}, expected an id of one job; {len(found)} in the run have it")
    tables = run.table("nodes"), run.table("edges"), started_copies(run)
    nodes, edges, copies = (table.filter(job_id=job_id) for table in tables)
    if isinstance(job, Job):
        if nodes["name"].to_list() != list(job.names):
            raise InvalidConfiguration(f"job {job_id}: names: got other node names than in the run; try job={job_id}")
        return job, copies
    run_times = nodes["run_times"].to_list()
    read = Job(
        int(job_id),
        nodes["work"].to_numpy(),
        edges.select("parent", "child", "size").iter_rows(),
        submission_time=found["submission_time"][0],
        names=nodes["name"].to_list(),
        num_tasks=nodes["num_tasks"].to_numpy(),
        run_times=None if run_times[0] is None else run_times,
        label=found["label"][0],
        allow_disconnected=True,
    )
    return read, copies


def _executors(run: Result) -> Executors:
    """Return the executors of a run."""
    table, channels = run.table("executors"), run.table("channels")
    names, features = table["name"].to_list(), run.info.get("features")
    if channels.is_empty() and len(table) > 1:
        alike = np.inf if run.info["transfer_speed"] is None else run.info["transfer_speed"], run.info["latency"]
        return Executors(table["speed"].to_numpy(), *alike, names=names, features=features)
    speed, latency = np.full((len(table), len(table)), np.inf), np.zeros((len(table), len(table)))
    ends = channels["source"].to_numpy(), channels["destination"].to_numpy()
    speed[ends], latency[ends] = channels["transfer_speed"].to_numpy(), channels["latency"].to_numpy()
    return Executors(table["speed"].to_numpy(), speed, latency, names=names, features=features)


def _weights(job: Job, executors: Executors | None) -> _Weights:
    """Return the weights of nodes and, in the order of ``job.parent_index``, of edges."""
    if executors is None:
        return _Weights(job.work, job.parent_size, "work", "work {}")
    times = executors.mean_latency + job.parent_size * executors.mean_seconds_per_unit
    return _Weights(means_where_eligible(job.run_times_on(executors)), times, "mean run time", "{} s")


def _longest_path(nodes: Floats, edges: Sequence[tuple[int, int]], lengths: Floats) -> list[int]:
    """Return the nodes of the longest path, given lengths of nodes and edges."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_weighted_edges_from((-1, node, length) for node, length in enumerate(nodes.tolist()))
    pairs = zip(edges, lengths.tolist(), strict=True)
    graph.add_weighted_edges_from((parent, child, length + nodes[child]) for (parent, child), length in pairs)
    path: list[int] = nx.dag_longest_path(graph)
    return path[1:]


def _faces(axes: Axes, job: Job, run: Result, copies: pl.DataFrame) -> tuple[Any, list[tuple[str, Any]]]:
    """Return the colours of the nodes by the executor that finished them, and their legend entries."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    executor = _executors_that_ran(job, copies, tasks=run.info.get("granularity") == "task")
    used = np.unique(executor[executor >= 0])
    unfinished = [("not finished", OTHER_COLOR)] if (executor < 0).any() else []
    if len(used) > len(JOB_COLORS):  # too many executors for separate colours
        light = ListedColormap(colormaps["viridis"](np.linspace(0.25, 1.0, 256))).with_extremes(bad=OTHER_COLOR)
        scale = ScalarMappable(Normalize(float(used.min()), float(used.max())), light)
        count_axis(color_bar([axes], scale, "executor"))
        return scale.to_rgba(np.ma.masked_less(executor, 0)), unfinished
    faces = rgba([*JOB_COLORS[: len(used)], OTHER_COLOR])
    names = executor_names(run)
    words = [f"executor {names[k]}" if names[k].isdigit() else names[k] for k in used.tolist()]
    entries = [*zip(words, JOB_COLORS, strict=False), *unfinished]
    return faces[np.where(executor < 0, len(used), np.searchsorted(used, executor))], entries


def _executors_that_ran(job: Job, copies: pl.DataFrame, *, tasks: bool) -> NDArray[np.int64]:
    """Return the executor on which each node finished first, or which ran most of its tasks; -1 if unfinished."""
    done = copies.filter(pl.col("outcome") == "completed").sort("finish_time", maintain_order=True)
    if tasks:
        counts = done.group_by("node").agg(pl.col("task").n_unique()).sort("node")
        whole = counts.filter(pl.col("task") >= pl.Series(job.num_tasks).gather(counts["node"]))
        done = done.group_by("node", "executor").len().sort("len", "executor", descending=[True, False])
        done = done.join(whole, on="node", how="semi", maintain_order="left")
    first = done.unique("node", keep="first", maintain_order=True)
    executor = np.full(job.num_nodes, -1)
    executor[first["node"].to_numpy()] = first["executor"].to_numpy()
    return executor


def _short_names(job: Job, room: NodeSpacing) -> list[str]:
    """Return short names of the nodes; a long name first loses its number, because its text says more."""
    fitting = min(16, max(2, int(room.wide / CHARACTER)))
    names = [name if name != f"node{node}" else str(node) for node, name in enumerate(job.names)]
    short = [re.sub(r"(?<=.)[_-]?(ID|id)?\d+$", "", name) if len(name) > fitting else name for name in names]
    return [shortened(name, fitting) for name in short]


def _explain(axes: Axes, colors: Sequence[tuple[str, Any]], *, critical: bool, doubled: bool) -> None:
    """Add a legend for colours, the critical path and rings."""
    from matplotlib.lines import Line2D

    disc: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 7.0, "markeredgewidth": 0.8}
    entries = [(name, Line2D([], [], color=color, markeredgecolor="#404040", **disc)) for name, color in colors]
    if doubled:
        ring: dict[str, Any] = disc | {"markersize": 8.0, "fillstyle": "none"}
        entries.append(("duplicated", Line2D([], [], color="#000000", **ring)))
    if critical:
        entries.append(("critical path", Line2D([], [], color=EMPHASIS, linewidth=2.0)))
    add_legend([axes], entries)
