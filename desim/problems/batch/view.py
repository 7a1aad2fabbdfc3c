"""Interactive page of a batch run: which job held which cores when, utilization and the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from desim.plotting.views import LOOKS, Lanes, Map, View, free_rows, joined, lanes_of
from desim.problems.batch.allocations import devices
from desim.problems.batch.cores import parse_core_sets
from desim.problems.batch.executions import executions
from desim.problems.batch.figures import steps_of, unavailable

if TYPE_CHECKING:
    from desim.result import Result

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
        Chart ``cores``, and ``gpus`` if nodes have GPUs; curves ``utilization``, ``queue`` and ``up``.
    """
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
    charts: dict[str, Lanes | Map] = {"cores": lanes_of("cores", cores, parts, groups=_nodes(run))}
    gpus = _gpus(run)
    if gpus is not None:
        charts["gpus"] = gpus
    return View(charts, curves, run.jobs, cards, "waiting_time", colors)


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
