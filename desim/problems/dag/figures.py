"""Figures of runs of DAG jobs: Gantt charts of the executors, curves over time, and shares of executor time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many, shortened
from desim.plotting.axes import (
    add_legend,
    drawn_entries,
    label_panels,
    name_rows,
    new_panels,
    panel_pixels,
    plain,
    set_titles,
    time_axis,
)
from desim.plotting.bars import CUT, DOWN, WAITING, add_boxes, boxes_of, draw_bars, label_alike
from desim.plotting.colors import (
    DOWN_COLOR,
    JOB_COLORS,
    OTHER_COLOR,
    Bars,
    Coloring,
    color_categories,
    color_neighbours,
    line_styles,
)
from desim.plotting.curves import CurveOptions, add_up, draw_curves, draw_steps, draw_utilization
from desim.plotting.runs import Results, Window, counted_jobs, down_spans, load_runs, one_panel_a_run, span_of, title_of
from desim.problem import Figure, ReportText
from desim.problems.dag.metrics import wasted_copies
from desim.problems.dag.tables import with_demands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.result import Result

__all__ = [
    "FIGURES",
    "WORDS",
    "amounts_held",
    "down_executors",
    "executor_names",
    "executor_utilization",
    "find_critical_chain",
    "gantt",
    "is_of_pools",
    "jobs_in_system",
    "names_of_copies",
    "places_of",
    "pool_utilization",
    "started_copies",
    "steps_of",
    "utilization",
    "waits_for_data",
]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CRITICAL: dict[str, Any] = {"facecolor": "none", "edgecolor": "#000000", "linewidth": 1.8}
#: Elements of a chart besides copies, and their fill styles.
MARKS: dict[str, dict[str, Any]] = {
    "waiting for data": WAITING,
    "duplicate": {"facecolor": "none", "edgecolor": "#505050", "hatch": "....", "linewidth": 0.0},
    "cut by an outage": CUT,
    "executor down": DOWN,
    "critical chain": CRITICAL,
}
#: Activities of executors, with the colours of Okabe and Ito, "Color Universal Design", 2008, and greys.
ACTIVITIES: dict[str, dict[str, Any]] = {
    "useful copies": {"facecolor": "#0072B2", "linewidth": 0.0},
    "useless copies": {"facecolor": "#E69F00", "linewidth": 0.0},
    "interrupted copies": {"facecolor": "#D55E00", "linewidth": 0.0},
    "waiting for data": {"facecolor": "#9AD0F0", "linewidth": 0.0},
    "idle": {"facecolor": "#F2F2F2", "linewidth": 0.0},
    "down": {"facecolor": OTHER_COLOR, "edgecolor": DOWN_COLOR, "hatch": "\\\\\\\\", "linewidth": 0.0},
}
THIN_ARROW: dict[str, Any] = {"color": "#444444", "width": 0.007, "headwidth": 6.0, "headlength": 7.0, "zorder": 2.8}
THICK_ARROW: dict[str, Any] = {"color": "#000000", "width": 0.018, "headwidth": 4.5, "headlength": 5.5, "zorder": 2.9}
UNFINISHED = ("still running", "still queued")
#: Upper limit on the number of nodes of a job.
MOST_NODES = 1 << 30
#: Largest number of transfers drawn as arrows; more would hide the bars.
MOST_ARROWS = 200
#: Half the height, in rows, of a bar, of a bar with arrows, and of a waiting time.
HALF, HALF_APART, HALF_WAIT = 0.4, 0.3, 0.1
#: Largest thickness of the frames of the critical chain, as a share of the height of a row.
FRAME_SHARE = 0.08
#: Relative difference below which times count as equal.
RESOLUTION = 1e-9


def started_copies(run: Result) -> pl.DataFrame:
    """Return the copies that have started, with their ``row``; running copies end with the run."""
    copies = run.table("copies").with_row_index("row").filter(pl.col("starting_time").is_not_null())
    return copies.with_columns(pl.col("finish_time").fill_null(run.span[1]))


def down_executors(run: Result) -> pl.DataFrame:
    """Return the periods in which executors (``lane``) were down."""
    return down_spans(run.table("outages"), "executor", run.span[1])


def waits_for_data(run: Result, copies: pl.DataFrame, down: pl.DataFrame) -> pl.DataFrame:
    """Return the periods in which executors ran nothing because the data of their next copy were missing.

    Withdrawn copies that never started are left out, because the time of the withdrawal is not recorded.

    Parameters
    ----------
    run : Result
        Run of ``dag``.
    copies, down : polars.DataFrame
        Copies that have started, and periods in which executors were down.
    """
    waited = run.table("copies").filter(
        pl.col("receiving_time").is_not_null()
        & (pl.col("starting_time").is_not_null() | (pl.col("outcome") == "queued"))
    )
    start = pl.col("starting_time").fill_null(run.span[1])
    spans = {
        "waiting": waited.select(lane="executor", begin="receiving_time", end=start),
        "busy": copies.select(lane="executor", begin="starting_time", end="finish_time"),
        "down": down,
    }
    changes = [
        table.select("lane", time=time, **{name: pl.lit(by, pl.Int64)})
        for name, table in spans.items()
        for time, by in (("begin", 1), ("end", -1))
    ]
    steps = pl.concat(changes, how="diagonal").group_by("lane", "time").agg(pl.col(*spans).sum()).sort("lane", "time")
    steps = steps.with_columns(pl.col(*spans).cum_sum(), end=pl.col("time").shift(-1))
    return steps.filter(pl.col("waiting") > 0, pl.col("busy") == 0, pl.col("down") == 0).select(
        "lane", "end", begin="time"
    )


def executor_names(run: Result, *, speeds: bool = False) -> list[str]:
    """Return the names of the executors, or their numbers if they have default names; optionally with speeds."""
    names = [str(name) for name in run.info["executors"]]
    if names == [f"executor{number}" for number in range(len(names))]:
        names = [str(number) for number in range(len(names))]
    if not speeds:
        return names
    pairs = zip(names, run.info["speeds"], strict=True)
    return [f"{shortened(name, 15)} ({speed:.4g})" for name, speed in pairs]


@one_panel_a_run
def gantt(
    results: Results,
    *,
    color_by: Literal["job", "label", "node"] = "job",
    critical_chain: bool = False,
    speeds: bool = False,
    window: Window = None,
    labels: bool = True,
    axes: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw a Gantt chart: which executor ran which copy of a node when.

    Every copy that started is a bar in the row of its executor; in that of a pool, copies that run at the same time are
    above each other. Duplicates are dotted. Copies interrupted by an outage
    are hatched, and so, in grey, are executors that were down. A thin grey bar shows the time in which an executor ran
    nothing because the data of its next copy were missing. Running copies end with the chart. Arrows show data sent to
    another executor, from the begin of the transfer to its end, for up to 200 transfers per run.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other over the same time axis.
    color_by : {"job", "label", "node"}
        Meaning of the colours. ``"job"``: each of up to eight jobs has its own colour; with more jobs, neighbours
        differ. ``"label"``: the eight job labels with the most execution time have their own colours. ``"node"``:
        neighbours differ, and copies of a node have the same colour.
    critical_chain : bool
        Whether to frame in black the copies that determine the end of the run, with the transfers between them. Each of
        these copies started when the previous one had finished or its data had arrived.
    speeds : bool
        Whether to show the speed of each executor after its name.
    window : (float, float), optional
        Time range to show, in seconds.
    labels : bool
        Whether bars show the names of their nodes where they fit, after the job id if there are several jobs. Unnamed
        nodes have their number, followed by the number of the task if nodes run task by task.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Executor k is at y = k; times are in seconds of simulated time.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results do not come from ``dag``.

    Examples
    --------
    >>> from desim.agents.dag import ListScheduler, RankUp
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), ListScheduler(RankUp()))
    >>> sorted(text.get_text() for text in gantt(result).texts)
    ['a', 'b', 'c']
    """
    check_choice("color_by", color_by, ("job", "label", "node"))
    runs = load_runs(results, "dag")
    span = span_of(runs, window)
    tables = [started_copies(run) for run in runs]
    coloring = _color(runs, tables, color_by)
    places = [places_of(run, copies) for run, copies in zip(runs, tables, strict=True)]
    tallest = max(sum(counts) for _, counts in places)
    height = min(max(0.38 * tallest, 1.4), 6.4 if len(runs) == 1 else 3.6)
    panels = new_panels(axes, len(runs), height=height)
    for panel, run, copies, faces in zip(panels, runs, tables, coloring.faces, strict=True):
        time_axis(panel, *span)
        plain(panel)
        name_rows(panel, executor_names(run, speeds=speeds), "executor (speed)" if speeds else "executor")
        _draw_copies(panel, run, copies, faces, critical_chain=critical_chain, labels=labels)
        size, doubled = how_many(run.info["num_executors"], "executor"), int(copies["duplicate"].sum())
        more = [how_many(doubled, "duplicate")] * (doubled > 0)
        set_titles(panel, title_of(run), counted_jobs(run, size, *more, unfinished=UNFINISHED))
    add_legend(panels, [*coloring.entries, *drawn_entries(panels, MARKS)])
    label_panels(panels)
    label_alike(panels)
    return panels


def _draw_copies(
    axes: Axes, run: Result, copies: pl.DataFrame, faces: Floats, *, critical_chain: bool, labels: bool
) -> None:
    """Draw one panel."""
    transfers = run.table("transfers").with_row_index("row")
    moved = transfers.filter(pl.col("source") != pl.col("destination"))
    arrows = len(moved) <= MOST_ARROWS
    half = HALF_APART if arrows and len(moved) else HALF
    executor = copies["executor"].to_numpy()
    place, counts = places_of(run, copies)
    parts = np.array(counts)[executor]
    rows = executor + half * ((2 * place + 1) / parts - 1)
    boxes = boxes_of(copies["starting_time"], copies["finish_time"], rows, half / parts)
    down = down_executors(run)
    waits = waits_for_data(run, copies, down)
    duplicate, cut = copies["duplicate"].to_numpy(), (copies["outcome"] == "interrupted").to_numpy()
    add_boxes(axes, boxes_of(down["begin"], down["end"], down["lane"], 0.5), "executor down", zorder=1.0, **DOWN)
    idle = boxes_of(waits["begin"], waits["end"], waits["lane"], HALF_WAIT)
    add_boxes(axes, idle, "waiting for data", zorder=1.5, **WAITING)
    texts = names_of_copies(run, copies) if labels else ()
    size = run.info["num_executors"]
    draw_bars(axes, boxes, "copies", faces, rows=size, texts=texts, framed=duplicate | cut)
    add_boxes(axes, boxes[duplicate], "duplicate", zorder=2.4, **MARKS["duplicate"])
    add_boxes(axes, boxes[cut], "cut by an outage", zorder=2.5, **CUT)
    chain: list[int] = []
    sent: list[int] = []
    if critical_chain:
        chain, sent = find_critical_chain(copies, transfers, run.info.get("moving_delay", 0.0))
        frame = min(CRITICAL["linewidth"], FRAME_SHARE * panel_pixels(axes)[1] / size)
        add_boxes(axes, boxes[chain], "critical chain", zorder=2.7, **(CRITICAL | {"linewidth": frame}))
    critical = pl.col("row").is_in(sent)
    _draw_arrows(axes, moved.filter(arrows & ~critical), half, "transfers", **THIN_ARROW)
    _draw_arrows(axes, moved.filter(critical), half, "critical transfers", **THICK_ARROW)


def places_of(run: Result, copies: pl.DataFrame) -> tuple[NDArray[np.int64], list[int]]:
    """Return the place of each copy among those that run on its executor at once, and the number of places of each."""
    place = np.zeros(len(copies), np.int64)
    counts = [1] * int(run.info["num_executors"])
    if is_of_pools(run):
        order = copies.with_row_index("index").sort("starting_time", "finish_time", maintain_order=True)
        ends: list[list[float]] = [[] for _ in counts]
        for index, executor, start, finish in order.select("index", "executor", "starting_time", "finish_time").rows():
            free = next((at for at, end in enumerate(ends[executor]) if end <= start), len(ends[executor]))
            ends[executor][free : free + 1] = [finish]
            place[index] = free
        counts = [max(len(own), 1) for own in ends]
    return place, counts


def is_of_pools(run: Result) -> bool:
    """Return whether executors are pools, which run several nodes at once."""
    return bool(run.info.get("resources"))


def _of_executors(run: Result) -> bool:
    return not is_of_pools(run)


def _draw_arrows(axes: Axes, moved: pl.DataFrame, half: float, name: str, **look: Any) -> None:
    """Draw transfers as arrows from bar to bar, from begin and source to arrival and destination."""
    if not len(moved):
        return
    source, destination = (moved[end].cast(float).to_numpy() for end in ("source", "destination"))
    sent, lasting = moved["starting_time"].to_numpy(), (moved["arrival_time"] - moved["starting_time"]).to_numpy()
    side = np.sign(destination - source)
    units: Any = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "inches", "minlength": 0.0}
    units |= {"headaxislength": look["headwidth"], "gid": name}
    axes.quiver(sent, source + half * side, lasting, destination - source - 2.0 * half * side, **units, **look)


def names_of_copies(run: Result, copies: pl.DataFrame) -> list[str]:
    """Return the names or numbers of the nodes, with the job if there are several, and with the task."""
    node = ["arrival_number", "node"]
    named = copies.join(run.table("nodes").select(*node, "name"), on=node, how="left", maintain_order="left")
    number = pl.col("node").cast(pl.String)
    own = pl.col("name").is_not_null() & (pl.col("name") != pl.format("node{}", number))
    name = pl.when(own).then("name").otherwise(number)
    if run.info.get("granularity") == "task":
        name = pl.format("{}/{}", name, "task")
    several = copies["arrival_number"].n_unique() > 1
    return named.select(pl.format("{}:{}", "job_id", name) if several else name).to_series().to_list()


def _color(runs: Sequence[Result], tables: Sequence[pl.DataFrame], color_by: str) -> Coloring:
    """Colour the copies of several runs consistently."""
    label = pl.col("label").fill_null("")
    name = pl.format("job {}", "job_id") + pl.when(label == "").then(pl.lit("")).otherwise(pl.format(" ({})", label))
    if color_by == "label":
        name = pl.when(label == "").then(pl.lit("no label")).otherwise(label)
    jobs = [run.jobs.select("arrival_number", category=name) for run in runs]
    known = [
        table.select("arrival_number", weight=pl.col("finish_time") - pl.col("starting_time")).join(
            job, on="arrival_number", how="left", maintain_order="left"
        )
        for table, job in zip(tables, jobs, strict=True)
    ]
    names = pl.concat(jobs)["category"].unique(maintain_order=True).to_list()
    if color_by == "label":
        return color_categories(known)
    if color_by == "job" and len(names) <= len(JOB_COLORS):
        coloring = color_categories(known, names)
        return coloring if len(names) > 1 else coloring._replace(entries=[])
    job_number = pl.col("arrival_number")
    owner = (job_number if color_by == "job" else job_number * MOST_NODES + pl.col("node")).alias("owner")
    orders = [
        table.with_columns(owner, place=pl.int_range(pl.len())).sort("starting_time", "place") for table in tables
    ]
    bars = [
        Bars(
            order["owner"].to_list(),
            order.select(row=pl.int_range(pl.len()), first="executor", last="executor"),
            run.info["num_executors"],
        )
        for run, order in zip(runs, orders, strict=True)
    ]
    shades = zip(color_neighbours(bars), orders, strict=True)
    return Coloring([found[order["place"].arg_sort().to_numpy()] for found, order in shades], [])


def find_critical_chain(copies: pl.DataFrame, transfers: pl.DataFrame, delay: float) -> tuple[list[int], list[int]]:
    """Trace back the critical chain, the copies that determine the end of the run, from last to first.

    The chain ends with the copy with which the last node finished. Each copy is preceded by what it waited for: the
    copy that sent the last of its data, or the previous copy on its executor or, if it started as soon as it was
    assigned, the copy of its job that finished at that moment. The chain begins with a copy that waited for none of
    these, but only for a submission or a repair.

    Parameters
    ----------
    copies, transfers : polars.DataFrame
        Tables of a run; ``copies`` holds only copies that have started.
    delay : float
        Delay of an executor between copies of different jobs, in seconds.

    Returns
    -------
    copies, transfers : list of int
        Rows of the two tables.
    """
    rows, moves = copies.to_dicts(), transfers.to_dicts()
    first: dict[tuple[int, ...], int] = {}  # by node or task
    done: dict[tuple[int, ...], list[int]] = defaultdict(list)  # by node and executor, by finish
    ended: dict[tuple[int, float], int] = {}  # by job and time
    completed = [index for index, row in enumerate(rows) if row["outcome"] == "completed"]
    for index in sorted(completed, key=lambda index: rows[index]["finish_time"]):
        row = rows[index]
        first.setdefault((row["arrival_number"], row["node"], row["task"]), index)
        done[row["arrival_number"], row["node"], row["executor"]].append(index)
        ended.setdefault((row["arrival_number"], row["finish_time"]), index)
    before: dict[int, int] = {}
    latest: dict[int, int] = {}
    for index in sorted(range(len(rows)), key=lambda index: (rows[index]["starting_time"], rows[index]["finish_time"])):
        if rows[index]["executor"] in latest:
            before[index] = latest[rows[index]["executor"]]
        latest[rows[index]["executor"]] = index
    inputs: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, move in enumerate(moves):
        inputs[move["arrival_number"], move["child"], move["task"], move["destination"]].append(number)

    def cause(index: int) -> tuple[int | None, int | None]:
        """Return the copy that a copy waited for, and the transfer, if the wait was for data."""
        row = rows[index]
        start = row["starting_time"] - RESOLUTION * max(1.0, row["starting_time"])
        found: list[tuple[float, int, int, int | None]] = []
        # An earlier start of the copy on this executor had other inputs; their arrivals are earlier and sort behind.
        for number in inputs[row["arrival_number"], row["node"], row["task"], row["executor"]]:
            move = moves[number]
            known = done[row["arrival_number"], move["parent"], move["source"]]
            sources = [source for source in known if rows[source]["finish_time"] <= move["starting_time"]]
            if sources and move["arrival_time"] <= row["starting_time"]:
                found.append((move["arrival_time"], 1, sources[-1], number))
        moving = 0.0
        if index in before:
            other = rows[before[index]]
            moving = delay if other["arrival_number"] != row["arrival_number"] else 0.0
            found.append((other["finish_time"] + moving, 0, before[index], None))
        time, _, copy, sent = max(found, key=lambda entry: entry[:2], default=(-np.inf, 0, -1, None))
        if time >= start:
            return copy, sent
        at_once = row["assignment_time"] + moving >= start
        return ended.get((row["arrival_number"], row["assignment_time"])) if at_once else None, None

    chain: list[int] = []
    taken: list[int] = []
    current: int | None = max(first.values(), key=lambda index: rows[index]["finish_time"], default=None)
    while current is not None and current not in chain:
        chain.append(current)
        current, sent = cause(current)
        taken += [] if sent is None else [sent]
    return chain, taken


def steps_of(run: Result) -> pl.DataFrame:
    """Return step functions of time: executors running a copy, executors up, and jobs in the system."""
    copies, down, one = started_copies(run), down_executors(run), pl.lit(1, pl.Int64)
    changes = [
        pl.DataFrame({"time": [0.0, run.span[1]]}),
        copies.select(time="starting_time", running=one),
        copies.select(time="finish_time", running=-one),
        down.select(time="begin", up=-one),
        down.filter(pl.col("end") < run.span[1]).select(time="end", up=one),
        run.jobs.select(time="submission_time", jobs=one),
        run.jobs.drop_nulls("finish_time").select(time="finish_time", jobs=-one),
    ]
    return add_up(changes, up=run.info["num_executors"])


def utilization(
    results: Results, *, unit: Literal["percent", "executors"] = "percent", **options: Unpack[CurveOptions]
) -> Axes:
    """Draw how many executors are running a copy over time.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name; more than four get a panel each.
    unit : {"percent", "executors"}
        Running executors as a percentage of executors up, or as a number. The percentage has a gap while no executor
        is up. With numbers, a thin grey line shows the executors up.
    **options
        ``bin_width``, ``window`` and ``axes``, see :class:`~desim.plotting.curves.CurveOptions`.

    Returns
    -------
    Axes
        The panel, or the first of several. Times are in seconds, regardless of the tick unit.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results do not come from ``dag``, or are on pools: see
        `pool_utilization`.
    """
    for run in load_runs(results, "dag"):
        if is_of_pools(run):
            raise InvalidConfiguration(f"{title_of(run) or 'results'}: got a run on pools; try pool_utilization")
    return draw_utilization(
        results, "dag", steps_of, ("running", "running executors"), "executors", unit=unit, **options
    )


@one_panel_a_run
def pool_utilization(
    results: Results, *, window: Window = None, axes: Axes | Iterable[Axes] | None = None
) -> list[Axes]:
    """Draw the amounts of pools that copies hold over time, by resource, as percentages of the amounts up.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run on pools, or several by name, one panel each.
    window : (float, float), optional
        Start and end of the time range to show, in seconds.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. There is a gap while no pool is up.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the results are not of ``dag`` on pools.

    Examples
    --------
    >>> from desim.agents.dag import ListScheduler, RankUp
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0], demands=[{"cores": 1}, {"cores": 3}], allow_disconnected=True)
    >>> result = simulate(DagCluster([job], Executors([1.0], capacities=[{"cores": 4}])), ListScheduler(RankUp()))
    >>> axes = pool_utilization(result)
    >>> axes.get_title("right")
    'on average 62.5 % of cores'
    """
    runs = load_runs(results, "dag")
    for run in runs:
        if not is_of_pools(run):
            raise InvalidConfiguration(f"{title_of(run) or 'results'}: got executors, expected a run on pools")
    span = span_of(runs, window)
    styles = line_styles(dict.fromkeys(resource for run in runs for resource in run.info["resources"]))
    panels = new_panels(axes, len(runs), height=2.0 if len(runs) > 1 else 3.2)
    entries: dict[str, Any] = {}
    for panel, run in zip(panels, runs, strict=True):
        resources, metrics = run.info["resources"], run.metrics()
        steps = [amounts_held(run, resource) for resource in resources]
        curves = [(table["time"], table["share"]) for table in steps]
        lines = draw_curves(panel, curves, [styles[resource] for resource in resources], stepped=True)
        entries |= dict(zip(resources, lines, strict=True))
        panel.set_ylabel("amounts held\n(% of those up)")
        panel.set_ylim(0.0, 105.0)
        time_axis(panel, *span)
        means = ", ".join(f"{100 * metrics[f'utilization_{name}']:.3g} % of {name}" for name in resources)
        set_titles(panel, title_of(run), f"on average {means}")
    add_legend(panels, list(entries.items()) if len(entries) > 1 else [])
    label_panels(panels)
    return panels


def amounts_held(run: Result, resource: str) -> pl.DataFrame:
    """Return the ``share`` of a resource of all pools that copies hold, in percent of what is up, by ``time``."""
    amount = f"capacity_{resource}"
    pools = run.table("executors").select("executor", amount)
    held = pl.min_horizontal(pl.col(f"demand_{resource}").fill_null(np.inf), amount)
    modes = run.table("modes") if "modes" in run.info else None
    copies = with_demands(started_copies(run), run.table("nodes"), modes, [resource])
    copies = copies.join(pools, on="executor").with_columns(held=held)
    down = down_executors(run).join(pools, left_on="lane", right_on="executor")
    changes = [
        pl.DataFrame({"time": [0.0, run.span[1]]}),
        copies.select("held", time="starting_time"),
        copies.select(-pl.col("held"), time="finish_time"),
        down.select(up=-pl.col(amount), time="begin"),
        down.filter(pl.col("end") < run.span[1]).select(up=amount, time="end"),
    ]
    steps = add_up([*changes, pl.DataFrame({"time": [0.0], "up": [pools[amount].sum()]})])
    if "held" not in steps.columns:
        steps = steps.with_columns(held=pl.lit(0.0))
    up = pl.col("up").fill_null(strategy="forward")
    share = pl.when(up > 0).then(100.0 * pl.col("held").fill_null(0.0) / up).otherwise(np.nan)
    return steps.select("time", share=share.clip(lower_bound=0.0))


def jobs_in_system(results: Results, **options: Unpack[CurveOptions]) -> Axes:
    """Draw the number of jobs that are submitted but not finished over time.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name; more than four get a panel each.
    **options
        ``bin_width``, ``window`` and ``axes``, see :class:`~desim.plotting.curves.CurveOptions`.

    Returns
    -------
    Axes
        The panel, or the first of several. Times are in seconds, regardless of the tick unit.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results do not come from ``dag``.
    """
    return draw_steps(results, "dag", steps_of, pl.col("jobs"), "jobs in the system", **options)


@one_panel_a_run
def executor_utilization(
    results: Results, *, speeds: bool = False, axes: Axes | Iterable[Axes] | None = None
) -> list[Axes]:
    """Draw the shares of time that each executor spent on each activity, as stacked bars.

    A copy is useless if its job has completed and no copy that started has used its data or, for a node without
    children, if it was not the first copy to complete. An executor waits for data if it runs nothing because the data
    of its next copy are missing. Waiting for a copy that was withdrawn before it started is not recorded, and counts as
    idle.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, one panel each.
    speeds : bool
        Whether to show the speed of each executor after its name.
    axes : Axes or iterable of Axes, optional
        Axes to draw on, one per run; default: a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Executor k is at y = k. x is the percentage of the time from the
        beginning of the run (0, or the first submission if that is late) to its end.

    Raises
    ------
    InvalidConfiguration
        If the results do not come from ``dag``.

    Examples
    --------
    >>> from desim.agents.dag import ListScheduler, RankUp
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), ListScheduler(RankUp()))
    >>> executor_utilization(result).get_title("right")
    'on average 57.1 % useful'
    """
    runs = load_runs(results, "dag")
    tallest = max(run.info["num_executors"] for run in runs)
    height = min(max(0.3 * tallest, 1.2), 6.4 if len(runs) == 1 else 3.6)
    panels = new_panels(axes, len(runs), height=height)
    for panel, run in zip(panels, runs, strict=True):
        shares = _shares(run)
        rows = np.arange(len(shares))
        ends = shares.cumsum(axis=1)
        for activity, (name, style) in enumerate(ACTIVITIES.items()):
            seen = shares[:, activity] > 0
            begins = ends[seen, activity] - shares[seen, activity]
            half = HALF if len(rows) <= 60 else 0.5
            add_boxes(panel, boxes_of(begins, ends[seen, activity], rows[seen], half), name, zorder=2.0, **style)
        plain(panel)
        panel.set_xlim(0.0, 100.0)
        panel.set_xlabel("share of the time (%)")
        name_rows(panel, executor_names(run, speeds=speeds), "executor (speed)" if speeds else "executor")
        set_titles(panel, title_of(run), f"on average {shares[:, 0].mean():.3g} % useful")
    add_legend(panels, drawn_entries(panels, ACTIVITIES))
    label_panels(panels)
    return panels


def _shares(run: Result) -> Floats:
    """Return the percentage of time of each executor's activities, shape (executors, activities)."""
    copies, down = started_copies(run), down_executors(run)
    tables = run.jobs, run.table("edges"), copies, run.table("transfers")
    useless = pl.col("row").is_in(wasted_copies(*tables).implode())
    kind = pl.when(pl.col("outcome") == "interrupted").then(2).when(useless).then(1).otherwise(0)
    spans = [
        copies.select(kind.alias("activity"), lane="executor", begin="starting_time", end="finish_time"),
        waits_for_data(run, copies, down).select(pl.lit(3).alias("activity"), "lane", "begin", "end"),
        down.select(pl.lit(5).alias("activity"), "lane", "begin", "end"),
    ]
    length = run.span[1] - run.span[0]
    total = np.zeros((run.info["num_executors"], len(ACTIVITIES)))
    if not length > 0:
        return total
    table = pl.concat(spans)
    lasting = (table["end"] - table["begin"].clip(run.span[0])).clip(0.0)
    np.add.at(total, (table["lane"].to_numpy(), table["activity"].to_numpy()), lasting.to_numpy())
    total[:, 4] = np.maximum(length - total.sum(axis=1), 0.0)
    return 100.0 * total / length


def _workload(result: Result) -> dict[str, float]:
    """Return summary numbers of the jobs of a run."""
    submission = pl.col("submission_time")
    numbers = result.jobs.select(
        pl.len().alias("jobs"),
        (submission.max() - submission.min()).alias("first to last submission ({})"),
        pl.col("num_nodes").sum().alias("nodes"),
        pl.col("num_nodes").max().alias("nodes of a job, maximum"),
        pl.col("num_edges").sum().alias("edges"),
        pl.col("work").sum().alias("work, sum"),
        pl.col("data_size").sum().alias("data, sum"),
    )
    return numbers.cast(pl.Float64).fill_null(float("nan")).row(0, named=True) | _realized(result)


def _realized(result: Result) -> dict[str, float]:
    """Return load, ratio of communication to computation, and speeds of a run: means over executors, or pairs of them.

    The ratio is the mean transfer time of an edge over the mean run time of a node, as in the paper on HEFT.
    """
    info, nodes, channels = result.info, result.table("nodes"), result.table("channels")
    speeds = np.array(info["speeds"])
    own = pl.col("run_times").list.eval(pl.element().filter(pl.element().is_finite())).list.mean()
    seconds = pl.coalesce(own, pl.col("work") * float(np.mean(1.0 / speeds)))
    run, work = nodes.select(seconds.mean(), seconds.sum().alias("sum")).row(0)
    unit, latency = channels.select((1.0 / pl.col("transfer_speed")).mean(), pl.col("latency").mean()).row(0)
    if unit is None and len(speeds) > 1:  # equal ones of many executors
        unit, latency = 1.0 / (info["transfer_speed"] or math.inf), info["latency"]
    submission = pl.col("submission_time")
    span, edges, data = result.jobs.select(
        (submission.max() - submission.min()).fill_null(0.0), pl.col("num_edges").sum(), pl.col("data_size").sum()
    ).row(0)
    transfer = unit * data / edges + latency if edges and unit is not None else math.nan
    found = {
        "offered load": work / (len(speeds) * span) if span else math.nan,
        "communication-to-computation ratio": transfer / run if run else math.nan,
        "transfer speed": 1.0 / unit if unit else math.nan,
        "capacity (work per s)": float(speeds.sum()),
    }
    links = info["links"]
    return found if links is None else found | {"bandwidth of a link": float(np.mean(links["bandwidths"]))}


def _in_force(result: Result) -> list[str]:
    """Return the planned makespan beside the actual one, of agents that plan ahead."""
    first, last, left = result.jobs.select(
        pl.col("submission_time").min(), pl.col("finish_time").max(), pl.col("finish_time").null_count().alias("left")
    ).row(0)
    planned = result.info.get("planned_end")
    if planned is None or last is None or left:
        return []
    return [f"Makespan: planned {planned - first:,.6g} s at the last assignment, actual {last - first:,.6g} s."]


FIGURES = {
    "gantt": Figure(
        gantt,
        "Gantt charts: which executor ran which copy of a node when. Duplicates are dotted, and copies interrupted by "
        "an outage are hatched; a thin grey bar is the time in which an executor waited for data. Copies that run on a "
        "pool at the same time are above each other.",
    ),
    "utilization": Figure(
        utilization, "Utilization over time: executors running a copy as a share of executors up.", _of_executors
    ),
    "pools": Figure(
        pool_utilization,
        "Utilization over time by resource: amounts of the pools that copies hold as a share of those up.",
        is_of_pools,
    ),
    "jobs": Figure(jobs_in_system, "Jobs in the system over time: jobs that are submitted and have not finished."),
    "executors": Figure(
        executor_utilization,
        "Shares of each executor's time by activity, from the beginning of the run to its end.",
        _of_executors,
    ),
}
WORDS = ReportText(
    workload=_workload,
    realized=_realized,
    in_force=_in_force,
    size=lambda result: ("executors", int(result.info["num_executors"])),
    left_behind={"running": "jobs_running", "queued": "jobs_queued"},
    of_finished_jobs=("turnaround_time", "waiting_time", "job_slr", "makespan", "speedup", "slr", "gap_to_lower_bound"),
    all_finished="Every job had finished when its run ended, and is part of the metrics.",
    left_out="Makespan, speedup, SLR and the gap to the lower bound are missing for these runs; turnaround times cover "
    "only the jobs that had finished.",
    blind="makespan and turnaround times",
    below_workload="An executor of speed 1 does one unit of work per second.",
)
