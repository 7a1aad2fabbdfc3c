"""Deferrable jobs with start windows, under a fluctuating capacity."""

from desim.problems.deferrable.cluster import DeferrableCluster, ClairvoyantView, SlotOutcome, clairvoyant_view
from desim.problems.deferrable.job import Job, JobSet, real_time
from desim.problems.deferrable.observation import DeferrableObservation, EarliestFitPlan

__all__ = [
    "DeferrableCluster",
    "DeferrableObservation",
    "ClairvoyantView",
    "Job",
    "JobSet",
    "EarliestFitPlan",
    "SlotOutcome",
    "clairvoyant_view",
    "real_time",
]
