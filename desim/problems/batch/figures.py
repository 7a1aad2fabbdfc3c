"""Figures of batch runs: Gantt charts, utilization, queue length, and waiting times by job size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many, nice_count
from desim.plotting.axes import (
    LOGARITHMIC_FROM,
    add_legend,
    beside,
    class_axis,
    color_bar,
    drawn_entries,
    label_panels,
    name_rows,
    new_panels,
    panel_pixels,
    plain,
    scale_durations,
    set_titles,
    shade_unmeasured,
    time_axis,
)
from desim.plotting.bars import CUT, DOWN, WAITING, add_boxes, boxes_of, draw_bars, label_alike
from desim.plotting.colors import Bars, Coloring, color_categories, color_neighbours, color_numbers, line_styles
from desim.plotting.curves import CurveOptions, add_up, draw_steps, draw_utilization
from desim.plotting.runs import Results, Window, counted_jobs, down_spans, load_runs, one_panel_a_run, span_of, title_of
from desim.problem import Figure, ReportText
from desim.problems.batch.cores import parse_core_sets
from desim.problems.batch.executions import executions
from desim.problems.batch.parts import gathered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.result import Result

__all__ = [
    "FIGURES",
    "WORDS",
    "draw_executions",
    "draw_gantts",
    "gantt",
    "queue_length",
    "steps_of",
    "unavailable",
    "utilization",
    "waiting_by_size",
]

Floats = NDArray[np.float64]

#: Boxes of a chart other than executions, with their styles.
MARKS = {"waiting": WAITING, "cut by an outage": CUT, "preempted": CUT, "cores down": DOWN}
#: Final states of executions; each always has the same colour.
ENDINGS = ("completed", "killed", "lost", "running", "requeued", "preempted", "suspended")
UNFINISHED = ("still running", "still queued", "rejected")
DURATIONS = ("requested_time", "run_time", "execution_time", "waiting_time", "turnaround_time")
#: Above this number of executions, colours that distinguish neighbours are no longer readable.
MOST_JOB_COLORS = 1_000
#: Above this number of rows, a line thinner than its row would be thinner than a pixel.
MOST_THIN_ROWS = 60
QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
#: Number of runs up to which dots beside each other are large.
FEW_RUNS = 4
#: Width of a character of a class name, in pixels at 100 dots per inch.
NAME_CHARACTER = 7.0
#: Height of a rotated line of a class name, in the same pixels.
LABEL_LINES = 20.0


def _executions(run: Result) -> pl.DataFrame:
    return executions(run.jobs, run.table("interruptions"), run.span[1])


def steps_of(run: Result) -> pl.DataFrame:
    """Return busy cores, cores that are up and queued jobs as step functions of time."""
    ran, one, time = _executions(run), pl.lit(1, pl.Int64), pl.Series([0.0, run.span[1]])
    cores = pl.col("requested_number_of_resources")
    up = pl.col("cores_up")
    changes = [
        pl.DataFrame({"time": time}),
        run.jobs.filter(pl.col("status") != "rejected").select(time="submission_time", queued=one),
        ran.select(time="starting_time", busy=cores),
        ran.filter(~pl.col("resumed")).select(time="starting_time", queued=-one),
        ran.filter(pl.col("status") != "running").select(time="finish_time", busy=-cores),
        ran.filter(pl.col("status").is_in(("requeued", "preempted"))).select(time="finish_time", queued=one),
        run.table("outages").select("time", up=up.diff().fill_null(up - run.info["num_cores"])),
    ]
    return add_up(changes, up=run.info["num_cores"])


@one_panel_a_run
def gantt(
    results: Results,
    *,
    by: Literal["core", "job"] = "core",
    color_by: str | None = None,
    window: Window = None,
    labels: bool = True,
    axes: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw a Gantt chart: which job held which cores when.

    Every execution is one rectangle per range of adjacent cores. Executions interrupted by an outage are hatched; so
    are, in grey, cores that were down. Charts with few jobs have edges and job ids. In charts with many jobs these
    would hide the data, and neighbours differ by colour alone. Jobs that are still running end with the chart;
    queued and rejected jobs are only counted, above the chart on the right.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same time axis.
    by : {"core", "job"}
        Rows of the chart: core ids, or jobs in order of submission with a thin line from a job's submission to its
        start.
    color_by : str, optional
        ``"job"``: neighbours differ, and repeated executions of a job have the same colour. ``"user"`` or
        ``"status"``: the eight categories with the most core-seconds have a colour each. Or the name of a numeric
        column of the job table, such as ``"waiting_time"``. By default ``"job"`` for up to 1,000 visible executions,
        and ``"waiting_time"`` for more, because more colours cannot be distinguished.
    window : (float, float), optional
        Time range to show, in seconds.
    labels : bool
        Whether rectangles show job ids where these fit.
    axes : Axes or iterable of Axes, optional
        Axes to draw into, one per run (default: a new figure).

    Returns
    -------
    Axes or list of Axes
        One Axes for a Result, a list for a mapping. Positions are in seconds of simulated time, whatever
        the unit that the ticks show.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``batch``.

    Examples
    --------
    >>> from desim.agents.batch import FCFS
    >>> from desim import simulate
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0)]
    >>> axes = gantt(simulate(BatchCluster(jobs, num_cores=2), FCFS()))
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('time (s)', 'core id')
    """
    check_choice("by", by, ("core", "job"))
    runs = load_runs(results, "batch")
    tallest = max(run.info["num_cores"] if by == "core" else len(run.jobs) for run in runs)
    height = min(max(0.3 * tallest, 1.8), 4.2 if len(runs) == 1 else 2.6)
    draw = partial(_draw_cores if by == "core" else _draw_jobs, labels=labels)
    sizes = [how_many(run.info["num_cores"], "core") for run in runs]
    panels = new_panels(axes, len(runs), height=height)
    return draw_gantts(runs, window, color_by, panels, draw=draw, sizes=sizes, marks=MARKS)


def draw_gantts(
    runs: Sequence[Result],
    window: Window,
    color_by: str | None,
    panels: list[Axes],
    *,
    draw: Callable[[Axes, Result, pl.DataFrame, Floats], None],
    sizes: Sequence[str],
    marks: Mapping[str, Any],
) -> list[Axes]:
    """Draw one chart of executions per run, with a common time axis and common colours.

    Parameters
    ----------
    runs : sequence of Result
        Runs of ``batch``.
    window : (float, float), optional
        Time range to show, in seconds.
    color_by : str, optional
        Colouring, as for :func:`gantt`.
    panels : list of Axes
        Axes to draw into.
    draw : callable
        Draws the executions of a run, given axes, run, executions and their colours.
    sizes : sequence of str
        Size of the cluster of each run.
    marks : mapping of str to dict
        Styles of the other boxes in the chart, for the legend.

    Returns
    -------
    list of Axes
        The panels.
    """
    span = span_of(runs, window)
    tables = [_executions(run) for run in runs]
    if color_by is None:
        seen = (pl.col("finish_time") > span[0]) & (pl.col("starting_time") < span[1])
        most = max(table.filter(seen).height for table in tables)
        color_by = "job" if most <= MOST_JOB_COLORS else "waiting_time"
    coloring = _color_executions(runs, tables, color_by)
    for panel, run, table, faces, size in zip(panels, runs, tables, coloring.faces, sizes, strict=True):
        time_axis(panel, *span)
        plain(panel)
        draw(panel, run, table, faces)
        counts = counted_jobs(run, size, unfinished=UNFINISHED)
        set_titles(panel, title_of(run), counts, has_bar=coloring.scale is not None)
    add_legend(panels, [*coloring.entries, *drawn_entries(panels, marks), *shade_unmeasured(panels, runs)])
    if coloring.scale is not None:
        color_bar(panels, coloring.scale, color_by.replace("_", " "), times=color_by in (*DURATIONS, "submission_time"))
    label_panels(panels)
    label_alike(panels)
    return panels


def _draw_cores(axes: Axes, run: Result, table: pl.DataFrame, faces: Floats, labels: bool) -> None:
    """Draw executions over core ids."""
    from matplotlib.ticker import MultipleLocator

    cores = run.info["num_cores"]
    axes.set_ylim(-0.5, max(cores, 1) - 0.5)
    axes.set_ylabel("core id")
    powers = [1 << power for power in range(32)]  # ticks at powers of two if the number of cores is a multiple of 8
    step = next(power for power in powers if cores / power <= 9) if cores % 8 == 0 else nice_count(cores / 9)
    axes.yaxis.set_major_locator(MultipleLocator(step))
    ranges = parse_core_sets(table["allocated_resources"])
    bars = pl.concat([table[ranges["row"]], ranges.select("first", "last")], how="horizontal")
    boxes = boxes_of(bars["starting_time"], bars["finish_time"], bars["first"], 0.5, bars["last"])
    add_boxes(axes, unavailable(run), "cores down", zorder=1.0, **DOWN)
    draw_executions(axes, bars, boxes, faces[ranges["row"].to_numpy()], rows=cores, labels=labels)


def _draw_jobs(axes: Axes, run: Result, table: pl.DataFrame, faces: Floats, labels: bool) -> None:
    """Draw executions over jobs, with thin lines from each job's submission to its last start."""
    jobs = run.jobs.with_columns(line=pl.int_range(pl.len()), until=pl.col("starting_time").fill_null(run.span[1]))
    name_rows(axes, [str(job) for job in jobs["job_id"].to_list()], "job id, by submission")
    waits = jobs.filter(pl.col("status") != "rejected", pl.col("until") > pl.col("submission_time"))
    half = 0.1 if len(jobs) <= MOST_THIN_ROWS else 0.4
    lines = boxes_of(waits["submission_time"], waits["until"], waits["line"], half)
    add_boxes(axes, lines, "waiting", zorder=1.0, **WAITING)
    bars = table.join(jobs.select("arrival_number", "line"), on="arrival_number", maintain_order="left")
    boxes = boxes_of(bars["starting_time"], bars["finish_time"], bars["line"], 0.4)
    draw_executions(axes, bars, boxes, faces, rows=len(jobs), labels=labels)


def draw_executions(axes: Axes, bars: pl.DataFrame, boxes: Floats, faces: Floats, *, rows: int, labels: bool) -> None:
    """Draw executions as rectangles, and hatch those that were interrupted.

    Parameters
    ----------
    axes : Axes
        Axes to draw into.
    bars : polars.DataFrame
        n executions or parts of them, with ``job_id``, ``cut`` and ``status``.
    boxes : array of float, shape (n, 4)
        Their rectangles.
    faces : array of float
        Their colours.
    rows : int
        Number of rows of the chart.
    labels : bool
        Whether rectangles show job ids where these fit.
    """
    cut, preempted = bars["cut"].to_numpy().astype(np.bool_), (bars["status"] == "preempted").to_numpy()
    texts = bars["job_id"].cast(str).to_list() if labels else ()
    draw_bars(axes, boxes, "executions", faces, rows=rows, texts=texts, framed=cut)
    add_boxes(axes, boxes[cut & ~preempted], "cut by an outage", zorder=2.5, **CUT)
    add_boxes(axes, boxes[cut & preempted], "preempted", zorder=2.5, **CUT)


def unavailable(run: Result) -> Floats:
    """Return the rectangles of cores that were down; adjacent cores with the same outage share one."""
    outages = run.table("outages").with_columns(row=pl.int_range(pl.len()))
    cores = parse_core_sets(outages["resources"]).with_columns(core=pl.int_ranges("first", pl.col("last") + 1))
    spans = down_spans(cores.explode("core").join(outages, on="row").sort("row", "core"), "core", run.span[1])
    together = ["begin", "end", pl.col("lane") - pl.int_range(pl.len()).over("begin", "end")]
    blocks = spans.sort("begin", "end", "lane").group_by(together, maintain_order=True)
    table = blocks.agg(first=pl.col("lane").first(), last=pl.col("lane").last())
    return boxes_of(table["begin"], table["end"], table["first"], 0.5, table["last"])


def _color_executions(runs: Sequence[Result], tables: Sequence[pl.DataFrame], color_by: str) -> Coloring:
    """Return colours for the executions of several runs, consistent across the runs."""
    if color_by == "job":
        bars = [
            Bars(
                table["arrival_number"].to_list(), parse_core_sets(table["allocated_resources"]), run.info["num_cores"]
            )
            for run, table in zip(runs, tables, strict=True)
        ]
        return Coloring(color_neighbours(bars), [])
    if color_by in ("user", "status"):
        user = pl.when(pl.col("user_id") < 0).then(pl.lit("unknown user")).otherwise(pl.format("user {}", "user_id"))
        category = user if color_by == "user" else pl.col("status")
        work = pl.col("requested_number_of_resources") * (pl.col("finish_time") - pl.col("starting_time"))
        parts = [table.select(category=category, weight=work) for table in tables]
        return color_categories(parts, ENDINGS if color_by == "status" else ())
    if not all(color_by in table.columns and table[color_by].dtype.is_numeric() for table in tables):
        raise InvalidConfiguration(
            f"color_by: got {color_by!r}, expected 'job', 'user', 'status' or a numeric column of the job table"
        )
    return color_numbers([table[color_by] for table in tables], durations=color_by in DURATIONS)


def utilization(
    results: Results, *, unit: Literal["percent", "cores"] = "percent", **options: Unpack[CurveOptions]
) -> Axes:
    """Draw the number or share of busy cores over time.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name; more than four have one panel each.
    unit : {"percent", "cores"}
        Busy cores as a percentage of the cores that are up, or their number. While no core is up, the percentage is
        undefined and the curve has a gap. With numbers, a thin grey line shows the cores that are up.
    **options
        ``bin_width``, ``window`` and ``axes``, see :class:`~desim.plotting.curves.CurveOptions`.

    Returns
    -------
    Axes
        The panel, or the first of several. Positions are in seconds, whatever the unit of the ticks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``batch``.
    """
    return draw_utilization(results, "batch", steps_of, ("busy", "busy cores"), "cores", unit=unit, **options)


def queue_length(results: Results, **options: Unpack[CurveOptions]) -> Axes:
    """Draw the number of queued jobs over time.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name; more than four have one panel each.
    **options
        ``bin_width``, ``window`` and ``axes``, see :class:`~desim.plotting.curves.CurveOptions`.

    Returns
    -------
    Axes
        The panel, or the first of several. Positions are in seconds, whatever the unit of the ticks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``batch``.
    """
    return draw_steps(results, "batch", steps_of, pl.col("queued"), "queued jobs", **options)


def waiting_by_size(results: Results, *, axes: Axes | None = None) -> Axes:
    """Draw waiting times by job size.

    For each size class and each run, a thin line spans the 5th to the 95th percentile of the waiting time, a bar the
    25th to the 75th, and a dot marks the median. Jobs that have not started have no waiting time; their number is
    shown above the chart.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, side by side in each class.
    axes : Axes, optional
        Axes to draw into (default: a new figure).

    Returns
    -------
    Axes
        Class i is at x = i. It holds the jobs that request more than 2 to the power of i - 1 and at most 2 to the
        power of i cores. Waiting times are in seconds, whatever the unit of the ticks. The number of jobs of a class
        is shown below its name, unless the runs differ in it.

    Raises
    ------
    InvalidConfiguration
        If the results are not those of ``batch``.
    """
    runs = load_runs(results, "batch")
    classes = [_classes(run) for run in runs]
    most = max(int(table["class"].to_numpy().max(initial=0)) for table in classes)
    waiting = pl.col("waiting_time")
    percentiles = {name: waiting.quantile(share, interpolation="linear") for name, share in QUANTILES.items()}
    styles = line_styles(run.name for run in runs)
    (panel,) = new_panels(axes, 1, height=3.4)
    plain(panel, grid="y")
    entries, longest = [], 0.0
    dot = 5.0 if len(runs) <= FEW_RUNS else 3.0
    for position, (run, table) in enumerate(zip(runs, classes, strict=True)):
        known = table.drop_nulls("waiting_time").group_by("class").agg(**percentiles).sort("class")
        shift, width = beside(position, len(runs), share=0.68)
        color, at, low = styles[run.name].color, known["class"].to_numpy() + shift, known["p25"].to_numpy()
        panel.vlines(at, known["p5"], known["p95"], color=color, linewidth=1.2)
        look: Any = {"color": color, "edgecolor": color, "linewidth": 0.8, "alpha": 0.55}
        look["hatch"] = styles[run.name].hatch
        entries.append((title_of(run), panel.bar(at, known["p75"].to_numpy() - low, width, bottom=low, **look)))
        panel.plot(
            at, known["p50"], "o", color=color, markeredgecolor="white", markersize=dot, zorder=3.0, clip_on=False
        )
        longest = float(known["p95"].to_numpy().max(initial=longest))
    _waiting_axis(panel, longest)
    _name_classes(panel, [np.bincount(table["class"], minlength=most + 1).tolist() for table in classes])
    remark = "dot: median, bar: 25th to 75th, line: 5th to 95th percentile"
    unstarted = [table["waiting_time"].null_count() for table in classes]
    if any(unstarted):
        remark += f"; without {' / '.join(f'{count:,}' for count in unstarted)} jobs that have not started"
    set_titles(panel, title_of(runs[0]) if len(runs) == 1 else "", remark)
    add_legend([panel], entries if len(runs) > 1 else [])
    return panel


def _classes(run: Result) -> pl.DataFrame:
    """Return the class and the waiting time of the jobs that were not rejected."""
    jobs = run.jobs.filter(pl.col("status") != "rejected")
    size = pl.col("requested_number_of_resources").cast(pl.Float64).log(2.0)
    return jobs.select("waiting_time", **{"class": (size - 1e-9).ceil().cast(pl.Int64)})


def _waiting_axis(axes: Axes, longest: float) -> None:
    """Set up the axis of waiting times, from 0 to ``longest`` seconds."""
    is_long = longest >= LOGARITHMIC_FROM and scale_durations(axes, "y", 2.0 * longest)
    axes.set_ylabel("waiting time" if is_long else "waiting time (s)")
    axes.set_ylim(0.0, longest * (2.0 if is_long else 1.05) or 1.0)


def _name_classes(axes: Axes, counts: list[list[int]]) -> None:
    """Label the size classes, with their numbers of jobs if all runs have the same."""
    names = ["1", "2"] + [f"{2 ** (power - 1) + 1}-{2**power}" for power in range(2, len(counts[0]))]
    names = names[: len(counts[0])]
    axes.set_xlabel("cores requested")
    if all(other == counts[0] for other in counts):
        names = [f"{name}\n({count:,})" for name, count in zip(names, counts[0], strict=True)]
        axes.set_xlabel("cores requested; in brackets the number of jobs")
    room = panel_pixels(axes)[0] / len(names) / NAME_CHARACTER
    crowded = max(len(line) for name in names for line in name.split("\n")) > room
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    if crowded and room * NAME_CHARACTER < 2 * LABEL_LINES:  # two rotated lines would overlap the next name
        names = [name.partition("\n")[0] for name in names]
        axes.set_xlabel("cores requested")
    class_axis(axes, names, fontsize="small", **turned)


def _workload(result: Result) -> dict[str, float]:
    """Return summary numbers of a run's workload."""
    cores, run_time, submission = map(pl.col, ("requested_number_of_resources", "run_time", "submission_time"))
    numbers = result.jobs.select(
        pl.len().alias("jobs"),
        (submission.max() - submission.min()).alias("first to last submission ({})"),
        cores.median().alias("cores requested, median"),
        cores.max().alias("cores requested, maximum"),
        run_time.median().alias("run time, median (s)"),
        run_time.max().alias("run time, maximum (s)"),
        (cores * run_time).filter(pl.col("status") != "rejected").sum().alias("cores x run time, sum (core-{})"),
    )
    return numbers.cast(pl.Float64).fill_null(float("nan")).row(0, named=True) | _realized(result)


def _realized(result: Result) -> dict[str, float]:
    """Return the offered load of a run and the capacity of its cluster."""
    cores, run_time, submission = map(pl.col, ("requested_number_of_resources", "run_time", "submission_time"))
    work = result.jobs.filter(pl.col("status") != "rejected").select((cores * run_time).sum()).item()
    span = result.jobs.select((submission.max() - submission.min()).fill_null(0.0)).item()
    capacity = float(result.info["num_cores"])
    return {"offered load": work / (capacity * span) if span else float("nan"), "capacity (cores)": capacity}


def _in_force(result: Result) -> list[str]:
    """Return the features of a run, its grace time and its predictor as sentences; empty if there were none."""
    sentences, info = [sentence(result) for sentence in gathered("sentence")], result.info
    if "over_time_limit" in info:
        sentences.append(f"Jobs may exceed their requested time by {info['over_time_limit']:,.10g} s.")
    if "predictor" in info:
        known = ", which knows the actual ones" if info.get("foresight") else ""
        sentences.append(f"Plans use run times predicted by {info['predictor']}{known}.")
    return list(filter(None, sentences))


FIGURES = {
    "gantt": Figure(
        gantt,
        "Gantt charts: which job held which cores when. Colours only distinguish neighbouring jobs, except in charts "
        "of more than 1,000 executions, where they show waiting times. Hatched: executions interrupted by an outage, "
        "and cores that were down.",
    ),
    "utilization": Figure(utilization, "Utilization over time: busy cores as a share of the cores that are up."),
    "queue": Figure(
        queue_length,
        "Queue over time: jobs that have been submitted and are neither running nor suspended, except rejected jobs.",
    ),
    "waiting": Figure(
        waiting_by_size,
        "Waiting time by the number of cores requested. Dot: median; bar: 25th to 75th percentile; line: 5th to 95th. "
        "The scale is logarithmic if waiting times are long, and linear near 0.",
    ),
}
WORDS = ReportText(
    workload=_workload,
    realized=_realized,
    size=lambda result: ("cores", int(result.info["num_cores"])),
    in_force=_in_force,
    left_behind={"queued": "jobs_queued", "running": "jobs_running", "lost": "jobs_lost"},
    of_finished_jobs=(
        "waiting_time",
        "turnaround_time",
        "slowdown",
        "bounded_slowdown",
        "stretch",
        "fairness",
        "makespan",
    ),
    all_finished="Every job that was not rejected had finished when its run ended, and is part of the metrics.",
    left_out="Waiting times are those of the jobs that had started, turnaround times and slowdowns those of the jobs "
    "that had finished. They exclude the other jobs, which often wait longest. Utilization and queue length are "
    "averages over the time of the run and count every job.",
    blind="waiting times and slowdowns",
    below_workload="Run times are the actual ones. The offered load is the sum of cores x run time, divided by the "
    "cores of the cluster times the time from first to last submission. Rejected jobs are excluded from that sum.",
)
