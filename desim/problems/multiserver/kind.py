"""Descriptor of the problem ``multiserver``: its tables, metrics, agents and workloads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from desim.problem import ProblemDescriptor
from desim.problems.multiserver.tables import INFO, TABLES

__all__ = ["KIND"]


def _info_faults(info: Mapping[str, Any]) -> list[str]:
    names, speed = info["resources"], info.get("minimum_speed")
    if not names or any(type(name) is not str for name in names) or len({*names}) < len(names):
        return [f"resources: got {names!r}, expected distinct names"]
    faults = [
        f"{key}: got {info[key]!r}, expected a number >= 0 for each of {len(names)} resources"
        for key in ("overhead", "total_capacity")
        if len(info[key]) != len(names)
        or any(type(number) not in (int, float) or not 0 <= number < math.inf for number in info[key])
    ]
    if info["holding"] and type(speed) not in (int, float):
        faults.append(f"minimum_speed: got {speed!r}, expected a number")
    return faults + _gang_faults(info)


def _gang_faults(info: Mapping[str, Any]) -> list[str]:
    """Return faults in the number of components that jobs need: one number per job position in a slot."""
    gang = info.get("gang")
    if gang is None and "gang" in info:
        return []
    minimum, job_positions = (gang or {}).get("minimum"), info["num_ports"] * info["jobs_per_port"]
    if type((gang or {}).get("whole")) is not bool or type(minimum) is not list or len(minimum) != job_positions:
        return [f"gang: got {gang!r}, expected whole, and minimum with {job_positions} numbers"]
    wrong = [number for number in minimum if type(number) is not int or number < 1]
    return [f"gang: minimum: got {number!r}, expected integers >= 1" for number in wrong[:1]]


KIND = ProblemDescriptor(
    name="multiserver",
    description="Multi-server jobs of several types, with resources of nodes allocated anew in every slot.",
    time_unit="slots",
    tables=TABLES,
    info=INFO,
    info_faults=_info_faults,
    rules_from="desim.problems.multiserver.rules:RULES",
    metrics_from="desim.problems.multiserver.metrics:METRICS",
    figures_from="desim.problems.multiserver.figures:FIGURES",
    words_from="desim.problems.multiserver.figures:WORDS",
    view_from="desim.problems.multiserver.view:view",
    environment="desim.problems.multiserver.env:MultiServerEnv",
    system_from="desim.problems.multiserver.options:SYSTEM",
    agents=("desim.agents.multiserver.registry",),
    workloads=("desim.workloads.multiserver.registry",),
    episodes="desim.workloads.multiserver.registry:draw",
    same_workload={
        "jobs": ("job_id", "port", "submission_time"),
        "slots": ("slot", "arrived"),
        "ports": ("port", "resource", "request"),
        "nodes": ("node", "resource", "capacity"),
        "channels": ("port", "node"),
    },
    workload="arrivals",
    progress=("slot", "slots"),
)
