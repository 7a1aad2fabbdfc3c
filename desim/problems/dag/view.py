"""Interactive view of a run of DAG jobs: copies on executors, transfers, the critical chain, and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from desim.plotting.views import LOOKS, Arrows, View, joined, lanes_of
from desim.problems.dag.figures import (
    amounts_held,
    down_executors,
    executor_names,
    find_critical_chain,
    is_of_pools,
    names_of_copies,
    places_of,
    started_copies,
    steps_of,
    waits_for_data,
)

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["view"]

CARDS = (
    "job_id",
    "label",
    "submission_time",
    "starting_time",
    "finish_time",
    "turnaround_time",
    "num_nodes",
    "num_edges",
    "work",
    "data_size",
    "status",
)
COLORS = ("label", "turnaround_time", "num_nodes", "work")


def view(run: Result) -> View:
    """Return executors over time with a rectangle per copy, the transfers between executors, and curves.

    Parameters
    ----------
    run : Result
        Run of ``dag``.

    Returns
    -------
    View
        Chart ``executors``, with as many rows of a pool as copies ran on it at once; curves ``utilization`` (on pools,
        one per resource), ``jobs`` and, if executors were down, ``up``.
    """
    copies, transfers = started_copies(run), run.table("transfers").with_row_index("row")
    chain, sent = find_critical_chain(copies, transfers, run.info.get("moving_delay", 0.0))
    looks = np.full(len(copies), LOOKS.index("runs"), dtype=np.uint8)
    looks[copies["duplicate"].to_numpy()] = LOOKS.index("duplicate")
    looks[chain] = LOOKS.index("critical")
    looks[(copies["outcome"] == "interrupted").to_numpy()] = LOOKS.index("cut")
    down = down_executors(run)
    waits = waits_for_data(run, copies, down)
    place, counts = places_of(run, copies)
    below = np.cumsum([0, *counts])  # row of the first place of each executor
    executors = [
        name if count == 1 else f"{name}, {at}"
        for name, count in zip(executor_names(run, speeds=True), counts, strict=True)
        for at in range(1, count + 1)
    ]
    of_down, of_waits = (table["lane"].to_numpy() for table in (down, waits))
    parts: list[dict[str, Any]] = [
        {
            "begin": down["begin"],
            "end": down["end"],
            "first": below[of_down],
            "last": below[of_down + 1] - 1,
            "look": "down",
        },
        {"begin": waits["begin"], "end": waits["end"], "first": below[of_waits], "look": "waiting"},
        {
            "begin": copies["starting_time"],
            "end": copies["finish_time"],
            "first": below[copies["executor"].to_numpy()] + place,
            "owner": copies["arrival_number"],
            "look": looks,
            "texts": names_of_copies(run, copies),
        },
    ]
    moved = transfers.filter(pl.col("source") != pl.col("destination"))
    arrows = Arrows(
        moved["starting_time"].to_numpy().astype(np.float64),
        moved["arrival_time"].to_numpy().astype(np.float64),
        below[moved["source"].to_numpy()],
        below[moved["destination"].to_numpy()],
        np.isin(moved["row"].to_numpy(), sent),
    )
    steps = steps_of(run)
    curves = {}
    for resource in run.info.get("resources", ()):
        held = f"{resource} held (% of those up)"
        curves[f"utilization_{resource}"] = joined(
            amounts_held(run, resource).fill_nan(0.0), "share", held, least=0.0, most=100.0
        )
    if not is_of_pools(run):
        share = pl.when(pl.col("up") > 0).then(100.0 * pl.col("running") / pl.col("up")).otherwise(0.0)
        curves["utilization"] = joined(
            steps.with_columns(share=share), "share", "utilization (% of executors up)", least=0.0, most=100.0
        )
    curves["jobs"] = joined(steps, "jobs", "jobs in the system", least=0.0)
    if steps["up"].n_unique() > 1 and not is_of_pools(run):
        curves["up"] = joined(steps, "running", "running executors", bound=steps["up"], bound_label="executors up")
    labelled = run.jobs["label"].fill_null("").n_unique() > 1
    cards, colors = ([name for name in names if labelled or name != "label"] for names in (CARDS, COLORS))
    chart = lanes_of("executors", executors, parts, arrows=arrows)
    return View({"executors": chart}, curves, run.jobs, cards, "turnaround_time", colors)
