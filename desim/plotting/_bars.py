"""The rectangles of a Gantt chart and how one panel of it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.plotting._boxes import CUT, DOWN, WAITING, add_boxes, box_edges, box_pixels, write_labels
from desim.plotting._panels import how_many, set_titles
from desim.plotting._runs import Run
from desim.plotting._series import down_times, executions
from desim.problems.batch import parse_core_sets

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["Chart", "draw_chart", "make_chart"]

#: With more rows than these a line that is thinner than its row would be thinner than a pixel.
MOST_THIN_ROWS = 60


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
    pixels = box_pixels(axes, shown.boxes, span, max(chart.rows, 1))
    add_boxes(axes, chart.down, "outages", zorder=1.0, **DOWN)
    add_boxes(axes, chart.waits, "waiting", zorder=1.0, **WAITING)
    style = box_edges(pixels.min(axis=1))
    add_boxes(axes, shown.boxes, "executions", facecolor=shades, zorder=2.0, always=True, **style)
    add_boxes(axes, shown.boxes[shown.cut], "cut", zorder=2.5, **CUT)
    if labels:
        texts = chart.executions["job_id"].cast(str).gather(shown.owners).to_list()
        write_labels(axes, shown.boxes, texts, pixels, shades, framed=shown.cut, fitting=labels == "auto")
    _set_rows(axes, chart)
    set_titles(axes, chart.run.title, _remark(chart.run))


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
    parts = [f"{how_many(len(run.jobs), 'job')} on {how_many(run.num_cores, 'core')}"]
    parts += [f"{of[status]:,} {words}" for status, words in _UNFINISHED.items() if of.get(status)]
    return ", ".join(parts)


_UNFINISHED = {"running": "still running", "queued": "still queued", "rejected": "rejected"}
