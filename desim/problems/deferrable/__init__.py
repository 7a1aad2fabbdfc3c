"""Deferrable jobs with start windows, under a fluctuating capacity."""

from desim.problems.deferrable.cluster import DeferrableCluster, Foresight, SlotOutcome, foresee
from desim.problems.deferrable.job import Job, JobSet, real_time
from desim.problems.deferrable.observation import DeferrableObservation, Placing

__all__ = [
    "DeferrableCluster",
    "DeferrableObservation",
    "Foresight",
    "Job",
    "JobSet",
    "Placing",
    "SlotOutcome",
    "foresee",
    "real_time",
]
