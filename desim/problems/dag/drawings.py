"""Drawings of jobs as graphs: their nodes and edges, the critical path, and where nodes ran."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting.axes import add_legend, color_bar, count_axis, new_panels, panel_pixels, set_titles
from desim.plotting.colors import JOB_COLORS, OTHER_COLOR, rgba
from desim.plotting.formatting import how_many, shortened
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
from desim.plotting.runs import Run, load_runs
from desim.problems.dag.executors import Executors
from desim.problems.dag.figures import executor_names, started_copies
from desim.problems.dag.job import Job

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.result import Result

__all__ = ["dag_drawing"]

Floats = NDArray[np.float64]

#: More nodes have no names, more edges no numbers; nor if neighbours are closer than this, in points.
MOST_NAMED, MOST_NUMBERED = 80, 30
LEAST_ROOM, LEAST_ROOM_FOR_NOTES = 15.0, 34.0
PLAIN = "#DCE6F2"


class _Weights(NamedTuple):
    """What discs and lines stand for."""

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

    Nodes stand in layers, by the longest path from the beginning, and are sorted such that few edges cross. The area
    of a node is its work, and the width of an edge the size of its data. With executors the critical path is the
    longest one of mean run times and mean transfer times, and areas are mean run times; without them it is the one of
    the most work. A small graph has names and numbers: of a node below it, of an edge its data.

    Parameters
    ----------
    job : Job or int
        The job, or its id in ``result``.
    result : Result, optional
        A run of it: nodes have the colours of the executors on which they finished first, or which ran most of their
        tasks, and those with a duplicate have a second ring. Its executors count unless others are given.
    executors : Executors, optional
        For mean run times and transfer times.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        x is the layer, y the place in it, downwards. The nodes are a PathCollection, in the order of the job.

    Raises
    ------
    InvalidConfiguration
        If the result is not one of ``dag`` or has no such job, or this is no job.

    Examples
    --------
    >>> from desim.problems.dag import Job
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
    high = min(high, 72.0 * height)  # titles and legend take more of a low figure than panel_pixels leaves for them
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


def _job(job: Job | int, run: Run | None) -> tuple[Job, pl.DataFrame]:
    """Return the job, and its copies that have started."""
    job_id = job.job_id if isinstance(job, Job) else job
    if not isinstance(job_id, int | np.integer) or (run is None and not isinstance(job, Job)):
        raise InvalidConfiguration(f"job is {job!r}, want a Job, or with a result the id of a job")
    if run is None:
        return job, pl.DataFrame(schema={"node": pl.Int64, "duplicate": pl.Boolean})  # type: ignore[return-value]
    found = run.jobs.filter(job_id=job_id)
    if len(found) != 1:
        raise InvalidConfiguration(f"job is {job_id!r}, and the run has {len(found) or 'no'} jobs of that id")
    tables = run.table("nodes"), run.table("edges"), started_copies(run)
    nodes, edges, copies = (table.filter(job_id=job_id) for table in tables)
    if isinstance(job, Job):
        if nodes["name"].to_list() != list(job.names):
            raise InvalidConfiguration(f"job {job_id} is not the one in the run: their nodes have different names")
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


def _executors(run: Run) -> Executors:
    """Return the executors of a run."""
    table, channels = run.table("executors"), run.table("channels")
    speed, latency = np.full((len(table), len(table)), np.inf), np.zeros((len(table), len(table)))
    ends = channels["source"].to_numpy(), channels["destination"].to_numpy()
    speed[ends], latency[ends] = channels["transfer_speed"].to_numpy(), channels["latency"].to_numpy()
    return Executors(table["speed"].to_numpy(), speed, latency, names=table["name"].to_list())


def _weights(job: Job, executors: Executors | None) -> _Weights:
    """Return what nodes and edges, in the order of ``job.parent_index``, weigh."""
    if executors is None:
        return _Weights(job.work, job.parent_size, "work", "work {}")
    times = executors.mean_latency + job.parent_size * executors.mean_seconds_per_unit
    return _Weights(job.run_times_on(executors).mean(axis=1), times, "mean run time", "{} s")


def _longest_path(nodes: Floats, edges: Sequence[tuple[int, int]], lengths: Floats) -> list[int]:
    """Return the nodes of the longest path, where nodes and edges have lengths."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_weighted_edges_from((-1, node, length) for node, length in enumerate(nodes.tolist()))
    pairs = zip(edges, lengths.tolist(), strict=True)
    graph.add_weighted_edges_from((parent, child, length + nodes[child]) for (parent, child), length in pairs)
    path: list[int] = nx.dag_longest_path(graph)
    return path[1:]


def _faces(axes: Axes, job: Job, run: Run, copies: pl.DataFrame) -> tuple[Any, list[tuple[str, Any]]]:
    """Return the colours of nodes, by the executor that finished them, and entries of a legend for them."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    executor = _executors_that_ran(job, copies, tasks=run.info.get("granularity") == "task")
    used = np.unique(executor[executor >= 0])
    unfinished = [("not finished", OTHER_COLOR)] if (executor < 0).any() else []
    if len(used) > len(JOB_COLORS):  # too many to name
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
    """Return on which executor each node finished first, or which ran most of its tasks; -1 if it has not finished."""
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
    """Return what to call nodes; a name that is too long first loses its number, for what it is called says more."""
    fitting = min(16, max(2, int(room.wide / CHARACTER)))
    names = [name if name != f"node{node}" else str(node) for node, name in enumerate(job.names)]
    short = [re.sub(r"(?<=.)[_-]?(ID|id)?\d+$", "", name) if len(name) > fitting else name for name in names]
    return [shortened(name, fitting) for name in short]


def _explain(axes: Axes, colors: Sequence[tuple[str, Any]], *, critical: bool, doubled: bool) -> None:
    """Explain colours, the critical path and rings."""
    from matplotlib.lines import Line2D

    disc: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 7.0, "markeredgewidth": 0.8}
    entries = [(name, Line2D([], [], color=color, markeredgecolor="#404040", **disc)) for name, color in colors]
    if doubled:
        ring: dict[str, Any] = disc | {"markersize": 8.0, "fillstyle": "none"}
        entries.append(("duplicated", Line2D([], [], color="#000000", **ring)))
    if critical:
        entries.append(("critical path", Line2D([], [], color=EMPHASIS, linewidth=2.0)))
    add_legend([axes], entries)
