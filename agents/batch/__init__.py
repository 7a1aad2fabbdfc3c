"""Agents for the batch cluster: priority orders, backfilling, search and learned policies.

Learned agents and window rules are imported on first use because they need gymnasium and torch; so is the search over
queue orders, which needs numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from desim.agents.batch.backfilling import ConservativeBackfilling, EASYBackfilling, SimpleBackfilling
from desim.agents.batch.moldable import MoldableBackfilling
from desim.agents.batch.preemptive import PreemptiveAgent
from desim.agents.batch.priorities import (
    F1,
    F2,
    F3,
    F4,
    FCFS,
    LCFS,
    PRIORITIES,
    SJF,
    UNICEP,
    WFP3,
    Multifactor,
    Priority,
    SmallestFirst,
    as_priority,
)
from desim.agents.batch.registry import create, descriptions
from desim.agents.batch.rollout import RolloutAgent
from desim.agents.batch.trace_replay import TraceReplay

if TYPE_CHECKING:
    from desim.agents.batch.dbf import DBFAgent
    from desim.agents.batch.inspector import Inspector, SchedInspector
    from desim.agents.batch.search import OrderDecoder, SearchAgent
    from desim.agents.batch.split_window import SplitWindowAgent
    from desim.agents.batch.window_rules import WindowRule

__all__ = [
    "F1",
    "F2",
    "F3",
    "F4",
    "FCFS",
    "LCFS",
    "PRIORITIES",
    "SJF",
    "UNICEP",
    "WFP3",
    "ConservativeBackfilling",
    "DBFAgent",
    "EASYBackfilling",
    "Inspector",
    "MoldableBackfilling",
    "Multifactor",
    "OrderDecoder",
    "PreemptiveAgent",
    "Priority",
    "RolloutAgent",
    "SchedInspector",
    "SearchAgent",
    "SimpleBackfilling",
    "SmallestFirst",
    "SplitWindowAgent",
    "TraceReplay",
    "WindowRule",
    "as_priority",
    "create",
    "descriptions",
]

_LATER = {
    "DBFAgent": "desim.agents.batch.dbf",
    "Inspector": "desim.agents.batch.inspector",
    "OrderDecoder": "desim.agents.batch.search",
    "SchedInspector": "desim.agents.batch.inspector",
    "SearchAgent": "desim.agents.batch.search",
    "SplitWindowAgent": "desim.agents.batch.split_window",
    "WindowRule": "desim.agents.batch.window_rules",
}


def __getattr__(name: str) -> Any:
    """Import a module with optional dependencies when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
