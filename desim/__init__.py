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
from desim.problem import Problem
from desim.result import Result

__all__ = [
    "Decision",
    "DesimError",
    "InfeasibleAction",
    "InvalidConfiguration",
    "MissingDependency",
    "Phase",
    "Problem",
    "RecordError",
    "Result",
    "Simulation",
    "SimulationInterrupted",
    "WorkloadError",
    "at",
    "reschedule",
    "simulate",
]

__version__ = "0.1.0"
