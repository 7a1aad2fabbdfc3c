"""Drawings of jobs: their nodes and edges, the critical path, and where nodes ran."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._dag_canvas import (
    CHARACTER,
    CRITICAL_COLOR,
    RING,
    Room,
    draw_discs,
    draw_edges,
    draw_rings,
    write_names,
    write_numbers,
)
from desim.plotting._dag_runs import DagRun, load_dag_runs
from desim.plotting._dag_tables import check_job, executors_of, job_of
from desim.plotting._executor_rows import executor_names
from desim.plotting._layers import Layout, lay_out
from desim.plotting._panels import add_legend, given_or_new_panels, how_many, panel_pixels, set_titles
from desim.plotting._style import JOB_COLORS, OTHER_COLOR
from desim.problems.dag import Executors, Job
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["dag_drawing", "longest_path"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PLAIN = "#DCE6F2"
#: More nodes have no names, more edges no numbers; nor if neighbours are closer than this, in points.
MOST_NAMED, MOST_NUMBERED = 80, 30
LEAST_ROOM, LEAST_ROOM_FOR_NOTES = 15.0, 34.0
LONGEST_NAME = 16


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
    run = None
    if result is not None:
        (run,) = load_dag_runs(result)
    job = _job(job, result)
    if executors is None and result is not None:
        executors = executors_of(result)
    weights = _weights(job, executors)
    path = longest_path(job, weights.nodes, weights.edges if executors is not None else np.zeros(job.num_edges))
    layout = lay_out(job)
    layers, rows = np.concatenate([layout.places, *layout.routes]).max(axis=0) + 1.0
    width, height = min(max(0.9 * layers + 1.0, 6.5), 12.0), min(max(0.62 * rows, 1.6), 8.5)
    (panel,), own = given_or_new_panels(axes, 1, width=width, height=height)
    panel.set_axis_off()
    panel.set(xticks=[], yticks=[])
    panel.set_xlim(-0.5, layers - 0.5)
    panel.set_ylim(rows - 0.4, -0.6)
    wide, high = (0.72 * size for size in panel_pixels(panel))
    if own:
        high = min(high, 72.0 * height)  # titles and legend take more of a low figure than panel_pixels leaves for them
    noted = job.num_nodes <= MOST_NAMED and high / rows >= LEAST_ROOM_FOR_NOTES
    room = Room(wide / layers, high / rows, noted)
    on_path = _edges_between(job, path)
    critical = np.isin(np.arange(job.num_nodes), path) & (job.num_nodes > 1)
    draw_edges(panel, layout, job.parent_size, on_path, room)
    faces, entries, doubled = _faces(panel, job, run)
    diameters = room.diameters(weights.nodes)
    draw_discs(panel, layout.places, diameters, faces, critical)
    if doubled.any():
        draw_rings(panel, layout.places, diameters, doubled)
    _write(panel, job, layout, weights, diameters=diameters + RING * doubled, on_path=on_path, room=room)
    length = weights.nodes[path].sum() + (weights.edges[on_path].sum() if executors is not None else 0.0)
    counts = f"{how_many(job.num_nodes, 'node')}, {how_many(job.num_edges, 'edge')}"
    critical_words = f"critical path: {weights.unit.format(f'{length:.4g}')}"
    name = f"job {job.job_id}" + (f" ({job.label})" if job.label else "")
    set_titles(panel, name, f"{counts}; area: {weights.words}, width: data; {critical_words}")
    _add_keys(panel, entries, critical=bool(critical.any()), doubled=bool(doubled.any()), own=own)
    return panel


def _job(job: Job | int, result: Result | None) -> Job:
    if isinstance(job, Job):
        if result is not None:
            check_job(result, job)
        return job
    if not isinstance(job, int | np.integer) or isinstance(job, bool) or result is None:
        raise InvalidConfiguration(f"job is {job!r}, want a Job, or with a result the id of a job")
    return job_of(result, int(job))


def _weights(job: Job, executors: Executors | None) -> _Weights:
    """Return what nodes and edges, in the order of ``job.parent_index``, weigh."""
    if executors is None:
        return _Weights(job.work, job.parent_size, "work", "work {}")
    times = executors.mean_latency + job.parent_size * executors.mean_seconds_per_unit
    return _Weights(job.run_times_on(executors).mean(axis=1), times, "mean run time", "{} s")


def longest_path(job: Job, nodes: Floats, edges: Floats) -> list[int]:
    """Return the nodes of the longest path.

    Parameters
    ----------
    job : Job
        The graph.
    nodes, edges : array of shape (num_nodes,), (num_edges,)
        How long nodes and edges are, these in the order of ``job.parent_index``.

    Returns
    -------
    list of int
        From the first node to the last; of several longest paths the one whose nodes come first, seen from the end.
    """
    before: list[int] = []
    length: list[float] = []
    start, parents, weights, own = (a.tolist() for a in (job.parent_start, job.parent_index, edges, nodes))
    for node in range(job.num_nodes):
        longest, best = 0.0, -1
        for edge in range(start[node], start[node + 1]):
            if best < 0 or length[parents[edge]] + weights[edge] > longest:
                longest, best = length[parents[edge]] + weights[edge], parents[edge]
        before.append(best)
        length.append(longest + own[node])
    path = [int(np.argmax(length))]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path[::-1]


def _edges_between(job: Job, path: list[int]) -> Mask:
    """Tell which edges, in the order of ``job.parent_index``, lie on a path."""
    children = np.repeat(np.arange(job.num_nodes), np.diff(job.parent_start))
    following = np.full(job.num_nodes, -1)
    following[path[:-1]] = path[1:]
    lying: Mask = following[job.parent_index] == children
    return lying


def _faces(axes: Axes, job: Job, run: DagRun | None) -> tuple[Any, list[tuple[str, Any]], Mask]:
    """Return the colours of nodes, entries of a legend for them, and which nodes have a duplicate that started."""
    import polars as pl
    from matplotlib.colors import to_rgba_array

    doubled = np.zeros(job.num_nodes, dtype=np.bool_)
    if run is None:
        return PLAIN, [], doubled
    copies = run.copies.filter(pl.col("job_id") == job.job_id)
    doubled[copies.filter("duplicate")["node"].unique().to_numpy()] = True
    executor = _executors_that_ran(job, copies, tasks=run.info.get("granularity") == "task")
    used = np.unique(executor[executor >= 0])
    unfinished = [("not finished", OTHER_COLOR)] if (executor < 0).any() else []
    if len(used) > len(JOB_COLORS):
        return _scaled(axes, executor), unfinished, doubled
    palette = to_rgba_array([*JOB_COLORS[: len(used)], OTHER_COLOR])
    faces = palette[np.where(executor < 0, len(used), np.searchsorted(used, executor))]
    names = executor_names(run)
    words = [f"executor {names[k]}" if names[k].isdigit() else names[k] for k in used.tolist()]
    return faces, [*zip(words, JOB_COLORS, strict=False), *unfinished], doubled


def _executors_that_ran(job: Job, copies: pl.DataFrame, *, tasks: bool) -> NDArray[np.int64]:
    """Return on which executor each node finished first, or which ran most of its tasks; -1 if it has not finished."""
    import polars as pl

    done = copies.filter(pl.col("outcome") == "completed").sort("finish_time", maintain_order=True)
    if tasks:
        enough = dict(enumerate(job.num_tasks.tolist()))
        whole = done.group_by("node").agg(pl.col("task").n_unique())
        whole = whole.filter(pl.col("task") >= pl.col("node").replace_strict(enough, return_dtype=pl.Int64))
        done = done.group_by("node", "executor").len().sort("len", "executor", descending=[True, False])
        done = done.join(whole, on="node", how="semi", maintain_order="left")
    first = done.unique("node", keep="first", maintain_order=True)
    executor = np.full(job.num_nodes, -1)
    executor[first["node"].to_numpy()] = first["executor"].to_numpy()
    return executor


def _scaled(axes: Axes, executor: NDArray[np.int64]) -> Any:
    """Return colours of executors on a scale, which is explained beside the panel: there are too many to name."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    light = ListedColormap(colormaps["viridis"](np.linspace(0.25, 1.0, 256))).with_extremes(bad=OTHER_COLOR)
    known = executor[executor >= 0]
    scale = ScalarMappable(Normalize(float(known.min()), float(known.max())), light)
    bar = axes.figure.colorbar(scale, ax=axes, label="executor", pad=0.015, aspect=30, fraction=0.05, shrink=0.6)
    bar.locator = MaxNLocator(6, integer=True)
    bar.update_ticks()
    return scale.to_rgba(np.ma.masked_less(executor, 0))


def _write(
    axes: Axes, job: Job, layout: Layout, weights: _Weights, *, diameters: Floats, on_path: Mask, room: Room
) -> None:
    """Write names and numbers, where there is room."""
    if job.num_nodes > MOST_NAMED or room.high < LEAST_ROOM:
        return
    fitting = min(LONGEST_NAME, max(2, int(room.wide / CHARACTER)))
    names = [_short(name, fitting) if name != f"node{node}" else str(node) for node, name in enumerate(job.names)]
    notes = [f"{weight:.3g}" if room.noted else "" for weight in weights.nodes.tolist()]
    write_names(axes, layout.places, names, notes, diameters)
    if job.num_edges <= MOST_NUMBERED and room.noted:
        colors = [CRITICAL_COLOR if lying else "#555555" for lying in on_path.tolist()]
        write_numbers(axes, layout, job.parent_size, colors, room)


def _short(name: str, fitting: int) -> str:
    """Shorten a name that is too long: it first loses its number, for what it is called says more."""
    if len(name) > fitting:
        name = re.sub(r"(?<=.)[_-]?(ID|id)?\d+$", "", name)
    return name if len(name) <= fitting else name[: fitting - 1] + "…"


def _add_keys(axes: Axes, colors: list[tuple[str, Any]], *, critical: bool, doubled: bool, own: bool) -> None:
    """Explain colours, the critical path and rings."""
    from matplotlib.lines import Line2D

    disc: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 7.0, "markeredgewidth": 0.8}
    entries = [(name, Line2D([], [], color=color, markeredgecolor="#404040", **disc)) for name, color in colors]
    if doubled:
        ring: dict[str, Any] = disc | {"markersize": 8.0, "fillstyle": "none"}
        entries.append(("duplicated", Line2D([], [], color="#000000", **ring)))
    if critical:
        entries.append(("critical path", Line2D([], [], color=CRITICAL_COLOR, linewidth=2.0)))
    add_legend([axes], [handle for _, handle in entries], [name for name, _ in entries], own=own)
