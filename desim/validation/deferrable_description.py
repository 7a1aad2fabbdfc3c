"""What a run of a cluster for deferrable jobs must have recorded: its description, tables and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from desim.validation.description import (
    RUN_STATUSES,
    choice_faults,
    kind_faults,
    lowest_faults,
    name_faults,
    planned_end,
)
from desim.validation.tables import Kinds

__all__ = ["EVICTIONS", "STATUSES", "columns", "description_faults"]

STATUSES = ("completed", "expired", "evicted", "running", "pending")
"""What can have become of a job."""

EVICTIONS = ("never", "lost", "restarted")
"""What can become of jobs for which the capacity no longer suffices."""

_JOBS: Kinds = {
    "job_id": "integer",
    "submission_time": "float",
    "earliest_start": "integer",
    "latest_start": "integer",
    "requested_time": "integer",
    "starting_time": "float?",
    "finish_time": "float?",
    "waiting_time": "float?",
    "execution_time": "float?",
    "turnaround_time": "float?",
    "delay": "float?",
    "revenue": "float",
    "evictions": "integer",
    "status": STATUSES,
    "success": "boolean",
}
_SLOT_COUNTS = ("slot", "submitted", "current", "future", "started", "expired", "evicted", "running")
_SLOT_SUMS = ("current_work", "future_work", "revenue", "delay", "reward")

_KINDS: Mapping[str, tuple[type, ...]] = {
    "num_slots": (int, type(None)),
    "resources": (list,),
    "delay_weight": (int, float),
    "violation_weights": (list,),
    "overcommit": (bool,),
    "eviction": (str,),
    "real_time": (bool,),
    "end_time": (int, float),
    "until": (int, float, type(None)),
    "status": (str,),
}


def columns(resources: Sequence[str]) -> dict[str, Kinds]:
    """Return the columns of each table and their kinds.

    Parameters
    ----------
    resources : sequence of str
        Names of the resources.

    Returns
    -------
    dict of str to dict
        By table, as :func:`desim.validation.tables.table_faults` takes them.
    """
    amounts = [f"{kind}_{name}" for kind in ("capacity", "used", "violation") for name in resources]
    return {
        "jobs": {**_JOBS, **{f"requested_{name}": "float" for name in resources}},
        "slots": {**dict.fromkeys(_SLOT_COUNTS, "integer"), **dict.fromkeys((*_SLOT_SUMS, *amounts), "float")},
        "evictions": dict.fromkeys(("job_id", "starting_time", "eviction_time"), "integer"),
    }


def description_faults(info: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with a description.

    Parameters
    ----------
    info : mapping
        The description of the run.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    return kind_faults(info, _KINDS) or [
        *_time_faults(info),
        *choice_faults(info, {"status": RUN_STATUSES, "eviction": EVICTIONS}),
        *lowest_faults(info, {} if info["num_slots"] is None else {"num_slots": 1}),
        *(name_faults(info["resources"]) or _weight_faults(info)),
    ]


def _time_faults(info: Mapping[str, Any]) -> list[str]:
    last = min(planned_end(info), math.inf if info["num_slots"] is None else info["num_slots"])
    if not 0 <= info["end_time"] < math.inf or not info["end_time"] <= last:
        return [
            f"end_time is {info['end_time']!r}, want a time between 0 and both until ({info['until']!r}) and "
            f"num_slots ({info['num_slots']!r})"
        ]
    return []


def _weight_faults(info: Mapping[str, Any]) -> list[str]:
    names, weights, faults = info["resources"], info["violation_weights"], []
    if len(weights) != len(names) or not all(map(_is_weight, weights)):
        faults.append(f"violation_weights is {weights!r}, want a number of at least 0 for each of {names!r}")
    if not _is_weight(info["delay_weight"]):
        faults.append(f"delay_weight is {info['delay_weight']!r}, want a number of at least 0")
    return faults


def _is_weight(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < math.inf
