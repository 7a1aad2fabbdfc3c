"""Agents for deferrable jobs under fluctuating capacity; ``SearchAgent``, which needs numba, is imported on access."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from desim.agents.deferrable.forecasts import (
    CapacityShield,
    Forecast,
    ForecastErrors,
    Oracle,
    Persistence,
    Seasonal,
    calibrate,
    forecast_errors,
)
from desim.agents.deferrable.learned_forecast import ForecastDistribution, LearnedForecast, UncertainForecast
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
from desim.agents.deferrable.registry import create, descriptions, forecast_named
from desim.agents.deferrable.rolling_horizon import RollingHorizon

if TYPE_CHECKING:
    from desim.agents.deferrable.search import SearchAgent

__all__ = [
    "FIFO",
    "SJF",
    "CapacityShield",
    "EarliestDeadline",
    "Forecast",
    "ForecastDistribution",
    "ForecastErrors",
    "LargestRevenue",
    "LearnedForecast",
    "LeastSlack",
    "ListPlan",
    "Optimum",
    "Oracle",
    "Persistence",
    "Planned",
    "PlannedWaits",
    "Priority",
    "RandomOrder",
    "RollingHorizon",
    "SearchAgent",
    "Seasonal",
    "Tetris",
    "UncertainForecast",
    "calibrate",
    "create",
    "descriptions",
    "forecast_errors",
    "forecast_named",
    "offline_optimum",
    "planned_starts",
]

_LATER = {"SearchAgent": "desim.agents.deferrable.search"}


def __getattr__(name: str) -> Any:
    """Import optional agents on first access."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
