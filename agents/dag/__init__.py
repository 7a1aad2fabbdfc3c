"""Agents for DAG jobs."""

from desim.agents.dag.allocation import DEFT, EFT, Allocation, InsertionDEFT, InsertionEFT
from desim.agents.dag.list_scheduling import HEFT, ListScheduler, PatientScheduler
from desim.agents.dag.optimum import OptimalSchedule, Optimum, ScheduledCopy, optimal_schedule
from desim.agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, LeastWork, Order, RandomOrder, RankUp
from desim.agents.dag.published import CPOP, DLS, PEFT
from desim.agents.dag.registry import create, descriptions
from desim.agents.dag.rollout import RolloutAgent
from desim.agents.dag.tdca import TDCA

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
