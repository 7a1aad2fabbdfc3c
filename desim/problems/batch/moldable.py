"""Moldable jobs, which can run in several sizes; the agent chooses one when it starts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job, check_job

__all__ = ["MoldableJob", "StartWithSize"]


class MoldableJob(Job):
    """Job with several sizes; its own fields are those of the first, the default size.

    Agents that do not support sizes see it as a rigid :class:`Job` of its first size. :class:`StartWithSize` starts it
    in a chosen size. It keeps that size, even if an outage returns it to the queue, and records contain that size only.

    Attributes
    ----------
    sizes : tuple of Job
        Sizes, as jobs that differ only in cores, requests and times.
    """

    sizes: tuple[Job, ...]

    @classmethod
    def of(cls, sizes: Iterable[Job]) -> Self:
        """Return the moldable job with the given sizes.

        Parameters
        ----------
        sizes : iterable of Job
            Sizes, at least one: rigid jobs with the same id, submission time and user.

        Returns
        -------
        MoldableJob
            New job.

        Raises
        ------
        WorkloadError
            If there are no sizes, or they do not belong to the same job.
        """
        sizes = tuple(sizes)
        if not sizes:
            raise WorkloadError("sizes: got none, expected at least one")
        for size in sizes:
            if isinstance(size, MoldableJob) or not isinstance(size, Job):
                raise WorkloadError(f"job {sizes[0].job_id}: sizes: got {size!r}, expected a rigid Job")
            check_job(size)
            if _identity(size) != _identity(sizes[0]):
                raise WorkloadError(
                    f"job {sizes[0].job_id}: sizes: got {size!r}, expected the same id, submission time and user in all"
                )
        job = cls(*sizes[0])
        job.sizes = sizes
        return job

    @property
    def request(self) -> Any:
        """Request of the first size for nodes; None if it requests cores only."""
        return getattr(self.sizes[0], "request", None)

    @property
    def run_times(self) -> Mapping[str, float]:
        """Run times of the first size, in seconds, by GPU model."""
        return getattr(self.sizes[0], "run_times", {})

    def known(self) -> Self:
        """Return the job as agents know it, with the requested time of each size as its run time."""
        return self.of(size.known() for size in self.sizes)

    def _replace(self, **values: Any) -> Self:
        """Return a copy with the given values in all sizes."""
        return self.of(size._replace(**values) for size in self.sizes)

    def __eq__(self, other: object) -> bool:
        """Return whether two jobs are equal and have the same sizes."""
        return tuple.__eq__(self, other) and getattr(other, "sizes", None) == self.sizes

    def __ne__(self, other: object) -> bool:
        """Return whether two jobs differ; defined because tuples have their own comparison."""
        return not self == other

    __hash__ = Job.__hash__


class StartWithSize(NamedTuple):
    """Action that starts a queued moldable job in a chosen size, on cores or nodes that the cluster chooses.

    Attributes
    ----------
    job_id : int
        Id of the queued job.
    size : int
        Index of the size, from 0.
    """

    job_id: int
    size: int


def _identity(job: Job) -> tuple[int, float, int]:
    return job.job_id, job.submission_time, job.user_id
