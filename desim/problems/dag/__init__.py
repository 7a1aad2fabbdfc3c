"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes."""

from desim.problems.dag.actions import Assign
from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.copies import Copy, Delivery
from desim.problems.dag.executors import Executors
from desim.problems.dag.interchange import from_networkx, to_networkx
from desim.problems.dag.job import Job
from desim.problems.dag.job_state import JobState
from desim.problems.dag.observation import DagObservation
from desim.problems.dag.timetable import Timetable

__all__ = [
    "Assign",
    "Copy",
    "DagCluster",
    "DagObservation",
    "Delivery",
    "Executors",
    "Job",
    "JobState",
    "Timetable",
    "from_networkx",
    "to_networkx",
]
