"""Agents for the batch cluster: priority orders and back-filling."""

from agents.batch.backfilling import EASYBackfilling, SimpleBackfilling
from agents.batch.conservative import ConservativeBackfilling
from agents.batch.core_profile import CoreProfile
from agents.batch.orders import PRIORITIES, as_priority
from agents.batch.priorities import F1, F2, F3, F4, FCFS, LCFS, SJF, UNICEP, WFP3, Priority, SmallestFirst
from agents.batch.profile import AvailabilityProfile, Slot
from agents.batch.registry import create, descriptions

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
    "Priority",
    "SimpleBackfilling",
    "Slot",
    "SmallestFirst",
    "as_priority",
    "create",
    "descriptions",
]
