"""The batch cluster: rigid jobs, a queue, identical cores or nodes with resources, schedule cycling."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.compiled import CompiledRule
from desim.problems.batch.cores import core_set, lowest_cores, parse_core_sets, to_core_ids
from desim.problems.batch.execution import Execution
from desim.problems.batch.fragmentation import Fragmentation, FragmentationGradient, typical_requests
from desim.problems.batch.job import (
    Dependency,
    Job,
    Size,
    Start,
    StartPreempting,
    StartWithSize,
    WaitForCores,
    WaitUntil,
    check_job,
)
from desim.problems.batch.nodes import CompiledRequest, Node, NodeAllocation, NodeTable
from desim.problems.batch.observation import BatchObservation, Queue, Running
from desim.problems.batch.parts.base import Part
from desim.problems.batch.placement import PLACEMENTS, PlacementPolicy
from desim.problems.batch.request import GPU, Request
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.nodes import NodeView
from desim.problems.batch.resources.profile import AvailabilityProfile, CoreProfile, Reservation
from desim.problems.batch.resources.protocols import Plan, Profile, Slot
from desim.problems.batch.workload import Workload

if TYPE_CHECKING:
    from desim.problems.batch.parts.limits import Limit
    from desim.problems.batch.parts.preemption import AnnouncedPreemption, QualityOfService
    from desim.problems.batch.parts.reservations import AdvanceReservation
    from desim.problems.batch.parts.usage import Usage

__all__ = [
    "GPU",
    "PLACEMENTS",
    "AdvanceReservation",
    "AnnouncedPreemption",
    "AvailabilityProfile",
    "BatchCluster",
    "BatchObservation",
    "CompiledRequest",
    "CompiledRule",
    "CoreProfile",
    "Dependency",
    "Execution",
    "Fragmentation",
    "FragmentationGradient",
    "Job",
    "Limit",
    "Node",
    "NodeAllocation",
    "NodeAvailability",
    "NodeTable",
    "NodeView",
    "Part",
    "PlacementPolicy",
    "Plan",
    "Profile",
    "QualityOfService",
    "Queue",
    "Request",
    "Reservation",
    "Running",
    "Size",
    "Slot",
    "Start",
    "StartOnNodes",
    "StartPreempting",
    "StartWithSize",
    "Usage",
    "WaitForCores",
    "WaitUntil",
    "Workload",
    "check_job",
    "core_set",
    "lowest_cores",
    "parse_core_sets",
    "to_core_ids",
    "typical_requests",
]


_MODULES = {
    "AnnouncedPreemption": "preemption",
    "AdvanceReservation": "reservations",
    "Limit": "limits",
    "QualityOfService": "preemption",
    "Usage": "usage",
}
"""Modules of the classes that are imported on first use, because clusters without them do not need them."""


def __getattr__(name: str) -> Any:
    """Return a class of a part, or raise AttributeError, which says what to write instead of former classes."""
    if name in _MODULES:
        return getattr(import_module(f"desim.problems.batch.parts.{_MODULES[name]}"), name)
    now = {
        "NodeJob": "Job.of_tasks(...), or job.requesting(request)",
        "MoldableJob": "Job(..., sizes=(Size(...), ...))",
    }
    what = f"; write {now[name]}" if name in now else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{what}")
