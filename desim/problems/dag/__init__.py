"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes."""

from desim.problems.dag.actions import Assign, AssignTasks
from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.copies import Copy, Delivery
from desim.problems.dag.executors import Executors
from desim.problems.dag.interchange import from_networkx, to_networkx
from desim.problems.dag.job import Job
from desim.problems.dag.job_state import JobState
from desim.problems.dag.links import SharedLinks
from desim.problems.dag.observation import DagObservation
from desim.problems.dag.task_cluster import TaskCluster
from desim.problems.dag.task_state import TaskState
from desim.problems.dag.task_times import TaskTimes
from desim.problems.dag.tasks import Shares, TaskCopy
from desim.problems.dag.timetable import Timetable

__all__ = [
    "Assign",
    "AssignTasks",
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
