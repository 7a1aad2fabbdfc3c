"""The batch cluster: rigid jobs, a queue, identical cores or nodes with resources, schedule cycling."""

from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.cores import core_set, lowest_cores, parse_core_sets, to_core_ids
from desim.problems.batch.dependencies import Dependency
from desim.problems.batch.fragmentation import Fragmentation, FragmentationGradient, typical_requests
from desim.problems.batch.job import Job, Start, WaitForCores, WaitUntil, check_job
from desim.problems.batch.limits import Limit
from desim.problems.batch.moldable import MoldableJob, StartWithSize
from desim.problems.batch.nodes import GPU, CompiledRequest, Node, NodeAllocation, NodeJob, NodeTable, Request
from desim.problems.batch.observation import BatchObservation, Execution, Queue, Running
from desim.problems.batch.placement import PLACEMENTS, PlacementPolicy
from desim.problems.batch.preemption import QualityOfService, StartPreempting
from desim.problems.batch.reservations import AdvanceReservation
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.nodes import NodeView
from desim.problems.batch.resources.profile import AvailabilityProfile, CoreProfile, Reservation
from desim.problems.batch.resources.protocols import Plan, Profile, Slot
from desim.problems.batch.usage import Usage

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
    "MoldableJob",
    "Node",
    "NodeAllocation",
    "NodeAvailability",
    "NodeJob",
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
