"""Select and repair the rows of a workload file that become jobs: the options that all readers share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import repeat
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job, check_job
from desim.problems.batch.workload import Workload
from desim.workloads.batch.trace import Trace, TraceHeader, TraceReason, TraceReport
from desim.workloads.json_fields import LARGEST

__all__ = ["TraceOptions"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SECRET = ("waiting_time", "place", "recorded_nodes")
"""Columns of traces that agents must not see."""
PARTS = (2, 3, 4)
"""Statuses of rows that are parts of a job, that is, partial executions."""
ZeroRunTime = Literal["keep", "drop"]


class TraceOptions(TypedDict, total=False):
    """Keyword arguments of the readers; all are optional.

    Attributes
    ----------
    zero_run_time : {"keep", "drop"}
        Treatment of jobs with run time 0. Default: ``"keep"``.
    max_cores : int or None
        Largest number of cores of a job; wider jobs are dropped. Default: None, no limit.
    statuses, users, queues, partitions : collection of int or None
        Statuses, users, queues or partitions to keep; other rows are dropped. Default: None, all.
    window : (float, float) or None
        Start (inclusive) and end (exclusive) of the submission times to keep, in seconds of
        the file's clock. Default: None, all.
    shift : bool
        Whether to move all submission times so that the first kept job is submitted at time 0. Default: False.
    max_jobs : int or None
        Largest number of jobs to keep, in the order of the file. Default: None, no limit.
    strict : bool
        Whether to refuse a file of which a row must be dropped or changed, except by these options. Default: False.
    """

    zero_run_time: ZeroRunTime
    max_cores: int | None
    statuses: Collection[int] | None
    users: Collection[int] | None
    queues: Collection[int] | None
    partitions: Collection[int] | None
    window: tuple[float, float] | None
    shift: bool
    max_jobs: int | None
    strict: bool


@dataclass(frozen=True)
class Rules:
    """Checked options with their defaults; see `TraceOptions`."""

    zero_run_time: ZeroRunTime = "keep"
    max_cores: int | None = None
    statuses: Collection[int] | None = None
    users: Collection[int] | None = None
    queues: Collection[int] | None = None
    partitions: Collection[int] | None = None
    window: tuple[float, float] | None = None
    shift: bool = False
    max_jobs: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        """Check every option."""
        check_choice("zero_run_time", self.zero_run_time, get_args(ZeroRunTime))
        for name in ("max_cores", "max_jobs"):
            number = getattr(self, name)
            if number is not None and not number >= 1:
                raise InvalidConfiguration(f"{name}: got {number!r}, expected an integer >= 1")
        for name in ("statuses", "users", "queues", "partitions"):
            wanted = getattr(self, name)
            if wanted is not None and not (isinstance(wanted, Collection) and all(map(_is_whole, wanted))):
                raise InvalidConfiguration(
                    f"{name}: got {wanted!r}, expected a collection of integers such as {{1, 2}}"
                )
        if self.window is not None:
            start, end = self.window
            if math.isnan(start) or not start < end:
                raise InvalidConfiguration(f"window: got {self.window!r}, expected a start before its end")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True)
class Columns:
    """Rows of a workload file: one array per attribute, all of equal length.

    Attributes
    ----------
    place : array of int
        Line numbers, or positions in a list.
    job_id : array
        Integers, or texts as objects.
    submission_time, wait, cores, requested_time, run_time, user, status, queue, partition : array
        Values of the file, -1 where unknown; times in seconds. `wait` is the recorded wait, which jobs do not store.
    assumed_cores : array of bool
        Whether ``cores`` was taken from a field other than the request.
    """

    place: NDArray[np.int64]
    job_id: NDArray[Any]
    submission_time: Floats
    wait: Floats
    cores: Floats
    requested_time: Floats
    run_time: Floats
    user: Floats
    status: Floats
    queue: Floats
    partition: Floats
    assumed_cores: Mask

    @classmethod
    def of_list(cls, job_id: NDArray[Any], numbers: Sequence[Floats]) -> Columns:
        """Return the jobs of a list from the columns submission time to user; all other columns are unknown."""
        names = ("submission_time", "cores", "requested_time", "run_time", "user")
        unknown = dict.fromkeys(("wait", "status", "queue", "partition"), np.full(len(job_id), -1.0))
        known = unknown | dict(zip(names, numbers, strict=True))
        count = len(job_id)
        return cls(np.arange(count, dtype=np.int64), job_id, **known, assumed_cores=np.zeros(count, dtype=np.bool_))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.place)

    def take(self, rows: slice | NDArray[Any]) -> Columns:
        """Return the rows selected by a slice, mask or index array."""
        return Columns(*(getattr(self, item.name)[rows] for item in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[Columns]) -> Columns:
        """Return the rows of all parts, in order."""
        return cls(*(np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(cls)))

    def jobs(self) -> Iterator[Job]:
        """Return the rows as jobs."""
        return make_jobs(
            self.job_id,
            self.submission_time,
            self.cores,
            self.requested_time,
            self.run_time,
            user_id=self.user,
            queue=_names(self.queue),
            partition=_names(self.partition),
        )


def _names(numbers: Floats) -> Iterable[str]:
    """Return numbers as text, empty where unknown."""
    different, places = np.unique(numbers.astype(np.int64), return_inverse=True)
    texts = ["" if number < 0 else str(number) for number in different.tolist()]
    return map(texts.__getitem__, places.tolist())


def make_jobs(
    job_id: NDArray[Any],
    submission_time: Floats,
    cores: NDArray[Any],
    requested_time: Floats,
    run_time: Floats,
    *,
    user_id: NDArray[Any],
    queue: Iterable[str] = repeat(""),
    partition: Iterable[str] = repeat(""),
) -> Iterator[Job]:
    """Return jobs of plain Python numbers from arrays of equal length; much faster than calling ``Job`` per row."""
    rows = zip(
        job_id.tolist(),
        submission_time.tolist(),
        cores.astype(np.int64).tolist(),
        requested_time.tolist(),
        run_time.tolist(),
        user_id.astype(np.int64).tolist(),
        *map(repeat, _PLAIN[6:-4]),
        queue,
        partition,
        *map(repeat, _PLAIN[-2:]),
        strict=False,  # what is repeated has no end
    )
    return map(partial(tuple.__new__, Job), rows)


def check_writable(job: Job) -> None:
    """Raise an error unless a job can be written and read again without loss.

    Parameters
    ----------
    job : Job
        Job to check.

    Raises
    ------
    WorkloadError
        If the job is invalid, holds a number that the readers refuse, or has a requested time of 0 (which
        the file formats take as unknown) although its run time is not 0.
    """
    check_job(job)
    if job.requested_time == 0 < job.run_time:
        raise WorkloadError(
            f"job {job.job_id}: requested_time: got 0, expected a number > 0; workload files read 0 as unknown"
        )
    if max(map(abs, job[1:6])) > LARGEST:
        raise WorkloadError(f"job {job.job_id}: got {job[:6]}, expected numbers from -1e15 to 1e15")


_PLAIN = Job(0, 0.0, 1, 0.0, 0.0)
"""Job whose other fields have their default values."""


class _SeenIds:
    """Set of the ids of all rows so far.

    Increasing numbers, which nearly all logs have, are kept as the largest one; only if a smaller one follows, all are
    stored.
    """

    def __init__(self) -> None:
        self._blocks: list[NDArray[Any]] = []
        self._last: Any = None
        self._known: set[Any] | None = None

    def repeated(self, ids: NDArray[Any]) -> Mask:
        """Add ids; return which of them were there before."""
        if self._known is None:
            ascends = ids.dtype.kind == "i" and (ids[1:] > ids[:-1]).all()
            if ascends and (self._last is None or ids[0] > self._last):
                self._last = ids[-1]
                self._blocks.append(ids)
                return np.zeros(len(ids), np.bool_)
            self._known = {one for block in self._blocks for one in block.tolist()}
            self._blocks.clear()
        found = np.zeros(len(ids), np.bool_)
        for at, one in enumerate(ids.tolist()):
            found[at] = one in self._known
            self._known.add(one)
        return found


_ASKED = (TraceReason.ZERO_RUN_TIME_DROPPED, TraceReason.TOO_WIDE, TraceReason.FILTERED)


class Selector:
    """Turn blocks of rows into blocks of jobs, in the order of the file.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    rules : Rules
        Options: which rows to drop and how to repair the others.
    report : TraceReport
        Report that counts the rows.
    is_stream : bool
        Whether a submit time before an earlier one is an error; otherwise it is only counted.
    """

    def __init__(self, source: str, rules: Rules, report: TraceReport, *, is_stream: bool = False) -> None:
        self.source, self.rules, self.report, self.is_stream = source, rules, report, is_stream
        self._ids = _SeenIds()
        self._latest = 0.0

    @property
    def full(self) -> bool:
        """Whether `max_jobs` jobs were kept."""
        return self.rules.max_jobs is not None and self.report.jobs >= self.rules.max_jobs

    def feed(self, rows: Columns) -> Columns:
        """Drop, repair and count the rows of one block.

        Parameters
        ----------
        rows : Columns
            Rows that follow those of the previous calls.

        Returns
        -------
        Columns
            Rows that became jobs, ready for `Columns.jobs`.

        Raises
        ------
        WorkloadError
            If a job of a stream is out of order.
        """
        drops = [(reason, mask) for reason, mask in self._drops(rows) if mask.any()]
        keep = ~np.logical_or.reduce([mask for _, mask in drops]) if drops else np.ones(len(rows), dtype=np.bool_)
        if self.rules.max_jobs is not None:
            kept = np.flatnonzero(keep)
            wanted = self.rules.max_jobs - self.report.jobs
            if len(kept) > wanted:
                rows = rows.take(slice(int(kept[wanted - 1]) + 1))
        keep = keep[: len(rows)]
        undecided = np.ones(len(rows), dtype=np.bool_)
        for reason, mask in drops:
            hit = mask[: len(rows)] & undecided
            self._note(reason, rows, hit)
            undecided &= ~hit
        chosen = rows.take(keep)
        self.report.rows += len(rows)
        self.report.jobs += len(chosen)
        repaired = self._repair(chosen) if len(chosen) else chosen
        if self.rules.strict:
            self.report.refuse_repairs(self.source, _ASKED)
        return repaired

    def finish(self) -> None:
        """Check that at least one row became a job.

        Raises
        ------
        WorkloadError
            If no row became a job.
        """
        if not self.report.jobs:
            why = f"; dropped: {self.report.summary()}" if self.report.rows else ""
            raise WorkloadError(f"{self.source}: no usable job in {self.report.rows} rows{why}")

    def _note(self, reason: TraceReason, rows: Columns, hit: Mask) -> None:
        self.report.add(reason, rows.place[hit].tolist())

    def _drops(self, rows: Columns) -> Iterator[tuple[TraceReason, Mask]]:
        rules = self.rules
        parts = [status for status in PARTS if rules.statuses is None or status not in rules.statuses]
        yield TraceReason.PARTIAL_EXECUTION, np.isin(rows.status, parts)
        yield TraceReason.CANCELLED, (rows.status == 5) & ((rows.run_time <= 0) | (rows.cores < 1))
        yield TraceReason.NEGATIVE_SUBMIT, rows.submission_time < 0
        yield TraceReason.UNKNOWN_CORES, rows.cores < 1
        yield TraceReason.UNKNOWN_RUN_TIME, rows.run_time < 0
        if rules.zero_run_time == "drop":
            yield TraceReason.ZERO_RUN_TIME_DROPPED, rows.run_time == 0
        for values, wanted in (
            (rows.status, rules.statuses),
            (rows.user, rules.users),
            (rows.queue, rules.queues),
            (rows.partition, rules.partitions),
        ):
            if wanted is not None:
                yield TraceReason.FILTERED, ~np.isin(values, list(wanted))
        if rules.window is not None:
            start, end = rules.window
            yield TraceReason.FILTERED, (rows.submission_time < start) | (rows.submission_time >= end)
        if rules.max_cores is not None:
            yield TraceReason.TOO_WIDE, rows.cores > rules.max_cores

    def _repair(self, rows: Columns) -> Columns:
        unknown = rows.requested_time <= 0
        requested = np.where(unknown, rows.run_time, rows.requested_time)
        self._note(TraceReason.ASSUMED_CORES, rows, rows.assumed_cores)
        self._note(TraceReason.ASSUMED_REQUESTED_TIME, rows, unknown)
        self._note(TraceReason.ZERO_RUN_TIME, rows, rows.run_time == 0)
        self._note(TraceReason.OVERRUN, rows, rows.run_time > requested)
        self._check_order(rows)
        self._note(TraceReason.REPEATED_ID, rows, self._ids.repeated(rows.job_id))
        return replace(rows, requested_time=requested)

    def _check_order(self, rows: Columns) -> None:
        latest = np.maximum.accumulate(np.r_[self._latest, rows.submission_time])
        early = rows.submission_time < latest[:-1]
        self._latest = float(latest[-1])
        if self.is_stream and early.any():
            at = int(np.argmax(early))
            raise WorkloadError(
                f"{self.source}: {self.report.locate(rows.place[at])}: submit time {rows.submission_time[at]:.15g}, "
                f"expected at least the {latest[at]:.15g} of an earlier row; a stream cannot sort, try read()"
            )
        self._note(TraceReason.OUT_OF_ORDER, rows, early)


def shifted(blocks: Iterable[Columns], shift: bool) -> Iterator[Columns]:
    """Move the submission times of sorted blocks so that the first job is submitted at time 0.

    Parameters
    ----------
    blocks : iterable of Columns
        Blocks sorted by submission time.
    shift : bool
        Whether to move the times.

    Yields
    ------
    Columns
        Nonempty blocks.
    """
    origin: float | None = None
    for block in blocks:
        if len(block):
            if origin is None:
                origin = float(block.submission_time[0]) if shift else 0.0
            yield replace(block, submission_time=block.submission_time - origin)


def gathered(blocks: Iterable[Columns], header: TraceHeader, report: TraceReport, *, shift: bool) -> Trace:
    """Return a trace of all jobs in order of submission.

    Parameters
    ----------
    blocks : iterable of Columns
        Blocks returned by a `Selector`, with at least one row in all.
    header : TraceHeader
        Header of the file.
    report : TraceReport
        Repair report of the file.
    shift : bool
        Whether to move the first submission to time 0.

    Returns
    -------
    Trace
        Trace sorted by submission time; ties keep the order of the file.
    """
    rows = Columns.concatenate(list(blocks))
    [rows] = shifted([rows.take(np.argsort(rows.submission_time, kind="stable"))], shift)
    jobs = {name: getattr(rows, name) for name in ("job_id", "submission_time", "requested_time", "run_time")}
    jobs |= {"requested_cores": rows.cores, "user_id": rows.user}
    groups = {"queue": rows.queue, "partition": rows.partition}
    jobs |= {name: list(_names(numbers)) for name, numbers in groups.items() if (numbers >= 0).any()}
    jobs |= {"waiting_time": np.where(rows.wait < 0, np.nan, rows.wait), "place": rows.place}
    return Trace(Workload(jobs, secret=SECRET), header, report)


def ids_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return ids as integers if all of them are integers of 64 bits, otherwise as texts."""
    if all(isinstance(value, int | np.integer) and -(2**63) <= value < 2**63 for value in values):
        return np.array(values, np.int64)
    ids = np.empty(len(values), object)
    ids[:] = [str(value) for value in values]
    return ids


def select(
    source: str, rows: Columns, header: TraceHeader, report: TraceReport, **options: Unpack[TraceOptions]
) -> Trace:
    """Return a trace of the jobs of a list.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    rows : Columns
        All rows of the list.
    header : TraceHeader
        Header of the file.
    report : TraceReport
        Report that counts the rows.
    **options : TraceOptions
        Filters and repairs.

    Returns
    -------
    Trace
        Trace in order of submission.

    Raises
    ------
    WorkloadError
        If there is no usable job.
    InvalidConfiguration
        If an option is out of range.
    """
    rules = Rules(**options)
    selector = Selector(source, rules, report)
    blocks = [selector.feed(rows)] if len(rows) else []
    selector.finish()
    return gathered(blocks, header, report, shift=rules.shift)
