"""Jobs as rows of one array: what agents and records are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.job import Job

__all__ = ["JobSet"]

Floats = NDArray[np.float64]

#: Columns of the array; one for each resource follows.
JOB_ID, SUBMISSION, EARLIEST, LATEST, DURATION, EVICTIONS, START, REQUESTS = range(8)


class JobSet:
    """A view of jobs, each property an array with an entry a job; not to be changed.

    Parameters
    ----------
    rows : numpy.ndarray of shape (num_jobs, 7 + num_resources)
        One job a row.

    Attributes
    ----------
    rows : numpy.ndarray
        As given.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Job]:
        """Yield the jobs as they were submitted."""
        return map(job_of, self.rows)

    @property
    def job_id(self) -> NDArray[np.int64]:
        """Identifiers."""
        return self.rows[:, JOB_ID].astype(np.int64)

    @property
    def submission_time(self) -> Floats:
        """When they became known, in slots."""
        return self.rows[:, SUBMISSION]

    @property
    def earliest_start(self) -> Floats:
        """First slot of their windows."""
        return self.rows[:, EARLIEST]

    @property
    def latest_start(self) -> Floats:
        """Last slot of their windows."""
        return self.rows[:, LATEST]

    @property
    def duration(self) -> Floats:
        """Slots that they run."""
        return self.rows[:, DURATION]

    @property
    def evictions(self) -> Floats:
        """How often they have been evicted."""
        return self.rows[:, EVICTIONS]

    @property
    def starting_time(self) -> Floats:
        """Slot in which they were started; NaN for jobs that do not run."""
        return self.rows[:, START]

    @property
    def finish_time(self) -> Floats:
        """Slot at whose beginning they end; NaN for jobs that do not run."""
        return self.rows[:, START] + self.rows[:, DURATION]

    @property
    def cores(self) -> Floats:
        """Cores that they request."""
        return self.rows[:, REQUESTS]

    @property
    def requests(self) -> Floats:
        """All that they request, of shape (num_jobs, num_resources), cores first."""
        return self.rows[:, REQUESTS:]

    @property
    def revenue(self) -> Floats:
        """What they earn if they are started, in core-slots."""
        return self.rows[:, REQUESTS] * self.rows[:, DURATION]


def rows_of(jobs: Iterable[Job], num_resources: int) -> Floats:
    """Return the rows of jobs that have just been submitted."""
    table = [(*job[:5], 0.0, np.nan, job.cores, *job.others) for job in jobs]
    return np.array(table, dtype=np.float64).reshape(len(table), REQUESTS + num_resources)


def job_of(row: Floats) -> Job:
    """Return the job of a row."""
    job_id, submission, earliest, latest, duration, _, _, cores, *others = row.tolist()
    return Job(int(job_id), submission, int(earliest), int(latest), int(duration), cores, tuple(others))
