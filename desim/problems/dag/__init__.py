"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes."""

from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.execution import Timetable
from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.job import Job, TaskTimes, from_networkx, to_networkx
from desim.problems.dag.observation import Assign, DagObservation
from desim.problems.dag.state import Copy, Delivery, JobState
from desim.problems.dag.tasks import Shares, TaskCluster, TaskCopy, TaskState

__all__ = [
    "Assign",
    "Copy",
    "DagCluster",
    "DagObservation",
    "Delivery",
    "Executors",
    "Job",
    "JobState",
    "SharedLinks",
    "Shares",
    "TaskCluster",
    "TaskCopy",
    "TaskState",
    "TaskTimes",
    "Timetable",
    "from_networkx",
    "to_networkx",
]
