"""Agents for the batch cluster: priority orders, back-filling, and those that learn.

The latter, and the rules in their window, are imported when they are first asked for: they need gymnasium and torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agents.batch.backfilling import EASYBackfilling, SimpleBackfilling
from agents.batch.conservative import ConservativeBackfilling
from agents.batch.core_profile import CoreProfile
from agents.batch.orders import PRIORITIES, as_priority
from agents.batch.priorities import F1, F2, F3, F4, FCFS, LCFS, SJF, UNICEP, WFP3, Priority, SmallestFirst
from agents.batch.profile import AvailabilityProfile, Slot
from agents.batch.registry import create, descriptions
from agents.batch.rollout import RolloutAgent

if TYPE_CHECKING:
    from agents.batch.inspector import Inspector
    from agents.batch.split_window import SplitWindowAgent
    from agents.batch.window_rules import WindowRule

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
    "AvailabilityProfile",
    "ConservativeBackfilling",
    "CoreProfile",
    "EASYBackfilling",
    "Inspector",
    "Priority",
    "RolloutAgent",
    "SimpleBackfilling",
    "Slot",
    "SmallestFirst",
    "SplitWindowAgent",
    "WindowRule",
    "as_priority",
    "create",
    "descriptions",
]

_LATER = {
    "Inspector": "agents.batch.inspector",
    "SplitWindowAgent": "agents.batch.split_window",
    "WindowRule": "agents.batch.window_rules",
}


def __getattr__(name: str) -> Any:
    """Import what is not needed by most."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
