"""Agents for DAG jobs."""

from agents.dag.allocation import DEFT, EFT, Allocation, InsertionDEFT, InsertionEFT
from agents.dag.cpop import CPOP
from agents.dag.dls import DLS
from agents.dag.list_scheduling import HEFT, ListScheduler
from agents.dag.optimum import OptimalSchedule, Optimum, ScheduledCopy, optimal_schedule
from agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, LeastWork, Order, RandomOrder, RankUp
from agents.dag.patient import PatientScheduler
from agents.dag.peft import PEFT
from agents.dag.registry import create, descriptions
from agents.dag.rollout import RolloutAgent
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
    "InsertionDEFT",
    "InsertionEFT",
    "LeastWork",
    "ListScheduler",
    "OptimalSchedule",
    "Optimum",
    "Order",
    "PatientScheduler",
    "RandomOrder",
    "RankUp",
    "RolloutAgent",
    "ScheduledCopy",
    "create",
    "descriptions",
    "optimal_schedule",
]
