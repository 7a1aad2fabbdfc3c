"""Jobs as arrays, between the reading of a file and the making of Job objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.job import Job

__all__ = ["LARGEST", "Columns", "Floats", "make_jobs"]

Floats = NDArray[np.float64]

#: Larger numbers are refused: they stand for nothing in a workload, and all whole numbers up to
#: here are exact as floats.
LARGEST = 1e15


@dataclass(frozen=True)
class Columns:
    """Rows of a workload file, one array an attribute, all of the same length.

    Attributes
    ----------
    place : array of int
        Line number, or position in a list.
    job_id, submission_time, cores, requested_time, run_time, user, status, queue, partition : array
        As in the file, -1 where unknown; times in seconds.
    assumed_cores : array of bool
        Whether ``cores`` had to be taken from another field than the request.
    """

    place: NDArray[np.int64]
    job_id: NDArray[np.int64]
    submission_time: Floats
    cores: Floats
    requested_time: Floats
    run_time: Floats
    user: Floats
    status: Floats
    queue: Floats
    partition: Floats
    assumed_cores: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.place)

    def take(self, rows: slice | NDArray[Any]) -> Columns:
        """Return the rows that a slice, mask or index array selects."""
        return Columns(*(getattr(self, item.name)[rows] for item in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[Columns]) -> Columns:
        """Return the rows of all parts, one part behind the other."""
        return cls(*(np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(cls)))

    def jobs(self) -> Iterator[Job]:
        """Return the rows as jobs."""
        return make_jobs(
            self.job_id, self.submission_time, self.cores, self.requested_time, self.run_time, user_id=self.user
        )


def make_jobs(
    job_id: NDArray[np.int64],
    submission_time: Floats,
    cores: NDArray[Any],
    requested_time: Floats,
    run_time: Floats,
    *,
    user_id: NDArray[Any],
) -> Iterator[Job]:
    """Turn arrays of equal length into jobs, at a fraction of the cost of calling ``Job``.

    Parameters
    ----------
    job_id, submission_time, cores, requested_time, run_time, user_id : array
        The fields of the jobs; the first, third and last hold whole numbers.

    Returns
    -------
    iterator of Job
        With plain Python numbers in it.
    """
    rows = zip(
        job_id.tolist(),
        submission_time.tolist(),
        cores.astype(np.int64).tolist(),
        requested_time.tolist(),
        run_time.tolist(),
        user_id.astype(np.int64).tolist(),
        strict=True,
    )
    return map(partial(tuple.__new__, Job), rows)
