"""Sweeps: many runs, on this machine or on a cluster, each simulated once and stored at once.

``desim compare``, the experiments and your own studies use this package. :func:`perform_tasks` is the layer below:
tasks of any kind, without a store.
"""

from __future__ import annotations

from desim.sweep.files import StorageError
from desim.sweep.runner import Outcomes, Perform, Run, SweepFailed, SweepInterrupted, perform_all, settings_of
from desim.sweep.store import Kept, Store, SweepStatus
from desim.sweep.workers import Backend, Failed, Finished, WorkerDied, Workers, perform_tasks

__all__ = [
    "Backend",
    "Failed",
    "Finished",
    "Kept",
    "Outcomes",
    "Perform",
    "Run",
    "StorageError",
    "Store",
    "SweepFailed",
    "SweepInterrupted",
    "SweepStatus",
    "WorkerDied",
    "Workers",
    "perform_all",
    "perform_tasks",
    "settings_of",
]
