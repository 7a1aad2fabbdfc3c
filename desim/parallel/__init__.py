"""Many independent tasks in parallel: in local processes, or on a Ray or Dask cluster.

The command line and the experiments perform their runs with this; it knows nothing of either.
"""

from __future__ import annotations

from desim.parallel.tasks import Backend, Failed, Finished, WorkerDied, Workers, perform_tasks

__all__ = ["Backend", "Failed", "Finished", "WorkerDied", "Workers", "perform_tasks"]
