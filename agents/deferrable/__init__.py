"""Agents for deferrable jobs under fluctuating capacity."""

from desim.agents.deferrable.forecasts import (
    CapacityShield,
    Forecast,
    ForecastErrors,
    LastValue,
    Oracle,
    Seasonal,
    calibrate,
    forecast_errors,
)
from desim.agents.deferrable.list_plan import ListPlan, PlannedWaits, planned_starts
from desim.agents.deferrable.optimum import Optimum, Planned, offline_optimum
from desim.agents.deferrable.orders import (
    FIFO,
    SJF,
    EarliestDeadline,
    LargestRevenue,
    LeastSlack,
    Priority,
    RandomOrder,
    Tetris,
)
from desim.agents.deferrable.registry import create, descriptions
from desim.agents.deferrable.rolling_horizon import RollingHorizon

__all__ = [
    "FIFO",
    "SJF",
    "CapacityShield",
    "EarliestDeadline",
    "Forecast",
    "ForecastErrors",
    "LargestRevenue",
    "LastValue",
    "LeastSlack",
    "ListPlan",
    "Optimum",
    "Oracle",
    "Planned",
    "PlannedWaits",
    "Priority",
    "RandomOrder",
    "RollingHorizon",
    "Seasonal",
    "Tetris",
    "calibrate",
    "create",
    "descriptions",
    "forecast_errors",
    "offline_optimum",
    "planned_starts",
]
