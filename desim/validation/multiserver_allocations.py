"""Rules on what the jobs of a multi-server run are given: channels, requests, capacities, gangs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from desim.validation.multiserver_tables import ABSOLUTE, RELATIVE, Allocations, MultiServerRun, combined
from desim.validation.report import Findings

__all__ = ["check_allocations"]

Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

NEGLIGIBLE = 1e-9
"""Amounts up to this are rounding, and serve no component."""


def check_allocations(run: MultiServerRun, findings: Findings) -> None:
    """Check the table of allocations.

    Parameters
    ----------
    run : MultiServerRun
        The run.
    findings : Findings
        Takes the violations.
    """
    _check_rows(run, findings)
    _check_repetitions(run, findings)
    _check_missing(run, findings)
    given, graph = run.allocations, run.graph
    findings.check(
        "channels",
        len(given.job),
        ~graph.joined[given.port, given.node],
        lambda row: f"{_who(run, row)}: there is no channel from {graph.ports[given.port[row]]}",
    )
    if run.info["gang"] is None:
        most = graph.requests[given.port, given.resource]
        findings.check(
            "requests",
            len(given.job),
            given.amount > most * (1 + RELATIVE) + ABSOLUTE,
            lambda row: f"{_who(run, row)} and requests {most[row]}",
        )
    else:
        _check_gangs(run, findings)
    _check_capacity(run, findings)


def _who(run: MultiServerRun, row: int) -> str:
    """Say in words what a row of the allocations says."""
    given, graph = run.allocations, run.graph
    component = "" if run.info["gang"] is None else f", component {given.component[row]},"
    return (
        f"job {given.job_id[row]}{component} gets {given.amount[row]} of {graph.resources[given.resource[row]]} from "
        f"{graph.nodes[given.node[row]]} in slot {given.slot[row]}"
    )


def _check_rows(run: MultiServerRun, findings: Findings) -> None:
    """Check what can be seen from each row and its job."""
    given, every = run.allocations, run.info["record_allocations"]
    exists = given.job >= 0
    start = np.append(run.jobs["starting_time"], np.nan)[given.job]
    port = np.append(run.port, -1)[given.job]
    component = (given.component < 0) | ((given.component > 0) & (run.info["gang"] is None))
    faults: list[tuple[Mask, Callable[[int], str]]] = [
        (~exists, lambda row: "there is no such job"),
        (exists & (port != given.port), lambda row: f"it is one of {run.graph.ports[port[row]]}, not as the row says"),
        (exists & ~(start == given.slot), lambda row: f"it starts at {start[row]}"),
        (~(given.amount > 0), lambda row: "want an amount above 0"),
        (component, lambda row: f"there is no component {given.component[row]}"),
    ]
    if every == 0:
        faults.append((np.ones_like(exists), lambda row: "none are recorded"))
    else:
        faults.append((given.slot % every != 0, lambda row: f"those of every {every} slots are recorded"))
    for wrong, why in faults:
        _check_each(run, wrong, why, findings)


def _check_each(run: MultiServerRun, wrong: Mask, why: Callable[[int], str], findings: Findings) -> None:
    findings.check("allocations", len(wrong), wrong, lambda row: f"{_who(run, row)}: {why(row)}")


def _check_repetitions(run: MultiServerRun, findings: Findings) -> None:
    given, graph = run.allocations, run.graph
    key = combined(
        (given.job, len(run.port)),
        (given.component, int(given.component.max(initial=0)) + 1),
        (given.node, len(graph.nodes)),
        (given.resource, len(graph.resources)),
    )
    order = np.argsort(key, kind="stable")
    again = order[1:][(np.diff(key[order]) == 0) & (given.job[order[1:]] >= 0)]
    findings.check("allocations", len(key), again, lambda row: f"{_who(run, row)}: there are two such rows")


def _check_missing(run: MultiServerRun, findings: Findings) -> None:
    """Check that all jobs which were given something in a recorded slot are in the table."""
    ids, start = run.jobs["job_id"], run.jobs["starting_time"]
    has = np.zeros(len(ids), dtype=np.bool_)
    has[run.allocations.job[run.allocations.job >= 0]] = True
    findings.check(
        "allocations",
        len(ids),
        run.recorded & ~has,
        lambda row: f"job {ids[row]} starts at {start[row]}, and nothing says what it is given",
    )


def _check_gangs(run: MultiServerRun, findings: Findings) -> None:
    """Check that jobs have as many components served as they need, and indivisible ones on one node each."""
    given, gang, count = run.allocations, run.info["gang"], len(run.port)
    rows = np.flatnonzero((given.job >= 0) & (given.component >= 0) & (given.amount > NEGLIGIBLE))
    most = int(given.component.max(initial=0)) + 1
    components = np.bincount(np.unique(combined((given.job[rows], count), (given.component[rows], most))) // most)
    components = np.append(components, np.zeros(count - len(components), dtype=np.int64))
    needed = np.array(gang["minimum"])[:: run.info["jobs_per_port"]][run.port]
    ids = run.jobs["job_id"]
    findings.check(
        "gangs",
        count,
        (components > 0) & (components < needed),
        lambda row: f"job {ids[row]} has {components[row]} components served and needs {needed[row]}",
    )
    if not gang["whole"]:
        return
    rows = rows[given.amount[rows] > RELATIVE]
    component = combined((given.job[rows], count), (given.component[rows], most))
    nodes = len(run.graph.nodes)
    places, first = np.unique(combined((component, 0), (given.node[rows], nodes)), return_index=True)
    several = np.flatnonzero(np.diff(places // nodes) == 0) + 1
    findings.check(
        "gangs",
        count,
        rows[first[several]],
        lambda row: f"{_who(run, row)}: this component is indivisible and has another node, too",
    )


def _check_capacity(run: MultiServerRun, findings: Findings) -> None:
    """Check at every moment what the nodes have given: the allocations that are recorded, from start to end."""
    given, graph = run.allocations, run.graph
    rows = np.flatnonzero((given.job >= 0) & (run.started & ~np.isnan(run.ends))[given.job])
    time, node, resource, used = _held_at_most(run, given, rows)
    capacity = graph.capacity[node, resource]

    def message(place: int) -> str:
        begins, ends = run.jobs["starting_time"], run.ends
        here = rows[(given.node[rows] == node[place]) & (given.resource[rows] == resource[place])]
        job = given.job[here]
        jobs = np.unique(job[(begins[job] <= time[place]) & (ends[job] > time[place])])
        shown = ", ".join(map(str, run.jobs["job_id"][jobs[-10:]])) + (", ..." if len(jobs) > 10 else "")
        return (
            f"slot {time[place]:g}: {graph.nodes[node[place]]} gives {used[place]} of "
            f"{graph.resources[resource[place]]} and has {capacity[place]}; to jobs {shown}"
        )

    over = np.flatnonzero(used > capacity * (1 + RELATIVE) + ABSOLUTE)
    findings.check("capacity", len(given.job), over, message)


def _held_at_most(
    run: MultiServerRun, given: Allocations, rows: Whole
) -> tuple[NDArray[np.float64], Whole, Whole, NDArray[np.float64]]:
    """Return what each node gives of each resource at every moment at which somebody is given something of it."""
    import polars as pl

    job = given.job[rows]
    entry = given.node[rows] * len(run.graph.resources) + given.resource[rows]
    taken = pl.DataFrame({"time": run.jobs["starting_time"][job], "entry": entry, "amount": given.amount[rows]})
    freed = pl.DataFrame({"time": run.ends[job], "entry": entry, "amount": -given.amount[rows]})
    amount = pl.col("amount")
    changes = pl.concat([taken, freed]).group_by("time", "entry").agg(amount.sum(), amount.max().alias("largest"))
    held = changes.sort("entry", "time").with_columns(amount.cum_sum().over("entry"))
    held = held.filter(pl.col("largest") > 0).sort("time", "entry")
    node, resource = np.divmod(held["entry"].to_numpy(), len(run.graph.resources))
    return held["time"].to_numpy(), node, resource, held["amount"].to_numpy()
