"""Cores that fail and come back, and what becomes of the jobs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from desim.problems.batch.cores import core_set
from desim.problems.failures import FailureCounts

if TYPE_CHECKING:
    from desim.problems.batch.cluster import BatchCluster
    from desim.problems.batch.execution import Execution

__all__ = ["CoreFailures"]


class CoreFailures:
    """The part of a cluster that takes cores down and brings them back.

    Parameters
    ----------
    cluster : BatchCluster
        The bound cluster whose cores they are.

    Attributes
    ----------
    down : int
        The cores that are down, as a bit set.
    """

    def __init__(self, cluster: BatchCluster) -> None:
        self.down = 0
        self._cluster = cluster
        self._counts = FailureCounts("core", cluster.num_cores)

    def fail(self, units: int) -> None:
        """Take cores down; see :meth:`BatchCluster.fail`."""
        cluster = self._cluster
        fresh = core_set(self._counts.fail(units))
        self.down |= fresh
        hit = [execution for execution in cluster._running.values() if execution.cores & fresh]
        for execution in reversed(hit):  # each goes in front of the jobs that were submitted at the same time
            self._interrupt(execution)
        self._change("down", fresh)
        cluster.emit("outage", units)

    def repair(self, units: int) -> None:
        """Bring cores back; see :meth:`BatchCluster.repair`."""
        fresh = core_set(self._counts.repair(units, self._cluster.env.now))
        self.down &= ~fresh
        self._change("up", fresh)
        self._cluster.emit("repair", units)

    def _change(self, event: str, cores: int) -> None:
        cluster = self._cluster
        cluster._free = cluster._free & ~cores if event == "down" else cluster._free | cores
        cluster._num_free = cluster._free.bit_count()
        if cores:
            up = cluster.num_cores - self.down.bit_count()
            cluster.simulation.records.tables["outages"].append((cluster.env.now, event, cores, up))
            cluster._open_cycle()

    def _interrupt(self, execution: Execution) -> None:
        """End an execution before its time."""
        cluster = self._cluster
        execution.callbacks.clear()
        cluster._leave(execution)
        job, start, now = execution.job, execution.starting_time, cluster.env.now
        attempts = cluster._attempts.pop(job.job_id, 0) + 1
        lost = cluster.on_outage == "lose"
        cluster.simulation.records.tables["interruptions"].append(
            (job.job_id, start, now, execution.cores, "lost" if lost else "requeued")
        )
        if lost:
            cluster._record_job((job, start, now, now - start, execution.cores, "lost", attempts))
        else:
            cluster._attempts[job.job_id] = attempts
            position = int(cluster._queue.submission_time.searchsorted(job.submission_time, "left"))
            cluster._enqueue(job, position)
        cluster.emit("interruption", execution)
        cluster._stop_if_done()
