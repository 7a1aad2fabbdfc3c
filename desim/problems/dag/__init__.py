"""DAG jobs on heterogeneous executors, with data transfers and duplication of nodes."""

from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.execution import ExecutorQueue
from desim.problems.dag.executors import Executors, SharedLinks
from desim.problems.dag.job import Job, Mode, TaskTimes, from_networkx, to_networkx
from desim.problems.dag.observation import Assign, DagObservation
from desim.problems.dag.state import Copy, InputTransfer, JobState
from desim.problems.dag.tasks import TaskCluster, TaskCopy, TaskInputs, TaskState

__all__ = [
    "Assign",
    "Copy",
    "DagCluster",
    "DagObservation",
    "ExecutorQueue",
    "Executors",
    "InputTransfer",
    "Job",
    "JobState",
    "Mode",
    "SharedLinks",
    "TaskCluster",
    "TaskCopy",
    "TaskInputs",
    "TaskState",
    "TaskTimes",
    "from_networkx",
    "to_networkx",
]
