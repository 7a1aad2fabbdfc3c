"""Interactive page of a batch run: which job held which cores when, utilization and the queue."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from desim.formatting import duration_words
from desim.plotting.curves import bin_averages
from desim.plotting.maps import coverage
from desim.plotting.views import LOOKS, DrawnLater, Lanes, Map, View, free_rows, joined, lanes_of
from desim.problems.batch.allocations import devices
from desim.problems.batch.cores import parse_core_sets
from desim.problems.batch.executions import executions
from desim.problems.batch.figures import steps_of, unavailable
from desim.problems.batch.metrics import read_cut_executions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from desim.result import Result

    Floats = NDArray[np.float64]

__all__ = ["view"]

#: Fields of the card of a job.
CARDS = (
    "job_id",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "run_time",
    "starting_time",
    "waiting_time",
    "finish_time",
    "status",
    "attempts",
    "user_id",
)
#: Number of jobs above which a page shows means instead of single jobs, with this number of bins and of rows at most.
MOST_JOBS, BINS, BANDS = 100_000, 1_024, 128
COLORS = ("waiting_time", "requested_number_of_resources", "run_time", "user_id", "status")


def view(run: Result) -> View:
    """Return the view of a run: executions as rectangles over cores and time, and curves.

    Parameters
    ----------
    run : Result
        Batch run.

    Returns
    -------
    View
        Chart ``cores``, and ``gpus`` if nodes have GPUs; curves ``utilization``, ``queue`` and ``up``. Of more than
        :data:`MOST_JOBS` jobs, the chart is a map of the use of cores, and the curves are means over its bins of time.
    """
    if run.height("jobs") > MOST_JOBS:
        return _overview(run)
    cores = int(run.info["num_cores"])
    steps = steps_of(run)
    share = pl.when(pl.col("up") > 0).then(100.0 * pl.col("busy") / pl.col("up")).otherwise(0.0)
    steps = steps.with_columns(share=share)
    curves = {
        "utilization": joined(steps, "share", "utilization (% of cores up)", least=0.0, most=100.0),
        "queue": joined(steps, "queued", "queued jobs", least=0.0),
    }
    if steps["up"].n_unique() > 1:
        within: dict[str, Any] = {"least": 0.0, "most": float(cores)}
        curves["up"] = joined(steps, "busy", "busy cores", bound=steps["up"], bound_label="cores up", **within)
    users = run.jobs["user_id"].n_unique() > 1
    cards = [name for name in CARDS if users or name != "user_id"]
    colors = [name for name in COLORS if users or name != "user_id"]
    charts = DrawnLater(partial(_charts, run))
    return View(charts, curves, run.jobs, cards, "waiting_time", colors, measured=run.measured_span)


def _charts(run: Result) -> dict[str, Lanes | Map]:
    """Return executions as rectangles over cores, and over GPUs if nodes have some."""
    ran = executions(run.jobs, run.table("interruptions"), run.span[1])
    ranges = parse_core_sets(ran["allocated_resources"])
    bars = ran[ranges["row"]]
    parts: list[dict[str, Any]] = [
        {
            "begin": bars["starting_time"],
            "end": bars["finish_time"],
            "first": ranges["first"],
            "last": ranges["last"],
            "owner": bars["arrival_number"],
            "look": np.where(bars["cut"].to_numpy(), LOOKS.index("cut"), LOOKS.index("runs")),
        }
    ]
    down = unavailable(run)
    if len(down):
        corners = dict(zip(("begin", "end", "first", "last"), down.T, strict=True))
        rows = {"first": np.rint(corners["first"] + 0.5), "last": np.rint(corners["last"] - 0.5)}
        parts.append(corners | rows | {"look": "down"})
    charts: dict[str, Lanes | Map] = {"cores": lanes_of("cores", int(run.info["num_cores"]), parts, groups=_nodes(run))}
    gpus = _gpus(run)
    return charts if gpus is None else {**charts, "gpus": gpus}


def _overview(run: Result) -> View:
    """Return the view of a long run, read in portions: how much of its cores is in use, and curves, as means."""
    cores, (begin, end) = int(run.info["num_cores"]), run.span
    edges = np.linspace(begin, end, BINS + 1)
    row_edges = np.unique(np.linspace(0, cores, BANDS + 1).round())
    used, queued, waits = np.zeros((len(row_edges) - 1, BINS)), np.zeros(BINS), []
    names = ("starting_time", "finish_time", "allocated_resources")
    for jobs in run.portions("jobs", [*names, "submission_time", "status", "waiting_time"], in_order=False):
        used += _coverage(jobs, end, edges, row_edges)
        waiting = jobs.filter(pl.col("status") != "rejected").select(
            "submission_time", pl.col("starting_time").fill_null(end)
        )
        since, until = waiting.to_numpy().T
        queued += coverage(since, until, edges)[0]
        waits.append(jobs.select("submission_time", "waiting_time"))
    for cut in run.portions("interruptions", [*names, "outcome"], in_order=False):
        used += _coverage(
            cut.filter(pl.col("outcome") != "lost"), end, edges, row_edges
        )  # lost jobs are in both tables
    cuts = read_cut_executions(run.source("jobs"), run.scan("interruptions"))
    queued -= coverage(cuts.start, cuts.back.clip(max=end), edges)[0]
    outages = run.table("outages").select("time", "cores_up")
    ends = pl.DataFrame({"time": [begin, end], "cores_up": [cores, None]}, schema=outages.schema)
    up = bin_averages(pl.concat([ends[:1], outages, ends[1:]]).fill_null(strategy="forward"), edges)[
        "cores_up"
    ].to_numpy()
    busy = np.diff(row_edges) @ used
    share = np.divide(100.0 * busy, up, out=np.zeros(BINS), where=up > 0)
    means = pl.DataFrame({"time": edges, "share": np.append(share, share[-1]), "queued": np.append(queued, queued[-1])})
    curves = {
        "utilization": joined(means, "share", "utilization (% of cores up)", least=0.0, most=100.0),
        "queue": joined(means, "queued", "queued jobs", least=0.0),
    }
    bands = [f"{a:.0f}-{b - 1:.0f}" if b - a > 1 else f"{a:.0f}" for a, b in pairwise(row_edges.tolist())]
    charts = {"cores": Map("cores", bands, edges, used.clip(0.0, 1.0), cores)}
    note = (
        f"The run has {run.height('jobs'):,} jobs, more than the {MOST_JOBS:,} that a page shows one by one. The chart "
        f"shows the share of each group of cores that is in use, and the curves are means, over {BINS:,} intervals of "
        f"{duration_words(edges[1] - edges[0])} or longer. desim plot --time-range draws the jobs of a shorter time."
    )
    return View(charts, curves, pl.concat(waits), spread="waiting_time", note=note, measured=run.measured_span)


def _coverage(found: pl.DataFrame, now: float, edges: Floats, row_edges: Floats) -> Floats:
    """Return the share of each group of cores and bin of time that executions use."""
    ran = found.filter(pl.col("starting_time").is_not_null())
    ranges = parse_core_sets(ran["allocated_resources"])
    times = ran.select("starting_time", pl.col("finish_time").fill_null(now))[ranges["row"]]
    begin, end = times.to_numpy().T
    first, last = ranges["first"].to_numpy(), ranges["last"].to_numpy() + 1
    return coverage(begin, end, edges, first=first, last=last, row_edges=row_edges)


def _nodes(run: Result) -> dict[str, int]:
    """Return the first core of each node by name; empty if the cluster has no nodes."""
    if "nodes" not in run.table_names:
        return {}
    nodes = run.table("nodes").sort("first_core")
    return dict(zip(nodes["name"].to_list(), nodes["first_core"].to_list(), strict=True))


def _gpus(run: Result) -> Lanes | None:
    """Return the jobs on each GPU, with shares of a GPU side by side; None without GPUs."""
    if "placements" not in run.table_names:
        return None
    held = devices(run.table("placements").filter(pl.col("starting_time").is_not_null()))
    held = held.with_columns(pl.col("finish_time").fill_null(run.span[1])).sort("node", "gpu", "starting_time")
    if not len(held):
        return None
    names = dict(run.table("nodes").select("node", "name").iter_rows())
    boxes, groups, row = [], {}, 0
    for (node, gpu), table in held.group_by("node", "gpu", maintain_order=True):
        lines = free_rows(table["starting_time"], table["finish_time"])
        groups[f"{names[node]} GPU {gpu}"] = row
        boxes.append(
            {
                "begin": table["starting_time"],
                "end": table["finish_time"],
                "first": lines + row,
                "owner": table["arrival_number"],
                "texts": [f"{share / 10:g} %" for share in table["share"].to_list()],
            }
        )
        row += int(lines.max()) + 1
    return lanes_of("shares of GPUs", row, boxes, groups=groups)
