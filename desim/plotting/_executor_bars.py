"""One panel of a Gantt chart of executors: copies, transfers, waiting, outages and the critical chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting._boxes import CUT, DOWN, WAITING, add_boxes, box_edges, box_pixels, write_labels
from desim.plotting._critical_chain import CriticalChain, critical_chain
from desim.plotting._dag_runs import DagRun
from desim.plotting._dag_series import waiting_spans
from desim.plotting._executor_rows import executor_rows
from desim.plotting._panels import how_many, panel_pixels, set_titles

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = [
    "CRITICAL",
    "DUPLICATE",
    "MOST_ARROWS",
    "TRANSFER_COLOR",
    "ExecutorChart",
    "draw_executors",
    "make_executors",
]

Floats = NDArray[np.float64]

DUPLICATE: dict[str, Any] = {"facecolor": "none", "edgecolor": "#505050", "hatch": "....", "linewidth": 0.0}
CRITICAL: dict[str, Any] = {"facecolor": "none", "edgecolor": "#000000", "linewidth": 1.8}
TRANSFER_COLOR = "#444444"
#: More transfers than these hide the bars.
MOST_ARROWS = 200
#: Half the height of a bar, of one between arrows, and of what waits, in rows.
HALF, HALF_APART, HALF_WAIT = 0.4, 0.3, 0.1
#: The frames of the critical chain are as thick as this, and in low rows as this share of them.
FRAME, FRAME_SHARE = 1.8, 0.08


@dataclass(frozen=True)
class ExecutorChart:
    """The geometry of one panel, with times in seconds and rows of height 1.

    Attributes
    ----------
    run : DagRun
        What is shown.
    arrows : bool
        Whether transfers are drawn.
    half : float
        Half the height of a bar.
    boxes : array, shape (num_copies, 4)
        Begin, end, lower and upper edge of each copy that has started.
    texts : list of str
        What they are called.
    down, waits : array, shape (k, 4)
        Rectangles of executors that were down, and of those that waited for data.
    moved : polars.DataFrame
        The transfers between different executors.
    chain : CriticalChain or None
        The critical chain, if wanted: rows of the copies and of all transfers.
    """

    run: DagRun
    arrows: bool
    half: float
    boxes: Floats
    texts: list[str]
    down: Floats
    waits: Floats
    moved: pl.DataFrame
    chain: CriticalChain | None

    def outcome(self, name: str) -> NDArray[np.bool_]:
        """Tell which copies have an outcome."""
        return np.asarray((self.run.copies["outcome"] == name).to_numpy(), dtype=np.bool_)

    @property
    def duplicates(self) -> NDArray[np.bool_]:
        """Tell which copies are duplicates."""
        return np.asarray(self.run.copies["duplicate"].to_numpy(), dtype=np.bool_)


def make_executors(run: DagRun, *, drawn: str | bool, chain: bool) -> ExecutorChart:
    """Lay out the rectangles of a run, decide whether transfers are drawn, and find the critical chain if wanted."""
    import polars as pl

    copies, transfers = run.copies, run.result.table("transfers")
    rows = copies["executor"].to_numpy().astype(np.float64)
    times = copies.select("starting_time", "finish_time").to_numpy().astype(np.float64)
    waits = waiting_spans(run.result.table("copies"), run.down, run.end)
    moved = transfers.with_row_index("row").filter(pl.col("source") != pl.col("destination"))
    arrows = len(moved) <= MOST_ARROWS if drawn == "auto" else bool(drawn)
    half = HALF_APART if arrows and len(moved) else HALF
    return ExecutorChart(
        run,
        arrows,
        half,
        np.column_stack([times, rows - half, rows + half]),
        _texts(run),
        _spans(run.down, 0.5),
        _spans(waits, HALF_WAIT),
        moved,
        critical_chain(copies, transfers, moving_delay=run.info.get("moving_delay", 0.0)) if chain else None,
    )


def _spans(spans: Floats, half: float) -> Floats:
    return np.column_stack([spans[:, 1:], spans[:, 0] - half, spans[:, 0] + half])


def _texts(run: DagRun) -> list[str]:
    """Return the names of the nodes, or else their numbers, with the jobs if there are several, and with the tasks."""
    import polars as pl

    named = run.result.table("nodes").select("job_id", "node", "name").unique(["job_id", "node"], keep="first")
    copies = run.copies.select("job_id", "node", "task").join(
        named, on=["job_id", "node"], how="left", maintain_order="left"
    )
    number = pl.col("node").cast(pl.String)
    own = pl.col("name").is_not_null() & (pl.col("name") != pl.format("node{}", number))
    name = pl.when(own).then("name").otherwise(number)
    if run.info.get("granularity") == "task":
        name = pl.format("{}/{}", name, "task")
    several = copies["job_id"].n_unique() > 1
    return copies.select(pl.format("{}:{}", "job_id", name) if several else name).to_series().to_list()


def draw_executors(
    axes: Axes,
    chart: ExecutorChart,
    faces: Floats,
    *,
    span: tuple[float, float],
    labels: str | bool,
    speeds: bool,
    time_label: bool,
) -> None:
    """Draw one panel.

    Parameters
    ----------
    axes : Axes
        Where.
    chart : ExecutorChart
        What.
    faces : array, shape (num_copies, 4)
        Colours of the copies.
    span : (float, float)
        The visible time, in seconds.
    labels : "auto" or bool
        Whether bars carry the names of their nodes.
    speeds : bool
        Whether the names of the executors are followed by their speeds.
    time_label : bool
        Whether the time axis has a label.
    """
    from desim.plotting._time_axis import time_axis

    time_axis(axes, *span, label=time_label)
    axes.spines[["top", "right"]].set_visible(False)
    executor_rows(axes, chart.run, speeds=speeds)
    seen = (chart.boxes[:, 1] >= span[0]) & (chart.boxes[:, 0] <= span[1])
    boxes, shades = chart.boxes[seen], faces[seen]
    pixels = box_pixels(axes, boxes, span, chart.run.size)
    cut, duplicate = (chart.outcome("interrupted") & seen), (chart.duplicates & seen)
    add_boxes(axes, chart.down, "outages", zorder=1.0, **DOWN)
    add_boxes(axes, chart.waits, "waiting", zorder=1.5, **WAITING)
    add_boxes(axes, boxes, "copies", always=True, facecolor=shades, zorder=2.0, **box_edges(pixels.min(axis=1)))
    add_boxes(axes, chart.boxes[duplicate], "duplicates", zorder=2.4, **DUPLICATE)
    add_boxes(axes, chart.boxes[cut], "cut", zorder=2.5, **CUT)
    if chart.chain is not None:
        frame = min(FRAME, FRAME_SHARE * panel_pixels(axes)[1] / chart.run.size)
        style = CRITICAL | {"linewidth": frame}
        add_boxes(axes, chart.boxes[chart.chain.copies], "critical", zorder=2.7, **style)
    _draw_transfers(axes, chart)
    if labels:
        texts = [text for text, visible in zip(chart.texts, seen.tolist(), strict=True) if visible]
        framed = (cut | duplicate)[seen]
        write_labels(axes, boxes, texts, pixels, shades, framed=framed, fitting=labels == "auto")
    set_titles(axes, chart.run.title, _remark(chart.run))


def _draw_transfers(axes: Axes, chart: ExecutorChart) -> None:
    """Draw arrows from where and when data were sent to where and when they arrived."""
    critical = np.isin(chart.moved["row"].to_numpy(), [] if chart.chain is None else chart.chain.transfers)
    for chosen, name, color, width in (
        (~critical if chart.arrows else np.zeros_like(critical), "transfers", TRANSFER_COLOR, 0.007),
        (critical, "critical transfers", "#000000", 0.018),
    ):
        moved = chart.moved.filter(chosen)
        if not len(moved):
            continue
        source, destination = (moved[end].to_numpy().astype(np.float64) for end in ("source", "destination"))
        sent, arrived = moved["starting_time"].to_numpy(), moved["arrival_time"].to_numpy()
        side = np.sign(destination - source)
        begin, end = source + chart.half * side, destination - chart.half * side
        quiver = axes.quiver(
            sent,
            begin,
            arrived - sent,
            end - begin,
            angles="xy",
            scale_units="xy",
            scale=1.0,
            units="inches",
            width=width,
            headwidth=6.0 if name == "transfers" else 4.5,
            headlength=7.0 if name == "transfers" else 5.5,
            headaxislength=6.0 if name == "transfers" else 4.5,
            minlength=0.0,
            color=color,
            zorder=2.8 if name == "transfers" else 2.9,
        )
        quiver.set_gid(name)


def _remark(run: DagRun) -> str:
    """Count the jobs, copies and executors, and the jobs that the chart does not show whole."""
    jobs = run.jobs
    counts = dict(jobs["status"].cast(str).value_counts().iter_rows())
    duplicates = int(run.copies["duplicate"].sum())
    parts = [f"{how_many(len(jobs), 'job')} on {how_many(run.size, 'executor')}"]
    parts += [how_many(duplicates, "duplicate")] if duplicates else []
    parts += [f"{counts[status]:,} {words}" for status, words in _UNFINISHED.items() if counts.get(status)]
    return ", ".join(parts)


_UNFINISHED = {"running": "still running", "queued": "still queued"}
