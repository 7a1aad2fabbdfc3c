"""The batch cluster: rigid jobs, a queue, identical cores or nodes with resources, schedule cycling."""

from typing import Any

from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.cores import core_set, lowest_cores, parse_core_sets, to_core_ids
from desim.problems.batch.fragmentation import Fragmentation, FragmentationGradient, typical_requests
from desim.problems.batch.job import (
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
from desim.problems.batch.observation import BatchObservation, Execution, Queue, Running
from desim.problems.batch.parts.dependencies import Dependency
from desim.problems.batch.parts.limits import Limit
from desim.problems.batch.parts.preemption import QualityOfService
from desim.problems.batch.parts.reservations import AdvanceReservation
from desim.problems.batch.parts.usage import Usage
from desim.problems.batch.placement import PLACEMENTS, PlacementPolicy
from desim.problems.batch.request import GPU, Request
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.nodes import NodeView
from desim.problems.batch.resources.profile import AvailabilityProfile, CoreProfile, Reservation
from desim.problems.batch.resources.protocols import Plan, Profile, Slot

__all__ = [
    "GPU",
    "PLACEMENTS",
    "AdvanceReservation",
    "AvailabilityProfile",
    "BatchCluster",
    "BatchObservation",
    "CompiledRequest",
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
    "check_job",
    "core_set",
    "lowest_cores",
    "parse_core_sets",
    "to_core_ids",
    "typical_requests",
]


def __getattr__(name: str) -> Any:
    """Raise AttributeError, for the classes of jobs that are now one with a sentence that says what to write."""
    now = {
        "NodeJob": "Job.of_tasks(...), or job.requesting(request)",
        "MoldableJob": "Job(..., sizes=(Size(...), ...))",
    }
    what = f"; write {now[name]}" if name in now else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{what}")
