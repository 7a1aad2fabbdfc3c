"""Agents for multi-server jobs: online gradient ascent and its baselines."""

from desim.agents.multiserver.baselines import DRF, BinPacking, Fairness, Spreading, dominant_shares, fill_in_order
from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.hindsight import (
    Hindsight,
    best_fixed_allocation,
    best_fixed_allocation_cvxpy,
    hindsight_bound,
)
from desim.agents.multiserver.line_search import BestSlot, LineSearchOGA
from desim.agents.multiserver.oga import (
    AdaGrad,
    ExactOGA,
    GeometricSteps,
    NormalizedSteps,
    OnlineGradient,
    OptimisticOGA,
    StepSize,
    TheoreticalSteps,
    diameter_bound,
    gradient_bound,
)
from desim.agents.multiserver.ogasched import Breaches, OGASched, PrintedLoop, printed_loop
from desim.agents.multiserver.projection import Projection, project
from desim.agents.multiserver.registry import create, descriptions
from desim.agents.multiserver.regret import Growth, growth_exponent, regret_bound, regret_curve

__all__ = [
    "DRF",
    "AdaGrad",
    "BestSlot",
    "BinPacking",
    "Breaches",
    "ExactOGA",
    "Fairness",
    "GangRepair",
    "GeometricSteps",
    "Growth",
    "Hindsight",
    "LineSearchOGA",
    "NormalizedSteps",
    "OGASched",
    "OnlineGradient",
    "OptimisticOGA",
    "PrintedLoop",
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
    "printed_loop",
    "project",
    "regret_bound",
    "regret_curve",
]
