"""desim: a discrete-event simulator for cluster scheduling, built on SimPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.core import Decision, Phase, Simulation, SimulationInterrupted, at, reschedule, simulate
from desim.exceptions import (
    DesimError,
    InfeasibleAction,
    InvalidConfiguration,
    MissingDependency,
    RecordError,
    WorkloadError,
)
from desim.problem import Extension, Figure, Metric, Metrics, Problem, ProblemDescriptor
from desim.result import Result
from desim.tables import Column, Table

import desim.executed as _executed  # isort: skip  # noqa: F401 - last, as it notes modules that are loaded from now on

if TYPE_CHECKING:
    from desim.comparing import compare

__all__ = [
    "Column",
    "Decision",
    "DesimError",
    "Extension",
    "Figure",
    "InfeasibleAction",
    "InvalidConfiguration",
    "Metric",
    "Metrics",
    "MissingDependency",
    "Phase",
    "Problem",
    "ProblemDescriptor",
    "RecordError",
    "Result",
    "Simulation",
    "SimulationInterrupted",
    "Table",
    "WorkloadError",
    "at",
    "compare",
    "reschedule",
    "simulate",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the modules that only comparisons need on first access."""
    if name == "compare":
        from importlib import import_module

        return import_module("desim.comparing").compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
