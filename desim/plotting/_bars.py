"""The rectangles of a Gantt chart and how one panel of it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting._panels import panel_pixels, set_titles
from desim.plotting._runs import Run
from desim.plotting._series import down_times, executions
from desim.plotting._style import DOWN_COLOR, WAITING_COLOR
from desim.problems.batch import parse_core_sets

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["CUT", "DOWN", "WAITING", "Chart", "draw_chart", "make_chart"]

DOWN: dict[str, Any] = {"facecolor": "#E8E8E8", "edgecolor": DOWN_COLOR, "hatch": "\\\\\\\\", "linewidth": 0.0}
CUT: dict[str, Any] = {"facecolor": "none", "edgecolor": "#202020", "hatch": "///", "linewidth": 0.0}
WAITING: dict[str, Any] = {"facecolor": WAITING_COLOR, "edgecolor": "none"}

#: More rectangles than these become pixels in vector files, which would be slow to show otherwise.
MOST_VECTOR_RECTANGLES = 3_000
#: With more rows than these a line that is thinner than its row would be thinner than a pixel.
MOST_THIN_ROWS = 60
#: Edges are drawn if at least half of the rectangles are this large, in pixels at 100 dots an inch, and then
#: around those that are; around the others they would hide the colour.
SMALLEST_WITH_EDGE = 4.0
#: Labels are written if at least this share of the rectangles has room for one, and at most so many.
SMALLEST_LABELLED_SHARE = 0.05
MOST_LABELS = 400
CHARACTER_WIDTH, LABEL_HEIGHT = 5.6, 9.0


@dataclass(frozen=True)
class Chart:
    """The geometry of one panel, with times in seconds and rows of height 1.

    Attributes
    ----------
    run : Run
        What is shown.
    executions, ranges : polars.DataFrame
        The executions, and their ranges of core ids (``row``, ``first``, ``last``).
    boxes : array, shape (n, 4)
        Begin, end, lower and upper edge of the rectangles of executions.
    owners : array of int, shape (n,)
        The execution of each rectangle.
    down, waits : array, shape (k, 4)
        Rectangles of cores that were down, and of jobs that waited.
    rows : int
        Rows on the y axis.
    row_names : list of str or None
        Names of the rows; None where they are core ids.
    """

    run: Run
    executions: pl.DataFrame
    ranges: pl.DataFrame
    boxes: NDArray[np.float64]
    owners: NDArray[np.int64]
    down: NDArray[np.float64]
    waits: NDArray[np.float64]
    rows: int
    row_names: list[str] | None

    @property
    def cut(self) -> NDArray[np.bool_]:
        """Which rectangles are of executions that an outage cut, shape (n,)."""
        return np.asarray(self.executions["cut"].to_numpy()[self.owners], dtype=np.bool_)

    @property
    def waiting(self) -> bool:
        """Whether any waiting time is drawn."""
        return bool((self.waits[:, 1] > self.waits[:, 0]).any())


def make_chart(run: Run, by: str) -> Chart:
    """Lay out the rectangles of a run by core or by job."""
    table = executions(run.jobs, run.interruptions, run.end)
    ranges = parse_core_sets(table["allocated_resources"])
    times = table.select("starting_time", "finish_time").to_numpy().astype(np.float64)
    nothing = np.empty((0, 4))
    if by == "core":
        owners = ranges["row"].to_numpy()
        boxes = np.column_stack([times[owners], ranges["first"].to_numpy() - 0.5, ranges["last"].to_numpy() + 0.5])
        fallen = down_times(run.outages, run.num_cores, run.end).to_numpy()
        down = np.column_stack([fallen[:, 2:], fallen[:, 0] - 0.5, fallen[:, 1] + 0.5])
        return Chart(run, table, ranges, boxes, owners, down, nothing, run.num_cores, None)
    lines = run.jobs.select("job_id", "submission_time").with_row_index("line")
    line = table.join(lines, on=["job_id", "submission_time"], how="left", maintain_order="left")["line"]
    owners = line.is_not_null().to_numpy().nonzero()[0]  # a run that crashed may not know the job of an execution
    rows = line.drop_nulls().to_numpy().astype(np.float64)
    boxes = np.column_stack([times[owners], rows - 0.4, rows + 0.4])
    names = [str(job_id) for job_id in run.jobs["job_id"].to_list()]
    return Chart(run, table, ranges, boxes, owners, nothing, _waits(run), len(names), names)


def _waits(run: Run) -> NDArray[np.float64]:
    """Return a thin line from each job's submission to its last start, or to the end if it is still queued."""
    import polars as pl

    lines = run.jobs.with_row_index("line").filter(pl.col("status") != "rejected")
    line = lines["line"].to_numpy().astype(np.float64)
    ends = lines["starting_time"].fill_null(run.end).to_numpy()
    half = 0.1 if len(run.jobs) <= MOST_THIN_ROWS else 0.4
    return np.column_stack([lines["submission_time"].to_numpy(), ends, line - half, line + half])


def draw_chart(
    axes: Axes,
    chart: Chart,
    faces: NDArray[np.float64],
    *,
    span: tuple[float, float],
    labels: str | bool,
    time_label: bool,
) -> None:
    """Draw one panel.

    Parameters
    ----------
    axes : Axes
        Where.
    chart : Chart
        What.
    faces : array, shape (executions, 4)
        Their colours.
    span : (float, float)
        The visible time, in seconds.
    labels : "auto" or bool
        Whether rectangles carry job ids.
    time_label : bool
        Whether the time axis has a label.
    """
    from desim.plotting._time_axis import time_axis

    time_axis(axes, *span, label=time_label)
    seen = (chart.boxes[:, 1] >= span[0]) & (chart.boxes[:, 0] <= span[1])
    shown = replace(chart, boxes=chart.boxes[seen], owners=chart.owners[seen])
    shades = faces[shown.owners]
    pixels = _pixel_sizes(axes, shown.boxes, span, max(chart.rows, 1))
    _add_boxes(axes, chart.down, "outages", zorder=1.0, **DOWN)
    _add_boxes(axes, chart.waits, "waiting", zorder=1.0, **WAITING)
    _add_boxes(axes, shown.boxes, "executions", facecolor=shades, zorder=2.0, **_edges(pixels.min(axis=1)))
    _add_boxes(axes, shown.boxes[shown.cut], "cut", zorder=2.5, **CUT)
    if labels:
        _write_labels(axes, shown, pixels, shades, fitting=labels == "auto")
    _set_rows(axes, chart)
    set_titles(axes, chart.run.title, _remark(chart.run))


def _pixel_sizes(axes: Axes, boxes: NDArray[np.float64], span: tuple[float, float], rows: int) -> NDArray[np.float64]:
    """Return width and height of the visible part of each rectangle, in pixels at 100 dots an inch, shape (n, 2)."""
    width, height = panel_pixels(axes)
    shown = np.minimum(boxes[:, 1], span[1]) - np.maximum(boxes[:, 0], span[0])
    return np.column_stack([shown / (span[1] - span[0]) * width, (boxes[:, 3] - boxes[:, 2]) / rows * height])


def _edges(thickness: NDArray[np.float64]) -> dict[str, Any]:
    """Return how rectangles of such pixels across are framed."""
    if not len(thickness) or np.median(thickness) < SMALLEST_WITH_EDGE:
        return {"linewidth": 0.0, "antialiased": False}  # then whole pixels tile without seams
    return {"linewidth": np.where(thickness >= SMALLEST_WITH_EDGE, 0.5, 0.0), "edgecolor": "#404040"}


def _add_boxes(axes: Axes, boxes: NDArray[np.float64], name: str, **style: Any) -> None:
    """Add rectangles as one collection, which other code finds by its gid."""
    from matplotlib.collections import PolyCollection

    if not len(boxes) and name != "executions":
        return
    corners = boxes[:, [0, 2, 0, 3, 1, 3, 1, 2]].reshape(-1, 4, 2)
    collection = PolyCollection(corners, **style)  # type: ignore[arg-type]  # an array is much faster than a list
    collection.set_gid(name)
    collection.set_rasterized(len(boxes) > MOST_VECTOR_RECTANGLES)
    axes.add_collection(collection, autolim=False)


def _write_labels(
    axes: Axes, chart: Chart, pixels: NDArray[np.float64], shades: NDArray[np.float64], *, fitting: bool
) -> None:
    """Write job ids into the rectangles, the largest first, upright where only that fits."""
    boxes, cut = chart.boxes, chart.cut
    job_ids = chart.executions["job_id"].cast(str)
    lengths = CHARACTER_WIDTH * job_ids.str.len_chars().to_numpy()[chart.owners] + 4.0
    wide, high = pixels.T
    upright = (wide < high) & (wide < lengths)
    along, across = np.where(upright, [high, wide], [wide, high])
    fits = (along >= lengths) & (across >= LABEL_HEIGHT)
    if fitting and fits.sum() < SMALLEST_LABELLED_SHARE * len(boxes):
        return
    order = np.argsort(-pixels.prod(axis=1), kind="stable")
    order = order[fits[order]][:MOST_LABELS] if fitting else order
    begin, end = axes.get_xlim()
    for index in order.tolist():
        face = shades[index]
        axes.text(
            (max(boxes[index, 0], begin) + min(boxes[index, 1], end)) / 2,
            boxes[index, 2:].mean(),
            job_ids[int(chart.owners[index])],
            ha="center",
            va="center",
            rotation=90 if upright[index] else 0,
            fontsize=7.5,
            color="black" if face[:3] @ (0.299, 0.587, 0.114) > 0.5 else "white",
            bbox={"facecolor": face, "edgecolor": "none", "pad": 1.0} if cut[index] else None,
            clip_on=True,
            zorder=3.0,
        )


def _set_rows(axes: Axes, chart: Chart) -> None:
    """Set up the y axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    axes.set_ylim(-0.5, max(chart.rows, 1) - 0.5)
    axes.set_ylabel("core id" if chart.row_names is None else "job id, by submission")
    axes.spines[["top", "right"]].set_visible(False)
    names = chart.row_names
    if names is None:
        axes.yaxis.set_major_locator(MultipleLocator(_core_step(chart.rows)))
        return
    axes.invert_yaxis()
    axes.yaxis.set_major_locator(MaxNLocator(nbins=min(max(len(names), 1), 12), integer=True))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: names[int(value)] if 0 <= value < len(names) and value == int(value) else "")
    )


def _core_step(num_cores: int) -> int:
    """Return the distance of marks on an axis of core ids: a power of two where the cores are multiples of one."""
    powers = [1 << exponent for exponent in range(32)]
    decades = [factor * power for power in map(int, 10.0 ** np.arange(9)) for factor in (1, 2, 5)]
    return next(step for step in (powers if num_cores % 8 == 0 else decades) if num_cores / step <= 9)


def _remark(run: Run) -> str:
    """Count the jobs, and those that the chart does not show whole."""
    counts = run.jobs["status"].cast(str).value_counts()
    of = dict(counts.iter_rows())
    count, cores = len(run.jobs), run.num_cores
    parts = [f"{count:,} {'job' if count == 1 else 'jobs'} on {cores:,} {'core' if cores == 1 else 'cores'}"]
    parts += [f"{of[status]:,} {words}" for status, words in _UNFINISHED.items() if of.get(status)]
    return ", ".join(parts)


_UNFINISHED = {"running": "still running", "queued": "still queued", "rejected": "rejected"}
