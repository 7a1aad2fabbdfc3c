"""Agents for multi-server jobs: online gradient ascent and its rivals."""

from agents.multiserver.adaptive import AdaGrad, OptimisticOGA
from agents.multiserver.gang import GangRepair
from agents.multiserver.oga import OGASched, OnlineGradient
from agents.multiserver.packing import BinPacking, Spreading
from agents.multiserver.projection import Projection, project
from agents.multiserver.registry import create, descriptions
from agents.multiserver.shares import DRF, Fairness, dominant_shares, fill_in_order
from agents.multiserver.step_sizes import (
    GeometricSteps,
    NormalizedSteps,
    StepSize,
    TheoreticalSteps,
    diameter_bound,
    gradient_bound,
)

__all__ = [
    "DRF",
    "AdaGrad",
    "BinPacking",
    "Fairness",
    "GangRepair",
    "GeometricSteps",
    "NormalizedSteps",
    "OGASched",
    "OnlineGradient",
    "OptimisticOGA",
    "Projection",
    "Spreading",
    "StepSize",
    "TheoreticalSteps",
    "create",
    "descriptions",
    "diameter_bound",
    "dominant_shares",
    "fill_in_order",
    "gradient_bound",
    "project",
]
