"""What a multi-server run must have recorded: its description, tables and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from desim.validation.description import (
    RUN_STATUSES,
    choice_faults,
    kind_faults,
    lowest_faults,
    name_faults,
    time_faults,
)
from desim.validation.tables import Kinds

__all__ = ["COLUMNS", "STATUSES", "description_faults"]

STATUSES = ("completed", "unserved", "running", "queued")
"""What can have become of a job."""

COLUMNS: Mapping[str, Kinds] = {
    "ports": {"port": "text", "resource": "text", "request": "float"},
    "nodes": {"node": "text", "resource": "text", "capacity": "float", "utility": "text", "weight": "float"},
    "channels": {"port": "text", "node": "text"},
    "jobs": {
        "job_id": "integer",
        "port": "text",
        "submission_time": "float",
        "starting_time": "float?",
        "finish_time": "float?",
        "waiting_time": "float?",
        "execution_time": "float?",
        "turnaround_time": "float?",
        "work": "float?",
        "gain": "float",
        "overhead": "float",
        "reward": "float",
        "dominant_resource": "text",
        "status": STATUSES,
        "success": "boolean",
    },
    "slots": {
        "slot": "integer",
        "arrived": "integer",
        "queued": "integer",
        "running": "integer",
        "gain": "float",
        "overhead": "float",
        "reward": "float",
    },
    "allocations": {
        "slot": "integer",
        "job_id": "integer",
        "port": "text",
        "component": "integer",
        "node": "text",
        "resource": "text",
        "amount": "float",
    },
}
"""The columns of each table and their kinds; the table ``slots`` has two more for each resource."""

_KINDS: dict[str, tuple[type, ...]] = {
    "holding": (bool,),
    "num_ports": (int,),
    "num_nodes": (int,),
    "num_channels": (int,),
    "resources": (list,),
    "overhead": (list,),
    "total_capacity": (list,),
    "jobs_per_port": (int,),
    "gang": (dict, type(None)),
    "record_allocations": (int,),
    "end_time": (int, float),
    "until": (int, float, type(None)),
    "status": (str,),
}
_LOWEST = {"num_ports": 1, "num_nodes": 1, "num_channels": 0, "jobs_per_port": 1, "record_allocations": 0}


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
    kinds = _KINDS | ({"minimum_speed": (int, float)} if info.get("holding") is True else {})
    return kind_faults(info, kinds) or [
        *time_faults(info),
        *choice_faults(info, {"status": RUN_STATUSES}),
        *lowest_faults(info, _LOWEST),
        *(name_faults(info["resources"]) or _amount_faults(info)),
        *_gang_faults(info),
    ]


def _amount_faults(info: Mapping[str, Any]) -> list[str]:
    count = len(info["resources"])
    return [
        f"{key} is {info[key]!r}, want a number of at least 0 for each of {count} resources"
        for key in ("overhead", "total_capacity")
        if len(info[key]) != count
        or any(type(number) not in (int, float) or not 0 <= number < math.inf for number in info[key])
    ]


def _gang_faults(info: Mapping[str, Any]) -> list[str]:
    """Check the components that jobs need: one number for each place for a job in a slot."""
    gang = info["gang"]
    if gang is None:
        return []
    minimum, seats = gang.get("minimum"), info["num_ports"] * info["jobs_per_port"]
    if type(gang.get("whole")) is not bool or type(minimum) is not list or len(minimum) != seats:
        return [f"gang is {gang!r}, want whole, and minimum with {seats} numbers"]
    wrong = [number for number in minimum if type(number) is not int or number < 1]
    return [f"a gang needs {number!r} components, want at least 1" for number in wrong[:1]]
