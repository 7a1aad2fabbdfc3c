"""What a run of DAG jobs must have recorded: its description, tables and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from desim.validation.description import RUN_STATUSES, kind_faults, time_faults
from desim.validation.report import Findings
from desim.validation.tables import Kinds, read_tables

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["OUTCOMES", "STATUSES", "by_task", "read_dag_tables"]

STATUSES = ("completed", "running", "waiting")
"""What can have become of a job."""

OUTCOMES = ("completed", "interrupted", "withdrawn", "running", "waiting")
"""What can have become of a copy."""

_COLUMNS: Mapping[str, Kinds] = {
    "jobs": {
        "job_id": "integer",
        "label": "text",
        "submission_time": "float",
        "starting_time": "float?",
        "finish_time": "float?",
        "waiting_time": "float?",
        "turnaround_time": "float?",
        "num_nodes": "integer",
        "num_edges": "integer",
        "work": "float",
        "data_size": "float",
        "success": "boolean",
        "status": STATUSES,
    },
    "nodes": {"job_id": "integer", "node": "integer", "name": "text", "work": "float", "num_tasks": "integer"},
    "edges": {"job_id": "integer", "parent": "integer", "child": "integer", "size": "float"},
    "copies": {
        "job_id": "integer",
        "node": "integer",
        "task": "integer",
        "executor": "integer",
        "duplicate": "boolean",
        "assignment_time": "float",
        "receiving_time": "float?",
        "starting_time": "float?",
        "finish_time": "float?",
        "outcome": OUTCOMES,
    },
    "transfers": {
        "job_id": "integer",
        "parent": "integer",
        "child": "integer",
        "task": "integer",
        "source": "integer",
        "destination": "integer",
        "starting_time": "float",
        "arrival_time": "float",
        "size": "float",
    },
    "executors": {"executor": "integer", "name": "text", "speed": "float"},
    "channels": {"source": "integer", "destination": "integer", "latency": "float"},
    "outages": {"time": "float", "executor": "integer", "event": ("down", "up")},
}
_DESCRIPTION: Mapping[str, tuple[type, ...]] = {
    "num_executors": (int,),
    "speeds": (list,),
    "transfer_speed": (int, float, list, type(None)),
    "latency": (int, float, list, type(None)),
    "executors": (list,),
    "plan_ahead": (bool,),
    "transfers": (str,),
    "outages_lose_data": (bool,),
    "end_time": (int, float),
    "until": (int, float, type(None)),
    "status": (str,),
}
_TASK_COLUMNS: Mapping[str, Kinds] = {**_COLUMNS, "nodes": {**_COLUMNS["nodes"], "measured": "boolean"}}
_TASK_DESCRIPTION: Mapping[str, tuple[type, ...]] = {**_DESCRIPTION, "moving_delay": (int, float)}
_CHOICES = {"transfers": ("when_finished", "when_assigned"), "status": RUN_STATUSES}


def by_task(info: Mapping[str, Any]) -> bool:
    """Tell whether the nodes of a run were run task by task.

    Parameters
    ----------
    info : mapping
        The description of the run.

    Returns
    -------
    bool
        False where nodes run whole.
    """
    return info.get("granularity") == "task"


def read_dag_tables(result: Result, findings: Findings) -> dict[str, pl.DataFrame] | None:
    """Check the description and the columns of a run.

    Parameters
    ----------
    result : Result
        The run.
    findings : Findings
        Takes what is wrong.

    Returns
    -------
    dict of str to polars.DataFrame or None
        The tables; None if nothing more can be checked.
    """
    findings.note("description", len(_DESCRIPTION), _description_faults(result.info))
    if not findings.report().ok:
        return None
    tables = read_tables(result, _TASK_COLUMNS if by_task(result.info) else _COLUMNS, findings)
    faults = []
    if "nodes" in tables:
        faults += _run_time_faults(tables["nodes"], result.info["num_executors"])
    if "channels" in tables:
        faults += _transfer_speed_faults(tables["channels"])
    findings.note("columns", 0, faults)
    return tables if findings.report().ok else None


def _description_faults(info: Mapping[str, Any]) -> list[str]:
    faults = kind_faults(info, _TASK_DESCRIPTION if by_task(info) else _DESCRIPTION)
    if faults:
        return faults
    faults = time_faults(info)
    count = info["num_executors"]
    for key in ("speeds", "executors"):
        if count < 1 or len(info[key]) != count:
            faults.append(f"{key} has {len(info[key])} entries for {count} executors")
    faults += [
        f"{key} is {info[key]!r}, want {' or '.join(allowed)}"
        for key, allowed in _CHOICES.items()
        if info[key] not in allowed
    ]
    if info.get("links") is not None and info["transfers"] != "when_assigned":
        faults.append(f"transfers is {info['transfers']!r}, want 'when_assigned' where links are shared")
    if by_task(info):
        if not 0 <= info["moving_delay"] < math.inf:
            faults.append(f"moving_delay is {info['moving_delay']!r}, want a finite time of at least 0")
        if info["plan_ahead"] or info.get("links") is not None:
            faults.append("nodes are planned ahead or links are shared, which tasks cannot be or do")
    return faults


def _run_time_faults(nodes: pl.DataFrame, num_executors: int) -> list[str]:
    """Check the lists of run times: one for each executor, or null."""
    import polars as pl

    dtype = nodes.schema.get("run_times")
    if dtype is None:
        return ["table nodes has no column run_times"]
    if dtype != pl.List(pl.Float64):
        return [f"column run_times of table nodes holds {dtype}, want lists of floats"]
    lists = nodes.select(row=pl.int_range(pl.len()), times="run_times").filter(pl.col("times").is_not_null())
    lengths = pl.col("times").list.len() != num_executors
    # The element-wise checks see null, NaN and infinity, too.
    bad = pl.col("times").list.eval(~(pl.element().is_finite() & (pl.element() >= 0)).fill_null(False)).list.any()
    wrong = lists.filter(lengths | bad)["row"].to_list()
    return [
        f"run_times of table nodes are {nodes['run_times'][row].to_list()} in row {row}, want {num_executors} finite "
        "numbers of at least 0"
        for row in wrong[:1]
    ]


def _transfer_speed_faults(channels: pl.DataFrame) -> list[str]:
    """Check the transfer speeds, which may be infinite."""
    if "transfer_speed" not in channels.columns:
        return ["table channels has no column transfer_speed"]
    values = channels["transfer_speed"]
    if not values.dtype.is_float():
        return [f"column transfer_speed of table channels holds {values.dtype}, want float"]
    wrong = (~(values > 0)).fill_null(True) | values.is_nan().fill_null(True)
    row = int(wrong.to_numpy().argmax()) if wrong.any() else -1
    return (
        [f"column transfer_speed of table channels holds {values[row]} in row {row}, want above 0"] if row >= 0 else []
    )
