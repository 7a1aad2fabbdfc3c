"""Why an action cannot be carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.problems.batch.cores import to_core_ids
from desim.problems.batch.entities import Start, WaitUntil

if TYPE_CHECKING:
    from desim.problems.batch.cycling import CyclingCluster

__all__ = ["explain"]


def explain(cluster: CyclingCluster, action: Any) -> str:
    """Return the reason why a cluster refuses an action, as a sentence that names the job.

    Parameters
    ----------
    cluster : CyclingCluster
        The bound cluster.
    action : object
        What the agent has answered.

    Returns
    -------
    str
        The reason.
    """
    if isinstance(action, WaitUntil):
        return f"{action!r} does not lie in the future"
    job_id = action.job_id if isinstance(action, Start) else action
    try:
        job = cluster._queued.get(job_id)
        running = job_id in cluster._running
    except TypeError:
        job, running = None, False
    if running:
        return f"job {job_id} cannot start, it is running already"
    if job is None:
        return f"{action!r} names no queued job; answer with the id of one, or None to wait"
    if job.requested_cores > cluster._num_free:
        return f"job {job_id} cannot start, it requests {job.requested_cores} cores and {cluster._num_free} are free"
    cores = action.cores
    chosen = f"cores {to_core_ids(cores).tolist()}" if isinstance(cores, int) and cores >= 0 else f"{cores!r}"
    return f"job {job_id} cannot start on {chosen}: want a bit set of {job.requested_cores} cores that are free"
