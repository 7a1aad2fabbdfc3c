"""The batch cluster: rigid jobs, a queue, identical cores, schedule cycling."""

from desim.problems.batch.cluster import BatchCluster
from desim.problems.batch.cores import core_set, lowest_cores, parse_core_sets, to_core_ids
from desim.problems.batch.job import Job, Start, WaitFor, WaitUntil, check_job
from desim.problems.batch.observation import BatchObservation, Execution, Queue, Running

__all__ = [
    "BatchCluster",
    "BatchObservation",
    "Execution",
    "Job",
    "Queue",
    "Running",
    "Start",
    "WaitFor",
    "WaitUntil",
    "check_job",
    "core_set",
    "lowest_cores",
    "parse_core_sets",
    "to_core_ids",
]
