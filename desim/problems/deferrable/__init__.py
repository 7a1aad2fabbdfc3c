"""Deferrable jobs with start windows, under a fluctuating capacity."""

from desim.problems.deferrable.cluster import DeferrableCluster
from desim.problems.deferrable.foresight import Foresight, foresee
from desim.problems.deferrable.job import Job, real_time
from desim.problems.deferrable.job_set import JobSet
from desim.problems.deferrable.observation import DeferrableObservation
from desim.problems.deferrable.outcomes import SlotOutcome
from desim.problems.deferrable.placing import Placing

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
