"""Agents for DAG jobs."""

from agents.dag.allocation import DEFT, EFT, Allocation, InsertionEFT
from agents.dag.cpop import CPOP
from agents.dag.dls import DLS
from agents.dag.list_scheduling import HEFT, ListScheduler
from agents.dag.optimum import OptimalSchedule, Optimum, ScheduledCopy, optimal_schedule
from agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, Order, RandomOrder, RankUp
from agents.dag.peft import PEFT
from agents.dag.registry import create, descriptions
from agents.dag.tdca import TDCA

__all__ = [
    "CPOP",
    "DEFT",
    "DLS",
    "EFT",
    "FIFO",
    "HEFT",
    "HRRN",
    "PEFT",
    "SJF",
    "TDCA",
    "Allocation",
    "CriticalPath",
    "InsertionEFT",
    "ListScheduler",
    "OptimalSchedule",
    "Optimum",
    "Order",
    "RandomOrder",
    "RankUp",
    "ScheduledCopy",
    "create",
    "descriptions",
    "optimal_schedule",
]
