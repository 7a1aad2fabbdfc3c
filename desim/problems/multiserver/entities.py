"""What enters a multi-server cluster: jobs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Job"]


class Job(NamedTuple):
    """A multi-server job.

    Attributes
    ----------
    job_id : int
        Consecutive, from 0, in order of arrival.
    port : int
        Index of its type.
    submission_time : float
        When it arrived, in slots.
    work : float or None
        What must be done before it ends, in units of reward times slots; None where a job lasts one slot.
    """

    job_id: int
    port: int
    submission_time: float
    work: float | None = None
