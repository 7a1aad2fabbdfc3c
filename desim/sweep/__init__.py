"""Sweeps: many runs, on this machine or on a cluster, each simulated once and stored at once.

``desim compare``, the experiments and your own studies use this package. :func:`run_tasks` is the layer below:
tasks of any kind, without a store.
"""

from __future__ import annotations

from desim.files import StorageError
from desim.sweep.runner import Outcomes, Run, RunFunction, SweepFailed, run_all, settings_of
from desim.sweep.store import Store, StoredOutcome, SweepStatus
from desim.sweep.workers import Backend, Failed, Finished, WorkerCrashed, Workers, run_tasks

__all__ = [
    "Backend",
    "Failed",
    "Finished",
    "Outcomes",
    "Run",
    "RunFunction",
    "StorageError",
    "Store",
    "StoredOutcome",
    "SweepFailed",
    "SweepStatus",
    "WorkerCrashed",
    "Workers",
    "run_all",
    "run_tasks",
    "settings_of",
]
