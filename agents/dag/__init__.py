"""Agents for DAG jobs. Search agents are imported on first use, because they need numba."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from desim.agents.dag.allocation import DEFT, EFT, Allocation, InsertionDEFT, InsertionEFT
from desim.agents.dag.list_scheduling import HEFT, ListScheduler, PatientScheduler
from desim.agents.dag.optimum import OptimalSchedule, Optimum, ScheduledCopy, optimal_schedule
from desim.agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, LeastWork, Order, RandomOrder, RankUp
from desim.agents.dag.portfolio import Portfolio
from desim.agents.dag.published import CPOP, DLS, PEFT
from desim.agents.dag.registry import create, descriptions
from desim.agents.dag.rollout import RolloutAgent
from desim.agents.dag.switching import SwitchingAgent
from desim.agents.dag.tdca import TDCA

if TYPE_CHECKING:
    from desim.agents.dag.search import GuidedSearchAgent, SearchAgent

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
    "GuidedSearchAgent",
    "InsertionDEFT",
    "InsertionEFT",
    "LeastWork",
    "ListScheduler",
    "OptimalSchedule",
    "Optimum",
    "Order",
    "PatientScheduler",
    "Portfolio",
    "RandomOrder",
    "RankUp",
    "RolloutAgent",
    "ScheduledCopy",
    "SearchAgent",
    "SwitchingAgent",
    "create",
    "descriptions",
    "optimal_schedule",
]

_LATER = dict.fromkeys(("GuidedSearchAgent", "SearchAgent"), "desim.agents.dag.search")


def __getattr__(name: str) -> Any:
    """Import a module with optional dependencies when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
