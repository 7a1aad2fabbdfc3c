"""What desim knows of the problem ``multiserver``."""

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
        return [f"resources is {names!r}, want different names"]
    faults = [
        f"{key} is {info[key]!r}, want a number of at least 0 for each of {len(names)} resources"
        for key in ("overhead", "total_capacity")
        if len(info[key]) != len(names)
        or any(type(number) not in (int, float) or not 0 <= number < math.inf for number in info[key])
    ]
    if info["holding"] and type(speed) not in (int, float):
        faults.append(f"minimum_speed is {speed!r}, want a number")
    return faults + _gang_faults(info)


def _gang_faults(info: Mapping[str, Any]) -> list[str]:
    """Check the components that jobs need: one number for each place for a job in a slot."""
    gang = info.get("gang")
    if gang is None and "gang" in info:
        return []
    minimum, job_positions = (gang or {}).get("minimum"), info["num_ports"] * info["jobs_per_port"]
    if type((gang or {}).get("whole")) is not bool or type(minimum) is not list or len(minimum) != job_positions:
        return [f"gang is {gang!r}, want whole, and minimum with {job_positions} numbers"]
    wrong = [number for number in minimum if type(number) is not int or number < 1]
    return [f"a gang needs {number!r} components, want at least 1" for number in wrong[:1]]


KIND = ProblemDescriptor(
    name="multiserver",
    description="Multi-server jobs of several types on nodes that are shared out anew in every slot.",
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
