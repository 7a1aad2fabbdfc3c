"""Interactive view of a multi-server run: use of the nodes in each slot, and rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from desim.plotting.runs import resources_of
from desim.plotting.views import Curve, Map, View
from desim.problems.multiserver.figures import shares_of_nodes, slot_lengths

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["view"]

#: Largest number of cells of a map; more slots share a column.
MOST_CELLS = 1_000_000
CARDS = (
    "job_id",
    "port",
    "submission_time",
    "starting_time",
    "finish_time",
    "work",
    "gain",
    "overhead",
    "reward",
    "status",
)


def view(run: Result) -> View:
    """Return the share of each node's first resource that jobs held per slot, and curves.

    Parameters
    ----------
    run : Result
        Run of ``multiserver``.

    Returns
    -------
    View
        Chart ``nodes``, if all allocations were recorded; curves ``reward``, ``average``, one per resource, and, if
        jobs hold resources, ``queued``.
    """
    slots, resources = run.table("slots"), resources_of(run)
    time = np.append(slots["slot"].to_numpy().astype(np.float64), float(len(slots)))
    rewards = slots["reward"].to_numpy().astype(np.float64)
    lengths = slot_lengths(run)
    until = lengths.cumsum()
    so_far = np.divide((rewards * lengths).cumsum(), until, out=np.zeros_like(until), where=until > 0)
    curves = {
        "reward": Curve("reward of the slot", time, _held(rewards)),
        "average": Curve("average reward of the slots so far", time, _held(so_far)),
    }
    if run.info["holding"]:
        curves["queued"] = Curve("queued jobs", time, _held(slots["queued"].to_numpy()), least=0.0)
    for index, resource in enumerate(resources):
        capacity = float(run.info["total_capacity"][index])
        if capacity > 0:
            share = 100.0 * slots[f"allocated_{resource}"].to_numpy() / capacity
            curves[resource] = Curve(f"use of {resource} (% of all nodes)", time, _held(share), least=0.0, most=100.0)
    charts = {}
    every = int(run.info["record_allocations"])
    if len(slots) and (every == 1 or (every > 1 and not run.info["holding"])):
        width = -(-int(run.info["num_nodes"]) * len(slots) // MOST_CELLS)
        names, edges, values = shares_of_nodes(run, resources[0], width)
        if len(names):
            charts["nodes"] = Map(f"nodes, {resources[0]}", names, edges, values)
    jobs = run.jobs
    cards = [
        name for name in CARDS if name in jobs.columns and not (name == "work" and jobs[name].null_count() == len(jobs))
    ]
    spread = "waiting_time" if run.info["holding"] and "waiting_time" in jobs.columns else "reward"
    return View(charts, curves, jobs.with_columns(pl.col("port").cast(pl.String)), cards, spread)


def _held(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return values by slot, with the last one repeated for the end of its slot."""
    found = np.asarray(values, dtype=np.float64)
    return np.append(found, found[-1:] if len(found) else 0.0)
