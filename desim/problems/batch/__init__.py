"""The batch cluster: rigid jobs, a queue, identical cores or nodes with resources, schedule cycling."""

from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.cores import core_set, lowest_cores, parse_core_sets, to_core_ids
from desim.problems.batch.dependencies import After
from desim.problems.batch.fragmentation import Fragmentation, FragmentationGradient, typical_requests
from desim.problems.batch.job import Job, Start, WaitFor, WaitUntil, check_job
from desim.problems.batch.limits import Limit
from desim.problems.batch.moldable import MoldableJob, StartAs
from desim.problems.batch.node_cluster import NodeCluster
from desim.problems.batch.nodes import GPU, Held, Node, NodeJob, NodeTable, Request, Shape
from desim.problems.batch.observation import BatchObservation, Execution, Queue, Running
from desim.problems.batch.placement import PLACEMENTS, PlacementPolicy
from desim.problems.batch.preemption import Preempt, QualityOfService
from desim.problems.batch.room import NodeObservation, Place, Room
from desim.problems.batch.usage import Usage
from desim.problems.batch.windows import Window

__all__ = [
    "GPU",
    "PLACEMENTS",
    "After",
    "BatchCluster",
    "BatchObservation",
    "Execution",
    "Fragmentation",
    "FragmentationGradient",
    "Held",
    "Job",
    "Limit",
    "MoldableJob",
    "Node",
    "NodeCluster",
    "NodeJob",
    "NodeObservation",
    "NodeTable",
    "Place",
    "PlacementPolicy",
    "Preempt",
    "QualityOfService",
    "Queue",
    "Request",
    "Room",
    "Running",
    "Shape",
    "Start",
    "StartAs",
    "Usage",
    "WaitFor",
    "WaitUntil",
    "Window",
    "check_job",
    "core_set",
    "lowest_cores",
    "parse_core_sets",
    "to_core_ids",
    "typical_requests",
]
