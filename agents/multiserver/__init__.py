"""Agents for multi-server jobs: online gradient ascent and its rivals."""

from desim.agents.multiserver.adaptive import AdaGrad, OptimisticOGA
from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.hindsight import (
    Hindsight,
    best_fixed_allocation,
    best_fixed_allocation_cvxpy,
    hindsight_bound,
)
from desim.agents.multiserver.oga import OGASched, OnlineGradient
from desim.agents.multiserver.packing import BinPacking, Spreading
from desim.agents.multiserver.projection import Projection, project
from desim.agents.multiserver.registry import create, descriptions
from desim.agents.multiserver.regret import Growth, growth_exponent, regret_bound, regret_curve
from desim.agents.multiserver.shares import DRF, Fairness, dominant_shares, fill_in_order
from desim.agents.multiserver.step_sizes import (
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
    "Growth",
    "Hindsight",
    "NormalizedSteps",
    "OGASched",
    "OnlineGradient",
    "OptimisticOGA",
    "Projection",
    "Spreading",
    "StepSize",
    "TheoreticalSteps",
    "best_fixed_allocation",
    "best_fixed_allocation_cvxpy",
    "create",
    "descriptions",
    "diameter_bound",
    "dominant_shares",
    "fill_in_order",
    "gradient_bound",
    "growth_exponent",
    "hindsight_bound",
    "project",
    "regret_bound",
    "regret_curve",
]
