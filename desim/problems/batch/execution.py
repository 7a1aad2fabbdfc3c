"""A running job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from desim._clock import Phase

if TYPE_CHECKING:
    from desim.problems.batch.cluster import BatchCluster
    from desim.problems.batch.entities import Job

__all__ = ["Execution"]


class Execution(simpy.Event):
    """One execution of a job, and at once the SimPy event that is its end.

    Parameters
    ----------
    cluster : BatchCluster
        Where the job runs, from now on.
    job : Job
        The job.
    duration : float
        How long it will run unless an outage cuts it, in seconds.
    cores : int
        The cores it holds, as a bit set.

    Attributes
    ----------
    starting_time : float
        When the job started, in seconds.
    """

    _ok = True
    _value = None

    def __init__(self, cluster: BatchCluster, job: Job, duration: float, cores: int) -> None:
        self.env = env = cluster.env
        self.callbacks = [cluster._on_completion]
        self.job = job
        self.duration = duration
        self.cores = cores
        self.starting_time = env.now
        env.schedule(self, Phase.COMPLETION, duration)

    @property
    def expected_end(self) -> float:
        """End by the requested time, in seconds."""
        return self.starting_time + self.job.requested_time

    def expect(self, now: float) -> float:
        """Let the job take as long as it requests, or until now if it has taken longer, and return its end in seconds.

        Parameters
        ----------
        now : float
            Seconds.

        Returns
        -------
        float
            When it ends, not before now.
        """
        end = max(self.expected_end, now)
        overdue = end > self.expected_end
        self.duration = end - self.starting_time if overdue else self.job.requested_time
        self.job = self.job._replace(run_time=self.duration)
        return end
