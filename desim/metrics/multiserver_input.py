"""The columns of a multi-server run's tables that its metrics need, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.metrics.columns import masks, numbers, read_columns

if TYPE_CHECKING:
    import polars as pl

__all__ = ["REWARDS", "MultiServerJobs", "read_jobs"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

REWARDS = ("gain", "overhead", "reward")
"""What jobs and slots earn."""

_STATUSES = ("completed", "unserved", "running", "waiting")
_TIMES = ("submission_time", "starting_time", "finish_time")


class MultiServerJobs(NamedTuple):
    """Columns of a job table of n rows; times in slots, NaN where unknown.

    Attributes
    ----------
    submission, start, finish : array of float, shape (n,)
        When the job was submitted, started and ended.
    gain, overhead, reward : array of float, shape (n,)
        What it earns in its slot, or a slot if it holds its resources.
    status : mapping of str to array of bool, shape (n,)
        For each status which jobs have it.
    """

    submission: Floats
    start: Floats
    finish: Floats
    gain: Floats
    overhead: Floats
    reward: Floats
    status: Mapping[str, Mask]

    def ends(self, end_time: float) -> Floats:
        """Return when each job ended, or the run did; NaN for those that have not started."""
        return np.where(self.status["running"], end_time, self.finish)

    @property
    def started(self) -> Mask:
        """Which jobs were given resources."""
        return self.status["completed"] | self.status["running"]

    def work_done(self, end_time: float, times: Floats) -> Floats:
        """Return the integral of the speeds of the running jobs up to each of some times, for jobs that hold."""
        rows = self.started
        events = np.concatenate(([0.0], self.start[rows], self.ends(end_time)[rows]))
        changes = np.concatenate(([0.0], self.reward[rows], -self.reward[rows]))
        order = np.argsort(events, kind="stable")
        events, speeds = events[order], np.cumsum(changes[order])
        done = np.concatenate(([0.0], np.cumsum(speeds[:-1] * np.diff(events))))
        return np.interp(times, events, done)


def read_jobs(jobs: pl.DataFrame | pl.LazyFrame) -> MultiServerJobs:
    """Read the columns of a job table that metrics need, and no others.

    Parameters
    ----------
    jobs : polars.DataFrame or polars.LazyFrame
        The job table.

    Returns
    -------
    MultiServerJobs
        Its columns, in the order of the rows.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    frame = read_columns("jobs", jobs, (*_TIMES, *REWARDS, "status"))
    submission, start, finish, gain, overhead, reward = (numbers(frame[name]) for name in (*_TIMES, *REWARDS))
    return MultiServerJobs(submission, start, finish, gain, overhead, reward, masks(frame["status"], _STATUSES))
