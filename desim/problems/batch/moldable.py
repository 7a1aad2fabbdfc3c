"""Moldable jobs: those that can run in several sizes, one of which an agent chooses when it starts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job, check_job

__all__ = ["MoldableJob", "StartWithSize"]


class MoldableJob(Job):
    """A job in several sizes; its own fields are those of the first, in which it runs if nobody chooses.

    Who does not know of sizes takes it for the rigid :class:`Job` of its first size. What an answer
    :class:`StartWithSize` starts is the job of the chosen size, and it keeps that size, also if an outage sends it back
    to the queue; records tell of that size alone.

    Attributes
    ----------
    sizes : tuple of Job
        The sizes, as jobs that differ in cores, requests, and times only.
    """

    sizes: tuple[Job, ...]

    @classmethod
    def of(cls, sizes: Iterable[Job]) -> Self:
        """Return a job.

        Parameters
        ----------
        sizes : iterable of Job
            At least one: rigid jobs of one id, submission time and user.

        Returns
        -------
        MoldableJob
            A new one.

        Raises
        ------
        WorkloadError
            If there are none, or they are not sizes of one job.
        """
        sizes = tuple(sizes)
        if not sizes:
            raise WorkloadError("a moldable job needs at least one size")
        for size in sizes:
            if isinstance(size, MoldableJob) or not isinstance(size, Job):
                raise WorkloadError(f"a size of job {sizes[0].job_id} is {size!r}, want a rigid Job")
            check_job(size)
            if _identity(size) != _identity(sizes[0]):
                raise WorkloadError(
                    f"{size!r} is no size of job {sizes[0].job_id}: its id, submission time or user differ"
                )
        job = cls(*sizes[0])
        job.sizes = sizes
        return job

    @property
    def request(self) -> Any:
        """What the first size requests of nodes; None if that is cores alone."""
        return getattr(self.sizes[0], "request", None)

    @property
    def run_times(self) -> Mapping[str, float]:
        """How long the first size runs on nodes with GPUs of a model."""
        return getattr(self.sizes[0], "run_times", {})

    def known(self) -> Self:
        """Return the job as agents know it: in each size it runs for as long as it requests."""
        return self.of(size.known() for size in self.sizes)

    def _replace(self, **values: Any) -> Self:
        """Return a job with other values in all sizes."""
        return self.of(size._replace(**values) for size in self.sizes)

    def __eq__(self, other: object) -> bool:
        """Tell whether two jobs have the same sizes."""
        return tuple.__eq__(self, other) and getattr(other, "sizes", None) == self.sizes

    def __ne__(self, other: object) -> bool:
        """Tell whether they do not: tuples have an answer of their own."""
        return not self == other

    __hash__ = Job.__hash__


class StartWithSize(NamedTuple):
    """The action that starts a queued moldable job in one of its sizes, on the cores or nodes that the cluster finds.

    Attributes
    ----------
    job_id : int
        The queued job to start.
    size : int
        Which of its sizes, from 0.
    """

    job_id: int
    size: int


def _identity(job: Job) -> tuple[int, float, int]:
    return job.job_id, job.submission_time, job.user_id
