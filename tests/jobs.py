"""Jobs with several sizes, and jobs with further fields given by job id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from desim.problems.batch import Job, Size

__all__ = ["of_sizes", "with_fields"]


def of_sizes(jobs: Iterable[Job]) -> Job:
    """Return the first job, with the others as its further sizes."""
    first, *others = jobs
    sizes = [Size(job.requested_cores, job.requested_time, job.run_time, job.request, job.run_times) for job in others]
    return first._replace(sizes=tuple(sizes))


def with_fields(jobs: Iterable[Job], **fields: Mapping[int, Any]) -> list[Job]:
    """Return jobs with further fields, each given as a mapping from job id to value."""
    return [
        job._replace(**{name: values[job.job_id] for name, values in fields.items() if job.job_id in values})
        for job in jobs
    ]
