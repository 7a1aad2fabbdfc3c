"""Agents for deferrable jobs under fluctuating capacity."""

from agents.deferrable.forecasts import Forecast, ForecastErrors, LastValue, Oracle, Seasonal, forecast_errors
from agents.deferrable.optimum import Optimum, Planned, offline_optimum
from agents.deferrable.orders import (
    FIFO,
    SJF,
    EarliestDeadline,
    LargestRevenue,
    LeastSlack,
    Priority,
    RandomOrder,
    Tetris,
)
from agents.deferrable.registry import create, descriptions
from agents.deferrable.rolling_horizon import RollingHorizon

__all__ = [
    "FIFO",
    "SJF",
    "EarliestDeadline",
    "Forecast",
    "ForecastErrors",
    "LargestRevenue",
    "LastValue",
    "LeastSlack",
    "Optimum",
    "Oracle",
    "Planned",
    "Priority",
    "RandomOrder",
    "RollingHorizon",
    "Seasonal",
    "Tetris",
    "create",
    "descriptions",
    "forecast_errors",
    "offline_optimum",
]
