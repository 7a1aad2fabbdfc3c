"""Windows of deferrable jobs: from when to when each could be started, and when it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._boxes import CUT, add_boxes, box_edges, box_pixels, write_labels
from desim.plotting._deferrable_runs import DeferrableRun, load_deferrable_runs
from desim.plotting._panels import add_legend, given_or_new_panels, how_many, panel_pixels, set_titles
from desim.plotting._slot_runs import check_slots, nice_count, slot_axis
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["draw_job_windows", "job_windows"]

Floats = NDArray[np.float64]
Slots = tuple[int, int] | None

WINDOW: dict[str, Any] = {"facecolor": "#CFE5F5", "edgecolor": "#8CB4D2"}
EXPIRED: dict[str, Any] = {"facecolor": "#F2B58A", "edgecolor": "#C0611B"}
RUN, RUNS_ON = "#0072B2", "#56B4E9"
NOTICE, START = "#8A8A8A", "black"
#: Widths of the lines of notices and starts, in points; where rows are low, at most such shares of their heights.
NOTICE_WIDTH, START_WIDTH, THIN, THICK = 1.0, 2.0, 0.15, 0.6
EVICTION: dict[str, Any] = {"color": "#D55E00", "marker": "X", "markeredgecolor": "white", "linestyle": "none"}
EVICTION_SIZE = 6.0
#: Width of the frame of a window, and the least height of a row where it has one, in points.
FRAME_WIDTH, LEAST_FRAMED = 0.8, 4.0
#: Height of a row, and of a panel, alone or one of several, in inches.
ROW, HIGHEST, HIGHEST_OF_SEVERAL = 0.26, 7.8, 4.8
#: What can have become of a job.
STATUSES = ("completed", "running", "expired", "evicted", "pending")
#: Half the height of a window and of an execution, in rows.
TALL, LOW = 0.42, 0.3
#: Height of the name of a row, in pixels at 100 dots an inch.
NAME_HEIGHT = 12.0


class WindowOptions(TypedDict, total=False):
    """Options of :func:`job_windows`, which explains them."""

    num_jobs: int | None
    slots: Slots
    labels: Literal["auto"] | bool


@overload
def job_windows(
    results: Result, *, axes: Axes | None = ..., **options: Unpack[WindowOptions]
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def job_windows(
    results: Mapping[str, Result], *, axes: Sequence[Axes] | None = ..., **options: Unpack[WindowOptions]
) -> list[Axes]: ...  # numpydoc ignore=GL08


def job_windows(
    results: Result | Mapping[str, Result],
    *,
    num_jobs: int | None = 40,
    slots: Slots = None,
    labels: Literal["auto"] | bool = "auto",
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw a row for each deferrable job: its notice, its window, its start and its run.

    Jobs stand in the order of their earliest starts. A thin line leads from the submission to the window, which is a
    pale bar over the slots in which the job may be started: light blue, or orange if it expired. A black mark is the
    start, and a narrower bar the run. Runs that an eviction cut are hatched and end with a cross; a job may then have
    several.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other over the same slots.
    num_jobs : int, optional
        Draw only so many jobs, the first of the order; the slots that are shown then end with them. None draws all.
    slots : (int, int), optional
        Show only the slots from the first to before the second, and the jobs whose windows were open in them, but for
        those that had ended before.
    labels : {"auto", True, False}
        Whether runs carry what the job requests of the first resource: where it fits, always, or never.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a run; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1, the window of a job from its earliest
        start to the end of the slot of its latest start. The first job stands at y = 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``deferrable``.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> class Eager:
    ...     def act(self, observation):
    ...         return range(len(observation.current))
    >>> jobs = [Job(1, 0.0, 0, 2, 3, 2.0), Job(2, 0.0, 1, 1, 2, 1.0)]
    >>> axes = job_windows(simulate(DeferrableCluster(jobs, [3]), Eager()))
    >>> axes.get_ylabel(), axes.get_title("right")
    ('job id, by earliest start', '2 jobs: 2 completed')
    """
    return draw_job_windows(results, num_jobs=num_jobs, slots=slots, labels=labels, axes=axes)


def draw_job_windows(
    results: Result | Mapping[str, Result],
    *,
    num_jobs: int | None = 40,
    slots: Slots = None,
    labels: Literal["auto"] | bool = "auto",
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw what :func:`job_windows` describes.

    Parameters
    ----------
    results, num_jobs, slots, labels, axes : object
        As there.

    Returns
    -------
    Axes or list of Axes
        As there.
    """
    if labels not in ("auto", True, False):
        raise InvalidConfiguration(f"labels is {labels!r}, want 'auto', True or False")
    whole = isinstance(num_jobs, int | np.integer) and not isinstance(num_jobs, bool)
    if num_jobs is not None and not (whole and num_jobs >= 1):
        raise InvalidConfiguration(f"num_jobs is {num_jobs!r}, want a whole number of at least 1, or None")
    window = check_slots(slots)
    charts = [_make(run, window, num_jobs) for run in load_deferrable_runs(results)]
    span = _span(charts, window)
    tallest = max(len(chart.jobs) for chart in charts)
    height = min(max(ROW * tallest, 2.0), HIGHEST if len(charts) == 1 else HIGHEST_OF_SEVERAL)
    panels, own = given_or_new_panels(axes, len(charts), height=height)
    for panel, chart in zip(panels, charts, strict=True):
        slot_axis(panel, *span, label=panel is panels[-1] or not own)
        _draw(panel, chart, span, labels)
        _name_rows(panel, chart.jobs)
        set_titles(panel, chart.run.title, _remark(chart))
    _add_keys(panels, charts, own=own)
    return panels[0] if isinstance(results, Result) else panels


@dataclass(frozen=True)
class _Chart:
    """What one panel shows: jobs, one a row, their executions, and how many there are besides."""

    run: DeferrableRun
    jobs: pl.DataFrame
    executions: pl.DataFrame
    num_jobs: int

    def status(self, name: str) -> NDArray[np.bool_]:
        """Return which rows have become this."""
        return np.asarray((self.jobs["status"].cast(str) == name).to_numpy(), dtype=np.bool_)


def _make(run: DeferrableRun, slots: Slots, num_jobs: int | None) -> _Chart:
    """Choose the jobs, with when they ``leave`` and their window ``closes``, and the ``line`` of each execution."""
    import polars as pl

    expired = pl.col("status").cast(pl.String) == "expired"
    jobs = (
        run.result.jobs.with_row_index("row")
        .with_columns(pl.col("row").cast(pl.Int64), closes=pl.col("latest_start").cast(pl.Float64) + 1.0)
        .with_columns(leave=pl.when(expired).then("closes").otherwise(pl.col("finish_time").fill_null(run.until)))
        .sort("earliest_start", "submission_time", "row")
    )
    if slots is not None:
        jobs = jobs.filter(pl.col("earliest_start") < slots[1], pl.min_horizontal("closes", "leave") > slots[0])
    chosen = jobs.head(num_jobs) if num_jobs is not None else jobs
    lines = chosen.select("row", line=pl.int_range(pl.len(), dtype=pl.Int64))
    return _Chart(run, chosen, run.executions.join(lines, on="row", how="inner", maintain_order="left"), len(jobs))


def _span(charts: Sequence[_Chart], slots: Slots) -> tuple[float, float]:
    """Return the slots that are shown: until the run ends or, where jobs are left out, until these have left."""
    begin, end = slots or (0.0, max(1.0, *(chart.run.until for chart in charts)))
    import polars as pl

    left = [chart for chart in charts if len(chart.jobs) < chart.num_jobs]
    if left:
        last = max(float(chart.jobs.select(pl.max_horizontal("leave", "closes").max()).item()) for chart in left)
        whole = max([last, *(chart.run.until for chart in charts if chart not in left and len(chart.jobs))])
        end = min(end, max(begin + 1.0, float(np.ceil(whole))))
    return float(begin), float(end)


def _draw(axes: Axes, chart: _Chart, span: tuple[float, float], labels: Literal["auto"] | bool) -> None:
    """Draw one panel."""
    jobs, rows = chart.jobs, max(len(chart.jobs), 1)
    line = np.arange(len(jobs), dtype=np.float64)
    known, earliest, closes = (
        jobs[name].cast(float).to_numpy() for name in ("submission_time", "earliest_start", "closes")
    )
    windows = np.column_stack([earliest, closes, line - TALL, line + TALL])
    early, expired, high = known < earliest, chart.status("expired"), 0.72 * panel_pixels(axes)[1] / rows
    frame = FRAME_WIDTH if high >= LEAST_FRAMED else 0.0
    for name, kind, style in (("windows", ~expired, WINDOW), ("expired", expired, EXPIRED)):
        add_boxes(axes, windows[kind], name, zorder=1.0, linewidth=frame, **style)
    width = min(NOTICE_WIDTH, THIN * high)
    axes.hlines(line[early], known[early], earliest[early], NOTICE, linewidth=width, zorder=1.5, gid="notice")
    _draw_runs(axes, chart, span, labels, start_width=min(START_WIDTH, THICK * high))


def _draw_runs(
    axes: Axes, chart: _Chart, span: tuple[float, float], labels: Literal["auto"] | bool, *, start_width: float
) -> None:
    """Draw executions, their starts and how they were cut."""
    from matplotlib.colors import to_rgba_array

    table = chart.executions
    line, begin, end = (table[name].cast(float).to_numpy() for name in ("line", "begin", "end"))
    cut, runs_on = (table[name].to_numpy().astype(np.bool_) for name in ("cut", "runs_on"))
    boxes = np.column_stack([begin, end, line - LOW, line + LOW])
    pixels = box_pixels(axes, boxes, span, max(len(chart.jobs), 1))
    shades = to_rgba_array([RUN, RUNS_ON])[runs_on.astype(np.int64)]
    seen = (end > span[0]) & (begin < span[1])
    framed = box_edges(np.median(pixels[seen].min(axis=1), keepdims=True) if seen.any() else np.zeros(0))
    add_boxes(axes, boxes, "runs", always=True, zorder=2.0, facecolor=shades, **framed)
    add_boxes(axes, boxes[cut], "cut", zorder=2.5, **CUT)
    axes.vlines(begin, line - TALL, line + TALL, START, linewidth=start_width, zorder=2.8, gid="starts")
    if cut.any():
        axes.plot(end[cut], line[cut], markersize=EVICTION_SIZE, zorder=3.5, gid="evictions", **EVICTION)
    if labels:
        amounts = table[f"requested_{chart.run.resources[0]}"].to_numpy()[seen]
        texts = [f"{amount:g}" for amount in amounts.tolist()]
        write_labels(axes, boxes[seen], texts, pixels[seen], shades[seen], framed=cut[seen], fitting=labels == "auto")


def _name_rows(axes: Axes, jobs: pl.DataFrame) -> None:
    """Make the y axis one of jobs, the first at the top, and write the names of those that there is room for."""
    names = [str(job_id) for job_id in jobs["job_id"].to_list()]
    step = nice_count(len(names) * NAME_HEIGHT / panel_pixels(axes)[1])
    axes.set_yticks(range(0, len(names), step), names[::step], fontsize=8)
    axes.tick_params(axis="y", length=0 if step == 1 else 2)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_ylabel("job id, by earliest start")
    axes.spines[["top", "right"]].set_visible(False)


def _remark(chart: _Chart) -> str:
    """Count the jobs that are shown, and what has become of them."""
    shown, of = len(chart.jobs), how_many(chart.num_jobs, "job")
    counts = {name: int(chart.status(name).sum()) for name in STATUSES}
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return (f"first {shown:,} of {of}" if shown < chart.num_jobs else of) + (f": {words}" if words else "")


def _add_keys(panels: list[Axes], charts: Sequence[_Chart], *, own: bool) -> None:
    """Explain lines, colours and marks."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    jobs = [chart.jobs for chart in charts]
    expired = [chart.status("expired") for chart in charts]
    runs_on, cut = ([chart.executions[name] for chart in charts] for name in ("runs_on", "cut"))
    early = any((table["submission_time"] < table["earliest_start"]).any() for table in jobs)
    start = Line2D([], [], color=START, marker="|", markersize=9.0, markeredgewidth=START_WIDTH, linestyle="none")
    run = f"run, with its {charts[0].run.resources[0]}" if any(panel.texts for panel in panels) else "run"
    entries: list[tuple[str, bool, Any]] = [
        ("notice", early, Line2D([], [], color=NOTICE, linewidth=NOTICE_WIDTH)),
        ("window", not all(map(all, expired)), Patch(**WINDOW)),
        ("window of a job that expired", any(map(any, expired)), Patch(**EXPIRED)),
        ("start", any(map(len, cut)), start),
        (run, not all(map(all, runs_on)), Patch(facecolor=RUN)),
        ("run that goes on", any(map(any, runs_on)), Patch(facecolor=RUNS_ON)),
        ("eviction", any(map(any, cut)), Line2D([], [], markersize=EVICTION_SIZE, **EVICTION)),
    ]
    add_legend(
        panels,
        [handle for _, there, handle in entries if there],
        [name for name, there, _ in entries if there],
        own=own,
    )
