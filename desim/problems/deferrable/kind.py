"""Descriptor of the problem ``deferrable``: its tables, metrics, agents, workloads and trainings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from desim.problem import ProblemDescriptor
from desim.problems.deferrable.tables import INFO, TABLES

__all__ = ["KIND"]


def _info_faults(info: Mapping[str, Any]) -> list[str]:
    names, weights, last = info["resources"], info["violation_weights"], info["num_slots"]
    if not names or any(type(name) is not str for name in names) or len({*names}) < len(names):
        return [f"resources: got {names!r}, expected distinct names"]
    numbers = [number for number in weights if type(number) in (int, float) and 0 <= number < math.inf]
    if not len(numbers) == len(weights) == len(names):
        return [f"violation_weights: got {weights!r}, expected a number >= 0 for each of {names!r}"]
    if last is not None and info["end_time"] > last:
        return [f"end_time: got {info['end_time']!r}, expected a time from 0 to num_slots ({last!r})"]
    return []


KIND = ProblemDescriptor(
    name="deferrable",
    description="Jobs with start windows, which run in the capacity that on-demand jobs leave free.",
    time_unit="slots",
    tables=TABLES,
    info=INFO,
    info_faults=_info_faults,
    metrics_from="desim.problems.deferrable.metrics:METRICS",
    rules_from="desim.problems.deferrable.rules:RULES",
    figures_from="desim.problems.deferrable.figures:FIGURES",
    words_from="desim.problems.deferrable.figures:WORDS",
    view_from="desim.problems.deferrable.view:view",
    environment="desim.problems.deferrable.env:DeferrableEnv",
    system_from="desim.problems.deferrable.options:SYSTEM",
    agents=("desim.agents.deferrable.registry",),
    workloads=("desim.workloads.deferrable.registry",),
    episodes="desim.workloads.deferrable.registry:draw",
    trainings={
        "deferrable": "desim.agents.deferrable.training:ScoreTraining",
        "deferrable-osdec": "desim.agents.deferrable.training:OsdecTraining",
    },
    same_workload={
        "jobs": ("job_id", "submission_time", "earliest_start", "latest_start", "requested_*"),
        "slots": ("slot", "arrived", "capacity_*"),
    },
    workload="jobs",
    progress=("slot", "slots"),
)
