"""The jobs of cluster-trace-v2018 as graphs of tasks, from ``batch_task``.

The name of a task encodes what it needs: a letter prefix that means nothing, the task's number, then the numbers of the
tasks it needs. ``M1`` needs none, ``J4_2_3_1`` needs 2, 3 and 1. A task with another name, such as ``task_Nzg3ODAw``,
needs none, and none needs it. What follows these rules less than perfectly is repaired or dropped, and counted in a
`DagReport`; what its reasons mean stands in `DagReason`.

The work of a task is its duration times a reference speed, with ``work="instances"`` also times its number of
instances, as if each of these had run for as long as the task. The trace tells nothing of the data that tasks exchange:
all edges have size 0. A job is submitted when the first of its tasks began, since the trace does not tell how long it
had waited. Its label is its name in the trace.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Literal, get_args

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads._columns import LARGEST
from desim.workloads._files import Pathish
from desim.workloads._named_streams import number
from desim.workloads.alibaba._dag_tasks import DagRules, Row, Work, make_job
from desim.workloads.alibaba.dag_report import DagReport
from desim.workloads.alibaba.reading import stream

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DagStream", "jobs"]

Incomplete = Literal["keep", "drop"]

_TEXTS = ("job_name", "task_name", "status")
_COLUMNS = ("job_name", "task_name", "instance_num", "status", "start_time", "end_time")


class DagStream:
    """The jobs of a trace one after the other; every iteration reads anew.

    Made by `jobs`, which documents the parameters.

    Parameters
    ----------
    source : str, path-like or polars.DataFrame
        The table.
    rules : DagRules
        Which tasks and jobs to keep.
    contiguous : bool
        Whether to rely on rows of a job being next to each other.
    max_rows : int or None
        Rows of a file to look at.

    Attributes
    ----------
    report : DagReport
        The books of the latest iteration, complete when it has ended.
    """

    def __init__(
        self, source: Pathish | pl.DataFrame, rules: DagRules, *, contiguous: bool, max_rows: int | None
    ) -> None:
        self.rules = rules
        self.report = DagReport()
        self._contiguous = contiguous
        if isinstance(source, str | os.PathLike):
            self._name = str(os.fspath(source))
            self._frames: Iterable[pl.DataFrame] = stream(source, "batch_task", max_rows=max_rows)
        else:
            self._name = "the data frame"
            self._frames = [_checked(source if max_rows is None else source.head(max_rows))]

    def __iter__(self) -> Iterator[Job]:
        """Read the table from its start."""
        self.report = report = DagReport()
        for rows in self._contiguous_rows() if self._contiguous else self._sorted_rows():
            try:
                job = make_job(rows, self.rules, report, report.jobs)
            except WorkloadError as error:
                raise WorkloadError(f"{self._name}: {error}") from error
            if job is not None:
                yield job
        if not report.jobs:
            found = report.summary()
            raise WorkloadError(f"{self._name}: holds no usable job{f' ({found})' if found else ''}")

    def _sorted_rows(self) -> Iterator[list[Row]]:
        """Yield the rows of each job, in the order of their submission, jobs of the same time as in the file."""
        import polars as pl

        frame = pl.concat([frame.select(_COLUMNS) for frame in self._frames], rechunk=True).with_row_index("place")
        start, end = pl.col("start_time"), pl.col("end_time")
        known = start.is_between(0, LARGEST, closed="right") & end.is_between(0, LARGEST, closed="right")
        known &= end >= start
        if self.rules.statuses is not None:
            known &= pl.col("status").is_in(sorted(self.rules.statuses))
        frame = frame.with_columns(
            submitted=pl.when(known).then(start).min().over("job_name"), first=pl.col("place").min().over("job_name")
        ).sort("submitted", "first", "place", nulls_last=True)
        rows = map(Row._make, frame.select(_COLUMNS).iter_rows())
        for _, group in groupby(rows, key=_job_of):
            yield list(group)

    def _contiguous_rows(self) -> Iterator[list[Row]]:
        """Yield the rows of each job, in the order of the file."""
        seen: set[str] = set()
        rows = (Row._make(row) for frame in self._frames for row in frame.select(_COLUMNS).iter_rows())
        place = 1
        for job, group in groupby(rows, key=_job_of):
            if job in seen:
                raise WorkloadError(
                    f"{self._name}: row {place}: job {job!r} has rows that are not next to each other; "
                    "contiguous=False accepts it"
                )
            seen.add(job)
            found = list(group)
            place += len(found)
            yield found


def jobs(
    source: Pathish | pl.DataFrame,
    *,
    work: Work = "task_duration",
    reference_speed: float = 1.0,
    statuses: Iterable[str] | None = ("Terminated",),
    incomplete: Incomplete = "keep",
    allow_disconnected: bool = True,
    contiguous: bool = False,
    max_rows: int | None = None,
) -> DagStream:
    """Open a table whose jobs are made while they are used.

    Parameters
    ----------
    source : str, path-like or polars.DataFrame
        The file ``batch_task.csv``, see `desim.workloads.alibaba.read`, or a table with its columns.
    work : {"task_duration", "instances"}
        The work of a task: its duration, as if it had run whole on one executor, or that times its instances.
    reference_speed : float
        Work per second of a machine of the trace, by which the durations are multiplied.
    statuses : iterable of str, optional
        Tasks with another status are dropped; None keeps all.
    incomplete : {"keep", "drop"}
        What to do with the rest of a job of which a task was dropped or is missing.
    allow_disconnected : bool
        Whether jobs of several parts are kept, or dropped.
    contiguous : bool
        False reads the whole table and gives jobs in the order of their submission. True relies on the rows of a job
        being next to each other, keeps no more than one job and the names of all in memory, and gives jobs in the order
        of the file.
    max_rows : int, optional
        Stop after so many rows; of the last job, tasks may be missing.

    Returns
    -------
    DagStream
        To iterate over, any number of times; each item is a job, numbered from 0, whose nodes are called as the tasks.
        Instances are its parallel tasks.

    Raises
    ------
    WorkloadError
        At once, if the file cannot be opened or the data frame lacks a column; while iterating, for a row that does not
        fit the table, with `contiguous` for rows of a job that are apart, and at the end if there was no usable job.
    InvalidConfiguration
        If an option is out of range.
    """
    speed = number("reference_speed", reference_speed, above=True)
    for name, value, wanted in (("work", work, get_args(Work)), ("incomplete", incomplete, get_args(Incomplete))):
        if value not in wanted:
            raise InvalidConfiguration(f"{name} is {value!r}, want one of {wanted}")
    if isinstance(statuses, str):
        raise InvalidConfiguration(f"statuses is {statuses!r}, want several strings, or None")
    kept = None if statuses is None else frozenset(statuses)
    rules = DagRules(work, speed, kept, incomplete == "drop", allow_disconnected)
    return DagStream(source, rules, contiguous=contiguous, max_rows=max_rows)


def _job_of(row: Row) -> str:
    return row.job


def _checked(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a data frame if it has what is needed."""
    for column in _COLUMNS:
        if column not in frame.columns:
            raise WorkloadError(f"the data frame has no column {column!r}")
        kind = frame.schema[column]
        if column in _TEXTS:
            wrong, wanted = kind.to_python() is not str, "strings"
        elif column == "instance_num":
            wrong, wanted = not kind.is_integer(), "whole numbers"
        else:
            wrong, wanted = not kind.is_numeric(), "numbers"
        if wrong and kind.to_python() is not type(None):
            raise WorkloadError(f"the data frame's column {column!r} holds {kind}, want {wanted}")
        if column in _TEXTS[:2] and frame[column].null_count():
            row = int(frame[column].is_null().arg_true()[0])
            raise WorkloadError(f"the data frame's column {column!r} is null in row {row}")
    return frame
