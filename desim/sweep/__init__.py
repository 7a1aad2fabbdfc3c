"""Sweeps: many runs, here or on a cluster, each performed once, and stored at once.

``desim compare``, the experiments and studies of your own use this. :func:`perform_tasks` is what lies below: tasks of
any kind, without a store.
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
