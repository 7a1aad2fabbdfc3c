"""The tables of a multi-server run as the rules need them: checked for columns, types and names, then taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.validation.description import planned_end
from desim.validation.multiserver_description import COLUMNS, STATUSES, description_faults
from desim.validation.multiserver_graph import GraphTables, graph_faults, indices, read_graph
from desim.validation.report import Findings
from desim.validation.tables import Columns, masks, read_tables, to_arrays

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["ABSOLUTE", "RELATIVE", "Allocations", "MultiServerRun", "combined", "differs", "read_multiserver_run"]

RELATIVE = 1e-6
"""Difference of two amounts or rewards, relative to the larger one, that is taken for rounding."""

ABSOLUTE = 1e-8
"""Difference that is taken for rounding in any case, for amounts and rewards near 0."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]


class Allocations(NamedTuple):
    """The table ``allocations``, one entry a row.

    Attributes
    ----------
    slot, job_id : array of int, shape (n,)
        When who was given something.
    job : array of int, shape (n,)
        Row of the job in the job table, -1 if there is no such job.
    port, component, node, resource : array of int, shape (n,)
        Indices of names, and which component of its job it is for.
    amount : array of float, shape (n,)
        How much.
    """

    slot: Whole
    job_id: Whole
    job: Whole
    port: Whole
    component: Whole
    node: Whole
    resource: Whole
    amount: Floats


@dataclass(frozen=True)
class MultiServerRun:
    """A multi-server run, taken apart.

    Attributes
    ----------
    jobs, slots : mapping of str to array
        The columns of the tables that hold numbers; what is null is NaN.
    port, dominant : array of int, shape (number of jobs,)
        Index of each job's port and dominant resource.
    status : mapping of str to array of bool
        For each status which jobs have it.
    allocated, reserved : array of float, shape (number of slots, num_resources)
        The columns of that kind of the table ``slots``.
    allocations : Allocations
        The table.
    graph : GraphTables
        Ports, nodes and channels.
    info : mapping
        The description.
    """

    jobs: Columns
    slots: Columns
    port: Whole
    dominant: Whole
    status: Mapping[str, Mask]
    allocated: Floats
    reserved: Floats
    allocations: Allocations
    graph: GraphTables
    info: Mapping[str, Any]

    @property
    def holding(self) -> bool:
        """Whether jobs hold what they have until their work is done, instead of lasting one slot."""
        return bool(self.info["holding"])

    @property
    def num_slots(self) -> int:
        """Slots that have begun."""
        return len(self.slots["slot"])

    @property
    def end_time(self) -> float:
        """When the run ended."""
        return float(self.info["end_time"])

    @property
    def drained(self) -> bool:
        """Whether the run went on until nothing was left to happen."""
        return self.info["status"] == "complete" and self.end_time < planned_end(self.info)

    @cached_property
    def started(self) -> Mask:
        """Which jobs have a start."""
        return ~np.isnan(self.jobs["starting_time"])

    @cached_property
    def ends(self) -> Floats:
        """When each job gave back what it had, or the run ended; NaN for jobs without a start."""
        ends = np.where(self.status["running"], self.end_time, self.jobs["finish_time"])
        return np.where(self.started, ends, np.nan)

    @cached_property
    def arrival_slot(self) -> Whole:
        """The slot for which each job arrived, by its number; the number of slots if for none of them."""
        last = np.cumsum(np.maximum(self.slots["arrived"], 0))
        return np.searchsorted(last, self.jobs["job_id"], "right").astype(np.int64)

    @cached_property
    def recorded(self) -> Mask:
        """Which jobs started in a slot whose allocations were recorded."""
        every = self.info["record_allocations"]
        if every == 0:
            return np.zeros(len(self.port), dtype=np.bool_)
        recorded: Mask = self.started & (self.jobs["starting_time"] % every == 0)
        return recorded

    @cached_property
    def held(self) -> Floats:
        """What each job was given as far as it is recorded, shape (number of jobs, num_resources)."""
        given, count = self.allocations, len(self.graph.resources)
        known = given.job >= 0
        entries = given.job[known] * count + given.resource[known]
        sums = np.bincount(entries, given.amount[known], minlength=len(self.port) * count)
        return sums.astype(np.float64).reshape(len(self.port), count)


def combined(*parts: tuple[Whole, int]) -> Whole:
    """Return one number for each combination of indices.

    Parameters
    ----------
    *parts : pair of array of int, shape (n,), and int
        Indices, and how many there can be, the most important first.

    Returns
    -------
    array of int, shape (n,)
        Ordered as the combinations are.
    """
    key = parts[0][0]
    for part, size in parts[1:]:
        key = key * size + part
    return key


def differs(values: Floats, expected: Floats) -> Mask:
    """Tell where two amounts or rewards differ by more than rounding.

    Parameters
    ----------
    values, expected : array of float
        Of one shape.

    Returns
    -------
    array of bool
        False where either is NaN.
    """
    tolerance = RELATIVE * np.maximum(np.abs(values), np.abs(expected)) + ABSOLUTE
    wrong: Mask = np.abs(values - expected) > tolerance
    return wrong


def read_multiserver_run(result: Result, findings: Findings) -> MultiServerRun | None:
    """Read the tables of a multi-server run.

    Parameters
    ----------
    result : Result
        The run.
    findings : Findings
        Takes what is wrong with its description, columns, types and names.

    Returns
    -------
    MultiServerRun or None
        None if nothing more can be checked.
    """
    info = result.info
    findings.note("description", 1, description_faults(info))
    if not findings.report().ok:
        return None
    amounts = [f"{kind}_{resource}" for kind in ("allocated", "reserved") for resource in info["resources"]]
    expected = {**COLUMNS, "slots": {**COLUMNS["slots"], **dict.fromkeys(amounts, "float")}}
    tables = read_tables(result, expected, findings)
    if not findings.report().ok:
        return None
    findings.note("graph", len(tables["channels"]), graph_faults(tables, info))
    if not findings.report().ok:
        return None
    graph = read_graph(tables, info["resources"])
    jobs, given = tables["jobs"], tables["allocations"]
    port, dominant = indices(jobs["port"], graph.ports), indices(jobs["dominant_resource"], graph.resources)
    allocations = _read_allocations(given, jobs["job_id"].to_numpy(), graph)
    _check_names("jobs", jobs, {"port": port, "dominant_resource": dominant}, findings)
    places = {name: getattr(allocations, name) for name in ("port", "node", "resource")}
    _check_names("allocations", given, places, findings)
    if not findings.report().ok:
        return None
    slots = to_arrays(tables["slots"])
    allocated, reserved = (
        np.column_stack([slots[f"{kind}_{resource}"] for resource in graph.resources])
        for kind in ("allocated", "reserved")
    )
    return MultiServerRun(
        to_arrays(jobs),
        slots,
        port,
        dominant,
        masks(jobs["status"], STATUSES),
        allocated,
        reserved,
        allocations,
        graph,
        info,
    )


def _read_allocations(table: pl.DataFrame, job_ids: Whole, graph: GraphTables) -> Allocations:
    slot, job_id, component = (table[name].cast(int).to_numpy() for name in ("slot", "job_id", "component"))
    order = np.argsort(job_ids, kind="stable")
    place = np.minimum(np.searchsorted(job_ids[order], job_id), max(len(order) - 1, 0))
    job = order[place] if len(order) else np.full(len(job_id), -1)
    exists = job_ids[job] == job_id if len(order) else np.zeros(len(job_id), dtype=np.bool_)
    return Allocations(
        slot,
        job_id,
        np.where(exists, job, -1),
        indices(table["port"], graph.ports),
        component,
        indices(table["node"], graph.nodes),
        indices(table["resource"], graph.resources),
        table["amount"].cast(float).to_numpy(),
    )


def _check_names(name: str, table: pl.DataFrame, places: Mapping[str, Whole], findings: Findings) -> None:
    """Check that a table names only what there is."""
    for column, place in places.items():
        kind = "resource" if column == "dominant_resource" else column
        findings.check(
            "graph",
            len(table),
            place < 0,
            lambda row, column=column, kind=kind: (  # type: ignore[misc]
                f"job {table['job_id'][row]} in table {name}: there is no {kind} called {table[column][row]!r}"
            ),
        )
