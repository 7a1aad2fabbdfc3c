"""desim: discrete-event simulation for cluster scheduling, on SimPy."""

from desim.core import Decision, Phase, Simulation, SimulationInterrupted, at, reschedule, simulate
from desim.exceptions import (
    DesimError,
    InfeasibleAction,
    InvalidConfiguration,
    MissingDependency,
    RecordError,
    WorkloadError,
)
from desim.problem import Extension, Figure, Kind, Metric, Metrics, Problem
from desim.result import Result
from desim.tables import Column, Table

__all__ = [
    "Column",
    "Decision",
    "DesimError",
    "Extension",
    "Figure",
    "InfeasibleAction",
    "InvalidConfiguration",
    "Kind",
    "Metric",
    "Metrics",
    "MissingDependency",
    "Phase",
    "Problem",
    "RecordError",
    "Result",
    "Simulation",
    "SimulationInterrupted",
    "Table",
    "WorkloadError",
    "at",
    "reschedule",
    "simulate",
]

__version__ = "0.1.0"
