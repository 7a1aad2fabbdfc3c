"""Interactive view of a run of deferrable jobs: their windows and runs, and the amounts they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from desim.plotting.runs import resources_of
from desim.plotting.views import LOOKS, Curve, View, free_rows, lanes_of
from desim.problems.deferrable.figures import executions, jobs_in_rows

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["view"]


def view(run: Result) -> View:
    """Return jobs with their windows and runs, each in a free row, and the amounts they hold under the capacity.

    Parameters
    ----------
    run : Result
        Run of ``deferrable``.

    Returns
    -------
    View
        Chart ``jobs``; a curve per resource, and ``known`` for jobs that wait for a start.
    """
    jobs, ran = jobs_in_rows(run), executions(run)
    ends = ran.group_by("arrival_number").agg(pl.col("end").max())
    jobs = jobs.join(ends, on="arrival_number", how="left", maintain_order="left")
    jobs = jobs.with_columns(
        line=pl.Series(free_rows(jobs["submission_time"], jobs.select(pl.max_horizontal("closes", "end")).to_series()))
    )
    whose: dict[str, Any] = {"first": jobs["line"], "owner": jobs["arrival_number"]}
    expired = (jobs["status"] == "expired").to_numpy()
    windows = np.where(expired, LOOKS.index("expired"), LOOKS.index("window"))
    early = jobs.filter(pl.col("submission_time") < pl.col("earliest_start"))
    bars = ran.join(jobs.select("arrival_number", "line"), on="arrival_number", maintain_order="left")
    parts: list[dict[str, Any]] = [
        {"begin": jobs["earliest_start"], "end": jobs["closes"], "look": windows} | whose,
        {
            "begin": early["submission_time"],
            "end": early["earliest_start"],
            "first": early["line"],
            "owner": early["arrival_number"],
            "look": "lead_time",
        },
        {
            "begin": bars["begin"],
            "end": bars["end"],
            "first": bars["line"],
            "owner": bars["arrival_number"],
            "look": np.where(bars["cut"].to_numpy(), LOOKS.index("cut"), LOOKS.index("runs")),
        },
    ]
    slots = run.table("slots")
    time = np.append(slots["slot"].to_numpy().astype(np.float64), float(len(slots)))
    curves = {}
    for resource in resources_of(run):
        used, capacity = (_held(slots[f"{kind}_{resource}"]) for kind in ("used", "capacity"))
        curves[resource] = Curve(f"{resource} in use", time, used, capacity, "the capacity", least=0.0)
    curves["known"] = Curve("jobs in open windows", time, _held(slots["current"]), least=0.0)
    requests = [f"requested_{resource}" for resource in resources_of(run)]
    cards = [
        "job_id",
        "submission_time",
        "earliest_start",
        "latest_start",
        "requested_time",
        *requests,
        "starting_time",
        "finish_time",
        "evictions",
        "status",
    ]
    delayed = run.jobs.with_columns(delay=pl.col("starting_time") - pl.col("earliest_start"))
    chart = lanes_of("rows", int(jobs["line"].to_numpy().max(initial=-1)) + 1, parts)
    return View({"jobs": chart}, curves, delayed, [*cards, "delay"], "delay", ("status", requests[0], "delay"))


def _held(values: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return values by slot, with the last one repeated for the end of its slot."""
    found = values.to_numpy().astype(np.float64)
    return np.append(found, found[-1:] if len(found) else 0.0)
