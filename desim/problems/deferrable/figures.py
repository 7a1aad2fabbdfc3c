"""Figures of runs of deferrable jobs: windows and runs of jobs, use of the capacity, and known work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.checks import check_choice, check_int
from desim.formatting import how_many
from desim.plotting.axes import (
    add_legend,
    drawn_entries,
    group_digits,
    label_panels,
    name_rows,
    new_panels,
    panel_pixels,
    plain,
    set_titles,
    slot_axis,
)
from desim.plotting.bars import CUT, add_boxes, boxes_of, draw_bars
from desim.plotting.colors import JOB_COLORS, OTHER_COLOR, rgba, share_colors
from desim.plotting.curves import bin_edges, bin_means, draw_layer, draw_stack, slots_together
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
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["FIGURES", "WORDS", "capacity_use", "executions", "gantt", "jobs_in_rows", "known_work"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

WINDOW: dict[str, Any] = {"facecolor": "#CFE5F5", "edgecolor": "#8CB4D2"}
EXPIRED: dict[str, Any] = {"facecolor": "#F2B58A", "edgecolor": "#C0611B"}
RUN, RUNS_ON = "#0072B2", "#56B4E9"
LEAD_TIME, START = "#8A8A8A", "black"
EVICTION: dict[str, Any] = {"color": "#D55E00", "marker": "X", "markeredgecolor": "white", "linestyle": "none"}
#: Line widths of lead times and starts, in points, and their largest shares of the height of a row.
LEAD_TIME_WIDTH, START_WIDTH, THIN, THICK = 1.0, 2.0, 0.15, 0.6
#: Line width of the frame of a window, and smallest height of a row with frames, in points.
FRAME_WIDTH, LEAST_FRAMED = 0.8, 4.0
#: Height of a row, and largest height of a panel, alone or as one of several, in inches.
ROW, HIGHEST, HIGHEST_OF_SEVERAL = 0.26, 7.8, 4.8
#: Half the height of a window and of an execution, in rows.
TALL, LOW = 0.42, 0.3

VIOLATION: dict[str, Any] = {"facecolor": "#D55E00", "edgecolor": "#7A2E00", "hatch": "////"}
CAPACITY: dict[str, Any] = {"color": "black", "linewidth": 1.4}
MISSING: dict[str, Any] = {"facecolor": OTHER_COLOR}
#: Colours of neighbouring jobs; none is close to the colour of a violation.
NEIGHBOUR_COLORS = tuple(color for color in JOB_COLORS if color != "#EE8866")
#: Relative differences of capacities and amounts that are invisible, and that rounding may leave.
UNSEEN, RESIDUE = 1e-6, 1e-9

#: Layers of known work from the bottom, in colours of Okabe and Ito, "Color Universal Design", 2008, and a grey.
LAYERS: dict[str, dict[str, Any]] = {
    "running: what is left": {"facecolor": "#0072B2"},
    "window open": {"facecolor": "#8CC3E6"},
    "window open, expires in the slot": {"facecolor": "#D55E00"},
    "window not open yet": {"facecolor": "#E2E2E2"},
}

#: Largest number of amounts with their own classes.
MOST_CLASSES = 6
#: Classes of many amounts end at powers of the first of these bases that yields few enough classes.
BASES = (2.0, 4.0, 10.0, 100.0)
#: Positions of the smallest and the largest class on the colour scale: visible on white, and lighter than black.
LIGHTEST, DARKEST = 0.2, 0.8


def _slots(result: Result) -> tuple[float, float]:
    """Return the time range of a run in slots, up to the end of the slot in which it ended."""
    return 0.0, float(max(len(result.table("slots")), math.ceil(result.span[1])))


def executions(run: Result) -> pl.DataFrame:
    """Return all executions of a run by start, including those ended by an eviction.

    They have the columns of their jobs, ``begin`` and ``end`` in slots, ``cut`` (whether the job was evicted), and
    ``runs_on`` (whether the job was running when the run ended).

    Parameters
    ----------
    run : Result
        Run of ``deferrable``.
    """
    last = run.jobs.drop_nulls("starting_time").with_columns(
        begin="starting_time",
        end=pl.col("finish_time").fill_null(_slots(run)[1]),
        cut=pl.col("status") == "evicted",
        runs_on=pl.col("finish_time").is_null(),
    )
    evicted = run.table("evictions").select(
        "arrival_number",
        begin=pl.col("starting_time").cast(pl.Float64),
        end=pl.col("eviction_time").cast(pl.Float64),
        cut=pl.lit(True),
        runs_on=pl.lit(False),
    )
    earlier = evicted.join(last.filter("cut"), on=["arrival_number", "begin"], how="anti")
    both = pl.concat([last, earlier.join(run.jobs, on="arrival_number").select(last.columns)])
    return both.sort("begin", "arrival_number")


def _work_unit(run: Result) -> str:
    """Return the unit of work, named after the first resource."""
    first = resources_of(run)[0]
    return "core-slots" if first == "cores" else f"{first} x slots"


@one_panel_a_run
def gantt(
    results: Results,
    *,
    num_jobs: int | Literal["auto"] | None = "auto",
    window: Window = None,
    labels: bool = True,
    axes: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw a row per deferrable job: its lead time, its window, its start and its run.

    Jobs are in the order of their earliest starts. A thin line leads from the submission to the window, which is a
    pale bar over the slots in which the job may start: light blue, or orange if the job expired. A black mark is the
    start, and a narrower bar the run. Runs ended by an eviction are hatched and end with a cross; a job may have
    several of them.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other over the same slots.
    num_jobs : int, "auto" or None
        Number of jobs to draw, in order; the time range then ends with them. None draws all. ``"auto"`` draws up to 40,
        and fewer if there are several runs, so that they fit on a page.
    window : (int, int), optional
        Slots to show, from the first to before the second, with the jobs whose windows were open in them and that had
        not ended before.
    labels : bool
        Whether runs show the job's request of the first resource, where it fits.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1, the window of a job from its earliest
        start to the end of the slot of its latest start. The first job is at y = 0.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results do not come from ``deferrable``.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> class Eager:
    ...     def act(self, observation):
    ...         return range(len(observation.current))
    >>> jobs = [Job(1, 0.0, 0, 2, 3, 2.0), Job(2, 0.0, 1, 1, 2, 1.0)]
    >>> axes = gantt(simulate(DeferrableCluster(jobs, [3]), Eager()))
    >>> axes.get_ylabel(), axes.get_title("right")
    ('job id, by earliest start', '2 jobs: 2 completed')
    """
    runs = load_runs(results, "deferrable")
    if num_jobs == "auto":
        num_jobs = min(40, max(12, 80 // len(runs)))
    if num_jobs is not None:
        check_int("num_jobs", num_jobs, least=1)
    span = span_of(runs, window, whole=True, span=_slots)
    found = [jobs_in_rows(run, None if window is None else span) for run in runs]
    tables = [jobs.head(num_jobs) if num_jobs is not None else jobs for jobs in found]
    if window is None:
        span = (0.0, _end(runs, found, tables))
    height = min(max(ROW * max(map(len, tables)), 2.0), HIGHEST if len(runs) == 1 else HIGHEST_OF_SEVERAL)
    panels = new_panels(axes, len(runs), height=height)
    for panel, run, jobs, known in zip(panels, runs, tables, found, strict=True):
        slot_axis(panel, *span)
        plain(panel)
        name_rows(panel, [str(job_id) for job_id in jobs["job_id"].to_list()], "job id, by earliest start")
        high = 0.72 * panel_pixels(panel)[1] / max(len(jobs), 1)  # of a row, in points
        _draw_windows(panel, jobs, high)
        bars = executions(run).join(jobs.select("arrival_number", "line"), on="arrival_number", maintain_order="left")
        _draw_runs(panel, run, bars, high, rows=len(jobs), labels=labels)
        set_titles(panel, title_of(run), _remark(jobs, len(known)))
    _explain(panels, resources_of(runs[0])[0])
    label_panels(panels)
    return panels


def jobs_in_rows(run: Result, slots: tuple[float, float] | None = None) -> pl.DataFrame:
    """Return the jobs by earliest start, with when they ``leave``, when their window ``closes``, and their ``line``."""
    expired = pl.col("status") == "expired"
    jobs = run.jobs.with_columns(closes=pl.col("latest_start").cast(pl.Float64) + 1.0)
    finish = pl.col("finish_time").fill_null(_slots(run)[1])
    jobs = jobs.with_columns(leave=pl.when(expired).then("closes").otherwise(finish))
    if slots is not None:
        jobs = jobs.filter(pl.col("earliest_start") < slots[1], pl.min_horizontal("closes", "leave") > slots[0])
    order = jobs.sort("earliest_start", "submission_time", "arrival_number")
    return order.with_columns(line=pl.int_range(pl.len(), dtype=pl.Int64))


def _end(runs: Sequence[Result], found: Sequence[pl.DataFrame], tables: Sequence[pl.DataFrame]) -> float:
    """Return the end of the time range: of the run or, if jobs are left out, when the shown jobs have left."""
    ends, last = [], [_slots(run)[1] for run in runs]
    for end, jobs, table in zip(last, found, tables, strict=True):
        left = table.select(pl.max_horizontal("leave", "closes").max()).item() if len(table) < len(jobs) else end
        ends.append(math.ceil(left) if len(table) else 0.0)
    return float(max(1.0, min(max(ends), max(last))))


def _draw_windows(axes: Axes, jobs: pl.DataFrame, high: float) -> None:
    """Draw lead times and windows of jobs."""
    boxes = boxes_of(jobs["earliest_start"], jobs["closes"], jobs["line"], TALL)
    expired = (jobs["status"] == "expired").to_numpy()
    frame = FRAME_WIDTH if high >= LEAST_FRAMED else 0.0
    add_boxes(axes, boxes[~expired], "window", zorder=1.0, linewidth=frame, **WINDOW)
    add_boxes(axes, boxes[expired], "window of a job that expired", zorder=1.0, linewidth=frame, **EXPIRED)
    early = jobs.filter(pl.col("submission_time") < pl.col("earliest_start"))
    if len(early):
        look: Any = {"linewidth": min(LEAD_TIME_WIDTH, THIN * high), "zorder": 1.5, "gid": "lead time"}
        axes.hlines(early["line"], early["submission_time"], early["earliest_start"], LEAD_TIME, **look)


def _draw_runs(axes: Axes, run: Result, bars: pl.DataFrame, high: float, *, rows: int, labels: bool) -> None:
    """Draw executions with their starts and evictions."""
    boxes = boxes_of(bars["begin"], bars["end"], bars["line"], LOW)
    cut, runs_on = bars["cut"].to_numpy(), bars["runs_on"].to_numpy()
    texts = np.array([f"{amount:g}" for amount in bars[f"requested_{resources_of(run)[0]}"].to_list()])
    for name, chosen, color in (("run", ~runs_on, RUN), ("run that goes on", runs_on, RUNS_ON)):
        faces = rgba([color] * int(chosen.sum()))
        written = texts[chosen].tolist() if labels else ()
        draw_bars(axes, boxes[chosen], name, faces, rows=rows, texts=written, framed=cut[chosen], alike=True)
    add_boxes(axes, boxes[cut], "cut", zorder=2.5, **CUT)
    line, width = bars["line"].to_numpy(), min(START_WIDTH, THICK * high)
    if len(bars):
        axes.vlines(bars["begin"], line - TALL, line + TALL, START, linewidth=width, zorder=2.8, gid="start")
    if cut.any():
        axes.plot(bars["end"].to_numpy()[cut], line[cut], markersize=6.0, zorder=3.5, gid="eviction", **EVICTION)


def _remark(jobs: pl.DataFrame, known: int) -> str:
    """Return the number of shown jobs, by status, as text."""
    counts = jobs["status"].value_counts().sort("status")
    words = ", ".join(f"{count:,} {status}" for status, count in counts.iter_rows())
    of = how_many(known, "job")
    return (f"first {len(jobs):,} of {of}" if len(jobs) < known else of) + (f": {words}" if words else "")


def _explain(panels: Sequence[Axes], resource: str) -> None:
    """Add a legend for lines, colours and marks."""
    from matplotlib.lines import Line2D

    start = Line2D([], [], color=START, marker="|", markersize=9.0, markeredgewidth=START_WIDTH, linestyle="none")
    handles = {
        "lead time": Line2D([], [], color=LEAD_TIME, linewidth=LEAD_TIME_WIDTH),
        "window": WINDOW,
        "window of a job that expired": EXPIRED,
        "start": start,
        "run": {"facecolor": RUN},
        "run that goes on": {"facecolor": RUNS_ON},
        "eviction": Line2D([], [], markersize=6.0, **EVICTION),
    }
    run = f"run, with its {resource}" if any(panel.texts for panel in panels) else "run"
    add_legend(panels, [(run if name == "run" else name, look) for name, look in drawn_entries(panels, handles)])


class _SizeClasses(NamedTuple):
    """Consecutive classes of amounts: the largest amount of each, and its name with its fill style."""

    tops: Floats
    styles: dict[str, dict[str, Any]]

    def of(self, amounts: Floats) -> Indices:
        """Return the class of each amount."""
        return np.searchsorted(self.tops, amounts, side="left").astype(np.int64)


def size_classes(amounts: Floats, resource: str) -> _SizeClasses:
    """Return a class per amount, or at most six classes that cover all amounts, in darkening colours."""
    values = np.unique(amounts)
    if len(values) <= MOST_CLASSES:
        tops = values
        names = [f"{value:g} {'core' if (value, resource) == (1, 'cores') else resource}" for value in tops.tolist()]
    else:
        tops = _round_ends(values)
        names = [f"up to {tops[0]:g} {resource}"]
        names += [f"above {low:g} to {high:g}" for low, high in pairwise(tops.tolist())]
    shades = np.linspace(LIGHTEST, DARKEST, len(tops)) if len(tops) > 1 else [(LIGHTEST + DARKEST) / 2] * len(tops)
    return _SizeClasses(
        tops, {name: {"facecolor": share_colors()(float(shade))} for name, shade in zip(names, shades, strict=True)}
    )


def _round_ends(values: Floats) -> Floats:
    """Return round upper ends of classes that cover all values or, if the range is too wide, quantiles."""
    for base in BASES:
        low, high = (int(np.ceil(np.log(value) / np.log(base) - 1e-12)) for value in (values[0], values[-1]))
        if high - low < MOST_CLASSES:
            return np.asarray(base ** np.arange(low, high + 1, dtype=np.float64))
    return np.unique(np.quantile(values, np.arange(1, MOST_CLASSES + 1) / MOST_CLASSES, method="higher"))


@one_panel_a_run
def capacity_use(
    results: Results,
    *,
    by: Literal["size", "job"] = "size",
    resource: str | None = None,
    window: Window = None,
    axes: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw the amounts that deferrable jobs hold as a stack, and the capacity as a line.

    Amounts beyond the capacity, violations, are hatched in orange. For more than 250 slots, means over bins are drawn.
    The hatched area is then the mean violation, at the top of the mean amount held, even if that is below the mean
    capacity.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same axes.
    by : {"size", "job"}
        Meaning of the layers. ``"size"``: sizes of jobs, which are amounts of the first resource, in at most six
        classes. ``"job"``: single jobs, the earliest start at the bottom, in colours that differ between neighbours.
    resource : str, optional
        Name of the resource to show; default: the first one.
    window : (int, int), optional
        Slots to show, from the first to before the second.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1. Amounts are those after the starts of
        each slot.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, the results do not come from ``deferrable``, or one has no such resource.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> class Eager:
    ...     def act(self, observation):
    ...         return range(len(observation.current))
    >>> jobs = [Job(1, 0.0, 0, 2, 3, 2.0), Job(2, 0.0, 1, 1, 2, 1.0)]
    >>> axes = capacity_use(simulate(DeferrableCluster(jobs, [3, 3, 2], num_slots=4), Eager()))
    >>> axes.get_ylabel(), axes.get_title("right")
    ('cores in use', '80 % of the capacity in use; exceeded in 1 of 4 slots')
    """
    check_choice("by", by, ("size", "job"))
    runs = load_runs(results, "deferrable")
    name = chosen_resource(runs, resource)
    span = span_of(runs, window, whole=True, span=_slots)
    width = slots_together(span)
    tables = [executions(run) for run in runs]
    first = resources_of(runs[0])[0]
    sizes = [table[f"requested_{first}"].to_numpy() for table in tables]
    classes = size_classes(np.concatenate(sizes), first)
    panels = new_panels(axes, len(runs), height=2.1 if len(runs) > 1 else 3.4)
    for panel, run, table, amounts in zip(panels, runs, tables, sizes, strict=True):
        slot_axis(panel, *span)
        plain(panel, grid="y")
        panel.set_ylabel(f"{name} in use")
        group_digits(panel.yaxis)
        edges = bin_edges(span[0], min(span[1], len(run.table("slots"))), width)
        if len(edges) > 1:
            layers = bin_means(_held(table, name, classes.of(amounts), len(classes.tops), edges), edges)
            if by == "size":
                draw_stack(panel, edges, layers, classes.styles)
            else:
                _draw_jobs(panel, table, name, edges)
            _draw_capacity(panel, run, name, edges, layers.sum(axis=0))
        set_titles(panel, title_of(run), _use_remark(run, name, span, width))
    top = max([0.0, *(panel.dataLim.y1 for panel in panels if panel.patches)])
    for panel in panels:
        panel.set_ylim(0.0, 1.06 * top or 1.0)
    _explain_use(panels, classes)
    label_panels(panels)
    return panels


def _explain_use(panels: Sequence[Axes], classes: _SizeClasses) -> None:
    """Add a legend for the line and the colours."""
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {"capacity": Line2D([], [], **CAPACITY), **classes.styles}
    handles |= {"not recorded": MISSING, "violation": VIOLATION | {"linewidth": 0.0}}
    add_legend(panels, drawn_entries(panels, handles))


def _draw_capacity(axes: Axes, run: Result, resource: str, edges: Floats, known: Floats) -> None:
    """Draw the capacity, violations and, if the run crashed, amounts held by jobs that are not recorded."""
    slots = run.table("slots")
    used, capacity, violation = (
        bin_means(slots[f"{kind}_{resource}"].to_numpy(), edges) for kind in ("used", "capacity", "violation")
    )
    if (used - known > UNSEEN * used.max()).any():
        draw_layer(axes, edges, np.minimum(known, used), used, "not recorded", **MISSING)
    draw_layer(axes, edges, used - violation, used, "violation", zorder=2.5, **VIOLATION)
    axes.stairs(capacity, edges, baseline=None, zorder=3.0, gid="capacity", **CAPACITY)


def _held(table: pl.DataFrame, resource: str, group: Indices, num_groups: int, edges: Floats) -> Floats:
    """Return the amounts that the executions of each group hold per slot up to the last edge, shape (groups, slots)."""
    begin, end = _slots_of(table, 0, int(edges[-1]))
    amount, slots = table[f"requested_{resource}"].to_numpy(), int(edges[-1]) + 1
    change = np.bincount(group * slots + begin, amount, num_groups * slots)
    change -= np.bincount(group * slots + end, amount, num_groups * slots)
    return _without_residue(change.reshape(num_groups, slots).cumsum(axis=1)[:, :-1])


def _slots_of(table: pl.DataFrame, shift: int, num_slots: int) -> tuple[Indices, Indices]:
    """Return each execution's first slot, shifted by a number of slots, and its first slot after the end."""
    begin = np.minimum(table["begin"].to_numpy().astype(np.int64) + shift, num_slots)
    end = np.minimum(table["end"].to_numpy().astype(np.int64), num_slots)
    return begin, np.maximum(begin, end)


def _without_residue(amounts: Floats) -> Floats:
    """Return amounts with rounding residues around 0 set to 0."""
    return np.where(amounts > RESIDUE * amounts.max(initial=0.0), amounts, 0.0)


def _draw_jobs(axes: Axes, table: pl.DataFrame, resource: str, edges: Floats) -> None:
    """Draw every job as rectangles; a restarted job keeps its colour."""
    boxes, owners = _piled(table, resource, edges)
    _, first, job = np.unique(table["arrival_number"].to_numpy(), return_index=True, return_inverse=True)
    place = first.argsort().argsort()[job]
    faces = rgba(NEIGHBOUR_COLORS)[place[owners] % len(NEIGHBOUR_COLORS)]  # jobs started in a row are neighbours
    draw_bars(axes, boxes, "jobs", faces, rows=max(1.0, boxes[:, 3].max(initial=0.0)))


def _piled(table: pl.DataFrame, resource: str, edges: Floats) -> tuple[Floats, Indices]:
    """Stack the amounts that executions hold in each bin of slots, the earliest start at the bottom.

    Returns rectangles whose heights are mean amounts in the bin, joined across neighbouring bins where possible, and
    the execution of each rectangle.
    """
    begin, end = (np.clip(table[name].to_numpy(), edges[0], edges[-1]) for name in ("begin", "end"))
    first = np.searchsorted(edges, begin, side="right") - 1
    counts = np.where(end > begin, np.searchsorted(edges, end, side="left") - first, 0)
    owner = np.repeat(np.arange(len(table)), counts)
    bins = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts) + first[owner]
    shared = np.minimum(end[owner], edges[bins + 1]) - np.maximum(begin[owner], edges[bins])
    high = table[f"requested_{resource}"].to_numpy()[owner] * shared / np.diff(edges)[bins]
    pieces = pl.DataFrame({"owner": owner, "bin": bins, "high": high, "begin": edges[bins], "end": edges[bins + 1]})
    pieces = pieces.with_columns(top=pl.col("high").cum_sum().over("bin"))
    pieces = pieces.with_columns(low=pl.col("top") - pl.col("high"))
    near = UNSEEN * float(pieces["top"].max() or 0.0)  # type: ignore[arg-type]
    same = (pl.col("low").diff().abs() <= near) & (pl.col("top").diff().abs() <= near) & (pl.col("owner").diff() == 0)
    joined = (
        pieces.with_columns(block=(~same.fill_null(False)).cum_sum())
        .group_by("block", maintain_order=True)
        .agg(pl.col("owner", "begin", "low", "top").first(), pl.col("end").last())
        .filter(pl.col("top") > pl.col("low"))  # a job may hold nothing of a resource
    )
    return joined.select("begin", "end", "low", "top").to_numpy(), joined["owner"].to_numpy()


def _use_remark(run: Result, resource: str, span: tuple[float, float], width: int) -> str:
    """Return the share of the capacity in use, and the number of slots in which it was exceeded, as text."""
    shown = run.table("slots")[int(span[0]) : int(span[1])]
    used, capacity = (float(shown[f"{kind}_{resource}"].sum()) for kind in ("used", "capacity"))
    over = int((shown[f"violation_{resource}"] > 0).sum())
    parts = [f"{100.0 * used / capacity:.3g} % of the capacity in use"] if capacity > 0 else []
    parts += [f"exceeded in {over:,} of {len(shown):,} slots"] if over else []
    parts += [f"means over {width} slots"] if width > 1 else []
    return "; ".join(parts)


@one_panel_a_run
def known_work(results: Results, *, window: Window = None, axes: Axes | Iterable[Axes] | None = None) -> list[Axes]:
    r"""Draw the known work that is not done yet at the beginning of each slot, before its starts.

    The layers, from the bottom: remaining work of running jobs; jobs with an open window, with separate layers for
    those that do not and do expire in the slot; and known jobs whose window is not open yet. Work is the amount of the
    first resource times the duration. For more than 250 slots, means over bins are drawn.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same axes.
    window : (int, int), optional
        Slots to show, from the first to before the second.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results do not come from ``deferrable``.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> class Idle:
    ...     def act(self, observation):
    ...         return None
    >>> axes = known_work(simulate(DeferrableCluster([Job(1, 0.0, 1, 3, 5, 2.0)], [4]), Idle()))
    >>> axes.get_ylabel(), axes.get_title("right")
    ('known work\n(core-slots)', '1 of 1 job expired, 10 core-slots')
    """
    runs = load_runs(results, "deferrable")
    span = span_of(runs, window, whole=True, span=_slots)
    width = slots_together(span)
    panels = new_panels(axes, len(runs), height=2.1 if len(runs) > 1 else 3.4)
    highest = 0.0
    for panel, run in zip(panels, runs, strict=True):
        edges = bin_edges(span[0], min(span[1], len(run.table("slots"))), width)
        layers = bin_means(_work(run), edges)
        plain(panel, grid="y")
        draw_stack(panel, edges, layers, LAYERS)
        slot_axis(panel, *span)
        group_digits(panel.yaxis)
        panel.set_ylabel(f"known work\n({_work_unit(run)})")
        expired = run.jobs.filter(pl.col("status") == "expired")
        words = how_many(len(run.jobs), "job")
        if len(expired):
            words = f"{len(expired):,} of {words} expired, {expired['revenue'].sum():,.10g} {_work_unit(run)}"
        set_titles(panel, title_of(run), "; ".join([words] + [f"means over {width} slots"] * (width > 1)))
        highest = max(highest, layers.sum(axis=0).max(initial=0.0))
    for panel in panels:
        panel.set_ylim(0.0, 1.06 * highest or 1.0)
    add_legend(panels, drawn_entries(panels, LAYERS))
    label_panels(panels)
    return panels


def _work(run: Result) -> Floats:
    """Return the work of each layer in each slot, of shape (layers, slots)."""
    amount, slots = pl.col(f"requested_{resources_of(run)[0]}"), run.table("slots")
    count = len(slots)
    current, future = (slots[f"{name}_work"].to_numpy() for name in ("current", "future"))
    expired = run.jobs.filter(pl.col("status") == "expired").select(
        slot=pl.col("latest_start").clip(upper_bound=count), work=amount * pl.col("requested_time")
    )
    expiring = np.minimum(np.bincount(expired["slot"], expired["work"], count + 1)[:count], current)
    return np.stack([_remaining(executions(run), amount, count), current - expiring, expiring, future])


def _remaining(table: pl.DataFrame, amount: pl.Expr, num_slots: int) -> Floats:
    """Return the remaining work of running jobs at the beginning of each slot: amount times slots.

    Jobs that are started in the slot, or evicted at its beginning, do not count.
    """
    begin, end = _slots_of(table, 1, num_slots)
    would_end = pl.col("begin") + pl.col("requested_time")
    held, until = (
        np.bincount(begin, weights, num_slots + 2) - np.bincount(end, weights, num_slots + 2)
        for weights in table.select(amount.alias("held"), (amount * would_end).alias("until")).iter_columns()
    )
    left: Floats = until.cumsum() - held.cumsum() * np.arange(num_slots + 2.0)
    return _without_residue(left[:num_slots])


def _workload(result: Result) -> dict[str, float]:
    """Return summary numbers of a run's jobs and capacity."""
    first = result.info["resources"][0]
    request, duration = pl.col(f"requested_{first}"), pl.col("requested_time")
    numbers = result.jobs.select(
        pl.len().alias("jobs"),
        request.median().alias(f"{first} requested, median"),
        request.max().alias(f"{first} requested, maximum"),
        duration.mean().alias("duration, mean (slots)"),
        duration.max().alias("duration, maximum (slots)"),
        (pl.col("latest_start") - pl.col("earliest_start") + 1).mean().alias("window, mean (slots)"),
        (request * duration).sum().alias(f"{first} x duration, sum"),
    )
    slots = result.table("slots").select(pl.len().alias("slots"))
    found = pl.concat([numbers, slots], how="horizontal").cast(pl.Float64).fill_null(float("nan"))
    return found.row(0, named=True) | _realized(result)


def _realized(result: Result) -> dict[str, float]:
    """Return the offered load of a run, by the first resource, and its mean capacity."""
    first = result.info["resources"][0]
    work = result.jobs.select((pl.col(f"requested_{first}") * pl.col("requested_time")).sum()).item()
    capacity = result.table("slots")[f"capacity_{first}"]
    total = float(capacity.sum())
    return {
        "offered load": work / total if total else float("nan"),
        f"capacity, mean ({first})": total / len(capacity) if len(capacity) else float("nan"),
    }


FIGURES = {
    "gantt": Figure(
        gantt,
        "Windows and runs of the first jobs: a thin line from the submission to the window, a pale bar over the window "
        "(orange if the job expired), a black mark at the start, and a narrower bar for the run.",
    ),
    "capacity": Figure(
        capacity_use,
        "Amounts that deferrable jobs of each size hold, stacked, and the capacity as a line. Amounts beyond the "
        "capacity, violations, are hatched in orange.",
    ),
    "work": Figure(
        known_work,
        "Known work that is not done yet at the beginning of each slot: of running jobs, of jobs with an open window, "
        "of jobs that expire, and of jobs with a later window.",
    ),
}
WORDS = ReportText(
    workload=_workload,
    realized=_realized,
)
