"""Agents for deferrable jobs under fluctuating capacity."""

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

__all__ = [
    "FIFO",
    "SJF",
    "EarliestDeadline",
    "LargestRevenue",
    "LeastSlack",
    "Priority",
    "RandomOrder",
    "Tetris",
]
