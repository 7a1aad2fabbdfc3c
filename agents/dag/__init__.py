"""Agents for DAG jobs."""

from agents.dag.allocation import DEFT, EFT, Allocation, InsertionEFT
from agents.dag.list_scheduling import HEFT, ListScheduler
from agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, Order, RandomOrder, RankUp

__all__ = [
    "DEFT",
    "EFT",
    "FIFO",
    "HEFT",
    "HRRN",
    "SJF",
    "Allocation",
    "CriticalPath",
    "InsertionEFT",
    "ListScheduler",
    "Order",
    "RandomOrder",
    "RankUp",
]
