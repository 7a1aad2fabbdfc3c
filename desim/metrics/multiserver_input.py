"""The columns of a multi-server run's tables that its metrics need, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["REWARDS", "MultiServerJobs", "description", "numbers", "read_columns", "read_jobs"]

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


def description(result: Result) -> Mapping[str, Any]:
    """Return the description of a multi-server run.

    Parameters
    ----------
    result : Result
        The run.

    Returns
    -------
    mapping
        Its configuration and how it ended.

    Raises
    ------
    InvalidConfiguration
        If it is a run of another problem.
    """
    if result.info.get("problem") != "multiserver":
        raise InvalidConfiguration(f"the result is of problem {result.info.get('problem')!r}, want 'multiserver'")
    return result.info


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
    status = {name: (frame["status"] == name).to_numpy() for name in _STATUSES}
    return MultiServerJobs(submission, start, finish, gain, overhead, reward, status)


def read_columns(name: str, table: pl.DataFrame | pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Read columns of a table, and no others.

    Parameters
    ----------
    name : str
        What the table is called in an error.
    table : polars.DataFrame or polars.LazyFrame
        The table.
    columns : sequence of str
        Names.

    Returns
    -------
    polars.DataFrame
        The columns.

    Raises
    ------
    InvalidConfiguration
        If a column is missing.
    """
    lazy = table.lazy()
    missing = set(columns) - set(lazy.collect_schema().names())
    if missing:
        raise InvalidConfiguration(f"the table {name} lacks the columns {', '.join(sorted(missing))}")
    return lazy.select(columns).collect()


def numbers(column: pl.Series) -> Floats:
    """Return a column as an array.

    Parameters
    ----------
    column : polars.Series
        Numbers.

    Returns
    -------
    array of float, shape (n,)
        NaN for null.
    """
    return column.cast(float).to_numpy()
