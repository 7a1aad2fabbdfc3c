"""Deferrable jobs with start windows, under a fluctuating capacity."""

from desim.problems.deferrable.cluster import ClairvoyantView, DeferrableCluster, SlotOutcome, clairvoyant_view
from desim.problems.deferrable.job import Job, JobSet, real_time
from desim.problems.deferrable.observation import DeferrableObservation, EarliestFitPlan

__all__ = [
    "ClairvoyantView",
    "DeferrableCluster",
    "DeferrableObservation",
    "EarliestFitPlan",
    "Job",
    "JobSet",
    "SlotOutcome",
    "clairvoyant_view",
    "real_time",
]
